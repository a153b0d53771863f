//! Journal of persistent and durable opens.
//!
//! A protocol records such opens with the possible paths of their file after a crash: the present one,
//! and those of renames in flight ([`crate::announced_rename`]). A restart tries all paths and
//! identifies the file ([`crate::FileIdentity`]).

use crate::Files;
use crate::open_name::OpenName;
use futures_util::future::BoxFuture;
use std::sync::{Arc, Weak};
use sync::Mutex;
use vfs::{FileKey, FsError, RelPath, Result};

/// Paths in the record of an open beside the present one.
pub const FURTHER_PATHS_MAX: usize = 8;

/// Journal of opens that outlive the process.
pub trait OpenJournal: Send + Sync {
    /// Queues the current facts of all recorded opens of these files. The future returns once they
    /// are on stable storage.
    ///
    /// # Errors
    /// The records may not be on stable storage.
    fn record_opens(&self, files: &[FileKey]) -> BoxFuture<'static, Result<()>>;
}

impl Files {
    /// Sets the journal; once, before there are opens to record.
    pub fn set_open_journal(&self, journal: Weak<dyn OpenJournal>) {
        let _ = self.table.open_journal.set(journal);
    }
}

/// A name that an open may get.
#[derive(Debug)]
struct NameInFlight {
    name: Weak<OpenName>,
    path: RelPath,
    /// Whether its rename may have been carried out without reaching stable storage.
    is_left: bool,
}

/// Names that recorded opens may have, beside their present ones.
#[derive(Debug, Default)]
pub(crate) struct NamesInFlight(Mutex<Vec<NameInFlight>>);

impl NamesInFlight {
    /// Paths that `name` may have, each once.
    pub fn of(&self, name: &Arc<OpenName>) -> Vec<RelPath> {
        let mut paths = Vec::new();
        for one in &*self.0.lock() {
            if std::ptr::eq(one.name.as_ptr(), Arc::as_ptr(name)) && !paths.contains(&one.path) {
                paths.push(one.path.clone());
            }
        }
        paths
    }

    /// Adds names. It evicts the oldest unsettled names at the limit.
    ///
    /// # Errors
    /// [`FsError::Unavailable`] if too many renames of one file are in flight.
    pub fn add(&self, entries: &[(Weak<OpenName>, RelPath)]) -> Result<()> {
        let mut all = self.0.lock();
        all.retain(|one| one.name.strong_count() > 0);
        for (at, (name, path)) in entries.iter().enumerate() {
            let count = |all: &[NameInFlight]| all.iter().filter(|one| is_of(one, name)).count();
            if count(&all) >= FURTHER_PATHS_MAX
                && let Some(oldest) = all.iter().position(|one| one.is_left && is_of(one, name))
            {
                all.remove(oldest);
            }
            if count(&all) >= FURTHER_PATHS_MAX {
                remove(&mut all, &entries[..at]);
                return Err(FsError::Unavailable);
            }
            all.push(NameInFlight { name: name.clone(), path: path.clone(), is_left: false });
        }
        Ok(())
    }

    /// Drops the names of a rename that was not carried out.
    pub fn withdraw(&self, entries: &[(Weak<OpenName>, RelPath)]) {
        remove(&mut self.0.lock(), entries);
    }

    /// Drops the names of a stable rename, and those that earlier ones left unsettled.
    pub fn settle(&self, entries: &[(Weak<OpenName>, RelPath)]) {
        let mut all = self.0.lock();
        remove(&mut all, entries);
        all.retain(|one| !one.is_left || entries.iter().all(|(name, _)| !is_of(one, name)));
    }

    /// Retains the names of a rename that was carried out, and may not be stable.
    pub fn leave(&self, entries: &[(Weak<OpenName>, RelPath)]) {
        for one in &mut *self.0.lock() {
            one.is_left |= entries.iter().any(|(name, path)| is_of(one, name) && one.path == *path);
        }
    }
}

fn is_of(one: &NameInFlight, name: &Weak<OpenName>) -> bool {
    one.name.ptr_eq(name)
}

/// Removes each entry once: another rename may have announced the same name.
fn remove(all: &mut Vec<NameInFlight>, entries: &[(Weak<OpenName>, RelPath)]) {
    for (name, path) in entries {
        let is_it = |one: &NameInFlight| !one.is_left && is_of(one, name) && one.path == *path;
        if let Some(at) = all.iter().position(is_it) {
            all.remove(at);
        }
    }
}
