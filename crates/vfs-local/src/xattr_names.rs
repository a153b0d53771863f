//! Names of extended attributes: which belong to the server, and which clients may see.

use std::sync::OnceLock;
use vfs::XattrName;

const TRUSTED: &str = "security.NTACL";
const OWN: &str = "user.anabranch.NTACL";

/// Name of the attribute that holds descriptors.
pub fn descriptor_attribute() -> &'static str {
    static NAME: OnceLock<&str> = OnceLock::new();
    NAME.get_or_init(|| if may_write_trusted() { TRUSTED } else { OWN })
}

/// True if this process has CAP_SYS_ADMIN over file systems, not only within a user namespace of
/// its own.
fn may_write_trusted() -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let status = read("/proc/thread-self/status");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    let map = read("/proc/self/uid_map");
    held & CAP_SYS_ADMIN != 0 && map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// True if an attribute (without `user.`) is part of a stream.
pub fn is_stream(name: &[u8]) -> bool {
    name.starts_with(b"DosStream.") || name.starts_with(b"DosStreamExt.")
}

/// The name without `user.`, if the attribute is a user attribute that clients may see.
pub fn users_name(full: &[u8]) -> Option<XattrName> {
    let name = full.strip_prefix(b"user.")?;
    (!is_private(name)).then(|| XattrName::new(name).ok()).flatten()
}

/// True if the attribute (without `user.`) holds data that other calls expose.
pub fn is_private(name: &[u8]) -> bool {
    name == b"DOSATTRIB"
        || name == b"SmbReparse"
        || is_stream(name)
        || name.starts_with(b"anabranch.")
}

/// The name with `user.`.
pub fn user_name(name: &XattrName) -> Vec<u8> {
    [b"user.", name.as_bytes()].concat()
}
