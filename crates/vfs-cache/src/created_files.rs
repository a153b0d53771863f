//! Recently created files: tracked creation, and answers without an open
//! ([`crate::created_names`]).

use crate::created_names::{CreatedFile, RetainedOpen};
use crate::tree::CachedVfs;
use vfs::{
    Actor, ArrivalOrder, AttributeRequest, Attributes, CreateHow, FileKind, Name, Node, NodeHandle,
    OpenHow, OpenWithSecurity, OpenedNode, RelPath, Result, Wait,
};

impl CachedVfs {
    /// Creates a node in exactly this spelling, and tracks it if it is a file in a followed
    /// directory.
    pub(crate) fn create_tracked(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let is_file = how.kind == FileKind::File;
        let creation = is_file.then(|| self.begin_creation(actor.order(), path)).flatten();
        let Some(number) = creation else { return self.create_exact(actor, path, how) };
        let result = self.create_exact(actor, path, how);
        let opened = result.as_ref().ok();
        let retained = opened.and_then(|opened| self.open_to_retain(actor, opened));
        // The drain reports the creation and everything after it.
        self.drained_state().recent.end(number, opened, retained);
        result
    }

    /// Reopens a created file without access to data, if lookups are slow. The creator's open is
    /// for writing and is not retained, since it would block execution of the file (ETXTBSY).
    fn open_to_retain(&self, actor: Actor<'_>, opened: &OpenedNode) -> Option<RetainedOpen> {
        if !self.inner.features().always_waits {
            return None;
        }
        let looked = self.inner.open_node(actor, &*opened.node, OpenHow::looking(Wait::Allowed));
        looked.ok().map(|looked| RetainedOpen {
            user: actor.effective_identity().clone(),
            node: looked.node,
        })
    }

    /// Opens a created file to which the path led at the latest drain. None if the backend must
    /// open the path.
    pub(crate) fn open_created(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        made: &CreatedFile,
        how: OpenHow,
    ) -> Option<OpenWithSecurity> {
        let node = &made.retained.as_ref()?.node;
        let opened = if how.read || how.write {
            self.inner.open_node(actor, &**node, how).ok()?
        } else {
            let attributes = node.attributes(how.wanted).ok()?;
            OpenedNode { node: node.clone(), attributes, path: path.clone() }
        };
        if opened.attributes.key != made.key || opened.attributes.links == 0 {
            return None;
        }
        self.counters.handles.hit();
        Some(OpenWithSecurity::from(OpenedNode { path: path.clone(), ..opened }))
    }

    fn begin_creation(&self, order: ArrivalOrder, path: &RelPath) -> Option<u64> {
        let mut state = self.state_for(order);
        let (directory, name) = state.followed_parent(path)?;
        state.recent.begin(directory, name)
    }

    /// The handle of a node of this path. The handle of a created file is cached, because it never
    /// changes.
    pub(crate) fn handle_of_created(
        &self,
        actor: Actor<'_>,
        node: &dyn Node,
        path: &RelPath,
    ) -> Result<NodeHandle> {
        if !self.is_active() {
            return self.inner.need_handles()?.handle(actor, node);
        }
        // No drain is needed: the node itself shows whether it is the created one.
        let handle = match self.lock_state().created(path) {
            Some(made) if made.was_opened_as(node) => made.handle.clone(),
            _ => return self.inner.need_handles()?.handle(actor, node),
        };
        if let Some(handle) = handle {
            return Ok(handle);
        }
        let handle = self.inner.need_handles()?.handle(actor, node)?;
        if let Some(made) = self.lock_state().created(path).filter(|made| made.was_opened_as(node))
        {
            made.handle = Some(handle.clone());
        }
        Ok(handle)
    }

    /// Handles of children that were just created. The drain shows that their names have no event
    /// since the creation.
    pub(crate) fn handles_of_created(
        &self,
        directory: &dyn Node,
        children: &[(Name, Attributes)],
    ) -> Vec<Option<NodeHandle>> {
        let mut state = self.drained_state();
        let follow = state.directories.follow_of(directory.key());
        let mut find = |(name, child): &(Name, Attributes)| {
            let made = state.recent.find(follow?, name.as_bytes())?;
            let is_it = made.key == child.key && made.born == child.born;
            made.handle.clone().filter(|_| is_it)
        };
        children.iter().map(&mut find).collect()
    }

    /// Attributes and handle of a file that was just created at a path. The attributes are of that
    /// file, because a drain before and one after the stat show no event of the name.
    pub(crate) fn cached_created_file(
        &self,
        actor: Actor<'_>,
        directory: &dyn Node,
        path: &RelPath,
    ) -> Option<(Attributes, NodeHandle)> {
        if !self.is_active() {
            return None;
        }
        let state = self.lock_state();
        if state.recent.is_empty() {
            return None;
        }
        let (parent, name) = path.split()?;
        let mut state = self.drain_for(state, actor.order());
        let made = state.created(path)?;
        let (key, born, handle) = (made.key, made.born, made.handle.clone()?);
        let (kept, _) = state.cached_directory(actor.effective_identity(), &parent)?;
        let event_count = state.event_count();
        drop(state);
        self.counters.handles.hit();
        if kept.key() != directory.key() {
            return None;
        }
        let attributes = child_of(&*kept, actor, &name)?;
        let is_it =
            attributes.key == key && attributes.born == born && attributes.kind == FileKind::File;
        let mut state = self.drained_state();
        let is_still_so = state.event_count() == event_count || {
            let is_made =
                |made: &mut CreatedFile| made.key == key && made.handle.as_ref() == Some(&handle);
            let is_there = state.paths.directory(parent.as_bytes()) == Some(directory.key());
            is_there && state.created(path).is_some_and(is_made)
        };
        drop(state);
        (is_it && is_still_so).then_some((attributes, handle))
    }
}

fn child_of(directory: &dyn Node, actor: Actor<'_>, name: &Name) -> Option<Attributes> {
    directory.child_attributes(actor, name, AttributeRequest::default()).ok()
}
