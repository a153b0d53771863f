//! Metering of COMPOUNDs: each operation that is a transaction counts on its share, with its own
//! bytes.
//!
//! Each byte of a record counts once. The bytes around the operations (record mark, RPC header,
//! SEQUENCE, PUTFH and the like) count with the first counted operation. If none counts, the
//! COMPOUND counts as its first operation.

use crate::clients::credentials::CallCredentials;
use crate::clients::link::NfsConnFacts;
use crate::host::NfsHost;
use limits::ThrottleReason;
use meter::{
    Api, Arrival, Authentication, CompletedRequest, Meter, ResponseType, SentReply, ShareId,
    SlowRequest,
};
use smallvec::SmallVec;
use std::time::{Duration, Instant};
use wire::nfs::NfsStatus;

/// Replies in one record, to be counted when it is sent.
pub type RecordReplies = SmallVec<[SentReply; 2]>;

/// Response type of a status.
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

fn authentication(credentials: &CallCredentials) -> Authentication {
    match credentials.identity {
        Some(_) => Authentication::AuthSys,
        None => Authentication::Anonymous,
    }
}

/// End of an operation.
#[derive(Clone, Copy, Debug)]
pub struct OperationEnd {
    pub api: Api,
    pub status: NfsStatus,
    pub throttled: ThrottleReason,
    pub share: ShareId,
    /// Bytes of its arguments and of its results.
    pub bytes: (u64, u64),
}

/// Operations of one COMPOUND, for the meter.
#[derive(Debug)]
pub struct CompoundTally {
    arrival: Arrival,
    by: Authentication,
    /// End of the previous operation.
    since: Instant,
    /// First operation, which counts if no other does.
    first: Option<OperationEnd>,
    done: SmallVec<[CompletedRequest; 2]>,
    /// This COMPOUND is sampled.
    pub is_sampled: bool,
    /// Path of its file, if sampled.
    pub path: Option<String>,
}

impl OperationEnd {
    /// For an operation on no share.
    pub fn of_no_share(api: Api, status: NfsStatus) -> Self {
        let (throttled, share) = (ThrottleReason::None, ShareId::NONE);
        Self { api, status, throttled, share, bytes: (0, 0) }
    }
}

impl CompoundTally {
    pub fn new(arrival: Arrival, credentials: &CallCredentials, is_sampled: bool) -> Self {
        let by = authentication(credentials);
        let (since, done) = (arrival.taken, SmallVec::new());
        Self { arrival, by, since, first: None, done, is_sampled, path: None }
    }

    /// Notes the end of an operation.
    pub fn end(&mut self, host: &dyn NfsHost, end: OperationEnd) {
        self.first.get_or_insert(end);
        let is_counted = !end.api.is_context() || !end.status.is_ok();
        if is_counted {
            self.count(host, &end);
        }
    }

    fn count(&mut self, host: &dyn NfsHost, end: &OperationEnd) {
        let now = host.instant();
        let latency = now.saturating_duration_since(self.since);
        self.since = now;
        self.done.push(CompletedRequest {
            share: end.share,
            api: end.api,
            authentication: self.by,
            response: response_type(end.status).throttled(end.throttled),
            ingress_bytes: end.bytes.0,
            egress_bytes: end.bytes.1,
            latency,
        });
    }

    /// Counts the operations, with the bytes around them, once the reply of `egress_bytes` is ready.
    pub fn settle(
        mut self,
        (meter, host): (&Meter, &dyn NfsHost),
        by: (NfsConnFacts, u32),
        egress_bytes: u64,
        sent: &mut RecordReplies,
    ) {
        if self.done.is_empty() {
            let nothing = OperationEnd::of_no_share(Api::NFS_UNKNOWN, NfsStatus::INVAL);
            let first = self.first.unwrap_or(nothing);
            self.count(host, &first);
        }
        let ingress: u64 = self.done.iter().map(|done| done.ingress_bytes).sum();
        let egress: u64 = self.done.iter().map(|done| done.egress_bytes).sum();
        if let Some(first) = self.done.first_mut() {
            first.ingress_bytes += self.arrival.wire_bytes.saturating_sub(ingress);
            first.egress_bytes += egress_bytes.saturating_sub(egress);
        }
        for done in &self.done {
            meter.record(done);
            sent.extend(done.sent(self.arrival.first_byte));
        }
        self.add_samples((meter, host), by);
    }

    /// Adds sampled and slow operations to the top lists.
    fn add_samples(
        &mut self,
        (meter, host): (&Meter, &dyn NfsHost),
        (facts, xid): (NfsConnFacts, u32),
    ) {
        if let Some(last) = self.done.last().filter(|_| self.is_sampled) {
            let bytes = self.done.iter().map(|done| done.ingress_bytes + done.egress_bytes).sum();
            let path = self.path.as_deref().filter(|path| !path.is_empty());
            meter.add_top(last.share, path, facts.peer.ip(), bytes);
        }
        for done in self.done.iter().filter(|done| meter.is_slow(done.latency)) {
            let wall = host.now().wall;
            meter.keep_slow(SlowRequest {
                connection: facts.id,
                message: u64::from(xid),
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

/// Counts a call that got an RPC header alone as reply, of `egress_bytes`.
pub fn count_header_reply(
    (meter, host): (&Meter, &dyn NfsHost),
    (api, response): (Api, ResponseType),
    arrival: &Arrival,
    egress_bytes: u64,
    sent: &mut RecordReplies,
) {
    let done = CompletedRequest {
        share: ShareId::NONE,
        api,
        authentication: Authentication::Anonymous,
        response,
        ingress_bytes: arrival.wire_bytes,
        egress_bytes,
        latency: host.instant().saturating_duration_since(arrival.taken),
    };
    meter.record(&done);
    sent.extend(done.sent(arrival.first_byte));
}

/// Counts a callback, or its reply.
pub fn count_callback(meter: &Meter, ingress_bytes: u64, egress_bytes: u64) {
    let (share, api, authentication) = (ShareId::NONE, Api::CALLBACK, Authentication::Anonymous);
    if egress_bytes == 0 {
        return meter.add_bytes((share, api, authentication), ingress_bytes, 0);
    }
    let (response, latency) = (ResponseType::Success, Duration::ZERO);
    meter.record(&CompletedRequest {
        share,
        api,
        authentication,
        response,
        ingress_bytes,
        egress_bytes,
        latency,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_response_type() {
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
