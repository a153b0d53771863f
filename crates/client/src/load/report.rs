//! Report of a run, as text and as data.

use super::{LoadHistogram, LoadKind, LoadOperation, Plan, Recorder, RunLimit};
use serde::Serialize;
use std::fmt::Write;

/// The environment of a measurement, as found.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// The server.
    pub server: String,
    /// SMB or NFS.
    pub protocol: &'static str,
    /// Dialect or version.
    pub dialect: String,
    /// Signing algorithm, or "off".
    pub signing: &'static str,
    /// Cipher, or "off".
    pub cipher: &'static str,
    /// Channels at the end.
    pub channels: usize,
    /// Why the server refused more, if it did.
    pub channel_refusal: Option<String>,
    /// Payload per channel, including warm-up and preparation.
    pub channel_bytes: Vec<u64>,
    /// Lost channels.
    pub channels_lost: u64,
    /// Requests replayed after a loss.
    pub requests_replayed: u64,
    /// The server's maximum READ.
    pub read_bytes_max: u32,
    /// The server's maximum WRITE.
    pub write_bytes_max: u32,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// Maximum.
    pub max: f64,
}

/// Figures of one kind of operation.
#[derive(Clone, Debug, Serialize)]
pub struct OperationFigures {
    /// Its name.
    pub name: &'static str,
    /// Number of operations.
    pub count: u64,
    /// Operations per second.
    pub per_second: f64,
    /// Payload per second, in bytes.
    pub bytes_per_second: f64,
    /// See [`Latency`].
    pub latency_us: Latency,
}

/// The report of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The plan.
    pub plan: Plan,
    /// See [`Environment`].
    pub environment: Environment,
    /// Duration of the measurement.
    pub seconds: f64,
    /// Figures per kind, without kinds that did not occur.
    pub operations: Vec<OperationFigures>,
    /// Operations per second in total.
    pub per_second: f64,
    /// Payload per second in total, in bytes.
    pub bytes_per_second: f64,
    /// CPU time of the load generator.
    pub client_cpu_seconds: f64,
    /// CPU time of the server, if its process is known.
    pub server_cpu_seconds: Option<f64>,
}

pub(super) fn report(
    plan: &Plan,
    environment: Environment,
    total: &Recorder,
    seconds: f64,
    (client_cpu_seconds, server_cpu_seconds): (f64, Option<f64>),
) -> Report {
    let figures = |kind: LoadOperation| {
        let (latencies, bytes) = (&total.latencies[kind as usize], total.bytes[kind as usize]);
        (latencies.count() > 0).then(|| OperationFigures {
            name: kind.name(),
            count: latencies.count(),
            per_second: latencies.count() as f64 / seconds,
            bytes_per_second: bytes as f64 / seconds,
            latency_us: latency(latencies),
        })
    };
    let operations: Vec<OperationFigures> =
        LoadOperation::ALL.into_iter().filter_map(figures).collect();
    Report {
        plan: plan.clone(),
        environment,
        seconds,
        per_second: operations.iter().map(|one| one.per_second).sum(),
        bytes_per_second: operations.iter().map(|one| one.bytes_per_second).sum(),
        operations,
        client_cpu_seconds,
        server_cpu_seconds,
    }
}

fn latency(histogram: &LoadHistogram) -> Latency {
    let at = |percent| histogram.percentile(percent) as f64 / 1000.0;
    Latency {
        mean: histogram.mean() / 1000.0,
        p50: at(50.0),
        p90: at(90.0),
        p99: at(99.0),
        p99_9: at(99.9),
        max: histogram.max() as f64 / 1000.0,
    }
}

/// Formats bytes with a suitable unit.
fn size(bytes: f64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value.fract() == 0.0 { 0 } else { 1 };
    format!("{value:.digits$} {}", units[unit])
}

impl Report {
    /// Formats the report as a table below its environment.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::new();
        // Formatting into a string does not fail.
        let _ = self.write_table(&mut out);
        out
    }

    fn write_table(&self, out: &mut String) -> std::fmt::Result {
        let Environment { server, protocol, dialect, signing, cipher, channels, .. } =
            &self.environment;
        let protection = match *protocol {
            "SMB" => format!("signing {signing}, encryption {cipher}, "),
            _ => String::new(),
        };
        writeln!(
            out,
            "{server}: {protocol} {dialect}, {protection}{channels} channel{}",
            if *channels == 1 { "" } else { "s" }
        )?;
        writeln!(out, "{}\n", self.plan.describe())?;
        writeln!(
            out,
            "{:<8}{:>10}{:>11}{:>13}  {:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
            "", "count", "/s", "payload/s", "mean µs", "p50", "p90", "p99", "p99.9", "max"
        )?;
        for one in &self.operations {
            let payload =
                if one.bytes_per_second > 0.0 { size(one.bytes_per_second) } else { "-".into() };
            let l = &one.latency_us;
            writeln!(
                out,
                "{:<8}{:>10}{:>11.0}{payload:>13}  {:>9.0}{:>9.0}{:>9.0}{:>9.0}{:>9.0}{:>9.0}",
                one.name, one.count, one.per_second, l.mean, l.p50, l.p90, l.p99, l.p99_9, l.max
            )?;
        }
        writeln!(out, "\nclient CPU: {}", self.cost(self.client_cpu_seconds))?;
        if let Some(seconds) = self.server_cpu_seconds {
            writeln!(out, "server CPU: {}", self.cost(seconds))?;
        }
        let total: u64 = self.environment.channel_bytes.iter().sum();
        if *channels > 1 && total > 0 {
            let share = |bytes: &u64| format!("{:.0} %", *bytes as f64 * 100.0 / total as f64);
            let shares: Vec<String> = self.environment.channel_bytes.iter().map(share).collect();
            writeln!(out, "payload by channel: {}", shares.join(", "))?;
        }
        if let Some(refusal) = &self.environment.channel_refusal {
            writeln!(out, "no more channels: {refusal}")?;
        }
        if self.environment.channels_lost > 0 {
            let (lost, replayed) =
                (self.environment.channels_lost, self.environment.requests_replayed);
            writeln!(out, "channels lost: {lost}; requests sent again: {replayed}")?;
        }
        Ok(())
    }

    fn cost(&self, seconds: f64) -> String {
        let count = self.per_second * self.seconds;
        let gib = self.bytes_per_second * self.seconds / f64::from(1 << 30);
        let mut text = format!("{seconds:.2} s");
        if count > 0.0 {
            let _ = write!(text, ", {:.1} µs an operation", seconds * 1e6 / count);
        }
        if gib > 0.0 {
            let _ = write!(text, ", {:.2} s a GiB", seconds / gib);
        }
        text
    }
}

impl Plan {
    /// Describes the load.
    #[must_use]
    pub fn describe(&self) -> String {
        let until = match self.until {
            RunLimit::Seconds(seconds) => format!("{seconds} s"),
            RunLimit::Bytes(bytes) => size(bytes as f64),
        };
        let load = format!(
            "{} thread{} of depth {}, {until} after {} s of warm-up",
            self.threads,
            if self.threads == 1 { "" } else { "s" },
            self.depth,
            self.warm_up_seconds
        );
        let (files, bytes) = (self.files, size(self.file_bytes as f64));
        match self.work {
            LoadKind::Data => {}
            LoadKind::Metadata => return format!("create, stat, list, delete; {load}"),
            LoadKind::Unpack => return format!("create, stat, list; {load}"),
            LoadKind::Folder => {
                return format!("create, open, close, delete beside {files} files; {load}");
            }
            LoadKind::Listing => return format!("listing {files} files; {load}"),
            LoadKind::Usage(usage) => {
                return format!("{}; {files} files of {bytes}; {load}", usage.describe());
            }
            LoadKind::SmallFiles => {
                return format!("{files} files of {bytes} written and read; {load}");
            }
        }
        format!(
            "{} {}, {} blocks, {} file{} of {}; {load}",
            if self.random { "random" } else { "sequential" },
            match self.read_percent {
                100 => "read".to_owned(),
                0 => "write".to_owned(),
                percent => format!("{percent} % read"),
            },
            size(f64::from(self.block_bytes)),
            self.files,
            if self.files == 1 { "" } else { "s" },
            size(self.file_bytes as f64)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_formatted_in_suitable_units() {
        for (bytes, text) in [
            (512.0, "512 bytes"),
            (4096.0, "4 KiB"),
            (1_572_864.0, "1.5 MiB"),
            (1_073_741_824.0, "1 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
