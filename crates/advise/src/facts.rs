//! Results of a small matrix of loads, and facts about client and server.

use crate::{InterfaceFacts, ServerProduct};
use serde::Serialize;

/// Disturbance of a load that its few rounds may not show: each bound is wider by this part.
const NOISE: f64 = 0.05;

/// Request pattern of a workload: one request at a time or many, one file or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadClass {
    /// One at a time, one file.
    #[default]
    SingleOneFile,
    /// One at a time, several files.
    SingleManyFiles,
    /// Many at once, one file.
    ManyOneFile,
    /// Many at once, several files.
    ManyManyFiles,
}

impl WorkloadClass {
    /// All patterns.
    pub const ALL: [Self; 4] =
        [Self::SingleOneFile, Self::SingleManyFiles, Self::ManyOneFile, Self::ManyManyFiles];

    /// The displayed name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SingleOneFile => "single-threaded, one file",
            Self::SingleManyFiles => "single-threaded, several files",
            Self::ManyOneFile => "multi-threaded, one file",
            Self::ManyManyFiles => "multi-threaded, several files",
        }
    }

    /// Whether the workload uses several files.
    #[must_use]
    pub fn has_many_files(self) -> bool {
        matches!(self, Self::SingleManyFiles | Self::ManyManyFiles)
    }

    /// Whether the workload sends one request at a time.
    #[must_use]
    pub fn is_single(self) -> bool {
        matches!(self, Self::SingleOneFile | Self::SingleManyFiles)
    }
}

/// One measured load.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredLoad {
    /// Request pattern.
    pub class: WorkloadClass,
    /// Connections of the session.
    pub connections: usize,
    /// Requests in flight.
    pub depth: usize,
    /// Request size.
    pub block_bytes: u32,
    /// True for reads, false for writes.
    pub is_read: bool,
    /// Requests per second over all rounds.
    pub per_second: f64,
    /// Requests per second of each round; their spread is noise.
    pub rounds: Vec<f64>,
    /// Payload bytes per second.
    pub bytes_per_second: f64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the latency.
    pub p99_us: f64,
    /// Busy CPUs of the client.
    pub client_cpus: f64,
    /// Busy CPUs of the server, if its process is known.
    pub server_cpus: Option<f64>,
}

impl MeasuredLoad {
    /// The lowest rate of a round, in requests per second.
    #[must_use]
    pub fn lowest(&self) -> f64 {
        self.rounds.iter().copied().fold(self.per_second, f64::min)
    }

    /// The highest rate of a round, in requests per second.
    #[must_use]
    pub fn highest(&self) -> f64 {
        self.rounds.iter().copied().fold(self.per_second, f64::max)
    }

    /// Difference between the highest and the lowest round, as a part of the rate.
    #[must_use]
    pub fn spread(&self) -> f64 {
        (self.highest() - self.lowest()) / self.per_second.max(f64::MIN_POSITIVE)
    }

    /// Whether this rate certainly exceeds `factor` times that of `other`: the slowest round of
    /// this load by the fastest of the other, each with its noise. Loads that differ within their
    /// spread do not exceed one another.
    #[must_use]
    pub fn exceeds(&self, other: &Self, factor: f64) -> bool {
        let (low, high) = (self.lowest() * (1.0 - NOISE), other.highest() * (1.0 + NOISE));
        low > 0.0 && low >= high * factor
    }

    /// As [`MeasuredLoad::exceeds`], of bytes per second.
    #[must_use]
    pub fn exceeds_in_bytes(&self, other: &Self, factor: f64) -> bool {
        let blocks = f64::from(other.block_bytes.max(1)) / f64::from(self.block_bytes.max(1));
        self.exceeds(other, factor * blocks)
    }
}

/// Certain bounds of a ratio whose rounds are `ratios`.
pub(crate) fn ratio_bounds(ratios: &[f64]) -> Option<(f64, f64)> {
    let lowest = ratios.iter().copied().min_by(f64::total_cmp)?;
    let highest = ratios.iter().copied().max_by(f64::total_cmp)?;
    Some((lowest * (1.0 - NOISE), highest * (1.0 + NOISE)))
}

/// The client machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClientMachineFacts {
    /// Number of CPUs.
    pub cpus: usize,
    /// Kernel version.
    pub kernel: (u32, u32),
    /// Interfaces that are up.
    pub interfaces: Vec<InterfaceFacts>,
    /// Adapters of virtual machines without a virtual function: accelerated networking is off.
    pub slow_adapters: Vec<String>,
    /// Mounts of network file systems.
    pub mounts: Vec<MountFacts>,
}

/// One mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MountFacts {
    /// Type: nfs, nfs4 or cifs.
    pub kind: String,
    /// Server and path.
    pub source: String,
    /// Mount point.
    pub place: String,
    /// nconnect or max_channels.
    pub connections: Option<usize>,
    /// Largest read, in bytes.
    pub read_bytes: Option<u32>,
    /// Read-ahead of the kernel in KiB.
    pub read_ahead_kib: Option<u32>,
}

/// Everything that the rules evaluate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasurementFacts {
    /// True for NFS, false for SMB.
    pub is_nfs: bool,
    /// The server's name.
    pub server: String,
    /// The server's port; 0 stands for the protocol's own.
    pub port: u16,
    /// The user's name, for SMB.
    pub user: String,
    /// The server's product.
    pub server_product: ServerProduct,
    /// Share or export.
    pub share: String,
    /// Addresses of the name.
    pub addresses: Vec<String>,
    /// Whether one of them is globally reachable.
    pub is_public: bool,
    /// TCP connect time in milliseconds.
    pub round_trip_ms: f64,
    /// Dialect or version.
    pub dialect: String,
    /// Signing algorithm, or "off".
    pub signing: String,
    /// Cipher, or "off".
    pub cipher: String,
    /// Whether the server offers Multichannel.
    pub offers_channels: bool,
    /// Requested connections; `channels_established` holds the established ones.
    pub channels_requested: usize,
    /// See [`MeasurementFacts::channels_requested`].
    pub channels_established: usize,
    /// Reason for which one connection is all there is, so that no numbers are compared.
    pub only_channel: Option<String>,
    /// Interfaces that the server advertises.
    pub server_interfaces: Vec<InterfaceFacts>,
    /// The client machine.
    pub client: ClientMachineFacts,
    /// The measured loads.
    pub cells: Vec<MeasuredLoad>,
    /// Small reads with increasing queue depth over the most connections.
    pub depths: Vec<MeasuredLoad>,
    /// Warm-up seconds of each load that are not counted.
    pub warm_up_seconds: f64,
    /// Target rate in bytes per second.
    pub target_bytes_per_second: Option<f64>,
}

impl MeasurementFacts {
    /// The port, unless clients use it by default.
    #[must_use]
    pub fn unusual_port(&self) -> Option<u16> {
        let usual = if self.is_nfs { 2049 } else { 445 };
        Some(self.port).filter(|port| *port != 0 && *port != usual)
    }

    /// The host as a mount command takes it: IPv6 addresses in brackets.
    #[must_use]
    pub fn mount_host(&self) -> String {
        match self.server.contains(':') {
            true => format!("[{}]", self.server),
            false => self.server.clone(),
        }
    }

    /// URL of the share or export for the tools beside this one, with the port, quoted for a shell.
    #[must_use]
    pub fn url(&self) -> String {
        let port = self.unusual_port().map(|port| format!(":{port}")).unwrap_or_default();
        let place = format!("{}{port}/{}", self.mount_host(), self.share);
        shell_word(&match self.is_nfs {
            true => format!("nfs://{place}"),
            false => format!("smb://{}@{place}", self.user_name()),
        })
    }

    /// The user's name, or a word to replace.
    #[must_use]
    pub fn user_name(&self) -> &str {
        if self.user.is_empty() { "USER" } else { &self.user }
    }

    /// `,port=` with the port for the options of a mount, unless it is the usual one.
    #[must_use]
    pub fn port_option(&self) -> String {
        self.unusual_port().map(|port| format!(",port={port}")).unwrap_or_default()
    }

    /// The measurement of this load.
    #[must_use]
    pub fn cell(
        &self,
        class: WorkloadClass,
        connections: usize,
        block_bytes: u32,
        is_read: bool,
    ) -> Option<&MeasuredLoad> {
        let wanted = (class, connections, block_bytes, is_read);
        self.cells.iter().find(|c| (c.class, c.connections, c.block_bytes, c.is_read) == wanted)
    }

    /// Measured numbers of connections, ascending.
    #[must_use]
    pub fn arms(&self) -> Vec<usize> {
        sorted(self.cells.iter().map(|cell| cell.connections))
    }

    /// Measured request sizes, ascending.
    #[must_use]
    pub fn blocks(&self) -> Vec<u32> {
        sorted(self.cells.iter().map(|cell| cell.block_bytes))
    }

    /// The largest measured number of connections.
    #[must_use]
    pub fn most(&self) -> usize {
        self.arms().last().copied().unwrap_or(1)
    }

    /// The smallest measured number of connections.
    #[must_use]
    pub fn fewest(&self) -> usize {
        self.arms().first().copied().unwrap_or(1)
    }

    /// The load with the highest byte rate.
    #[must_use]
    pub fn best(&self) -> Option<&MeasuredLoad> {
        self.cells.iter().max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
    }

    /// Gain from several connections: the rate divided by that with the fewest.
    #[must_use]
    pub fn gain(
        &self,
        class: WorkloadClass,
        connections: usize,
        block_bytes: u32,
        is_read: bool,
    ) -> Option<f64> {
        let with = self.cell(class, connections, block_bytes, is_read)?;
        let without = self.cell(class, self.fewest(), block_bytes, is_read)?;
        (without.per_second > 0.0).then(|| with.per_second / without.per_second)
    }

    /// Lower and upper bound of the gain, by the rounds. Only an effect that both show exceeds
    /// noise.
    #[must_use]
    pub fn gain_bounds(
        &self,
        class: WorkloadClass,
        connections: usize,
        block_bytes: u32,
        is_read: bool,
    ) -> Option<(f64, f64)> {
        let with = self.cell(class, connections, block_bytes, is_read)?;
        let without = self.cell(class, self.fewest(), block_bytes, is_read)?;
        (without.lowest() > 0.0)
            .then(|| (with.lowest() / without.highest(), with.highest() / without.lowest()))
    }
}

/// A word that a shell takes as it is.
#[must_use]
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+=,[]".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn sorted<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort();
    values.dedup();
    values
}
