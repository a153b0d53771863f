//! The umask of a single creation.
//!
//! Only the kernel decides atomically whether a directory's default ACL replaces the umask, and it
//! uses the calling thread's umask. So each thread has an umask of its own (`CLONE_FS`), which is
//! zero except during a creation. umask(2), acl(5).

use crate::identity::owns_umask;
use rustix::fs::Mode;
use vfs::CreationMode;

/// Creates a node by calling `create` with the mode to pass to the kernel.
///
/// A thread that cannot have its own umask passes the mode with the umask applied. In a directory
/// with a default ACL the node then gets fewer permissions than that ACL grants.
pub fn create_with<T>(mode: CreationMode, create: impl FnOnce(Mode) -> T) -> T {
    // Applies even if the creation has no umask, because the thread may have inherited one.
    let owns_umask = owns_umask();
    let bits = Mode::from_raw_mode(mode.bits & 0o7777);
    if mode.without_list() == mode.bits {
        return create(bits);
    }
    if !owns_umask {
        return create(Mode::from_raw_mode(mode.without_list() & 0o7777));
    }
    rustix::process::umask(Mode::from_raw_mode(mode.umask & 0o777));
    let _end = UmaskEnd;
    create(bits)
}

/// Resets the thread's umask, also after a panic.
struct UmaskEnd;

impl Drop for UmaskEnd {
    fn drop(&mut self) {
        rustix::process::umask(Mode::empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalVfs;
    use std::path::Path;
    use vfs::{
        Actor, AttributeRequest, Case, CreateHow, FileKind, FsError, Name, RelPath, SpecialKind,
        Vfs,
    };

    const WITH_UMASK: CreationMode = CreationMode { bits: 0o666, umask: 0o027 };

    /// Sets a default ACL that grants user 1001 and the group all permissions.
    fn set_default_list(directory: &Path) -> rustix::io::Result<()> {
        let entry = |tag: u16, bits: u16, id: u32| {
            [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let none = u32::MAX;
        let entries = [(1, 7, none), (2, 7, 1001), (4, 7, none), (0x10, 7, none), (0x20, 5, none)];
        let entries = entries.map(|(tag, bits, id)| entry(tag, bits, id)).concat();
        let value = [&2u32.to_le_bytes()[..], &entries].concat();
        let name = "system.posix_acl_default";
        rustix::fs::setxattr(directory, name, &value, rustix::fs::XattrFlags::empty())
    }

    fn created(vfs: &LocalVfs, at: &str, kind: FileKind) -> u32 {
        let path: RelPath = at.split('/').map(|name| Name::new(name.as_bytes()).unwrap()).collect();
        let opened = match kind {
            FileKind::Fifo => {
                vfs.create_special(Actor::SUPERUSER, &path, SpecialKind::Fifo, WITH_UMASK)
            }
            _ => {
                let (dos, wanted) = (None, AttributeRequest::default());
                let how = CreateHow { kind, mode: WITH_UMASK, dos, wanted, initialiser: None };
                vfs.create(Actor::SUPERUSER, &path, Case::Sensitive, how)
            }
        };
        opened.unwrap().attributes.mode
    }

    #[test]
    fn default_acl_replaces_the_umask() {
        let folder = tempfile::tempdir().unwrap();
        let vfs = LocalVfs::open(folder.path()).unwrap();
        for name in ["listed", "plain"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        if set_default_list(&folder.path().join("listed")).is_err() || !owns_umask() {
            eprintln!("skipped: no access lists here, or no umask of a thread");
            return;
        }
        for kind in [FileKind::File, FileKind::Directory, FileKind::Fifo] {
            let name = format!("{kind:?}");
            assert_eq!(created(&vfs, &format!("listed/{name}"), kind), 0o664, "{name}");
            assert_eq!(created(&vfs, &format!("plain/{name}"), kind), 0o640, "{name}");
        }
        let (exact, path) = (CreationMode::exactly(0o666), RelPath::root());
        assert_eq!(create_with(exact, |mode| mode.as_raw_mode()), 0o666);
        let how = CreateHow {
            kind: FileKind::File,
            mode: exact,
            dos: None,
            wanted: AttributeRequest::default(),
            initialiser: None,
        };
        let at = path.join(&Name::new(*b"exact").unwrap());
        let after = vfs.create(Actor::SUPERUSER, &at, Case::Sensitive, how).unwrap();
        assert_eq!(after.attributes.mode, 0o666, "the umask ends with its creation");
        let again = vfs.create(Actor::SUPERUSER, &at, Case::Sensitive, how).map(|_| ());
        assert_eq!(again, Err(FsError::AlreadyExists));
    }

    #[test]
    fn creation_umask_is_invisible_to_other_threads() {
        let folder = tempfile::tempdir().unwrap();
        let create = |_: Mode| {
            let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
            let at = folder.path().join("other");
            let file = rustix::fs::open(at, flags, Mode::from_raw_mode(0o666)).unwrap();
            rustix::fs::fstat(file).unwrap().st_mode & 0o777
        };
        let (begun, done) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                create_with(WITH_UMASK, |_| {
                    begun.wait();
                    done.wait();
                });
            });
            let other = scope.spawn(|| {
                begun.wait();
                let mode = create_with(CreationMode::exactly(0o666), create);
                done.wait();
                mode
            });
            assert_eq!(other.join().unwrap(), 0o666);
        });
    }
}
