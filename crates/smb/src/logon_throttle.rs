//! Wrong passwords: after some of them an attempt waits before it is judged.
//!
//! Waiting after the verdict would not hold back a guesser that sends its next guess meanwhile.
//! Failures are counted apart by account and network, by account, by network and by connection;
//! the longest of the four delays counts, and a success clears only the first of them. Where an
//! account has logged on from a network, failures elsewhere do not delay it there.

use crate::limits::{
    THROTTLE_ENTRIES_MAX, USUAL_FOR, USUAL_NETWORKS_MAX, WAITING_LOGONS_MAX,
    WAITING_LOGONS_PER_ACCOUNT, WAITING_LOGONS_PER_NETWORK, WAITING_LOGONS_PER_PAIR,
    WAITING_TICKETS_MAX, WAITING_TICKETS_PER_NETWORK,
};
use limits::site_of;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const DELAY_MIN: Duration = Duration::from_millis(50);
/// After this long without a failure a counter starts anew.
const FORGET_AFTER: Duration = Duration::from_mins(10);

/// How many failures cost nothing, and how far apart attempts are at most after them.
#[derive(Clone, Copy, Debug)]
struct Policy {
    free: u32,
    delay_max: Duration,
}

/// One account from one network: a person mistypes, a guesser gets 12 attempts a minute.
const PAIR: Policy = Policy { free: 2, delay_max: Duration::from_secs(5) };
/// One account from everywhere that it has not logged on from: 60 a minute.
const ACCOUNT: Policy = Policy { free: 10, delay_max: Duration::from_secs(1) };
/// All accounts from one network that have not logged on from there: 30 a minute.
const NETWORK: Policy = Policy { free: 10, delay_max: Duration::from_secs(2) };
/// All accounts on one connection: 30 a minute.
const CONNECTION: Policy = Policy { free: 10, delay_max: Duration::from_secs(2) };

/// Failures in a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailureCount {
    count: u32,
    last: Option<Instant>,
}

impl FailureCount {
    fn count_failure(&mut self, now: Instant) {
        if self.is_forgotten(now) {
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.last = Some(now);
    }

    fn is_forgotten(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now.saturating_duration_since(last) > FORGET_AFTER)
    }

    /// When the next attempt may be judged, if that is later than `now`.
    fn due(&self, policy: Policy, now: Instant) -> Option<Instant> {
        let last = self.last.filter(|_| !self.is_forgotten(now))?;
        let doublings = self.count.checked_sub(policy.free + 1)?;
        let delay = DELAY_MIN.saturating_mul(1 << doublings.min(16)).min(policy.delay_max);
        Some(last + delay).filter(|due| *due > now)
    }
}

/// One attempt to log on by a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogonAttempt {
    network: IpAddr,
    /// The account's name, hashed with a key of this process: names have no bound.
    account: u64,
}

type Pair = (u64, IpAddr);

#[derive(Debug, Default)]
struct State {
    pairs: HashMap<Pair, FailureCount>,
    accounts: HashMap<u64, FailureCount>,
    networks: HashMap<IpAddr, FailureCount>,
    /// Where accounts have logged on from, and when last.
    usual: HashMap<Pair, Instant>,
    waiting: usize,
    waiting_pairs: HashMap<Pair, usize>,
    waiting_accounts: HashMap<u64, usize>,
    waiting_networks: HashMap<IpAddr, usize>,
    /// Tickets that are being judged.
    tickets: usize,
    tickets_of_networks: HashMap<IpAddr, usize>,
}

/// Failures of all connections.
#[derive(Debug, Default)]
pub struct LogonThrottle {
    state: Mutex<State>,
    hasher: RandomState,
}

/// A place among the attempts that wait, until it is dropped.
#[derive(Debug)]
pub struct WaitingLogon {
    throttle: Arc<LogonThrottle>,
    attempt: LogonAttempt,
}

impl Drop for WaitingLogon {
    fn drop(&mut self) {
        let mut state = self.throttle.state();
        state.waiting -= 1;
        leave(&mut state.waiting_pairs, self.attempt.pair());
        leave(&mut state.waiting_accounts, self.attempt.account);
        leave(&mut state.waiting_networks, self.attempt.network);
    }
}

/// A place among the tickets that are being judged, until it is dropped.
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

impl LogonAttempt {
    fn pair(&self) -> Pair {
        (self.account, self.network)
    }
}

impl LogonThrottle {
    /// An attempt at `account` from an address.
    pub fn attempt(&self, account: &str, address: IpAddr) -> LogonAttempt {
        LogonAttempt { network: site_of(address), account: self.hasher.hash_one(account) }
    }

    /// When an attempt may be judged, if that is not now. `connection` are the failures on its
    /// connection.
    pub fn due(
        &self,
        attempt: LogonAttempt,
        connection: &FailureCount,
        now: Instant,
    ) -> Option<Instant> {
        let state = self.state();
        let due = |count: Option<&FailureCount>, policy| count.and_then(|c| c.due(policy, now));
        let own = due(state.pairs.get(&attempt.pair()), PAIR);
        let own = own.max(connection.due(CONNECTION, now));
        if state.is_usual(attempt, now) {
            return own;
        }
        let account = due(state.accounts.get(&attempt.account), ACCOUNT);
        own.max(account).max(due(state.networks.get(&attempt.network), NETWORK))
    }

    /// A place to wait in, if there is one.
    pub fn wait(self: &Arc<Self>, attempt: LogonAttempt, now: Instant) -> Option<WaitingLogon> {
        let mut state = self.state();
        let has = |count: Option<&usize>, max| count.copied().unwrap_or_default() < max;
        let own = has(Some(&state.waiting), WAITING_LOGONS_MAX)
            && has(state.waiting_pairs.get(&attempt.pair()), WAITING_LOGONS_PER_PAIR);
        let shared = state.is_usual(attempt, now)
            || (has(state.waiting_accounts.get(&attempt.account), WAITING_LOGONS_PER_ACCOUNT)
                && has(state.waiting_networks.get(&attempt.network), WAITING_LOGONS_PER_NETWORK));
        if !own || !shared {
            return None;
        }
        state.waiting += 1;
        *state.waiting_pairs.entry(attempt.pair()).or_default() += 1;
        *state.waiting_accounts.entry(attempt.account).or_default() += 1;
        *state.waiting_networks.entry(attempt.network).or_default() += 1;
        Some(WaitingLogon { throttle: self.clone(), attempt })
    }

    /// A place for a ticket from an address, if there is one. Nobody guesses tickets: they are
    /// bounded, and not slowed.
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

    /// Counts an attempt that was judged wrong.
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

    /// The account has logged on from there: its own failures there are cleared, and no others.
    pub fn clear(&self, attempt: LogonAttempt, now: Instant) {
        let mut state = self.state();
        state.pairs.remove(&attempt.pair());
        if state.usual.len() >= USUAL_NETWORKS_MAX && !state.usual.contains_key(&attempt.pair()) {
            shed(&mut state.usual, |last| *last);
        }
        state.usual.insert(attempt.pair(), now);
    }

    /// A panic while it was held leaves counts that are each right.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_usual(&self, attempt: LogonAttempt, now: Instant) -> bool {
        let last = self.usual.get(&attempt.pair());
        last.is_some_and(|last| now.saturating_duration_since(*last) <= USUAL_FOR)
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

/// Where the table is full, counters that matter least make room: those of one failure before
/// those of many, so that made-up names do not clear the counter of an account.
fn count_failure<K: Hash + Eq + Copy>(counts: &mut HashMap<K, FailureCount>, key: K, now: Instant) {
    if counts.len() >= THROTTLE_ENTRIES_MAX && !counts.contains_key(&key) {
        counts.retain(|_, count| !count.is_forgotten(now));
        if counts.len() >= THROTTLE_ENTRIES_MAX {
            shed(counts, |count| (count.count, count.last));
        }
    }
    counts.entry(key).or_default().count_failure(now);
}

/// Drops the quarter of the entries that comes first: at once, since finding them reads all.
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

        /// Guesses until `end` as fast as it is let, on a connection of its own; gives the number.
        fn guess(&mut self, account: &str, from: IpAddr, time: Duration) -> u32 {
            let (mut connection, end) = (FailureCount::default(), self.now + time);
            let attempt = self.throttle.attempt(account, from);
            let mut guesses = 0;
            loop {
                if let Some(due) = self.throttle.due(attempt, &connection, self.now) {
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
            let due = self.throttle.due(attempt, &FailureCount::default(), self.now);
            due.map_or(Duration::ZERO, |due| due - self.now)
        }

        fn log_on(&self, account: &str, from: IpAddr) {
            self.throttle.clear(self.throttle.attempt(account, from), self.now);
        }
    }

    #[test]
    fn guesses_at_one_account_are_a_dozen_a_minute() {
        let mut rig = Rig::new();
        let first = rig.guess("alice", HERE, Duration::from_mins(1));
        assert!((10..=25).contains(&first), "{first}");
        let later = rig.guess("alice", HERE, Duration::from_mins(1));
        assert!((11..=13).contains(&later), "{later}");
    }

    #[test]
    fn guesses_at_many_accounts_on_one_connection_are_bounded() {
        let rig = Rig::new();
        let (mut connection, mut now) = (FailureCount::default(), rig.now);
        let (end, mut guesses) = (now + Duration::from_mins(1), 0);
        while now <= end {
            let name = format!("user{guesses}");
            let attempt = rig.throttle.attempt(&name, HERE);
            // Even where each of them is at home.
            rig.log_on(&name, HERE);
            match rig.throttle.due(attempt, &connection, now) {
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
    fn success_clears_the_failures_of_its_own_account_and_network_only() {
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
        // From a network that alice never used it is slower, but no lockout.
        let third = IpAddr::from([203, 0, 113, 1]);
        assert!(rig.delay("alice", third) <= Duration::from_secs(1));
    }

    #[test]
    fn attempts_in_flight_are_bounded_by_account_and_network() {
        let rig = Rig::new();
        let wait = |account: &str, from: IpAddr| {
            rig.throttle.wait(rig.throttle.attempt(account, from), rig.now)
        };
        let pair: Vec<_> = (0..100).map_while(|_| wait("alice", HERE)).collect();
        assert_eq!(pair.len(), WAITING_LOGONS_PER_PAIR);
        let network: Vec<_> = (0..100).map_while(|n| wait(&format!("user{n}"), HERE)).collect();
        assert_eq!(pair.len() + network.len(), WAITING_LOGONS_PER_NETWORK);
        let of = |n: u8| IpAddr::from([203, 0, 113, n]);
        let account: Vec<_> = (0..100).map_while(|n| wait("alice", of(n))).collect();
        assert_eq!(pair.len() + account.len(), WAITING_LOGONS_PER_ACCOUNT);
        rig.log_on("alice", ELSEWHERE);
        assert!(wait("alice", ELSEWHERE).is_some(), "at home there is room");
        drop((pair, network, account));
        let state = rig.throttle.state();
        assert!(state.waiting == 0 && state.waiting_pairs.is_empty());
        assert!(state.waiting_accounts.is_empty() && state.waiting_networks.is_empty());
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
    fn made_up_names_do_not_displace_a_guessed_account() {
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
    fn counter_without_failures_for_ten_minutes_starts_anew() {
        let mut rig = Rig::new();
        rig.guess("alice", HERE, Duration::from_mins(1));
        rig.now += FORGET_AFTER + Duration::from_secs(1);
        assert_eq!(rig.delay("alice", HERE), Duration::ZERO);
        let attempt = rig.throttle.attempt("alice", HERE);
        rig.throttle.count_failure(attempt, &mut FailureCount::default(), rig.now);
        assert_eq!(rig.delay("alice", HERE), Duration::ZERO);
    }
}
