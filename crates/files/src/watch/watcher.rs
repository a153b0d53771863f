//! The watch of one open directory: its buffered changes, and the requests that wait for them.

use super::change::{WATCH_BYTES_MAX, WatchAnswer, WatchChange, WatchFilter, WatchWish};
use super::charge::{ChargedWatch, DueAnswer};
use super::pulse::{ListRights, WatchPulse};
use super::state::{RequestId, WatchEnd, WatchState};
use crate::Caller;
use crate::open_name::OpenName;
use futures_channel::oneshot;
use limits::ResourceCharge;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use sync::Mutex;
use vfs::ExternalWatch;

/// The watch of one open.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// Current path of the directory.
    pub name: Arc<OpenName>,
    pub caller: Arc<Caller>,
    pub filter: WatchFilter,
    pub tree: bool,
    state: Mutex<ChargedWatch>,
    /// State that all watches share.
    pub pulse: Arc<WatchPulse>,
    /// Cached rights of the user to list directories below.
    pub list_rights: Mutex<ListRights>,
    /// Charge for the watch itself.
    pub charge: ResourceCharge,
    /// Backend watches for external changes in the directory and below it.
    pub external_watches: Mutex<Vec<Box<dyn ExternalWatch>>>,
}

impl Watcher {
    pub fn new(
        (name, caller): (&Arc<OpenName>, &Arc<Caller>),
        wish: &WatchWish,
        pulse: &Arc<WatchPulse>,
        (charge, memory): (ResourceCharge, ResourceCharge),
    ) -> Self {
        let watch = WatchState::new(wish.room_bytes.min(WATCH_BYTES_MAX), wish.measure);
        Self {
            name: name.clone(),
            caller: caller.clone(),
            filter: wish.filter,
            tree: wish.tree,
            state: Mutex::new(ChargedWatch::new(watch, memory)),
            pulse: pulse.clone(),
            list_rights: Mutex::default(),
            charge,
            external_watches: Mutex::default(),
        }
    }

    pub fn ask(self: &Arc<Self>, room_bytes: usize) -> NextChanges {
        let (sender, receiver) = oneshot::channel();
        let mut guard = self.state.lock();
        let request = guard.watch.handle_request(room_bytes);
        guard.waiting.push((request, sender));
        NextChanges { watcher: self.clone(), request, receiver: Some(receiver) }
    }

    /// Buffers related changes, with paths relative to the directory.
    pub fn handle_changes(&self, changes: impl Iterator<Item = WatchChange>) {
        let veto = &self.name.volume.options.veto_names;
        let changes = changes.filter(|change| !veto.has_any(&change.path));
        let mut guard = self.state.lock();
        changes.for_each(|change| guard.watch.handle_change(change));
        guard.settle_memory();
        drop(guard);
        self.settle();
    }

    /// Buffers data changes, with paths relative to the directory:
    /// [`WatchState::handle_data_change`].
    pub fn handle_data_changes(&self, changes: impl Iterator<Item = WatchChange>) {
        let veto = &self.name.volume.options.veto_names;
        let changes = changes.filter(|change| !veto.has_any(&change.path));
        let mut guard = self.state.lock();
        if self.pulse.is_ticking.load(Ordering::Acquire) {
            changes.for_each(|change| guard.watch.handle_data_change_in_tick(change));
        } else {
            changes.for_each(|change| guard.watch.handle_data_change(change));
        }
        guard.settle_memory();
        drop(guard);
        self.pulse.has_data.store(true, Ordering::Release);
        self.settle();
    }

    /// Whether these data changes are reported already or will be.
    pub fn has_reported(&self, changes: &[WatchChange]) -> bool {
        let guard = self.state.lock();
        changes.iter().all(|change| guard.watch.has_reported(change))
    }

    /// Handles a tick, about once a second.
    pub fn handle_tick(&self) {
        let mut guard = self.state.lock();
        let reports = guard.watch.handle_tick();
        guard.settle_memory();
        drop(guard);
        // Its notices count until the next tick.
        self.pulse.has_data.fetch_or(reports, Ordering::AcqRel);
        self.settle();
    }

    /// Ends reporting; call [`Watcher::settle`] afterwards.
    pub fn handle_end(&self, end: WatchEnd) {
        self.state.lock().watch.handle_end(end);
    }

    /// Handles a cleared delete-pending state of the directory.
    pub fn handle_delete_cancelled(&self) {
        self.state.lock().watch.handle_delete_cancelled();
    }

    /// Handles the loss of changes: the client must enumerate.
    pub fn handle_lost(&self) {
        self.state.lock().watch.handle_lost();
        self.settle();
    }

    /// Sends due answers without a lock, since sending wakes tasks.
    pub fn settle(&self) {
        while self.send_due() {}
    }

    /// Returns true if an answer had no receiver, so that another request is due.
    fn send_due(&self) -> bool {
        let mut answers = Vec::new();
        let mut guard = self.state.lock();
        while let Some((request, answer)) = guard.poll_answer() {
            if let Some(at) = guard.waiting.iter().position(|(id, _)| *id == request) {
                answers.push((guard.waiting.swap_remove(at).1, answer));
            }
        }
        drop(guard);
        let mut undelivered = false;
        for (sender, answer) in answers {
            if let Err(due) = sender.send(answer) {
                self.handle_undelivered(due);
                undelivered = true;
            }
        }
        undelivered
    }

    /// Returns an undelivered answer to the watch.
    fn handle_undelivered(&self, due: DueAnswer) {
        let DueAnswer { answer, .. } = due;
        let mut guard = self.state.lock();
        guard.watch.handle_undelivered(answer);
        guard.settle_memory();
    }
}

/// A queued request of a watch.
#[derive(Debug)]
pub struct NextChanges {
    watcher: Arc<Watcher>,
    request: RequestId,
    /// None once the answer has arrived.
    receiver: Option<oneshot::Receiver<DueAnswer>>,
}

impl NextChanges {
    /// Waits for the answer.
    pub async fn answer(mut self) -> WatchAnswer {
        let receiver = self.receiver.as_mut().expect("taken only here and on drop");
        let answer = receiver.await;
        self.receiver = None;
        // The sender is dropped with the watch, which ends with its open.
        answer.map_or(WatchAnswer::Closed, |due| due.answer)
    }
}

impl Drop for NextChanges {
    fn drop(&mut self) {
        let Some(receiver) = &mut self.receiver else { return };
        let mut guard = self.watcher.state.lock();
        guard.waiting.retain(|(id, _)| *id != self.request);
        if guard.watch.handle_cancel(self.request) {
            return;
        }
        drop(guard);
        // The request was answered already. Closing first decides: either the answer is in the
        // channel or the sender gets it back. The next request receives it in both cases.
        receiver.close();
        if let Ok(Some(due)) = receiver.try_recv() {
            self.watcher.handle_undelivered(due);
            self.watcher.settle();
        }
    }
}

/// Cached result whether a watch reports an open's writes, with the generation of the watches.
#[derive(Debug, Default)]
pub(crate) struct WatchedCache(AtomicU32);

impl WatchedCache {
    /// The result, if it is of this generation.
    pub fn of(&self, generation: u32) -> Option<bool> {
        let known = self.0.load(Ordering::Relaxed);
        (known >> 1 == generation).then_some(known & 1 == 1)
    }

    pub fn set(&self, generation: u32, is_reported: bool) {
        self.0.store(generation << 1 | u32::from(is_reported), Ordering::Relaxed);
    }
}
