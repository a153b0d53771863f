//! Access masks. MS-DTYP 2.4.3, MS-SMB2 2.2.13.1; NFSv4 uses the same bits.

use std::ops::{BitAnd, BitOr, BitOrAssign, Not, Sub};

/// A set of access rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Access(pub u32);

#[allow(missing_docs, reason = "the names are the specification's")]
impl Access {
    pub const NONE: Self = Self(0);
    pub const READ_DATA: Self = Self(0x1);
    pub const WRITE_DATA: Self = Self(0x2);
    pub const APPEND_DATA: Self = Self(0x4);
    pub const READ_EA: Self = Self(0x8);
    pub const WRITE_EA: Self = Self(0x10);
    pub const EXECUTE: Self = Self(0x20);
    pub const DELETE_CHILD: Self = Self(0x40);
    pub const READ_ATTRIBUTES: Self = Self(0x80);
    pub const WRITE_ATTRIBUTES: Self = Self(0x100);
    pub const DELETE: Self = Self(0x1_0000);
    pub const READ_CONTROL: Self = Self(0x2_0000);
    pub const WRITE_DAC: Self = Self(0x4_0000);
    pub const WRITE_OWNER: Self = Self(0x8_0000);
    pub const SYNCHRONIZE: Self = Self(0x10_0000);
    pub const SYSTEM_SECURITY: Self = Self(0x100_0000);
    pub const MAXIMUM_ALLOWED: Self = Self(0x200_0000);
    pub const GENERIC_ALL: Self = Self(0x1000_0000);
    pub const GENERIC_EXECUTE: Self = Self(0x2000_0000);
    pub const GENERIC_WRITE: Self = Self(0x4000_0000);
    pub const GENERIC_READ: Self = Self(0x8000_0000);
    /// All rights that need no privilege.
    pub const FILE_ALL: Self = Self(0x1F_01FF);
    pub const FILE_READ: Self = Self(0x12_0089);
    pub const FILE_WRITE: Self = Self(0x12_0116);
    pub const FILE_EXECUTE: Self = Self(0x12_00A0);
}

impl Access {
    /// True if the set contains all of `other`.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if the set contains any of `other`.
    #[must_use]
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// True if the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Replaces generic rights by the rights that they represent for files. MS-SMB2 2.2.13.1.1.
    #[must_use]
    pub fn map_generic(self) -> Self {
        let generic =
            Self::GENERIC_ALL | Self::GENERIC_EXECUTE | Self::GENERIC_WRITE | Self::GENERIC_READ;
        let mut mapped = self - generic;
        for (wish, meaning) in [
            (Self::GENERIC_ALL, Self::FILE_ALL),
            (Self::GENERIC_EXECUTE, Self::FILE_EXECUTE),
            (Self::GENERIC_WRITE, Self::FILE_WRITE),
            (Self::GENERIC_READ, Self::FILE_READ),
        ] {
            if self.contains(wish) {
                mapped |= meaning;
            }
        }
        mapped
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Access {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Access {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Sub for Access {
    type Output = Self;

    /// The set without `other`.
    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl Not for Access {
    type Output = Self;

    fn not(self) -> Self {
        Self(!self.0)
    }
}
