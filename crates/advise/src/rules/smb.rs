//! Rules about SMB Multichannel: whether, how many channels, for which workloads.

use super::{RuleFinding, SettingTarget, Weight, enough_connections};
use crate::{MeasurementFacts, WorkloadClass};

/// Relative rate below which several channels cost.
const LOSS: f64 = 0.95;
/// Size up to which requests are small.
const SMALL_BYTES: u32 = 16 * 1024;
/// Common values of the Windows setting.
const COUNTS: [usize; 4] = [1, 4, 8, 16];

fn smb(facts: &MeasurementFacts) -> Option<()> {
    (!facts.is_nfs).then_some(())
}

pub(super) fn both_sides(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let text = "the server does not support Multichannel; enable it on both sides";
    (!facts.offers_channels).then(|| {
        RuleFinding::new(Weight::Recommended, text)
            .set(SettingTarget::Server, "[multichannel]\nenabled = true")
            .set(SettingTarget::PowerShell, "Set-SmbServerConfiguration -EnableMultiChannel $true")
            .set(SettingTarget::PowerShell, "Set-SmbClientConfiguration -EnableMultiChannel $true")
    })
}

pub(super) fn server_default(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let short = facts.offers_channels && facts.channels_established < facts.channels_requested;
    let text = format!(
        "{} of {} channels were established: the server's limit or its adapters' RSS restricts \
         them",
        facts.channels_established, facts.channels_requested
    );
    let keys = format!("[multichannel]\nchannels_max = {}\nrss = true", facts.channels_requested);
    short.then(|| RuleFinding::new(Weight::Recommended, text).set(SettingTarget::Server, keys))
}

pub(super) fn client_default(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let text = "Windows clients have Multichannel on by default; check with";
    let look = "Get-SmbClientConfiguration | Select-Object -Property EnableMultichannel";
    Some(RuleFinding::new(Weight::Information, text).set(SettingTarget::PowerShell, look))
}

pub(super) fn feature_state(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let text = "Multichannel depends on the server's product and version; for an Anabranch \
                server, see";
    (!facts.offers_channels).then(|| {
        RuleFinding::new(Weight::Information, text).set(SettingTarget::Shell, "anabranch feature")
    })
}

pub(super) fn one_address(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let one: Vec<&String> =
        facts.server_interfaces.iter().flat_map(|one| &one.ip_addresses).collect();
    let foreign = one.iter().all(|ip| !facts.addresses.contains(ip));
    let text = "the server advertises other addresses than the connected one, as behind a \
                private endpoint or address translation: channels to them may fail; several \
                channels to one address work";
    let show =
        format!("anabranch channels smb://USER@{}/{} --any-interface", facts.server, facts.share);
    (!one.is_empty() && foreign && !facts.addresses.is_empty())
        .then(|| RuleFinding::new(Weight::Consider, text).set(SettingTarget::Shell, show))
}

pub(super) fn needless_adapters(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let real = |ip: &String| !ip.starts_with("127.") && ip != "::1" && !ip.starts_with("fe80");
    let adapters = facts.client.interfaces.iter().filter(|one| one.ip_addresses.iter().any(real));
    let adapters = adapters.count();
    let text = format!(
        "this machine has {adapters} adapters, but the server advertises one: this client uses \
         only one adapter"
    );
    let needless = adapters > 1 && facts.server_interfaces.len() == 1;
    needless.then(|| RuleFinding::new(Weight::Consider, text))
}

pub(super) fn connection_count(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let enough = enough_connections(facts)?;
    let count = COUNTS.into_iter().find(|count| *count >= enough).unwrap_or(16);
    let text = format!(
        "of {:?} connections, {enough} suffice for the highest throughput; on Windows the number \
         applies to an adapter: disconnect the share before a change, and connect it again \
         afterwards",
        facts.arms()
    );
    let (share, server) = (&facts.share, &facts.server);
    let mount = format!(
        "mount -t cifs //{server}/{share} /mnt/{share} -o \
         vers=3.1.1,username=USER,multichannel,max_channels={enough},nosharesock,actimeo=30"
    );
    let line = format!("Set-SmbClientConfiguration -ConnectionCountPerRSSNetworkInterface {count}");
    Some(
        RuleFinding::new(Weight::Consider, text)
            .set(SettingTarget::PowerShell, line)
            .set(SettingTarget::Shell, mount)
            .set(SettingTarget::Server, format!("[multichannel]\nchannels_max = {count}")),
    )
}

/// The smallest gain of these loads with the most channels, by their best rounds: a certain loss.
fn worst(facts: &MeasurementFacts, is_wanted: impl Fn(WorkloadClass, u32) -> bool) -> Option<f64> {
    let most = facts.most();
    if most == facts.fewest() {
        return None;
    }
    facts
        .cells
        .iter()
        .filter(|cell| cell.connections == most && is_wanted(cell.class, cell.block_bytes))
        .filter_map(|cell| facts.gain_bounds(cell.class, most, cell.block_bytes, cell.is_read))
        .map(|(_, best)| best)
        .min_by(f64::total_cmp)
}

pub(super) fn single_thread(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let worst = worst(facts, |class, block| class.is_single() && block <= SMALL_BYTES)?;
    let text = format!(
        "small requests one at a time lose {:.0} % with several channels: disable Multichannel \
         on a client that has no other load",
        (1.0 - worst) * 100.0
    );
    (worst < LOSS).then(|| {
        RuleFinding::new(Weight::Consider, text)
            .set(SettingTarget::PowerShell, "Set-SmbClientConfiguration -EnableMultiChannel $false")
    })
}

pub(super) fn small_requests(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let worst =
        worst(facts, |class, block| class == WorkloadClass::ManyOneFile && block <= SMALL_BYTES)?;
    let text = format!(
        "small requests on one file lose {:.0} % with several channels: spread them over more \
         files, enlarge them, or disable Multichannel on this client",
        (1.0 - worst) * 100.0
    );
    (worst < LOSS).then(|| {
        RuleFinding::new(Weight::Consider, text)
            .set(SettingTarget::PowerShell, "Set-SmbClientConfiguration -EnableMultiChannel $false")
    })
}
