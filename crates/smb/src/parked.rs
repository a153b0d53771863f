//! Waiting SESSION_SETUPs: for room in a session, for the verification of a password, or for a
//! preceding SESSION_SETUP of the same session.

use crate::conn::Conn;
use crate::host::Now;
use crate::limits::{
    BIND_LOOKS_EVERY, BIND_WAITS, LOGON_WAITS, WAITING_SETUP_BYTES_MAX,
    WAITING_SETUPS_PER_CONNECTION,
};
use crate::logon_throttle::{LogonAttempt, WaitingLogon};
use bytes::Bytes;
use meter::Arrival;
use std::sync::atomic::Ordering;
use std::time::Instant;
use wire::smb::{Header, SessionId};

/// A SESSION_SETUP whose credits are charged.
#[derive(Debug)]
pub struct ArrivedSetup {
    pub frame: Bytes,
    pub header: Header,
    pub grant: u16,
    /// The session whose keys decrypted it.
    pub sealed_by: Option<SessionId>,
}

/// The reason for which a SESSION_SETUP waits.
#[derive(Debug)]
pub enum SetupWait {
    /// A binding to a session with all its channels. It waits while the server probes whether each
    /// of them still reaches the client. At most one of a connection.
    Room { until: Instant },
    /// A password whose verification is delayed.
    Password { until: Instant, place: WaitingLogon },
    /// A preceding SESSION_SETUP of the same session waits.
    Turn,
}

impl SetupWait {
    /// The queue entry of a delayed password.
    pub(crate) fn place(&self) -> Option<&WaitingLogon> {
        if let Self::Password { place, .. } = self { Some(place) } else { None }
    }
}

/// A password whose verification must be delayed.
#[derive(Debug)]
pub struct EarlyLogon {
    pub attempt: LogonAttempt,
    pub due: Instant,
    /// The user name as the client sent it.
    pub user: String,
}

/// A waiting SESSION_SETUP.
#[derive(Debug)]
pub struct Parked {
    setup: ArrivedSetup,
    arrival: Option<Arrival>,
    wait: SetupWait,
    /// Time of the next try; none until the preceding one is answered.
    look: Option<Instant>,
}

impl Parked {
    /// When [`Conn::handle_parked`] is due.
    pub fn due(&self) -> Option<Instant> {
        self.look
    }

    fn is_of(&self, session: SessionId) -> bool {
        self.setup.header.session_id == session
    }
}

impl Conn {
    /// Retries the waiting requests that are due.
    pub(crate) fn handle_parked(&mut self, now: Now) {
        let is_due = |parked: &mut Parked| parked.look.is_some_and(|look| look <= now.instant);
        let due: Vec<Parked> = self.parked.extract_if(.., is_due).collect();
        for Parked { setup, arrival, wait, .. } in due {
            self.arrival = arrival;
            self.set_up(setup, Some(wait), now);
        }
        self.arrival = None;
    }

    fn park(&mut self, setup: ArrivedSetup, wait: SetupWait, look: Option<Instant>) {
        // Copies the bytes, because the frame would retain its whole receive buffer.
        let setup = ArrivedSetup { frame: Bytes::copy_from_slice(&setup.frame), ..setup };
        self.parked.push(Parked { setup, arrival: self.arrival, wait, look });
    }

    /// True if one more request may wait.
    fn has_place_for(&self, setup: &ArrivedSetup) -> bool {
        self.parked.len() < WAITING_SETUPS_PER_CONNECTION
            && setup.frame.len() <= WAITING_SETUP_BYTES_MAX
    }

    /// True if a request of this session must be answered before the next one.
    pub(crate) fn is_setup_waiting(&self, session: SessionId) -> bool {
        let late = |wait: &SetupWait| !matches!(wait, SetupWait::Room { .. });
        self.judged.contains(&session)
            || self.parked.iter().any(|parked| parked.is_of(session) && late(&parked.wait))
    }

    /// Queues a request behind its predecessor; returns it if the queue is full.
    pub(crate) fn wait_for_turn(&mut self, setup: ArrivedSetup) -> Option<ArrivedSetup> {
        if !self.has_place_for(&setup) {
            return Some(setup);
        }
        self.park(setup, SetupWait::Turn, None);
        None
    }

    /// Makes the next request of the session due, after one was answered.
    pub(crate) fn end_turn(&mut self, session: SessionId, now: Now) {
        let is_next = |parked: &&mut Parked| parked.is_of(session) && parked.look.is_none();
        if let Some(next) = self.parked.iter_mut().find(is_next) {
            next.look = Some(now.instant);
        }
    }

    /// Delays a password until its verification is allowed. Returns the request if it has waited
    /// long enough, or the queue is full.
    pub(crate) fn wait_for_judgement(
        &mut self,
        setup: ArrivedSetup,
        early: &EarlyLogon,
        waited: Option<SetupWait>,
        now: Now,
    ) -> Option<ArrivedSetup> {
        let wait = match waited {
            Some(SetupWait::Password { until, place }) => {
                (early.due <= until).then_some(SetupWait::Password { until, place })
            }
            _ if self.has_place_for(&setup) => {
                let connection = (self.shared.facts.id, &self.failures);
                let throttle = &self.server.logon_throttle;
                let place = throttle.wait(early.attempt, connection, now.instant);
                let until = now.instant + LOGON_WAITS;
                place.map(|place| {
                    self.server.stats.logons_delayed.fetch_add(1, Ordering::Relaxed);
                    SetupWait::Password { until, place }
                })
            }
            _ => None,
        };
        let Some(wait) = wait else { return Some(setup) };
        self.park(setup, wait, Some(early.due));
        None
    }

    /// Delays a binding until its session loses a dead channel. A client notices the dead channel
    /// first, and binds a replacement. Returns the request if waiting cannot help.
    pub(crate) fn wait_for_room(
        &mut self,
        setup: ArrivedSetup,
        waited: Option<&SetupWait>,
        now: Now,
    ) -> Option<ArrivedSetup> {
        let Some(until) = self.room_until(&setup, waited, now) else { return Some(setup) };
        let look = now.instant + BIND_LOOKS_EVERY;
        self.park(setup, SetupWait::Room { until }, Some(look));
        None
    }

    fn room_until(
        &self,
        setup: &ArrivedSetup,
        waited: Option<&SetupWait>,
        now: Now,
    ) -> Option<Instant> {
        let session = self.bindable(&setup.frame, &setup.header)?;
        let channels = session.channels();
        if channels.len() < self.server.config().multichannel.channels_max() {
            return None;
        }
        if let Some(SetupWait::Room { until }) = waited {
            return Some(*until).filter(|until| now.instant < *until);
        }
        let is_room = |parked: &Parked| matches!(parked.wait, SetupWait::Room { .. });
        let connections: Vec<u64> = channels.iter().map(|channel| channel.connection).collect();
        let is_asked = !self.parked.iter().any(is_room) && self.server.host.doubt(&connections);
        is_asked.then(|| now.instant + BIND_WAITS)
    }
}
