//! COMPOUNDs against a server in memory.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod access_lists;
mod both;
mod bounded;
mod charges;
mod copies;
mod delegations;
mod directory_leases;
mod export_terms;
mod foreign;
mod harness;
mod limits;
mod locks;
mod opens;
mod paths;
mod reserved_ports;
mod sessions;
mod tls;

use harness::{ALL, READ_WRITE, ServerUnderTest, SessionClient, open_args, status_of};
use wire::nfs::attributes::{Fattr, NfsAttributes, SetTime, attribute};
use wire::nfs::ops::*;
use wire::nfs::{Bitmap4, NfsStatus, NfsTime, OperationNumber, StableHow, StateId, Verifier};

#[test]
fn current_state_id_serves_create_write_and_read() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    let write = WriteArgs {
        state_id: StateId::CURRENT,
        offset: 0,
        stable: StableHow::Unstable,
        data: b"hello",
    };
    let read = ReadArgs { state_id: StateId::CURRENT, offset: 1, count: 100 };
    let results = client.compound(&[
        Operation::PutRootFh,
        Operation::Lookup(LookupArgs { name: b"share" }),
        Operation::Open(open_args(b"file", READ_WRITE, 0, true)),
        Operation::Write(write),
        Operation::Read(read),
        Operation::Close(CloseArgs { sequence_id: 0, state_id: StateId::CURRENT }),
    ]);
    assert_eq!(results.last(), Some(&Ok(OperationNumber::CLOSE)), "{results:?}");
    assert_eq!(client.read_whole(b"file"), b"hello");
    assert_eq!(bench.server.clients()[0].state_count(), 0, "closed");
}

#[test]
fn root_lists_shares_as_other_file_systems() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    let names = client.list(&[]);
    assert_eq!(names, [b"share".to_vec()]);
    let root = client.attributes(&[], &[attribute::FSID, attribute::FILEID]);
    let share = client.attributes(&[b"share"], &[attribute::FSID, attribute::MOUNTED_ON_FILEID]);
    assert_ne!(root.fsid, share.fsid);
    assert_ne!(root.fileid, share.mounted_on_fileid);
    let mut up = client.walk(&[b"share"]);
    up.push(Operation::LookupParent);
    up.push(Operation::LookupParent);
    assert_eq!(client.status(&up), NfsStatus::NOENT, "nothing is above the root");
}

#[test]
fn pseudo_root_refuses_every_change() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    let remove = Operation::Remove(RemoveArgs { name: b"share" });
    assert_eq!(client.status(&[Operation::PutRootFh, remove]), NfsStatus::ROFS);
    let open = Operation::Open(open_args(b"x", READ_WRITE, 0, true));
    assert_eq!(client.status(&[Operation::PutRootFh, open]), NfsStatus::ROFS);
}

#[test]
fn handle_survives_rename_and_is_stale_after_remove() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"a");
    let handle = client.handle(&[b"share", b"a"]);
    let mut rename = client.walk(&[b"share"]);
    rename.push(Operation::SaveFh);
    rename.push(Operation::Rename(RenameArgs { old_name: b"a", new_name: b"b" }));
    assert_eq!(client.status(&rename), NfsStatus::OK);
    let requested = Bitmap4::of(&[attribute::SIZE]);
    let look = [
        Operation::PutFh(PutFhArgs { object: handle }),
        Operation::GetAttr(GetAttrArgs { requested }),
    ];
    assert_eq!(client.status(&look), NfsStatus::OK);
    let mut remove = client.walk(&[b"share"]);
    remove.push(Operation::Remove(RemoveArgs { name: b"b" }));
    assert_eq!(client.status(&remove), NfsStatus::OK);
    assert_eq!(client.status(&look), NfsStatus::STALE);
}

#[test]
fn root_of_a_client_is_squashed() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"mine");
    let owner = |client: &mut SessionClient| {
        let shown = client.attributes(&[b"share", b"mine"], &[attribute::OWNER]);
        shown.owner.map(<[u8]>::to_vec)
    };
    assert_eq!(owner(&mut client), Some(b"65534".to_vec()));
}

#[test]
fn forged_handles_are_refused() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    for bytes in [&b""[..], b"x", &[0; 7], &[1; 40], &[0xFF; 128]] {
        let object = wire::nfs::FileHandle::new(bytes).expect("short enough");
        let put = Operation::PutFh(PutFhArgs { object });
        let requested = Bitmap4::of(&[attribute::SIZE]);
        let status = client.status(&[put, Operation::GetAttr(GetAttrArgs { requested })]);
        assert!([NfsStatus::BADHANDLE, NfsStatus::STALE].contains(&status), "{bytes:?}: {status}");
    }
}

#[test]
fn share_reservation_lasts_until_its_client_is_gone() {
    let bench = ServerUnderTest::new();
    let (mut one, mut two) = (bench.client("one"), bench.client("two"));
    one.make_file(b"f");
    let open = |deny| Operation::Open(open_args(b"f", READ_WRITE, deny, false));
    let mut denying = one.walk(&[b"share"]);
    denying.push(open(ALL));
    assert_eq!(one.status(&denying), NfsStatus::OK);
    let mut asking = two.walk(&[b"share"]);
    asking.push(open(0));
    assert_eq!(two.status(&asking), NfsStatus::SHARE_DENIED);
    bench.pass(bench.lease);
    assert_eq!(two.status(&asking), NfsStatus::SHARE_DENIED, "its lease ends only now");
    bench.pass(bench.lease);
    assert_eq!(two.status(&asking), NfsStatus::OK);
    assert_eq!(one.status(&denying), NfsStatus::BADSESSION);
}

#[test]
fn upgrading_open_keeps_one_state() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"f");
    let first = client.open(b"f", 1, 0);
    let second = client.open(b"f", 2, 0);
    assert_eq!((first.other, first.seqid + 1), (second.other, second.seqid));
    let read = Operation::Read(ReadArgs { state_id: second, offset: 0, count: 1 });
    let mut reading = client.walk(&[b"share", b"f"]);
    reading.push(read);
    assert_eq!(client.status(&reading), NfsStatus::OK, "what it was opened for first");
    reading.pop();
    reading.push(Operation::OpenDowngrade(OpenDowngradeArgs {
        state_id: second,
        sequence_id: 0,
        share_access: ShareAccess::WRITE,
        share_deny: ShareDeny(0),
    }));
    assert_eq!(client.status(&reading), NfsStatus::OK);
    reading.pop();
    let state_id = StateId { seqid: 0, ..second };
    reading.push(Operation::Read(ReadArgs { state_id, offset: 0, count: 1 }));
    assert_eq!(client.status(&reading), NfsStatus::OPENMODE);
}

#[test]
fn set_attributes_read_back() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"f");
    let mut values = Vec::new();
    let wished = NfsAttributes { mode: Some(0o640), size: Some(5), ..NfsAttributes::default() };
    let attributes = wished.to_fattr(&mut values);
    let mut set = client.walk(&[b"share", b"f"]);
    set.push(Operation::SetAttr(SetAttrArgs { state_id: StateId::ANONYMOUS, attributes }));
    assert_eq!(client.status(&set), NfsStatus::OK);
    set.pop();
    set.push(Operation::Verify(VerifyArgs { attributes }));
    assert_eq!(client.status(&set), NfsStatus::OK);
    set.pop();
    set.push(Operation::NVerify(VerifyArgs { attributes }));
    assert_eq!(client.status(&set), NfsStatus::SAME);
    assert_eq!(client.read_whole(b"f"), [0; 5]);
}

#[test]
fn non_owner_with_write_access_truncates_and_touches_only() {
    let bench = ServerUnderTest::new();
    let (mut owner, mut other) = (bench.client("one"), bench.client("two"));
    (owner.user, other.user) = (4001, 4002);
    owner.make_file(b"f");
    let set = |client: &mut SessionClient, wished: NfsAttributes<'_>| {
        let mut values = Vec::new();
        let attributes = wished.to_fattr(&mut values);
        let mut set = client.walk(&[b"share", b"f"]);
        set.push(Operation::SetAttr(SetAttrArgs { state_id: StateId::ANONYMOUS, attributes }));
        client.status(&set)
    };
    let now = NfsAttributes { time_modify_set: Some(SetTime::Server), ..NfsAttributes::default() };
    let cut = || NfsAttributes { size: Some(5), ..now.clone() };
    let time = SetTime::Client(NfsTime { seconds: 7, nanoseconds: 0 });
    let theirs = || NfsAttributes { time_access_set: Some(time), ..NfsAttributes::default() };
    let mode = |mode| NfsAttributes { mode: Some(mode), ..NfsAttributes::default() };
    assert_eq!(set(&mut owner, mode(0o666)), NfsStatus::OK);
    assert_eq!(set(&mut other, cut()), NfsStatus::OK, "as Linux sends ftruncate");
    assert_eq!(set(&mut other, now.clone()), NfsStatus::OK);
    assert_eq!(set(&mut other, theirs()), NfsStatus::PERM);
    assert_eq!(set(&mut owner, mode(0o644)), NfsStatus::OK);
    assert_eq!(set(&mut other, now.clone()), NfsStatus::ACCESS);
    assert_eq!(set(&mut other, cut()), NfsStatus::ACCESS);
    assert_eq!(set(&mut other, theirs()), NfsStatus::PERM);
}

#[test]
fn execute_only_program_is_opened_and_read() {
    let bench = ServerUnderTest::new();
    let (mut owner, mut other) = (bench.client("one"), bench.client("two"));
    (owner.user, other.user) = (4001, 4002);
    owner.make_file(b"f");
    let mut values = Vec::new();
    let wished = NfsAttributes { mode: Some(0o711), ..NfsAttributes::default() };
    let (state_id, attributes) = (StateId::ANONYMOUS, wished.to_fattr(&mut values));
    let mut set = owner.walk(&[b"share", b"f"]);
    set.push(Operation::SetAttr(SetAttrArgs { state_id, attributes }));
    assert_eq!(owner.status(&set), NfsStatus::OK);
    let open = |client: &SessionClient, access| {
        let mut operations = client.walk(&[b"share"]);
        operations.push(Operation::Open(open_args(b"f", access, 0, false)));
        let read = ReadArgs { state_id: StateId::CURRENT, offset: 0, count: 9 };
        operations.push(Operation::Read(read));
        operations
    };
    let (reads, writes) = (open(&other, 1), open(&other, READ_WRITE));
    assert_eq!(other.status(&reads), NfsStatus::OK);
    assert_eq!(other.status(&writes), NfsStatus::ACCESS);
}

#[test]
fn unreadable_entry_has_rdattr_error_or_fails_readdir() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.user = 4001;
    let mut values = Vec::new();
    // The directory permits listing, but no search.
    let mode = NfsAttributes { mode: Some(0o600), ..NfsAttributes::default() };
    for (at, name) in [(&[][..], &b"d"[..]), (&[&b"d"[..]], b"e")] {
        let mut make = client.walk(&[&[&b"share"[..]], at].concat());
        let (object_type, attributes) = (CreateType::Directory, Fattr::default());
        make.push(Operation::Create(CreateArgs { object_type, name, attributes }));
        assert_eq!(client.status(&make), NfsStatus::OK);
    }
    let mut set = client.walk(&[b"share", b"d"]);
    let (state_id, attributes) = (StateId::ANONYMOUS, mode.to_fattr(&mut values));
    set.push(Operation::SetAttr(SetAttrArgs { state_id, attributes }));
    assert_eq!(client.status(&set), NfsStatus::OK);
    let list = |client: &SessionClient, wanted: &[u32]| {
        let mut operations = client.walk(&[b"share", b"d"]);
        operations.push(Operation::ReadDir(ReadDirArgs {
            cookie: 0,
            cookie_verifier: Verifier::default(),
            directory_bytes: 1000,
            bytes_max: 10_000,
            requested: Bitmap4::of(wanted),
        }));
        operations
    };
    for also in [attribute::SIZE, attribute::ACL] {
        let requested = [also, attribute::RDATTR_ERROR, attribute::MOUNTED_ON_FILEID];
        let operations = list(&client, &requested);
        client.last(&operations, |r| {
            let listed: ReadDirResult<'_> = r.get().unwrap();
            let [entry] = &listed.entries[..] else { panic!("{listed:?}") };
            let shown = entry.attributes.attributes().unwrap();
            assert_eq!((entry.name, shown.rdattr_error), (&b"e"[..], Some(NfsStatus::ACCESS)));
            assert!(shown.mounted_on_fileid.is_some_and(|number| number > 0));
            assert!(listed.is_end);
        });
        let refused = list(&client, &[also]);
        assert_eq!(client.status(&refused), NfsStatus::ACCESS);
    }
    assert_eq!(client.list(&[b"share", b"d"]), [b"e"], "nobody asks what it is");
}

#[test]
fn failed_flush_changes_the_write_verifier() {
    let bench = ServerUnderTest::new();
    let (mut one, mut two) = (bench.client("one"), bench.client("two"));
    one.make_file(b"f");
    let written = |client: &mut SessionClient, stable| {
        let state_id = client.open(b"f", READ_WRITE, 0);
        let write = WriteArgs { state_id, offset: 0, stable, data: b"text" };
        let mut operations = client.walk(&[b"share", b"f"]);
        operations.push(Operation::Write(write));
        client.results(&operations)
    };
    let commit = |client: &mut SessionClient| {
        let mut operations = client.walk(&[b"share", b"f"]);
        operations.push(Operation::Commit(CommitArgs { offset: 0, count: 0 }));
        client.results(&operations)
    };
    let verifier = |results: &[u8]| -> [u8; 8] {
        assert_eq!(status_of(results), NfsStatus::OK);
        *results.last_chunk().unwrap()
    };
    let before = verifier(&written(&mut one, StableHow::Unstable));
    assert_eq!(verifier(&commit(&mut two)), before);
    bench.disk.fails_to_flush.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(status_of(&written(&mut two, StableHow::FileSync)), NfsStatus::IO);
    bench.disk.fails_to_flush.store(false, std::sync::atomic::Ordering::Relaxed);
    let after = verifier(&commit(&mut one));
    assert_ne!(after, before, "its write may be lost, though no reply reports that");
    assert_eq!(verifier(&written(&mut one, StableHow::Unstable)), after);
    assert_eq!(verifier(&commit(&mut one)), after);
}

#[test]
fn new_directory_is_flushed_with_its_parent() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    let mut operations = client.walk(&[b"share"]);
    let (object_type, attributes) = (CreateType::Directory, Fattr::default());
    operations.push(Operation::Create(CreateArgs { object_type, name: b"dir", attributes }));
    let flushes = || bench.disk.flushes.load(std::sync::atomic::Ordering::Relaxed);
    let before = flushes();
    assert_eq!(client.status(&operations), NfsStatus::OK);
    assert_eq!(flushes(), before + 2);
}

#[test]
fn state_id_of_another_user_serves_by_own_permissions() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.user = 4001;
    client.make_file(b"f");
    let id = client.open(b"f", READ_WRITE, 0);
    let state_id = StateId { seqid: 0, ..id };
    let set_mode = |client: &mut SessionClient, mode| {
        let mut values = Vec::new();
        let wished = NfsAttributes { mode: Some(mode), ..NfsAttributes::default() };
        let (state_id, attributes) = (StateId::ANONYMOUS, wished.to_fattr(&mut values));
        let mut set = client.walk(&[b"share", b"f"]);
        set.push(Operation::SetAttr(SetAttrArgs { state_id, attributes }));
        assert_eq!(client.status(&set), NfsStatus::OK);
    };
    let does = |client: &mut SessionClient, user: u32| {
        let of = |client: &SessionClient, operation| {
            let mut operations = client.walk(&[b"share", b"f"]);
            operations.push(operation);
            operations
        };
        let owner = std::mem::replace(&mut client.user, user);
        let reads = of(client, Operation::Read(ReadArgs { state_id, offset: 0, count: 1 }));
        let stable = StableHow::Unstable;
        let write = WriteArgs { state_id, offset: 0, stable, data: b"w" };
        let writes = of(client, Operation::Write(write));
        let mut values = Vec::new();
        let cut = NfsAttributes { size: Some(1), ..NfsAttributes::default() };
        let attributes = cut.to_fattr(&mut values);
        let cuts = of(client, Operation::SetAttr(SetAttrArgs { state_id, attributes }));
        let statuses = [client.status(&reads), client.status(&writes), client.status(&cuts)];
        client.user = owner;
        statuses
    };
    let (ok, denied) = (NfsStatus::OK, NfsStatus::ACCESS);
    set_mode(&mut client, 0o644);
    assert_eq!(does(&mut client, 4002), [ok, denied, denied]);
    set_mode(&mut client, 0o602);
    assert_eq!(does(&mut client, 4002), [denied, ok, ok]);
    set_mode(&mut client, 0o000);
    assert_eq!(does(&mut client, 4002), [denied; 3]);
    assert_eq!(does(&mut client, 4001), [ok; 3], "who opened it");
}

/// RFC 8276 restricts names in no way, and Linux forbids only NUL.
#[test]
fn xattr_name_with_a_slash_is_set_read_and_listed() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"file");
    let (name, option): (&[u8], _) = (b"a/b", SetXattrOption::Create);
    let mut operations = client.walk(&[b"share", b"file"]);
    operations.push(Operation::SetXattr(SetXattrArgs { option, name, value: b"value" }));
    operations.push(Operation::GetXattr(GetXattrArgs { name }));
    let value = client.last(&operations, |r| r.get::<&[u8]>().unwrap().to_vec());
    assert_eq!(value, b"value");
    let mut operations = client.walk(&[b"share", b"file"]);
    operations.push(Operation::RemoveXattr(RemoveXattrArgs { name }));
    operations.push(Operation::GetXattr(GetXattrArgs { name }));
    assert_eq!(client.status(&operations), NfsStatus::NOXATTR);
}
