//! Slot of a client's CREATE_SESSION requests, and negotiation of channel attributes.
//! RFC 8881 18.36.

use crate::limits::{
    CACHED_REPLY_BYTES_MAX, MESSAGE_BYTES_MAX, OPERATIONS_MAX, REQUEST_BYTES_MIN,
    RESPONSE_BYTES_MIN, SLOTS_MAX,
};
use wire::nfs::NfsStatus;
use wire::nfs::ops::{ChannelAttributes, CreateSessionResult};
use wire::nfs::xdr::List;

/// Decision of the slot on a CREATE_SESSION.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateSessionStart {
    /// A new request to execute.
    Execute,
    /// A retransmission, with the cached result.
    Replay(Box<CreateSessionResult>),
}

/// Slot of CREATE_SESSION: in order, each executed once. Before the first request a retransmission
/// is misordered.
#[derive(Debug, Default)]
pub struct CreateSessionSlot {
    /// Sequence id of the latest executed request.
    sequence: u32,
    result: Option<Box<CreateSessionResult>>,
    /// The next request was refused; its client may or may not count it.
    has_refused: bool,
}

impl CreateSessionSlot {
    /// The sequence id of the next request, as EXCHANGE_ID reports it.
    #[must_use]
    pub fn next(&self) -> u32 {
        self.sequence.wrapping_add(1)
    }

    /// Decides on a request.
    ///
    /// # Errors
    /// SEQ_MISORDERED if it is neither the next nor the latest. By RFC 8881 18.36.4 a refused
    /// request uses up its sequence id, and Linux goes on with the next. Other clients retry with
    /// the same one.
    pub fn begin(&self, sequence: u32) -> Result<CreateSessionStart, NfsStatus> {
        let next = self.next();
        if sequence == next || (self.has_refused && sequence == next.wrapping_add(1)) {
            return Ok(CreateSessionStart::Execute);
        }
        let latest = self.result.clone().filter(|_| sequence == self.sequence);
        latest.map(CreateSessionStart::Replay).ok_or(NfsStatus::SEQ_MISORDERED)
    }

    /// Records that the request has created a session.
    pub fn finish(&mut self, sequence: u32, result: CreateSessionResult) {
        (self.sequence, self.has_refused) = (sequence, false);
        self.result = Some(Box::new(result));
    }

    /// Records that the request is refused for good.
    pub fn refuse(&mut self, sequence: u32) {
        if sequence != self.next() {
            // The client has counted the earlier refusal.
            (self.sequence, self.result) = (self.next(), None);
        }
        self.has_refused = true;
    }
}

/// Negotiates the fore channel. RFC 8881 18.36.3.
///
/// # Errors
/// TOOSMALL if no request or no reply would fit.
pub fn agree_fore(wish: &ChannelAttributes) -> Result<ChannelAttributes, NfsStatus> {
    if wish.request_bytes_max < REQUEST_BYTES_MIN
        || wish.response_bytes_max < RESPONSE_BYTES_MIN
        || wish.operations_max == 0
        || wish.requests_max == 0
    {
        return Err(NfsStatus::TOOSMALL);
    }
    let response_bytes_max = wish.response_bytes_max.min(MESSAGE_BYTES_MAX);
    Ok(ChannelAttributes {
        header_pad_bytes: 0,
        request_bytes_max: wish.request_bytes_max.min(MESSAGE_BYTES_MAX),
        response_bytes_max,
        response_cached_bytes_max: wish
            .response_cached_bytes_max
            .min(CACHED_REPLY_BYTES_MAX)
            .min(response_bytes_max),
        operations_max: wish.operations_max.min(OPERATIONS_MAX),
        requests_max: wish.requests_max.min(SLOTS_MAX),
        rdma_ird: List::default(),
    })
}

/// Negotiates the backchannel: the client's wish, if callbacks fit.
///
/// # Errors
/// TOOSMALL if CB_SEQUENCE and one more operation do not fit.
pub fn agree_back(wish: &ChannelAttributes) -> Result<ChannelAttributes, NfsStatus> {
    if wish.request_bytes_max < REQUEST_BYTES_MIN
        || wish.response_bytes_max < RESPONSE_BYTES_MIN
        || wish.operations_max < 2
        || wish.requests_max == 0
    {
        return Err(NfsStatus::TOOSMALL);
    }
    Ok(ChannelAttributes {
        header_pad_bytes: 0,
        response_cached_bytes_max: 0,
        requests_max: wish.requests_max.min(SLOTS_MAX),
        rdma_ird: List::default(),
        ..wish.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::nfs::NfsSessionId;
    use wire::nfs::ops::CreateSessionFlags;

    fn wish() -> ChannelAttributes {
        ChannelAttributes {
            header_pad_bytes: 5,
            request_bytes_max: u32::MAX,
            response_bytes_max: u32::MAX,
            response_cached_bytes_max: u32::MAX,
            operations_max: u32::MAX,
            requests_max: u32::MAX,
            rdma_ird: List(vec![1]),
        }
    }

    #[test]
    fn channel_is_negotiated_down_to_server_limits() {
        let agreed = agree_fore(&wish()).unwrap();
        assert_eq!(agreed.request_bytes_max, MESSAGE_BYTES_MAX);
        assert_eq!(agreed.response_bytes_max, MESSAGE_BYTES_MAX);
        assert_eq!(agreed.response_cached_bytes_max, CACHED_REPLY_BYTES_MAX);
        assert_eq!(agreed.operations_max, OPERATIONS_MAX);
        assert_eq!(agreed.requests_max, SLOTS_MAX);
        assert_eq!((agreed.header_pad_bytes, agreed.rdma_ird.len()), (0, 0));
        assert_eq!(agree_back(&wish()).unwrap().requests_max, SLOTS_MAX);
    }

    #[test]
    fn channel_is_negotiated_down_to_client_wishes() {
        let small = ChannelAttributes {
            request_bytes_max: 400,
            response_bytes_max: 300,
            response_cached_bytes_max: 10,
            operations_max: 3,
            requests_max: 2,
            ..wish()
        };
        let agreed = agree_fore(&small).unwrap();
        assert_eq!(agreed.request_bytes_max, 400);
        assert_eq!(agreed.response_bytes_max, 300);
        assert_eq!(agreed.response_cached_bytes_max, 10);
        assert_eq!((agreed.operations_max, agreed.requests_max), (3, 2));
    }

    #[test]
    fn channel_too_small_for_any_message_is_refused() {
        let short = ChannelAttributes { request_bytes_max: 20, ..wish() };
        assert_eq!(agree_fore(&short), Err(NfsStatus::TOOSMALL));
        assert_eq!(agree_back(&short), Err(NfsStatus::TOOSMALL));
        let short = ChannelAttributes { response_bytes_max: 0, ..wish() };
        assert_eq!(agree_fore(&short), Err(NfsStatus::TOOSMALL));
        let short = ChannelAttributes { operations_max: 1, ..wish() };
        assert!(agree_fore(&short).is_ok());
        assert_eq!(agree_back(&short), Err(NfsStatus::TOOSMALL), "CB_SEQUENCE alone");
        let none = ChannelAttributes { requests_max: 0, ..wish() };
        assert_eq!(agree_fore(&none), Err(NfsStatus::TOOSMALL));
    }

    #[test]
    fn create_session_slot_replays_latest_and_orders_others() {
        let mut slot = CreateSessionSlot::default();
        let result = CreateSessionResult {
            session_id: NfsSessionId([7; 16]),
            sequence_id: 1,
            flags: CreateSessionFlags::default(),
            fore_channel: wish(),
            back_channel: wish(),
        };
        assert_eq!(slot.next(), 1);
        assert_eq!(slot.begin(0), Err(NfsStatus::SEQ_MISORDERED), "made up");
        assert_eq!(slot.begin(2), Err(NfsStatus::SEQ_MISORDERED));
        assert_eq!(slot.begin(1), Ok(CreateSessionStart::Execute));
        assert_eq!(slot.begin(1), Ok(CreateSessionStart::Execute), "refused ones may come again");
        slot.finish(1, result.clone());
        assert_eq!(slot.begin(1), Ok(CreateSessionStart::Replay(Box::new(result.clone()))));
        assert_eq!(slot.begin(0), Err(NfsStatus::SEQ_MISORDERED));
        assert_eq!(slot.begin(2), Ok(CreateSessionStart::Execute));
        assert_eq!(slot.begin(3), Err(NfsStatus::SEQ_MISORDERED));
        slot.refuse(2);
        assert_eq!(slot.begin(2), Ok(CreateSessionStart::Execute), "who does not count it");
        assert_eq!(slot.begin(3), Ok(CreateSessionStart::Execute), "who does");
        assert_eq!(slot.begin(4), Err(NfsStatus::SEQ_MISORDERED));
        slot.refuse(3);
        assert_eq!(slot.begin(1), Err(NfsStatus::SEQ_MISORDERED));
        assert_eq!(slot.begin(3), Ok(CreateSessionStart::Execute));
        slot.finish(4, result.clone());
        assert_eq!(slot.begin(4), Ok(CreateSessionStart::Replay(Box::new(result))));
        assert_eq!(slot.begin(6), Err(NfsStatus::SEQ_MISORDERED));
    }
}
