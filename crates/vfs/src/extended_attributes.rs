//! The capability of a node to have extended attributes of users.

use crate::{Actor, FsError, Name, Node, Result, XattrName};

/// Capability: extended attributes of users. Both protocols use them.
///
/// Without it, reads and changes of them are refused as not supported, and the children of a directory
/// are listed with none.
pub trait ExtendedAttributes: Send + Sync + std::fmt::Debug {
    /// Names of users' extended attributes, without the `user.` prefix. Attributes that hold DOS
    /// attributes, streams or descriptors are not listed.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`].
    fn xattr_names(&self, actor: Actor<'_>) -> Result<Vec<XattrName>>;

    /// Names and lengths of users' extended attributes of the child `name` (exact spelling) of this
    /// directory; of the link itself if it is one. Empty if `actor` may not read them.
    fn child_xattrs(&self, actor: Actor<'_>, name: &Name) -> Vec<(XattrName, usize)>;

    /// One extended attribute's value.
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::AccessDenied`].
    fn xattr(&self, actor: Actor<'_>, name: &XattrName) -> Result<Vec<u8>>;

    /// Sets, or with `None` removes, an extended attribute.
    ///
    /// # Errors
    /// [`FsError::TooLarge`] past the file system's limit, [`FsError::AccessDenied`].
    fn set_xattr(&self, actor: Actor<'_>, name: &XattrName, value: Option<&[u8]>) -> Result<()>;
}

impl dyn Node + '_ {
    /// The extended attributes, for a caller that has no fallback.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] if the node cannot have any.
    pub fn need_xattrs(&self) -> Result<&dyn ExtendedAttributes> {
        self.extended_attributes().ok_or(FsError::NotSupported)
    }
}
