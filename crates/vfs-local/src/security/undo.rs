//! The way back from a change of security that fails.
//!
//! The way leads through the states of the way there. As a new descriptor is stored before permissions
//! change, the former one is, too: as one that counts in each state that permissions are about to have.

use super::{PermissionStep, name, put, stored_value};
use crate::identity::IdentityGuard;
use crate::node::LocalNode;
use crate::ntacl::{self, Counts, StateHash};
use crate::posix_acl::{self, PermissionState};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use vfs::{Actor, Result, ServerWork};

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

    /// Puts back owner and permissions.
    fn restore(&self, state: &PermissionState) -> Result<()>;
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
        match self.put_xattr(name(), value, XattrFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::NODATA) if value.is_none() => Ok(()),
            Err(errno) => Err(crate::errors::refusal("put descriptor back", errno)),
        }
    }

    fn perform(&self, step: PermissionStep<'_>, uid: u32, who: Actor<'_>) -> Result<u32> {
        step.perform(self, uid, who)
    }

    fn restore(&self, state: &PermissionState) -> Result<()> {
        let _acting = IdentityGuard::server(ServerWork::UndoSecurity)?;
        posix_acl::restore(self, state)
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
    /// The permissions before each executed call, in order.
    found: Vec<&'a PermissionState>,
}

/// The executed part of a change.
#[derive(Debug)]
pub struct UndoLog<'a> {
    uid: u32,
    /// None where the new descriptor is stored last: see [`super::store`].
    former: Option<FormerDescriptor>,
    batches: Vec<UndoBatch<'a>>,
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
        self.batches.push(UndoBatch { states, found: Vec::new() });
    }

    /// A call is about to be made, which finds these permissions.
    pub fn add(&mut self, found: &'a PermissionState) {
        self.batches.iter_mut().last().into_iter().for_each(|batch| batch.found.push(found));
    }

    /// Whether the new descriptor is in force with these permissions.
    pub fn is_stored_for(&self, state: &StateHash) -> bool {
        self.has_value() && self.batches.last().is_some_and(|batch| batch.states.contains(state))
    }

    /// Puts everything back. The first call that fails ends it: what comes after it relies on it.
    pub fn undo(&self, target: &impl SecurityTarget) {
        if self.batches.is_empty() {
            return;
        }
        let undone = self.batches.iter().rev().try_for_each(|batch| self.undo_batch(target, batch));
        let undone = undone.and_then(|()| match &self.former {
            Some(former) => target.put_back(former.value.as_deref()),
            None => Ok(()),
        });
        if let Err(error) = undone {
            tracing::error!(
                ?error,
                "a change of owner and permissions has failed and cannot be undone: check the file's \
                 permissions"
            );
        }
    }

    fn undo_batch(&self, target: &impl SecurityTarget, batch: &UndoBatch<'_>) -> Result<()> {
        match &self.former {
            Some(FormerDescriptor { in_force: Some(descriptor), .. }) => {
                target.put(descriptor, batch.states)?;
            }
            Some(former) => target.put_back(former.value.as_deref())?,
            None => {}
        }
        batch.found.iter().rev().try_for_each(|state| target.restore(state))
    }
}

impl FormerDescriptor {
    fn of(target: &impl SecurityTarget, present: &PermissionState) -> Result<Self> {
        let value = target.value()?;
        let stored = value.as_deref().and_then(ntacl::decode);
        let in_force = stored.filter(|stored| match &stored.counts {
            Counts::Always => true,
            Counts::While(states) => states.contains(&present.hash()),
            Counts::Unknown => false,
        });
        Ok(Self { in_force: in_force.map(|stored| stored.descriptor), value })
    }
}

#[cfg(test)]
mod tests;
