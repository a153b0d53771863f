//! Rules about the configuration, the state directory and the shares' file systems.

use super::{
    DoctorFacts, DoctorFinding, FindingSeverity, FolderFacts, LongStreams, ShareFileSystem,
};
use crate::size;

/// Reciprocal of the fraction of free space below which there is a finding.
const FREE_PARTS: u64 = 20;
/// File systems that other machines or processes change: not all changes are notified.
const FOREIGN: [&str; 9] =
    ["nfs", "nfs4", "cifs", "smb3", "ceph", "fuse", "9p", "afs", "glusterfs"];

pub(super) fn configuration(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let topic = "configuration";
    let Some(path) = &facts.config_path else {
        let text = "no configuration was checked";
        return vec![DoctorFinding::green(topic, text).remedy("anabranch doctor --config FILE")];
    };
    let check = || format!("anabranch check {path}");
    let wrong = facts.config_problems.iter();
    let mut found: Vec<DoctorFinding> =
        wrong.map(|problem| DoctorFinding::red(topic, problem.clone()).remedy(check())).collect();
    let warnings = facts.config_warnings.iter();
    found.extend(
        warnings.map(|warning| DoctorFinding::yellow(topic, warning.clone()).remedy(check())),
    );
    if found.is_empty() {
        found.push(DoctorFinding::green(topic, format!("{path}: no problems")));
    }
    found
}

pub(super) fn folders(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    facts.folders.iter().map(folder).collect()
}

fn folder(folder: &FolderFacts) -> DoctorFinding {
    let FolderFacts { what, path, mode, forbidden_mode, is_writable, must_be_writable } = folder;
    let Some(mode) = mode else {
        let text = format!("{path} ({what}) does not exist yet: the server creates it");
        return DoctorFinding::green("permissions", text);
    };
    let excess = mode & forbidden_mode;
    if excess != 0 {
        let text = format!(
            "{path} ({what}) has mode {mode:04o}: users other than its owner can access it"
        );
        return DoctorFinding::red("permissions", text).remedy(format!(
            "chmod {:04o} {}",
            mode & !forbidden_mode,
            quoted(path)
        ));
    }
    if *must_be_writable && !is_writable {
        let text = format!("{path} ({what}) is not writable");
        let remedy = format!("ls -ld {path}; findmnt -T {path}", path = quoted(path));
        return DoctorFinding::red("permissions", text).remedy(remedy);
    }
    DoctorFinding::green("permissions", format!("{path} ({what}) has mode {mode:04o}"))
}

pub(super) fn file_systems(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    facts.file_systems.iter().flat_map(file_system).collect()
}

fn file_system(of: &ShareFileSystem) -> Vec<DoctorFinding> {
    let mut found = reached(of);
    found.extend(kept(of));
    found.extend(room(of));
    found.extend(of.long_streams.iter().flat_map(|streams| long_streams(of, streams)));
    if found.is_empty() {
        let text = format!("{}: {} on {}{}", of.share, of.path, of.kind, abilities(of));
        found.push(DoctorFinding::green("share", text));
    }
    found
}

fn say(of: &ShareFileSystem, state: FindingSeverity, text: &str, remedy: String) -> DoctorFinding {
    DoctorFinding::new("share", state, format!("{}: {text}", of.share)).remedy(remedy)
}

fn has(of: &ShareFileSystem, option: &str) -> bool {
    of.options.iter().any(|one| one == option)
}

/// Whether the share is writable, and whether others change it.
fn reached(of: &ShareFileSystem) -> Vec<DoctorFinding> {
    let (path, kind, mounted_at) = (&of.path, &of.kind, &of.mounted_at);
    let mut found = Vec::new();
    if of.writable == Some(false) && has(of, "ro") {
        let text = format!("{mounted_at} is mounted read-only, and the share is not");
        let remedy = format!(
            "mount -o remount,rw {}   # or, in [[share]]: read_only = true",
            quoted(mounted_at)
        );
        found.push(say(of, FindingSeverity::Red, &text, remedy));
    } else if of.writable == Some(false) {
        let text = format!("{path} is not writable");
        found.push(say(of, FindingSeverity::Red, &text, format!("ls -ld {}", quoted(path))));
    }
    if FOREIGN.iter().any(|foreign| kind == foreign || kind.starts_with("fuse.")) {
        let text = format!(
            "{kind} does not report changes made by other machines: no name index, and name \
             lookups read directories"
        );
        let remedy = format!("findmnt -T {}   # share a file system of this machine", quoted(path));
        found.push(say(of, FindingSeverity::Yellow, &text, remedy));
    }
    found
}

/// Metadata that the file system cannot store.
fn kept(of: &ShareFileSystem) -> Vec<DoctorFinding> {
    let (kind, mounted_at) = (&of.kind, &of.mounted_at);
    let mut found = Vec::new();
    if of.user_xattrs == Some(false) {
        let text = format!(
            "{kind} at {mounted_at} has no extended attributes: DOS attributes, creation times and \
             named streams are not stored"
        );
        found.push(say(
            of,
            FindingSeverity::Yellow,
            &text,
            xattr_remedy(kind, &quoted(mounted_at)),
        ));
    }
    if of.acls == Some(false) {
        let text = format!(
            "{kind} at {mounted_at} has no ACLs: Windows permissions become owner, group and others"
        );
        found.push(say(of, FindingSeverity::Yellow, &text, acl_remedy(kind, &quoted(mounted_at))));
    }
    let keeps_times = !matches!(kind.as_str(), "overlay" | "tmpfs");
    if keeps_times && !has(of, "noatime") && !has(of, "relatime") {
        let text = format!("{mounted_at} is mounted with strictatime: each read writes");
        let remedy = format!("mount -o remount,relatime {}", quoted(mounted_at));
        found.push(say(of, FindingSeverity::Yellow, &text, remedy));
    }
    found
}

/// Findings about little free space.
fn room(of: &ShareFileSystem) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    if let Some((all, free)) = of.bytes.filter(|(all, free)| *free < all / FREE_PARTS) {
        let text = format!("{} of {} are free", size(free as f64), size(all as f64));
        let remedy = format!("du -xh --max-depth 2 {} | sort -h | tail", quoted(&of.path));
        found.push(say(of, FindingSeverity::Yellow, &text, remedy));
    }
    if let Some((all, free)) = of.inodes.filter(|(all, free)| *free < all / FREE_PARTS) {
        let text = format!("{free} of {all} inodes are free");
        let remedy = format!(
            "df -i {}   # ext4 has a fixed number from its creation",
            quoted(&of.mounted_at)
        );
        found.push(say(of, FindingSeverity::Yellow, &text, remedy));
    }
    found
}

/// Named streams in separate files that are unusable.
fn long_streams(of: &ShareFileSystem, streams: &LongStreams) -> Vec<DoctorFinding> {
    let store = quoted(&format!("{}/.anabranch-streams", of.path));
    let mut found = Vec::new();
    if streams.is_open_to_others {
        let text = "long named streams are unavailable: other users may enter their directory";
        let remedy = format!("chmod 1700 {store}   # and chown it to the server's user");
        found.push(say(of, FindingSeverity::Red, text, remedy));
    }
    if streams.orphans > 0 {
        let (count, bytes) = (streams.orphans, size(streams.orphan_bytes as f64));
        let text = format!("{count} long named streams ({bytes}) belong to deleted files");
        let remedy = "# wait: the server removes them some days after their files are deleted";
        found.push(say(of, FindingSeverity::Yellow, &text, remedy.to_owned()));
    }
    if streams.unclaimed > 0 {
        let text = format!(
            "{} long named streams were restored from a backup, or have no readable record, and \
             no file refers to them: they may be the only copy",
            streams.unclaimed
        );
        let remedy =
            format!("ls -l {store}   # restore their files, with extended attributes; keep these");
        found.push(say(of, FindingSeverity::Yellow, &text, remedy));
    }
    found
}

/// Properties that need no action.
fn abilities(of: &ShareFileSystem) -> String {
    let quota = of.options.iter().any(|option| option.contains("quota") && option != "noquota");
    let words = [
        (of.reflinks == Some(true), "copies share blocks"),
        (of.reflinks == Some(false), "copies do not share blocks"),
        (of.case_insensitive == Some(true), "case-insensitive directories"),
        (quota, "quotas"),
    ];
    let words: Vec<&str> =
        words.iter().filter(|(holds, _)| *holds).map(|(_, word)| *word).collect();
    let free =
        of.bytes.map(|(_, free)| format!("; {} free", size(free as f64))).unwrap_or_default();
    if words.is_empty() { free } else { format!(": {}{free}", words.join(", ")) }
}

fn xattr_remedy(kind: &str, at: &str) -> String {
    match kind {
        "ext2" | "ext3" | "ext4" => format!("mount -o remount,user_xattr {at}"),
        "zfs" => format!("zfs set xattr=sa {at}"),
        _ => "# share a directory of ext4, XFS, btrfs or ZFS".to_owned(),
    }
}

fn acl_remedy(kind: &str, at: &str) -> String {
    match kind {
        "ext2" | "ext3" | "ext4" => format!("mount -o remount,acl {at}"),
        "zfs" => format!("zfs set acltype=posix {at}"),
        _ => "# share a directory of ext4, XFS, btrfs or ZFS".to_owned(),
    }
}

/// Quotes a path for a shell.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
    if path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}
