//! The shared suite of all backends, on a local directory.
#![allow(clippy::unwrap_used)]

use vfs::Vfs;
use vfs_local::LocalVfs;

fn fresh(case: &dyn Fn(&dyn Vfs)) {
    let folder = tempfile::tempdir().unwrap();
    case(&LocalVfs::open(folder.path()).unwrap());
}

vfs::backend_suite!(fresh);
