//! Files that stand for something else: symbolic links, devices, and what clients
//! store as reparse data. MS-FSA 2.1.5.10.12, 2.1.5.10.35, 2.1.5.10.5.
//!
//! A link that a client makes becomes a symbolic link on the disk, which all see, and a pipe or a
//! socket becomes one. It takes the place of the empty file that it was made of, and the open
//! goes on with it.

use crate::authorize::dos_authority;
use crate::context::RequestContext;
use crate::link_target::check_target;
use crate::offload::offload_in_turn;
use crate::server_work::{METADATA, WANTED};
use crate::table::Table;
use crate::volume::dos;
use crate::watch::Filter;
use crate::{Access, Caller, OpenFile, RequestFiles, Volume};
use std::sync::Arc;
use vfs::{
    AttributeChanges, Attributes, Case, CreateHow, CreationMode, DosInfo, FileKind, FsError, Name,
    Node, OpenHow, Opened, RelPath, Replace, Result, SpecialKind, Wait, Wanted,
};

/// What a name begins with until it takes another's place.
const PASSING_NAME: &str = ".anabranch-link-";

/// What a file stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reparse {
    /// A symbolic link with this text.
    Symlink(Vec<u8>),
    /// A pipe, a socket or a device of the system, as its attributes say.
    Special(Box<Attributes>),
    /// What a client stored.
    Stored(Vec<u8>),
}

/// The node that takes the place of an open file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Successor {
    /// An empty file.
    File,
    /// A symbolic link with this text.
    Symlink(Vec<u8>),
    /// A pipe, a socket or a device.
    Special(SpecialKind),
}

/// A symbolic link that a path leads over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetLink {
    /// Its text.
    pub target: Vec<u8>,
    /// What follows it in the path.
    pub rest: RelPath,
}

impl RequestFiles {
    /// What the open file stands for.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if for itself.
    pub fn reparse(&self, open: &OpenFile) -> Result<Reparse> {
        if open.name.stream.is_some() {
            return Err(FsError::NotFound);
        }
        reparse_of(&open.caller, &**open.present())
    }

    /// What a child stands for.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if for itself, or it has gone.
    pub fn child_reparse(&self, open: &OpenFile, name: &Name) -> Result<Reparse> {
        let path = open.path().join(name);
        let found = look(open.volume(), &open.caller, &path, true)?;
        reparse_of(&open.caller, &*found.node)
    }

    /// The first symbolic link on the way along `path`, its end included; none if
    /// there is none (any more).
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub async fn first_link(
        &self,
        volume: &Arc<Volume>,
        caller: &Arc<Caller>,
        path: RelPath,
    ) -> Result<Option<MetLink>> {
        let (volume, caller) = (volume.clone(), caller.clone());
        self.offload(move || first_link(&volume, &caller, &path)).await
    }

    /// Makes the open file a symbolic link with the text `target`.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open may not change it, or it is the root;
    /// [`FsError::ShareViolation`] if others have it open; [`FsError::NotSupported`] if
    /// there is something in it, which would be lost; [`FsError::PrivilegeNotHeld`] if the text
    /// leads out of the volume; as [`vfs::Vfs::symlink`].
    pub async fn set_symlink(&self, open: &Arc<OpenFile>, target: Vec<u8>) -> Result<()> {
        need_change(open)?;
        check_target(open.volume(), &open.path(), &target)?;
        self.turn(open, Successor::Symlink(target)).await
    }

    /// Makes the open file a pipe, a socket or a device of the system.
    ///
    /// # Errors
    /// As [`RequestFiles::set_symlink`]; [`FsError::NotSupported`] for devices where the volume or
    /// the caller may have none: what the file stands for can be stored beside it.
    pub async fn set_special(&self, open: &Arc<OpenFile>, kind: SpecialKind) -> Result<()> {
        need_change(open)?;
        let may_be_device = open.volume().options.device_nodes && open.caller.is_root();
        if matches!(kind, SpecialKind::Device(_)) && !may_be_device {
            return Err(FsError::NotSupported);
        }
        self.turn(open, Successor::Special(kind)).await
    }

    /// Stores what the file stands for: `link_text` is its target, with `/` between components,
    /// if that is a symbolic link.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open may not change it,
    /// [`FsError::NotSupported`] for anything but a file, or where none can be stored;
    /// [`FsError::PrivilegeNotHeld`] for a link that leads out of the volume.
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

    /// Makes the file stand for itself again: a link becomes an empty file.
    ///
    /// # Errors
    /// As [`RequestFiles::set_symlink`]; [`FsError::NotSupported`] for devices and their like.
    pub async fn delete_reparse(&self, open: &Arc<OpenFile>) -> Result<()> {
        need_change(open)?;
        match self.reparse(open)? {
            Reparse::Symlink(_) => self.turn(open, Successor::File).await,
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
        self.offload(move || {
            node.set_reparse_data(owner.actor(), data.as_deref())?;
            node.set_attributes(owner.actor(), &AttributeChanges { dos, ..Default::default() })
        })
        .await?;
        open.report_modified(&self.context, Filter::ATTRIBUTES);
        Ok(())
    }

    /// Puts something else in the place of the open file.
    async fn turn(&self, open: &Arc<OpenFile>, successor: Successor) -> Result<()> {
        need_change(open)?;
        let (table, open, context) = (self.table.clone(), open.clone(), self.context.clone());
        open.renames.store(true, std::sync::atomic::Ordering::Release);
        let turn = table.rename_turns.clone().lock_owned().await;
        let call = move || {
            let _turn = turn;
            turn_now(&context, &table, &open, &successor)
        };
        offload_in_turn(&*self.workers, call).await
    }
}

fn need_change(open: &OpenFile) -> Result<()> {
    open.need_any(Access::WRITE_DATA | Access::WRITE_ATTRIBUTES)?;
    open.need_writable()?;
    if open.name.stream.is_some() { Err(FsError::NotSupported) } else { Ok(()) }
}

/// What a node stands for.
fn reparse_of(caller: &Caller, node: &dyn Node) -> Result<Reparse> {
    match node.kind() {
        FileKind::Symlink => node.read_link(caller.identity.actor()).map(Reparse::Symlink),
        FileKind::Device | FileKind::Fifo | FileKind::Socket => {
            Ok(Reparse::Special(Box::new(node.attributes(Wanted::default())?)))
        }
        FileKind::File => node.reparse_data(METADATA).map(Reparse::Stored),
        FileKind::Directory => Err(FsError::NotFound),
    }
}

/// Whether a file found without regard to what it stands for must not be opened so.
pub(crate) fn stands_for_other(node: &dyn Node, attributes: &Attributes) -> bool {
    match attributes.kind {
        FileKind::Device | FileKind::Fifo | FileKind::Socket => true,
        FileKind::File if attributes.dos.bits.unwrap_or(0) & dos::REPARSE_POINT != 0 => {
            node.reparse_data(METADATA).is_ok()
        }
        _ => false,
    }
}

fn look(volume: &Volume, caller: &Caller, path: &RelPath, no_follow: bool) -> Result<Opened> {
    let how = OpenHow {
        read: false,
        write: false,
        case: volume.options.case,
        wanted: Wanted::default(),
        no_follow,
        wait: Wait::Allowed,
    };
    volume.vfs.open(caller.identity.actor(), path, how)
}

fn first_link(volume: &Volume, caller: &Caller, path: &RelPath) -> Result<Option<MetLink>> {
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
            let target = found.node.read_link(caller.identity.actor())?;
            return Ok(Some(MetLink { target, rest: names? }));
        }
    }
    Ok(None)
}

fn turn_now(
    context: &RequestContext,
    table: &Table,
    open: &OpenFile,
    successor: &Successor,
) -> Result<()> {
    let _renaming = table.begin_rename();
    let path = open.path();
    let (parent, _) = path.split().ok_or(FsError::AccessDenied)?;
    let held = open.state.look();
    if !held.grants.is_open(open.id) {
        return Err(FsError::Stale);
    }
    if open.is_turned() {
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
        // It was opened through a link, or is another one by now.
        return Err(FsError::NotSupported);
    }
    check_empty(&found)?;
    let passing = parent.join(&Name::new(format!("{PASSING_NAME}{}", open.id.0).into_bytes())?);
    let made = match successor {
        Successor::Symlink(target) => vfs.symlink(identity.actor(), &passing, target)?,
        Successor::Special(kind) => {
            let mode = CreationMode::exactly(present.mode & 0o777);
            vfs.make_special(identity.actor(), &passing, *kind, mode)?
        }
        Successor::File => make_file(open, &passing)?,
    };
    let result = match present.kind {
        // A directory gives way to nothing but a directory.
        FileKind::Directory => vfs
            .remove(identity.actor(), &path, present.key)
            .and_then(|()| vfs.rename(identity.actor(), &passing, &path, Replace::Never)),
        _ => vfs.rename(identity.actor(), &passing, &path, Replace::File),
    };
    if let Err(error) = result {
        let _ = vfs.remove(identity.actor(), &passing, made.attributes.key);
        return Err(error);
    }
    open.become_node(made.node);
    open.report_modified(context, Filter::ATTRIBUTES);
    Ok(())
}

/// Nothing may be lost.
fn check_empty(found: &Opened) -> Result<()> {
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

fn make_file(open: &OpenFile, passing: &RelPath) -> Result<Opened> {
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
