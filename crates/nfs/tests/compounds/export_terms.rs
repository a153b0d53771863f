//! Terms of an export by client: exports(5).

use crate::harness::{Bench, Client, READ_WRITE, open_args};
use nfs::{ClientTerms, Export, ExportTerms, HostFilter, Squash};
use std::net::IpAddr;
use std::sync::Arc;
use wire::nfs::attributes::{Attributes, attribute};
use wire::nfs::ops::*;
use wire::nfs::{Access, NfsStatus, StateId};

/// One machine.
#[derive(Debug)]
struct Machine([u8; 4]);

impl HostFilter for Machine {
    fn admits(&self, peer: IpAddr) -> bool {
        peer == IpAddr::from(self.0)
    }
}

/// The machines of [`Bench::client_from`].
fn machine(host: u8, terms: ExportTerms) -> ClientTerms {
    ClientTerms { hosts: Arc::new(Machine([198, 51, 100, host])), terms }
}

const FULL: ExportTerms =
    ExportTerms { read_only: false, squash: Squash::None, anonymous: (65_534, 65_534) };
const READS: ExportTerms = ExportTerms { read_only: true, ..FULL };

fn export_to(bench: &Bench, clients: Vec<ClientTerms>) {
    bench.configure(|config| {
        config.exports = vec![Arc::new(Export { clients, ..(*config.exports[0]).clone() })];
    });
}

fn open(client: &mut Client, access: u32, creates: bool) -> NfsStatus {
    let mut operations = client.walk(&[b"share"]);
    operations.push(Operation::Open(open_args(b"file", access, 0, creates)));
    client.status(&operations)
}

#[test]
fn client_that_may_only_read_is_refused_each_change() {
    let bench = Bench::new();
    export_to(&bench, vec![machine(1, FULL), machine(2, READS)]);
    let mut writer = bench.client_from("writer", 1);
    let mut reader = bench.client_from("reader", 2);
    assert_eq!(open(&mut writer, READ_WRITE, true), NfsStatus::OK);
    assert_eq!(open(&mut reader, 1, false), NfsStatus::OK);
    assert_eq!(open(&mut reader, READ_WRITE, false), NfsStatus::ROFS);
    assert_eq!(open(&mut reader, 1, true), NfsStatus::ROFS);
    let mode = Attributes { mode: Some(0o600), ..Attributes::default() };
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
    let told = reader.last(&operations, |r| r.get::<AccessResult>().unwrap().access);
    assert_eq!(told, Access::READ);
}

#[test]
fn terms_of_the_first_match_decide_on_users_and_others_stay_out() {
    let bench = Bench::new();
    let squashed = ExportTerms { squash: Squash::All, anonymous: (4100, 4200), ..FULL };
    export_to(&bench, vec![machine(1, squashed), machine(1, FULL), machine(2, FULL)]);
    let mut root = bench.client_from("root", 2);
    let mode = Attributes { mode: Some(0o777), ..Attributes::default() };
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
    assert_eq!(open(&mut other, 1, false), NfsStatus::ACCESS);
}
