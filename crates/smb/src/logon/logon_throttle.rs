//! Failed passwords: after some of them the verification of an attempt is delayed.
//!
//! A delay after the verification would not slow a guesser that sends its next guess meanwhile.
//! Failures are counted by account and network, by account, by network and by connection. The
//! longest of the four delays applies; a success clears only the first counter. Where an account
//! has logged on from a network before, failures elsewhere do not delay it.
//!
//! A guesser must not keep others from verification either. Waiting attempts are verified in this
//! order: fewest failures, then the network that was served longest ago for the account, then
//! arrival. When the queue is full, an attempt with more waiting attempts or more failures is
//! displaced.
//!
//! Before verification nothing distinguishes the owner of an account from a guesser at the same
//! address. So a delay is a second at most, while an attempt waits up to 15. Beside a few guessing
//! connections each attempt gets its turn. Beside more, up to the size of the queue, each has the
//! same chance. Longer delays would prevent few guesses and lock the owner out.

use crate::limits::{
    LOGON_WAIT_MAX, THROTTLE_ENTRIES_MAX, USUAL_NETWORK_LIFETIME, USUAL_NETWORKS_MAX,
    USUAL_NETWORKS_PER_ACCOUNT, WAITING_LOGONS_IN_ORDER, WAITING_LOGONS_MAX,
    WAITING_LOGONS_PER_ACCOUNT, WAITING_LOGONS_PER_CONNECTION, WAITING_LOGONS_PER_NETWORK,
    WAITING_LOGONS_PER_PAIR, WAITING_TICKETS_MAX, WAITING_TICKETS_PER_NETWORK,
};
use limits::site_of;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use sync::{Mutex, MutexGuard};

const DELAY_MIN: Duration = Duration::from_millis(50);
/// A counter resets after this time without a failure.
const FAILURE_LIFETIME: Duration = Duration::from_mins(10);
/// Poll interval of a waiting attempt.
const TURN_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Failures without a delay, and the longest delay after them.
#[derive(Clone, Copy, Debug)]
struct DelayPolicy {
    free: u32,
    delay_max: Duration,
}

/// One account from one network: allows a person's typos, and 60 guesses a minute.
const PAIR: DelayPolicy = DelayPolicy { free: 2, delay_max: Duration::from_secs(1) };
/// One account from all networks that are not usual for it: 60 guesses a minute.
const ACCOUNT: DelayPolicy = DelayPolicy { free: 10, delay_max: Duration::from_secs(1) };
/// All accounts from one network that is not usual for them: 60 guesses a minute.
const NETWORK: DelayPolicy = DelayPolicy { free: 10, delay_max: Duration::from_secs(1) };
/// All accounts on one connection: 30 guesses a minute.
const CONNECTION: DelayPolicy = DelayPolicy { free: 10, delay_max: Duration::from_secs(2) };

/// Consecutive failures.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailureCount {
    count: u32,
    last: Option<Instant>,
    /// Start of the last verification, whatever its result.
    verified_at: Option<Instant>,
}

impl FailureCount {
    fn count_failure(&mut self, now: Instant) {
        if self.has_expired(now) {
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.last = Some(now);
    }

    fn has_expired(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now.saturating_duration_since(last) > FAILURE_LIFETIME)
    }

    /// When the next verification is allowed, if later than `now`.
    fn due(&self, policy: DelayPolicy, now: Instant) -> Option<Instant> {
        let last = self.last.filter(|_| !self.has_expired(now))?;
        let doublings = self.count.checked_sub(policy.free + 1)?;
        let delay = DELAY_MIN.saturating_mul(1 << doublings.min(16)).min(policy.delay_max);
        Some(self.verified_at.map_or(last, |judged| judged.max(last)) + delay)
            .filter(|due| *due > now)
    }
}

/// One password logon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogonAttempt {
    network: IpAddr,
    /// Hash of the account name with a random key of this process, because names have no length
    /// limit.
    account: u64,
}

type Pair = (u64, IpAddr);

/// A network from which an account has logged on, in its persistent form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsualNetwork {
    /// The account's name.
    pub account: String,
    /// An IPv4 address, or the first of an IPv6 /64.
    pub network: IpAddr,
    /// Time of the last logon from there, in seconds since 1970.
    pub last_unix_seconds: u64,
}

#[derive(Debug)]
struct UsualEntry {
    account: Arc<str>,
    last: Instant,
}

/// A waiting attempt.
#[derive(Debug)]
struct WaitingAttempt {
    attempt: LogonAttempt,
    connection: u64,
    /// Failures of its connection at the start of the wait.
    failures_of_connection: FailureCount,
    is_usual: bool,
    /// Order among attempts with equal failures: the arrival time, or a random later time where not
    /// all can be verified in time. Otherwise attempts that arrive in a burst would take all turns.
    turn: Instant,
}

/// Displacement order: waiting attempts of its connection, of its network, and its failures.
type DisplacementRank = (usize, usize, u32);

/// Verification order: failures, last service of its network, turn, arrival.
type VerificationRank = (u32, Option<Instant>, Instant, u64);

#[derive(Debug, Default)]
struct ThrottleState {
    pairs: HashMap<Pair, FailureCount>,
    accounts: HashMap<u64, FailureCount>,
    networks: HashMap<IpAddr, FailureCount>,
    /// Usual networks of accounts.
    usual: HashMap<Pair, UsualEntry>,
    /// Waiting attempts in the order of their arrival.
    waiters: BTreeMap<u64, WaitingAttempt>,
    /// Number of attempts that have waited.
    arrivals: u64,
    /// Tickets in verification.
    tickets: usize,
    tickets_of_networks: HashMap<IpAddr, usize>,
}

/// Failures of all connections.
#[derive(Debug, Default)]
pub struct LogonThrottle {
    state: Mutex<ThrottleState>,
    hasher: RandomState,
}

/// An entry in the queue of waiting attempts; dropping it removes the entry.
#[derive(Debug)]
pub struct WaitingLogon {
    throttle: Arc<LogonThrottle>,
    arrival: u64,
}

impl Drop for WaitingLogon {
    fn drop(&mut self) {
        self.throttle.state().waiters.remove(&self.arrival);
    }
}

/// An entry among the tickets in verification; dropping it removes the entry.
#[derive(Debug)]
pub struct WaitingTicket {
    throttle: Arc<LogonThrottle>,
    network: IpAddr,
}

impl Drop for WaitingTicket {
    fn drop(&mut self) {
        let mut state = self.throttle.state();
        state.tickets -= 1;
        leave(&mut state.tickets_of_networks, self.network);
    }
}

impl WaitingAttempt {
    /// True if both wait for the same delay. On a usual network that is the delay of the pair, else
    /// that of the account or of the network.
    fn competes(&self, other: &Self) -> bool {
        let (own, of) = (self.attempt, other.attempt);
        match (self.is_usual, other.is_usual) {
            (true, true) => of == own,
            (false, false) => of.account == own.account || of.network == own.network,
            _ => false,
        }
    }
}

impl LogonAttempt {
    fn pair(&self) -> Pair {
        (self.account, self.network)
    }
}

impl LogonThrottle {
    /// A logon attempt at `account` from an address.
    pub fn attempt(&self, account: &str, address: IpAddr) -> LogonAttempt {
        LogonAttempt { network: site_of(address), account: self.hasher.hash_one(account) }
    }

    /// When an attempt may be verified; none means now.
    ///
    /// The caller verifies it then at once. The next attempt is delayed as after a failure, so that
    /// concurrent attempts are not verified together. `connection` has the failures of its
    /// connection. `place` is its queue entry; an attempt whose entry was displaced is not verified
    /// within [`LOGON_WAIT_MAX`].
    pub fn due(
        &self,
        attempt: LogonAttempt,
        connection: &FailureCount,
        place: Option<&WaitingLogon>,
        now: Instant,
    ) -> Option<Instant> {
        let mut state = self.state();
        if place.is_some_and(|place| !state.waiters.contains_key(&place.arrival)) {
            return Some(now + LOGON_WAIT_MAX * 2);
        }
        let is_usual = state.is_usual(attempt, now);
        let due = state.delay(attempt, is_usual, connection, now).or_else(|| {
            let comes = WaitingAttempt {
                attempt,
                connection: 0,
                failures_of_connection: *connection,
                is_usual,
                turn: now,
            };
            let arrival = place.map_or(u64::MAX, |place| place.arrival);
            let waiter = state.waiters.get(&arrival).unwrap_or(&comes);
            state.has_predecessor(arrival, waiter, now).then(|| now + TURN_POLL_INTERVAL)
        });
        if due.is_none() {
            state.begin_verification(attempt, is_usual, now);
        }
        due
    }

    /// Adds an attempt to the queue, if there is room or another attempt can be displaced.
    /// `connection` is the connection's number and its failures.
    pub fn wait(
        self: &Arc<Self>,
        attempt: LogonAttempt,
        connection: (u64, &FailureCount),
        now: Instant,
    ) -> Option<WaitingLogon> {
        let mut state = self.state();
        let is_usual = state.is_usual(attempt, now);
        let (connection, failures) = connection;
        let mut waiter = WaitingAttempt {
            attempt,
            connection,
            failures_of_connection: *failures,
            is_usual,
            turn: now,
        };
        while let Some(crowd) = state.exceeded_limit(&waiter) {
            let displaced = state.heaviest(&waiter, crowd, now)?;
            state.waiters.remove(&displaced);
        }
        let arrival = state.arrivals;
        state.arrivals += 1;
        let competitors = state.waiters.values().filter(|other| waiter.competes(other)).count();
        if competitors > WAITING_LOGONS_IN_ORDER {
            let spread = u64::try_from(LOGON_WAIT_MAX.as_millis()).unwrap_or(u64::MAX);
            waiter.turn += Duration::from_millis(self.hasher.hash_one(arrival) % spread);
        }
        state.waiters.insert(arrival, waiter);
        Some(WaitingLogon { throttle: self.clone(), arrival })
    }

    /// Admits a ticket from an address to verification. Tickets cannot be guessed, so their number
    /// is bounded without a delay.
    pub fn wait_for_ticket(self: &Arc<Self>, address: IpAddr) -> Option<WaitingTicket> {
        let network = site_of(address);
        let mut state = self.state();
        let of_network = state.tickets_of_networks.get(&network).copied().unwrap_or_default();
        if state.tickets >= WAITING_TICKETS_MAX || of_network >= WAITING_TICKETS_PER_NETWORK {
            return None;
        }
        state.tickets += 1;
        *state.tickets_of_networks.entry(network).or_default() += 1;
        Some(WaitingTicket { throttle: self.clone(), network })
    }

    /// Counts a failed verification.
    pub fn count_failure(
        &self,
        attempt: LogonAttempt,
        connection: &mut FailureCount,
        now: Instant,
    ) {
        connection.count_failure(now);
        let mut state = self.state();
        count_failure(&mut state.pairs, attempt.pair(), now);
        count_failure(&mut state.accounts, attempt.account, now);
        count_failure(&mut state.networks, attempt.network, now);
    }

    /// Records a successful logon: clears the failures of this account on this network only.
    pub fn clear(&self, attempt: LogonAttempt, account: &str, now: Instant) {
        let mut state = self.state();
        state.pairs.remove(&attempt.pair());
        state.add_usual(attempt, account, now);
    }

    /// Usual networks of all accounts, for the next run of the server.
    pub fn usual_networks(&self, now: Instant, now_unix_seconds: u64) -> Vec<UsualNetwork> {
        let state = self.state();
        let of = |(pair, usual): (&Pair, &UsualEntry)| {
            let ago = now.saturating_duration_since(usual.last);
            let last_unix_seconds = now_unix_seconds.saturating_sub(ago.as_secs());
            UsualNetwork {
                account: usual.account.as_ref().to_owned(),
                network: pair.1,
                last_unix_seconds,
            }
        };
        let is_recent = |usual: &UsualEntry| {
            now.saturating_duration_since(usual.last) <= USUAL_NETWORK_LIFETIME
        };
        state.usual.iter().filter(|(_, usual)| is_recent(usual)).map(of).collect()
    }

    /// Restores the usual networks of an earlier run. Future times count as now.
    pub fn restore_usual(&self, known: Vec<UsualNetwork>, now: Instant, now_unix_seconds: u64) {
        for UsualNetwork { account, network, last_unix_seconds } in known {
            let ago = Duration::from_secs(now_unix_seconds.saturating_sub(last_unix_seconds));
            let Some(last) = now.checked_sub(ago).filter(|_| ago <= USUAL_NETWORK_LIFETIME) else {
                continue;
            };
            let attempt = self.attempt(&account, network);
            self.state().add_usual(attempt, &account, last);
        }
    }

    fn state(&self) -> MutexGuard<'_, ThrottleState> {
        self.state.lock()
    }
}

/// The limit that a new attempt would exceed.
#[derive(Clone, Copy, Debug)]
enum QueueLimit {
    Connection,
    Pair,
    Account,
    Network,
    All,
}

impl ThrottleState {
    fn is_usual(&self, attempt: LogonAttempt, now: Instant) -> bool {
        let usual = self.usual.get(&attempt.pair());
        usual.is_some_and(|usual| {
            now.saturating_duration_since(usual.last) <= USUAL_NETWORK_LIFETIME
        })
    }

    /// Adds a usual network; beyond the limit the account's oldest is evicted.
    fn add_usual(&mut self, attempt: LogonAttempt, account: &str, last: Instant) {
        if let Some(usual) = self.usual.get_mut(&attempt.pair()) {
            usual.last = usual.last.max(last);
            return;
        }
        let own = self.usual.iter().filter(|((of, _), _)| *of == attempt.account);
        let own: Vec<(Instant, Pair)> = own.map(|(pair, usual)| (usual.last, *pair)).collect();
        if own.len() >= USUAL_NETWORKS_PER_ACCOUNT
            && let Some((_, oldest)) = own.iter().min_by_key(|(last, _)| *last)
        {
            self.usual.remove(oldest);
        }
        if self.usual.len() >= USUAL_NETWORKS_MAX {
            shed(&mut self.usual, |usual| usual.last);
        }
        self.usual.insert(attempt.pair(), UsualEntry { account: account.into(), last });
    }

    /// End of the present delay, if there is one.
    fn delay(
        &self,
        attempt: LogonAttempt,
        is_usual: bool,
        connection: &FailureCount,
        now: Instant,
    ) -> Option<Instant> {
        let due = |count: Option<&FailureCount>, policy| count.and_then(|c| c.due(policy, now));
        let own = self.pairs.get(&attempt.pair());
        let connection = connection.due(CONNECTION, now);
        if is_usual {
            return due(own, PAIR).max(connection);
        }
        let account = due(self.accounts.get(&attempt.account), ACCOUNT);
        let network = due(self.networks.get(&attempt.network), NETWORK);
        due(own, PAIR).max(connection).max(account).max(network)
    }

    fn begin_verification(&mut self, attempt: LogonAttempt, is_usual: bool, now: Instant) {
        let (accounts, networks) = (&mut self.accounts, &mut self.networks);
        let abroad = [accounts.get_mut(&attempt.account), networks.get_mut(&attempt.network)];
        let abroad = abroad.into_iter().filter(|_| !is_usual);
        for count in abroad.chain([self.pairs.get_mut(&attempt.pair())]).flatten() {
            count.verified_at = Some(now);
        }
    }

    /// Failures attributed to a waiting attempt, beyond a person's typos: those of its connection,
    /// and those of its pair unless its network is usual. On a usual network failures may be
    /// another's.
    ///
    /// All attempts are compared by the present counts. Otherwise attempts from a guesser's early
    /// phase would precede attempts without failures.
    fn failures_behind(&self, waiter: &WaitingAttempt, now: Instant) -> u32 {
        let count = |failures: &FailureCount| {
            if failures.has_expired(now) { 0 } else { failures.count.saturating_sub(PAIR.free) }
        };
        let of_pair = self.pairs.get(&waiter.attempt.pair()).filter(|_| !waiter.is_usual);
        count(&waiter.failures_of_connection).saturating_add(of_pair.map_or(0, count))
    }

    /// True if another attempt that may be verified now precedes this one. One total order prevents
    /// mutual waits.
    fn has_predecessor(&self, arrival: u64, waiter: &WaitingAttempt, now: Instant) -> bool {
        let rank = self.rank(arrival, waiter, now);
        self.waiters.iter().any(|(arrival, other)| {
            waiter.competes(other)
                && self.rank(*arrival, other, now) < rank
                && self
                    .delay(other.attempt, other.is_usual, &other.failures_of_connection, now)
                    .is_none()
        })
    }

    fn rank(&self, arrival: u64, waiter: &WaitingAttempt, now: Instant) -> VerificationRank {
        (self.failures_behind(waiter, now), self.last_served(waiter), waiter.turn, arrival)
    }

    /// Last verification of the account from the waiter's network, at the earliest [`LOGON_WAIT_MAX`]
    /// before its turn. The bound keeps unknown networks behind an owner who mistyped a while ago.
    /// Otherwise a guesser with many networks would get a turn on each.
    fn last_served(&self, waiter: &WaitingAttempt) -> Option<Instant> {
        let earliest = waiter.turn.checked_sub(LOGON_WAIT_MAX);
        let judged = self.pairs.get(&waiter.attempt.pair()).filter(|_| !waiter.is_usual);
        judged.and_then(|count| count.verified_at.max(count.last)).max(earliest)
    }

    fn is_in(crowd: QueueLimit, waiter: &WaitingAttempt, other: &WaitingAttempt) -> bool {
        let (attempt, of) = (waiter.attempt, other.attempt);
        match crowd {
            QueueLimit::Connection => other.connection == waiter.connection,
            QueueLimit::Pair => of == attempt,
            QueueLimit::Account => of.account == attempt.account && !other.is_usual,
            QueueLimit::Network => of.network == attempt.network && !other.is_usual,
            QueueLimit::All => true,
        }
    }

    /// The first limit that one more attempt would exceed.
    fn exceeded_limit(&self, waiter: &WaitingAttempt) -> Option<QueueLimit> {
        let everywhere = [
            (QueueLimit::Connection, WAITING_LOGONS_PER_CONNECTION),
            (QueueLimit::Pair, WAITING_LOGONS_PER_PAIR),
            (QueueLimit::All, WAITING_LOGONS_MAX),
        ];
        let abroad = [
            (QueueLimit::Account, WAITING_LOGONS_PER_ACCOUNT),
            (QueueLimit::Network, WAITING_LOGONS_PER_NETWORK),
        ];
        let abroad = abroad.into_iter().filter(|_| !waiter.is_usual);
        everywhere.into_iter().chain(abroad).find_map(|(crowd, max)| {
            let waiting = self.waiters.values().filter(|other| Self::is_in(crowd, waiter, other));
            (waiting.count() >= max).then_some(crowd)
        })
    }

    /// The waiting attempt to displace: the one with the greatest burden, among equals the latest.
    /// None if the new attempt's burden is not smaller.
    fn heaviest(&self, waiter: &WaitingAttempt, crowd: QueueLimit, now: Instant) -> Option<u64> {
        let (mut connections, mut networks) = (HashMap::new(), HashMap::new());
        for other in self.waiters.values().chain([waiter]) {
            *connections.entry(other.connection).or_insert(0_usize) += 1;
            *networks.entry(other.attempt.network).or_insert(0_usize) += 1;
        }
        let burden = |of: &WaitingAttempt| -> DisplacementRank {
            let failures = self.failures_behind(of, now);
            (connections[&of.connection], networks[&of.attempt.network], failures)
        };
        let in_crowd = self.waiters.iter().filter(|(_, other)| Self::is_in(crowd, waiter, other));
        let (heaviest, arrival) = in_crowd.map(|(at, other)| (burden(other), *at)).max()?;
        (heaviest > burden(waiter)).then_some(arrival)
    }
}

fn leave<K: Hash + Eq>(waiting: &mut HashMap<K, usize>, key: K) {
    if let std::collections::hash_map::Entry::Occupied(mut entry) = waiting.entry(key) {
        *entry.get_mut() -= 1;
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}

/// Counts a failure. In a full table the counters with the fewest failures are evicted first, so
/// that invented names do not clear an account's counter.
fn count_failure<K: Hash + Eq + Copy>(counts: &mut HashMap<K, FailureCount>, key: K, now: Instant) {
    if counts.len() >= THROTTLE_ENTRIES_MAX && !counts.contains_key(&key) {
        counts.retain(|_, count| !count.has_expired(now));
        if counts.len() >= THROTTLE_ENTRIES_MAX {
            shed(counts, |count| (count.count, count.last));
        }
    }
    counts.entry(key).or_default().count_failure(now);
}

/// Evicts the first quarter of the entries by `order`, because finding candidates scans the whole
/// table.
fn shed<K: Hash + Eq + Copy, V, O: Ord>(entries: &mut HashMap<K, V>, order: impl Fn(&V) -> O) {
    let mut ordered: Vec<(O, K)> = entries.iter().map(|(k, v)| (order(v), *k)).collect();
    let quarter = ordered.len() / 4;
    ordered.select_nth_unstable_by(quarter, |a, b| a.0.cmp(&b.0));
    for (_, key) in &ordered[..=quarter] {
        entries.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1));

    struct Rig {
        throttle: Arc<LogonThrottle>,
        now: Instant,
    }

    impl Rig {
        fn new() -> Self {
            Self { throttle: Arc::default(), now: Instant::now() }
        }

        /// Guesses as fast as allowed for `time`, on a connection of its own; returns the number of
        /// guesses.
        fn guess(&mut self, account: &str, from: IpAddr, time: Duration) -> u32 {
            let (mut connection, end) = (FailureCount::default(), self.now + time);
            let attempt = self.throttle.attempt(account, from);
            let mut guesses = 0;
            loop {
                if let Some(due) = self.throttle.due(attempt, &connection, None, self.now) {
                    self.now = due.min(end);
                    if due > end {
                        return guesses;
                    }
                }
                self.throttle.count_failure(attempt, &mut connection, self.now);
                guesses += 1;
            }
        }

        fn delay(&self, account: &str, from: IpAddr) -> Duration {
            let attempt = self.throttle.attempt(account, from);
            let due = self.throttle.due(attempt, &FailureCount::default(), None, self.now);
            due.map_or(Duration::ZERO, |due| due - self.now)
        }

        fn log_on(&self, account: &str, from: IpAddr) {
            self.throttle.clear(self.throttle.attempt(account, from), account, self.now);
        }
    }

    #[test]
    fn guesses_at_one_account_are_limited_to_tens_a_minute() {
        let mut rig = Rig::new();
        let first = rig.guess("alice", HERE, Duration::from_mins(1));
        assert!((20..=45).contains(&first), "{first}");
        let later = rig.guess("alice", HERE, Duration::from_mins(1));
        assert!((29..=40).contains(&later), "{later}");
    }

    #[test]
    fn guesses_at_many_accounts_on_one_connection_are_limited() {
        let rig = Rig::new();
        let (mut connection, mut now) = (FailureCount::default(), rig.now);
        let (end, mut guesses) = (now + Duration::from_mins(1), 0);
        while now <= end {
            let name = format!("user{guesses}");
            let attempt = rig.throttle.attempt(&name, HERE);
            // Each account also has this network as a usual one.
            rig.log_on(&name, HERE);
            match rig.throttle.due(attempt, &connection, None, now) {
                Some(due) => now = due,
                None => {
                    rig.throttle.count_failure(attempt, &mut connection, now);
                    guesses += 1;
                }
            }
        }
        assert!((30..=60).contains(&guesses), "{guesses}");
    }

    #[test]
    fn simultaneous_attempts_are_verified_one_at_a_time() {
        for is_usual in [false, true] {
            let mut rig = Rig::new();
            if is_usual {
                rig.log_on("alice", HERE);
            }
            rig.guess("alice", HERE, Duration::from_mins(1));
            rig.now += Duration::from_secs(5);
            // Each attempt uses a connection of its own, and no failure is counted yet.
            let judged = (0..10).filter(|_| rig.delay("alice", HERE).is_zero());
            assert_eq!(judged.count(), 1);
        }
    }

    #[test]
    fn success_clears_failures_of_its_account_and_network_only() {
        let mut rig = Rig::new();
        for (account, from) in [("alice", HERE), ("alice", ELSEWHERE), ("bob", HERE)] {
            rig.guess(account, from, Duration::from_secs(1));
        }
        rig.log_on("bob", HERE);
        assert_eq!(rig.delay("bob", HERE), Duration::ZERO);
        assert!(rig.delay("alice", HERE) > Duration::ZERO, "another account of the network");
        rig.log_on("alice", HERE);
        assert_eq!(rig.delay("alice", HERE), Duration::ZERO);
        rig.guess("alice", ELSEWHERE, Duration::from_secs(5));
        assert!(rig.delay("alice", ELSEWHERE) > Duration::ZERO, "another network of the account");
        rig.guess("carol", HERE, Duration::from_secs(5));
        rig.log_on("bob", HERE);
        assert!(rig.delay("dave", HERE) > Duration::ZERO, "the network's own counter");
    }

    #[test]
    fn guesser_elsewhere_does_not_delay_an_account_at_home() {
        let mut rig = Rig::new();
        rig.log_on("alice", HERE);
        rig.guess("alice", ELSEWHERE, Duration::from_mins(2));
        assert_eq!(rig.delay("alice", HERE), Duration::ZERO);
        // From a network that alice never used the logon is delayed, but not locked out.
        let third = IpAddr::from([203, 0, 113, 1]);
        assert!(rig.delay("alice", third) <= Duration::from_secs(1));
    }

    /// Guesses of one minute, with a new connection for each few, as a guesser can.
    fn guesses_of_a_minute(rig: &mut Rig) -> u32 {
        let (mut guesses, end) = (0, rig.now + Duration::from_mins(1));
        while rig.now < end {
            guesses += rig.guess("alice", HERE, Duration::from_secs(5));
        }
        guesses
    }

    #[test]
    fn guesses_on_many_connections_are_limited_to_60_a_minute() {
        let mut abroad = Rig::new();
        let guesses = guesses_of_a_minute(&mut abroad);
        assert!((55..=75).contains(&guesses), "{guesses}");
        let mut home = Rig::new();
        home.log_on("alice", HERE);
        let guesses = guesses_of_a_minute(&mut home);
        assert!((55..=75).contains(&guesses), "{guesses}");
    }

    #[test]
    fn waiting_attempts_are_bounded_by_account_and_network() {
        let rig = Rig::new();
        let connections = std::cell::Cell::new(0);
        let wait = |account: &str, from: IpAddr| {
            connections.set(connections.get() + 1);
            let connection = (connections.get(), &FailureCount::default());
            rig.throttle.wait(rig.throttle.attempt(account, from), connection, rig.now)
        };
        let pair: Vec<_> = (0..100).map_while(|_| wait("alice", HERE)).collect();
        assert_eq!(pair.len(), WAITING_LOGONS_PER_PAIR);
        drop(pair);
        let network: Vec<_> = (0..100).map_while(|n| wait(&format!("user{n}"), HERE)).collect();
        assert_eq!(network.len(), WAITING_LOGONS_PER_NETWORK);
        drop(network);
        let of = |n: u8| IpAddr::from([203, 0, 113, n]);
        let account: Vec<_> = (0..100).map_while(|n| wait("alice", of(n))).collect();
        assert_eq!(account.len(), WAITING_LOGONS_PER_ACCOUNT);
        rig.log_on("alice", ELSEWHERE);
        let home: Vec<_> = (0..100).map_while(|_| wait("alice", ELSEWHERE)).collect();
        assert_eq!(home.len(), WAITING_LOGONS_PER_PAIR, "at home there is room");
        drop((account, home));
        assert!(rig.throttle.state().waiters.is_empty());
    }

    #[test]
    fn waiting_attempts_of_a_connection_are_bounded() {
        let rig = Rig::new();
        let wait = |n: usize| {
            let attempt = rig.throttle.attempt(&format!("user{n}"), HERE);
            rig.throttle.wait(attempt, (1, &FailureCount::default()), rig.now)
        };
        let waiting: Vec<_> = (0..100).map_while(wait).collect();
        assert_eq!(waiting.len(), WAITING_LOGONS_PER_CONNECTION);
    }

    #[test]
    fn new_attempt_displaces_the_one_with_the_greatest_burden() {
        let rig = Rig::new();
        let of = |n: u8| IpAddr::from([203, 0, 113, n]);
        let wait = |from: u8, connection: u64| {
            let attempt = rig.throttle.attempt("alice", of(from));
            rig.throttle.wait(attempt, (connection, &FailureCount::default()), rig.now)
        };
        // Networks with two connections each fill the account's limit.
        let networks = u8::try_from(WAITING_LOGONS_PER_ACCOUNT / 2).unwrap();
        let waiting: Vec<_> = (0..networks)
            .flat_map(|n| [wait(n, u64::from(n)), wait(n, 50 + u64::from(n))])
            .map(Option::unwrap)
            .collect();
        assert!(wait(0, 100).is_none(), "its network has more waiting than others");
        let place = wait(200, 200).unwrap();
        let displaced: Vec<bool> = waiting
            .iter()
            .map(|place| {
                let attempt = rig.throttle.attempt("alice", of(0));
                rig.throttle.due(attempt, &FailureCount::default(), Some(place), rig.now).is_some()
                    && !rig.throttle.state().waiters.contains_key(&place.arrival)
            })
            .collect();
        assert_eq!(displaced.iter().filter(|is| **is).count(), 1);
        assert!(displaced[waiting.len() - 1], "of equal ones the last");
        drop(waiting);
        assert_eq!(rig.throttle.state().waiters.len(), 1);
        drop(place);
        assert!(rig.throttle.state().waiters.is_empty());
    }

    /// A client that logs on repeatedly, each time immediately after the response.
    struct RepeatingClient {
        attempt: LogonAttempt,
        connection: u64,
        failures: FailureCount,
        /// Guesses at a different account each time.
        sprays: bool,
        place: Option<(WaitingLogon, Instant)>,
        look: Instant,
    }

    #[derive(Debug, PartialEq, Eq)]
    enum ActorResult {
        None,
        Judged,
        Refused,
    }

    impl RepeatingClient {
        fn new(rig: &Rig, account: &str, from: IpAddr, connection: u64) -> Self {
            let attempt = rig.throttle.attempt(account, from);
            let failures = FailureCount::default();
            Self { attempt, connection, failures, sprays: false, place: None, look: rig.now }
        }

        fn act(&mut self, rig: &Rig) -> ActorResult {
            let now = rig.now;
            if self.place.is_some() && now < self.look {
                return ActorResult::None;
            }
            let place = self.place.as_ref().map(|(place, _)| place);
            let Some(due) = rig.throttle.due(self.attempt, &self.failures, place, now) else {
                self.place = None;
                return ActorResult::Judged;
            };
            self.look = due;
            if self.place.is_none() {
                let connection = (self.connection, &self.failures);
                let place = rig.throttle.wait(self.attempt, connection, now);
                self.place = place.map(|place| (place, now + LOGON_WAIT_MAX));
            } else if self.place.as_ref().is_some_and(|(_, until)| due > *until) {
                self.place = None;
            }
            if self.place.is_some() { ActorResult::None } else { ActorResult::Refused }
        }

        /// Tries a wrong password, with a new connection for each try.
        fn guess(&mut self, rig: &Rig) -> ActorResult {
            let answer = self.act(rig);
            if answer == ActorResult::Judged {
                rig.throttle.count_failure(self.attempt, &mut self.failures, rig.now);
            }
            if answer != ActorResult::None {
                self.failures = FailureCount::default();
                self.connection += 1000;
                if self.sprays {
                    self.attempt.account += 1;
                }
            }
            answer
        }
    }

    /// Tries the right password several times, each on a new connection, while guessers fill the
    /// queue. Returns the verified tries, and the guesses beyond sixty a minute.
    fn logons_in_flood(rig: &mut Rig, guessers: &mut [RepeatingClient], tries: u64) -> (u64, u64) {
        let (from, mut judged, mut guesses, begin) = (HERE, 0, 0, rig.now);
        for n in 0..tries {
            let mut victim: Option<RepeatingClient> = None;
            let arrives = rig.now + Duration::from_millis(5_000 + 370 * (n % 10));
            loop {
                rig.now += Duration::from_millis(20);
                for guesser in guessers.iter_mut() {
                    guesses += u64::from(guesser.guess(rig) == ActorResult::Judged);
                }
                if rig.now < arrives {
                    continue;
                }
                let victim = victim
                    .get_or_insert_with(|| RepeatingClient::new(rig, "alice", from, 999 - n % 10));
                match victim.act(rig) {
                    ActorResult::None => {}
                    ActorResult::Judged => {
                        judged += 1;
                        break;
                    }
                    ActorResult::Refused => break,
                }
            }
        }
        (judged, u64::saturating_sub(guesses, (rig.now - begin).as_secs()))
    }

    /// Guessers at alice's account on so many connections.
    fn guessers(rig: &Rig, from: IpAddr, connections: u64) -> Vec<RepeatingClient> {
        (0..connections).map(|n| RepeatingClient::new(rig, "alice", from, n)).collect()
    }

    #[test]
    fn right_logon_is_verified_beside_guessers_at_its_address() {
        for is_usual in [false, true] {
            let mut rig = Rig::new();
            if is_usual {
                rig.log_on("alice", HERE);
            }
            let mut guessers = guessers(&rig, HERE, 13);
            let (judged, guesses) = logons_in_flood(&mut rig, &mut guessers, 10);
            assert_eq!(judged, 10, "usual: {is_usual}");
            // The cheap guesses before the delay has grown.
            assert!(guesses <= 20, "{guesses}");
        }
    }

    #[test]
    fn right_logon_beside_many_guessers_has_an_equal_chance() {
        let mut rig = Rig::new();
        let mut guessers = guessers(&rig, HERE, 40);
        let (judged, guesses) = logons_in_flood(&mut rig, &mut guessers, 100);
        // Chance decides, 15 of 41 on average; the bounds are six standard deviations away.
        assert!((8..=65).contains(&judged), "{judged}");
        assert!(guesses <= 20, "{guesses}");
    }

    #[test]
    fn guesser_does_not_lock_out_other_accounts_at_its_address() {
        let mut rig = Rig::new();
        // At one account, on more connections than the queue has entries.
        let mut bob: Vec<_> =
            (0..100).map(|n| RepeatingClient::new(&rig, "bob", HERE, n)).collect();
        let (judged, guesses) = logons_in_flood(&mut rig, &mut bob, 10);
        assert_eq!(judged, 10);
        assert!(guesses <= 20, "{guesses}");
        // At another account each time, none of which has failures.
        let mut rig = Rig::new();
        let mut sprayers = guessers(&rig, HERE, 13);
        for sprayer in &mut sprayers {
            sprayer.sprays = true;
            sprayer.attempt.account = sprayer.connection << 32;
        }
        let (judged, guesses) = logons_in_flood(&mut rig, &mut sprayers, 10);
        assert_eq!(judged, 10);
        assert!(guesses <= 20, "{guesses}");
    }

    #[test]
    fn right_logon_is_verified_beside_guessers_at_many_addresses() {
        let mut rig = Rig::new();
        let of = |n: u8| IpAddr::from([203, 0, 113, n]);
        let guessers =
            (0..48_u8).map(|n| RepeatingClient::new(&rig, "alice", of(n / 4), u64::from(n)));
        let mut guessers: Vec<_> = guessers.collect();
        // From a network that alice has never used.
        let (judged, guesses) = logons_in_flood(&mut rig, &mut guessers, 10);
        assert_eq!(judged, 10);
        // The cheap guesses before the delay has grown.
        assert!(guesses <= 20, "{guesses}");
    }

    #[test]
    fn usual_networks_outlive_the_server_for_some_weeks() {
        let rig = Rig::new();
        rig.log_on("alice", HERE);
        let known = rig.throttle.usual_networks(rig.now, 1_000_000_000);
        let of_alice = |last_unix_seconds| UsualNetwork {
            account: "alice".to_owned(),
            network: HERE,
            last_unix_seconds,
        };
        assert_eq!(known, [of_alice(1_000_000_000)]);
        let later = |days: u64| {
            let mut next = Rig::new();
            let seconds = 1_000_000_000 + days * 86_400;
            next.throttle.restore_usual(known.clone(), next.now, seconds);
            let restored = next.throttle.usual_networks(next.now, seconds);
            next.guess("alice", ELSEWHERE, Duration::from_mins(1));
            (next.delay("alice", HERE), restored)
        };
        assert_eq!(later(29), (Duration::ZERO, vec![of_alice(1_000_000_000)]));
        assert_eq!(later(31).1, []);
    }

    #[test]
    fn account_retains_its_latest_usual_networks() {
        let mut rig = Rig::new();
        rig.log_on("bob", HERE);
        let of = |n: usize| IpAddr::from(u32::try_from(n).unwrap().to_be_bytes());
        for n in 0..2 * USUAL_NETWORKS_PER_ACCOUNT {
            rig.now += Duration::from_secs(1);
            rig.log_on("alice", of(n));
        }
        let state = rig.throttle.state();
        assert_eq!(state.usual.len(), USUAL_NETWORKS_PER_ACCOUNT + 1);
        let is_usual = |account, from| state.is_usual(rig.throttle.attempt(account, from), rig.now);
        assert!(is_usual("bob", HERE) && is_usual("alice", of(2 * USUAL_NETWORKS_PER_ACCOUNT - 1)));
        assert!(!is_usual("alice", of(0)));
    }

    #[test]
    fn ipv6_addresses_of_one_network_share_their_failures() {
        let mut rig = Rig::new();
        let address = |network, host| IpAddr::from([0x2001, 0xdb8, 0, network, 0, 0, 0, host]);
        for host in 1..=3u16 {
            rig.guess("alice", address(1, host), Duration::ZERO);
        }
        assert!(rig.delay("alice", address(1, 9)) > Duration::ZERO);
        assert_eq!(rig.delay("alice", address(2, 1)), Duration::ZERO);
        let mapped = rig.throttle.attempt("alice", "::ffff:192.0.2.1".parse().unwrap());
        assert_eq!(mapped, rig.throttle.attempt("alice", HERE));
    }

    #[test]
    fn invented_names_do_not_evict_a_guessed_account() {
        let mut rig = Rig::new();
        rig.guess("alice", HERE, Duration::from_mins(1));
        for n in 0..2 * THROTTLE_ENTRIES_MAX {
            let from = IpAddr::from(u32::try_from(n).unwrap().to_be_bytes());
            let attempt = rig.throttle.attempt(&format!("made-up{n}"), from);
            rig.throttle.count_failure(attempt, &mut FailureCount::default(), rig.now);
        }
        let state = rig.throttle.state();
        let pair = rig.throttle.attempt("alice", HERE).pair();
        assert!(state.pairs.get(&pair).is_some_and(|count| count.count > 10));
        assert!(state.pairs.len() <= THROTTLE_ENTRIES_MAX);
        assert!(state.accounts.len() <= THROTTLE_ENTRIES_MAX);
        assert!(state.networks.len() <= THROTTLE_ENTRIES_MAX);
    }

    #[test]
    fn failure_counter_resets_after_ten_quiet_minutes() {
        let mut rig = Rig::new();
        rig.guess("alice", HERE, Duration::from_mins(1));
        rig.now += FAILURE_LIFETIME + Duration::from_secs(1);
        assert_eq!(rig.delay("alice", HERE), Duration::ZERO);
        let attempt = rig.throttle.attempt("alice", HERE);
        rig.throttle.count_failure(attempt, &mut FailureCount::default(), rig.now);
        assert_eq!(rig.delay("alice", HERE), Duration::ZERO);
    }
}
