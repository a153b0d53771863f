//! Facts about the client's machine: kernel, adapters, mounts.

use crate::channels::own_interfaces;
use advise::{ClientMachineFacts, MountFacts};
use std::net::IpAddr;

/// Driver of a virtual machine's synthetic adapters, whose packets pass the host's software.
const SYNTHETIC: &str = "hv_netvsc";

/// Collects the facts about this machine.
pub fn machine() -> ClientMachineFacts {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    ClientMachineFacts {
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        kernel: kernel(&rustix::system::uname().release().to_string_lossy()),
        interfaces: own_interfaces(),
        slow_adapters: slow_adapters(),
        mounts: mounts.lines().filter_map(mount).collect(),
    }
}

/// Major and minor number of a kernel release.
fn kernel(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or_default();
    (next(), next())
}

/// Synthetic adapters without a virtual function beneath them.
fn slow_adapters() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let is_slow = |folder: &std::path::Path| {
        let driver = std::fs::read_link(folder.join("device/driver")).unwrap_or_default();
        let mut inside = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let has_function =
            inside.any(|entry| entry.file_name().to_string_lossy().starts_with("lower_"));
        driver.ends_with(SYNTHETIC) && !has_function
    };
    let slow = entries.filter(|entry| is_slow(&entry.path()));
    slow.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// A mount of a network file system, from a line of /proc/self/mountinfo. proc(5).
fn mount(line: &str) -> Option<MountFacts> {
    let (before, after) = line.split_once(" - ")?;
    let before: Vec<&str> = before.split(' ').collect();
    let mut after = after.split(' ');
    let (kind, source, options) = (after.next()?, after.next()?, after.next()?);
    if !matches!(kind, "nfs" | "nfs4" | "cifs" | "smb3") {
        return None;
    }
    let number = |name: &str| {
        let value = options.split(',').find_map(|one| one.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse::<u32>().ok())
    };
    let device = before.get(2)?;
    let ahead = std::fs::read_to_string(format!("/sys/class/bdi/{device}/read_ahead_kb"));
    Some(MountFacts {
        kind: kind.to_owned(),
        source: source.to_owned(),
        place: (*before.get(4)?).to_owned(),
        connections: number("nconnect").or(number("max_channels")).map(|count| count as usize),
        read_bytes: number("rsize"),
        read_ahead_kib: ahead.ok().and_then(|text| text.trim().parse().ok()),
    })
}

/// Whether an address is reachable from everywhere.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            // RFC 6598: shared address space of carrier-grade NAT.
            let shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xC0 == 64;
            !(v4.is_private() || v4.is_loopback() || v4.is_link_local() || shared)
        }
        IpAddr::V6(v6) => !(v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_the_network_are_read_and_others_passed_over() {
        let line = "36 35 0:53 / /mnt/x rw,noatime shared:1 - nfs4 files:/export \
                    rw,vers=4.1,rsize=1048576,nconnect=4,timeo=600";
        let found = mount(line).expect("it is one");
        assert_eq!((found.kind.as_str(), found.source.as_str()), ("nfs4", "files:/export"));
        assert_eq!(found.place, "/mnt/x");
        assert_eq!((found.connections, found.read_bytes), (Some(4), Some(1_048_576)));
        assert_eq!(mount("36 35 8:1 / / rw - ext4 /dev/sda1 rw"), None);
        assert_eq!(mount("nonsense"), None);
    }

    #[test]
    fn versions_and_addresses_are_judged() {
        assert_eq!(kernel("6.12.0-1042-azure"), (6, 12));
        assert_eq!(kernel(""), (0, 0));
        for (address, public) in [
            ("10.1.2.3", false),
            ("100.64.0.1", false),
            ("52.239.238.8", true),
            ("fd00::1", false),
            ("2603::1", true),
            ("127.0.0.1", false),
        ] {
            assert_eq!(is_public(address.parse().expect("one")), public, "{address}");
        }
    }
}
