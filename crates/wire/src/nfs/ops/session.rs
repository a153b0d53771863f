//! Clients, sessions and connections: EXCHANGE_ID, CREATE_SESSION, SEQUENCE,
//! BIND_CONN_TO_SESSION, BACKCHANNEL_CTL, DESTROY_SESSION, DESTROY_CLIENTID,
//! RECLAIM_COMPLETE, SET_SSV. RFC 8881 18.33 to 18.37, 18.46, 18.47, 18.50, 18.51.

use crate::codec::DecodeError;
use crate::nfs::limits::{ALGORITHMS_MAX, CALLBACK_SECURITY_MAX, OPAQUE_BYTES_MAX};
use crate::nfs::rpc::{AuthFlavor, AuthSys};
use crate::nfs::xdr::{
    Decode, Encode, List, Opaque, XdrReader, XdrWriter, xdr_enum, xdr_flags, xdr_struct,
};
use crate::nfs::{Bitmap4, ClientId, NfsSessionId, NfsTime, Verifier};

xdr_flags! {
    /// Capabilities of client and server, and the state of the client record. RFC 8881 18.35.
    flags ExchangeIdFlags {
        /// The client supports referrals.
        SUPP_MOVED_REFER = 0x0000_0001,
        /// The client supports migration.
        SUPP_MOVED_MIGR = 0x0000_0002,
        /// Binds state to the principal that created it.
        BIND_PRINC_STATEID = 0x0000_0100,
        /// The server is used without pNFS.
        USE_NON_PNFS = 0x0001_0000,
        /// The server is a pNFS metadata server.
        USE_PNFS_MDS = 0x0002_0000,
        /// The server is a pNFS data server.
        USE_PNFS_DS = 0x0004_0000,
        /// Mask of the three pNFS roles.
        MASK_PNFS = 0x0007_0000,
        /// Updates a confirmed client record.
        UPD_CONFIRMED_REC_A = 0x4000_0000,
        /// The client record is confirmed.
        CONFIRMED_R = 0x8000_0000,
    }

    /// Session flags. RFC 8881 18.36.
    flags CreateSessionFlags {
        /// The reply cache is persistent.
        PERSIST = 0x1,
        /// The connection also serves as backchannel.
        CONN_BACK_CHAN = 0x2,
        /// The connection switches to RDMA.
        CONN_RDMA = 0x4,
    }

    /// Conditions that the client must handle, in SEQUENCE's results. RFC 8881 18.46.3.
    flags SequenceStatusFlags {
        /// The client has no backchannel.
        CB_PATH_DOWN = 0x0001,
        /// The backchannel's GSS contexts expire soon.
        CB_GSS_CONTEXTS_EXPIRING = 0x0002,
        /// The backchannel's GSS contexts have expired.
        CB_GSS_CONTEXTS_EXPIRED = 0x0004,
        /// The lease expired and all state was revoked.
        EXPIRED_ALL_STATE_REVOKED = 0x0008,
        /// The lease expired and some state was revoked.
        EXPIRED_SOME_STATE_REVOKED = 0x0010,
        /// An administrator revoked state.
        ADMIN_STATE_REVOKED = 0x0020,
        /// Delegations or layouts were revoked because the client did not return them.
        RECALLABLE_STATE_REVOKED = 0x0040,
        /// A file system with state has migrated.
        LEASE_MOVED = 0x0080,
        /// The server restarted; the client must reclaim its state.
        RESTART_RECLAIM_NEEDED = 0x0100,
        /// This session has no backchannel.
        CB_PATH_DOWN_SESSION = 0x0200,
        /// The client's callback replies violate the protocol.
        BACKCHANNEL_FAULT = 0x0400,
        /// A layout device changed.
        DEVID_CHANGED = 0x0800,
        /// A layout device was deleted.
        DEVID_DELETED = 0x1000,
    }
}

xdr_enum! {
    /// Channels that a client requests for a connection: `channel_dir_from_client4`.
    enum ChannelFromClient {
        /// Fore channel only.
        Fore = 1,
        /// Backchannel only.
        Back = 2,
        /// Fore channel, and the backchannel if possible.
        ForeOrBoth = 3,
        /// Backchannel, and the fore channel if possible.
        BackOrBoth = 7,
    }

    /// Channels that a server assigns to a connection: `channel_dir_from_server4`.
    enum ChannelFromServer {
        /// Fore channel only.
        Fore = 1,
        /// Backchannel only.
        Back = 2,
        /// Both channels.
        Both = 3,
    }

    /// GSS services: `rpc_gss_svc_t`. RFC 2203.
    enum GssService {
        /// Authentication only.
        None = 1,
        /// Integrity protection.
        Integrity = 2,
        /// Integrity protection and encryption.
        Privacy = 3,
    }
}

xdr_struct! {
    /// Identity of a client: `client_owner4`. RFC 8881 2.4.
    #[derive(Copy)]
    struct ClientOwner<'a> {
        /// Changes with each restart of the client.
        verifier: Verifier,
        /// Stays the same across restarts.
        owner_id: Opaque<'a, OPAQUE_BYTES_MAX>,
    }

    /// Identity of a server: `server_owner4`. RFC 8881 2.5.
    #[derive(Copy)]
    struct ServerOwner<'a> {
        /// Connections with equal minor and major ids can share a session.
        minor_id: u64,
        /// Connections with equal major ids can share a client id.
        major_id: Opaque<'a, OPAQUE_BYTES_MAX>,
    }

    /// Implementation of the peer, for statistics: `nfs_impl_id4`.
    #[derive(Copy)]
    struct ImplementationId<'a> {
        /// Domain of the vendor.
        domain: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// Product and version.
        name: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// Build date.
        date: NfsTime,
    }

    /// Operations under state protection: `state_protect_ops4`.
    #[derive(Copy)]
    struct StateProtectOperations {
        /// Operations that require the machine credential or the SSV.
        must_enforce: Bitmap4,
        /// Operations that the server must accept with them.
        must_allow: Bitmap4,
    }

    /// A client's SP4_SSV request: `ssv_sp_parms4`.
    struct SsvParameters<'a> {
        /// Operations to protect.
        operations: StateProtectOperations,
        /// Hash algorithms, by object identifiers.
        hash_algorithms: List<Opaque<'a, OPAQUE_BYTES_MAX>, ALGORITHMS_MAX>,
        /// Encryption algorithms.
        encryption_algorithms: List<Opaque<'a, OPAQUE_BYTES_MAX>, ALGORITHMS_MAX>,
        /// Number of SSV versions to retain.
        window: u32,
        /// Number of GSS handles to return.
        gss_handle_count: u32,
    }

    /// A server's SP4_SSV parameters: `ssv_prot_info4`.
    struct SsvInfo<'a> {
        /// Protected operations.
        operations: StateProtectOperations,
        /// Index of the hash algorithm in the client's list.
        hash_algorithm: u32,
        /// Index of the encryption algorithm in the client's list.
        encryption_algorithm: u32,
        /// Length of the SSV, in bytes.
        ssv_bytes: u32,
        /// Number of SSV versions that the server retains.
        window: u32,
        /// GSS handles.
        handles: List<Opaque<'a, OPAQUE_BYTES_MAX>, ALGORITHMS_MAX>,
    }

    /// EXCHANGE_ID's arguments.
    struct ExchangeIdArgs<'a> {
        /// The client's identity.
        client_owner: ClientOwner<'a>,
        /// The client's capabilities.
        flags: ExchangeIdFlags,
        /// Requested state protection.
        state_protect: StateProtectArgs<'a>,
        /// The client's implementation.
        implementation_id: List<ImplementationId<'a>, 1>,
    }

    /// EXCHANGE_ID's results.
    struct ExchangeIdResult<'a> {
        /// Client id.
        client_id: ClientId,
        /// Sequence id of the first CREATE_SESSION.
        sequence_id: u32,
        /// The server's capabilities, and whether the client record is confirmed.
        flags: ExchangeIdFlags,
        /// State protection.
        state_protect: StateProtectResult<'a>,
        /// The server's identity.
        server_owner: ServerOwner<'a>,
        /// Scope in which the server's ids are valid.
        server_scope: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// The server's implementation.
        implementation_id: List<ImplementationId<'a>, 1>,
    }

    /// Limits of one channel of a session: `channel_attrs4`.
    struct ChannelAttributes {
        /// Padding before data, for RDMA, in bytes.
        header_pad_bytes: u32,
        /// Maximum length of a request, including the RPC header.
        request_bytes_max: u32,
        /// Maximum length of a reply.
        response_bytes_max: u32,
        /// Maximum length of a cached reply.
        response_cached_bytes_max: u32,
        /// Maximum number of operations in a compound.
        operations_max: u32,
        /// Number of slots.
        requests_max: u32,
        /// RDMA's inbound read queue depth.
        rdma_ird: List<u32, 1>,
    }

    /// GSS contexts for the backchannel: `gss_cb_handles4`.
    #[derive(Copy)]
    struct GssCallbackHandles<'a> {
        /// Protection of messages.
        service: GssService,
        /// The server's context handle.
        from_server: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// The client's context handle.
        from_client: Opaque<'a, OPAQUE_BYTES_MAX>,
    }

    /// CREATE_SESSION's arguments.
    struct CreateSessionArgs<'a> {
        /// Client id.
        client_id: ClientId,
        /// Sequence id; the server caches one reply per client.
        sequence_id: u32,
        /// Requested flags.
        flags: CreateSessionFlags,
        /// Requested limits of the fore channel.
        fore_channel: ChannelAttributes,
        /// Requested limits of the backchannel.
        back_channel: ChannelAttributes,
        /// Program number of the client's callback service.
        callback_program: u32,
        /// Credentials that the server may use in callbacks.
        callback_security: List<CallbackSecurity<'a>, CALLBACK_SECURITY_MAX>,
    }

    /// CREATE_SESSION's results.
    struct CreateSessionResult {
        /// The session.
        session_id: NfsSessionId,
        /// Sequence id of the request.
        sequence_id: u32,
        /// Granted flags.
        flags: CreateSessionFlags,
        /// Limits of the fore channel.
        fore_channel: ChannelAttributes,
        /// Limits of the backchannel.
        back_channel: ChannelAttributes,
    }

    /// SEQUENCE's arguments.
    #[derive(Copy)]
    struct SequenceArgs {
        /// The session.
        session_id: NfsSessionId,
        /// Sequence id of the request in its slot.
        sequence_id: u32,
        /// Slot id.
        slot_id: u32,
        /// The highest slot id that the client uses.
        highest_slot_id: u32,
        /// True if the server must cache the reply.
        cache_this: bool,
    }

    /// SEQUENCE's results.
    #[derive(Copy)]
    struct SequenceResult {
        /// The session.
        session_id: NfsSessionId,
        /// Sequence id of the request.
        sequence_id: u32,
        /// Slot id of the request.
        slot_id: u32,
        /// The highest slot id that the server accepts.
        highest_slot_id: u32,
        /// The highest slot id that the server wants the client to use.
        target_highest_slot_id: u32,
        /// Conditions that the client must handle.
        status_flags: SequenceStatusFlags,
    }

    /// BIND_CONN_TO_SESSION's arguments.
    #[derive(Copy)]
    struct BindConnToSessionArgs {
        /// The session.
        session_id: NfsSessionId,
        /// Requested channels of the connection.
        direction: ChannelFromClient,
        /// True if the connection shall switch to RDMA.
        use_rdma: bool,
    }

    /// BIND_CONN_TO_SESSION's results.
    #[derive(Copy)]
    struct BindConnToSessionResult {
        /// The session.
        session_id: NfsSessionId,
        /// Channels of the connection.
        direction: ChannelFromServer,
        /// True if the connection switches to RDMA.
        use_rdma: bool,
    }

    /// BACKCHANNEL_CTL's arguments.
    struct BackchannelCtlArgs<'a> {
        /// Program number of the client's callback service.
        callback_program: u32,
        /// Credentials that the server may use in callbacks.
        callback_security: List<CallbackSecurity<'a>, CALLBACK_SECURITY_MAX>,
    }

    /// DESTROY_SESSION's arguments.
    #[derive(Copy)]
    struct DestroySessionArgs {
        /// The session.
        session_id: NfsSessionId,
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
        /// True if the declaration covers the current file handle's file system only.
        one_fs: bool,
    }

    /// SET_SSV's arguments.
    #[derive(Copy)]
    struct SetSsvArgs<'a> {
        /// Value that changes the SSV.
        ssv: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// Digest that authenticates the request.
        digest: Opaque<'a, OPAQUE_BYTES_MAX>,
    }

    /// SET_SSV's results.
    #[derive(Copy)]
    struct SetSsvResult<'a> {
        /// Digest that authenticates the reply.
        digest: Opaque<'a, OPAQUE_BYTES_MAX>,
    }
}

/// Protection of a client's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateProtect<S> {
    /// SP4_NONE.
    None,
    /// SP4_MACH_CRED.
    MachineCredentials(StateProtectOperations),
    /// SP4_SSV.
    Ssv(S),
}

/// Requested state protection: `state_protect4_a`.
pub type StateProtectArgs<'a> = StateProtect<SsvParameters<'a>>;

/// Granted state protection: `state_protect4_r`.
pub type StateProtectResult<'a> = StateProtect<SsvInfo<'a>>;

impl<'a, S: Decode<'a>> Decode<'a> for StateProtect<S> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
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

/// Credentials for callbacks: `callback_sec_parms4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackSecurity<'a> {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS with these numbers.
    Sys(AuthSys<'a>),
    /// RPCSEC_GSS with these contexts.
    Gss(GssCallbackHandles<'a>),
}

impl<'a> Decode<'a> for CallbackSecurity<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
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
