//! What follows from what was measured: pure functions from facts to findings.
//!
//! [`probe`] judges layer by layer what lies between a client and a server,
//! [`channels`] whether a session has the channels that it should have. [`Facts`] are what a
//! small matrix of loads showed: [`limit`] names what holds it back, [`table`] which
//! workloads gain by several connections, [`rules`] what to set. Facts are
//! plain values that tools fill in; nothing here measures, waits or prints.
#![forbid(unsafe_code)]

pub mod channels;
pub mod doctor;
mod facts;
pub mod limit;
pub mod probe;
pub mod rules;
pub mod table;

pub use facts::{Cell, Class, Facts, Machine, Mount};

use serde::Serialize;

/// Something that was tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempt<T> {
    /// It was not tried: a layer below failed, or it was not asked for.
    #[default]
    NotTried,
    /// Why it failed.
    Failed(String),
    /// What came of it.
    Done(T),
}

impl<T> Attempt<T> {
    /// What came of it, if something did.
    pub fn done(&self) -> Option<&T> {
        match self {
            Self::Done(value) => Some(value),
            _ => None,
        }
    }
}

impl<T, E: std::fmt::Display> From<Result<T, E>> for Attempt<T> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Self::Done(value),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// An address, and the interface that it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Interface {
    /// Its name; servers tell none.
    pub friendly_name: String,
    /// Its number.
    pub interface_index: u32,
    /// Its addresses.
    pub ip_addresses: Vec<String>,
    /// Bits in a second; 0 if nobody knows.
    pub link_speed: u64,
    /// Several connections are spread over processors.
    #[serde(rename = "RSSCapable")]
    pub rss_capable: bool,
    /// Remote direct memory access.
    #[serde(rename = "RDMACapable")]
    pub rdma_capable: bool,
}

/// Bits in a second as people say them.
#[must_use]
pub fn link_speed(bits: u64) -> String {
    match bits {
        0 => "unknown".into(),
        bits if bits >= 1_000_000_000 && bits.is_multiple_of(100_000_000) => {
            format!("{} Gbps", bits as f64 / 1e9)
        }
        bits => format!("{} Mbps", bits / 1_000_000),
    }
}

/// Bytes in the unit that suits them.
#[must_use]
pub fn size(bytes: f64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value.fract() != 0.0);
    format!("{value:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_and_sizes_are_told_in_units_that_suit_them() {
        assert_eq!(link_speed(25_000_000_000), "25 Gbps");
        assert_eq!(link_speed(2_500_000_000), "2.5 Gbps");
        assert_eq!(link_speed(100_000_000), "100 Mbps");
        assert_eq!(link_speed(0), "unknown");
        assert_eq!(size(1_572_864.0), "1.5 MiB");
        assert_eq!(size(512.0), "512 bytes");
    }
}
