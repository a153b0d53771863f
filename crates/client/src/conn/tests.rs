//! Message ids, credits, signatures and encryption, and responses that must be refused.

use super::*;
use crate::options::{SigningPolicy, SmbOptions};
use crate::set_up::EstablishedConnection;
use crate::set_up::tests::{FaultyServer, run, server};
use bytes::Bytes;
use wire::codec::Reader;
use wire::crypto::{Cipher, KeyPurpose, OpeningKey, SealingKey};
use wire::smb::{
    CloseRequest, CreateRequest, ErrorResponse, FileId, ReadRequest, SessionId, TreeId,
    next_element,
};

fn read(length_bytes: u32) -> SmbRequest<'static> {
    let file_id = FileId::default();
    let body = ReadRequest { flags: 0, length_bytes, offset_bytes: 0, file_id, minimum_bytes: 0 };
    SmbRequest::new(RequestBody::Read(body), TreeId(5))
}

fn ready(options: &SmbOptions) -> (ClientConn, FaultyServer) {
    let mut server = server(Dialect::Smb311);
    let EstablishedConnection { conn, .. } = *run(&mut server, options).unwrap();
    (conn, server)
}

fn signed() -> SmbOptions {
    SmbOptions { signing: SigningPolicy::Required, ..SmbOptions::default() }
}

fn sealed() -> SmbOptions {
    SmbOptions { sealed: true, ..SmbOptions::default() }
}

/// Sends one chain; returns its frame without the prefix.
fn send(conn: &mut ClientConn, chain: &[SmbRequest<'_>]) -> Vec<u8> {
    let tokens: Vec<usize> = (0..chain.len()).collect();
    let mut out = RequestOutbox::default();
    assert_eq!(conn.send(chain, &tokens, &mut out), Ok(true));
    let bytes = out.to_bytes();
    let length = wire::frame::payload_length(bytes[..4].try_into().unwrap()).unwrap();
    assert_eq!(length, bytes.len() - 4);
    bytes[4..].to_vec()
}

fn headers(frame: &[u8]) -> Vec<(Header, usize)> {
    let (mut found, mut start) = (Vec::new(), 0);
    loop {
        let header = Header::decode(&mut Reader::new(&frame[start..])).unwrap();
        let range = next_element(frame.len(), start, header.next_command).unwrap();
        found.push((header, range.len()));
        if header.next_command == 0 {
            return found;
        }
        start = range.end;
    }
}

fn answer(header: &Header, status: NtStatus, credits: u16) -> Vec<u8> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    header.reply(status, credits).encode(&mut w);
    ErrorResponse::EMPTY.encode(&mut w);
    out
}

fn take(conn: &mut ClientConn, mut frame: Vec<u8>) -> Result<Vec<ReceivedMessage>, Error> {
    let mut all = Vec::new();
    conn.opener().open(&mut frame, None, |_, message| {
        all.push(conn.take(&message)?);
        Ok(())
    })?;
    Ok(all)
}

#[test]
fn large_request_consumes_one_message_id_per_credit() {
    let (mut conn, _) = ready(&SmbOptions::default());
    let before = conn.credits();
    let [(first, _)] = headers(&send(&mut conn, &[read(65_537)]))[..] else { panic!() };
    let [(second, _)] = headers(&send(&mut conn, &[read(10)]))[..] else { panic!() };
    assert_eq!((first.credit_charge, second.credit_charge), (2, 1));
    assert_eq!(second.message_id.0, first.message_id.0 + 2);
    assert_eq!(conn.credits(), before - 3);
    assert!(first.credits > 2, "it asks for what it wants to hold");
}

#[test]
fn request_without_credits_waits_for_a_grant() {
    let (mut conn, _) = ready(&SmbOptions { credits: 1, ..SmbOptions::default() });
    let mut frames = Vec::new();
    while conn.credits() > 0 {
        frames.push(send(&mut conn, &[read(1)]));
    }
    let mut out = RequestOutbox::default();
    assert_eq!(conn.send(&[read(1)], &[0], &mut out), Ok(false));
    assert!(out.is_empty());
    let header = headers(&frames[0])[0].0;
    let done = answer(&header, NtStatus::END_OF_FILE, 1);
    assert_eq!(take(&mut conn, done), Ok(vec![ReceivedMessage::Answer(0)]));
    assert_eq!(conn.send(&[read(1)], &[0], &mut out), Ok(true));
    for frame in &frames[1..] {
        let done = answer(&headers(frame)[0].0, NtStatus::END_OF_FILE, 0);
        take(&mut conn, done).unwrap();
    }
    assert_eq!(conn.send(&[read(1)], &[0], &mut out), Ok(false), "one is under way");
    assert_eq!(conn.outstanding(), (1, 0));
}

#[test]
fn server_without_any_credits_is_an_error() {
    let (mut conn, _) = ready(&SmbOptions::default());
    let much = [read(8 << 20)];
    let mut out = RequestOutbox::default();
    assert_eq!(conn.cost(&much), 128);
    assert_eq!(conn.send(&much, &[0], &mut out), Err(Error::NoCredits));
}

#[test]
fn chain_is_related_aligned_and_signed_per_message() {
    let (mut conn, _) = ready(&signed());
    let create = CreateRequest {
        oplock: 0,
        impersonation: 2,
        desired_access: 1,
        attributes: 0,
        share_access: 7,
        disposition: 1,
        options: 0,
        name: b"a\0b\0c\0",
        contexts: &[],
    };
    let close = CloseRequest { flags: 0, file_id: FileId::RELATED };
    let chain = [
        SmbRequest::new(RequestBody::Create(create), TreeId(5)),
        SmbRequest::new(RequestBody::Close(close), TreeId(5)),
    ];
    let frame = send(&mut conn, &chain);
    let parts = headers(&frame);
    assert_eq!(parts.len(), 2);
    assert!(!parts[0].0.flags.contains(Flags::RELATED));
    assert!(parts[1].0.flags.contains(Flags::RELATED | Flags::SIGNED));
    let (first, second) = frame.split_at(parts[0].1);
    assert!(first.len().is_multiple_of(8));
    assert!(conn.opener().signing.verify(first) && conn.opener().signing.verify(second));
}

#[test]
fn unsigned_data_is_sent_in_place_and_signed_data_covered() {
    let data = Bytes::from(vec![7; 100_000]);
    let write = || {
        let file_id = FileId::default();
        SmbRequest::new(
            RequestBody::Write { file_id, offset_bytes: 0, flags: 0, data: &data },
            TreeId(5),
        )
    };
    for options in [SmbOptions::default(), signed()] {
        let (mut conn, _) = ready(&options);
        let frame = send(&mut conn, &[write()]);
        assert!(frame.ends_with(&data));
        assert_eq!(frame.len(), 64 + 48 + data.len());
        let is_signed = headers(&frame)[0].0.flags.contains(Flags::SIGNED);
        assert_eq!(is_signed, conn.session().signs);
        assert_eq!(conn.opener().signing.verify(&frame), is_signed);
    }
}

#[test]
fn unsigned_or_changed_response_ends_a_signing_connection() {
    let (mut conn, server) = ready(&signed());
    let key = server.key(&server.logon.as_ref().unwrap().session_key);
    let header = headers(&send(&mut conn, &[read(1)]))[0].0;
    let mut good = answer(&header, NtStatus::END_OF_FILE, 1);
    assert!(matches!(take(&mut conn, good.clone()), Err(Error::Hostile(_))), "not signed");
    good[16] |= Flags::SIGNED.0 as u8;
    key.sign(&mut good);
    let mut changed = good.clone();
    changed[70] ^= 1;
    assert!(matches!(take(&mut conn, changed), Err(Error::Hostile(_))));
    assert_eq!(take(&mut conn, good), Ok(vec![ReceivedMessage::Answer(0)]));
}

#[test]
fn sealed_connection_accepts_sealed_responses_only() {
    let (mut conn, server) = ready(&sealed());
    let mut frame = send(&mut conn, &[read(1)]);
    let open = OpeningKey::new(Cipher::Aes128Gcm, &server.cipher_key(KeyPurpose::ClientToServer));
    open.open_in_place(&mut frame).unwrap();
    let header = headers(&frame[52..])[0].0;
    assert!(!header.flags.contains(Flags::SIGNED), "the seal is proof enough");
    let plain = answer(&header, NtStatus::END_OF_FILE, 1);
    assert!(matches!(take(&mut conn, plain.clone()), Err(Error::Hostile(_))));
    let seal = SealingKey::new(Cipher::Aes128Gcm, &server.cipher_key(KeyPurpose::ServerToClient));
    let mut good = [&[0; 52][..], &plain].concat();
    seal.seal_in_place(&mut good, SessionId(77));
    let mut other = good.clone();
    other[44] ^= 1;
    assert!(matches!(take(&mut conn, other), Err(Error::Hostile(_))), "another session");
    assert_eq!(take(&mut conn, good), Ok(vec![ReceivedMessage::Answer(0)]));
}

#[test]
fn unmatched_or_repeated_response_is_hostile() {
    let (mut conn, _) = ready(&SmbOptions::default());
    let header = headers(&send(&mut conn, &[read(1)]))[0].0;
    let hostile = |conn: &mut ClientConn, header: &Header, status| {
        assert!(matches!(take(conn, answer(header, status, 1)), Err(Error::Hostile(_))));
    };
    hostile(&mut conn, &Header { message_id: MessageId(999), ..header }, NtStatus::SUCCESS);
    hostile(&mut conn, &Header { command: Command::WRITE, ..header }, NtStatus::SUCCESS);
    let mut interim = header.reply(NtStatus::PENDING, 1);
    interim.set_async(wire::smb::AsyncId(1));
    let mut bytes = Vec::new();
    interim.encode(&mut Writer::new(&mut bytes));
    assert_eq!(take(&mut conn, bytes.clone()), Ok(vec![ReceivedMessage::Interim(0)]));
    assert_eq!(conn.outstanding(), (1, 1));
    assert!(matches!(take(&mut conn, bytes), Err(Error::Hostile(_))), "a second interim answer");
    let done = answer(&header, NtStatus::SUCCESS, 1);
    assert_eq!(take(&mut conn, done.clone()), Ok(vec![ReceivedMessage::Answer(0)]));
    assert_eq!(conn.outstanding(), (0, 0));
    assert!(take(&mut conn, done).is_err(), "a second answer");
}

#[test]
fn signed_request_requires_a_signed_response() {
    let (mut conn, server) = ready(&SmbOptions::default());
    assert!(!conn.session().signs);
    let path = wire::smb::TreeConnectRequest { flags: 0, path: b"a\0" };
    let connect = SmbRequest::new(RequestBody::TreeConnect(path), TreeId(0));
    let header = headers(&send(&mut conn, &[connect]))[0].0;
    assert!(header.flags.contains(Flags::SIGNED), "3.1.1 signs TREE_CONNECT");
    let mut reply = answer(&header, NtStatus::SUCCESS, 1);
    assert!(matches!(take(&mut conn, reply.clone()), Err(Error::Hostile(_))));
    let pending = answer(&header, NtStatus::PENDING, 1);
    assert!(matches!(take(&mut conn, pending), Err(Error::Hostile(_))), "final, not interim");
    let mut interim = header.reply(NtStatus::PENDING, 1);
    interim.set_async(wire::smb::AsyncId(1));
    let mut bytes = Vec::new();
    interim.encode(&mut Writer::new(&mut bytes));
    assert_eq!(
        take(&mut conn, bytes),
        Ok(vec![ReceivedMessage::Interim(0)]),
        "interim replies are unsigned"
    );
    reply[16] |= Flags::SIGNED.0 as u8;
    server.key(&server.logon.as_ref().unwrap().session_key).sign(&mut reply);
    assert_eq!(take(&mut conn, reply), Ok(vec![ReceivedMessage::Answer(0)]));
}
