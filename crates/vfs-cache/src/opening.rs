//! Opening: from what is kept, or by the backend, keeping what that tells.

use crate::places::{Facts, Kept, Way};
use crate::recent::Made;
use crate::state::{Foreknown, State, parent_of, split};
use crate::tree::{CachedVfs, Fresh};
use std::sync::Arc;
use vfs::{
    Actor, ArrivalOrder, AttributeRequest, Attributes, Case, ChildName, DosInfo, FileKey, FileKind,
    FsError, LocatedNode, Node, NodeHandle, OpenHow, OpenWithSecurity, OpenedNode, RelPath, Result,
    ServerWork, Timestamp, Wait,
};

/// How long ago a file must have been changed, in nanoseconds, so that another
/// change would show another time: file systems tell time in steps of up to 10 ms.
const TIME_STEP_NANOS: i128 = 50_000_000;
/// Respellings that one open follows: a name that changes as often is left to the backend.
const RESPELLINGS_MAX: usize = 4;

/// What is known before the backend is asked.
enum First {
    /// It is not there, and the caller may know that.
    Absent,
    /// This node is kept.
    Kept(RelPath, Arc<dyn Node>, Facts),
    /// This node is kept, and is to be opened for writing.
    Reopen(RelPath, Arc<dyn Node>, Facts),
    /// This was made by that path a moment ago.
    Made(RelPath, Made),
    /// The backend has to be asked for this path.
    Ask(RelPath, Prior),
}

/// What to make of the backend's answer.
#[derive(Default)]
struct Prior {
    /// Known of what the path led to when it was looked at before.
    facts: Option<Facts>,
    /// The answer is worth keeping.
    is_wanted: bool,
    /// The directories that it leads through are to be followed for that.
    is_to_follow: bool,
    /// What became known is known for sure only if nothing comes in between.
    look: Option<u64>,
    /// The caller is known to be let through the directory.
    is_searcher: bool,
    /// That directory, for who only looks, if it is kept.
    directory: Option<Arc<dyn Node>>,
    /// The name is there, spelt like this.
    is_there: bool,
}

impl CachedVfs {
    /// Opens a path as it is spelt, or in another case, from what is known first.
    ///
    /// # Errors
    /// As [`vfs::Vfs::open`].
    pub(crate) fn open_any(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
    ) -> Result<OpenWithSecurity> {
        let any_case = how.case == Case::Insensitive;
        let exact = OpenHow { case: Case::Sensitive, ..how };
        let mut state = self.stale();
        if let Some(prior) = self.ask_at_once(&mut state, who, path, &how) {
            drop(state);
            match self.open_beside(who, path, exact, prior) {
                // It has gone, or is not in memory: what is known is looked at after all.
                Err(FsError::NotFound | FsError::PathNotFound | FsError::WouldBlock) => {}
                other => return other,
            }
            state = self.stale();
        }
        let (path, prior) =
            match self.first_look(self.freshened(state, who.order()), who, path, &how) {
                First::Absent => return Err(FsError::NotFound),
                First::Ask(path, prior) => (path, prior),
                First::Kept(path, node, facts) => match self.open_kept(&path, node, &facts, &how) {
                    Some(known) => return Ok(known),
                    None => (path, Prior { is_wanted: true, ..Prior::default() }),
                },
                First::Made(path, made) => match self.open_made(who, &path, &made, how) {
                    Some(known) => return Ok(known),
                    None => (path, Prior::default()),
                },
                First::Reopen(path, node, facts) => {
                    match self.reopen(who, &path, &node, facts, how) {
                        Some(known) => return Ok(known),
                        None => (path, Prior::default()),
                    }
                }
            };
        let is_there = prior.is_there;
        match self.ask(who, &path, exact, prior) {
            // No other spelling is meant.
            Err(FsError::WouldBlock) if is_there => Err(FsError::WouldBlock),
            Err(error @ (FsError::NotFound | FsError::PathNotFound | FsError::WouldBlock))
                if any_case =>
            {
                self.open_by_case(who, &path, how, error)
            }
            other => other,
        }
    }

    /// Opens a path as it is spelt.
    ///
    /// # Errors
    /// As [`vfs::Vfs::open`].
    pub(crate) fn open_exact(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
    ) -> Result<OpenWithSecurity> {
        self.open_any(who, path, OpenHow { case: Case::Sensitive, ..how })
    }

    /// What is known of a path of which the backend had better be asked at once: on a fast disk
    /// to ask what has changed costs about what a walk costs. Who writes to what is there is
    /// spared no more than one by what is known, nor is who reads what nobody has asked for of
    /// late. A guess, which decides only who is asked first.
    fn ask_at_once(
        &self,
        state: &mut State,
        who: Actor<'_>,
        path: &RelPath,
        how: &OpenHow,
    ) -> Option<Prior> {
        if self.inner.features().always_waits {
            return None;
        }
        let at = path.as_bytes();
        // What is known is to be found, and what is asked for again to be kept.
        if !how.write && (state.places.facts(at).is_some() || state.places.is_seen_again(at)) {
            return None;
        }
        let way = state.places.way(parent_of(path), who.effective_identity());
        // Files that are read are mostly there; who looks is often about to make something.
        let is_better = if how.read && !how.write {
            way.directory.is_some() && way.is_searcher
        } else {
            matches!(state.foreknown(way, path, false), Foreknown::There)
        };
        if !is_better {
            return None;
        }
        self.counters.handles.missed();
        // What was done to a directory would have to be heard first.
        let facts = state.places.facts(at);
        let facts = facts.filter(|facts| facts.attributes.kind == FileKind::File).cloned();
        Some(Prior { facts, ..Prior::default() })
    }

    /// Everything that is known of a path, under one lock.
    fn first_look(
        &self,
        mut state: Fresh<'_>,
        who: Actor<'_>,
        path: &RelPath,
        how: &OpenHow,
    ) -> First {
        let any_case = how.case == Case::Insensitive;
        let parent = parent_of(path);
        let way = state.places.way(parent, who.effective_identity());
        let (mut path, mut is_there) = (path.clone(), false);
        // To write by what is open already is dearer than a walk in memory.
        let is_kept_of_use = !how.write || self.inner.features().always_waits;
        for _ in 0..RESPELLINGS_MAX {
            // Who writes has a descriptor of their own.
            let reads = how.read && !how.write;
            if is_kept_of_use
                && let Some((node, facts)) =
                    state.places.find(path.as_bytes(), who.effective_identity(), reads)
            {
                if let Some(key) = way.directory {
                    state.directories.touch(key);
                }
                let first = if how.write { First::Reopen } else { First::Kept };
                return first(path, node, facts);
            }
            if way.is_searcher
                && let Some(made) = state.kept_made(&path, who.effective_identity())
            {
                return First::Made(path, made);
            }
            match state.foreknown(way, &path, any_case) {
                Foreknown::Absent => {
                    self.counters.names.hit();
                    return First::Absent;
                }
                Foreknown::As(spelt) => path = spelt,
                Foreknown::There => {
                    is_there = true;
                    break;
                }
                Foreknown::Nothing => break,
            }
        }
        self.counters.handles.missed();
        let facts = state.places.facts(path.as_bytes()).cloned();
        let is_wanted = (is_kept_of_use || facts.is_none())
            && state.places.is_seen_again(path.as_bytes())
            && state.places.is_worth_keeping();
        let Way { directory, is_searcher } = way;
        let looks = is_searcher && !how.read && !how.write;
        let kept =
            looks.then(|| state.places.find(parent, who.effective_identity(), false)).flatten();
        let is_followed = directory.is_some();
        let is_to_follow = !is_followed && state.places.is_seen_again(parent);
        let learns = is_wanted || !is_searcher;
        let look = (is_followed && learns).then(|| state.places.begin_look(path.as_bytes()));
        drop(state);
        let directory = kept.map(|(node, _)| node);
        let prior =
            Prior { facts, is_wanted, is_to_follow, look, is_searcher, directory, is_there };
        First::Ask(path, prior)
    }

    /// Opens what is kept, unless it has changed.
    fn open_kept(
        &self,
        path: &RelPath,
        node: Arc<dyn Node>,
        facts: &Facts,
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
                self.stale().places.drop_kept(path.as_bytes(), &node);
                self.counters.handles.missed();
                None
            }
        }
    }

    /// Opens what is kept for writing: that very node, by no path. None if the backend had better
    /// be asked for the path.
    fn reopen(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        node: &Arc<dyn Node>,
        facts: Facts,
        how: OpenHow,
    ) -> Option<OpenWithSecurity> {
        let wanted = AttributeRequest { dos: how.wanted.dos.filter(|_| !facts.has_dos) };
        let opened = self.inner.open_node(who, &**node, OpenHow { wanted, ..how }).ok()?;
        if opened.attributes.key != facts.attributes.key || opened.attributes.links == 0 {
            self.stale().places.drop_kept(path.as_bytes(), node);
            return None;
        }
        self.counters.handles.hit();
        let known = OpenWithSecurity::from(OpenedNode { path: path.clone(), ..opened });
        self.with_facts(path, how, Some(facts), known).ok()
    }

    /// A directory that is kept, as far as its permissions go: nobody is asked.
    pub(crate) fn kept_directory(
        &self,
        who: Actor<'_>,
        path: &RelPath,
    ) -> Option<OpenWithSecurity> {
        let (node, facts) =
            self.fresh(who.order()).kept_directory(who.effective_identity(), path)?;
        self.counters.handles.hit();
        let dos = DosInfo::default();
        let attributes = Attributes { dos, set_changed: None, ..facts.attributes };
        Some(known(OpenedNode { node, attributes, path: path.clone() }, &facts))
    }

    /// Has the backend open a path as it is spelt, and keeps what that tells.
    fn ask(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
        mut prior: Prior,
    ) -> Result<OpenWithSecurity> {
        let above = || path.parent().unwrap_or_default();
        if prior.is_to_follow && self.establish(who.order(), &above(), how.wait) {
            prior.look = Some(self.fresh(who.order()).places.begin_look(path.as_bytes()));
        }
        let Some(look) = prior.look else {
            return self.open_beside(who, path, how, prior);
        };
        // Who was let in was so by rights that are older than the attributes told.
        let began = (self.clock.0)();
        let result = self.look_or_open(who, path, OpenHow { no_follow: true, ..how }, &prior);
        let result = result.map(|known| known.opened);
        let kind = result.as_ref().ok().map(|opened| opened.attributes.kind);
        let is_settled = |opened: &OpenedNode| is_settled(&opened.attributes, began);
        let can_be_kept = match kind {
            Some(FileKind::File) => prior.is_wanted && result.as_ref().is_ok_and(is_settled),
            Some(FileKind::Directory) => {
                prior.is_wanted && self.establish(who.order(), path, how.wait)
            }
            _ => false,
        };
        let keepsake = result.as_ref().ok().filter(|_| can_be_kept);
        let keepsake = keepsake.and_then(|opened| self.keepsake(who, opened, &how));
        // What has happened meanwhile matters to what is to be kept.
        let mut state =
            if can_be_kept || !prior.is_searcher { self.present() } else { self.stale() };
        // Under one lock with what is kept for it: nothing may come in between.
        let is_so = state.places.end_look(look);
        let was_let_through = matches!(result, Ok(_) | Err(FsError::NotFound));
        if let (Some((parent, _)), true, true) = (split(path), is_so, was_let_through) {
            state.places.note_searcher(parent, who.effective_identity());
        }
        if kind == Some(FileKind::Symlink) && !how.no_follow {
            drop(state);
            return self.inner.open_with_security(who, path, how);
        }
        let opened = result?;
        let facts =
            (can_be_kept && is_so).then(|| self.keep(&mut state, who, &opened, &how, keepsake));
        drop(state);
        let security = facts.map(|facts| facts.security);
        Ok(OpenWithSecurity { opened, security })
    }

    /// Has the backend open what is not to be kept: what is known of it is not asked for, but
    /// taken if it is of the same time.
    fn open_beside(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
        prior: Prior,
    ) -> Result<OpenWithSecurity> {
        let facts = prior.facts.as_ref();
        let is_spared = how.wanted.dos.is_some() && facts.is_some_and(|facts| facts.has_dos);
        let wanted = AttributeRequest { dos: how.wanted.dos.filter(|_| !is_spared) };
        let known = self.look_or_open(who, path, OpenHow { wanted, ..how }, &prior)?;
        self.with_facts(path, how, prior.facts, known)
    }

    /// Has the backend open a path; as everybody may, where the caller only looks and is known to
    /// be let through the directory.
    fn look_or_open(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        how: OpenHow,
        prior: &Prior,
    ) -> Result<OpenWithSecurity> {
        let child = prior.directory.as_ref().map(|node| ChildName { directory: &**node, path });
        match child.and_then(|child| self.inner.lookup_child(who, child, how)) {
            Some(looked) => looked.map(OpenWithSecurity::from),
            None => self.inner.open_with_security(who, path, how),
        }
    }

    /// What was opened, with what is known of it if that is of the same time: without that DOS
    /// attributes were not asked for yet if they are known.
    fn with_facts(
        &self,
        path: &RelPath,
        how: OpenHow,
        facts: Option<Facts>,
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
                self.stale().places.note_changed(path.as_bytes());
            }
            _ => {}
        }
        Ok(known)
    }

    /// What can be kept of what was opened. What is open for writing never is: nobody could
    /// execute it meanwhile. Then it is opened once more, for looking, if that is of use.
    fn keepsake(
        &self,
        who: Actor<'_>,
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
        self.inner.open_node(who, &*opened.node, look).ok().map(|looked| (looked.node, false))
    }

    /// Keeps what was opened, as far as it can be told when it will have changed.
    fn keep(
        &self,
        state: &mut State,
        who: Actor<'_>,
        OpenedNode { attributes, path, .. }: &OpenedNode,
        how: &OpenHow,
        keepsake: Option<(Arc<dyn Node>, bool)>,
    ) -> Facts {
        let at = path.as_bytes();
        let facts = match state.places.facts(at) {
            Some(facts) if facts.are_of(attributes) => {
                self.counters.security.hit();
                let has_dos = how.wanted.dos.is_some() || facts.has_dos;
                let of = if how.wanted.dos.is_some() { attributes } else { &facts.attributes };
                let Attributes { dos, set_changed, stored, .. } = *of;
                let attributes = Attributes { dos, set_changed, stored, ..*attributes };
                Facts { attributes, has_dos, security: facts.security.clone() }
            }
            _ => {
                self.counters.security.missed();
                let security = state.places.new_security();
                Facts { attributes: *attributes, has_dos: how.wanted.dos.is_some(), security }
            }
        };
        state.places.put_facts(at, facts.clone());
        if let Some((node, reads)) = keepsake {
            state.places.keep(at, Kept { who: who.effective_identity().clone(), reads, node });
        }
        state.settle();
        facts
    }

    /// Keeps what a handle leads to, from the second time on, where it is heard when its
    /// path leads elsewhere. `told`: [`State::told`] before it was looked for.
    pub(crate) fn keep_found(
        &self,
        who: Actor<'_>,
        handle: &NodeHandle,
        LocatedNode { node, path, .. }: &LocatedNode,
        told: u64,
    ) {
        if path.is_nameless() || !self.stale().places.is_seen_again(path.as_bytes()) {
            return;
        }
        let above = path.parent().unwrap_or_default();
        let mut state = self.present();
        if state.told() == told && state.places.directory(above.as_bytes()).is_some() {
            // It was followed before, and nothing has happened since.
            state.places.keep_found(path.as_bytes(), handle, node);
            return state.settle();
        }
        drop(state);
        let order = ArrivalOrder::next();
        if !self.establish(order, &above, Wait::Allowed) {
            return;
        }
        let look = self.fresh(order).places.begin_look(path.as_bytes());
        // It was found before that began.
        let now = self.inner.path_of(who, &**node);
        let mut state = self.present();
        if state.places.end_look(look) && now.as_ref() == Ok(path) {
            state.places.keep_found(path.as_bytes(), handle, node);
            state.settle();
        }
    }

    /// Follows the directory at `path` and those above it; whether they are followed
    /// and no symbolic links.
    fn establish(&self, order: ArrivalOrder, path: &RelPath, wait: Wait) -> bool {
        if self.fresh(order).places.directory(path.as_bytes()).is_some() {
            return true;
        }
        let above = path.parent();
        if above.is_some_and(|parent| !self.establish(order, &parent, wait)) {
            return false;
        }
        let look = self.fresh(order).places.begin_look(path.as_bytes());
        let how = OpenHow::looking(wait);
        let opened = self.inner.open(Actor::server(ServerWork::FillCache), path, how);
        self.follow_place(path, look, opened)
    }

    fn follow_place(&self, path: &RelPath, look: u64, opened: Result<OpenedNode>) -> bool {
        let mut state = self.present();
        // Ended in any case.
        let is_so = state.places.end_look(look);
        let Ok(OpenedNode { node, attributes, .. }) = opened else { return false };
        if !is_so || attributes.kind != FileKind::Directory {
            return false;
        }
        if !self.follow(&mut state, attributes.key, &node)
            || !state.directories.set_path(attributes.key, path.as_bytes())
        {
            return false;
        }
        state.places.put_directory(path.as_bytes(), attributes.key);
        state.settle();
        let is_kept = state.places.directory(path.as_bytes()).is_some();
        if !is_kept {
            state.directories.clear_path(attributes.key);
        }
        is_kept
    }

    /// Follows a directory, unless it is followed already.
    pub(crate) fn follow(&self, state: &mut State, key: FileKey, node: &Arc<dyn Node>) -> bool {
        if state.directories.knows(key) {
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
                tracing::debug!(%error, "a directory is not followed");
                false
            }
        }
    }
}

/// Whether a change since `began` would show another time than these attributes do.
fn is_settled(attributes: &Attributes, began: Timestamp) -> bool {
    began.0 - attributes.changed.0 >= TIME_STEP_NANOS
}

fn known(opened: OpenedNode, facts: &Facts) -> OpenWithSecurity {
    OpenWithSecurity { opened, security: Some(facts.security.clone()) }
}
