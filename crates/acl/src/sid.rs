//! Security identifiers. MS-DTYP 2.4.2.

use std::fmt;

/// A user, a group, or someone well known. At most 15 sub-authorities.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sid {
    authority: u64,
    parts: Vec<u32>,
}

impl Sid {
    /// Sub-authorities of one identifier.
    pub const PARTS_MAX: usize = 15;

    /// `S-1-authority-parts…`; parts past [`Sid::PARTS_MAX`] are dropped.
    #[must_use]
    pub fn new(authority: u64, parts: &[u32]) -> Self {
        Self { authority, parts: parts.iter().copied().take(Self::PARTS_MAX).collect() }
    }

    /// Everyone.
    #[must_use]
    pub fn everyone() -> Self {
        Self::new(1, &[0])
    }

    /// Whoever makes a file: replaced when it is made.
    #[must_use]
    pub fn creator_owner() -> Self {
        Self::new(3, &[0])
    }

    /// The group of whoever makes a file.
    #[must_use]
    pub fn creator_group() -> Self {
        Self::new(3, &[1])
    }

    /// Stands for the owner and limits the rights that owners have.
    #[must_use]
    pub fn owner_rights() -> Self {
        Self::new(3, &[4])
    }

    /// Those who logged on without a name.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::new(5, &[7])
    }

    /// Those who logged on with a name.
    #[must_use]
    pub fn authenticated_users() -> Self {
        Self::new(5, &[11])
    }

    /// Those who came over the network.
    #[must_use]
    pub fn network() -> Self {
        Self::new(5, &[2])
    }

    /// The system itself.
    #[must_use]
    pub fn local_system() -> Self {
        Self::new(5, &[18])
    }

    /// Administrators of this machine.
    #[must_use]
    pub fn administrators() -> Self {
        Self::new(5, &[32, 544])
    }

    /// A local user, by number: `S-1-22-1-uid`, as Samba has it.
    #[must_use]
    pub fn unix_user(uid: u32) -> Self {
        Self::new(22, &[1, uid])
    }

    /// A local group, by number: `S-1-22-2-gid`, as Samba has it.
    #[must_use]
    pub fn unix_group(gid: u32) -> Self {
        Self::new(22, &[2, gid])
    }

    /// The number of a local user.
    #[must_use]
    pub fn as_unix_user(&self) -> Option<u32> {
        match (self.authority, &self.parts[..]) {
            (22, [1, uid]) => Some(*uid),
            _ => None,
        }
    }

    /// The number of a local group.
    #[must_use]
    pub fn as_unix_group(&self) -> Option<u32> {
        match (self.authority, &self.parts[..]) {
            (22, [2, gid]) => Some(*gid),
            _ => None,
        }
    }

    /// Whether it names an account of a machine or a domain: `S-1-5-21-…`.
    #[must_use]
    pub fn is_of_domain(&self) -> bool {
        self.authority == 5 && self.parts.first() == Some(&21)
    }

    /// The permission bits that an entry of a list carries for clients of NFS
    /// and POSIX: `S-1-5-88-3-mode`.
    #[must_use]
    pub fn as_nfs_mode(&self) -> Option<u32> {
        match (self.authority, &self.parts[..]) {
            (5, [88, 3, mode]) => Some(mode & 0o7777),
            _ => None,
        }
    }

    /// Who, or what, `S-1-5-88-kind-value` stands for: 1 a user, 2 a group, 3 a mode.
    #[must_use]
    pub fn nfs(kind: u32, value: u32) -> Self {
        Self::new(5, &[88, kind, value])
    }

    /// Whether it is one of those.
    #[must_use]
    pub fn is_nfs(&self) -> bool {
        self.authority == 5 && matches!(self.parts[..], [88, ..])
    }

    /// The local user or group that a client names by number alone
    /// (`S-1-5-88-1-uid`, `S-1-5-88-2-gid`); others as they are.
    #[must_use]
    pub fn from_nfs(self) -> Self {
        match (self.authority, &self.parts[..]) {
            (5, [88, 1, uid]) => Self::unix_user(*uid),
            (5, [88, 2, gid]) => Self::unix_group(*gid),
            _ => self,
        }
    }

    /// Reads what is shown: `S-1-authority-parts…`, all numbers decimal.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        const AUTHORITY_MAX: u64 = (1 << 48) - 1;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let mut numbers = text.strip_prefix("S-1-")?.split('-');
        let authority = numbers.next().filter(|text| is_number(text))?;
        let authority = authority.parse().ok().filter(|authority| *authority <= AUTHORITY_MAX)?;
        let part = |text: &str| Some(text).filter(|text| is_number(text))?.parse().ok();
        let parts: Vec<u32> = numbers.take(Self::PARTS_MAX + 1).map(part).collect::<Option<_>>()?;
        (parts.len() <= Self::PARTS_MAX).then_some(Self { authority, parts })
    }

    /// Reads an identifier from the front; what follows it is left.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[revision, count, authority @ ..], rest) = bytes.split_first_chunk::<8>()?;
        let count = usize::from(count);
        if revision != 1 || count > Self::PARTS_MAX {
            return None;
        }
        let authority = authority.iter().fold(0, |n, &b| n << 8 | u64::from(b));
        let parts = rest
            .get(..count * 4)?
            .chunks_exact(4)
            .map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
        Some(Self { authority, parts: parts.collect() })
    }

    /// Appends the identifier.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[1, self.parts.len() as u8]);
        out.extend_from_slice(&self.authority.to_be_bytes()[2..]);
        self.parts.iter().for_each(|p| out.extend_from_slice(&p.to_le_bytes()));
    }

    /// Bytes of the identifier.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        8 + self.parts.len() * 4
    }
}

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S-1-{}", self.authority)?;
        self.parts.iter().try_for_each(|p| write!(f, "-{p}"))
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sid_text_round_trips() {
        let many = Sid::new(5, &[21; Sid::PARTS_MAX]);
        for sid in [Sid::everyone(), Sid::unix_user(u32::MAX), Sid::new(0, &[]), many] {
            assert_eq!(Sid::from_text(&sid.to_string()), Some(sid));
        }
        let too_many = format!("S-1-5{}", "-1".repeat(Sid::PARTS_MAX + 1));
        for bad in
            ["", "S-1-", "S-1", "S-1-5-", "S-1-5-+1", "S-1-5-4294967296", "S-2-5-1", &too_many]
        {
            assert_eq!(Sid::from_text(bad), None, "{bad}");
        }
        assert_eq!(Sid::from_text("S-1-281474976710656-1"), None, "an authority has 48 bits");
    }
}
