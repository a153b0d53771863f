//! Users and groups of this machine, read from `/etc/passwd` and `/etc/group`.

use files::Caller;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use sync::Mutex;
use vfs::Identity;
use wire::rpc::UnixNames;

/// A line of the user database.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PasswdEntry {
    name: String,
    uid: u32,
    gid: u32,
}

/// The identity of the system user `name` with its supplementary groups.
#[must_use]
pub fn identity_of(name: &str) -> Option<Identity> {
    let passwd = std::fs::read_to_string(Path::new("/etc/passwd")).ok()?;
    let group = std::fs::read_to_string(Path::new("/etc/group")).unwrap_or_default();
    identity_in(&passwd, &group, name)
}

/// The identity for file access of the system user `name`: as root its own, else the process's.
#[must_use]
pub fn caller_of(name: &str) -> Option<Arc<Caller>> {
    let identity =
        if rustix::process::geteuid().is_root() { identity_of(name)? } else { own_identity() };
    Some(Arc::new(Caller::of(identity)))
}

/// Names of all groups of the system user `name`.
#[must_use]
pub fn groups_of(name: &str) -> Vec<String> {
    let passwd = std::fs::read_to_string(Path::new("/etc/passwd")).unwrap_or_default();
    let group = std::fs::read_to_string(Path::new("/etc/group")).unwrap_or_default();
    groups_in(&passwd, &group, name)
}

/// The gid of the group `name`.
#[must_use]
pub fn group_number(name: &str) -> Option<u32> {
    let group = std::fs::read_to_string(Path::new("/etc/group")).ok()?;
    group.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

fn groups_in(passwd: &str, group: &str, name: &str) -> Vec<String> {
    let own = passwd.lines().filter_map(parse).find(|e| e.name == name).map(|e| e.gid);
    let of_line = |line: &str| -> Option<String> {
        let gid: u32 = line.split(':').nth(2)?.parse().ok()?;
        let is_in = own == Some(gid) || membership(line, name).is_some();
        is_in.then(|| line.split(':').next().unwrap_or_default().to_owned())
    };
    group.lines().filter_map(of_line).collect()
}

/// The home directory of the system user `name`.
#[must_use]
pub fn home_of(name: &str) -> Option<PathBuf> {
    let passwd = std::fs::read_to_string(Path::new("/etc/passwd")).ok()?;
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(5).filter(|home| home.starts_with('/')).map(PathBuf::from)
}

/// The name of the user that this process runs as.
#[must_use]
pub fn own_name() -> Option<String> {
    let uid = rustix::process::geteuid().as_raw();
    let passwd = std::fs::read_to_string(Path::new("/etc/passwd")).ok()?;
    passwd.lines().filter_map(parse).find(|e| e.uid == uid).map(|e| e.name)
}

/// Names of all users and groups, cached until a file changes.
#[must_use]
pub fn names() -> Arc<UnixNames> {
    type CachedNames = Option<([Option<SystemTime>; 2], Arc<UnixNames>)>;
    static KEPT: Mutex<CachedNames> = Mutex::new(None);
    let files = ["/etc/passwd", "/etc/group"];
    let changed = files.map(|path| std::fs::metadata(path).and_then(|m| m.modified()).ok());
    let mut kept = KEPT.lock();
    if let Some((as_of, names)) = &*kept
        && *as_of == changed
    {
        return names.clone();
    }
    let [passwd, group] = files.map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let names = Arc::new(names_in(&passwd, &group));
    *kept = Some((changed, names.clone()));
    names
}

fn names_in(passwd: &str, group: &str) -> UnixNames {
    let group_of = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((name, fields.nth(1)?.parse().ok()?))
    };
    let users = passwd.lines().filter_map(parse).map(|entry| (entry.name, entry.uid));
    UnixNames::new(users, group.lines().filter_map(group_of))
}

/// The identity of this process.
#[must_use]
pub fn own_identity() -> Identity {
    let mut groups: Vec<u32> =
        rustix::process::getgroups().unwrap_or_default().iter().map(|g| g.as_raw()).collect();
    groups.sort_unstable();
    Identity {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups,
    }
}

fn identity_in(passwd: &str, group: &str, name: &str) -> Option<Identity> {
    let user = passwd.lines().filter_map(parse).find(|e| e.name == name)?;
    let mut groups: Vec<u32> = group.lines().filter_map(|line| membership(line, name)).collect();
    groups.retain(|gid| *gid != user.gid);
    groups.sort_unstable();
    groups.dedup();
    groups.truncate(Identity::GROUPS_MAX);
    Some(Identity { uid: user.uid, gid: user.gid, groups })
}

fn parse(line: &str) -> Option<PasswdEntry> {
    let mut fields = line.split(':');
    let name = fields.next()?.to_owned();
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some(PasswdEntry { name, uid, gid })
}

/// The gid of a group line, if `name` is a member.
fn membership(line: &str, name: &str) -> Option<u32> {
    let mut fields = line.split(':');
    let gid = fields.nth(2)?.parse().ok()?;
    fields.next()?.split(',').any(|member| member == name).then_some(gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_user_has_its_primary_and_supplementary_groups() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1001::/home/alice:/bin/sh\n";
        let group = "root:x:0:\nalice:x:1001:\nwheel:x:10:bob,alice\nmedia:x:5:alice\nbroken\n";
        assert_eq!(
            identity_in(passwd, group, "alice"),
            Some(Identity { uid: 1000, gid: 1001, groups: vec![5, 10] })
        );
        assert_eq!(identity_in(passwd, group, "carol"), None);
        assert_eq!(groups_in(passwd, group, "alice"), ["alice", "wheel", "media"]);
        assert_eq!(groups_in(passwd, group, "carol"), [""; 0]);
    }
}
