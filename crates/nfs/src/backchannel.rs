//! Where a session's callbacks go: as whom, by which connections. RFC 8881 2.10.3, 18.33,
//! 18.34.

use crate::callback_slots::CallbackSlots;
use crate::client::lock;
use crate::conn::Shared;
use crate::limits::{BACKCHANNELS_MAX, CALLBACK_SLOTS_MAX};
use std::sync::{Arc, Mutex, Weak};
use wire::nfs::numbers::CALLBACK_VERSION;
use wire::nfs::ops::{CallbackSecurity, ChannelAttributes};
use wire::nfs::rpc::{AuthFlavor, Call, OpaqueAuth, begin_record, end_record};
use wire::nfs::xdr::{Opaque, XdrWriter};

/// As whom the server calls back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackAs {
    /// The client's program.
    pub program: u32,
    /// AUTH_SYS credentials; none to call as nobody.
    sys: Option<Vec<u8>>,
}

impl CallbackAs {
    /// What the client offers: the first that is understood. None if nothing is.
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
        // Nothing offered at all: RFC 8881 18.36.3 leaves it open, and nobody is harmed.
        let sys = if offered.is_empty() { Some(None) } else { sys };
        sys.map(|sys| Self { program, sys })
    }

    fn credentials(&self) -> OpaqueAuth<'_> {
        match &self.sys {
            Some(body) => OpaqueAuth { flavor: AuthFlavor::SYS, body: Opaque(body) },
            None => OpaqueAuth::NONE,
        }
    }

    /// A record that calls `procedure`, with what `put` writes as arguments.
    pub(crate) fn record(
        &self,
        xid: u32,
        procedure: u32,
        put: impl FnOnce(&mut XdrWriter<'_>),
    ) -> Vec<u8> {
        let mut record = Vec::new();
        let w = &mut XdrWriter::new(&mut record);
        let mark = begin_record(w);
        w.put(&Call {
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

/// The backchannel of a session.
#[derive(Debug)]
pub struct Backchannel {
    /// What was agreed for callbacks.
    pub attributes: ChannelAttributes,
    /// Version 4 of what: that of the session.
    pub minor_version: u32,
    pub(crate) slots: Mutex<CallbackSlots>,
    state: Mutex<State>,
}

/// What is known of the client's program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// Nothing yet.
    #[default]
    Unknown,
    /// It answers.
    Answers,
    /// It was called, and did not answer.
    Mute,
}

#[derive(Debug)]
struct State {
    call_as: Option<CallbackAs>,
    connections: Vec<Weak<Shared>>,
    was_bound: bool,
    health: Health,
}

impl Backchannel {
    /// A backchannel without connections.
    #[must_use]
    pub fn new(
        attributes: ChannelAttributes,
        minor_version: u32,
        call_as: Option<CallbackAs>,
    ) -> Self {
        let state =
            State { call_as, connections: Vec::new(), was_bound: false, health: Health::default() };
        let slots = CallbackSlots::new(attributes.requests_max.min(CALLBACK_SLOTS_MAX));
        Self { attributes, minor_version, slots: Mutex::new(slots), state: Mutex::new(state) }
    }

    /// Callbacks may go by this connection from now on. The one that was bound first makes
    /// room where there are too many.
    pub fn bind(&self, connection: &Arc<Shared>) {
        let mut state = lock(&self.state);
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
        state.health = Health::Unknown;
    }

    /// No callback goes by this connection any more: the client does not answer on it.
    pub(crate) fn unbind(&self, connection: &Arc<Shared>) {
        let mut state = lock(&self.state);
        state.connections.retain(|known| known.as_ptr() != Arc::as_ptr(connection));
    }

    /// What is known of the client's program.
    #[must_use]
    pub fn health(&self) -> Health {
        lock(&self.state).health
    }

    pub(crate) fn set_health(&self, health: Health) {
        lock(&self.state).health = health;
    }

    /// Whether callbacks have been answered, and can be made.
    #[must_use]
    pub fn answers(&self) -> bool {
        self.health() == Health::Answers && self.is_up()
    }

    /// Callbacks are made as another from now on. RFC 8881 18.33.
    pub fn call_as(&self, call_as: CallbackAs) {
        let mut state = lock(&self.state);
        state.call_as = Some(call_as);
        state.health = Health::Unknown;
    }

    /// Whether the client ever had a connection for callbacks.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        lock(&self.state).was_bound
    }

    /// Whether some connection is left to call back by, and the client is not known to be
    /// mute on it.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.health() != Health::Mute && !self.connections().is_empty()
    }

    /// Connections to call back by, and as whom: the one that was bound last comes first.
    pub(crate) fn connections(&self) -> Vec<(Arc<Shared>, CallbackAs)> {
        let state = lock(&self.state);
        let Some(call_as) = &state.call_as else { return Vec::new() };
        let open = state.connections.iter().rev().filter_map(Weak::upgrade);
        open.filter(|known| known.calls.is_open()).map(|known| (known, call_as.clone())).collect()
    }
}
