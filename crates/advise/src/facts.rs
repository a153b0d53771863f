//! Results of a small matrix of loads, and facts about client and server.

use crate::InterfaceFacts;
use serde::Serialize;

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
    fn lowest(&self) -> f64 {
        self.rounds.iter().copied().fold(self.per_second, f64::min)
    }

    fn highest(&self) -> f64 {
        self.rounds.iter().copied().fold(self.per_second, f64::max)
    }
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

fn sorted<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort();
    values.dedup();
    values
}
