//! SESSION_SETUPs that wait: for room in a session, until a password may be judged, or for the
//! one before them of the same session.

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

/// A SESSION_SETUP whose credits are taken.
#[derive(Debug)]
pub struct ArrivedSetup {
    pub frame: Bytes,
    pub header: Header,
    pub grant: u16,
    /// The session whose keys it was sealed by.
    pub sealed_by: Option<SessionId>,
}

/// What a SESSION_SETUP waits for.
#[derive(Debug)]
pub enum SetupWait {
    /// A binding whose session has all the channels that it may have waits until it is known
    /// whether each of them still leads to the client. At most one of a connection.
    Room { until: Instant },
    /// A password that is judged late.
    Password { until: Instant, place: WaitingLogon },
    /// An earlier message of the same session waits.
    Turn,
}

impl SetupWait {
    /// The place of a password that waits.
    pub(crate) fn place(&self) -> Option<&WaitingLogon> {
        if let Self::Password { place, .. } = self { Some(place) } else { None }
    }
}

/// A password that may not be judged yet.
#[derive(Debug)]
pub struct EarlyLogon {
    pub attempt: LogonAttempt,
    pub due: Instant,
    /// As the client sent it.
    pub user: String,
}

/// A SESSION_SETUP that waits.
#[derive(Debug)]
pub struct Parked {
    setup: ArrivedSetup,
    arrival: Option<Arrival>,
    wait: SetupWait,
    /// When it is tried again; none until the one before it is answered.
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
    /// Tries again what waits and is due.
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
        // The bytes alone: the frame keeps the whole buffer that it was received in.
        let setup = ArrivedSetup { frame: Bytes::copy_from_slice(&setup.frame), ..setup };
        self.parked.push(Parked { setup, arrival: self.arrival, wait, look });
    }

    /// Whether one more may wait for a password.
    fn has_place_for(&self, setup: &ArrivedSetup) -> bool {
        self.parked.len() < WAITING_SETUPS_PER_CONNECTION
            && setup.frame.len() <= WAITING_SETUP_BYTES_MAX
    }

    /// Whether a message of this session has to be answered before the next one.
    pub(crate) fn is_setup_waiting(&self, session: SessionId) -> bool {
        let late = |wait: &SetupWait| !matches!(wait, SetupWait::Room { .. });
        self.judged.contains(&session)
            || self.parked.iter().any(|parked| parked.is_of(session) && late(&parked.wait))
    }

    /// Has a message wait for the one before it; gives it back where there is no place.
    pub(crate) fn wait_for_turn(&mut self, setup: ArrivedSetup) -> Option<ArrivedSetup> {
        if !self.has_place_for(&setup) {
            return Some(setup);
        }
        self.park(setup, SetupWait::Turn, None);
        None
    }

    /// A message of the session is answered: the next one's turn has come.
    pub(crate) fn end_turn(&mut self, session: SessionId, now: Now) {
        let is_next = |parked: &&mut Parked| parked.is_of(session) && parked.look.is_none();
        if let Some(next) = self.parked.iter_mut().find(is_next) {
            next.look = Some(now.instant);
        }
    }

    /// Has a password wait until it may be judged; gives the message back where it has waited for
    /// long enough, or there is no place.
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

    /// Has a binding wait for its session to lose a channel that leads nowhere. A client knows of
    /// that first: it binds another in its place. Gives it back where that is no use.
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
