//! Conclusions from measurements: pure functions from facts to findings.
//!
//! [`probe`] judges each layer between a client and a server. [`channels`] verifies the channels of
//! a session. [`MeasurementFacts`] hold the results of a small matrix of loads: [`limit`] names the
//! bottleneck, [`table`] the workloads that gain from several connections, [`rules`] the
//! recommended settings, and [`report`] shows all as text. Tools fill in the facts as plain values; nothing here measures, waits or
//! prints.
#![forbid(unsafe_code)]

pub mod channels;
pub mod doctor;
mod facts;
pub mod limit;
pub mod probe;
pub mod report;
pub mod rules;
mod server;
pub mod table;

pub use facts::{ClientMachineFacts, MeasuredLoad, MeasurementFacts, MountFacts, WorkloadClass};
pub use server::ServerProduct;

use serde::Serialize;

/// The outcome of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempt<T> {
    /// Not tried: a lower layer failed, or the attempt was not requested.
    #[default]
    NotTested,
    /// Reason of the failure.
    Failed(String),
    /// The result.
    Done(T),
}

impl<T> Attempt<T> {
    /// The result, if there is one.
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

/// An interface and its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct InterfaceFacts {
    /// Its name; servers advertise none.
    pub friendly_name: String,
    /// Interface index.
    pub interface_index: u32,
    /// Its addresses.
    pub ip_addresses: Vec<String>,
    /// Speed in bits per second; 0 if unknown.
    pub link_speed: u64,
    /// RSS: several connections spread over CPUs.
    #[serde(rename = "RSSCapable")]
    pub rss_capable: bool,
    /// RDMA capability.
    #[serde(rename = "RDMACapable")]
    pub rdma_capable: bool,
}

/// Formats a speed in bits per second.
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

/// Formats a size in a suitable unit.
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
    fn speeds_and_sizes_have_suitable_units() {
        assert_eq!(link_speed(25_000_000_000), "25 Gbps");
        assert_eq!(link_speed(2_500_000_000), "2.5 Gbps");
        assert_eq!(link_speed(100_000_000), "100 Mbps");
        assert_eq!(link_speed(0), "unknown");
        assert_eq!(size(1_572_864.0), "1.5 MiB");
        assert_eq!(size(512.0), "512 bytes");
    }
}
