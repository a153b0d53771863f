//! Matches clients against host names, wildcards and netgroups of the configuration.
//!
//! A name from a reverse look-up counts only if its forward look-up returns the address: the owner
//! of a reverse zone can enter any name. Separate threads do the look-ups; requests never wait for
//! them. Netgroups have a thread of their own, because the C library serves one look-up at a time.
//! They are looked up only once a rule with a netgroup is reached.

mod table;

use crate::config::{HostRule, ServerConfig};
use crate::limits::{LOOKUP_THREADS, NETGROUP_TURN, REFRESH_THREADS};
use smb::NamedHosts;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use sync::{Condvar, Mutex, MutexGuard, RwLock};
use table::{
    ClientNames, GroupSet, LookupAnswer, MemberAnswer, MemberLookup, NameTable, QueuedLookup,
};
pub use table::{RuleVerdict, WantedNames};

/// Longest time between two checks for work of an idle thread.
const IDLE_MAX: Duration = Duration::from_mins(1);

/// The name services of the system, or a test double. Calls may block for half a minute.
pub trait NameService: Send + Sync + 'static {
    /// The name of an address by reverse look-up.
    ///
    /// # Errors
    /// The service gave no answer.
    fn name_of(&self, address: IpAddr) -> io::Result<Option<String>>;

    /// The addresses of a name; empty if the name does not exist.
    ///
    /// # Errors
    /// The service gave no answer.
    fn addresses_of(&self, name: &str) -> io::Result<Vec<IpAddr>>;

    /// Whether a netgroup contains a host, by name or by address.
    ///
    /// # Errors
    /// The netgroup does not exist or the service gave no answer; the C library does not
    /// distinguish them.
    fn is_in_netgroup(&self, netgroup: &str, host: &str) -> io::Result<bool>;
}

/// The name services of nsswitch.conf(5).
struct SystemNames;

impl NameService for SystemNames {
    fn name_of(&self, address: IpAddr) -> io::Result<Option<String>> {
        sockets::look_up_name(address)
    }

    fn addresses_of(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        sockets::look_up_addresses(name)
    }

    fn is_in_netgroup(&self, netgroup: &str, host: &str) -> io::Result<bool> {
        sockets::is_in_netgroup(netgroup, host)
    }
}

/// The resolver with its cache. Its threads end on drop.
pub struct HostNames {
    desk: Arc<Desk>,
    service: Arc<dyn NameService>,
}

impl std::fmt::Debug for HostNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostNames").finish_non_exhaustive()
    }
}

/// The table and the condition variable of the threads.
struct Desk {
    table: RwLock<NameTable>,
    calls: Mutex<LookupThreads>,
    call: Condvar,
}

/// Wake-ups and the state of the threads.
#[derive(Default)]
struct LookupThreads {
    count: u64,
    threads: usize,
    has_netgroup_thread: bool,
    has_ended: bool,
}

impl Desk {
    fn calls(&self) -> MutexGuard<'_, LookupThreads> {
        self.calls.lock()
    }

    fn table(&self) -> sync::RwLockWriteGuard<'_, NameTable> {
        self.table.write()
    }

    fn call(&self) {
        self.calls().count += 1;
        self.call.notify_all();
    }

    /// Waits for the next look-up; `None` once the resolver ends.
    fn next(&self) -> Option<QueuedLookup> {
        self.take(|table, now| (table.next(now), table.idle_for(now)))
    }

    /// Waits for the next client's netgroup look-ups.
    fn next_members(&self) -> Option<MemberLookup> {
        self.take(|table, _| (table.next_members(), None))
    }

    /// Waits for work of one kind. `find` takes it from the table, and returns the time until the
    /// next check.
    fn take<W>(
        &self,
        find: impl Fn(&mut NameTable, Instant) -> (Option<W>, Option<Duration>),
    ) -> Option<W> {
        loop {
            let before = self.calls().count;
            let now = Instant::now();
            let (lookup, idle) = find(&mut self.table(), now);
            let calls = self.calls();
            if calls.has_ended {
                return None;
            }
            if lookup.is_some() {
                return lookup;
            }
            if calls.count == before {
                // A due host may wait for a free thread, so the check is not repeated at once.
                let idle = idle.unwrap_or(IDLE_MAX).clamp(Duration::from_millis(100), IDLE_MAX);
                drop(self.call.wait_timeout(calls, idle));
            }
        }
    }
}

impl WantedNames {
    /// The names in a configuration, and whether client names must be looked up.
    #[must_use]
    pub fn of(config: &ServerConfig) -> (Self, bool) {
        let (mut wanted, mut looks_up_clients) = (Self::default(), false);
        for rule in config.host_rules() {
            looks_up_clients |= rule.is_about_names();
            match rule {
                HostRule::Name(name) => drop(wanted.hosts.insert(name.clone())),
                HostRule::Netgroup(group) if !wanted.netgroups.contains(group) => {
                    wanted.netgroups.push(group.clone());
                }
                _ => {}
            }
        }
        (wanted, looks_up_clients)
    }
}

impl Drop for HostNames {
    fn drop(&mut self) {
        self.desk.calls().has_ended = true;
        self.desk.call.notify_all();
    }
}

impl HostNames {
    /// Creates a resolver with the system's name services, without any names yet.
    #[must_use]
    pub fn of_system() -> Self {
        Self::new(Arc::new(SystemNames))
    }

    /// As [`HostNames::of_system`], with another service.
    pub fn new(service: Arc<dyn NameService>) -> Self {
        let table = RwLock::new(NameTable::new(Instant::now()));
        let desk = Desk { table, calls: Mutex::default(), call: Condvar::new() };
        Self { desk: Arc::new(desk), service }
    }

    /// Replaces the names and starts new look-ups of all.
    ///
    /// # Errors
    /// A sentence if threads cannot be started.
    pub fn configure(&self, wanted: &WantedNames, looks_up_clients: bool) -> Result<(), String> {
        self.prepare(wanted, looks_up_clients)?;
        self.settle(wanted);
        Ok(())
    }

    /// Adds the names of a future configuration and starts new look-ups of all. Names of the
    /// present one stay until [`HostNames::settle`].
    ///
    /// # Errors
    /// A sentence if threads cannot be started. Nothing has changed then.
    pub fn prepare(&self, wanted: &WantedNames, looks_up_clients: bool) -> Result<(), String> {
        if looks_up_clients || !wanted.hosts.is_empty() {
            self.start()?;
        }
        if looks_up_clients && !wanted.netgroups.is_empty() {
            self.start_netgroups()?;
        }
        self.desk.table().prepare(wanted, Instant::now());
        self.desk.call();
        Ok(())
    }

    /// Removes names that the prepared configuration does not have.
    pub fn settle(&self, wanted: &WantedNames) {
        self.desk.table().settle(wanted);
    }

    /// Starts the missing look-up threads.
    fn start(&self) -> Result<(), String> {
        let mut calls = self.desk.calls();
        while calls.threads < LOOKUP_THREADS + REFRESH_THREADS {
            let (desk, service) = (self.desk.clone(), self.service.clone());
            std::thread::Builder::new()
                .name("names".into())
                .spawn(move || serve(&desk, &*service))
                .map_err(|e| format!("no thread to look up names of hosts: {e}"))?;
            calls.threads += 1;
        }
        Ok(())
    }

    /// Starts the netgroup thread if it does not run.
    fn start_netgroups(&self) -> Result<(), String> {
        let mut calls = self.desk.calls();
        if !calls.has_netgroup_thread {
            let (desk, service) = (self.desk.clone(), self.service.clone());
            std::thread::Builder::new()
                .name("netgroups".into())
                .spawn(move || serve_netgroups(&desk, &*service))
                .map_err(|e| format!("no thread to look up netgroups: {e}"))?;
            calls.has_netgroup_thread = true;
        }
        Ok(())
    }

    /// Whether a rule matches a client address; [`RuleVerdict::Pending`] starts a look-up. Takes
    /// microseconds and never waits for a name service.
    #[must_use]
    pub fn is_for(&self, rule: &HostRule, address: IpAddr) -> RuleVerdict {
        match rule {
            HostRule::All => RuleVerdict::Match,
            HostRule::Network(network) => network.has(address).into(),
            HostRule::Name(name) => {
                let table = self.desk.table.read();
                table.find_host(name, address, Instant::now())
            }
            HostRule::Wildcard(pattern) => {
                let Some(names) = self.of_client(address) else { return RuleVerdict::Pending };
                let is = names.names.iter().any(|name| pattern.has(name));
                self.note_match(address, names.verdict(is.into()))
            }
            HostRule::Netgroup(group) => {
                // Netgroups contain clients by name.
                let Some(names) = self.of_client(address) else { return RuleVerdict::Pending };
                self.note_match(address, names.verdict(self.find_member(address, group)))
            }
        }
    }

    fn note_match(&self, address: IpAddr, verdict: RuleVerdict) -> RuleVerdict {
        if verdict == RuleVerdict::Match {
            let table = self.desk.table.read();
            table.note_match(address);
        }
        verdict
    }

    fn find_member(&self, address: IpAddr, netgroup: &str) -> RuleVerdict {
        let now = Instant::now();
        let table = self.desk.table.read();
        let (verdict, is_due) = table.find_member(address, netgroup, now);
        drop(table);
        if is_due && self.desk.table().ask_member(address, netgroup, now) {
            self.desk.call();
        }
        verdict
    }

    /// The clients of several rules, for an SMB share.
    #[must_use]
    pub fn of_rules(self: &Arc<Self>, rules: Vec<HostRule>) -> Arc<dyn NamedHosts> {
        Arc::new(RuleHosts { rules, names: self.clone() })
    }

    fn of_client(&self, address: IpAddr) -> Option<Arc<ClientNames>> {
        let now = Instant::now();
        let table = self.desk.table.read();
        let (names, is_due) = table.find(address, now);
        drop(table);
        if is_due && self.desk.table().ask(address, now) {
            self.desk.call();
        }
        names
    }
}

/// Clients that match any of the rules.
#[derive(Debug)]
struct RuleHosts {
    rules: Vec<HostRule>,
    names: Arc<HostNames>,
}

impl NamedHosts for RuleHosts {
    fn has(&self, peer: IpAddr) -> Option<bool> {
        let mut is_unknown = false;
        for rule in &self.rules {
            match self.names.is_for(rule, peer) {
                RuleVerdict::Match => return Some(true),
                // Each rule admits clients, so a missing answer admits none.
                RuleVerdict::NoMatch | RuleVerdict::Unanswered => {}
                RuleVerdict::Pending => is_unknown = true,
            }
        }
        (!is_unknown).then_some(false)
    }
}

/// Main loop of a look-up thread.
fn serve(desk: &Desk, service: &dyn NameService) {
    while let Some(lookup) = desk.next() {
        let answer = look_up(service, lookup);
        desk.table().handle_answer(answer, Instant::now());
        desk.call();
    }
}

fn look_up(service: &dyn NameService, lookup: QueuedLookup) -> LookupAnswer {
    match lookup {
        QueuedLookup::Host(name) => {
            let addresses = service.addresses_of(&name);
            match &addresses {
                Ok(found) if found.is_empty() => {
                    tracing::warn!(
                        name,
                        "a host name in the configuration has no address; correct the name, or the \
                         name service"
                    );
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(
                    name, %error,
                    "a host name in the configuration cannot be resolved; its last address stays \
                     valid for an hour"
                ),
            }
            LookupAnswer::Host { name, addresses: addresses.ok() }
        }
        QueuedLookup::Client(client, is_short) => {
            let (names, has_failed) = confirmed_names(service, client, is_short);
            let found = ClientNames { names, is_incomplete: has_failed };
            LookupAnswer::Client { client, is_short, found, has_failed }
        }
    }
}

/// Main loop of the netgroup thread.
fn serve_netgroups(desk: &Desk, service: &dyn NameService) {
    while let Some(lookup) = desk.next_members() {
        let answer = look_up_members(service, lookup);
        desk.table().handle_members(answer, Instant::now());
        desk.call();
    }
}

/// One time slice of a client: ends when the time is over or all netgroups were looked up. A
/// running call cannot be interrupted.
fn look_up_members(service: &dyn NameService, lookup: MemberLookup) -> MemberAnswer {
    let began = Instant::now();
    let none = GroupSet::default();
    let (mut asked, mut found, mut failed) = (none, none, none);
    for at in lookup.wanted.places() {
        if !asked.is_empty() && began.elapsed() >= NETGROUP_TURN {
            break;
        }
        asked.set(at, true);
        let Some(group) = lookup.netgroups.get(at) else { continue };
        let mut is_member = |host: &String| match service.is_in_netgroup(group, host) {
            Ok(is) => is,
            Err(error) => {
                if failed.is_empty() {
                    tracing::warn!(
                        netgroup = *group, %error,
                        "a netgroup in the configuration cannot be looked up; correct the name, or \
                         the name service"
                    );
                }
                failed.set(at, true);
                false
            }
        };
        let is = lookup.hosts.iter().any(&mut is_member);
        found.set(at, is);
        failed.set(at, failed.has(at) && !is);
    }
    MemberAnswer { lookup, asked, found, failed }
}

/// The confirmed names of a client: its reverse name and, with `short`, the first label, as
/// netgroups contain it. The flag reports that a look-up failed, so that there may be more names.
fn confirmed_names(service: &dyn NameService, client: IpAddr, short: bool) -> (Vec<String>, bool) {
    let failed = |error: io::Error| {
        tracing::warn!(
            peer = %client, %error,
            "a client's name cannot be looked up; until the name service answers, entries by name \
             in nfs_clients and hosts_allowed do not admit the client, nor do later entries of \
             nfs_clients that grant more"
        );
    };
    let claimed = match service.name_of(client).map_err(failed) {
        Ok(Some(claimed)) => claimed,
        other => return (Vec::new(), other.is_err()),
    };
    let (mut names, mut has_failed) = (Vec::new(), false);
    let mut leads_here = |name: &str| {
        let found = service.addresses_of(name).map_err(failed);
        has_failed |= found.is_err();
        found.ok().map(|found| found.contains(&client))
    };
    match leads_here(&claimed) {
        Some(true) => names.push(claimed.clone()),
        Some(false) => tracing::warn!(
            peer = %client, name = claimed,
            "the reverse name of a client's address does not resolve back to it; the name is \
             ignored"
        ),
        None => {}
    }
    // The short name must resolve to the client here, whatever its domain claims.
    let first = claimed.split_once('.').map(|(first, _)| first).filter(|_| short);
    if let Some(first) = first.filter(|first| leads_here(first) == Some(true)) {
        names.push(first.to_owned());
    }
    (names, has_failed)
}

#[cfg(test)]
mod tests;
