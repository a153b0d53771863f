//! Rules about SMB Multichannel: whether, how many channels, for which workloads.

use super::server_setting::ServerSetting;
use super::{RuleFinding, SettingTarget, Weight, enough_connections};
use crate::facts::shell_word;
use crate::table::MATTERS;
use crate::{MeasurementFacts, WorkloadClass};

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
    let setting = ServerSetting {
        anabranch: "[multichannel]\nenabled = true",
        samba: "[global]\nserver multi channel support = yes",
        windows: "Set-SmbServerConfiguration -EnableMultiChannel $true",
    };
    (!facts.offers_channels).then(|| {
        setting
            .add_to(facts, RuleFinding::new(Weight::Recommended, text))
            .set(SettingTarget::PowerShell, "Set-SmbClientConfiguration -EnableMultiChannel $true")
    })
}

pub(super) fn server_default(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    // This tool opens one channel if messages are signed so; other clients may open more.
    let is_own_limit = facts.signing == "AES-128-GMAC" && facts.channels_established == 1;
    let short = facts.offers_channels
        && facts.channels_established < facts.channels_requested
        && !is_own_limit;
    let text = format!(
        "{} of {} channels were established: the server's limit or its adapters' RSS restricts \
         them",
        facts.channels_established, facts.channels_requested
    );
    let address = facts.addresses.first().map_or("ADDRESS", String::as_str);
    let setting = ServerSetting {
        anabranch: &format!(
            "[multichannel]\nchannels_max = {}\nrss = true",
            facts.channels_requested
        ),
        samba: &format!("[global]\ninterfaces = \"{address};capability=RSS\""),
        windows: "Enable-NetAdapterRss -Name *",
    };
    short.then(|| setting.add_to(facts, RuleFinding::new(Weight::Recommended, text)))
}

pub(super) fn client_default(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let text = "Windows clients have Multichannel on by default; check with";
    let look = "Get-SmbClientConfiguration | Select-Object -Property EnableMultichannel";
    Some(RuleFinding::new(Weight::Information, text).set(SettingTarget::PowerShell, look))
}

pub(super) fn feature_state(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let text = "Multichannel depends on the server's product and version; see its state on the \
                server";
    let setting = ServerSetting {
        anabranch: "# run: anabranch feature list",
        samba: "# run: testparm -s --parameter-name='server multi channel support'",
        windows: "Get-SmbServerConfiguration | Select-Object -Property EnableMultiChannel",
    };
    (!facts.offers_channels)
        .then(|| setting.add_to(facts, RuleFinding::new(Weight::Information, text)))
}

pub(super) fn one_address(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let one: Vec<&String> =
        facts.server_interfaces.iter().flat_map(|one| &one.ip_addresses).collect();
    let foreign = one.iter().all(|ip| !facts.addresses.contains(ip));
    let text = "the server advertises other addresses than the connected one, as behind a \
                private endpoint or address translation: channels to them may fail; several \
                channels to one address work";
    let show = format!("anabranch channels {} --any-interface", facts.url());
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
    let evidence =
        format!("of {:?} connections, {enough} suffice for the highest rate", facts.arms());
    if enough == facts.fewest() {
        let text = "the number of connections makes no difference: leave it as it is";
        return Some(RuleFinding::new(Weight::Information, text).by(evidence));
    }
    let count = COUNTS.into_iter().find(|count| *count >= enough).unwrap_or(16);
    let text = format!(
        "use {enough} connections; on Windows the number applies to an adapter: disconnect the \
         share before a change, and connect it again afterwards"
    );
    let (host, share) = (facts.mount_host(), &facts.share);
    let mount = format!(
        "mount -t cifs {} {} -o \
         vers=3.1.1,username={},multichannel,max_channels={enough},nosharesock,actimeo=30{}",
        shell_word(&format!("//{host}/{share}")),
        shell_word(&format!("/mnt/{share}")),
        facts.user_name(),
        facts.port_option()
    );
    let line = format!("Set-SmbClientConfiguration -ConnectionCountPerRSSNetworkInterface {count}");
    let finding = RuleFinding::new(Weight::Consider, text)
        .by(evidence)
        .set(SettingTarget::PowerShell, line)
        .set(SettingTarget::Shell, mount);
    // Samba and Windows have no maximum to set.
    let anabranch = &format!("[multichannel]\nchannels_max = {count}");
    Some(ServerSetting { anabranch, samba: "", windows: "" }.add_to(facts, finding))
}

/// The largest certain loss of these loads with the most channels, as a part of the rate.
fn worst(facts: &MeasurementFacts, is_wanted: impl Fn(WorkloadClass, u32) -> bool) -> Option<f64> {
    let most = facts.most();
    facts
        .cells
        .iter()
        .filter(|cell| cell.connections == most && is_wanted(cell.class, cell.block_bytes))
        .filter_map(|with| {
            let fewest = facts.fewest();
            let without = facts.cell(with.class, fewest, with.block_bytes, with.is_read)?;
            let loses = without.exceeds(with, MATTERS);
            loses.then(|| 1.0 - with.per_second / without.per_second)
        })
        .max_by(f64::total_cmp)
}

pub(super) fn single_thread(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let worst = worst(facts, |class, block| class.is_single() && block <= SMALL_BYTES)?;
    let text = "small requests one at a time lose with several channels: disable Multichannel on \
                a client that has no other load";
    Some(without_channels(text, worst))
}

pub(super) fn small_requests(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let worst =
        worst(facts, |class, block| class == WorkloadClass::ManyOneFile && block <= SMALL_BYTES)?;
    let text = "small requests on one file lose with several channels: spread them over more \
                files, enlarge them, or disable Multichannel on this client";
    Some(without_channels(text, worst))
}

fn without_channels(text: &str, loss: f64) -> RuleFinding {
    let line = "Set-SmbClientConfiguration -EnableMultiChannel $false";
    RuleFinding::new(Weight::Consider, text)
        .by(format!("up to {:.0} %", loss * 100.0))
        .set(SettingTarget::PowerShell, line)
}
