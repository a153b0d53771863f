//! Responses of a server to the client of this project.

use client::{
    ClientConn, EstablishedConnection, Logon, ReceivedMessage, RequestBody, RequestOutbox, SetUp,
    SetUpStep, SmbOptions, SmbRequest,
};
use wire::codec::{Reader, Writer};
use wire::fscc::{DirectoryClass, FileTime, take_directory_record};
use wire::ntlm::{self, NtHash, NtlmCredentials, Secrets, TargetFacts};
use wire::ntstatus::NtStatus;
use wire::smb::negotiate::NegotiateResponse;
use wire::smb::{
    CloseResponse, Command, CreateContexts, CreateResponse, EmptyBody, ErrorResponse, FileId,
    Header, IoctlResponse, NetworkInterface, OplockBreak, QueryDirectoryRequest, QueryFlags,
    ReadRequest, ReadResponse, SessionFlags, SessionId, SessionSetupRequest, SessionSetupResponse,
    TreeConnectResponse, TreeId, WriteResponse, decode_output_buffer,
};
use wire::spnego;

fn options() -> SmbOptions {
    SmbOptions { allow_guest: true, credits: 8, ..SmbOptions::default() }
}

fn logon() -> Logon {
    let credentials = NtlmCredentials {
        user: "user".into(),
        domain: String::new(),
        workstation: "HERE".into(),
        hash: NtHash::of_password("a password that no input proves"),
    };
    let secrets = Secrets { challenge: [1; 8], session_key: [2; 16], now: FileTime(3) };
    Logon { credentials, ticket: None, secrets, salt: [4; 32], binds: None }
}

/// Frames of a session set-up, each after its length in two bytes. A server without the password
/// can at most make the client a guest.
pub fn set_up_replies(mut input: &[u8]) {
    let Ok((mut set_up, _)) = SetUp::new(&options(), logon()) else { return };
    while let Some((length, rest)) = input.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (frame, rest) = rest.split_at(length);
        match set_up.handle_frame(&mut frame.to_vec()) {
            Ok(SetUpStep::Send(_)) => {}
            Ok(SetUpStep::Done(ready)) => {
                let session = ready.conn.session();
                assert!(
                    session.is_guest || session.negotiated.dialect < wire::smb::Dialect::Smb311
                );
                return;
            }
            Err(_) => return,
        }
        input = rest;
    }
}

fn reply(request: &[u8], status: NtStatus, put: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut header = Header::decode(&mut Reader::new(&request[4..])).unwrap().reply(status, 8);
    if header.command == Command::SESSION_SETUP {
        header.session_id = SessionId(1);
    }
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    header.encode(&mut w);
    put(&mut w);
    out
}

/// A guest on SMB 2.1: no message is signed, so a server can forge everything.
fn guest() -> ClientConn {
    let facts = TargetFacts { name: "SRV".into(), domain: "WG".into() };
    let mut acceptor = ntlm::NtlmAcceptor::new(facts, [3; 8], FileTime(4));
    let (mut set_up, first) = SetUp::new(&options(), logon()).unwrap();
    let negotiated = NegotiateResponse {
        security_mode: 1,
        dialect: 0x0210,
        server_guid: [1; 16],
        capabilities: 4,
        transact_bytes_max: 1 << 20,
        read_bytes_max: 1 << 20,
        write_bytes_max: 1 << 20,
        now: FileTime(5),
        token: &[],
        contexts: Vec::new(),
    };
    let mut answer = reply(&first, NtStatus::SUCCESS, |w| negotiated.encode(w));
    let Ok(SetUpStep::Send(second)) = set_up.handle_frame(&mut answer) else { panic!("NEGOTIATE") };
    let mut r = Reader::new(&second[4..]);
    r.skip(Header::LENGTH, "header").unwrap();
    let token = SessionSetupRequest::decode(&mut r).unwrap().token;
    let at = token.windows(7).position(|w| w == b"NTLMSSP").unwrap();
    let challenge = spnego::wrap_challenge(&acceptor.handle_negotiate(&token[at..]).unwrap());
    let status = NtStatus::MORE_PROCESSING_REQUIRED;
    let body = SessionSetupResponse { flags: SessionFlags::default(), token: &challenge };
    let mut answer = reply(&second, status, |w| body.encode(w));
    let Ok(SetUpStep::Send(third)) = set_up.handle_frame(&mut answer) else { panic!("challenge") };
    let body = SessionSetupResponse { flags: SessionFlags::GUEST, token: &[] };
    let mut answer = reply(&third, NtStatus::SUCCESS, |w| body.encode(w));
    let Ok(SetUpStep::Done(ready)) = set_up.handle_frame(&mut answer) else { panic!("consent") };
    let EstablishedConnection { conn, .. } = *ready;
    conn
}

/// Frames, each after its length in two bytes, for a client with a few requests in flight; and the
/// decoding of them.
pub fn server_replies(mut input: &[u8]) {
    let mut conn = guest();
    let file_id = FileId::default();
    let read = |length_bytes| {
        let read =
            ReadRequest { flags: 0, length_bytes, offset_bytes: 0, file_id, minimum_bytes: 0 };
        SmbRequest::new(RequestBody::Read(read), TreeId(1))
    };
    let list = RequestBody::QueryDirectory(QueryDirectoryRequest {
        class: 37,
        flags: QueryFlags(1),
        index: 0,
        file_id,
        pattern: b"*\0",
        output_bytes: 4096,
    });
    let mut out = RequestOutbox::default();
    conn.send(&[read(4096), read(10)], &[0, 1], &mut out).unwrap();
    conn.send(&[SmbRequest::new(list, TreeId(1))], &[2], &mut out).unwrap();
    conn.send(&[SmbRequest::new(RequestBody::Echo, TreeId(0))], &[3], &mut out).unwrap();
    let opener = conn.opener();
    let mut answered = 0;
    while let Some((length, rest)) = input.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (frame, rest) = rest.split_at(length);
        let opened = opener.open(&mut frame.to_vec(), None, |frame, message| {
            if let ReceivedMessage::Answer(_) = conn.take(&message)? {
                answered += 1;
            }
            decode(&frame[message.range], message.header.command);
            Ok(())
        });
        if opened.is_err() {
            break;
        }
        input = rest;
    }
    assert!(answered <= 4, "as many answers as requests");
    assert_eq!(conn.outstanding().0, 4 - answered);
}

/// Decodes a message as each of its possible types.
fn decode(message: &[u8], command: Command) {
    let r = || {
        let mut r = Reader::new(message);
        let _ = r.skip(Header::LENGTH, "header");
        r
    };
    let _ = ErrorResponse::decode(&mut r());
    match command {
        Command::READ => {
            if let Ok(data) = ReadResponse::decode(&mut r()) {
                assert!(data.len() <= message.len());
            }
        }
        Command::QUERY_DIRECTORY => {
            let Ok(mut list) = decode_output_buffer(&mut r()) else { return };
            while let Ok((_, rest)) = take_directory_record(DirectoryClass::IdBothDirectory, list) {
                assert!(rest.len() < list.len());
                list = rest;
                if list.is_empty() {
                    break;
                }
            }
        }
        _ => {
            let _ = EmptyBody::decode(&mut r());
            let _ = TreeConnectResponse::decode(&mut r());
            let _ = CloseResponse::decode(&mut r());
            let _ = WriteResponse::decode(&mut r());
            let _ = OplockBreak::decode(&mut r());
            if let Ok((_, contexts)) = CreateResponse::decode(&mut r()) {
                CreateContexts::new(contexts).for_each(drop);
            }
            if let Ok(ioctl) = IoctlResponse::decode(&mut r()) {
                let _ = NetworkInterface::decode_list(ioctl.output, 64);
            }
        }
    }
}
