//! What is counted of COMPOUNDs: each operation that is a transaction by itself, on its share,
//! with its own bytes.
//!
//! Every byte of a record is counted once: those of an operation with it, all others (the
//! record's mark, the header of the call, SEQUENCE, PUTFH and their like) with the first that is
//! counted. Where none is, the COMPOUND counts as its first operation.

use crate::compound::Call;
use crate::conn::{Conn, Finished, Transmit};
use crate::credentials::Credentials;
use crate::host::Host;
use limits::ThrottleReason;
use meter::{Api, Arrival, Authentication, Done, ResponseType, Sent, ShareId, SlowRequest};
use smallvec::SmallVec;
use std::time::{Duration, Instant};
use wire::nfs::NfsStatus;

/// Answers that are on their way with one record.
pub type SentList = SmallVec<[Sent; 2]>;

/// How an operation ended that was answered with this status.
#[must_use]
pub fn response_type(status: NfsStatus) -> ResponseType {
    match status {
        NfsStatus::OK => ResponseType::Success,
        NfsStatus::WRONGSEC
        | NfsStatus::WRONG_CRED
        | NfsStatus::BADSESSION
        | NfsStatus::DEADSESSION
        | NfsStatus::STALE_CLIENTID
        | NfsStatus::EXPIRED => ResponseType::AuthenticationError,
        NfsStatus::ACCESS | NfsStatus::PERM => ResponseType::AuthorizationError,
        NfsStatus::DELAY | NfsStatus::GRACE | NfsStatus::RESOURCE => ResponseType::ServerBusyError,
        NfsStatus::IO | NfsStatus::SERVERFAULT => ResponseType::ServerOtherError,
        _ => ResponseType::ClientOtherError,
    }
}

fn authentication(credentials: &Credentials) -> Authentication {
    match credentials.identity {
        Some(_) => Authentication::AuthSys,
        None => Authentication::Anonymous,
    }
}

/// How an operation ended.
#[derive(Clone, Copy, Debug)]
pub struct End {
    pub api: Api,
    pub status: NfsStatus,
    pub throttled: ThrottleReason,
    pub share: ShareId,
    /// Bytes of its arguments, and of its results.
    pub bytes: (u64, u64),
}

/// The operations of a COMPOUND, as they are counted in the end.
#[derive(Debug)]
pub struct Tally {
    arrival: Arrival,
    by: Authentication,
    /// Until when what came before was worked on.
    since: Instant,
    /// Counted for a COMPOUND in which nothing else is.
    first: Option<End>,
    done: SmallVec<[Done; 2]>,
    /// This COMPOUND is one of those that are looked at closer.
    pub is_sampled: bool,
    /// The file that it was about, then.
    pub path: Option<String>,
}

impl End {
    /// Of what is about no share, or about nothing.
    pub fn of_no_share(api: Api, status: NfsStatus) -> Self {
        let (throttled, share) = (ThrottleReason::None, ShareId::NONE);
        Self { api, status, throttled, share, bytes: (0, 0) }
    }
}

impl Tally {
    pub fn new(arrival: Arrival, credentials: &Credentials, is_sampled: bool) -> Self {
        let by = authentication(credentials);
        let (since, done) = (arrival.taken, SmallVec::new());
        Self { arrival, by, since, first: None, done, is_sampled, path: None }
    }

    /// An operation came to its end.
    pub fn end(&mut self, host: &dyn Host, end: End) {
        self.first.get_or_insert(end);
        let is_counted = !end.api.is_context() || !end.status.is_ok();
        if is_counted {
            self.count(host, &end);
        }
    }

    fn count(&mut self, host: &dyn Host, end: &End) {
        let now = host.instant();
        let latency = now.saturating_duration_since(self.since);
        self.since = now;
        self.done.push(Done {
            share: end.share,
            api: end.api,
            authentication: self.by,
            response: response_type(end.status).throttled(end.throttled),
            ingress_bytes: end.bytes.0,
            egress_bytes: end.bytes.1,
            latency,
        });
    }

    /// The answer is ready: now it is known what surrounds the operations.
    pub fn settle(mut self, call: &Call, finished: &mut Finished) {
        let server = &call.server;
        if self.done.is_empty() {
            let nothing = End::of_no_share(Api::NFS_UNKNOWN, NfsStatus::INVAL);
            let first = self.first.unwrap_or(nothing);
            self.count(&*server.host, &first);
        }
        let ingress: u64 = self.done.iter().map(|done| done.ingress_bytes).sum();
        let egress: u64 = self.done.iter().map(|done| done.egress_bytes).sum();
        let all_egress = finished.transmit.length_bytes() as u64;
        if let Some(first) = self.done.first_mut() {
            first.ingress_bytes += self.arrival.wire_bytes.saturating_sub(ingress);
            first.egress_bytes += all_egress.saturating_sub(egress);
        }
        for done in &self.done {
            server.files.meter().record(done);
            finished.transmit.sent.extend(done.sent(self.arrival.first_byte));
        }
        self.look_closer(call);
    }

    /// Looks closer at what was done, in its turn or where it was slow.
    fn look_closer(&mut self, call: &Call) {
        let (meter, facts) = (call.server.files.meter(), call.conn.facts);
        if let Some(last) = self.done.last().filter(|_| self.is_sampled) {
            let bytes = self.done.iter().map(|done| done.ingress_bytes + done.egress_bytes).sum();
            let path = self.path.as_deref().filter(|path| !path.is_empty());
            meter.add_top(last.share, path, facts.peer.ip(), bytes);
        }
        for done in self.done.iter().filter(|done| meter.is_slow(done.latency)) {
            let wall = call.server.host.now().wall;
            meter.keep_slow(SlowRequest {
                connection: facts.id,
                message: u64::from(call.xid),
                peer: facts.peer,
                share: done.share,
                api: done.api,
                response: done.response,
                ended_unix_nanoseconds: u64::try_from(wall.0).unwrap_or_default(),
                latency: done.latency,
                ingress_bytes: done.ingress_bytes,
                egress_bytes: done.egress_bytes,
            });
        }
    }
}

impl Conn {
    /// A call was answered by a header alone.
    pub(crate) fn count_alone(
        &self,
        api: Api,
        response: ResponseType,
        arrival: &Arrival,
        transmit: &mut Transmit,
    ) {
        let now = self.server.host.instant();
        let done = Done {
            share: ShareId::NONE,
            api,
            authentication: Authentication::Anonymous,
            response,
            ingress_bytes: arrival.wire_bytes,
            egress_bytes: transmit.length_bytes() as u64,
            latency: now.saturating_duration_since(arrival.taken),
        };
        self.server.files.meter().record(&done);
        transmit.sent.extend(done.sent(arrival.first_byte));
    }

    /// A client is called, or has answered.
    pub(crate) fn count_callback(&self, ingress_bytes: u64, egress_bytes: u64) {
        let meter = self.server.files.meter();
        let (share, api, authentication) =
            (ShareId::NONE, Api::CALLBACK, Authentication::Anonymous);
        if egress_bytes == 0 {
            return meter.add_bytes((share, api, authentication), ingress_bytes, 0);
        }
        let (response, latency) = (ResponseType::Success, Duration::ZERO);
        meter.record(&Done {
            share,
            api,
            authentication,
            response,
            ingress_bytes,
            egress_bytes,
            latency,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_ends_an_operation_in_one_of_the_services_ways() {
        for (status, response) in [
            (NfsStatus::OK, ResponseType::Success),
            (NfsStatus::NOENT, ResponseType::ClientOtherError),
            (NfsStatus::EXIST, ResponseType::ClientOtherError),
            (NfsStatus::NOSPC, ResponseType::ClientOtherError),
            (NfsStatus::ACCESS, ResponseType::AuthorizationError),
            (NfsStatus::WRONGSEC, ResponseType::AuthenticationError),
            (NfsStatus::DELAY, ResponseType::ServerBusyError),
            (NfsStatus::IO, ResponseType::ServerOtherError),
        ] {
            assert_eq!(response_type(status), response, "{status:?}");
        }
    }
}
