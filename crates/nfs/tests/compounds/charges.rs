//! Charges of operations on a share with a limit of operations per second. The clock stands still,
//! so a request waits as soon as the bucket is empty.

use crate::harness::*;
use ::limits::{Limits, Provision, Rates, ShareLimits};
use files::VolumeOptions;
use nfs::{Export, limits::ATTRIBUTE_OPS_PER_CHARGE};
use std::sync::Arc;
use std::time::Instant;
use wire::nfs::attributes::attribute;
use wire::nfs::ops::*;
use wire::nfs::{Access, Bitmap4, FileHandle, StableHow, StateId};

const OPERATIONS_PER_SECOND: u64 = 200;
const TRIES_MAX: usize = 200;
const NOBODY: u32 = 65_534;

/// A server whose share permits few operations per second, and a client. Returns the handles of the
/// share and of a file that only its owner may write.
fn limited() -> (ServerUnderTest, SessionClient, [FileHandle; 2]) {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    client.make_file(b"f");
    let handles = [client.handle(&[b"share"]), client.handle(&[b"share", b"f"])];
    let share = Rates { iops: Some(OPERATIONS_PER_SECOND), ..Rates::default() };
    let own = Limits { share, ..Limits::default() };
    let provision = Provision { own, ..Provision::default() };
    let limits = Some(Arc::new(ShareLimits::new(provision, Instant::now())));
    bench.configure(|config| {
        let vfs = config.exports[0].volume.vfs.clone();
        let options = VolumeOptions { limits, ..VolumeOptions::default() };
        let volume = Arc::new(files::Volume::new(vfs, options));
        let volume = nfs::ExportedVolume::new(volume).unwrap();
        let export = Export { volume, ..(*config.exports[0]).clone() };
        config.exports = vec![Arc::new(export)];
    });
    (bench, client, handles)
}

/// Number of requests of these operations that are answered before one waits.
fn answered(user: u32, operations: impl Fn([FileHandle; 2]) -> Vec<Operation<'static>>) -> usize {
    let (_bench, mut client, handles) = limited();
    client.user = user;
    let operations = operations(handles);
    for count in 0..TRIES_MAX {
        let mut job = client.begin(&operations);
        if client.finish(&mut job).is_none() {
            return count;
        }
    }
    panic!("{TRIES_MAX} were answered");
}

fn at(handle: FileHandle) -> Operation<'static> {
    Operation::PutFh(PutFhArgs { object: handle })
}

fn look_up() -> Operation<'static> {
    Operation::Lookup(LookupArgs { name: b"f" })
}

fn look() -> Operation<'static> {
    Operation::GetAttr(GetAttrArgs { requested: Bitmap4::of(&[attribute::ACL]) })
}

/// Number of operations, each charged as one, that are answered.
fn affordable() -> usize {
    let count = answered(0, |[share, _]| vec![at(share), look_up()]);
    assert!(count > 3, "{count}");
    count
}

#[test]
fn operation_that_opens_a_file_costs_one() {
    let state_id = StateId::ANONYMOUS;
    let (offset, length) = (0, 1);
    let advise = IoAdviseArgs { state_id, offset, count: 1, hints: Bitmap4::EMPTY };
    let seek = SeekArgs { state_id, offset, what: DataContent::Hole };
    let all = [
        Operation::IoAdvise(advise),
        Operation::Seek(seek),
        Operation::Allocate(AllocateArgs { state_id, offset, length }),
        Operation::Deallocate(DeallocateArgs { state_id, offset, length }),
        Operation::Commit(CommitArgs { offset, count: 1 }),
        Operation::Read(ReadArgs { state_id, offset, count: 1 }),
        Operation::ReadPlus(ReadPlusArgs { state_id, offset, count: 1 }),
        Operation::Write(WriteArgs { state_id, offset, stable: StableHow::Unstable, data: b"x" }),
    ];
    let affordable = affordable();
    for operation in all {
        let name = operation.number();
        let count = answered(0, |[_, file]| vec![at(file), operation.clone()]);
        assert_eq!(count, affordable, "{name:?}");
    }
}

#[test]
fn refused_open_costs_one() {
    let stable = StableHow::Unstable;
    let write = WriteArgs { state_id: StateId::ANONYMOUS, offset: 0, stable, data: b"x" };
    let refused = |[_, file]: [FileHandle; 2]| vec![at(file), Operation::Write(write)];
    assert_eq!(answered(NOBODY, refused), affordable());
}

#[test]
fn charge_covers_few_attribute_operations() {
    let access = Operation::Access(AccessArgs { access: Access(0x3F) });
    let with_looks = |looks: &[Operation<'static>]| {
        let looks = looks.to_vec();
        answered(0, move |[share, _]| [vec![at(share), look_up()], looks.clone()].concat())
    };
    let affordable = affordable();
    assert_eq!(with_looks(&[access, look()]), affordable);
    let too_many = vec![look(); usize::from(ATTRIBUTE_OPS_PER_CHARGE) + 1];
    assert_eq!(with_looks(&too_many), affordable / 2);
}

#[test]
fn attribute_operation_on_another_file_costs_one() {
    let count =
        answered(0, |[share, file]| vec![at(share), look_up(), at(file), look(), at(file), look()]);
    assert_eq!(count, affordable() / 3);
}
