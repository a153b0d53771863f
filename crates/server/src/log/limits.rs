//! Every limit of the log.

use std::time::Duration;

/// Period of the bounds below.
pub const PERIOD: Duration = Duration::from_mins(1);

/// Lines of one kind in a [`PERIOD`]: at 200 bytes per line at most 29 MB a day.
pub const LINES_OF_KIND_MAX: u32 = 100;

/// Lines of one kind about one client's network in a [`PERIOD`], so that one client cannot hide the
/// others.
pub const LINES_OF_PEER_MAX: u32 = 20;

/// Lines of one kind in a [`PERIOD`] at debug and trace levels, which an administrator enables for
/// diagnosis.
pub const DEBUG_LINES_MAX: u32 = 6000;

/// Lines of one kind in a [`PERIOD`] about a condition of the server: the first reports it, and the
/// count of the others follows.
pub const CONDITION_LINES_MAX: u32 = 1;

/// Queued lines.
pub const QUEUE_LINES_MAX: usize = 4096;

/// Bytes of queued lines.
pub const QUEUE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Time that the process waits for queued lines before it ends.
pub const FLUSH_WITHIN: Duration = Duration::from_secs(2);
