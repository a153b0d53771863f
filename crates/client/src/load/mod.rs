//! Load generator for SMB and NFS servers: measures data and metadata operations.
//!
//! A [`LoaderRun`] creates its files in a folder of its own, measures, and deletes the folder. The
//! plan's seed determines all random choices, so that equal plans send the same requests in the
//! same order.

mod cpu_time;
mod data;
mod folder;
mod histogram;
mod lines;
mod names;
mod nfs;
mod profiles;
mod report;
mod small;
mod smb;
mod storage;
mod usage;

pub use cpu_time::{TICKS_PER_SECOND, ticks};
pub use histogram::LoadHistogram;
pub use lines::{diskspd, fio};
pub use profiles::{Profile, mixes, profile, profiles};
pub use report::{Environment, Latency, OperationFigures, Report};
pub use storage::Storage;
pub use usage::Usage;

use crate::error::Error;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Maximum number of workers, each with one request in flight.
pub const WORKERS_MAX: usize = 16_384;
/// Maximum number of open files per run.
pub const FILES_MAX: usize = 4096;
/// Maximum number of closed files per run.
pub const NAMES_MAX: usize = 2_000_000;
/// Interval between progress reports.
const REPORT_EVERY: Duration = Duration::from_millis(500);

/// Kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadKind {
    /// Block reads and writes.
    Data,
    /// Files are made, looked at, listed and removed.
    Metadata,
    /// Creates files in more and more folders, gets attributes and lists; deletes them after the
    /// measurement. It measures creation without deletion.
    Unpack,
    /// Creates, opens, closes and deletes files in [`Plan::folder`], which holds [`Plan::files`]
    /// files called `file0` and so on.
    Folder,
    /// Lists that folder.
    Listing,
    /// Writes [`Plan::files`] files and reads them back, once.
    SmallFiles,
    /// A typical mix of operations on [`Plan::files`] small files.
    #[serde(untagged)]
    Usage(Usage),
}

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunLimit {
    /// After this time, in seconds.
    Seconds(f64),
    /// After this payload, in bytes.
    Bytes(u64),
}

/// Parameters of a load.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// See [`LoadKind`].
    pub work: LoadKind,
    /// Folder of the share, in which the run creates its own.
    pub folder: String,
    /// Length of one request.
    pub block_bytes: u32,
    /// Requests in flight per thread.
    pub depth: usize,
    /// Threads of the loader.
    pub threads: usize,
    /// Number of files.
    pub files: usize,
    /// Size of each file.
    pub file_bytes: u64,
    /// Random instead of sequential offsets.
    pub random: bool,
    /// Percentage of reads.
    pub read_percent: u8,
    /// See [`RunLimit`].
    pub until: RunLimit,
    /// Warm-up that is not counted, in seconds.
    pub warm_up_seconds: f64,
    /// Verify read data.
    pub verify: bool,
    /// Seed of random choices.
    pub seed: u64,
}

impl Plan {
    /// True if the run creates a folder of its own.
    fn makes_folder(&self) -> bool {
        !matches!(self.work, LoadKind::Folder | LoadKind::Listing)
    }

    /// Applies the constraints of the kind of load: small files run once.
    fn complete(self) -> Self {
        if self.work != LoadKind::SmallFiles {
            return self;
        }
        let bytes = (self.files as u64).saturating_mul(self.file_bytes).saturating_mul(2);
        Self { until: RunLimit::Bytes(bytes), warm_up_seconds: 0.0, ..self }
    }
}

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct LoadProgress {
    /// The warm-up has ended.
    pub is_counting: bool,
    /// Elapsed time.
    pub elapsed: Duration,
    /// Operations so far.
    pub operations: u64,
    /// Bytes so far.
    pub bytes: u64,
    /// Live channels.
    pub channels: usize,
}

/// Number of kinds of operations.
const KINDS: usize = 8;

/// Kind of operation; indexes its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadOperation {
    Read,
    Write,
    Create,
    Open,
    Close,
    Stat,
    List,
    Delete,
}

impl LoadOperation {
    const ALL: [Self; KINDS] = [
        Self::Read,
        Self::Write,
        Self::Create,
        Self::Open,
        Self::Close,
        Self::Stat,
        Self::List,
        Self::Delete,
    ];

    fn name(self) -> &'static str {
        ["read", "write", "create", "open", "close", "stat", "list", "delete"][self as usize]
    }
}

/// Figures of one worker.
#[derive(Debug)]
pub(crate) struct Recorder {
    latencies: [LoadHistogram; KINDS],
    bytes: [u64; KINDS],
}

impl Default for Recorder {
    fn default() -> Self {
        Self { latencies: std::array::from_fn(|_| LoadHistogram::default()), bytes: [0; KINDS] }
    }
}

impl Recorder {
    fn merge(&mut self, other: &Self) {
        for kind in LoadOperation::ALL {
            self.latencies[kind as usize].merge(&other.latencies[kind as usize]);
            self.bytes[kind as usize] += other.bytes[kind as usize];
        }
    }
}

const WARMING: u8 = 0;
const COUNTING: u8 = 1;
const STOPPED: u8 = 2;

/// State that the workers share.
#[derive(Debug)]
pub(crate) struct LoadState {
    phase: AtomicU8,
    operations: AtomicU64,
    bytes: AtomicU64,
    bytes_max: u64,
}

impl LoadState {
    fn new(until: RunLimit) -> Self {
        let bytes_max = if let RunLimit::Bytes(bytes) = until { bytes } else { u64::MAX };
        Self {
            phase: AtomicU8::new(WARMING),
            operations: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            bytes_max,
        }
    }

    pub(crate) fn goes_on(&self) -> bool {
        self.phase.load(Ordering::Relaxed) != STOPPED
    }

    /// Waits for the start of the measurement.
    pub(crate) async fn begun(&self) {
        while self.phase.load(Ordering::Relaxed) == WARMING {
            tokio::task::yield_now().await;
        }
    }

    /// Runs one operation, and records it during the measurement.
    pub(crate) async fn timed<T>(
        &self,
        recorder: &mut Recorder,
        kind: LoadOperation,
        bytes: u64,
        operation: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let begun = Instant::now();
        let result = operation.await;
        if result.is_err() {
            self.phase.store(STOPPED, Ordering::Relaxed);
            return result;
        }
        if self.phase.load(Ordering::Relaxed) == COUNTING {
            recorder.latencies[kind as usize].record(begun.elapsed().as_nanos() as u64);
            recorder.bytes[kind as usize] += bytes;
            self.operations.fetch_add(1, Ordering::Relaxed);
            let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
            if before + bytes >= self.bytes_max {
                self.phase.store(STOPPED, Ordering::Relaxed);
            }
        }
        result
    }
}

/// A run, from its folder to its report.
#[derive(Debug)]
pub struct LoaderRun<S: Storage> {
    storage: S,
    plan: Plan,
    folder: String,
    files: Vec<Arc<S::File>>,
}

impl<S: Storage> LoaderRun<S> {
    /// A run in a new folder called `name`.
    ///
    /// # Errors
    /// [`Error::Misuse`] for an invalid plan.
    pub fn new(storage: S, plan: Plan, name: &str) -> Result<Self, Error> {
        check(&storage, &plan)?;
        let plan = plan.complete();
        let folder = match plan.makes_folder() {
            true => format!("{}/{name}", plan.folder.trim_matches('/')),
            false => plan.folder.clone(),
        };
        let folder = folder.trim_matches('/').to_owned();
        Ok(Self { storage, plan, folder, files: Vec::new() })
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Maximum length of a read and write, in bytes.
    #[must_use]
    pub fn block_bytes_max(&self) -> u32 {
        self.storage.block_bytes_max()
    }

    /// Changes the plan, for another load on the same files or some of them.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a plan that these files do not support.
    pub fn change(&mut self, plan: Plan) -> Result<(), Error> {
        let here = (self.plan.work, &self.plan.folder, self.plan.file_bytes);
        let fits = here == (plan.work, &plan.folder, plan.file_bytes);
        let lacks_files = plan.work == LoadKind::Data && plan.files > self.files.len();
        // Small files are written and read once.
        if !fits || lacks_files || plan.work == LoadKind::SmallFiles {
            return Err(Error::Misuse("another plan needs the same files"));
        }
        check(&self.storage, &plan)?;
        self.plan = plan.complete();
        Ok(())
    }

    /// Creates the folder, and for reads the files with data.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn prepare(&mut self) -> Result<(), Error> {
        if self.plan.makes_folder() {
            self.storage.make_directory(&self.folder).await?;
        }
        match self.plan.work {
            LoadKind::Data => data::prepare(self).await,
            LoadKind::Metadata | LoadKind::Unpack => names::prepare(self).await,
            LoadKind::SmallFiles => small::prepare(self).await,
            LoadKind::Usage(_) => usage::prepare(self).await,
            LoadKind::Folder | LoadKind::Listing => Ok(()),
        }
    }

    /// Measures. `server` is the process id of a server on this machine.
    ///
    /// # Errors
    /// The first error of a worker.
    pub async fn measure(
        &mut self,
        server: Option<u32>,
        mut tell: impl FnMut(LoadProgress),
    ) -> Result<Report, Error> {
        let pace = Arc::new(LoadState::new(self.plan.until));
        let mut workers = JoinSet::new();
        for number in 0..self.plan.threads * self.plan.depth {
            let (share, pace) = (self.share(number), pace.clone());
            match self.plan.work {
                LoadKind::Data => workers.spawn(data::work(share, pace)),
                LoadKind::Metadata => workers.spawn(names::work(share, pace)),
                LoadKind::Unpack => workers.spawn(names::unpack(share, pace)),
                LoadKind::Folder => workers.spawn(folder::work(share, pace)),
                LoadKind::Listing => workers.spawn(folder::list(share, pace)),
                LoadKind::SmallFiles => workers.spawn(small::work(share, pace)),
                LoadKind::Usage(usage) => workers.spawn(usage::work(share, usage, pace)),
            };
        }
        let begun = Instant::now();
        let storage = self.storage.clone();
        let mut show = |counting_since: Option<Instant>| {
            tell(LoadProgress {
                is_counting: counting_since.is_some(),
                elapsed: counting_since.unwrap_or(begun).elapsed(),
                operations: pace.operations.load(Ordering::Relaxed),
                bytes: pace.bytes.load(Ordering::Relaxed),
                channels: storage.connections(),
            });
        };
        let warm_up = Duration::try_from_secs_f64(self.plan.warm_up_seconds).unwrap_or_default();
        wait(&pace, warm_up, || show(None)).await;
        let own = std::process::id();
        let used = || (ticks(own), server.map(ticks));
        let (before, counting) = (used(), Instant::now());
        if pace.goes_on() {
            pace.phase.store(COUNTING, Ordering::Relaxed);
        }
        let most = match self.plan.until {
            RunLimit::Seconds(seconds) => Duration::try_from_secs_f64(seconds).unwrap_or_default(),
            RunLimit::Bytes(_) => Duration::MAX,
        };
        wait(&pace, most, || show(Some(counting))).await;
        pace.phase.store(STOPPED, Ordering::Relaxed);
        let (seconds, after) = (counting.elapsed().as_secs_f64(), used());
        let mut total = Recorder::default();
        let mut failure = None;
        while let Some(worker) = workers.join_next().await {
            match worker {
                Ok(Ok(recorder)) => total.merge(&recorder),
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(_) => return Err(Error::Misuse("a worker of the loader failed")),
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        let cpu = |after: f64, before: f64| (after - before) / TICKS_PER_SECOND;
        let server = before.1.zip(after.1).map(|(before, after)| cpu(after, before));
        let client_cpu = cpu(after.0, before.0);
        let environment = self.storage.environment();
        Ok(report::report(&self.plan, environment, &total, seconds, (client_cpu, server)))
    }

    /// Deletes everything that the run created, as far as possible.
    ///
    /// # Errors
    /// The first file that could not be deleted, with its reason.
    pub async fn clean(&mut self) -> Result<(), Error> {
        for file in std::mem::take(&mut self.files) {
            if let Some(file) = Arc::into_inner(file) {
                let _ = self.storage.close(file).await;
            }
        }
        match self.plan.makes_folder() {
            true => remove_all(&self.storage, &self.folder).await,
            false => Ok(()),
        }
    }

    fn share(&self, number: usize) -> WorkerInputs<S> {
        WorkerInputs {
            storage: self.storage.clone(),
            plan: self.plan.clone(),
            folder: self.folder.clone(),
            files: self.files.iter().take(self.plan.files).cloned().collect(),
            random: LoadRandom::new(self.plan.seed.wrapping_add(number as u64)),
            number,
        }
    }
}

/// Checks a plan.
fn check<S: Storage>(storage: &S, plan: &Plan) -> Result<(), Error> {
    let workers = plan.threads.saturating_mul(plan.depth);
    if workers == 0 || workers > WORKERS_MAX {
        return Err(Error::Misuse("threads times depth must be 1 to 16384"));
    }
    let files_max = if plan.work == LoadKind::Data { FILES_MAX } else { NAMES_MAX };
    if plan.files == 0 || plan.files > files_max {
        return Err(Error::Misuse("there must be 1 to 4096 files, or 2,000,000 small ones"));
    }
    let most = storage.block_bytes_max();
    if plan.work == LoadKind::Data && (plan.block_bytes == 0 || plan.block_bytes > most) {
        return Err(Error::Misuse("the server takes no blocks of this size"));
    }
    if plan.work == LoadKind::Data && plan.file_bytes < u64::from(plan.block_bytes) {
        return Err(Error::Misuse("a file must hold one block"));
    }
    let has_small_files = matches!(plan.work, LoadKind::SmallFiles | LoadKind::Usage(_));
    if has_small_files && plan.file_bytes == 0 {
        return Err(Error::Misuse("a small file must have at least one byte"));
    }
    if plan.read_percent > 100 {
        return Err(Error::Misuse("more than 100 per cent"));
    }
    Ok(())
}

/// The inputs of one worker.
#[derive(Debug)]
pub(crate) struct WorkerInputs<S: Storage> {
    storage: S,
    plan: Plan,
    folder: String,
    files: Vec<Arc<S::File>>,
    random: LoadRandom,
    number: usize,
}

/// Waits until the time is over, or the workers have stopped.
async fn wait(pace: &LoadState, most: Duration, mut show: impl FnMut()) {
    let (begun, mut reported) = (Instant::now(), Instant::now());
    while pace.goes_on() && begun.elapsed() < most {
        let step = (most - begun.elapsed()).min(Duration::from_millis(20));
        tokio::time::sleep(step).await;
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            show();
        }
    }
}

/// Deletes a folder with its subfolders and their files.
async fn remove_all<S: Storage>(storage: &S, folder: &str) -> Result<(), Error> {
    for (name, is_directory) in storage.list(folder).await? {
        let path = format!("{folder}/{name}");
        if is_directory {
            for (inner, _) in storage.list(&path).await? {
                storage.remove(&format!("{path}/{inner}")).await?;
            }
        }
        storage.remove(&path).await?;
    }
    storage.remove(folder).await
}

/// Deterministic pseudo-random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct LoadRandom(u64);

impl LoadRandom {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `count`, which must be nonzero.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }
}
