//! Recommendations: each rule is named by its requirement and maps facts to a finding or none.

mod host;
pub mod nfs;
mod placement;
mod protection;
mod server_setting;
mod smb;

use crate::facts::ratio_bounds;
use crate::table::MATTERS;
use crate::{MeasuredLoad, MeasurementFacts};
use serde::Serialize;
use std::fmt::Write;

/// Importance of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// It costs something now.
    Recommended,
    /// It may cost something.
    Consider,
    /// For information.
    Information,
}

/// Target of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingTarget {
    /// PowerShell on a Windows client.
    PowerShell,
    /// A shell on a Linux client.
    Shell,
    /// A file on a Linux client; the first line of the setting names it.
    File,
    /// The configuration of an Anabranch server.
    Server,
    /// smb.conf of a Samba server.
    SambaServer,
    /// PowerShell on a Windows server.
    WindowsServer,
}

/// A setting to be typed verbatim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Target.
    pub place: SettingTarget,
    /// Text.
    pub text: String,
}

/// Result of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleFinding {
    /// Id of the rule.
    pub id: &'static str,
    /// Importance.
    pub weight: Weight,
    /// The recommendation, without figures that differ from run to run.
    pub text: String,
    /// The figures that it rests on.
    pub evidence: Option<String>,
    /// Recommended settings.
    pub settings: Vec<Setting>,
}

impl RuleFinding {
    fn new(weight: Weight, text: impl Into<String>) -> Self {
        // The table of rules sets the id.
        Self { id: "", weight, text: text.into(), evidence: None, settings: Vec::new() }
    }

    fn by(mut self, evidence: impl Into<String>) -> Self {
        self.evidence = Some(evidence.into());
        self
    }

    fn set(mut self, place: SettingTarget, text: impl Into<String>) -> Self {
        self.settings.push(Setting { place, text: text.into() });
        self
    }
}

/// A rule.
pub type AdviceRule = fn(&MeasurementFacts) -> Option<RuleFinding>;

/// All rules by id.
pub const RULES: [(&str, AdviceRule); 29] = [
    ("G-01", placement::distance),
    ("G-02", placement::threads),
    ("G-03", placement::files),
    ("G-10", placement::warm_up),
    ("G-11", placement::more_clients),
    ("MC-11", smb::both_sides),
    ("MC-12", smb::server_default),
    ("MC-13", smb::client_default),
    ("MC-20", smb::feature_state),
    ("MC-21", smb::one_address),
    ("MC-24", smb::needless_adapters),
    ("CC-01", smb::connection_count),
    ("MP-05", smb::single_thread),
    ("MP-12", smb::small_requests),
    ("SG-04", protection::signing_cost),
    ("EN-03", protection::by_share),
    ("EN-07", protection::test_first),
    ("EN-08", protection::closed_network),
    ("AN-05", host::fill_the_queues),
    ("AN-06", host::accelerated),
    ("PE-05", host::no_file_manager),
    ("NC-03", nfs::connection_count),
    ("NC-04", nfs::kernel),
    ("NC-08", nfs::per_mount),
    ("NC-10", nfs::changing_address),
    ("NC-12", placement::machine_size),
    ("NC-13", placement::queue_depth),
    ("NC-14", nfs::low_depth),
    ("RA-03", nfs::read_ahead),
];

/// The findings of all rules, the most important first.
#[must_use]
pub fn findings(facts: &MeasurementFacts) -> Vec<RuleFinding> {
    let mut found: Vec<RuleFinding> = RULES
        .iter()
        .filter_map(|(id, rule)| rule(facts).map(|finding| RuleFinding { id, ..finding }))
        .collect();
    found.sort_by_key(|one| one.weight);
    found
}

/// The findings as text, with their ids if `verbose`.
#[must_use]
pub fn shown(findings: &[RuleFinding], verbose: bool) -> String {
    let mut out = String::new();
    for one in findings {
        let mark = match one.weight {
            Weight::Recommended => "recommended",
            Weight::Consider => "consider",
            Weight::Information => "info",
        };
        if verbose {
            let _ = write!(out, "{:<6} ", one.id);
        }
        let evidence = one.evidence.as_ref().map(|evidence| format!(" ({evidence})"));
        let _ = writeln!(out, "{mark:<12} {}{}", one.text, evidence.unwrap_or_default());
        for setting in &one.settings {
            let place = match setting.place {
                SettingTarget::PowerShell => "PowerShell",
                SettingTarget::Shell => "Linux",
                SettingTarget::File => "file",
                SettingTarget::Server => "Anabranch",
                SettingTarget::SambaServer => "Samba",
                SettingTarget::WindowsServer => "Windows Server",
            };
            for (at, line) in setting.text.lines().enumerate() {
                let place = if at == 0 { place } else { "" };
                let _ = writeln!(out, "    {place:<16}{line}");
            }
        }
    }
    out
}

/// Number of clients that reach a target rate.
#[must_use]
pub fn clients_needed(target_bytes: f64, client_bytes: f64) -> u64 {
    if client_bytes <= 0.0 { 0 } else { (target_bytes / client_bytes).ceil() as u64 }
}

/// The fewest connections that no larger number certainly exceeds, over all concurrent loads. The
/// mean of many loads has less noise than each.
pub(crate) fn enough_connections(facts: &MeasurementFacts) -> Option<usize> {
    let arms = facts.arms();
    (arms.len() > 1).then_some(())?;
    let exceeds = |more: usize, fewer: usize| {
        let scores = mean_ratios(facts, more, fewer);
        ratio_bounds(&scores).is_some_and(|(least, _)| least >= MATTERS)
    };
    arms.iter()
        .copied()
        .find(|arm| arms.iter().filter(|more| *more > arm).all(|more| !exceeds(*more, *arm)))
}

/// Ratio of the rates with two numbers of connections in each round: the geometric mean over all
/// concurrent loads.
fn mean_ratios(facts: &MeasurementFacts, more: usize, fewer: usize) -> Vec<f64> {
    let pairs: Vec<(&MeasuredLoad, &MeasuredLoad)> = facts
        .cells
        .iter()
        .filter(|cell| cell.connections == more && !cell.class.is_single())
        .filter_map(|cell| {
            let other = facts.cell(cell.class, fewer, cell.block_bytes, cell.is_read)?;
            Some((cell, other))
        })
        .collect();
    let rounds = pairs.iter().map(|(a, b)| a.rounds.len().min(b.rounds.len())).min();
    let ratio = |round: usize| {
        let of = |(a, b): &(&MeasuredLoad, &MeasuredLoad)| {
            (a.rounds[round] / b.rounds[round].max(f64::MIN_POSITIVE)).max(f64::MIN_POSITIVE).ln()
        };
        (pairs.iter().map(of).sum::<f64>() / pairs.len().max(1) as f64).exp()
    };
    (0..rounds.unwrap_or_default()).map(ratio).collect()
}

#[cfg(test)]
mod tests;
