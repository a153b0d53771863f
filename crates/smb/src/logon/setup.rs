//! SESSION_SETUP: from a security token to a session. MS-SMB2 3.3.5.5.
//!
//! The connection serves it itself, in order, because the preauthentication hash and the keys
//! depend on the order. It needs no disk. After failed passwords an attempt is delayed before its
//! verification.

use crate::config::{EncryptionPolicy, SmbConfig};
use crate::conn::close::SmbCloseReason;
use crate::conn::connection::SmbConn;
use crate::host::{Account, HostTime};
use crate::limits::{SESSIONS_PER_CONNECTION_MAX, SETUPS_PER_CONNECTION_MAX, TOKEN_BYTES_MAX};
use crate::logon::logon_throttle::{LogonAttempt, WaitingLogon};
use crate::logon::setup_state::{
    DelayedLogon, PendingSetup, SetupPurpose, SetupRequest, SetupWaitReason,
};
use crate::observe::audit;
use crate::observe::metering::authentication;
use crate::outgoing::transmit::{FrameTransmit, MESSAGE_START, PREFIX, new_buffer};
use crate::session::channel::SessionChannel;
use crate::session::negotiation::Negotiation;
use crate::session::state::{SealingKeys, SmbSession, SmbSessionParts};
use crate::shares::user::SessionUser;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::codec::{Reader, Writer};
use wire::crypto::{KeyPurpose, KeySource, OpeningKey, PreauthHash, SealingKey};
use wire::fscc::FileTime;
use wire::ntlm::{self, GuestPolicy, LogonKind, LogonRefusal};
use wire::ntstatus::NtStatus;
use wire::smb::negotiate::capabilities;
use wire::smb::{
    Dialect, ErrorResponse, Flags, Header, SessionFlags, SessionId, SessionSetupRequest,
    SessionSetupResponse,
};
use wire::spnego::{self, AcceptedTicket, TicketRefusal};

/// Account name of guest sessions. No real account can have this name.
const GUEST: &str = "@guest";

/// The outcome of one SESSION_SETUP request.
enum SetupProgress {
    /// A response.
    SetupReply(SetupReply),
    /// A password whose verification must be delayed.
    Early(DelayedLogon),
    /// A Kerberos ticket, which another task verifies.
    Ticket(Vec<u8>),
}

/// The response to one security token.
pub struct SetupReply {
    status: NtStatus,
    flags: SessionFlags,
    token: Vec<u8>,
    channel: Option<Arc<SessionChannel>>,
    /// The session of a refused binding, whose key signs the refusal.
    refused_binding: Option<Arc<SmbSession>>,
    /// User name of a refused logon, as the client claimed it.
    refused_user: String,
    /// The logon used a Kerberos ticket.
    is_ticket: bool,
}

impl SetupReply {
    pub(crate) fn refused(status: NtStatus) -> Self {
        Self {
            status,
            flags: SessionFlags::default(),
            token: Vec::new(),
            channel: None,
            refused_binding: None,
            refused_user: String::new(),
            is_ticket: false,
        }
    }
}

impl SmbConn {
    /// Handles one SESSION_SETUP.
    pub(crate) fn handle_session_setup(
        &mut self,
        frame: Bytes,
        header: &Header,
        sealed_by: Option<SessionId>,
        now: HostTime,
    ) -> Result<(), SmbCloseReason> {
        if self.negotiated.is_none() {
            return Err(SmbCloseReason::Garbage("SESSION_SETUP before NEGOTIATE"));
        }
        let grant = self.charge(header)?;
        let setup = SetupRequest { frame, header: *header, grant, sealed_by };
        if self.is_setup_waiting(header.session_id) {
            if let Some(setup) = self.wait_for_turn(setup) {
                self.respond_to_setup(
                    setup,
                    header,
                    SetupReply::refused(NtStatus::REQUEST_NOT_ACCEPTED),
                );
            }
            return Ok(());
        }
        self.set_up(setup, None, now);
        Ok(())
    }

    /// Processes a request. `reason` is the cause of an earlier delay, if any.
    pub(crate) fn set_up(
        &mut self,
        setup: SetupRequest,
        reason: Option<SetupWaitReason>,
        now: HostTime,
    ) {
        let mut header = setup.header;
        let is_first = !self.setups.contains_key(&header.session_id.0);
        let place = reason.as_ref().and_then(SetupWaitReason::place);
        let (setup, step) = match self.take_setup(&setup, &mut header, place, now) {
            Ok(SetupProgress::SetupReply(step)) => (setup, step),
            Ok(SetupProgress::Early(early)) => {
                let Some(setup) = self.wait_for_verification(setup, &early, reason, now) else {
                    return;
                };
                (setup, self.refuse_unverified(header.session_id, early.user))
            }
            Ok(SetupProgress::Ticket(ticket)) => return self.verify_ticket(setup, header, ticket),
            Err(NtStatus::INSUFFICIENT_RESOURCES) if is_first => {
                let Some(setup) = self.wait_for_room(setup, reason.as_ref(), now) else { return };
                (setup, SetupReply::refused(NtStatus::INSUFFICIENT_RESOURCES))
            }
            Err(status) => (setup, SetupReply::refused(status)),
        };
        self.respond_to_setup(setup, &header, step);
        self.end_turn(header.session_id, now);
    }

    /// Sends the response. `header` has the session's id, once one is assigned.
    pub(crate) fn respond_to_setup(
        &mut self,
        setup: SetupRequest,
        header: &Header,
        mut step: SetupReply,
    ) {
        if step.status != NtStatus::MORE_PROCESSING_REQUIRED {
            let session = step.channel.as_ref().map(|channel| &*channel.session);
            let refused = (step.refused_user.as_str(), step.is_ticket);
            let (meter, origin) = (self.server.files.meter(), (self.shared.facts, header));
            audit::session_setup(meter, origin, session, refused, step.status);
        }
        let SetupRequest { frame, grant, sealed_by, .. } = setup;
        step.refused_binding = self.bindable(&frame, header).filter(|_| step.channel.is_none());
        self.reply_setup(header, grant, step, sealed_by.is_some());
    }

    fn take_setup(
        &mut self,
        SetupRequest { frame, sealed_by, .. }: &SetupRequest,
        header: &mut Header,
        place: Option<&WaitingLogon>,
        now: HostTime,
    ) -> Result<SetupProgress, NtStatus> {
        let negotiated = self.negotiated.clone().ok_or(NtStatus::INVALID_PARAMETER)?;
        let mut r = Reader::new(frame);
        let skipped = r.skip(Header::LENGTH, "header");
        let request = skipped.and_then(|()| SessionSetupRequest::decode(&mut r));
        let request = request.map_err(|_| NtStatus::INVALID_PARAMETER)?;
        if request.token.len() > TOKEN_BYTES_MAX {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        if request.flags & SessionSetupRequest::BINDING != 0 {
            self.begin_binding(frame, header, &negotiated)?;
        } else if header.session_id == SessionId(0) {
            header.session_id = self.begin_setup(SetupPurpose::New)?;
        } else {
            self.check_continuation(frame, header, *sealed_by)?;
        }
        let id = header.session_id;
        if let Some(ticket) =
            self.setups.get(&id.0).and_then(|s| s.acceptor.claimed_ticket(request.token))
        {
            return Ok(SetupProgress::Ticket(ticket));
        }
        let attempt = match self.attempt_of(id, request.token, place, now)? {
            Ok(attempt) => attempt,
            Err(early) => return Ok(SetupProgress::Early(early)),
        };
        let mut setup = self.setups.remove(&id.0).ok_or(NtStatus::USER_SESSION_DELETED)?;
        if negotiated.dialect == Dialect::Smb311 {
            setup.preauth.update(frame);
        }
        let host = self.server.host.clone();
        let result = setup
            .acceptor
            .handle_token(request.token, |user| host.account(user).map(|a| a.nt_hash));
        if let Some(attempt) = attempt {
            self.count_attempt(attempt, &result, now);
        }
        self.conclude(id, &request, &negotiated, setup, result).map(SetupProgress::SetupReply)
    }

    fn conclude(
        &mut self,
        id: SessionId,
        request: &SessionSetupRequest<'_>,
        negotiated: &Negotiation,
        setup: PendingSetup,
        result: Result<spnego::SpnegoStep, LogonRefusal>,
    ) -> Result<SetupReply, NtStatus> {
        match result {
            Ok(spnego::SpnegoStep::Continue(token)) => {
                self.setups.insert(id.0, setup);
                Ok(SetupReply { token, ..SetupReply::refused(NtStatus::MORE_PROCESSING_REQUIRED) })
            }
            Ok(spnego::SpnegoStep::Done(token, logon)) => {
                self.log_on(id, request, negotiated, setup, token, *logon)
            }
            Err(refused) => Ok(self.refuse_logon(refused, setup.purpose)),
        }
    }

    /// Continues a SESSION_SETUP with the verdict on its ticket.
    pub(crate) fn apply_ticket_verdict(
        &mut self,
        frame: &Bytes,
        id: SessionId,
        verdict: Result<AcceptedTicket, TicketRefusal>,
    ) -> Result<SetupReply, NtStatus> {
        let negotiated = self.negotiated.clone().ok_or(NtStatus::INVALID_PARAMETER)?;
        let mut r = Reader::new(frame);
        let skipped = r.skip(Header::LENGTH, "header");
        let request = skipped.and_then(|()| SessionSetupRequest::decode(&mut r));
        let request = request.map_err(|_| NtStatus::INVALID_PARAMETER)?;
        let mut setup = self.setups.remove(&id.0).ok_or(NtStatus::USER_SESSION_DELETED)?;
        if negotiated.dialect == Dialect::Smb311 {
            setup.preauth.update(frame);
        }
        let result = setup.acceptor.handle_ticket(request.token, verdict);
        let is_refused = result.is_err();
        let mut step = self.conclude(id, &request, &negotiated, setup, result)?;
        step.is_ticket = is_refused;
        Ok(step)
    }

    /// The logon attempt that a token contains. None if it contains none; an error if it must be
    /// delayed.
    fn attempt_of(
        &self,
        id: SessionId,
        token: &[u8],
        place: Option<&WaitingLogon>,
        now: HostTime,
    ) -> Result<Result<Option<LogonAttempt>, DelayedLogon>, NtStatus> {
        let setup = self.setups.get(&id.0).ok_or(NtStatus::USER_SESSION_DELETED)?;
        let Some(user) = setup.acceptor.claimed_user(token) else { return Ok(Ok(None)) };
        let throttle = &self.server.logon_throttle;
        let attempt = throttle.attempt(&self.account_name(&user), self.shared.facts.peer.ip());
        let due = throttle.due(attempt, &self.failures, place, now.instant);
        Ok(due.map_or(Ok(Some(attempt)), |due| Err(DelayedLogon { attempt, due, user })))
    }

    /// The canonical account name of a user, independent of its spelling.
    fn account_name(&self, user: &str) -> String {
        let account = self.server.host.account(user).map(|account| account.name);
        account.unwrap_or_else(|| user.trim().to_lowercase())
    }

    fn count_attempt(
        &mut self,
        attempt: LogonAttempt,
        result: &Result<spnego::SpnegoStep, LogonRefusal>,
        now: HostTime,
    ) {
        let throttle = &self.server.logon_throttle;
        match result {
            Ok(spnego::SpnegoStep::Done(_, logon)) if logon.kind == LogonKind::User => {
                let account = self.account_name(&logon.user);
                throttle.clear(attempt, &account, now.instant);
            }
            Ok(_) => {}
            Err(_) => throttle.count_failure(attempt, &mut self.failures, now.instant),
        }
    }

    /// Refuses an attempt because too many already wait. A session in re-authentication continues,
    /// because its client has shown nothing wrong.
    pub(crate) fn refuse_unverified(&mut self, id: SessionId, user: String) -> SetupReply {
        self.setups.remove(&id.0);
        let stats = &self.server.stats;
        stats.logons_failed.fetch_add(1, Ordering::Relaxed);
        stats.logons_refused_unchecked.fetch_add(1, Ordering::Relaxed);
        let why = "too many logon attempts are waiting; try again later";
        self.server.host.logon_failed(self.shared.facts.peer, &user, why);
        SetupReply { refused_user: user, ..SetupReply::refused(NtStatus::REQUEST_NOT_ACCEPTED) }
    }

    pub(crate) fn begin_setup(&mut self, purpose: SetupPurpose) -> Result<SessionId, NtStatus> {
        if self.channels.len() >= SESSIONS_PER_CONNECTION_MAX {
            self.channels.retain(|_, channel| !channel.session.has_ended());
        }
        if self.setups.len() >= SETUPS_PER_CONNECTION_MAX
            || self.channels.len() >= SESSIONS_PER_CONNECTION_MAX
        {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        if matches!(purpose, SetupPurpose::New) && self.server.is_draining() {
            return Err(NtStatus::REQUEST_NOT_ACCEPTED);
        }
        let id = match &purpose {
            SetupPurpose::New => self.server.new_session_id(),
            SetupPurpose::Reauthenticate(session) | SetupPurpose::Bind(session) => session.id,
        };
        let config = self.server.config();
        let facts = ntlm::TargetFacts { name: config.name.clone(), domain: config.domain.clone() };
        let mut challenge = [0; 8];
        self.server.host.random(&mut challenge);
        let wall = FileTime::from_unix_nanos(self.server.host.now().wall.0);
        let exchange = ntlm::NtlmAcceptor::new(facts, challenge, wall);
        let unproven = self.unproven(&config, &purpose);
        let acceptor = spnego::SpnegoAcceptor::new(exchange, unproven)
            .offering(self.server.mechanisms(&config));
        self.setups.insert(id.0, PendingSetup { acceptor, preauth: self.preauth.clone(), purpose });
        Ok(id)
    }

    /// The unauthenticated logons that are allowed. A proven session has keys that sign and
    /// encrypt, even after its client re-authenticates as anonymous.
    fn unproven(&self, config: &SmbConfig, purpose: &SetupPurpose) -> GuestPolicy {
        let has_keys =
            matches!(purpose, SetupPurpose::Reauthenticate(session) if session.has_proven_keys());
        let anonymous =
            (config.accepts_unproven() || has_keys) && self.server.host.guest().is_some();
        // A user's session never becomes a guest's session.
        let is_new = matches!(purpose, SetupPurpose::New);
        let guest = anonymous && is_new && config.shares.iter().any(|s| s.admission.guests);
        GuestPolicy { anonymous, guest }
    }

    /// Checks a message that continues an exchange or begins a re-authentication.
    ///
    /// Each such message must prove that it comes from the session's client. A forged wrong
    /// password would end the exchange, and with a re-authentication the session. A message without
    /// the proof changes nothing.
    fn check_continuation(
        &mut self,
        frame: &Bytes,
        header: &Header,
        sealed_by: Option<SessionId>,
    ) -> Result<(), NtStatus> {
        match self.setups.get(&header.session_id.0).map(|setup| &setup.purpose) {
            Some(SetupPurpose::New) => Ok(()),
            Some(SetupPurpose::Bind(session)) => {
                let is_signed = header.flags.contains(Flags::SIGNED);
                let is_proven = is_signed && session.signing_key.verify(frame);
                if is_proven { Ok(()) } else { Err(NtStatus::ACCESS_DENIED) }
            }
            Some(SetupPurpose::Reauthenticate(_)) | None => {
                self.begin_reauthentication(frame, header, sealed_by)
            }
        }
    }

    /// Begins the re-authentication of an existing session. MS-SMB2 3.3.5.5.2.
    fn begin_reauthentication(
        &mut self,
        frame: &Bytes,
        header: &Header,
        sealed_by: Option<SessionId>,
    ) -> Result<(), NtStatus> {
        let id = header.session_id;
        let channel = self.channels.get(&id.0).ok_or(NtStatus::USER_SESSION_DELETED)?.clone();
        if channel.session.has_ended() {
            self.setups.remove(&id.0);
            return Err(NtStatus::USER_SESSION_DELETED);
        }
        let is_proven = match header.flags.contains(Flags::SIGNED) {
            true => channel.signing.verify(frame),
            false => !channel.session.signing_required,
        };
        if !is_proven && sealed_by != Some(id) {
            return Err(NtStatus::ACCESS_DENIED);
        }
        if self.setups.contains_key(&id.0) {
            return Ok(());
        }
        self.begin_setup(SetupPurpose::Reauthenticate(channel.session.clone())).map(|_| ())
    }

    fn refuse_logon(&mut self, refused: LogonRefusal, purpose: SetupPurpose) -> SetupReply {
        let stats = &self.server.stats;
        stats.logons_failed.fetch_add(1, Ordering::Relaxed);
        let peer = self.shared.facts.peer;
        let (user, why) = match &refused {
            LogonRefusal::Malformed(what) => (String::new(), *what),
            LogonRefusal::Anonymous => (String::new(), "anonymous logon is not allowed"),
            LogonRefusal::NtlmBlocked => (String::new(), "NTLM is disabled"),
            LogonRefusal::TooWeak { user } => (user.clone(), "NTLM version 1 is not allowed"),
            LogonRefusal::Mic { user } => {
                (user.clone(), "the message integrity code is wrong: the exchange was altered")
            }
            LogonRefusal::UnknownUser { user } => (user.clone(), "no such user"),
            LogonRefusal::WrongPassword { user } => (user.clone(), "wrong password"),
            LogonRefusal::Ticket { user, why } => (user.clone(), why.as_str()),
        };
        self.server.host.logon_failed(peer, &user, why);
        // A failed re-authentication ends the session.
        if let SetupPurpose::Reauthenticate(session) = purpose {
            // The channel remains, so that the client still gets USER_SESSION_DELETED.
            self.server.end_session(&session);
        }
        let status = match refused {
            LogonRefusal::Malformed(_) => NtStatus::INVALID_PARAMETER,
            LogonRefusal::Anonymous => NtStatus::ACCESS_DENIED,
            LogonRefusal::NtlmBlocked => NtStatus::NTLM_BLOCKED,
            _ => NtStatus::LOGON_FAILURE,
        };
        SetupReply { refused_user: user, ..SetupReply::refused(status) }
    }

    fn log_on(
        &mut self,
        id: SessionId,
        request: &SessionSetupRequest<'_>,
        negotiated: &Negotiation,
        setup: PendingSetup,
        token: Vec<u8>,
        logon: spnego::CompletedLogon,
    ) -> Result<SetupReply, NtStatus> {
        let channel = match setup.purpose {
            SetupPurpose::Bind(session) => {
                self.bind(session, negotiated, &setup.preauth, &logon)?
            }
            SetupPurpose::Reauthenticate(session) => {
                self.reauthenticate(&session, self.user_of(&logon)?)?;
                self.channels.get(&id.0).cloned().ok_or(NtStatus::USER_SESSION_DELETED)?
            }
            SetupPurpose::New => {
                let user = self.user_of(&logon)?;
                self.new_session(id, request, negotiated, &setup.preauth, &logon, user)?
            }
        };
        let user = channel.session.user();
        self.server.stats.logons.fetch_add(1, Ordering::Relaxed);
        self.server.host.logon_succeeded(self.shared.facts.peer, &user.account.name);
        self.is_proven |= user.is_proven();
        let mut flags = SessionFlags::default();
        if user.is_anonymous {
            flags.0 |= SessionFlags::ANONYMOUS.0;
        }
        if user.is_guest {
            flags.0 |= SessionFlags::GUEST.0;
        }
        if channel.session.encrypt_data {
            flags.0 |= SessionFlags::ENCRYPT_DATA.0;
        }
        let status = NtStatus::SUCCESS;
        Ok(SetupReply {
            status,
            flags,
            token,
            channel: Some(channel),
            ..SetupReply::refused(status)
        })
    }

    /// Completes a re-authentication by the account that created the session's keys, or by
    /// anonymous. Any other account would act under keys that another user holds, so the session
    /// ends. MS-SMB2 3.3.5.5.3.
    fn reauthenticate(&self, session: &Arc<SmbSession>, user: SessionUser) -> Result<(), NtStatus> {
        if !session.may_be_reauthenticated_by(&user) {
            let why = "only the account that created a session may re-authenticate it";
            let name = &user.account.name;
            self.server.stats.logons_failed.fetch_add(1, Ordering::Relaxed);
            self.server.host.logon_failed(self.shared.facts.peer, name, why);
            self.server.end_session(session);
            return Err(NtStatus::ACCESS_DENIED);
        }
        let (account, is_proven) = (user.account.clone(), user.is_proven());
        session.set_user(user);
        if is_proven {
            self.disconnect_forbidden_trees(session, &account);
        }
        Ok(())
    }

    /// Disconnects the trees that the account may no longer use. The present configuration decides;
    /// for a share that was removed from it, the configuration at TREE_CONNECT.
    fn disconnect_forbidden_trees(&self, session: &SmbSession, account: &Account) {
        let (peer, config) = (self.shared.facts.peer.ip(), self.server.config());
        for tree in session.trees() {
            let admission = &config.share(&tree.share.name).unwrap_or(&tree.share).admission;
            // While the client's host name is being resolved its trees stay connected.
            if admission.admits_host(peer) != Some(false) && admission.admits(account, true) {
                continue;
            }
            if let Ok(opens) = session.remove_tree(tree.id) {
                self.server.close_all(opens);
            }
        }
    }

    fn user_of(&self, logon: &spnego::CompletedLogon) -> Result<SessionUser, NtStatus> {
        let host = &self.server.host;
        let account = match logon.kind {
            LogonKind::User => host.account(&logon.user),
            LogonKind::Anonymous => host.guest(),
            LogonKind::Guest => host.guest().map(|a| Account { name: GUEST.into(), ..a }),
        };
        Ok(SessionUser {
            account: account.ok_or(NtStatus::LOGON_FAILURE)?,
            is_guest: logon.kind == LogonKind::Guest,
            is_anonymous: logon.kind == LogonKind::Anonymous,
            ticket_end: logon.ticket_end,
        })
    }

    fn new_session(
        &mut self,
        id: SessionId,
        request: &SessionSetupRequest<'_>,
        negotiated: &Negotiation,
        preauth: &PreauthHash,
        logon: &spnego::CompletedLogon,
        user: SessionUser,
    ) -> Result<Arc<SessionChannel>, NtStatus> {
        let config = self.server.config();
        // A session without proven identity has no key to sign or encrypt with. A reload may have
        // begun to require that during the exchange.
        let is_user = user.is_proven();
        if !is_user && !config.accepts_unproven() {
            return Err(NtStatus::ACCESS_DENIED);
        }
        let required = config.encryption == EncryptionPolicy::Required;
        let source =
            KeySource { dialect: negotiated.dialect, session_key: &logon.session_key, preauth };
        let sealing = negotiated.cipher.filter(|_| !user.is_guest).map(|cipher| {
            let key = |purpose| source.sealing(cipher, purpose);
            let seal = SealingKey::new(cipher, &key(KeyPurpose::ServerToClient));
            SealingKeys::new(seal, OpeningKey::new(cipher, &key(KeyPurpose::ClientToServer)))
        });
        if required && sealing.is_none() {
            return Err(NtStatus::ACCESS_DENIED);
        }
        let holder = user.holder(self.shared.facts.peer.ip());
        let charge = self.server.holdings.sessions.take(&holder);
        let charge = charge.map_err(|_| NtStatus::REQUEST_NOT_ACCEPTED)?;
        if !self.server.host.admit_connection(self.shared.facts.id, &holder) {
            return Err(NtStatus::REQUEST_NOT_ACCEPTED);
        }
        let signing = Arc::new(source.signing(negotiated.signing));
        let client_requires = request.security_mode & SessionSetupRequest::SIGNING_REQUIRED != 0;
        let session = Arc::new(SmbSession::new(SmbSessionParts {
            id,
            dialect: negotiated.dialect,
            served: negotiated.served.clone(),
            client_guid: negotiated.client_guid,
            cipher: negotiated.cipher.filter(|_| sealing.is_some()).map_or("-", |c| c.name()),
            signing: negotiated.signing.name(),
            encrypt_data: required,
            signing_required: is_user && (config.signing_required || client_requires),
            sealing,
            user,
            signing_key: signing.clone(),
            is_multichannel: negotiated.capabilities & capabilities::MULTI_CHANNEL != 0,
            wants_multichannel: negotiated.dialect >= Dialect::Smb300
                && negotiated.client_capabilities & capabilities::MULTI_CHANNEL != 0,
            open_account: self.server.files.opens().account(&holder),
            holder,
            charge,
            channel: self.channel_fact(negotiated),
        }));
        let channel = Arc::new(SessionChannel { session: session.clone(), signing });
        // A refused session must not end the previous one, so this comes first.
        if !self.server.clients.try_add(&session, request.previous_session) {
            return Err(NtStatus::USER_SESSION_DELETED);
        }
        self.replace_previous(request.previous_session, &session);
        self.server.add_session(session.clone());
        // A reload that scanned the sessions before this one was added has missed it.
        if self.server.refusal(&session, &self.server.config()).is_some() {
            self.server.end_session(&session);
            return Err(NtStatus::ACCESS_DENIED);
        }
        self.channels.insert(id.0, channel.clone());
        Ok(channel)
    }

    /// Ends the previous session that the client reports as lost. MS-SMB2 3.3.5.5.3.
    fn replace_previous(&mut self, previous: SessionId, by: &SmbSession) {
        if previous == SessionId(0) || previous == by.id {
            return;
        }
        if let Some(old) = self.server.session(previous)
            && old.user().is_proven()
            && by.user().is_proven()
            && old.user().account.name == by.user().account.name
        {
            self.server.disconnect_session(&old);
        }
    }

    fn reply_setup(&mut self, header: &Header, grant: u16, step: SetupReply, is_sealed: bool) {
        let mut buffer = new_buffer(Vec::new());
        let mut reply = header.reply(step.status, grant);
        // Guest and anonymous sessions have no secret key to sign the response with.
        let proven = step.channel.as_ref().filter(|c| c.session.user().is_proven());
        // During a binding the session's own key signs.
        let binding = self.setups.get(&header.session_id.0).and_then(PendingSetup::bound);
        let binding = binding.or(step.refused_binding.as_ref());
        // A client that signs accepts no unsigned refusal.
        let present = self.channels.get(&header.session_id.0);
        let present = present.filter(|_| header.flags.contains(Flags::SIGNED));
        let signer = proven
            .map(|c| &c.signing)
            .or(binding.map(|s| &s.signing_key))
            .or(present.map(|c| &c.signing));
        if signer.is_some() {
            reply.flags = reply.flags | Flags::SIGNED;
        }
        let mut w = Writer::with_origin(&mut buffer, MESSAGE_START);
        reply.encode(&mut w);
        if step.status.is_error() && step.status != NtStatus::MORE_PROCESSING_REQUIRED {
            ErrorResponse::EMPTY.encode(&mut w);
        } else {
            SessionSetupResponse { flags: step.flags, token: &step.token }.encode(&mut w);
        }
        if let Some(key) = signer {
            key.sign(&mut buffer[MESSAGE_START..]);
        }
        // A refusal is not part of the exchange, which continues without it. MS-SMB2 3.3.5.5.
        let has_more = step.status == NtStatus::MORE_PROCESSING_REQUIRED;
        if let Some(setup) = self.setups.get_mut(&header.session_id.0).filter(|_| has_more) {
            setup.preauth.update(&buffer[MESSAGE_START..]);
        }
        let sealing =
            step.channel.as_ref().or(self.channels.get(&header.session_id.0)).filter(|_| is_sealed);
        let mut transmit = match sealing.and_then(|c| c.session.sealing.as_ref()) {
            Some(keys) => {
                keys.seal.seal_in_place(&mut buffer[PREFIX..], header.session_id);
                FrameTransmit::sealed(buffer)
            }
            None => FrameTransmit::plain(buffer, None),
        };
        let by = authentication(step.channel.as_ref());
        self.meter_direct_response(header.command, step.status, by, Some(&mut transmit));
        self.transmit(transmit);
    }
}
