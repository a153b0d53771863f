//! Quiescence: the server's state matches its clients' knowledge. Then time advances.

use super::machine::{Presence, SessionMachine};
use super::messages;
use super::world::SessionWorld;
use crate::runner::TurnOutcome;
use std::collections::BTreeSet;

const SECOND: u64 = 1_000_000_000;

impl SessionWorld {
    /// Quiesces the run, checks its state, and advances time.
    pub(super) fn rest(&mut self) -> Result<(), String> {
        self.note(|| "all comes to rest".into());
        self.counts.rested += 1;
        self.settle()?;
        // Reports that were sent while connections were lost may be outdated.
        for _ in 0..2 {
            self.renew_all()?;
        }
        let mut here = self.machines.iter().filter(|one| one.presence == Presence::Here);
        here.try_for_each(|machine| self.check(machine))?;
        self.absence()?;
        let seconds = self.random.pick(&[0, 1, 12, 31]);
        self.note(|| format!("{seconds} seconds pass"));
        self.environment.advance(seconds * SECOND);
        self.tick()
    }

    /// Runs the server's periodic work.
    pub(super) fn tick(&mut self) -> Result<(), String> {
        let (server, now) = (self.server.clone(), nfs::NfsHost::now(&*self.environment));
        self.start(0, move || {
            server.handle_tick(now);
            TurnOutcome::Over
        })
    }

    /// Compares the server's state of a machine with the machine's knowledge.
    fn check(&self, machine: &SessionMachine) -> Result<(), String> {
        let number = machine.number;
        if let Some((at, one)) = machine.in_flight().next() {
            return Err(format!("answers: {number} has none to {one:?} in {at}"));
        }
        if let Some(delegation) = machine.recalled_delegation() {
            return Err(format!("delegations: {number} was not asked again for {delegation:?}"));
        }
        if machine.is_deaf {
            return Err(format!("backchannel: {number} still receives CB_PATH_DOWN"));
        }
        let clients = self.server.snapshot().clients;
        let session = clients.iter().find_map(|client| {
            let mut sessions = client.sessions.iter();
            let own =
                sessions.find(|one| Some(wire::nfs::NfsSessionId(one.id)) == machine.session)?;
            Some((client, own))
        });
        let Some((client, session)) = session else {
            return Err(format!("sessions: {number} has none"));
        };
        if (session.busy, session.calls) != (0, machine.done) {
            let done = machine.done;
            return Err(format!("once: {number} asked for {done} things: {session:?}"));
        }
        let has = (client.states, client.delegations);
        let delegated = machine.delegations.len();
        let knows = (machine.opens.len() + delegated, delegated);
        if has != knows {
            return Err(format!("states: {number} has {has:?}, and knows of {knows:?}"));
        }
        let links = self.links.values().filter(|l| l.machine == number && !l.is_cut).count();
        if session.connections.len() > links || session.connections.is_empty() {
            return Err(format!("connections: {links}, and {:?}", session.connections));
        }
        self.check_names(machine)
    }

    fn check_names(&self, machine: &SessionMachine) -> Result<(), String> {
        let directory = messages::own_directory(machine.number);
        let all = self.vfs.files();
        let found: BTreeSet<&str> = all
            .iter()
            .filter_map(|(path, _)| path.strip_prefix(&directory)?.strip_prefix('/'))
            .collect();
        let names: BTreeSet<String> =
            machine.names.iter().map(|name| messages::own_name(*name)).collect();
        if found.iter().eq(names.iter()) {
            return Ok(());
        }
        Err(format!("names: {} knows {names:?}, there are {found:?}", machine.number))
    }

    /// Disconnects all machines, and checks that nothing of their state is left.
    ///
    /// # Errors
    /// A description of the leftovers.
    pub(super) fn end(&mut self) -> Result<(), String> {
        let links: Vec<u32> = self.links.keys().copied().collect();
        links.into_iter().for_each(|link| self.cut(link));
        self.machines.clear();
        self.settle()?;
        let gone = nfs::limits::COURTESY + nfs::limits::LEASE;
        self.environment.advance(gone.as_secs() * SECOND);
        self.tick()?;
        self.settle()?;
        let left = [
            ("clients", self.server.clients().len() as u64),
            ("files in the table", self.server.files.open_file_count() as u64),
            ("open handles", self.vfs.open_count()),
        ];
        match left.iter().find(|(_, count)| *count > 0) {
            Some((what, count)) => Err(format!("end: {count} {what} although all are gone")),
            None => Ok(()),
        }
    }
}
