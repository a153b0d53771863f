//! The access check. MS-DTYP 2.5.3.2.

use crate::{Access, Descriptor, Sid};

/// The identity and privileges that a check evaluates.
#[derive(Clone, Debug, Default)]
pub struct AccessToken {
    /// The user.
    pub user: Option<Sid>,
    /// All its groups, well-known ones included.
    pub groups: Vec<Sid>,
    /// May read and write SACLs (SeSecurityPrivilege).
    pub may_audit: bool,
    /// May take ownership of any file (SeTakeOwnershipPrivilege).
    pub may_take_ownership: bool,
    /// May open any file for backup or restore.
    pub may_back_up: bool,
}

impl AccessToken {
    /// True if an entry for `sid` applies to this token.
    #[must_use]
    pub fn has(&self, sid: &Sid) -> bool {
        self.user.as_ref() == Some(sid) || self.groups.contains(sid)
    }
}

/// The granted rights of `desired`: all of them, or none. With MAXIMUM_ALLOWED in `desired`, all
/// rights of the token, provided that they include the others.
#[must_use]
pub fn check_access(
    descriptor: &Descriptor,
    token: &AccessToken,
    desired: Access,
) -> Option<Access> {
    let desired = desired.map_generic();
    let maximum = desired.contains(Access::MAXIMUM_ALLOWED);
    let named = desired - Access::MAXIMUM_ALLOWED;
    let allowed = maximal_access(descriptor, token);
    if !allowed.contains(named) {
        return None;
    }
    Some(if maximum { (allowed - Access::SYSTEM_SECURITY) | named } else { named })
}

/// All rights of a token.
#[must_use]
pub fn maximal_access(descriptor: &Descriptor, token: &AccessToken) -> Access {
    let mut granted = Access::NONE;
    let is_owner = descriptor.owner.as_ref().is_some_and(|owner| token.has(owner));
    match &descriptor.dacl {
        None => granted = Access::FILE_ALL,
        Some(entries) => {
            let mut denied = Access::NONE;
            let mut owner_limited = false;
            for ace in entries.iter().filter(|a| a.is_in_force()) {
                let Some((allows, sid)) = ace.effect() else { continue };
                let for_owner = *sid == Sid::owner_rights();
                owner_limited |= for_owner;
                if !(token.has(&sid) || (for_owner && is_owner)) {
                    continue;
                }
                if allows {
                    granted |= ace.access.map_generic() - denied;
                } else {
                    denied |= ace.access.map_generic() - granted;
                }
            }
            if is_owner && !owner_limited {
                granted |= Access::READ_CONTROL | Access::WRITE_DAC;
            }
        }
    }
    granted | privileges(token)
}

/// The rights that a token's privileges grant on every file.
#[must_use]
pub fn privileges(token: &AccessToken) -> Access {
    let mut granted = Access::NONE;
    if token.may_take_ownership {
        granted |= Access::WRITE_OWNER;
    }
    if token.may_audit {
        granted |= Access::SYSTEM_SECURITY;
    }
    granted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ace, AceKind, control};

    fn token(uid: u32) -> AccessToken {
        AccessToken {
            user: Some(Sid::unix_user(uid)),
            groups: vec![Sid::everyone()],
            ..AccessToken::default()
        }
    }

    fn descriptor(entries: Vec<Ace>) -> Descriptor {
        Descriptor {
            control: control::DACL_PRESENT,
            owner: Some(Sid::unix_user(1)),
            dacl: Some(entries),
            ..Descriptor::default()
        }
    }

    #[test]
    fn empty_dacl_leaves_the_owner_read_control_and_write_dac() {
        let d = descriptor(vec![]);
        assert_eq!(maximal_access(&d, &token(1)), Access::READ_CONTROL | Access::WRITE_DAC);
        assert_eq!(maximal_access(&d, &token(2)), Access::NONE);
    }

    #[test]
    fn owner_rights_entry_replaces_implicit_owner_rights() {
        let d = descriptor(vec![Ace::allow(Sid::owner_rights(), Access::READ_DATA)]);
        assert_eq!(maximal_access(&d, &token(1)), Access::READ_DATA);
        assert_eq!(maximal_access(&d, &token(2)), Access::NONE);
    }

    #[test]
    fn first_entry_for_a_right_decides() {
        let deny = Ace { kind: AceKind::Deny, ..Ace::allow(Sid::everyone(), Access::WRITE_DATA) };
        let allow = Ace::allow(Sid::everyone(), Access::WRITE_DATA | Access::READ_DATA);
        let denied = descriptor(vec![deny.clone(), allow.clone()]);
        assert_eq!(check_access(&denied, &token(2), Access::WRITE_DATA), None);
        assert_eq!(check_access(&denied, &token(2), Access::READ_DATA), Some(Access::READ_DATA));
        let allowed = descriptor(vec![allow, deny]);
        assert_eq!(check_access(&allowed, &token(2), Access::WRITE_DATA), Some(Access::WRITE_DATA));
    }

    #[test]
    fn maximum_allowed_still_needs_the_named_rights() {
        let d = descriptor(vec![Ace::allow(Sid::everyone(), Access::READ_DATA)]);
        let both = Access::MAXIMUM_ALLOWED | Access::WRITE_DATA;
        assert_eq!(check_access(&d, &token(2), both), None);
        assert_eq!(check_access(&d, &token(2), Access::MAXIMUM_ALLOWED), Some(Access::READ_DATA));
    }
}
