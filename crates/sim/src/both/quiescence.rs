//! Quiescence: both protocols show the same state, and no request waits.

use super::MixedFault;
use super::names::NameState;
use super::posix::PosixRequest;
use super::setup::{DIRECTORY, name_of};
use super::windows::{DirectoryWatch, WindowsOpenStatus, WindowsRequest};
use super::world::{ListedFile, MixedWorld};
use crate::channels::machine::CELL_BYTES;
use crate::runner::TurnOutcome;

const SECOND: u64 = 1_000_000_000;

impl MixedWorld {
    /// Sends the initial requests: the SMB clients open the directory.
    pub(super) fn begin_all(&mut self) {
        for machine in 0..self.windows.len() {
            self.begin_windows(machine, WindowsRequest::Directory);
        }
    }

    /// Quiesces the run, checks its state, and advances time.
    pub(super) fn rest(&mut self) -> Result<(), String> {
        self.note(|| "all comes to rest".into());
        self.counts.rested += 1;
        self.settle()?;
        self.check_answered()?;
        self.referee.check_notified()?;
        self.check_watches()?;
        for machine in 0..self.windows.len() {
            self.begin_windows(machine, WindowsRequest::List);
        }
        (0..self.posix.len()).for_each(|m| self.begin_posix(m, PosixRequest::List));
        self.settle()?;
        self.check_listed()?;
        self.check_content()?;
        (0..self.posix.len()).for_each(|m| self.begin_posix(m, PosixRequest::Renew));
        self.settle()?;
        let seconds = self.random.pick(&[0, 1, 12, 31, 31]);
        self.note(|| format!("{seconds} seconds pass"));
        self.servers.environment.advance(seconds * SECOND);
        self.tick()
    }

    /// Runs the server's periodic work.
    fn tick(&mut self) -> Result<(), String> {
        let (smb, nfs) = (self.servers.smb.clone(), self.servers.nfs.clone());
        let now = smb::SmbHost::now(&*self.servers.environment);
        let of_nfs = nfs::NfsHost::now(&*self.servers.environment);
        self.start(0, move || {
            smb.handle_tick(now);
            nfs.handle_tick(of_nfs);
            TurnOutcome::Over
        })
    }

    fn check_answered(&self) -> Result<(), String> {
        for (number, machine) in self.windows.iter().enumerate() {
            let mut waits =
                machine.pending.values().filter(|p| p.op != WindowsRequest::DirectoryWatch);
            if let Some(pending) = waits.next() {
                return Err(format!("answers: {number} has none to {pending:?}"));
            }
        }
        for machine in &self.posix {
            if let Some(pending) = machine.in_flight().next() {
                return Err(format!("answers: {} has none to {pending:?}", machine.number));
            }
            if let Some(one) = machine.delegations.values().find(|one| one.is_recalled) {
                return Err(format!("answers: {one:?} was not given back"));
            }
        }
        Ok(())
    }

    /// Checks that all due notifications have arrived. Watches that still exist become certain.
    fn check_watches(&mut self) -> Result<(), String> {
        for (number, machine) in self.windows.iter_mut().enumerate() {
            match &machine.watch {
                DirectoryWatch::Owed(what) => {
                    return Err(format!("watching: {number} was not notified {what}"));
                }
                DirectoryWatch::Asked => machine.watch = DirectoryWatch::Sure(self.steps),
                DirectoryWatch::None | DirectoryWatch::Sure(_) => {}
            }
        }
        Ok(())
    }

    /// Checks that all clients have listed the same entries.
    fn check_listed(&self) -> Result<(), String> {
        let by_smb = self.windows.iter().map(|machine| &machine.listed);
        let lists = by_smb.chain(self.posix.iter().map(|machine| &machine.listed));
        let sorted = |list: &Vec<ListedFile>| {
            let mut list = list.clone();
            list.sort_by(|one, other| one.name.cmp(&other.name));
            list
        };
        let lists: Vec<Vec<ListedFile>> = lists.map(sorted).collect();
        match lists.windows(2).find(|two| two[0] != two[1]) {
            Some(two) => Err(format!("listings: {:?}, and {:?}", two[0], two[1])),
            None => Ok(()),
        }
    }

    /// Checks that the files hold possible contents, and what clients have cached.
    fn check_content(&self) -> Result<(), String> {
        let files = self.servers.vfs.files();
        for name in self.names.all() {
            let Some(NameState::Present(file)) = self.names.certain(name, self.steps) else {
                continue;
            };
            let path = format!("{DIRECTORY}/{}", name_of(name));
            let Some((_, bytes)) = files.iter().find(|(found, _)| *found == path) else {
                return Err(format!("names: {name} is not on the disk"));
            };
            let found = |cell: u8| {
                let at = usize::from(cell) * CELL_BYTES as usize;
                let bytes = bytes.get(at..at + CELL_BYTES as usize);
                bytes.and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
            };
            self.referee.check_kept(file, found)?;
        }
        Ok(())
    }

    /// Closes everything, and checks that nothing is left.
    ///
    /// # Errors
    /// A description of the leftovers.
    pub(super) fn end(&mut self) -> Result<(), String> {
        for machine in 0..self.windows.len() {
            let open: Vec<u32> = self.windows[machine].handles.keys().copied().collect();
            for handle in open {
                self.begin_windows(machine, WindowsRequest::Close { handle });
            }
            self.begin_windows(machine, WindowsRequest::Leave);
        }
        for machine in 0..self.posix.len() {
            self.close_posix(machine)?;
        }
        self.settle()?;
        self.check_answered()?;
        self.check_nothing_open()?;
        self.windows.clear();
        let sides = std::mem::take(&mut self.links).into_values().filter_map(|link| link.side);
        let sides: Vec<_> = sides.collect();
        let host = self.servers.environment.clone();
        self.start(0, move || {
            sides.into_iter().for_each(|side| side.end(&*host));
            TurnOutcome::Over
        })?;
        self.posix.clear();
        self.settle()?;
        match self.servers.smb.snapshot().sessions.len() {
            0 => Ok(()),
            count => Err(format!("end: {count} sessions although all are gone")),
        }
    }

    fn close_posix(&mut self, machine: usize) -> Result<(), String> {
        let is_open = |(number, open): (&u32, &super::posix::PosixOpen)| {
            (open.status == WindowsOpenStatus::Open).then_some(*number)
        };
        let mut open: Vec<u32> = self.posix[machine].opens.iter().filter_map(is_open).collect();
        if self.plan.fault == Some(MixedFault::Close) {
            open.pop();
        }
        for open in open {
            self.begin_posix(machine, PosixRequest::Close { open });
            self.settle()?;
        }
        let ids: Vec<[u8; 12]> = self.posix[machine].delegations.keys().copied().collect();
        for id in ids {
            if let Some(op) = self.end_delegation(machine, id) {
                self.begin_posix(machine, op);
            }
            self.settle()?;
        }
        Ok(())
    }

    fn check_nothing_open(&self) -> Result<(), String> {
        let sessions = self.servers.smb.snapshot().sessions;
        let clients = self.servers.nfs.snapshot().clients;
        let left = [
            ("opens of SMB", sessions.iter().map(|session| session.opens.len()).sum()),
            ("states of NFS", clients.iter().map(|client| client.states).sum()),
            ("files in the table", self.servers.smb.files.open_file_count()),
            ("files in the table of NFS", self.servers.nfs.files.open_file_count()),
            ("open handles", self.servers.vfs.open_count() as usize),
            ("calls for workers", self.servers.environment.task_weights().len()),
        ];
        match left.iter().find(|(_, count)| *count > 0) {
            Some((what, count)) => Err(format!("end: {count} {what} although all is closed")),
            None => Ok(()),
        }
    }
}
