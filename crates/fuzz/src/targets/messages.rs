//! SMB2 messages and their framing.

use smb::persistent::OpenRecord;
use wire::codec::{Reader, Writer};
use wire::crypto::{Cipher, OpeningKey, SealingKey};
use wire::frame::{PREFIX_BYTES, first_payload, prefix};
use wire::smb::fsctl::{
    CopyChunkRequest, DuplicateExtents, ValidateNegotiate, decode_pipe_wait, decode_trim,
};
use wire::smb::negotiate::{NegotiateRequest, context, decode_algorithms, decode_preauth};
use wire::smb::{
    AppInstanceVersion, ChangeNotifyRequest, CloseRequest, Command, CreateContexts, CreateRequest,
    DurableReconnectV2, DurableRequestV2, EmptyBody, FlushRequest, Header, IoctlRequest,
    LeaseContext, LockRequest, OplockBreakAck, QueryDirectoryRequest, QueryInfoRequest,
    ReadRequest, SessionId, SessionSetupRequest, SetInfoRequest, TransformHeader,
    TreeConnectRequest, WriteRequest, WriteResponse, decode_app_instance_id,
    decode_durable_reconnect, next_element, put_context, smb1_dialects,
};

/// Payloads of a stream: the prefix gives each payload's position and length.
pub fn frame(mut stream: &[u8]) {
    while let Ok(Some(payload)) = first_payload(stream, 1 << 16) {
        assert_eq!(stream[..PREFIX_BYTES], prefix(payload.len()).unwrap());
        stream = &stream[PREFIX_BYTES + payload.len()..];
    }
}

/// Headers of a compound: they adjoin, and they round-trip.
pub fn compound(frame: &[u8]) {
    let mut start = 0;
    loop {
        let Ok(header) = Header::decode(&mut Reader::new(&frame[start..])) else { return };
        let mut again = Vec::new();
        header.encode(&mut Writer::new(&mut again));
        assert_eq!(Header::decode(&mut Reader::new(&again)), Ok(header));
        let Ok(range) = next_element(frame.len(), start, header.next_command) else { return };
        assert!(range.start == start && range.len() >= Header::LENGTH && range.end <= frame.len());
        if header.next_command == 0 {
            return;
        }
        start = range.end;
    }
}

/// Asserts that a decoded value survives encoding and decoding.
macro_rules! round_trip {
    ($r:expr, $type:ident) => {{
        let Ok(value) = $type::decode($r) else { return };
        let mut message = vec![0; Header::LENGTH];
        value.encode(&mut Writer::with_origin(&mut message, 0));
        let mut again = Reader::new(&message);
        again.skip(Header::LENGTH, "header").unwrap();
        assert_eq!($type::decode(&mut again), Ok(value));
    }};
}

/// Any request, by the command of its header.
pub fn request(message: &[u8]) {
    let r = &mut Reader::new(message);
    let Ok(header) = Header::decode(r) else { return };
    match header.command {
        Command::NEGOTIATE => negotiate(r),
        Command::SESSION_SETUP => round_trip!(r, SessionSetupRequest),
        Command::TREE_CONNECT => round_trip!(r, TreeConnectRequest),
        Command::CREATE => round_trip!(r, CreateRequest),
        Command::CLOSE => round_trip!(r, CloseRequest),
        Command::READ => round_trip!(r, ReadRequest),
        Command::WRITE => round_trip!(r, WriteRequest),
        Command::LOCK => lock(r),
        Command::FLUSH => drop(FlushRequest::decode(r)),
        Command::IOCTL => drop(IoctlRequest::decode(r)),
        Command::QUERY_DIRECTORY => drop(QueryDirectoryRequest::decode(r)),
        Command::CHANGE_NOTIFY => drop(ChangeNotifyRequest::decode(r)),
        Command::QUERY_INFO => drop(QueryInfoRequest::decode(r)),
        Command::SET_INFO => drop(SetInfoRequest::decode(r)),
        Command::OPLOCK_BREAK => drop(OplockBreakAck::decode(r)),
        _ => {
            let _ = WriteResponse::decode(&mut r.clone());
            round_trip!(r, EmptyBody);
        }
    }
}

fn negotiate(r: &mut Reader<'_>) {
    round_trip!(&mut r.clone(), NegotiateRequest);
    let Ok(request) = NegotiateRequest::decode(r) else { return };
    for (kind, data) in &request.contexts {
        let _ = match *kind {
            context::PREAUTH_INTEGRITY => decode_preauth(data),
            _ => decode_algorithms(data),
        };
    }
}

fn lock(r: &mut Reader<'_>) {
    const ELEMENTS_MAX: usize = 4096;
    let Ok(request) = LockRequest::decode(r, ELEMENTS_MAX) else { return };
    assert!((1..=ELEMENTS_MAX).contains(&request.elements.len()));
}

/// Encrypted frames: only frames under the same key decrypt.
pub fn transform(frame: &[u8]) {
    if let Ok(header) = TransformHeader::decode(frame) {
        let mut again = frame.to_vec();
        header.put(&mut again);
        assert_eq!(TransformHeader::decode(&again), Ok(header));
    }
    for cipher in [Cipher::Aes128Gcm, Cipher::Aes256Ccm] {
        let open = OpeningKey::new(cipher, &[7; 32]);
        let mut foreign = frame.to_vec();
        assert!(open.open_in_place(&mut foreign).is_err());
        let mut sealed = vec![0; TransformHeader::LENGTH];
        sealed.extend_from_slice(frame);
        SealingKey::new(cipher, &[7; 32]).seal_in_place(&mut sealed, SessionId(1));
        open.open_in_place(&mut sealed).unwrap();
        assert_eq!(&sealed[TransformHeader::LENGTH..], frame);
    }
}

/// The first message of clients that also speak older protocols.
pub fn smb1_negotiate(frame: &[u8]) {
    let _ = smb1_dialects(frame);
}

/// Create context lists: decoded lists round-trip.
pub fn create_contexts(list: &[u8]) {
    let Ok(read) = CreateContexts::new(list).collect::<Result<Vec<_>, _>>() else { return };
    let mut written = Vec::new();
    read.iter().for_each(|(name, data)| put_context(&mut written, name, data));
    let again: Result<Vec<_>, _> = CreateContexts::new(&written).collect();
    assert_eq!(again, Ok(read.clone()));
    for (_, data) in read {
        durable_contexts(data);
        if let Ok(lease) = LeaseContext::decode(data) {
            assert_eq!(LeaseContext::decode(&lease.encode()), Ok(lease));
        }
    }
}

/// Data of durable create contexts.
fn durable_contexts(data: &[u8]) {
    let mut again = Vec::new();
    if let Ok(request) = DurableRequestV2::decode(data) {
        request.encode(&mut Writer::new(&mut again));
        assert_eq!(DurableRequestV2::decode(&again), Ok(request));
    } else if let Ok(reconnect) = DurableReconnectV2::decode(data) {
        reconnect.encode(&mut Writer::new(&mut again));
        assert_eq!(DurableReconnectV2::decode(&again), Ok(reconnect));
    }
    let _ = decode_durable_reconnect(data);
    if let Ok(version) = AppInstanceVersion::decode(data) {
        let mut again = Vec::new();
        version.encode(&mut Writer::new(&mut again));
        assert_eq!(AppInstanceVersion::decode(&again), Ok(version));
    }
    let _ = decode_app_instance_id(data);
}

/// Records of persistent opens: they round-trip, or are refused.
pub fn persistent_record(bytes: &[u8]) {
    if let Ok(record) = OpenRecord::decode(bytes) {
        assert_eq!(OpenRecord::decode(&record.to_bytes()), Ok(record));
    }
}

/// Payloads of IOCTL.
pub fn control_codes(payload: &[u8]) {
    const CHUNKS_MAX: u32 = 256;
    if let Ok(request) = CopyChunkRequest::decode(payload, CHUNKS_MAX) {
        assert!(request.chunks.len() <= CHUNKS_MAX as usize);
    }
    let _ = ValidateNegotiate::decode(payload);
    let _ = (DuplicateExtents::decode(payload), DuplicateExtents::decode_extended(payload));
    if let Ok(ranges) = decode_trim(payload, CHUNKS_MAX) {
        assert!(ranges.len() <= CHUNKS_MAX as usize);
    }
    if let Ok(name) = decode_pipe_wait(payload) {
        assert!(name.len() < payload.len());
    }
}
