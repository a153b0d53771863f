//! Rules about the kernel, CPU, memory, clock and process limits.

use super::{DoctorFacts, DoctorFinding};
use crate::size;

/// First kernel with `openat2` and RESOLVE_BENEATH, without which the server resolves no path.
const KERNEL_MIN: (u32, u32) = (5, 6);
/// First kernel whose fanotify reports names.
const KERNEL_FANOTIFY_NAMES: (u32, u32) = (5, 9);
/// First kernel with quotactl_fd.
const KERNEL_QUOTAS: (u32, u32) = (5, 14);
/// Memory of the server besides the caches, in bytes.
const MEMORY_BESIDE: u64 = 256 << 20;
/// Each connection and each open file takes one.
const DESCRIPTORS_WANTED: u64 = 65_536;
/// Watched directories: those with indexed names, and those that clients watch.
const WATCHES_WANTED: u64 = 65_536;
const WATCH_INSTANCES_WANTED: u64 = 128;
const QUEUED_EVENTS_WANTED: u64 = 16_384;
/// Windows and Kerberos tolerate five minutes, but file times are wrong long before.
const CLOCK_ERROR_MAX_MICROSECONDS: u64 = 1_000_000;

pub(super) fn kernel(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let (major, minor) = facts.kernel;
    let topic = "kernel";
    let mut found: Vec<DoctorFinding> = facts
        .missing_calls
        .iter()
        .map(|(call, why)| {
            DoctorFinding::red(topic, format!("{call} does not work ({why}): the server needs it"))
                .remedy("uname -r   # 5.6 or later; in a container, also check its seccomp profile")
        })
        .collect();
    if !found.is_empty() {
        return found;
    }
    let lacks = |since: (u32, u32), what: &str| {
        let text = format!("{major}.{minor}: {what}; that needs {}.{}", since.0, since.1);
        DoctorFinding::yellow(topic, text).remedy("apt install linux-image-amd64 && reboot")
    };
    if facts.kernel < KERNEL_MIN {
        let text = format!("{major}.{minor} is older than 5.6, and lacks openat2");
        return vec![
            DoctorFinding::red(topic, text).remedy("apt install linux-image-amd64 && reboot"),
        ];
    }
    if facts.kernel < KERNEL_FANOTIFY_NAMES {
        found.push(lacks(
            KERNEL_FANOTIFY_NAMES,
            "change notifications for local changes carry no names",
        ));
    } else if facts.kernel < KERNEL_QUOTAS {
        found.push(lacks(KERNEL_QUOTAS, "user quotas are not shown"));
    } else {
        found.push(DoctorFinding::green(
            topic,
            format!("{major}.{minor}: has every feature the server uses"),
        ));
    }
    if !facts.is_root {
        let text = "not run as root: a server that this user starts accesses all files as this \
                    user, and cannot use port 445";
        found.push(DoctorFinding::yellow("user", text).remedy("sudo anabranch doctor"));
    }
    found
}

pub(super) fn cpu(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let has = |flag: &str| facts.cpu_flags.iter().any(|one| one == flag);
    let cores = facts.cpus;
    let finding = if facts.cpu_flags.is_empty() {
        return Vec::new();
    } else if has("vaes") && has("vpclmulqdq") {
        DoctorFinding::green("CPU", format!("{cores}, with wide AES instructions"))
    } else if has("aes") {
        DoctorFinding::green("CPU", format!("{cores}, with AES instructions"))
    } else {
        let text = format!(
            "{cores}, without AES instructions: signing and encryption cost ten times as much"
        );
        DoctorFinding::yellow("CPU", text)
            .remedy("# in a virtual machine: set the CPU type to the host's (QEMU: -cpu host)")
    };
    vec![finding]
}

pub(super) fn memory(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let (Some(all), Some(free)) = (facts.memory_bytes, facts.memory_available_bytes) else {
        return Vec::new();
    };
    let wanted = facts.cache_bytes + MEMORY_BESIDE;
    let shown = |bytes: u64| size(bytes as f64);
    if free < wanted {
        let text = format!(
            "{} of {} are free; the shares' metadata caches may use {}, and the server needs more",
            shown(free),
            shown(all),
            shown(facts.cache_bytes)
        );
        let lower = "# in [[share]]: metadata_cache = \"32 MiB\"";
        return vec![DoctorFinding::yellow("memory", text).remedy(lower)];
    }
    vec![DoctorFinding::green("memory", format!("{} of {} are free", shown(free), shown(all)))]
}

pub(super) fn clock(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let topic = "clock";
    let zone = facts.clock.zone.as_deref().unwrap_or("unknown");
    let remedy = "apt install systemd-timesyncd && timedatectl set-ntp true";
    let finding = match (facts.clock.synchronized, facts.clock.error_microseconds) {
        (None, _) => return Vec::new(),
        (Some(false), _) => {
            let text = format!(
                "not synchronized: file times may be wrong, and Kerberos tickets are refused \
                 from five minutes of skew; zone {zone}"
            );
            DoctorFinding::yellow(topic, text).remedy(remedy)
        }
        (Some(true), Some(error)) if error > CLOCK_ERROR_MAX_MICROSECONDS => {
            let text = format!("may be wrong by {} ms; zone {zone}", error / 1000);
            DoctorFinding::yellow(topic, text)
                .remedy("timedatectl timesync-status || chronyc tracking")
        }
        (Some(true), _) => DoctorFinding::green(topic, format!("synchronized; zone {zone}")),
    };
    vec![finding]
}

pub(super) fn descriptors(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let Some(limit) = facts.limits.descriptors else { return Vec::new() };
    if limit >= DESCRIPTORS_WANTED {
        return vec![DoctorFinding::green(
            "descriptors",
            format!("{limit} for a process started here"),
        )];
    }
    let text = format!(
        "{limit} for a process started here: connections and open files together; the packaged \
         service has 1048576 of its own"
    );
    let remedy = "ulimit -n 1048576   # or LimitNOFILE=1048576 in the unit";
    vec![DoctorFinding::yellow("descriptors", text).remedy(remedy)]
}

pub(super) fn notification(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let limits = &facts.limits;
    let wanted = [
        (
            "max_user_watches",
            limits.watches,
            WATCHES_WANTED,
            "directories can be watched: others are read from disk, and clients have to poll",
        ),
        (
            "max_user_instances",
            limits.watch_instances,
            WATCH_INSTANCES_WANTED,
            "inotify instances, and each share needs one",
        ),
        (
            "max_queued_events",
            limits.queued_events,
            QUEUED_EVENTS_WANTED,
            "events can be queued: more than that drops all cached names",
        ),
    ];
    let mut found = Vec::new();
    for (name, value, least, what) in wanted {
        if let Some(value) = value.filter(|value| *value < least) {
            let text = format!("fs.inotify.{name} = {value}: {what}");
            let remedy = format!(
                "sysctl -w fs.inotify.{name}={least}   # to stay: in /etc/sysctl.d/60-anabranch.conf"
            );
            found.push(DoctorFinding::yellow("inotify", text).remedy(remedy));
        }
    }
    if found.is_empty() && limits.watches.is_some() {
        found.push(DoctorFinding::green("inotify", "limits are sufficient"));
    }
    found
}
