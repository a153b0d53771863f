//! Files that were made a moment ago: making them so that they are known afterwards, and what is
//! told of them without opening them ([`crate::recent`]).

use crate::recent::{Keepsake, Made};
use crate::tree::CachedVfs;
use vfs::{
    Actor, ArrivalOrder, AttributeRequest, Attributes, CreateHow, FileKind, Name, Node, NodeHandle,
    OpenHow, OpenWithSecurity, OpenedNode, RelPath, Result, Wait,
};

impl CachedVfs {
    /// Makes what is spelt so, and knows it for a while if it is a file whose directory is
    /// followed.
    pub(crate) fn create_noted(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let is_file = how.kind == FileKind::File;
        let making = is_file.then(|| self.begin_making(who.order(), path)).flatten();
        let Some(number) = making else { return self.create_exact(who, path, how) };
        let result = self.create_exact(who, path, how);
        let opened = result.as_ref().ok();
        let keepsake = opened.and_then(|opened| self.keepsake_of_made(who, opened));
        // What was done before this is told now: the making of it, and whatever came after.
        self.present().recent.end(number, opened, keepsake);
        result
    }

    /// What was made is open for writing, and is not kept so: nobody could execute it meanwhile.
    fn keepsake_of_made(&self, who: Actor<'_>, opened: &OpenedNode) -> Option<Keepsake> {
        if !self.inner.features().always_waits {
            return None;
        }
        let looked = self.inner.open_node(who, &*opened.node, OpenHow::looking(Wait::Allowed));
        looked
            .ok()
            .map(|looked| Keepsake { who: who.effective_identity().clone(), node: looked.node })
    }

    /// Opens what was made by a path a moment ago, to which it led as of the latest draining; none
    /// if the backend has to be asked for the path.
    pub(crate) fn open_made(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        made: &Made,
        how: OpenHow,
    ) -> Option<OpenWithSecurity> {
        let node = &made.keepsake.as_ref()?.node;
        let opened = if how.read || how.write {
            self.inner.open_node(who, &**node, how).ok()?
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

    fn begin_making(&self, order: ArrivalOrder, path: &RelPath) -> Option<u64> {
        let mut state = self.fresh(order);
        let (directory, name) = state.followed_parent(path)?;
        state.recent.begin(directory, name)
    }

    /// What names a node that this path has led to. Of the one that was made by it a moment ago
    /// that is remembered: it is called the same for as long as it is there.
    pub(crate) fn handle_of_made(
        &self,
        who: Actor<'_>,
        node: &dyn Node,
        path: &RelPath,
    ) -> Result<NodeHandle> {
        if !self.is_active() {
            return self.inner.handle(who, node);
        }
        // As it was left: the node tells whether it is this one.
        let handle = match self.stale().made(path) {
            Some(made) if made.was_opened_as(node) => made.handle.clone(),
            _ => return self.inner.handle(who, node),
        };
        if let Some(handle) = handle {
            return Ok(handle);
        }
        let handle = self.inner.handle(who, node)?;
        if let Some(made) = self.stale().made(path).filter(|made| made.was_opened_as(node)) {
            made.handle = Some(handle.clone());
        }
        Ok(handle)
    }

    /// The handles of those children that were made a moment ago. Nothing was done to their names
    /// since they were looked at, nor before since they were made, as is drained now.
    pub(crate) fn handles_of_made(
        &self,
        directory: &dyn Node,
        children: &[(Name, Attributes)],
    ) -> Vec<Option<NodeHandle>> {
        let mut state = self.present();
        let follow = state.directories.follow_of(directory.key());
        let mut find = |(name, child): &(Name, Attributes)| {
            let made = state.recent.find(follow?, name.as_bytes())?;
            let is_it = made.key == child.key && made.born == child.born;
            made.handle.clone().filter(|_| is_it)
        };
        children.iter().map(&mut find).collect()
    }

    /// Attributes and handle of what was made by a path a moment ago. What they were asked of is
    /// the file that was made: nothing was done to the name before, as the first draining tells,
    /// nor until afterwards, as the second does.
    pub(crate) fn remembered_at(
        &self,
        who: Actor<'_>,
        directory: &dyn Node,
        path: &RelPath,
    ) -> Option<(Attributes, NodeHandle)> {
        if !self.is_active() {
            return None;
        }
        let state = self.stale();
        if state.recent.is_empty() {
            return None;
        }
        let (parent, name) = path.split()?;
        let mut state = self.freshened(state, who.order());
        let made = state.made(path)?;
        let (key, born, handle) = (made.key, made.born, made.handle.clone()?);
        let (kept, _) = state.kept_directory(who.effective_identity(), &parent)?;
        let told = state.told();
        drop(state);
        self.counters.handles.hit();
        if kept.key() != directory.key() {
            return None;
        }
        let attributes = child_of(&*kept, who, &name)?;
        let is_it =
            attributes.key == key && attributes.born == born && attributes.kind == FileKind::File;
        let mut state = self.present();
        let is_still_so = state.told() == told || {
            let is_made =
                |made: &mut Made| made.key == key && made.handle.as_ref() == Some(&handle);
            let is_there = state.places.directory(parent.as_bytes()) == Some(directory.key());
            is_there && state.made(path).is_some_and(is_made)
        };
        drop(state);
        (is_it && is_still_so).then_some((attributes, handle))
    }
}

fn child_of(directory: &dyn Node, who: Actor<'_>, name: &Name) -> Option<Attributes> {
    directory.child_attributes(who, name, AttributeRequest::default()).ok()
}
