//! The tree: resolves names to nodes.

use crate::changes::LocalChanges;
use crate::children;
use crate::creation::{self, NewName};
use crate::errors::{refusal, refusal_of_name};
use crate::features::{self, FeaturesBelow};
use crate::handles::{self, Handles};
use crate::identity::IdentityGuard;
use crate::listing_changes::LocalListings;
use crate::local_node::LocalNode;
use crate::outside::Source;
use crate::public_look::{Look, PublicLooks};
use crate::quota;
use crate::resolve::{self, Root, open_beneath, open_directory};
use crate::stream_store::{self, LosingHost, ServedRoot};
use crate::xattr_notes::{self, DeviceRegistration};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use vfs::{
    Actor, AttributeRequest, Attributes, Case, ChangeFeed, ChangeFeeds, ChildLookup, ChildName,
    ChildRename, CreateHow, CreationMode, ExpectedChild, ExternalChangeCallback, ExternalWatch,
    ExternalWatches, FileChangeCallback, FileKey, FileKind, FsError, ListingFeed, LocatedNode,
    Name, NameActor, NewChild, Node, NodeHandle, OpenHow, OpenedNode, PersistentHandles, Quota,
    QuotaLimits, QuotaState, RelPath, Replace, Result, ServerWork, Space, SpecialKind,
    TreeChangeCallback, TreeFeatures, UserQuotas, Vfs, Wait,
};

/// A served directory.
#[derive(Debug)]
pub struct LocalVfs {
    /// Ends before the root is closed.
    _device: DeviceRegistration,
    root: OwnedFd,
    /// Device of the root if its file system grants an owner nothing that depends on groups: mode
    /// bits and POSIX ACLs decide. Others may have denials of groups that precede the owner.
    posix_device: Option<u64>,
    features: TreeFeatures,
    below: FeaturesBelow,
    /// Source of other processes' changes, started by the first watch; `None` if unsupported.
    outside: OnceLock<Option<Source>>,
    pub(crate) handles: Handles,
    public_looks: PublicLooks,
    /// Registers the tree's long streams while it is served.
    _streams: Arc<ServedRoot>,
}

/// Why a directory cannot be served.
#[derive(Debug)]
pub struct OpenError {
    /// The directory.
    pub path: PathBuf,
    /// The system's error.
    pub cause: std::io::Error,
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot serve {}: {}", self.path.display(), self.cause)
    }
}

impl std::error::Error for OpenError {}

impl LocalVfs {
    /// Serves `path`, following symbolic links within it. The process's umask is set to zero, so
    /// that modes apply as requested.
    ///
    /// # Errors
    /// [`OpenError`] if `path` is not a directory or cannot be opened.
    pub fn open(path: &Path) -> std::result::Result<Self, OpenError> {
        Self::open_with(path, true)
    }

    /// Like [`LocalVfs::open`]; `follows_links` sets [`TreeFeatures::follows_links`].
    ///
    /// # Errors
    /// Like [`LocalVfs::open`].
    pub fn open_with(path: &Path, follows_links: bool) -> std::result::Result<Self, OpenError> {
        let error = |errno: Errno| OpenError { path: path.to_path_buf(), cause: errno.into() };
        rustix::process::umask(Mode::empty());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(error)?;
        Self::of_directory(root, follows_links, true).map_err(error)
    }

    /// Serves the open directory `root`, a snapshot.
    pub(crate) fn of(root: OwnedFd, follows_links: bool) -> Result<Self> {
        Self::of_directory(root, follows_links, false).map_err(|e| refusal("serve", e))
    }

    fn of_directory(
        root: OwnedFd,
        follows_links: bool,
        is_swept: bool,
    ) -> rustix::io::Result<Self> {
        let features = TreeFeatures { follows_links, ..features::of_root(root.as_fd())? };
        let streams = stream_store::serve(root.as_fd(), is_swept)?;
        Ok(Self {
            _device: DeviceRegistration::of(root.as_fd()),
            posix_device: xattr_notes::posix_device(root.as_fd()),
            _streams: streams,
            root,
            features,
            below: FeaturesBelow::default(),
            outside: OnceLock::new(),
            handles: Handles::default(),
            public_looks: PublicLooks::default(),
        })
    }

    fn outside(&self) -> Result<&Source> {
        let source = self.outside.get_or_init(|| Source::start(self.root.as_fd()).ok());
        source.as_ref().ok_or(FsError::NotSupported)
    }

    pub(crate) fn root(&self) -> Root<'_> {
        Root { fd: self.root.as_fd(), stops_at_links: !self.features.follows_links }
    }

    /// Adjusts an error for a tree whose symbolic links the server does not follow.
    fn refusal(&self, error: FsError) -> FsError {
        match error {
            FsError::SymlinkLoop if !self.features.follows_links => FsError::SymlinkMet,
            other => other,
        }
    }

    fn open_exact(&self, path: &RelPath, how: &OpenHow) -> rustix::io::Result<(OwnedFd, bool)> {
        let mut flags = if how.no_follow { OFlags::NOFOLLOW } else { OFlags::empty() };
        if !how.read && !how.write {
            return open_beneath(
                self.root(),
                path.as_bytes(),
                flags | OFlags::PATH,
                Mode::empty(),
                how.wait,
            )
            .map(|fd| (fd, true));
        }
        // An open of a pipe without a peer, or of a tape drive, must not block.
        flags |= OFlags::NONBLOCK | OFlags::NOCTTY;
        flags |= if how.write { OFlags::RDWR } else { OFlags::RDONLY };
        match open_beneath(self.root(), path.as_bytes(), flags, Mode::empty(), how.wait) {
            // A directory cannot be opened for writing, and need not be.
            Err(Errno::ISDIR) => {
                let flags = (flags - OFlags::RDWR) | OFlags::RDONLY;
                open_beneath(self.root(), path.as_bytes(), flags, Mode::empty(), how.wait)
                    .map(|fd| (fd, false))
            }
            // Read access is an addition of the server's, so a refusal of it is no failure.
            Err(Errno::ACCESS) if how.write && !how.read => {
                let flags = (flags - OFlags::RDWR) | OFlags::WRONLY;
                open_beneath(self.root(), path.as_bytes(), flags, Mode::empty(), how.wait)
                    .map(|fd| (fd, false))
            }
            // A symbolic link that must not be followed, or a socket.
            Err(Errno::LOOP) if how.no_follow => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW;
                open_beneath(self.root(), path.as_bytes(), flags, Mode::empty(), how.wait)
                    .map(|fd| (fd, true))
            }
            Err(Errno::NXIO) => {
                open_beneath(self.root(), path.as_bytes(), OFlags::PATH, Mode::empty(), how.wait)
                    .map(|fd| (fd, true))
            }
            result => result.map(|fd| (fd, false)),
        }
    }

    fn open_spelt(&self, path: &RelPath, how: OpenHow) -> Result<OpenedNode> {
        match self.open_exact(path, &how) {
            Ok((fd, path_only)) => self.finish(fd, path_only, &how, path.clone()),
            Err(Errno::NOENT) if how.case == Case::Insensitive && !path.is_root() => {
                if how.wait == Wait::Never {
                    return Err(FsError::WouldBlock);
                }
                let spelt = match resolve::respell(self.root(), path) {
                    Ok(spelt) => spelt,
                    Err(Errno::LOOP) => return Err(FsError::SymlinkLoop),
                    Err(_) => {
                        return Err(resolve::missing(self.root(), path, how.case, how.wait));
                    }
                };
                let (fd, path_only) =
                    self.open_exact(&spelt, &how).map_err(|e| refusal("open", e))?;
                self.finish(fd, path_only, &how, spelt)
            }
            Err(Errno::NOENT) => Err(resolve::missing(self.root(), path, how.case, how.wait)),
            Err(errno) => Err(refusal("open", errno)),
        }
    }

    fn finish(
        &self,
        fd: OwnedFd,
        path_only: bool,
        how: &OpenHow,
        path: RelPath,
    ) -> Result<OpenedNode> {
        let (node, attributes) = LocalNode::new(fd, path_only, how.read || how.write, how.wanted)?;
        Ok(OpenedNode { node: Arc::new(node.opened_by(&path)), attributes, path })
    }

    /// The parent directory of a name to create or change, and the name.
    fn parent_of(&self, path: &RelPath, case: Case) -> Result<(OwnedFd, RelPath, Name)> {
        let (parent, name) = path.split().ok_or(FsError::AccessDenied)?;
        children::check_name(&name)?;
        let opened = open_directory(self.root(), &parent, case, Wait::Allowed);
        let (fd, spelt) = opened.map_err(|e| self.refusal(e))?;
        Ok((fd, spelt, name))
    }

    /// Creates a node other than a file or directory, by path.
    fn make_other(&self, who: Actor<'_>, path: &RelPath, new: NewChild<'_>) -> Result<OpenedNode> {
        let _acting = IdentityGuard::on_path(who)?;
        let (parent, spelt, name) = self.parent_of(path, Case::Sensitive)?;
        let path = spelt.join(&name);
        path.check_length()?;
        children::make_other(parent.as_fd(), (&path, &name), new, who.may_make_devices())
    }

    /// Creates a node by its name in a directory, and returns it with its path.
    fn make(
        &self,
        parent: BorrowedFd<'_>,
        (path, name): (&RelPath, &Name),
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        path.check_length()?;
        if case == Case::Insensitive && resolve::find_spelling(&parent, name.as_bytes()).is_some() {
            return Err(FsError::AlreadyExists);
        }
        creation::create(&NewName { parent, name, path }, &how)
    }
}

impl Vfs for LocalVfs {
    fn open(&self, who: Actor<'_>, path: &RelPath, how: OpenHow) -> Result<OpenedNode> {
        let _acting = IdentityGuard::on_path(who)?;
        self.open_spelt(path, how).map_err(|e| self.refusal(e))
    }

    fn lookup_child(&self, who: Actor<'_>, child: ChildName<'_>, how: OpenHow) -> ChildLookup {
        let (parent, name) = children::of(child).ok()?;
        match self.public_looks.look(who, (parent, &name), &how)? {
            Look::Found(fd, _acting) => {
                self.finish(fd, true, &how, child.path.clone()).ok().map(Ok)
            }
            Look::Absent => Some(Err(FsError::NotFound)),
            Look::WouldBlock => Some(Err(FsError::WouldBlock)),
        }
    }

    fn create(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let _acting = IdentityGuard::on_path(who)?;
        let (parent, spelt, name) = self.parent_of(path, case)?;
        self.make(parent.as_fd(), (&spelt.join(&name), &name), case, how)
    }

    fn create_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let _acting = IdentityGuard::on_names(who)?;
        let (parent, name) = children::of(child)?;
        self.make(parent, (child.path, &name), case, how)
    }

    fn create_special_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        new: NewChild<'_>,
    ) -> Result<OpenedNode> {
        let _acting = IdentityGuard::on_names(who)?;
        let (parent, name) = children::of(child)?;
        child.path.check_length()?;
        children::make_other(parent, (child.path, &name), new, who.may_make_devices())
    }

    fn creates_without_waiting(&self) -> bool {
        false
    }

    fn remove(&self, who: Actor<'_>, path: &RelPath, expected: FileKey) -> Result<()> {
        let _acting = IdentityGuard::on_path(who)?;
        let (parent, _, name) = self.parent_of(path, Case::Sensitive)?;
        let expected = ExpectedChild { key: expected, is_file_as_seen: false };
        children::unlink(parent.as_fd(), &name, expected)
    }

    fn remove_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        expected: ExpectedChild,
    ) -> Result<()> {
        let (parent, name) = children::of(child)?;
        let is_own_device = |stat: &rustix::fs::Stat| Some(stat.st_dev) == self.posix_device;
        let owner = || rustix::fs::fstat(parent).ok().filter(is_own_device).map(|stat| stat.st_uid);
        if let Some(_acting) = IdentityGuard::on_own_directory(who, owner)? {
            let removed = children::unlink(parent, &name, expected);
            if removed != Err(FsError::AccessDenied) {
                return removed;
            }
        }
        let _acting = IdentityGuard::on_names(who)?;
        // The name may lead elsewhere since the refusal.
        children::unlink(parent, &name, ExpectedChild { is_file_as_seen: false, ..expected })
    }

    fn rename(&self, who: Actor<'_>, from: &RelPath, to: &RelPath, replace: Replace) -> Result<()> {
        to.check_length()?;
        let _acting = IdentityGuard::on_path(who)?;
        let (from_parent, _, from_name) = self.parent_of(from, Case::Sensitive)?;
        let (to_parent, _, to_name) = self.parent_of(to, Case::Sensitive)?;
        let (at, new_at) = ((from_parent.as_fd(), &from_name), (to_parent.as_fd(), &to_name));
        children::rename(at, new_at, replace, from == to)?;
        self.handles.renamed(from, to);
        Ok(())
    }

    fn rename_in(&self, who: NameActor<'_>, change: ChildRename<'_>) -> Result<()> {
        change.to.path.check_length()?;
        let _acting = IdentityGuard::on_names(who)?;
        children::rename_expected(&change)?;
        self.handles.renamed(change.from.path, change.to.path);
        Ok(())
    }

    fn link(&self, who: Actor<'_>, node: &dyn Node, to: &RelPath, replace: Replace) -> Result<()> {
        to.check_length()?;
        let _acting = IdentityGuard::on_path(who)?;
        let node = LocalNode::of(node).ok_or(FsError::CrossDevice)?;
        if node.kind() == FileKind::Directory {
            return Err(FsError::NotSupported);
        }
        let (parent, _, name) = self.parent_of(to, Case::Sensitive)?;
        if replace == Replace::File {
            let replaced = LosingHost::at(parent.as_fd(), &name, None);
            match rustix::fs::unlinkat(&parent, name.as_bytes(), AtFlags::empty()) {
                Ok(()) => replaced.into_iter().for_each(LosingHost::has_lost),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(refusal("link", errno)),
            }
        }
        children::link(node, (parent.as_fd(), &name)).map_err(|e| refusal_of_name("link", e))
    }

    fn link_as_posix(&self, who: Actor<'_>, node: &dyn Node, to: &RelPath) -> Result<()> {
        to.check_length()?;
        let _acting = IdentityGuard::on_path(who)?;
        let node = LocalNode::of(node).ok_or(FsError::CrossDevice)?;
        if node.kind() == FileKind::Directory {
            return Err(FsError::NotSupported);
        }
        let (parent, _, name) = self.parent_of(to, Case::Sensitive)?;
        let new = (parent.as_fd(), &name);
        let linked = match children::link(node, new) {
            Err(Errno::PERM) => match IdentityGuard::on_link(who)? {
                Some(_acting) => children::link(node, new),
                None => Err(Errno::PERM),
            },
            other => other,
        };
        linked.map_err(|e| refusal_of_name("link", e))
    }

    fn symlink(&self, who: Actor<'_>, path: &RelPath, target: &[u8]) -> Result<OpenedNode> {
        self.make_other(who, path, NewChild::Symlink(target))
    }

    fn space(&self, who: Actor<'_>) -> Result<Space> {
        quota::space(self.root.as_fd(), who)
    }

    fn space_of(&self, who: Actor<'_>, node: &dyn Node) -> Result<Space> {
        let node = LocalNode::of(node).map_or(self.root.as_fd(), |node| node.as_fd());
        quota::space(node, who)
    }

    fn is_read_only(&self) -> bool {
        features::is_read_only(self.root.as_fd())
    }

    fn is_read_only_at(&self, node: &dyn Node) -> bool {
        features::is_read_only(LocalNode::of(node).map_or(self.root.as_fd(), LocalNode::as_fd))
    }

    fn open_node(&self, who: Actor<'_>, node: &dyn Node, how: OpenHow) -> Result<OpenedNode> {
        let node = LocalNode::of(node).ok_or(FsError::NotSupported)?;
        let _acting = IdentityGuard::begin(who)?;
        handles::open_node(node, &how)
    }

    fn create_special(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        kind: SpecialKind,
        mode: CreationMode,
    ) -> Result<OpenedNode> {
        self.make_other(who, path, NewChild::Special { kind, mode })
    }

    fn handles(&self) -> Option<&dyn PersistentHandles> {
        Some(self)
    }

    fn quotas(&self) -> Option<&dyn UserQuotas> {
        Some(self)
    }

    fn external_watches(&self) -> Option<&dyn ExternalWatches> {
        Some(self)
    }

    fn feeds(&self) -> Option<&dyn ChangeFeeds> {
        Some(self)
    }

    fn features(&self) -> TreeFeatures {
        self.features
    }

    fn features_of(&self, node: &dyn Node) -> TreeFeatures {
        LocalNode::of(node).map_or(self.features, |node| self.below.of_node(self.features, node))
    }
}

impl PersistentHandles for LocalVfs {
    fn handle(&self, who: Actor<'_>, node: &dyn Node) -> Result<NodeHandle> {
        let node = LocalNode::of(node).ok_or(FsError::NotSupported)?;
        self.handles.of_node(self.root(), who, node)
    }

    fn persistent_id(&self, node: &dyn Node) -> Option<NodeHandle> {
        handles::persistent_id(LocalNode::of(node)?.as_fd())
    }

    fn child_handle(
        &self,
        who: Actor<'_>,
        directory: &dyn Node,
        name: &Name,
        child: &Attributes,
    ) -> Result<NodeHandle> {
        let directory = LocalNode::of(directory).ok_or(FsError::NotSupported)?;
        self.handles.of_child(self.root(), who, (directory, name), child)
    }

    fn find(
        &self,
        who: Actor<'_>,
        handle: &NodeHandle,
        wanted: AttributeRequest,
    ) -> Result<LocatedNode> {
        self.handles.find(self.root(), who, handle, wanted)
    }

    fn path_of(&self, who: Actor<'_>, node: &dyn Node) -> Result<RelPath> {
        let node = LocalNode::of(node).ok_or(FsError::NotSupported)?;
        self.handles.path_of(self.root(), who, node)
    }
}

impl UserQuotas for LocalVfs {
    fn quota_state(&self) -> QuotaState {
        quota::state(self.root.as_fd())
    }

    fn quota_state_of(&self, node: &dyn Node) -> QuotaState {
        quota::state(LocalNode::of(node).map_or(self.root.as_fd(), LocalNode::as_fd))
    }

    fn quota(&self, who: Actor<'_>, uid: u32) -> Result<Quota> {
        quota::get(self.root.as_fd(), who, uid)
    }

    fn next_quota(&self, who: Actor<'_>, uid: u32) -> Result<(u32, Quota)> {
        quota::get_next(self.root.as_fd(), who, uid)
    }

    fn set_quota(&self, who: Actor<'_>, uid: u32, limits: QuotaLimits) -> Result<()> {
        quota::set(self.root.as_fd(), who, uid, limits)
    }

    fn sync_quotas(&self, _: Actor<'_>) -> Result<()> {
        // Quotas are in a hidden file that cannot be opened.
        rustix::fs::syncfs(&self.root).map_err(|e| refusal("sync", e))
    }
}

impl ExternalWatches for LocalVfs {
    fn watch(
        &self,
        work: ServerWork,
        directory: &dyn Node,
        tell: ExternalChangeCallback,
    ) -> Result<Box<dyn ExternalWatch>> {
        let node = LocalNode::of(directory).ok_or(FsError::NotSupported)?;
        self.outside()?.watch(work, node, tell)
    }

    fn watch_tree(
        &self,
        work: ServerWork,
        tell: TreeChangeCallback,
    ) -> Result<Box<dyn ExternalWatch>> {
        self.outside()?.watch_tree(work, tell)
    }

    fn watch_file(
        &self,
        work: ServerWork,
        file: &Arc<dyn Node>,
        every_write: bool,
        tell: FileChangeCallback,
    ) -> Result<Box<dyn ExternalWatch>> {
        if LocalNode::of(&**file).is_none_or(LocalNode::is_path_only) {
            return Err(FsError::NotSupported);
        }
        self.outside()?.watch_file(work, file, every_write, tell)
    }
}

impl ChangeFeeds for LocalVfs {
    fn change_feed(&self) -> Result<Box<dyn ChangeFeed>> {
        Ok(Box::new(LocalChanges::new()?))
    }

    fn listing_feed(&self) -> Result<Box<dyn ListingFeed>> {
        Ok(Box::new(LocalListings::new()?))
    }
}
