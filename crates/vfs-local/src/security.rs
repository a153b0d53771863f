//! Windows security descriptors, stored with the POSIX permissions.
//!
//! Descriptor, mode, owner and ACL change by one system call each, and a power failure may separate
//! any two. So the new descriptor is stored first, as one that is valid in every state that the
//! permissions are about to have: from then on it is in force. The permissions, which decide for
//! local users, pass through no state that grants more than both the old and the new one.
//!
//! A failed change is undone by the same steps in reverse ([`undo`]). An old value that is valid in
//! several states belongs to no change in flight: the power failed during the change. The next load
//! reduces it to one state.
//!
//! Descriptors are stored in Samba's `security.NTACL`, which only the superuser may write. A
//! process without that privilege uses `user.anabranch.NTACL`. A privileged process never reads
//! that attribute, because local users could have created it.

use crate::errors::refusal;
use crate::identity::IdentityGuard;
use crate::local_node::LocalNode;
use crate::ntacl::{self, Counts, StateHash, StoredDescriptor};
use crate::posix_acl::{self, PermissionState};
use crate::xattr_names::descriptor_attribute;
use rustix::fs::{FileType, XattrFlags};
use rustix::io::Errno;
use undo::{SecurityTarget, UndoLog};
use vfs::{
    Actor, AttributeChanges, ElevationReason, FsError, Identity, OwnerChange, PosixAcl, Result,
    SecurityChange, ServerWork,
};

pub use lock::lock;

mod lock;
mod undo;

/// Minimum age of a file's last change from which a value with several states belongs to no change
/// in flight, including those of other processes. A change takes a few system calls.
const SETTLE_AFTER_NANOS: i128 = 10_000_000_000;
/// Number of times that a descriptor and the permissions are read, until they match or stay.
const LOADS_MAX: usize = 8;

/// The descriptor in force, if one is stored and the permissions are those with which it was
/// stored.
pub fn load(node: &LocalNode) -> Result<Option<Vec<u8>>> {
    load_at(node, crate::xattr_notes::now())
}

/// See [`load`]; `now` is in nanoseconds, by the file systems' clock.
fn load_at(node: &LocalNode, now: i128) -> Result<Option<Vec<u8>>> {
    let Some(loaded) = load_consistent(node)? else { return Ok(None) };
    if let (Counts::While(states), Some(state)) = (&loaded.stored.counts, loaded.state)
        && states.len() > 1
    {
        settle(node, &loaded.value, state, now);
    }
    Ok(loaded.is_in_force().then_some(loaded.stored.descriptor))
}

/// A stored descriptor and the permissions at the same time.
#[derive(Debug)]
struct LoadedDescriptor {
    value: Vec<u8>,
    stored: StoredDescriptor,
    /// None where validity does not depend on the permissions.
    state: Option<StateHash>,
}

impl LoadedDescriptor {
    fn is_in_force(&self) -> bool {
        self.stored.counts.has(&self.state.unwrap_or_default())
    }
}

/// Loads a descriptor and the permissions, which are read by several calls. A change may complete
/// between them; then its own descriptor is in force, and not the permissions alone. So a value
/// that does not match counts as such only if value and permissions are found the same again.
///
/// # Errors
/// [`FsError::Unavailable`] if they differ each time.
fn load_consistent(target: &impl SecurityTarget) -> Result<Option<LoadedDescriptor>> {
    let mut former = None;
    for _ in 0..LOADS_MAX {
        let Some(value) = target.value()? else { return Ok(None) };
        let Some(stored) = ntacl::decode(&value) else { return Ok(None) };
        if !matches!(stored.counts, Counts::While(_)) {
            return Ok(Some(LoadedDescriptor { value, stored, state: None }));
        }
        let state = target.state()?.hash();
        let is_same = former.as_ref().is_some_and(|former| *former == (value.clone(), state));
        if is_same || stored.counts.has(&state) {
            return Ok(Some(LoadedDescriptor { value, stored, state: Some(state) }));
        }
        former = Some((value, state));
    }
    Err(FsError::Unavailable)
}

/// The stored value, if there is one and this process may read it.
fn stored_value(node: &LocalNode) -> Result<Option<Vec<u8>>> {
    match node.get_xattr(descriptor_attribute()) {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(None),
        Err(errno) => Err(refusal("get descriptor", errno)),
    }
}

/// Reduces a value that is valid in several states to one of them, if no change is in flight: the
/// current state, or if the descriptor is not in force the final state of the change.
/// Otherwise a later chmod(2) to an intermediate state would put the descriptor in force.
fn settle(node: &LocalNode, value: &[u8], state: StateHash, now: i128) {
    // The holder of the lock reduces the value itself.
    let Some(_changing) = lock::try_lock(node.key) else { return };
    let Ok(stat) = node.raw_stat() else { return };
    let changed = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
    // A clock that was set back makes the last change a future one.
    let is_old = (now - changed).abs() >= SETTLE_AFTER_NANOS;
    let Some(StoredDescriptor { descriptor, counts: Counts::While(states) }) = ntacl::decode(value)
    else {
        return;
    };
    let Some(last) = states.last() else { return };
    let left = if states.contains(&state) { &state } else { last };
    let is_present = || stored_value(node).is_ok_and(|stored| stored.as_deref() == Some(value));
    if !is_old || !is_present() {
        return;
    }
    // A value that another process has removed since stays removed.
    if let Err(error) = put_with(node, Some((&descriptor, &[*left])), XattrFlags::REPLACE) {
        tracing::debug!(
            ?error,
            "cannot complete the security descriptor of an interrupted change; a later access retries"
        );
        return;
    }
    // No call compares and replaces a value: that of a change which another process has begun since
    // may be lost. Its permissions show it.
    if PermissionState::of(node).is_ok_and(|now| now.hash() != state) {
        tracing::warn!(
            inode = node.key.inode,
            "the permissions of a file changed while the server completed the security descriptor of \
             an interrupted change: check the file's access list"
        );
    }
}

/// A change of the permissions by one system call.
#[derive(Clone, Copy, Debug)]
enum PermissionStep<'a> {
    Mode(u32),
    Owner(OwnerChange),
    List(&'a PosixAcl),
}

/// A system call, and the permissions before it.
#[derive(Clone, Debug)]
struct PlannedStep<'a> {
    step: PermissionStep<'a>,
    before: PermissionState,
}

/// System calls that change owner and permissions, and the states between them: at most as many
/// states as a stored value can hold.
#[derive(Clone, Debug)]
struct StepBatch<'a> {
    steps: Vec<PlannedStep<'a>>,
    /// The states without duplicates, starting with the one before the first step.
    states: Vec<StateHash>,
}

/// The system calls of a change of owner and permissions.
///
/// Not every call is one change on disk. chmod(2) of a file with an ACL changes the mode and then
/// the ACL. Of a new ACL and its mode, the ACL may come first (XFS), or the mode (btrfs, which may
/// write the inode in between). The intermediate states count, too.
#[derive(Debug)]
struct PermissionSteps<'a> {
    /// At least one batch. Each starts with the last state of the previous one.
    batches: Vec<StepBatch<'a>>,
    state: PermissionState,
}

impl<'a> PermissionSteps<'a> {
    fn new(present: &PermissionState, who: Actor<'_>, change: &SecurityChange<'a>) -> Self {
        let first = StepBatch { steps: Vec::new(), states: vec![present.hash()] };
        let mut steps = Self { batches: vec![first], state: present.clone() };
        let changes_owner = change.owner != OwnerChange::default();
        let next = present.clone().with_owner(change.owner);
        let mut mode = present.mode & 0o7777;
        if let Some(list) = change.permissions
            && (changes_owner || present.may_lose_list_before_mode(list))
        {
            mode = mode & !0o1777 | present.narrowed_to(list);
        }
        if loses_set_ids(present, &next, who, change) {
            mode &= !SET_IDS;
        }
        if mode != present.mode & 0o7777 {
            // The owner's own chmod(2) preserves the bits. Elevated callers never set them, and a
            // change of the owner is always elevated.
            let may_keep =
                |user: &Identity| user.uid == 0 || (!changes_owner && user.uid == present.uid);
            mode &= if who.user().is_none_or(may_keep) { 0o7777 } else { !SET_IDS };
            mode &= set_group_id_left(who, present.gid);
            let between = [present.clone().with_bare_mode(mode)];
            steps.add(PermissionStep::Mode(mode), &between, present.clone().with_mode(mode));
        }
        if changes_owner {
            let state = steps.state.clone().with_owner(change.owner);
            steps.add(PermissionStep::Owner(change.owner), &[], state);
        }
        if let Some(list) = change.permissions {
            let before = &steps.state;
            let mut next = before.clone().with_list(list);
            let is_changed = next != *before;
            next.mode &= set_group_id_left(who, before.gid);
            let bare_mode = before.clone().with_bare_mode(next.mode);
            let between = [before.clone().with_bare_list(list), bare_mode];
            if is_changed {
                steps.add(PermissionStep::List(list), &between, next);
            }
        }
        steps
    }

    /// Adds a step that leads to a state, possibly through states in which the disk shows half of
    /// it.
    fn add(
        &mut self,
        step: PermissionStep<'a>,
        between: &[PermissionState],
        next: PermissionState,
    ) {
        let hashes: Vec<_> = between.iter().chain([&next]).map(PermissionState::hash).collect();
        let Some(batch) = self.batches.last_mut() else { return };
        let step = PlannedStep { step, before: self.state.clone() };
        let mut joined = batch.clone();
        joined.add(step.clone(), &hashes);
        if joined.states.len() <= ntacl::STATES_MAX {
            *batch = joined;
        } else {
            let mut another = StepBatch { steps: Vec::new(), states: vec![self.state.hash()] };
            another.add(step, &hashes);
            self.batches.push(another);
        }
        self.state = next;
    }

    fn is_empty(&self) -> bool {
        self.batches.iter().all(|batch| batch.steps.is_empty())
    }
}

impl<'a> StepBatch<'a> {
    fn add(&mut self, step: PlannedStep<'a>, states: &[StateHash]) {
        self.steps.push(step);
        for state in states {
            if !self.states.contains(state) {
                self.states.push(*state);
            }
        }
    }
}

impl PermissionStep<'_> {
    /// `uid` is the owner before the change. Returns the owner after it.
    fn perform(self, node: &LocalNode, uid: u32, who: Actor<'_>) -> Result<u32> {
        match self {
            Self::Mode(mode) => {
                let changes = AttributeChanges { mode: Some(mode), ..AttributeChanges::default() };
                change_rights(node, as_owner(who, uid), &changes)?;
            }
            Self::Owner(owner) => {
                let changes = AttributeChanges { owner, ..AttributeChanges::default() };
                change_rights(node, elevated(who, ElevationReason::TakeOwnership), &changes)?;
                return Ok(owner.uid.unwrap_or(uid));
            }
            Self::List(list) => {
                let _acting = IdentityGuard::begin(as_owner(who, uid))?;
                posix_acl::store(node, list)?;
            }
        }
        Ok(uid)
    }
}

/// Changes owner and mode like [`vfs::Node::set_attributes`], for the holder of the file's lock.
fn change_rights(node: &LocalNode, who: Actor<'_>, changes: &AttributeChanges) -> Result<()> {
    if who.withholds(changes) {
        return Err(FsError::AccessDenied);
    }
    let _acting = IdentityGuard::begin(who)?;
    node.change_rights(changes)
}

/// The bits that run a program as its owner or group.
const SET_IDS: u32 = 0o6000;
const SET_GROUP_ID: u32 = 0o2000;

/// The mode after chmod(2) or a change of the ACL. The kernel clears set-group-ID for a caller
/// outside the file's group without CAP_FSETID. capabilities(7); chmod(2).
fn set_group_id_left(who: Actor<'_>, gid: u32) -> u32 {
    let may_keep = |user: &Identity| user.uid == 0 || user.in_group(gid);
    if who.user().is_none_or(may_keep) { !0 } else { !SET_GROUP_ID }
}

/// True if a change clears set-user-ID and set-group-ID. Only the owner may let a program run as
/// owner or group, and the kernel clears a file's bits when its owner changes.
fn loses_set_ids(
    present: &PermissionState,
    next: &PermissionState,
    who: Actor<'_>,
    change: &SecurityChange<'_>,
) -> bool {
    let is_own = who.user().is_none_or(|user| user.uid == 0 || user.uid == next.uid);
    let is_file = FileType::from_raw_mode(present.mode) != FileType::Directory;
    let is_given = change.owner != OwnerChange::default() && is_file;
    is_given || (change.permissions.is_some() && !is_own)
}

/// Stores a descriptor, owner and permissions. The caller has authorized the change; each part runs
/// with no more privilege than it needs.
///
/// The descriptor is stored first, because there may be no room for it. A nameless node, which
/// nobody can find before it is complete, gets it last, which saves one call.
///
/// A file system may have no room for both the descriptor and an equivalent POSIX ACL with named
/// users and groups. Then the more precise descriptor is stored, with a mode that grants nobody
/// more than the ACL.
pub fn store(node: &LocalNode, who: Actor<'_>, change: &SecurityChange<'_>) -> Result<()> {
    let _change = node.unreported_change();
    let _changing = lock(node.key);
    let Some(descriptor) = change.descriptor else { return put(node, None) };
    match store_both(node, who, descriptor, change) {
        Err(FsError::TooLarge) => {}
        other => return other,
    }
    let names = posix_acl::load(node)?;
    let former = PermissionState::of(node)?;
    let owner = as_owner(who, former.uid);
    let put_back = |error| {
        // The former descriptor is in force with the former ACL only.
        if let Some(names) = &names {
            if !former.may_have_dropped_names(&PermissionState::of(node)?) {
                undo::warn_of_newer_change();
                return Err(error);
            }
            let _acting = IdentityGuard::begin(owner)?;
            posix_acl::store(node, names)?;
        }
        Err(error)
    };
    if names.is_some() {
        let dropped = IdentityGuard::begin(owner).and_then(|_acting| posix_acl::drop_names(node));
        dropped.or_else(put_back)?;
    }
    let mode = change.permissions.map(|list| PosixAcl::of_mode(list.mode_without_names()));
    let without_names = SecurityChange { permissions: mode.as_ref(), ..*change };
    let stored = store_both(node, who, descriptor, &without_names).or_else(put_back);
    if stored == Err(FsError::TooLarge) {
        let bytes = descriptor.len();
        tracing::warn!(
            bytes,
            "an access list was refused: the file system has too little room for extended \
             attributes of one file (ext4 has 4 KiB; more with its feature ea_inode)"
        );
    }
    stored
}

/// Stores a descriptor for the final owner and permissions of a change.
///
/// # Errors
/// The error of the first failed call. The former descriptor, owner and permissions are
/// restored then; a failure to restore them is logged.
fn store_both(
    target: &impl SecurityTarget,
    who: Actor<'_>,
    descriptor: &[u8],
    change: &SecurityChange<'_>,
) -> Result<()> {
    let present = target.state()?;
    let steps = PermissionSteps::new(&present, who, change);
    if present.is_linked && steps.is_empty() {
        return target.put(descriptor, &[present.hash()]);
    }
    let mut log = UndoLog::new(target, &present)?;
    let done = perform_all(target, who, descriptor, &steps, &mut log);
    let done = done.and_then(|()| {
        let last = target.state()?.hash();
        match target.put(descriptor, &[last]) {
            // The change is complete. A later load may drop the other states.
            Err(error) if log.is_stored_for(&last) => {
                tracing::warn!(?error, "a new security descriptor also stays valid for the permissions before the change is \
                     complete; a later access removes those");
                Ok(())
            }
            other => other,
        }
    });
    done.inspect_err(|_| log.undo(target))
}

fn perform_all<'a>(
    target: &impl SecurityTarget,
    who: Actor<'_>,
    descriptor: &[u8],
    steps: &'a PermissionSteps<'_>,
    log: &mut UndoLog<'a>,
) -> Result<()> {
    let mut uid = log.uid();
    for batch in &steps.batches {
        if log.has_value() {
            target.put(descriptor, &batch.states)?;
        }
        log.begin(&batch.states);
        for planned in &batch.steps {
            log.add(planned);
            uid = target.perform(planned.step, uid, who)?;
        }
    }
    Ok(())
}

/// The actor with the rights that POSIX reserves for the owner. The owner itself needs no
/// elevation.
fn as_owner(who: Actor<'_>, owner: u32) -> Actor<'_> {
    let is_own = who.user().is_some_and(|user| user.uid == owner);
    if is_own { who } else { elevated(who, ElevationReason::Attributes) }
}

/// The actor with an elevation for this part of the change.
fn elevated(who: Actor<'_>, power: ElevationReason) -> Actor<'_> {
    who.user().map_or(who, |user| Actor::elevate(user, power))
}

/// Stores a descriptor that is valid in these states, in Samba's or the packed form, or removes it.
///
/// # Errors
/// [`FsError::TooLarge`] if the file's attributes have no room for it, though the file
/// system has.
fn put(node: &LocalNode, value: Option<(&[u8], &[StateHash])>) -> Result<()> {
    put_with(node, value, XattrFlags::empty())
}

/// See [`put`]; `flags` may demand that a value is present.
fn put_with(
    node: &LocalNode,
    value: Option<(&[u8], &[StateHash])>,
    flags: XattrFlags,
) -> Result<()> {
    let _acting = IdentityGuard::server(ServerWork::Metadata)?;
    let set = |value: Option<&[u8]>| node.put_xattr(descriptor_attribute(), value, flags);
    let result = match value {
        None => set(None),
        Some((descriptor, states)) => {
            let encoded = ntacl::encode(descriptor, states).ok_or(FsError::InvalidParameter)?;
            match set(Some(&encoded)) {
                Err(errno) if is_without_room(errno) => {
                    let packed = ntacl::encode_packed(descriptor, states);
                    set(Some(&packed.ok_or(FsError::TooLarge)?))
                }
                other => other,
            }
        }
    };
    match result {
        Ok(()) => Ok(()),
        Err(Errno::NODATA) if value.is_none() => Ok(()),
        Err(Errno::PERM | Errno::OPNOTSUPP) => Err(FsError::NotSupported),
        Err(errno) if is_without_room(errno) && node.has_free_blocks() => Err(FsError::TooLarge),
        Err(Errno::RANGE | Errno::TOOBIG) => Err(FsError::TooLarge),
        Err(errno) => Err(refusal("set descriptor", errno)),
    }
}

/// True if an attribute was refused for its length, or for lack of space.
fn is_without_room(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::RANGE | Errno::TOOBIG)
}

#[cfg(test)]
mod load_tests;

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::LocalVfs;
    use vfs::{
        AttributeRequest, Case, CreateHow, CreationMode, FileKind, Name, Node, PosixName, RelPath,
        Vfs,
    };

    pub const OLD: [u8; 20] = [1, 0, 4, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    pub const NEW: [u8; 20] = [1, 0, 4, 0x90, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    pub fn list(owner: u32, named: u32) -> PosixAcl {
        let named = vec![(PosixName::User(1001), named)];
        PosixAcl { owner, group: 4, others: 0, mask: Some(7), named }
    }

    /// A file or directory with the old descriptor; `None` if none can be stored here.
    pub fn node(kind: FileKind) -> Option<(tempfile::TempDir, std::sync::Arc<dyn vfs::Node>)> {
        let folder = tempfile::tempdir().unwrap();
        let vfs = LocalVfs::open(folder.path()).unwrap();
        let (mode, dos, wanted) = (0o640, None, AttributeRequest::default());
        let how =
            CreateHow { kind, mode: CreationMode::exactly(mode), dos, wanted, initialiser: None };
        let path = RelPath::root().join(&Name::new(*b"f").unwrap());
        let node = vfs.create(Actor::SUPERUSER, &path, Case::Sensitive, how).unwrap().node;
        let permissions = list(6, 4);
        let change = SecurityChange {
            descriptor: Some(&OLD),
            permissions: Some(&permissions),
            ..Default::default()
        };
        match node.set_security(Actor::SUPERUSER, &change) {
            Err(FsError::NotSupported) => {
                eprintln!("skipped: no descriptors here");
                None
            }
            other => other.map(|()| Some((folder, node))).unwrap(),
        }
    }

    #[test]
    fn new_descriptor_is_valid_after_each_step_of_a_change() {
        let is_root = rustix::process::geteuid().is_root();
        for kind in [FileKind::File, FileKind::Directory] {
            let Some((_folder, node)) = node(kind) else { return };
            let node = LocalNode::of(&*node).unwrap();
            let owner = OwnerChange { uid: Some(1002), gid: Some(1003) };
            let permissions = list(5, 6);
            let change = SecurityChange {
                descriptor: Some(&NEW),
                owner: if is_root { owner } else { OwnerChange::default() },
                permissions: Some(&permissions),
            };
            let present = PermissionState::of(node).unwrap();
            let steps = PermissionSteps::new(&present, Actor::SUPERUSER, &change);
            let count: usize = steps.batches.iter().map(|batch| batch.steps.len()).sum();
            assert_eq!(count, if is_root { 3 } else { 1 });
            assert_eq!(load(node).unwrap().as_deref(), Some(&OLD[..]));
            let mut uid = present.uid;
            for batch in &steps.batches {
                put(node, Some((&NEW, &batch.states))).unwrap();
                for PlannedStep { step, .. } in &batch.steps {
                    assert_eq!(load(node).unwrap().as_deref(), Some(&NEW[..]), "before {step:?}");
                    uid = step.perform(node, uid, Actor::SUPERUSER).unwrap();
                }
                assert_eq!(load(node).unwrap().as_deref(), Some(&NEW[..]));
            }
            let last = PermissionState::of(node).unwrap();
            assert_eq!(steps.state, last);
            let other = AttributeChanges { mode: Some(0o777), ..AttributeChanges::default() };
            node.set_attributes(Actor::SUPERUSER, &other).unwrap();
            assert_eq!(load(node).unwrap(), None, "a state on no way");
        }
    }

    /// The state after a power failure: a descriptor in the second of four states.
    #[test]
    fn interrupted_change_is_reduced_to_one_state() {
        let Some((_folder, node)) = node(FileKind::File) else { return };
        let node = LocalNode::of(&*node).unwrap();
        let states =
            || ntacl::decode(&node.get_xattr(descriptor_attribute()).unwrap()).unwrap().counts;
        let present = PermissionState::of(node).unwrap();
        let others = [0o600, 0o640, 0o604].map(|mode| present.clone().with_mode(mode).hash());
        let all = [others[0], present.hash(), others[1], others[2]];
        let now = crate::xattr_notes::now();
        let later = now + SETTLE_AFTER_NANOS + 1_000_000_000;

        put(node, Some((&NEW, &all))).unwrap();
        assert_eq!(load_at(node, now).unwrap().as_deref(), Some(&NEW[..]));
        assert_eq!(states(), Counts::While(all.to_vec()), "another process may be changing it");
        let changing = lock(node.key);
        assert_eq!(load_at(node, later).unwrap().as_deref(), Some(&NEW[..]));
        assert_eq!(states(), Counts::While(all.to_vec()), "this process is changing it");
        drop(changing);
        assert_eq!(load_at(node, later).unwrap().as_deref(), Some(&NEW[..]));
        assert_eq!(states(), Counts::While(vec![present.hash()]));
        let chmod = |mode| {
            let mode = AttributeChanges { mode: Some(mode), ..AttributeChanges::default() };
            node.set_attributes(Actor::SUPERUSER, &mode).unwrap();
        };
        chmod(0o604);
        assert_eq!(load_at(node, later).unwrap(), None, "a state that it was to lead through");

        put(node, Some((&NEW, &[others[0], others[1]]))).unwrap();
        assert_eq!(load_at(node, later).unwrap(), None);
        assert_eq!(states(), Counts::While(vec![others[1]]), "the state that it was to lead to");
        chmod(0o600);
        assert_eq!(load_at(node, later).unwrap(), None);
    }

    /// The kernel clears set-group-ID with a mode or ACL that an owner outside the group sets.
    #[test]
    fn descriptor_stays_valid_when_kernel_clears_setgid() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        for kind in [FileKind::File, FileKind::Directory] {
            for (permissions, groups) in [
                (list(5, 6), vec![]),
                (PosixAcl::of_mode(0o704), vec![]),
                (list(5, 6), vec![1003]),
                (PosixAcl::of_mode(0o704), vec![1003]),
            ] {
                let Some((_folder, node)) = node(kind) else { return };
                let given = AttributeChanges {
                    owner: OwnerChange { uid: Some(1002), gid: Some(1003) },
                    mode: Some(0o2770),
                    ..AttributeChanges::default()
                };
                node.set_attributes(Actor::SUPERUSER, &given).unwrap();
                let node = LocalNode::of(&*node).unwrap();
                let present = PermissionState::of(node).unwrap();
                let keeps = !groups.is_empty();
                let owner = Identity { uid: 1002, gid: 1002, groups };
                let change = SecurityChange {
                    descriptor: Some(&NEW),
                    permissions: Some(&permissions),
                    ..SecurityChange::default()
                };
                let steps = PermissionSteps::new(&present, owner.actor(), &change);
                for batch in &steps.batches {
                    put(node, Some((&NEW, &batch.states))).unwrap();
                    for PlannedStep { step, before } in &batch.steps {
                        assert_eq!(PermissionState::of(node).unwrap(), *before, "{step:?}");
                        step.perform(node, 1002, owner.actor()).unwrap();
                        assert_eq!(load(node).unwrap().as_deref(), Some(&NEW[..]), "{step:?}");
                    }
                }
                assert_eq!(PermissionState::of(node).unwrap(), steps.state);
                assert_eq!(steps.state.mode & 0o2000 != 0, keeps);
            }
        }
    }

    /// The disk may show half of a change that a system call makes in two.
    #[test]
    fn half_completed_step_on_disk_is_valid() {
        let Some((_folder, node)) = node(FileKind::File) else { return };
        let node = LocalNode::of(&*node).unwrap();
        let present = PermissionState::of(node).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        let owner = OwnerChange { uid: Some(1002), gid: None };
        let owner = if is_root { owner } else { OwnerChange::default() };
        for (permissions, owner) in [
            (list(5, 6), OwnerChange::default()),
            (list(5, 6), owner),
            (PosixAcl::of_mode(0o604), OwnerChange::default()),
        ] {
            let change =
                SecurityChange { descriptor: Some(&NEW), owner, permissions: Some(&permissions) };
            let steps = PermissionSteps::new(&present, Actor::SUPERUSER, &change);
            let mut before = present.clone();
            for batch in &steps.batches {
                assert!(batch.states.len() <= ntacl::STATES_MAX, "{batch:?}");
                for PlannedStep { step, .. } in &batch.steps {
                    let mut states = vec![before.clone()];
                    before = match *step {
                        PermissionStep::Mode(mode) => {
                            states.push(before.clone().with_bare_mode(mode));
                            before.with_mode(mode)
                        }
                        PermissionStep::Owner(owner) => before.with_owner(owner),
                        PermissionStep::List(list) => {
                            let next = before.clone().with_list(list);
                            states.push(before.clone().with_bare_list(list));
                            states.push(before.with_bare_mode(next.mode));
                            next
                        }
                    };
                    states.push(before.clone());
                    for state in states {
                        assert!(batch.states.contains(&state.hash()), "{step:?}: {state:?}");
                    }
                }
            }
            assert_eq!(before, steps.state);
        }
    }

    /// XFS removes the ACL before it sets the mode, so the group temporarily has the mask's
    /// permissions.
    #[test]
    fn removed_acl_never_widens_the_group_permissions() {
        let Some((_folder, node)) = node(FileKind::File) else { return };
        let node = LocalNode::of(&*node).unwrap();
        let present = PermissionState::of(node).unwrap();
        assert_eq!(present.mode & 0o777, 0o670, "the group's place shows the mask");
        let next = PosixAcl::of_mode(0o604);
        let change = SecurityChange {
            descriptor: Some(&NEW),
            permissions: Some(&next),
            ..SecurityChange::default()
        };
        let steps = PermissionSteps::new(&present, Actor::SUPERUSER, &change);
        let steps: Vec<_> = steps.batches.iter().flat_map(|batch| &batch.steps).collect();
        let [mode, list] = steps[..] else { panic!("{steps:?}") };
        let (PermissionStep::Mode(mode), PermissionStep::List(_)) = (mode.step, list.step) else {
            panic!("{steps:?}");
        };
        assert_eq!(mode & 0o077, 0, "others had nothing, the group gets nothing");
    }

    #[test]
    fn stored_descriptor_is_valid_in_its_last_state_only() {
        let Some((_folder, node)) = node(FileKind::File) else { return };
        let permissions = list(7, 6);
        let change = SecurityChange {
            descriptor: Some(&NEW),
            permissions: Some(&permissions),
            ..SecurityChange::default()
        };
        node.set_security(Actor::SUPERUSER, &change).unwrap();
        let node = LocalNode::of(&*node).unwrap();
        let stored = ntacl::decode(&node.get_xattr(descriptor_attribute()).unwrap()).unwrap();
        let last = PermissionState::of(node).unwrap().hash();
        assert_eq!(stored.counts, Counts::While(vec![last]));
        node.set_security(Actor::SUPERUSER, &change).unwrap();
        let again = ntacl::decode(&node.get_xattr(descriptor_attribute()).unwrap()).unwrap();
        assert_eq!(again.counts, Counts::While(vec![last]), "nothing to change");
    }

    /// A descriptor with entries for `names` users, and the equivalent ACL.
    fn long(names: u32) -> (Vec<u8>, PosixAcl) {
        let mut entries = Vec::new();
        for uid in 9802..9802 + names {
            entries.extend_from_slice(&[0, 0, 24, 0, 0x9F, 1, 0x12, 0, 1, 2, 0, 0, 0, 0, 0, 22]);
            entries.extend_from_slice(&1u32.to_le_bytes());
            entries.extend_from_slice(&uid.to_le_bytes());
        }
        let mut descriptor = OLD.to_vec();
        descriptor[16] = 20;
        descriptor.extend_from_slice(&[2, 0]);
        descriptor.extend_from_slice(&(entries.len() as u16 + 8).to_le_bytes());
        descriptor.extend_from_slice(&names.to_le_bytes());
        descriptor.extend_from_slice(&entries);
        let named = (9802..9802 + names).map(|uid| (PosixName::User(uid), 6)).collect();
        (descriptor, PosixAcl { owner: 6, group: 4, others: 0, mask: Some(6), named })
    }

    #[test]
    fn long_acl_without_room_for_two_forms_is_stored_once() {
        for kind in [FileKind::File, FileKind::Directory] {
            // ext4 has 4 KiB for both: the first descriptor fits twice, the second only packed, the
            // third only alone.
            for names in [20, 200, 500] {
                let Some((_folder, node)) = node(kind) else { return };
                let (descriptor, list) = long(names);
                let set = |descriptor: &[u8], list: &PosixAcl| {
                    let change = SecurityChange {
                        descriptor: Some(descriptor),
                        permissions: Some(list),
                        ..SecurityChange::default()
                    };
                    node.set_security(Actor::SUPERUSER, &change)
                };
                assert_eq!(set(&descriptor, &list), Ok(()), "{names} names");
                let stored = node.security_descriptor().unwrap();
                assert_eq!(stored.as_deref(), Some(&descriptor[..]), "{names} names");
                let posix = node.posix_acl().unwrap();
                assert!(posix.is_none_or(|posix| posix == list), "{names} names");
                // A short descriptor replaces it, and vice versa.
                let short = long(1);
                assert_eq!(set(&short.0, &short.1), Ok(()));
                assert_eq!(node.security_descriptor().unwrap().as_deref(), Some(&short.0[..]));
                assert_eq!(set(&descriptor, &list), Ok(()), "{names} names again");
                let stored = node.security_descriptor().unwrap();
                assert_eq!(stored.as_deref(), Some(&descriptor[..]), "{names} names again");
            }
        }
    }

    #[test]
    fn acl_without_room_is_not_reported_as_a_full_disk() {
        let Some((_folder, node)) = node(FileKind::File) else { return };
        let (descriptor, list) = long(2700);
        let change = SecurityChange {
            descriptor: Some(&descriptor),
            permissions: Some(&list),
            ..SecurityChange::default()
        };
        match node.set_security(Actor::SUPERUSER, &change) {
            // The file system has room for 64 KiB.
            Ok(()) => {}
            other => {
                assert_eq!(other, Err(FsError::TooLarge));
                let stored = node.security_descriptor().unwrap();
                assert_eq!(stored.as_deref(), Some(&OLD[..]), "what was stored is in force");
            }
        }
    }

    /// A team's directory, from whose ACL its owner removes the one named user.
    #[test]
    fn owner_keeps_set_id_bits_when_an_acl_is_removed() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        for (kind, bits) in [(FileKind::Directory, 0o2000), (FileKind::File, 0o6000)] {
            let Some((_folder, node)) = node(kind) else { return };
            let owner = Identity { uid: 1002, gid: 1002, groups: vec![1003] };
            let given = AttributeChanges {
                owner: OwnerChange { uid: Some(1002), gid: Some(1003) },
                mode: Some(bits | 0o770),
                ..AttributeChanges::default()
            };
            node.set_attributes(Actor::SUPERUSER, &given).unwrap();
            let permissions = PosixAcl::of_mode(0o770);
            let change = SecurityChange {
                descriptor: Some(&NEW),
                permissions: Some(&permissions),
                ..SecurityChange::default()
            };
            node.set_security(owner.actor(), &change).unwrap();
            let found = node.attributes(AttributeRequest::default()).unwrap();
            assert_eq!(found.mode, bits | 0o770, "{kind:?}");
            assert_eq!(node.posix_acl().unwrap(), None);
            assert_eq!(node.security_descriptor().unwrap().as_deref(), Some(&NEW[..]));
        }
    }

    #[test]
    fn taking_ownership_clears_set_id_bits() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let Some((_folder, node)) = node(FileKind::File) else { return };
        let set_ids = AttributeChanges { mode: Some(0o6755), ..AttributeChanges::default() };
        node.set_attributes(Actor::SUPERUSER, &set_ids).unwrap();
        let taker = Identity { uid: 1002, gid: 1002, groups: Vec::new() };
        let permissions = list(7, 7);
        let change = SecurityChange {
            descriptor: Some(&NEW),
            owner: OwnerChange { uid: Some(1002), gid: None },
            permissions: Some(&permissions),
        };
        node.set_security(taker.actor(), &change).unwrap();
        let found = node.attributes(AttributeRequest::default()).unwrap();
        assert_eq!((found.uid, found.mode), (1002, 0o770));
        assert_eq!(node.security_descriptor().unwrap().as_deref(), Some(&NEW[..]));
    }
}
