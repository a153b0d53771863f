//! Recently created files that the backend remembers
//! ([`vfs::NameCache::cached_attributes_and_handle`]): lookup and removal by name without opening
//! them.

use super::{Object, ObjectHandle, VolumeId};
use crate::authorize::{allowed_by, posix_forbids_removal, rights_to};
use crate::close::INLINE_FREE_BYTES_MAX;
use crate::context::RequestContext;
use crate::open::OpenTicket;
use crate::pending_removal::remove_pending_name;
use crate::rename_turns::{RenameSubject, TurnRequest};
use crate::server_work::LOCATE;
use crate::table::{DeletePendingName, OpenedEntry, RegisteredOpen};
use crate::{Access, Caller, RequestFiles, ShareMode, Volume};
use acl::ExecuteRule;
use grants::{CacheOwner, OpenWish};
use std::sync::Arc;
use vfs::{Attributes, Case, FileKind, Name, NodeHandle, OpenWithSecurity, RelPath, Result, Wait};

impl RequestFiles {
    /// Handle and attributes of the file `name` in `directory`, if the backend knows both without
    /// opening it. `volume` identifies the directory's volume; the attributes are those of
    /// [`RequestFiles::lookup_with_attributes`].
    #[must_use]
    pub fn lookup_remembered(
        &self,
        caller: &Caller,
        directory: &Object,
        name: &Name,
        volume: VolumeId,
    ) -> Option<(ObjectHandle, Attributes)> {
        let (attributes, node) =
            directory.remembered(&self.context, caller, &directory.path.join(name))?;
        Some((self.seal(volume, node), attributes))
    }

    /// Removes a file without opens, like [`RequestFiles::remove_object`]. None, without any
    /// effect, if the removal needs a lookup.
    ///
    /// # Errors
    /// As [`RequestFiles::remove_object`].
    pub(super) fn remove_remembered(
        &self,
        caller: &Arc<Caller>,
        directory: &Object,
        name: &Name,
    ) -> Option<Result<()>> {
        let (table, volume) = (&self.table, &directory.volume);
        let removable = Access::DELETE | Access::DELETE_CHILD;
        if volume.is_unchangeable() || !volume.max_access().contains(removable) {
            return None;
        }
        let (epoch, removals) = (table.rename_turns.epoch(), table.removals());
        let path = directory.path.join(name);
        let (attributes, _) = directory.remembered(&self.context, caller, &path)?;
        let is_small = attributes.size_bytes <= INLINE_FREE_BYTES_MAX && attributes.links == 1;
        if !is_small
            || !directory_grants_removal(
                &self.context,
                volume,
                caller,
                &directory.path,
                &attributes,
            )
            || table.find(attributes.key).is_some()
        {
            return None;
        }
        let root_device = volume.vfs_serial();
        table.rename_turns.note_device(root_device, attributes.key.device);
        let change = TurnRequest { root_device, file: attributes.key, moves_directory: false };
        // The turn excludes a rename of the file, or to its name.
        let _turn = table.rename_turns.try_take(&change, &[directory.key()])?;
        let ticket = self.enter_removal(volume, &path, &attributes)?;
        // Renames and removals see the registered removal from here on.
        let subject = RenameSubject::new(volume, Some(attributes.key), &path);
        let is_still_so = table.rename_turns.is_current(epoch, subject)
            && table.removals() == removals
            && volume.names().path_since(self.context.call(LOCATE), &*directory.node).as_ref()
                == Ok(&directory.path);
        // Delegations and leases need a recall first.
        if !is_still_so || ticket.has_caches() {
            return None;
        }
        let id = ticket.id();
        let (RegisteredOpen { state, name, .. }, _) = ticket.complete(&self.context);
        let mut held = state.lock(&self.context);
        held.grants.handle_disposition(id, true);
        held.grants.caches.handle_name_change(CacheOwner::Open(id));
        held.set_delete_pending(DeletePendingName {
            name,
            caller: caller.clone(),
            parent_key: None,
        });
        drop(held);
        let removal = table.close(&self.context, &state, id, true);
        Some(removal.map_or(Ok(()), |removal| {
            remove_pending_name(&self.context, table, &state, removal, (None, None))
        }))
    }

    fn enter_removal(
        &self,
        volume: &Arc<Volume>,
        path: &RelPath,
        attributes: &Attributes,
    ) -> Option<OpenTicket> {
        let (key, size_bytes) = (attributes.key, attributes.size_bytes);
        let (is_directory, only_link) = (false, true);
        let entry = OpenedEntry { size_bytes, key, is_directory, volume, path, only_link };
        let id = self.new_open_id();
        let wish = OpenWish { posix: true, ..OpenWish::new(id, Access::DELETE, ShareMode::ALL) };
        let entered = self.table.open(&self.context, &entry, wish, None).ok()?;
        Some(OpenTicket::new(&self.table, entered, id, None, None))
    }
}

impl Object {
    fn remembered(
        &self,
        context: &RequestContext,
        caller: &Caller,
        path: &RelPath,
    ) -> Option<(Attributes, NodeHandle)> {
        if self.kind() != FileKind::Directory {
            return None;
        }
        self.volume.options.veto_names.check(path, false).ok()?;
        let actor = context.call(caller.identity.actor());
        self.volume.names().cached_attributes_and_handle(actor, &*self.node, path)
    }
}

/// Whether the cached directory lets the caller remove a file with these attributes.
fn directory_grants_removal(
    context: &RequestContext,
    volume: &Volume,
    caller: &Caller,
    directory: &RelPath,
    attributes: &Attributes,
) -> bool {
    let mut is_refused = false;
    let by_directory = || {
        let (identity, case, wait) = (&caller.identity, Case::Sensitive, Wait::Never);
        let Ok(known) =
            volume.names().open_directory(context.call(identity.actor()), directory, case, wait)
        else {
            return Access::NONE;
        };
        let OpenWithSecurity { opened, security } = &known;
        is_refused = posix_forbids_removal(caller, &opened.attributes, attributes.uid);
        let subject = (&*opened.node, &opened.attributes, security.as_deref());
        rights_to(volume, caller, subject, ExecuteRule::WithRead)
    };
    let allowed = allowed_by(volume, caller, by_directory);
    allowed.contains(Access::DELETE_CHILD) && !is_refused
}
