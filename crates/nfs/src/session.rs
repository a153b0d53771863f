//! A session: its slots, its channels, the connections that it has. RFC 8881 2.10.
//!
//! A slot's lock is held for looking only; whoever executes a request holds a
//! [`Permit`], which frees the slot however that ends.

use crate::backchannel::Backchannel;
use crate::client::{Client, lock};
use crate::conn::Shared;
use crate::limits::{CONNECTIONS_PER_SESSION_MAX, SLOTS_WHILE_THROTTLED};
use crate::slot::{Begun, Fingerprint, Kept, Slots};
use crate::snapshot::ConnectionFact;
use bytes::Bytes;
use files::ShareQueue;
use limits::{Share, ShareLimits};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use wire::nfs::ops::ChannelAttributes;
use wire::nfs::{NfsStatus, SessionId};

/// A session.
#[derive(Debug)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// Whose it is.
    pub client: Arc<Client>,
    /// What was agreed for requests.
    pub fore: ChannelAttributes,
    /// Where callbacks go.
    pub back: Backchannel,
    slots: Mutex<Slots>,
    has_ended: AtomicBool,
    calls: AtomicU64,
    /// What its client's address is charged for it; nothing once it has ended.
    shares: Mutex<Option<SessionShares>>,
    /// Connections that it is bound to, as far as they are open.
    connections: Mutex<Vec<Weak<Shared>>>,
    /// Where its requests wait, for each share with limits that it has used.
    queues: Mutex<Vec<Arc<ShareQueue>>>,
    /// Requests that wait for limits.
    pub(crate) throttled: AtomicUsize,
    /// It was told to use fewer slots for that.
    is_held_back: AtomicBool,
}

/// What a client's address is charged for a session.
#[derive(Debug)]
pub struct SessionShares {
    /// The session.
    pub _session: Share,
    /// Its slots beyond the first.
    pub slots: Share,
}

/// What SEQUENCE asks of a slot. RFC 8881 18.46.1.
#[derive(Clone, Copy, Debug)]
pub struct SlotWish {
    /// Which slot.
    pub slot: u32,
    /// The request's number.
    pub sequence: u32,
    /// The highest slot that the client uses.
    pub highest: u32,
    /// What tells the request from others.
    pub fingerprint: Fingerprint,
    /// It came under TLS.
    pub is_sealed: bool,
}

/// How a request of a session begins.
#[derive(Debug)]
pub enum Start {
    /// It is to be executed.
    Execute(Permit),
    /// It was; this was the answer, from the COMPOUND's status on.
    Replay(Bytes),
    /// It was, and the answer was not kept, or not for who asks by a connection without TLS.
    Uncached,
}

impl Session {
    /// A session that was not used yet.
    #[must_use]
    pub fn new(
        id: SessionId,
        client: Arc<Client>,
        fore: ChannelAttributes,
        back: Backchannel,
        shares: SessionShares,
    ) -> Self {
        Self {
            id,
            client,
            slots: Mutex::new(Slots::new(fore.requests_max)),
            fore,
            back,
            has_ended: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            shares: Mutex::new(Some(shares)),
            connections: Mutex::default(),
            queues: Mutex::default(),
            throttled: AtomicUsize::new(0),
            is_held_back: AtomicBool::new(false),
        }
    }

    /// A request has come.
    ///
    /// # Errors
    /// BADSESSION, BADSLOT, BAD_HIGH_SLOT, SEQ_MISORDERED, SEQ_FALSE_RETRY; DELAY while it
    /// is at work already.
    pub fn begin(self: &Arc<Self>, wish: SlotWish) -> Result<Start, NfsStatus> {
        if self.has_ended() {
            return Err(NfsStatus::BADSESSION);
        }
        let mut slots = lock(&self.slots);
        let begun = slots.begin(wish.slot, wish.sequence, wish.fingerprint);
        if begun == Begun::Execute {
            slots.settle(wish.slot, wish.highest);
        }
        match begun {
            // Held against what was agreed, not against what it may use by now: the request may
            // be older than those by which it gave slots up.
            Begun::Execute if wish.highest >= self.fore.requests_max => {
                slots.give_up(wish.slot);
                Err(NfsStatus::BAD_HIGH_SLOT)
            }
            Begun::Execute => {
                self.calls.fetch_add(1, Ordering::Relaxed);
                let SlotWish { slot, is_sealed, .. } = wish;
                Ok(Start::Execute(Permit { session: self.clone(), slot, is_sealed, done: false }))
            }
            Begun::Replay(kept) if kept.is_sealed && !wish.is_sealed => Ok(Start::Uncached),
            Begun::Replay(kept) => Ok(Start::Replay(kept.bytes)),
            Begun::Uncached => Ok(Start::Uncached),
            Begun::Busy => Err(NfsStatus::DELAY),
            Begun::Misordered => Err(NfsStatus::SEQ_MISORDERED),
            Begun::FalseRetry => Err(NfsStatus::SEQ_FALSE_RETRY),
            Begun::BadSlot => Err(NfsStatus::BADSLOT),
        }
    }

    /// The highest slot that the client may use, and the highest that it is to use.
    #[must_use]
    pub fn highest_slots(&self) -> (u32, u32) {
        let slots = lock(&self.slots);
        (slots.highest(), slots.target_highest())
    }

    /// As [`Session::highest_slots`], told by the answer in a slot.
    pub(crate) fn tell_slots(&self, slot: u32) -> (u32, u32) {
        lock(&self.slots).tell(slot)
    }

    /// Would have the client use no more slots than these.
    pub fn aim(&self, slots: u32) {
        if self.highest_slots().1 >= slots {
            lock(&self.slots).aim(slots);
        }
    }

    /// Where its requests wait for these limits.
    pub(crate) fn queue(&self, limits: &Arc<ShareLimits>) -> Arc<ShareQueue> {
        let mut queues = lock(&self.queues);
        if let Some(queue) = queues.iter().find(|queue| Arc::ptr_eq(queue.limits(), limits)) {
            return queue.clone();
        }
        // Those of shares that are gone.
        queues.retain(|queue| Arc::strong_count(queue.limits()) > 1);
        let queue = Arc::new(ShareQueue::new(limits.clone()));
        queues.push(queue.clone());
        queue
    }

    /// Has the client use few slots while its requests wait for limits, and as many as were
    /// agreed afterwards. To be called about once a second.
    pub(crate) fn hold_back(&self) {
        let waits = self.throttled.load(Ordering::Relaxed) > 0;
        if self.is_held_back.swap(waits, Ordering::Relaxed) == waits {
            return;
        }
        let count = if waits { SLOTS_WHILE_THROTTLED } else { self.fore.requests_max };
        lock(&self.slots).aim(count.min(self.fore.requests_max));
    }

    /// Charges for the slots that the client may use by now. To be called about once a second.
    pub(crate) fn settle_slots(&self) {
        let highest = self.highest_slots().0;
        if let Some(shares) = &mut *lock(&self.shares) {
            shares.slots.resize(u64::from(highest));
        }
    }

    /// It has ended, and is charged for nothing any more.
    pub(crate) fn release(&self) {
        *lock(&self.shares) = None;
    }

    /// A connection was bound to it. Those that are gone are forgotten.
    pub(crate) fn add_connection(&self, connection: &Arc<Shared>) {
        let mut connections = lock(&self.connections);
        connections.retain(|known| {
            known
                .upgrade()
                .is_some_and(|known| known.calls.is_open() && !Arc::ptr_eq(&known, connection))
        });
        if connections.len() < CONNECTIONS_PER_SESSION_MAX {
            connections.push(Arc::downgrade(connection));
        }
    }

    /// Connections that it is bound to.
    #[must_use]
    pub fn connections(&self) -> Vec<ConnectionFact> {
        let connections = lock(&self.connections);
        let open = connections.iter().filter_map(Weak::upgrade).filter(|c| c.calls.is_open());
        let fact = |connection: Arc<Shared>| ConnectionFact {
            facts: connection.facts,
            is_under_tls: connection.is_under_tls(),
        };
        open.map(fact).collect()
    }

    /// How many requests are at work.
    #[must_use]
    pub fn busy_count(&self) -> usize {
        lock(&self.slots).busy_count()
    }

    /// How many requests were executed.
    #[must_use]
    pub fn call_count(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Whether it was destroyed, or its client is gone.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Ends it: no request begins any more.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.client.remove_session(self);
    }
}

/// The right to execute the request of a slot. Dropped unfinished, the slot is free again,
/// as if the request had not come.
#[derive(Debug)]
pub struct Permit {
    session: Arc<Session>,
    slot: u32,
    is_sealed: bool,
    done: bool,
}

impl Permit {
    /// The session.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Frees the slot; the reply is kept if there is one.
    pub fn finish(mut self, reply: Option<Bytes>) {
        self.done = true;
        let is_sealed = self.is_sealed;
        let kept = reply.map(|bytes| Kept { bytes, is_sealed });
        lock(&self.session.slots).finish(self.slot, kept);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.done {
            lock(&self.session.slots).give_up(self.slot);
        }
    }
}

/// A session of a client, for tests.
#[cfg(test)]
pub(crate) fn session_of(client: &Arc<Client>) -> Session {
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
    let holdings = crate::holdings::Holdings::new(100);
    let shares = SessionShares {
        _session: holdings.sessions.account(&client.holder).force(1),
        slots: holdings.slots.account(&client.holder).force(3),
    };
    Session::new(SessionId([1; 16]), client.clone(), channel, back, shares)
}
