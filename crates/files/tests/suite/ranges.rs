//! Ranges that are trimmed, or shared with other files.

use crate::harness::*;
use files::{LockKind, OpenFile, Range, RangeLock, Volume, VolumeOptions};
use std::sync::Arc;
use vfs::memory::{MemoryOptions, MemoryVfs, Surroundings};
use vfs::{FsError, Timestamp};

struct StoppedClock;

impl Surroundings for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

/// A volume whose files can share blocks, on any test machine.
fn serve_sharing() -> ServedVolume {
    let mut served = serve();
    let vfs = Arc::new(MemoryVfs::new(MemoryOptions::default(), Arc::new(StoppedClock)));
    served.volume = Arc::new(Volume::new(vfs, VolumeOptions::default()));
    served
}

fn read(served: &ServedVolume, at: &str) -> Vec<u8> {
    let mut data = Vec::new();
    now(served.files.read(&served.open(at, READ), 0, 1 << 20, &mut data)).unwrap();
    data
}

#[test]
fn clone_range_needs_both_rights_and_ignores_locks() {
    let served = serve_sharing();
    served.put("from", &[1; 8192]);
    served.put("to", &[2; 8192]);
    let (from, to) = (served.open("from", READ), served.open("to", WRITE));
    let (blind, reader) = (served.open("from", LOOK), served.open("to", READ));
    let clone = |a: &Arc<OpenFile>, b: &Arc<OpenFile>| {
        now(served.files.clone_range(b.caller(), (a, 4096), (b, 0), 4096))
    };
    assert_eq!(clone(&blind, &to), Err(FsError::AccessDenied));
    assert_eq!(clone(&from, &reader), Err(FsError::AccessDenied));
    let all = RangeLock { range: Range::new(0, 8192).unwrap(), kind: LockKind::Exclusive };
    served.files.try_locks(&served.open("to", ALL), &[all], &HOLDER).unwrap();
    assert_eq!(clone(&from, &to), Ok(()));
    assert_eq!(read(&served, "to"), [[1; 4096], [2; 4096]].concat());
}

#[test]
fn trim_frees_whole_blocks_only() {
    let served = serve();
    served.put("file", &[7; 20_000]);
    let open = served.open("file", WRITE);
    let trim = |offset, length| now(served.files.trim_range(open.caller(), &open, offset, length));
    assert_eq!(trim(1, 8190), Ok(false), "no whole block");
    assert_eq!(trim(u64::MAX, u64::MAX), Ok(false));
    assert_eq!(trim(4000, 9000), Ok(true));
    let data = served.get("file").unwrap();
    assert_eq!(data[..4096], [7; 4096]);
    assert_eq!(data[4096..12_288], [0; 8192]);
    assert_eq!(data[12_288..], [7; 20_000 - 12_288]);
    let reader = served.open("file", READ);
    assert_eq!(
        now(served.files.trim_range(reader.caller(), &reader, 0, 4096)),
        Err(FsError::AccessDenied)
    );
}

#[test]
fn compression_is_refused_where_the_file_system_has_none() {
    let served = serve_sharing();
    served.put("file", b"");
    let open = served.open("file", WRITE);
    assert_eq!(now(served.files.set_compressed(&open, true)), Err(FsError::NotSupported));
    assert_eq!(now(served.files.set_compressed(&open, false)), Ok(()));
    let reader = served.open("file", READ);
    assert_eq!(now(served.files.set_compressed(&reader, false)), Err(FsError::AccessDenied));
}
