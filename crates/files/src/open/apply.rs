//! Stage 6: create, initialise, truncate.

use super::OpenInProgress;
use crate::authorize::{as_granted, dos_authority, facts, owner_group};
use crate::server_work::{METADATA, WANTED};
use crate::volume::dos;
use crate::watch::{ChangeAction, WatchFilter};
use crate::{Caller, Volume};
use acl::{Creator, Descriptor, PosixFacts, Sid, control};
use std::sync::Arc;
use vfs::{
    AttributeChanges, AttributeRequest, ChildName, CreateHow, CreationMode, DosInfo, FileKind,
    FsError, Initialisation, NameActor, Node, NodeInitialiser, OpenedNode, OwnerChange, Result,
    SecurityChange, TimeChange,
};

/// A node that was just created.
pub(super) struct CreatedNode {
    pub opened: OpenedNode,
    /// Directory whose stored descriptor granted the creation, if POSIX mode bits refused it.
    pub granted_in: Option<Arc<dyn Node>>,
}

/// Initialises a new file or directory with the request's descriptor, attributes and stream.
struct RequestInitialiser<'a> {
    opening: &'a OpenInProgress,
    descriptor: Option<&'a Descriptor>,
}

impl std::fmt::Debug for RequestInitialiser<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestInitialiser")
            .field("descriptor", &self.descriptor)
            .finish_non_exhaustive()
    }
}

impl NodeInitialiser for RequestInitialiser<'_> {
    fn replaces_mode(&self) -> bool {
        self.descriptor.is_some()
    }

    fn initialise(&self, new: &OpenedNode) -> Result<Initialisation> {
        let Self { opening, descriptor } = self;
        let mut initialised = Initialisation::Complete;
        if let Some(descriptor) = descriptor {
            let facts = facts(&new.attributes);
            let owner_group = owner_group(&opening.caller, &facts);
            let permissions = acl::to_posix(descriptor, &facts, owner_group);
            let change = SecurityChange {
                descriptor: Some(&descriptor.encode()),
                owner: OwnerChange::default(),
                permissions: Some(&permissions),
            };
            match new.node.set_security(opening.user(), &change) {
                Ok(()) => {}
                Err(FsError::NotSupported) => initialised = Initialisation::WithoutDescriptor,
                Err(error) => return Err(error),
            }
        }
        opening.set_xattrs(new)?;
        if let (Some(verifier), Some(file)) = (opening.with.verifier, new.node.exclusive_creation())
        {
            match file.set_verifier(opening.user(), verifier) {
                // The creation mode of the file may forbid its creator to write.
                Err(FsError::AccessDenied) => file.set_verifier(METADATA, verifier)?,
                other => other?,
            }
        }
        if let Some(name) = &opening.plan.stream {
            let authority = as_granted(&opening.caller, &*new.node);
            new.node.need_streams()?.create_stream(
                authority.actor(),
                name,
                opening.volume.options.case,
            )?;
        }
        Ok(initialised)
    }
}

impl OpenInProgress {
    /// Creates the file or directory with this descriptor; other clients see it from now on.
    /// `granted_in` is the directory whose stored descriptor grants the creation.
    pub(super) fn create_node(
        &self,
        is_directory: bool,
        granted_in: Option<&OpenedNode>,
        descriptor: Option<&Descriptor>,
    ) -> Result<CreatedNode> {
        let dos = new_bits(self.plan.dos_bits, is_directory)
            .map(|bits| DosInfo { bits: Some(bits), created: None });
        let initialiser = RequestInitialiser { opening: self, descriptor };
        let is_initialised = descriptor.is_some()
            || !self.plan.xattrs.is_empty()
            || self.with.verifier.is_some()
            || self.plan.stream.is_some();
        let how = CreateHow {
            kind: if is_directory { FileKind::Directory } else { FileKind::File },
            mode: self.creation_mode(is_directory),
            dos,
            // A POSIX caller requests no DOS attributes, and a new file has only those it is given.
            wanted: match dos.is_some() || is_initialised || !self.is_posix() {
                true => WANTED,
                false => AttributeRequest::default(),
            },
            initialiser: if is_initialised { Some(&initialiser) } else { None },
        };
        let (vfs, case) = (&self.volume.vfs, self.case());
        let granted_in = granted_in.filter(|directory| self.is_target_directory(directory));
        match (vfs.create(self.user(), &self.plan.path, case, how), granted_in) {
            (Err(FsError::AccessDenied), Some(directory)) => {
                // Created in the authorized directory: the path may lead to another one by now.
                let name = self.plan.path.name().ok_or(FsError::AccessDenied)?;
                let path = directory.path.join(&name);
                let child = ChildName { directory: &*directory.node, path: &path };
                let actor = NameActor::Granted(&self.caller.identity);
                let opened = vfs.create_in(actor, child, case, how)?;
                Ok(CreatedNode { opened, granted_in: Some(directory.node.clone()) })
            }
            (created, _) => Ok(CreatedNode { opened: created?, granted_in: None }),
        }
    }

    /// Applies the requested allocation and compression to a new file. Returns whether its
    /// attributes may have changed.
    pub(super) fn shape_data(&self, opened: &OpenedNode, is_directory: bool) -> Result<bool> {
        let expands = self.plan.uncompressed
            && opened.attributes.compressed
            && self.volume.vfs.features_of(&*opened.node).compression;
        if expands {
            opened.node.need_extents()?.set_compressed(self.user(), false)?;
        }
        let of_file = self.plan.stream.is_none() && !is_directory;
        let bytes = self.plan.allocation_bytes.filter(|bytes| *bytes > 0 && of_file);
        if let Some(bytes) = bytes {
            reserve(&self.volume, &self.caller, opened, bytes)?;
        }
        Ok(bytes.is_some() || expands)
    }

    /// Truncates an existing file by POSIX rules: streams, DOS and extended attributes stay.
    pub(super) fn truncate(&self, opened: &OpenedNode) -> Result<()> {
        opened.node.set_size(self.user(), 0)?;
        let present = &opened.attributes;
        // A write sets the archive attribute.
        let archived = present.dos.bits.filter(|bits| bits & dos::ARCHIVE == 0);
        let archived = archived.map(|bits| bits | dos::ARCHIVE);
        self.initialise_truncated(opened, archived)
    }

    /// Truncates an existing file, removes its streams and sets the attributes of a new file.
    /// MS-FSA 2.1.5.1.2.
    pub(super) fn overwrite(&self, opened: &OpenedNode) -> Result<()> {
        let present = &opened.attributes;
        let bits = new_bits(self.plan.dos_bits, false).or(present.dos.bits.map(|_| dos::ARCHIVE));
        // Reads the streams first, so that nothing changes if they are out of reach.
        let streams = opened.node.streams(METADATA)?;
        // The data goes first: a power failure in between must not leave data without the stream
        // that marks its origin (such as Zone.Identifier).
        opened.node.set_size(self.user(), 0)?;
        if !streams.is_empty() {
            let authority = as_granted(&self.caller, &*opened.node);
            for stream in &streams {
                opened.node.need_streams()?.remove_stream(authority.actor(), &stream.name)?;
                let changes = [(ChangeAction::RemovedStream, &stream.name)];
                self.report_streams(WatchFilter::STREAM_NAME, &opened.path, &changes);
            }
        }
        if present.dos.bits.unwrap_or(0) & dos::REPARSE_POINT != 0 {
            opened
                .node
                .need_reparse_data()?
                .set_reparse_data(dos_authority(&self.caller, present).actor(), None)?;
        }
        self.initialise_truncated(opened, bits)
    }

    /// Sets times, DOS attributes and extended attributes of a truncated file, and reserves its
    /// allocation.
    fn initialise_truncated(&self, opened: &OpenedNode, bits: Option<u32>) -> Result<()> {
        let present = &opened.attributes;
        let changes = AttributeChanges {
            // The backend does not change the times when it truncates an empty file.
            modified: if present.size_bytes == 0 { TimeChange::Now } else { TimeChange::Keep },
            dos: bits.map(|bits| DosInfo { bits: Some(bits), created: None }),
            ..AttributeChanges::default()
        };
        if changes != AttributeChanges::default() {
            opened.node.set_attributes(dos_authority(&self.caller, present).actor(), &changes)?;
        }
        self.set_xattrs(opened)?;
        match self.plan.allocation_bytes {
            Some(bytes) if bytes > 0 => reserve(&self.volume, &self.caller, opened, bytes),
            _ => Ok(()),
        }
    }

    fn set_xattrs(&self, opened: &OpenedNode) -> Result<()> {
        if self.plan.xattrs.is_empty() {
            return Ok(());
        }
        let authority = as_granted(&self.caller, &*opened.node);
        let mut xattrs = self.plan.xattrs.iter();
        xattrs.try_for_each(|(name, value)| {
            opened.node.need_xattrs()?.set_xattr(authority.actor(), name, Some(value))
        })
    }

    fn creation_mode(&self, is_directory: bool) -> CreationMode {
        let options = &self.volume.options;
        match self.plan.mode {
            Some(mode) => mode.at_creation(),
            None if is_directory => CreationMode::exactly(options.directory_mode),
            None => CreationMode::exactly(options.file_mode),
        }
    }

    /// Descriptor of a new node: the requested one, or the entries that the parent passes on; none
    /// if neither exists. MS-DTYP 2.5.3.4.1.
    pub(super) fn new_descriptor(
        &self,
        parent: Option<&Descriptor>,
        is_directory: bool,
    ) -> Option<Descriptor> {
        let identity = &self.caller.identity;
        let creator =
            Creator { owner: Sid::unix_user(identity.uid), group: Sid::unix_group(identity.gid) };
        // A create with a mode may exclude or bound inheritance.
        let within = self.plan.mode.map(|mode| mode.inherits_within);
        let parent = parent.filter(|_| within != Some(None));
        let mut inherited = parent.and_then(|p| acl::inherit(p, &creator, is_directory));
        if let (Some(inherited), Some(bits)) = (&mut inherited, within.flatten()) {
            acl::limit_to_mode(inherited, bits);
        }
        let mut descriptor = match (self.descriptor.clone(), inherited) {
            (Some(requested), Some(inherited)) if !has_list(&requested) => {
                Descriptor { owner: requested.owner, group: requested.group, ..inherited }
            }
            (Some(requested), _) => requested,
            (None, inherited) => inherited?,
        };
        if !has_list(&descriptor) {
            // A missing ACL is not the same as a NULL ACL, which grants everything.
            let mode = self.creation_mode(is_directory).without_list();
            let facts = PosixFacts { uid: identity.uid, gid: identity.gid, mode, is_directory };
            descriptor.dacl = acl::from_posix(&facts, None).dacl;
            descriptor.control |= control::DACL_PRESENT;
        }
        descriptor.owner.get_or_insert(creator.owner);
        descriptor.group.get_or_insert(creator.group);
        Some(descriptor.with_file_rights())
    }
}

fn has_list(descriptor: &Descriptor) -> bool {
    descriptor.dacl.is_some() || descriptor.control & control::DACL_PRESENT != 0
}

/// Reserves space, where the backend can, within the share's remaining size.
pub(super) fn reserve(
    volume: &Volume,
    caller: &Caller,
    opened: &OpenedNode,
    bytes: u64,
) -> Result<()> {
    volume.claim_room(bytes)?;
    let extents = opened.node.need_extents();
    match extents.and_then(|it| it.allocate(caller.identity.actor(), 0, bytes)) {
        // Allocation is advisory where the file system cannot reserve.
        Err(FsError::NotSupported) => Ok(()),
        other => other,
    }
}

/// DOS attributes to store with a new node; none if they equal the default.
fn new_bits(requested: u32, is_directory: bool) -> Option<u32> {
    let settable = requested & dos::SETTABLE;
    if is_directory {
        let bits = settable & !dos::ARCHIVE & !dos::TEMPORARY;
        return (bits != 0).then_some(bits | dos::DIRECTORY);
    }
    let bits = settable | dos::ARCHIVE;
    (bits != dos::ARCHIVE).then_some(bits)
}
