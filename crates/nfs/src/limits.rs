//! Limits of the NFS layer, with their derivation.

use std::time::Duration;

/// Bytes of a request that its fingerprint covers.
pub const FINGERPRINT_BYTES: usize = 512;

/// End of the reserved source ports, which only root can bind.
pub const RESERVED_PORTS_END: u16 = 1024;

/// Client records, confirmed or not. A record takes about 1 KiB.
pub const CLIENTS_MAX: usize = 16_384;
/// Clients that every address may have while the total has room; see [`crate::NfsHoldings`].
pub const CLIENTS_FLOOR: usize = 16;
/// Unconfirmed clients. The oldest of the address with most of them makes room.
pub const UNCONFIRMED_CLIENTS_MAX: usize = 1_024;
/// Sessions of one client.
pub const SESSIONS_PER_CLIENT_MAX: usize = 64;
/// Sessions bound to one connection: the latest ones.
pub const SESSIONS_PER_CONNECTION_MAX: usize = 64;
/// Connections of one session that administrators see.
pub const CONNECTIONS_PER_SESSION_MAX: usize = 256;
/// Sessions of all clients.
pub const SESSIONS_MAX: usize = 32_768;
/// Sessions that every address may have while the total has room.
pub const SESSIONS_FLOOR: usize = 32;

/// Slots of one session. Linux requests 64, and at most 1,024.
pub const SLOTS_MAX: u32 = 128;
/// Target slot count of a session whose requests wait for the limits of a share.
pub const SLOTS_WHILE_THROTTLED: u32 = 16;
/// Slots beyond the first of all sessions: each may cache a reply.
pub const SLOTS_TOTAL_MAX: usize = 131_072;
/// Slots beyond the first that every address may have while the total has room.
pub const SLOTS_FLOOR: usize = 128;
/// Target slot count of a session when three quarters of all slots are in use.
pub const SLOTS_UNDER_PRESSURE: u32 = 8;

/// Longest cached reply in bytes: enough for changing operations with attributes, and as much as
/// the Linux server caches. All slots together cache (SLOTS_TOTAL_MAX + SESSIONS_MAX) times as
/// much, 320 MiB.
pub const CACHED_REPLY_BYTES_MAX: u32 = 2 * 1024;
/// Smallest reply channel: SEQUENCE and one refused operation fit.
pub const RESPONSE_BYTES_MIN: u32 = 256;
/// Smallest request channel.
pub const REQUEST_BYTES_MIN: u32 = 256;
/// Operations of one COMPOUND. Linux needs about ten; some clients send whole paths.
pub const OPERATIONS_MAX: u32 = 128;
/// Attribute operations (GETATTR, ACCESS and the like) that one charged operation covers: clients
/// send two after most operations.
pub const ATTRIBUTE_OPS_PER_CHARGE: u8 = 2;
/// Data of one READ or WRITE in bytes.
pub const IO_BYTES_MAX: u32 = 1024 * 1024;
/// Bytes of a COMPOUND beside its data: RPC header, credentials, handles, attributes.
pub const OVERHEAD_BYTES_MAX: u32 = 16 * 1024;
/// Request or reply of a session in bytes.
pub const MESSAGE_BYTES_MAX: u32 = IO_BYTES_MAX + OVERHEAD_BYTES_MAX;
/// Request outside a session, or before the connection has one, in bytes.
pub const MESSAGE_BYTES_MAX_BEFORE_SESSION: u32 = 64 * 1024;
/// Bytes of a longer request that must have arrived to see its SEQUENCE: RPC header, credentials
/// and SEQUENCE of any client fit.
pub const SESSION_PROOF_BYTES: usize = 2 * 1024;

/// Attempts to upgrade an open whose predecessor is closed meanwhile.
pub const OPEN_UPGRADE_TRIES_MAX: u32 = 4;

/// Recycled reply buffers of one connection.
pub const SPARE_BUFFERS_MAX: usize = 64;
/// Capacity of the largest recycled buffer in bytes.
pub const SPARE_BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Smallest READ that is sent with `sendfile`, in bytes: below it the two system calls cost more
/// than the copy.
pub const SENDFILE_BYTES_MIN: usize = 16 * 1024;
/// Bytes of queued replies that are sent before the next call is read.
pub const TRANSMIT_EARLY_BYTES: usize = 256 * 1024;

/// Opens, locks and delegations of one client.
pub const STATES_PER_CLIENT_MAX: usize = 100_000;
/// Opens, locks and delegations of all clients. An open costs a file descriptor and some hundred
/// bytes, also for a courtesy client. Courtesy clients make room.
pub const STATES_MAX: usize = 500_000;
/// Opens, locks and delegations that every address may have while the total has room.
pub const STATES_FLOOR: usize = 256;
/// Bytes of all open-owner and lock-owner strings: 128 for each of [`STATES_MAX`]. Linux uses 24 to
/// 28 bytes; RFC 8881 3.2 permits 1,024.
pub const OWNER_BYTES_MAX: usize = STATES_MAX * 128;
/// Bytes of owner strings that every address may have while the total has room.
pub const OWNER_BYTES_FLOOR: usize = STATES_FLOOR * 128;
/// Connections bound to one backchannel.
pub const BACKCHANNELS_MAX: usize = 16;
/// Concurrent callbacks of one session.
pub const CALLBACK_SLOTS_MAX: u32 = 16;
/// Timeout of a callback on one connection.
pub const CALLBACK_TIMEOUT: Duration = Duration::from_secs(10);
/// Retransmissions of one callback with another sequence id, if the client counts differently.
pub const CALLBACK_TRIES_MAX: u32 = 4;
/// Pause before a recall that did not reach the client is sent again.
pub const RECALL_PAUSE: Duration = Duration::from_millis(500);
/// Longest wait of a request for a recall before the client gets DELAY. Most holders react at once;
/// after a longer wait the client would believe the request lost.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Delegations of all clients, each with a file descriptor.
pub const DELEGATIONS_MAX: usize = 16_384;
/// Delegations that every address may have while the total has room.
pub const DELEGATIONS_FLOOR: usize = 64;
/// Delegations of one client.
pub const DELEGATIONS_PER_CLIENT_MAX: usize = 4_096;
/// Cooling period: no delegation of a file after one conflicted.
pub const COOLING: Duration = Duration::from_secs(30);
/// Files in a cooling period.
pub const COOLING_FILES_MAX: usize = 4_096;
/// Timeout of CB_GETATTR to the holder of a write delegation.
pub const CB_GETATTR_TIMEOUT: Duration = Duration::from_secs(3);

/// Denied locks for which one client awaits CB_NOTIFY_LOCK.
pub const WAITING_LOCKS_PER_CLIENT_MAX: usize = 256;

/// Default lease time.
pub const LEASE: Duration = Duration::from_secs(90);
/// Time after which an expired client loses its state even without a conflict.
pub const COURTESY: Duration = Duration::from_secs(24 * 60 * 60);

/// Characters of each fact that a client reports of itself.
pub const FACT_CHARS_MAX: usize = 128;

/// Longest result of a changing operation in bytes, an OPEN with a delegation. Without this room
/// the operation does not start.
pub const CHANGE_REPLY_BYTES: usize = 192;

/// Entries of one READDIR.
pub const READDIR_ENTRIES_MAX: usize = 4096;
/// Smallest entry of a READDIR in bytes.
pub const READDIR_ENTRY_BYTES_MIN: usize = 32;
/// Entries in memory while their access lists are read.
pub const READDIR_PART_ENTRIES: usize = 128;
/// Initial buffer of a listing in bytes.
pub const READDIR_SHORT_BYTES: usize = 16 * 1024;

/// Segments of one READ_PLUS.
pub const READ_PLUS_SEGMENTS_MAX: usize = 64;
/// Asynchronous copies of one client, in flight or with an undelivered outcome. One copying program
/// has one.
pub const COPIES_PER_CLIENT_MAX: usize = 16;
/// Asynchronous copies of all clients; further ones run synchronously.
pub const COPIES_MAX: usize = 1_024;
/// Smallest COPY that may run asynchronously, in bytes, if the client has a backchannel. Linux
/// permits it above 14 times its largest read.
pub const COPY_LATER_BYTES_MIN: u64 = 16 * 1024 * 1024;
/// Piece of an asynchronous copy in bytes; cancellation is checked after each.
pub const COPY_PIECE_BYTES: u64 = 16 * 1024 * 1024;
/// Longest synchronous COPY in bytes: the client asks for the rest.
pub const COPY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Shares of one client that administrators see, 4 bytes each: the latest ones.
pub const EXPORTS_NOTED_MAX: usize = 256;
