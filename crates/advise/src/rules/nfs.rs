//! Rules about NFS: nconnect and read-ahead.

use super::{RuleFinding, SettingTarget, Weight, enough_connections};
use crate::facts::shell_word;
use crate::table::MATTERS;
use crate::{MeasurementFacts, WorkloadClass};

/// Maximum nconnect of Linux clients.
const CONNECTIONS_MAX: usize = 16;
/// Number of connections beyond which there is no known gain.
const CONNECTIONS_GOOD: usize = 4;
/// First kernel with nconnect, and first kernel with little read-ahead.
const KERNEL_CONNECTIONS: (u32, u32) = (5, 3);
const KERNEL_READ_AHEAD: (u32, u32) = (5, 4);
/// Recommended read-ahead in KiB.
const READ_AHEAD_KIB: u32 = 15_360;
/// Default read-ahead from kernel 5.4 on; older kernels read ahead this many reads.
const READ_AHEAD_DEFAULT_KIB: u32 = 128;
const READ_AHEAD_READS: u32 = 15;

fn nfs(facts: &MeasurementFacts) -> Option<()> {
    facts.is_nfs.then_some(())
}

fn mount(facts: &MeasurementFacts, count: usize) -> String {
    let minor = if facts.dialect == "4.2" { 2 } else { 1 };
    let name = facts.share.rsplit('/').next().unwrap_or_default();
    format!(
        "mount -t nfs {} {} -o vers=4,minorversion={minor},nconnect={count},\
         rsize=1048576,wsize=1048576,hard,noatime{}",
        shell_word(&format!("{}:/{}", facts.mount_host(), facts.share)),
        shell_word(&format!("/mnt/{name}")),
        facts.port_option()
    )
}

pub(super) fn connection_count(facts: &MeasurementFacts) -> Option<RuleFinding> {
    nfs(facts)?;
    let enough = enough_connections(facts)?.min(CONNECTIONS_MAX);
    let count = enough.min(CONNECTIONS_GOOD);
    let evidence =
        format!("of {:?} connections, {enough} suffice for the highest rate", facts.arms());
    let finding = if enough == facts.fewest() {
        let text = format!("the number of connections makes no difference; use {count}");
        RuleFinding::new(Weight::Information, text)
    } else {
        let text = format!("use {count} connections (Linux permits at most 16)");
        RuleFinding::new(Weight::Consider, text)
    };
    Some(finding.by(evidence).set(SettingTarget::Shell, mount(facts, count)))
}

pub(super) fn kernel(facts: &MeasurementFacts) -> Option<RuleFinding> {
    nfs(facts)?;
    let (major, minor) = facts.client.kernel;
    let text = format!("this kernel, {major}.{minor}, has no nconnect, which needs 5.3 or later");
    let old = facts.client.kernel < KERNEL_CONNECTIONS;
    old.then(|| RuleFinding::new(Weight::Recommended, text))
}

/// The host of a mount source.
fn host_of(source: &str) -> &str {
    source.rsplit_once(":/").map_or(source, |(host, _)| host)
}

pub(super) fn per_mount(facts: &MeasurementFacts) -> Option<RuleFinding> {
    nfs(facts)?;
    let same = |host: &str| host == facts.server || facts.addresses.iter().any(|ip| ip == host);
    let here = facts
        .client
        .mounts
        .iter()
        .find(|mount| mount.kind.starts_with("nfs") && same(host_of(&mount.source)))?;
    let text = format!(
        "{} is mounted from this server with {} connection(s): later mounts from this server \
         share them and ignore their own nconnect. Unmount all of them before a change; shares \
         that need different numbers need different addresses",
        here.place,
        here.connections.unwrap_or(1)
    );
    Some(
        RuleFinding::new(Weight::Consider, text)
            .set(SettingTarget::Shell, format!("umount {}", here.place)),
    )
}

pub(super) fn changing_address(facts: &MeasurementFacts) -> Option<RuleFinding> {
    nfs(facts)?;
    let text = format!(
        "{} has {}: Linux shares connections by address, and this address may change. Use a \
         fixed private address",
        facts.server,
        if facts.is_public { "a public address" } else { "several addresses" }
    );
    (facts.is_public || facts.addresses.len() > 1).then(|| RuleFinding::new(Weight::Consider, text))
}

pub(super) fn low_depth(facts: &MeasurementFacts) -> Option<RuleFinding> {
    nfs(facts)?;
    let (most, fewest) = (facts.most(), facts.fewest());
    let small = *facts.blocks().first()?;
    let class = WorkloadClass::SingleOneFile;
    let single = [true, false].map(|is_read| {
        let with = facts.cell(class, most, small, is_read).filter(|_| most > fewest)?;
        let without = facts.cell(class, fewest, small, is_read)?;
        let ratio = with.per_second / without.per_second.max(f64::MIN_POSITIVE);
        Some((ratio, without.exceeds(with, MATTERS)))
    });
    let [Some(read), Some(write)] = single else { return None };
    let evidence = format!(
        "with {most} connections reads are {:.2} times and writes {:.2} times as fast",
        read.0, write.0
    );
    let text = format!(
        "for latency-sensitive work, one small request at a time, {}",
        if read.1 || write.1 {
            "use one connection"
        } else {
            "the number of connections makes no difference"
        }
    );
    Some(RuleFinding::new(Weight::Information, text).by(evidence))
}

/// Default read-ahead of the kernel on a mount, in KiB.
pub(super) fn default_read_ahead_kib(kernel: (u32, u32), read_bytes: u32) -> u32 {
    if kernel >= KERNEL_READ_AHEAD {
        READ_AHEAD_DEFAULT_KIB
    } else {
        READ_AHEAD_READS * (read_bytes / 1024)
    }
}

pub(super) fn read_ahead(facts: &MeasurementFacts) -> Option<RuleFinding> {
    nfs(facts)?;
    let mounts: Vec<String> = facts
        .client
        .mounts
        .iter()
        .filter(|mount| mount.kind.starts_with("nfs"))
        .map(|mount| {
            let kib = mount.read_ahead_kib.map_or("unknown".into(), |kib| format!("{kib} KiB"));
            format!("{}: {kib}", mount.place)
        })
        .collect();
    let low = facts
        .client
        .mounts
        .iter()
        .any(|mount| mount.read_ahead_kib.is_some_and(|kib| kib < READ_AHEAD_KIB));
    let default = default_read_ahead_kib(facts.client.kernel, 1 << 20);
    if !low && (!mounts.is_empty() || default >= READ_AHEAD_KIB) {
        return None;
    }
    let (major, minor) = facts.client.kernel;
    let found = if mounts.is_empty() { "no NFS mount now".into() } else { mounts.join(", ") };
    let text = format!(
        "kernel {major}.{minor} reads {default} KiB ahead on NFS by default ({found}): \
         large files are read quicker with 15 MiB"
    );
    let weight = if low { Weight::Recommended } else { Weight::Consider };
    Some(
        RuleFinding::new(weight, text)
            .set(
                SettingTarget::File,
                format!("# /etc/udev/rules.d/99-nfs.rules\n{}", read_ahead_rule()),
            )
            .set(SettingTarget::Shell, "sudo udevadm control --reload"),
    )
}

/// A udev rule that sets the read-ahead of every NFS mount: it looks the bdi up in the kernel's
/// list of NFS volumes.
#[must_use]
pub fn read_ahead_rule() -> String {
    [
        "SUBSYSTEM==\"bdi\"",
        "ACTION==\"add\"",
        "PROGRAM=\"/usr/bin/awk -v bdi=$kernel 'BEGIN{ret=1} {if ($4 == bdi) {ret=0}} END{exit \
         ret}' /proc/fs/nfsfs/volumes\"",
        &format!("ATTR{{read_ahead_kb}}=\"{READ_AHEAD_KIB}\""),
    ]
    .join(" \\\n, ")
}
