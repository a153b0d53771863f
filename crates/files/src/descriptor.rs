//! Security descriptors of open files. MS-FSA 2.1.5.14, 2.1.5.17.

use crate::authorize::{
    as_owner, check_new_owner, facts, owner_group, permitted_mode, rights_to, shown, stored,
};
use crate::frozen_times::MovedTimes;
use crate::watch::WatchFilter;
use crate::{Access, Caller, OpenFile, RequestFiles};
use acl::{Descriptor, ExecuteRule, Sid, control};
use vfs::{
    AttributeChanges, AttributeRequest, Attributes, FsError, OwnerChange, Result, SecurityChange,
};

/// Parts of a descriptor that a call concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecurityParts {
    /// Owner.
    pub owner: bool,
    /// Primary group.
    pub group: bool,
    /// DACL.
    pub dacl: bool,
    /// SACL.
    pub sacl: bool,
}

impl RequestFiles {
    /// Parts of the effective descriptor.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open lacks the right to read them.
    pub fn descriptor(&self, open: &OpenFile, parts: SecurityParts) -> Result<Descriptor> {
        if parts.owner || parts.group || parts.dacl {
            open.need_any(Access::READ_CONTROL)?;
        }
        if parts.sacl {
            open.need_any(Access::SYSTEM_SECURITY)?;
        }
        let attributes = open.node.attributes(AttributeRequest::default())?;
        let mut found = shown(&*open.node, &attributes);
        let keep = |bits: u16, wanted| if wanted { bits } else { 0 };
        let dacl = control::DACL_PRESENT | control::DACL_AUTO_INHERITED | control::DACL_PROTECTED;
        let sacl = control::SACL_PRESENT | control::SACL_AUTO_INHERITED | control::SACL_PROTECTED;
        found.control &= control::SELF_RELATIVE | keep(dacl, parts.dacl) | keep(sacl, parts.sacl);
        found.owner = found.owner.filter(|_| parts.owner);
        found.group = found.group.filter(|_| parts.group);
        found.dacl = found.dacl.filter(|_| parts.dacl);
        found.sacl = found.sacl.filter(|_| parts.sacl);
        Ok(found)
    }

    /// The effective descriptor without a check of rights: for comparison with a client's, never
    /// for a response.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn descriptor_unchecked(&self, open: &OpenFile) -> Result<Descriptor> {
        let attributes = open.node.attributes(AttributeRequest::default())?;
        Ok(shown(&*open.node, &attributes))
    }

    /// Replaces parts of the descriptor; POSIX owner and permissions follow.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open lacks the right, or where no descriptor can be stored;
    /// [`FsError::InvalidOwner`] for an owner that the caller may not set; [`FsError::NoSpace`].
    pub fn set_descriptor(
        &self,
        open: &OpenFile,
        new: &Descriptor,
        parts: SecurityParts,
    ) -> Result<()> {
        open.need_writable()?;
        for (wanted, right) in [
            (parts.owner || parts.group, Access::WRITE_OWNER),
            (parts.dacl, Access::WRITE_DAC),
            (parts.sacl, Access::SYSTEM_SECURITY),
        ] {
            if wanted {
                open.need_any(right)?;
            }
        }
        let attributes = open.node.attributes(AttributeRequest::default())?;
        let mut merged = shown(&*open.node, &attributes);
        check_ownership(open, &merged, new, parts)?;
        if parts.owner {
            merged.owner = new.owner.clone().or(merged.owner);
        }
        if parts.group {
            merged.group = new.group.clone().or(merged.group);
        }
        if parts.dacl {
            merged.dacl = new.dacl.clone();
            merged.control = merge_control(merged.control, new.control);
        }
        if parts.sacl {
            merged.sacl = new.sacl.clone();
            merged.control |= new.control & control::SACL_PRESENT;
        }
        let merged = merged.with_file_rights();
        open.keep_times(MovedTimes::Changed, || store(open, &attributes, &merged, parts))?;
        open.report_modified(&self.context, WatchFilter::SECURITY);
        Ok(())
    }

    /// Sets the permission bits, which replace a stored descriptor.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open lacks WRITE_DAC, [`FsError::ReadOnly`].
    pub fn set_mode(&self, open: &OpenFile, mode: u32) -> Result<()> {
        open.need_writable()?;
        open.need_any(Access::WRITE_DAC)?;
        let attributes = open.node.attributes(AttributeRequest::default())?;
        let caller = &open.caller;
        let changes = AttributeChanges {
            mode: Some(permitted_mode(caller, &attributes, mode)),
            ..AttributeChanges::default()
        };
        let removed =
            SecurityChange { descriptor: None, owner: OwnerChange::default(), permissions: None };
        open.keep_times(MovedTimes::Changed, || {
            open.node.set_attributes(as_owner(caller, &attributes).actor(), &changes)?;
            match open.node.set_security(caller.identity.actor(), &removed) {
                Err(FsError::NotSupported) => Ok(()),
                other => other,
            }
        })?;
        open.report_modified(&self.context, WatchFilter::SECURITY);
        Ok(())
    }

    /// Text of a symbolic link.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] for other kinds.
    pub fn readlink(&self, open: &OpenFile) -> Result<Vec<u8>> {
        open.link_text()
    }

    /// All rights of the open's caller to the file.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub fn maximal_access(&self, open: &OpenFile) -> Result<Access> {
        self.maximal_access_of(open, &open.caller)
    }

    /// All rights of another caller to the file.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn maximal_access_of(&self, open: &OpenFile, caller: &Caller) -> Result<Access> {
        let attributes = open.node.attributes(AttributeRequest::default())?;
        let subject = (&*open.node, &attributes, None);
        let rights = rights_to(open.volume(), caller, subject, ExecuteRule::WithRead);
        Ok(rights - Access::SYSTEM_SECURITY)
    }
}

/// Checks new owners: a caller may take ownership and set its own groups; only root may give a file
/// away. MS-FSA 2.1.5.17.
fn check_ownership(
    open: &OpenFile,
    present: &Descriptor,
    new: &Descriptor,
    parts: SecurityParts,
) -> Result<()> {
    let may_have = |wanted: bool, new: &Option<Sid>, present: &Option<Sid>| match new {
        Some(sid) if wanted && Some(sid) != present.as_ref() => open.caller.token.has(sid),
        _ => true,
    };
    if open.caller.is_root() {
        return Ok(());
    }
    if !may_have(parts.owner, &new.owner, &present.owner) {
        return Err(FsError::InvalidOwner);
    }
    // A group without a local ID, such as one of a foreign domain, grants nothing here. It is
    // stored, as on Windows, and the POSIX group stays.
    let is_foreign = new.group.as_ref().is_some_and(|group| group.as_unix_group().is_none());
    let may_group = is_foreign || may_have(parts.group, &new.group, &present.group);
    if may_group { Ok(()) } else { Err(FsError::AccessDenied) }
}

/// Retains auto-inheritance where it was requested together with its request bit. MS-FSA 2.1.5.17.
fn merge_control(present: u16, new: u16) -> u16 {
    let mut merged = present & !(control::DACL_AUTO_INHERITED | control::DACL_PROTECTED);
    merged |= control::DACL_PRESENT | new & control::DACL_PROTECTED;
    if new & (control::DACL_AUTO_INHERIT_REQ | control::DACL_AUTO_INHERITED)
        == control::DACL_AUTO_INHERIT_REQ | control::DACL_AUTO_INHERITED
    {
        merged |= control::DACL_AUTO_INHERITED;
    }
    merged
}

/// Stores a descriptor; POSIX owner and permissions follow it.
fn store(
    open: &OpenFile,
    attributes: &Attributes,
    merged: &Descriptor,
    parts: SecurityParts,
) -> Result<()> {
    let owner = OwnerChange {
        uid: merged.owner.as_ref().filter(|_| parts.owner).and_then(Sid::as_unix_user),
        gid: merged.group.as_ref().filter(|_| parts.group).and_then(Sid::as_unix_group),
    };
    let mut facts = facts(attributes);
    let owner = OwnerChange {
        uid: owner.uid.filter(|uid| *uid != facts.uid),
        gid: owner.gid.filter(|gid| *gid != facts.gid),
    };
    check_new_owner(&open.caller, attributes, owner)?;
    // chown(2): without a stored descriptor, permission bits continue to decide.
    if open.is_posix() && !parts.dacl && !parts.sacl && stored(&*open.node).is_none() {
        let changes = AttributeChanges { owner, ..AttributeChanges::default() };
        return open.node.set_attributes(open.caller.identity.actor(), &changes);
    }
    facts.uid = owner.uid.unwrap_or(facts.uid);
    facts.gid = owner.gid.unwrap_or(facts.gid);
    let known = merged.clone().with_local_owner(facts.uid, facts.gid);
    let permissions = acl::to_posix(&known, &facts, owner_group(&open.caller, &facts));
    let changes_permissions = parts.owner || parts.group || parts.dacl;
    let change = SecurityChange {
        descriptor: Some(&merged.encode()),
        owner,
        permissions: Some(&permissions).filter(|_| changes_permissions),
    };
    match open.node.set_security(open.caller.identity.actor(), &change) {
        Err(FsError::NotSupported) => Err(FsError::AccessDenied),
        other => other,
    }
}
