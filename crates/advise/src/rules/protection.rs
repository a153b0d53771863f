//! Rules about signing and encryption: their cost and their need.

use super::{RuleFinding, SettingTarget, Weight};
use crate::MeasurementFacts;

fn smb(facts: &MeasurementFacts) -> Option<()> {
    (!facts.is_nfs).then_some(())
}

fn url(facts: &MeasurementFacts) -> String {
    format!("smb://USER@{}/{}", facts.server, facts.share)
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
    let line = format!("anabranch bench {} --sign off,gmac,cmac", url(facts));
    Some(RuleFinding::new(Weight::Information, text).set(SettingTarget::Shell, line))
}

pub(super) fn by_share(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let text = "messages are encrypted; encryption can be required per share instead";
    (facts.cipher != "off").then(|| {
        RuleFinding::new(Weight::Information, text)
            .set(
                SettingTarget::Server,
                "[server]\nencryption = \"offered\"\n[[share]]\nencryption_required = true",
            )
            .set(SettingTarget::PowerShell, "Set-SmbShare -Name NAME -EncryptData $true")
    })
}

pub(super) fn test_first(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let text = "before you require encryption, measure with your own workload";
    let line = format!("anabranch bench {} --encrypt off,gcm", url(facts));
    (facts.cipher == "off")
        .then(|| RuleFinding::new(Weight::Information, text).set(SettingTarget::Shell, line))
}

pub(super) fn closed_network(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    match (facts.cipher.as_str(), facts.is_public) {
        ("off", true) => {
            let text = "the server's address is public, and messages are not encrypted: anyone \
                        on the path can read them";
            let keys = "[server]\nencryption = \"required\"";
            Some(RuleFinding::new(Weight::Recommended, text).set(SettingTarget::Server, keys))
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
