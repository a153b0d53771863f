//! Marking for deletion. MS-FSA 2.1.5.15.3.

use crate::table::Doomed;
use crate::volume::dos;
use crate::{Access, Files, OpenFile};
use vfs::{FsError, Result, Wanted};

impl Files {
    /// Marks the file to vanish at its last close, or takes the mark away.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] without DELETE, [`FsError::CannotDelete`] for
    /// read-only files and the root, [`FsError::NotEmpty`] for directories.
    pub fn set_delete(&self, open: &OpenFile, delete: bool, ignore_readonly: bool) -> Result<()> {
        open.need_any(Access::DELETE)?;
        open.need_writable()?;
        if !delete {
            open.state.grants().set_delete_pending(false);
            open.state.doom(None);
            return Ok(());
        }
        let attributes = open.node.attributes(Wanted { dos: true })?;
        let readonly = attributes.dos.bits.unwrap_or(0) & dos::READONLY != 0;
        if (readonly && !ignore_readonly) || open.path().is_root() {
            return Err(FsError::CannotDelete);
        }
        if open.is_directory() && !self.is_empty(open)? {
            return Err(FsError::NotEmpty);
        }
        open.state.doom(Some(Doomed { name: open.name.clone(), caller: open.caller.clone() }));
        open.state.grants().set_delete_pending(true);
        Ok(())
    }

    /// Whether a directory is empty, looked at through a handle of its own:
    /// the open's may not be for listing.
    fn is_empty(&self, open: &OpenFile) -> Result<bool> {
        let how = vfs::OpenHow {
            read: true,
            write: false,
            case: vfs::Case::Sensitive,
            wanted: Wanted::default(),
            no_follow: true,
            wait: vfs::Wait::Allowed,
        };
        match open.volume().vfs.open(&open.caller.identity, &open.path(), how) {
            Ok(found) => found.node.is_empty(),
            // Who may not list it learns at the removal.
            Err(FsError::AccessDenied) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
