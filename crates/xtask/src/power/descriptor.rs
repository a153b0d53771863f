//! Stored descriptors: Samba's `security.NTACL` holds the hash of the permissions that it counts
//! beside.

/// Name of the extended attribute.
pub const NAME: &str = "security.NTACL";
/// `posix_acl` and its end, then the time, 8 bytes: what is before the hash. Hexadecimal.
const MARK: &str = "706f7369785f61636c000000000000000000";
/// Of SHA-256, in hexadecimal digits.
const HASH_DIGITS: usize = 64;

/// A stored value, in hexadecimal, as the hash of the permissions and all else.
pub fn split(value: &str) -> Option<(&str, [&str; 2])> {
    let at = value.find(MARK)? + MARK.len();
    Some((value.get(at..at + HASH_DIGITS)?, [&value[..at], &value[at + HASH_DIGITS..]]))
}

/// Whether both values are of the same descriptor, whatever permissions they count beside.
pub fn is_same(left: &str, right: &str) -> bool {
    split(left).zip(split(right)).is_some_and(|(left, right)| left.1 == right.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_is_the_same_beside_other_permissions() {
        let value = |hash: &str, text: &str| format!("0400{MARK}{}00{text}", hash.repeat(32));
        assert_eq!(split(&value("ab", "77")).unwrap().0, "ab".repeat(32));
        assert!(is_same(&value("ab", "77"), &value("cd", "77")));
        assert!(!is_same(&value("ab", "77"), &value("ab", "78")));
        assert!(!is_same("77", "77"));
    }
}
