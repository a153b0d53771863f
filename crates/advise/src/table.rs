//! The workloads that gain from several connections, as green, yellow and red.

use crate::{MeasuredLoad, MeasurementFacts, WorkloadClass, size};
use serde::Serialize;
use std::fmt::Write;

/// Ratio of two rates from which the larger one matters, if it is certain.
pub(crate) const MATTERS: f64 = 1.1;

/// Recommendation about several connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Colour {
    /// Recommended.
    Green,
    /// Neutral.
    Yellow,
    /// Not recommended.
    Red,
}

impl Colour {
    /// The colour by a certain difference; yellow within the spread of the rounds.
    fn of(with: &MeasuredLoad, without: &MeasuredLoad) -> Self {
        if with.exceeds(without, MATTERS) {
            Self::Green
        } else if without.exceeds(with, MATTERS) {
            Self::Red
        } else {
            Self::Yellow
        }
    }

    /// The displayed meaning.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Green => "green: gain",
            Self::Yellow => "yellow: no difference",
            Self::Red => "red: loss",
        }
    }
}

/// One workload with one number of connections.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadRow {
    /// Request pattern.
    pub class: WorkloadClass,
    /// Request size.
    pub block_bytes: u32,
    /// True for reads, false for writes.
    pub is_read: bool,
    /// Connections.
    pub connections: usize,
    /// Rate relative to one connection.
    pub gain: f64,
    /// Lower and upper bound of the gain, by the rounds.
    pub bounds: (f64, f64),
    /// Median latency relative to one connection.
    pub latency: f64,
    /// Recommendation.
    pub colour: Colour,
}

/// All measured workloads for every number of connections but the fewest.
#[must_use]
pub fn rows(facts: &MeasurementFacts) -> Vec<WorkloadRow> {
    let mut out = Vec::new();
    for class in WorkloadClass::ALL {
        for block_bytes in facts.blocks() {
            for is_read in [true, false] {
                for connections in facts.arms().into_iter().skip(1) {
                    out.extend(row(facts, class, block_bytes, is_read, connections));
                }
            }
        }
    }
    out
}

fn row(
    facts: &MeasurementFacts,
    class: WorkloadClass,
    block_bytes: u32,
    is_read: bool,
    connections: usize,
) -> Option<WorkloadRow> {
    let gain = facts.gain(class, connections, block_bytes, is_read)?;
    let with = facts.cell(class, connections, block_bytes, is_read)?;
    let without = facts.cell(class, facts.fewest(), block_bytes, is_read)?;
    let latency = with.p50_us / without.p50_us.max(f64::MIN_POSITIVE);
    let bounds = facts.gain_bounds(class, connections, block_bytes, is_read)?;
    let colour = Colour::of(with, without);
    Some(WorkloadRow { class, block_bytes, is_read, connections, gain, bounds, latency, colour })
}

/// The rate of each load with the fewest connections, and the spread of its rounds.
#[must_use]
pub fn rates_shown(facts: &MeasurementFacts) -> String {
    let mut out =
        format!("{:<32} {:>8} {:<6} {:>12} {:>8}\n", "workload", "size", "", "rate", "spread");
    let fewest = facts.fewest();
    for one in facts.cells.iter().filter(|one| one.connections == fewest) {
        let _ = writeln!(
            out,
            "{:<32} {:>8} {:<6} {:>10.0}/s {:>6.0} %",
            one.class.name(),
            size(f64::from(one.block_bytes)),
            if one.is_read { "read" } else { "write" },
            one.per_second,
            one.spread() * 100.0
        );
    }
    out
}

/// The comparison as text; empty without several numbers of connections.
#[must_use]
pub fn shown(facts: &MeasurementFacts) -> String {
    let rows = rows(facts);
    if rows.is_empty() {
        return String::new();
    }
    let what = if facts.is_nfs { "nconnect" } else { "channels" };
    let mut out = format!(
        "{:<32} {:>8} {:<6} {what:>9} {:>8} {:>13} {:>8}\n",
        "workload", "size", "", "rate", "by round", "p50"
    );
    for row in rows {
        let _ = writeln!(
            out,
            "{:<32} {:>8} {:<6} {:>9} {:>7.2}x {:>6.2}-{:<6.2} {:>7.2}x  {}",
            row.class.name(),
            size(f64::from(row.block_bytes)),
            if row.is_read { "read" } else { "write" },
            row.connections,
            row.gain,
            row.bounds.0,
            row.bounds.1,
            row.latency,
            row.colour.name()
        );
    }
    out
}
