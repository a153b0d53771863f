//! Creation with the inode number of a file in removal.
#![allow(clippy::unwrap_used, reason = "a test, which fails by it")]

use crate::table::{DeletePendingName, OpenedEntry, RegisteredOpen};
use crate::{
    Access, Caller, Files, IfMissing, Inline, OpenPlan, RequestContext, ShareMode, Volume,
    VolumeOptions,
};
use futures_util::FutureExt;
use grants::OpenWish;
use std::pin::pin;
use std::sync::Arc;
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
use vfs::{FileKey, Identity, Name, RelPath};

fn path(name: &str) -> RelPath {
    RelPath::root().join(&Name::new(name.as_bytes()).unwrap())
}

fn plan(name: &str) -> OpenPlan {
    let posix = OpenPlan::posix(Access::READ_DATA, ShareMode::ALL);
    OpenPlan { path: path(name), if_missing: IfMissing::Create, ..posix }
}

#[test]
fn new_file_with_reused_inode_waits_for_end_of_removal() {
    let memory = MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()));
    let volume = Arc::new(Volume::new(Arc::new(memory), VolumeOptions::default()));
    let caller = Arc::new(Caller::of(Identity::root()));
    let files = Arc::new(Files::new(Arc::new(Inline))).for_server();
    let open = |name| files.open(&volume, &caller, plan(name));
    let first = open("first").now_or_never().unwrap().unwrap();
    // The memory backend assigns ascending numbers; file systems reuse those of removed files.
    let before = first.attributes.key;
    let key = FileKey { inode: before.inode + 1, ..before };
    let (gone, is_directory, only_link) = (path("gone"), false, true);
    let entry =
        OpenedEntry { size_bytes: 0, key, is_directory, volume: &volume, path: &gone, only_link };
    let id = files.new_open_id();
    let wish = OpenWish { posix: true, ..OpenWish::new(id, Access::DELETE, ShareMode::ALL) };
    let Ok(RegisteredOpen { state, name, .. }) =
        files.table.open(&RequestContext::SERVER, &entry, wish, None)
    else {
        panic!("no client has it open")
    };
    state.lock(&RequestContext::SERVER).grants.handle_disposition(id, true);
    state.lock(&RequestContext::SERVER).set_delete_pending(DeletePendingName {
        name,
        caller: caller.clone(),
        parent_key: None,
    });
    let root_device = volume.vfs_serial();
    let turn = files.table.rename_turns.take_tree(root_device).now_or_never().unwrap();
    let removal = files.table.close(&RequestContext::SERVER, &state, id, true).unwrap();
    let mut new = pin!(open("new"));
    assert!(new.as_mut().now_or_never().is_none(), "the removal has not ended");
    files.table.removed(&RequestContext::SERVER, &state, removal.link);
    drop(turn);
    let opened = new.now_or_never().unwrap().unwrap();
    assert_eq!(opened.attributes.key, key);
    assert_eq!(files.open_file_count(), 2);
}
