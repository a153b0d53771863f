//! Request metering: result classes shared by all protocols, and the attribution of a frame's bytes
//! to its requests.
//!
//! Every byte of a frame is counted once: a message's bytes with its request, the rest (prefix,
//! transform header, padding) with the first request.

use crate::host::SmbHost;
use crate::opens::open::Open;
use crate::outgoing::conn_handle::SmbConnFacts;
use crate::outgoing::transmit::FrameTransmit;
use crate::request::element::Element;
use crate::session::channel::SessionChannel;
use meter::{
    Api, Arrival, Authentication, CompletedRequest, Meter, ResponseType, ShareId, SlowRequest,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::ntstatus::NtStatus;
use wire::smb::{Command, MessageId};

/// The result class of a request with this status.
#[must_use]
pub fn response_type(status: NtStatus) -> ResponseType {
    if !status.is_error() {
        return ResponseType::Success;
    }
    match status {
        // An intermediate step of a successful logon.
        NtStatus::MORE_PROCESSING_REQUIRED => ResponseType::Success,
        NtStatus::LOGON_FAILURE
        | NtStatus::ACCOUNT_RESTRICTION
        | NtStatus::ACCOUNT_DISABLED
        | NtStatus::PASSWORD_EXPIRED
        | NtStatus::USER_SESSION_DELETED
        | NtStatus::NETWORK_SESSION_EXPIRED => ResponseType::AuthenticationError,
        NtStatus::ACCESS_DENIED
        | NtStatus::NETWORK_ACCESS_DENIED
        | NtStatus::PRIVILEGE_NOT_HELD
        | NtStatus::INVALID_OWNER => ResponseType::AuthorizationError,
        NtStatus::INSUFFICIENT_RESOURCES | NtStatus::REQUEST_NOT_ACCEPTED => {
            ResponseType::ServerBusyError
        }
        // The limit of the share's class, not of the server.
        NtStatus::TOO_MANY_OPENED_FILES => ResponseType::ClientThrottlingError,
        NtStatus::IO_TIMEOUT => ResponseType::ServerTimeoutError,
        NtStatus::UNSUCCESSFUL | NtStatus::UNEXPECTED_IO_ERROR | NtStatus::INTERNAL_ERROR => {
            ResponseType::ServerOtherError
        }
        _ => ResponseType::ClientOtherError,
    }
}

/// The authentication kind under which a channel's requests are metered.
pub fn authentication(channel: Option<&Arc<SessionChannel>>) -> Authentication {
    channel.map_or(Authentication::Anonymous, |channel| channel.session.authentication())
}

/// Metering record of a response in the buffer.
#[derive(Clone, Copy, Debug)]
pub struct ResponseRecord {
    done: CompletedRequest,
    /// The final response, not an interim one.
    is_final: bool,
}

/// Metering state of a frame's requests.
#[derive(Clone, Copy, Debug)]
pub struct FrameTally {
    arrival: Arrival,
    /// End of the work for the preceding request of the frame.
    since: Instant,
    /// Requests with sent responses; the others end unanswered with their connection.
    ended: usize,
}

impl FrameTally {
    pub fn new(arrival: Arrival) -> Self {
        Self { arrival, since: arrival.taken, ended: 0 }
    }

    /// Meters the end of request `at` in `share`. Its bytes are those of its message; see
    /// [`FrameTally::settle`].
    pub fn count(
        &mut self,
        elements: &[Element],
        at: usize,
        share: ShareId,
        response: ResponseType,
        now: Instant,
    ) -> CompletedRequest {
        let latency = now.saturating_duration_since(self.since);
        self.since = now;
        CompletedRequest { response, latency, ..self.unfinished(elements, at, share) }
    }

    /// Meters the interim response of request `at`.
    pub fn meter_interim(&self, elements: &[Element], at: usize) -> CompletedRequest {
        self.unfinished(elements, at, ShareId::NONE)
    }

    fn unfinished(&self, elements: &[Element], at: usize, share: ShareId) -> CompletedRequest {
        let element = &elements[at];
        CompletedRequest {
            share,
            api: Api::smb(element.header.command.0),
            authentication: authentication(element.channel.as_ref()),
            response: ResponseType::NetworkError,
            ingress_bytes: self.ingress_bytes(elements, at),
            egress_bytes: 0,
            latency: Duration::ZERO,
        }
    }

    fn ingress_bytes(&self, elements: &[Element], at: usize) -> u64 {
        let bytes = |element: &Element| element.range.len() as u64;
        let own = bytes(&elements[at]);
        let all: u64 = elements.iter().map(bytes).sum();
        own + if at == 0 { self.arrival.wire_bytes.saturating_sub(all) } else { 0 }
    }

    /// Completes the records of a frame's responses, once its size is known.
    pub fn settle(
        &mut self,
        meter: &Meter,
        counted: &[ResponseRecord],
        transmit: &mut FrameTransmit,
    ) {
        let own: u64 = counted.iter().map(|counted| counted.done.egress_bytes).sum();
        let mut around = (transmit.length_bytes() as u64).saturating_sub(own);
        for ResponseRecord { done, is_final } in counted {
            let egress_bytes = done.egress_bytes + std::mem::take(&mut around);
            let done = CompletedRequest { egress_bytes, ..*done };
            if *is_final {
                self.ended += 1;
                meter.record(&done);
                transmit.sent.extend(done.sent(self.arrival.first_byte));
            } else {
                let what = (done.share, done.api, done.authentication);
                meter.add_bytes(what, 0, egress_bytes);
            }
        }
    }

    /// Meters the requests that the end of the connection leaves unanswered.
    pub fn meter_unanswered(&self, meter: &Meter, elements: &[Element]) {
        for (at, element) in elements.iter().enumerate().skip(self.ended) {
            let tree = element.channel.as_ref().map(|c| c.session.tree(element.header.tree_id));
            let share = tree.and_then(Result::ok).map_or(ShareId::NONE, |tree| tree.counted);
            meter.record(&self.unfinished(elements, at, share));
        }
    }
}

impl ResponseRecord {
    pub fn new(done: CompletedRequest, own_bytes: u64, is_final: bool) -> Self {
        Self { done: CompletedRequest { egress_bytes: own_bytes, ..done }, is_final }
    }
}

/// Samples a request for the top lists with its open, and records it if it was slow.
pub fn sample_request(
    meter: &Meter,
    host: &dyn SmbHost,
    (facts, message): (SmbConnFacts, MessageId),
    open: Option<&Open>,
    done: &CompletedRequest,
) {
    if meter.is_sampled() {
        let path = open.and_then(|open| open.file().ok()).map(|f| f.path());
        let path = path.map(|path| String::from_utf8_lossy(path.as_bytes()).into_owned());
        let bytes = done.ingress_bytes + done.egress_bytes;
        let client = facts.peer.ip();
        meter.add_top(done.share, path.as_deref().filter(|p| !p.is_empty()), client, bytes);
    }
    if meter.is_slow(done.latency) {
        record_slow_request(meter, host, (facts.id, message.0, facts.peer), done);
    }
}

/// Meters a request that is not a job, with its response if it has one.
pub fn meter_direct_response(
    meter: &Meter,
    (arrival, now): (Arrival, Instant),
    (command, status, authentication): (Command, NtStatus, Authentication),
    transmit: Option<&mut FrameTransmit>,
) {
    let done = CompletedRequest {
        share: ShareId::NONE,
        api: Api::smb(command.0),
        authentication,
        response: response_type(status),
        ingress_bytes: arrival.wire_bytes,
        egress_bytes: transmit.as_ref().map_or(0, |transmit| transmit.length_bytes() as u64),
        latency: now.saturating_duration_since(arrival.taken),
    };
    meter.record(&done);
    if let Some(transmit) = transmit {
        transmit.sent.extend(done.sent(arrival.first_byte));
    }
}

/// Meters a notification.
pub fn meter_notice(meter: &Meter, transmit: &FrameTransmit) {
    meter.record(&CompletedRequest {
        share: ShareId::NONE,
        api: Api::OPLOCK_BREAK_NOTIFICATION,
        authentication: Authentication::Anonymous,
        response: ResponseType::Success,
        ingress_bytes: 0,
        egress_bytes: transmit.length_bytes() as u64,
        latency: Duration::ZERO,
    });
}

fn record_slow_request(
    meter: &Meter,
    host: &dyn SmbHost,
    (connection, message, peer): (u64, u64, SocketAddr),
    done: &CompletedRequest,
) {
    let ended_unix_nanoseconds = u64::try_from(host.now().wall.0).unwrap_or_default();
    meter.keep_slow(SlowRequest {
        connection,
        message,
        peer,
        share: done.share,
        api: done.api,
        response: done.response,
        ended_unix_nanoseconds,
        latency: done.latency,
        ingress_bytes: done.ingress_bytes,
        egress_bytes: done.egress_bytes,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_maps_to_a_response_type() {
        for (status, response) in [
            (NtStatus::SUCCESS, ResponseType::Success),
            (NtStatus::MORE_PROCESSING_REQUIRED, ResponseType::Success),
            (NtStatus::NO_MORE_FILES, ResponseType::Success),
            (NtStatus::BUFFER_OVERFLOW, ResponseType::Success),
            (NtStatus::END_OF_FILE, ResponseType::ClientOtherError),
            (NtStatus::OBJECT_NAME_NOT_FOUND, ResponseType::ClientOtherError),
            (NtStatus::DISK_FULL, ResponseType::ClientOtherError),
            (NtStatus::CANCELLED, ResponseType::ClientOtherError),
            (NtStatus::LOGON_FAILURE, ResponseType::AuthenticationError),
            (NtStatus::ACCESS_DENIED, ResponseType::AuthorizationError),
            (NtStatus::INSUFFICIENT_RESOURCES, ResponseType::ServerBusyError),
            (NtStatus::TOO_MANY_OPENED_FILES, ResponseType::ClientThrottlingError),
            (NtStatus::UNEXPECTED_IO_ERROR, ResponseType::ServerOtherError),
            (NtStatus::IO_TIMEOUT, ResponseType::ServerTimeoutError),
        ] {
            assert_eq!(response_type(status), response, "{status:?}");
        }
    }
}
