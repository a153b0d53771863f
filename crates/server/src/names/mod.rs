//! Clients by name: hosts, wildcards and netgroups of the configuration, held against addresses.
//!
//! A name that an address claims counts only if a look-up of the name leads back to the address:
//! whoever has the reverse zone of an address writes any name into it. Threads of their own look up;
//! nothing here waits for them.

mod table;

use crate::config::{Config, HostRule};
use crate::limits::{LOOKUP_THREADS, REFRESH_THREADS};
use smb::NamedHosts;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
pub use table::WantedNames;
use table::{Answer, ClientNames, Lookup, NameTable, Outcome};

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
        loop {
            let before = self.calls().count;
            let now = Instant::now();
            let (lookup, idle) = {
                let mut table = self.table();
                (table.next(now), table.idle_for(now))
            };
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

    /// Whether a rule is for clients at an address; none while a look-up has to tell, which is under
    /// way then. Takes microseconds, and never waits for a name service.
    #[must_use]
    pub fn is_for(&self, rule: &HostRule, address: IpAddr) -> Option<bool> {
        match rule {
            HostRule::All => Some(true),
            HostRule::Network(network) => Some(network.has(address)),
            HostRule::Name(name) => {
                let table = self.desk.table.read().unwrap_or_else(PoisonError::into_inner);
                table.is_host(name, address, Instant::now())
            }
            HostRule::Wildcard(pattern) => {
                self.is_client(address, |of| of.names.iter().any(|name| pattern.has(name)))
            }
            HostRule::Netgroup(group) => self.is_client(address, |of| of.netgroups.contains(group)),
        }
    }

    fn is_client(&self, address: IpAddr, is: impl FnOnce(&ClientNames) -> bool) -> Option<bool> {
        let is = is(&*self.of_client(address)?);
        if is {
            let table = self.desk.table.read().unwrap_or_else(PoisonError::into_inner);
            table.note_match(address);
        }
        Some(is)
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
                Some(true) => return Some(true),
                Some(false) => {}
                None => is_unknown = true,
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
        Lookup::Client(client, netgroups) => look_up_client(service, client, netgroups),
    }
}

fn look_up_client(service: &dyn NameService, client: IpAddr, netgroups: Arc<[String]>) -> Answer {
    let (names, has_failed) = confirmed_names(service, client, !netgroups.is_empty());
    let address = client.to_string();
    let mut are_groups_missing = false;
    let mut is_member = |group: &&String| {
        let mut hosts = names.iter().chain([&address]);
        hosts.any(|host| match service.is_in_netgroup(group, host) {
            Ok(is) => is,
            Err(error) => {
                if !std::mem::replace(&mut are_groups_missing, true) {
                    tracing::warn!(
                        netgroup = **group, %error,
                        "a netgroup of the configuration cannot be looked up; correct its name, or the name service"
                    );
                }
                false
            }
        })
    };
    let of_client = netgroups.iter().filter(&mut is_member).cloned().collect();
    let outcome = match (has_failed, are_groups_missing) {
        (true, _) => Outcome::Failed,
        (false, true) => Outcome::GroupsMissing,
        (false, false) => Outcome::Complete,
    };
    Answer::Client {
        client,
        netgroups,
        found: ClientNames { names, netgroups: of_client },
        outcome,
    }
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
