//! Export terms by client: exports(5).

use crate::harness::{READ_WRITE, ServerUnderTest, SessionClient, open_args};
use nfs::{ClientTerms, Export, ExportTerms, HostFilter, HostVerdict, Squash};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use wire::nfs::attributes::{NfsAttributes, attribute};
use wire::nfs::ops::*;
use wire::nfs::{Access, NfsStatus, StateId};

/// A filter of one host.
#[derive(Debug)]
struct SingleHostFilter([u8; 4]);

impl HostFilter for SingleHostFilter {
    fn verdict(&self, peer: IpAddr) -> HostVerdict {
        (peer == IpAddr::from(self.0)).into()
    }
}

/// Terms for hosts of [`ServerUnderTest::client_from`].
fn machine(host: u8, terms: ExportTerms) -> ClientTerms {
    ClientTerms { hosts: Arc::new(SingleHostFilter([198, 51, 100, host])), terms: Some(terms) }
}

const FULL: ExportTerms =
    ExportTerms { read_only: false, squash: Squash::None, anonymous: (65_534, 65_534) };
const READS: ExportTerms = ExportTerms { read_only: true, ..FULL };

fn export_to(bench: &ServerUnderTest, clients: Vec<ClientTerms>) {
    bench.configure(|config| {
        config.exports = vec![Arc::new(Export { clients, ..(*config.exports[0]).clone() })];
    });
}

fn open(client: &mut SessionClient, access: u32, creates: bool) -> NfsStatus {
    let mut operations = client.walk(&[b"share"]);
    operations.push(Operation::Open(open_args(b"file", access, 0, creates)));
    client.status(&operations)
}

#[test]
fn read_only_client_is_refused_each_change() {
    let bench = ServerUnderTest::new();
    export_to(&bench, vec![machine(1, FULL), machine(2, READS)]);
    let mut writer = bench.client_from("writer", 1);
    let mut reader = bench.client_from("reader", 2);
    assert_eq!(open(&mut writer, READ_WRITE, true), NfsStatus::OK);
    assert_eq!(open(&mut reader, 1, false), NfsStatus::OK);
    assert_eq!(open(&mut reader, READ_WRITE, false), NfsStatus::ROFS);
    assert_eq!(open(&mut reader, 1, true), NfsStatus::ROFS);
    let mode = NfsAttributes { mode: Some(0o600), ..NfsAttributes::default() };
    let (mut values, state_id, name) = (Vec::new(), StateId::ANONYMOUS, b"file");
    let attributes = mode.to_fattr(&mut values);
    let set = Operation::SetAttr(SetAttrArgs { state_id, attributes });
    let data = b"data";
    let stable = wire::nfs::StableHow::FileSync;
    let write = Operation::Write(WriteArgs { state_id, offset: 0, stable, data });
    for change in [set, write] {
        let mut operations = reader.walk(&[b"share", b"file"]);
        operations.push(change);
        assert_eq!(reader.status(&operations), NfsStatus::ROFS, "{operations:?}");
    }
    let remove = Operation::Remove(RemoveArgs { name });
    let mut operations = reader.walk(&[b"share"]);
    operations.push(remove);
    assert_eq!(reader.status(&operations), NfsStatus::ROFS);
    let mut operations = reader.walk(&[b"share", b"file"]);
    let access = Access::READ | Access::MODIFY | Access::EXTEND;
    operations.push(Operation::Access(AccessArgs { access }));
    let granted = reader.last(&operations, |r| r.get::<AccessResult>().unwrap().access);
    assert_eq!(granted, Access::READ);
}

#[test]
fn first_matching_terms_apply_and_others_are_refused() {
    let bench = ServerUnderTest::new();
    let squashed = ExportTerms { squash: Squash::All, anonymous: (4100, 4200), ..FULL };
    export_to(&bench, vec![machine(1, squashed), machine(1, FULL), machine(2, FULL)]);
    let mut root = bench.client_from("root", 2);
    let mode = NfsAttributes { mode: Some(0o777), ..NfsAttributes::default() };
    let mut values = Vec::new();
    let attributes = mode.to_fattr(&mut values);
    let mut operations = root.walk(&[b"share"]);
    let set = SetAttrArgs { state_id: StateId::ANONYMOUS, attributes };
    operations.push(Operation::SetAttr(set));
    assert_eq!(root.status(&operations), NfsStatus::OK);
    let mut nobody = bench.client_from("nobody", 1);
    assert_eq!(open(&mut nobody, READ_WRITE, true), NfsStatus::OK);
    let owners = &[attribute::OWNER, attribute::OWNER_GROUP];
    let made = root.attributes(&[b"share", b"file"], owners);
    assert_eq!((made.owner, made.owner_group), (Some(&b"4100"[..]), Some(&b"4200"[..])));
    let mut other = bench.client_from("other", 3);
    assert_eq!(open(&mut other, 1, false), NfsStatus::NOENT);
}

#[test]
fn denied_client_is_not_admitted_by_later_entries() {
    let bench = ServerUnderTest::new();
    let refused = ClientTerms { terms: None, ..machine(1, FULL) };
    export_to(&bench, vec![refused, machine(1, FULL), machine(2, FULL)]);
    let mut refused = bench.client_from("refused", 1);
    assert_eq!(open(&mut refused, 1, false), NfsStatus::NOENT);
    assert_eq!(listed(&mut refused), Ok(vec![]));
    let mut other = bench.client_from("other", 2);
    assert_eq!(listed(&mut other), Ok(vec![b"share".to_vec()]));
}

/// A host whose name lookup is in flight until the test decides it.
#[derive(Debug)]
struct VerdictFilter(Arc<Mutex<HostVerdict>>);

impl HostFilter for VerdictFilter {
    fn verdict(&self, _: IpAddr) -> HostVerdict {
        *self.0.lock().unwrap()
    }
}

/// Entries of READDIR on the pseudo root.
fn listed(client: &mut SessionClient) -> Result<Vec<Vec<u8>>, NfsStatus> {
    let mut operations = client.walk(&[]);
    operations.push(Operation::ReadDir(ReadDirArgs {
        cookie: 0,
        cookie_verifier: Default::default(),
        directory_bytes: 1000,
        bytes_max: 10_000,
        requested: Default::default(),
    }));
    match client.status(&operations) {
        NfsStatus::OK => Ok(client.list(&[])),
        status => Err(status),
    }
}

#[test]
fn client_gets_delay_during_its_name_lookup() {
    let bench = ServerUnderTest::new();
    let verdict = Arc::new(Mutex::new(HostVerdict::Unknown));
    let hosts = Arc::new(VerdictFilter(verdict.clone()));
    export_to(&bench, vec![ClientTerms { hosts, terms: Some(READS) }, machine(1, FULL)]);
    let mut client = bench.client_from("client", 1);
    assert_eq!(open(&mut client, 1, false), NfsStatus::DELAY);
    assert_eq!(
        listed(&mut client),
        Err(NfsStatus::DELAY),
        "a list without the share would be kept"
    );
    let secinfo = SecInfoArgs { name: b"share" };
    let asked = [Operation::PutRootFh, Operation::SecInfo(secinfo)];
    assert_eq!(client.status(&asked), NfsStatus::DELAY);
    *verdict.lock().unwrap() = HostVerdict::Refused;
    assert_eq!(open(&mut client, READ_WRITE, true), NfsStatus::OK, "by the next entry");
    assert_eq!(listed(&mut client), Ok(vec![b"share".to_vec()]));
    *verdict.lock().unwrap() = HostVerdict::Admitted;
    assert_eq!(open(&mut client, READ_WRITE, false), NfsStatus::ROFS, "by its own");
}

/// As on the Linux server: an export that refuses the client does not exist.
#[test]
fn refused_client_does_not_learn_which_shares_exist() {
    let bench = ServerUnderTest::new();
    let verdict = Arc::new(Mutex::new(HostVerdict::Admitted));
    let hosts = Arc::new(VerdictFilter(verdict.clone()));
    export_to(&bench, vec![ClientTerms { hosts, terms: Some(READS) }]);
    let mut client = bench.client_from("client", 1);
    assert_eq!(open(&mut client, 1, false), NfsStatus::NOENT, "the share is there, no file is");
    assert_eq!(listed(&mut client), Ok(vec![b"share".to_vec()]));
    let handle = client.handle(&[b"share"]);
    for (outcome, by_handle) in
        [(HostVerdict::Refused, NfsStatus::STALE), (HostVerdict::Unanswered, NfsStatus::DELAY)]
    {
        *verdict.lock().unwrap() = outcome;
        for name in [&b"share"[..], b"absent"] {
            let mut operations = client.walk(&[]);
            operations.push(Operation::Lookup(LookupArgs { name }));
            assert_eq!(client.status(&operations), NfsStatus::NOENT, "{name:?}");
            let asked = [Operation::PutRootFh, Operation::SecInfo(SecInfoArgs { name })];
            assert_eq!(client.status(&asked), NfsStatus::NOENT, "{name:?}");
        }
        assert_eq!(listed(&mut client), Ok(vec![]));
        // The client has the handle from before. STALE would end its locks and its cached writes.
        let asked = [Operation::PutFh(PutFhArgs { object: handle }), Operation::GetFh];
        assert_eq!(client.status(&asked), by_handle, "{outcome:?}");
    }
}

/// A server that starts before the name service after a power loss: its mounted clients wait.
#[test]
fn mounted_client_of_a_bounded_entry_gets_delay() {
    let bench = ServerUnderTest::new();
    let verdict = Arc::new(Mutex::new(HostVerdict::Refused));
    let hosts = Arc::new(VerdictFilter(verdict.clone()));
    export_to(&bench, vec![ClientTerms { hosts, terms: Some(READS) }, machine(1, FULL)]);
    let mut client = bench.client_from("client", 1);
    let object = client.handle(&[b"share"]);
    *verdict.lock().unwrap() = HostVerdict::Unanswered;
    let asked = [Operation::PutFh(PutFhArgs { object }), Operation::GetFh];
    assert_eq!(client.status(&asked), NfsStatus::DELAY);
    assert_eq!(open(&mut client, 1, false), NfsStatus::NOENT);
    *verdict.lock().unwrap() = HostVerdict::Refused;
    assert_eq!(client.status(&asked), NfsStatus::OK);
}

#[derive(Debug)]
struct CountingFilter(Arc<AtomicUsize>);

impl HostFilter for CountingFilter {
    fn verdict(&self, _: IpAddr) -> HostVerdict {
        self.0.fetch_add(1, Ordering::Relaxed);
        HostVerdict::Unknown
    }
}

/// An invented name must not start a lookup of each configured netgroup.
#[test]
fn unknown_name_starts_no_client_lookup() {
    let bench = ServerUnderTest::new();
    let judged = Arc::new(AtomicUsize::new(0));
    let hosts = Arc::new(CountingFilter(judged.clone()));
    export_to(&bench, vec![ClientTerms { hosts, terms: Some(READS) }]);
    let mut client = bench.client_from("client", 1);
    let mut looked_up = |name| {
        let mut operations = client.walk(&[]);
        operations.push(Operation::Lookup(LookupArgs { name }));
        client.status(&operations)
    };
    assert_eq!(looked_up(b"absent"), NfsStatus::NOENT);
    assert_eq!(judged.load(Ordering::Relaxed), 0);
    assert_eq!(looked_up(b"share"), NfsStatus::DELAY);
    assert!(judged.load(Ordering::Relaxed) > 0);
}

/// A verdict that changes between two evaluations.
#[derive(Debug)]
struct SettlingFilter(AtomicUsize);

impl HostFilter for SettlingFilter {
    fn verdict(&self, _: IpAddr) -> HostVerdict {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => HostVerdict::Unknown,
            _ => HostVerdict::Refused,
        }
    }
}

#[test]
fn client_refused_during_lookup_gets_noent() {
    let bench = ServerUnderTest::new();
    let hosts = Arc::new(SettlingFilter(AtomicUsize::new(0)));
    export_to(&bench, vec![ClientTerms { hosts, terms: Some(READS) }]);
    let mut client = bench.client_from("client", 1);
    let operations = client.walk(&[b"share"]);
    assert_eq!(client.status(&operations), NfsStatus::NOENT);
}

/// A banned client is in a netgroup whose service is down, and all other clients may write.
#[test]
fn unanswered_entry_bounds_later_entries() {
    let squashed = ExportTerms { squash: Squash::All, ..FULL };
    for (unanswered, later, expected) in [
        (None, Some(READS), None),
        (None, None, None),
        (Some(READS), Some(FULL), None),
        (Some(READS), None, None),
        (Some(squashed), Some(FULL), None),
        (Some(FULL), Some(ExportTerms { anonymous: (0, 0), ..FULL }), None),
        (Some(FULL), Some(FULL), Some(FULL)),
        (Some(FULL), Some(READS), Some(READS)),
        (Some(FULL), Some(squashed), Some(squashed)),
    ] {
        let bench = ServerUnderTest::new();
        let verdict = Arc::new(Mutex::new(HostVerdict::Unanswered));
        let entry = |verdict, terms| ClientTerms { hosts: Arc::new(VerdictFilter(verdict)), terms };
        let everybody = Arc::new(Mutex::new(HostVerdict::Admitted));
        let clients = vec![entry(verdict.clone(), unanswered), entry(everybody, later)];
        let mut export = None;
        bench.configure(|config| export = Some((*config.exports[0]).clone()));
        let export = Export { clients, ..export.unwrap() };
        let peer = IpAddr::from([198, 51, 100, 1]);
        assert_eq!(export.terms_of(peer), expected, "{unanswered:?} before {later:?}");
        // Only an unanswered entry without access refuses the client for certain.
        let refused = match unanswered {
            Some(_) => HostVerdict::Unanswered,
            None if later.is_some() => HostVerdict::Unanswered,
            None => HostVerdict::Refused,
        };
        let verdict_of = expected.map_or(refused, |_| HostVerdict::Admitted);
        assert_eq!(export.verdict(peer), verdict_of, "{unanswered:?} before {later:?}");
        *verdict.lock().unwrap() = HostVerdict::Refused;
        assert_eq!(export.terms_of(peer), later, "{unanswered:?} before {later:?}");
    }
}
