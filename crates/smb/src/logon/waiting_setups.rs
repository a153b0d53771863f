//! Waiting SESSION_SETUPs: for room in a session, for the verification of a password, or for a
//! preceding SESSION_SETUP of the same session.

use crate::conn::connection::SmbConn;
use crate::host::HostTime;
use crate::limits::{
    BIND_POLL_INTERVAL, BIND_WAIT_MAX, LOGON_WAIT_MAX, WAITING_SETUP_BYTES_MAX,
    WAITING_SETUPS_PER_CONNECTION,
};
use crate::logon::setup_state::{DelayedLogon, SetupRequest, SetupWaitReason, WaitingSetup};
use bytes::Bytes;
use std::sync::atomic::Ordering;
use std::time::Instant;
use wire::smb::SessionId;

impl SmbConn {
    /// Retries the waiting requests that are due.
    pub(crate) fn retry_waiting_setups(&mut self, now: HostTime) {
        let is_due = |parked: &mut WaitingSetup| {
            parked.next_try.is_some_and(|next_try| next_try <= now.instant)
        };
        let due: Vec<WaitingSetup> = self.waiting_setups.extract_if(.., is_due).collect();
        for WaitingSetup { setup, arrival, wait, .. } in due {
            self.arrival = arrival;
            self.set_up(setup, Some(wait), now);
        }
        self.arrival = None;
    }

    fn park(&mut self, setup: SetupRequest, wait: SetupWaitReason, next_try: Option<Instant>) {
        // Copies the bytes, because the frame would retain its whole receive buffer.
        let setup = SetupRequest { frame: Bytes::copy_from_slice(&setup.frame), ..setup };
        self.waiting_setups.push(WaitingSetup { setup, arrival: self.arrival, wait, next_try });
    }

    /// True if one more request may wait.
    fn has_room_for_setup(&self, setup: &SetupRequest) -> bool {
        self.waiting_setups.len() < WAITING_SETUPS_PER_CONNECTION
            && setup.frame.len() <= WAITING_SETUP_BYTES_MAX
    }

    /// True if a request of this session must be answered before the next one.
    pub(crate) fn is_setup_waiting(&self, session: SessionId) -> bool {
        let late = |wait: &SetupWaitReason| !matches!(wait, SetupWaitReason::Room { .. });
        self.verifying.contains(&session)
            || self.waiting_setups.iter().any(|parked| parked.is_of(session) && late(&parked.wait))
    }

    /// Queues a request behind its predecessor; returns it if the queue is full.
    pub(crate) fn wait_for_turn(&mut self, setup: SetupRequest) -> Option<SetupRequest> {
        if !self.has_room_for_setup(&setup) {
            return Some(setup);
        }
        self.park(setup, SetupWaitReason::Turn, None);
        None
    }

    /// Makes the next request of the session due, after one was answered.
    pub(crate) fn end_turn(&mut self, session: SessionId, now: HostTime) {
        let is_next =
            |parked: &&mut WaitingSetup| parked.is_of(session) && parked.next_try.is_none();
        if let Some(next) = self.waiting_setups.iter_mut().find(is_next) {
            next.next_try = Some(now.instant);
        }
    }

    /// Delays a password until its verification is allowed. Returns the request if it has waited
    /// long enough, or the queue is full.
    pub(crate) fn wait_for_verification(
        &mut self,
        setup: SetupRequest,
        early: &DelayedLogon,
        reason: Option<SetupWaitReason>,
        now: HostTime,
    ) -> Option<SetupRequest> {
        let wait = match reason {
            Some(SetupWaitReason::Password { until, place }) => {
                (early.due <= until).then_some(SetupWaitReason::Password { until, place })
            }
            _ if self.has_room_for_setup(&setup) => {
                let connection = (self.shared.facts.id, &self.failures);
                let throttle = &self.server.logon_throttle;
                let place = throttle.wait(early.attempt, connection, now.instant);
                let until = now.instant + LOGON_WAIT_MAX;
                place.map(|place| {
                    self.server.stats.logons_delayed.fetch_add(1, Ordering::Relaxed);
                    SetupWaitReason::Password { until, place }
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
        setup: SetupRequest,
        reason: Option<&SetupWaitReason>,
        now: HostTime,
    ) -> Option<SetupRequest> {
        let Some(until) = self.room_until(&setup, reason, now) else { return Some(setup) };
        let next_try = now.instant + BIND_POLL_INTERVAL;
        self.park(setup, SetupWaitReason::Room { until }, Some(next_try));
        None
    }

    fn room_until(
        &self,
        setup: &SetupRequest,
        reason: Option<&SetupWaitReason>,
        now: HostTime,
    ) -> Option<Instant> {
        let session = self.bindable(&setup.frame, &setup.header)?;
        let channels = session.channels();
        if channels.len() < self.server.config().multichannel.channels_max() {
            return None;
        }
        if let Some(SetupWaitReason::Room { until }) = reason {
            return Some(*until).filter(|until| now.instant < *until);
        }
        let is_room = |parked: &WaitingSetup| matches!(parked.wait, SetupWaitReason::Room { .. });
        let connections: Vec<u64> = channels.iter().map(|channel| channel.connection).collect();
        let is_asked = !self.waiting_setups.iter().any(is_room)
            && self.server.host.probe_connections(&connections);
        is_asked.then(|| now.instant + BIND_WAIT_MAX)
    }
}
