//! Checks whether a machine is fit to serve: maps facts to green, yellow and red findings, each
//! with the command that helps.

mod facts;
mod network;
mod places;
mod system;

pub use facts::{
    ClockFacts, DoctorFacts, Firewall, FolderFacts, LogonWays, LongStreams, NetworkInterfaceFacts,
    NfsShare, Port, PortState, RefusalLog, RefusedCalls, ServerVersion, ShareFileSystem,
    SystemLimits,
};

use serde::Serialize;
use std::fmt::Write;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingSeverity {
    /// No problem.
    Green,
    /// The server works, with a cost or a missing feature.
    Yellow,
    /// The server does not work, or not safely.
    Red,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// The checked subject.
    pub topic: &'static str,
    /// Severity.
    pub state: FindingSeverity,
    /// The finding and its consequence.
    pub text: String,
    /// The command to type.
    pub remedy: Option<String>,
}

impl DoctorFinding {
    fn new(topic: &'static str, state: FindingSeverity, text: impl Into<String>) -> Self {
        Self { topic, state, text: text.into(), remedy: None }
    }

    fn green(topic: &'static str, text: impl Into<String>) -> Self {
        Self::new(topic, FindingSeverity::Green, text)
    }

    fn yellow(topic: &'static str, text: impl Into<String>) -> Self {
        Self::new(topic, FindingSeverity::Yellow, text)
    }

    fn red(topic: &'static str, text: impl Into<String>) -> Self {
        Self::new(topic, FindingSeverity::Red, text)
    }

    fn remedy(mut self, line: impl Into<String>) -> Self {
        self.remedy = Some(line.into());
        self
    }
}

/// A check of one subject.
type DoctorCheck = fn(&DoctorFacts) -> Vec<DoctorFinding>;

/// All checks in the order of the report, from the machine to the shares.
const RULES: [DoctorCheck; 17] = [
    system::kernel,
    system::cpu,
    system::memory,
    system::clock,
    system::descriptors,
    system::notification,
    network::queues,
    network::congestion,
    network::interfaces,
    network::ports,
    network::firewall,
    network::announcements,
    network::reserved_ports,
    network::logon,
    places::configuration,
    places::folders,
    places::file_systems,
];

/// All findings; those about a running server come last.
#[must_use]
pub fn findings(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let found = RULES.iter().flat_map(|rule| rule(facts));
    found.chain(network::running(facts)).collect()
}

/// The highest severity.
#[must_use]
pub fn worst(findings: &[DoctorFinding]) -> FindingSeverity {
    findings.iter().map(|one| one.state).max().unwrap_or(FindingSeverity::Green)
}

/// The findings as text.
#[must_use]
pub fn shown(findings: &[DoctorFinding]) -> String {
    let mut out = String::new();
    for DoctorFinding { topic, state, text, remedy } in findings {
        let mark = match state {
            FindingSeverity::Green => "ok",
            FindingSeverity::Yellow => "YELLOW",
            FindingSeverity::Red => "RED",
        };
        let _ = writeln!(out, "{mark:<7} {topic:<14} {text}");
        for line in remedy.iter().flat_map(|remedy| remedy.lines()) {
            let _ = writeln!(out, "{:<23}{line}", "");
        }
    }
    let count = |state| findings.iter().filter(|one| one.state == state).count();
    let (green, yellow, red) = (
        count(FindingSeverity::Green),
        count(FindingSeverity::Yellow),
        count(FindingSeverity::Red),
    );
    let _ = writeln!(out, "\n{green} ok, {yellow} yellow, {red} red");
    out
}

#[cfg(test)]
mod tests;
