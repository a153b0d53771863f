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
             AES-GMAC; what it costs shows"
        }
    };
    let line = format!("anabranch bench {} --sign off,gmac,cmac", url(facts));
    Some(RuleFinding::new(Weight::Know, text).set(SettingTarget::Shell, line))
}

pub(super) fn by_share(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    let text = "messages are encrypted; encryption can be required per share instead";
    (facts.cipher != "off").then(|| {
        RuleFinding::new(Weight::Know, text)
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
        .then(|| RuleFinding::new(Weight::Know, text).set(SettingTarget::Shell, line))
}

pub(super) fn closed_network(facts: &MeasurementFacts) -> Option<RuleFinding> {
    smb(facts)?;
    match (facts.cipher.as_str(), facts.is_public) {
        ("off", true) => {
            let text = "the server's address is reachable from everywhere and messages are not \
                        sealed: who is in between reads them";
            let keys = "[server]\nencryption = \"required\"";
            Some(RuleFinding::new(Weight::Do, text).set(SettingTarget::Server, keys))
        }
        ("off", false) => None,
        (_, false) => {
            let text = "messages are sealed on a private network: it may be left out where the \
                        network is closed and trusted, though newer systems ask for it";
            Some(RuleFinding::new(Weight::Know, text))
        }
        (_, true) => None,
    }
}
