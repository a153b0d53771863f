//! Sets of caching rights.

use std::ops::{BitAnd, BitOr, Sub};

/// Caching rights of a client, with the bits of MS-SMB2 2.2.13.2.8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachingRights(pub u8);

impl CachingRights {
    /// No caching.
    pub const NONE: Self = Self(0);
    /// Read caching.
    pub const READ: Self = Self(1);
    /// Handle caching: the client may delay a close.
    pub const HANDLE: Self = Self(2);
    /// Write caching: the client may delay writes and locks.
    pub const WRITE: Self = Self(4);
    /// A level II oplock.
    pub const LEVEL_II: Self = Self::READ;
    /// An exclusive oplock.
    pub const EXCLUSIVE: Self = Self(5);
    /// A batch oplock.
    pub const BATCH: Self = Self(7);

    /// Whether all of `other` is in the set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self & other == other
    }

    /// Whether any of `other` is in the set.
    #[must_use]
    pub fn intersects(self, other: Self) -> bool {
        self & other != Self::NONE
    }

    /// The oplock level that these rights permit: handle caching requires all three rights, and
    /// the others require read caching.
    pub(super) fn as_oplock(self) -> Self {
        match self {
            Self::BATCH | Self::EXCLUSIVE => self,
            _ => self & Self::READ,
        }
    }

    /// The lease state that these rights permit: every lease includes read caching.
    pub(super) fn as_lease(self) -> Self {
        let known = self & Self::BATCH;
        if known.contains(Self::READ) { known } else { Self::NONE }
    }
}

impl BitAnd for CachingRights {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for CachingRights {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Sub for CachingRights {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}
