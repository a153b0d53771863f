//! Clients, sessions and connections: EXCHANGE_ID, CREATE_SESSION, SEQUENCE,
//! BIND_CONN_TO_SESSION, BACKCHANNEL_CTL, DESTROY_SESSION, DESTROY_CLIENTID,
//! RECLAIM_COMPLETE, SET_SSV. RFC 8881 18.33 to 18.37, 18.46, 18.47, 18.50, 18.51.

use crate::codec::Malformed;
use crate::nfs::limits::{ALGORITHMS_MAX, CALLBACK_SECURITY_MAX, OPAQUE_BYTES_MAX};
use crate::nfs::rpc::{AuthFlavor, AuthSys};
use crate::nfs::xdr::{
    Decode, Encode, List, Opaque, XdrReader, XdrWriter, xdr_enum, xdr_flags, xdr_struct,
};
use crate::nfs::{Bitmap4, ClientId, NfsTime, SessionId, Verifier};

xdr_flags! {
    /// What client and server can do, and what is known of the client. RFC 8881 18.35.
    flags ExchangeIdFlags {
        /// Referrals are understood.
        SUPP_MOVED_REFER = 0x0000_0001,
        /// Migration is understood.
        SUPP_MOVED_MIGR = 0x0000_0002,
        /// State shall be bound to the user who made it.
        BIND_PRINC_STATEID = 0x0000_0100,
        /// The server is used without layouts.
        USE_NON_PNFS = 0x0001_0000,
        /// It gives layouts.
        USE_PNFS_MDS = 0x0002_0000,
        /// It holds data of layouts.
        USE_PNFS_DS = 0x0004_0000,
        /// The three before.
        MASK_PNFS = 0x0007_0000,
        /// The record to be changed is a confirmed one.
        UPD_CONFIRMED_REC_A = 0x4000_0000,
        /// The answer tells of a confirmed record.
        CONFIRMED_R = 0x8000_0000,
    }

    /// Properties of a session. RFC 8881 18.36.
    flags CreateSessionFlags {
        /// The reply cache survives a restart.
        PERSIST = 0x1,
        /// This connection is for callbacks, too.
        CONN_BACK_CHAN = 0x2,
        /// The connection goes over to RDMA.
        CONN_RDMA = 0x4,
    }

    /// What a client has to look after: of the answer to SEQUENCE. RFC 8881 18.46.3.
    flags SequenceStatusFlags {
        /// No connection of the client is left for callbacks.
        CB_PATH_DOWN = 0x0001,
        /// GSS contexts for callbacks will end soon.
        CB_GSS_CONTEXTS_EXPIRING = 0x0002,
        /// They have ended.
        CB_GSS_CONTEXTS_EXPIRED = 0x0004,
        /// The lease ended, all state is gone.
        EXPIRED_ALL_STATE_REVOKED = 0x0008,
        /// Some is.
        EXPIRED_SOME_STATE_REVOKED = 0x0010,
        /// An administrator took state away.
        ADMIN_STATE_REVOKED = 0x0020,
        /// Delegations or layouts that were not given back are gone.
        RECALLABLE_STATE_REVOKED = 0x0040,
        /// A file system with state is elsewhere now.
        LEASE_MOVED = 0x0080,
        /// The server restarted; state must be reclaimed.
        RESTART_RECLAIM_NEEDED = 0x0100,
        /// No connection of this session is left for callbacks.
        CB_PATH_DOWN_SESSION = 0x0200,
        /// The client's answers to callbacks make no sense.
        BACKCHANNEL_FAULT = 0x0400,
        /// Devices of layouts changed.
        DEVID_CHANGED = 0x0800,
        /// Devices of layouts are gone.
        DEVID_DELETED = 0x1000,
    }
}

xdr_enum! {
    /// What a client wants a connection for: `channel_dir_from_client4`.
    enum ChannelFromClient {
        /// Requests only.
        Fore = 1,
        /// Callbacks only.
        Back = 2,
        /// Requests, callbacks if possible.
        ForeOrBoth = 3,
        /// Callbacks, requests if possible.
        BackOrBoth = 7,
    }

    /// What a server takes it for: `channel_dir_from_server4`.
    enum ChannelFromServer {
        /// Requests only.
        Fore = 1,
        /// Callbacks only.
        Back = 2,
        /// Both.
        Both = 3,
    }

    /// Services of GSS: `rpc_gss_svc_t`. RFC 2203.
    enum GssService {
        /// The caller is known.
        None = 1,
        /// Messages cannot be changed on their way.
        Integrity = 2,
        /// Nor be read.
        Privacy = 3,
    }
}

xdr_struct! {
    /// Who a client is: `client_owner4`. RFC 8881 2.4.
    #[derive(Copy)]
    struct ClientOwner<'a> {
        /// Another one after each restart of the client.
        verifier: Verifier,
        /// The same one always.
        owner_id: Opaque<'a, OPAQUE_BYTES_MAX>,
    }

    /// Who a server is: `server_owner4`. RFC 8881 2.5.
    #[derive(Copy)]
    struct ServerOwner<'a> {
        /// Connections to equal ones can share a session.
        minor_id: u64,
        /// Connections to equal ones can share a client.
        major_id: Opaque<'a, OPAQUE_BYTES_MAX>,
    }

    /// The program of the peer, for statistics: `nfs_impl_id4`.
    #[derive(Copy)]
    struct ImplementationId<'a> {
        /// The maker's domain.
        domain: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// Product and version.
        name: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// When it was built.
        date: NfsTime,
    }

    /// Operations that state protection is about: `state_protect_ops4`.
    #[derive(Copy)]
    struct StateProtectOperations {
        /// Those that need the machine's credentials or the SSV.
        must_enforce: Bitmap4,
        /// Those that must be possible with them.
        must_allow: Bitmap4,
    }

    /// What a client wants of SP4_SSV: `ssv_sp_parms4`.
    struct SsvParameters<'a> {
        /// For which operations.
        operations: StateProtectOperations,
        /// Hash algorithms, by object identifiers.
        hash_algorithms: List<Opaque<'a, OPAQUE_BYTES_MAX>, ALGORITHMS_MAX>,
        /// Encryption algorithms.
        encryption_algorithms: List<Opaque<'a, OPAQUE_BYTES_MAX>, ALGORITHMS_MAX>,
        /// Versions of the SSV that are kept.
        window: u32,
        /// GSS handles that are wanted.
        gss_handle_count: u32,
    }

    /// What a server grants of SP4_SSV: `ssv_prot_info4`.
    struct SsvInfo<'a> {
        /// For which operations.
        operations: StateProtectOperations,
        /// Place of the hash algorithm in the client's list.
        hash_algorithm: u32,
        /// Place of the encryption algorithm.
        encryption_algorithm: u32,
        /// Bytes of the SSV.
        ssv_bytes: u32,
        /// Versions of the SSV that are kept.
        window: u32,
        /// GSS handles.
        handles: List<Opaque<'a, OPAQUE_BYTES_MAX>, ALGORITHMS_MAX>,
    }

    /// EXCHANGE_ID's arguments.
    struct ExchangeIdArgs<'a> {
        /// Who the client is.
        client_owner: ClientOwner<'a>,
        /// What it can.
        flags: ExchangeIdFlags,
        /// How its state shall be protected.
        state_protect: StateProtectArgs<'a>,
        /// Its program.
        implementation_id: List<ImplementationId<'a>, 1>,
    }

    /// EXCHANGE_ID's results.
    struct ExchangeIdResult<'a> {
        /// The client's number.
        client_id: ClientId,
        /// What CREATE_SESSION must begin with.
        sequence_id: u32,
        /// What the server can, and whether the client is confirmed.
        flags: ExchangeIdFlags,
        /// How its state is protected.
        state_protect: StateProtectResult<'a>,
        /// Who the server is.
        server_owner: ServerOwner<'a>,
        /// Within which its ids are valid.
        server_scope: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// Its program.
        implementation_id: List<ImplementationId<'a>, 1>,
    }

    /// Limits of one direction of a session: `channel_attrs4`.
    struct ChannelAttributes {
        /// Bytes of padding before data, for RDMA.
        header_pad_bytes: u32,
        /// Bytes of a request, RPC header and all.
        request_bytes_max: u32,
        /// Bytes of a reply.
        response_bytes_max: u32,
        /// Bytes of a reply that is kept.
        response_cached_bytes_max: u32,
        /// Operations of a compound.
        operations_max: u32,
        /// Slots.
        requests_max: u32,
        /// RDMA's.
        rdma_ird: List<u32, 1>,
    }

    /// GSS contexts for callbacks: `gss_cb_handles4`.
    #[derive(Copy)]
    struct GssCallbackHandles<'a> {
        /// How messages are protected.
        service: GssService,
        /// What the server calls the context.
        from_server: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// What the client calls it.
        from_client: Opaque<'a, OPAQUE_BYTES_MAX>,
    }

    /// CREATE_SESSION's arguments.
    struct CreateSessionArgs<'a> {
        /// Whose session.
        client_id: ClientId,
        /// Which try: one reply is kept for each client.
        sequence_id: u32,
        /// Wishes.
        flags: CreateSessionFlags,
        /// Limits of requests.
        fore_channel: ChannelAttributes,
        /// Limits of callbacks.
        back_channel: ChannelAttributes,
        /// The number of the client's callback program.
        callback_program: u32,
        /// As whom the server may call back.
        callback_security: List<CallbackSecurity<'a>, CALLBACK_SECURITY_MAX>,
    }

    /// CREATE_SESSION's results.
    struct CreateSessionResult {
        /// The session.
        session_id: SessionId,
        /// As in the arguments.
        sequence_id: u32,
        /// Wishes that are granted.
        flags: CreateSessionFlags,
        /// Limits of requests.
        fore_channel: ChannelAttributes,
        /// Limits of callbacks.
        back_channel: ChannelAttributes,
    }

    /// SEQUENCE's arguments.
    #[derive(Copy)]
    struct SequenceArgs {
        /// The session.
        session_id: SessionId,
        /// The number of the request in its slot.
        sequence_id: u32,
        /// The slot.
        slot_id: u32,
        /// The highest slot that the client has in use.
        highest_slot_id: u32,
        /// Whether the reply is to be kept.
        cache_this: bool,
    }

    /// SEQUENCE's results.
    #[derive(Copy)]
    struct SequenceResult {
        /// The session.
        session_id: SessionId,
        /// As in the arguments.
        sequence_id: u32,
        /// As in the arguments.
        slot_id: u32,
        /// The highest slot that the server keeps.
        highest_slot_id: u32,
        /// The highest slot that the server would like to be used.
        target_highest_slot_id: u32,
        /// What the client has to look after.
        status_flags: SequenceStatusFlags,
    }

    /// BIND_CONN_TO_SESSION's arguments.
    #[derive(Copy)]
    struct BindConnToSessionArgs {
        /// The session.
        session_id: SessionId,
        /// What the connection shall be for.
        direction: ChannelFromClient,
        /// Whether it shall go over to RDMA.
        use_rdma: bool,
    }

    /// BIND_CONN_TO_SESSION's results.
    #[derive(Copy)]
    struct BindConnToSessionResult {
        /// The session.
        session_id: SessionId,
        /// What the connection is for.
        direction: ChannelFromServer,
        /// Whether it goes over to RDMA.
        use_rdma: bool,
    }

    /// BACKCHANNEL_CTL's arguments.
    struct BackchannelCtlArgs<'a> {
        /// The number of the client's callback program.
        callback_program: u32,
        /// As whom the server may call back.
        callback_security: List<CallbackSecurity<'a>, CALLBACK_SECURITY_MAX>,
    }

    /// DESTROY_SESSION's arguments.
    #[derive(Copy)]
    struct DestroySessionArgs {
        /// The session.
        session_id: SessionId,
    }

    /// DESTROY_CLIENTID's arguments.
    #[derive(Copy)]
    struct DestroyClientIdArgs {
        /// The client.
        client_id: ClientId,
    }

    /// RECLAIM_COMPLETE's arguments.
    #[derive(Copy)]
    struct ReclaimCompleteArgs {
        /// Whether only the file system of the current file handle is meant.
        one_fs: bool,
    }

    /// SET_SSV's arguments.
    #[derive(Copy)]
    struct SetSsvArgs<'a> {
        /// What the SSV is changed with.
        ssv: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// What proves it.
        digest: Opaque<'a, OPAQUE_BYTES_MAX>,
    }

    /// SET_SSV's results.
    #[derive(Copy)]
    struct SetSsvResult<'a> {
        /// What proves it.
        digest: Opaque<'a, OPAQUE_BYTES_MAX>,
    }
}

/// How a client's state is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateProtect<S> {
    /// SP4_NONE.
    None,
    /// SP4_MACH_CRED.
    MachineCredentials(StateProtectOperations),
    /// SP4_SSV.
    Ssv(S),
}

/// How a client wants it: `state_protect4_a`.
pub type StateProtectArgs<'a> = StateProtect<SsvParameters<'a>>;

/// How it is: `state_protect4_r`.
pub type StateProtectResult<'a> = StateProtect<SsvInfo<'a>>;

impl<'a, S: Decode<'a>> Decode<'a> for StateProtect<S> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        match r.u32("state_protect_how")? {
            0 => Ok(Self::None),
            1 => r.get().map(Self::MachineCredentials),
            2 => r.get().map(Self::Ssv),
            _ => Err(r.malformed("state_protect_how")),
        }
    }
}

impl<S: Encode> Encode for StateProtect<S> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::None => w.u32(0),
            Self::MachineCredentials(operations) => {
                w.u32(1);
                w.put(operations);
            }
            Self::Ssv(secret) => {
                w.u32(2);
                w.put(secret);
            }
        }
    }
}

/// As whom a server may call back: `callback_sec_parms4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackSecurity<'a> {
    /// As nobody.
    None,
    /// With these numbers.
    Sys(AuthSys<'a>),
    /// With these GSS contexts.
    Gss(GssCallbackHandles<'a>),
}

impl<'a> Decode<'a> for CallbackSecurity<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        match r.get()? {
            AuthFlavor::NONE => Ok(Self::None),
            AuthFlavor::SYS => r.get().map(Self::Sys),
            AuthFlavor::GSS => r.get().map(Self::Gss),
            _ => Err(r.malformed("callback security")),
        }
    }
}

impl Encode for CallbackSecurity<'_> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::None => w.put(&AuthFlavor::NONE),
            Self::Sys(user) => {
                w.put(&AuthFlavor::SYS);
                w.put(user);
            }
            Self::Gss(handles) => {
                w.put(&AuthFlavor::GSS);
                w.put(handles);
            }
        }
    }
}
