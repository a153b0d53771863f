//! Kinds of changes that a write reports to watches. The end of the file decides whether its size
//! changes.

use super::change::WatchFilter;
use super::data::DataReports;
use crate::OpenFile;
use std::sync::atomic::Ordering;
use vfs::AttributeRequest;

/// Kinds of changes that a write causes, as far as they are known before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteKinds {
    all: WatchFilter,
    size: WatchFilter,
    /// Whether the write goes beyond the end of the file, or the size was not read.
    may_grow: bool,
    /// The file's count of size changes, read before its size.
    length_changes: u32,
}

impl WriteKinds {
    /// The kinds after the write, given the file's count of size changes then. If another request
    /// has changed the size meanwhile, the write may have changed it back. A superfluous size
    /// report is preferred to a missing one.
    fn after(self, length_changes: u32) -> WatchFilter {
        let changes_size = self.may_grow || self.length_changes != length_changes;
        if changes_size { self.all } else { WatchFilter(self.all.0 & !self.size.0) }
    }
}

impl OpenFile {
    /// Kinds that a write causes. A size change is reported only if the write grows the file; the
    /// size is read only for a watched file. Call it before the write.
    pub(crate) fn write_kinds(&self, offset: u64, length_bytes: u64) -> WriteKinds {
        // Read before the size.
        let length_changes = self.state.length_changes.load(Ordering::Acquire);
        let end = offset.saturating_add(length_bytes);
        let size =
            || self.node.attributes(AttributeRequest::default()).map(|present| present.size_bytes);
        let may_grow = !self.is_watched() || size().map_or(true, |size| end > size);
        let (all, size) = (self.data_filter(), self.size_filter());
        WriteKinds { all, size, may_grow, length_changes }
    }

    /// Kinds of a completed write.
    pub(crate) fn kinds_after(&self, kinds: WriteKinds) -> WatchFilter {
        kinds.after(self.state.length_changes.load(Ordering::Acquire))
    }

    /// Counts a size change. It precedes the report, so that a concurrent write sees the count or
    /// completes before the report.
    pub(crate) fn note_length_change(&self, what: WatchFilter) {
        if what.intersects(self.size_filter()) {
            self.state.length_changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Reports kinds of data changes by this open's writes: now or with the next tick.
    pub(crate) fn report_kinds(&self, what: WatchFilter) {
        let new = || DataReports::new(self.name.clone(), self.caller.clone());
        let reports = self.data_reports().get_or_init(new);
        reports.add(what);
        self.table.watches.report_data(reports);
    }

    /// Takes the kinds that wait for the tick, which the caller reports.
    pub(crate) fn take_deferred_kinds(&self) -> WatchFilter {
        self.known_data_reports().map_or(WatchFilter::default(), |reports| reports.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Access, Caller, Files, IfExists, IfMissing, Inline, OpenPlan, RequestedKind, Semantics,
        Volume, VolumeOptions,
    };
    use grants::ShareMode;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};
    use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
    use vfs::{Identity, Name, RelPath};

    #[test]
    fn size_truncated_during_write_is_reported_after_it() {
        let all = WatchFilter::SIZE | WatchFilter::LAST_WRITE;
        let within =
            WriteKinds { all, size: WatchFilter::SIZE, may_grow: false, length_changes: u32::MAX };
        assert_eq!(within.after(u32::MAX), WatchFilter::LAST_WRITE);
        // A SET_INFO truncated the file and reported it, and the write restored the size.
        assert_eq!(within.after(0), all);
        let beyond = WriteKinds { may_grow: true, ..within };
        assert_eq!(beyond.after(u32::MAX), all);
    }

    /// The other open's write may have put the length back that the truncation took.
    #[test]
    fn truncating_open_during_a_write_counts_as_change_of_size() {
        let clock = Arc::new(StillClock::default());
        let vfs = Arc::new(MemoryVfs::new(MemoryOptions::default(), clock));
        let volume = Arc::new(Volume::new(vfs, VolumeOptions::default()));
        let files = Arc::new(Files::new(Arc::new(Inline))).for_server();
        let caller = Arc::new(Caller::of(Identity { uid: 0, gid: 0, groups: Vec::new() }));
        let open = |if_exists, semantics| {
            let plan = OpenPlan {
                path: RelPath::root().join(&Name::new(*b"f").unwrap()),
                if_exists,
                if_missing: IfMissing::Create,
                kind: RequestedKind::File,
                semantics,
                ..OpenPlan::posix(Access::READ_DATA | Access::WRITE_DATA, ShareMode::ALL)
            };
            let mut opening = std::pin::pin!(files.open(&volume, &caller, plan));
            match opening.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(opened) => opened.unwrap().open,
                Poll::Pending => panic!("nobody holds it"),
            }
        };
        let writer = open(IfExists::Open, Semantics::Windows);
        for (if_exists, semantics) in [
            (IfExists::Overwrite, Semantics::Windows),
            (IfExists::Supersede, Semantics::Windows),
            (IfExists::Overwrite, Semantics::Posix),
        ] {
            let kinds = writer.write_kinds(0, 5);
            let within = WriteKinds { may_grow: false, ..kinds };
            assert_eq!(writer.kinds_after(within), WatchFilter::LAST_WRITE);
            open(if_exists, semantics);
            assert_eq!(writer.kinds_after(within), WatchFilter::SIZE | WatchFilter::LAST_WRITE);
        }
    }
}
