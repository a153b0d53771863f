//! The log: lines on standard error, for people or for machines.

use server::config::{LogFormat, Logging};
use tracing_subscriber::EnvFilter;

/// Begins. What the environment says counts more than the configuration.
pub fn begin(log: &Logging) {
    let filter =
        EnvFilter::try_from_env("ANABRANCH_LOG").unwrap_or_else(|_| EnvFilter::new(&log.level));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match log.format {
        LogFormat::Text => lines.with_target(false).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
