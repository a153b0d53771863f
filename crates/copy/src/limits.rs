//! Limits of a copy, with the arithmetic they come from.

/// Files of at most this many bytes are copied whole: one request reads, one writes.
pub const SMALL_BYTES_MAX: u64 = 512 * 1024;

/// Small files in flight for each thread.
pub const SMALL_FILES_EACH_THREAD: usize = 8;

/// Bytes of one block of a large file.
pub const BLOCK_BYTES: u32 = 1024 * 1024;

/// Blocks in flight for each thread, over all large files together.
///
/// With [`SMALL_FILES_EACH_THREAD`] this bounds the data in memory: 8 × 512 KiB and
/// 4 × 1 MiB are 8 MiB for each thread, 64 MiB with eight.
pub const BLOCKS_EACH_THREAD: usize = 4;

/// Blocks in flight where both ends are on this machine: few enough to stay in the CPU's cache, and
/// enough for a disk that serves several at a time.
pub const BLOCKS_NEAR: usize = 8;

/// Largest accepted number of threads.
pub const THREADS_MAX: usize = 128;

/// Directories listed at once, for each thread.
pub const LISTINGS_EACH_THREAD: usize = 1;

/// Files in the queue from which on no further directory is listed.
pub const WAITING_FILES_MAX: usize = 16_384;

/// Failures that the summary retains; all failures are counted.
pub const FAILURES_KEPT_MAX: usize = 1000;

/// How often the copy of a file that changes meanwhile starts over.
pub const CHANGED_TRIES_MAX: u32 = 2;

/// Bytes of a journal that are read: 24 for each MiB of 16 TiB.
pub const JOURNAL_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Deepest nesting of directories.
pub const DEPTH_MAX: usize = 256;

/// Ranges of data in one file with holes; one with more is copied whole.
pub const RANGES_MAX: usize = 1 << 20;

/// Chunks of one server-side copy request, and bytes of each. MS-SMB2 3.3.3.
pub const CHUNKS_MAX: u64 = 16;
/// See [`CHUNKS_MAX`].
pub const CHUNK_BYTES: u64 = 1024 * 1024;

/// Named streams of one file.
pub const STREAMS_MAX: usize = 1024;

/// Further sessions with one server, for small files; in Samba each is a process of its own.
pub const FURTHER_SESSIONS_MAX: usize = 7;

/// Small files found from which on further sessions are worth their logons.
pub const FURTHER_SESSIONS_FROM_FILES: u64 = 100;
