//! Changes of named streams, reported with the name of the file and that of the stream. MS-FSA
//! 2.1.5.1.1, 2.1.5.4, 2.1.5.5, 2.1.5.15.11.1.

use super::index::Watches;
use super::{ChangeAction, WatchFilter};
use crate::open_name::OpenName;
use crate::{Caller, OpenFile};
use vfs::StreamName;

/// Kinds of changes that concern a stream and not its file.
const OF_STREAMS: u32 =
    WatchFilter::STREAM_NAME.0 | WatchFilter::STREAM_SIZE.0 | WatchFilter::STREAM_WRITE.0;

impl Watches {
    /// Reports changes by `by` to the file or stream that is open by `name`: stream kinds for the
    /// stream, the others for its file. Returns the work in watches.
    pub(super) fn report_change(&self, name: &OpenName, by: &Caller, what: WatchFilter) -> usize {
        if self.is_empty() {
            return 0;
        }
        let (of_stream, of_file) =
            (WatchFilter(what.0 & OF_STREAMS), WatchFilter(what.0 & !OF_STREAMS));
        let (vfs, path) = (&name.volume.vfs, name.path());
        let mut work = 0;
        if let Some(stream) = name.stream.as_ref().filter(|_| of_stream != WatchFilter::default()) {
            let changes = [(ChangeAction::ModifiedStream, &stream.name())];
            work += self.report_streams(vfs, Some(by), of_stream, &path, &changes);
        }
        if of_file != WatchFilter::default() {
            work += self.report(vfs, Some(by), of_file, &[(ChangeAction::Modified, &path)]);
        }
        work
    }
}

impl OpenFile {
    /// Kinds that a change of the open data causes. The last write time belongs to the file,
    /// whichever stream was written.
    pub(crate) fn data_filter(&self) -> WatchFilter {
        match self.name.stream {
            Some(_) => {
                WatchFilter::STREAM_SIZE | WatchFilter::STREAM_WRITE | WatchFilter::LAST_WRITE
            }
            None => WatchFilter::SIZE | WatchFilter::LAST_WRITE,
        }
    }

    /// The kind for its size alone.
    pub(crate) fn size_filter(&self) -> WatchFilter {
        if self.name.stream.is_some() { WatchFilter::STREAM_SIZE } else { WatchFilter::SIZE }
    }

    /// Reports changes by this open to named streams of its file.
    pub(crate) fn report_streams(
        &self,
        what: WatchFilter,
        changes: &[(ChangeAction, &StreamName)],
    ) {
        let (watches, vfs) = (&self.table.watches, &self.volume().vfs);
        if !watches.is_empty() {
            watches.report_streams(vfs, Some(&self.caller), what, &self.path(), changes);
        }
    }
}
