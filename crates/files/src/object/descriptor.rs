//! Access lists of objects: the same descriptors that SMB shows. `acl` has
//! them as lists of names.

use super::{Object, ObjectOpen, OpenAt};
use crate::{Access, Caller, Descriptor, Files, OpenPlan, SecurityParts, Share};
use std::sync::Arc;
use vfs::Result;

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
        self.recall(object.key(), None).await;
        let owner = if parts.owner || parts.group { Access::WRITE_OWNER } else { Access::NONE };
        let list = if parts.dacl { Access::WRITE_DAC } else { Access::NONE };
        let open = self.open_for(caller, object, owner | list).await?;
        let result = self.set_descriptor(&open, new, parts);
        self.close(open).await?;
        result
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
