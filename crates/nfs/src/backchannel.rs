//! Where a session's callbacks go: as whom, by which connections. RFC 8881 2.10.3, 18.33,
//! 18.34.

use crate::client::lock;
use crate::conn::Shared;
use crate::limits::BACKCHANNELS_MAX;
use std::sync::{Arc, Mutex, Weak};
use wire::nfs::numbers::{CALLBACK_VERSION, PROCEDURE_NULL};
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
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    call_as: Option<CallbackAs>,
    connections: Vec<Weak<Shared>>,
    was_bound: bool,
}

impl Backchannel {
    /// A backchannel without connections.
    #[must_use]
    pub fn new(attributes: ChannelAttributes, call_as: Option<CallbackAs>) -> Self {
        Self {
            attributes,
            state: Mutex::new(State { call_as, connections: Vec::new(), was_bound: false }),
        }
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
    }

    /// Callbacks are made as another from now on. RFC 8881 18.33.
    pub fn call_as(&self, call_as: CallbackAs) {
        lock(&self.state).call_as = Some(call_as);
    }

    /// Whether the client ever had a connection for callbacks.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        lock(&self.state).was_bound
    }

    /// Whether some connection is left to call back by.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.connection().is_some()
    }

    /// The connection to call back by, and as whom: the one that was bound last.
    pub(crate) fn connection(&self) -> Option<(Arc<Shared>, CallbackAs)> {
        let state = lock(&self.state);
        let call_as = state.call_as.clone()?;
        let open = state.connections.iter().rev().filter_map(Weak::upgrade);
        open.into_iter().find(|known| known.calls.is_open()).map(|known| (known, call_as))
    }

    /// Tries whether the client's program is there; nobody waits for the answer.
    pub fn probe(&self) {
        if let Some((connection, call_as)) = self.connection() {
            drop(connection.calls.send(|xid| call_as.record(xid, PROCEDURE_NULL, |_| ())));
        }
    }
}
