//! System calls that the kernel refused to confined servers, from the records that it logged.

use advise::doctor::{RefusalLog, RefusedCalls};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Records that the kernel still has.
const KERNEL_LOG: &str = "/dev/kmsg";
/// Bytes of the longest record of the kernel's log.
const RECORD_BYTES_MAX: usize = 8192;
/// Records of the kernel's log that are read at most: it holds fewer.
const RECORDS_MAX: usize = 1 << 20;
/// The file of auditd, which takes the records where it runs.
const AUDIT_LOG: &str = "/var/log/audit/audit.log";
/// Bytes at its end that are read.
const AUDIT_BYTES_MAX: u64 = 8 << 20;

/// Searches the logs of this machine; needs root.
pub fn look() -> RefusalLog {
    let is_written = server::confinement::are_refusals_logged();
    let logs = [kernel_log(), audit_log(Path::new(AUDIT_LOG))];
    let text: Vec<String> = logs.into_iter().filter_map(Result::ok).collect();
    let calls = (!text.is_empty()).then(|| calls_in(&text.concat(), boot_time()));
    RefusalLog { is_written, calls }
}

fn kernel_log() -> std::io::Result<String> {
    let mut log = File::options().read(true).custom_flags(nonblocking()).open(KERNEL_LOG)?;
    let (mut text, mut record) = (String::new(), [0; RECORD_BYTES_MAX]);
    for _ in 0..RECORDS_MAX {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => text += &String::from_utf8_lossy(&record[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // The kernel has overwritten the record meanwhile; the next read gives the oldest.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error),
        }
    }
    Ok(text)
}

/// A read at the end of the kernel's log returns.
fn nonblocking() -> i32 {
    rustix::fs::OFlags::NONBLOCK.bits().cast_signed()
}

fn audit_log(path: &Path) -> std::io::Result<String> {
    let mut log = File::open(path)?;
    let length = log.metadata()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(AUDIT_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    log.take(AUDIT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Seconds since 1970 at the start of the machine.
fn boot_time() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("btime "));
    line.and_then(|seconds| seconds.parse().ok()).unwrap_or_default()
}

/// Refused calls of programs called anabranch, no older than `since` (seconds since 1970).
fn calls_in(log: &str, since: u64) -> Vec<RefusedCalls> {
    let mut counts = BTreeMap::<(u32, bool), u64>::new();
    for record in log.lines().filter_map(SeccompRecord::parse) {
        if record.is_own && record.time >= since {
            *counts.entry((record.number, record.was_fatal)).or_default() += 1;
        }
    }
    let calls = counts.into_iter();
    calls.map(|((number, was_fatal), count)| RefusedCalls { number, was_fatal, count }).collect()
}

/// An audit record of a refused call (AUDIT_SECCOMP, 1326), as the kernel or auditd writes it.
struct SeccompRecord {
    /// Seconds since 1970.
    time: u64,
    number: u32,
    was_fatal: bool,
    /// Whether the program is called as this one is.
    is_own: bool,
}

impl SeccompRecord {
    fn parse(line: &str) -> Option<Self> {
        if !line.contains("type=1326 ") && !line.contains("type=SECCOMP ") {
            return None;
        }
        let field = |name: &str| {
            let (_, rest) = line.split_once(name)?;
            rest.split([' ', '\n']).next()
        };
        let time = line.split_once("audit(")?.1.split('.').next()?.parse().ok()?;
        let program = field(" exe=")?.trim_matches('"');
        Some(Self {
            time,
            number: field(" syscall=")?.parse().ok()?,
            was_fatal: field(" sig=")? != "0",
            is_own: program.rsplit('/').next() == Some("anabranch"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
5,1,2,-;audit: type=1326 audit(1700000100.5:2): auid=1 uid=0 gid=0 ses=1 pid=7 comm=\"anabranch\" exe=\"/usr/bin/anabranch\" sig=31 arch=c000003e syscall=59 compat=0 ip=0x1 code=0x80000000
5,1,2,-;audit: type=1326 audit(1700000100.6:3): auid=1 uid=0 gid=0 ses=1 pid=7 comm=\"x\" exe=\"/usr/bin/other\" sig=0 arch=c000003e syscall=41 compat=0 ip=0x1 code=0x50000
6,1,2,-;usb 1-1: syscall=3
type=SECCOMP msg=audit(1700000200.001:9): auid=1 uid=0 gid=0 ses=1 pid=8 comm=\"anabranch\" exe=\"/usr/bin/anabranch\" sig=0 arch=c000003e syscall=41 compat=0 ip=0x1 code=0x50000
type=SECCOMP msg=audit(1700000201.001:10): auid=1 uid=0 gid=0 ses=1 pid=8 comm=\"anabranch\" exe=\"/usr/bin/anabranch\" sig=0 arch=c000003e syscall=41 compat=0 ip=0x1 code=0x50000
type=SECCOMP msg=audit(x";

    #[test]
    fn own_refused_calls_are_counted_by_number_and_outcome() {
        let refused = |number, was_fatal, count| RefusedCalls { number, was_fatal, count };
        assert_eq!(calls_in(LOG, 0), [refused(41, false, 2), refused(59, true, 1)]);
        assert_eq!(calls_in(LOG, 1_700_000_201), [refused(41, false, 1)]);
        assert_eq!(calls_in("", 0), []);
    }

    #[test]
    fn end_of_a_long_audit_log_is_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(AUDIT_BYTES_MAX).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        std::io::Write::write_all(&mut file, b"\nlast").unwrap();
        let text = audit_log(file.path()).unwrap();
        assert_eq!(text.len() as u64, AUDIT_BYTES_MAX);
        assert!(text.ends_with("\nlast"));
        assert!(audit_log(Path::new("/nowhere")).is_err());
    }
}
