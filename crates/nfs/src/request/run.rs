//! One COMPOUND call, and the state that its operations share.

use crate::clients::client::ClientIncarnation;
use crate::clients::connection::ConnShared;
use crate::clients::credentials::CallCredentials;
use crate::clients::held_state::HeldOpen;
use crate::clients::session::NfsSession;
use crate::exports::config::NfsConfig;
use crate::exports::export::{Export, ExportTerms, Squash};
use crate::observe::audit::RequestOrigin;
use crate::observe::metering::OperationEnd;
use crate::request::operations::{Stable, changes_files, stable};
use crate::request::place::{HandleTarget, ObjectPlace};
use crate::request::reply::{ReplyBuffer, ResultMark, ResultsBuilder};
use crate::server::NfsServer;
use crate::state::principal::Principal;
use crate::status::{OrStatus, status_of};
use bytes::Bytes;
use files::{
    Access as Rights, CacheGrant, CallHolder, Caller, Object, OpenFile, RequestFiles, ShareQueue,
    UnstableObjects,
};
use limits::ThrottleReason;
use meter::{Api, Arrival, ShareId};
use std::sync::Arc;
use std::time::Instant;
use vfs::{ArrivalOrder, Attributes, FileKey};
use wire::nfs::callback::{ReferringCall, ReferringCalls};
use wire::nfs::ops::{Operation, SequenceArgs};
use wire::nfs::xdr::List;
use wire::nfs::{NfsStatus, StateId};

/// One COMPOUND call.
#[derive(Debug)]
pub struct CompoundCall {
    /// The server.
    pub server: Arc<NfsServer>,
    /// The connection on which it arrived.
    pub conn: Arc<ConnShared>,
    /// RPC transaction id.
    pub xid: u32,
    /// Credentials of the caller.
    pub credentials: CallCredentials,
    /// Encoded arguments, behind the RPC header.
    pub arguments: Bytes,
    /// Length of the whole call in bytes.
    pub request_bytes: usize,
    /// Time and size of its arrival.
    pub arrival: Arrival,
    /// Its position in the order of arrival.
    pub order: ArrivalOrder,
    /// Reusable buffer for the reply.
    pub buffer: Vec<u8>,
}

/// State that the operations of one COMPOUND share.
pub(crate) struct CompoundRun<'c> {
    pub call: &'c CompoundCall,
    /// The file layer in the context of this request.
    files: RequestFiles,
    pub config: Arc<NfsConfig>,
    pub minor_version: u32,
    /// None outside a session.
    pub session: Option<Arc<NfsSession>>,
    pub current: Option<HandleTarget>,
    pub current_id: Option<StateId>,
    saved: Option<(HandleTarget, Option<StateId>)>,
    /// Grants that the reply reports; breaks of them are deferred until the reply is sent.
    pub grants: Vec<CacheGrant>,
    /// Limit of the share for which the current operation waited or was refused.
    pub throttled: ThrottleReason,
    /// Time at which the request started, or resumed after a wait.
    pub now: Instant,
    /// Attribute operations that the last charged operation still covers.
    pub prepaid_attribute_ops: u8,
    /// Queue of the session at the limits of the share that was last used.
    pub queue: Option<Arc<ShareQueue>>,
    /// Path of the latest open, if this COMPOUND is sampled.
    pub sample: Option<String>,
    pub is_sampled: bool,
    pub sequence: Option<SequenceArgs>,
    /// Attributes of the current file handle's object from an earlier operation.
    pub seen: Option<(FileKey, Attributes)>,
    /// Objects that must be on stable storage before the reply.
    unstable: UnstableObjects,
    /// Result of the first operation that added to `unstable`.
    first_change: Option<ResultMark>,
}

impl CompoundCall {
    /// Holder to which work on workers is charged. A uid of AUTH_SYS is the client's claim, so the
    /// holder is the address.
    pub(crate) fn holder(&self) -> CallHolder {
        CallHolder::Client(limits::LedgerHolder::site(self.conn.link.facts.peer.ip()))
    }

    /// Principal of the call, for clients and sessions.
    pub(crate) fn principal(&self) -> Principal {
        self.credentials.principal(&self.conn.link.facts)
    }

    /// Facts of the call for audit events.
    pub(crate) fn origin(&self) -> RequestOrigin<'_> {
        RequestOrigin { connection: &self.conn.link, xid: self.xid, credentials: &self.credentials }
    }
}

/// The open behind a state id of an open, locks or a delegation.
fn open_behind(client: &ClientIncarnation, id: &StateId) -> Result<HeldOpen, NfsStatus> {
    let mut states = client.states.lock();
    if let Ok((_, open)) = states.find_open(id) {
        return Ok(open.holds.clone());
    }
    if let Ok((_, held)) = states.find_delegation(id) {
        return Ok(held.open());
    }
    states.find_locks(id).map(|(_, open)| open.holds.clone())
}

impl<'c> CompoundRun<'c> {
    pub fn new(
        call: &'c CompoundCall,
        minor_version: u32,
        session: Option<Arc<NfsSession>>,
        now: Instant,
        files: RequestFiles,
    ) -> Self {
        let config = call.server.config();
        let (current, current_id, saved) = (None, None, None);
        let (grants, sequence) = (Vec::new(), None);
        Self {
            call,
            files,
            config,
            minor_version,
            session,
            current,
            current_id,
            saved,
            grants,
            throttled: ThrottleReason::None,
            now,
            prepaid_attribute_ops: 0,
            queue: None,
            sample: None,
            is_sampled: false,
            sequence,
            seen: None,
            unstable: UnstableObjects::default(),
            first_change: None,
        }
    }

    /// Notes objects that the operation has changed in the share of the current file handle: see
    /// [`crate::request::operations::stable`].
    pub fn note_changed(&mut self, objects: &[&Object]) {
        if self.is_in_stable_share() {
            objects.iter().for_each(|object| self.unstable.add_object(object));
        }
    }

    /// As [`CompoundRun::note_changed`], for the file of an open.
    pub fn note_changed_by(&mut self, open: &OpenFile) {
        if self.is_in_stable_share() {
            self.unstable.add_open(open);
        }
    }

    fn is_in_stable_share(&self) -> bool {
        matches!(&self.current, Some(HandleTarget::Object(place)) if place.export.is_stable)
    }

    /// Notes the result at `put` if its operation was the first to change something.
    pub fn note_first_change(
        &mut self,
        operation: &Operation<'_>,
        put: ResultMark,
        status: NfsStatus,
    ) {
        debug_assert!(
            !status.is_ok() || self.has_noted(stable(operation)),
            "{:?} has not said what it has changed",
            put.number
        );
        if self.first_change.is_none() && !self.unstable.is_empty() {
            self.first_change = Some(put);
        }
    }

    /// Whether a successful operation that always changes something has noted it.
    fn has_noted(&self, stable: Stable) -> bool {
        let is_needed = matches!(stable, Stable::Names | Stable::File);
        !self.is_in_stable_share() || !is_needed || !self.unstable.is_empty()
    }

    /// Waits until the changes of the request are on stable storage. On failure the first changing
    /// operation fails, and the later results are dropped.
    pub async fn make_stable(&mut self, answer: &mut ReplyBuffer, results: &mut ResultsBuilder) {
        let Some(change) = self.first_change.take() else { return };
        let unstable = std::mem::take(&mut self.unstable);
        if let Err(error) = self.files.make_stable(unstable).await {
            tracing::error!(%error, "cannot flush changes to stable storage: the request fails, and a power loss may take them");
            answer.file = None;
            results.end_put(answer, change, Err(status_of(error)));
        }
    }

    /// Name of the share of the current file handle.
    pub fn share_name(&self) -> String {
        match &self.current {
            Some(HandleTarget::Object(place)) => {
                String::from_utf8_lossy(&place.export.name).into_owned()
            }
            _ => String::new(),
        }
    }

    /// Meter entry of an operation that began in the share `before`.
    pub fn end_of(
        &self,
        api: Api,
        status: NfsStatus,
        before: ShareId,
        bytes: (u64, u64),
    ) -> OperationEnd {
        let share = if self.share() == ShareId::NONE { before } else { self.share() };
        OperationEnd { api, status, throttled: self.throttled, share, bytes }
    }

    /// The share of the current file handle.
    pub fn share(&self) -> ShareId {
        match &self.current {
            Some(HandleTarget::Object(place)) => place.export.counted,
            _ => ShareId::NONE,
        }
    }

    /// Identifies this request in a recall, which may overtake the reply. RFC 8881 2.10.6.3.
    pub fn referring(&self) -> Option<ReferringCalls> {
        let SequenceArgs { session_id, sequence_id, slot_id, .. } = self.sequence?;
        Some(ReferringCalls {
            session_id,
            calls: List(vec![ReferringCall { sequence_id, slot_id }]),
        })
    }

    /// The file layer in the context of this request.
    pub fn files(&self) -> &RequestFiles {
        &self.files
    }

    pub fn server(&self) -> &'c Arc<NfsServer> {
        &self.call.server
    }

    /// The client of the session.
    pub fn client(&self) -> Result<Arc<ClientIncarnation>, NfsStatus> {
        let session = self.session.as_ref().ok_or(NfsStatus::OP_NOT_IN_SESSION)?;
        Ok(session.client.clone())
    }

    /// The current file handle.
    pub fn place(&mut self) -> Result<&mut HandleTarget, NfsStatus> {
        self.current.as_mut().ok_or(NfsStatus::NOFILEHANDLE)
    }

    /// The current file handle in a share.
    pub fn object_place(&mut self) -> Result<&mut ObjectPlace, NfsStatus> {
        match self.place()? {
            HandleTarget::Pseudo(_) => Err(NfsStatus::ROFS),
            HandleTarget::Object(place) => Ok(place),
        }
    }

    /// The object of the current file handle, and the caller. ROFS for a pseudo directory, in which
    /// nothing can change.
    pub async fn object(&mut self) -> Result<(Object, Arc<Caller>), NfsStatus> {
        let files = self.files.clone();
        let place = self.object_place()?;
        let object = place.object(&files).await?;
        let export = place.export.clone();
        Ok((object, self.caller(&export)))
    }

    /// The caller's identity on a share.
    pub fn caller(&self, export: &Export) -> Arc<Caller> {
        let CompoundCall { server, conn, credentials, .. } = self.call;
        // A client for which the share has no terms any more is anonymous and reaches nothing else.
        let anonymous = ExportTerms { squash: Squash::All, ..export.terms };
        let terms = export.terms_of(conn.link.facts.peer.ip()).unwrap_or(anonymous);
        conn.callers.get(&*server.host, &terms, credentials)
    }

    /// Whether the operation would change something in a share that is read-only for this client.
    pub fn is_refused_as_read_only(&self, operation: &Operation<'_>) -> bool {
        let Some(HandleTarget::Object(place)) = &self.current else { return false };
        changes_files(operation) && place.export.is_read_only(self.call.conn.link.facts.peer.ip())
    }

    /// The saved file handle.
    pub fn saved_place(&self) -> Option<&HandleTarget> {
        self.saved.as_ref().map(|(place, _)| place)
    }

    /// The object of the saved file handle, and its share.
    pub async fn saved_object(&mut self) -> Result<(Object, Arc<Export>), NfsStatus> {
        let (place, _) = self.saved.as_mut().ok_or(NfsStatus::NOFILEHANDLE)?;
        match place {
            HandleTarget::Pseudo(_) => Err(NfsStatus::ROFS),
            HandleTarget::Object(place) => {
                Ok((place.object(&self.files).await?, place.export.clone()))
            }
        }
    }

    /// The open that the current file handle and a state id refer to. It must grant one of
    /// `rights`, and the caller must have them now.
    pub fn open_by(&mut self, id: &StateId, rights: Rights) -> Result<HeldOpen, NfsStatus> {
        Ok(self.open_and_caller(id, rights)?.0)
    }

    /// As [`CompoundRun::open_by`], with the caller.
    pub fn open_and_caller(
        &mut self,
        id: &StateId,
        rights: Rights,
    ) -> Result<(HeldOpen, Arc<Caller>), NfsStatus> {
        let files = self.files().clone();
        let handle = self.place()?.handle(&files)?;
        let held = open_behind(&*self.client()?, id)?;
        if held.handle != handle {
            return Err(NfsStatus::BAD_STATEID);
        }
        if self.is_sampled {
            let path = held.open.path();
            self.sample = Some(String::from_utf8_lossy(path.as_bytes()).into_owned());
        }
        let export = self.object_place()?.export.clone();
        let caller = self.check_open(&held, &export, rights)?;
        Ok((held, caller))
    }

    /// Checks that the open grants one of `rights` and that the caller of this request has them
    /// now. Returns the caller.
    fn check_open(
        &self,
        held: &HeldOpen,
        export: &Export,
        rights: Rights,
    ) -> Result<Arc<Caller>, NfsStatus> {
        if !held.open.granted().intersects(rights) {
            return Err(NfsStatus::OPENMODE);
        }
        let caller = self.caller(export);
        self.files().authorize_by_open(&held.open, &caller, rights).or_status()?;
        Ok(caller)
    }

    /// As [`CompoundRun::open_and_caller`], for the saved file handle.
    pub fn saved_open_by(
        &mut self,
        id: &StateId,
        rights: Rights,
    ) -> Result<(HeldOpen, Arc<Caller>), NfsStatus> {
        let files = self.files().clone();
        let (place, _) = self.saved.as_mut().ok_or(NfsStatus::NOFILEHANDLE)?;
        let handle = place.handle(&files)?;
        let HandleTarget::Object(ObjectPlace { export, .. }) = place else {
            return Err(NfsStatus::BAD_STATEID);
        };
        let export = export.clone();
        let held = open_behind(&*self.client()?, id)?;
        if held.handle != handle {
            return Err(NfsStatus::BAD_STATEID);
        }
        let caller = self.check_open(&held, &export, rights)?;
        Ok((held, caller))
    }

    /// The change attribute of an object; zero if it is unknown.
    pub fn change_of(&self, object: &Object) -> u64 {
        self.files.object_attributes_alone(object).map_or(0, |attributes| attributes.change)
    }

    /// Sets the current file handle. The current state id becomes void.
    pub fn set_current(&mut self, place: HandleTarget) {
        if let (HandleTarget::Object(place), Some(session)) = (&place, &self.session) {
            session.client.note_export(place.export.id);
        }
        self.current = Some(place);
        self.current_id = None;
        self.seen = None;
    }

    /// Unsets the current file handle. RFC 8881 2.6.3.1.1.8.
    pub fn unset_current(&mut self) {
        self.current = None;
        self.current_id = None;
    }

    pub fn save(&mut self) -> Result<(), NfsStatus> {
        let place = self.place()?.clone();
        self.saved = Some((place, self.current_id));
        Ok(())
    }

    pub fn restore(&mut self) -> Result<(), NfsStatus> {
        let (place, id) = self.saved.clone().ok_or(NfsStatus::RESTOREFH)?;
        (self.current, self.current_id) = (Some(place), id);
        Ok(())
    }

    /// Resolves the special state ids. RFC 8881 16.2.3.1.2.
    pub fn resolve_id(&self, id: StateId) -> Result<StateId, NfsStatus> {
        let id = match id {
            StateId::CURRENT => self.current_id.ok_or(NfsStatus::BAD_STATEID)?,
            id => id,
        };
        // Two special state ids without state are valid. RFC 8881 8.2.3.
        let may_be_meant = matches!(id, StateId::ANONYMOUS | StateId::READ_BYPASS);
        if id.is_special() && !may_be_meant { Err(NfsStatus::BAD_STATEID) } else { Ok(id) }
    }
}
