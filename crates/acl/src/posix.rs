//! Mapping between POSIX permissions and security descriptors.
//!
//! Neither direction grants more. A descriptor made from permissions grants what the kernel grants.
//! Permissions made from a descriptor let local users read, write and execute no more than its list
//! does, whatever their groups are.
//!
//! POSIX evaluates one class of a list; a descriptor evaluates every entry that applies to the
//! caller. [`PosixAcl::access`] decides as POSIX does. [`from_posix`] expresses the same decision
//! as an ordered list, with deny entries where a narrower class has fewer rights than a wider one.

use crate::{Access, Ace, AceKind, Descriptor, Sid, control};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Named users and groups in a POSIX ACL. Further ones get no entry, and a right denied to one of
/// them is denied to all others as well.
pub const POSIX_NAMES_MAX: usize = 64;

/// Read, write and execute bits of a mode (for directories: search).
const READ: u32 = 4;
const WRITE: u32 = 2;
const EXECUTE: u32 = 1;

/// The POSIX attributes of a file that its descriptor depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PosixFacts {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
    /// The file is a directory.
    pub is_directory: bool,
}

/// The permission bit that grants execution, the only difference between the protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecuteRule {
    /// The x bit or the r bit, for SMB. Programs on shares seldom have the x bit, and Windows
    /// traverses directories without a right.
    WithRead,
    /// The x bit alone, as in POSIX, for NFS: clients map ACCESS4_EXECUTE and ACCESS4_LOOKUP to it.
    /// Without it a directory cannot be changed either.
    ByBit,
}

/// Knowledge whether the owner of a file is a member of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerGroup {
    /// The owner is a member: rights granted to the group are granted to the owner.
    Member,
    /// The owner may be a member: rights denied to the group are denied to the owner.
    Unknown,
}

/// The trustee of a named ACL entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PosixName {
    /// A user, by number.
    User(u32),
    /// A group, by number.
    Group(u32),
}

/// A POSIX ACL, with three bits for each entry. POSIX.1e draft 17, 23.1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PosixAcl {
    /// The owner.
    pub owner: u32,
    /// The owning group, before the mask applies.
    pub group: u32,
    /// Everyone else.
    pub others: u32,
    /// Upper bound for the owning group and all named entries.
    pub mask: Option<u32>,
    /// Named users and groups.
    pub named: Vec<(PosixName, u32)>,
}

impl PosixAcl {
    /// The list equivalent to a mode.
    #[must_use]
    pub fn of_mode(mode: u32) -> Self {
        Self {
            owner: mode >> 6 & 7,
            group: mode >> 3 & 7,
            others: mode & 7,
            mask: None,
            named: Vec::new(),
        }
    }

    /// The rights of a user with these groups. The first matching class decides; within the group
    /// class any granting entry suffices. acl(5), access check algorithm. The superuser is not
    /// special here.
    #[must_use]
    pub fn access(
        &self,
        facts: &PosixFacts,
        (user, groups): (u32, &[u32]),
        execute: ExecuteRule,
    ) -> Access {
        let list = self.in_force();
        let has = |bit: u32| if list.grants(facts, user, groups, bit) { bit } else { 0 };
        let bits = has(READ) | has(WRITE) | has(EXECUTE);
        let access = match user == facts.uid {
            true => owner_rights(bits),
            false => rights(bits, facts.is_directory),
        };
        match execute {
            ExecuteRule::ByBit if bits & EXECUTE == 0 => access - without_execute(facts),
            _ => access,
        }
    }

    /// The entries that Linux evaluates. With an empty mask only the mode counts, so that named
    /// users and groups belong to the others. `acl_permission_check` in fs/namei.c.
    fn in_force(&self) -> Cow<'_, Self> {
        match self.mask {
            Some(0) => Cow::Owned(Self::of_mode(self.mode())),
            _ => Cow::Borrowed(self),
        }
    }

    /// True if the first matching class of the user has the bit.
    fn grants(&self, facts: &PosixFacts, user: u32, groups: &[u32], bit: u32) -> bool {
        let has = |bits: u32| bits & bit != 0;
        let masked = |bits: u32| bits & self.mask.unwrap_or(7);
        if user == facts.uid {
            return has(self.owner);
        }
        let named = |(name, _): &&(PosixName, u32)| *name == PosixName::User(user);
        if let Some((_, bits)) = self.named.iter().find(named) {
            return has(masked(*bits));
        }
        let of_groups = self.named.iter().filter_map(|(name, bits)| match name {
            PosixName::Group(gid) if groups.contains(gid) => Some(*bits),
            _ => None,
        });
        let own = groups.contains(&facts.gid).then_some(self.group);
        let mut of_groups = of_groups.chain(own).peekable();
        match of_groups.peek() {
            Some(_) => of_groups.any(|bits| has(masked(bits))),
            None => has(self.others),
        }
    }

    /// The mode that represents the list, with the mask in place of the group's bits.
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.owner << 6 | self.mask.unwrap_or(self.group) << 3 | self.others
    }

    /// A mode that grants nobody more than the list, for file systems without ACLs. Group and
    /// others get the bits that all named entries have.
    #[must_use]
    pub fn mode_without_names(&self) -> u32 {
        let list = self.in_force();
        let mask = list.mask.unwrap_or(7);
        let least = list.named.iter().fold(7, |least, (_, bits)| least & bits & mask);
        list.owner << 6 | (list.group & mask & least) << 3 | list.others & least
    }
}

/// The descriptor equivalent to permissions: owner, named users, groups and everyone, in this
/// order, for the access check of MS-DTYP 2.5.3.2. It grants what [`PosixAcl::access`] grants by
/// [`ExecuteRule::WithRead`]. The owner may always change its security, delete it and read its
/// attributes.
///
/// A deny entry follows an allow entry only where a later class has more rights; modes such as 0644
/// have none. Group entries are first allowed and then denied, because any granting group suffices.
#[must_use]
pub fn from_posix(facts: &PosixFacts, list: Option<&PosixAcl>) -> Descriptor {
    let of_mode = PosixAcl::of_mode(facts.mode);
    let list = list.unwrap_or(&of_mode).in_force();
    let masked = |bits| rights(bits & list.mask.unwrap_or(7), facts.is_directory);
    let of_named = |is_user: bool| {
        let is_wanted = move |name| matches!(name, PosixName::User(_)) == is_user;
        let named = list.named.iter().filter(move |(name, _)| is_wanted(*name));
        named.map(|(name, bits)| (sid_of(*name), masked(*bits)))
    };
    let all = |classes: &[(Sid, Access)]| classes.iter().fold(Access::NONE, |all, c| all | c.1);
    let everyone = rights(list.others, facts.is_directory);
    let own_group = (Sid::unix_group(facts.gid), masked(list.group));
    let groups: Vec<_> = std::iter::once(own_group).chain(of_named(false)).collect();
    let users: Vec<_> = of_named(true).collect();
    let after_users = all(&groups) | everyone;
    let owner = (Sid::unix_user(facts.uid), owner_rights(list.owner));

    let mut entries = allow_then_deny(&[owner], all(&users) | after_users);
    for user in users {
        entries.extend(allow_then_deny(&[user], after_users));
    }
    entries.extend(allow_then_deny(&groups, everyone));
    entries.push(Ace::allow(Sid::everyone(), everyone));
    entries.push(Ace::allow(Sid::local_system(), Access::FILE_ALL));
    Descriptor {
        control: control::SELF_RELATIVE | control::DACL_PRESENT,
        owner: Some(Sid::unix_user(facts.uid)),
        group: Some(Sid::unix_group(facts.gid)),
        sacl: None,
        dacl: Some(entries),
    }
}

/// Entries that grant each member of a class its rights, and deny the rights that wider classes
/// have.
fn allow_then_deny(class: &[(Sid, Access)], wider: Access) -> Vec<Ace> {
    let allow = |(sid, access): &(Sid, Access)| Ace::allow(sid.clone(), *access);
    let deny = |(sid, access): &(Sid, Access)| {
        let kept_back = wider - *access;
        let ace = Ace { kind: AceKind::Deny, ..Ace::allow(sid.clone(), kept_back) };
        (!kept_back.is_empty()).then_some(ace)
    };
    class.iter().map(allow).chain(class.iter().filter_map(deny)).collect()
}

fn sid_of(name: PosixName) -> Sid {
    match name {
        PosixName::User(uid) => Sid::unix_user(uid),
        PosixName::Group(gid) => Sid::unix_group(gid),
    }
}

/// The owner has all rights except those for data and extended attributes that the bits omit.
fn owner_rights(bits: u32) -> Access {
    let of_bits = rights(READ | WRITE | EXECUTE, true) - rights(0, true);
    Access::FILE_ALL - (of_bits - rights(bits, true) - Access::WRITE_ATTRIBUTES)
}

/// The rights that the x bit grants, alone or with other bits.
fn without_execute(facts: &PosixFacts) -> Access {
    match facts.is_directory {
        true => Access::EXECUTE | Access::WRITE_DATA | Access::APPEND_DATA | Access::DELETE_CHILD,
        false => Access::EXECUTE,
    }
}

/// The rights of three permission bits, by [`ExecuteRule::WithRead`].
fn rights(bits: u32, is_directory: bool) -> Access {
    let mut access = Access::READ_ATTRIBUTES | Access::READ_CONTROL | Access::SYNCHRONIZE;
    if bits & READ != 0 {
        access |= Access::FILE_READ | Access::FILE_EXECUTE;
    }
    if bits & WRITE != 0 {
        access |= Access::FILE_WRITE;
        if is_directory {
            access |= Access::DELETE_CHILD;
        }
    }
    if bits & EXECUTE != 0 {
        access |= Access::FILE_EXECUTE;
    }
    access
}

/// The POSIX permissions equivalent to a descriptor.
///
/// Each trustee is evaluated alone: the kernel uses one entry for a user, while Windows combines
/// all entries that apply. Files gain no x bit.
///
/// A list does not reveal group memberships, and any named user may belong to any group. So
/// reading, writing and execution that one group is denied are denied to all entries.
///
/// Directory search (x) goes to each entry with any right to the directory's content, despite
/// denied groups, because Windows traverses directories without a right.
#[must_use]
pub fn to_posix(descriptor: &Descriptor, facts: &PosixFacts, owner_group: OwnerGroup) -> PosixAcl {
    let Some(entries) = &descriptor.dacl else {
        let all = if facts.is_directory { 7 } else { READ | WRITE | facts.mode & EXECUTE };
        return PosixAcl { owner: all, group: all, others: all, ..PosixAcl::default() };
    };
    let (owner, group) = (Sid::unix_user(facts.uid), Sid::unix_group(facts.gid));
    let kept = names(entries, facts);
    let bits = |class: PosixClass, own: &[&Sid], shift| {
        EntryBuilder { class, own, facts, kept: &kept }.bits(entries, shift)
    };
    let of_owner = [&owner, &Sid::owner_rights(), &group];
    let of_owner = match owner_group {
        OwnerGroup::Member => &of_owner[..],
        OwnerGroup::Unknown => &of_owner[..2],
    };
    let mut list = PosixAcl {
        owner: bits(PosixClass::Owner, of_owner, 6),
        group: bits(PosixClass::Group, &[&group], 3),
        others: bits(PosixClass::Others, &[], 0),
        ..PosixAcl::default()
    };
    for name in &kept {
        let class = match name {
            PosixName::User(_) => PosixClass::User,
            PosixName::Group(_) => PosixClass::Group,
        };
        list.named.push((*name, bits(class, &[&sid_of(*name)], 3)));
    }
    if !list.named.is_empty() {
        let mask = list.named.iter().fold(list.group, |mask, (_, bits)| mask | bits);
        // With an empty mask Linux would treat denied users and groups as others.
        let is_ignored = mask == 0 && list.others != 0;
        list.mask = Some(if is_ignored { READ } else { mask });
    }
    list
}

/// A mode for a file between a change of its owner and one of its permissions. It grants nobody a
/// right that they lack both before (`mode` with its list) and after (`next`). The owner gets the
/// common rights of both owners, everyone else the common rights of all entries. It has no
/// set-user-ID and set-group-ID bits.
#[must_use]
pub fn narrowed_mode(mode: u32, list: Option<&PosixAcl>, next: &PosixAcl) -> u32 {
    let present = PosixAcl::of_mode(mode);
    let all = [Some(&present), list, Some(next)].into_iter().flatten().fold(7, |all, list| {
        let named = list.named.iter().fold(7, |all, (_, bits)| all & bits);
        all & list.owner & list.group & list.others & list.mask.unwrap_or(7) & named
    });
    mode & 0o1000 | (present.owner & next.owner & 7) << 6 | all << 3 | all
}

/// Removes data rights from a descriptor that a mode denies to owner, group and others. Named
/// trustees belong to the group class, as in POSIX. Execute rights stay, because a reader may
/// execute.
pub fn limit_to_mode(descriptor: &mut Descriptor, mode: u32) {
    let Descriptor { owner, dacl, .. } = descriptor;
    for ace in dacl.iter_mut().flatten().filter(|ace| ace.is_in_force()) {
        let bits = match &ace.sid {
            sid if Some(sid) == owner.as_ref() || *sid == Sid::owner_rights() => mode >> 6,
            sid if *sid == Sid::everyone() || *sid == Sid::authenticated_users() => mode,
            _ => mode >> 3,
        };
        let mut kept_back = Access::NONE;
        if bits & READ == 0 {
            kept_back |= Access::READ_DATA;
        }
        if bits & WRITE == 0 {
            kept_back |= Access::WRITE_DATA | Access::APPEND_DATA | Access::DELETE_CHILD;
        }
        if ace.kind == AceKind::Allow {
            ace.access = ace.access - kept_back;
        }
    }
}

/// The named trustees of effective entries, each once, at most [`POSIX_NAMES_MAX`], in the order of
/// a POSIX ACL. Denied trustees take precedence, because a right denied without an own entry is
/// denied to all.
fn names(entries: &[Ace], facts: &PosixFacts) -> Vec<PosixName> {
    let mut denied_first = BTreeMap::new();
    for (allows, sid) in entries.iter().filter(|a| a.is_in_force()).filter_map(Ace::effect) {
        if let Some(name) = name_of(&sid, facts) {
            *denied_first.entry(name).or_insert(true) &= allows;
        }
    }
    let mut names: Vec<_> = denied_first.into_iter().map(|(name, only)| (only, name)).collect();
    names.sort_unstable();
    names.truncate(POSIX_NAMES_MAX);
    let mut kept: Vec<_> = names.into_iter().map(|(_, name)| name).collect();
    kept.sort_unstable();
    kept
}

/// The user or group of a SID that is neither the file's owner nor its group.
fn name_of(sid: &Sid, facts: &PosixFacts) -> Option<PosixName> {
    let user = sid.as_unix_user().filter(|uid| *uid != facts.uid).map(PosixName::User);
    let group = || sid.as_unix_group().filter(|gid| *gid != facts.gid).map(PosixName::Group);
    user.or_else(group)
}

/// The classes of a POSIX ACL. acl(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PosixClass {
    Owner,
    /// A named user.
    User,
    /// The owning group or a named one.
    Group,
    Others,
}

/// One POSIX ACL entry under construction.
struct EntryBuilder<'a> {
    class: PosixClass,
    /// SIDs whose entries apply to every member of the class.
    own: &'a [&'a Sid],
    facts: &'a PosixFacts,
    /// Trustees with entries of their own, sorted.
    kept: &'a [PosixName],
}

impl EntryBuilder<'_> {
    /// True if an entry for `sid` grants to every member of the class.
    fn is_allowed_by(&self, sid: &Sid) -> bool {
        self.own.contains(&sid) || *sid == Sid::everyone() || *sid == Sid::authenticated_users()
    }

    /// True if an entry for `sid` may apply to a member of the class without an entry of its own.
    fn is_without_entry(&self, sid: &Sid) -> bool {
        let has_entry = |name| self.kept.binary_search(&name).is_ok();
        matches!(self.class, PosixClass::Group | PosixClass::Others)
            && name_of(sid, self.facts).is_some_and(|name| !has_entry(name))
    }

    /// True if an entry for `sid` may apply to a member of the class. The others belong to no group
    /// with an entry; all other classes may belong to any.
    fn is_denied_by(&self, sid: &Sid) -> bool {
        self.is_allowed_by(sid)
            || self.is_without_entry(sid)
            || (self.class != PosixClass::Others && sid.as_unix_group().is_some())
    }

    /// The three permission bits of the class.
    fn bits(&self, entries: &[Ace], shift: u32) -> u32 {
        let allows = |sid: &Sid| self.is_allowed_by(sid);
        let granted = granted(entries, allows, |sid| self.is_denied_by(sid));
        let reads = if granted.contains(Access::READ_DATA) { READ } else { 0 };
        let writes = if granted.contains(Access::WRITE_DATA) { WRITE } else { 0 };
        let executes = match self.facts.is_directory {
            true => self.searches(entries),
            false => granted.contains(Access::EXECUTE) && self.facts.mode >> shift & EXECUTE != 0,
        };
        reads | writes | if executes { EXECUTE } else { 0 }
    }

    /// True if the class may search the directory.
    fn searches(&self, entries: &[Ace]) -> bool {
        let group = Sid::unix_group(self.facts.gid);
        let allows = |sid: &Sid| {
            self.is_allowed_by(sid) || (self.class == PosixClass::Owner && *sid == group)
        };
        let denies = |sid: &Sid| self.is_allowed_by(sid) || self.is_without_entry(sid);
        granted(entries, allows, denies).intersects(OF_CHILDREN)
    }
}

/// The rights to a directory that concern its content.
const OF_CHILDREN: Access = Access(
    Access::READ_DATA.0
        | Access::WRITE_DATA.0
        | Access::APPEND_DATA.0
        | Access::EXECUTE.0
        | Access::DELETE_CHILD.0,
);

/// The rights that effective entries grant; the first entry for a right decides. MS-DTYP 2.5.3.2.
fn granted(
    entries: &[Ace],
    allows: impl Fn(&Sid) -> bool,
    denies: impl Fn(&Sid) -> bool,
) -> Access {
    let (mut granted, mut denied) = (Access::NONE, Access::NONE);
    for ace in entries.iter().filter(|a| a.is_in_force()) {
        match ace.effect() {
            Some((true, sid)) if allows(&sid) => granted |= ace.access.map_generic() - denied,
            Some((false, sid)) if denies(&sid) => denied |= ace.access.map_generic() - granted,
            _ => {}
        }
    }
    granted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_class_about_a_user_decides() {
        let facts = PosixFacts { uid: 1, gid: 10, mode: 0, is_directory: false };
        let named = vec![(PosixName::User(2), 0), (PosixName::Group(20), 6)];
        let list = PosixAcl { owner: 2, group: 1, others: 7, mask: Some(5), named };
        let bits = |user, groups: &[u32]| -> u32 {
            [4, 2, 1].into_iter().filter(|bit| list.grants(&facts, user, groups, *bit)).sum()
        };
        assert_eq!(bits(1, &[10, 20]), 2, "the owner, without the mask");
        assert_eq!(bits(2, &[10, 20]), 0, "a named user");
        assert_eq!(bits(3, &[10]), 1, "the group");
        assert_eq!(bits(3, &[20]), 4, "a named group, within the mask");
        assert_eq!(bits(3, &[10, 20]), 5, "both");
        assert_eq!(bits(3, &[30]), 7, "everyone else");
        let mode = PosixAcl::of_mode(0o604);
        assert!(!mode.grants(&facts, 3, &[10], 4), "the group has less than others");
        assert!(mode.grants(&facts, 3, &[11], 4));
    }

    #[test]
    fn execute_follows_the_x_bit_or_comes_with_read() {
        let access = |mode, is_directory, rule| {
            let facts = PosixFacts { uid: 1, gid: 10, mode, is_directory };
            PosixAcl::of_mode(mode).access(&facts, (2, &[10]), rule)
        };
        let executes = |access: Access| access.contains(Access::EXECUTE);
        assert!(executes(access(0o640, false, ExecuteRule::WithRead)));
        assert!(!executes(access(0o640, false, ExecuteRule::ByBit)));
        assert!(executes(access(0o710, false, ExecuteRule::ByBit)));
        let changes = Access::WRITE_DATA | Access::APPEND_DATA | Access::DELETE_CHILD;
        assert!(access(0o020, true, ExecuteRule::WithRead).contains(changes));
        assert!(!access(0o020, true, ExecuteRule::ByBit).intersects(changes));
        assert!(access(0o030, true, ExecuteRule::ByBit).contains(changes | Access::EXECUTE));
    }

    #[test]
    fn narrower_class_with_fewer_bits_gets_a_deny_entry() {
        let kinds = |mode| {
            let shown = from_posix(&PosixFacts { mode, ..FILE }, None).dacl.unwrap();
            let named = |ace: Ace| (ace.kind == AceKind::Deny).then_some((ace.sid, ace.access));
            shown.into_iter().filter_map(named).collect::<Vec<_>>()
        };
        for mode in [0o600, 0o640, 0o644, 0o664, 0o666, 0o755, 0o777] {
            assert_eq!(kinds(mode), [], "{mode:o}");
        }
        let reads = Access::READ_DATA | Access::READ_EA | Access::EXECUTE;
        assert_eq!(kinds(0o604), [(Sid::unix_group(2), reads)]);
        assert_eq!(kinds(0o077).len(), 1, "the owner");
    }
    use crate::{AccessToken, maximal_access};

    fn to_posix(descriptor: &Descriptor, facts: &PosixFacts) -> PosixAcl {
        super::to_posix(descriptor, facts, OwnerGroup::Unknown)
    }

    const FILE: PosixFacts = PosixFacts { uid: 1, gid: 2, mode: 0o644, is_directory: false };

    fn rights_of(uid: u32, gid: u32, mode: u32) -> Access {
        let descriptor = from_posix(&PosixFacts { mode, ..FILE }, None);
        let groups = vec![Sid::unix_group(gid), Sid::everyone()];
        maximal_access(
            &descriptor,
            &AccessToken { user: Some(Sid::unix_user(uid)), groups, ..AccessToken::default() },
        )
    }

    fn list(entries: Vec<Ace>) -> Descriptor {
        Descriptor { control: control::DACL_PRESENT, dacl: Some(entries), ..Descriptor::default() }
    }

    #[test]
    fn owner_group_and_others_get_their_bits() {
        assert_eq!(rights_of(1, 9, 0o644), Access::FILE_ALL);
        assert!(!rights_of(1, 9, 0o444).intersects(Access::WRITE_DATA | Access::APPEND_DATA));
        assert!(rights_of(9, 2, 0o640).contains(Access::FILE_READ));
        assert!(!rights_of(9, 2, 0o640).intersects(Access::WRITE_DATA | Access::DELETE));
        assert!(!rights_of(9, 9, 0o640).contains(Access::READ_DATA));
        assert!(
            rights_of(9, 9, 0o644).contains(Access::EXECUTE),
            "programs run from shares without x bits"
        );
    }

    #[test]
    fn mode_round_trips_through_a_descriptor() {
        for is_directory in [false, true] {
            for mode in [0o600, 0o640, 0o644, 0o664, 0o666, 0o700, 0o750, 0o755, 0o775, 0o777] {
                let mode = if is_directory { mode | mode >> 2 & 0o111 } else { mode };
                let facts = PosixFacts { mode, is_directory, ..FILE };
                assert_eq!(to_posix(&from_posix(&facts, None), &facts).mode(), mode, "{mode:o}");
            }
        }
    }

    #[test]
    fn named_entries_get_their_bits_within_the_mask() {
        let named = vec![(PosixName::User(7), 6), (PosixName::Group(8), 4)];
        let shown = PosixAcl { owner: 6, group: 4, others: 0, mask: Some(4), named };
        let descriptor = from_posix(&FILE, Some(&shown));
        let entries = descriptor.dacl.as_ref().unwrap();
        assert_eq!(entries[1].sid, Sid::unix_user(7));
        assert!(!entries[1].access.intersects(Access::WRITE_DATA), "the mask takes it");
        let back = to_posix(&descriptor, &FILE);
        assert_eq!(back.named, [(PosixName::User(7), 4), (PosixName::Group(8), 4)]);
        assert_eq!((back.mask, back.mode()), (Some(4), 0o640));
    }

    #[test]
    fn denied_name_gets_an_entry_without_bits() {
        let deny = Ace { kind: AceKind::Deny, ..Ace::allow(Sid::unix_user(7), Access::FILE_ALL) };
        let found =
            to_posix(&list(vec![deny, Ace::allow(Sid::everyone(), Access::FILE_READ)]), &FILE);
        assert_eq!(found.named, [(PosixName::User(7), 0)]);
        assert_eq!(found.mode(), 0o444);
    }

    #[test]
    fn denied_group_limits_users_that_may_be_members() {
        let deny =
            Ace { kind: AceKind::Deny, ..Ace::allow(Sid::unix_group(8), Access::FILE_WRITE) };
        let allow = Ace::allow(Sid::unix_user(7), Access::FILE_READ | Access::FILE_WRITE);
        let found = to_posix(&list(vec![deny, allow]), &FILE);
        assert_eq!(found.named, [(PosixName::User(7), READ), (PosixName::Group(8), 0)]);
    }

    fn deny(sid: Sid, access: Access) -> Ace {
        Ace { kind: AceKind::Deny, ..Ace::allow(sid, access) }
    }

    #[test]
    fn denied_group_limits_other_groups_to_search() {
        let entries = vec![
            deny(Sid::unix_group(8), Access::FILE_ALL),
            Ace::allow(Sid::unix_group(9), Access::FILE_ALL),
            Ace::allow(Sid::unix_user(7), Access::FILE_ALL),
        ];
        let facts = PosixFacts { is_directory: true, ..FILE };
        let found = to_posix(&list(entries), &facts);
        let named = [(PosixName::User(7), 1), (PosixName::Group(8), 0), (PosixName::Group(9), 1)];
        assert_eq!(found.named, named);
        assert_eq!((found.group, found.others), (0, 0));
    }

    #[test]
    fn owner_gets_the_rights_of_its_known_groups() {
        let of_group = list(vec![Ace::allow(Sid::unix_group(FILE.gid), Access::FILE_READ)]);
        let mode = |owner_group| super::to_posix(&of_group, &FILE, owner_group).mode();
        assert_eq!(mode(OwnerGroup::Member), 0o440);
        assert_eq!(mode(OwnerGroup::Unknown), 0o040);
    }

    #[test]
    fn empty_mask_of_denied_names_is_not_stored() {
        let denied = |everyone| {
            let entries = vec![
                deny(Sid::unix_user(7), Access::FILE_ALL),
                deny(Sid::unix_group(2), Access::FILE_ALL),
                Ace::allow(Sid::everyone(), everyone),
            ];
            to_posix(&list(entries), &FILE)
        };
        let found = denied(Access::FILE_READ | Access::FILE_WRITE);
        assert_eq!((found.mask, found.mode()), (Some(READ), 0o046));
        assert_eq!(denied(Access::READ_ATTRIBUTES).mode(), 0, "the others have no bits either");
    }

    #[test]
    fn empty_mask_leaves_only_the_mode_in_force() {
        let named = vec![(PosixName::User(7), 0), (PosixName::Group(8), 7)];
        let stored = PosixAcl { owner: 6, group: 7, others: 6, mask: Some(0), named };
        let facts = PosixFacts { mode: stored.mode(), ..FILE };
        let access = |user, group| stored.access(&facts, (user, &[group]), ExecuteRule::ByBit);
        let writes = |user, group| access(user, group).contains(Access::WRITE_DATA);
        assert!(writes(7, 7) && writes(9, 8), "both are everyone else");
        assert!(!writes(9, FILE.gid), "the owning group");
        assert_eq!(from_posix(&facts, Some(&stored)), from_posix(&facts, None));
    }

    #[test]
    fn denied_names_beyond_the_limit_restrict_all_others() {
        let all = Access::FILE_READ | Access::FILE_WRITE;
        let users = (100u32..100 + POSIX_NAMES_MAX as u32 + 1).map(Sid::unix_user);
        let mut entries: Vec<_> = users.map(|sid| deny(sid, Access::WRITE_DATA)).collect();
        entries.push(Ace::allow(Sid::unix_group(8), all));
        entries.push(Ace::allow(Sid::everyone(), all));
        let found = to_posix(&list(entries), &FILE);
        assert_eq!((found.named.len(), found.group, found.others), (POSIX_NAMES_MAX, READ, READ));
        assert!(
            found.named.iter().all(|(name, _)| *name != PosixName::Group(8)),
            "denied go first"
        );
    }

    #[test]
    fn mode_without_names_grants_the_common_rights() {
        let named = vec![(PosixName::User(7), 4), (PosixName::Group(8), 6)];
        let stored = PosixAcl { owner: 7, group: 7, others: 6, mask: Some(6), named };
        assert_eq!(stored.mode_without_names(), 0o744);
        assert_eq!(PosixAcl::of_mode(0o751).mode_without_names(), 0o751);
    }

    #[test]
    fn conditional_deny_entry_names_its_trustee() {
        let mut body = Vec::new();
        Sid::unix_user(7).encode(&mut body);
        let kind = AceKind::Other(10, body);
        let conditional = Ace { kind, ..Ace::allow(Sid::everyone(), Access::FILE_ALL) };
        let entries = vec![conditional, Ace::allow(Sid::everyone(), Access::FILE_READ)];
        assert_eq!(to_posix(&list(entries), &FILE).named, [(PosixName::User(7), 0)]);
    }

    #[test]
    fn inherit_only_entries_grant_nothing() {
        let ace = Ace { flags: Ace::INHERIT_ONLY, ..Ace::allow(Sid::everyone(), Access::FILE_ALL) };
        assert_eq!(to_posix(&list(vec![ace]), &FILE).mode(), 0);
        let null = Descriptor { control: control::DACL_PRESENT, ..Descriptor::default() };
        assert_eq!(to_posix(&null, &FILE).mode(), 0o666);
    }

    #[test]
    fn inherited_entries_are_limited_by_the_mode() {
        let rights = Access::FILE_READ | Access::FILE_WRITE;
        let deny = Ace { kind: AceKind::Deny, ..Ace::allow(Sid::unix_user(8), rights) };
        let handed_on = Ace { flags: 11, ..Ace::allow(Sid::everyone(), rights) };
        let mut of_all = Descriptor {
            owner: Some(Sid::unix_user(1)),
            ..list(vec![
                deny.clone(),
                Ace::allow(Sid::unix_user(1), rights),
                Ace::allow(Sid::unix_user(7), rights),
                Ace::allow(Sid::everyone(), rights),
                handed_on.clone(),
            ])
        };
        limit_to_mode(&mut of_all, 0o640);
        let kept = of_all.dacl.unwrap();
        let writes = Access::WRITE_DATA | Access::APPEND_DATA;
        assert_eq!((&kept[0], &kept[4]), (&deny, &handed_on));
        assert_eq!(kept[1].access, rights);
        assert_eq!(kept[2].access, rights - writes);
        assert_eq!(kept[3].access, rights - writes - Access::READ_DATA);
    }

    #[test]
    fn files_gain_no_execute_bit_and_keep_theirs() {
        let all = list(vec![Ace::allow(Sid::everyone(), Access::FILE_ALL)]);
        assert_eq!(to_posix(&all, &FILE).mode(), 0o666);
        assert_eq!(to_posix(&all, &PosixFacts { mode: 0o755, ..FILE }).mode(), 0o777);
    }

    #[test]
    fn narrowed_mode_grants_nothing_beyond_both_sides() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % below) as u32
        };
        let mut narrowed_for_nothing = 0;
        for _ in 0..20_000 {
            // All bits are frequent, because narrowing would otherwise leave nothing.
            let mut bits = || if random(2) == 0 { 7 } else { random(8) };
            let lists: [PosixAcl; 2] = std::array::from_fn(|_| PosixAcl {
                owner: bits(),
                group: bits(),
                others: bits(),
                mask: None,
                named: vec![(PosixName::User(2), bits()), (PosixName::Group(20), bits())],
            });
            let [old, new] = lists.map(|list| match random(2) {
                0 => PosixAcl { named: Vec::new(), ..list },
                _ => PosixAcl { mask: Some(random(8) | random(8)), ..list },
            });
            let old_mode = old.mode();
            let list = old.mask.map(|_| &old);
            let mode = narrowed_mode(old_mode, list, &new);
            narrowed_for_nothing += u32::from(mode & 0o777 == 0);
            // The list after chmod(2).
            let between = PosixAcl {
                owner: mode >> 6 & 7,
                group: if old.mask.is_some() { old.group } else { mode >> 3 & 7 },
                mask: old.mask.map(|_| mode >> 3 & 7),
                others: mode & 7,
                named: old.named.clone(),
            };
            let of = |uid, gid| PosixFacts { uid, gid, mode: 0, is_directory: false };
            let (before, after) = (of(1, 10), of([1, 2, 3][random(3) as usize], 11));
            for user in 1..5 {
                for groups in [&[][..], &[10], &[11], &[20], &[10, 20], &[10, 11, 20]] {
                    for bit in [READ, WRITE, EXECUTE] {
                        let grants = |list: &PosixAcl, facts: &PosixFacts| {
                            list.in_force().grants(facts, user, groups, bit)
                        };
                        let is_wide = grants(&old, &before) || grants(&new, &after);
                        let narrow = [&before, &after].map(|facts| grants(&between, facts));
                        assert!(
                            is_wide || narrow == [false; 2],
                            "{old:?} {new:?} {user} {groups:?}"
                        );
                    }
                }
            }
        }
        assert!(narrowed_for_nothing < 15_000, "something is left where both sides grant it");
    }
}
