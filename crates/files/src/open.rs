//! Opening: resolve, authorize, acquire, apply.
//!
//! All branching is in [`Files::open`] and `open_existing`; the stages are
//! straight. A lost race leads back to resolving, a bounded number of times.

use crate::authorize::{allowed, descriptor_of, synthesised};
use crate::open_file::{OpenFile, OpenParts};
use crate::table::{FileState, OpenName};
use crate::volume::dos;
use crate::{Caller, Files, Volume};
use acl::{Access, Creator, Descriptor, Sid};
use grants::{OpenId, OpenWish, Share};
use std::sync::Arc;
use vfs::{
    AttributeChanges, Attributes, CreateHow, DosInfo, FileKind, FsError, Name, OpenHow, Opened,
    RelPath, Result, TimeChange, Wait, Wanted,
};

/// Times a race with another creator or remover is retried.
const RESOLVE_TRIES_MAX: u32 = 8;

/// What to do with a file that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// Refuse.
    Fail,
    /// Open it.
    Open,
    /// Open it and cut it to nothing.
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

/// An open as it is asked for.
#[derive(Clone, Debug)]
pub struct OpenPlan {
    /// Where.
    pub path: RelPath,
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
    /// Extended attributes of what is made.
    pub xattrs: Vec<(Name, Vec<u8>)>,
    /// Open a symbolic link itself.
    pub no_follow: bool,
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
}

/// Everything an open needs to know, on its way through the stages.
#[derive(Clone)]
struct Context {
    volume: Arc<Volume>,
    caller: Arc<Caller>,
    plan: OpenPlan,
    id: OpenId,
}

const WRITE_DATA: Access = Access(Access::WRITE_DATA.0 | Access::APPEND_DATA.0);
const READ_DATA: Access = Access(Access::READ_DATA.0 | Access::EXECUTE.0);

impl Files {
    /// Opens or makes a file or directory.
    ///
    /// Dropping the future before it is done leaves nothing held; a file it
    /// made stays.
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::PathNotFound`], [`FsError::AlreadyExists`],
    /// [`FsError::IsDirectory`], [`FsError::NotDirectory`], [`FsError::AccessDenied`],
    /// [`FsError::ShareViolation`], [`FsError::DeletePending`], [`FsError::CannotDelete`],
    /// [`FsError::NoSpace`].
    pub async fn open(
        &self,
        volume: &Arc<Volume>,
        caller: &Arc<Caller>,
        plan: OpenPlan,
    ) -> Result<OpenResult> {
        let cx = Context {
            volume: volume.clone(),
            caller: caller.clone(),
            plan,
            id: self.new_open_id(),
        };
        for _ in 0..RESOLVE_TRIES_MAX {
            let result = match resolve(&cx, Wait::Never) {
                Ok(opened) => self.open_existing(&cx, opened),
                Err(FsError::WouldBlock) => self.open_slowly(&cx).await,
                Err(error) => Err(error),
            };
            match result {
                Err(FsError::NotFound) if cx.plan.if_missing == IfMissing::Create => {}
                other => return other,
            }
            match self.create(&cx) {
                // Someone else was faster: it is there now.
                Err(FsError::AlreadyExists) if cx.plan.if_exists != IfExists::Fail => {}
                other => return other,
            }
        }
        Err(FsError::ShareViolation)
    }

    /// The same on a worker: the path is not in memory, or its name has
    /// another case.
    async fn open_slowly(&self, cx: &Context) -> Result<OpenResult> {
        let on_worker = cx.clone();
        let opened = self.offload(move || resolve(&on_worker, Wait::Allowed)).await?;
        self.open_existing(cx, opened)
    }

    fn open_existing(&self, cx: &Context, opened: Opened) -> Result<OpenResult> {
        let plan = &cx.plan;
        if plan.if_exists == IfExists::Fail {
            return Err(FsError::AlreadyExists);
        }
        let replaces = plan.if_exists != IfExists::Open;
        check_kind(plan, opened.attributes.kind, replaces)?;
        let granted = authorize(cx, &opened)?;
        check_bits(cx, &opened.attributes, granted, replaces)?;
        let (state, name) = self.acquire(cx, &opened, granted)?;
        let ticket = Ticket { files: self, state: Some(state), id: cx.id };
        let mut attributes = opened.attributes;
        if replaces {
            overwrite(cx, &opened)?;
            attributes = opened.node.attributes(WANTED)?;
        }
        let action = match plan.if_exists {
            IfExists::Overwrite => OpenAction::Overwritten,
            IfExists::Supersede => OpenAction::Superseded,
            _ => OpenAction::Opened,
        };
        let open = self.finish(cx, ticket, name, opened, granted);
        Ok(OpenResult { open, action, attributes })
    }

    fn create(&self, cx: &Context) -> Result<OpenResult> {
        let plan = &cx.plan;
        if cx.volume.options.read_only {
            return Err(FsError::ReadOnly);
        }
        let is_directory = plan.kind == WishedKind::Directory;
        if plan.delete_on_close && plan.dos_bits & dos::READONLY != 0 {
            return Err(FsError::CannotDelete);
        }
        let parent = authorize_parent(cx, is_directory)?;
        let how = CreateHow {
            kind: if is_directory { FileKind::Directory } else { FileKind::File },
            mode: if is_directory {
                cx.volume.options.directory_mode
            } else {
                cx.volume.options.file_mode
            },
            dos: new_bits(plan.dos_bits, is_directory)
                .map(|bits| DosInfo { bits: Some(bits), created: None }),
            wanted: WANTED,
        };
        let opened =
            cx.volume.vfs.create(&cx.caller.identity, &plan.path, cx.volume.options.case, how)?;
        let result = self.finish_create(cx, opened.clone(), parent.as_ref(), is_directory);
        if result.is_err() {
            // What was half made goes again; it was ours alone until now.
            let _ = cx.volume.vfs.remove(&cx.caller.identity, &opened.path, opened.attributes.key);
        }
        result
    }

    fn finish_create(
        &self,
        cx: &Context,
        mut opened: Opened,
        parent: Option<&Descriptor>,
        is_directory: bool,
    ) -> Result<OpenResult> {
        let descriptor = new_descriptor(cx, &opened, parent, is_directory)?;
        for (name, value) in &cx.plan.xattrs {
            opened.node.set_xattr(&cx.caller.identity, name, Some(value))?;
        }
        if let Some(bytes) = cx.plan.allocation_bytes.filter(|b| *b > 0 && !is_directory) {
            reserve(&opened, bytes)?;
        }
        if descriptor.is_some() || cx.plan.allocation_bytes.is_some() {
            opened.attributes = opened.node.attributes(WANTED)?;
        }
        // Whoever makes a file has what they asked for, whatever it inherits.
        let desired = cx.plan.desired.map_generic();
        let mut granted = desired - Access::MAXIMUM_ALLOWED;
        if desired.contains(Access::MAXIMUM_ALLOWED) {
            let in_force = descriptor.unwrap_or_else(|| synthesised(&opened.attributes));
            granted |= allowed(&cx.volume, &cx.caller, &in_force) - Access::SYSTEM_SECURITY;
        }
        if granted.contains(Access::SYSTEM_SECURITY)
            && !cx.caller.token.may_audit
            && !cx.caller.is_root()
        {
            return Err(FsError::AccessDenied);
        }
        let (state, name) = self.acquire(cx, &opened, granted)?;
        let ticket = Ticket { files: self, state: Some(state), id: cx.id };
        let attributes = opened.attributes;
        let open = self.finish(cx, ticket, name, opened, granted);
        Ok(OpenResult { open, action: OpenAction::Created, attributes })
    }

    fn acquire(
        &self,
        cx: &Context,
        opened: &Opened,
        granted: Access,
    ) -> Result<(Arc<FileState>, Arc<OpenName>)> {
        let wish = OpenWish {
            id: cx.id,
            access: granted,
            share: cx.plan.share,
            delete_on_close: cx.plan.delete_on_close,
        };
        self.table.open(opened.attributes.key, &cx.volume, &opened.path, wish)
    }

    fn finish(
        &self,
        cx: &Context,
        mut ticket: Ticket<'_>,
        name: Arc<OpenName>,
        opened: Opened,
        granted: Access,
    ) -> Arc<OpenFile> {
        let state = ticket.state.take().expect("a ticket is used once");
        Arc::new(OpenFile::new(OpenParts {
            id: cx.id,
            node: opened.node,
            state,
            name,
            caller: cx.caller.clone(),
            granted,
            share: cx.plan.share,
            delete_on_close: cx.plan.delete_on_close,
            table: self.table.clone(),
        }))
    }
}

/// An acquired open that releases itself unless it is taken.
struct Ticket<'a> {
    files: &'a Files,
    state: Option<Arc<FileState>>,
    id: OpenId,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            let closed = self.files.table.close(&state, self.id);
            if closed.last {
                // Not deleted: the open that asked for it never came to be.
                state.grants().set_delete_pending(false);
                self.files.table.forget(&state);
            }
        }
    }
}

const WANTED: Wanted = Wanted { dos: true };

/// Finds the node and opens it for what may be granted.
fn resolve(cx: &Context, wait: Wait) -> Result<Opened> {
    let desired = cx.plan.desired.map_generic();
    let maximum = desired.contains(Access::MAXIMUM_ALLOWED);
    let replaces = matches!(cx.plan.if_exists, IfExists::Overwrite | IfExists::Supersede);
    let writable = !cx.volume.options.read_only;
    let mut how = OpenHow {
        read: maximum || desired.intersects(READ_DATA | Access::APPEND_DATA) || replaces,
        write: writable && (maximum || desired.intersects(WRITE_DATA) || replaces),
        case: cx.volume.options.case,
        wanted: WANTED,
        no_follow: cx.plan.no_follow,
        wait,
    };
    // Collisions are found without looking inside.
    if cx.plan.if_exists == IfExists::Fail {
        (how.read, how.write) = (false, false);
    }
    loop {
        match cx.volume.vfs.open(&cx.caller.identity, &cx.plan.path, how) {
            Err(FsError::AccessDenied | FsError::ReadOnly)
                if how.write && (maximum || how.read) && !replaces =>
            {
                if !maximum && desired.intersects(WRITE_DATA) {
                    return Err(FsError::AccessDenied);
                }
                how.write = false;
            }
            Err(FsError::AccessDenied) if how.read && maximum => how.read = false,
            other => return other,
        }
    }
}

fn check_kind(plan: &OpenPlan, kind: FileKind, replaces: bool) -> Result<()> {
    let is_directory = kind == FileKind::Directory;
    match plan.kind {
        WishedKind::File if is_directory => Err(FsError::IsDirectory),
        WishedKind::Directory if !is_directory => Err(FsError::NotDirectory),
        _ if is_directory && replaces => Err(FsError::AlreadyExists),
        _ if matches!(kind, FileKind::Device | FileKind::Fifo | FileKind::Socket)
            && !plan.no_follow =>
        {
            // Only to look at: data of such a node is not a file's.
            let data = plan.desired.map_generic().intersects(READ_DATA | WRITE_DATA);
            if data { Err(FsError::AccessDenied) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

fn authorize(cx: &Context, opened: &Opened) -> Result<Access> {
    let desired = cx.plan.desired.map_generic();
    let maximum = desired.contains(Access::MAXIMUM_ALLOWED);
    let mut named = desired - Access::MAXIMUM_ALLOWED;
    match cx.plan.if_exists {
        IfExists::Overwrite => named |= Access::NONE,
        IfExists::Supersede => named |= Access::NONE,
        _ => {}
    }
    let descriptor = descriptor_of(&*opened.node, &opened.attributes);
    let mut allowed = allowed(&cx.volume, &cx.caller, &descriptor);
    if !allowed.contains(Access::DELETE)
        && (maximum || named.contains(Access::DELETE))
        && parent_lets_delete(cx)
    {
        allowed |= Access::DELETE & cx.volume.max_access();
    }
    // Who may list the parent may look at attributes of what is in it.
    if !allowed.contains(Access::READ_ATTRIBUTES) && named.contains(Access::READ_ATTRIBUTES) {
        allowed |= Access::READ_ATTRIBUTES;
    }
    let replaces = matches!(cx.plan.if_exists, IfExists::Overwrite | IfExists::Supersede);
    if replaces && !allowed.contains(Access::WRITE_DATA) {
        return Err(if cx.volume.options.read_only {
            FsError::ReadOnly
        } else {
            FsError::AccessDenied
        });
    }
    if !allowed.contains(named) {
        let only_read_only = cx.volume.options.read_only && named.intersects(WRITE_DATA);
        return Err(if only_read_only { FsError::ReadOnly } else { FsError::AccessDenied });
    }
    Ok(if maximum { allowed - Access::SYSTEM_SECURITY | named } else { named })
}

fn parent_node(cx: &Context) -> Result<Opened> {
    let (parent, _) = cx.plan.path.split().ok_or(FsError::AccessDenied)?;
    let how = OpenHow {
        read: false,
        write: false,
        case: cx.volume.options.case,
        wanted: Wanted::default(),
        no_follow: false,
        wait: Wait::Allowed,
    };
    cx.volume.vfs.open(&cx.caller.identity, &parent, how)
}

fn parent_lets_delete(cx: &Context) -> bool {
    let Ok(parent) = parent_node(cx) else { return false };
    let descriptor = descriptor_of(&*parent.node, &parent.attributes);
    allowed(&cx.volume, &cx.caller, &descriptor).contains(Access::DELETE_CHILD)
}

/// Whether the parent's stored descriptor lets something be made; gives the
/// descriptor for inheritance.
fn authorize_parent(cx: &Context, is_directory: bool) -> Result<Option<Descriptor>> {
    let parent = parent_node(cx)
        .map_err(|e| if e == FsError::NotFound { FsError::PathNotFound } else { e })?;
    let Some(stored) = parent.node.security_descriptor()? else { return Ok(None) };
    let Ok(descriptor) = Descriptor::decode(&stored) else { return Ok(None) };
    // ADD_FILE and ADD_SUBDIRECTORY are the directory's names for these bits.
    let needed = if is_directory { Access::APPEND_DATA } else { Access::WRITE_DATA };
    if allowed(&cx.volume, &cx.caller, &descriptor).contains(needed) {
        Ok(Some(descriptor))
    } else {
        Err(FsError::AccessDenied)
    }
}

/// Rules of DOS attributes: read-only, hidden, system. MS-FSA 2.1.5.1.2.
fn check_bits(
    cx: &Context,
    attributes: &Attributes,
    granted: Access,
    replaces: bool,
) -> Result<()> {
    let bits = attributes.dos.bits.unwrap_or(0);
    let is_directory = attributes.kind == FileKind::Directory;
    let named = cx.plan.desired.map_generic();
    if bits & dos::READONLY != 0 && !is_directory && (replaces || named.intersects(WRITE_DATA)) {
        return Err(FsError::AccessDenied);
    }
    if replaces {
        let kept = dos::HIDDEN | dos::SYSTEM;
        if bits & kept & !cx.plan.dos_bits != 0 {
            return Err(FsError::AccessDenied);
        }
    }
    if cx.plan.delete_on_close {
        if !granted.contains(Access::DELETE) {
            return Err(FsError::AccessDenied);
        }
        if bits & dos::READONLY != 0 || cx.volume.options.read_only {
            return Err(FsError::CannotDelete);
        }
        if cx.plan.path.is_root() {
            return Err(FsError::AccessDenied);
        }
    }
    Ok(())
}

fn overwrite(cx: &Context, opened: &Opened) -> Result<()> {
    let bits =
        new_bits(cx.plan.dos_bits, false).or(opened.attributes.dos.bits.map(|_| dos::ARCHIVE));
    opened.node.set_size(0)?;
    // Cutting an empty file does not move its times by itself.
    let dos = bits.map(|bits| DosInfo { bits: Some(bits), created: None });
    let changes =
        AttributeChanges { modified: TimeChange::Now, dos, ..AttributeChanges::default() };
    opened.node.set_attributes(&cx.caller.identity, &changes)?;
    match cx.plan.allocation_bytes {
        Some(bytes) if bytes > 0 => reserve(opened, bytes),
        _ => Ok(()),
    }
}

fn reserve(opened: &Opened, bytes: u64) -> Result<()> {
    match opened.node.allocate(0, bytes) {
        // A wish, where the file system cannot.
        Err(FsError::NotSupported) => Ok(()),
        other => other,
    }
}

/// Bits to store with something new; none where it is what is shown anyway.
fn new_bits(asked: u32, is_directory: bool) -> Option<u32> {
    let settable = asked & dos::SETTABLE;
    if is_directory {
        let bits = settable & !dos::ARCHIVE & !dos::TEMPORARY;
        return (bits != 0).then_some(bits | dos::DIRECTORY);
    }
    let bits = settable | dos::ARCHIVE;
    (bits != dos::ARCHIVE).then_some(bits)
}

/// Stores the descriptor of something new: the one asked for, or what the
/// parent passes on.
fn new_descriptor(
    cx: &Context,
    opened: &Opened,
    parent: Option<&Descriptor>,
    is_directory: bool,
) -> Result<Option<Descriptor>> {
    let identity = &cx.caller.identity;
    let creator =
        Creator { owner: Sid::unix_user(identity.uid), group: Sid::unix_group(identity.gid) };
    let asked = match &cx.plan.descriptor {
        Some(bytes) => Some(Descriptor::decode(bytes).map_err(|_| FsError::InvalidParameter)?),
        None => None,
    };
    let inherited = parent.and_then(|p| acl::inherit(p, &creator, is_directory));
    let mut descriptor = match (asked, inherited) {
        (Some(asked), Some(inherited))
            if asked.dacl.is_none() && asked.control & acl::control::DACL_PRESENT == 0 =>
        {
            Descriptor { owner: asked.owner, group: asked.group, ..inherited }
        }
        (Some(asked), _) => asked,
        (None, Some(inherited)) => inherited,
        (None, None) => return Ok(None),
    };
    if descriptor.control & acl::control::DACL_PRESENT == 0 {
        // None was given, which is not the same as one that grants everything.
        descriptor.dacl = synthesised(&opened.attributes).dacl;
        descriptor.control |= acl::control::DACL_PRESENT;
    }
    descriptor.owner.get_or_insert(creator.owner);
    descriptor.group.get_or_insert(creator.group);
    match opened.node.set_security_descriptor(identity, Some(&descriptor.encode())) {
        Ok(()) | Err(FsError::NotSupported) => Ok(Some(descriptor)),
        Err(error) => Err(error),
    }
}
