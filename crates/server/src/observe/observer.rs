//! Gathers the state of the running server in one place, for metrics and the admin API.

use crate::backend::Backend;
use crate::conn::connections::ConnectionTable;
use crate::discovery::Discovery;
use crate::machine::cpu_time::ProcessCpuTimes;
use crate::machine::round_trips;
use crate::metadata_cache::MetadataCaches;
use crate::observe::features::FeatureRegistry;
use crate::observe::history::{History, HistoryFigures, INTERVAL_SECONDS};
use crate::observe::metrics::{self, Moment};
use crate::observe::refused_logons::RefusedLogons;
use crate::shares::disks;
use crate::shares::facts::ShareFacts;
use crate::shares::limits::LimitsBook;
use crate::workers::WorkerPool;
use files::Files;
use meter::MeterSnapshot;
use smb::SmbServer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Interval in seconds at which file systems are asked for their free space.
const SHARES_EVERY_SECONDS: u64 = 10;

/// The sources of all observed state.
pub struct Observer {
    /// The SMB server.
    pub server: Arc<SmbServer>,
    /// The NFS server.
    pub nfs: Arc<nfs::NfsServer>,
    /// The file layer.
    pub files: Arc<Files>,
    /// Threads for calls that may wait for a disk.
    pub workers: Arc<WorkerPool>,
    /// Connections of both protocols.
    pub connections: Arc<ConnectionTable>,
    /// Where the shares' files are.
    pub backend: Arc<dyn Backend>,
    /// Metadata caches of the shares.
    pub caches: Arc<MetadataCaches>,
    /// The switchable features and their states.
    pub features: Arc<FeatureRegistry>,
    /// Ports on which clients connect.
    pub ports: Vec<u16>,
    /// Space of the shares' file systems.
    pub shares: Arc<ShareFacts>,
    /// CPU time of the process.
    pub cpu_times: Arc<ProcessCpuTimes>,
    /// Counters of the exporters.
    pub exported: Arc<ExportCounters>,
    /// The limits of the shares.
    pub limits: Arc<LimitsBook>,
    /// The announcement on the links.
    pub discovery: Arc<Discovery>,
    /// The last hour.
    pub history: Arc<History>,
    /// The last refused logons.
    pub refused_logons: Arc<RefusedLogons>,
}

/// Counters of the trace exporter and the audit log.
#[derive(Debug, Default)]
pub struct ExportCounters {
    /// Slow requests that the trace collector has accepted.
    pub traces_sent: AtomicU64,
    /// Events of which the audit log has only the number.
    pub audit_suppressed: AtomicU64,
}

impl Observer {
    /// Request statistics.
    #[must_use]
    pub fn snapshot(&self) -> MeterSnapshot {
        self.files.meter().snapshot()
    }

    /// All metrics in the text format.
    #[must_use]
    pub fn metrics(&self) -> String {
        metrics::text(&Moment {
            meter: &self.snapshot(),
            connections: &self.connections.counts(),
            resources: &self.resources(),
            smb: &self.server.snapshot(),
            nfs: &self.nfs.snapshot(),
            open_files: self.files.open_file_count(),
            caches: &self.caches.counts(),
            directory_scans: self.backend.directory_scans(),
            shares: &self.shares.all(),
            disks: &disks::all(&self.server.config(), &self.files),
            limits: &self.limits.snapshots(Instant::now()),
            features: &self.features.states(),
            breaks: files::break_counts(),
            cpu_times: &self.cpu_times.seconds(),
            traces_sent: self.exported.traces_sent.load(Ordering::Relaxed),
            audit_suppressed: self.exported.audit_suppressed.load(Ordering::Relaxed),
            discovery: &self.discovery.counters.all(),
            discovery_links: self.discovery.link_count(),
            log: crate::log::counts(),
        })
    }

    /// Usage of the resources that clients share.
    fn resources(&self) -> Vec<(&'static str, limits::ResourceUsage)> {
        let smb = &self.server.holdings;
        let mut resources = vec![
            ("connections", self.connections.counts().by_user),
            ("memory_bytes", self.connections.memory().ledger().usage()),
            ("opens", self.files.opens().usage()),
            ("watches", self.files.watches().usage()),
            ("watch_bytes", self.files.watch_bytes().usage()),
            ("lock_ranges", self.files.lock_ranges().usage()),
            ("worker_calls", self.workers.usage()),
            ("sessions", smb.sessions.usage()),
            ("tree_connects", smb.trees.usage()),
            ("durable_opens", smb.durable.usage()),
            ("persistent_opens", smb.persistent.usage()),
            ("pipe_bytes", smb.pipe_bytes.usage()),
            ("persistent_bytes", smb.persistent_bytes.usage()),
        ];
        resources.extend(self.nfs.holdings.usages());
        resources
    }

    /// Refreshes the periodic measurements every second, until the task is dropped.
    pub async fn follow(self: Arc<Self>) {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        let tells_round_trips = Arc::new(AtomicBool::new(true));
        let mut last = Instant::now();
        let mut interval = last;
        for second in 0.. {
            seconds.tick().await;
            let now = Instant::now();
            self.files.meter().tick(now.duration_since(last));
            last = now;
            if second % SHARES_EVERY_SECONDS == 0 {
                self.look_at_shares();
            }
            let ends_interval = second % INTERVAL_SECONDS == 0;
            let length = now.duration_since(interval);
            if ends_interval {
                interval = now;
            }
            let (observer, tells) = (self.clone(), tells_round_trips.clone());
            let looked = tokio::task::spawn_blocking(move || {
                if ends_interval {
                    observer.record_history(length);
                }
                observer.cpu_times.refresh(observer.files.meter());
                if tells.load(Ordering::Relaxed)
                    && let Err(error) = round_trips::refresh(&observer.connections, &observer.ports)
                {
                    tells.store(false, Ordering::Relaxed);
                    tracing::info!(%error, "TCP round trip times are unavailable; end-to-end \
                                            latencies exclude them");
                }
            });
            if looked.await.is_err() {
                tracing::error!("a defect of this server: a periodic measurement panicked");
            }
        }
    }

    /// Ends an interval of the history.
    fn record_history(&self, length: Duration) {
        let connections = self.connections.counts();
        let smb = self.server.snapshot();
        let figures = HistoryFigures {
            sessions: (smb.sessions.len() + self.nfs.snapshot().clients.len()) as u64,
            connections: connections.open,
            open_files: self.files.open_file_count() as u64,
            logons_failed: smb.logons_failed,
            connections_refused: connections.refused,
        };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.history.record(time_ms, length, &self.snapshot(), figures);
    }

    /// Refreshes the file systems' space in the background, because a disk may hang. At most one
    /// refresh is in flight.
    fn look_at_shares(&self) {
        if Arc::strong_count(&self.shares) > 1 {
            return;
        }
        let (shares, files, config) =
            (self.shares.clone(), self.files.clone(), self.server.config());
        drop(tokio::task::spawn_blocking(move || shares.refresh(&config, &files)));
    }
}
