//! The workloads that gain from several connections, as green, yellow and red.

use crate::{MeasurementFacts, WorkloadClass, size};
use serde::Serialize;
use std::fmt::Write;

/// Gain from which several connections are recommended.
const GREEN: f64 = 1.1;
/// Gain up to which they are not recommended.
const RED: f64 = 0.95;

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
    /// The colour by both bounds of the gain; yellow if they disagree.
    fn of((least, most): (f64, f64)) -> Self {
        if least >= GREEN {
            Self::Green
        } else if most <= RED {
            Self::Red
        } else {
            Self::Yellow
        }
    }

    /// The displayed name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Yellow => "yellow",
            Self::Red => "red",
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
    let colour = Colour::of(bounds);
    Some(WorkloadRow { class, block_bytes, is_read, connections, gain, bounds, latency, colour })
}

/// The table as text.
#[must_use]
pub fn shown(facts: &MeasurementFacts) -> String {
    let what = if facts.is_nfs { "nconnect" } else { "channels" };
    let mut out = format!(
        "{:<32} {:>8} {:<6} {what:>9} {:>8} {:>13} {:>8}\n",
        "workload", "size", "", "rate", "by round", "p50"
    );
    for row in rows(facts) {
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
