//! Named streams: further data of a node under names of their own.

use crate::FsError;
use crate::path::check_label;
use std::fmt;

/// Name of a stream: not empty, no NUL, at most 255 bytes. A backend may store less.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamName(Box<[u8]>);

impl StreamName {
    /// Longest name in bytes.
    pub const LENGTH_MAX: usize = 255;

    /// Checks and takes a name.
    ///
    /// # Errors
    /// [`FsError::InvalidName`] for an empty one or one with a NUL,
    /// [`FsError::NameTooLong`] past [`StreamName::LENGTH_MAX`].
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, FsError> {
        let bytes = bytes.into();
        check_label(&bytes, Self::LENGTH_MAX)?;
        Ok(Self(bytes))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

/// One stream of a node at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// Its name as stored.
    pub name: StreamName,
    /// Length in bytes.
    pub size_bytes: u64,
}
