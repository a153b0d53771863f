//! The backchannel of a session: target and connections of callbacks. RFC 8881 2.10.3, 18.33,
//! 18.34.

use crate::clients::callback_slots::CallbackSlots;
use crate::clients::link::ConnLink;
use crate::limits::{BACKCHANNELS_MAX, CALLBACK_SLOTS_MAX};
use std::sync::{Arc, Weak};
use sync::Mutex;
use wire::nfs::numbers::CALLBACK_VERSION;
use wire::nfs::ops::{CallbackSecurity, ChannelAttributes};
use wire::nfs::rpc::{AuthFlavor, OpaqueAuth, RpcCall, begin_record, end_record};
use wire::nfs::xdr::{Opaque, XdrWriter};

/// Program and credentials with which the server calls back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackTarget {
    /// RPC program of the client.
    pub program: u32,
    /// AUTH_SYS credentials; none for AUTH_NONE.
    sys: Option<Vec<u8>>,
}

impl CallbackTarget {
    /// The first supported security of the client's offer; None if none is supported.
    #[must_use]
    pub fn of(program: u32, offered: &[CallbackSecurity<'_>]) -> Option<Self> {
        let sys = offered.iter().find_map(|security| match security {
            CallbackSecurity::None => Some(None),
            CallbackSecurity::Sys(sys) => {
                let mut body = Vec::new();
                XdrWriter::new(&mut body).put(sys);
                Some(Some(body))
            }
            CallbackSecurity::Gss(_) => None,
        });
        // RFC 8881 18.36.3 permits an empty offer; the server then calls with AUTH_NONE.
        let sys = if offered.is_empty() { Some(None) } else { sys };
        sys.map(|sys| Self { program, sys })
    }

    fn credentials(&self) -> OpaqueAuth<'_> {
        match &self.sys {
            Some(body) => OpaqueAuth { flavor: AuthFlavor::SYS, body: Opaque(body) },
            None => OpaqueAuth::NONE,
        }
    }

    /// Encodes a call of `procedure` with the arguments that `put` writes.
    pub(crate) fn record(
        &self,
        xid: u32,
        procedure: u32,
        put: impl FnOnce(&mut XdrWriter<'_>),
    ) -> Vec<u8> {
        let mut record = Vec::new();
        let w = &mut XdrWriter::new(&mut record);
        let mark = begin_record(w);
        w.put(&RpcCall {
            xid,
            program: self.program,
            version: CALLBACK_VERSION,
            procedure,
            credentials: self.credentials(),
            verifier: OpaqueAuth::NONE,
        });
        put(w);
        end_record(w, mark, 0);
        record
    }
}

/// Backchannel of one session.
#[derive(Debug)]
pub struct Backchannel {
    /// Agreed channel attributes.
    pub attributes: ChannelAttributes,
    /// Minor version of the session.
    pub minor_version: u32,
    pub(crate) slots: Mutex<CallbackSlots>,
    state: Mutex<BackchannelState>,
}

/// Health of the client's callback program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallbackHealth {
    /// No call yet.
    #[default]
    Unknown,
    /// The client has replied.
    Responding,
    /// The client did not reply to a call.
    Unresponsive,
}

#[derive(Debug)]
struct BackchannelState {
    callback_target: Option<CallbackTarget>,
    connections: Vec<Weak<ConnLink>>,
    was_bound: bool,
    health: CallbackHealth,
}

impl Backchannel {
    /// A backchannel without connections.
    #[must_use]
    pub fn new(
        attributes: ChannelAttributes,
        minor_version: u32,
        callback_target: Option<CallbackTarget>,
    ) -> Self {
        let state = BackchannelState {
            callback_target,
            connections: Vec::new(),
            was_bound: false,
            health: CallbackHealth::default(),
        };
        let slots = CallbackSlots::new(attributes.requests_max.min(CALLBACK_SLOTS_MAX));
        Self { attributes, minor_version, slots: Mutex::new(slots), state: Mutex::new(state) }
    }

    /// Binds a connection for callbacks. If too many are bound, the oldest is dropped.
    pub fn bind(&self, connection: &Arc<ConnLink>) {
        let mut state = self.state.lock();
        state.connections.retain(|known| {
            known
                .upgrade()
                .is_some_and(|known| known.calls.is_open() && !Arc::ptr_eq(&known, connection))
        });
        if state.connections.len() == BACKCHANNELS_MAX {
            state.connections.remove(0);
        }
        state.connections.push(Arc::downgrade(connection));
        state.was_bound = true;
        state.health = CallbackHealth::Unknown;
    }

    /// Unbinds a connection on which the client does not reply.
    pub(crate) fn unbind(&self, connection: &Arc<ConnLink>) {
        let mut state = self.state.lock();
        state.connections.retain(|known| known.as_ptr() != Arc::as_ptr(connection));
    }

    /// Health of the client's callback program.
    #[must_use]
    pub fn health(&self) -> CallbackHealth {
        self.state.lock().health
    }

    pub(crate) fn set_health(&self, health: CallbackHealth) {
        self.state.lock().health = health;
    }

    /// Whether the client has replied to callbacks and a connection for them is open.
    #[must_use]
    pub fn is_responding(&self) -> bool {
        self.health() == CallbackHealth::Responding && self.is_up()
    }

    /// Replaces the callback target. RFC 8881 18.33.
    pub fn set_callback_target(&self, callback_target: CallbackTarget) {
        let mut state = self.state.lock();
        state.callback_target = Some(callback_target);
        state.health = CallbackHealth::Unknown;
    }

    /// Whether the client has ever bound a connection for callbacks.
    #[must_use]
    pub fn was_bound(&self) -> bool {
        self.state.lock().was_bound
    }

    /// Whether an open connection is bound and the client is not known to be unresponsive.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.health() != CallbackHealth::Unresponsive && !self.connections().is_empty()
    }

    /// Open connections for callbacks with the target; the one bound last comes first.
    pub(crate) fn connections(&self) -> Vec<(Arc<ConnLink>, CallbackTarget)> {
        let state = self.state.lock();
        let Some(callback_target) = &state.callback_target else { return Vec::new() };
        let open = state.connections.iter().rev().filter_map(Weak::upgrade);
        open.filter(|known| known.calls.is_open())
            .map(|known| (known, callback_target.clone()))
            .collect()
    }
}
