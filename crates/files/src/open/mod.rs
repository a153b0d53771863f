//! Opening: resolve, authorize, acquire, apply.
//!
//! All branching is in [`Opening::once`] and [`Opening::open_existing`]; the
//! stages are straight. Undo is done by dropping a [`acquire::Ticket`]. A lost
//! race leads back to resolving, a bounded number of times.

mod acquire;
mod apply;
mod authorize;
mod made;
mod place;
mod resolve;
mod stream;

use crate::caching::{BreakWait, CacheGrant, CacheWish};
use crate::context::RequestContext;
use crate::directory_lease::ParentKey;
use crate::offload::{offload, offload_in_turn};
use crate::open_file::{OpenFile, OpenParts};
use crate::reparse::stands_for_other;
use crate::server_work::WANTED;
use crate::shown_link::with_link;
use crate::table::{Entered, Entry, NotEntered, Table};
use crate::volume::dos;
use crate::watch::{ChangeKind, Filter};
use crate::{CallHolder, Caller, ObjectOpen, OpenAt, RequestFiles, Volume, Workers};
use acl::{Access, Descriptor};
pub(crate) use acquire::Ticket;
use apply::reserve;
use grants::{CacheState, Caching, OpenId, Share};
use made::Made;
use place::Place;
use std::sync::Arc;
use vfs::{
    Attributes, Case, CreationMode, FileKind, FsError, OpenHow, Opened, RelPath, Result,
    StreamName, Wait, Wanted, XattrName,
};

/// Times that a race with another creator, remover or renamer is retried.
const RESOLVE_TRIES_MAX: u32 = 8;
/// Cutting a larger file to nothing may take long: a worker does it.
const INLINE_CUT_BYTES_MAX: u64 = 1024 * 1024;

/// What to do with a file that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// Refuse.
    Fail,
    /// Open it.
    Open,
    /// Open it and cut it to nothing; unless it is opened as POSIX has it, its streams and DOS
    /// attributes go, too.
    Overwrite,
    /// Replace it by an empty one.
    Supersede,
}

/// What to do if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMissing {
    /// Refuse.
    Fail,
    /// Make one.
    Create,
}

/// What the caller says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WishedKind {
    /// Either; a file if it is made.
    Any,
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// Whose customs an open follows, beside the share modes that all obey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    /// Names as the volume compares them. A name stays until its last open is
    /// closed, and what is in use keeps its place.
    Windows,
    /// Names byte for byte. A name goes when who removes it closes it, and
    /// another file takes its place, whoever of POSIX has it open. A symbolic
    /// link at the end of a path is not followed; DOS attributes do not
    /// forbid removal.
    Posix,
}

impl Semantics {
    /// How names are compared in a volume.
    #[must_use]
    pub fn case(self, volume: &Volume) -> Case {
        match self {
            Self::Windows => volume.options.case,
            Self::Posix => Case::Sensitive,
        }
    }
}

/// An open as it is asked for.
#[derive(Clone, Debug)]
pub struct OpenPlan {
    /// Where.
    pub path: RelPath,
    /// The named stream of it that is meant, if not the file itself.
    pub stream: Option<StreamName>,
    /// Rights wanted; generic ones and MAXIMUM_ALLOWED too.
    pub desired: Access,
    /// What is tolerated of others.
    pub share: Share,
    /// See [`IfExists`].
    pub if_exists: IfExists,
    /// See [`IfMissing`].
    pub if_missing: IfMissing,
    /// See [`WishedKind`].
    pub kind: WishedKind,
    /// The file vanishes when this open is closed.
    pub delete_on_close: bool,
    /// DOS attributes of what is made or overwritten.
    pub dos_bits: u32,
    /// Space to reserve for what is made or overwritten, in bytes.
    pub allocation_bytes: Option<u64>,
    /// Descriptor of what is made, self-relative.
    pub descriptor: Option<Vec<u8>>,
    /// Extended attributes of what is made or overwritten.
    pub xattrs: Vec<(XattrName, Vec<u8>)>,
    /// Open a symbolic link itself.
    pub no_follow: bool,
    /// What is made is not compressed, whatever its directory says.
    pub uncompressed: bool,
    /// What the client would like to keep to itself.
    pub caching: Option<CacheWish>,
    /// See [`Semantics`].
    pub semantics: Semantics,
    /// Permission bits of what is made; the volume's if none.
    pub mode: Option<NewMode>,
}

/// Permission bits of something new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewMode {
    /// They, where nothing is inherited.
    pub bits: u32,
    /// What the directory hands down is inherited, but nobody gets more by it than these
    /// bits let them have; nothing is inherited if none. RFC 8881 6.4.3, RFC 8275 4.
    pub inherits_within: Option<u32>,
}

impl NewMode {
    /// These bits, and nothing beside them.
    #[must_use]
    pub fn exactly(bits: u32) -> Self {
        Self { bits, inherits_within: None }
    }

    /// For the call that creates: a default list of the directory is inherited within the same bits
    /// as a stored descriptor.
    pub(crate) fn at_creation(self) -> CreationMode {
        // An umask is about permissions.
        let bits = self.bits | self.inherits_within.unwrap_or(0) & 0o777;
        CreationMode { bits, umask: bits & !self.bits }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenAction {
    /// It was there.
    Opened,
    /// It was made.
    Created,
    /// It was cut to nothing.
    Overwritten,
    /// It was replaced.
    Superseded,
}

/// A new open.
#[derive(Debug)]
pub struct OpenResult {
    /// The open.
    pub open: Arc<OpenFile>,
    /// What was done.
    pub action: OpenAction,
    /// Attributes after it.
    pub attributes: Attributes,
    /// What its client may keep to itself.
    pub caching: CacheState,
    /// To be dropped once the client has been told of that.
    pub granting: Option<CacheGrant>,
}

/// How far an open has come at once.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is mostly the large one")]
pub enum Begun {
    /// To its end.
    Opened(OpenResult),
    /// Another client has to give something back first, which may take long.
    Waits(WaitingOpen),
}

/// An open that waits for another client.
pub struct WaitingOpen {
    opening: Box<Opening>,
    wait: BreakWait,
    workers: Arc<dyn Workers>,
}

impl std::fmt::Debug for WaitingOpen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitingOpen").field("path", &self.opening.plan.path).finish_non_exhaustive()
    }
}

impl WaitingOpen {
    /// Waits, as often as it takes, and opens. Dropping the future withdraws it.
    ///
    /// # Errors
    /// As [`RequestFiles::open`].
    pub async fn opened(mut self) -> Result<OpenResult> {
        loop {
            self.wait.settled(&self.opening.context, &*self.workers).await?;
            match self.opening.run_on(self.workers).await? {
                Begun::Opened(result) => return Ok(result),
                Begun::Waits(waiting) => self = waiting,
            }
        }
    }
}

impl RequestFiles {
    /// Opens or makes a file or directory. What is in memory is opened at
    /// once; everything else on a worker.
    ///
    /// Dropping the future before it is done leaves nothing held; a file it
    /// made stays.
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
            Begun::Opened(result) => Ok(result),
            Begun::Waits(waiting) => waiting.opened().await,
        }
    }

    /// As [`RequestFiles::open`], but says so if it must wait for another client.
    ///
    /// # Errors
    /// As [`RequestFiles::open`].
    pub async fn begin_open(
        &self,
        volume: &Arc<Volume>,
        caller: &Arc<Caller>,
        plan: OpenPlan,
    ) -> Result<Begun> {
        // In one place: it is handed on several times.
        let opening = Box::new(Opening::new(self, volume, caller, plan)?);
        self.begin(opening).await
    }

    /// See [`RequestFiles::begin_open_object`].
    pub(crate) async fn begin_open_at(
        &self,
        caller: &Arc<Caller>,
        at: &OpenAt,
        plan: OpenPlan,
        with: ObjectOpen,
    ) -> Result<Begun> {
        let (OpenAt::Object(object) | OpenAt::Name(object, _)) = at;
        let opening = Opening::new(self, &object.volume, caller, plan)?;
        self.begin(Box::new(Opening { place: Place::of(at), with, ..opening })).await
    }

    async fn begin(&self, mut opening: Box<Opening>) -> Result<Begun> {
        let workers = self.workers.clone();
        match opening.once(Wait::Never) {
            Ok(Attempt::Opened(result)) => Ok(Begun::Opened(result)),
            Ok(Attempt::Breaking(wait)) => Ok(Begun::Waits(WaitingOpen { opening, wait, workers })),
            // Not in memory, or a race: from the start, where time may be taken.
            Ok(Attempt::Lost) | Err(FsError::WouldBlock) => opening.run_on(workers).await,
            Err(error) => Err(error),
        }
    }
}

/// How one way through the stages ended.
#[allow(clippy::large_enum_variant, reason = "it is mostly the large one, and moved once")]
enum Attempt {
    Opened(OpenResult),
    /// A race was lost: from the start.
    Lost,
    Breaking(BreakWait),
}

/// What the table said before a path was resolved.
struct Seen {
    epoch: Option<u64>,
    removals: u64,
}

impl Seen {
    /// Whether no rename was going on then, nor has begun since.
    fn is_still_so(&self, table: &Table) -> bool {
        self.epoch.is_some() && table.epoch() == self.epoch
    }
}

/// How a worker's tries ended.
#[allow(clippy::large_enum_variant, reason = "it is mostly the large one, and moved once")]
enum Ran {
    Opened(OpenResult),
    Breaking(Box<Opening>, BreakWait),
    /// Races were lost all the time.
    Lost(Box<Opening>),
}

/// Everything an open needs to know, on its way through the stages.
struct Opening {
    /// Whose request it is.
    context: RequestContext,
    /// Its calls on workers are charged to this holder.
    holder: CallHolder,
    table: Arc<Table>,
    volume: Arc<Volume>,
    caller: Arc<Caller>,
    plan: OpenPlan,
    id: OpenId,
    /// The rights wanted, generic ones replaced by what they mean.
    desired: Access,
    /// The descriptor in the plan.
    descriptor: Option<Descriptor>,
    /// Where the plan's path comes from.
    place: Place,
    /// It has looked where that is.
    was_aimed: bool,
    with: ObjectOpen,
    /// What it has made, and not entered yet.
    made: Option<Made>,
    /// It wants nothing but to remove the name, which the directory lets its caller do: what
    /// the file says of that does not matter.
    removes_by_directory: bool,
}

const WRITES: Access = Access(Access::WRITE_DATA.0 | Access::APPEND_DATA.0);
const READS: Access = Access(Access::READ_DATA.0 | Access::EXECUTE.0);

impl Opening {
    fn new(
        files: &RequestFiles,
        volume: &Arc<Volume>,
        caller: &Arc<Caller>,
        mut plan: OpenPlan,
    ) -> Result<Self> {
        if let Some(cache) = plan.caching.as_mut().filter(|_| volume.features().changed_unheard) {
            cache.wanted = Caching::NONE;
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
            place: Place::Path,
            was_aimed: false,
            with: ObjectOpen::default(),
            made: None,
            removes_by_directory: false,
        })
    }

    /// Goes through the stages on a worker.
    async fn run_on(self: Box<Self>, workers: Arc<dyn Workers>) -> Result<Begun> {
        let holder = self.holder.clone();
        let mut ran = offload(&*workers, &holder, move || self.run()).await?;
        if let Ran::Lost(opening) = ran {
            // Names change faster than we look: not while it is our turn.
            let turn = opening.table.rename_turns.clone().lock_owned().await;
            let run = move || {
                let _turn = turn;
                opening.run()
            };
            ran = offload_in_turn(&*workers, run).await?;
        }
        match ran {
            Ran::Opened(result) => Ok(Begun::Opened(result)),
            Ran::Breaking(opening, wait) => {
                Ok(Begun::Waits(WaitingOpen { opening, wait, workers }))
            }
            // Someone makes and removes faster than we look.
            Ran::Lost(_) => Err(FsError::ShareViolation),
        }
    }

    /// Goes through the stages until no race is lost.
    fn run(mut self: Box<Self>) -> Result<Ran> {
        for _ in 0..RESOLVE_TRIES_MAX {
            match self.once(Wait::Allowed)? {
                Attempt::Opened(result) => return Ok(Ran::Opened(result)),
                Attempt::Breaking(wait) => return Ok(Ran::Breaking(self, wait)),
                Attempt::Lost => {}
            }
        }
        Ok(Ran::Lost(self))
    }

    /// Goes through the stages once, from where the path is now.
    fn once(&mut self, wait: Wait) -> Result<Attempt> {
        self.aim()?;
        let makes = self.plan.if_missing == IfMissing::Create;
        self.volume.options.veto_names.check(&self.plan.path, makes)?;
        self.at_path(wait)
    }

    /// Goes through the stages with the path as it is.
    fn at_path(&mut self, wait: Wait) -> Result<Attempt> {
        if self.plan.stream.is_some() {
            self.check_streams(wait)?;
        }
        let seen = Seen { epoch: self.table.epoch(), removals: self.table.removals() };
        let result = match self.made.take() {
            Some(made) => self.enter_made(made, &seen),
            None => self.find_or_make(wait, &seen),
        };
        match result {
            // What was refused may have been another file.
            Err(_) if !seen.is_still_so(&self.table) || self.has_moved() => Ok(Attempt::Lost),
            other => other,
        }
    }

    fn find_or_make(&mut self, wait: Wait, seen: &Seen) -> Result<Attempt> {
        // What must not be there is hardly ever there: not looked for, it costs one call less.
        if self.plan.if_exists == IfExists::Fail && self.may_be_new(wait) {
            match self.create_unseen(seen) {
                Err(FsError::WouldBlock) => {}
                other => return other,
            }
        }
        self.removes_by_directory =
            self.is_removal() && self.parent_lets_delete(None, wait) == Ok(true);
        let found = match self.resolve(wait) {
            Err(FsError::NotFound) if self.plan.if_missing == IfMissing::Create => None,
            Err(FsError::WouldBlock) if wait == Wait::Never && self.may_be_new(wait) => {
                return self.create_unseen(seen);
            }
            other => Some(self.served(other?)?),
        };
        match self.check_key(found.as_ref()) {
            // Someone else was faster, under this very key.
            Err(_) if found.is_none() && self.is_named_by_key() => return Ok(Attempt::Lost),
            other => other?,
        }
        match (found, &self.plan.stream) {
            (Some(found), None) => self.open_existing(found, wait, seen),
            (Some(found), Some(name)) => self.open_stream(found, name, seen),
            // However fast it was missed, making it may wait for a journal.
            (None, None) if wait == Wait::Never && !self.creates_at_once() => {
                Err(FsError::WouldBlock)
            }
            (None, None) => match self.create(seen) {
                Err(FsError::AlreadyExists) if self.plan.if_exists != IfExists::Fail => {
                    self.found_taken(wait)
                }
                // Made by us: looking for it again would find it taken.
                other => other,
            },
            (None, Some(_)) => match self.create(seen) {
                // The file is there now, which says nothing of the stream.
                Err(FsError::AlreadyExists) => self.found_taken(wait),
                other => other,
            },
        }
    }

    /// A name that was not found cannot be created: another caller was faster, or it is a symbolic
    /// link that leads to nothing, which no further try opens.
    fn found_taken(&self, wait: Wait) -> Result<Attempt> {
        let how = OpenHow { case: self.case(), ..OpenHow::looking(wait) };
        let look = |no_follow| {
            self.volume.vfs.open(self.user(), &self.plan.path, OpenHow { no_follow, ..how })
        };
        match look(true) {
            Ok(found) if found.attributes.kind == FileKind::Symlink => {}
            Err(FsError::WouldBlock) => return Err(FsError::WouldBlock),
            _ => return Ok(Attempt::Lost),
        }
        match look(false) {
            Err(error @ (FsError::NotFound | FsError::WouldBlock)) => Err(error),
            _ => Ok(Attempt::Lost),
        }
    }

    /// Whether the key's file is open by the name that is asked for.
    fn is_named_by_key(&self) -> bool {
        let key = self.plan.caching.as_ref().and_then(|cache| cache.key);
        let named = key.and_then(|key| self.table.keys.find(key.key));
        named.is_some_and(|named| named.has_name(&self.volume.vfs, &self.plan.path))
    }

    /// Refuses a key that names another file: before anything is made.
    fn check_key(&self, found: Option<&resolve::Found>) -> Result<()> {
        let key = self.plan.caching.as_ref().and_then(|cache| cache.key);
        let Some(named) = key.and_then(|key| self.table.keys.find(key.key)) else { return Ok(()) };
        let is_same = found.is_some_and(|found| found.opened.attributes.key == named.key)
            && named.is_stream() == self.plan.stream.is_some();
        if is_same { Ok(()) } else { Err(FsError::InvalidParameter) }
    }

    /// Whether the path may lead elsewhere by now. Asked once the open is
    /// entered, and before anything is done to the file, while the open can
    /// still be withdrawn: from then on renames and removals see the open.
    fn lost_its_path(&self, seen: &Seen, opened: &Opened) -> Result<bool> {
        if !seen.is_still_so(&self.table) || self.has_moved() {
            return Ok(true);
        }
        self.lost_its_name(seen, opened)
    }

    /// Whether the name that led to the node was removed before the open was
    /// entered: nobody knew of it then.
    fn lost_its_name(&self, seen: &Seen, opened: &Opened) -> Result<bool> {
        if self.table.removals() == seen.removals {
            return Ok(false);
        }
        let links = opened.node.attributes(Wanted::default())?.links;
        // Names within a directory count as links of it on some file systems.
        let is_directory = opened.attributes.kind == FileKind::Directory;
        Ok(if is_directory { links == 0 } else { links < opened.attributes.links })
    }

    fn open_existing(&self, found: resolve::Found, wait: Wait, seen: &Seen) -> Result<Attempt> {
        let resolve::Found { opened, .. } = &found;
        let is_own = self.plan.if_exists == IfExists::Fail;
        if is_own && !self.was_made_for_this(opened) {
            return Err(FsError::AlreadyExists);
        }
        self.check_kind(opened)?;
        // Looking is free: older Linux clients ask so for what they list.
        let uses = self.desired.intersects(READS | WRITES) || self.replaces();
        if uses && !self.plan.no_follow && stands_for_other(&*opened.node, &opened.attributes) {
            return Err(FsError::ReparsePoint);
        }
        let granted = self.authorize(&found, wait)?;
        let found = if is_own { self.found_to_use(found, granted, wait)? } else { found };
        let resolve::Found { opened, .. } = &found;
        self.check_bits(opened, granted, wait)?;
        if self.replaces()
            && wait == Wait::Never
            && opened.attributes.size_bytes > INLINE_CUT_BYTES_MAX
        {
            return Err(FsError::WouldBlock);
        }
        if self.is_in_the_way_of_who_comes_back(opened) {
            return Err(FsError::ShareViolation);
        }
        let entered = self.acquire(opened, granted);
        if self.lost_its_path(seen, opened)? {
            return Ok(Attempt::Lost);
        }
        let ticket = match entered {
            Ok(ticket) => ticket,
            Err(NotEntered::Breaking(wait)) => return Ok(Attempt::Breaking(wait)),
            // Who is in the way may be away, and is not any more.
            Err(NotEntered::Refused(FsError::ShareViolation))
                if self.table.let_go(opened.attributes.key) =>
            {
                return Ok(Attempt::Lost);
            }
            Err(NotEntered::Refused(error)) => return Err(error),
        };
        let mut attributes = opened.attributes;
        if self.replaces() {
            if self.is_posix() && self.plan.if_exists == IfExists::Overwrite {
                self.cut(opened)?;
            } else {
                // Its streams go with what was in it.
                ticket.lose_streams()?;
                self.overwrite(opened)?;
            }
            attributes = opened.node.attributes(WANTED)?;
            let what = Filter::ATTRIBUTES | Filter::SIZE | Filter::LAST_WRITE;
            self.report(ChangeKind::Modified, what, &opened.path);
        }
        let action = match self.plan.if_exists {
            IfExists::Overwrite => OpenAction::Overwritten,
            IfExists::Supersede => OpenAction::Superseded,
            IfExists::Open => OpenAction::Opened,
            // Found again by who made it.
            IfExists::Fail => OpenAction::Created,
        };
        let security = found.security;
        let result = self.finish(ticket, found.opened, attributes, granted, action);
        result.open.learn(&attributes, security.filter(|_| !self.replaces()));
        Ok(Attempt::Opened(result))
    }

    fn entry<'a>(&'a self, opened: &'a Opened) -> Entry<'a> {
        let attributes = &opened.attributes;
        let is_directory = attributes.kind == FileKind::Directory;
        Entry {
            key: attributes.key,
            is_directory,
            volume: &self.volume,
            path: &opened.path,
            size_bytes: attributes.size_bytes,
            only_link: is_directory || attributes.links <= 1,
        }
    }

    fn acquire(&self, opened: &Opened, granted: Access) -> std::result::Result<Ticket, NotEntered> {
        // Cutting a file to nothing is a write, whatever the open is for.
        let once = if self.replaces() { Access::WRITE_DATA } else { Access::NONE };
        let cache = self.cache_of(&opened.attributes);
        Ticket::acquire(self, &self.entry(opened), granted, once, cache.as_ref())
    }

    /// What the client would like to keep of such a node: directories have
    /// leases only, and nothing to keep back of them.
    fn cache_of(&self, attributes: &Attributes) -> Option<CacheWish> {
        let delegated = || CacheWish::of_delegations(self.with.holder.clone()?, attributes.key);
        let cache = self.plan.caching.clone().or_else(delegated)?;
        match attributes.kind {
            FileKind::File => Some(cache),
            FileKind::Directory if cache.key.is_some_and(|key| key.of_directories) => {
                Some(CacheWish { wanted: cache.wanted - Caching::WRITE, ..cache })
            }
            _ => None,
        }
    }

    fn finish(
        &self,
        ticket: Ticket,
        opened: Opened,
        attributes: Attributes,
        granted: Access,
        action: OpenAction,
    ) -> OpenResult {
        let (Entered { state, name, key, caching, granting }, hold) = ticket.keep(&self.context);
        let lacks_archive = attributes.dos.bits.is_some_and(|bits| bits & dos::ARCHIVE == 0);
        if lacks_archive && attributes.kind == FileKind::File {
            state.note_archive(true);
        }
        let attributes = match self.is_posix() {
            false => with_link(&self.volume, &self.caller, &opened.path, attributes),
            true => attributes,
        };
        let attributes = name.shown(attributes);
        let open = Arc::new(OpenFile::new(OpenParts {
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
            of_object: !matches!(self.place, Place::Path),
            table: self.table.clone(),
        }));
        OpenResult { open, action, attributes, caching, granting }
    }

    fn report(&self, kind: ChangeKind, what: Filter, path: &RelPath) {
        let (vfs, watches) = (&self.volume.vfs, &self.table.watches);
        self.table.break_directory_of(&self.context, vfs, &self.caller, path, self.parent_key());
        watches.report(&self.volume.vfs, Some(&self.caller), what, &[(kind, path)]);
    }

    fn report_streams(&self, what: Filter, path: &RelPath, changes: &[(ChangeKind, &StreamName)]) {
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

    /// By which the client keeps the directory that the file is in.
    fn parent_key(&self) -> Option<ParentKey> {
        self.plan.caching.as_ref()?.key?.parent
    }

    /// Whether what is not in memory may be tried to be made: most of what a client asks for to be
    /// made is not there, of which the system knows nothing before it has looked into the
    /// directory. Names of any case are looked for in another way. Whoever has no time tries only
    /// while that is quick.
    fn may_be_new(&self, wait: Wait) -> bool {
        self.plan.if_missing == IfMissing::Create
            && self.plan.stream.is_none()
            && self.is_posix()
            && (wait == Wait::Allowed || self.creates_at_once())
    }

    /// Whether it is made to remove a name as POSIX does, and for nothing else.
    fn is_removal(&self) -> bool {
        self.is_posix()
            && self.desired == Access::DELETE
            && self.plan.if_exists == IfExists::Open
            && self.plan.if_missing == IfMissing::Fail
            && self.plan.stream.is_none()
            && !self.plan.delete_on_close
            && matches!(self.place, Place::In(..))
    }

    /// Whether making it takes no longer than others can wait for.
    fn creates_at_once(&self) -> bool {
        self.plan.allocation_bytes.unwrap_or(0) <= INLINE_CUT_BYTES_MAX
            && self.volume.vfs.creates_at_once()
    }

    /// Whether it would keep clients of before a restart from having their opens back, which
    /// come by handles. They deny nothing to others themselves: that is not known before they
    /// come, and hardly any client does it.
    fn is_in_the_way_of_who_comes_back(&self, opened: &Opened) -> bool {
        let data = Share(Share::READ.0 | Share::WRITE.0);
        matches!(self.place, Place::Path)
            && opened.attributes.kind == FileKind::File
            && self.plan.share.0 & data.0 != data.0
            && self.table.is_awaited(&self.volume.vfs)
    }

    /// Whether an existing file loses what is in it.
    fn replaces(&self) -> bool {
        matches!(self.plan.if_exists, IfExists::Overwrite | IfExists::Supersede)
    }
}
