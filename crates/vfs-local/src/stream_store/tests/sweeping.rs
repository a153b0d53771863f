//! Files of streams that the sweep keeps.

use super::sweep::FileState;
use super::*;

fn opened(share: &Share) -> (OwnedFd, StoredId) {
    let root = std::fs::File::open(&share.root).unwrap();
    let file = share.files().remove(0);
    let name = file.file_name().unwrap().as_encoded_bytes();
    (open_store(root.as_fd()).unwrap(), StoredId::of_file_name(name).unwrap())
}

#[test]
fn stream_file_without_a_record_is_kept() {
    let Some((_folder, share)) = share() else { return };
    let node = share.put("f", &bytes(LONG, 31));
    let (store, id) = opened(&share);
    let file = share.files().remove(0);
    rustix::fs::removexattr(&file, RECORD).unwrap();
    assert_eq!(sweep::state_of(&store, id), Some((FileState::Restored, None)));
    assert_eq!(read(&node), Err(FsError::Unavailable), "and is nobody's");
}

#[test]
fn stream_file_that_was_taken_over_meanwhile_is_kept() {
    let Some((_folder, share)) = share() else { return };
    let node = share.put("f", &bytes(LONG, 32));
    let (store, id) = opened(&share);
    let file = std::fs::File::open(share.files().remove(0)).unwrap();
    let present = record_of(file.as_fd()).unwrap().unwrap();
    let seen = Record { host_rights: None, ..present.clone() };
    assert_eq!(adoption::remove_unchanged(store.as_fd(), id, &seen), Ok(false));
    assert_eq!(read(&node).unwrap(), bytes(LONG, 32));
    assert_eq!(adoption::remove_unchanged(store.as_fd(), id, &present), Ok(true));
    assert!(share.files().is_empty());
}

#[test]
fn stream_that_is_removed_is_not_remembered() {
    let Some((_folder, share)) = share() else { return };
    // The look of another test may remember it just then.
    let is_dropped = (0..20).any(|number| {
        let node = share.put(&format!("f{number}"), &bytes(LONG, 33));
        assert!(sweep::is_host(node.key()));
        node.remove_stream(WHO, &stream("s")).unwrap();
        !sweep::is_host(node.key())
    });
    assert!(is_dropped);
}

#[test]
fn rights_that_a_client_changes_are_recorded() {
    let Some((_folder, share)) = share() else { return };
    let node = share.put("f", &bytes(LONG, 35));
    let change = AttributeChanges { mode: Some(0o600), ..Default::default() };
    node.set_attributes(WHO, &change).unwrap();
    let file = std::fs::File::open(share.files().remove(0)).unwrap();
    let recorded = record_of(file.as_fd()).unwrap().unwrap().host_rights;
    let now = PermissionState::of(LocalNode::of(&*node).unwrap()).unwrap().hash();
    assert_eq!(recorded, Some(now));
}

#[test]
fn rights_that_local_programs_change_are_recorded_by_the_look() {
    let Some((_folder, share)) = share() else { return };
    let node = share.put("f", &bytes(LONG, 34));
    let rights = || {
        let file = std::fs::File::open(share.files().remove(0)).unwrap();
        record_of(file.as_fd()).unwrap().unwrap().host_rights
    };
    let before = rights();
    std::fs::set_permissions(share.root.join("f"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(share.root.join("f"), Some(4001), Some(4002)).unwrap();
    }
    let (store, id) = opened(&share);
    let Some((FileState::Referenced, _)) = sweep::state_of(&store, id) else { return };
    assert_ne!(rights(), before);
    let now = PermissionState::of(LocalNode::of(&*node).unwrap()).unwrap().hash();
    assert_eq!(rights(), Some(now));
    let owner = std::fs::metadata(share.files().remove(0)).unwrap();
    assert!(!is_root || (owner.uid(), owner.gid()) == (4001, 4002), "whom its bytes count to");
}
