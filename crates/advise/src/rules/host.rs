//! Rules about the client machine and its programs.

use super::{RuleFinding, SettingTarget, Weight};
use crate::MeasurementFacts;

fn url(facts: &MeasurementFacts) -> String {
    if facts.is_nfs {
        format!("nfs://{}/{}", facts.server, facts.share)
    } else {
        format!("smb://USER@{}/{}", facts.server, facts.share)
    }
}

pub(super) fn fill_the_queues(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let text = "to measure the adapter's capacity, load all its queues: 16 threads at depth 16";
    let line = format!("anabranch bench {} --profile seed-anf-single", url(facts));
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
    let line = format!("anabranch copy SOURCE {} --threads 8", url(facts));
    gain.then(|| {
        let found = RuleFinding::new(Weight::Consider, text).set(SettingTarget::Shell, line);
        if facts.is_nfs {
            return found;
        }
        let unc = format!("robocopy SOURCE \\\\{}\\{} /E /MT:8", facts.server, facts.share);
        found.set(SettingTarget::PowerShell, unc)
    })
}
