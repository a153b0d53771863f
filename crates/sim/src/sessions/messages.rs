//! Messages of machines: COMPOUND records, and replies to callbacks. RFC 8881 2.10, 18, 20.

use super::machine::{MachineSlot, SlotOperation};
use bytes::Bytes;
use wire::nfs::attributes::Fattr;
use wire::nfs::callback::{Callback, CallbackCompound, CallbackReplyEncoder, CbSequenceArgs};
use wire::nfs::compound::CompoundRequest;
use wire::nfs::ops::{
    BindConnToSessionArgs, CallbackSecurity, ChannelAttributes, ChannelFromClient, ClientOwner,
    CloseArgs, CreateSessionArgs, CreateSessionFlags, DelegReturnArgs, ExchangeIdArgs,
    ExchangeIdFlags, LookupArgs, NfsCreateHow, NfsOpenHow, OpenArgs, OpenClaim, Operation,
    ReadDirArgs, ReclaimCompleteArgs, RemoveArgs, RenameArgs, SequenceArgs, ShareAccess, ShareDeny,
    StateProtectArgs,
};
use wire::nfs::rpc::{AuthFlavor, AuthSys, Groups, OpaqueAuth, RpcCall, put_success};
use wire::nfs::xdr::{List, Opaque, XdrWriter};
use wire::nfs::{Bitmap4, ClientId, NfsSessionId, NfsStatus, StateId, StateOwner, Verifier};

/// The common share.
pub const SHARE: &[u8] = b"share";

/// A machine's own directory.
pub fn own_directory(machine: usize) -> String {
    format!("d{machine}")
}

/// A shared file.
pub fn shared_file(file: u8) -> String {
    format!("f{file}")
}

/// A name in a machine's own directory.
pub fn own_name(name: u8) -> String {
    format!("n{name}")
}

/// A record with a COMPOUND call.
pub fn record(xid: u32, operations: &[Operation<'_>]) -> Bytes {
    let mut body = Vec::new();
    let groups = Groups::new(&[]);
    let sys = AuthSys { stamp: 0, machine_name: Opaque(b"sim"), uid: 0, gid: 0, groups };
    XdrWriter::new(&mut body).put(&sys);
    let mut out = Vec::new();
    let w = &mut XdrWriter::new(&mut out);
    w.put(&RpcCall {
        xid,
        program: wire::nfs::numbers::NFS_PROGRAM,
        version: wire::nfs::numbers::NFS_VERSION,
        procedure: wire::nfs::numbers::PROCEDURE_COMPOUND,
        credentials: OpaqueAuth { flavor: AuthFlavor::SYS, body: Opaque(&body) },
        verifier: OpaqueAuth::NONE,
    });
    let mut request = CompoundRequest::begin(w, b"", 2);
    operations.iter().for_each(|operation| request.push(w, operation));
    request.finish(w);
    out.into()
}

/// EXCHANGE_ID of a machine.
pub fn introduction(machine: usize) -> Bytes {
    let name = format!("machine {machine}");
    let client_owner =
        ClientOwner { verifier: Verifier([1; 8]), owner_id: Opaque(name.as_bytes()) };
    let args = ExchangeIdArgs {
        client_owner,
        flags: ExchangeIdFlags(0),
        state_protect: StateProtectArgs::None,
        implementation_id: List::default(),
    };
    record(1, &[Operation::ExchangeId(args)])
}

/// CREATE_SESSION with callbacks on the same connection. `sequence_id` comes from EXCHANGE_ID.
pub fn new_session(client_id: ClientId, sequence_id: u32, slots: u32) -> Bytes {
    let channel = |requests_max| ChannelAttributes {
        header_pad_bytes: 0,
        request_bytes_max: 65_536,
        response_bytes_max: 65_536,
        response_cached_bytes_max: 4096,
        operations_max: 16,
        requests_max,
        rdma_ird: List::default(),
    };
    let args = CreateSessionArgs {
        client_id,
        sequence_id,
        flags: CreateSessionFlags::CONN_BACK_CHAN,
        fore_channel: channel(slots),
        back_channel: channel(2),
        callback_program: 1,
        callback_security: List(vec![CallbackSecurity::None]),
    };
    record(2, &[Operation::CreateSession(args)])
}

/// BIND_CONN_TO_SESSION for these channels.
pub fn binding(xid: u32, session_id: NfsSessionId, direction: ChannelFromClient) -> Bytes {
    let args = BindConnToSessionArgs { session_id, direction, use_rdma: false };
    record(xid, &[Operation::BindConnToSession(args)])
}

/// The operations before the actual one: SEQUENCE, and the look-ups of the path.
pub fn walk<'a>(sequence: SequenceArgs, names: &[&'a [u8]]) -> Vec<Operation<'a>> {
    let way = names.iter().map(|name| Operation::Lookup(LookupArgs { name }));
    [Operation::Sequence(sequence), Operation::PutRootFh].into_iter().chain(way).collect()
}

fn open_args<'a>(
    owner: &'a [u8],
    access: u32,
    how: NfsOpenHow<'a>,
    name: &'a [u8],
) -> OpenArgs<'a> {
    OpenArgs {
        sequence_id: 0,
        share_access: ShareAccess(access),
        share_deny: ShareDeny(0),
        owner: StateOwner { client_id: ClientId(0), owner: Opaque(owner) },
        how,
        claim: OpenClaim::Null(name),
    }
}

/// Encodes the request of a slot; `highest_slot_id` is the highest one in use.
pub fn request(
    machine: usize,
    session_id: NfsSessionId,
    slot_id: u32,
    slot: &MachineSlot,
    highest_slot_id: u32,
) -> Bytes {
    let Some(in_flight) = &slot.in_flight else { return Bytes::new() };
    let op = in_flight.op;
    let (sequence_id, cache_this) = (slot.sequence, op.is_kept());
    let sequence = SequenceArgs { session_id, sequence_id, slot_id, highest_slot_id, cache_this };
    let own = own_directory(machine);
    let own: &[&[u8]] = &[SHARE, own.as_bytes()];
    let mut all = match op {
        SlotOperation::Renew | SlotOperation::Complete => vec![Operation::Sequence(sequence)],
        SlotOperation::Open { .. }
        | SlotOperation::Close { .. }
        | SlotOperation::ReturnDelegation { .. } => walk(sequence, &[SHARE]),
        _ => walk(sequence, own),
    };
    let (first, second, owner);
    match op {
        SlotOperation::Make(name) => {
            first = own_name(name);
            let how = NfsOpenHow::Create(NfsCreateHow::Guarded(Fattr::default()));
            let access = ShareAccess::WRITE.0 | ShareAccess::WANT_NO_DELEG.0;
            all.push(Operation::Open(open_args(b"maker", access, how, first.as_bytes())));
            all.push(Operation::Close(CloseArgs { sequence_id: 0, state_id: StateId::CURRENT }));
        }
        SlotOperation::Remove(name) => {
            first = own_name(name);
            all.push(Operation::Remove(RemoveArgs { name: first.as_bytes() }));
        }
        SlotOperation::Rename(from, to) => {
            (first, second) = (own_name(from), own_name(to));
            all.push(Operation::SaveFh);
            let (old_name, new_name) = (first.as_bytes(), second.as_bytes());
            all.push(Operation::Rename(RenameArgs { old_name, new_name }));
        }
        SlotOperation::List => all.push(Operation::ReadDir(ReadDirArgs {
            cookie: 0,
            cookie_verifier: Verifier::default(),
            directory_bytes: 4000,
            bytes_max: 8000,
            requested: Bitmap4::EMPTY,
        })),
        SlotOperation::Open { file, writes, number } => {
            (first, owner) = (shared_file(file), format!("o{number}"));
            let access = if writes { 3 } else { ShareAccess::READ.0 };
            let args = open_args(owner.as_bytes(), access, NfsOpenHow::NoCreate, first.as_bytes());
            all.push(Operation::Open(args));
        }
        SlotOperation::Close { file, state_id, .. } => {
            first = shared_file(file);
            all.push(Operation::Lookup(LookupArgs { name: first.as_bytes() }));
            all.push(Operation::Close(CloseArgs { sequence_id: 0, state_id }));
        }
        SlotOperation::ReturnDelegation { file, state_id } => {
            first = shared_file(file);
            all.push(Operation::Lookup(LookupArgs { name: first.as_bytes() }));
            all.push(Operation::DelegReturn(DelegReturnArgs { state_id }));
        }
        SlotOperation::Complete => {
            all.push(Operation::ReclaimComplete(ReclaimCompleteArgs { one_fs: false }));
        }
        SlotOperation::Renew => {}
    }
    record(in_flight.xid, &all)
}

/// Encodes the reply to a callback from the result of `take` for each operation. `None` if the
/// message is no CB_COMPOUND.
pub fn callback_answer(
    xid: u32,
    callbacks: CallbackCompound<'_>,
    mut sequence: impl FnMut(&CbSequenceArgs) -> Result<(), NfsStatus>,
    mut take: impl FnMut(&Callback<'_>) -> Result<(), NfsStatus>,
) -> Option<Bytes> {
    let mut reply = Vec::new();
    put_success(&mut XdrWriter::new(&mut reply), xid);
    let w = &mut XdrWriter::new(&mut reply);
    let mut results = CallbackReplyEncoder::begin(w, b"");
    let mut status = NfsStatus::OK;
    for callback in callbacks {
        let callback = callback.ok()?;
        let number = callback.number();
        let result = match &callback {
            Callback::Sequence(args) => {
                let result = sequence(args).map(|()| wire::nfs::callback::CbSequenceResult {
                    session_id: args.session_id,
                    sequence_id: args.sequence_id,
                    slot_id: args.slot_id,
                    highest_slot_id: args.highest_slot_id,
                    target_highest_slot_id: args.highest_slot_id,
                });
                results.push(w, number, &result);
                result.map(|_| ())
            }
            other => {
                let result = take(other);
                results.push(w, number, &result);
                result
            }
        };
        if let Err(failed) = result {
            status = failed;
            break;
        }
    }
    results.finish(w, status);
    Some(reply.into())
}

/// The reply to a CB_NULL.
pub fn null_answer(xid: u32) -> Bytes {
    let mut reply = Vec::new();
    put_success(&mut XdrWriter::new(&mut reply), xid);
    reply.into()
}
