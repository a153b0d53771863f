//! Set-up against a server that the wire crate's server side implements.

use super::*;
use wire::crypto::{KeyPurpose, SessionKey, SigningKey, derive};
use wire::fscc::FileTime;
use wire::ntlm::{NtHash, NtlmCredentials, Secrets, TargetFacts};

/// A server with configurable faults.
pub(crate) struct FaultyServer {
    pub(crate) dialect: Dialect,
    pub(crate) cipher: u16,
    pub(crate) signing: u16,
    pub(crate) flags: SessionFlags,
    pub(crate) password: &'static str,
    /// A bit to flip in the last message.
    pub(crate) flip: Option<usize>,
    acceptor: spnego::SpnegoAcceptor,
    preauth: PreauthHash,
    pub(crate) logon: Option<Box<spnego::CompletedLogon>>,
}

pub(crate) fn server(dialect: Dialect) -> FaultyServer {
    let facts = TargetFacts { name: "SRV".into(), domain: "WG".into() };
    let ntlm = ntlm::NtlmAcceptor::new(facts, [3; 8], FileTime(4));
    FaultyServer {
        dialect,
        cipher: 2,
        signing: 1,
        flags: SessionFlags::default(),
        password: "secret",
        flip: None,
        acceptor: spnego::SpnegoAcceptor::new(ntlm, wire::ntlm::GuestPolicy::default()),
        preauth: PreauthHash::default(),
        logon: None,
    }
}

pub(crate) fn logon() -> Logon {
    let credentials = NtlmCredentials {
        user: "alice".into(),
        domain: String::new(),
        workstation: "HERE".into(),
        hash: NtHash::of_password("secret"),
    };
    let secrets = Secrets { challenge: [1; 8], session_key: [2; 16], now: FileTime(3) };
    Logon { credentials, secrets, salt: [4; 32], ticket: None, binds: None }
}

impl FaultyServer {
    fn reply(
        &self,
        header: &Header,
        status: NtStatus,
        put: impl FnOnce(&mut Writer<'_>),
    ) -> Vec<u8> {
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        let mut reply = header.reply(status, 33);
        if header.command == Command::SESSION_SETUP {
            reply.session_id = SessionId(77);
        }
        reply.encode(&mut w);
        put(&mut w);
        out
    }

    fn negotiate(&self, header: &Header) -> Vec<u8> {
        let (mut preauth, mut ciphers, mut signing) = (Vec::new(), Vec::new(), Vec::new());
        negotiate::put_preauth(&mut preauth, &[9; 8]);
        negotiate::put_algorithms(&mut ciphers, &[self.cipher]);
        negotiate::put_algorithms(&mut signing, &[self.signing]);
        let contexts = vec![
            (context::PREAUTH_INTEGRITY, preauth),
            (context::ENCRYPTION, ciphers),
            (context::SIGNING, signing),
        ];
        let response = NegotiateResponse {
            security_mode: SIGNING_ENABLED,
            dialect: self.dialect.number(),
            server_guid: [8; 16],
            capabilities: capabilities::LARGE_MTU | capabilities::MULTI_CHANNEL,
            transact_bytes_max: 1 << 20,
            read_bytes_max: 1 << 20,
            write_bytes_max: 1 << 20,
            now: FileTime(5),
            token: &spnego::hint(spnego::Mechanisms { ntlm: true, kerberos: false }),
            contexts,
        };
        self.reply(header, NtStatus::SUCCESS, |w| response.encode(w))
    }

    pub(crate) fn handle(&mut self, frame: &[u8]) -> Vec<u8> {
        let message = &frame[PREFIX_BYTES..];
        self.preauth.update(message);
        let mut r = Reader::new(message);
        let header = Header::decode(&mut r).unwrap();
        if header.command == Command::NEGOTIATE {
            let answer = self.negotiate(&header);
            self.preauth.update(&answer);
            return answer;
        }
        let request = SessionSetupRequest::decode(&mut r).unwrap();
        let hash = NtHash::of_password(self.password);
        match self.acceptor.handle_token(request.token, |_| Some(hash)) {
            Ok(spnego::SpnegoStep::Continue(token)) => {
                let body = SessionSetupResponse { flags: SessionFlags::default(), token: &token };
                let status = NtStatus::MORE_PROCESSING_REQUIRED;
                let answer = self.reply(&header, status, |w| body.encode(w));
                self.preauth.update(&answer);
                answer
            }
            Ok(spnego::SpnegoStep::Done(token, logon)) => {
                let body = SessionSetupResponse { flags: self.flags, token: &token };
                let mut answer = self.reply(&header, NtStatus::SUCCESS, |w| body.encode(w));
                if self.flags == SessionFlags::default() {
                    answer[16] |= Flags::SIGNED.0 as u8;
                    self.key(&logon.session_key).sign(&mut answer);
                }
                if let Some(at) = self.flip {
                    answer[at] ^= 1;
                }
                self.logon = Some(logon);
                answer
            }
            Err(_) => self.reply(&header, NtStatus::LOGON_FAILURE, |w| {
                wire::smb::ErrorResponse::EMPTY.encode(w);
            }),
        }
    }

    pub(crate) fn key(&self, session_key: &SessionKey) -> SigningKey {
        if self.dialect < Dialect::Smb300 {
            return SigningKey::new(SigningAlgorithm::HmacSha256, session_key.first());
        }
        let key = derive(self.dialect, session_key.first(), KeyPurpose::Signing, &self.preauth.0);
        let algorithm = match self.dialect {
            Dialect::Smb311 => SigningAlgorithm::from_number(self.signing).unwrap(),
            _ => SigningAlgorithm::AesCmac,
        };
        SigningKey::new(algorithm, &key)
    }

    pub(crate) fn cipher_key(&self, purpose: KeyPurpose) -> [u8; 32] {
        let session_key = &self.logon.as_ref().unwrap().session_key;
        let half: [u8; 16] = derive(self.dialect, session_key.first(), purpose, &self.preauth.0);
        let mut key = [0; 32];
        key[..16].copy_from_slice(&half);
        key
    }
}

pub(crate) fn run(
    server: &mut FaultyServer,
    options: &SmbOptions,
) -> Result<Box<EstablishedConnection>, Error> {
    let (mut set_up, mut frame) = SetUp::new(options, logon())?;
    for _ in 0..8 {
        let mut answer = server.handle(&frame);
        match set_up.handle_frame(&mut answer)? {
            SetUpStep::Send(next) => frame = next,
            SetUpStep::Done(ready) => return Ok(ready),
        }
    }
    panic!("it goes round and round")
}

#[test]
fn session_set_up_works_in_every_dialect() {
    for dialect in [Dialect::Smb210, Dialect::Smb300, Dialect::Smb302, Dialect::Smb311] {
        let ready = run(&mut server(dialect), &SmbOptions::default()).unwrap();
        let session = ready.conn.session();
        assert_eq!((session.id, session.negotiated.dialect), (SessionId(77), dialect));
        // One initial credit, three spent, 33 granted with each response.
        assert_eq!(ready.conn.credits(), 1 + 3 * 33 - 3, "{dialect}");
    }
}

#[test]
fn wrong_password_returns_the_servers_status() {
    let mut server = server(Dialect::Smb311);
    server.password = "another";
    let refused = run(&mut server, &SmbOptions::default()).unwrap_err();
    assert_eq!(refused, Error::Refused(Command::SESSION_SETUP, NtStatus::LOGON_FAILURE));
}

#[test]
fn server_without_the_password_is_detected() {
    for at in [8, 50, 66, 75] {
        let mut server = server(Dialect::Smb311);
        server.flip = Some(at);
        let error = run(&mut server, &SmbOptions::default()).unwrap_err();
        assert!(!matches!(error, Error::Misuse(_)), "{at}: {error:?}");
    }
}

#[test]
fn tampered_negotiate_is_detected() {
    let (mut set_up, frame) = SetUp::new(&SmbOptions::default(), logon()).unwrap();
    let mut server = server(Dialect::Smb311);
    let mut answer = server.handle(&frame);
    // The ServerGuid, which only the preauthentication hash covers.
    answer[64 + 8] ^= 1;
    let mut next = set_up.handle_frame(&mut answer);
    for _ in 0..4 {
        match next {
            Ok(SetUpStep::Send(frame)) => next = set_up.handle_frame(&mut server.handle(&frame)),
            other => {
                assert!(matches!(other, Err(Error::Hostile(_))), "{other:?}");
                return;
            }
        }
    }
    panic!("it was not found out");
}

#[test]
fn unoffered_choice_of_the_server_is_refused() {
    let narrow = SmbOptions {
        dialect_min: Dialect::Smb311,
        ciphers: vec![Cipher::Aes256Gcm],
        signing_algorithms: vec![SigningAlgorithm::AesCmac],
        ..SmbOptions::default()
    };
    let lies: [fn(&mut FaultyServer); 3] = [
        |server| server.dialect = Dialect::Smb302,
        |server| (server.cipher, server.signing) = (2, 1),
        |server| (server.cipher, server.signing) = (4, 2),
    ];
    for lie in lies {
        let mut server = server(Dialect::Smb311);
        lie(&mut server);
        assert!(run(&mut server, &narrow).is_err());
    }
    let mut honest = server(Dialect::Smb311);
    (honest.cipher, honest.signing) = (4, 1);
    assert!(run(&mut honest, &narrow).is_ok());
}

#[test]
fn guest_session_has_no_signing() {
    let guest = || FaultyServer { flags: SessionFlags::GUEST, ..server(Dialect::Smb311) };
    let content = SmbOptions { allow_guest: true, ..SmbOptions::default() };
    assert!(run(&mut guest(), &content).unwrap().conn.session().is_guest);
    for options in [
        SmbOptions::default(),
        SmbOptions { signing: SigningPolicy::Required, ..content.clone() },
        SmbOptions { sealed: true, ..content.clone() },
    ] {
        assert!(matches!(run(&mut guest(), &options), Err(Error::Incompatible(_))));
    }
}

#[test]
fn session_that_requires_encryption_is_sealed() {
    let mut server = server(Dialect::Smb210);
    let sealed = SmbOptions { sealed: true, ..SmbOptions::default() };
    assert!(matches!(run(&mut server, &sealed), Err(Error::Incompatible(_))), "2.1 cannot");
}
