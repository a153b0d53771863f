//! Every limit of the log.

use std::time::Duration;

/// For the bounds on lines below.
pub const PERIOD: Duration = Duration::from_mins(1);

/// Lines of one kind in a [`PERIOD`]: with 200 bytes a line a kind fills 29 MB a day at most.
pub const LINES_OF_KIND_MAX: u32 = 100;

/// Lines of one kind about one client's network in a [`PERIOD`], so that one client cannot use
/// up what shows the others.
pub const LINES_OF_PEER_MAX: u32 = 20;

/// Lines of one kind in a [`PERIOD`] of the levels that are off unless an administrator looks
/// for something.
pub const DEBUG_LINES_MAX: u32 = 6000;

/// Lines of one kind in a [`PERIOD`] about a condition of the server: the first says it, and the
/// count of the others follows.
pub const CONDITION_LINES_MAX: u32 = 1;

/// Lines that wait to be written.
pub const QUEUE_LINES_MAX: usize = 4096;

/// Bytes of the lines that wait to be written.
pub const QUEUE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long the end of the process waits for lines to be written.
pub const FLUSH_WITHIN: Duration = Duration::from_secs(2);
