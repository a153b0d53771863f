//! All limits of the protocol layer, with the arithmetic behind them.

use std::time::Duration;

/// Largest READ, WRITE and QUERY payload of dialects with LARGE_MTU, in bytes.
pub const IO_BYTES_MAX: u32 = 8 * 1024 * 1024;

/// The same for dialect 2.0.2, where one credit covers one request of 64 KiB.
pub const IO_BYTES_MAX_SMALL: u32 = 64 * 1024;

/// Room for headers, names and contexts around a payload, in bytes.
pub const FRAME_OVERHEAD_BYTES: usize = 64 * 1024;

/// Largest frame of a connection with a session, in bytes.
pub const FRAME_BYTES_MAX: usize = IO_BYTES_MAX as usize + FRAME_OVERHEAD_BYTES;

/// Largest frame before logon, in bytes: a SESSION_SETUP with a Kerberos ticket and a large PAC
/// (MaxTokenSize on Windows is 48,000 bytes).
pub const FRAME_BYTES_MAX_BEFORE_LOGIN: usize = 128 * 1024;

/// Credits that one connection may hold; Samba and Windows grant as many.
pub const CREDITS_MAX: u16 = 8192;

/// Credits that one connection may hold while the limits of a share delay its requests: enough for
/// two of the largest requests.
pub const CREDITS_WHILE_THROTTLED: u16 = 256;
const _: () = assert!(CREDITS_WHILE_THROTTLED as u32 * 65_536 >= 2 * IO_BYTES_MAX);

/// Requests in one compound.
pub const COMPOUND_REQUESTS_MAX: usize = 64;
/// Requests of a compound for which room is allocated at once: CREATE, a query and CLOSE.
pub const COMPOUND_REQUESTS_USUAL: usize = 3;

/// Pending requests of one connection (locks, change notifications). Windows grants 512 credits for
/// them and reserves one.
pub const ASYNC_REQUESTS_MAX: usize = 511;

/// CANCELs of one connection that are retained for requests which do not wait yet. More than the
/// requests that other threads process at once.
pub const EARLY_CANCELS_MAX: usize = 32;

/// CREATEs of one session that continue after the loss of their channel.
pub const ORPHANS_PER_SESSION_MAX: usize = ASYNC_REQUESTS_MAX;

/// Sessions on one connection (MS-SMB2 sets none; a terminal server needs some).
pub const SESSIONS_PER_CONNECTION_MAX: usize = 1024;

/// SESSION_SETUP exchanges in progress on one connection.
pub const SETUPS_PER_CONNECTION_MAX: usize = 64;

/// Tree connects of one session.
pub const TREES_PER_SESSION_MAX: usize = 65_535;

/// Opens of one session.
pub const OPENS_PER_SESSION_MAX: usize = 1 << 20;

/// Opens that the end of a tree or session closes before it waits for stable removals. Their
/// directories stay open until then.
pub const REMOVALS_PER_BATCH_MAX: usize = 64;

/// Bytes of one security token in SESSION_SETUP.
pub const TOKEN_BYTES_MAX: usize = 64 * 1024;

/// Entries in each of the three tables of failed logons: by account, by network and by both. Less
/// than a megabyte each.
pub const THROTTLE_ENTRIES_MAX: usize = 10_000;

/// Pairs of an account and a network of earlier successful logons.
pub const USUAL_NETWORKS_MAX: usize = 10_000;

/// The latest usual networks of one account: more than a person uses.
pub const USUAL_NETWORKS_PER_ACCOUNT: usize = 64;

/// Lifetime of a usual network after the account's last logon from it: longer than holidays.
pub const USUAL_NETWORK_LIFETIME: Duration = Duration::from_hours(30 * 24);

/// Password logons that wait for verification: of one account from one network, of a network (IPv6:
/// a /64), at one account, and in all. Each holds a message of at most [`WAITING_SETUP_BYTES_MAX`].
///
/// The bound exceeds the verifications during one delay. Otherwise the client that is quickest to
/// take each freed entry would have them all.
pub const WAITING_LOGONS_PER_PAIR: usize = 64;
/// Queue position up to which an attempt is verified within [`LOGON_WAIT_MAX`], at a delay of one
/// second each.
pub const WAITING_LOGONS_IN_ORDER: usize = 13;
/// Waiting password logons of one connection, at any account.
pub const WAITING_LOGONS_PER_CONNECTION: usize = 4;
/// See [`WAITING_LOGONS_PER_PAIR`].
pub const WAITING_LOGONS_PER_NETWORK: usize = 64;
/// See [`WAITING_LOGONS_PER_PAIR`].
pub const WAITING_LOGONS_PER_ACCOUNT: usize = 64;
/// See [`WAITING_LOGONS_PER_PAIR`].
pub const WAITING_LOGONS_MAX: usize = 1024;

/// Kerberos tickets in verification, in all and of one network. A whole office behind one address
/// may reconnect at once. A ticket has at most [`TOKEN_BYTES_MAX`].
pub const WAITING_TICKETS_MAX: usize = 1024;
/// See [`WAITING_TICKETS_MAX`].
pub const WAITING_TICKETS_PER_NETWORK: usize = 256;

/// Longest wait of such an attempt: shorter than the response timeout of clients and than the logon
/// timeout of a connection.
pub const LOGON_WAIT_MAX: Duration = Duration::from_secs(15);

/// Longest wait of a TREE_CONNECT for the client's host name: shorter than the response timeout of
/// clients.
pub const NAME_WAIT_MAX: Duration = Duration::from_secs(15);

/// Poll interval of that wait: a name service answers within milliseconds, or within seconds.
pub const NAME_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waiting SESSION_SETUPs of one connection.
pub const WAITING_SETUPS_PER_CONNECTION: usize = 8;

/// Size of a SESSION_SETUP that waits for password verification, in bytes. An NTLM proof repeats
/// the server's names and a few of the client's.
pub const WAITING_SETUP_BYTES_MAX: usize = 16 * 1024;

/// Spare response buffers of one connection, and the largest one retained.
pub const SPARE_BUFFERS_MAX: usize = 64;
/// See [`SPARE_BUFFERS_MAX`].
pub const SPARE_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Size of a response without data, in bytes: a header and the body of most commands. Allocated at
/// once.
pub const RESPONSE_BYTES_USUAL: usize = 256;

/// Smallest plain READ that uses `sendfile`, in bytes. Below it two system calls cost more than the
/// copy.
pub const SENDFILE_BYTES_MIN: usize = 16 * 1024;

/// Bytes of queued responses at which they are sent before the next request is handled.
pub const TRANSMIT_EARLY_BYTES: usize = 256 * 1024;

/// Responses that are signed in one batch: as many as the CPU's AES unit interleaves.
pub const SIGNATURES_PER_BATCH: usize = 8;

/// Chunks of one server-side copy, bytes of a chunk and of all chunks (MS-SMB2 3.3.3: the defaults
/// of Windows).
pub const COPY_CHUNKS_MAX: u32 = 256;
/// See [`COPY_CHUNKS_MAX`].
pub const COPY_CHUNK_BYTES_MAX: u32 = 1024 * 1024;
/// See [`COPY_CHUNKS_MAX`].
pub const COPY_TOTAL_BYTES_MAX: u32 = 16 * 1024 * 1024;

/// Ranges of one FSCTL_FILE_LEVEL_TRIM: 64 KiB of them.
pub const TRIM_RANGES_MAX: u32 = 4096;

/// Elements of one LOCK request (MS-SMB2 sets none; Windows refuses more).
pub const LOCKS_PER_REQUEST_MAX: usize = 4096;

const _: () = assert!(FRAME_BYTES_MAX < (1 << 24), "the direct-TCP length field has 24 bits");
const _: () =
    assert!(IO_BYTES_MAX / 65_536 <= CREDITS_MAX as u32, "the largest request must be affordable");

/// Default channels of one session: more add little speed.
pub const CHANNELS_PER_SESSION: usize = 4;

/// Largest configurable number of channels, as on Windows.
pub const CHANNELS_PER_SESSION_MAX: usize = 32;

/// Reconnect timeout of a durable open of version 1.
pub const DURABLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Reconnect timeout of a durable open of version 2: the default, and the maximum. Windows and
/// Samba use the same.
pub const DURABLE_V2_TIMEOUT: Duration = Duration::from_mins(1);
/// See [`DURABLE_V2_TIMEOUT`].
pub const DURABLE_V2_TIMEOUT_MAX: Duration = Duration::from_mins(5);

/// Timeout of resilient opens: the default, the minimum and the maximum (MS-SMB2 3.3.3 leaves them
/// to the server; Windows has these).
pub const RESILIENT_TIMEOUT: Duration = Duration::from_mins(2);
/// See [`RESILIENT_TIMEOUT`]. A client that asks for less than the time to connect would gain nothing
/// (MS-SMB2 3.3.2.2: the timer is at least the requested time).
pub const RESILIENT_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// See [`RESILIENT_TIMEOUT`].
pub const RESILIENT_TIMEOUT_MAX: Duration = Duration::from_mins(5);

/// Byte-range locks of one persistent open: each change rewrites all.
pub const PERSISTENT_LOCKS_MAX: usize = 4096;

/// Bytes of a path, an account name or a share name in a persistent record.
pub const PERSISTENT_TEXT_BYTES_MAX: usize = vfs::RelPath::LENGTH_MAX;

/// Bytes of one persistent record: its locks, three texts, further paths and fixed fields.
pub const PERSISTENT_RECORD_BYTES_MAX: usize =
    PERSISTENT_LOCKS_MAX * 17 + (3 + files::FURTHER_PATHS_MAX) * PERSISTENT_TEXT_BYTES_MAX + 1024;

/// Bytes of all persistent records: 65,536 opens with 3 KiB each. One user may have as much as
/// would still be free: 96 MiB.
pub const PERSISTENT_BYTES_MAX: u64 = 192 * 1024 * 1024;

/// Entries of each resource counted by user that every user may have, while any are free.
pub const SHARED_FLOOR: u64 = 16;

/// Sessions at once. One user may have half of them: 32,768, at some 2 KiB each without their
/// contents.
pub const SESSIONS_MAX: usize = 1 << 16;

/// Tree connects of all sessions: four each.
pub const TREES_MAX: usize = 1 << 18;

/// Persistent opens; one user may have as many as would still be free.
pub const PERSISTENT_OPENS_MAX: usize = 1 << 16;

/// Opens that wait for a reconnect, or could: each has a descriptor and one or two kilobytes. One
/// user may have as many as would still be free.
pub const DETACHED_MAX: usize = 1 << 16;

/// Bytes that all open pipes hold, mostly unread responses. One user may have half of them: 32
/// pipes with the longest responses.
pub const PIPE_BYTES_MAX: u64 = 64 << 20;
/// Pipe bytes that every user may have, while any are free: a few pipes with share enumerations.
pub const PIPE_BYTES_FLOOR: u64 = 256 * 1024;

/// Unacknowledged notifications retained for one connection. Beyond it the oldest is not repeated
/// if it was lost.
pub const NOTICES_RETAINED_MAX: usize = 256;

/// Age at which an unacknowledged notification is repeated on another channel, because the first
/// may lead nowhere. It is well below the break timeout, and longer than most clients need to write
/// back their caches.
pub const NOTICE_REPEAT_AFTER: Duration = Duration::from_secs(8);

/// Age at which an unacknowledged notification is repeated on the same channel, if the client need
/// not prepare the acknowledgment.
///
/// Linux (seen with 6.1) does not know a directory lease yet whose break arrives right behind the
/// grant. It then takes the directory for unchanged, while the client that changes it waits in
/// vain.
pub const IMMEDIATE_NOTICE_REPEAT_AFTER: Duration = Duration::from_secs(1);

/// Age below which an unacknowledged notification counts as lost with its channel: twice the
/// default idle timeout of a connection.
pub const NOTICE_ARRIVED_AFTER: Duration = Duration::from_mins(2);

/// Longest wait of a binding that finds no room in its session, while the server probes the
/// session's other channels. Twice the time that [`crate::SmbHost::probe_connections`] needs for a dead connection
/// without data in flight. Clients wait far longer for a response.
pub const BIND_WAIT_MAX: Duration = Duration::from_secs(4);

/// Poll interval of that wait.
pub const BIND_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Longest wait of a reconnecting CREATE for an open that another connection still has. A busy
/// server may notice the end of a connection later than the client.
pub const RECONNECT_WAIT_MAX: Duration = Duration::from_secs(1);

/// Age at which a waiting CREATE gets an interim response, as in Samba.
pub const INTERIM_AFTER: Duration = Duration::from_micros(500);
