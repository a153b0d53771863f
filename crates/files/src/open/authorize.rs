//! Stage 4: check the caller's rights. MS-FSA 2.1.5.1.1, 2.1.5.1.2.

use super::resolve::ResolvedNode;
use super::{OpenInProgress, OpenPlan, READS, RequestedKind, WRITES};
use crate::authorize::{
    allowed, allowed_by, may_add_known, posix_forbids_removal, rights_to, rights_to_opened,
    stored_lets_remove, withheld_by_readonly,
};
use crate::shown_link::leads_to_directory;
use crate::volume::dos;
use acl::{Access, Descriptor, ExecuteRule};
use vfs::{FileKind, FsError, Identity, OpenWithSecurity, OpenedNode, Result, Wait};

impl OpenInProgress {
    /// Checks that the node is of the requested kind.
    pub(super) fn check_kind(&self, opened: &OpenedNode) -> Result<()> {
        let OpenPlan { kind: wished, no_follow, .. } = &self.plan;
        let kind = opened.attributes.kind;
        let is_directory = kind == FileKind::Directory;
        if kind == FileKind::Symlink && self.is_posix() && !no_follow {
            return Err(FsError::IsSymlink);
        }
        match wished {
            RequestedKind::File if is_directory => Err(FsError::IsDirectory),
            // Windows opens a link to a directory so, to remove it. MS-FSCC 2.6: such a link is a
            // directory there.
            RequestedKind::Directory if kind == FileKind::Symlink && !self.is_posix() => {
                let leads = leads_to_directory(&self.volume, &self.caller, &opened.path);
                leads.then_some(()).ok_or(FsError::NotDirectory)
            }
            RequestedKind::Directory if !is_directory => Err(FsError::NotDirectory),
            _ if is_directory && self.replaces() => Err(FsError::AlreadyExists),
            _ => Ok(()),
        }
    }

    /// Returns the rights granted to an open of an existing node.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if a requested right is missing, [`FsError::PrivilegeNotHeld`] if
    /// that is ACCESS_SYSTEM_SECURITY, [`FsError::ReadOnly`] if the volume is the reason,
    /// [`FsError::WouldBlock`] by `wait`.
    pub(super) fn authorize(&self, found: &ResolvedNode, wait: Wait) -> Result<Access> {
        if self.volume.options.frozen && (self.replaces() || self.plan.delete_on_close) {
            return Err(FsError::ReadOnly);
        }
        if self.removes_by_directory && self.volume.max_access().contains(self.desired) {
            return Ok(self.desired);
        }
        let maximum = self.desired.contains(Access::MAXIMUM_ALLOWED);
        let named = self.desired - Access::MAXIMUM_ALLOWED;
        let attributes = &found.opened.attributes;
        let (node, security) = (&*found.opened.node, found.security.as_deref());
        let subject = (node, attributes, security);
        let mut allowed = rights_to(&self.volume, &self.caller, subject, self.execute_rule());
        if !allowed.contains(Access::DELETE)
            && (maximum || named.contains(Access::DELETE))
            && self.parent_lets_delete(Some(&found.opened), wait)?
        {
            allowed |= Access::DELETE & self.volume.max_access();
        }
        if self.reads_by_executing(&found.opened, allowed) {
            allowed |= Access::READ_DATA;
        }
        // The right to list the parent implies reading its children's attributes.
        allowed |= Access::READ_ATTRIBUTES;
        let missing =
            (named | if self.replaces() { Access::WRITE_DATA } else { Access::NONE }) - allowed;
        if missing.contains(Access::SYSTEM_SECURITY) {
            return Err(FsError::PrivilegeNotHeld);
        }
        if !missing.is_empty() {
            let by_share = self.volume.options.read_only && missing.intersects(WRITES);
            return Err(if by_share { FsError::ShareReadOnly } else { FsError::AccessDenied });
        }
        if !maximum {
            return Ok(named);
        }
        // MAXIMUM_ALLOWED excludes rights that POSIX or the read-only attribute refuses.
        let is_readonly = !withheld_by_readonly(attributes).is_empty();
        let is_directory = attributes.kind == FileKind::Directory;
        if !is_directory && (is_readonly || !found.writes) && !self.volume.options.frozen {
            allowed = allowed - (WRITES | Access::DELETE_CHILD);
        }
        if !found.reads {
            allowed = allowed - READS;
        }
        Ok((allowed - Access::SYSTEM_SECURITY) | named)
    }

    /// Checks the DOS attributes read-only, hidden and system. MS-FSA 2.1.5.1.2.
    pub(super) fn check_bits(
        &self,
        opened: &OpenedNode,
        granted: Access,
        wait: Wait,
    ) -> Result<()> {
        let attributes = &opened.attributes;
        let bits = attributes.dos.bits.unwrap_or(0);
        let writes = self.replaces() || self.desired.intersects(WRITES);
        if writes && !withheld_by_readonly(attributes).is_empty() {
            return Err(FsError::AccessDenied);
        }
        // An overwrite must repeat the hidden and system attributes of the file.
        let hidden_or_system = bits & (dos::HIDDEN | dos::SYSTEM);
        if self.replaces() && !self.is_posix() && hidden_or_system & !self.plan.dos_bits != 0 {
            return Err(FsError::AccessDenied);
        }
        if !self.plan.delete_on_close {
            return Ok(());
        }
        if !granted.contains(Access::DELETE) || self.plan.path.is_root() {
            return Err(FsError::AccessDenied);
        }
        let is_undeletable = bits & dos::READONLY != 0 && !self.is_posix();
        if is_undeletable || self.volume.is_unchangeable() {
            return Err(FsError::CannotDelete);
        }
        // Refused now: at close no caller receives the error.
        let parent = self.parent_within(wait)?;
        let file = (&*opened.node, attributes);
        if posix_forbids_removal(&self.caller, &parent.opened.attributes, attributes.uid)
            && !stored_lets_remove(&self.volume, &self.caller, file, &parent.opened)
        {
            return Err(FsError::AccessDenied);
        }
        Ok(())
    }

    /// Whether the directory grants removal of `child`, or of any child if none: by DELETE_CHILD,
    /// and by its sticky bit where no stored descriptor decides.
    ///
    /// # Errors
    /// [`FsError::WouldBlock`] if the directory is not cached, with [`Wait::Never`].
    pub(super) fn parent_lets_delete(
        &self,
        child: Option<&OpenedNode>,
        wait: Wait,
    ) -> Result<bool> {
        let mut would_block = false;
        let (volume, caller) = (&*self.volume, &*self.caller);
        let by_parent = || {
            let parent = self.parent_within(wait);
            would_block = matches!(parent, Err(FsError::WouldBlock));
            let Ok(parent) = parent else { return Access::NONE };
            let OpenWithSecurity { opened, security } = &parent;
            // Without a child, the answer must hold for a child of any other user.
            let owner = child.map_or(Identity::INVALID_ID, |child| child.attributes.uid);
            if posix_forbids_removal(caller, &opened.attributes, owner)
                && !child.is_some_and(|child| {
                    let file = (&*child.node, &child.attributes);
                    stored_lets_remove(volume, caller, file, opened)
                })
            {
                return Access::NONE;
            }
            let subject = (&*opened.node, &opened.attributes, security.as_deref());
            rights_to(&self.volume, &self.caller, subject, ExecuteRule::WithRead)
        };
        let has_parent = !self.plan.path.is_root() && !self.plan.path.is_nameless();
        let lets = has_parent
            && allowed_by(&self.volume, &self.caller, by_parent).contains(Access::DELETE_CHILD);
        if would_block { Err(FsError::WouldBlock) } else { Ok(lets) }
    }

    /// Checks that the caller may create here. Returns the directory and its stored descriptor.
    /// Without one, the backend applies POSIX rules at creation.
    pub(super) fn authorize_create(
        &self,
        is_directory: bool,
    ) -> Result<(OpenedNode, Option<Descriptor>)> {
        let plan = &self.plan;
        self.volume.check_changeable()?;
        if plan.delete_on_close && plan.dos_bits & dos::READONLY != 0 {
            return Err(FsError::CannotDelete);
        }
        if plan.delete_on_close
            && !self.desired.intersects(Access::DELETE | Access::MAXIMUM_ALLOWED)
        {
            return Err(FsError::AccessDenied);
        }
        let audits = self.desired.contains(Access::SYSTEM_SECURITY);
        if audits && !self.caller.token.may_audit && !self.caller.is_root() {
            return Err(FsError::PrivilegeNotHeld);
        }
        let parent = self.parent()?;
        let OpenedNode { attributes, path, .. } = &parent.opened;
        if self.table.is_directory_delete_pending(attributes.key, &self.volume.vfs, path) {
            return Err(FsError::DeletePending);
        }
        let known = (&parent.opened, parent.security.as_deref());
        let descriptor = may_add_known(&self.volume, &self.caller, known, is_directory)?;
        Ok((parent.opened, descriptor))
    }

    /// Rights of the creator: all that it requested, whatever the file inherits.
    pub(super) fn granted_to_creator(
        &self,
        opened: &OpenedNode,
        descriptor: Option<&Descriptor>,
    ) -> Access {
        let named = self.desired - Access::MAXIMUM_ALLOWED;
        if !self.desired.contains(Access::MAXIMUM_ALLOWED) {
            return named;
        }
        let rights = match descriptor {
            Some(descriptor) => allowed(&self.volume, &self.caller, descriptor),
            None => rights_to_opened(&self.volume, &self.caller, opened),
        };
        (rights - Access::SYSTEM_SECURITY) | named
    }
}
