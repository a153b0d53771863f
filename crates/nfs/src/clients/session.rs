//! A session: slots, channels, connections. RFC 8881 2.10.
//!
//! The slot lock is held for lookups only. An executing request owns a [`Permit`], which frees the
//! slot however the request ends.

use crate::clients::backchannel::Backchannel;
use crate::clients::client::ClientIncarnation;
use crate::clients::link::ConnLink;
use crate::clients::link::ConnectionFact;
use crate::clients::slot::{CachedReply, Fingerprint, ForeSlots, SlotDecision};
use crate::limits::{CONNECTIONS_PER_SESSION_MAX, SLOTS_WHILE_THROTTLED};
use bytes::Bytes;
use files::ShareQueue;
use limits::{ResourceCharge, ShareLimits};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use sync::Mutex;
use wire::nfs::ops::ChannelAttributes;
use wire::nfs::{NfsSessionId, NfsStatus};

/// A session.
#[derive(Debug)]
pub struct NfsSession {
    /// Session id.
    pub id: NfsSessionId,
    /// Client of the session.
    pub client: Arc<ClientIncarnation>,
    /// Attributes of the fore channel.
    pub fore: ChannelAttributes,
    /// Backchannel.
    pub back: Backchannel,
    slots: Mutex<ForeSlots>,
    has_ended: AtomicBool,
    calls: AtomicU64,
    /// Charge to its client's address; None once the session has ended.
    shares: Mutex<Option<SessionShares>>,
    /// Bound connections that are open.
    connections: Mutex<Vec<Weak<ConnLink>>>,
    /// Queues of its requests, one for each limited share that it has used.
    queues: Mutex<Vec<Arc<ShareQueue>>>,
    /// Requests that wait for limits.
    pub(crate) throttled: AtomicUsize,
    /// The slot count is reduced because requests wait for limits.
    is_reduced: AtomicBool,
}

/// Charges of a session to its client's address.
#[derive(Debug)]
pub struct SessionShares {
    /// The session.
    pub _session: ResourceCharge,
    /// Its slots beyond the first.
    pub slots: ResourceCharge,
}

/// Arguments of SEQUENCE for the slot. RFC 8881 18.46.1.
#[derive(Clone, Copy, Debug)]
pub struct SequenceRequest {
    /// Slot id.
    pub slot: u32,
    /// Sequence id.
    pub sequence: u32,
    /// Highest slot that the client uses.
    pub highest: u32,
    /// Fingerprint of the request.
    pub fingerprint: Fingerprint,
    /// The request arrived under TLS.
    pub is_sealed: bool,
}

/// Decision on a request of a session.
#[derive(Debug)]
pub enum RequestStart {
    /// A new request to execute.
    Execute(Permit),
    /// A retransmission, with the cached reply from the COMPOUND status on.
    Replay(Bytes),
    /// A retransmission whose reply was not cached, or was sent under TLS and is now requested
    /// without.
    Uncached,
}

impl NfsSession {
    /// An unused session.
    #[must_use]
    pub fn new(
        id: NfsSessionId,
        client: Arc<ClientIncarnation>,
        fore: ChannelAttributes,
        back: Backchannel,
        shares: SessionShares,
    ) -> Self {
        Self {
            id,
            client,
            slots: Mutex::new(ForeSlots::new(fore.requests_max)),
            fore,
            back,
            has_ended: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            shares: Mutex::new(Some(shares)),
            connections: Mutex::default(),
            queues: Mutex::default(),
            throttled: AtomicUsize::new(0),
            is_reduced: AtomicBool::new(false),
        }
    }

    /// Decides on a request.
    ///
    /// # Errors
    /// BADSESSION, BADSLOT, BAD_HIGH_SLOT, SEQ_MISORDERED, SEQ_FALSE_RETRY; DELAY while the request
    /// is executing.
    pub fn begin(self: &Arc<Self>, wish: SequenceRequest) -> Result<RequestStart, NfsStatus> {
        if self.has_ended() {
            return Err(NfsStatus::BADSESSION);
        }
        let mut slots = self.slots.lock();
        let begun = slots.begin(wish.slot, wish.sequence, wish.fingerprint);
        if begun == SlotDecision::Execute {
            slots.apply_highest(wish.slot, wish.highest);
        }
        match begun {
            // Compared with the negotiated count, not the current one: the request may be older
            // than those that gave slots up.
            SlotDecision::Execute if wish.highest >= self.fore.requests_max => {
                slots.cancel(wish.slot);
                Err(NfsStatus::BAD_HIGH_SLOT)
            }
            SlotDecision::Execute => {
                self.calls.fetch_add(1, Ordering::Relaxed);
                let SequenceRequest { slot, is_sealed, .. } = wish;
                Ok(RequestStart::Execute(Permit {
                    session: self.clone(),
                    slot,
                    is_sealed,
                    done: false,
                }))
            }
            SlotDecision::Replay(kept) if kept.is_sealed && !wish.is_sealed => {
                Ok(RequestStart::Uncached)
            }
            SlotDecision::Replay(kept) => Ok(RequestStart::Replay(kept.bytes)),
            SlotDecision::Uncached => Ok(RequestStart::Uncached),
            SlotDecision::Busy => Err(NfsStatus::DELAY),
            SlotDecision::Misordered => Err(NfsStatus::SEQ_MISORDERED),
            SlotDecision::FalseRetry => Err(NfsStatus::SEQ_FALSE_RETRY),
            SlotDecision::BadSlot => Err(NfsStatus::BADSLOT),
        }
    }

    /// Highest and target highest slot id.
    #[must_use]
    pub fn highest_slots(&self) -> (u32, u32) {
        let slots = self.slots.lock();
        (slots.highest(), slots.target_highest())
    }

    /// As [`NfsSession::highest_slots`], for the reply in a slot.
    pub(crate) fn report_slots(&self, slot: u32) -> (u32, u32) {
        self.slots.lock().report(slot)
    }

    /// Reduces the target slot count.
    pub fn set_slot_target(&self, slots: u32) {
        if self.highest_slots().1 >= slots {
            self.slots.lock().set_target(slots);
        }
    }

    /// The queue of its requests at these limits.
    pub(crate) fn queue(&self, limits: &Arc<ShareLimits>) -> Arc<ShareQueue> {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.iter().find(|queue| Arc::ptr_eq(queue.limits(), limits)) {
            return queue.clone();
        }
        // Drops queues of shares that are gone.
        queues.retain(|queue| Arc::strong_count(queue.limits()) > 1);
        let queue = Arc::new(ShareQueue::new(limits.clone()));
        queues.push(queue.clone());
        queue
    }

    /// Reduces the slot count while requests wait for limits, and restores it afterwards. The
    /// server calls it about once a second.
    pub(crate) fn adjust_slot_target(&self) {
        let waits = self.throttled.load(Ordering::Relaxed) > 0;
        if self.is_reduced.swap(waits, Ordering::Relaxed) == waits {
            return;
        }
        let count = if waits { SLOTS_WHILE_THROTTLED } else { self.fore.requests_max };
        self.slots.lock().set_target(count.min(self.fore.requests_max));
    }

    /// Charges for the slots that the client may use now. The server calls it about once a second.
    pub(crate) fn settle_slots(&self) {
        let highest = self.highest_slots().0;
        if let Some(shares) = &mut *self.shares.lock() {
            shares.slots.resize(u64::from(highest));
        }
    }

    /// Ends all charges of an ended session.
    pub(crate) fn release(&self) {
        *self.shares.lock() = None;
    }

    /// Adds a bound connection, and drops closed ones.
    pub(crate) fn add_connection(&self, connection: &Arc<ConnLink>) {
        let mut connections = self.connections.lock();
        connections.retain(|known| {
            known
                .upgrade()
                .is_some_and(|known| known.calls.is_open() && !Arc::ptr_eq(&known, connection))
        });
        if connections.len() < CONNECTIONS_PER_SESSION_MAX {
            connections.push(Arc::downgrade(connection));
        }
    }

    /// Bound connections.
    #[must_use]
    pub fn connections(&self) -> Vec<ConnectionFact> {
        let connections = self.connections.lock();
        let open = connections.iter().filter_map(Weak::upgrade).filter(|c| c.calls.is_open());
        let fact = |connection: Arc<ConnLink>| ConnectionFact {
            facts: connection.facts,
            is_under_tls: connection.is_under_tls(),
        };
        open.map(fact).collect()
    }

    /// Number of executing requests.
    #[must_use]
    pub fn busy_count(&self) -> usize {
        self.slots.lock().busy_count()
    }

    /// Number of executed requests.
    #[must_use]
    pub fn call_count(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Whether the session was destroyed or its client is gone.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Ends the session: no further request starts.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.client.remove_session(self);
    }
}

/// Right to execute the request of a slot. A drop without [`Permit::finish`] frees the slot as if
/// the request had not arrived.
#[derive(Debug)]
pub struct Permit {
    session: Arc<NfsSession>,
    slot: u32,
    is_sealed: bool,
    done: bool,
}

impl Permit {
    /// The session.
    #[must_use]
    pub fn session(&self) -> &Arc<NfsSession> {
        &self.session
    }

    /// Frees the slot, and caches the reply if there is one.
    pub fn finish(mut self, reply: Option<Bytes>) {
        self.done = true;
        let is_sealed = self.is_sealed;
        let kept = reply.map(|bytes| CachedReply { bytes, is_sealed });
        self.session.slots.lock().finish(self.slot, kept);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.done {
            self.session.slots.lock().cancel(self.slot);
        }
    }
}

/// Session for tests.
#[cfg(test)]
pub(crate) fn session_of(client: &Arc<ClientIncarnation>) -> NfsSession {
    let channel = ChannelAttributes {
        header_pad_bytes: 0,
        request_bytes_max: 4096,
        response_bytes_max: 4096,
        response_cached_bytes_max: 1024,
        operations_max: 8,
        requests_max: 4,
        rdma_ird: wire::nfs::xdr::List::default(),
    };
    let back = Backchannel::new(channel.clone(), 2, None);
    let holdings = crate::state::holdings::NfsHoldings::new(100);
    let shares = SessionShares {
        _session: holdings.sessions.account(&client.holder).force(1),
        slots: holdings.slots.account(&client.holder).force(3),
    };
    NfsSession::new(NfsSessionId([1; 16]), client.clone(), channel, back, shares)
}
