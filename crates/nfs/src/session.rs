//! A session: its slots, its channels, the connections that it has. RFC 8881 2.10.
//!
//! A slot's lock is held for looking only; whoever executes a request holds a
//! [`Permit`], which frees the slot however that ends.

use crate::backchannel::Backchannel;
use crate::client::{Client, lock};
use crate::conn::Shared;
use crate::limits::CONNECTIONS_PER_SESSION_MAX;
use crate::slot::{Begun, Fingerprint, Slots};
use crate::snapshot::ConnectionFact;
use bytes::Bytes;
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
    freed: AtomicUsize,
    /// Connections that it is bound to, as far as they are open.
    connections: Mutex<Vec<Weak<Shared>>>,
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
}

/// How a request of a session begins.
#[derive(Debug)]
pub enum Start {
    /// It is to be executed.
    Execute(Permit),
    /// It was; this was the answer, from the COMPOUND's status on.
    Replay(Bytes),
    /// It was, and the answer was not kept.
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
    ) -> Self {
        Self {
            id,
            client,
            slots: Mutex::new(Slots::new(fore.requests_max)),
            fore,
            back,
            has_ended: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            freed: AtomicUsize::new(0),
            connections: Mutex::default(),
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
        let freed = slots.settle(wish.highest);
        self.freed.fetch_add(freed as usize, Ordering::Relaxed);
        let begun = slots.begin(wish.slot, wish.sequence, wish.fingerprint);
        match begun {
            Begun::Execute if wish.highest > slots.highest() => {
                slots.give_up(wish.slot);
                Err(NfsStatus::BAD_HIGH_SLOT)
            }
            Begun::Execute => {
                self.calls.fetch_add(1, Ordering::Relaxed);
                Ok(Start::Execute(Permit { session: self.clone(), slot: wish.slot, done: false }))
            }
            Begun::Replay(reply) => Ok(Start::Replay(reply)),
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

    /// Would have the client use no more slots than these.
    pub fn aim(&self, slots: u32) {
        if self.highest_slots().1 >= slots {
            lock(&self.slots).aim(slots);
        }
    }

    /// How many slots the client has given up since this was asked last.
    #[must_use]
    pub fn take_freed(&self) -> usize {
        self.freed.swap(0, Ordering::Relaxed)
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
        lock(&self.session.slots).finish(self.slot, reply);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.done {
            lock(&self.session.slots).give_up(self.slot);
        }
    }
}
