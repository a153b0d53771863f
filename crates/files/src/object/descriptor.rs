//! ACLs of objects: the descriptors that SMB presents, also as lists with named principals.

use super::{Object, ObjectOpen, OpenAt};
use crate::{Access, Ace, Caller, Descriptor, OpenPlan, RequestFiles, SecurityParts, ShareMode};
use acl::{NamedList, NamedWho, Sid, control};
use std::sync::Arc;
use vfs::{AttributeRequest, FileKind, FsError, Result};

/// The DACL alone.
const LIST: SecurityParts = SecurityParts { owner: false, group: false, dacl: true, sacl: false };

/// Maximum size of a stored ACL: a descriptor has 64 KiB, including a SACL.
const LIST_BYTES_MAX: usize = 48 * 1024;

impl RequestFiles {
    /// Parts of the effective descriptor.
    ///
    /// # Errors
    /// [`vfs::FsError::AccessDenied`] if the caller may not read them.
    pub async fn object_descriptor(
        &self,
        caller: &Arc<Caller>,
        object: &Object,
        parts: SecurityParts,
    ) -> Result<Descriptor> {
        let open = self.open_for(caller, object, Access::READ_CONTROL).await?;
        let result = self.descriptor(&open, parts);
        self.close(open).await?;
        result
    }

    /// Replaces parts of the descriptor; POSIX owner and permissions follow.
    ///
    /// # Errors
    /// As [`RequestFiles::set_descriptor`].
    pub async fn set_object_descriptor(
        &self,
        caller: &Arc<Caller>,
        object: &Object,
        new: &Descriptor,
        parts: SecurityParts,
    ) -> Result<()> {
        self.recall(object.key(), None).await?;
        let owner = if parts.owner || parts.group { Access::WRITE_OWNER } else { Access::NONE };
        let list = if parts.dacl { Access::WRITE_DAC } else { Access::NONE };
        let open = self.open_for(caller, object, owner | list).await?;
        let result = self.set_descriptor(&open, new, parts);
        self.close(open).await?;
        result
    }

    /// The effective ACL with named principals. It omits entries without rights, and synthesised
    /// ones for the system that no permission bit represents.
    ///
    /// # Errors
    /// As [`RequestFiles::object_descriptor`].
    pub async fn object_acl(&self, caller: &Arc<Caller>, object: &Object) -> Result<NamedList> {
        let shown = self.object_descriptor(caller, object, LIST).await?;
        let attributes = object.node.attributes(AttributeRequest::default())?;
        let has = |bit| shown.control & bit != 0;
        let (is_inherited, is_protected) =
            (has(control::DACL_AUTO_INHERITED), has(control::DACL_PROTECTED));
        // A NULL DACL grants everything.
        let everything = || vec![Ace::allow(Sid::everyone(), Access::FILE_ALL)];
        let list = shown.dacl.unwrap_or_else(everything);
        let mut entries = acl::to_named(&list, attributes.uid, attributes.gid);
        if crate::authorize::stored(&*object.node).is_none() {
            entries.retain(|entry| entry.who != NamedWho::Other(Sid::local_system()));
        }
        Ok(NamedList { is_inherited, is_protected, entries })
    }

    /// Replaces the ACL; POSIX permissions follow.
    ///
    /// # Errors
    /// As [`RequestFiles::set_object_descriptor`]; [`FsError::TooLarge`] beyond
    /// [`acl::NAMED_ACES_MAX`] entries or the size of a descriptor.
    pub async fn set_object_acl(
        &self,
        caller: &Arc<Caller>,
        object: &Object,
        list: &NamedList,
    ) -> Result<()> {
        let attributes = object.node.attributes(AttributeRequest::default())?;
        let is_directory = object.kind() == FileKind::Directory;
        let dacl = acl::from_named(&list.entries, attributes.uid, attributes.gid, is_directory);
        let dacl = dacl.ok_or(FsError::TooLarge)?;
        let length: usize = dacl.iter().map(|ace| 8 + ace.sid.length_bytes()).sum();
        if length > LIST_BYTES_MAX {
            return Err(FsError::TooLarge);
        }
        let when = |is, bits| if is { bits } else { 0 };
        let kept_in_step = control::DACL_AUTO_INHERITED | control::DACL_AUTO_INHERIT_REQ;
        let control = control::DACL_PRESENT
            | when(list.is_protected, control::DACL_PROTECTED)
            | when(list.is_inherited, kept_in_step);
        let new = Descriptor { control, dacl: Some(dacl), ..Descriptor::default() };
        self.set_object_descriptor(caller, object, &new, LIST).await
    }

    async fn open_for(
        &self,
        caller: &Arc<Caller>,
        object: &Object,
        access: Access,
    ) -> Result<Arc<crate::OpenFile>> {
        let plan = OpenPlan { no_follow: true, ..OpenPlan::posix(access, ShareMode::ALL) };
        let at = OpenAt::Object(object.clone());
        Ok(self.open_object(caller, &at, plan, ObjectOpen::default()).await?.open)
    }
}
