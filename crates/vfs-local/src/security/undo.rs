//! The way back from a change of security that fails.
//!
//! The way leads through the states of the way there, and each step back restores only what its step
//! changed. As a new descriptor is stored before permissions
//! change, the former one is, too: as one that counts in each state that permissions are about to have.

use super::{PermissionStep, PlannedStep, SET_IDS, put, stored_value};
use crate::identity::IdentityGuard;
use crate::local_node::LocalNode;
use crate::ntacl::{self, Counts, StateHash};
use crate::posix_acl::{self, PermissionState};
use crate::xattr_names::descriptor_attribute;
use rustix::fs::{FileType, XattrFlags};
use rustix::io::Errno;
use vfs::{Actor, OwnerChange, Result, ServerWork};

/// The calls that a change of security makes of a file. A test lets each of them fail.
pub trait SecurityTarget {
    /// The present permissions.
    fn state(&self) -> Result<PermissionState>;

    /// The stored value, of whatever form.
    fn value(&self) -> Result<Option<Vec<u8>>>;

    /// Stores a descriptor that counts in these states.
    fn put(&self, descriptor: &[u8], states: &[StateHash]) -> Result<()>;

    /// Stores a value as it was, or removes it.
    fn put_back(&self, value: Option<&[u8]>) -> Result<()>;

    /// See [`PermissionStep::perform`].
    fn perform(&self, step: PermissionStep<'_>, uid: u32, who: Actor<'_>) -> Result<u32>;

    /// Takes a step back: restores from a state only what the step changed.
    fn restore(&self, step: PermissionStep<'_>, state: &PermissionState) -> Result<()>;
}

impl SecurityTarget for LocalNode {
    fn state(&self) -> Result<PermissionState> {
        PermissionState::of(self)
    }

    fn value(&self) -> Result<Option<Vec<u8>>> {
        stored_value(self)
    }

    fn put(&self, descriptor: &[u8], states: &[StateHash]) -> Result<()> {
        put(self, Some((descriptor, states)))
    }

    fn put_back(&self, value: Option<&[u8]>) -> Result<()> {
        let _acting = IdentityGuard::server(ServerWork::UndoSecurity)?;
        match self.put_xattr(descriptor_attribute(), value, XattrFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::NODATA) if value.is_none() => Ok(()),
            Err(errno) => Err(crate::errors::refusal("put descriptor back", errno)),
        }
    }

    fn perform(&self, step: PermissionStep<'_>, uid: u32, who: Actor<'_>) -> Result<u32> {
        step.perform(self, uid, who)
    }

    fn restore(&self, step: PermissionStep<'_>, state: &PermissionState) -> Result<()> {
        let _acting = IdentityGuard::server(ServerWork::UndoSecurity)?;
        match step {
            PermissionStep::Mode(_) => self.change_mode(state.mode),
            PermissionStep::Owner(owner) => self.change_owner(owner_of(state, owner)),
            PermissionStep::List(_) => posix_acl::restore_list(self, state),
        }
    }
}

/// A descriptor that was stored before a change.
#[derive(Debug)]
struct FormerDescriptor {
    /// None where none was stored.
    value: Option<Vec<u8>>,
    /// The descriptor of the value, if it was in force.
    in_force: Option<Vec<u8>>,
}

/// Part of a change, in which a stored value counts in each of its states.
#[derive(Debug)]
struct UndoBatch<'a> {
    states: &'a [StateHash],
    /// The executed steps, in order. The last one may have failed.
    steps: Vec<&'a PlannedStep<'a>>,
}

/// The executed part of a change.
#[derive(Debug)]
pub struct UndoLog<'a> {
    uid: u32,
    /// None where the new descriptor is stored last: see [`super::store`].
    former: Option<FormerDescriptor>,
    batches: Vec<UndoBatch<'a>>,
}

/// How an undo ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UndoOutcome {
    Undone,
    /// Another process has changed the permissions since. Its change is newer and stays.
    Overtaken,
}

impl<'a> UndoLog<'a> {
    /// Of a change that has done nothing; `present`: the permissions.
    pub fn new(target: &impl SecurityTarget, present: &PermissionState) -> Result<Self> {
        let former =
            present.is_linked.then(|| FormerDescriptor::of(target, present)).transpose()?;
        Ok(Self { uid: present.uid, former, batches: Vec::new() })
    }

    /// The owner before the change.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Whether the new descriptor is stored before permissions change.
    pub fn has_value(&self) -> bool {
        self.former.is_some()
    }

    /// The new descriptor counts in these states from now on.
    pub fn begin(&mut self, states: &'a [StateHash]) {
        self.batches.push(UndoBatch { states, steps: Vec::new() });
    }

    /// A step is about to be performed.
    pub fn add(&mut self, step: &'a PlannedStep<'a>) {
        self.batches.iter_mut().last().into_iter().for_each(|batch| batch.steps.push(step));
    }

    /// Whether the new descriptor is in force with these permissions.
    pub fn is_stored_for(&self, state: &StateHash) -> bool {
        self.has_value() && self.batches.last().is_some_and(|batch| batch.states.contains(state))
    }

    /// Undoes the change. The first call that fails ends it: what comes after it relies on it.
    ///
    /// The undo acts as the server, so it takes back nothing but the change itself: it ends where
    /// another process has changed permissions or descriptor.
    pub fn undo(&self, target: &impl SecurityTarget) {
        match self.undo_all(target) {
            Ok(UndoOutcome::Undone) => {}
            Ok(UndoOutcome::Overtaken) => warn_of_newer_change(),
            Err(error) => tracing::error!(
                ?error,
                "a change of owner and permissions has failed and cannot be undone: check the file's \
                 permissions"
            ),
        }
    }

    fn undo_all(&self, target: &impl SecurityTarget) -> Result<UndoOutcome> {
        let Some(last) = self.batches.last() else { return Ok(UndoOutcome::Undone) };
        if let Some(former) = &self.former {
            if !has_states(target.value()?.as_deref(), last.states) {
                return Ok(UndoOutcome::Overtaken);
            }
            if former.in_force.is_none() {
                target.put_back(former.value.as_deref())?;
            }
        }
        let mut reached = None;
        for batch in self.batches.iter().rev() {
            for step in batch.steps.iter().rev() {
                let now = target.state()?;
                let is_own = reached == Some(now.hash()) || batch.has_state(&now);
                if !is_own || self.undo_step(target, step, &now)? == UndoOutcome::Overtaken {
                    return self.leave(target, UndoOutcome::Overtaken);
                }
                reached = Some(step.undone(&now).0.hash());
            }
        }
        let left = target.state()?.hash();
        if reached.is_some_and(|reached| reached != left) {
            return self.leave(target, UndoOutcome::Overtaken);
        }
        match &self.former {
            // Set-user-ID and set-group-ID are not restored, so the file has other permissions.
            Some(FormerDescriptor { in_force: Some(descriptor), value })
                if !is_valid_in(value.as_deref(), &left) =>
            {
                target.put(descriptor, &[left])?;
                Ok(UndoOutcome::Undone)
            }
            _ => self.leave(target, UndoOutcome::Undone),
        }
    }

    /// Takes one step back from the present permissions.
    fn undo_step(
        &self,
        target: &impl SecurityTarget,
        step: &PlannedStep<'_>,
        now: &PermissionState,
    ) -> Result<UndoOutcome> {
        let (state, between) = step.undone(now);
        if state == *now {
            return Ok(UndoOutcome::Undone);
        }
        if let Some(FormerDescriptor { in_force: Some(descriptor), .. }) = &self.former {
            let mut states = vec![now.hash()];
            for hash in between.iter().chain([&state]).map(PermissionState::hash) {
                if !states.contains(&hash) {
                    states.push(hash);
                }
            }
            target.put(descriptor, &states)?;
        }
        if target.state()?.hash() != now.hash() {
            return Ok(UndoOutcome::Overtaken);
        }
        target.restore(step.step, &state)?;
        Ok(UndoOutcome::Undone)
    }

    /// Puts the former value back as it was, which counts in the former permissions only.
    fn leave(&self, target: &impl SecurityTarget, outcome: UndoOutcome) -> Result<UndoOutcome> {
        if let Some(former) = &self.former {
            target.put_back(former.value.as_deref())?;
        }
        Ok(outcome)
    }
}

/// Reports a failed change that is not undone.
pub fn warn_of_newer_change() {
    tracing::warn!(
        "a change of owner and permissions has failed and is not undone: another process has \
         changed the file's permissions since"
    );
}

impl UndoBatch<'_> {
    /// True if the change leads through these permissions.
    fn has_state(&self, now: &PermissionState) -> bool {
        let hash = now.hash();
        self.states.contains(&hash)
            || self.steps.iter().any(|PlannedStep { step, before }| match step {
                // A file system without room for the ACL gets a mode: see [`posix_acl::store`].
                PermissionStep::List(list) => {
                    before.without_names(list).iter().any(|state| state.hash() == hash)
                }
                PermissionStep::Mode(_) | PermissionStep::Owner(_) => false,
            })
    }
}

impl PlannedStep<'_> {
    /// The permissions after this step is taken back, and the states between.
    ///
    /// Set-user-ID and set-group-ID of a file are never set again: while they were cleared, other
    /// users may have changed the content, and the bits would run it as the owner or group.
    fn undone(&self, now: &PermissionState) -> (PermissionState, Vec<PermissionState>) {
        let before = &self.before;
        match self.step {
            PermissionStep::Mode(_) => {
                let is_directory = FileType::from_raw_mode(now.mode) == FileType::Directory;
                let set_ids = if is_directory { before.mode } else { now.mode } & SET_IDS;
                let mode = set_ids | before.mode & 0o1777;
                (now.clone().with_mode(mode), vec![now.clone().with_bare_mode(mode)])
            }
            PermissionStep::Owner(owner) => {
                (now.clone().with_owner(owner_of(before, owner)), Vec::new())
            }
            PermissionStep::List(_) => {
                let (state, between) = now.clone().with_list_of(before);
                (state, between.to_vec())
            }
        }
    }
}

/// The owner and group of a state, as far as a change gave others.
fn owner_of(state: &PermissionState, changed: OwnerChange) -> OwnerChange {
    OwnerChange { uid: changed.uid.map(|_| state.uid), gid: changed.gid.map(|_| state.gid) }
}

/// True if a stored value counts in these states.
fn has_states(value: Option<&[u8]>, states: &[StateHash]) -> bool {
    let stored = value.and_then(ntacl::decode);
    stored.is_some_and(|stored| match stored.counts {
        Counts::While(stored) => stored == states,
        Counts::Always | Counts::Unknown => false,
    })
}

/// True if the descriptor of a stored value is in force in a state.
fn is_valid_in(value: Option<&[u8]>, state: &StateHash) -> bool {
    value.and_then(ntacl::decode).is_some_and(|stored| stored.counts.has(state))
}

impl FormerDescriptor {
    fn of(target: &impl SecurityTarget, present: &PermissionState) -> Result<Self> {
        let value = target.value()?;
        let stored = value.as_deref().and_then(ntacl::decode);
        let in_force = stored.filter(|stored| stored.counts.has(&present.hash()));
        Ok(Self { in_force: in_force.map(|stored| stored.descriptor), value })
    }
}

#[cfg(test)]
mod tests;
