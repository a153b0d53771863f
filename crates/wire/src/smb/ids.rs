//! Newtypes for the protocol's ids, so that they cannot be confused.

use crate::codec::{DecodeError, Reader, Writer};
use std::fmt;

/// Id of a request on its connection. MS-SMB2 2.2.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub u64);

/// Id of a request that is processed asynchronously. MS-SMB2 2.2.1.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AsyncId(pub u64);

/// Id of a session on the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SessionId(pub u64);

/// Id of a tree connect in its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TreeId(pub u32);

/// Id of an open. MS-SMB2 2.2.14.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileId {
    /// The half that survives a reconnect.
    pub persistent: u64,
    /// The half that changes at a reconnect.
    pub volatile: u64,
}

impl FileId {
    /// Refers to the open of the previous request of the compound.
    pub const RELATED: Self = Self { persistent: u64::MAX, volatile: u64::MAX };

    /// Reads the 16 bytes of an id.
    ///
    /// # Errors
    /// [`DecodeError`] at the end of the message.
    #[inline]
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { persistent: r.u64("FileId")?, volatile: r.u64("FileId")? })
    }

    /// Writes the 16 bytes of an id.
    #[inline]
    pub fn encode(self, w: &mut Writer<'_>) {
        w.u64(self.persistent);
        w.u64(self.volatile);
    }
}

/// A protocol dialect, ordered from old to new. MS-SMB2 2.2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Windows Vista.
    Smb202,
    /// Windows 7.
    Smb210,
    /// Windows 8.
    Smb300,
    /// Windows 8.1.
    Smb302,
    /// Windows 10.
    Smb311,
}

impl Dialect {
    /// All dialects, from old to new.
    pub const ALL: [Self; 5] =
        [Self::Smb202, Self::Smb210, Self::Smb300, Self::Smb302, Self::Smb311];

    /// The revision number on the wire.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Smb202 => 0x0202,
            Self::Smb210 => 0x0210,
            Self::Smb300 => 0x0300,
            Self::Smb302 => 0x0302,
            Self::Smb311 => 0x0311,
        }
    }

    /// The dialect with this number, if it is one.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.number() == number)
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Smb202 => "2.0.2",
            Self::Smb210 => "2.1",
            Self::Smb300 => "3.0",
            Self::Smb302 => "3.0.2",
            Self::Smb311 => "3.1.1",
        })
    }
}
