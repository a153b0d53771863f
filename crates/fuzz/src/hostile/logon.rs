//! The client side of SESSION_SETUP, in halves that may belong to different exchanges.

use super::link::{
    HalfLogon, HostileLink, KnownSession, LogonPurpose, MessageProtection, SealKeys,
};
use super::surroundings::{EpisodeSurroundings, EpisodeUser};
use std::sync::Arc;
use wire::codec::{Reader, put_utf16};
use wire::crypto::{KeyPurpose, KeySource, OpeningKey, SealingKey, SessionKey, SigningAlgorithm};
use wire::fscc::FileTime;
use wire::ntlm::{NtHash, NtlmCredentials, NtlmInitiator, Secrets};
use wire::ntstatus::NtStatus;
use wire::smb::{
    Command, Dialect, Header, SessionFlags, SessionId, SessionSetupRequest, SessionSetupResponse,
};

/// UNICODE, TARGET, NTLM, ALWAYS_SIGN, NTLM2, 128. MS-NLMP 2.2.2.5.
const FLAGS: u32 = 0x2008_8205;

/// The account and password that a client uses.
#[derive(Clone, Copy, Debug)]
pub struct LogonClaim {
    pub user: EpisodeUser,
    pub is_right: bool,
}

impl LogonClaim {
    pub fn of(user: EpisodeUser) -> Self {
        Self { user, is_right: true }
    }
}

/// All variable bytes derive from the server's challenge, so that an episode repeats with its seed.
fn initiator(claim: LogonClaim) -> NtlmInitiator {
    let hash = if claim.is_right { claim.user.hash() } else { NtHash([0x11; 16]) };
    let credentials = NtlmCredentials {
        user: claim.user.name().into(),
        domain: String::new(),
        workstation: String::new(),
        hash,
    };
    let session_key = [claim.user as u8 + 1; 16];
    NtlmInitiator::new(credentials, Secrets { challenge: [1; 8], session_key, now: FileTime(3) })
}

/// AUTHENTICATE of an anonymous client. MS-NLMP 3.2.5.1.2.
fn anonymous() -> Vec<u8> {
    let mut token = b"NTLMSSP\0\x03\0\0\0".to_vec();
    for _ in 0..6 {
        token.extend_from_slice(&[0, 0, 0, 0, 64, 0, 0, 0]);
    }
    token.extend_from_slice(&FLAGS.to_le_bytes());
    token
}

impl HostileLink {
    /// The first half of a logon. Returns the status of the response, if there is one.
    pub fn begin_logon(
        &mut self,
        around: &EpisodeSurroundings,
        purpose: LogonPurpose,
        protection: &MessageProtection,
        previous: SessionId,
    ) -> Option<NtStatus> {
        self.half = None;
        let mut header = self.header(Command::SESSION_SETUP);
        let (id, binds) = match &purpose {
            LogonPurpose::New => (SessionId(0), false),
            LogonPurpose::Renew(session) => (session.id, false),
            LogonPurpose::Bind(session) => (session.id, true),
        };
        header.session_id = id;
        let first = initiator(LogonClaim::of(EpisodeUser::Mallory));
        let request = set_up(binds, previous, first.negotiate());
        let reply = self.call(around, header, protection, |w| request.encode(w))?;
        if reply.header.status == NtStatus::MORE_PROCESSING_REQUIRED {
            let mut preauth = self.preauth.clone();
            preauth.update(&plain_of(&self.last_frame, header, &request, protection));
            preauth.update(&reply.bytes);
            let mut r = Reader::new(&reply.bytes);
            r.skip(Header::LENGTH, "header").ok()?;
            let challenge = SessionSetupResponse::decode(&mut r).ok()?.token.to_vec();
            let session_id = reply.header.session_id;
            self.half = Some(HalfLogon { purpose, session_id, challenge, preauth });
        }
        Some(reply.header.status)
    }

    /// The second half of a logon. `binds` is the binding flag of this message.
    pub fn end_logon(
        &mut self,
        around: &EpisodeSurroundings,
        claim: LogonClaim,
        binds: bool,
        protection: &MessageProtection,
        previous: SessionId,
    ) -> Option<NtStatus> {
        let mut half = self.half.take()?;
        let mut header = self.header(Command::SESSION_SETUP);
        header.session_id = half.session_id;
        let (token, key) = if claim.user == EpisodeUser::Anonymous {
            (anonymous(), [0; 16])
        } else {
            let answer = initiator(claim).handle_challenge(&half.challenge).ok()?;
            (answer.token, answer.session_key)
        };
        let request = set_up(binds, previous, &token);
        let reply = self.call(around, header, protection, |w| request.encode(w))?;
        if reply.header.status == NtStatus::SUCCESS {
            half.preauth.update(&plain_of(&self.last_frame, header, &request, protection));
            let mut r = Reader::new(&reply.bytes);
            r.skip(Header::LENGTH, "header").ok()?;
            let flags = SessionSetupResponse::decode(&mut r).ok()?.flags;
            self.take_session(half, claim.user, &SessionKey::new(&key), flags);
        }
        Some(reply.header.status)
    }

    fn take_session(
        &mut self,
        half: HalfLogon,
        user: EpisodeUser,
        key: &SessionKey,
        flags: SessionFlags,
    ) {
        let dialect = self.agreed.dialect;
        let source = KeySource { dialect, session_key: key, preauth: &half.preauth };
        let channel_key = Arc::new(source.signing(self.agreed.signing));
        match half.purpose {
            LogonPurpose::Renew(_) => {}
            LogonPurpose::Bind(session) => {
                self.session = Some(KnownSession { channel_key, ..session })
            }
            LogonPurpose::New => {
                let seals = self.agreed.cipher.map(|cipher| {
                    let key = |purpose| source.sealing(cipher, purpose);
                    Arc::new(SealKeys {
                        seal: SealingKey::new(cipher, &key(KeyPurpose::ClientToServer)),
                        open: OpeningKey::new(cipher, &key(KeyPurpose::ServerToClient)),
                    })
                });
                self.opens.clear();
                self.session = Some(KnownSession {
                    id: half.session_id,
                    user,
                    session_key: channel_key.clone(),
                    channel_key,
                    seals,
                    encrypts: flags.contains(SessionFlags::ENCRYPT_DATA),
                });
            }
        }
    }

    /// A SESSION_SETUP in the client's session from an attacker without a key, who may have read
    /// the challenge of an exchange in progress. Returns the status of the response.
    pub fn receive_foreign_setup(
        &mut self,
        around: &EpisodeSurroundings,
        claim: LogonClaim,
        is_second: bool,
        binds: bool,
        protection: &MessageProtection,
    ) -> Option<NtStatus> {
        let begun = self.half.as_ref().map(|half| half.challenge.clone());
        let answer = begun.and_then(|challenge| initiator(claim).handle_challenge(&challenge).ok());
        let token = match answer {
            Some(answer) if is_second => answer.token,
            None if is_second => anonymous(),
            _ => initiator(claim).negotiate().to_vec(),
        };
        let request = set_up(binds, SessionId(0), &token);
        let mut header = self.header(Command::SESSION_SETUP);
        header.session_id = self.half.as_ref().map_or(header.session_id, |half| half.session_id);
        let reply = self.call(around, header, protection, |w| request.encode(w))?;
        Some(reply.header.status)
    }

    /// Sets up a session as an honest client.
    pub fn log_on(
        &mut self,
        around: &EpisodeSurroundings,
        user: EpisodeUser,
        previous: SessionId,
    ) -> Option<NtStatus> {
        match self.begin_logon(
            around,
            LogonPurpose::New,
            &MessageProtection::Plain,
            SessionId(0),
        )? {
            NtStatus::MORE_PROCESSING_REQUIRED => self.end_logon(
                around,
                LogonClaim::of(user),
                false,
                &MessageProtection::Plain,
                previous,
            ),
            refused => Some(refused),
        }
    }

    /// Connects a share, which later requests use.
    pub fn connect_tree(&mut self, around: &EpisodeSurroundings, share: &str) -> Option<NtStatus> {
        let mut path = Vec::new();
        put_utf16(&mut path, &format!("\\\\SERVER\\{share}"));
        let request = wire::smb::TreeConnectRequest { flags: 0, path: &path };
        let (header, protection) = (self.header(Command::TREE_CONNECT), self.protection());
        let reply = self.call(around, header, &protection, |w| request.encode(w))?;
        if reply.header.status == NtStatus::SUCCESS {
            self.tree = reply.header.tree_id;
        }
        Some(reply.header.status)
    }

    /// True if the session may have several channels.
    pub fn has_channels(&self) -> bool {
        self.agreed.dialect >= Dialect::Smb300 && self.agreed.signing != SigningAlgorithm::AesGmac
    }
}

fn set_up(binds: bool, previous: SessionId, token: &[u8]) -> SessionSetupRequest<'_> {
    SessionSetupRequest {
        flags: if binds { SessionSetupRequest::BINDING } else { 0 },
        security_mode: SessionSetupRequest::SIGNING_REQUIRED,
        capabilities: 0,
        previous_session: previous,
        token,
    }
}

/// The message as the preauthentication hash covers it: as sent, or before encryption.
fn plain_of(
    sent: &[u8],
    header: Header,
    request: &SessionSetupRequest<'_>,
    protection: &MessageProtection,
) -> Vec<u8> {
    match protection {
        MessageProtection::Sealed(..) => super::link::encode(header, |w| request.encode(w)),
        _ => sent.to_vec(),
    }
}
