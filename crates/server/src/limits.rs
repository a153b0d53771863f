//! Every limit of the process around the protocols, with the arithmetic behind it.

use std::time::Duration;

/// Default limit of connections: each takes a descriptor, and the usual hard limit is half a
/// million.
pub const CONNECTIONS_MAX: usize = 100_000;

/// Descriptors of the process itself, besides those of workers and caches: listening sockets,
/// reactors, journals, logs and admin connections.
pub const DESCRIPTORS_OWN: u64 = 256;

/// Minimum number of descriptors for a start.
pub const DESCRIPTORS_MIN: u64 = 256;

/// Number of descriptors below which the server warns at the start.
pub const DESCRIPTORS_WANTED: u64 = 8192;

/// Nodes that the metadata cache of one share keeps open at most.
pub const KEPT_NODES_MAX: usize = 1024;

/// Connections of one address or IPv6 site: a terminal server has many users, a defective machine
/// has more. In addition one site may have as many as would remain free: half of all. With 11,000
/// connections that is 5,500 machines behind one translated address.
pub const CONNECTIONS_PER_SITE_MAX: usize = 20_000;

/// Connections of one address or IPv6 site without a logon. Each may hold
/// [`smb::limits::FRAME_BYTES_MAX_BEFORE_LOGIN`], so a site holds at most 128 MiB. A hundred
/// machines behind one address can log on at once with room to spare.
pub const UNKNOWN_PER_SITE_MAX: usize = 1024;

/// Connections that one address, site or user may always have, while any are free.
pub const CONNECTIONS_FLOOR: usize = 16;

/// Limit of connections without a logon: a sixteenth of `connections_max` is reserved for users.
/// Beyond it a new connection must displace another one without a logon; see
/// [`crate::conn::connections::ConnectionTable::enter`].
#[must_use]
pub fn unknown_max(connections_max: usize) -> usize {
    connections_max - connections_max / 16
}

/// Default time within which a connection must log on.
pub const LOGON_WITHIN: Duration = Duration::from_secs(30);

/// Largest configurable logon time.
pub const LOGON_WITHIN_MAX: Duration = Duration::from_mins(10);

/// Buffer size of one receive.
pub const RECEIVE_BYTES: usize = 64 * 1024;

/// Bytes of a frame that must arrive before it gets its own buffer: an announced length alone costs
/// the sender nothing.
pub const FRAME_PROOF_BYTES: usize = RECEIVE_BYTES / 4;

/// First buffer size of such a frame. Larger frames get more as they arrive.
pub const FRAME_STEP_BYTES: usize = 1024 * 1024 + RECEIVE_BYTES;

/// Receive buffers that one thread retains for reuse.
pub const SPARE_BUFFERS_MAX: usize = 8;

/// Length from which a frame has its own buffer. An equal buffer is prepared for the next frame, up
/// to [`FRAME_STEP_BYTES`], while the client sends.
pub const LARGE_FRAME_BYTES: usize = 256 * 1024;

/// Largest receive buffer that is retained.
pub const SPARE_BUFFER_BYTES_MAX: usize = 2 * RECEIVE_BYTES;

/// Default time after which a stalled client counts as gone. A client stalls if it does not
/// complete a frame within this time plus the length divided by [`FRAME_BYTES_PER_SECOND_MIN`]. It
/// also stalls if it takes no replies, or if its network acknowledges nothing. The time is longer than
/// the restart of a switch.
pub const STALL_WITHIN: Duration = Duration::from_mins(2);

/// Largest configurable stall time.
pub const STALL_WITHIN_MAX: Duration = Duration::from_hours(1);

/// Keep-alive probes after half of the stall time.
pub const KEEPALIVE_PROBES: u32 = 4;

/// Probe interval of a doubted connection.
pub const DOUBT_PROBES_EVERY: Duration = Duration::from_secs(1);

/// Time without confirmation after which a doubted connection ends; longer than any round trip.
pub const DOUBT_UNCONFIRMED: Duration = Duration::from_secs(2);

/// Duration of the doubt.
pub const DOUBT_LASTS: Duration = Duration::from_secs(5);

/// Slowest accepted transfer rate of a frame.
pub const FRAME_BYTES_PER_SECOND_MIN: usize = 16 * 1024;

/// Reusable buffers that a connection retains between two requests: enough for a burst of small
/// ones.
pub const PAUSE_BYTES_MAX: usize = 64 * 1024;

/// Time without a request after which a connection releases its buffers.
pub const IDLE_AFTER: Duration = Duration::from_secs(2);

/// Unsent replies of a connection above which it takes no more requests.
pub const OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Frames that are collected from the socket before the first is handled, if joint verification is
/// faster.
pub const GATHERED_FRAMES_MAX: usize = 8;
/// Bytes of such frames; the last frame may exceed it. See [`GATHERED_FRAMES_MAX`].
pub const GATHERED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Memory of all connections for requests in flight and their replies; see [`crate::conn::memory`]. One
/// user, or one address without a logon, may have as much as would remain free: 256 MiB. These are
/// 32 of the largest requests at once.
pub const MEMORY_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Configurable range in MiB.
pub const REQUEST_MEMORY_MIB: std::ops::RangeInclusive<u64> = 32..=1024 * 1024;

/// Memory that each holder may always have, while any is free: the largest request and the largest
/// reply.
pub const MEMORY_FLOOR_BYTES: u64 = 2 * smb::limits::FRAME_BYTES_MAX as u64;

/// Free allowance of each connection; 400 connections have 25 MiB.
pub const MEMORY_FREE_BYTES: usize = 64 * 1024;

/// Combined length up to which a request and its reply do not wait for memory. So a CLOSE or a
/// release on which others wait is always served.
pub const MEMORY_SMALL_BYTES: usize = 4 * 1024;

/// Replies in flight of one connection above which it takes no more requests: enough read-ahead for
/// a slow disk.
pub const ANSWERS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Time for which a connection handles requests that arrived together, or that workers completed
/// together. Then the other connections of its thread have their turn. A started request continues
/// to its next wait.
pub const TURN_MAX: Duration = Duration::from_millis(1);
/// Number of frames between two clock readings while frames are quick, and the time up to which a
/// frame is quick. A clock reading costs a hundredth of a small read.
pub const FRAMES_UNWATCHED: u32 = 7;
/// See [`FRAMES_UNWATCHED`].
pub const FRAMES_QUICK: Duration = Duration::from_micros(100);

/// Requests in flight of one connection above which it takes no more.
pub const JOBS_MAX: usize = 1024;

/// Calls in flight of one NFS connection above which it takes no more: all slots of several
/// sessions.
pub const NFS_JOBS_MAX: usize = 512;

/// Bytes of requests in flight of one connection above which it takes no more. A client whose large
/// requests wait for others, or for the limits of a share, must wait as well.
pub const JOBS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Time for clients to write their cached data before the server ends.
pub const FLUSH_WITHIN: Duration = Duration::from_secs(5);

/// Time for requests in flight to finish at the end of a connection.
pub const END_WITHIN: Duration = Duration::from_secs(10);

/// Characters of a path in the log.
pub const LOGGED_PATH_CHARS_MAX: usize = 256;

/// Characters of a client-chosen name in the log.
pub const LOGGED_NAME_CHARS_MAX: usize = 64;

/// Default number of threads for blocking calls: about the depth that keeps a disk array or a
/// network file system busy.
pub const WORKERS: usize = 64;

/// Largest configurable number of threads.
pub const WORKERS_MAX: usize = 4096;

/// Threads for syncs, besides the workers. One file system alone may use three quarters of them,
/// more than the number of its concurrent object syncs. Two hanging file systems leave some to a
/// third.
pub const SYNC_WORKERS: usize = 128;

/// Queued calls of all holders; further callers get an error.
pub const WORKER_QUEUE_MAX: usize = 64 * 1024;

/// Queued calls of one user, or of one address without a logon; fewer if fewer would remain free.
pub const WORKER_QUEUE_PER_HOLDER_MAX: usize = 16 * 1024;

/// Queued calls that each holder may always have, while there is room.
pub const WORKER_QUEUE_FLOOR: usize = 64;

/// Network interfaces of this machine that are examined.
pub const INTERFACES_MAX: usize = 4096;
/// Their addresses; see [`INTERFACES_MAX`].
pub const ADDRESSES_MAX: usize = 16 * 1024;

/// Interfaces that FSCTL_QUERY_NETWORK_INTERFACE_INFO returns: 152 bytes each, in the 64 KiB that
/// Windows allows for the reply.
pub const ADVERTISED_MAX: usize = 128;

// A client may fill the window with pending requests and must still be able to send the CANCEL of
// one.
const _: () = assert!(JOBS_MAX > smb::limits::ASYNC_REQUESTS_MAX);
// One request of the largest size can always be in flight.
const _: () = assert!(JOBS_BYTES_MAX > smb::limits::FRAME_BYTES_MAX);
const _: () = assert!(OUTPUT_BYTES_MAX > smb::limits::FRAME_BYTES_MAX);

/// Changes that one write of the journal combines.
pub const JOURNAL_BATCH_MAX: usize = 1024;

/// Bytes of replaced records in the journal, in excess of the size of the live ones.
pub const JOURNAL_WASTE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Size of the journal above which it is rewritten.
pub const JOURNAL_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Size of its live records: half, so that a rewrite always makes room.
pub const JOURNAL_LIVE_BYTES_MAX: u64 = JOURNAL_BYTES_MAX / 2;
// The quota of all users together is below this limit.
const _: () = assert!(smb::limits::PERSISTENT_BYTES_MAX < JOURNAL_LIVE_BYTES_MAX);

/// Size up to which a journal is read: one whose rewrite failed still accepts removals.
pub const JOURNAL_READ_BYTES_MAX: u64 = 2 * JOURNAL_BYTES_MAX;

/// Connections of one address or socket to the admin API: a page has six at most, a command has
/// one. A new one displaces the oldest without a valid token.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Connections of metrics collectors. A new one displaces the oldest.
pub const ADMIN_METRICS_CONNECTIONS_MAX: usize = 16;

/// Requests of the admin API that are processed at once; others wait.
pub const ADMIN_REQUESTS_MAX: usize = 8;

/// Bytes of a request head of the admin API.
pub const ADMIN_HEAD_BYTES_MAX: usize = 16 * 1024;

/// Header lines of a request.
pub const ADMIN_HEADERS_MAX: usize = 64;

/// Bytes of a request body.
pub const ADMIN_BODY_BYTES_MAX: usize = 16 * 1024;

/// Time for the head and then the body of a request to arrive, and for the client to take some of
/// the response.
pub const ADMIN_WITHIN: Duration = Duration::from_secs(15);

/// Items in one list of the admin API.
pub const ADMIN_ITEMS_MAX: usize = 1000;

/// Open files that are listed for one session.
pub const ADMIN_OPENS_MAX: usize = 100;

/// Maximum length of a token; its file may be hand-written.
pub const TOKEN_BYTES_MAX: usize = 256;

/// Minimum length of a token.
pub const TOKEN_BYTES_MIN: usize = 32;

/// Longest configurable time of a drain.
pub const DRAIN_WITHIN_MAX: Duration = Duration::from_hours(24);

/// Time after which host names in the configuration are resolved again; a reload also resolves
/// them. It matches usual DNS times to live, and a thousand names cost three look-ups a second.
pub const HOST_REFRESH: Duration = Duration::from_mins(5);

/// Time after a look-up that failed or found nothing.
pub const HOST_RETRY: Duration = Duration::from_secs(30);

/// Age up to which an answer counts while new look-ups fail; an older one is unknown.
pub const HOST_ANSWER_MAX_AGE: Duration = Duration::from_hours(1);

/// Host names in the configuration. Each look-up may take half a minute while servers are silent,
/// and two threads resolve them. With more names a refresh would not finish in that time.
pub const HOSTS_MAX: usize = 4096;

/// Netgroups in the configuration: a client that matches none is checked against all.
pub const NETGROUPS_MAX: usize = 256;

/// Time slice of one client's netgroup look-ups: three calls of a service that takes a second each.
/// A hanging call takes longer and blocks all other netgroups.
pub const NETGROUP_TURN: Duration = Duration::from_secs(3);

/// Client addresses whose names are cached, about 700 bytes each.
pub const CLIENT_NAMES_MAX: usize = 8192;

/// Cached addresses of one IPv6 site (an IPv4 address is a site), so that one site cannot evict all
/// others.
pub const CLIENT_NAMES_PER_SITE_MAX: usize = CLIENT_NAMES_MAX / 8;

/// Client addresses that wait for their look-up; further clients must retry.
pub const LOOKUPS_WAITING_MAX: usize = 1024;

/// Waiting addresses of one site: an IPv4 address, or an IPv6 /48, which has one owner.
pub const LOOKUPS_WAITING_PER_SITE: usize = 16;

/// Prefix length of such an IPv6 site.
pub const LOOKUP_SITE_BITS: u32 = 48;

/// Threads that resolve names of the configuration, and (on all but one) names of clients without a
/// matching entry. Each kind proceeds while the other times out.
pub const LOOKUP_THREADS: usize = 6;

/// Threads that resolve names of the configuration at once.
pub const HOST_LOOKUPS_MAX: usize = LOOKUP_THREADS / 3;

/// Threads that refresh clients with a matching entry; unknown clients never delay them.
pub const REFRESH_THREADS: usize = 2;

/// Threads that resolve clients of one site at once. Some remain besides the names of the
/// configuration and one slow site.
pub const LOOKUPS_PER_SITE: usize = LOOKUP_THREADS / 3;
const _: () = assert!(HOST_LOOKUPS_MAX + LOOKUPS_PER_SITE < LOOKUP_THREADS);

/// Refresh threads for one site.
pub const REFRESHES_PER_SITE: usize = REFRESH_THREADS / 2;

/// Time until a name or client without any answer counts as no match. A client that gets a retry
/// error repeats its request several times in that time.
pub const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Metadata connections of WS-Discovery, of all clients together. Explorer uses one for a moment.
pub const METADATA_CONNECTIONS_MAX: usize = 16;

/// Metadata connections of one address.
pub const METADATA_CONNECTIONS_OF_ADDRESS_MAX: usize = 4;

/// Time from the accept of a metadata connection to its close.
pub const METADATA_WITHIN: Duration = Duration::from_secs(10);

/// Maximum size of a metadata request's head: hyper's smallest buffer.
pub const METADATA_HEAD_BYTES_MAX: usize = 8192;

/// Maximum number of headers of a metadata request.
pub const METADATA_HEADERS_MAX: usize = 32;

/// Datagrams of one discovery socket that are handled before timers and other sockets.
pub const DISCOVERY_BURST: usize = 64;
