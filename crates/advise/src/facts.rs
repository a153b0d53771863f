//! What a small matrix of loads showed, and what is known of both ends.

use crate::Interface;
use serde::Serialize;

/// How a workload asks: one request after the other or many at once, of one file or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
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

impl Class {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::SingleOneFile, Self::SingleManyFiles, Self::ManyOneFile, Self::ManyManyFiles];

    /// As people say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SingleOneFile => "single-threaded, one file",
            Self::SingleManyFiles => "single-threaded, several files",
            Self::ManyOneFile => "multi-threaded, one file",
            Self::ManyManyFiles => "multi-threaded, several files",
        }
    }

    /// Several files.
    #[must_use]
    pub fn has_many_files(self) -> bool {
        matches!(self, Self::SingleManyFiles | Self::ManyManyFiles)
    }

    /// One request at a time.
    #[must_use]
    pub fn is_single(self) -> bool {
        matches!(self, Self::SingleOneFile | Self::SingleManyFiles)
    }
}

/// One load, measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cell {
    /// See [`Class`].
    pub class: Class,
    /// Connections of the session.
    pub connections: usize,
    /// Requests under way.
    pub depth: usize,
    /// Size of one.
    pub block_bytes: u32,
    /// Reads, else writes.
    pub is_read: bool,
    /// In a second, over all rounds.
    pub per_second: f64,
    /// In a second in each round: how far they lie apart is what chance does.
    pub rounds: Vec<f64>,
    /// Payload in a second.
    pub bytes_per_second: f64,
    /// Half are faster, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 are.
    pub p99_us: f64,
    /// Processors of the client that were busy.
    pub client_processors: f64,
    /// Those of the server, if its process is known.
    pub server_processors: Option<f64>,
}

impl Cell {
    fn lowest(&self) -> f64 {
        self.rounds.iter().copied().fold(self.per_second, f64::min)
    }

    fn highest(&self) -> f64 {
        self.rounds.iter().copied().fold(self.per_second, f64::max)
    }
}

/// The client's machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// Processors.
    pub processors: usize,
    /// The kernel's version.
    pub kernel: (u32, u32),
    /// Interfaces that are up.
    pub interfaces: Vec<Interface>,
    /// Adapters of virtual machines that go through the host's software, since they have no
    /// virtual function: accelerated networking is off.
    pub slow_adapters: Vec<String>,
    /// Mounts of network file systems.
    pub mounts: Vec<Mount>,
}

/// A mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// nfs, nfs4 or cifs.
    pub kind: String,
    /// Server and path.
    pub source: String,
    /// Where it is.
    pub place: String,
    /// nconnect or max_channels.
    pub connections: Option<usize>,
    /// Largest read, in bytes.
    pub read_bytes: Option<u32>,
    /// What the kernel reads ahead, in KiB.
    pub read_ahead_kib: Option<u32>,
}

/// All that rules look at.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// NFS, else SMB.
    pub is_nfs: bool,
    /// The server's name.
    pub server: String,
    /// Share or export.
    pub share: String,
    /// Addresses of the name.
    pub addresses: Vec<String>,
    /// One of them is reachable from everywhere.
    pub is_public: bool,
    /// A connect, in milliseconds.
    pub round_trip_ms: f64,
    /// Dialect or version.
    pub dialect: String,
    /// Algorithm of signatures, or "off".
    pub signing: String,
    /// Cipher, or "off".
    pub cipher: String,
    /// The server offers several connections.
    pub offers_channels: bool,
    /// Connections that were wanted at most, and that there were then.
    pub channels_wanted: usize,
    /// See [`Facts::channels_wanted`].
    pub channels_reached: usize,
    /// The server's interfaces, as it tells them.
    pub server_interfaces: Vec<Interface>,
    /// See [`Machine`].
    pub client: Machine,
    /// What was measured.
    pub cells: Vec<Cell>,
    /// Small reads with more and more requests under way, over most connections.
    pub depths: Vec<Cell>,
    /// Seconds of each that were not counted.
    pub warm_up_seconds: f64,
    /// A rate that is aimed at, in bytes a second.
    pub target_bytes_per_second: Option<f64>,
}

impl Facts {
    /// The cell of this kind.
    #[must_use]
    pub fn cell(
        &self,
        class: Class,
        connections: usize,
        block_bytes: u32,
        is_read: bool,
    ) -> Option<&Cell> {
        let wanted = (class, connections, block_bytes, is_read);
        self.cells.iter().find(|c| (c.class, c.connections, c.block_bytes, c.is_read) == wanted)
    }

    /// Numbers of connections that were measured, from few to many.
    #[must_use]
    pub fn arms(&self) -> Vec<usize> {
        sorted(self.cells.iter().map(|cell| cell.connections))
    }

    /// Sizes that were measured, from small to large.
    #[must_use]
    pub fn blocks(&self) -> Vec<u32> {
        sorted(self.cells.iter().map(|cell| cell.block_bytes))
    }

    /// The most connections that were measured.
    #[must_use]
    pub fn most(&self) -> usize {
        self.arms().last().copied().unwrap_or(1)
    }

    /// The fewest.
    #[must_use]
    pub fn fewest(&self) -> usize {
        self.arms().first().copied().unwrap_or(1)
    }

    /// The largest rate of all, in bytes a second.
    #[must_use]
    pub fn best(&self) -> Option<&Cell> {
        self.cells.iter().max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
    }

    /// What several connections bring: the rate with them over that with the fewest.
    #[must_use]
    pub fn gain(
        &self,
        class: Class,
        connections: usize,
        block_bytes: u32,
        is_read: bool,
    ) -> Option<f64> {
        let with = self.cell(class, connections, block_bytes, is_read)?;
        let without = self.cell(class, self.fewest(), block_bytes, is_read)?;
        (without.per_second > 0.0).then(|| with.per_second / without.per_second)
    }

    /// The least and the most that several connections bring, by the rounds: beyond chance is
    /// what both say.
    #[must_use]
    pub fn gain_bounds(
        &self,
        class: Class,
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
