//! Every limit of the process around the protocols, with the arithmetic it
//! comes from.

use std::time::Duration;

/// Connections at once if nothing is said: each has a descriptor, and the
/// usual hard limit is half a million.
pub const CONNECTIONS_MAX: usize = 100_000;

/// Descriptors of the process itself, beside those of its workers and caches: listening sockets,
/// threads' queues, journals, logs, admin connections.
pub const DESCRIPTORS_OWN: u64 = 256;

/// A server does not start with fewer descriptors.
pub const DESCRIPTORS_MIN: u64 = 256;

/// With fewer descriptors it says so when it starts.
pub const DESCRIPTORS_WANTED: u64 = 8192;

/// Nodes that the metadata cache of one share keeps open at most.
pub const KEPT_NODES_MAX: usize = 1024;

/// Connections of one address or IPv6 site at once: a terminal server has many users, a
/// machine that goes wild has more. Beside this one site may have as many as would still be
/// free: half of all, and with 11,000 connections 5,500 machines behind one translated address.
pub const CONNECTIONS_PER_SITE_MAX: usize = 20_000;

/// Connections of one address or IPv6 site that nobody has logged on to. Each may hold
/// [`smb::limits::FRAME_BYTES_MAX_BEFORE_LOGIN`], so a site holds 128 MiB
/// at most; a hundred machines behind one address log on at once with room
/// to spare.
pub const UNKNOWN_PER_SITE_MAX: usize = 1024;

/// Connections that one address, site or user may have in any case, while there are any.
pub const CONNECTIONS_FLOOR: usize = 16;

/// Of `connections_max`, how many may be without a logon: a sixteenth is for users alone. More
/// come only in the place of others without a logon; see [`crate::connections::Connections::enter`].
#[must_use]
pub fn unknown_max(connections_max: usize) -> usize {
    connections_max - connections_max / 16
}

/// A connection must log on within this time, if nothing is said.
pub const LOGON_WITHIN: Duration = Duration::from_secs(30);

/// The longest time that the configuration may give.
pub const LOGON_WITHIN_MAX: Duration = Duration::from_mins(10);

/// Room for one receive.
pub const RECEIVE_BYTES: usize = 64 * 1024;

/// What must have arrived of a frame before it gets room of its own: a length
/// alone is a wish.
pub const FRAME_PROOF_BYTES: usize = RECEIVE_BYTES / 4;

/// Room that a frame gets then. Frames that are larger get more as they arrive.
pub const FRAME_STEP_BYTES: usize = 1024 * 1024 + RECEIVE_BYTES;

/// Receive buffers that one thread keeps for whoever wakes next.
pub const SPARE_BUFFERS_MAX: usize = 8;

/// From this length on a frame has a buffer of its own, and one is held ready for a
/// next one like it, up to [`FRAME_STEP_BYTES`]: only while the client sends.
pub const LARGE_FRAME_BYTES: usize = 256 * 1024;

/// The largest receive buffer that is kept.
pub const SPARE_BUFFER_BYTES_MAX: usize = 2 * RECEIVE_BYTES;

/// A client that stalls for this long is gone, if nothing is said: it has begun
/// a frame and does not finish it (within this time and what the length takes at
/// [`FRAME_BYTES_PER_SECOND_MIN`]), takes nothing of its answers, or its network
/// confirms nothing. Longer than a switch needs to start anew.
pub const STALL_WITHIN: Duration = Duration::from_mins(2);

/// The longest time that the configuration may give.
pub const STALL_WITHIN_MAX: Duration = Duration::from_hours(1);

/// Probes that a silent network is sent after half of the time to stall.
pub const KEEPALIVE_PROBES: u32 = 4;

/// How often the client of a doubted connection is asked whether it is there.
pub const DOUBT_PROBES_EVERY: Duration = Duration::from_secs(1);

/// A doubted connection ends that confirms nothing for so long; farther than any line is long.
pub const DOUBT_UNCONFIRMED: Duration = Duration::from_secs(2);

/// After this it is not doubted any more.
pub const DOUBT_LASTS: Duration = Duration::from_secs(5);

/// The slowest sender that is waited for.
pub const FRAME_BYTES_PER_SECOND_MIN: usize = 16 * 1024;

/// Buffers that a connection keeps between two requests: enough for a burst of
/// small ones.
pub const PAUSE_BYTES_MAX: usize = 64 * 1024;

/// After this long without a request a connection gives its buffers back.
pub const IDLE_AFTER: Duration = Duration::from_secs(2);

/// Answers that may wait for a slow reader before no more requests are taken.
pub const OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Frames, and bytes of frames, that are taken from the socket before the first is handled, where
/// several are verified in less time than one by one.
pub const GATHERED_FRAMES_MAX: usize = 8;
/// See [`GATHERED_FRAMES_MAX`]; passed by one frame at most.
pub const GATHERED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Memory of all connections together for requests that are half here or under way, and for answers
/// from when they are begun until they are taken; see [`crate::memory`]. One user, or one address
/// that nobody has logged on from, may have as much as would still be free: 256 MiB, which are 32 of the
/// largest requests at once.
pub const MEMORY_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// What the configuration may give, in MiB.
pub const REQUEST_MEMORY_MIB: std::ops::RangeInclusive<u64> = 32..=1024 * 1024;

/// What each of them may have in any case, while there is any: the largest request, and the largest
/// answer.
pub const MEMORY_FLOOR_BYTES: u64 = 2 * smb::limits::FRAME_BYTES_MAX as u64;

/// What one connection may have beside: 400 connections 25 MiB.
pub const MEMORY_FREE_BYTES: usize = 64 * 1024;

/// Requests and answers up to this length together do not wait for memory: closing and giving back
/// what others wait for is done in any case.
pub const MEMORY_SMALL_BYTES: usize = 4 * 1024;

/// Answers of one connection under way before no more requests are taken: enough to read ahead from
/// a disk that is far away.
pub const ANSWERS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How long a connection works through requests that have come together, or have been done together
/// by workers, before the other connections of its thread have their turn. A request that has begun
/// goes on to where it waits.
pub const TURN_MAX: Duration = Duration::from_millis(1);
/// Frames that are taken without a look at the clock once others were quick, and how long those took
/// that were: a look costs a hundredth of a small read.
pub const FRAMES_UNWATCHED: u32 = 7;
/// See [`FRAMES_UNWATCHED`].
pub const FRAMES_QUICK: Duration = Duration::from_micros(100);

/// Requests under way before no more are taken.
pub const JOBS_MAX: usize = 1024;

/// Calls of one NFS connection under way before no more are taken: all slots of some
/// sessions.
pub const NFS_JOBS_MAX: usize = 512;

/// Bytes of the requests of one connection that are under way before no more are taken: a client
/// that has many large ones wait for others, or for the limits of a share, waits to send more.
pub const JOBS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Before the server ends, clients have this long to write what they keep back.
pub const FLUSH_WITHIN: Duration = Duration::from_secs(5);

/// What is under way at the end of a connection may take this long.
pub const END_WITHIN: Duration = Duration::from_secs(10);

/// Characters of a path that the log shows.
pub const LOGGED_PATH_CHARS_MAX: usize = 256;

/// Characters of a name that a client made up, as the log shows it.
pub const LOGGED_NAME_CHARS_MAX: usize = 64;

/// Threads for calls that wait for a disk, if nothing is said: about what keeps
/// a disk array or a network file system busy.
pub const WORKERS: usize = 64;

/// The most threads that the configuration may give.
pub const WORKERS_MAX: usize = 4096;

/// Threads that sync for requests, beside the workers. One file system alone has three quarters of
/// them, more than it syncs objects at the same time; two that stand still leave some to a third.
pub const SYNC_WORKERS: usize = 128;

/// Calls that may wait in line for a worker; beyond it, callers are told that
/// there are too many.
pub const WORKER_QUEUE_MAX: usize = 64 * 1024;

/// Calls of one user, or of one address where nobody has logged on, that may wait in line for
/// a worker; fewer where fewer would still be free for others.
pub const WORKER_QUEUE_PER_HOLDER_MAX: usize = 16 * 1024;

/// Calls that each of them may have waiting in any case, while there is room in the line.
pub const WORKER_QUEUE_FLOOR: usize = 64;

/// Network interfaces and addresses of this machine that are looked at.
pub const INTERFACES_MAX: usize = 4096;
/// See [`INTERFACES_MAX`].
pub const ADDRESSES_MAX: usize = 16 * 1024;

/// Addresses that clients are told: of 152 bytes each, in the 64 KiB that
/// Windows gives the answer.
pub const ADVERTISED_MAX: usize = 128;

// A client may fill the window with requests that wait, and must still be
// able to send the CANCEL that ends one.
const _: () = assert!(JOBS_MAX > smb::limits::ASYNC_REQUESTS_MAX);
// One request of the largest size can always be under way.
const _: () = assert!(JOBS_BYTES_MAX > smb::limits::FRAME_BYTES_MAX);
const _: () = assert!(OUTPUT_BYTES_MAX > smb::limits::FRAME_BYTES_MAX);

/// Changes that one write of the journal takes together.
pub const JOURNAL_BATCH_MAX: usize = 1024;

/// Bytes of the journal that may be of records that were replaced, beside as
/// many as there are of others.
pub const JOURNAL_WASTE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Bytes of the journal: beyond them it is made shorter before more is written.
pub const JOURNAL_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Bytes of its records: half, so that making it shorter always makes room.
pub const JOURNAL_LIVE_BYTES_MAX: u64 = JOURNAL_BYTES_MAX / 2;
// Users may have less than there is room for.
const _: () = assert!(smb::limits::PERSISTENT_BYTES_MAX < JOURNAL_LIVE_BYTES_MAX);

/// Bytes of a journal that is read: one that could not be made shorter goes on taking removals.
pub const JOURNAL_READ_BYTES_MAX: u64 = 2 * JOURNAL_BYTES_MAX;

/// Connections of one address or socket of the admin API at once: a page has six at most, a
/// command one. The oldest that has shown no token makes room for a new one.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Those of them that ask for metrics alone: a few collectors. The oldest makes room for the next.
pub const ADMIN_METRICS_CONNECTIONS_MAX: usize = 16;

/// Requests of the admin API that are looked into at once; the others wait.
pub const ADMIN_REQUESTS_MAX: usize = 8;

/// Bytes of the head of a request to the admin API.
pub const ADMIN_HEAD_BYTES_MAX: usize = 16 * 1024;

/// Lines of that head.
pub const ADMIN_HEADERS_MAX: usize = 64;

/// Bytes of what such a request brings.
pub const ADMIN_BODY_BYTES_MAX: usize = 16 * 1024;

/// How long the head and then the rest of such a request may take to arrive, and how long
/// an answer waits for its reader to take something of it.
pub const ADMIN_WITHIN: Duration = Duration::from_secs(15);

/// Items of one list that the admin API gives.
pub const ADMIN_ITEMS_MAX: usize = 1000;

/// Open files that are shown of one session.
pub const ADMIN_OPENS_MAX: usize = 100;

/// Characters of a token, at most: its file may have been written by hand.
pub const TOKEN_BYTES_MAX: usize = 256;

/// Characters of a token, at least.
pub const TOKEN_BYTES_MIN: usize = 32;

/// The longest time that clients are waited for before a shutdown.
pub const DRAIN_WITHIN_MAX: Duration = Duration::from_hours(24);

/// The addresses of a host that the configuration names are looked up again after this time, and at
/// each reload: a name service that changes counts as soon as its usual times to live, and a thousand
/// names cost three look-ups a second.
pub const HOST_REFRESH: Duration = Duration::from_mins(5);

/// The same after a look-up that failed or found nothing.
pub const HOST_RETRY: Duration = Duration::from_secs(30);

/// An answer of the name services counts for so long while new ones fail; then nothing is known.
pub const HOST_ANSWER_MAX_AGE: Duration = Duration::from_hours(1);

/// Hosts that the configuration may name. Each look-up may take half a minute where servers are
/// silent, and two threads look up: with more, a refresh would not end in that time.
pub const HOSTS_MAX: usize = 4096;

/// Netgroups that the configuration may name: a client that none of them has reaches all.
pub const NETGROUPS_MAX: usize = 256;

/// The time of one client's turn with its netgroups, after which others have theirs: three calls of a
/// service that takes a second each. A call that hangs takes longer, and all other netgroups wait.
pub const NETGROUP_TURN: Duration = Duration::from_secs(3);

/// Client addresses whose names are remembered, some 700 bytes each.
pub const CLIENT_NAMES_MAX: usize = 8192;

/// Of these, addresses of one IPv6 site (an IPv4 address is a site): it has more than anybody counts,
/// and must not drive out all others.
pub const CLIENT_NAMES_PER_SITE_MAX: usize = CLIENT_NAMES_MAX / 8;

/// Client addresses that wait for their look-up; more are asked to come again.
pub const LOOKUPS_WAITING_MAX: usize = 1024;

/// Of those, the ones of one site: an IPv4 address, or a /48 of IPv6, which one owner has.
pub const LOOKUPS_WAITING_PER_SITE: usize = 16;

/// Bits of an IPv6 address that such a site has in common.
pub const LOOKUP_SITE_BITS: u32 = 48;

/// Threads that look up names of the configuration, and clients that no entry by name is for yet, on all
/// but one: each kind gets its turn while the other times out.
pub const LOOKUP_THREADS: usize = 6;

/// Of those, the ones for names of the configuration at once.
pub const HOST_LOOKUPS_MAX: usize = LOOKUP_THREADS / 3;

/// Threads that look up clients again that an entry by name is for: strangers never hold them up.
pub const REFRESH_THREADS: usize = 2;

/// Of the threads for clients, the ones that one site may have at once: some are left beside the names
/// of the configuration and one slow site.
pub const LOOKUPS_PER_SITE: usize = LOOKUP_THREADS / 3;
const _: () = assert!(HOST_LOOKUPS_MAX + LOOKUPS_PER_SITE < LOOKUP_THREADS);

/// The same of the threads that look up again.
pub const REFRESHES_PER_SITE: usize = REFRESH_THREADS / 2;

/// A name or a client without any answer is waited for so long; then it is no match. A client that is
/// told to come again does so some times in that time.
pub const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(15);
