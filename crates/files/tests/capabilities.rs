//! A backend without handles, quotas, watches and feeds is served by the stated fallbacks.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test, which fails by it")]

use files::{Access, Caller, Files, Inline, Volume, VolumeOptions};
use futures_util::FutureExt;
use std::sync::Arc;
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
use vfs::{Actor, Case, CreateHow, FileKind, FsError, Identity, Name, QuotaState, RelPath, Vfs};

fn path(text: &str) -> RelPath {
    text.split('/').map(|part| Name::new(part.as_bytes()).unwrap()).collect()
}

#[test]
fn object_without_handles_is_found_by_its_path() {
    let options =
        MemoryOptions { has_handles: false, has_feeds: false, ..MemoryOptions::default() };
    let vfs = Arc::new(MemoryVfs::new(options, Arc::new(StillClock::default())));
    let (folder, file) = (FileKind::Directory, FileKind::File);
    for (at, kind) in [("d", folder), ("d/f", file)] {
        let how = CreateHow::plain(kind, 0o777);
        vfs.create(Actor::SUPERUSER, &path(at), Case::Sensitive, how).unwrap();
    }
    let volume = Arc::new(Volume::new(vfs, VolumeOptions::default()));
    let files = Arc::new(Files::new(Arc::new(Inline))).for_server();
    let caller = Arc::new(Caller::of(Identity::root()));
    let root = files.root_object(&volume).now_or_never().unwrap().unwrap();
    let found = |directory, name: &[u8]| {
        let name = Name::new(name).unwrap();
        files.lookup(&caller, directory, &name).now_or_never().unwrap()
    };
    let directory = found(&root, b"d").unwrap();
    let object = found(&directory, b"f").unwrap();
    assert_eq!(files.object_attributes(&object).unwrap().kind, file);
    assert!(files.object_access(&caller, &object).unwrap().contains(Access::READ_DATA));
    assert_eq!(found(&directory, b"g").unwrap_err(), FsError::NotFound);
    // Its change attribute is read, since none is cached.
    assert_eq!(files.change_before(&directory), files.change_after(&directory));
    assert_eq!(files.quota_state(&volume), QuotaState::Absent);
    let quotas = files.quotas(&volume, &caller, vec![0]).now_or_never().unwrap();
    assert_eq!(quotas, Err(FsError::NotSupported));
    assert_eq!(files.make_quotas_stable(&volume).now_or_never().unwrap(), Ok(()));
}
