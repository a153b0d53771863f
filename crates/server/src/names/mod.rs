//! Clients by name: hosts, wildcards and netgroups of the configuration, held against addresses.
//!
//! A name that an address claims counts only if a look-up of the name leads back to the address:
//! whoever has the reverse zone of an address writes any name into it. Threads of their own look up;
//! nothing here waits for them. Netgroups have one thread apart from names, as the C library asks for
//! one at a time, and are asked for only once a rule is reached that has one.

mod table;

use crate::config::{Config, HostRule};
use crate::limits::{LOOKUP_THREADS, NETGROUP_TURN, REFRESH_THREADS};
use smb::NamedHosts;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use table::{Answer, ClientNames, GroupSet, Lookup, MemberAnswer, MemberLookup, NameTable};
pub use table::{RuleVerdict, WantedNames};

/// An idle thread looks for work so often, whatever the table says.
const IDLE_MAX: Duration = Duration::from_mins(1);

/// The name services of the system, or a test's. Calls may wait for half a minute.
pub trait NameService: Send + Sync + 'static {
    /// The name that an address claims.
    ///
    /// # Errors
    /// No answer.
    fn name_of(&self, address: IpAddr) -> io::Result<Option<String>>;

    /// The addresses of a name; empty if it does not exist.
    ///
    /// # Errors
    /// No answer.
    fn addresses_of(&self, name: &str) -> io::Result<Vec<IpAddr>>;

    /// Whether a netgroup has a host, by name or by address.
    ///
    /// # Errors
    /// There is no such netgroup, or no answer: that is not told apart.
    fn is_in_netgroup(&self, netgroup: &str, host: &str) -> io::Result<bool>;
}

/// By nsswitch.conf(5).
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

/// Knowledge of names. Its threads end with it.
pub struct HostNames {
    desk: Arc<Desk>,
    service: Arc<dyn NameService>,
}

impl std::fmt::Debug for HostNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostNames").finish_non_exhaustive()
    }
}

/// The table, and how threads wait for work.
struct Desk {
    table: RwLock<NameTable>,
    calls: Mutex<Calls>,
    call: Condvar,
}

/// Work that threads were called for.
#[derive(Default)]
struct Calls {
    count: u64,
    threads: usize,
    has_netgroup_thread: bool,
    has_ended: bool,
}

impl Desk {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> std::sync::RwLockWriteGuard<'_, NameTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self) {
        self.calls().count += 1;
        self.call.notify_all();
    }

    /// The next look-up; none once there is to be no more.
    fn next(&self) -> Option<Lookup> {
        self.take(|table, now| (table.next(now), table.idle_for(now)))
    }

    /// The next turn of a client with its netgroups.
    fn next_members(&self) -> Option<MemberLookup> {
        self.take(|table, _| (table.next_members(), None))
    }

    /// Waits for work of one kind, which `find` takes from the table with the time until it looks again.
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
                // A host may be due that too many threads look up already: not at once, then.
                let idle = idle.unwrap_or(IDLE_MAX).clamp(Duration::from_millis(100), IDLE_MAX);
                drop(self.call.wait_timeout(calls, idle));
            }
        }
    }
}

impl WantedNames {
    /// The names of a configuration, and whether it takes those of its clients to tell.
    #[must_use]
    pub fn of(config: &Config) -> (Self, bool) {
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
    /// Nothing is wanted yet; names will be looked up by the system's name services.
    #[must_use]
    pub fn of_system() -> Self {
        Self::new(Arc::new(SystemNames))
    }

    /// As [`HostNames::of_system`], by another service.
    pub fn new(service: Arc<dyn NameService>) -> Self {
        let table = RwLock::new(NameTable::new(Instant::now()));
        let desk = Desk { table, calls: Mutex::default(), call: Condvar::new() };
        Self { desk: Arc::new(desk), service }
    }

    /// Takes the names of a configuration, and has all looked up anew.
    ///
    /// # Errors
    /// No threads can be started; in words.
    pub fn configure(&self, wanted: &WantedNames, looks_up_clients: bool) -> Result<(), String> {
        self.prepare(wanted, looks_up_clients)?;
        self.settle(wanted);
        Ok(())
    }

    /// Adds the names of a configuration that is to come, and has all looked up anew. What the present
    /// one names counts on until [`HostNames::settle`].
    ///
    /// # Errors
    /// No threads can be started; in words. Nothing has changed then.
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

    /// Takes away names that the configuration, which was prepared, does not have.
    pub fn settle(&self, wanted: &WantedNames) {
        self.desk.table().settle(wanted);
    }

    /// Starts the threads that do not run yet.
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

    /// Starts the thread for netgroups, if it does not run yet.
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

    /// Whether a rule is for clients at an address; [`RuleVerdict::Pending`] starts a look-up. Takes
    /// microseconds, and never waits for a name service.
    #[must_use]
    pub fn is_for(&self, rule: &HostRule, address: IpAddr) -> RuleVerdict {
        match rule {
            HostRule::All => RuleVerdict::Match,
            HostRule::Network(network) => network.has(address).into(),
            HostRule::Name(name) => {
                let table = self.desk.table.read().unwrap_or_else(PoisonError::into_inner);
                let is = table.is_host(name, address, Instant::now());
                is.map_or(RuleVerdict::Pending, RuleVerdict::from)
            }
            HostRule::Wildcard(pattern) => {
                let Some(names) = self.of_client(address) else { return RuleVerdict::Pending };
                let is = names.names.iter().any(|name| pattern.has(name));
                self.note_match(address, is.into())
            }
            HostRule::Netgroup(group) => {
                // Netgroups have clients by their names.
                if self.of_client(address).is_none() {
                    return RuleVerdict::Pending;
                }
                self.note_match(address, self.find_member(address, group))
            }
        }
    }

    fn note_match(&self, address: IpAddr, verdict: RuleVerdict) -> RuleVerdict {
        if verdict == RuleVerdict::Match {
            let table = self.desk.table.read().unwrap_or_else(PoisonError::into_inner);
            table.note_match(address);
        }
        verdict
    }

    fn find_member(&self, address: IpAddr, netgroup: &str) -> RuleVerdict {
        let now = Instant::now();
        let table = self.desk.table.read().unwrap_or_else(PoisonError::into_inner);
        let (verdict, is_due) = table.find_member(address, netgroup, now);
        drop(table);
        if is_due && self.desk.table().ask_member(address, netgroup, now) {
            self.desk.call();
        }
        verdict
    }

    /// The clients of some rules, as a share of SMB has them.
    #[must_use]
    pub fn of_rules(self: &Arc<Self>, rules: Vec<HostRule>) -> Arc<dyn NamedHosts> {
        Arc::new(RuleHosts { rules, names: self.clone() })
    }

    fn of_client(&self, address: IpAddr) -> Option<Arc<ClientNames>> {
        let now = Instant::now();
        let table = self.desk.table.read().unwrap_or_else(PoisonError::into_inner);
        let (names, is_due) = table.find(address, now);
        drop(table);
        if is_due && self.desk.table().ask(address, now) {
            self.desk.call();
        }
        names
    }
}

/// Clients of any of some rules.
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
                // Each rule lets clients in: without an answer this one does not.
                RuleVerdict::NoMatch | RuleVerdict::Unanswered => {}
                RuleVerdict::Pending => is_unknown = true,
            }
        }
        (!is_unknown).then_some(false)
    }
}

/// A thread's life.
fn serve(desk: &Desk, service: &dyn NameService) {
    while let Some(lookup) = desk.next() {
        let answer = look_up(service, lookup);
        desk.table().handle_answer(answer, Instant::now());
        desk.call();
    }
}

fn look_up(service: &dyn NameService, lookup: Lookup) -> Answer {
    match lookup {
        Lookup::Host(name) => {
            let addresses = service.addresses_of(&name);
            match &addresses {
                Ok(found) if found.is_empty() => {
                    tracing::warn!(
                        name,
                        "a client of the configuration has no address; correct its name, or the name service"
                    );
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(
                    name, %error,
                    "a client of the configuration cannot be looked up; its last address counts for an hour"
                ),
            }
            Answer::Host { name, addresses: addresses.ok() }
        }
        Lookup::Client(client, is_short) => {
            let (names, has_failed) = confirmed_names(service, client, is_short);
            Answer::Client { client, is_short, found: ClientNames { names }, has_failed }
        }
    }
}

/// The life of the thread for netgroups.
fn serve_netgroups(desk: &Desk, service: &dyn NameService) {
    while let Some(lookup) = desk.next_members() {
        let answer = look_up_members(service, lookup);
        desk.table().handle_members(answer, Instant::now());
        desk.call();
    }
}

/// One turn of a client: it ends with its time, or once all is asked for. A call cannot be ended.
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
                        "a netgroup of the configuration cannot be looked up; correct its name, or the name service"
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

/// The names of a client that lead to its address: the one that it claims, and with `short` its first
/// part, as netgroups have it. Whether a look-up failed, so that there may be more.
fn confirmed_names(service: &dyn NameService, client: IpAddr, short: bool) -> (Vec<String>, bool) {
    let failed = |error: io::Error| {
        tracing::warn!(
            peer = %client, %error,
            "a client's name cannot be looked up; entries of nfs_clients and hosts_allowed by name are not for it until it can"
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
            "a client's address claims a name that does not lead back to it; the name does not count"
        ),
        None => {}
    }
    // Whatever the claim: only what the short name leads to here counts.
    let first = claimed.split_once('.').map(|(first, _)| first).filter(|_| short);
    if let Some(first) = first.filter(|first| leads_here(first) == Some(true)) {
        names.push(first.to_owned());
    }
    (names, has_failed)
}

#[cfg(test)]
mod tests;
