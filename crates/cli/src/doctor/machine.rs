//! Facts from the kernel: release, system calls, CPU, memory, clock and limits.

use crate::channels::own_interfaces;
use advise::doctor::{ClockFacts, DoctorFacts, NetworkInterfaceFacts, SystemLimits};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, inotify, openat2, statx};
use rustix::process::{Resource, getrlimit};
use std::fs::read_to_string;

/// The facts that do not depend on a configuration.
pub fn facts() -> DoctorFacts {
    let interfaces = own_interfaces().into_iter().filter(|one| {
        let reached =
            |text: &String| text.parse().is_ok_and(|ip: std::net::IpAddr| !ip.is_loopback());
        one.ip_addresses.iter().any(reached)
    });
    DoctorFacts {
        kernel: numbers(&rustix::system::uname().release().to_string_lossy()),
        missing_calls: missing_calls(),
        is_root: rustix::process::geteuid().is_root(),
        cpu_flags: cpu_flags(&read("/proc/cpuinfo")),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        limits: limits(),
        clock: clock(),
        memory_bytes: memory(&read("/proc/meminfo"), "MemTotal:"),
        memory_available_bytes: memory(&read("/proc/meminfo"), "MemAvailable:"),
        congestion: word("/proc/sys/net/ipv4/tcp_congestion_control"),
        interfaces: interfaces
            .map(|one| NetworkInterfaceFacts {
                name: one.friendly_name,
                bits_per_second: one.link_speed,
                rss_capable: one.rss_capable,
                addresses: one.ip_addresses,
            })
            .collect(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..DoctorFacts::default()
    }
}

fn read(path: &str) -> String {
    read_to_string(path).unwrap_or_default()
}

fn word(path: &str) -> Option<String> {
    Some(read(path).trim().to_owned()).filter(|text| !text.is_empty())
}

/// Major and minor number of a kernel release.
fn numbers(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or_default();
    (next(), next())
}

/// Tries the system calls that the server requires, and returns the failed ones.
fn missing_calls() -> Vec<(String, String)> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let tried = [
        ("openat2", openat2(CWD, "/", flags, Mode::empty(), ResolveFlags::empty()).map(drop)),
        ("statx", statx(CWD, "/", AtFlags::empty(), StatxFlags::BTIME).map(drop)),
        ("inotify_init1", inotify::init(inotify::CreateFlags::CLOEXEC).map(drop)),
    ];
    let failed = tried.into_iter().filter_map(|(name, tried)| Some((name, tried.err()?)));
    failed.map(|(name, errno)| (name.to_owned(), errno.to_string())).collect()
}

/// From /proc/cpuinfo: `flags` of x86, `Features` of ARM.
fn cpu_flags(text: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let words = line.and_then(|line| line.split_once(':')).map_or("", |(_, words)| words);
    words.split_whitespace().map(str::to_owned).collect()
}

/// A line of /proc/meminfo, which counts KiB.
fn memory(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

fn limits() -> SystemLimits {
    let number = |path: &str| read(path).trim().parse().ok();
    let last = |path: &str| read(path).split_whitespace().last().and_then(|n| n.parse().ok());
    SystemLimits {
        // The server raises its own to what it may have; none is no limit.
        descriptors: Some(getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)),
        watches: number("/proc/sys/fs/inotify/max_user_watches"),
        watch_instances: number("/proc/sys/fs/inotify/max_user_instances"),
        queued_events: number("/proc/sys/fs/inotify/max_queued_events"),
        accept_queue: number("/proc/sys/net/core/somaxconn"),
        receive_bytes: last("/proc/sys/net/ipv4/tcp_rmem"),
        send_bytes: last("/proc/sys/net/ipv4/tcp_wmem"),
    }
}

fn clock() -> ClockFacts {
    let state = server::backend::clock_state().ok();
    let zone = std::fs::read_link("/etc/localtime").ok();
    let zone =
        zone.and_then(|path| Some(path.to_string_lossy().split_once("zoneinfo/")?.1.to_owned()));
    ClockFacts {
        synchronized: state.map(|state| state.synchronized),
        error_microseconds: state.map(|state| state.error_microseconds),
        zone: zone.or_else(|| word("/etc/timezone")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_version_cpu_flags_and_memory_are_parsed() {
        assert_eq!(numbers("6.1.0-35-amd64"), (6, 1));
        assert_eq!(numbers("unknown"), (0, 0));
        let text = "processor\t: 0\nflags\t\t: fpu aes vaes\n";
        assert_eq!(cpu_flags(text), ["fpu", "aes", "vaes"]);
        assert_eq!(cpu_flags("Features\t: fp asimd aes pmull\n")[2], "aes");
        assert!(cpu_flags("").is_empty());
        assert_eq!(memory("MemTotal:       16384 kB\n", "MemTotal:"), Some(16 << 20));
        assert_eq!(memory("MemTotal: none\n", "MemTotal:"), None);
    }
}
