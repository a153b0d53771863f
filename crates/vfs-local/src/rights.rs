//! Changes of owner and mode, with the rights that the thread has.

use crate::errors::refusal;
use crate::group_mark::note_mode;
use crate::local_node::LocalNode;
use crate::posix_acl::PermissionState;
use crate::{stream_store, streams};
use rustix::fs::{AtFlags, Mode};
use vfs::{AttributeChanges, OwnerChange, PosixAcl, Result};

impl LocalNode {
    /// Changes owner and group with the rights that the thread has.
    pub fn change_owner(&self, owner: OwnerChange) -> Result<()> {
        let uid = owner.uid.map(rustix::fs::Uid::from_raw);
        let gid = owner.gid.map(rustix::fs::Gid::from_raw);
        rustix::fs::chownat(rustix::fs::CWD, self.proc_path(), uid, gid, AtFlags::empty())
            .map_err(|e| refusal("chown", e))?;
        streams::give(self);
        Ok(())
    }

    /// Changes the mode with the rights that the thread has.
    pub fn change_mode(&self, mode: u32) -> Result<()> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        rustix::fs::chmodat(rustix::fs::CWD, self.proc_path(), mode, AtFlags::empty())
            .map_err(|e| refusal("chmod", e))?;
        note_mode(mode);
        Ok(())
    }

    /// Changes owner and mode. A power failure may separate the two calls, so the state in between
    /// grants nobody more than both the old and the new state.
    fn give_with_mode(&self, owner: OwnerChange, mode: u32) -> Result<()> {
        let present = PermissionState::of(self)?;
        let narrowed = present.narrowed_to(&PosixAcl::of_mode(mode));
        let is_narrowed = narrowed & 0o777 != present.mode & 0o777;
        if is_narrowed {
            self.change_mode(narrowed)?;
        }
        let given = self.change_owner(owner);
        if given.is_err() && is_narrowed {
            let now = self.raw_stat()?.st_mode;
            // Another process's change is newer. Set-ID bits stay cleared: the content may have
            // changed since.
            if now & 0o1777 == narrowed & 0o1777 {
                self.change_mode(now & 0o6000 | present.mode & 0o1777)?;
            }
        }
        given.and_then(|()| self.change_mode(mode))
    }

    /// Changes owner and mode with the rights that the thread has. The caller holds the file's
    /// [`security::lock`].
    pub fn change_rights(&self, changes: &AttributeChanges) -> Result<()> {
        let is_given = changes.owner != OwnerChange::default();
        match changes.mode {
            Some(mode) if is_given => self.give_with_mode(changes.owner, mode)?,
            Some(mode) => self.change_mode(mode)?,
            None if is_given => self.change_owner(changes.owner)?,
            None => {}
        }
        if changes.mode.is_some() {
            stream_store::record_known_rights(self);
        }
        Ok(())
    }
}
