//! Every limit of the protocol layer, with the arithmetic it comes from.

use std::time::Duration;

/// Largest READ, WRITE and QUERY payload, in bytes, that large-MTU dialects may use.
pub const IO_BYTES_MAX: u32 = 8 * 1024 * 1024;

/// The same for dialect 2.0.2, where one credit covers one request of 64 KiB.
pub const IO_BYTES_MAX_SMALL: u32 = 64 * 1024;

/// Room for headers, names and contexts around a payload.
pub const FRAME_OVERHEAD_BYTES: usize = 64 * 1024;

/// Largest frame taken from a connection that has a session.
pub const FRAME_BYTES_MAX: usize = IO_BYTES_MAX as usize + FRAME_OVERHEAD_BYTES;

/// Largest frame before login: a NEGOTIATE or a SESSION_SETUP with a Kerberos
/// ticket carrying a large PAC (MaxTokenSize on Windows is 48,000 bytes).
pub const FRAME_BYTES_MAX_BEFORE_LOGIN: usize = 128 * 1024;

/// Credits one connection may hold, as Samba's and Windows' servers grant.
pub const CREDITS_MAX: u16 = 8192;

/// Credits that one connection may hold while its requests wait for the limits of a share:
/// enough for the largest request twice.
pub const CREDITS_WHILE_THROTTLED: u16 = 256;
const _: () = assert!(CREDITS_WHILE_THROTTLED as u32 * 65_536 >= 2 * IO_BYTES_MAX);

/// Requests in one compound.
pub const COMPOUND_REQUESTS_MAX: usize = 64;
/// For how many of them there is room from the start: clients open, ask, and close.
pub const COMPOUND_REQUESTS_USUAL: usize = 3;

/// Requests of one connection that wait (locks, notifications) at once: what
/// Windows lets wait, which grants 512 credits for it and keeps one back.
pub const ASYNC_REQUESTS_MAX: usize = 511;

/// CANCELs of one connection that are remembered for requests which do not
/// wait yet: more than are under way on other threads at once.
pub const EARLY_CANCELS_MAX: usize = 32;

/// CREATEs of one session that go on although their channel is lost.
pub const ORPHANS_PER_SESSION_MAX: usize = ASYNC_REQUESTS_MAX;

/// Sessions on one connection (MS-SMB2 sets none; a terminal server needs some).
pub const SESSIONS_PER_CONNECTION_MAX: usize = 1024;

/// SESSION_SETUP exchanges under way on one connection.
pub const SETUPS_PER_CONNECTION_MAX: usize = 64;

/// Tree connects of one session.
pub const TREES_PER_SESSION_MAX: usize = 65_535;

/// Opens of one session.
pub const OPENS_PER_SESSION_MAX: usize = 1 << 20;

/// Opens that the end of a tree or a session closes before it waits until what they remove is
/// stable: their directories are open until then.
pub const REMOVALS_TOGETHER_MAX: usize = 64;

/// Bytes of one security token in SESSION_SETUP.
pub const TOKEN_BYTES_MAX: usize = 64 * 1024;

/// Accounts, networks, and pairs of both whose failed logons are counted: less than a megabyte
/// for each of the three.
pub const THROTTLE_ENTRIES_MAX: usize = 10_000;

/// Pairs of an account and a network that it has logged on from.
pub const USUAL_NETWORKS_MAX: usize = 10_000;

/// Such networks of one account: the last ones. A person has some, and nobody has all.
pub const USUAL_NETWORKS_PER_ACCOUNT: usize = 64;

/// How long a network stays usual for an account after its last logon from there: over holidays.
pub const USUAL_FOR: Duration = Duration::from_hours(30 * 24);

/// Attempts to log on by a password that wait to be judged: one account from one network, all
/// of a network (IPv6: of a /64), all at one account, and all. Each holds one message of at most
/// [`WAITING_SETUP_BYTES_MAX`]. More than are judged while one waits: else whoever is quickest to
/// take the next free place would have all.
pub const WAITING_LOGONS_PER_PAIR: usize = 64;
/// Behind so many others that wait for the same delay, a second at most, an attempt is judged in
/// time ([`LOGON_WAITS`]).
pub const WAITING_LOGONS_IN_ORDER: usize = 13;
/// Of one connection, at any accounts.
pub const WAITING_LOGONS_PER_CONNECTION: usize = 4;
/// See [`WAITING_LOGONS_PER_PAIR`].
pub const WAITING_LOGONS_PER_NETWORK: usize = 64;
/// See [`WAITING_LOGONS_PER_PAIR`].
pub const WAITING_LOGONS_PER_ACCOUNT: usize = 64;
/// See [`WAITING_LOGONS_PER_PAIR`].
pub const WAITING_LOGONS_MAX: usize = 1024;

/// Kerberos tickets that are being judged, in all and of one network: a whole office behind one
/// address comes back at once. A ticket has at most [`TOKEN_BYTES_MAX`].
pub const WAITING_TICKETS_MAX: usize = 1024;
/// See [`WAITING_TICKETS_MAX`].
pub const WAITING_TICKETS_PER_NETWORK: usize = 256;

/// How long such an attempt waits: less than clients wait for a reply, and than a connection may
/// take to log on.
pub const LOGON_WAITS: Duration = Duration::from_secs(15);

/// How long a TREE_CONNECT waits until the name of the client's machine is looked up: less than clients
/// wait for a reply.
pub const NAME_WAITS: Duration = Duration::from_secs(15);

/// How often it looks meanwhile: a name service answers within milliseconds, or within seconds.
pub const NAME_LOOKS_EVERY: Duration = Duration::from_millis(20);

/// SESSION_SETUPs of one connection that wait.
pub const WAITING_SETUPS_PER_CONNECTION: usize = 8;

/// Bytes of a SESSION_SETUP that waits for a password to be judged: an NTLM proof repeats the
/// server's own names and a few of the client's.
pub const WAITING_SETUP_BYTES_MAX: usize = 16 * 1024;

/// Reply buffers kept for reuse by one connection, and the largest kept.
pub const SPARE_BUFFERS_MAX: usize = 64;
/// See [`SPARE_BUFFERS_MAX`].
pub const SPARE_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Bytes of an answer without data: a header and what most commands put after it. Room for them
/// is made at once.
pub const ANSWER_BYTES_USUAL: usize = 256;

/// A plain READ of at least this many bytes is sent by `sendfile`: below it
/// the two system calls cost more than the copy.
pub const SENDFILE_BYTES_MIN: usize = 16 * 1024;

/// Bytes of answers that leave before the next request is looked at.
pub const TRANSMIT_EARLY_BYTES: usize = 256 * 1024;

/// Answers that are worth being signed together: as many as a processor's AES unit takes at once.
pub const SIGNED_TOGETHER: usize = 8;

/// Chunks of one server-side copy, bytes of a chunk and of all chunks
/// together (MS-SMB2 3.3.3: the defaults of Windows).
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

/// Connections of one session if nothing else is configured: more bring little.
pub const CHANNELS_PER_SESSION: usize = 4;

/// The most that can be configured: as Windows has it.
pub const CHANNELS_PER_SESSION_MAX: usize = 32;

/// How long a durable open of version 1 waits for its client to come back.
pub const DURABLE_FOR: Duration = Duration::from_mins(1);

/// How long one of version 2 waits if its client leaves it to us, and at most:
/// as Windows and Samba have it.
pub const DURABLE_V2_FOR: Duration = Duration::from_mins(1);
/// See [`DURABLE_V2_FOR`].
pub const DURABLE_V2_FOR_MAX: Duration = Duration::from_mins(5);

/// The same for resilient ones (MS-SMB2 3.3.3 leaves both to the server; Windows
/// has these).
pub const RESILIENT_FOR: Duration = Duration::from_mins(2);
/// See [`RESILIENT_FOR`]: at least this, since a client that asks for less than it needs to
/// connect would have nothing (MS-SMB2 3.3.2.2: the time is no less than was asked for).
pub const RESILIENT_FOR_MIN: Duration = Duration::from_secs(1);
/// See [`RESILIENT_FOR`].
pub const RESILIENT_FOR_MAX: Duration = Duration::from_mins(5);

/// Byte ranges of one persistent open: all are written down with each change.
pub const PERSISTENT_LOCKS_MAX: usize = 4096;

/// Bytes of a path, an account or a share's name of one.
pub const PERSISTENT_TEXT_BYTES_MAX: usize = vfs::RelPath::LENGTH_MAX;

/// Bytes of what is written down of one: its ranges, three texts, further paths and the rest.
pub const PERSISTENT_RECORD_BYTES_MAX: usize =
    PERSISTENT_LOCKS_MAX * 17 + (3 + files::FURTHER_PATHS_MAX) * PERSISTENT_TEXT_BYTES_MAX + 1024;

/// Bytes of what is written down of all: of 65,536 opens 3 KiB each. One user may have as many as
/// would still be free: 96 MiB.
pub const PERSISTENT_BYTES_MAX: u64 = 192 * 1024 * 1024;

/// What every user may have of each resource that is counted by user, while there is any at all.
pub const SHARED_FLOOR: u64 = 16;

/// Sessions at once. One user may have half of what is there: 32,768, at some 2 KiB each
/// beside what they hold.
pub const SESSIONS_MAX: usize = 1 << 16;

/// Tree connects at once, of all sessions: four of each.
pub const TREES_MAX: usize = 1 << 18;

/// Persistent opens at once; one user may have as many as would still be free.
pub const PERSISTENT_OPENS_MAX: usize = 1 << 16;

/// Opens that may wait for their clients, or do: each has a descriptor and a kilobyte or two. One
/// user may have as many as would still be free.
pub const DETACHED_MAX: usize = 1 << 16;

/// Bytes that all open pipes hold, unread answers above all. One user may have half of them, as
/// many as 32 pipes with the longest answers.
pub const PIPE_BYTES_MAX: u64 = 64 << 20;
/// What every user may have of them, while there are any: a few pipes with lists of shares.
pub const PIPE_BYTES_FLOOR: u64 = 256 * 1024;

/// Notices of one connection that are kept until they are answered: beyond it
/// the oldest is not told again if it was lost.
pub const NOTICES_KEPT_MAX: usize = 256;

/// A notice that is not answered in this time is told once more, by another
/// channel: the first one may lead nowhere. Well before the client is taken to be
/// silent, and longer than most need to write back what they keep.
pub const NOTICE_AGAIN_AFTER: Duration = Duration::from_secs(8);

/// A notice that its client has nothing to do for, and that it has not answered in this time, is told
/// once more by the same channel: Linux (6.1, and so perhaps later ones) does not know the lease of a
/// directory yet whose break comes right behind the grant, and takes the directory for unchanged
/// then, while whoever changes it waits in vain.
pub const NOTICE_AT_ONCE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What needs no answer may be lost with its channel until it has this age: twice the
/// time that a connection may be silent for, if nothing else is configured.
pub const NOTICE_ARRIVED_AFTER: Duration = Duration::from_mins(2);

/// How long a binding waits that finds no room in its session, while it is found out whether
/// the session's other channels lead to the client: twice what [`crate::Host::doubt`] takes for
/// one that is dead without data on its way. A client waits far longer for an answer.
pub const BIND_WAITS: Duration = Duration::from_secs(4);

/// How often it looks for room meanwhile.
pub const BIND_LOOKS_EVERY: Duration = Duration::from_millis(100);

/// How long a CREATE waits that comes back for an open which another connection has still. The
/// server may hear later than the client that a connection has ended: it is busy, perhaps.
pub const RECONNECT_WAITS: Duration = Duration::from_secs(1);

/// How long a CREATE waits before its client is told that it waits: as Samba has it.
pub const INTERIM_AFTER: Duration = Duration::from_micros(500);
