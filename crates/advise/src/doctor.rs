//! Checks whether a machine is fit to serve: maps facts to green, yellow and red findings, each
//! with the command that helps.

mod facts;
mod network;
mod places;
mod system;

pub use facts::{
    Clock, Facts, FileSystem, Firewall, Folder, Limits, LogonWays, LongStreams, NetworkInterface,
    NfsShare, Port, PortState, RefusalLog, RefusedCalls, ServerVersion,
};

use serde::Serialize;
use std::fmt::Write;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No problem.
    Green,
    /// The server works, with a cost or a missing feature.
    Yellow,
    /// The server does not work, or not safely.
    Red,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The checked subject.
    pub about: &'static str,
    /// Severity.
    pub state: State,
    /// The finding and its consequence.
    pub text: String,
    /// The command to type.
    pub remedy: Option<String>,
}

impl Finding {
    fn new(about: &'static str, state: State, text: impl Into<String>) -> Self {
        Self { about, state, text: text.into(), remedy: None }
    }

    fn green(about: &'static str, text: impl Into<String>) -> Self {
        Self::new(about, State::Green, text)
    }

    fn yellow(about: &'static str, text: impl Into<String>) -> Self {
        Self::new(about, State::Yellow, text)
    }

    fn red(about: &'static str, text: impl Into<String>) -> Self {
        Self::new(about, State::Red, text)
    }

    fn remedy(mut self, line: impl Into<String>) -> Self {
        self.remedy = Some(line.into());
        self
    }
}

/// A check of one subject.
type Rule = fn(&Facts) -> Vec<Finding>;

/// All checks in the order of the report, from the machine to the shares.
const RULES: [Rule; 16] = [
    system::kernel,
    system::processor,
    system::memory,
    system::clock,
    system::descriptors,
    system::notification,
    network::queues,
    network::congestion,
    network::interfaces,
    network::ports,
    network::firewall,
    network::reserved_ports,
    network::logon,
    places::configuration,
    places::folders,
    places::file_systems,
];

/// All findings; those about a running server come last.
#[must_use]
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let found = RULES.iter().flat_map(|rule| rule(facts));
    found.chain(network::running(facts)).collect()
}

/// The highest severity.
#[must_use]
pub fn worst(findings: &[Finding]) -> State {
    findings.iter().map(|one| one.state).max().unwrap_or(State::Green)
}

/// The findings as text.
#[must_use]
pub fn shown(findings: &[Finding]) -> String {
    let mut out = String::new();
    for Finding { about, state, text, remedy } in findings {
        let mark = match state {
            State::Green => "ok",
            State::Yellow => "YELLOW",
            State::Red => "RED",
        };
        let _ = writeln!(out, "{mark:<7} {about:<14} {text}");
        for line in remedy.iter().flat_map(|remedy| remedy.lines()) {
            let _ = writeln!(out, "{:<23}{line}", "");
        }
    }
    let count = |state| findings.iter().filter(|one| one.state == state).count();
    let (green, yellow, red) = (count(State::Green), count(State::Yellow), count(State::Red));
    let _ = writeln!(out, "\n{green} ok, {yellow} yellow, {red} red");
    out
}

#[cfg(test)]
mod tests;
