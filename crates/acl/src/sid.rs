//! Security identifiers. MS-DTYP 2.4.2.

use std::fmt;

/// A security identifier of a user, a group or a well-known principal. At most 15 sub-authorities.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sid {
    authority: u64,
    parts: Vec<u32>,
}

impl Sid {
    /// Most sub-authorities of one identifier.
    pub const PARTS_MAX: usize = 15;

    /// `S-1-authority-parts…`; parts beyond [`Sid::PARTS_MAX`] are dropped.
    #[must_use]
    pub fn new(authority: u64, parts: &[u32]) -> Self {
        Self { authority, parts: parts.iter().copied().take(Self::PARTS_MAX).collect() }
    }

    /// Everyone.
    #[must_use]
    pub fn everyone() -> Self {
        Self::new(1, &[0])
    }

    /// CREATOR OWNER: the placeholder for the creator of a file.
    #[must_use]
    pub fn creator_owner() -> Self {
        Self::new(3, &[0])
    }

    /// CREATOR GROUP: the placeholder for the creator's group.
    #[must_use]
    pub fn creator_group() -> Self {
        Self::new(3, &[1])
    }

    /// OWNER RIGHTS: stands for the owner, and replaces the implicit rights of owners.
    #[must_use]
    pub fn owner_rights() -> Self {
        Self::new(3, &[4])
    }

    /// Anonymous logon.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::new(5, &[7])
    }

    /// Authenticated users.
    #[must_use]
    pub fn authenticated_users() -> Self {
        Self::new(5, &[11])
    }

    /// Users that are logged on over the network.
    #[must_use]
    pub fn network() -> Self {
        Self::new(5, &[2])
    }

    /// Local system.
    #[must_use]
    pub fn local_system() -> Self {
        Self::new(5, &[18])
    }

    /// The local administrators.
    #[must_use]
    pub fn administrators() -> Self {
        Self::new(5, &[32, 544])
    }

    /// A local user by uid: `S-1-22-1-uid`, as in Samba.
    #[must_use]
    pub fn unix_user(uid: u32) -> Self {
        Self::new(22, &[1, uid])
    }

    /// A local group by gid: `S-1-22-2-gid`, as in Samba.
    #[must_use]
    pub fn unix_group(gid: u32) -> Self {
        Self::new(22, &[2, gid])
    }

    /// The uid of a local user's SID.
    #[must_use]
    pub fn as_unix_user(&self) -> Option<u32> {
        match (self.authority, &self.parts[..]) {
            (22, [1, uid]) => Some(*uid),
            _ => None,
        }
    }

    /// The gid of a local group's SID.
    #[must_use]
    pub fn as_unix_group(&self) -> Option<u32> {
        match (self.authority, &self.parts[..]) {
            (22, [2, gid]) => Some(*gid),
            _ => None,
        }
    }

    /// True for an account of a machine or a domain: `S-1-5-21-…`.
    #[must_use]
    pub fn is_domain_account(&self) -> bool {
        self.authority == 5 && self.parts.first() == Some(&21)
    }

    /// The mode in the SID of an NFS or POSIX client: `S-1-5-88-3-mode`.
    #[must_use]
    pub fn as_nfs_mode(&self) -> Option<u32> {
        match (self.authority, &self.parts[..]) {
            (5, [88, 3, mode]) => Some(mode & 0o7777),
            _ => None,
        }
    }

    /// `S-1-5-88-kind-value`: kind 1 is a user, 2 a group, 3 a mode.
    #[must_use]
    pub fn nfs(kind: u32, value: u32) -> Self {
        Self::new(5, &[88, kind, value])
    }

    /// True for an `S-1-5-88` SID.
    #[must_use]
    pub fn is_nfs(&self) -> bool {
        self.authority == 5 && matches!(self.parts[..], [88, ..])
    }

    /// Converts the numeric SIDs `S-1-5-88-1-uid` and `S-1-5-88-2-gid` to the local user or group;
    /// other SIDs stay unchanged.
    #[must_use]
    pub fn from_nfs(self) -> Self {
        match (self.authority, &self.parts[..]) {
            (5, [88, 1, uid]) => Self::unix_user(*uid),
            (5, [88, 2, gid]) => Self::unix_group(*gid),
            _ => self,
        }
    }

    /// Parses the text form, `S-1-authority-parts…`, with decimal numbers.
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

    /// Decodes a SID at the front of `bytes`; the rest is ignored.
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

    /// Appends the encoded SID.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[1, self.parts.len() as u8]);
        out.extend_from_slice(&self.authority.to_be_bytes()[2..]);
        self.parts.iter().for_each(|p| out.extend_from_slice(&p.to_le_bytes()));
    }

    /// Encoded length in bytes.
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
