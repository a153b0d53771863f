//! Every limit of the NFS layer, with where it comes from.

use std::time::Duration;

/// Bytes of a request that are looked at to tell it from another under its number.
pub const FINGERPRINT_BYTES: usize = 512;

/// Below it are the source ports that only a machine's system and its root can have.
pub const RESERVED_PORTS_END: u16 = 1024;

/// Clients that are known at once, confirmed or not. A record takes about 1 KiB.
pub const CLIENTS_MAX: usize = 16_384;
/// Clients that every address may have while there is room for any; see [`crate::Holdings`].
pub const CLIENTS_FLOOR: usize = 16;
/// Clients that have not shown yet that they get our answers: the oldest of the address that has
/// most of them makes room.
pub const UNCONFIRMED_CLIENTS_MAX: usize = 1_024;
/// Sessions of one client.
pub const SESSIONS_PER_CLIENT_MAX: usize = 64;
/// Sessions that one connection is bound to: the latest ones.
pub const SESSIONS_PER_CONNECTION_MAX: usize = 64;
/// Connections of one session that are shown.
pub const CONNECTIONS_PER_SESSION_MAX: usize = 256;
/// Sessions of all clients.
pub const SESSIONS_MAX: usize = 32_768;
/// Sessions that every address may have while there is room for any.
pub const SESSIONS_FLOOR: usize = 32;

/// Slots of one session. Linux asks for 64, and for 1,024 at most.
pub const SLOTS_MAX: u32 = 128;
/// Slots that a session is to use while its requests wait for the limits of a share.
pub const SLOTS_WHILE_THROTTLED: u32 = 16;
/// Slots that sessions are promised beyond their first, all together: each may keep a reply.
pub const SLOTS_TOTAL_MAX: usize = 131_072;
/// Slots beyond the first of a session that every address may have while there are any.
pub const SLOTS_FLOOR: usize = 128;
/// Slots that a session is to use when three quarters of them are promised.
pub const SLOTS_UNDER_PRESSURE: u32 = 8;

/// The longest reply that is cached for a slot: enough for what changes something, attributes
/// included, and as much as the Linux kernel's server caches. All slots of all sessions together
/// cache (SLOTS_TOTAL_MAX + SESSIONS_MAX) times as much, 320 MiB.
pub const KEPT_REPLY_BYTES_MAX: u32 = 2 * 1024;
/// The shortest reply channel: SEQUENCE and one refused operation fit in.
pub const RESPONSE_BYTES_MIN: u32 = 256;
/// The shortest request channel.
pub const REQUEST_BYTES_MIN: u32 = 256;
/// Operations of one COMPOUND. Linux needs about ten; some clients send whole paths.
pub const OPERATIONS_MAX: u32 = 128;
/// Looks at attributes (GETATTR, ACCESS and the like) that an operation pays for beside itself:
/// clients ask for both after most operations.
pub const LOOKS_PER_CHARGE: u8 = 2;
/// Data of one READ or WRITE.
pub const IO_BYTES_MAX: u32 = 1024 * 1024;
/// What a COMPOUND has beside its data: RPC header, credentials, handles, attributes.
pub const OVERHEAD_BYTES_MAX: u32 = 16 * 1024;
/// One request or reply of a session.
pub const MESSAGE_BYTES_MAX: u32 = IO_BYTES_MAX + OVERHEAD_BYTES_MAX;
/// A request outside of a session, and any before the connection has one.
pub const MESSAGE_BYTES_MAX_BEFORE_SESSION: u32 = 64 * 1024;
/// What must have arrived of a larger one before it is clear whether it names a session: headers,
/// credentials and SEQUENCE of any client fit in.
pub const SESSION_PROOF_BYTES: usize = 2 * 1024;

/// How often an OPEN that takes the place of another is tried where the other is closed
/// meanwhile, again and again.
pub const WIDENING_TRIES_MAX: u32 = 4;

/// Reply buffers kept for reuse by one connection, and the largest kept.
pub const SPARE_BUFFERS_MAX: usize = 64;
/// See [`SPARE_BUFFERS_MAX`].
pub const SPARE_BUFFER_BYTES_MAX: usize = 64 * 1024;
/// A READ of at least this many bytes is sent by `sendfile`: below it the two system calls
/// cost more than the copy.
pub const SENDFILE_BYTES_MIN: usize = 16 * 1024;
/// Bytes of answers that leave before the next call is looked at.
pub const TRANSMIT_EARLY_BYTES: usize = 256 * 1024;

/// Opens, locks and delegations of one client, together.
pub const STATES_PER_CLIENT_MAX: usize = 100_000;
/// Opens, locks and delegations of all clients: an open keeps a descriptor and some hundred bytes,
/// also of a client that is away. Those that are away make room.
pub const STATES_MAX: usize = 500_000;
/// Opens, locks and delegations that every address may have while there is room for any.
pub const STATES_FLOOR: usize = 256;
/// Bytes of the owners of all opens and locks: 128 for each of [`STATES_MAX`]. Linux names owners
/// by 24 to 28 bytes; RFC 8881 3.2 allows 1,024.
pub const OWNER_BYTES_MAX: usize = STATES_MAX * 128;
/// Bytes of owners that every address may have while there are any.
pub const OWNER_BYTES_FLOOR: usize = STATES_FLOOR * 128;
/// Connections that a session remembers as bound to its backchannel.
pub const BACKCHANNELS_MAX: usize = 16;
/// Callbacks of one session at once.
pub const CALLBACK_SLOTS_MAX: u32 = 16;
/// How long the answer to a callback is waited for on one connection.
pub const CALLBACK_WITHIN: Duration = Duration::from_secs(10);
/// Times that one callback is sent under another number because the client counts otherwise.
pub const CALLBACK_TRIES_MAX: u32 = 4;
/// Pause before a recall is sent again that did not reach the client.
pub const RECALL_PAUSE: Duration = Duration::from_millis(500);
/// How long a request waits for what others have to give back before its client is told to
/// ask again. Most give back at once; longer, and the client would believe that it is lost.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Delegations of all clients: each keeps a descriptor open.
pub const DELEGATIONS_MAX: usize = 16_384;
/// Delegations that every address may have while there are any.
pub const DELEGATIONS_FLOOR: usize = 64;
/// Delegations of one client.
pub const DELEGATIONS_PER_CLIENT_MAX: usize = 4_096;
/// How long a file is not delegated after a delegation of it was in somebody's way.
pub const COOLING: Duration = Duration::from_secs(30);
/// Files that this is remembered of.
pub const COOLING_FILES_MAX: usize = 4_096;
/// How long a client is waited for that others ask about a file which it writes by itself.
pub const CALLBACK_ATTRIBUTES_WITHIN: Duration = Duration::from_secs(3);

/// Locks that one client waits for and is told of.
pub const WAITING_LOCKS_PER_CLIENT_MAX: usize = 256;

/// How long a client that says nothing keeps what it has, if nobody configures it.
pub const LEASE: Duration = Duration::from_secs(90);
/// A client that has not renewed its lease for so long is forgotten, although nobody
/// needs what it has.
pub const COURTESY: Duration = Duration::from_secs(24 * 60 * 60);

/// Characters of what a client says of itself that are shown.
pub const FACT_CHARS_MAX: usize = 128;

/// Bytes that the answer of an operation which changes something may need: an OPEN with a
/// delegation has the longest. Without so much room it is not begun.
pub const CHANGE_REPLY_BYTES: usize = 192;

/// Entries that one READDIR gives, and the fewest bytes that one of them takes.
pub const READDIR_ENTRIES_MAX: usize = 4096;
/// See [`READDIR_ENTRIES_MAX`].
pub const READDIR_ENTRY_BYTES_MIN: usize = 32;
/// Entries that are in memory beside the answer while their access lists are found.
pub const READDIR_PART_ENTRIES: usize = 128;
/// Room that a listing has at first.
pub const READDIR_SHORT_BYTES: usize = 16 * 1024;

/// Segments of one READ_PLUS.
pub const READ_PLUS_SEGMENTS_MAX: usize = 64;
/// Copies of one client that go on after their answer, or have ended without its hearing of
/// it. A program that copies has one.
pub const COPIES_PER_CLIENT_MAX: usize = 16;
/// Copies of all clients that go on after their answer; beyond them copies are made before.
pub const COPIES_MAX: usize = 1_024;
/// A COPY of more than this goes on after its answer, if its client can be told of the end:
/// Linux lets it from 14 times its largest read on.
pub const COPY_LATER_BYTES_MIN: u64 = 16 * 1024 * 1024;
/// How much of such a copy is made at once: then it is seen whether it was cancelled.
pub const COPY_PIECE_BYTES: u64 = 16 * 1024 * 1024;
/// What one COPY copies at most before it answers: the client asks for the rest.
pub const COPY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Shares that a client has reached, as administrators are shown them: 4 bytes each. Who mounts more has
/// the latest shown.
pub const EXPORTS_NOTED_MAX: usize = 256;
