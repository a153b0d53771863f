//! All connections of the process: admission limits, counters and the stop signal.
//!
//! Each connection has a [`ConnectionControl`] whose counters only its task writes. The counters
//! share no cache line with those of other connections; readers sum them.

use crate::conn::memory::{Memory, MemoryLease};
use crate::limits::{
    CONNECTIONS_FLOOR, CONNECTIONS_PER_SITE_MAX, LOGON_WITHIN, MEMORY_BYTES_MAX,
    MEMORY_FLOOR_BYTES, STALL_WITHIN, UNKNOWN_PER_SITE_MAX, unknown_max,
};
use futures_util::task::AtomicWaker;
use limits::{Ledger, LedgerHolder, ResourceCharge, ResourceUsage, site_of};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;
use sync::Mutex;
use tokio::sync::Notify;

/// Reason for which a new connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionRefusal {
    /// The limit of all connections is reached.
    All,
    /// The limit of the client's address or IPv6 site is reached.
    Site,
    /// The server is draining and accepts no connections.
    Draining,
    /// The limit of connections without a logon is reached: that of the site, or that of all sites
    /// while no other site has more.
    Unknown,
}

/// Counters since the start of the process; `open` and `unknown` are gauges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Open connections.
    pub open: u64,
    /// Open connections without a logon.
    pub unknown: u64,
    /// Accepted connections.
    pub accepted: u64,
    /// Connections refused at a limit.
    pub refused: u64,
    /// Connections without a logon that were closed in favour of a site with fewer.
    pub displaced: u64,
    /// Connections with a logon, by user.
    pub by_user: ResourceUsage,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Ended connections by the kind of their end.
    pub ends: BTreeMap<&'static str, u64>,
}

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionTimeouts {
    /// From accept until the first logon.
    pub logon: Duration,
    /// While the client owes the rest of a message or does not take replies.
    pub stall: Duration,
}

impl Default for ConnectionTimeouts {
    fn default() -> Self {
        Self { logon: LOGON_WITHIN, stall: STALL_WITHIN }
    }
}

/// Counts and limits of connections.
#[derive(Debug)]
pub struct ConnectionTable {
    next_id: AtomicU64,
    max: AtomicUsize,
    patience: Mutex<ConnectionTimeouts>,
    /// Ledger of connections with a logon.
    by_user: Arc<Ledger>,
    memory: Arc<Memory>,
    table: Mutex<ConnectionRecords>,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct ConnectionRecords {
    links: HashMap<u64, Arc<ConnectionControl>>,
    by_site: HashMap<IpAddr, SiteConnections>,
    /// Sites with connections without a logon, ordered by their number.
    crowds: BTreeSet<(usize, IpAddr)>,
    unknown: usize,
    /// Ledger entries of connections with a logon, by connection.
    users: HashMap<u64, ResourceCharge>,
    /// Sums over the ended connections.
    ended: ConnectionCounts,
    /// The server stops: no connection is accepted and the open ones end.
    stopping: bool,
    /// The server drains: no connection is accepted for now.
    draining: bool,
}

/// Connections of one address or IPv6 site.
#[derive(Debug, Default)]
struct SiteConnections {
    all: usize,
    /// Connections without a logon, the oldest first.
    unknown: BTreeSet<u64>,
}

/// State that a connection's task shares with the rest of the process.
#[derive(Debug)]
pub struct ConnectionControl {
    stop: AtomicBool,
    cut: AtomicBool,
    displaced: AtomicBool,
    doubted: AtomicBool,
    waker: AtomicWaker,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    core: AtomicU32,
    round_trip_microseconds: AtomicU32,
    peer: OnceLock<SocketAddr>,
    address: IpAddr,
}

/// One open connection in the admin API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFact {
    /// Number of the connection.
    pub id: u64,
    /// Address of the client.
    pub address: IpAddr,
    /// Its traffic.
    pub traffic: Traffic,
}

/// Traffic of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// CPU that took the last requests; `None` before the first.
    pub core: Option<u32>,
}

/// Value of `ConnectionControl::core` before the first request.
const CORE_UNKNOWN: u32 = u32::MAX;

impl ConnectionControl {
    fn new(address: IpAddr) -> Self {
        Self {
            address,
            stop: AtomicBool::default(),
            cut: AtomicBool::default(),
            displaced: AtomicBool::default(),
            doubted: AtomicBool::default(),
            waker: AtomicWaker::default(),
            received_bytes: AtomicU64::default(),
            sent_bytes: AtomicU64::default(),
            core: AtomicU32::new(CORE_UNKNOWN),
            round_trip_microseconds: AtomicU32::new(0),
            peer: OnceLock::new(),
        }
    }
}

impl ConnectionTable {
    /// Admits at most `max` connections at once.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            next_id: AtomicU64::new(1),
            max: AtomicUsize::new(max),
            patience: Mutex::default(),
            by_user: Ledger::new(max as u64, CONNECTIONS_FLOOR as u64),
            memory: Memory::new(MEMORY_BYTES_MAX, MEMORY_FLOOR_BYTES),
            table: Mutex::default(),
            emptied: Notify::new(),
        }
    }

    /// Changes the limits and timeouts for future connections.
    pub fn configure(&self, max: usize, patience: ConnectionTimeouts) {
        self.max.store(max, Ordering::Relaxed);
        self.by_user.set_max(max as u64);
        *self.patience.lock() = patience;
    }

    /// Timeouts for a new connection.
    #[must_use]
    pub fn patience(&self) -> ConnectionTimeouts {
        *self.patience.lock()
    }

    /// Memory of requests and replies of all connections.
    #[must_use]
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Admits a connection from `address`. If the server is full, the site with the most
    /// connections without a logon loses the oldest of them, provided that it has more than this
    /// site.
    ///
    /// # Errors
    /// [`AdmissionRefusal`].
    pub fn enter(
        self: &Arc<Self>,
        address: IpAddr,
    ) -> Result<ConnectionAdmission, AdmissionRefusal> {
        let mut table = self.table.lock();
        let site = site_of(address);
        if let Err(full) = table.make_room(site, self.max.load(Ordering::Relaxed)) {
            table.ended.refused += 1;
            return Err(full);
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let link = Arc::new(ConnectionControl::new(address));
        table.links.insert(id, link.clone());
        table.by_site.entry(site).or_default().all += 1;
        table.add_unknown(site, id);
        table.ended.accepted += 1;
        drop(table);
        Ok(ConnectionAdmission { connections: self.clone(), site, id, link, known: false })
    }

    /// Charges the connection `id` to `holder`, who has logged on. Returns false if the holder has
    /// too many connections. Only the first logon of a connection is charged.
    #[must_use]
    pub fn admit(&self, id: u64, holder: &LedgerHolder) -> bool {
        let mut table = self.table.lock();
        if table.users.contains_key(&id) || !table.links.contains_key(&id) {
            return true;
        }
        let Ok(share) = self.by_user.take(holder) else { return false };
        table.users.insert(id, share);
        true
    }

    /// The limit of all connections.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Lists all open connections.
    #[must_use]
    pub fn facts(&self) -> Vec<LinkFact> {
        let table = self.table.lock();
        let fact = |(id, link): (&u64, &Arc<ConnectionControl>)| LinkFact {
            id: *id,
            address: link.address,
            traffic: link.traffic(),
        };
        table.links.iter().map(fact).collect()
    }

    /// Sets whether new connections are refused because the server drains.
    pub fn set_draining(&self, draining: bool) {
        self.table.lock().draining = draining;
    }

    /// Signals the connections for which `ends` returns true to finish their requests and end.
    pub fn end_matching(&self, ends: impl Fn(u64) -> bool) {
        let table = self.table.lock();
        let links = table.links.iter().filter(|(id, _)| ends(**id));
        links.for_each(|(_, link)| link.stop());
    }

    /// Number of open connections.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.table.lock().links.len()
    }

    /// Counts an ended connection by kind.
    pub fn count_end(&self, kind: &'static str) {
        *self.table.lock().ended.ends.entry(kind).or_insert(0) += 1;
    }

    /// Sums over all open and ended connections.
    #[must_use]
    pub fn counts(&self) -> ConnectionCounts {
        let table = self.table.lock();
        let mut counts = table.ended.clone();
        counts.open = table.links.len() as u64;
        counts.unknown = table.unknown as u64;
        counts.by_user = self.by_user.usage();
        for link in table.links.values() {
            counts.received_bytes += link.received_bytes.load(Ordering::Relaxed);
            counts.sent_bytes += link.sent_bytes.load(Ordering::Relaxed);
        }
        counts
    }

    /// Traffic of the connection `id`.
    #[must_use]
    pub fn traffic(&self, id: u64) -> Option<Traffic> {
        self.table.lock().links.get(&id).map(|link| link.traffic())
    }

    /// All open connections by the client's socket address.
    pub fn by_peer(&self) -> HashMap<SocketAddr, Arc<ConnectionControl>> {
        let table = self.table.lock();
        let of = |link: &Arc<ConnectionControl>| link.peer.get().map(|peer| (*peer, link.clone()));
        table.links.values().filter_map(of).collect()
    }

    /// Resets the connection `id` without a reply, as a broken network would. Returns false if
    /// there is no such connection.
    pub fn cut(&self, id: u64) -> bool {
        let link = self.table.lock().links.get(&id).cloned();
        link.inspect(|link| link.cut()).is_some()
    }

    /// Starts keep-alive probes on these connections, to find out whether their clients still
    /// exist.
    pub fn doubt(&self, ids: &[u64]) {
        let table = self.table.lock();
        let links = ids.iter().filter_map(|id| table.links.get(id));
        links.for_each(|link| link.doubt());
    }

    /// Signals all connections to finish their requests and end; admits no more. Returns when all
    /// have ended.
    pub async fn stop(&self) {
        let links: Vec<Arc<ConnectionControl>> = {
            let mut table = self.table.lock();
            table.stopping = true;
            table.links.values().cloned().collect()
        };
        links.iter().for_each(|link| link.stop());
        loop {
            // The task registers before it checks the count, so that it misses no end in between.
            let emptied = self.emptied.notified();
            if self.open_count() == 0 {
                return;
            }
            emptied.await;
        }
    }
}

impl ConnectionRecords {
    /// Checks the limits for a connection from `site` and displaces another connection if
    /// necessary.
    fn make_room(&mut self, site: IpAddr, max: usize) -> Result<(), AdmissionRefusal> {
        let held = self.by_site.get(&site);
        let (all, own) = held.map_or((0, 0), |held| (held.all, held.unknown.len()));
        // The limit per site leaves as many free connections for the other sites.
        let free = max.saturating_sub(self.links.len() + 1);
        let site_max = free.clamp(CONNECTIONS_FLOOR, CONNECTIONS_PER_SITE_MAX);
        let full = [
            (self.draining, AdmissionRefusal::Draining),
            (self.stopping, AdmissionRefusal::All),
            (all >= CONNECTIONS_FLOOR && all >= site_max, AdmissionRefusal::Site),
            (own >= UNKNOWN_PER_SITE_MAX, AdmissionRefusal::Unknown),
        ];
        if let Some((_, full)) = full.into_iter().find(|(is, _)| *is) {
            return Err(full);
        }
        if self.links.len() >= max {
            return self.displace(own).ok_or(AdmissionRefusal::All);
        }
        if self.unknown >= unknown_max(max) {
            return self.displace(own).ok_or(AdmissionRefusal::Unknown);
        }
        Ok(())
    }

    /// Closes the oldest connection without a logon of the site that has most of them, if that site
    /// has more than `own`.
    fn displace(&mut self, own: usize) -> Option<()> {
        let (count, site) = *self.crowds.last()?;
        let oldest = *self.by_site.get(&site)?.unknown.first()?;
        if count <= own {
            return None;
        }
        self.remove_unknown(site, oldest);
        self.links.get(&oldest)?.displace();
        self.ended.displaced += 1;
        Some(())
    }

    fn add_unknown(&mut self, site: IpAddr, id: u64) {
        let unknown = &mut self.by_site.entry(site).or_default().unknown;
        let before = unknown.len();
        if unknown.insert(id) {
            self.crowds.remove(&(before, site));
            self.crowds.insert((before + 1, site));
            self.unknown += 1;
        }
    }

    fn remove_unknown(&mut self, site: IpAddr, id: u64) {
        let Some(held) = self.by_site.get_mut(&site) else { return };
        let before = held.unknown.len();
        if held.unknown.remove(&id) {
            self.crowds.remove(&(before, site));
            if before > 1 {
                self.crowds.insert((before - 1, site));
            }
            self.unknown -= 1;
        }
    }

    fn remove(&mut self, site: IpAddr, id: u64) {
        self.remove_unknown(site, id);
        self.links.remove(&id);
        self.users.remove(&id);
        if let Some(held) = self.by_site.get_mut(&site) {
            held.all -= 1;
            if held.all == 0 {
                self.by_site.remove(&site);
            }
        }
    }
}

impl ConnectionControl {
    fn displace(&self) {
        self.displaced.store(true, Ordering::Release);
        self.cut();
    }

    /// Whether the connection was closed in favour of a site with fewer.
    pub fn is_displaced(&self) -> bool {
        self.displaced.load(Ordering::Acquire)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn cut(&self) {
        self.cut.store(true, Ordering::Release);
        self.stop();
    }

    /// Whether the connection must finish its requests and end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn doubt(&self) {
        self.doubted.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether [`ConnectionTable::doubt`] was called since the last call.
    pub fn take_doubt(&self) -> bool {
        self.doubted.load(Ordering::Relaxed) && self.doubted.swap(false, Ordering::AcqRel)
    }

    /// Whether the connection must end at once.
    pub fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Acquire)
    }

    fn traffic(&self) -> Traffic {
        let core = self.core.load(Ordering::Relaxed);
        Traffic {
            received_bytes: self.received_bytes.load(Ordering::Relaxed),
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
            core: (core != CORE_UNKNOWN).then_some(core),
        }
    }

    /// Stores the CPU that the connection's task runs on.
    pub fn set_core(&self, core: usize) {
        self.core.store(u32::try_from(core).unwrap_or(CORE_UNKNOWN), Ordering::Relaxed);
    }

    /// Stores the client's socket address.
    pub fn set_peer(&self, peer: SocketAddr) {
        let _ = self.peer.set(peer);
    }

    /// Stores TCP's smoothed round trip time.
    pub fn set_round_trip(&self, microseconds: u32) {
        self.round_trip_microseconds.store(microseconds, Ordering::Relaxed);
    }

    /// The last stored round trip time; zero before the first.
    pub fn round_trip(&self) -> Duration {
        let microseconds = self.round_trip_microseconds.load(Ordering::Relaxed);
        Duration::from_micros(microseconds.into())
    }

    /// Returns once the connection must end or its client is doubted. Cancel safe.
    pub async fn wait_for_signal(&self) {
        poll_fn(|cx| {
            self.waker.register(cx.waker());
            let is_signaled = self.is_stopped() || self.doubted.load(Ordering::Acquire);
            if is_signaled { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Counts received bytes. Only the connection's task may call it.
    pub fn count_received(&self, bytes: usize) {
        add_alone(&self.received_bytes, bytes);
    }

    /// Counts sent bytes. Only the connection's task may call it.
    pub fn count_sent(&self, bytes: usize) {
        add_alone(&self.sent_bytes, bytes);
    }
}

/// Adds without a locked instruction, because there is only one writer.
fn add_alone(counter: &AtomicU64, bytes: usize) {
    counter.store(counter.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
}

/// Admission of one connection; ends on drop.
#[derive(Debug)]
pub struct ConnectionAdmission {
    connections: Arc<ConnectionTable>,
    /// See [`site_of`].
    site: IpAddr,
    id: u64,
    link: Arc<ConnectionControl>,
    known: bool,
}

impl ConnectionAdmission {
    /// Number of the connection, unique in the process.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// A memory lease that is charged to the client's site.
    #[must_use]
    pub fn lease(&self) -> MemoryLease {
        MemoryLease::new(&self.connections.memory, &LedgerHolder::Site(self.site))
    }

    /// The account that is charged before a logon.
    #[must_use]
    pub fn holder(&self) -> LedgerHolder {
        LedgerHolder::Site(self.site)
    }

    /// The shared state of the connection.
    #[must_use]
    pub fn link(&self) -> &Arc<ConnectionControl> {
        &self.link
    }

    /// Records whether a user is logged on.
    pub fn set_known(&mut self, known: bool) {
        if self.known == known {
            return;
        }
        self.known = known;
        let mut table = self.connections.table.lock();
        if known {
            table.remove_unknown(self.site, self.id);
        } else {
            table.users.remove(&self.id);
            table.add_unknown(self.site, self.id);
        }
    }
}

impl Drop for ConnectionAdmission {
    fn drop(&mut self) {
        let mut table = self.connections.table.lock();
        table.remove(self.site, self.id);
        table.ended.received_bytes += self.link.received_bytes.load(Ordering::Relaxed);
        table.ended.sent_bytes += self.link.sent_bytes.load(Ordering::Relaxed);
        if table.links.is_empty() {
            self.connections.emptied.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn last_admission_is_unique_and_returns_on_drop() {
        let connections = Arc::new(ConnectionTable::new(2));
        let first = connections.enter(HERE).unwrap();
        let second = connections.enter(THERE).unwrap();
        assert_eq!(connections.enter(HERE).unwrap_err(), AdmissionRefusal::All);
        assert_ne!(first.id(), second.id());
        drop(first);
        assert!(connections.enter(HERE).is_ok());
        assert_eq!(connections.counts().refused, 1);
        assert_eq!(connections.counts().accepted, 3);
    }

    #[test]
    fn connections_before_logon_are_bounded_by_address() {
        let connections = Arc::new(ConnectionTable::new(usize::MAX));
        let mut places: Vec<ConnectionAdmission> =
            (0..UNKNOWN_PER_SITE_MAX).map(|_| connections.enter(HERE).unwrap()).collect();
        assert_eq!(connections.enter(HERE).unwrap_err(), AdmissionRefusal::Unknown);
        assert!(connections.enter(THERE).is_ok(), "others must not notice");
        places[0].set_known(true);
        let known = connections.enter(HERE).unwrap();
        assert_eq!(connections.enter(HERE).unwrap_err(), AdmissionRefusal::Unknown);
        drop((places, known));
        let counts = connections.counts();
        assert_eq!((counts.accepted, counts.refused, counts.open), (1026, 2, 0));
        let table = connections.table.lock();
        assert!(
            table.by_site.is_empty() && table.crowds.is_empty() && table.unknown == 0,
            "nothing may be left of an address that is gone"
        );
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ipv6_site_is_counted_as_one_address() {
        let connections = Arc::new(ConnectionTable::new(usize::MAX));
        let from = |n: usize| address(&format!("2001:db8:0:1::{n:x}"));
        let _places: Vec<ConnectionAdmission> =
            (0..UNKNOWN_PER_SITE_MAX).map(|n| connections.enter(from(n)).unwrap()).collect();
        assert_eq!(
            connections.enter(address("2001:db8:0:1:f::")).unwrap_err(),
            AdmissionRefusal::Unknown
        );
        assert!(connections.enter(address("2001:db8:0:2::1")).is_ok(), "another site");
    }

    #[test]
    fn crowd_before_logon_makes_room_for_another_site() {
        let max = 160;
        let connections = Arc::new(ConnectionTable::new(max));
        let crowd = |n: u8| IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, n));
        let mut places = Vec::new();
        for n in 0..=u8::MAX {
            places.extend((0..CONNECTIONS_FLOOR).map_while(|_| connections.enter(crowd(n)).ok()));
        }
        assert_eq!(connections.counts().unknown, unknown_max(max) as u64);
        let before = connections.counts().displaced;
        let one = connections.enter(HERE).expect("a crowd makes room");
        assert_eq!(connections.counts().displaced, before + 1);
        assert_eq!(connections.counts().unknown, unknown_max(max) as u64);
        assert!(!one.link().is_cut(), "the newcomer stays");
        let displaced = places.iter().filter(|place| place.link().is_displaced()).count() as u64;
        assert_eq!(displaced, before + 1);
    }

    #[test]
    fn connection_with_a_logon_is_never_displaced() {
        let connections = Arc::new(ConnectionTable::new(20));
        let mut known: Vec<ConnectionAdmission> =
            (0..16).map(|_| connections.enter(HERE).unwrap()).collect();
        known.iter_mut().for_each(|place| place.set_known(true));
        let unknown: Vec<ConnectionAdmission> =
            (0..4).map_while(|_| connections.enter(address("192.0.2.7")).ok()).collect();
        assert_eq!(unknown.len(), 4);
        let late = connections.enter(address("192.0.2.8")).unwrap();
        assert!(unknown[0].link().is_displaced() && !unknown[1].link().is_displaced());
        assert!(known.iter().all(|place| !place.link().is_cut()) && !late.link().is_cut());
    }

    #[test]
    fn one_user_gets_at_most_half_of_the_connections() {
        let connections = Arc::new(ConnectionTable::new(80));
        let user = |name: &str| LedgerHolder::User(name.into());
        let mut places: Vec<ConnectionAdmission> = (0..60_u8)
            .map(|n| connections.enter(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, n))).unwrap())
            .collect();
        let admitted =
            places.iter().filter(|place| connections.admit(place.id(), &user("a"))).count();
        assert_eq!(admitted, 40);
        assert!(connections.admit(places[50].id(), &user("b")));
        assert!(connections.admit(places[0].id(), &user("a")), "a second session on it");
        places.clear();
        assert_eq!(connections.counts().by_user.used, 0);
    }

    #[test]
    fn bytes_of_open_and_ended_connections_are_summed() {
        let connections = Arc::new(ConnectionTable::new(9));
        let (first, second) = (connections.enter(HERE).unwrap(), connections.enter(HERE).unwrap());
        first.link().count_received(5);
        second.link().count_received(7);
        second.link().count_sent(11);
        drop(first);
        let counts = connections.counts();
        assert_eq!((counts.received_bytes, counts.sent_bytes, counts.open), (12, 11, 1));
    }

    #[tokio::test]
    async fn cut_affects_one_connection_only() {
        let connections = Arc::new(ConnectionTable::new(9));
        let (first, second) = (connections.enter(HERE).unwrap(), connections.enter(HERE).unwrap());
        assert!(connections.cut(first.id()));
        first.link().wait_for_signal().await;
        assert!(first.link().is_cut() && !second.link().is_cut());
        assert!(!connections.cut(second.id() + 1), "there is none");
    }

    #[tokio::test]
    async fn doubted_connection_is_notified_once_and_continues() {
        let connections = Arc::new(ConnectionTable::new(9));
        let (first, second) = (connections.enter(HERE).unwrap(), connections.enter(HERE).unwrap());
        connections.doubt(&[first.id(), second.id() + 1]);
        first.link().wait_for_signal().await;
        assert!(first.link().take_doubt() && !first.link().take_doubt());
        assert!(!second.link().take_doubt());
        assert!(!first.link().is_stopped() && !first.link().is_cut());
        assert!(first.link().wait_for_signal().now_or_never().is_none());
    }

    #[tokio::test]
    async fn stop_notifies_every_connection_and_waits_for_the_last() {
        let connections = Arc::new(ConnectionTable::new(9));
        let place = connections.enter(HERE).unwrap();
        let task = tokio::spawn(async move {
            place.link().wait_for_signal().await;
            drop(place);
        });
        connections.stop().await;
        assert_eq!(connections.open_count(), 0);
        assert_eq!(
            connections.enter(HERE).unwrap_err(),
            AdmissionRefusal::All,
            "none is taken any more"
        );
        task.await.unwrap();
    }
}
