//! One connection without its socket: frames in, jobs out, frames out. MS-SMB2 3.3.5.1 to 3.3.5.2.
//!
//! Owns the split of frames into requests, message ids and credits, verification and decryption of
//! incoming frames, and session set-up. Never waits, never sends. A [`FrameJob`] answers one frame. The
//! connection task polls a new job immediately, and retains it while it is pending.

use crate::conn::chain::{Chain, FrameJob, JobOutput};
use crate::conn::close::SmbCloseReason;
use crate::conn::credits::CreditWindow;
use crate::conn::disconnect::check_tampering;
use crate::conn::response_size::response_bytes_max;
use crate::conn::signatures::{self, Channels, SignatureCheck};
use crate::host::HostTime;
use crate::limits::{
    COMPOUND_REQUESTS_MAX, COMPOUND_REQUESTS_USUAL, CREDITS_MAX, CREDITS_WHILE_THROTTLED,
    FRAME_BYTES_MAX, FRAME_BYTES_MAX_BEFORE_LOGIN, RESPONSE_BYTES_USUAL, SENDFILE_BYTES_MIN,
    SPARE_BUFFER_BYTES_MAX, SPARE_BUFFERS_MAX,
};
use crate::logon::logon_throttle::FailureCount;
use crate::logon::setup_state::PendingSetup;
use crate::logon::setup_state::WaitingSetup;
use crate::observe::metering::{self, FrameTally, authentication, meter_notice};
use crate::outgoing::conn_handle::{ConnHandle, SmbConnFacts};
use crate::outgoing::transmit::{FrameTransmit, Outbox, PREFIX, new_buffer};
use crate::request::element::Element;
use crate::server::SmbServer;
use crate::session::channel::SessionChannel;
use crate::session::negotiation::Negotiation;
use crate::session::state::ChannelFact;
use bytes::{Buf, BytesMut};
use files::{CallHolder, ClientProtocol, RequestContext};
use limits::LedgerHolder;
use meter::{Arrival, Authentication, StageTimes};
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use vfs::ArrivalOrder;
use wire::crypto::PreauthHash;
use wire::ntstatus::NtStatus;
use wire::smb::{Command, Dialect, Flags, Header, SessionId, TransformHeader};

/// The protocol state of one connection.
pub struct SmbConn {
    pub(crate) server: Arc<SmbServer>,
    pub(crate) shared: Arc<ConnHandle>,
    pub(crate) negotiated: Option<Arc<Negotiation>>,
    /// The server answered an SMB1 NEGOTIATE with dialect 0x02FF; an SMB2 NEGOTIATE follows.
    pub(crate) wildcard_answered: bool,
    /// The server has refused an SMB1-only client once already.
    pub(crate) smb1_refused: bool,
    /// See [`SmbConn::take_cancelled`].
    has_cancelled: bool,
    pub(crate) preauth: PreauthHash,
    pub(crate) setups: HashMap<u64, PendingSetup>,
    pub(crate) channels: Channels,
    pub(crate) waiting_setups: Vec<WaitingSetup>,
    /// Sessions whose Kerberos ticket is being verified.
    pub(crate) verifying: Vec<SessionId>,
    /// Failed password logons on this connection.
    pub(crate) failures: FailureCount,
    /// A user with a proven identity has logged on here. Encrypted messages are refused before
    /// (MS-SMB2 3.3.5.2.1.1, ConstrainedConnection).
    pub(crate) is_proven: bool,
    window: CreditWindow,
    /// Jobs to poll, each with the maximum number of bytes of its response.
    jobs: VecDeque<(FrameJob, usize)>,
    outbox: Outbox,
    spare: Vec<Vec<u8>>,
    /// The verified signature of the frame in hand, if the batch check covered it.
    checked: Option<SignatureCheck>,
    /// Time and size of that frame's arrival.
    pub(crate) arrival: Option<Arrival>,
    /// Position of that frame among the arrivals of all connections.
    order: Option<ArrivalOrder>,
}

impl std::fmt::Debug for SmbConn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conn").field("facts", &self.shared.facts).finish_non_exhaustive()
    }
}

impl SmbConn {
    /// A connection that was just accepted.
    #[must_use]
    pub fn new(server: Arc<SmbServer>, facts: SmbConnFacts) -> Self {
        Self {
            server,
            shared: Arc::new(ConnHandle::new(facts)),
            negotiated: None,
            wildcard_answered: false,
            smb1_refused: false,
            has_cancelled: false,
            preauth: PreauthHash::default(),
            setups: HashMap::new(),
            channels: HashMap::default(),
            is_proven: false,
            window: CreditWindow::default(),
            jobs: VecDeque::new(),
            outbox: Outbox::default(),
            waiting_setups: Vec::new(),
            verifying: Vec::new(),
            failures: FailureCount::default(),
            spare: Vec::new(),
            checked: None,
            arrival: None,
            order: None,
        }
    }

    /// Records the arrival and the arrival order of the next frame.
    pub fn note_arrival(&mut self, arrival: Arrival, order: ArrivalOrder) {
        (self.arrival, self.order) = (Some(arrival), Some(order));
    }

    /// Handles one direct-TCP payload (without its 4-byte prefix).
    ///
    /// # Errors
    /// [`SmbCloseReason`]: the server sends no response and closes the connection.
    pub fn handle_frame(&mut self, frame: BytesMut, now: HostTime) -> Result<(), SmbCloseReason> {
        self.handle_checked(frame, None, now)
    }

    /// Like [`SmbConn::handle_frame`], with the result of [`SmbConn::verify_together`] for the frame.
    ///
    /// # Errors
    /// The errors of [`SmbConn::handle_frame`].
    pub fn handle_checked(
        &mut self,
        frame: BytesMut,
        checked: Option<SignatureCheck>,
        now: HostTime,
    ) -> Result<(), SmbCloseReason> {
        self.checked = checked;
        let wire_bytes = (PREFIX + frame.len()) as u64;
        self.arrival.get_or_insert(Arrival::at_once(now.instant, wire_bytes));
        let result = self.take_frame(frame, now);
        (self.checked, self.arrival, self.order) = (None, None, None);
        if result.is_err() {
            self.server.stats.protocol_violations.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// True if batch verification pays for this connection.
    #[must_use]
    pub fn verifies_together(&self) -> bool {
        signatures::verifies_together(&self.channels)
    }

    /// Verifies the signatures of frames that hold one signed request each, of one channel. Returns
    /// a result for each frame, to pass to [`SmbConn::handle_checked`].
    #[must_use]
    pub fn verify_together(&self, frames: &mut [BytesMut]) -> Vec<Option<SignatureCheck>> {
        signatures::verify_together(&self.channels, self.stages(), frames)
    }

    fn take_frame(&mut self, mut frame: BytesMut, now: HostTime) -> Result<(), SmbCloseReason> {
        match frame.get(..4) {
            Some(b"\xFESMB") => self.take_messages(frame, None, now),
            Some(b"\xFDSMB") => {
                let channel = self.open_sealed(&mut frame)?;
                frame.advance(TransformHeader::LENGTH);
                self.take_messages(frame, Some(channel), now)
            }
            Some(b"\xFFSMB") if self.negotiated.is_none() && !self.wildcard_answered => {
                self.handle_smb1_negotiate(&frame)
            }
            _ => Err(SmbCloseReason::Garbage("unexpected protocol id")),
        }
    }

    /// Decrypts a sealed frame in place. MS-SMB2 3.3.5.2.1.1.
    fn open_sealed(&mut self, frame: &mut BytesMut) -> Result<Arc<SessionChannel>, SmbCloseReason> {
        if !self.is_proven {
            return Err(SmbCloseReason::Refused("encrypted message before an authenticated logon"));
        }
        let header = TransformHeader::decode(frame).map_err(|m| SmbCloseReason::Garbage(m.what))?;
        let channel = self
            .channels
            .get(&header.session_id.0)
            .ok_or(SmbCloseReason::Refused("encrypted message for an unknown session"))?;
        let sealing = channel.session.sealing.as_ref().ok_or(SmbCloseReason::Refused(
            "encrypted message for a session without encryption keys",
        ))?;
        let opened = self.stages().crypto(|| sealing.open.open_in_place(frame));
        opened.map_err(|_| SmbCloseReason::Refused("message does not decrypt"))?;
        Ok(channel.clone())
    }

    /// Handles one SMB2 message or a compound of them.
    fn take_messages(
        &mut self,
        mut frame: BytesMut,
        sealed: Option<Arc<SessionChannel>>,
        now: HostTime,
    ) -> Result<(), SmbCloseReason> {
        let first = decode_header(&frame, 0)?;
        match first.command {
            Command::NEGOTIATE => return self.handle_negotiate(&frame.freeze(), &first),
            _ if self.negotiated.is_none() => {
                return Err(SmbCloseReason::Garbage("request before NEGOTIATE"));
            }
            Command::CANCEL => return self.handle_cancel(&mut frame, &first, sealed.as_ref()),
            Command::SESSION_SETUP if first.next_command == 0 => {
                let sealed_by = sealed.map(|channel| channel.session.id);
                return self.handle_session_setup(frame.freeze(), &first, sealed_by, now);
            }
            _ => {}
        }
        self.start_chain(frame, first, sealed, now.instant)
    }

    fn start_chain(
        &mut self,
        mut frame: BytesMut,
        first: Header,
        sealed: Option<Arc<SessionChannel>>,
        now: Instant,
    ) -> Result<(), SmbCloseReason> {
        let usual = if first.next_command == 0 { 1 } else { COMPOUND_REQUESTS_USUAL };
        let mut elements: SmallVec<[Element; 1]> = SmallVec::with_capacity(usual);
        let (mut start, mut header) = (0, first);
        loop {
            let next = header.next_command as usize;
            let end = if next == 0 { frame.len() } else { start + next };
            if next != 0 && (!next.is_multiple_of(8) || next < Header::LENGTH || end > frame.len())
            {
                return Err(SmbCloseReason::Garbage("invalid NextCommand offset"));
            }
            let element = self.take_element(
                &mut frame,
                start..end,
                header,
                elements.last(),
                sealed.as_ref(),
            )?;
            elements.push(element);
            if next == 0 {
                break;
            }
            if elements.len() == COMPOUND_REQUESTS_MAX {
                return Err(SmbCloseReason::Garbage("compound of too many requests"));
            }
            start = end;
            header = decode_header(&frame, start)?;
        }
        let room = |element: &Element| {
            response_bytes_max(element.header.command, &frame[element.range.clone()])
        };
        let answer_bytes = elements.iter().map(room).sum::<usize>().min(FRAME_BYTES_MAX);
        self.server.stats.requests.fetch_add(elements.len() as u64, Ordering::Relaxed);
        let Some(negotiated) = self.negotiated.clone() else {
            return Err(SmbCloseReason::Garbage("request before NEGOTIATE"));
        };
        let Some(arrival) = self.arrival else {
            return Err(SmbCloseReason::Garbage("frame without an arrival"));
        };
        let mut buffer = new_buffer(self.spare.pop().unwrap_or_default());
        // A longer response may bypass this buffer.
        if answer_bytes < SENDFILE_BYTES_MIN {
            buffer.reserve(elements.len() * RESPONSE_BYTES_USUAL + answer_bytes);
        }
        let order = self.order.take().unwrap_or_else(ArrivalOrder::next);
        let context = RequestContext::new(ClientProtocol::Smb, negotiated.client_guid, None, order);
        let holder = self.call_holder(&elements);
        let chain = Chain {
            server: self.server.clone(),
            files: self.server.files.for_request(&context, holder),
            shared: self.shared.clone(),
            negotiated,
            frame: frame.freeze(),
            elements,
            sealed,
            out: buffer,
            now,
            tally: FrameTally::new(arrival),
        };
        self.jobs.push_back((Box::pin(chain.run()), answer_bytes));
        Ok(())
    }

    /// Charges one request and finds its session. A refusal is stored in the element, because
    /// responses leave in the order of the requests.
    fn take_element(
        &mut self,
        frame: &mut [u8],
        range: Range<usize>,
        header: Header,
        previous: Option<&Element>,
        sealed: Option<&Arc<SessionChannel>>,
    ) -> Result<Element, SmbCloseReason> {
        let grant = self.charge(&header)?;
        let mut element = Element { range, header, channel: None, refused: None, grant };
        let related = header.flags.contains(Flags::RELATED);
        if related && previous.is_none() {
            element.refused = Some(NtStatus::INVALID_PARAMETER);
            return Ok(element);
        }
        let inherited = previous.filter(|_| related);
        element.channel = match inherited {
            Some(previous) => previous.channel.clone(),
            None => self.channels.get(&header.session_id.0).cloned(),
        };
        if let Some(previous) = inherited {
            element.header.session_id = previous.header.session_id;
            element.header.tree_id = previous.header.tree_id;
        }
        element.refused = self.verify(frame, &element, sealed).err();
        if element.channel.is_none() && element.refused.is_some() {
            let message = &frame[element.range.clone()];
            element.channel = self.channel_to_refuse(message, &element.header);
        }
        if element.refused.is_none() {
            let message = &frame[element.range.clone()];
            check_tampering(self.negotiated.as_deref(), message, &element, sealed.is_some())?;
        }
        Ok(element)
    }

    /// Consumes the message ids of a request and decides the credits of its response. MS-SMB2
    /// 3.3.5.2.3, 3.3.1.2.
    pub(crate) fn charge(&mut self, header: &Header) -> Result<u16, SmbCloseReason> {
        let multi = self.negotiated.as_ref().is_some_and(|n| n.dialect > Dialect::Smb202);
        let charge = if multi { header.credit_charge.max(1) } else { 1 };
        self.window
            .take(header.message_id.0, charge)
            .map_err(|_| SmbCloseReason::Garbage("message id outside of the granted credits"))?;
        let is_throttled = self.shared.throttled.load(Ordering::Relaxed) > 0;
        let most = if is_throttled { CREDITS_WHILE_THROTTLED } else { CREDITS_MAX };
        let grant = self.window.grant(header.credits, charge, most);
        self.shared.credits.store(self.window.available(), Ordering::Relaxed);
        Ok(grant)
    }

    /// Verifies signature, encryption and session of one request. MS-SMB2 3.3.5.2.4, 3.3.5.2.9,
    /// 3.3.5.2.11.
    fn verify(
        &self,
        frame: &mut [u8],
        element: &Element,
        sealed: Option<&Arc<SessionChannel>>,
    ) -> Result<(), NtStatus> {
        self.verify_origin(frame, element, sealed)?;
        let session = element.channel.as_ref().map(|channel| &channel.session);
        let outlives = matches!(
            element.header.command,
            Command::LOGOFF | Command::CLOSE | Command::LOCK | Command::CANCEL | Command::ECHO
        );
        match session {
            Some(session) if !outlives && session.is_expired(|| self.server.host.now().wall) => {
                Err(NtStatus::NETWORK_SESSION_EXPIRED)
            }
            _ => Ok(()),
        }
    }

    /// Verifies that a request comes from the client of its session.
    fn verify_origin(
        &self,
        frame: &mut [u8],
        element: &Element,
        sealed: Option<&Arc<SessionChannel>>,
    ) -> Result<(), NtStatus> {
        let Some(channel) = &element.channel else {
            // ECHO needs no session; any other command does.
            let free = element.header.command == Command::ECHO
                && element.header.session_id == SessionId(0);
            return if free { Ok(()) } else { Err(NtStatus::USER_SESSION_DELETED) };
        };
        if channel.session.has_ended() {
            return Err(NtStatus::USER_SESSION_DELETED);
        }
        if let Some(by) = sealed {
            return if by.session.id == channel.session.id {
                Ok(())
            } else {
                Err(NtStatus::ACCESS_DENIED)
            };
        }
        if channel.session.encrypt_data {
            return Err(NtStatus::ACCESS_DENIED);
        }
        if element.header.flags.contains(Flags::SIGNED) {
            let message = &mut frame[element.range.clone()];
            let known = self.checked.as_ref().and_then(|checked| checked.is_good_for(channel));
            let verify = || self.stages().crypto(|| channel.signing.verify_in_place(message));
            let good = known.unwrap_or_else(verify);
            return if good { Ok(()) } else { Err(NtStatus::ACCESS_DENIED) };
        }
        if channel.session.signing_required { Err(NtStatus::ACCESS_DENIED) } else { Ok(()) }
    }

    /// CANCEL has no response and costs no credit. MS-SMB2 3.3.5.16.
    fn handle_cancel(
        &mut self,
        frame: &mut [u8],
        header: &Header,
        sealed: Option<&Arc<SessionChannel>>,
    ) -> Result<(), SmbCloseReason> {
        let channel = self.channels.get(&header.session_id.0).cloned();
        let element =
            Element { range: 0..frame.len(), header: *header, channel, refused: None, grant: 0 };
        let verified = self.verify(frame, &element, sealed);
        let status = verified.err().unwrap_or_default();
        self.meter_direct_response(
            header.command,
            status,
            authentication(element.channel.as_ref()),
            None,
        );
        if verified.is_ok() {
            let by_async = header.flags.contains(Flags::ASYNC);
            self.shared.pending.cancel(header.message_id, by_async.then_some(header.async_id()));
            self.has_cancelled = true;
        }
        Ok(())
    }

    /// True if the last message was a CANCEL; resets the flag. The cancelled requests are answered
    /// before any later request: clients take a later response as proof that the cancelled request
    /// is complete.
    pub fn take_cancelled(&mut self) -> bool {
        std::mem::take(&mut self.has_cancelled)
    }

    /// The next job to poll.
    pub fn poll_job(&mut self) -> Option<FrameJob> {
        self.jobs.pop_front().map(|(job, _)| job)
    }

    /// Maximum number of bytes of the next job's response.
    #[must_use]
    pub fn next_answer_bytes(&self) -> usize {
        self.jobs.front().map_or(0, |(_, answer_bytes)| *answer_bytes)
    }

    /// The account that pays for this connection's memory, once a user has logged on.
    #[must_use]
    pub fn holder(&self) -> Option<LedgerHolder> {
        let mut sessions = self.channels.values().map(|channel| &channel.session);
        sessions.find(|session| !session.has_ended()).map(|session| session.holder.clone())
    }

    /// The account that pays for the calls of a compound: that of the first session in it.
    fn call_holder(&self, elements: &[Element]) -> CallHolder {
        let mut channels =
            elements.iter().filter_map(|e| self.channels.get(&e.header.session_id.0));
        let holder = channels.next().map(|channel| channel.session.holder.clone());
        CallHolder::Client(
            holder.unwrap_or_else(|| LedgerHolder::site(self.shared.facts.peer.ip())),
        )
    }

    /// Handles the output of a finished job.
    pub fn handle_finished(&mut self, finished: JobOutput, now: HostTime) {
        if let Some(transmit) = finished.transmit {
            self.outbox.push(transmit);
        }
        if let Some(verdict) = finished.ticket_verdict {
            self.handle_ticket_verdict(*verdict, now);
        }
        // Breaks of the caching that this response grants may be sent now.
        drop(finished.granted);
        // Breaks that the request caused for its own client may be sent now.
        drop(finished.pending);
        if let Some(session) = finished.logged_off {
            self.channels.remove(&session.0);
        }
    }

    /// The next frame to send, in order.
    pub fn poll_transmit(&mut self) -> Option<FrameTransmit> {
        // Interim responses precede their final responses.
        if let Some(buffer) = self.shared.pending.poll_interim() {
            return Some(buffer);
        }
        self.outbox.pop(self.server.files.meter().stages())
    }

    fn stages(&self) -> &StageTimes {
        self.server.files.meter().stages()
    }

    /// Bytes queued for [`SmbConn::poll_transmit`].
    #[must_use]
    pub fn transmit_bytes(&self) -> usize {
        self.outbox.bytes()
    }

    /// See [`Outbox::is_worth_sending`].
    #[must_use]
    pub fn is_worth_sending(&self) -> bool {
        self.outbox.is_worth_sending()
    }

    /// The next notification. The caller drains [`SmbConn::poll_transmit`] first, so that a
    /// notification never overtakes the response that it refers to.
    pub fn poll_notice(&self) -> Option<FrameTransmit> {
        let notice = self.shared.notices.poll(|| self.server.host.instant())?;
        meter_notice(self.server.files.meter(), &notice);
        Some(notice)
    }

    /// The handle whose `notices` signal when [`SmbConn::poll_notice`] has a frame.
    #[must_use]
    pub fn shared(&self) -> Arc<ConnHandle> {
        self.shared.clone()
    }

    /// Takes a sent buffer back for reuse.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS_MAX && buffer.capacity() <= SPARE_BUFFER_BYTES_MAX {
            self.spare.push(buffer);
        }
    }

    /// Frees spare buffers beyond `bytes_max`. The caller has no request in flight.
    pub fn trim_buffers(&mut self, bytes_max: usize) {
        let mut retained = 0;
        self.spare.retain(|buffer| {
            retained += buffer.capacity();
            retained <= bytes_max
        });
    }

    /// Frees all spare buffers of an idle connection.
    pub fn release_buffers(&mut self) {
        self.spare = Vec::new();
        if self.jobs.is_empty() {
            self.jobs = VecDeque::new();
        }
        self.outbox.shrink();
    }

    /// Deadline of the next [`SmbConn::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.waiting_setups.iter().filter_map(WaitingSetup::due).min()
    }

    /// Retries the session set-ups that wait.
    pub fn handle_timeout(&mut self, now: HostTime) {
        self.retry_waiting_setups(now);
    }

    /// True once a user has logged on and while that session lasts.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.channels.values().any(|channel| !channel.session.has_ended())
    }

    /// Requests that wait for other clients.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.shared.pending.len()
    }

    /// The largest frame accepted in the present state, in bytes.
    #[must_use]
    pub fn frame_length_max(&self) -> usize {
        if self.is_established() { FRAME_BYTES_MAX } else { FRAME_BYTES_MAX_BEFORE_LOGIN }
    }

    pub(crate) fn start_job(&mut self, job: FrameJob) {
        self.jobs.push_back((job, 0));
    }

    pub(crate) fn transmit(&mut self, transmit: FrameTransmit) {
        self.outbox.push(transmit);
    }

    /// Meters a request that is not a job, with its response if it has one.
    pub(crate) fn meter_direct_response(
        &self,
        command: Command,
        status: NtStatus,
        authentication: Authentication,
        transmit: Option<&mut FrameTransmit>,
    ) {
        let Some(arrival) = self.arrival else { return };
        let times = (arrival, self.server.host.instant());
        let meter = self.server.files.meter();
        let request = (command, status, authentication);
        metering::meter_direct_response(meter, times, request, transmit);
    }

    pub(crate) fn channel_fact(&self, negotiated: &Negotiation) -> ChannelFact {
        let SmbConnFacts { id, peer, local } = self.shared.facts;
        ChannelFact {
            connection: id,
            peer,
            local,
            dialect: negotiated.dialect,
            signing: negotiated.signing.name(),
            cipher: negotiated.cipher.map_or("-", |c| c.name()),
            shared: Arc::downgrade(&self.shared),
        }
    }
}

impl Drop for SmbConn {
    /// Ends the sessions that have no other channel.
    fn drop(&mut self) {
        // Jobs hold opens, so they must drop first for the end of a session to close its files.
        self.jobs.clear();
        for channel in self.channels.values() {
            if channel.session.remove_channel(self.shared.facts.id) {
                self.server.disconnect_session(&channel.session);
            } else if !channel.session.has_ended() {
                self.server.stats.channels_lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        // The channels are removed first, so that no notification returns to this connection.
        for notice in self.shared.notices.close() {
            if let Some(channel) = self.channels.get(&notice.session.0) {
                channel.session.notify_elsewhere(self.shared.facts.id, notice);
            }
        }
    }
}

pub(crate) fn decode_header(frame: &[u8], start: usize) -> Result<Header, SmbCloseReason> {
    let bytes = frame.get(start..).ok_or(SmbCloseReason::Garbage("incomplete header"))?;
    Header::decode(&mut wire::codec::Reader::new(bytes))
        .map_err(|m| SmbCloseReason::Garbage(m.what))
}
