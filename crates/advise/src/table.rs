//! Which workloads gain by several connections, as green, yellow and red.

use crate::{Class, Facts, size};
use serde::Serialize;
use std::fmt::Write;

/// From this gain on several connections are recommended.
const GREEN: f64 = 1.1;
/// Up to this they are not.
const RED: f64 = 0.95;

/// Whether several connections are a good idea.
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
    /// What both ends of the measured gain say; yellow if they do not agree.
    fn of((least, most): (f64, f64)) -> Self {
        if least >= GREEN {
            Self::Green
        } else if most <= RED {
            Self::Red
        } else {
            Self::Yellow
        }
    }

    /// The colour, and what it means.
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
pub struct Row {
    /// How it asks.
    pub class: Class,
    /// Size of its requests.
    pub block_bytes: u32,
    /// Reads, else writes.
    pub is_read: bool,
    /// Connections.
    pub connections: usize,
    /// Rate over that with one connection.
    pub gain: f64,
    /// The least and the most of it, by the rounds.
    pub bounds: (f64, f64),
    /// Median time over that with one connection.
    pub latency: f64,
    /// See [`Colour`].
    pub colour: Colour,
}

/// All workloads that were measured, for every number of connections but the fewest.
#[must_use]
pub fn rows(facts: &Facts) -> Vec<Row> {
    let mut out = Vec::new();
    for class in Class::ALL {
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
    facts: &Facts,
    class: Class,
    block_bytes: u32,
    is_read: bool,
    connections: usize,
) -> Option<Row> {
    let gain = facts.gain(class, connections, block_bytes, is_read)?;
    let with = facts.cell(class, connections, block_bytes, is_read)?;
    let without = facts.cell(class, facts.fewest(), block_bytes, is_read)?;
    let latency = with.p50_us / without.p50_us.max(f64::MIN_POSITIVE);
    let bounds = facts.gain_bounds(class, connections, block_bytes, is_read)?;
    let colour = Colour::of(bounds);
    Some(Row { class, block_bytes, is_read, connections, gain, bounds, latency, colour })
}

/// The table as text.
#[must_use]
pub fn shown(facts: &Facts) -> String {
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
