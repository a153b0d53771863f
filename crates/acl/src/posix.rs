//! Between POSIX modes and descriptors.

use crate::{Access, Ace, Descriptor, Sid, control};

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
    let entries = vec![
        Ace::allow(Sid::unix_user(facts.uid), owner_rights(facts.mode >> 6 & 7)),
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

/// The owner has everything but the data that the bits refuse.
fn owner_rights(bits: u32) -> Access {
    let mut access = Access::FILE_ALL;
    if bits & 4 == 0 {
        access = access - Access::READ_DATA;
    }
    if bits & 2 == 0 {
        access = access - (Access::WRITE_DATA | Access::APPEND_DATA | Access::DELETE_CHILD);
    }
    access
}

/// Rights that three permission bits stand for. Whoever may read a file may
/// run it: programs on shares seldom have the x bit.
fn rights(bits: u32, is_directory: bool) -> Access {
    let mut access = Access::READ_ATTRIBUTES | Access::READ_CONTROL | Access::SYNCHRONIZE;
    if bits & 4 != 0 {
        access |= Access::FILE_READ | Access::FILE_EXECUTE;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Token, maximal_access};

    fn rights_of(uid: u32, gid: u32, mode: u32) -> Access {
        let descriptor = from_posix(&PosixFacts { uid: 1, gid: 2, mode, is_directory: false });
        let groups = vec![Sid::unix_group(gid), Sid::everyone()];
        maximal_access(
            &descriptor,
            &Token { user: Some(Sid::unix_user(uid)), groups, ..Token::default() },
        )
    }

    #[test]
    fn owner_group_and_others_have_what_their_bits_say() {
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
}
