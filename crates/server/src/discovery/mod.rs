//! Announces the server on its links: to macOS and Linux by multicast DNS, to Windows by
//! WS-Discovery.
//!
//! [`plan`] decides what is announced where. A task for each interface ([`link`]) owns the sockets
//! and the responders of the crate `discovery`. Failures concern the announcement only: they appear in
//! the log and in `anabranch status`, and are retried.

mod counters;
mod link;
mod metadata;
mod plan;
mod socket;

pub use counters::DiscoveryCounters;
pub use plan::{DISCOVERY_PORTS, DiscoverySettings, LinkStatus};

use crate::machine::interfaces::Interfaces;
use ::discovery::wsd::WsdComputer;
use ::discovery::{Jitter, Uuid};
use link::AnnouncementTask;
use plan::LinkPlan;
use serde_json::{Value, json};
use smb::SmbServer;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use sync::{Mutex, RwLock};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};

/// Time within which the messages of a stop are sent.
const STOP_WITHIN: Duration = Duration::from_secs(1);

/// The announcement of the server.
pub struct Discovery {
    server: Arc<SmbServer>,
    interfaces: Arc<Interfaces>,
    settings: RwLock<DiscoverySettings>,
    changed: Notify,
    stopping: Notify,
    task: Mutex<Option<JoinHandle<()>>>,
    instance_id: u32,
    /// State by interface index.
    links: Mutex<BTreeMap<u32, LinkStatus>>,
    /// Counters of received datagrams.
    pub counters: DiscoveryCounters,
}

impl Discovery {
    /// The announcement of `server`, not running yet.
    #[must_use]
    pub fn new(
        server: Arc<SmbServer>,
        interfaces: Arc<Interfaces>,
        settings: DiscoverySettings,
    ) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            server,
            interfaces,
            settings: RwLock::new(settings),
            changed: Notify::new(),
            stopping: Notify::new(),
            task: Mutex::default(),
            // WS-Discovery appendix I: it grows with each start.
            instance_id: since_1970.as_secs() as u32,
            links: Mutex::default(),
            counters: DiscoveryCounters::default(),
        }
    }

    /// Applies new settings, and changes of the server's name and shares.
    pub fn configure(&self, settings: DiscoverySettings) {
        *self.settings.write() = settings;
        self.changed.notify_one();
    }

    /// Starts to announce.
    pub fn start(self: &Arc<Self>) {
        *self.task.lock() = Some(tokio::spawn(self.clone().run()));
    }

    async fn run(self: Arc<Self>) {
        let mut tasks = JoinSet::new();
        let mut links = BTreeMap::<u32, watch::Sender<LinkPlan>>::new();
        loop {
            self.apply(&mut links, &mut tasks);
            tokio::select! {
                () = self.changed.notified() => {}
                () = self.interfaces.changed() => {}
                // Ended tasks, whose interfaces are gone.
                Some(_) = tasks.join_next() => {}
                () = self.stopping.notified() => break,
            }
        }
        // A task without a plan says goodbye and ends.
        drop(links);
        while tasks.join_next().await.is_some() {}
    }

    /// Withdraws the announcement, within a bounded time.
    pub async fn stop(&self) {
        let Some(task) = self.task.lock().take() else { return };
        self.stopping.notify_one();
        let abort = task.abort_handle();
        if tokio::time::timeout(STOP_WITHIN, task).await.is_err() {
            abort.abort();
        }
    }

    /// Starts a task for each new interface, gives plans to the others, ends those without one.
    fn apply(
        self: &Arc<Self>,
        links: &mut BTreeMap<u32, watch::Sender<LinkPlan>>,
        tasks: &mut JoinSet<()>,
    ) {
        let plans = self.plans();
        links.retain(|index, plan| plans.contains_key(index) && !plan.is_closed());
        self.links.lock().retain(|index, _| links.contains_key(index));
        for (index, plan) in plans {
            if let Some(present) = links.get(&index) {
                present.send_if_modified(|present| {
                    let is_other = *present != plan;
                    *present = plan;
                    is_other
                });
                continue;
            }
            let task = AnnouncementTask::new(self.clone(), plan.clone());
            let (sender, receiver) = watch::channel(plan);
            tasks.spawn(task.run(receiver));
            links.insert(index, sender);
        }
    }

    fn plans(&self) -> BTreeMap<u32, LinkPlan> {
        let config = self.server.config();
        let settings = self.settings.read().clone();
        let computer = WsdComputer {
            endpoint: endpoint(&config.name),
            instance_id: self.instance_id,
            name: config.name.clone(),
            workgroup: config.domain.clone(),
        };
        let links = self.interfaces.private_links();
        let plans = links.iter().map(|link| plan::of_link(link, &config, &settings, &computer));
        plans.flatten().map(|plan| (plan.index, plan)).collect()
    }

    fn report(&self, index: u32, status: LinkStatus) {
        self.links.lock().insert(index, status);
    }

    /// State for `anabranch status` and the admin API.
    #[must_use]
    pub fn status(&self) -> Value {
        let links: Vec<LinkStatus> = self.links.lock().values().cloned().collect();
        let settings = self.settings.read().clone();
        let reason = plan::reason_for_none(&settings, links.is_empty());
        json!({ "mdns": settings.mdns, "wsd": settings.wsd, "links": links, "reason": reason })
    }

    /// Number of interfaces on which the server is announced.
    #[must_use]
    pub fn link_count(&self) -> usize {
        self.links.lock().values().filter(|link| link.is_announced()).count()
    }
}

/// Id of the WS-Discovery endpoint: equal after each start, and different for each machine and name.
/// machine-id(5) must not be visible, hence the hash.
fn endpoint(name: &str) -> Uuid {
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let text = format!("Anabranch WS-Discovery endpoint\n{}\n{name}", machine.trim());
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_ref()[..16]);
    Uuid::of(bytes, 8)
}

/// A generator with a seed of the system.
fn jitter() -> Jitter {
    let mut seed = [0; 8];
    // Without randomness the delays are still right.
    let _ = rustix::rand::getrandom(&mut seed[..], rustix::rand::GetRandomFlags::empty());
    Jitter::new(u64::from_ne_bytes(seed))
}
