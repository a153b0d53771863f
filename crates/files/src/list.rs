//! Listing directories.

use crate::{Access, Files, OpenFile};
use vfs::{Attributes, DirEntry, FsError, Name, Result, Wanted};

impl Files {
    /// Gives entries after `cookie` to `each` until it returns false. True at the end.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open may not list, [`FsError::NotDirectory`].
    pub fn list(
        &self,
        open: &OpenFile,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<bool> {
        if !open.is_directory() {
            return Err(FsError::NotDirectory);
        }
        open.need_any(Access::READ_DATA)?;
        open.node.list(cookie, each)
    }

    /// Attributes of a child by its exact name.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it has gone.
    pub fn child_attributes(&self, open: &OpenFile, name: &Name) -> Result<Attributes> {
        open.node.child_attributes(name, Wanted { dos: true })
    }
}
