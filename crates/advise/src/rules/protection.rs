//! Rules about signing and encryption: their cost and their need.

use super::server_setting::ServerSetting;
use super::{RuleFinding, SettingTarget, Weight};
use crate::MeasurementFacts;

fn smb(facts: &MeasurementFacts) -> Option<()> {
    (!facts.is_nfs).then_some(())
}

pub(super) fn signing_cost(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let text = match facts.signing.as_str() {
        "off" => "messages are not signed; measure the cost before you require signing",
        "AES-128-GMAC" => "messages are signed with the fastest algorithm; measure its cost with",
        _ => {
            "messages are signed with a slow algorithm: newer servers and clients sign with \
             AES-GMAC; measure the cost with"
        }
    };
    let line = format!("anabranch bench {} --sign off,gmac,cmac", facts.url());
    Some(RuleFinding::new(Weight::Information, text).set(SettingTarget::Shell, line))
}

pub(super) fn by_share(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let text = "messages are encrypted; encryption can be required per share instead";
    let share = &facts.share;
    let setting = ServerSetting {
        anabranch: "[server]\nencryption = \"offered\"\n[[share]]\nencryption_required = true",
        samba: &format!(
            "[global]\nserver smb encrypt = default\n[{share}]\nserver smb encrypt = required"
        ),
        windows: &format!(
            "Set-SmbServerConfiguration -EncryptData $false\nSet-SmbShare -Name '{share}' \
             -EncryptData $true"
        ),
    };
    (facts.cipher != "off")
        .then(|| setting.add_to(facts, RuleFinding::new(Weight::Information, text)))
}

pub(super) fn test_first(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let text = "before you require encryption, measure with your own workload";
    let line = format!("anabranch bench {} --encrypt off,gcm", facts.url());
    (facts.cipher == "off")
        .then(|| RuleFinding::new(Weight::Information, text).set(SettingTarget::Shell, line))
}

pub(super) fn closed_network(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    match (facts.cipher.as_str(), facts.is_public) {
        ("off", true) => {
            let text = "the server's address is public, and messages are not encrypted: anyone \
                        on the path can read them";
            let setting = ServerSetting {
                anabranch: "[server]\nencryption = \"required\"",
                samba: "[global]\nserver smb encrypt = required",
                windows: "Set-SmbServerConfiguration -EncryptData $true",
            };
            Some(setting.add_to(facts, RuleFinding::new(Weight::Recommended, text)))
        }
        ("off", false) => None,
        (_, false) => {
            let text = "messages are encrypted on a private network: encryption may be off if \
                        the network is closed and trusted, unless the clients require it";
            Some(RuleFinding::new(Weight::Information, text))
        }
        (_, true) => None,
    }
}
