//! The suite, and what only this backend can do.

use super::*;
use crate::{
    Actor, AttributeChanges, Case, CreateHow, FileKind, Identity, Node, OwnerChange, RelPath,
    Replace, SecurityChange, Vfs, Wanted,
};
use acl::PosixAcl;

fn fresh(case: &dyn Fn(&dyn Vfs)) {
    case(&MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default())));
}

fn fresh_with_a_disk(case: &dyn Fn(&dyn Vfs)) {
    case(&with_disk());
}

mod suite {
    crate::backend_suite!(super::fresh);
}

mod suite_with_a_disk {
    crate::backend_suite!(super::fresh_with_a_disk);
}

fn with_disk() -> MemoryVfs {
    let options = MemoryOptions { has_disk: true, ..MemoryOptions::default() };
    MemoryVfs::new(options, Arc::new(StillClock::default()))
}

fn path(text: &str) -> RelPath {
    RelPath::from_iter([crate::Name::new(text.as_bytes()).unwrap()])
}

fn make(vfs: &MemoryVfs, name: &str) -> Arc<dyn Node> {
    let how = CreateHow::plain(FileKind::File, 0o644);
    vfs.create(Actor::SUPERUSER, &path(name), Case::Sensitive, how).unwrap().node
}

fn lose(vfs: &MemoryVfs, written_back: bool) -> MemoryVfs {
    vfs.lose_power(Arc::new(StillClock::default()), &mut || written_back)
}

#[test]
fn what_was_synced_survives_a_loss_of_power_and_the_rest_may() {
    for written_back in [false, true] {
        let vfs = with_disk();
        let synced = make(&vfs, "synced");
        synced.write(Actor::SUPERUSER, 0, b"old").unwrap();
        synced.sync(Actor::SUPERUSER, false).unwrap();
        synced.write(Actor::SUPERUSER, 0, b"new").unwrap();
        make(&vfs, "lost");
        let found = lose(&vfs, written_back);
        let (old, new) = (("synced".into(), b"old".to_vec()), ("synced".into(), b"new".to_vec()));
        let expected = if written_back { vec![("lost".into(), vec![]), new] } else { vec![old] };
        assert_eq!(found.files(), expected);
        assert_eq!(
            synced.write(Actor::SUPERUSER, 0, b"x"),
            Err(FsError::Io),
            "its process has gone"
        );
        drop(synced);
        assert_eq!(found.open_count(), 0);
    }
}

#[test]
fn a_sync_brings_all_names_to_disk_and_frees_what_is_gone() {
    let vfs = with_disk();
    let (gone, kept) = (make(&vfs, "gone"), make(&vfs, "kept"));
    kept.sync(Actor::SUPERUSER, false).unwrap();
    vfs.remove(Actor::SUPERUSER, &path("gone"), gone.key()).unwrap();
    drop(gone);
    let count = || vfs.shared.state().inodes.len();
    assert_eq!(count(), 3, "the disk still has it");
    vfs.rename(Actor::SUPERUSER, &path("kept"), &path("moved"), Replace::Never).unwrap();
    kept.sync(Actor::SUPERUSER, true).unwrap();
    assert_eq!(count(), 2);
    assert_eq!(lose(&vfs, false).files(), [("moved".into(), vec![])]);
}

#[test]
fn a_rename_is_lost_whole_or_not_at_all() {
    let vfs = with_disk();
    let (a, b) = (make(&vfs, "a"), make(&vfs, "b"));
    a.write(Actor::SUPERUSER, 0, b"a").unwrap();
    a.sync(Actor::SUPERUSER, false).unwrap();
    b.sync(Actor::SUPERUSER, false).unwrap();
    vfs.rename(Actor::SUPERUSER, &path("a"), &path("b"), Replace::File).unwrap();
    let files = lose(&vfs, false).files();
    assert_eq!(files, [("a".into(), b"a".to_vec()), ("b".into(), vec![])]);
}

#[test]
fn the_death_of_the_process_loses_nothing_that_was_written() {
    let vfs = with_disk();
    let (a, b) = (make(&vfs, "a"), make(&vfs, "b"));
    a.write(Actor::SUPERUSER, 0, b"abc").unwrap();
    vfs.remove(Actor::SUPERUSER, &path("b"), b.key()).unwrap();
    let found = vfs.kill(Arc::new(StillClock::default()));
    assert_eq!(found.files(), [("a".into(), b"abc".to_vec())]);
    assert_eq!((a.write(Actor::SUPERUSER, 0, b"x"), found.open_count()), (Err(FsError::Io), 0));
    assert_eq!(lose(&found, false).files(), [], "it was never synced");
}

#[test]
fn a_full_disk_refuses_what_is_new_and_takes_what_is_there() {
    let options = MemoryOptions { capacity_bytes: 8192, ..MemoryOptions::default() };
    let vfs = MemoryVfs::new(options, Arc::new(StillClock::default()));
    let node = make(&vfs, "a");
    assert_eq!(node.write(Actor::SUPERUSER, 0, &[1; 8193]), Err(FsError::NoSpace));
    assert_eq!(node.write(Actor::SUPERUSER, 0, &[1; 8192]), Ok(()));
    assert_eq!(node.write(Actor::SUPERUSER, 0, &[2; 8192]), Ok(()));
    assert_eq!(vfs.space(Actor::SUPERUSER).unwrap().free_bytes, 0);
    node.set_size(Actor::SUPERUSER, 0).unwrap();
    assert_eq!(node.write(Actor::SUPERUSER, 0, &[1; 4096]), Ok(()));
}

struct Tearing;

impl Surroundings for Tearing {
    fn now(&self) -> crate::Timestamp {
        crate::Timestamp(5)
    }

    fn before(&self, call: Call) -> Fate {
        match call {
            Call::Write { length_bytes: 10 } => Fate::Tears(FsError::NoSpace, 4),
            Call::Sync => Fate::Fails(FsError::Io),
            _ => Fate::Runs,
        }
    }
}

#[test]
fn a_call_fails_as_its_surroundings_say() {
    let vfs = MemoryVfs::new(MemoryOptions::default(), Arc::new(Tearing));
    let node = make(&vfs, "a");
    assert_eq!(node.write(Actor::SUPERUSER, 0, &[1; 10]), Err(FsError::NoSpace));
    assert_eq!(node.sync(Actor::SUPERUSER, false), Err(FsError::Io));
    assert_eq!(vfs.files(), [("a".into(), vec![1; 4])]);
    assert_eq!(node.attributes(Wanted::default()).unwrap().modified, crate::Timestamp(5));
}

/// Permissions that somebody else than the owner may change take the bits away, also one that
/// marks nothing yet: what is granted may make it a set-group-ID program.
#[test]
fn permissions_by_another_take_set_id_bits_away() {
    let vfs = MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()));
    let node = make(&vfs, "f");
    let owner = OwnerChange { uid: Some(7), gid: Some(8) };
    node.set_attributes(Actor::SUPERUSER, &AttributeChanges { owner, ..Default::default() })
        .unwrap();
    let mode = Some(0o2644);
    node.set_attributes(Actor::SUPERUSER, &AttributeChanges { mode, ..Default::default() })
        .unwrap();
    let member = Identity { uid: 9, gid: 8, groups: Vec::new() };
    let permissions = PosixAcl { owner: 7, group: 5, others: 4, ..PosixAcl::default() };
    let change = SecurityChange { permissions: Some(&permissions), ..Default::default() };
    node.set_security(member.actor(), &change).unwrap();
    assert_eq!(node.attributes(Wanted::default()).unwrap().mode, 0o754);
}
