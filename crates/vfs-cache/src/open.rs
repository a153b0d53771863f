//! Opens: from the cache, or by the backend, whose answer is cached.

use crate::case_lookup::{CaseLookup, has_no_case};
use crate::created_names::CreatedFile;
use crate::path_cache::{CachedOpen, ParentState, PathFacts};
use crate::state::{CachedName, MetadataCacheState, parent_of, split};
use crate::tree::{CachedVfs, StateGuard};
use std::sync::Arc;
use vfs::{
    Actor, ArrivalOrder, AttributeRequest, Attributes, Case, ChildName, DosInfo, FileKey, FileKind,
    FsError, LocatedNode, Node, NodeHandle, OpenHow, OpenWithSecurity, OpenedNode, RelPath, Result,
    ServerWork, Timestamp, Wait,
};

/// Age of a change, in nanoseconds, after which a further change gets another time: file systems
/// record times in ticks of up to 10 ms.
const TIME_STEP_NANOS: i128 = 50_000_000;
/// Case corrections in one open: a name that changes more often is left to the backend.
const CASE_CORRECTIONS_MAX: usize = 4;

/// Outcome of the lookup in the cache.
enum CacheLookup {
    /// The name is absent, and the caller may know that.
    Absent,
    /// An open node is cached.
    Open(RelPath, Arc<dyn Node>, PathFacts),
    /// An open node is cached, to be reopened for writing.
    Reopen(RelPath, Arc<dyn Node>, PathFacts),
    /// The path refers to a file that was just created.
    Created(RelPath, CreatedFile),
    /// The backend must open this path.
    Backend(RelPath, PriorKnowledge),
}

/// Context for the backend's answer.
#[derive(Default)]
struct PriorKnowledge {
    /// Facts from an earlier lookup of the path.
    facts: Option<PathFacts>,
    /// The answer should be cached.
    is_wanted: bool,
    /// The directories of the path should be followed for that.
    is_to_follow: bool,
    /// Pending lookup; its result is valid only without an intervening change.
    look: Option<u64>,
    /// The caller is known to have search permission on the directory.
    is_searcher: bool,
    /// Cached open of the directory, if the caller needs no access to data.
    directory: Option<Arc<dyn Node>>,
    /// The name exists with this spelling.
    is_there: bool,
}

impl CachedVfs {
    /// Opens a path in its spelling or another case, from the cache first.
    ///
    /// # Errors
    /// As [`vfs::Vfs::open`].
    pub(crate) fn open_any(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
    ) -> Result<OpenWithSecurity> {
        let any_case = how.case == Case::Insensitive;
        let exact = OpenHow { case: Case::Sensitive, ..how };
        let mut state = self.lock_state();
        if let Some(prior) = self.prefer_backend(&mut state, actor, path, &how) {
            drop(state);
            match self.open_uncached(actor, path, exact, prior) {
                // The path is gone or not in memory: the cache is consulted after all.
                Err(FsError::NotFound | FsError::PathNotFound | FsError::WouldBlock) => {}
                other => return other,
            }
            state = self.lock_state();
        }
        let (path, prior) =
            match self.look_up_cached(self.drain_for(state, actor.order()), actor, path, &how) {
                CacheLookup::Absent => return Err(FsError::NotFound),
                CacheLookup::Backend(path, prior) => (path, prior),
                CacheLookup::Open(path, node, facts) => match self
                    .open_cached(&path, node, &facts, &how)
                {
                    Some(known) => return Ok(known),
                    None => (path, PriorKnowledge { is_wanted: true, ..PriorKnowledge::default() }),
                },
                CacheLookup::Created(path, made) => {
                    match self.open_created(actor, &path, &made, how) {
                        Some(known) => return Ok(known),
                        None => (path, PriorKnowledge::default()),
                    }
                }
                CacheLookup::Reopen(path, node, facts) => {
                    match self.reopen(actor, &path, &node, facts, how) {
                        Some(known) => return Ok(known),
                        None => (path, PriorKnowledge::default()),
                    }
                }
            };
        let is_there = prior.is_there;
        match self.open_and_cache(actor, &path, exact, prior) {
            // The exact name exists, so no other case is meant.
            Err(FsError::WouldBlock) if is_there => Err(FsError::WouldBlock),
            Err(error @ (FsError::NotFound | FsError::PathNotFound | FsError::WouldBlock))
                if any_case =>
            {
                self.open_by_case(actor, &path, how, error)
            }
            other => other,
        }
    }

    /// Opens a path in exactly this spelling.
    ///
    /// # Errors
    /// As [`vfs::Vfs::open`].
    pub(crate) fn open_exact(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
    ) -> Result<OpenWithSecurity> {
        self.open_any(actor, path, OpenHow { case: Case::Sensitive, ..how })
    }

    /// Opens a path whose exact spelling was not found, or not without waiting.
    fn open_by_case(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
        first: FsError,
    ) -> Result<OpenWithSecurity> {
        if has_no_case(path) {
            return Err(first);
        }
        let exact = OpenHow { case: Case::Sensitive, ..how };
        match self.find_stored_path(actor, path, how.wait)? {
            // The caller's search permission is unknown.
            CaseLookup::Missing(_) if first == FsError::WouldBlock => Err(first),
            CaseLookup::Missing(error) => Err(error),
            CaseLookup::Absent(stored) => self.open_exact(actor, &stored, exact),
            CaseLookup::Unknown => self.open_by_backend(actor, path, how),
            CaseLookup::Stored(stored) => match self.open_exact(actor, &stored, exact) {
                // The name has changed since; the backend finds the current one.
                Err(FsError::NotFound | FsError::PathNotFound) if stored != *path => {
                    self.open_by_backend(actor, path, how)
                }
                other => other,
            },
        }
    }

    /// Context for a path that the backend should open at once. A drain of the feed costs about as
    /// much as a path walk on a fast disk. The cache saves a writer of existing files at most one
    /// system call, and a reader of rarely used files as well. The decision is a guess and affects
    /// only which source is asked first.
    fn prefer_backend(
        &self,
        state: &mut MetadataCacheState,
        actor: Actor<'_>,
        path: &RelPath,
        how: &OpenHow,
    ) -> Option<PriorKnowledge> {
        if self.inner.features().always_waits {
            return None;
        }
        let at = path.as_bytes();
        // Cached facts are useful, and repeated paths should be cached.
        if !how.write && (state.paths.facts(at).is_some() || state.paths.is_repeated(at)) {
            return None;
        }
        let parent_state = state.paths.parent_state(parent_of(path), actor.effective_identity());
        // Files that are read mostly exist; a lookup often precedes a create.
        let is_better = if how.read && !how.write {
            parent_state.directory.is_some() && parent_state.is_searcher
        } else {
            matches!(state.cached_name(parent_state, path, false), CachedName::Exact)
        };
        if !is_better {
            return None;
        }
        self.counters.handles.missed();
        // For a directory the feed would have to be drained first.
        let facts = state.paths.facts(at);
        let facts = facts.filter(|facts| facts.attributes.kind == FileKind::File).cloned();
        Some(PriorKnowledge { facts, ..PriorKnowledge::default() })
    }

    /// Looks up a path in the whole cache under one lock.
    fn look_up_cached(
        &self,
        mut state: StateGuard<'_>,
        actor: Actor<'_>,
        path: &RelPath,
        how: &OpenHow,
    ) -> CacheLookup {
        let any_case = how.case == Case::Insensitive;
        let parent = parent_of(path);
        let parent_state = state.paths.parent_state(parent, actor.effective_identity());
        let (mut path, mut is_there) = (path.clone(), false);
        // Writing through an open node costs more than a path walk in memory.
        let is_open_useful = !how.write || self.inner.features().always_waits;
        for _ in 0..CASE_CORRECTIONS_MAX {
            // A writer gets its own descriptor.
            let reads = how.read && !how.write;
            if is_open_useful
                && let Some((node, facts)) =
                    state.paths.find(path.as_bytes(), actor.effective_identity(), reads)
            {
                if let Some(key) = parent_state.directory {
                    state.directories.touch(key);
                }
                let first = if how.write { CacheLookup::Reopen } else { CacheLookup::Open };
                return first(path, node, facts);
            }
            if parent_state.is_searcher
                && let Some(made) = state.retained_created(&path, actor.effective_identity())
            {
                return CacheLookup::Created(path, made);
            }
            match state.cached_name(parent_state, &path, any_case) {
                CachedName::Absent => {
                    self.counters.names.hit();
                    return CacheLookup::Absent;
                }
                CachedName::Spelt(stored) => path = stored,
                CachedName::Exact => {
                    is_there = true;
                    break;
                }
                CachedName::Unknown => break,
            }
        }
        self.counters.handles.missed();
        let facts = state.paths.facts(path.as_bytes()).cloned();
        let is_wanted = (is_open_useful || facts.is_none())
            && state.paths.is_repeated(path.as_bytes())
            && state.paths.is_worth_caching();
        let ParentState { directory, is_searcher } = parent_state;
        let looks = is_searcher && !how.read && !how.write;
        let kept =
            looks.then(|| state.paths.find(parent, actor.effective_identity(), false)).flatten();
        let is_followed = directory.is_some();
        let is_to_follow = !is_followed && state.paths.is_repeated(parent);
        let learns = is_wanted || !is_searcher;
        let look = (is_followed && learns).then(|| state.paths.begin_lookup(path.as_bytes()));
        drop(state);
        let directory = kept.map(|(node, _)| node);
        let prior = PriorKnowledge {
            facts,
            is_wanted,
            is_to_follow,
            look,
            is_searcher,
            directory,
            is_there,
        };
        CacheLookup::Backend(path, prior)
    }

    /// Opens a cached node, unless it has changed.
    fn open_cached(
        &self,
        path: &RelPath,
        node: Arc<dyn Node>,
        facts: &PathFacts,
        how: &OpenHow,
    ) -> Option<OpenWithSecurity> {
        let asks_dos = how.wanted.dos.filter(|_| !facts.has_dos);
        match node.attributes(AttributeRequest { dos: asks_dos }) {
            Ok(attributes) if facts.are_of(&attributes) => {
                self.counters.handles.hit();
                let was_asked = how.wanted.dos.is_some() && facts.has_dos;
                let of = if was_asked { &facts.attributes } else { &attributes };
                let Attributes { dos, set_changed, stored, .. } = *of;
                let attributes = Attributes { dos, set_changed, stored, ..attributes };
                Some(known(OpenedNode { node, attributes, path: path.clone() }, facts))
            }
            _ => {
                self.lock_state().paths.drop_open(path.as_bytes(), &node);
                self.counters.handles.missed();
                None
            }
        }
    }

    /// Reopens a cached node for writing, by no path. None if the backend should open the path.
    fn reopen(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        node: &Arc<dyn Node>,
        facts: PathFacts,
        how: OpenHow,
    ) -> Option<OpenWithSecurity> {
        let wanted = AttributeRequest { dos: how.wanted.dos.filter(|_| !facts.has_dos) };
        let opened = self.inner.open_node(actor, &**node, OpenHow { wanted, ..how }).ok()?;
        if opened.attributes.key != facts.attributes.key || opened.attributes.links == 0 {
            self.lock_state().paths.drop_open(path.as_bytes(), node);
            return None;
        }
        self.counters.handles.hit();
        let known = OpenWithSecurity::from(OpenedNode { path: path.clone(), ..opened });
        self.with_facts(path, how, Some(facts), known).ok()
    }

    /// A cached directory with its permissions, without a system call.
    pub(crate) fn cached_directory(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
    ) -> Option<OpenWithSecurity> {
        let (node, facts) =
            self.state_for(actor.order()).cached_directory(actor.effective_identity(), path)?;
        self.counters.handles.hit();
        let dos = DosInfo::default();
        let attributes = Attributes { dos, set_changed: None, ..facts.attributes };
        Some(known(OpenedNode { node, attributes, path: path.clone() }, &facts))
    }

    /// Opens a path by the backend, and caches the answer.
    fn open_and_cache(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
        mut prior: PriorKnowledge,
    ) -> Result<OpenWithSecurity> {
        let above = || path.parent().unwrap_or_default();
        if prior.is_to_follow && self.follow_path(actor.order(), &above(), how.wait) {
            prior.look = Some(self.state_for(actor.order()).paths.begin_lookup(path.as_bytes()));
        }
        let Some(look) = prior.look else {
            return self.open_uncached(actor, path, how, prior);
        };
        // The permission that admitted the caller may be older than the attributes.
        let began = (self.clock.0)();
        let result = self.lookup_or_open(actor, path, OpenHow { no_follow: true, ..how }, &prior);
        let result = result.map(|known| known.opened);
        let kind = result.as_ref().ok().map(|opened| opened.attributes.kind);
        let is_settled = |opened: &OpenedNode| is_settled(&opened.attributes, began);
        let can_be_kept = match kind {
            Some(FileKind::File) => prior.is_wanted && result.as_ref().is_ok_and(is_settled),
            Some(FileKind::Directory) => {
                prior.is_wanted && self.follow_path(actor.order(), path, how.wait)
            }
            _ => false,
        };
        let open_to_cache = result.as_ref().ok().filter(|_| can_be_kept);
        let open_to_cache =
            open_to_cache.and_then(|opened| self.open_to_cache(actor, opened, &how));
        // Changes meanwhile decide whether the answer may be cached.
        let mut state = if can_be_kept || !prior.is_searcher {
            self.drained_state()
        } else {
            self.lock_state()
        };
        // Under the same lock as the insertion, so that no event can intervene.
        let is_so = state.paths.end_lookup(look);
        let was_let_through = matches!(result, Ok(_) | Err(FsError::NotFound));
        if let (Some((parent, _)), true, true) = (split(path), is_so, was_let_through) {
            state.paths.note_searcher(parent, actor.effective_identity());
        }
        if kind == Some(FileKind::Symlink) && !how.no_follow {
            drop(state);
            return self.open_by_backend(actor, path, how);
        }
        let opened = result?;
        let facts = (can_be_kept && is_so)
            .then(|| self.cache_facts(&mut state, actor, &opened, &how, open_to_cache));
        drop(state);
        let security = facts.map(|facts| facts.security);
        Ok(OpenWithSecurity { opened, security })
    }

    /// Opens a path that is not to be cached. Cached facts spare system calls if they are of the
    /// same time.
    fn open_uncached(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
        prior: PriorKnowledge,
    ) -> Result<OpenWithSecurity> {
        let facts = prior.facts.as_ref();
        let is_spared = how.wanted.dos.is_some() && facts.is_some_and(|facts| facts.has_dos);
        let wanted = AttributeRequest { dos: how.wanted.dos.filter(|_| !is_spared) };
        let known = self.lookup_or_open(actor, path, OpenHow { wanted, ..how }, &prior)?;
        self.with_facts(path, how, prior.facts, known)
    }

    /// Opens a path by the backend. If the caller only looks and has search permission on the
    /// directory, it looks the name up there.
    fn lookup_or_open(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
        prior: &PriorKnowledge,
    ) -> Result<OpenWithSecurity> {
        let child = prior.directory.as_ref().map(|node| ChildName { directory: &**node, path });
        match child.and_then(|child| self.inner.lookup_child(actor, child, how)) {
            Some(looked) => looked.map(OpenWithSecurity::from),
            None => self.open_by_backend(actor, path, how),
        }
    }

    /// Adds cached facts to an opened node, if they are of the same time. Otherwise reads the DOS
    /// attributes that the caller omitted.
    fn with_facts(
        &self,
        path: &RelPath,
        how: OpenHow,
        facts: Option<PathFacts>,
        mut known: OpenWithSecurity,
    ) -> Result<OpenWithSecurity> {
        let is_spared =
            how.wanted.dos.is_some() && facts.as_ref().is_some_and(|facts| facts.has_dos);
        let opened = &mut known.opened;
        match facts {
            Some(facts) if facts.are_of(&opened.attributes) => {
                self.counters.security.hit();
                if is_spared {
                    opened.attributes.dos = facts.attributes.dos;
                    opened.attributes.set_changed = facts.attributes.set_changed;
                    opened.attributes.stored = facts.attributes.stored;
                }
                known.security = Some(facts.security);
            }
            _ if is_spared => {
                opened.attributes = opened.node.attributes(how.wanted)?;
                self.lock_state().paths.note_changed(path.as_bytes());
            }
            _ => {}
        }
        Ok(known)
    }

    /// The open to cache. An open for writing is never cached, since it would block execution of
    /// the file (ETXTBSY). Instead the node is reopened without access to data, if that is
    /// worthwhile.
    fn open_to_cache(
        &self,
        actor: Actor<'_>,
        opened: &OpenedNode,
        how: &OpenHow,
    ) -> Option<(Arc<dyn Node>, bool)> {
        if !how.write {
            return Some((opened.node.clone(), how.read));
        }
        if !self.inner.features().always_waits {
            return None;
        }
        let look =
            OpenHow { read: false, write: false, wanted: AttributeRequest::default(), ..*how };
        self.inner.open_node(actor, &*opened.node, look).ok().map(|looked| (looked.node, false))
    }

    /// Caches the facts of an opened node, and the open.
    fn cache_facts(
        &self,
        state: &mut MetadataCacheState,
        actor: Actor<'_>,
        OpenedNode { attributes, path, .. }: &OpenedNode,
        how: &OpenHow,
        open_to_cache: Option<(Arc<dyn Node>, bool)>,
    ) -> PathFacts {
        let at = path.as_bytes();
        let facts = match state.paths.facts(at) {
            Some(facts) if facts.are_of(attributes) => {
                self.counters.security.hit();
                let has_dos = how.wanted.dos.is_some() || facts.has_dos;
                let of = if how.wanted.dos.is_some() { attributes } else { &facts.attributes };
                let Attributes { dos, set_changed, stored, .. } = *of;
                let attributes = Attributes { dos, set_changed, stored, ..*attributes };
                PathFacts { attributes, has_dos, security: facts.security.clone() }
            }
            _ => {
                self.counters.security.missed();
                let security = state.paths.new_security();
                PathFacts { attributes: *attributes, has_dos: how.wanted.dos.is_some(), security }
            }
        };
        state.paths.put_facts(at, facts.clone());
        if let Some((node, reads)) = open_to_cache {
            state.paths.cache_open(
                at,
                CachedOpen { user: actor.effective_identity().clone(), reads, node },
            );
        }
        state.settle();
        facts
    }

    /// Caches the node of a handle, from the second request on, if the feed reports when its path
    /// leads elsewhere. `event_count`: [`MetadataCacheState::event_count`] before the lookup.
    pub(crate) fn cache_handle(
        &self,
        actor: Actor<'_>,
        handle: &NodeHandle,
        LocatedNode { node, path, .. }: &LocatedNode,
        event_count: u64,
    ) {
        if path.is_nameless() || !self.lock_state().paths.is_repeated(path.as_bytes()) {
            return;
        }
        let above = path.parent().unwrap_or_default();
        let mut state = self.drained_state();
        if state.event_count() == event_count && state.paths.directory(above.as_bytes()).is_some() {
            // The directory was followed before, and no event has intervened.
            state.paths.cache_handle(path.as_bytes(), handle, node);
            return state.settle();
        }
        drop(state);
        let order = ArrivalOrder::next();
        if !self.follow_path(order, &above, Wait::Allowed) {
            return;
        }
        let look = self.state_for(order).paths.begin_lookup(path.as_bytes());
        // The node was found before the lookup began.
        let now = self.inner.need_handles().and_then(|handles| handles.path_of(actor, &**node));
        let mut state = self.drained_state();
        if state.paths.end_lookup(look) && now.as_ref() == Ok(path) {
            state.paths.cache_handle(path.as_bytes(), handle, node);
            state.settle();
        }
    }

    /// Follows the directory at `path` and all above it. Returns whether they are followed and none
    /// is a symbolic link.
    fn follow_path(&self, order: ArrivalOrder, path: &RelPath, wait: Wait) -> bool {
        if self.state_for(order).paths.directory(path.as_bytes()).is_some() {
            return true;
        }
        let above = path.parent();
        if above.is_some_and(|parent| !self.follow_path(order, &parent, wait)) {
            return false;
        }
        let look = self.state_for(order).paths.begin_lookup(path.as_bytes());
        let how = OpenHow::looking(wait);
        let opened = self.inner.open(Actor::server(ServerWork::FillCache), path, how);
        self.finish_follow(path, look, opened)
    }

    fn finish_follow(&self, path: &RelPath, look: u64, opened: Result<OpenedNode>) -> bool {
        let mut state = self.drained_state();
        // Ended whatever the outcome.
        let is_so = state.paths.end_lookup(look);
        let Ok(OpenedNode { node, attributes, .. }) = opened else { return false };
        if !is_so || attributes.kind != FileKind::Directory {
            return false;
        }
        if !self.follow(&mut state, attributes.key, &node)
            || !state.directories.set_path(attributes.key, path.as_bytes())
        {
            return false;
        }
        state.paths.put_directory(path.as_bytes(), attributes.key);
        state.settle();
        let is_kept = state.paths.directory(path.as_bytes()).is_some();
        if !is_kept {
            state.directories.clear_path(attributes.key);
        }
        is_kept
    }

    /// Follows a directory, unless it is followed already.
    pub(crate) fn follow(
        &self,
        state: &mut MetadataCacheState,
        key: FileKey,
        node: &Arc<dyn Node>,
    ) -> bool {
        if state.directories.follows(key) {
            return true;
        }
        let Some(feed) = self.feed() else { return false };
        match feed.follow(ServerWork::Watch, &**node) {
            Ok(follow) => {
                state.directories.handle_followed(key, follow);
                state.settle();
                true
            }
            Err(error) => {
                tracing::debug!(%error, "cannot watch a directory: its names are not cached");
                false
            }
        }
    }
}

/// Whether a change after `began` would show a different time.
fn is_settled(attributes: &Attributes, began: Timestamp) -> bool {
    began.0 - attributes.changed.0 >= TIME_STEP_NANOS
}

fn known(opened: OpenedNode, facts: &PathFacts) -> OpenWithSecurity {
    OpenWithSecurity { opened, security: Some(facts.security.clone()) }
}
