//! The backend suite, and the features of this backend alone.

use super::*;
use crate::{
    Actor, AttributeChanges, AttributeRequest, Case, CreateHow, FileKind, Identity, Node,
    OwnerChange, RelPath, Replace, SecurityChange, Vfs,
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
fn synced_data_survives_power_loss_and_the_rest_may() {
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
fn sync_commits_all_names_and_frees_deleted_nodes() {
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
fn rename_is_lost_whole_or_not_at_all() {
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
fn process_death_loses_no_written_data() {
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
fn full_disk_refuses_growth_and_takes_overwrites() {
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

struct TornWriteSurroundings;

impl Surroundings for TornWriteSurroundings {
    fn now(&self) -> crate::Timestamp {
        crate::Timestamp(5)
    }

    fn before(&self, call: MemoryCall) -> CallOutcome {
        match call {
            MemoryCall::Write { length_bytes: 10 } => CallOutcome::Tears(FsError::NoSpace, 4),
            MemoryCall::Sync => CallOutcome::Fails(FsError::Io),
            _ => CallOutcome::Runs,
        }
    }
}

#[test]
fn call_fails_as_surroundings_decide() {
    let vfs = MemoryVfs::new(MemoryOptions::default(), Arc::new(TornWriteSurroundings));
    let node = make(&vfs, "a");
    assert_eq!(node.write(Actor::SUPERUSER, 0, &[1; 10]), Err(FsError::NoSpace));
    assert_eq!(node.sync(Actor::SUPERUSER, false), Err(FsError::Io));
    assert_eq!(vfs.files(), [("a".into(), vec![1; 4])]);
    assert_eq!(node.attributes(AttributeRequest::default()).unwrap().modified, crate::Timestamp(5));
}

/// A change of permissions by a caller other than the owner clears the set-ID bits. That includes a
/// bit without effect yet: the new permissions could make the file a set-group-ID program.
#[test]
fn permissions_by_non_owner_clear_set_id_bits() {
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
    assert_eq!(node.attributes(AttributeRequest::default()).unwrap().mode, 0o754);
}
