//! Attributes of objects, and the caller's access to them.

use super::{Object, ObjectOpen, OpenAt};
use crate::authorize::{
    EffectiveSecurity, as_owner, check_new_owner, dos_authority, is_own, permitted_mode, rights_to,
    stored, withheld_by_readonly, withheld_by_system,
};
use crate::server_work::{LOCATE, WANTED};
use crate::watch::{ChangeAction, WatchFilter};
use crate::{Access, Caller, OpenFile, OpenPlan, RequestFiles, ShareMode};
use acl::{ExecuteRule, PosixAcl};
use std::sync::Arc;
use vfs::{
    Actor, AttributeChanges, AttributeRequest, Attributes, DosInfo, ElevationReason, FileKind,
    FsError, MetadataPresence, Node, OwnerChange, RelPath, Result, SecurityChange, ServerWork,
    TimeChange,
};

/// Changes to an object's attributes; the default changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectChanges {
    /// Permission bits (07777). They replace a stored descriptor.
    pub mode: Option<u32>,
    /// Owner and group.
    pub owner: OwnerChange,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// Access time.
    pub accessed: TimeChange,
    /// Modification time.
    pub modified: TimeChange,
    /// DOS attributes and creation time; a `None` inside keeps that part.
    pub dos: Option<DosInfo>,
}

impl RequestFiles {
    /// Current attributes. [`Attributes::key`] holds the numbers of the file system and of the file
    /// in it, as SMB presents them. [`Attributes::change`] differs after every change.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub fn object_attributes(&self, object: &Object) -> Result<Attributes> {
        let attributes = object.node.attributes(WANTED)?;
        Ok(object.volume.presented(object.path.as_bytes(), attributes))
    }

    /// Current attributes without [`Attributes::dos`] and [`Attributes::stored`], which take
    /// longer.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub fn object_attributes_alone(&self, object: &Object) -> Result<Attributes> {
        object.node.attributes(AttributeRequest::default())
    }

    /// Change attribute of a directory before one of its names changes; see
    /// [`vfs::NameCache::cached_change_attribute`].
    #[must_use]
    pub fn change_before(&self, directory: &Object) -> u64 {
        let known = directory
            .volume
            .names()
            .cached_change_attribute(&*directory.node, self.context.order());
        known.unwrap_or_else(|| self.change_after(directory))
    }

    /// Change attribute of a directory after a name has changed.
    #[must_use]
    pub fn change_after(&self, directory: &Object) -> u64 {
        directory
            .volume
            .names()
            .change_attribute(self.context.call(LOCATE), &*directory.node)
            .unwrap_or_default()
    }

    /// All rights of the caller to the object, as open, read and write check them. For a directory,
    /// the rights to its entries share the same bits.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub fn object_access(&self, caller: &Caller, object: &Object) -> Result<Access> {
        self.object_access_as_seen(caller, object, None)
    }

    /// As [`RequestFiles::object_access`], with attributes that this request may have read already.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub fn object_access_as_seen(
        &self,
        caller: &Caller,
        object: &Object,
        seen: Option<Attributes>,
    ) -> Result<Access> {
        // DOS attributes of a directory withhold no rights.
        let is_directory = object.kind() == FileKind::Directory;
        let wanted = if is_directory { AttributeRequest::default() } else { WANTED };
        let is_all = |seen: &Attributes| is_directory || seen.stored != MetadataPresence::UNKNOWN;
        let attributes = match seen.filter(is_all) {
            Some(seen) => seen,
            None => object.node.attributes(wanted)?,
        };
        let subject = (&*object.node, &attributes, None);
        let rights = rights_to(&object.volume, caller, subject, ExecuteRule::ByBit);
        let withheld =
            withheld_by_readonly(&attributes) | withheld_by_system(&object.volume, &attributes);
        Ok((rights - withheld) | Access::READ_ATTRIBUTES)
    }

    /// Changes attributes, the size first. Delegations of other clients are recalled before, which
    /// may take long. The size is changed through `by` if given, as by a write; otherwise through a
    /// new open, which may conflict with others.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] where POSIX (or a stored descriptor) refuses,
    /// [`FsError::ShareViolation`], [`FsError::LockConflict`], [`FsError::ReadOnly`],
    /// [`FsError::OpenMode`] if `by` may not write, [`FsError::IsDirectory`],
    /// [`FsError::InvalidOwner`], [`FsError::NoSpace`], [`FsError::TooLarge`].
    pub async fn set_object_attributes(
        &self,
        caller: &Arc<Caller>,
        object: &Object,
        by: Option<&Arc<OpenFile>>,
        changes: &ObjectChanges,
    ) -> Result<()> {
        self.set_attributes_of(caller, object, by, (changes, Lifecycle::Present)).await
    }

    /// Sets the attributes that a create request names on the new object. The inherited descriptor
    /// does not restrict them.
    ///
    /// # Errors
    /// As [`RequestFiles::set_object_attributes`].
    pub async fn initialise_object_attributes(
        &self,
        caller: &Arc<Caller>,
        object: &Object,
        by: Option<&Arc<OpenFile>>,
        changes: &ObjectChanges,
    ) -> Result<()> {
        self.set_attributes_of(caller, object, by, (changes, Lifecycle::Created)).await
    }

    async fn set_attributes_of(
        &self,
        caller: &Arc<Caller>,
        object: &Object,
        by: Option<&Arc<OpenFile>>,
        (changes, lifecycle): (&ObjectChanges, Lifecycle),
    ) -> Result<()> {
        object.volume.check_changeable()?;
        self.recall(object.key(), by.map(|open| &**open)).await?;
        let mut changes = *changes;
        if let Some(size_bytes) = changes.size_bytes {
            self.set_object_size(caller, object, by, size_bytes).await?;
            if changes.modified == TimeChange::Now {
                // Setting the size did so, even to the same value.
                changes.modified = TimeChange::Keep;
            }
        }
        let what = watched(&changes);
        if what == WatchFilter::default() && changes.dos.is_none() {
            return Ok(());
        }
        let (caller, object) = (caller.clone(), object.clone());
        let (table, context) = (self.table.clone(), self.context.clone());
        // The object is open, so this reads and writes no more than a create does.
        let is_quick = object.volume.vfs.creates_without_waiting();
        let call = move || {
            let node = &*object.node;
            let sets_times = [changes.accessed, changes.modified] != [TimeChange::Keep; 2];
            let open_file = sets_times.then(|| table.find(object.key())).flatten();
            let unstored = open_file.as_ref().and_then(|file| file.unstored_access_time(node));
            change(&caller, &object, &changes, lifecycle)?;
            // A refused change moves no time.
            let left = unstored.filter(|_| changes.accessed == TimeChange::Keep);
            open_file.iter().for_each(|file| file.note_object_times(node, left));
            if !table.reports_changes() {
                return Ok(());
            }
            let path = object.present_path().unwrap_or(RelPath::nameless(object.key()));
            let vfs = &object.volume.vfs;
            table.break_directory_of(&context, vfs, &caller, &path, None);
            table.watches.report(vfs, Some(&caller), what, &[(ChangeAction::Modified, &path)]);
            Ok(())
        };
        if is_quick { call() } else { self.offload(call).await }
    }

    /// Advances the times of a file whose write delegation holder has unsent changes, so that each
    /// query sees a change. `caller` makes the query. RFC 8881 10.4.3.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub async fn touch_delegated(&self, caller: &Arc<Caller>, object: &Object) -> Result<()> {
        let (caller, object, table) = (caller.clone(), object.clone(), self.table.clone());
        let context = self.context.clone();
        self.offload(move || {
            let now = AttributeChanges { modified: TimeChange::Now, ..AttributeChanges::default() };
            object.node.set_attributes(Actor::server(ServerWork::DelegatedWrite), &now)?;
            let path = object.present_path().unwrap_or(RelPath::nameless(object.key()));
            let (vfs, change) = (&object.volume.vfs, [(ChangeAction::Modified, &path)]);
            table.break_directory_of(&context, vfs, &caller, &path, None);
            table.watches.report(vfs, Some(&caller), WatchFilter::LAST_WRITE, &change);
            Ok(())
        })
        .await
    }

    async fn set_object_size(
        &self,
        caller: &Arc<Caller>,
        object: &Object,
        by: Option<&Arc<OpenFile>>,
        size_bytes: u64,
    ) -> Result<()> {
        match object.kind() {
            FileKind::File => {}
            FileKind::Directory => return Err(FsError::IsDirectory),
            FileKind::Symlink => return Err(FsError::IsSymlink),
            _ => return Err(FsError::InvalidParameter),
        }
        if let Some(open) = by {
            if !open.granted().contains(Access::WRITE_DATA) || open.key() != object.key() {
                return Err(FsError::OpenMode);
            }
            return self.set_size(caller, open, size_bytes).await;
        }
        let plan = OpenPlan::posix(Access::WRITE_DATA, ShareMode::ALL);
        let at = OpenAt::Object(object.clone());
        let open = self.open_object(caller, &at, plan, ObjectOpen::default()).await?.open;
        let result = self.set_size(caller, &open, size_bytes).await;
        self.close(open).await?;
        result
    }
}

/// Filter under which watches report the changes.
fn watched(changes: &ObjectChanges) -> WatchFilter {
    let when = |is, what| if is { what } else { WatchFilter::default() };
    let owner = changes.owner != OwnerChange::default();
    when(owner || changes.mode.is_some(), WatchFilter::SECURITY | WatchFilter::ATTRIBUTES)
        | when(changes.accessed != TimeChange::Keep, WatchFilter::LAST_ACCESS)
        | when(changes.modified != TimeChange::Keep, WatchFilter::LAST_WRITE)
        | when(changes.dos.is_some_and(|dos| dos.bits.is_some()), WatchFilter::ATTRIBUTES)
        | when(changes.dos.is_some_and(|dos| dos.created.is_some()), WatchFilter::CREATION)
}

/// Whether an object existed before the request that changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lifecycle {
    /// The request creates it, and its creator sets the first attributes.
    Created,
    /// A stored descriptor decides about changes, also for its owner.
    Present,
}

/// Changes all attributes but the size.
fn change(
    caller: &Caller,
    object: &Object,
    changes: &ObjectChanges,
    lifecycle: Lifecycle,
) -> Result<()> {
    let ObjectChanges { mode, owner, accessed, modified, dos, .. } = *changes;
    let changed = AttributeChanges { mode, owner, accessed, modified, dos, changed: None };
    let node = &object.node;
    // DOS attributes are extended attributes, for which the kernel requires the w bit even of the
    // owner.
    if !caller.is_root() && (dos.is_some() || stored(&**node).is_some()) {
        change_checked(caller, object, changed, lifecycle)?;
    } else {
        match node.set_attributes(caller.identity.actor(), &changed) {
            Err(FsError::AccessDenied) => change_checked(caller, object, changed, lifecycle)?,
            other => other?,
        }
    }
    if mode.is_none() {
        return Ok(());
    }
    let removed = SecurityChange::default();
    match node.set_security(caller.identity.actor(), &removed) {
        Err(FsError::NotSupported) => Ok(()),
        other => other,
    }
}

/// Makes the changes that the effective descriptor or permissions grant, beyond the kernel's check.
/// Owner and group are limited to the caller's own, and set-ID bits to the owner's.
fn change_checked(
    caller: &Caller,
    object: &Object,
    mut changes: AttributeChanges,
    lifecycle: Lifecycle,
) -> Result<()> {
    let node = &object.node;
    let present = node.attributes(AttributeRequest::default())?;
    check_new_owner(caller, &present, changes.owner)?;
    let is_creator = lifecycle == Lifecycle::Created && is_own(caller, &present);
    if !is_creator && !lets_change(caller, object, &present, &changes) {
        return Err(FsError::AccessDenied);
    }
    changes.mode = changes.mode.map(|mode| permitted_mode(caller, &present, mode));
    let owner = std::mem::take(&mut changes.owner);
    if owner != OwnerChange::default() {
        let taken = AttributeChanges { owner, ..AttributeChanges::default() };
        let taker = match is_present_owner(caller, &present, owner) {
            true => caller.identity.actor(),
            false => Actor::elevate(&caller.identity, ElevationReason::TakeOwnership),
        };
        match changes.mode {
            None => node.set_attributes(taker, &taken)?,
            Some(next) => chown_with_narrowed_mode(caller, (&**node, &present), next, || {
                node.set_attributes(taker, &taken)
            })?,
        }
    }
    if let Some(dos) = changes.dos.take() {
        let marked = AttributeChanges { dos: Some(dos), ..AttributeChanges::default() };
        node.set_attributes(dos_authority(caller, &present).actor(), &marked)?;
    }
    if changes == AttributeChanges::default() {
        return Ok(());
    }
    node.set_attributes(as_owner(caller, &present).actor(), &changes)
}

/// Changes the owner of a file that then gets the mode `next`. A power failure in between must not
/// grant access that neither the old nor the new state grants.
fn chown_with_narrowed_mode(
    caller: &Caller,
    (node, present): (&dyn Node, &Attributes),
    next: u32,
    give: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let set = |mode| {
        let changes = AttributeChanges { mode: Some(mode), ..AttributeChanges::default() };
        node.set_attributes(as_owner(caller, present).actor(), &changes)
    };
    let list = node.posix_acl().unwrap_or_default();
    let narrowed = acl::narrowed_mode(present.mode, list.as_ref(), &PosixAcl::of_mode(next));
    let is_narrowed = narrowed & 0o777 != present.mode & 0o777;
    if is_narrowed {
        set(narrowed)?;
    }
    let given = give();
    if given.is_err() && is_narrowed {
        set(permitted_mode(caller, present, present.mode))?;
    }
    given
}

/// Whether `owner` names the present owner and group. This changes nothing, and chown(2) permits
/// it.
fn is_present_owner(caller: &Caller, present: &Attributes, owner: OwnerChange) -> bool {
    is_own(caller, present)
        && owner.uid.is_none_or(|uid| uid == present.uid)
        && owner.gid.is_none_or(|gid| gid == present.gid)
}

/// Whether the caller may make these changes. A stored descriptor grants them; permissions grant
/// DOS attributes. The right to write permits setting times to now, also one alone, for which the
/// kernel requires ownership.
fn lets_change(
    caller: &Caller,
    object: &Object,
    present: &Attributes,
    changes: &AttributeChanges,
) -> bool {
    let in_force = EffectiveSecurity::of(&*object.node, present);
    let rights = in_force.rights(&object.volume, caller);
    let AttributeChanges { accessed, modified, owner, .. } = *changes;
    let times_alone = AttributeChanges { accessed, modified, ..AttributeChanges::default() };
    let sets = |time| matches!(time, TimeChange::Set(_));
    if *changes == times_alone && !sets(accessed) && !sets(modified) {
        return rights.intersects(Access::WRITE_DATA | Access::WRITE_ATTRIBUTES);
    }
    // Permissions reserve all but the DOS attributes for the owner.
    let is_owners = in_force.is_stored() || is_own(caller, present);
    let gives = owner != OwnerChange::default() && !is_present_owner(caller, present, owner);
    let needed = [
        (changes.mode.is_some(), is_owners, Access::WRITE_DAC),
        (gives, is_owners, Access::WRITE_OWNER),
        (accessed != TimeChange::Keep, is_owners, Access::WRITE_ATTRIBUTES),
        (modified != TimeChange::Keep, is_owners, Access::WRITE_ATTRIBUTES),
        (changes.dos.is_some(), true, Access::WRITE_ATTRIBUTES),
    ];
    needed.iter().all(|(is, may, right)| !is || *may && rights.contains(*right))
}
