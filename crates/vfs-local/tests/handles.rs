//! Handles of deleted files while other files are created. A test binary of its own, because its
//! many changes would overflow the event queues of other tests.
#![allow(clippy::unwrap_used)]

use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Arc, Mutex};
use vfs::{Actor, AttributeRequest, FsError, Name, OpenHow, PersistentHandles, RelPath, Vfs, Wait};
use vfs_local::LocalVfs;

const ROUNDS: usize = 1000;

#[test]
fn stale_handle_stays_stale_while_its_inode_is_reused() {
    let folder = tempfile::tempdir().unwrap();
    let vfs = LocalVfs::open(folder.path()).unwrap();
    let make_and_remove = |name: &str| {
        let at = folder.path().join(name);
        std::fs::write(&at, "").and_then(|()| std::fs::remove_file(&at)).unwrap();
    };
    let path: RelPath = [Name::new(*b"f").unwrap()].into_iter().collect();
    let how = OpenHow::looking(Wait::Allowed);
    std::thread::scope(|scope| {
        // The worker threads end with this scope.
        let (_others_go_on, is_over) = mpsc::channel::<()>();
        let is_over = Arc::new(Mutex::new(is_over));
        for name in ["a", "b"] {
            let is_over = is_over.clone();
            scope.spawn(move || {
                while is_over.lock().unwrap().try_recv() == Err(TryRecvError::Empty) {
                    make_and_remove(name);
                }
            });
        }
        for _ in 0..ROUNDS {
            std::fs::write(folder.path().join("f"), "").unwrap();
            let handle = vfs
                .handle(Actor::SUPERUSER, &*vfs.open(Actor::SUPERUSER, &path, how).unwrap().node)
                .unwrap();
            std::fs::remove_file(folder.path().join("f")).unwrap();
            match vfs.find(Actor::SUPERUSER, &handle, AttributeRequest::default()) {
                Err(error) => assert_eq!(error, FsError::Stale),
                // Another process still has it open, for instance a listener of the complete file
                // system.
                Ok(found) => assert!(found.path.is_nameless()),
            }
        }
    });
}
