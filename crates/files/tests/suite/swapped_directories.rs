//! Operations granted by a stored ACL act on the authorized directory and file, even if its path
//! leads elsewhere between check and use.

use crate::harness::*;
use acl::{Ace, Descriptor, PosixAcl, Sid, control};
use files::{
    Access, IfExists, IfMissing, NewObject, ObjectOpen, OpenAt, OpenPlan, OpenResult, ShareMode,
};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use vfs::{Actor, OwnerChange, Result, SecurityChange, SpecialKind};

/// Alice owns `x` and may change names in it by its ACL alone, in `y` by POSIX too. `roots` and its
/// contents belong to root.
fn serve_granted() -> Option<ServedVolume> {
    let served = serve();
    if !served.is_root {
        eprintln!("skipped: needs root to store descriptors");
        return None;
    }
    let uid = served.alice.identity.uid;
    for at in ["x", "y", "roots"] {
        let path = served.dir.path().join(at);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    put_beneath(&served, "x/conf", Some(uid), 0o600);
    put_beneath(&served, "y/mine", Some(uid), 0o600);
    put_beneath(&served, "roots/conf", None, 0o600);
    for (at, mode) in [("x", 0o500), ("y", 0o700)] {
        chown(served.dir.path().join(at), Some(uid), Some(uid)).unwrap();
        grant_all(&served, at, mode);
    }
    let denied = served.refusal(new_file("roots/new"));
    assert_eq!(denied, vfs::FsError::AccessDenied);
    Some(served)
}

/// A file that contains its own path.
fn put_beneath(served: &ServedVolume, at: &str, owner: Option<u32>, mode: u32) {
    let path = served.dir.path().join(at);
    std::fs::write(&path, at).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    chown(&path, owner, owner).unwrap();
}

/// Stores an ACL that grants Alice everything, with permissions of this mode.
fn grant_all(served: &ServedVolume, at: &str, mode: u32) {
    let entries = vec![Ace::allow(Sid::unix_user(served.alice.identity.uid), Access::FILE_ALL)];
    let (control, dacl) = (control::DACL_PRESENT, Some(entries));
    let descriptor = Descriptor { control, dacl, ..Descriptor::default() }.encode();
    let change = SecurityChange {
        descriptor: Some(&descriptor),
        owner: OwnerChange::default(),
        permissions: Some(&PosixAcl::of_mode(mode)),
    };
    served.look(at, false).unwrap().node.set_security(Actor::SUPERUSER, &change).unwrap();
}

/// Way in which the path of directory `x` comes to lead to `roots`.
#[derive(Clone, Copy, Debug)]
enum Swap {
    /// A symbolic link replaces it.
    Link,
    /// `roots` itself replaces it.
    Directory,
}

const SWAPS: [Swap; 2] = [Swap::Link, Swap::Directory];

impl Swap {
    /// Swaps; `x` is renamed to `away`.
    fn run(self, dir: &Path) {
        std::fs::rename(dir.join("x"), dir.join("away")).unwrap();
        match self {
            Self::Link => symlink("roots", dir.join("x")).unwrap(),
            Self::Directory => std::fs::rename(dir.join("roots"), dir.join("x")).unwrap(),
        }
    }

    /// Path of `roots` after the swap.
    fn roots(self, dir: &Path) -> PathBuf {
        dir.join(match self {
            Self::Link => "roots",
            Self::Directory => "x",
        })
    }

    /// Swaps before the `nth` try of a backend call: the caller's own rights were refused, and the
    /// ACL was checked.
    fn before(self, served: &ServedVolume, when: HookPoint, nth: u32) {
        let (dir, mut count) = (served.dir.path().to_owned(), 0);
        served.hook(move |_, at, _| {
            count += u32::from(at == when);
            if at == when && count == nth {
                self.run(&dir);
            }
            Ok(())
        });
    }

    /// Asserts that the swap took place and `roots` is unchanged.
    fn assert_roots_untouched(self, served: &ServedVolume) {
        served.unhook();
        let dir = served.dir.path();
        assert!(dir.join("away").is_dir(), "{self:?}: it was not swapped");
        let roots = self.roots(dir);
        assert_eq!(names(&roots), ["conf"], "{self:?}");
        assert_eq!(std::fs::read(roots.join("conf")).unwrap(), b"roots/conf", "{self:?}");
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn names_away(served: &ServedVolume) -> Vec<String> {
    names(&served.dir.path().join("away"))
}

#[test]
fn granted_create_by_path_stays_in_judged_directory() {
    for (swap, nth) in SWAPS.into_iter().zip([1, 2]).chain(SWAPS.into_iter().zip([2, 1])) {
        let Some(served) = serve_granted() else { return };
        swap.before(&served, HookPoint::BeforeCreate, nth);
        let made = served.try_open(new_file("x/new")).unwrap();
        swap.assert_roots_untouched(&served);
        assert_eq!(names_away(&served), ["conf", "new"]);
        served.close(made.open);
    }
}

#[test]
fn granted_mkdir_by_path_stays_in_judged_directory() {
    for swap in SWAPS {
        let Some(served) = serve_granted() else { return };
        swap.before(&served, HookPoint::BeforeCreate, 2);
        let made = served.try_open(new_directory("x/new")).unwrap();
        swap.assert_roots_untouched(&served);
        assert_eq!(names_away(&served), ["conf", "new"]);
        served.close(made.open);
    }
}

#[test]
fn granted_create_collides_with_other_case() {
    let Some(served) = serve_granted() else { return };
    assert_eq!(served.refusal(new_file("x/CONF")), vfs::FsError::AlreadyExists);
    assert!(served.try_open(new_file("x/other")).is_ok());
}

#[test]
fn granted_rename_from_swapped_directory_steals_nothing() {
    for swap in SWAPS {
        let Some(served) = serve_granted() else { return };
        let open = served.open("x/conf", DELETE);
        swap.before(&served, HookPoint::BeforeRename, 2);
        now(served.files.rename(&open, &path("y/got"), false)).unwrap();
        swap.assert_roots_untouched(&served);
        assert_eq!(std::fs::read(served.dir.path().join("y/got")).unwrap(), b"x/conf");
        served.close(open);
    }
}

#[test]
fn granted_rename_over_swapped_directory_replaces_nothing() {
    for swap in SWAPS {
        let Some(served) = serve_granted() else { return };
        let open = served.open("y/mine", DELETE);
        swap.before(&served, HookPoint::BeforeRename, 2);
        now(served.files.rename(&open, &path("x/conf"), true)).unwrap();
        swap.assert_roots_untouched(&served);
        assert_eq!(std::fs::read(served.dir.path().join("away/conf")).unwrap(), b"y/mine");
        served.close(open);
    }
}

#[test]
fn granted_rename_into_swapped_directory_adds_nothing() {
    for swap in SWAPS {
        let Some(served) = serve_granted() else { return };
        let open = served.open("y/mine", DELETE);
        swap.before(&served, HookPoint::BeforeRename, 2);
        now(served.files.rename(&open, &path("x/new"), false)).unwrap();
        swap.assert_roots_untouched(&served);
        assert_eq!(names_away(&served), ["conf", "new"]);
        served.close(open);
    }
}

/// A file in `x` with another link in `roots`: its key does not distinguish the two.
#[test]
fn granted_removal_takes_name_from_judged_directory() {
    for (swap, by_object) in SWAPS.into_iter().zip([true, false]).chain(SWAPS.map(|s| (s, true))) {
        let Some(served) = serve_granted() else { return };
        let dir = served.dir.path();
        std::fs::hard_link(dir.join("x/conf"), dir.join("roots/too")).unwrap();
        swap.before(&served, HookPoint::BeforeRemove, 2);
        if by_object {
            let directory = served.object("x").unwrap();
            let _ = now(served.files.remove_object(&served.alice, &directory, &name("conf")));
        } else {
            let open = served.open("x/conf", DELETE);
            served.files.set_delete(&open, true, false).unwrap();
            served.close(open);
        }
        served.unhook();
        assert_eq!(names(&swap.roots(dir)), ["conf", "too"], "{swap:?}");
        assert_eq!(names_away(&served), [""; 0], "{swap:?}");
    }
}

fn create_in(served: &ServedVolume, directory: &files::Object, at: &str) -> Result<OpenResult> {
    let plan = OpenPlan {
        if_exists: IfExists::Fail,
        if_missing: IfMissing::Create,
        ..OpenPlan::posix(READ | WRITE, ShareMode::ALL)
    };
    let at = OpenAt::Name(directory.clone(), name(at));
    now(served.files.open_object(&served.alice, &at, plan, ObjectOpen::default()))
}

#[test]
fn granted_create_by_handle_stays_in_its_directory() {
    for swap in SWAPS {
        let Some(served) = serve_granted() else { return };
        let directory = served.object("x").unwrap();
        swap.before(&served, HookPoint::BeforeCreate, 2);
        let made = create_in(&served, &directory, "new").unwrap();
        swap.assert_roots_untouched(&served);
        assert_eq!(names_away(&served), ["conf", "new"]);
        served.close(made.open);
    }
}

#[test]
fn granted_make_by_handle_stays_in_its_directory() {
    let objects = [
        (HookPoint::BeforeCreate, NewObject::Directory { mode: None }),
        (HookPoint::BeforeMake, NewObject::Symlink { target: b"conf".to_vec() }),
        (HookPoint::BeforeMake, NewObject::Special { kind: SpecialKind::Fifo, mode: None }),
    ];
    for swap in SWAPS {
        for (when, new) in &objects {
            let Some(served) = serve_granted() else { return };
            let directory = served.object("x").unwrap();
            swap.before(&served, *when, 2);
            let (files, called) = (&served.files, name("new"));
            now(files.create_object(&served.alice, &directory, &called, new.clone())).unwrap();
            swap.assert_roots_untouched(&served);
            assert_eq!(names_away(&served), ["conf", "new"], "{new:?}");
        }
    }
}

#[test]
fn granted_rename_by_handle_stays_in_its_directories() {
    for swap in SWAPS {
        for (from, to) in [(("x", "conf"), ("y", "got")), (("y", "mine"), ("x", "conf"))] {
            let Some(served) = serve_granted() else { return };
            let [source, target] = [from.0, to.0].map(|at| served.object(at).unwrap());
            let (old, new) = (name(from.1), name(to.1));
            swap.before(&served, HookPoint::BeforeRename, 2);
            let (from, to) = ((&source, &old), (&target, &new));
            now(served.files.rename_object(&served.alice, from, to)).unwrap();
            swap.assert_roots_untouched(&served);
        }
    }
}

/// A misplaced file is removed with the authority that created it.
#[test]
fn granted_create_in_moving_directory_leaves_one_name() {
    let Some(served) = serve_granted() else { return };
    let directory = served.object("x").unwrap();
    let (dir, mut count) = (served.dir.path().to_owned(), 0);
    served.hook(move |_, at, _| {
        count += u32::from(at == HookPoint::AfterCreate);
        if at == HookPoint::AfterCreate && count == 1 {
            std::fs::rename(dir.join("x"), dir.join("away")).unwrap();
        }
        Ok(())
    });
    let made = create_in(&served, &directory, "new").unwrap();
    served.unhook();
    assert_eq!(made.open.path(), path("away/new"));
    assert_eq!(names_away(&served), ["conf", "new"]);
    served.close(made.open);
}

/// An elevated open gets exactly the checked file: the name may refer to a pipe by then.
#[test]
fn granted_open_gets_authorized_file_after_swap() {
    let Some(served) = serve_granted() else { return };
    grant_all(&served, "x/conf", 0o000);
    put_beneath(&served, "other", None, 0o600);
    let (dir, mut is_swapped) = (served.dir.path().to_owned(), false);
    served.hook(move |_, at, at_path| {
        if at == HookPoint::AfterOpen && *at_path == path("x/conf") && !is_swapped {
            is_swapped = true;
            std::fs::rename(dir.join("other"), dir.join("x/conf")).unwrap();
        }
        Ok(())
    });
    let open = served.try_open(plan("x/conf", READ)).unwrap().open;
    served.unhook();
    assert_eq!(served.read(&open).unwrap(), b"x/conf");
    served.close(open);
}
