//! All limits of the client, with their derivation.

use std::time::Duration;

/// Maximum length of a READ and WRITE, in bytes.
pub const IO_BYTES_MAX: u32 = 8 * 1024 * 1024;

/// Space for headers, names and contexts around a payload.
pub const FRAME_OVERHEAD_BYTES: usize = 64 * 1024;

/// Maximum frame length after logon.
pub const FRAME_BYTES_MAX: usize = IO_BYTES_MAX as usize + FRAME_OVERHEAD_BYTES;

/// Maximum frame length before logon: tokens and contexts.
pub const FRAME_BYTES_MAX_BEFORE_LOGON: usize = 128 * 1024;

/// Payload per credit, in bytes. MS-SMB2 3.2.4.1.5.
pub const CREDIT_BYTES: usize = 64 * 1024;

/// Maximum number of credits per connection: the most that servers grant.
pub const CREDITS_MAX: u32 = 8192;

/// Maximum number of requests per chain.
pub const CHAIN_MAX: usize = 8;

/// Maximum number of SESSION_SETUP round trips per logon; NTLM needs two.
pub const SET_UP_LEGS_MAX: u8 = 4;

/// Maximum number of channels per session.
pub const CHANNELS_MAX: usize = 32;

/// Maximum number of interfaces in a server's list.
pub const INTERFACES_MAX: usize = 256;

/// Maximum number of replays of a request after lost channels.
pub const REPLAYS_MAX: u32 = 8;

/// How long the client retries a file whose open from a lost connection causes sharing violations.
/// The server needs time to notice the loss, as long as its disk takes for the preceding work.
pub const LOST_OPEN_PATIENCE: Duration = Duration::from_secs(15);
/// Maximum pause between two such attempts.
pub const LOST_OPEN_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Number of replays while the server still executes the first transmission
/// (STATUS_FILE_NOT_AVAILABLE), and the pause between them.
pub const REPLAY_RETRIES_MAX: u32 = 100;
/// See [`REPLAY_RETRIES_MAX`].
pub const REPLAY_PAUSE: Duration = Duration::from_millis(50);

/// Number of attempts to reopen a lost channel, and the maximum pause between them.
pub const REOPEN_TRIES_MAX: u32 = 20;
/// See [`REOPEN_TRIES_MAX`].
pub const REOPEN_PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long an NFS session without connections tries to open one.
pub const REOPEN_WITHIN: Duration = Duration::from_secs(15);

/// Default timeout of an NFS reply, after which the connection counts as lost: that of Linux.
pub const NFS_PATIENCE: Duration = Duration::from_secs(60);

/// Timeout of connecting, and of the logon after it.
pub const SET_UP_WITHIN: Duration = Duration::from_secs(20);

/// Timeout of a further channel's first set-up attempt. A server may drop one of several concurrent
/// connections and never answer it, as Samba does.
pub const BIND_WITHIN: Duration = Duration::from_secs(2);

/// Buffer for receiving small frames, in bytes.
pub const RECEIVE_BYTES: usize = 256 * 1024;

/// Minimum length of a frame that is received into a buffer of its own.
pub const LARGE_FRAME_BYTES: usize = 16 * 1024;

/// Minimum length of a WRITE's data that is sent without a copy.
pub const SHARED_BYTES_MIN: usize = 16 * 1024;

/// Limits of the buffer pool: number of small buffers, and total bytes of large ones.
pub const SPARE_SMALL_MAX: usize = 1024;
/// See [`SPARE_SMALL_MAX`].
pub const SPARE_LARGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Limits of a listing: bytes per QUERY_DIRECTORY, and entries in total.
pub const LIST_BYTES: u32 = 1024 * 1024;
/// See [`LIST_BYTES`].
pub const LIST_ENTRIES_MAX: usize = 1 << 20;

/// Maximum length of a security descriptor: an ACL has 64 KiB.
pub const DESCRIPTOR_BYTES_MAX: u32 = 64 * 1024;

/// Maximum number of frames verified in one batch: what a CPU's AES unit processes in parallel.
pub const VERIFIED_TOGETHER: usize = 8;

/// Response time within which a server counts as local, and the number of probes. An idle server on
/// this machine is faster.
pub const NEAR_WITHIN: Duration = Duration::from_millis(1);
/// See [`NEAR_WITHIN`].
pub const NEAR_TRIES: u32 = 4;
