//! Access lists of objects: the same descriptors that SMB shows, also as lists of names.

use super::{Object, ObjectOpen, OpenAt};
use crate::{Access, Caller, Descriptor, Files, OpenPlan, SecurityParts, Share};
use acl::NamedAce;
use std::sync::Arc;
use vfs::{FileKind, FsError, Result, Wanted};

/// The access list alone.
const LIST: SecurityParts = SecurityParts { owner: false, group: false, dacl: true, sacl: false };

impl Files {
    /// The parts of the descriptor in force.
    ///
    /// # Errors
    /// [`vfs::FsError::AccessDenied`] if the caller may not see them.
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
    /// As [`Files::set_descriptor`].
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

    /// The access list in force, by names.
    ///
    /// # Errors
    /// As [`Files::object_descriptor`].
    pub async fn object_list(
        &self,
        caller: &Arc<Caller>,
        object: &Object,
    ) -> Result<Vec<NamedAce>> {
        let shown = self.object_descriptor(caller, object, LIST).await?;
        let attributes = object.node.attributes(Wanted::default())?;
        let list = shown.dacl.unwrap_or_default();
        Ok(acl::to_named(&list, attributes.uid, attributes.gid))
    }

    /// Replaces the access list; POSIX permissions follow. Nothing is inherited into it
    /// any more.
    ///
    /// # Errors
    /// As [`Files::set_object_descriptor`]; [`FsError::TooMany`] past [`acl::NAMED_ACES_MAX`].
    pub async fn set_object_list(
        &self,
        caller: &Arc<Caller>,
        object: &Object,
        list: &[NamedAce],
    ) -> Result<()> {
        let attributes = object.node.attributes(Wanted::default())?;
        let is_directory = object.kind() == FileKind::Directory;
        let list = acl::from_named(list, attributes.uid, attributes.gid, is_directory);
        let control = acl::control::DACL_PRESENT | acl::control::DACL_PROTECTED;
        let dacl = Some(list.ok_or(FsError::TooMany)?);
        let new = Descriptor { control, dacl, ..Descriptor::default() };
        self.set_object_descriptor(caller, object, &new, LIST).await
    }

    async fn open_for(
        &self,
        caller: &Arc<Caller>,
        object: &Object,
        access: Access,
    ) -> Result<Arc<crate::OpenFile>> {
        let plan = OpenPlan { no_follow: true, ..OpenPlan::posix(access, Share::ALL) };
        let at = OpenAt::Object(object.clone());
        Ok(self.open_object(caller, &at, plan, ObjectOpen::default()).await?.open)
    }
}
