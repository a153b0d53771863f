//! Directory leases of SMB clients under changes by NFS.

use crate::harness::*;
use files::{
    Access, CacheBreak, CacheHolder, CacheKey, CacheKeyWish, CacheWish, CachingRights, OpenPlan,
    OpenProgress, Semantics, ShareMode,
};
use futures_util::FutureExt;
use std::sync::{Arc, Mutex};
use vfs::{Identity, Name, RelPath};
use wire::nfs::attributes::Fattr;
use wire::nfs::ops::*;
use wire::nfs::{NfsStatus, StableHow, StateId};

/// Read and handle caching.
const KEPT: CachingRights = CachingRights(3);
const KEY: CacheKey = CacheKey { client: [9; 16], key: [7; 16] };

/// An SMB client.
#[derive(Debug, Default)]
struct WindowsLeaseHolder(Mutex<Vec<(CachingRights, CachingRights)>>);

impl CacheHolder for WindowsLeaseHolder {
    fn client(&self) -> Option<[u8; 16]> {
        Some(KEY.client)
    }

    fn handle_break(&self, notice: &CacheBreak) {
        self.0.lock().unwrap().push((notice.from, notice.to));
    }
}

/// Opens the directory `d` with a lease.
fn list(bench: &ServerUnderTest, windows: &Arc<WindowsLeaseHolder>) -> OpenProgress {
    let key = CacheKeyWish { key: KEY, epoch: 0, parent: None, of_directories: true };
    let caching = CacheWish { wanted: KEPT, key: Some(key), holder: windows.clone() };
    let plan = OpenPlan {
        path: RelPath::root().join(&Name::new(*b"d").unwrap()),
        semantics: Semantics::Windows,
        caching: Some(caching),
        ..OpenPlan::posix(Access::READ_DATA, ShareMode::ALL)
    };
    let caller = Arc::new(files::Caller::of(Identity::root()));
    let volume = bench.volume();
    let files = bench.server.files.for_server();
    let open = files.begin_open(&volume, &caller, plan);
    open.now_or_never().unwrap().unwrap()
}

fn make_directory(client: &mut SessionClient) {
    let mut operations = client.walk(&[b"share"]);
    operations.push(Operation::Create(CreateArgs {
        object_type: CreateType::Directory,
        name: b"d",
        attributes: Fattr::default(),
    }));
    assert_eq!(client.status(&operations), NfsStatus::OK);
}

#[test]
fn nfs_change_breaks_an_smb_directory_lease() {
    let bench = ServerUnderTest::new();
    let mut one = bench.client("one");
    make_directory(&mut one);
    let windows = Arc::new(WindowsLeaseHolder::default());
    let open = Operation::Open(open_args(b"f", 2, 0, true));
    let close = || {
        let state_id = StateId::CURRENT;
        Operation::Close(CloseArgs { sequence_id: 0, state_id })
    };
    let (state_id, stable) = (StateId::CURRENT, StableHow::FileSync);
    let write = Operation::Write(WriteArgs { state_id, offset: 0, stable, data: b"text" });
    let rename = RenameArgs { old_name: b"f", new_name: b"g" };
    let changes: [(&str, Vec<Operation<'_>>); 5] = [
        ("made", vec![open.clone(), close()]),
        ("written", vec![open, write, close()]),
        ("renamed", vec![Operation::SaveFh, Operation::Rename(rename)]),
        (
            "linked",
            vec![
                Operation::Lookup(LookupArgs { name: b"g" }),
                Operation::SaveFh,
                Operation::PutRootFh,
                Operation::Lookup(LookupArgs { name: b"share" }),
                Operation::Lookup(LookupArgs { name: b"d" }),
                Operation::Link(LinkArgs { new_name: b"h" }),
            ],
        ),
        ("removed", vec![Operation::Remove(RemoveArgs { name: b"g" })]),
    ];
    for (what, change) in changes {
        let OpenProgress::Opened(directory) = list(&bench, &windows) else {
            panic!("{what}: waits")
        };
        assert_eq!(directory.caching.has, KEPT, "{what}: nothing is kept");
        drop(directory.granting);
        let mut operations = one.walk(&[b"share", b"d"]);
        operations.extend(change);
        assert_eq!(one.status(&operations), NfsStatus::OK, "{what}");
        let breaks = std::mem::take(&mut *windows.0.lock().unwrap());
        assert_eq!(breaks, [(KEPT, CachingRights::NONE)], "{what}");
        bench.server.files.for_server().acknowledge_key(KEY, CachingRights::NONE).unwrap();
        bench.server.files.for_server().close(directory.open).now_or_never().unwrap().unwrap();
    }
}
