//! Data changes by opens: the rate at which an open reports them at once, and the queue of opens
//! that wait for the tick.
//!
//! A WRITE must not cost work for each watch. An open reports a few changes between two ticks; of
//! later ones it retains only the kinds, until the tick or its close.

use super::change::WatchFilter;
use super::charge::{WATCHES_MAX, WATCHES_PER_DIRECTORY_MAX};
use super::pulse::TickQuota;
use crate::Caller;
use crate::open_name::OpenName;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use sync::Mutex;

/// Reports of one open between two ticks: those that a watch takes at once, and one that it defers,
/// which precedes changes of other kinds.
const REPORTS_PER_OPEN: u32 = 4;
/// Limit of watches that all opens notify at once between two ticks: four full directories. A
/// lookup of the right to list counts as [`RIGHT_WORK`] watches. Later changes wait for the tick.
const AT_ONCE_WORK_MAX: usize = 4 * WATCHES_PER_DIRECTORY_MAX;
/// The same limit for a tick, which may exceed it by one open. Later opens wait for the next tick.
pub(super) const TICK_WORK_MAX: usize = WATCHES_MAX;
/// Cost of a lookup of the right to list, in notifications: it opens the directory.
pub(super) const RIGHT_WORK: usize = 64;
/// Limit of opens that wait for a tick. Changes by further opens wait for their next write after a
/// tick, or for their close.
const QUEUED_OPENS_MAX: usize = 4096;

/// Data changes by one open of a watched file.
#[derive(Debug)]
pub(crate) struct DataReports {
    pub name: Arc<OpenName>,
    pub caller: Arc<Caller>,
    /// Kinds of changes that were not reported yet.
    deferred: AtomicU32,
    is_queued: AtomicBool,
    reports: TickQuota,
}

impl DataReports {
    /// No changes yet, by an open of this name.
    pub fn new(name: Arc<OpenName>, caller: Arc<Caller>) -> Arc<Self> {
        Arc::new(Self {
            name,
            caller,
            deferred: AtomicU32::new(0),
            is_queued: AtomicBool::new(false),
            reports: TickQuota::default(),
        })
    }

    /// Notes kinds of changes to report.
    pub fn add(&self, what: WatchFilter) {
        self.deferred.fetch_or(what.0, Ordering::AcqRel);
    }

    /// Takes the unreported kinds, which the caller reports.
    pub fn take(&self) -> WatchFilter {
        WatchFilter(self.deferred.swap(0, Ordering::AcqRel))
    }
}

/// Opens that wait for the tick, and the work since the last one.
#[derive(Debug, Default)]
pub(super) struct DataQueue {
    opens: Mutex<VecDeque<Arc<DataReports>>>,
    at_once_work: AtomicUsize,
}

impl DataQueue {
    /// Whether an open may report at once in this tick; the caller then notes its work.
    pub fn permits(&self, reports: &DataReports, tick: u32) -> bool {
        let has_time = self.at_once_work.load(Ordering::Relaxed) < AT_ONCE_WORK_MAX;
        has_time && reports.reports.try_take(tick, REPORTS_PER_OPEN)
    }

    /// Counts work of an open that reported at once, in watches.
    pub fn note_work(&self, work: usize) {
        self.at_once_work.fetch_add(work, Ordering::Relaxed);
    }

    /// Begins a tick. Returns the number of opens that wait now: writers continue to add others.
    pub fn begin_tick(&self) -> usize {
        self.at_once_work.store(0, Ordering::Relaxed);
        self.opens.lock().len()
    }

    pub fn push(&self, reports: &Arc<DataReports>) {
        if reports.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut opens = self.opens.lock();
        if opens.len() < QUEUED_OPENS_MAX {
            opens.push_back(reports.clone());
        } else {
            reports.is_queued.store(false, Ordering::Release);
        }
    }

    pub fn pop(&self) -> Option<Arc<DataReports>> {
        let reports = self.opens.lock().pop_front()?;
        // Cleared before the kinds are taken, so that a later change queues the open again.
        reports.is_queued.store(false, Ordering::Release);
        Some(reports)
    }
}
