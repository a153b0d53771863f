//! Times that an open set or stopped: its own changes do not move them. MS-FSA 2.1.4.17.

use crate::server_work::{METADATA, WANTED};
use limits::{LedgerAccount, ResourceCharge};
use std::sync::{Arc, OnceLock};
use sync::{Mutex, MutexGuard};
use vfs::{
    AttributeChanges, AttributeRequest, Attributes, FileKind, FsError, Identity, Node, Result,
    ServerWork, TimeChange, Timestamp,
};

/// Change of one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeSetting {
    /// Leave the time as it is.
    #[default]
    Keep,
    /// Leave the time, and stop this open from moving it. MS-FSCC 2.4.7: -1.
    Freeze,
    /// Let this open move the time again. MS-FSCC 2.4.7: -2.
    Thaw,
    /// Set the time; this open does not move it any more.
    Set(Timestamp),
}

/// Times and DOS attributes to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicChange {
    /// Creation time.
    pub created: TimeSetting,
    /// Last access time.
    pub accessed: TimeSetting,
    /// Last write time.
    pub modified: TimeSetting,
    /// Change time.
    pub changed: TimeSetting,
    /// DOS attributes, if they are to be set.
    pub dos_bits: Option<u32>,
}

/// Bit of a frozen last access time.
pub(crate) const ACCESSED: u8 = 1;
/// Bit of a frozen last write time.
pub(crate) const MODIFIED: u8 = 2;
const CHANGED: u8 = 4;

/// Times that an open set or stopped, as its record contains them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoppedTimes(u8);

impl StoppedTimes {
    /// The times of these bits; none for unknown bits.
    #[must_use]
    pub fn new(bits: u8) -> Option<Self> {
        (bits & !(ACCESSED | MODIFIED | CHANGED) == 0).then_some(Self(bits))
    }

    /// A bit for each: 1 for the last access time, 2 for the last write time, 4 for the change
    /// time.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// The setting that stops them.
    pub(crate) fn freeze(self) -> BasicChange {
        let freeze = |bit| if self.0 & bit == 0 { TimeSetting::Keep } else { TimeSetting::Freeze };
        BasicChange {
            accessed: freeze(ACCESSED),
            modified: freeze(MODIFIED),
            changed: freeze(CHANGED),
            ..BasicChange::default()
        }
    }
}

/// Times that a change moves in the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MovedTimes {
    /// Data: the write time, the change time, and the last access time.
    All,
    /// Names and metadata: the change time alone.
    Changed,
}

/// Frozen times of one open. Shared with the worker that carries a change out, which outlives a
/// request whose client disconnects.
#[derive(Debug)]
pub(crate) struct FrozenTimes {
    original: TimedNode,
    /// The node that replaced the file under its name, if any.
    replacement: OnceLock<TimedNode>,
    /// Whether a write of data moves the last access time, too.
    writes_are_accesses: bool,
    settings: Mutex<TimeFreeze>,
    noatime: Mutex<NoatimeNode>,
}

/// Node whose times stand still.
#[derive(Debug)]
pub(crate) struct TimedNode {
    node: Arc<dyn Node>,
    /// Text of a symbolic link, once its last access time was to stand still.
    link_text: OnceLock<Vec<u8>>,
}

impl TimedNode {
    /// `link_text` is that of a symbolic link, if it is known.
    pub fn new(node: Arc<dyn Node>, link_text: Option<Vec<u8>>) -> Self {
        let link_text = link_text.map_or_else(OnceLock::new, OnceLock::from);
        Self { node, link_text }
    }
}

/// Node that the open reads by while it does not move the last access time.
#[derive(Debug, Default)]
enum NoatimeNode {
    /// The last access time may move.
    #[default]
    Unwanted,
    /// The next read opens it, charged to this account.
    Unopened(Option<Arc<LedgerAccount>>),
    /// The kernel refuses it to this process, or the backend has none.
    Refused,
    Opened {
        node: Arc<dyn Node>,
        _charge: Option<ResourceCharge>,
    },
}

/// Settings of the client and changes in flight.
#[derive(Debug, Default)]
pub(crate) struct TimeFreeze {
    accessed: bool,
    modified: bool,
    /// Whether the change time is frozen.
    pub changed: bool,
    /// Changes in flight that have not restored the change time yet.
    in_flight: u32,
    /// Changes in flight that also move the other times.
    data_in_flight: u32,
    /// Times before the first change in flight: a later one may read a time that it moved.
    before: TimesBefore,
}

/// Frozen times before a change; none for a time that may move.
#[derive(Clone, Copy, Debug, Default)]
struct TimesBefore {
    accessed: Option<Timestamp>,
    modified: Option<Timestamp>,
    changed: Option<Timestamp>,
}

impl TimesBefore {
    /// The same with the last access time of a write whose write time is restored: nothing else would
    /// show that write. None was made if the write time stands still.
    fn with_write_as_access(self, node: &dyn Node) -> Self {
        let (None, Some(before)) = (self.accessed, self.modified) else { return self };
        let Ok(present) = node.attributes(AttributeRequest::default()) else { return self };
        let wrote = present.modified != before && present.modified > present.accessed;
        Self { accessed: wrote.then_some(present.modified), ..self }
    }

    fn has_moved(&self, node: &dyn Node) -> bool {
        let Ok(present) = node.attributes(WANTED) else { return true };
        let moved = |before: Option<Timestamp>, now| before.is_some_and(|before| before != now);
        moved(self.accessed, present.accessed)
            || moved(self.modified, present.modified)
            || moved(self.changed, present.shown_changed())
    }

    fn restore(&self, node: &dyn Node) {
        let set = |t: Option<Timestamp>| t.map_or(TimeChange::Keep, TimeChange::Set);
        let changes = AttributeChanges {
            accessed: set(self.accessed),
            modified: set(self.modified),
            changed: self.changed,
            ..Default::default()
        };
        if let Err(error) = node.set_attributes(METADATA, &changes) {
            tracing::debug!(%error, "frozen times could not be restored");
        }
    }
}

impl TimeFreeze {
    /// The frozen times as bits; none if changes may move all of them.
    pub fn bits(&self) -> u8 {
        [(self.accessed, ACCESSED), (self.modified, MODIFIED), (self.changed, CHANGED)]
            .into_iter()
            .fold(0, |bits, (is_frozen, bit)| if is_frozen { bits | bit } else { bits })
    }

    /// Applies a client's setting while changes are in flight: they restore the times that it set.
    fn settle(&mut self, change: &BasicChange) {
        let settle = |slot: &mut bool, before: &mut Option<Timestamp>, setting| match setting {
            TimeSetting::Keep => {}
            TimeSetting::Thaw => (*slot, *before) = (false, None),
            TimeSetting::Freeze => *slot = true,
            TimeSetting::Set(to) => (*slot, *before) = (true, Some(to)),
        };
        settle(&mut self.accessed, &mut self.before.accessed, change.accessed);
        settle(&mut self.modified, &mut self.before.modified, change.modified);
        settle(&mut self.changed, &mut self.before.changed, change.changed);
    }

    /// The times that a change of this kind restores.
    fn before(&self, moved: MovedTimes) -> TimesBefore {
        match moved {
            MovedTimes::All => self.before,
            MovedTimes::Changed => {
                TimesBefore { changed: self.before.changed, ..TimesBefore::default() }
            }
        }
    }

    fn begin(&mut self, node: &dyn Node, moved: MovedTimes) -> Option<()> {
        let moves_data = moved == MovedTimes::All;
        if self.bits() == 0 || !(moves_data || self.changed) {
            return None;
        }
        let is_first = (self.in_flight == 0, moves_data && self.data_in_flight == 0);
        if is_first.0 || is_first.1 {
            // The change time that a client set is stored with the DOS attributes.
            let wanted = if self.changed { WANTED } else { AttributeRequest::default() };
            let present = node.attributes(wanted).ok()?;
            if is_first.0 {
                self.before.changed = self.changed.then(|| present.shown_changed());
            }
            if is_first.1 {
                self.before.accessed = self.accessed.then_some(present.accessed);
                self.before.modified = self.modified.then_some(present.modified);
            }
        }
        self.in_flight += 1;
        self.data_in_flight += u32::from(moves_data);
        Some(())
    }
}

/// A change in flight. Dropping it restores the times, with the server's authority: the change may
/// have taken the file from its owner, and freezing was authorized when it was requested.
#[derive(Debug)]
struct ChangeInFlight<'a> {
    times: &'a FrozenTimes,
    moved: MovedTimes,
    /// The change succeeded. One that failed may have moved a time, and restoring moves another.
    is_changed: bool,
}

impl Drop for ChangeInFlight<'_> {
    fn drop(&mut self) {
        let node = &**self.times.node();
        let mut settings = self.times.settings.lock();
        let before = settings.before(self.moved);
        if self.is_changed || before.has_moved(node) {
            let follows = self.times.writes_are_accesses && !settings.accessed;
            let restored = if follows { before.with_write_as_access(node) } else { before };
            restored.restore(node);
        }
        settings.in_flight = settings.in_flight.saturating_sub(1);
        let is_data = u32::from(self.moved == MovedTimes::All);
        settings.data_in_flight = settings.data_in_flight.saturating_sub(is_data);
    }
}

impl FrozenTimes {
    /// Of an open of `node`; `writes_are_accesses` says whether its writes move the last access time.
    pub fn new(node: Arc<dyn Node>, writes_are_accesses: bool) -> Self {
        Self {
            original: TimedNode::new(node, None),
            replacement: OnceLock::new(),
            writes_are_accesses,
            settings: Mutex::default(),
            noatime: Mutex::default(),
        }
    }

    fn present(&self) -> &TimedNode {
        self.replacement.get().unwrap_or(&self.original)
    }

    /// The node whose times stand still.
    pub fn node(&self) -> &Arc<dyn Node> {
        &self.present().node
    }

    /// Goes on with the node that has replaced the file under its name. Its times become those of the
    /// file, which had the attributes `present`, as far as they are frozen.
    pub fn redirect_to(&self, successor: TimedNode, present: &Attributes) {
        let settings = self.settings();
        let kept = TimesBefore {
            accessed: settings.accessed.then_some(present.accessed),
            modified: settings.modified.then_some(present.modified),
            changed: settings.changed.then(|| present.shown_changed()),
        };
        if settings.bits() != 0 {
            kept.restore(&*successor.node);
        }
        let _ = self.replacement.set(successor);
    }

    /// Locked while times are set and restored. Reads do not take this lock.
    pub fn settings(&self) -> MutexGuard<'_, TimeFreeze> {
        self.settings.lock()
    }

    /// Applies a client's setting, under the lock that [`FrozenTimes::settings`] returned.
    /// `account` is charged for the descriptor that reads with a frozen access time need.
    pub fn settle(
        &self,
        settings: &mut TimeFreeze,
        change: &BasicChange,
        account: impl FnOnce() -> Option<Arc<LedgerAccount>>,
    ) {
        settings.settle(change);
        let mut noatime = self.noatime.lock();
        if !settings.accessed {
            *noatime = NoatimeNode::Unwanted;
        } else if matches!(*noatime, NoatimeNode::Unwanted) {
            *noatime = NoatimeNode::Unopened(account());
        }
    }

    /// Text of the symbolic link `node`, if [`FrozenTimes::cache_link_text`] has read it. The file
    /// may have been replaced by another since.
    pub fn link_text(&self, node: &Arc<dyn Node>) -> Option<&Vec<u8>> {
        let present = self.present();
        present.link_text.get().filter(|_| Arc::ptr_eq(node, &present.node))
    }

    /// Reads the text of a symbolic link before its last access time stands still: readlink(2) has
    /// no O_NOATIME, and the text of a link never changes. Returns the time that this moved.
    pub fn cache_link_text(&self, caller: &Identity, present: &Attributes) -> Option<Timestamp> {
        let TimedNode { node, link_text } = self.present();
        if present.kind != FileKind::Symlink || link_text.get().is_some() {
            return None;
        }
        let text = node.readlink(caller.actor()).ok()?;
        let _ = link_text.set(text);
        let now = node.attributes(AttributeRequest::default()).ok()?;
        (now.accessed != present.accessed).then_some(present.accessed)
    }

    /// Runs a change by this open and restores the times that it moved. Only the backend call
    /// belongs into it, no wait: times that others move meanwhile are restored, too.
    fn keep<T, E>(
        &self,
        moved: MovedTimes,
        change: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let has_begun = self.settings().begin(&**self.node(), moved).is_some();
        let mut in_flight =
            has_begun.then(|| ChangeInFlight { times: self, moved, is_changed: false });
        let result = change();
        if let Some(in_flight) = &mut in_flight {
            in_flight.is_changed = result.is_ok();
        }
        result
    }

    /// The node for reads while the last access time is frozen; none if it cannot be had. No lock
    /// is held while it is opened. Only a refusal is final: descriptors may be free at the next
    /// read.
    pub fn noatime_node(&self) -> Option<Arc<dyn Node>> {
        let account = match &*self.noatime.lock() {
            NoatimeNode::Opened { node, .. } => return Some(node.clone()),
            NoatimeNode::Unwanted | NoatimeNode::Refused => return None,
            NoatimeNode::Unopened(account) => account.clone(),
        };
        // A further descriptor of the open; without one the shared descriptor serves.
        let mut charge = account.map(|account| account.force(0));
        charge.as_mut().map_or(Ok(()), |charge| charge.retry_resize(1)).ok()?;
        let opened: Result<Arc<dyn Node>> = match self.node().local_file() {
            Some(file) => file.noatime(ServerWork::Metadata),
            None => Err(FsError::NotSupported),
        };
        let mut noatime = self.noatime.lock();
        if matches!(*noatime, NoatimeNode::Unopened(_)) {
            match &opened {
                Ok(node) => {
                    *noatime = NoatimeNode::Opened { node: node.clone(), _charge: charge };
                }
                Err(FsError::AccessDenied | FsError::NotSupported) => {
                    *noatime = NoatimeNode::Refused;
                }
                Err(error) => tracing::debug!(%error, "a read moves the last access time"),
            }
        }
        opened.ok()
    }
}

/// As [`FrozenTimes::keep`], for an open that may have frozen no time.
pub(crate) fn keep_times<T, E>(
    times: Option<&Arc<FrozenTimes>>,
    moved: MovedTimes,
    change: impl FnOnce() -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    match times {
        Some(times) => times.keep(moved, change),
        None => change(),
    }
}
