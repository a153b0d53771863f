//! One connection after logon: message ids, credits, signatures, encryption, and the matching of
//! responses to requests. MS-SMB2 3.2.4.1, 3.2.5.1.

use crate::error::Error;
use crate::limits::{CREDITS_MAX, SHARED_BYTES_MIN};
use crate::opener::{FrameMessage, Opener, UNASKED};
use crate::outbox::RequestOutbox;
use crate::request::{RequestBody, SmbRequest};
use crate::session::ClientSession;
use std::collections::HashMap;
use std::sync::Arc;
use wire::codec::Writer;
use wire::frame::{PREFIX_BYTES, prefix};
use wire::ntstatus::NtStatus;
use wire::smb::fsctl::VALIDATE_NEGOTIATE_INFO;
use wire::smb::negotiate::capabilities;
use wire::smb::{COMPOUND_ALIGNMENT, Command, Dialect, Flags, Header, MessageId, TransformHeader};

/// A request without a response.
#[derive(Clone, Copy, Debug)]
struct UnansweredRequest {
    token: usize,
    command: Command,
    charge: u16,
    /// The interim response has arrived.
    is_pending: bool,
    /// The request was sealed, so its response must be.
    is_sealed: bool,
    /// The request was signed, so its response must be. MS-SMB2 3.3.4.1.1.
    is_signed: bool,
}

/// Kind of a message from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivedMessage {
    /// The response to the request with this token.
    Answer(usize),
    /// The interim response to the request with this token.
    Interim(usize),
    /// An unsolicited notification, for instance of a lease break; this client requests none.
    Notice,
}

/// The state of one connection after logon.
#[derive(Debug)]
pub struct ClientConn {
    opener: Opener,
    next_id: u64,
    credits: u32,
    /// Credits of the requests in flight.
    charged: u32,
    wanted: u32,
    pending: usize,
    outstanding: HashMap<u64, UnansweredRequest>,
}

impl ClientConn {
    pub(crate) fn new(opener: Opener, next_id: u64, credits: u32, wanted: u16) -> Self {
        let outstanding = HashMap::with_capacity(usize::from(wanted));
        let wanted = u32::from(wanted);
        Self { opener, next_id, credits, charged: 0, wanted, pending: 0, outstanding }
    }

    /// Opens received frames. It only holds keys, and can be used concurrently.
    #[must_use]
    pub fn opener(&self) -> Opener {
        self.opener.clone()
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Arc<ClientSession> {
        &self.opener.session
    }

    /// Credits that can be spent now.
    #[must_use]
    pub fn credits(&self) -> u32 {
        self.credits
    }

    /// The number of requests without a response, and how many of them have an interim response.
    #[must_use]
    pub fn outstanding(&self) -> (usize, usize) {
        (self.outstanding.len(), self.pending)
    }

    /// The credit cost of a chain.
    #[must_use]
    pub fn cost(&self, chain: &[SmbRequest<'_>]) -> u32 {
        chain.iter().map(|request| u32::from(self.charge(request))).sum()
    }

    fn charge(&self, request: &SmbRequest<'_>) -> u16 {
        if self.has_large_requests() { request.charge() } else { 1 }
    }

    fn has_large_requests(&self) -> bool {
        self.opener.session.negotiated.capabilities & capabilities::LARGE_MTU != 0
    }

    /// Appends a frame with these requests to `out`, if there are enough credits. The `tokens`
    /// identify the responses. Returns whether the frame was appended.
    ///
    /// # Errors
    /// [`Error::NoCredits`] if the credits can never suffice, [`Error::Misuse`] for a
    /// frame that is too long or cannot be sealed.
    pub fn send(
        &mut self,
        chain: &[SmbRequest<'_>],
        tokens: &[usize],
        out: &mut RequestOutbox,
    ) -> Result<bool, Error> {
        let cost = self.cost(chain);
        if cost > self.credits {
            let starved = self.outstanding.is_empty();
            return if starved { Err(Error::NoCredits) } else { Ok(false) };
        }
        let session = self.opener.session.clone();
        let is_sealed = session.seals || chain.iter().any(|request| request.seals);
        if is_sealed && session.sealing.is_none() {
            return Err(Error::Misuse("the connection has no cipher"));
        }
        let shared = match chain {
            [SmbRequest { body: RequestBody::Write { data, .. }, .. }]
                if !is_sealed && !session.signs && data.len() >= SHARED_BYTES_MIN =>
            {
                Some((*data).clone())
            }
            _ => None,
        };
        let own = out.own();
        let frame = own.len();
        let room = if is_sealed { TransformHeader::LENGTH } else { 0 };
        own.resize(frame + PREFIX_BYTES + room, 0);
        let detached = shared.is_some();
        for (at, request) in chain.iter().enumerate() {
            let related = at > 0;
            let is_last = at + 1 == chain.len();
            let form = Form { related, is_last, is_sealed, detached };
            self.put(request, tokens[at], form, own);
        }
        let length = own.len() - frame - PREFIX_BYTES + shared.as_ref().map_or(0, |s| s.len());
        let head = prefix(length).ok_or(Error::Misuse("the frame is too long"))?;
        own[frame..frame + PREFIX_BYTES].copy_from_slice(&head);
        if let Some(sealing) = session.sealing.as_ref().filter(|_| is_sealed) {
            let body = &mut own[frame + PREFIX_BYTES..];
            sealing.seal.seal_in_place(body, session.id);
        }
        if let Some(data) = shared {
            out.share(data);
        }
        Ok(true)
    }

    /// Whether a request is signed: all are, or only the few that prove that nobody tampered with
    /// the negotiation. MS-SMB2 3.2.4.1.1, 3.2.5.5.
    fn signs(&self, request: &SmbRequest<'_>) -> bool {
        let session = &self.opener.session;
        let proves = match &request.body {
            RequestBody::TreeConnect(_) => session.negotiated.dialect >= Dialect::Smb311,
            RequestBody::Ioctl(ioctl) => ioctl.code == VALIDATE_NEGOTIATE_INFO,
            _ => false,
        };
        !session.is_guest && (session.signs || proves)
    }

    fn put(&mut self, request: &SmbRequest<'_>, token: usize, form: Form, own: &mut Vec<u8>) {
        let session = &self.opener.session;
        let signs = !form.is_sealed && self.signs(request);
        let charge = self.charge(request);
        let mut flags = Flags::default();
        let mut raise = |on: bool, flag| flags = if on { flags | flag } else { flags };
        raise(form.related, Flags::RELATED);
        raise(signs, Flags::SIGNED);
        raise(request.is_replay, Flags::REPLAY);
        let has_channels = session.negotiated.dialect >= Dialect::Smb300;
        let sequence = if has_channels { u32::from(session.sequence()) } else { 0 };
        let header = Header {
            credit_charge: if self.has_large_requests() { charge } else { 0 },
            status: NtStatus(sequence),
            command: request.command(),
            credits: self.to_ask(charge),
            flags,
            next_command: 0,
            message_id: MessageId(self.next_id),
            process_id: 0xFEFF,
            tree_id: request.tree,
            session_id: session.id,
            signature: [0; 16],
        };
        let start = own.len();
        let mut w = Writer::with_origin(own, start);
        header.encode(&mut w);
        request.encode(&mut w, form.detached);
        if !form.is_last {
            w.align(COMPOUND_ALIGNMENT);
            let distance = w.position() as u32;
            Header::set_next_command(&mut own[start..], distance);
        }
        if signs {
            self.opener.signing.sign(&mut own[start..]);
        }
        let id = self.next_id;
        self.next_id += u64::from(charge);
        self.credits -= u32::from(charge);
        self.charged += u32::from(charge);
        let command = request.command();
        let is_sealed = form.is_sealed;
        let (is_pending, is_signed) = (false, signs);
        let one = UnansweredRequest { token, command, charge, is_pending, is_sealed, is_signed };
        self.outstanding.insert(id, one);
    }

    /// The request's cost, plus the credits missing to the wanted number.
    fn to_ask(&self, charge: u16) -> u16 {
        let held = self.credits + self.charged;
        let missing = self.wanted.saturating_sub(held);
        u16::try_from(missing + u32::from(charge)).unwrap_or(u16::MAX)
    }

    /// Says what a message is, and takes the credits that come with it.
    ///
    /// # Errors
    /// [`Error::Hostile`] if the message matches no request.
    pub fn take(&mut self, message: &FrameMessage) -> Result<ReceivedMessage, Error> {
        let header = &message.header;
        if header.message_id == UNASKED {
            return Ok(ReceivedMessage::Notice);
        }
        let one = self
            .outstanding
            .get_mut(&header.message_id.0)
            .ok_or(Error::Hostile("a reply without a request"))?;
        if one.command != header.command {
            return Err(Error::Hostile("a reply to another command"));
        }
        if one.is_sealed && !message.is_sealed {
            return Err(Error::Hostile("a reply that is not encrypted"));
        }
        let is_interim = header.status == NtStatus::PENDING && header.flags.contains(Flags::ASYNC);
        if is_interim && one.is_pending {
            return Err(Error::Hostile("two interim responses"));
        }
        // This status exempts a message from the signature check, so it must not complete a
        // request.
        if !is_interim && header.status == NtStatus::PENDING {
            return Err(Error::Hostile("a final response with an interim status"));
        }
        let is_signed = message.is_sealed || header.flags.contains(Flags::SIGNED);
        if one.is_signed && !is_signed && !is_interim {
            return Err(Error::Hostile("a reply that is not signed"));
        }
        let token = one.token;
        if is_interim {
            one.is_pending = true;
            self.pending += 1;
        } else {
            let (charge, was_pending) = (one.charge, one.is_pending);
            self.pending -= usize::from(was_pending);
            self.outstanding.remove(&header.message_id.0);
            self.charged -= u32::from(charge);
        }
        self.credits = (self.credits + u32::from(header.credits)).min(CREDITS_MAX);
        Ok(if is_interim {
            ReceivedMessage::Interim(token)
        } else {
            ReceivedMessage::Answer(token)
        })
    }
}

/// Signing and sealing of one message.
#[derive(Clone, Copy, Debug)]
struct Form {
    related: bool,
    is_last: bool,
    is_sealed: bool,
    detached: bool,
}

#[cfg(test)]
#[path = "conn/tests.rs"]
mod tests;
