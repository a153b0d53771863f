//! Moves of hostile SMB clients, and of the victim in between.

use super::EventCounts;
use super::link::{
    HostileLink, HostileOffer, KnownOpen, KnownSession, LogonPurpose, MessageProtection,
    ReplyMessage, encode, percent, pick,
};
use super::logon::LogonClaim;
use super::nfs_link::NfsLink;
use super::nfs_victim::NfsVictim;
use super::requests::{self, HostileRequest, OpenTargets};
use super::surroundings::{
    EpisodeLog, EpisodeServers, EpisodeSurroundings, EpisodeUser, Settings, server,
};
use super::victim::{AWAY_MAX, CLIENT_GUID, SECRET, Victim, create_tree, file_id};
use crate::mutate::{Rng, mutate};
use smb::{EncryptionPolicy, SmbServer};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use vfs::memory::MemoryVfs;
use wire::ntstatus::NtStatus;
use wire::smb::{Command, Dialect, EmptyBody, FileId, Flags, Header, MessageId, SessionId, TreeId};

/// Connections of hostile clients.
const LINKS_MAX: usize = 8;
/// Captured frames that can be replayed.
const CAPTURED_MAX: usize = 48;
/// Latest opens that a client continues to use.
const OPENS_KNOWN_MAX: usize = 8;
/// Largest mutated frame in bytes.
const FRAME_BYTES_MAX: usize = 4096;
/// Simulated duration of a move.
const MOVE_TIME: Duration = Duration::from_millis(20);

/// One episode: a server, its victim, and hostile clients.
pub struct Episode {
    pub counts: EventCounts,
    pub(super) around: Arc<EpisodeSurroundings>,
    server: Arc<SmbServer>,
    pub(super) nfs: Arc<nfs::NfsServer>,
    vfs: Arc<MemoryVfs>,
    pub(super) victim: Victim,
    pub(super) nfs_victim: NfsVictim,
    links: Vec<HostileLink>,
    pub(super) nfs_links: Vec<NfsLink>,
    captured: VecDeque<Vec<u8>>,
    connections: u64,
}

type Move = fn(&mut Episode, &mut Rng);

/// The moves, with their weights.
const MOVES: [(usize, Move); 31] = [
    (5, Episode::connect),
    (10, Episode::log_on),
    (3, Episode::renew),
    (3, Episode::begin_logon),
    (4, Episode::end_logon),
    (3, Episode::bind),
    (3, Episode::bind_victim),
    (3, Episode::connect_tree),
    (90, Episode::request),
    (8, Episode::chain),
    (4, Episode::cancel),
    (4, Episode::replay),
    (9, Episode::mutate),
    (3, Episode::reconnect_own),
    (2, Episode::drop_link),
    (1, Episode::tick),
    (5, Episode::inject_into_victim),
    (4, Episode::inject_setup_into_victim),
    (1, Episode::victims_neighbour),
    (4, Episode::victim_writes),
    (3, Episode::victim_renews),
    (6, Episode::victim_acknowledges),
    (1, Episode::victim_binds),
    (1, Episode::victim_moves),
    (3, Episode::nfs_connect),
    (50, Episode::nfs_request),
    (3, Episode::nfs_claim),
    (3, Episode::nfs_foreign_client),
    (6, Episode::nfs_mutate),
    (2, Episode::nfs_replay),
    (5, Episode::nfs_victim_acts),
];

impl Episode {
    pub fn new(seed: u64, journal: Arc<EpisodeLog>) -> Self {
        let rng = &mut Rng::new(seed);
        let encryption = pick(
            rng,
            &[EncryptionPolicy::Offered, EncryptionPolicy::Offered, EncryptionPolicy::Required],
        );
        let settings = Settings { signing_required: percent(rng, 30), encryption };
        let around = EpisodeSurroundings::new(rng.number(), journal);
        let EpisodeServers { server, nfs, vfs } = server(settings, around.clone());
        create_tree(&vfs);
        let dialects = [Dialect::Smb210, Dialect::Smb302, Dialect::Smb311, Dialect::Smb311];
        let dialect = pick(
            rng,
            if encryption == EncryptionPolicy::Required { &dialects[1..] } else { &dialects },
        );
        let offer = HostileOffer { client_guid: CLIENT_GUID, posix: false, ..offer(rng, dialect) };
        let victim = Victim::arrive(&server, &around, &vfs, offer, 1);
        let nfs_victim = NfsVictim::arrive(&nfs, &around);
        Self {
            counts: EventCounts::default(),
            around,
            server,
            nfs,
            vfs,
            victim,
            nfs_victim,
            links: Vec::new(),
            nfs_links: Vec::new(),
            captured: VecDeque::new(),
            connections: 1,
        }
    }

    /// Makes the move that this number encodes.
    pub fn make_move(&mut self, number: u64) {
        let mut rng = Rng::new(number);
        self.around.advance(MOVE_TIME);
        let is_late = |since: Duration| self.around.since_start() > since + AWAY_MAX;
        if self.victim.away_since.is_some_and(is_late) {
            self.victim_returns();
        }
        let total: usize = MOVES.iter().map(|(weight, _)| weight).sum();
        let mut left = rng.below(total);
        for (weight, make) in MOVES {
            if left < weight {
                make(self, &mut rng);
                break;
            }
            left -= weight;
        }
        self.check_replies();
    }

    /// Asserts the invariants.
    pub fn check(&mut self) {
        for link in &mut self.links {
            link.poll(&self.around);
        }
        self.victim.check(&self.around, &self.server, &self.vfs);
        self.nfs_victim.check(&self.around, &self.nfs, &self.victim);
        self.check_replies();
    }

    /// Lets the victim return, and asserts that it has all its state.
    pub fn end(&mut self) {
        if self.victim.is_away() {
            self.victim_returns();
        }
        self.victim.end_reauthentication(&self.around);
        self.check();
        self.victim.unlock(&self.around);
    }

    /// Frames that the server received.
    pub fn messages(&self) -> u64 {
        self.around.frames()
    }

    /// Asserts that no response to a hostile client contains the victim's secret.
    fn check_replies(&mut self) {
        for link in &mut self.links {
            for ReplyMessage { header, bytes } in link.take_replies() {
                let leaks = bytes.windows(SECRET.len()).any(|window| window == SECRET);
                assert!(!leaks, "{} received the victim's secret: {header:?}", link.user.name());
            }
        }
        self.links.retain(|link| !link.is_closed());
        self.check_late_replies();
    }

    pub(super) fn next_connection(&mut self) -> u64 {
        self.connections += 1;
        self.connections
    }

    fn pick_link(&self, rng: &mut Rng) -> Option<usize> {
        (!self.links.is_empty()).then(|| rng.below(self.links.len()))
    }

    /// Picks a link, mostly one with a session, because without one every request is refused alike.
    fn pick_requester(&self, rng: &mut Rng) -> Option<usize> {
        let with = if percent(rng, 90) { self.pick_with_session(rng) } else { None };
        with.or_else(|| self.pick_link(rng))
    }

    fn pick_with_session(&self, rng: &mut Rng) -> Option<usize> {
        let with: Vec<usize> =
            (0..self.links.len()).filter(|at| self.links[*at].session.is_some()).collect();
        (!with.is_empty()).then(|| pick(rng, &with))
    }

    fn capture(&mut self, frame: Vec<u8>) {
        if self.captured.len() == CAPTURED_MAX {
            self.captured.pop_front();
        }
        self.captured.push_back(frame);
    }

    fn victims_opens(&self) -> Vec<FileId> {
        let private = self.victim.private.file_id;
        let others = self.victim.shared.into_iter().chain(self.victim.cached);
        std::iter::once(private).chain(others).collect()
    }

    fn connect(&mut self, rng: &mut Rng) {
        let user = pick(rng, &EpisodeUser::HOSTILE);
        let dialects = [
            Dialect::Smb202,
            Dialect::Smb210,
            Dialect::Smb300,
            Dialect::Smb302,
            Dialect::Smb311,
            Dialect::Smb311,
            Dialect::Smb311,
        ];
        let dialect = pick(rng, &dialects);
        let mut offer = offer(rng, dialect);
        if percent(rng, 30) {
            // Claims the ClientGuid of the victim.
            offer = HostileOffer { client_guid: CLIENT_GUID, ..self.victim.link.offer.clone() };
        }
        self.add_link(rng, user, offer);
    }

    fn add_link(&mut self, rng: &mut Rng, user: EpisodeUser, offer: HostileOffer) -> Option<usize> {
        if self.links.len() == LINKS_MAX {
            self.links.swap_remove(rng.below(LINKS_MAX));
        }
        let number = self.next_connection();
        let link = HostileLink::connect(&self.server, &self.around, user, offer, number)?;
        self.links.push(link);
        Some(self.links.len() - 1)
    }

    /// The account that a hostile client claims.
    fn claim(rng: &mut Rng, user: EpisodeUser) -> LogonClaim {
        match rng.below(12) {
            0 => LogonClaim { user: EpisodeUser::Alice, is_right: false },
            1 => LogonClaim { user, is_right: false },
            2 => LogonClaim::of(EpisodeUser::Anonymous),
            3 => LogonClaim::of(EpisodeUser::Stranger),
            4 => LogonClaim::of(pick(rng, &[EpisodeUser::Mallory, EpisodeUser::Trudy])),
            _ => LogonClaim::of(user),
        }
    }

    fn previous(&self, rng: &mut Rng) -> SessionId {
        match rng.below(4) {
            0 => self.victim.session().id,
            1 => self.links.iter().find_map(|l| Some(l.session.as_ref()?.id)).unwrap_or_default(),
            _ => SessionId(0),
        }
    }

    fn log_on(&mut self, rng: &mut Rng) {
        let Some(at) = self.pick_link(rng) else { return };
        let (claim, previous) = (Self::claim(rng, self.links[at].user), self.previous(rng));
        let link = &mut self.links[at];
        let plain = MessageProtection::Plain;
        let begun = link.begin_logon(&self.around, LogonPurpose::New, &plain, SessionId(0));
        if begun != Some(NtStatus::MORE_PROCESSING_REQUIRED) {
            return;
        }
        let status = link.end_logon(&self.around, claim, false, &plain, previous);
        if status == Some(NtStatus::SUCCESS) {
            assert!(claim.user != EpisodeUser::Alice, "logged on without the password");
            link.user = claim.user;
            self.counts.add(match claim.user {
                EpisodeUser::Stranger => "guest",
                EpisodeUser::Anonymous => "anonymous",
                _ => "logged on",
            });
            link.connect_tree(&self.around, "data");
        } else {
            self.counts.add("logon refused");
        }
    }

    /// Logs on as an honest client, because a request without a session is refused before its body
    /// is decoded.
    fn log_on_honestly(&mut self, at: usize) {
        let link = &mut self.links[at];
        if link.log_on(&self.around, link.user, SessionId(0)) == Some(NtStatus::SUCCESS) {
            link.connect_tree(&self.around, "data");
        }
    }

    fn renew(&mut self, rng: &mut Rng) {
        let Some(at) = self.pick_with_session(rng) else { return };
        let claim = Self::claim(rng, self.links[at].user);
        let protection = self.protection(rng, at);
        let link = &mut self.links[at];
        let Some(session) = link.session.clone() else { return };
        let purpose = LogonPurpose::Renew(session.clone());
        let begun = link.begin_logon(&self.around, purpose, &protection, SessionId(0));
        if begun != Some(NtStatus::MORE_PROCESSING_REQUIRED) {
            return;
        }
        let status = link.end_logon(&self.around, claim, false, &protection, SessionId(0));
        self.record_reauthentication(&session, claim, status);
    }

    /// Updates the expected user: a session keeps its account, or becomes anonymous.
    fn record_reauthentication(
        &mut self,
        session: &KnownSession,
        claim: LogonClaim,
        status: Option<NtStatus>,
    ) {
        if status != Some(NtStatus::SUCCESS) {
            return self.counts.add("reauthentication refused");
        }
        let gives_up = matches!(claim.user, EpisodeUser::Stranger | EpisodeUser::Anonymous);
        let is_same = claim.user == session.user;
        assert!(is_same || gives_up, "{:?} took over a session of {:?}", claim.user, session.user);
        self.counts.add(if is_same { "reauthenticated" } else { "reauthenticated as anonymous" });
    }

    /// The first half of some exchange; the second half may belong to another.
    fn begin_logon(&mut self, rng: &mut Rng) {
        let Some(at) = self.pick_link(rng) else { return };
        let foreign = self.pick_with_session(rng).and_then(|of| self.links[of].session.clone());
        let own = self.links[at].session.clone();
        let purpose = match (rng.below(3), own, foreign) {
            (0, Some(own), _) => LogonPurpose::Renew(own),
            (1, _, Some(foreign)) => LogonPurpose::Bind(foreign),
            _ => LogonPurpose::New,
        };
        let protection = match &purpose {
            LogonPurpose::Bind(session) if percent(rng, 80) => {
                MessageProtection::Signed(session.session_key.clone())
            }
            _ => self.protection(rng, at),
        };
        let previous = self.previous(rng);
        self.links[at].begin_logon(&self.around, purpose, &protection, previous);
    }

    /// The second half of an exchange, perhaps with another user and purpose.
    fn end_logon(&mut self, rng: &mut Rng) {
        let halves: Vec<usize> =
            (0..self.links.len()).filter(|at| self.links[*at].half.is_some()).collect();
        if halves.is_empty() {
            return;
        }
        let at = pick(rng, &halves);
        let (claim, previous) = (Self::claim(rng, self.links[at].user), self.previous(rng));
        let Some(half) = self.links[at].half.clone() else { return };
        let protection = match &half.purpose {
            LogonPurpose::Bind(session) if percent(rng, 80) => {
                MessageProtection::Signed(session.session_key.clone())
            }
            _ => self.protection(rng, at),
        };
        let is_binding = matches!(half.purpose, LogonPurpose::Bind(_));
        let binds = if percent(rng, 80) { is_binding } else { !is_binding };
        let link = &mut self.links[at];
        let status = link.end_logon(&self.around, claim, binds, &protection, previous);
        if status == Some(NtStatus::SUCCESS) {
            self.counts.add("halves fit");
        }
        match half.purpose {
            LogonPurpose::Renew(session) => self.record_reauthentication(&session, claim, status),
            LogonPurpose::Bind(session) if status == Some(NtStatus::SUCCESS) => {
                assert_eq!(claim.user, session.user, "another user bound a session");
            }
            LogonPurpose::Bind(_) | LogonPurpose::New => {}
        }
    }

    /// Binds a further channel to a session of the client.
    fn bind(&mut self, rng: &mut Rng) {
        let Some(of) = self.pick_with_session(rng) else { return };
        let Some(session) = self.links[of].session.clone() else { return };
        let (offer, user) = (self.links[of].offer.clone(), self.links[of].user);
        let Some(at) = self.add_link(rng, user, offer) else { return };
        let protection = MessageProtection::Signed(session.session_key.clone());
        let purpose = LogonPurpose::Bind(session.clone());
        let link = &mut self.links[at];
        let begun = link.begin_logon(&self.around, purpose, &protection, SessionId(0));
        if begun != Some(NtStatus::MORE_PROCESSING_REQUIRED) {
            return self.counts.add("binding refused");
        }
        let claim = Self::claim(rng, session.user);
        let status = link.end_logon(&self.around, claim, true, &protection, SessionId(0));
        if status == Some(NtStatus::SUCCESS) {
            assert_eq!(claim.user, session.user, "another user bound a session");
            self.counts.add("bound");
        } else {
            self.counts.add("binding refused");
        }
    }

    /// Tries to bind the victim's session; without its key the client gets no challenge.
    fn bind_victim(&mut self, rng: &mut Rng) {
        let Some(at) = self.pick_link(rng) else { return };
        let protection = match self.links[at].session.as_ref() {
            Some(own) if percent(rng, 70) => MessageProtection::Signed(own.session_key.clone()),
            _ if percent(rng, 50) => MessageProtection::Forged,
            _ => MessageProtection::Plain,
        };
        let mut session = self.victim.session().clone();
        session.seals = None;
        let purpose = LogonPurpose::Bind(session);
        let link = &mut self.links[at];
        let begun = link.begin_logon(&self.around, purpose, &protection, SessionId(0));
        let is_challenged = begun == Some(NtStatus::MORE_PROCESSING_REQUIRED);
        assert!(!is_challenged, "the victim's session is bound without its key");
        self.counts.add("binding to the victim refused");
    }

    fn connect_tree(&mut self, rng: &mut Rng) {
        let Some(at) = self.pick_with_session(rng) else { return };
        let share = pick(rng, &["data", "data", "home", "IPC$", "none"]);
        let status = self.links[at].connect_tree(&self.around, share);
        if status == Some(NtStatus::SUCCESS) {
            assert!(share != "home", "{} connects a share of others", self.links[at].user.name());
            self.counts.add("tree");
        }
    }

    /// The protection of a message, mostly that of an honest client.
    fn protection(&self, rng: &mut Rng, at: usize) -> MessageProtection {
        let other = |rng: &mut Rng| {
            let other = self.pick_with_session(rng)?;
            let session = self.links[other].session.as_ref()?;
            Some(MessageProtection::Signed(session.channel_key.clone()))
        };
        let honest = self.links[at].protection();
        match rng.below(40) {
            0 => MessageProtection::Plain,
            1 => MessageProtection::Forged,
            2 => other(rng).unwrap_or(honest),
            _ => honest,
        }
    }

    /// The header of a hostile request, with some fields of the victim.
    fn header(&mut self, rng: &mut Rng, at: usize, command: Command) -> Header {
        let (victims_tree, victims_session) = (self.victim.link.tree, self.victim.session().id);
        let mut header = self.links[at].header(command);
        match rng.below(30) {
            0 | 1 => header.session_id = victims_session,
            2 => header.tree_id = victims_tree,
            3 => (header.session_id, header.tree_id) = (victims_session, victims_tree),
            4 => header.tree_id = TreeId(rng.below(4) as u32),
            _ => {}
        }
        match rng.below(40) {
            0 | 1 => header.flags = header.flags | Flags::REPLAY,
            2 => header.flags = header.flags | Flags::RELATED,
            3 => header.flags = header.flags | Flags::DFS,
            4 => header.credit_charge = rng.below(4) as u16,
            _ => {}
        }
        header
    }

    fn any_request(&self, rng: &mut Rng, at: usize) -> HostileRequest {
        let victim = self.victims_opens();
        let HostileLink { user, opens, .. } = &self.links[at];
        requests::any(rng, &OpenTargets { user: *user, own: opens, victim: &victim })
    }

    fn request(&mut self, rng: &mut Rng) {
        let Some(at) = self.pick_requester(rng) else { return };
        if self.links[at].session.is_none() && percent(rng, 90) {
            return self.log_on_honestly(at);
        }
        let mut request = self.any_request(rng, at);
        let (header, protection) =
            (self.header(rng, at, request.command), self.protection(rng, at));
        if let Some(open) = request.open.as_mut().filter(|_| header.flags.contains(Flags::DFS)) {
            // The first two components are a server and a share. MS-SMB2 3.3.5.9.
            open.name = "(by DFS)";
        }
        let reply = self.links[at].call(&self.around, header, &protection, |w| (request.body)(w));
        let body = || crate::corpus::line(&encode(header, |w| (request.body)(w))[Header::LENGTH..]);
        self.around.journal.note(|| format!("  {:?} {}", request.open, body()));
        if percent(rng, 5) {
            let frame = self.links[at].last_frame.clone();
            self.capture(frame);
        }
        if let Some(reply) = reply {
            self.look_at_reply(at, request, &reply);
        }
    }

    fn look_at_reply(&mut self, at: usize, request: HostileRequest, reply: &ReplyMessage) {
        let leaks = reply.bytes.windows(SECRET.len()).any(|window| window == SECRET);
        assert!(!leaks, "a client received the victim's secret: {:?}", reply.header);
        if reply.header.status != NtStatus::SUCCESS {
            return self.forget_ended_state(at, &reply.header);
        }
        self.counts.add(match request.command {
            Command::CREATE => "created",
            Command::WRITE => "wrote",
            Command::READ => "read",
            Command::SET_INFO => "set",
            Command::IOCTL => "controlled",
            Command::LOCK => "locked",
            Command::CLOSE => "closed",
            Command::LOGOFF => "logged off",
            _ => "other requests",
        });
        match (request.command, request.open) {
            (Command::CREATE, Some(open)) => self.note_open(at, open, file_id(reply)),
            (Command::LOGOFF, _) => self.links[at].session = None,
            _ => {}
        }
    }

    /// Removes sessions and opens that have ended from the client's knowledge.
    fn forget_ended_state(&mut self, at: usize, header: &Header) {
        self.counts.add("requests refused");
        let link = &mut self.links[at];
        let is_own = link.session.as_ref().is_some_and(|own| own.id == header.session_id);
        if is_own && header.status == NtStatus::USER_SESSION_DELETED {
            link.session = None;
            link.opens.clear();
        }
    }

    fn note_open(&mut self, at: usize, mut open: KnownOpen, file_id: FileId) {
        let is_victims =
            self.victims_opens().iter().any(|victims| victims.persistent == file_id.persistent);
        assert!(!is_victims, "{} was given the victim's open", self.links[at].user.name());
        let is_inside = open.name.to_lowercase().starts_with("v\\");
        assert!(!is_inside, "{} was opened", open.name);
        open.file_id = file_id;
        let opens = &mut self.links[at].opens;
        opens.truncate(OPENS_KNOWN_MAX - 1);
        opens.insert(0, open);
    }

    /// Sends several requests in one frame.
    fn chain(&mut self, rng: &mut Rng) {
        let Some(at) = self.pick_requester(rng) else { return };
        let mut messages = Vec::new();
        for index in 0..2 + rng.below(3) {
            let request = self.any_request(rng, at);
            let mut header = self.header(rng, at, request.command);
            if index > 0 && percent(rng, 70) {
                header.flags = header.flags | Flags::RELATED;
            }
            messages.push(encode(header, |w| (request.body)(w)));
        }
        let protection = self.protection(rng, at);
        let sent = self.links[at].send(&self.around, &messages, &protection);
        self.counts.add(if sent.is_ok() { "chain" } else { "chain refused" });
    }

    fn cancel(&mut self, rng: &mut Rng) {
        let Some(at) = self.pick_requester(rng) else { return };
        let mut header = self.header(rng, at, Command::CANCEL);
        let last = if percent(rng, 50) { self.victim.link.next_id } else { self.links[at].next_id };
        header.message_id = MessageId(last.saturating_sub(1 + rng.below(8) as u64));
        let message = encode(header, |w| EmptyBody.encode(w));
        let protection = self.protection(rng, at);
        if self.links[at].send(&self.around, &[message], &protection).is_ok() {
            self.counts.add("cancel");
        }
    }

    /// Replays a frame of the victim or another client, unchanged or with the next message id.
    fn replay(&mut self, rng: &mut Rng) {
        let Some(at) = self.pick_requester(rng) else { return };
        if self.captured.is_empty() {
            return;
        }
        let mut frame = self.captured[rng.below(self.captured.len())].clone();
        if percent(rng, 80) {
            self.number(at, &mut frame);
        }
        if self.links[at].feed(&self.around, frame).is_ok() {
            self.counts.add("replay");
        }
    }

    /// Gives a message the next id, so that the server accepts it.
    fn number(&mut self, at: usize, frame: &mut [u8]) {
        if frame.len() >= Header::LENGTH && frame.starts_with(b"\xFESMB") {
            let id = self.links[at].next_id;
            self.links[at].next_id += 1;
            frame[4 + 2..4 + 4].copy_from_slice(&1u16.to_le_bytes());
            frame[24..32].copy_from_slice(&id.to_le_bytes());
        }
    }

    /// Sends a mutated frame, with a new signature or not.
    fn mutate(&mut self, rng: &mut Rng) {
        let Some(at) = self.pick_requester(rng) else { return };
        let request = self.any_request(rng, at);
        let header = self.header(rng, at, request.command);
        let mut corpus = vec![encode(header, |w| (request.body)(w))];
        corpus.extend(self.captured.get(rng.below(CAPTURED_MAX)).cloned());
        let mut frame = mutate(rng, &corpus, FRAME_BYTES_MAX);
        if percent(rng, 90) && frame.len() >= Header::LENGTH {
            frame[..6].copy_from_slice(b"\xFESMB\x40\0");
            self.links[at].next_id = header.message_id.0;
            self.number(at, &mut frame);
            if percent(rng, 80) {
                frame[40..48].copy_from_slice(&header.session_id.0.to_le_bytes());
                // Each message of a compound is signed separately.
                frame[20..24].fill(0);
            }
            if let (true, MessageProtection::Signed(key)) =
                (percent(rng, 80), self.links[at].protection())
            {
                frame[16] |= Flags::SIGNED.0 as u8;
                key.sign(&mut frame);
            }
        }
        let sent = self.links[at].feed(&self.around, frame);
        self.counts.add(if sent.is_ok() { "mutated" } else { "mutated and refused" });
    }

    /// Loses a connection, and reconnects its durable opens.
    fn reconnect_own(&mut self, rng: &mut Rng) {
        let user = pick(rng, &[EpisodeUser::Mallory, EpisodeUser::Trudy]);
        let dialect = pick(rng, &[Dialect::Smb210, Dialect::Smb302, Dialect::Smb311]);
        let offer = offer(rng, dialect);
        let has_guid = dialect >= Dialect::Smb300;
        let key = 0x50 + user as u8;
        let open = KnownOpen {
            file_id: FileId::default(),
            name: if user == EpisodeUser::Mallory { "lasting0" } else { "lasting1" },
            create_guid: has_guid.then(|| [rng.number() as u8 | 1; 16]),
            is_durable: true,
            lease_key: percent(rng, 50).then_some([key; 16]),
        };
        let Some(first) = self.open_durable(user, &offer, &open, None) else { return };
        // Another hostile user may try first.
        let mut back = None;
        if percent(rng, 30) {
            let other = if user == EpisodeUser::Mallory {
                EpisodeUser::Trudy
            } else {
                EpisodeUser::Mallory
            };
            let taken = self.open_durable(other, &offer, &open, Some(first));
            assert!(taken.is_none(), "another user came back for a durable open");
        } else {
            back = self.open_durable(user, &offer, &open, Some(first));
        }
        let kind = if has_guid { "reconnected by version 2" } else { "reconnected by version 1" };
        if back.is_some_and(|back| back.persistent == first.persistent) {
            self.counts.add(kind);
        }
    }

    /// Opens or reconnects a file, on a connection that is lost at once.
    fn open_durable(
        &mut self,
        user: EpisodeUser,
        offer: &HostileOffer,
        open: &KnownOpen,
        old: Option<FileId>,
    ) -> Option<FileId> {
        let number = self.next_connection();
        let mut link =
            HostileLink::connect(&self.server, &self.around, user, offer.clone(), number)?;
        link.log_on(&self.around, user, SessionId(0))?;
        link.connect_tree(&self.around, "data")?;
        let request = requests::create_durable(open, old);
        let (header, protection) = (link.header(Command::CREATE), link.protection());
        let reply = link.call(&self.around, header, &protection, |w| (request.body)(w))?;
        (reply.header.status == NtStatus::SUCCESS).then(|| file_id(&reply))
    }

    fn drop_link(&mut self, rng: &mut Rng) {
        if let Some(at) = self.pick_link(rng) {
            self.links.swap_remove(at);
        }
    }

    fn tick(&mut self, _: &mut Rng) {
        self.around.advance(Duration::from_millis(500));
        self.server.handle_tick(smb::SmbHost::now(&*self.around));
        self.nfs.handle_tick(nfs::NfsHost::now(&*self.around));
        self.links.iter_mut().for_each(|link| link.poll(&self.around));
    }

    /// Injects an unsigned or wrongly signed message into the victim's connection.
    fn inject_into_victim(&mut self, rng: &mut Rng) {
        if self.victim.is_away() {
            return;
        }
        let victim = self.victims_opens();
        let request = requests::any(
            rng,
            &OpenTargets { user: EpisodeUser::Alice, own: &[], victim: &victim },
        );
        if request.command == Command::ECHO {
            return;
        }
        let protection = self.foreign_protection(rng);
        let header = self.victim.link.header(request.command);
        let message = encode(header, |w| (request.body)(w));
        self.victim.receive_foreign(&self.around, header, message, &protection);
        self.counts.add("injected into the victim's connection");
    }

    /// The protection of an attacker without the victim's keys: a neighbour's keys, or none.
    fn foreign_protection(&self, rng: &mut Rng) -> MessageProtection {
        let seals = percent(rng, 50);
        let neighbours = self.victim.neighbours_protection(seals).filter(|_| percent(rng, 60));
        neighbours.unwrap_or_else(|| {
            pick(rng, &[&MessageProtection::Plain, &MessageProtection::Forged]).clone()
        })
    }

    /// Injects a re-authentication into the victim's connection, or the second half of the victim's
    /// own.
    fn inject_setup_into_victim(&mut self, rng: &mut Rng) {
        if self.victim.is_away() {
            return;
        }
        let user = pick(rng, &[EpisodeUser::Mallory, EpisodeUser::Trudy]);
        let claim = Self::claim(rng, user);
        let (is_second, binds) = (percent(rng, 60), percent(rng, 20));
        let protection = self.foreign_protection(rng);
        self.victim.receive_foreign_setup(&self.around, claim, is_second, binds, &protection);
        self.counts.add("reauthentication injected into the victim's connection");
    }

    fn victims_neighbour(&mut self, _: &mut Rng) {
        if self.victim.admit_neighbour(&self.around) {
            self.counts.add("the victim got a neighbour");
        }
    }

    fn victim_writes(&mut self, _: &mut Rng) {
        self.victim.write(&self.around);
        let frame = self.victim.link.last_frame.clone();
        self.capture(frame);
    }

    fn victim_renews(&mut self, _: &mut Rng) {
        if self.victim.end_reauthentication(&self.around) {
            self.counts.add("the victim reauthenticated");
        } else {
            self.victim.begin_reauthentication(&self.around);
        }
        let frame = self.victim.link.last_frame.clone();
        self.capture(frame);
    }

    fn victim_acknowledges(&mut self, rng: &mut Rng) {
        if self.victim.acknowledge(&self.around, percent(rng, 40)) {
            self.counts.add("the victim acknowledged");
        }
    }

    fn victim_binds(&mut self, rng: &mut Rng) {
        let number = self.next_connection();
        let foreign = (Self::claim(rng, EpisodeUser::Mallory), percent(rng, 50), percent(rng, 50));
        if self.victim.bind(&self.server, &self.around, number, foreign) {
            self.counts.add("the victim bound");
            let frame = self.victim.second.as_ref().map(|second| second.last_frame.clone());
            self.captured.extend(frame);
        }
    }

    fn victim_moves(&mut self, rng: &mut Rng) {
        if self.victim.is_away() {
            self.victim_returns();
        } else if percent(rng, 50) {
            self.victim.leave(&self.around);
        }
    }

    fn victim_returns(&mut self) {
        let number = self.next_connection();
        self.victim.reconnect(&self.server, &self.around, number);
        self.counts.add("the victim reconnected");
    }
}

/// A possible NEGOTIATE offer of a client of this dialect.
fn offer(rng: &mut Rng, dialect: Dialect) -> HostileOffer {
    const SIGNING: [&[u16]; 6] = [&[2, 1, 0], &[2], &[1], &[0], &[1, 2], &[]];
    const CIPHERS: [&[u16]; 5] = [&[2, 1, 4, 3], &[1], &[4], &[3], &[2]];
    HostileOffer {
        client_guid: [rng.below(4) as u8; 16],
        dialect,
        signing: pick(rng, &SIGNING).to_vec(),
        ciphers: pick(rng, &CIPHERS).to_vec(),
        posix: percent(rng, 50),
    }
}
