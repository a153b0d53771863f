//! Opening: resolve, authorize, acquire and apply, which are stages 3 to 6 of a request.
//!
//! All branching is in [`OpenInProgress::once`] and [`OpenInProgress::open_existing`]; the stages
//! are straight. Dropping an [`ticket::OpenTicket`] undoes an open. A lost race restarts at
//! resolve, a bounded number of times.

mod acquire;
mod apply;
mod authorize;
mod create;
mod origin;
mod plan;
mod resolve;
mod stream;
mod ticket;

use crate::cache_holder::{CacheGrant, CacheWish, ParentKey};
use crate::context::RequestContext;
use crate::offload::{offload, offload_in_turn};
use crate::open_file::{OpenFile, OpenFileParts};
use crate::rename_turns::{RenameEpoch, RenameSubject, RenameTurn, TurnRequest};
use crate::reparse::is_reparse_point;
use crate::server_work::{LOCATE, WANTED};
use crate::shown_link::with_link_kind;
use crate::table::{BreakWait, FileTable, OpenRefusal, OpenedEntry, RegisteredOpen};
use crate::volume::dos;
use crate::watch::{ChangeAction, WatchFilter};
use crate::{CallHolder, Caller, ObjectOpen, OpenAt, RequestFiles, Volume, Workers};
use acl::{Access, Descriptor};
use apply::reserve;
use create::UnregisteredNode;
use grants::{CacheState, CachingRights, OpenId, ShareMode};
use origin::OpenOrigin;
pub use plan::{IfExists, IfMissing, NewMode, OpenPlan, RequestedKind, Semantics};
use std::sync::Arc;
pub(crate) use ticket::OpenTicket;
use vfs::{
    AttributeRequest, Attributes, Case, FileKey, FileKind, FsError, OpenHow, OpenedNode, RelPath,
    Result, StreamName, Wait,
};

/// Limit of retries after a race with another creator, remover or renamer.
const RESOLVE_TRIES_MAX: u32 = 8;
/// The same in a turn that excludes renames.
const TRIES_IN_TURN_MAX: u32 = 4;
/// A larger file is truncated on a worker, since that may take long.
const INLINE_CUT_BYTES_MAX: u64 = 1024 * 1024;

/// Outcome of an open: the CreateAction of MS-SMB2 2.2.14.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenAction {
    /// The file existed and was opened.
    Opened,
    /// The file was created.
    Created,
    /// The file was truncated.
    Overwritten,
    /// The file was replaced.
    Superseded,
}

/// Result of a successful open.
#[derive(Debug)]
pub struct OpenResult {
    /// The open.
    pub open: Arc<OpenFile>,
    /// Action that was taken.
    pub action: OpenAction,
    /// Attributes after the action.
    pub attributes: Attributes,
    /// Caching that was granted to the client.
    pub caching: CacheState,
    /// Delays breaks of the granted caching; dropped once the client has received the response.
    pub granting: Option<CacheGrant>,
}

/// Progress of an open up to its first wait for another client.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is mostly the large one")]
pub enum OpenProgress {
    /// The open succeeded.
    Opened(OpenResult),
    /// Another client has to acknowledge a break or return a delegation first, which may take long.
    Waiting(WaitingOpen),
}

/// An open that waits for an oplock, lease or delegation break.
pub struct WaitingOpen {
    opening: Box<OpenInProgress>,
    wait: BreakWait,
    workers: Arc<dyn Workers>,
}

impl std::fmt::Debug for WaitingOpen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitingOpen").field("path", &self.opening.plan.path).finish_non_exhaustive()
    }
}

impl WaitingOpen {
    /// Waits for breaks, repeatedly if necessary, and opens. Dropping the future cancels the open.
    ///
    /// # Errors
    /// As [`RequestFiles::open`].
    pub async fn opened(mut self) -> Result<OpenResult> {
        loop {
            self.wait.settled(&self.opening.context, &*self.workers).await?;
            match self.opening.run_on(self.workers).await? {
                OpenProgress::Opened(result) => return Ok(result),
                OpenProgress::Waiting(waiting) => self = waiting,
            }
        }
    }
}

impl RequestFiles {
    /// Opens or creates a file or directory. The first attempt runs inline from cached metadata;
    /// other attempts run on a worker.
    ///
    /// Dropping the future early releases every grant. A file that it created stays.
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::PathNotFound`], [`FsError::AlreadyExists`],
    /// [`FsError::IsDirectory`], [`FsError::NotDirectory`], [`FsError::AccessDenied`],
    /// [`FsError::ShareViolation`], [`FsError::DeletePending`], [`FsError::CannotDelete`],
    /// [`FsError::InvalidParameter`] for a malformed descriptor, [`FsError::NoSpace`],
    /// [`FsError::InvalidName`] for a stream where none can be stored.
    pub async fn open(
        &self,
        volume: &Arc<Volume>,
        caller: &Arc<Caller>,
        plan: OpenPlan,
    ) -> Result<OpenResult> {
        match self.begin_open(volume, caller, plan).await? {
            OpenProgress::Opened(result) => Ok(result),
            OpenProgress::Waiting(waiting) => waiting.opened().await,
        }
    }

    /// As [`RequestFiles::open`], but returns [`OpenProgress::Waiting`] if it must wait for another
    /// client.
    ///
    /// # Errors
    /// As [`RequestFiles::open`].
    pub async fn begin_open(
        &self,
        volume: &Arc<Volume>,
        caller: &Arc<Caller>,
        plan: OpenPlan,
    ) -> Result<OpenProgress> {
        // Boxed, since it is moved several times.
        let opening = Box::new(OpenInProgress::new(self, volume, caller, plan)?);
        self.begin(opening).await
    }

    /// See [`RequestFiles::begin_open_object`].
    pub(crate) async fn begin_open_at(
        &self,
        caller: &Arc<Caller>,
        at: &OpenAt,
        plan: OpenPlan,
        with: ObjectOpen,
    ) -> Result<OpenProgress> {
        let (OpenAt::Object(object) | OpenAt::Name(object, _)) = at;
        let opening = OpenInProgress::new(self, &object.volume, caller, plan)?;
        self.begin(Box::new(OpenInProgress { origin: OpenOrigin::of(at), with, ..opening })).await
    }

    async fn begin(&self, mut opening: Box<OpenInProgress>) -> Result<OpenProgress> {
        let workers = self.workers.clone();
        match opening.once(Wait::Never) {
            Ok(OpenAttempt::Opened(result)) => Ok(OpenProgress::Opened(result)),
            Ok(OpenAttempt::Breaking(wait)) => {
                Ok(OpenProgress::Waiting(WaitingOpen { opening, wait, workers }))
            }
            // Metadata is not cached, or a race was lost: restart on a worker, which may block.
            Ok(OpenAttempt::Lost) | Err(FsError::WouldBlock) => opening.run_on(workers).await,
            Err(error) => Err(error),
        }
    }
}

/// Outcome of one pass through the stages.
#[allow(clippy::large_enum_variant, reason = "it is mostly the large one, and moved once")]
enum OpenAttempt {
    Opened(OpenResult),
    /// A race was lost: restart.
    Lost,
    Breaking(BreakWait),
}

/// Counters of the table, read before a path is resolved.
struct TableVersion {
    epoch: RenameEpoch,
    removals: u64,
    /// Path of the directory that the open's turn claims and in which its name is.
    claimed: Option<RelPath>,
}

/// Outcome of the tries on a worker.
#[allow(clippy::large_enum_variant, reason = "it is mostly the large one, and moved once")]
enum WorkerOutcome {
    Opened(OpenResult),
    Breaking(Box<OpenInProgress>, BreakWait),
    /// Every try lost a race. With the directory of the name, if it was found.
    Lost(Box<OpenInProgress>, Option<FileKey>),
}

/// State of one open request across the stages.
struct OpenInProgress {
    /// Context of the request.
    context: RequestContext,
    /// Holder that is charged for calls on workers.
    holder: CallHolder,
    table: Arc<FileTable>,
    volume: Arc<Volume>,
    caller: Arc<Caller>,
    plan: OpenPlan,
    id: OpenId,
    /// Requested rights with generic rights mapped.
    desired: Access,
    /// Decoded descriptor of the plan.
    descriptor: Option<Descriptor>,
    /// Origin of the plan's path.
    origin: OpenOrigin,
    /// Whether [`OpenInProgress::refresh_path`] has set the path.
    has_path: bool,
    with: ObjectOpen,
    /// Node that this open created and could not register in the table yet.
    unregistered: Option<UnregisteredNode>,
    /// The open only removes the name, and the directory grants that. The file's own rights do not
    /// matter.
    removes_by_directory: bool,
    /// Directory that the turn of the present tries claims, after earlier ones lost their races.
    /// Renames of streams take no turn.
    claimed: Option<FileKey>,
}

const WRITES: Access = Access(Access::WRITE_DATA.0 | Access::APPEND_DATA.0);
const READS: Access = Access(Access::READ_DATA.0 | Access::EXECUTE.0);

impl OpenInProgress {
    fn new(
        files: &RequestFiles,
        volume: &Arc<Volume>,
        caller: &Arc<Caller>,
        mut plan: OpenPlan,
    ) -> Result<Self> {
        if let Some(cache) =
            plan.caching.as_mut().filter(|_| volume.features().misses_remote_changes)
        {
            cache.wanted = CachingRights::NONE;
        }
        let decode =
            |bytes: &Vec<u8>| Descriptor::decode(bytes).map_err(|_| FsError::InvalidParameter);
        let descriptor = plan.descriptor.as_ref().map(decode).transpose()?;
        Ok(Self {
            context: files.context.clone(),
            holder: files.holder.clone(),
            table: files.table.clone(),
            volume: volume.clone(),
            caller: caller.clone(),
            id: files.new_open_id(),
            desired: plan.desired.map_generic(),
            descriptor,
            plan,
            origin: OpenOrigin::Path,
            has_path: false,
            with: ObjectOpen::default(),
            unregistered: None,
            removes_by_directory: false,
            claimed: None,
        })
    }

    /// Runs the stages on a worker.
    async fn run_on(self: Box<Self>, workers: Arc<dyn Workers>) -> Result<OpenProgress> {
        let holder = self.holder.clone();
        let mut ran = offload(&*workers, &holder, move || self.run(RESOLVE_TRIES_MAX)).await?;
        // Renames outpace the lookups: a turn excludes them, in the directory if that suffices.
        for is_last in [false, true] {
            let (mut opening, directory) = match ran {
                WorkerOutcome::Lost(opening, directory) => (opening, directory),
                other => {
                    ran = other;
                    break;
                }
            };
            let turn = opening.take_turn(directory.filter(|_| !is_last)).await;
            let run = move || {
                let _turn = turn;
                opening.run(TRIES_IN_TURN_MAX)
            };
            ran = offload_in_turn(&*workers, &holder, run).await?;
        }
        match ran {
            WorkerOutcome::Opened(result) => Ok(OpenProgress::Opened(result)),
            WorkerOutcome::Breaking(opening, wait) => {
                Ok(OpenProgress::Waiting(WaitingOpen { opening, wait, workers }))
            }
            // Another client creates and removes faster than the lookups.
            WorkerOutcome::Lost(..) => Err(FsError::ShareViolation),
        }
    }

    /// Runs the stages until no race is lost, up to `tries` times.
    fn run(mut self: Box<Self>, tries: u32) -> Result<WorkerOutcome> {
        for _ in 0..tries {
            match self.once(Wait::Allowed)? {
                OpenAttempt::Opened(result) => return Ok(WorkerOutcome::Opened(result)),
                OpenAttempt::Breaking(wait) => {
                    self.claimed = None;
                    return Ok(WorkerOutcome::Breaking(self, wait));
                }
                OpenAttempt::Lost => {}
            }
        }
        self.claimed = None;
        let directory = self.find_directory().map(|found| found.attributes.key);
        Ok(WorkerOutcome::Lost(self, directory))
    }

    /// Waits for a turn in which no other name changes in this directory, or else in the tree.
    async fn take_turn(&mut self, directory: Option<FileKey>) -> RenameTurn {
        let (turns, root_device) = (&self.table.rename_turns, self.volume.vfs_serial());
        self.claimed = directory;
        match directory {
            Some(key) => {
                let change = TurnRequest { root_device, file: key, moves_directory: false };
                turns.take(&change, &[key]).await
            }
            None => turns.take_tree(root_device).await,
        }
    }

    /// The directory of the requested name. It may wait.
    fn find_directory(&self) -> Option<OpenedNode> {
        let (directory, _) = self.plan.path.split()?;
        let (names, actor) = (self.volume.names(), self.context.call(LOCATE));
        let found = names.open_directory(actor, &directory, self.case(), Wait::Allowed);
        found.ok().map(|found| found.opened)
    }

    /// Runs the stages once, from the current path.
    fn once(&mut self, wait: Wait) -> Result<OpenAttempt> {
        self.refresh_path()?;
        let creates = self.plan.if_missing == IfMissing::Create;
        self.volume.options.veto_names.check(&self.plan.path, creates)?;
        self.at_path(wait)
    }

    /// Runs the stages with `plan.path` as it stands.
    fn at_path(&mut self, wait: Wait) -> Result<OpenAttempt> {
        if self.plan.stream.is_some() {
            self.check_streams(wait)?;
        }
        let version = self.version();
        let result = match self.unregistered.take() {
            Some(created) => self.enter_created(created, &version),
            None => self.find_or_create(wait, &version),
        };
        match result {
            // The refusal may concern another file.
            Err(_)
                if !self.is_path_current(&version, None, &self.plan.path) || self.has_moved() =>
            {
                Ok(OpenAttempt::Lost)
            }
            other => other,
        }
    }

    fn version(&self) -> TableVersion {
        let (epoch, removals) = (self.table.rename_turns.epoch(), self.table.removals());
        // The directory may have been renamed before its turn came.
        let claimed = self.claimed.filter(|_| self.plan.stream.is_none()).and_then(|key| {
            let found = self.find_directory().filter(|found| found.attributes.key == key);
            found.map(|found| found.path)
        });
        TableVersion { epoch, removals, claimed }
    }

    /// Whether no rename that concerns the node was in flight when its path was resolved, and none
    /// has begun.
    fn is_current(&self, version: &TableVersion, opened: &OpenedNode) -> bool {
        self.is_path_current(version, Some(opened.attributes.key), &opened.path)
    }

    fn is_path_current(
        &self,
        version: &TableVersion,
        file: Option<FileKey>,
        path: &RelPath,
    ) -> bool {
        let (turns, root_device) = (&self.table.rename_turns, self.volume.vfs_serial());
        // The claim of the directory keeps renames of files from its names.
        let is_claimed = version.claimed.is_some() && path.parent() == version.claimed;
        match is_claimed {
            true => turns.is_tree_current(version.epoch, root_device),
            false => turns.is_current(version.epoch, RenameSubject { root_device, file, path }),
        }
    }

    /// Records the file system of a found node, whose renames count from the next lookup on.
    fn note_device(&self, opened: &OpenedNode) {
        let (root, key) = (self.volume.vfs_serial(), opened.attributes.key);
        self.table.rename_turns.note_device(root, key.device);
    }

    fn find_or_create(&mut self, wait: Wait, version: &TableVersion) -> Result<OpenAttempt> {
        // An exclusive create rarely collides: skipping the lookup saves a call.
        if self.plan.if_exists == IfExists::Fail && self.may_create_unseen(wait) {
            match self.create_unseen(version) {
                Err(FsError::WouldBlock) => {}
                other => return other,
            }
        }
        self.removes_by_directory =
            self.is_removal() && self.parent_lets_delete(None, wait) == Ok(true);
        let found = match self.resolve(wait) {
            Err(FsError::NotFound) if self.plan.if_missing == IfMissing::Create => None,
            Err(FsError::WouldBlock) if wait == Wait::Never && self.may_create_unseen(wait) => {
                return self.create_unseen(version);
            }
            other => Some(self.served(other?)?),
        };
        match self.check_key(found.as_ref()) {
            // Another request has created the file under this very key.
            Err(_) if found.is_none() && self.is_named_by_key() => return Ok(OpenAttempt::Lost),
            other => other?,
        }
        match (found, &self.plan.stream) {
            (Some(found), None) => self.open_existing(found, wait, version),
            (Some(found), Some(name)) => self.open_stream(found, name, version),
            // However fast the lookup was, creating may wait for the file system's journal.
            (None, None) if wait == Wait::Never && !self.creates_without_waiting() => {
                Err(FsError::WouldBlock)
            }
            (None, None) => match self.create(version) {
                Err(FsError::AlreadyExists) if self.plan.if_exists != IfExists::Fail => {
                    self.explain_collision(wait)
                }
                // Created by this open: another lookup would report a collision.
                other => other,
            },
            (None, Some(_)) => match self.create(version) {
                // The file exists now, but that does not tell about the stream.
                Err(FsError::AlreadyExists) => self.explain_collision(wait),
                other => other,
            },
        }
    }

    /// Handles a name that was neither found nor creatable. Either another caller was faster, or
    /// the name is a dangling symbolic link, which no retry opens.
    fn explain_collision(&self, wait: Wait) -> Result<OpenAttempt> {
        let how = OpenHow { case: self.case(), ..OpenHow::looking(wait) };
        let look = |no_follow| {
            self.volume.vfs.open(self.user(), &self.plan.path, OpenHow { no_follow, ..how })
        };
        match look(true) {
            Ok(found) if found.attributes.kind == FileKind::Symlink => {}
            Err(FsError::WouldBlock) => return Err(FsError::WouldBlock),
            _ => return Ok(OpenAttempt::Lost),
        }
        match look(false) {
            Err(error @ (FsError::NotFound | FsError::WouldBlock)) => Err(error),
            _ => Ok(OpenAttempt::Lost),
        }
    }

    /// Whether the file of the lease key is open by the requested name.
    fn is_named_by_key(&self) -> bool {
        let key = self.plan.caching.as_ref().and_then(|cache| cache.key);
        let named = key.and_then(|key| self.table.keys.find(key.key));
        named.is_some_and(|named| named.has_name(&self.volume.vfs, &self.plan.path))
    }

    /// Refuses a lease key that belongs to another file, before anything is created. MS-SMB2
    /// 3.3.5.9.8.
    fn check_key(&self, found: Option<&resolve::ResolvedNode>) -> Result<()> {
        let key = self.plan.caching.as_ref().and_then(|cache| cache.key);
        let Some(named) = key.and_then(|key| self.table.keys.find(key.key)) else { return Ok(()) };
        let is_same = found.is_some_and(|found| found.opened.attributes.key == named.key)
            && named.is_stream() == self.plan.stream.is_some();
        if is_same { Ok(()) } else { Err(FsError::InvalidParameter) }
    }

    /// Whether the path may lead elsewhere by now. Call it after the open is entered and before the
    /// file is changed, while the open can still be withdrawn. Renames and removals see the open
    /// from then on.
    fn lost_its_path(&self, version: &TableVersion, opened: &OpenedNode) -> Result<bool> {
        self.note_device(opened);
        if !self.is_current(version, opened) || self.has_moved() {
            return Ok(true);
        }
        self.lost_its_name(version, opened)
    }

    /// Whether the name was removed before the open was entered, when the remover could not see the
    /// open.
    fn lost_its_name(&self, version: &TableVersion, opened: &OpenedNode) -> Result<bool> {
        if self.table.removals() == version.removals {
            return Ok(false);
        }
        let links = opened.node.attributes(AttributeRequest::default())?.links;
        // On some file systems a directory's link count includes its subdirectories.
        let is_directory = opened.attributes.kind == FileKind::Directory;
        Ok(if is_directory { links == 0 } else { links < opened.attributes.links })
    }

    fn open_existing(
        &self,
        found: resolve::ResolvedNode,
        wait: Wait,
        version: &TableVersion,
    ) -> Result<OpenAttempt> {
        let resolve::ResolvedNode { opened, .. } = &found;
        let is_own = self.plan.if_exists == IfExists::Fail;
        if is_own && !self.is_replayed_create(opened) {
            return Err(FsError::AlreadyExists);
        }
        self.check_kind(opened)?;
        // Attribute access is free: older Linux clients open listed reparse points so.
        let uses = self.desired.intersects(READS | WRITES) || self.replaces();
        if uses && !self.plan.no_follow && is_reparse_point(&*opened.node, &opened.attributes) {
            return Err(FsError::ReparsePoint);
        }
        let granted = self.authorize(&found, wait)?;
        let found = if is_own { self.reopen_created(found, granted, wait)? } else { found };
        let resolve::ResolvedNode { opened, .. } = &found;
        self.check_bits(opened, granted, wait)?;
        if self.replaces()
            && wait == Wait::Never
            && opened.attributes.size_bytes > INLINE_CUT_BYTES_MAX
        {
            return Err(FsError::WouldBlock);
        }
        if self.blocks_reclaim(opened) {
            return Err(FsError::ShareViolation);
        }
        let entered = self.acquire(opened, granted);
        if self.lost_its_path(version, opened)? {
            return Ok(OpenAttempt::Lost);
        }
        let ticket = match entered {
            Ok(ticket) => ticket,
            Err(OpenRefusal::Breaking(wait)) => return Ok(OpenAttempt::Breaking(wait)),
            // The conflicting holder may have been an absent client whose open is now closed:
            // retry.
            Err(OpenRefusal::Refused(FsError::ShareViolation))
                if self.table.revoke_courtesy_state(opened.attributes.key) =>
            {
                return Ok(OpenAttempt::Lost);
            }
            Err(OpenRefusal::Refused(error)) => return Err(error),
        };
        let mut attributes = opened.attributes;
        if self.replaces() {
            if self.is_posix() && self.plan.if_exists == IfExists::Overwrite {
                self.truncate(opened)?;
            } else {
                // Overwriting removes the streams.
                ticket.detach_streams()?;
                self.overwrite(opened)?;
            }
            attributes = opened.node.attributes(WANTED)?;
            ticket.note_length_change();
            let what = WatchFilter::ATTRIBUTES | WatchFilter::SIZE | WatchFilter::LAST_WRITE;
            self.report(ChangeAction::Modified, what, &opened.path);
        }
        let action = self.action_on_existing();
        let security = found.security;
        let result = self.finish(ticket, found.opened, attributes, granted, action);
        result.open.cache_security(&attributes, security.filter(|_| !self.replaces()));
        Ok(OpenAttempt::Opened(result))
    }

    fn action_on_existing(&self) -> OpenAction {
        match self.plan.if_exists {
            IfExists::Overwrite => OpenAction::Overwritten,
            IfExists::Supersede => OpenAction::Superseded,
            IfExists::Open => OpenAction::Opened,
            // A replayed create found its own file.
            IfExists::Fail => OpenAction::Created,
        }
    }

    fn entry<'a>(&'a self, opened: &'a OpenedNode) -> OpenedEntry<'a> {
        let attributes = &opened.attributes;
        let is_directory = attributes.kind == FileKind::Directory;
        OpenedEntry {
            key: attributes.key,
            is_directory,
            volume: &self.volume,
            path: &opened.path,
            size_bytes: attributes.size_bytes,
            only_link: is_directory || attributes.links <= 1,
        }
    }

    fn acquire(
        &self,
        opened: &OpenedNode,
        granted: Access,
    ) -> std::result::Result<OpenTicket, OpenRefusal> {
        // Truncation counts as a write, whatever rights the open keeps.
        let opening_access = if self.replaces() { Access::WRITE_DATA } else { Access::NONE };
        let cache = self.cache_of(&opened.attributes);
        OpenTicket::acquire(self, &self.entry(opened), granted, opening_access, cache.as_ref())
    }

    /// Caching to request for a node of this kind. A directory supports leases only, without write
    /// caching.
    fn cache_of(&self, attributes: &Attributes) -> Option<CacheWish> {
        let delegated = || CacheWish::of_delegations(self.with.holder.clone()?, attributes.key);
        let cache = self.plan.caching.clone().or_else(delegated)?;
        match attributes.kind {
            FileKind::File => Some(cache),
            FileKind::Directory if cache.key.is_some_and(|key| key.of_directories) => {
                Some(CacheWish { wanted: cache.wanted - CachingRights::WRITE, ..cache })
            }
            _ => None,
        }
    }

    fn finish(
        &self,
        ticket: OpenTicket,
        opened: OpenedNode,
        attributes: Attributes,
        granted: Access,
        action: OpenAction,
    ) -> OpenResult {
        let (RegisteredOpen { state, name, key, caching, granting }, hold) =
            ticket.complete(&self.context);
        let lacks_archive = attributes.dos.bits.is_some_and(|bits| bits & dos::ARCHIVE == 0);
        if lacks_archive && attributes.kind == FileKind::File {
            state.note_archive(true);
        }
        let attributes = match self.is_posix() {
            false => with_link_kind(&self.volume, &self.caller, &opened.path, attributes),
            true => attributes,
        };
        let attributes = name.presented(attributes);
        let open = Arc::new(OpenFile::new(OpenFileParts {
            id: self.id,
            node: opened.node,
            state,
            name,
            hold,
            caller: self.caller.clone(),
            key,
            parent_key: self.parent_key(),
            granted,
            share: self.plan.share,
            delete_on_close: self.plan.delete_on_close,
            semantics: self.plan.semantics,
            of_object: !matches!(self.origin, OpenOrigin::Path),
            table: self.table.clone(),
        }));
        if self.replaces() && action != OpenAction::Created {
            // MS-FSA 2.1.5.1.2.1: overwriting modifies the file, which accesses it.
            open.note_stale_access_time();
        }
        let attributes = open.with_final_access_time(attributes);
        OpenResult { open, action, attributes, caching, granting }
    }

    fn report(&self, kind: ChangeAction, what: WatchFilter, path: &RelPath) {
        let (vfs, watches) = (&self.volume.vfs, &self.table.watches);
        self.table.break_directory_of(&self.context, vfs, &self.caller, path, self.parent_key());
        watches.report(&self.volume.vfs, Some(&self.caller), what, &[(kind, path)]);
    }

    fn report_streams(
        &self,
        what: WatchFilter,
        path: &RelPath,
        changes: &[(ChangeAction, &StreamName)],
    ) {
        let (vfs, watches) = (&self.volume.vfs, &self.table.watches);
        watches.report_streams(vfs, Some(&self.caller), what, path, changes);
    }

    fn is_posix(&self) -> bool {
        self.plan.semantics == Semantics::Posix
    }

    /// How names are compared.
    fn case(&self) -> Case {
        if self.is_posix() { Case::Sensitive } else { self.volume.options.case }
    }

    /// Lease key of the parent directory. MS-SMB2 2.2.13.2.10.
    fn parent_key(&self) -> Option<ParentKey> {
        self.plan.caching.as_ref()?.key?.parent
    }

    /// Whether creation may be tried without a lookup. A file that a client creates is rarely
    /// there, and its absence is rarely cached, so a lookup would have to read the directory. A
    /// case-insensitive name needs the lookup. A caller that must not block tries only while
    /// creation is quick.
    fn may_create_unseen(&self, wait: Wait) -> bool {
        self.plan.if_missing == IfMissing::Create
            && self.plan.stream.is_none()
            && self.is_posix()
            && (wait == Wait::Allowed || self.creates_without_waiting())
    }

    /// Whether the open only serves a POSIX removal of its name.
    fn is_removal(&self) -> bool {
        self.is_posix()
            && self.desired == Access::DELETE
            && self.plan.if_exists == IfExists::Open
            && self.plan.if_missing == IfMissing::Fail
            && self.plan.stream.is_none()
            && !self.plan.delete_on_close
            && matches!(self.origin, OpenOrigin::Name(..))
    }

    /// Whether creation is quick enough to run inline.
    fn creates_without_waiting(&self) -> bool {
        self.plan.allocation_bytes.unwrap_or(0) <= INLINE_CUT_BYTES_MAX
            && self.volume.vfs.creates_without_waiting()
    }

    /// Whether the share mode would block opens that NFS clients may reclaim after a restart.
    /// Reclaimed opens are assumed to deny nothing: that is unknown before they come, and hardly
    /// any client denies.
    fn blocks_reclaim(&self, opened: &OpenedNode) -> bool {
        let data = ShareMode(ShareMode::READ.0 | ShareMode::WRITE.0);
        matches!(self.origin, OpenOrigin::Path)
            && opened.attributes.kind == FileKind::File
            && self.plan.share.0 & data.0 != data.0
            && self.table.is_in_grace(&self.volume.vfs)
    }

    /// Whether the open discards the data of an existing file.
    fn replaces(&self) -> bool {
        matches!(self.plan.if_exists, IfExists::Overwrite | IfExists::Supersede)
    }
}
