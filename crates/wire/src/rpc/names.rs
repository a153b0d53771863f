//! Names of SIDs: well-known SIDs, users and groups of the machine, and the machine's own accounts.
//! MS-DTYP 2.4.2.4, MS-LSAT 3.1.1.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

/// Maximum number of subauthorities in one SID.
const PARTS_MAX: usize = 15;

/// A SID in binary form: revision, count, authority, subauthorities. MS-DTYP 2.4.2.2.
pub type SidBytes = Vec<u8>;

/// SID_NAME_USE. MS-SAMR 2.2.2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// A user.
    User = 1,
    /// A group of a domain.
    Group = 2,
    /// A domain, or the machine as one.
    Domain = 3,
    /// A group of this machine.
    Alias = 4,
    /// A well-known SID.
    WellKnownGroup = 5,
    /// An unknown SID.
    Unknown = 8,
}

/// A translated name with its SID and domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSid {
    /// The SID.
    pub sid: SidBytes,
    /// SID_NAME_USE.
    pub kind: NameKind,
    /// The name, without its domain.
    pub name: String,
    /// The domain; empty if the name belongs to none.
    pub domain: String,
    /// SID of the domain.
    pub domain_sid: SidBytes,
}

/// Users and groups of the machine, by uid and gid.
#[derive(Clone, Debug, Default)]
pub struct UnixNames {
    users: NameMaps,
    groups: NameMaps,
}

#[derive(Clone, Debug, Default)]
struct NameMaps {
    names: HashMap<u32, String>,
    numbers: HashMap<String, u32>,
}

impl NameMaps {
    fn of(entries: impl IntoIterator<Item = (String, u32)>) -> Self {
        let mut both = Self::default();
        for (name, number) in entries {
            both.numbers.entry(name.to_lowercase()).or_insert(number);
            both.names.entry(number).or_insert(name);
        }
        both
    }
}

impl UnixNames {
    /// Takes the names of users and groups. If several names share a number, the first one counts.
    #[must_use]
    pub fn new(
        users: impl IntoIterator<Item = (String, u32)>,
        groups: impl IntoIterator<Item = (String, u32)>,
    ) -> Self {
        Self { users: NameMaps::of(users), groups: NameMaps::of(groups) }
    }
}

/// The names of all SIDs that this machine can translate.
#[derive(Clone, Debug, Default)]
pub struct SidNames {
    /// Computer name.
    pub machine: String,
    /// SID of the machine as an account domain.
    pub machine_sid: SidBytes,
    /// Workgroup.
    pub workgroup: String,
    /// Users and groups of the system.
    pub unix: Arc<UnixNames>,
}

const UNIX_USER: &str = "Unix User";
const UNIX_GROUP: &str = "Unix Group";

/// Authority, subauthorities, kind, name and domain of a well-known SID.
type WellKnown = (u8, &'static [u32], NameKind, &'static str, &'static str);

const WELL_KNOWN: &[WellKnown] = {
    use NameKind::{Alias, WellKnownGroup};
    const NT: &str = "NT AUTHORITY";
    const BUILTIN: &str = "BUILTIN";
    &[
        (1, &[0], WellKnownGroup, "Everyone", ""),
        (2, &[0], WellKnownGroup, "LOCAL", ""),
        (3, &[0], WellKnownGroup, "CREATOR OWNER", ""),
        (3, &[1], WellKnownGroup, "CREATOR GROUP", ""),
        (3, &[4], WellKnownGroup, "OWNER RIGHTS", ""),
        (5, &[1], WellKnownGroup, "DIALUP", NT),
        (5, &[2], WellKnownGroup, "NETWORK", NT),
        (5, &[3], WellKnownGroup, "BATCH", NT),
        (5, &[4], WellKnownGroup, "INTERACTIVE", NT),
        (5, &[6], WellKnownGroup, "SERVICE", NT),
        (5, &[7], WellKnownGroup, "ANONYMOUS LOGON", NT),
        (5, &[10], WellKnownGroup, "SELF", NT),
        (5, &[11], WellKnownGroup, "Authenticated Users", NT),
        (5, &[12], WellKnownGroup, "RESTRICTED", NT),
        (5, &[13], WellKnownGroup, "TERMINAL SERVER USER", NT),
        (5, &[14], WellKnownGroup, "REMOTE INTERACTIVE LOGON", NT),
        (5, &[15], WellKnownGroup, "This Organization", NT),
        (5, &[18], WellKnownGroup, "SYSTEM", NT),
        (5, &[19], WellKnownGroup, "LOCAL SERVICE", NT),
        (5, &[20], WellKnownGroup, "NETWORK SERVICE", NT),
        (5, &[32, 544], Alias, "Administrators", BUILTIN),
        (5, &[32, 545], Alias, "Users", BUILTIN),
        (5, &[32, 546], Alias, "Guests", BUILTIN),
        (5, &[32, 547], Alias, "Power Users", BUILTIN),
        (5, &[32, 550], Alias, "Print Operators", BUILTIN),
        (5, &[32, 551], Alias, "Backup Operators", BUILTIN),
    ]
};

impl SidNames {
    /// Translates a SID; `None` if it is unknown.
    #[must_use]
    pub fn of_sid(&self, sid: &[u8]) -> Option<NamedSid> {
        let (authority, parts) = split(sid)?;
        if let Some(known) = WELL_KNOWN.iter().find(|w| u64::from(w.0) == authority && w.1 == parts)
        {
            return Some(well_known(known));
        }
        match (authority, &parts[..]) {
            (22, [1, uid]) => Some(unix(UNIX_USER, 1, *uid, self.unix.users.names.get(uid)?)),
            (22, [2, gid]) => Some(unix(UNIX_GROUP, 2, *gid, self.unix.groups.names.get(gid)?)),
            _ => self.domains().into_iter().find(|domain| domain.sid == sid),
        }
    }

    /// Translates `name`, `DOMAIN
    ///
    /// ame`, or a SID in text form.
    #[must_use]
    pub fn of_name(&self, name: &str) -> Option<NamedSid> {
        if let Some(sid) = parse(name) {
            return self.of_sid(&sid);
        }
        let (domain, name) = name.split_once('\\').unwrap_or(("", name));
        let is = |text: &str, wanted: &str| text.to_lowercase() == wanted.to_lowercase();
        let of_domain = |wanted: &str| domain.is_empty() || is(wanted, domain);
        let known = WELL_KNOWN.iter().find(|w| of_domain(w.4) && is(w.3, name));
        if let Some(known) = known {
            return Some(well_known(known));
        }
        // The machine's accounts are users of the machine domain, and its groups are aliases there.
        let is_local = of_domain(&self.machine) || of_domain(&self.workgroup);
        let key = name.to_lowercase();
        let user = self.unix.users.numbers.get(&key).filter(|_| is_local || of_domain(UNIX_USER));
        if let Some(uid) = user {
            return Some(unix(UNIX_USER, 1, *uid, self.unix.users.names.get(uid)?));
        }
        let group =
            self.unix.groups.numbers.get(&key).filter(|_| is_local || of_domain(UNIX_GROUP));
        if let Some(gid) = group {
            return Some(unix(UNIX_GROUP, 2, *gid, self.unix.groups.names.get(gid)?));
        }
        let mut domains = self.domains().into_iter();
        domains.find(|d| domain.is_empty() && !name.is_empty() && is(&d.domain, name))
    }

    fn domains(&self) -> Vec<NamedSid> {
        let domain = |sid: SidBytes, name: &str| NamedSid {
            sid: sid.clone(),
            kind: NameKind::Domain,
            name: String::new(),
            domain: name.to_owned(),
            domain_sid: sid,
        };
        vec![
            domain(join(5, &[32]), "BUILTIN"),
            domain(join(22, &[1]), UNIX_USER),
            domain(join(22, &[2]), UNIX_GROUP),
            domain(self.machine_sid.clone(), &self.machine),
        ]
    }
}

fn well_known((authority, parts, kind, name, domain): &WellKnown) -> NamedSid {
    let sid = join(*authority, parts);
    NamedSid {
        domain_sid: parent(&sid).unwrap_or_default(),
        sid,
        kind: *kind,
        name: (*name).to_owned(),
        domain: (*domain).to_owned(),
    }
}

fn unix(domain: &str, kind: u32, number: u32, name: &str) -> NamedSid {
    NamedSid {
        sid: join(22, &[kind, number]),
        kind: if kind == 1 { NameKind::User } else { NameKind::Alias },
        name: name.to_owned(),
        domain: domain.to_owned(),
        domain_sid: join(22, &[kind]),
    }
}

/// The SID without its last subauthority: that of its domain.
#[must_use]
pub fn parent(sid: &[u8]) -> Option<SidBytes> {
    let (authority, parts) = split(sid)?;
    let (_, parts) = parts.split_last()?;
    Some(bytes(authority, parts))
}

/// The last subauthority (RID) of a SID.
#[must_use]
pub fn last_part(sid: &[u8]) -> Option<u32> {
    split(sid)?.1.last().copied()
}

/// The machine's account domain SID, derived from 12 unique bytes.
#[must_use]
pub fn machine_sid(unique: &[u8; 16]) -> SidBytes {
    let word = |at: usize| {
        u32::from_le_bytes([unique[at], unique[at + 1], unique[at + 2], unique[at + 3]])
    };
    join(5, &[21, word(0) ^ word(12), word(4), word(8)])
}

/// `S-1-authority-parts…`.
#[must_use]
pub fn text(sid: &[u8]) -> String {
    let Some((authority, parts)) = split(sid) else { return String::new() };
    let mut text = format!("S-1-{authority}");
    for part in parts {
        let _ = write!(text, "-{part}");
    }
    text
}

fn parse(text: &str) -> Option<SidBytes> {
    let mut fields = text.strip_prefix("S-1-").or(text.strip_prefix("s-1-"))?.split('-');
    let authority = fields.next()?.parse().ok()?;
    let parts: Vec<u32> =
        fields.take(PARTS_MAX + 1).map(|f| f.parse().ok()).collect::<Option<_>>()?;
    (parts.len() <= PARTS_MAX).then(|| bytes(authority, &parts))
}

fn join(authority: u8, parts: &[u32]) -> SidBytes {
    bytes(u64::from(authority), parts)
}

fn bytes(authority: u64, parts: &[u32]) -> SidBytes {
    let mut out = vec![1, parts.len() as u8];
    out.extend_from_slice(&authority.to_be_bytes()[2..]);
    parts.iter().for_each(|part| out.extend_from_slice(&part.to_le_bytes()));
    out
}

fn split(sid: &[u8]) -> Option<(u64, Vec<u32>)> {
    let (&[revision, count, authority @ ..], parts) = sid.split_first_chunk::<8>()?;
    if revision != 1 || usize::from(count) > PARTS_MAX || parts.len() != usize::from(count) * 4 {
        return None;
    }
    let authority = authority.iter().fold(0, |n, &b| n << 8 | u64::from(b));
    let part = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
    Some((authority, parts.chunks_exact(4).map(part).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> SidNames {
        let of = |name: &str, number| (name.to_owned(), number);
        SidNames {
            machine: "SRV".into(),
            machine_sid: machine_sid(&[7; 16]),
            workgroup: "WG".into(),
            unix: Arc::new(UnixNames::new(
                [of("alice", 1001), of("Media", 5)],
                [of("alice", 1001), of("media", 44)],
            )),
        }
    }

    #[test]
    fn every_name_round_trips_through_its_sid() {
        let names = names();
        for name in ["Everyone", "NT AUTHORITY\\SYSTEM", "BUILTIN\\Users", "Unix User\\alice"] {
            let found = names.of_name(name).expect(name);
            assert_eq!(names.of_sid(&found.sid), Some(found.clone()), "{name}");
            assert_eq!(names.of_name(&text(&found.sid)), Some(found), "{name} by number");
        }
        for (authority, parts, ..) in WELL_KNOWN {
            let found = names.of_sid(&join(*authority, parts)).unwrap();
            assert_eq!(parent(&found.sid), Some(found.domain_sid));
        }
    }

    #[test]
    fn user_lookup_precedes_groups_and_ignores_case() {
        let names = names();
        let sid = |name| names.of_name(name).map(|found| text(&found.sid));
        assert_eq!(sid("ALICE").as_deref(), Some("S-1-22-1-1001"));
        assert_eq!(sid("srv\\alice").as_deref(), Some("S-1-22-1-1001"));
        assert_eq!(sid("wg\\media").as_deref(), Some("S-1-22-1-5"));
        assert_eq!(sid("unix group\\media").as_deref(), Some("S-1-22-2-44"));
        assert_eq!(sid("elsewhere\\alice"), None);
        assert_eq!(sid("carol"), None);
        assert_eq!(sid(""), None);
        assert_eq!(sid("srv"), Some(text(&names.machine_sid)));
    }

    #[test]
    fn unknown_or_garbage_sid_has_no_name() {
        let names = names();
        for sid in [&join(22, &[1, 9])[..], &join(5, &[21, 1, 2, 3, 1000]), &[], &[1, 200, 0]] {
            assert_eq!(names.of_sid(sid), None);
        }
        assert_eq!(parse("S-1-x"), None);
        assert_eq!(parse(&format!("S-1-5{}", "-1".repeat(16))), None);
    }
}
