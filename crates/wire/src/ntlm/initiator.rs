//! The NTLM initiator (client): sends NEGOTIATE, answers CHALLENGE. MS-NLMP 3.1.5.

use crate::codec::{DecodeError, put_utf16};
use crate::fscc::FileTime;
use crate::ntlm::crypto::{MessageSigner, NtHash, hmac_md5, rc4};
use crate::ntlm::message::{
    self, Authenticate, Challenge, MIC, NtlmVersion, av, find_av, flags, put_av,
};

/// Maximum length of the AV pairs in a CHALLENGE: the server's names, a time and a few numbers.
const INFO_BYTES_MAX: usize = 8192;
/// MsvAvFlags bit: the message carries a MIC.
const AV_FLAG_MIC: u32 = 2;

const ASKED: u32 = flags::UNICODE
    | flags::REQUEST_TARGET
    | flags::SIGN
    | flags::SEAL
    | flags::NTLM
    | flags::ALWAYS_SIGN
    | flags::EXTENDED_SESSION_SECURITY
    | flags::TARGET_INFO
    | flags::VERSION
    | flags::KEY_128
    | flags::KEY_EXCHANGE
    | flags::KEY_56;

/// The user to log on.
#[derive(Clone, Debug)]
pub struct NtlmCredentials {
    /// User name.
    pub user: String,
    /// Domain; empty for the server's own users.
    pub domain: String,
    /// Name of the client computer.
    pub workstation: String,
    /// NT hash of the password.
    pub hash: NtHash,
}

/// Values that must be fresh and unpredictable in each exchange.
#[derive(Clone, Copy, Debug)]
pub struct Secrets {
    /// The client challenge.
    pub challenge: [u8; 8],
    /// The exported session key, which the client chooses.
    pub session_key: [u8; 16],
    /// The time, for servers that send no timestamp.
    pub now: FileTime,
}

/// The initiator's result, valid if the server accepts the AUTHENTICATE.
#[derive(Debug)]
pub struct NtlmResponse {
    /// The AUTHENTICATE message.
    pub token: Vec<u8>,
    /// Exported session key.
    pub session_key: [u8; 16],
    /// Signs the subsequent messages of this exchange.
    pub signer: MessageSigner,
    /// The server's system, as its CHALLENGE claims.
    pub server_version: Option<NtlmVersion>,
}

/// The initiator's state of one exchange.
#[derive(Debug)]
pub struct NtlmInitiator {
    credentials: NtlmCredentials,
    secrets: Secrets,
    negotiate: Vec<u8>,
}

impl NtlmInitiator {
    /// Starts an exchange with fresh `secrets`.
    #[must_use]
    pub fn new(credentials: NtlmCredentials, secrets: Secrets) -> Self {
        Self { credentials, secrets, negotiate: message::negotiate(ASKED) }
    }

    /// The NEGOTIATE message.
    #[must_use]
    pub fn negotiate(&self) -> &[u8] {
        &self.negotiate
    }

    /// Processes CHALLENGE and returns AUTHENTICATE.
    ///
    /// # Errors
    /// [`DecodeError`] if the token is no CHALLENGE, or the server does not support NTLM
    /// version 2.
    pub fn handle_challenge(&self, token: &[u8]) -> Result<NtlmResponse, DecodeError> {
        let challenge = Challenge::decode(token)?;
        if challenge.flags & flags::EXTENDED_SESSION_SECURITY == 0
            || challenge.flags & flags::TARGET_INFO == 0
            || challenge.info.len() > INFO_BYTES_MAX
        {
            return Err(DecodeError { what: "NTLM challenge flags", at: 20 });
        }
        let (blob, proves_all) = self.blob(&challenge)?;
        let owf = self.credentials.hash.ntowf_v2(&self.credentials.user, &self.credentials.domain);
        let proof = hmac_md5(&owf, &[&challenge.challenge, &blob]);
        let base = hmac_md5(&owf, &[&proof]);
        let key_exchange = challenge.flags & flags::KEY_EXCHANGE != 0;
        let session_key = if key_exchange { self.secrets.session_key } else { base };
        let wrapped = rc4(&base, &session_key);
        let lm = if proves_all { Vec::new() } else { self.lm(&owf, &challenge) };
        let utf16 = |text: &str| {
            let mut out = Vec::new();
            put_utf16(&mut out, text);
            out
        };
        let mut answer = Authenticate {
            lm: &lm,
            nt: &[&proof[..], &blob].concat(),
            domain: &utf16(&self.credentials.domain),
            user: &utf16(&self.credentials.user),
            workstation: &utf16(&self.credentials.workstation),
            session_key: if key_exchange { &wrapped } else { &[] },
            flags: challenge.flags & ASKED | flags::REQUEST_TARGET,
            mic: proves_all.then_some([0; 16]),
        }
        .encode();
        if proves_all {
            let mic = hmac_md5(&session_key, &[&self.negotiate, token, &answer]);
            answer[MIC].copy_from_slice(&mic);
        }
        let signer = MessageSigner::new(&session_key, key_exchange);
        let server_version = challenge.version;
        Ok(NtlmResponse { token: answer, session_key, signer, server_version })
    }

    /// NTLMv2_CLIENT_CHALLENGE, and whether it announces a MIC. The initiator adds a MIC if the
    /// server sends a timestamp. MS-NLMP 2.2.2.7, 3.1.5.1.2.
    fn blob(&self, challenge: &Challenge<'_>) -> Result<(Vec<u8>, bool), DecodeError> {
        let said = find_av(challenge.info, av::TIMESTAMP)?;
        let time = match said.map(<[u8; 8]>::try_from) {
            Some(Ok(time)) => time,
            Some(Err(_)) => return Err(DecodeError { what: "NTLM time", at: 0 }),
            None => self.secrets.now.0.to_le_bytes(),
        };
        let mut blob = vec![1, 1, 0, 0, 0, 0, 0, 0];
        blob.extend_from_slice(&time);
        blob.extend_from_slice(&self.secrets.challenge);
        blob.extend_from_slice(&[0; 4]);
        if said.is_some() {
            // Placed first, so that it precedes any flags that the server sent.
            put_av(&mut blob, av::FLAGS, &AV_FLAG_MIC.to_le_bytes());
        }
        blob.extend_from_slice(challenge.info);
        blob.extend_from_slice(&[0; 4]);
        Ok((blob, said.is_some()))
    }

    /// LMv2_RESPONSE, for servers that send no timestamp. MS-NLMP 3.3.2.
    fn lm(&self, owf: &[u8; 16], challenge: &Challenge<'_>) -> Vec<u8> {
        let response = hmac_md5(owf, &[&challenge.challenge, &self.secrets.challenge]);
        [&response[..], &self.secrets.challenge].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ntlm::{LogonRefusal, NtlmAcceptor, TargetFacts};

    fn hex(text: &str) -> Vec<u8> {
        let digits: String = text.split_whitespace().collect();
        (0..digits.len() / 2)
            .map(|i| u8::from_str_radix(&digits[i * 2..i * 2 + 2], 16).unwrap())
            .collect()
    }

    fn initiator(user: &str, password: &str) -> NtlmInitiator {
        let credentials = NtlmCredentials {
            user: user.into(),
            domain: "Domain".into(),
            workstation: "COMPUTER".into(),
            hash: NtHash::of_password(password),
        };
        let secrets = Secrets { challenge: [0xAA; 8], session_key: [0x55; 16], now: FileTime(0) };
        NtlmInitiator::new(credentials, secrets)
    }

    /// MS-NLMP 4.2.4.3: a server that sends no timestamp.
    #[test]
    fn published_challenge_yields_the_published_response() {
        let challenge = hex("4e544c4d53535000 02000000 0c000c00 38000000 33828ae2 0123456789abcdef
             0000000000000000 24002400 44000000 06007017 0000000f 530065007200760065007200
             02000c0044006f006d00610069006e00 01000c00530065007200760065007200 00000000");
        let answer = initiator("User", "Password").handle_challenge(&challenge).unwrap();
        let mut published =
            hex("4e544c4d53535000 03000000 18001800 6c000000 54005400 84000000 0c000c00 48000000
             08000800 54000000 10001000 5c000000 10001000 d8000000 358288e2 0501280a0000000f
             44006f006d00610069006e00 5500730065007200 43004f004d0050005500540045005200
             86c35097ac9cec102554764a57cccc19aaaaaaaaaaaaaaaa
             68cd0ab851e51c96aabc927bebef6a1c 0101000000000000 0000000000000000
             aaaaaaaaaaaaaaaa 00000000 02000c0044006f006d00610069006e00
             01000c00530065007200760065007200 00000000 00000000
             c5dad2544fc9799094ce1ce90bc9d03e");
        let vista = NtlmVersion { major: 6, minor: 0, build: 0x1770 };
        assert_eq!(answer.server_version, Some(vista));
        // The example uses an older Windows version.
        published[64..72].copy_from_slice(&answer.token[64..72]);
        assert_eq!(answer.token, published);
        assert_eq!(answer.session_key, [0x55; 16]);
    }

    fn log_on(user: &str, password: &str, tamper: bool) -> Result<[u8; 16], LogonRefusal> {
        let facts = TargetFacts { name: "SRV".into(), domain: "WG".into() };
        let mut acceptor = NtlmAcceptor::new(facts, *b"challeng", FileTime(77));
        let initiator = initiator(user, password);
        let challenge = acceptor.handle_negotiate(initiator.negotiate()).unwrap();
        for length in 0..challenge.len() {
            let _ = initiator.handle_challenge(&challenge[..length]);
        }
        let mut answer = initiator.handle_challenge(&challenge).unwrap();
        if tamper {
            // Only the MIC covers the workstation name.
            let at = answer.token.windows(4).position(|w| w == b"C\0O\0").unwrap();
            answer.token[at] ^= 1;
        }
        let logon = acceptor.handle_authenticate(
            &answer.token,
            crate::ntlm::GuestPolicy::default(),
            |user| (user == "alice").then(|| NtHash::of_password("secret")),
        )?;
        assert_eq!(*logon.session_key, answer.session_key);
        Ok(*logon.session_key)
    }

    #[test]
    fn acceptor_verifies_the_initiators_mic() {
        assert_eq!(log_on("alice", "secret", false), Ok([0x55; 16]));
        assert_eq!(
            log_on("alice", "secret", true),
            Err(LogonRefusal::Mic { user: "alice".into() })
        );
        let wrong = LogonRefusal::WrongPassword { user: "alice".into() };
        assert_eq!(log_on("alice", "Secret", false), Err(wrong));
    }
}
