//! Changes of named streams: told of the name of their file, with their own.
//! MS-FSA 2.1.5.1.1, 2.1.5.4, 2.1.5.5, 2.1.5.15.11.1.

use super::{ChangeKind, Filter};
use crate::OpenFile;
use vfs::StreamName;

/// The kinds of changes that are of a stream and not of its file.
const OF_STREAMS: u32 = Filter::STREAM_NAME.0 | Filter::STREAM_SIZE.0 | Filter::STREAM_WRITE.0;

impl OpenFile {
    /// As what a change of the open data is watched for. The time of the last
    /// write is the file's, whichever of its streams was written.
    pub(crate) fn data_filter(&self) -> Filter {
        match self.name.stream {
            Some(_) => Filter::STREAM_SIZE | Filter::STREAM_WRITE | Filter::LAST_WRITE,
            None => Filter::SIZE | Filter::LAST_WRITE,
        }
    }

    /// The same for its length alone.
    pub(crate) fn size_filter(&self) -> Filter {
        if self.name.stream.is_some() { Filter::STREAM_SIZE } else { Filter::SIZE }
    }

    /// Tells what of a change is the open stream's; what is left is the file's.
    pub(super) fn tell_of_stream(&self, what: Filter) -> Filter {
        let of_stream = Filter(what.0 & OF_STREAMS);
        if let Some(stream) = self.stream().filter(|_| of_stream != Filter::default()) {
            self.report_streams(of_stream, &[(ChangeKind::ModifiedStream, &stream)]);
        }
        Filter(what.0 & !OF_STREAMS)
    }

    /// Tells what this open did to named streams of its file.
    pub(crate) fn report_streams(&self, what: Filter, changes: &[(ChangeKind, &StreamName)]) {
        let (watches, vfs) = (&self.table.watches, &self.volume().vfs);
        if !watches.is_empty() {
            watches.report_streams(vfs, Some(&self.caller), what, &self.path(), changes);
        }
    }
}
