//! Every limit of the client, with where it comes from.

use std::time::Duration;

/// Largest READ and WRITE asked of any server, in bytes.
pub const IO_BYTES_MAX: u32 = 8 * 1024 * 1024;

/// Room for headers, names and contexts around a payload.
pub const FRAME_OVERHEAD_BYTES: usize = 64 * 1024;

/// Largest frame taken from a server that has let us in.
pub const FRAME_BYTES_MAX: usize = IO_BYTES_MAX as usize + FRAME_OVERHEAD_BYTES;

/// Largest frame taken from a server before that: tokens and contexts.
pub const FRAME_BYTES_MAX_BEFORE_LOGON: usize = 128 * 1024;

/// What one credit pays for, in bytes. MS-SMB2 3.2.4.1.5.
pub const CREDIT_BYTES: usize = 64 * 1024;

/// Credits that one connection may come to hold: what servers grant at most.
pub const CREDITS_MAX: u32 = 8192;

/// Requests in one chain.
pub const CHAIN_MAX: usize = 8;

/// Legs of one logon; NTLM needs two.
pub const SET_UP_LEGS_MAX: u8 = 4;

/// Channels of one session.
pub const CHANNELS_MAX: usize = 32;

/// Interfaces that a server may list.
pub const INTERFACES_MAX: usize = 256;

/// How often a request is sent again after lost channels.
pub const REPLAYS_MAX: u32 = 8;

/// How long a file is tried again that the open of a lost connection forbids: until the server has
/// noticed, which takes as long as its disk does with what came before.
pub const LOST_OPEN_PATIENCE: Duration = Duration::from_secs(15);
/// Longest pause between two such tries.
pub const LOST_OPEN_PAUSE_MAX: Duration = Duration::from_millis(500);

/// How often, and how long apart, a replay is repeated while the server still
/// works on the first (STATUS_FILE_NOT_AVAILABLE).
pub const REPLAY_RETRIES_MAX: u32 = 100;
/// See [`REPLAY_RETRIES_MAX`].
pub const REPLAY_PAUSE: Duration = Duration::from_millis(50);

/// Tries to open a lost channel again, and the longest pause between two.
pub const REOPEN_TRIES_MAX: u32 = 20;
/// See [`REOPEN_TRIES_MAX`].
pub const REOPEN_PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long a session of NFS whose last connection was lost tries to get another one.
pub const REOPEN_WITHIN: Duration = Duration::from_secs(15);

/// How long an answer of NFS may take before its connection counts as lost, unless another is said:
/// as long as Linux waits.
pub const NFS_PATIENCE: Duration = Duration::from_secs(60);

/// How long connecting may take, and logging on after it.
pub const SET_UP_WITHIN: Duration = Duration::from_secs(20);

/// How long a further channel's set-up may take at the first try. A server may forget one of several
/// connections that come together and never answer it, as Samba does.
pub const BIND_WITHIN: Duration = Duration::from_secs(2);

/// Bytes of small frames received at once.
pub const RECEIVE_BYTES: usize = 256 * 1024;

/// A frame of at least this many bytes is received straight into its own buffer.
pub const LARGE_FRAME_BYTES: usize = 16 * 1024;

/// Data of a WRITE of at least this many bytes is sent from where it is.
pub const SHARED_BYTES_MIN: usize = 16 * 1024;

/// Buffers kept for reuse: of small frames, and bytes of those of large ones.
pub const SPARE_SMALL_MAX: usize = 1024;
/// See [`SPARE_SMALL_MAX`].
pub const SPARE_LARGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes asked for in one QUERY_DIRECTORY, and entries of one listing.
pub const LIST_BYTES: u32 = 1024 * 1024;
/// See [`LIST_BYTES`].
pub const LIST_ENTRIES_MAX: usize = 1 << 20;

/// Bytes of the largest security descriptor: an access list has 64 KiB.
pub const DESCRIPTOR_BYTES_MAX: u32 = 64 * 1024;

/// Frames that are verified together at most: as many as a processor's AES unit takes at once.
pub const VERIFIED_TOGETHER: usize = 8;

/// A server of this machine answers so soon, as long as it is not busy; it is asked so often.
pub const NEAR_WITHIN: Duration = Duration::from_millis(1);
/// See [`NEAR_WITHIN`].
pub const NEAR_TRIES: u32 = 4;
