//! RPC call and reply headers. RFC 5531 9.

use super::auth::OpaqueAuth;
use crate::codec::DecodeError;
use crate::nfs::xdr::{Decode, Encode, XdrReader, XdrWriter, xdr_newtype};

/// RPC version.
const RPC_VERSION: u32 = 2;
const CALL: u32 = 0;
const REPLY: u32 = 1;
const ACCEPTED: u32 = 0;
const DENIED: u32 = 1;
const RPC_MISMATCH: u32 = 0;
const AUTH_ERROR: u32 = 1;

/// The header of a record; the arguments or results follow in the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RpcMessage<'a> {
    /// A call.
    Call(RpcCall<'a>),
    /// A reply.
    Reply(RpcReply<'a>),
}

/// A record that is no [`RpcMessage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadableMessage {
    /// The transaction id is unreadable: the receiver must close the connection.
    Malformed(DecodeError),
    /// A call of another RPC version. The server replies with [`ReplyBody::RpcMismatch`].
    RpcVersion {
        /// Transaction id of the call.
        xid: u32,
    },
}

impl From<DecodeError> for UnreadableMessage {
    fn from(malformed: DecodeError) -> Self {
        Self::Malformed(malformed)
    }
}

impl<'a> RpcMessage<'a> {
    /// Decodes the header of a call or a reply.
    ///
    /// # Errors
    /// [`UnreadableMessage`] if the record is neither.
    pub fn decode(r: &mut XdrReader<'a>) -> Result<Self, UnreadableMessage> {
        let xid = r.u32("xid")?;
        match r.u32("message type")? {
            CALL => {
                if r.u32("RPC version")? != RPC_VERSION {
                    return Err(UnreadableMessage::RpcVersion { xid });
                }
                Ok(Self::Call(RpcCall {
                    xid,
                    program: r.u32("program")?,
                    version: r.u32("version")?,
                    procedure: r.u32("procedure")?,
                    credentials: r.get()?,
                    verifier: r.get()?,
                }))
            }
            REPLY => Ok(Self::Reply(RpcReply { xid, body: r.get()? })),
            _ => Err(r.malformed("message type").into()),
        }
    }
}

/// The header of a call: `call_body`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcCall<'a> {
    /// Transaction id, which the reply echoes.
    pub xid: u32,
    /// Program number.
    pub program: u32,
    /// Program version.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
    /// Credential of the caller.
    pub credentials: OpaqueAuth<'a>,
    /// Verifier of the credential.
    pub verifier: OpaqueAuth<'a>,
}

impl Encode for RpcCall<'_> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        let words = [self.xid, CALL, RPC_VERSION, self.program, self.version, self.procedure];
        words.iter().for_each(|word| w.u32(*word));
        w.put(&self.credentials);
        w.put(&self.verifier);
    }
}

/// The header of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcReply<'a> {
    /// Transaction id of the call.
    pub xid: u32,
    /// Outcome of the call.
    pub body: ReplyBody<'a>,
}

impl Encode for RpcReply<'_> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        w.u32(self.xid);
        w.u32(REPLY);
        w.put(&self.body);
    }
}

/// Outcome of a call: `reply_body`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyBody<'a> {
    /// The server accepted the credential.
    Accepted {
        /// Verifier of the server.
        verifier: OpaqueAuth<'a>,
        /// Acceptance status.
        status: AcceptStatus,
    },
    /// The server does not support the RPC version.
    RpcMismatch {
        /// The lowest supported version.
        low: u32,
        /// The highest supported version.
        high: u32,
    },
    /// The server rejected the credential.
    AuthError(AuthStatus),
}

/// Outcome of an accepted call: `accept_stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptStatus {
    /// Success; results follow.
    Success,
    /// The program is unavailable.
    ProgramUnavailable,
    /// The program version is unsupported.
    ProgramMismatch {
        /// The lowest supported version.
        low: u32,
        /// The highest supported version.
        high: u32,
    },
    /// The program has no such procedure.
    ProcedureUnavailable,
    /// The arguments cannot be decoded.
    GarbageArguments,
    /// An internal error of the server.
    SystemError,
}

/// Why a credential was rejected: `auth_stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AuthStatus(pub u32);

impl AuthStatus {
    /// The credential is malformed or unknown.
    pub const BAD_CREDENTIALS: Self = Self(1);
    /// The client must create a new session.
    pub const REJECTED_CREDENTIALS: Self = Self(2);
    /// The verifier is malformed.
    pub const BAD_VERIFIER: Self = Self(3);
    /// The verifier was replayed or has expired.
    pub const REJECTED_VERIFIER: Self = Self(4);
    /// The server requires a stronger flavor.
    pub const TOO_WEAK: Self = Self(5);
    /// The credential has no GSS user.
    pub const GSS_CREDENTIALS_PROBLEM: Self = Self(13);
    /// The GSS context is unknown.
    pub const GSS_CONTEXT_PROBLEM: Self = Self(14);
}

xdr_newtype!(AuthStatus);

impl<'a> Decode<'a> for ReplyBody<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        match r.u32("reply status")? {
            ACCEPTED => Ok(Self::Accepted { verifier: r.get()?, status: r.get()? }),
            DENIED => match r.u32("reject status")? {
                RPC_MISMATCH => Ok(Self::RpcMismatch { low: r.get()?, high: r.get()? }),
                AUTH_ERROR => r.get().map(Self::AuthError),
                _ => Err(r.malformed("reject status")),
            },
            _ => Err(r.malformed("reply status")),
        }
    }
}

impl Encode for ReplyBody<'_> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::Accepted { verifier, status } => {
                w.u32(ACCEPTED);
                w.put(verifier);
                w.put(status);
            }
            Self::RpcMismatch { low, high } => {
                [DENIED, RPC_MISMATCH, *low, *high].iter().for_each(|word| w.u32(*word));
            }
            Self::AuthError(status) => {
                [DENIED, AUTH_ERROR, status.0].iter().for_each(|word| w.u32(*word));
            }
        }
    }
}

impl Decode<'_> for AcceptStatus {
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, DecodeError> {
        Ok(match r.u32("accept status")? {
            0 => Self::Success,
            1 => Self::ProgramUnavailable,
            2 => Self::ProgramMismatch { low: r.get()?, high: r.get()? },
            3 => Self::ProcedureUnavailable,
            4 => Self::GarbageArguments,
            5 => Self::SystemError,
            _ => return Err(r.malformed("accept status")),
        })
    }
}

impl Encode for AcceptStatus {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::Success => w.u32(0),
            Self::ProgramUnavailable => w.u32(1),
            Self::ProgramMismatch { low, high } => {
                [2, *low, *high].iter().for_each(|word| w.u32(*word));
            }
            Self::ProcedureUnavailable => w.u32(3),
            Self::GarbageArguments => w.u32(4),
            Self::SystemError => w.u32(5),
        }
    }
}

/// Writes the header of a successful reply; the results follow.
#[inline]
pub fn put_success(w: &mut XdrWriter<'_>, xid: u32) {
    let header = [xid, REPLY, ACCEPTED, 0, 0, 0];
    header.iter().for_each(|word| w.u32(*word));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs::rpc::AuthFlavor;
    use crate::nfs::xdr::Opaque;

    fn round_trip(body: ReplyBody<'_>, words: &[u32]) {
        let reply = RpcReply { xid: 5, body };
        let mut out = Vec::new();
        XdrWriter::new(&mut out).put(&reply);
        let expected: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(out, expected);
        assert_eq!(RpcMessage::decode(&mut XdrReader::new(&out)), Ok(RpcMessage::Reply(reply)));
        for end in 0..out.len() {
            assert!(RpcMessage::decode(&mut XdrReader::new(&out[..end])).is_err());
        }
    }

    #[test]
    fn rpc_reply_headers_match_rfc_5531() {
        let accepted = |status| ReplyBody::Accepted { verifier: OpaqueAuth::NONE, status };
        round_trip(accepted(AcceptStatus::Success), &[5, 1, 0, 0, 0, 0]);
        round_trip(accepted(AcceptStatus::ProgramUnavailable), &[5, 1, 0, 0, 0, 1]);
        round_trip(
            accepted(AcceptStatus::ProgramMismatch { low: 4, high: 4 }),
            &[5, 1, 0, 0, 0, 2, 4, 4],
        );
        round_trip(accepted(AcceptStatus::ProcedureUnavailable), &[5, 1, 0, 0, 0, 3]);
        round_trip(accepted(AcceptStatus::GarbageArguments), &[5, 1, 0, 0, 0, 4]);
        round_trip(accepted(AcceptStatus::SystemError), &[5, 1, 0, 0, 0, 5]);
        round_trip(ReplyBody::RpcMismatch { low: 2, high: 2 }, &[5, 1, 1, 0, 2, 2]);
        round_trip(ReplyBody::AuthError(AuthStatus::TOO_WEAK), &[5, 1, 1, 1, 5]);
        let verifier = OpaqueAuth::STARTTLS;
        round_trip(
            ReplyBody::Accepted { verifier, status: AcceptStatus::Success },
            &[5, 1, 0, 0, 8, 0x5354_4152, 0x5454_4C53, 0],
        );
    }

    #[test]
    fn put_success_equals_the_general_encoder() {
        let verifier = OpaqueAuth::NONE;
        let body = ReplyBody::Accepted { verifier, status: AcceptStatus::Success };
        let (mut long, mut short) = (Vec::new(), Vec::new());
        XdrWriter::new(&mut long).put(&RpcReply { xid: 77, body });
        put_success(&mut XdrWriter::new(&mut short), 77);
        assert_eq!(long, short);
    }

    #[test]
    fn rpc_call_header_matches_rfc_5531() {
        let call = RpcCall {
            xid: 0x0102_0304,
            program: 100_003,
            version: 4,
            procedure: 1,
            credentials: OpaqueAuth { flavor: AuthFlavor::GSS, body: Opaque(b"abc") },
            verifier: OpaqueAuth::NONE,
        };
        let mut out = Vec::new();
        XdrWriter::new(&mut out).put(&call);
        let words = [0x0102_0304, 0, 2, 100_003, 4, 1, 6, 3, 0x6162_6300, 0, 0];
        let expected: Vec<u8> = words.iter().flat_map(|w: &u32| w.to_be_bytes()).collect();
        assert_eq!(out, expected);
        assert_eq!(RpcMessage::decode(&mut XdrReader::new(&out)), Ok(RpcMessage::Call(call)));
    }

    #[test]
    fn call_of_another_rpc_version_is_answerable() {
        let words = [9u32, 0, 3, 100_003];
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
        assert_eq!(
            RpcMessage::decode(&mut XdrReader::new(&bytes)),
            Err(UnreadableMessage::RpcVersion { xid: 9 })
        );
        assert!(matches!(
            RpcMessage::decode(&mut XdrReader::new(&[0, 0, 0, 1, 0, 0, 0, 2])),
            Err(UnreadableMessage::Malformed(_))
        ));
    }

    #[test]
    fn credential_over_400_bytes_is_refused() {
        let mut out = Vec::new();
        let w = &mut XdrWriter::new(&mut out);
        [1, CALL, RPC_VERSION, 100_003, 4, 1, 6].iter().for_each(|word| w.u32(*word));
        w.opaque(&[0; 404]);
        w.put(&OpaqueAuth::NONE);
        assert!(RpcMessage::decode(&mut XdrReader::new(&out)).is_err());
    }
}
