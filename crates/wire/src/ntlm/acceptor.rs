//! The NTLM acceptor (server): sends CHALLENGE, verifies AUTHENTICATE. MS-NLMP 3.2.5.

use crate::codec::{DecodeError, put_utf16};
use crate::fscc::FileTime;
use crate::ntlm::crypto::{MessageSigner, NtHash, hmac_md5, rc4};
use crate::ntlm::message::{self, Authenticate, MIC, av, find_av, flags, put_av, text};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use zeroize::Zeroizing;

/// Names that the server announces in its CHALLENGE.
#[derive(Clone, Debug)]
pub struct TargetFacts {
    /// Computer name.
    pub name: String,
    /// Domain or workgroup.
    pub domain: String,
}

/// How the client authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogonKind {
    /// Anonymous: the client sent no user name.
    Anonymous,
    /// Guest: the server does not know the user name.
    Guest,
    /// A known user with a valid proof of the password.
    User,
}

/// Which logons are accepted without a proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestPolicy {
    /// Accepts clients without a user name.
    pub anonymous: bool,
    /// Accepts unknown user names as guest. A known user with a wrong password is always refused.
    pub guest: bool,
}

/// A successful logon.
#[derive(Debug)]
pub struct NtlmLogon {
    /// User as the client sent it; empty if anonymous.
    pub user: String,
    /// Domain as the client sent it.
    pub domain: String,
    /// Client's computer name.
    pub workstation: String,
    /// Exported session key.
    pub session_key: Zeroizing<[u8; 16]>,
    /// How the client authenticated.
    pub kind: LogonKind,
    /// Signs the subsequent messages of this exchange.
    pub signer: MessageSigner,
}

/// Why a logon was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogonRefusal {
    /// The messages are not NTLM, or not in order.
    Malformed(&'static str),
    /// An anonymous logon, which the policy refuses.
    Anonymous,
    /// NTLM, which the policy refuses.
    NtlmBlocked,
    /// The client proved the password with NTLM version 1 only.
    TooWeak {
        /// User name that the client sent.
        user: String,
    },
    /// The message integrity code is missing or wrong, so the messages may have been tampered with.
    Mic {
        /// User name that the client sent.
        user: String,
    },
    /// Unknown user.
    UnknownUser {
        /// User name that the client sent.
        user: String,
    },
    /// The NT response does not match the password.
    WrongPassword {
        /// User name that the client sent.
        user: String,
    },
    /// A Kerberos ticket that is expired, tampered with, or issued for another server.
    Ticket {
        /// The user of the ticket; empty if unknown.
        user: String,
        /// The Kerberos library's reason.
        why: String,
    },
}

impl From<DecodeError> for LogonRefusal {
    fn from(malformed: DecodeError) -> Self {
        Self::Malformed(malformed.what)
    }
}

/// The acceptor's state of one exchange.
#[derive(Debug)]
pub struct NtlmAcceptor {
    challenge: [u8; 8],
    facts: TargetFacts,
    now: FileTime,
    negotiate: Vec<u8>,
    challenge_flags: u32,
    challenge_message: Vec<u8>,
}

/// Maximum length of a NEGOTIATE message, which the acceptor retains until the exchange ends. It
/// holds two computer names beside 40 fixed bytes.
const NEGOTIATE_BYTES_MAX: usize = 1024;

/// MsvAvFlags bit: the message carries a MIC.
const AV_FLAG_MIC: u32 = 2;

impl NtlmAcceptor {
    /// Starts an exchange with a random `challenge`.
    #[must_use]
    pub fn new(facts: TargetFacts, challenge: [u8; 8], now: FileTime) -> Self {
        let (negotiate, challenge_message) = (Vec::new(), Vec::new());
        Self { challenge, facts, now, negotiate, challenge_flags: 0, challenge_message }
    }

    /// Processes NEGOTIATE and returns CHALLENGE.
    ///
    /// # Errors
    /// [`LogonRefusal::Malformed`].
    pub fn handle_negotiate(&mut self, token: &[u8]) -> Result<Vec<u8>, LogonRefusal> {
        if token.len() > NEGOTIATE_BYTES_MAX {
            return Err(LogonRefusal::Malformed("NTLM negotiate length"));
        }
        let asked = message::negotiate_flags(token)?;
        let always =
            flags::UNICODE | flags::REQUEST_TARGET | flags::NTLM | flags::TARGET_TYPE_SERVER;
        let always =
            always | flags::TARGET_INFO | flags::EXTENDED_SESSION_SECURITY | flags::VERSION;
        let if_asked =
            flags::SIGN | flags::SEAL | flags::ALWAYS_SIGN | flags::KEY_128 | flags::KEY_56;
        let if_asked = if_asked | flags::KEY_EXCHANGE;
        self.challenge_flags = always | asked & if_asked;
        let (name, info) = (&self.facts.name, self.info());
        let answer = message::challenge(self.challenge_flags, &self.challenge, name, &info);
        self.negotiate = token.to_vec();
        self.challenge_message.clone_from(&answer);
        Ok(answer)
    }

    fn info(&self) -> Vec<u8> {
        let mut info = Vec::new();
        let mut put_text = |id, text: &str| {
            let mut value = Vec::new();
            put_utf16(&mut value, text);
            put_av(&mut info, id, &value);
        };
        put_text(av::NB_DOMAIN, &self.facts.domain);
        put_text(av::NB_COMPUTER, &self.facts.name);
        put_text(av::DNS_DOMAIN, "");
        put_text(av::DNS_COMPUTER, &self.facts.name.to_lowercase());
        put_av(&mut info, av::TIMESTAMP, &self.now.0.to_le_bytes());
        put_av(&mut info, av::END, &[]);
        info
    }

    /// The user whose password an AUTHENTICATE claims to prove; `None` if the acceptor would check
    /// no proof.
    #[must_use]
    pub fn claimed_user(&self, token: &[u8]) -> Option<String> {
        let message = Authenticate::decode(token).ok()?;
        if self.challenge_message.is_empty() || is_anonymous(&message) {
            return None;
        }
        text(message.user, self.agreed_flags(&message) & flags::UNICODE != 0).ok()
    }

    /// The flags in force from AUTHENTICATE on. Zero flags stand for those of the CHALLENGE, as in
    /// Samba.
    fn agreed_flags(&self, message: &Authenticate<'_>) -> u32 {
        if message.flags == 0 { self.challenge_flags } else { message.flags }
    }

    /// Processes AUTHENTICATE and verifies its proof. `lookup` returns a user's hash. An unknown
    /// user takes as long as a wrong password.
    ///
    /// # Errors
    /// [`LogonRefusal`]. The server must not reveal to the client which reason applied,
    /// except `Malformed`.
    pub fn handle_authenticate(
        &self,
        token: &[u8],
        unproven: GuestPolicy,
        lookup: impl FnOnce(&str) -> Option<NtHash>,
    ) -> Result<NtlmLogon, LogonRefusal> {
        let message = Authenticate::decode(token)?;
        if self.challenge_message.is_empty() {
            return Err(LogonRefusal::Malformed("AUTHENTICATE before NEGOTIATE"));
        }
        let agreed = self.agreed_flags(&message);
        let unicode = agreed & flags::UNICODE != 0;
        let user = text(message.user, unicode)?;
        let domain = text(message.domain, unicode)?;
        let workstation = text(message.workstation, unicode)?;
        let (base_key, kind) = if is_anonymous(&message) {
            if !unproven.anonymous {
                return Err(LogonRefusal::Anonymous);
            }
            ([0; 16], LogonKind::Anonymous)
        } else {
            match self.check_proof(&message, &user, &domain, lookup) {
                // The server cannot compute the client's session key for an unknown user.
                Err(LogonRefusal::UnknownUser { .. }) if unproven.guest => {
                    ([0; 16], LogonKind::Guest)
                }
                other => (other?, LogonKind::User),
            }
        };
        let key_exchange = agreed & flags::KEY_EXCHANGE != 0;
        let session_key = Zeroizing::new(exported_key(&message, base_key, key_exchange)?);
        if kind == LogonKind::User {
            self.check_mic(token, &message, &session_key, &user)?;
        }
        let signer = MessageSigner::new(&session_key, key_exchange);
        Ok(NtlmLogon { user, domain, workstation, session_key, kind, signer })
    }

    /// Verifies NTProofStr and returns the session base key. MS-NLMP 3.3.2.
    fn check_proof(
        &self,
        message: &Authenticate<'_>,
        user: &str,
        domain: &str,
        lookup: impl FnOnce(&str) -> Option<NtHash>,
    ) -> Result<[u8; 16], LogonRefusal> {
        // Version 2 consists of the proof and a blob of at least 28 bytes; version 1 of 24 bytes in
        // total.
        if message.nt.len() < 16 + 28 {
            return Err(LogonRefusal::TooWeak { user: user.into() });
        }
        // Malformed AV pairs point to a broken client, not to a wrong password.
        find_av(&message.nt[16 + 28..], av::FLAGS)?;
        let found = lookup(user);
        let known = found.is_some();
        let hash = found.unwrap_or(NtHash([0x5A; 16]));
        let owf = hash.ntowf_v2(user, domain);
        let (proof, blob) = message.nt.split_at(16);
        let expected = hmac_md5(&owf, &[&self.challenge, blob]);
        let right = verify_slices_are_equal(proof, &expected).is_ok();
        match (known, right) {
            (true, true) => Ok(hmac_md5(&owf, &[&expected])),
            (true, false) => Err(LogonRefusal::WrongPassword { user: user.into() }),
            (false, _) => Err(LogonRefusal::UnknownUser { user: user.into() }),
        }
    }

    /// Verifies the MIC over all three messages. It is mandatory if the proof's blob announces one,
    /// because the proof covers that announcement.
    fn check_mic(
        &self,
        token: &[u8],
        message: &Authenticate<'_>,
        session_key: &[u8; 16],
        user: &str,
    ) -> Result<(), LogonRefusal> {
        let pairs = message.nt.get(16 + 28..).unwrap_or_default();
        let said = find_av(pairs, av::FLAGS)?
            .and_then(|v| v.try_into().ok())
            .map_or(0, u32::from_le_bytes);
        if said & AV_FLAG_MIC == 0 {
            return Ok(());
        }
        let mic = message.mic.ok_or_else(|| LogonRefusal::Mic { user: user.into() })?;
        let mut zeroed = token.to_vec();
        zeroed[MIC].fill(0);
        let expected = hmac_md5(session_key, &[&self.negotiate, &self.challenge_message, &zeroed]);
        verify_slices_are_equal(&mic, &expected)
            .map_err(|_| LogonRefusal::Mic { user: user.into() })
    }
}

/// Anonymous: neither a name nor a proof. MS-NLMP 3.2.5.1.2.
fn is_anonymous(message: &Authenticate<'_>) -> bool {
    message.user.is_empty() && message.nt.is_empty() && message.lm.iter().all(|&b| b == 0)
}

/// The session key that the client chose, else the session base key. MS-NLMP 3.2.5.1.2.
fn exported_key(
    message: &Authenticate<'_>,
    base: [u8; 16],
    key_exchange: bool,
) -> Result<[u8; 16], LogonRefusal> {
    if !key_exchange {
        return Ok(base);
    }
    let wrapped =
        message.session_key.try_into().map_err(|_| LogonRefusal::Malformed("NTLM session key"))?;
    Ok(rc4(&base, wrapped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Writer;

    /// Builds a client's AUTHENTICATE with every part under the test's control.
    struct ScriptedClient {
        user: &'static str,
        proof_with: Option<NtHash>,
        say_mic: bool,
        mic: bool,
        nt_bytes: Option<usize>,
    }

    const RIGHT: ScriptedClient = ScriptedClient {
        user: "alice",
        proof_with: None,
        say_mic: true,
        mic: true,
        nt_bytes: None,
    };

    impl ScriptedClient {
        fn answer(&self, negotiate: &[u8], challenge: &[u8]) -> Vec<u8> {
            let hash = self.proof_with.clone().unwrap_or_else(|| NtHash::of_password("secret"));
            let owf = hash.ntowf_v2(self.user, "WG");
            let mut blob = vec![1, 1, 0, 0, 0, 0, 0, 0];
            blob.extend_from_slice(&[0; 20]);
            if self.say_mic {
                put_av(&mut blob, av::FLAGS, &2u32.to_le_bytes());
            }
            put_av(&mut blob, av::END, &[]);
            let proof = hmac_md5(&owf, &[&challenge[24..32], &blob]);
            let base = hmac_md5(&owf, &[&proof]);
            let mut nt = [&proof[..], &blob].concat();
            nt.truncate(self.nt_bytes.unwrap_or(nt.len()));
            let mut names = [Vec::new(), Vec::new()];
            put_utf16(&mut names[0], "WG");
            put_utf16(&mut names[1], self.user);
            let mut out = Vec::new();
            let mut w = Writer::new(&mut out);
            w.bytes(b"NTLMSSP\0");
            w.u32(3);
            let mut at = 88;
            for part in [&[][..], &nt, &names[0], &names[1], &[], &rc4(&base, &[9; 16])] {
                message_field(&mut w, part.len(), at);
                at += part.len();
            }
            w.u32(flags::UNICODE | flags::KEY_EXCHANGE);
            w.zeros(8 + 16);
            [&nt, &names[0], &names[1], &rc4(&base, &[9; 16])[..]]
                .iter()
                .for_each(|part| w.bytes(part));
            if self.mic {
                let mic = hmac_md5(&[9; 16], &[negotiate, challenge, &out]);
                out[MIC].copy_from_slice(&mic);
            }
            out
        }
    }

    fn message_field(w: &mut Writer<'_>, length: usize, offset: usize) {
        w.u16(length as u16);
        w.u16(length as u16);
        w.u32(offset as u32);
    }

    fn log_on(client: &ScriptedClient) -> Result<NtlmLogon, LogonRefusal> {
        log_on_where(client, GuestPolicy::default())
    }

    fn log_on_where(
        client: &ScriptedClient,
        unproven: GuestPolicy,
    ) -> Result<NtlmLogon, LogonRefusal> {
        let everyone = GuestPolicy { anonymous: true, guest: true };
        let facts = TargetFacts { name: "SRV".into(), domain: "WG".into() };
        let mut acceptor = NtlmAcceptor::new(facts, *b"challeng", FileTime(1));
        let mut negotiate = b"NTLMSSP\0\x01\0\0\0".to_vec();
        negotiate.extend_from_slice(&(flags::UNICODE | flags::KEY_EXCHANGE).to_le_bytes());
        let challenge = acceptor.handle_negotiate(&negotiate).unwrap();
        let answer = client.answer(&negotiate, &challenge);
        for length in 0..answer.len() {
            let _ = acceptor.handle_authenticate(&answer[..length], everyone, |_| None);
        }
        acceptor.handle_authenticate(&answer, unproven, |user| {
            (user == "alice").then(|| NtHash::of_password("secret"))
        })
    }

    #[test]
    fn garbage_proof_without_a_mic_is_refused() {
        let client = ScriptedClient {
            proof_with: Some(NtHash([1; 16])),
            say_mic: false,
            mic: false,
            ..RIGHT
        };
        assert_eq!(
            log_on(&client).unwrap_err(),
            LogonRefusal::WrongPassword { user: "alice".into() }
        );
    }

    #[test]
    fn right_password_yields_the_clients_session_key() {
        let logon = log_on(&RIGHT).unwrap();
        assert_eq!((logon.user.as_str(), *logon.session_key), ("alice", [9; 16]));
        let without_mic = ScriptedClient { say_mic: false, mic: false, ..RIGHT };
        assert!(log_on(&without_mic).is_ok(), "old clients send none and do not say so");
    }

    #[test]
    fn announced_mic_must_be_present_and_correct() {
        assert_eq!(
            log_on(&ScriptedClient { mic: false, ..RIGHT }).unwrap_err(),
            LogonRefusal::Mic { user: "alice".into() }
        );
    }

    #[test]
    fn unknown_name_becomes_guest_but_wrong_password_does_not() {
        let guests = GuestPolicy { anonymous: false, guest: true };
        let logon = log_on_where(&ScriptedClient { user: "bob", ..RIGHT }, guests).unwrap();
        assert_eq!((logon.kind, logon.user.as_str()), (LogonKind::Guest, "bob"));
        assert_eq!(log_on_where(&RIGHT, guests).unwrap().kind, LogonKind::User);
        let wrong = ScriptedClient { proof_with: Some(NtHash([1; 16])), ..RIGHT };
        assert!(matches!(log_on_where(&wrong, guests), Err(LogonRefusal::WrongPassword { .. })));
        let v1 = ScriptedClient { user: "bob", nt_bytes: Some(24), ..RIGHT };
        assert!(matches!(log_on_where(&v1, guests), Err(LogonRefusal::TooWeak { .. })));
        let nobody = ScriptedClient { user: "", nt_bytes: Some(0), ..RIGHT };
        assert_eq!(log_on_where(&nobody, guests).unwrap_err(), LogonRefusal::Anonymous);
    }

    /// NEGOTIATE and AUTHENTICATE of the JavaScript library node-smb2 1.3.5: the user `Ål` of `WG`
    /// with the password `secret` at the challenge `challeng`. The flags of AUTHENTICATE are zero.
    const NEGOTIATE_OF_NODE_SMB2: &str = "\
        4e544c4d535350000100000001828802020002002600000006000600200000005345525645525747";
    const AUTHENTICATE_OF_NODE_SMB2: &str = "\
        4e544c4d53535000030000001800180054000000480048006c000000040004004000000004000400\
        440000000c000c004800000000000000000000000000000057004700c5006c005300450052005600\
        45005200a2dd546cd11bf0d8300da44088b8275a1dfc9f6442b32b0e034c2717dda3dadb0cee97d3\
        5ba31b340101000000000000c0b0483ac37ddd011dfc9f6442b32b0e0000000001000c0053004500\
        5200560045005200020004005700470000000000";

    fn bytes_of(hex: &str) -> Vec<u8> {
        let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(digits).collect()
    }

    #[test]
    fn authenticate_without_flags_uses_the_challenge_flags() {
        let facts = TargetFacts { name: "SRV".into(), domain: "WG".into() };
        let mut acceptor = NtlmAcceptor::new(facts, *b"challeng", FileTime(1));
        acceptor.handle_negotiate(&bytes_of(NEGOTIATE_OF_NODE_SMB2)).unwrap();
        let answer = bytes_of(AUTHENTICATE_OF_NODE_SMB2);
        assert_eq!(acceptor.claimed_user(&answer).as_deref(), Some("Ål"));
        let lookup = |user: &str| (user == "Ål").then(|| NtHash::of_password("secret"));
        let logon = acceptor.handle_authenticate(&answer, GuestPolicy::default(), lookup).unwrap();
        assert_eq!((logon.user.as_str(), logon.domain.as_str()), ("Ål", "WG"));
        assert_eq!((logon.workstation.as_str(), logon.kind), ("SERVER", LogonKind::User));
        let mut oem = answer;
        oem[60..64].copy_from_slice(&2u32.to_le_bytes());
        assert_eq!(acceptor.claimed_user(&oem).as_deref(), Some("Å\0l\0"), "flags that count");
    }

    #[test]
    fn unknown_user_short_proof_and_anonymous_are_refused() {
        assert_eq!(
            log_on(&ScriptedClient { user: "bob", ..RIGHT }).unwrap_err(),
            LogonRefusal::UnknownUser { user: "bob".into() }
        );
        let v1 = ScriptedClient { nt_bytes: Some(24), ..RIGHT };
        assert_eq!(log_on(&v1).unwrap_err(), LogonRefusal::TooWeak { user: "alice".into() });
        let nobody = ScriptedClient { user: "", nt_bytes: Some(0), ..RIGHT };
        assert_eq!(log_on(&nobody).unwrap_err(), LogonRefusal::Anonymous);
    }
}
