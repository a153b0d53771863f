//! Reparse points: symbolic links, special files and reparse data stored by clients. MS-FSA
//! 2.1.5.10.12, 2.1.5.10.35, 2.1.5.10.5.
//!
//! A client's link becomes a symbolic link on disk, visible to all protocols; pipes and sockets
//! likewise become special files. The new node replaces the empty file, and the open continues with
//! it.

use crate::authorize::dos_authority;
use crate::context::RequestContext;
use crate::frozen_times::{MovedTimes, TimedNode, keep_times};
use crate::link_target::check_target;
use crate::offload::offload_in_turn;
use crate::rename_turns::RenameTurn;
use crate::server_work::{METADATA, WANTED};
use crate::volume::dos;
use crate::watch::WatchFilter;
use crate::{Access, Caller, OpenFile, RequestFiles, Volume};
use std::sync::Arc;
use vfs::{
    AttributeChanges, AttributeRequest, Attributes, Case, CreateHow, CreationMode, DosInfo,
    FileKind, FsError, Name, Node, OpenHow, OpenedNode, RelPath, Replace, Result, SpecialKind,
    Wait,
};

/// Prefix of a temporary name until its node replaces the file.
const PASSING_NAME: &str = ".anabranch-link-";

/// Content of a reparse point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reparse {
    /// A symbolic link with its text.
    Symlink(Vec<u8>),
    /// A pipe, socket or device, described by its attributes.
    Special(Box<Attributes>),
    /// Reparse data that a client stored.
    Stored(Vec<u8>),
}

/// Node that replaces an open file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Successor {
    /// An empty file.
    File,
    /// A symbolic link with this text.
    Symlink(Vec<u8>),
    /// A pipe, socket or device.
    Special(SpecialKind),
}

/// A symbolic link on a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkOnPath {
    /// Text of the link.
    pub target: Vec<u8>,
    /// Rest of the path after the link.
    pub rest: RelPath,
}

impl RequestFiles {
    /// Content of the open reparse point.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if the file is none.
    pub fn reparse(&self, open: &OpenFile) -> Result<Reparse> {
        if open.name.stream.is_some() {
            return Err(FsError::NotFound);
        }
        match open.present().kind() {
            FileKind::Symlink => open.link_text().map(Reparse::Symlink),
            _ => reparse_of(&open.caller, &**open.present()),
        }
    }

    /// Content of a child that is a reparse point.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if the child is none, or was removed.
    pub fn child_reparse(&self, open: &OpenFile, name: &Name) -> Result<Reparse> {
        let path = open.path().join(name);
        let found = look(open.volume(), &open.caller, &path, true)?;
        reparse_of(&open.caller, &*found.node)
    }

    /// The first symbolic link along `path`, including its last component; none if there is none
    /// (any more).
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub async fn first_link(
        &self,
        volume: &Arc<Volume>,
        caller: &Arc<Caller>,
        path: RelPath,
    ) -> Result<Option<LinkOnPath>> {
        let (volume, caller) = (volume.clone(), caller.clone());
        self.offload(move || first_link(&volume, &caller, &path)).await
    }

    /// Replaces the open file by a symbolic link to `target`.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open lacks the right, or for the root;
    /// [`FsError::ShareViolation`] with other opens; [`FsError::NotSupported`] if the file is not
    /// empty; [`FsError::PrivilegeNotHeld`] if the link leads out of the volume; as
    /// [`vfs::Vfs::symlink`].
    pub async fn set_symlink(&self, open: &Arc<OpenFile>, target: Vec<u8>) -> Result<()> {
        need_change(open)?;
        check_target(open.volume(), &open.path(), &target)?;
        self.replace_by(open, Successor::Symlink(target)).await
    }

    /// Replaces the open file by a pipe, socket or device.
    ///
    /// # Errors
    /// As [`RequestFiles::set_symlink`]; [`FsError::NotSupported`] for devices where the volume or
    /// the caller may have none: the caller can store reparse data instead.
    pub async fn set_special(&self, open: &Arc<OpenFile>, kind: SpecialKind) -> Result<()> {
        need_change(open)?;
        let may_be_device = open.volume().options.device_nodes && open.caller.is_root();
        if matches!(kind, SpecialKind::Device(_)) && !may_be_device {
            return Err(FsError::NotSupported);
        }
        self.replace_by(open, Successor::Special(kind)).await
    }

    /// Stores reparse data. For a symbolic link, `link_text` is its target with `/` between
    /// components.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open lacks the right, [`FsError::NotSupported`] for
    /// anything but a file, or where none can be stored; [`FsError::PrivilegeNotHeld`] for a link
    /// that leads out of the volume.
    pub async fn set_reparse(
        &self,
        open: &Arc<OpenFile>,
        data: Vec<u8>,
        link_text: Option<&[u8]>,
    ) -> Result<()> {
        need_change(open)?;
        if let Some(text) = link_text {
            check_target(open.volume(), &open.path(), text)?;
        }
        self.store(open, Some(data)).await
    }

    /// Removes the reparse point: a link becomes an empty file.
    ///
    /// # Errors
    /// As [`RequestFiles::set_symlink`]; [`FsError::NotSupported`] for special files.
    pub async fn delete_reparse(&self, open: &Arc<OpenFile>) -> Result<()> {
        need_change(open)?;
        match self.reparse(open)? {
            Reparse::Symlink(_) => self.replace_by(open, Successor::File).await,
            Reparse::Special(_) => Err(FsError::NotSupported),
            Reparse::Stored(_) => self.store(open, None).await,
        }
    }

    async fn store(&self, open: &Arc<OpenFile>, data: Option<Vec<u8>>) -> Result<()> {
        if open.present().kind() != FileKind::File {
            return Err(FsError::NotSupported);
        }
        let node = open.present().clone();
        let present = node.attributes(WANTED)?;
        let owner = dos_authority(&open.caller, &present);
        let bits = present.dos.bits.unwrap_or(dos::ARCHIVE) & !(dos::REPARSE_POINT | dos::NORMAL);
        let mark = if data.is_some() { dos::REPARSE_POINT } else { 0 };
        let dos = Some(DosInfo { bits: Some(bits | mark), created: None });
        let times = open.frozen_times();
        self.offload(move || {
            keep_times(times.as_ref(), MovedTimes::Changed, || {
                node.need_reparse_data()?.set_reparse_data(owner.actor(), data.as_deref())?;
                node.set_attributes(owner.actor(), &AttributeChanges { dos, ..Default::default() })
            })
        })
        .await?;
        open.report_modified(&self.context, WatchFilter::ATTRIBUTES);
        Ok(())
    }

    /// Replaces the open file by another node.
    async fn replace_by(&self, open: &Arc<OpenFile>, successor: Successor) -> Result<()> {
        need_change(open)?;
        let (open, context) = (open.clone(), self.context.clone());
        open.renames.store(true, std::sync::atomic::Ordering::Release);
        let turn = self.table.rename_turns.take_tree(open.volume().vfs_serial()).await;
        let call = move || replace_now(&context, &open, &turn, &successor);
        offload_in_turn(&*self.workers, &self.holder, call).await
    }
}

fn need_change(open: &OpenFile) -> Result<()> {
    open.need_any(Access::WRITE_DATA | Access::WRITE_ATTRIBUTES)?;
    open.need_writable()?;
    if open.name.stream.is_some() { Err(FsError::NotSupported) } else { Ok(()) }
}

/// Content of a node that is a reparse point.
fn reparse_of(caller: &Caller, node: &dyn Node) -> Result<Reparse> {
    match node.kind() {
        FileKind::Symlink => node.readlink(caller.identity.actor()).map(Reparse::Symlink),
        FileKind::Device | FileKind::Fifo | FileKind::Socket => {
            Ok(Reparse::Special(Box::new(node.attributes(AttributeRequest::default())?)))
        }
        FileKind::File => node.reparse_data(METADATA).map(Reparse::Stored),
        FileKind::Directory => Err(FsError::NotFound),
    }
}

/// Whether a file that was found without following must not be opened for data.
pub(crate) fn is_reparse_point(node: &dyn Node, attributes: &Attributes) -> bool {
    match attributes.kind {
        FileKind::Device | FileKind::Fifo | FileKind::Socket => true,
        FileKind::File if attributes.dos.bits.unwrap_or(0) & dos::REPARSE_POINT != 0 => {
            node.reparse_data(METADATA).is_ok()
        }
        _ => false,
    }
}

fn look(volume: &Volume, caller: &Caller, path: &RelPath, no_follow: bool) -> Result<OpenedNode> {
    let how = OpenHow {
        read: false,
        write: false,
        case: volume.options.case,
        wanted: AttributeRequest::default(),
        no_follow,
        wait: Wait::Allowed,
    };
    volume.vfs.open(caller.identity.actor(), path, how)
}

fn first_link(volume: &Volume, caller: &Caller, path: &RelPath) -> Result<Option<LinkOnPath>> {
    let mut components = path.components();
    let mut so_far = RelPath::root();
    while let Some(component) = components.next() {
        so_far.push(&Name::new(component)?);
        let found = match look(volume, caller, &so_far, true) {
            Err(FsError::Io) => return Err(FsError::Io),
            Err(_) => return Ok(None),
            Ok(found) => found,
        };
        if found.attributes.kind == FileKind::Symlink {
            let names: Result<RelPath> = components.map(Name::new).collect();
            let target = found.node.readlink(caller.identity.actor())?;
            return Ok(Some(LinkOnPath { target, rest: names? }));
        }
    }
    Ok(None)
}

fn replace_now(
    context: &RequestContext,
    open: &OpenFile,
    turn: &RenameTurn,
    successor: &Successor,
) -> Result<()> {
    let _renaming = open.table.rename_turns.begin_rename(turn);
    let path = open.path();
    let (parent, _) = path.split().ok_or(FsError::AccessDenied)?;
    let held = open.state.view();
    if !held.grants.is_open(open.id) {
        return Err(FsError::Stale);
    }
    if open.is_replaced() {
        return Err(FsError::NotSupported);
    }
    if held.grants.open_count() > 1 || held.has_open_streams() {
        return Err(FsError::ShareViolation);
    }
    drop(held);
    let (vfs, identity) = (&open.volume().vfs, &open.caller.identity);
    let present = open.present().attributes(WANTED)?;
    let exact = OpenHow {
        read: present.kind == FileKind::Directory,
        write: false,
        case: Case::Sensitive,
        wanted: WANTED,
        no_follow: true,
        wait: Wait::Allowed,
    };
    let found = vfs.open(identity.actor(), &path, exact)?;
    if found.attributes.key != present.key {
        // The open followed a link, or the name refers to another file by now.
        return Err(FsError::NotSupported);
    }
    check_empty(&found)?;
    let passing = parent.join(&Name::new(format!("{PASSING_NAME}{}", open.id.0).into_bytes())?);
    let created = match successor {
        Successor::Symlink(target) => vfs.symlink(identity.actor(), &passing, target)?,
        Successor::Special(kind) => {
            let mode = CreationMode::exactly(present.mode & 0o777);
            vfs.create_special(identity.actor(), &passing, *kind, mode)?
        }
        Successor::File => make_file(open, &passing)?,
    };
    let result = match present.kind {
        // Only a directory can be renamed over a directory.
        FileKind::Directory => vfs
            .remove(identity.actor(), &path, present.key)
            .and_then(|()| vfs.rename(identity.actor(), &passing, &path, Replace::Never)),
        _ => vfs.rename(identity.actor(), &passing, &path, Replace::File),
    };
    if let Err(error) = result {
        let _ = vfs.remove(identity.actor(), &passing, created.attributes.key);
        return Err(error);
    }
    let link_text = match successor {
        Successor::Symlink(target) => Some(target.clone()),
        Successor::File | Successor::Special(_) => None,
    };
    open.keep_times_on(TimedNode::new(created.node.clone(), link_text), &present);
    open.redirect_to(created.node);
    open.report_modified(context, WatchFilter::ATTRIBUTES);
    Ok(())
}

/// Checks that no data would be lost.
fn check_empty(found: &OpenedNode) -> Result<()> {
    let is_empty = match found.attributes.kind {
        FileKind::Directory => {
            return match found.node.is_empty()? {
                true => Ok(()),
                false => Err(FsError::NotEmpty),
            };
        }
        FileKind::File => found.attributes.size_bytes == 0 && found.attributes.links == 1,
        FileKind::Symlink => true,
        _ => false,
    };
    if is_empty { Ok(()) } else { Err(FsError::NotSupported) }
}

fn make_file(open: &OpenFile, passing: &RelPath) -> Result<OpenedNode> {
    let volume = open.volume();
    let how = CreateHow {
        kind: FileKind::File,
        mode: CreationMode::exactly(volume.options.file_mode),
        dos: None,
        wanted: WANTED,
        initialiser: None,
    };
    volume.vfs.create(open.caller.identity.actor(), passing, Case::Sensitive, how)
}
