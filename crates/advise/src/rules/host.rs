//! Rules about the client machine and its programs.

use super::{RuleFinding, SettingTarget, Weight};
use crate::MeasurementFacts;

pub(super) fn fill_the_queues(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let text = "to measure the adapter's capacity, load all its queues: 16 threads at depth 16";
    let line = format!("anabranch bench {} --profile seed-anf-single", facts.url());
    Some(RuleFinding::new(Weight::Information, text).set(SettingTarget::Shell, line))
}

pub(super) fn accelerated(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let slow = &facts.client.slow_adapters;
    let text = format!(
        "{} use the hypervisor's software switch: enable accelerated networking for this \
         machine; recreating or resizing a machine does not enable it",
        slow.join(", ")
    );
    let line = "az network nic update --resource-group GROUP --name NIC \
                --accelerated-networking true";
    (!slow.is_empty())
        .then(|| RuleFinding::new(Weight::Recommended, text).set(SettingTarget::Shell, line))
}

pub(super) fn no_file_manager(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let gain = super::placement::threads(facts).is_some();
    let text = "copy with several threads, not with a file manager, which sends one request at a \
                time";
    let line = format!("anabranch copy SOURCE {} --threads 8", facts.url());
    gain.then(|| {
        let found = RuleFinding::new(Weight::Consider, text).set(SettingTarget::Shell, line);
        if facts.is_nfs {
            return found;
        }
        let unc = format!("'\\\\{}\\{}'", facts.server, facts.share);
        let copy = format!("robocopy SOURCE {unc} /E /MT:8");
        // A UNC path has no port: a connection through another one must exist.
        let map = facts.unusual_port().map(|port| format!("net use {unc} /TCPPORT:{port}\n"));
        found.set(SettingTarget::PowerShell, map.unwrap_or_default() + &copy)
    })
}
