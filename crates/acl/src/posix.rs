//! Between POSIX modes and descriptors.

use crate::{Access, Ace, AceKind, Descriptor, Sid, control};

/// What POSIX says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PosixFacts {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// The descriptor that shows a mode: owner, group and everyone, in this order.
/// The owner may always change it, delete it and read its attributes.
#[must_use]
pub fn from_posix(facts: &PosixFacts) -> Descriptor {
    let owner = rights(facts.mode >> 6 & 7, facts.is_directory);
    let always = Access::DELETE | Access::WRITE_DAC | Access::WRITE_OWNER | Access::WRITE_ATTRIBUTES;
    let entries = vec![
        Ace::allow(Sid::unix_user(facts.uid), owner | always | Access::WRITE_EA),
        Ace::allow(Sid::unix_group(facts.gid), rights(facts.mode >> 3 & 7, facts.is_directory)),
        Ace::allow(Sid::everyone(), rights(facts.mode & 7, facts.is_directory)),
        Ace::allow(Sid::local_system(), Access::FILE_ALL),
    ];
    Descriptor {
        control: control::SELF_RELATIVE | control::DACL_PRESENT,
        owner: Some(Sid::unix_user(facts.uid)),
        group: Some(Sid::unix_group(facts.gid)),
        sacl: None,
        dacl: Some(entries),
    }
}

/// Rights that three permission bits stand for.
fn rights(bits: u32, is_directory: bool) -> Access {
    let mut access = Access::READ_ATTRIBUTES | Access::READ_CONTROL | Access::SYNCHRONIZE;
    if bits & 4 != 0 {
        access |= Access::FILE_READ;
    }
    if bits & 2 != 0 {
        access |= Access::FILE_WRITE;
        if is_directory {
            access |= Access::DELETE_CHILD;
        }
    }
    if bits & 1 != 0 {
        access |= Access::FILE_EXECUTE;
    }
    access
}

/// The permission bits nearest to what a descriptor grants to its owner, its
/// group and everyone.
#[must_use]
pub fn mode_of(descriptor: &Descriptor) -> u32 {
    let Some(entries) = &descriptor.dacl else { return 0o777 };
    let mut modes = [0u32; 3];
    let everyone = Sid::everyone();
    for (class, mode) in modes.iter_mut().enumerate() {
        let who = [descriptor.owner.as_ref(), descriptor.group.as_ref(), None][class];
        let (mut granted, mut denied) = (Access::NONE, Access::NONE);
        for ace in entries.iter().filter(|a| a.flags & Ace::INHERIT_ONLY == 0) {
            let applies = ace.sid == everyone
                || Some(&ace.sid) == who
                || (class < 2 && ace.sid == Sid::authenticated_users())
                || (class == 0 && ace.sid == Sid::owner_rights());
            match ace.kind {
                AceKind::Allow if applies => granted |= ace.access.map_generic() - denied,
                AceKind::Deny if applies => denied |= ace.access.map_generic() - granted,
                _ => {}
            }
        }
        *mode = u32::from(granted.contains(Access::READ_DATA)) << 2
            | u32::from(granted.contains(Access::WRITE_DATA)) << 1
            | u32::from(granted.contains(Access::EXECUTE));
    }
    modes[0] << 6 | modes[1] << 3 | modes[2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_comes_back_out_of_its_descriptor() {
        // Everyone's entry is about owner and group as well, so only modes in
        // which they have at least as much come back exactly.
        for mode in [0o700, 0o644, 0o755, 0o777, 0o770, 0o600] {
            let facts = PosixFacts { uid: 1, gid: 2, mode, is_directory: false };
            assert_eq!(mode_of(&from_posix(&facts)), mode, "{mode:o}");
        }
    }
}
