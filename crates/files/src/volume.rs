//! Served volumes and the users that access them.

use crate::NamePatterns;
use acl::{Access, AccessToken, Sid};
use limits::ShareLimits;
use std::sync::Arc;
use vfs::{
    Actor, Attributes, Case, FileKind, FsError, Identity, NameCache, NameLookup, OpenHow, RelPath,
    Result, ServerWork, Snapshots, TreeFeatures, Vfs, Wait,
};

/// DOS attribute bits that the file layer acts on. MS-FSCC 2.6.
#[allow(missing_docs, reason = "the names are the specification's")]
pub mod dos {
    pub const READONLY: u32 = 0x1;
    pub const HIDDEN: u32 = 0x2;
    pub const SYSTEM: u32 = 0x4;
    pub const DIRECTORY: u32 = 0x10;
    pub const ARCHIVE: u32 = 0x20;
    pub const NORMAL: u32 = 0x80;
    pub const TEMPORARY: u32 = 0x100;
    pub const SPARSE: u32 = 0x200;
    pub const REPARSE_POINT: u32 = 0x400;
    pub const OFFLINE: u32 = 0x1000;
    pub const NOT_INDEXED: u32 = 0x2000;
    /// Attributes that a client may set.
    pub const SETTABLE: u32 =
        READONLY | HIDDEN | SYSTEM | ARCHIVE | TEMPORARY | OFFLINE | NOT_INDEXED;
}

/// A user as the file layer sees it. Shared by `Arc`, immutable.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Identity for the backend.
    pub identity: Identity,
    /// Token for security descriptors.
    pub token: AccessToken,
}

impl Caller {
    /// A local user, with the well-known groups of all users.
    #[must_use]
    pub fn of(identity: Identity) -> Self {
        let mut groups = vec![Sid::everyone(), Sid::authenticated_users(), Sid::network()];
        groups.push(Sid::unix_group(identity.gid));
        groups.extend(identity.groups.iter().map(|gid| Sid::unix_group(*gid)));
        let token = AccessToken {
            user: Some(Sid::unix_user(identity.uid)),
            groups,
            ..AccessToken::default()
        };
        Self { identity, token }
    }

    /// Whether the user is root, which is granted everything.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.identity.uid == 0
    }
}

/// Options of a volume.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// Refuse all changes.
    pub read_only: bool,
    /// Case rule for names.
    pub case: Case,
    /// Permission bits of new files.
    pub file_mode: u32,
    /// Permission bits of new directories.
    pub directory_mode: u32,
    /// Names presented with the hidden attribute.
    pub hidden_names: NamePatterns,
    /// Names that are not found, not listed and cannot be created.
    pub veto_names: NamePatterns,
    /// Omit files that the caller may not read from listings.
    pub hide_unreadable: bool,
    /// Let clients store symbolic links that lead out of the volume.
    pub absolute_links: bool,
    /// Let root create device nodes; other users never may.
    pub device_nodes: bool,
    /// Upper bound of the space reported to clients, in bytes.
    pub size_limit_bytes: Option<u64>,
    /// Support named streams, if the backend stores them.
    pub streams: bool,
    /// The volume is a snapshot: rights are granted as at its time, but nothing can be changed.
    pub frozen: bool,
    /// Rate limits and size limit of the share.
    pub limits: Option<Arc<ShareLimits>>,
    /// Snapshots of the volume.
    pub snapshots: Option<Arc<dyn Snapshots>>,
}

impl Default for VolumeOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            case: Case::Insensitive,
            file_mode: 0o644,
            directory_mode: 0o755,
            hidden_names: NamePatterns::default(),
            veto_names: NamePatterns::default(),
            hide_unreadable: false,
            absolute_links: false,
            device_nodes: false,
            size_limit_bytes: None,
            streams: true,
            frozen: false,
            limits: None,
            snapshots: None,
        }
    }
}

/// One served tree of files.
#[derive(Debug)]
pub struct Volume {
    /// Backend that stores the files.
    pub vfs: Arc<dyn Vfs>,
    /// The same backend if it caches names.
    cache: Option<Arc<dyn NameCache>>,
    /// Options of the volume.
    pub options: VolumeOptions,
}

impl Volume {
    /// Serves a backend without a cache of names.
    #[must_use]
    pub fn new(vfs: Arc<dyn Vfs>, options: VolumeOptions) -> Self {
        Self { vfs, cache: None, options }
    }

    /// Serves a backend through its cache of names.
    #[must_use]
    pub fn cached(cache: Arc<dyn NameCache>, options: VolumeOptions) -> Self {
        Self { vfs: cache.clone(), cache: Some(cache), options }
    }

    /// The same files, with the same cache, by other options.
    #[must_use]
    pub fn with_options(&self, options: VolumeOptions) -> Self {
        Self { vfs: self.vfs.clone(), cache: self.cache.clone(), options }
    }

    /// The names of the tree, from its cache if there is one.
    #[must_use]
    pub fn names(&self) -> NameLookup<'_> {
        match &self.cache {
            Some(cache) => NameLookup::Cache(&**cache),
            None => NameLookup::Backend(&*self.vfs),
        }
    }

    /// Maximum rights of an open.
    #[must_use]
    pub fn max_access(&self) -> Access {
        if self.options.read_only {
            Access::FILE_READ | Access::FILE_EXECUTE
        } else {
            Access::FILE_ALL | Access::SYSTEM_SECURITY
        }
    }
}

impl Volume {
    /// Whether the volume refuses all changes.
    #[must_use]
    pub fn is_unchangeable(&self) -> bool {
        self.options.read_only || self.options.frozen
    }

    /// Whether clients see a read-only volume: it refuses all changes, or its file system is
    /// mounted read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_unchangeable() || self.vfs.is_read_only()
    }

    /// Checks that the volume may be changed.
    ///
    /// # Errors
    /// [`FsError::ReadOnly`] for a snapshot, [`FsError::ShareReadOnly`].
    pub fn check_changeable(&self) -> Result<()> {
        match (self.options.frozen, self.options.read_only) {
            (true, _) => Err(FsError::ReadOnly),
            (false, true) => Err(FsError::ShareReadOnly),
            (false, false) => Ok(()),
        }
    }

    /// Whether the root was removed, so that nothing is left to serve.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self.root(Wait::Never) {
            Ok(root) => root.links == 0,
            Err(error) => matches!(error, FsError::NotFound | FsError::Stale),
        }
    }

    /// Whether both volumes have the same root.
    #[must_use]
    pub fn has_same_root(&self, other: &Self) -> bool {
        let roots = (self.root(Wait::Allowed), other.root(Wait::Allowed));
        matches!(roots, (Ok(a), Ok(b)) if a.key == b.key)
    }

    fn root(&self, wait: Wait) -> Result<Attributes> {
        let how = OpenHow::looking(wait);
        Ok(self.vfs.open(Actor::server(ServerWork::ShareRoot), &RelPath::root(), how)?.attributes)
    }

    /// Features of the backend.
    #[must_use]
    pub fn features(&self) -> TreeFeatures {
        self.vfs.features()
    }

    /// Number that identifies the file system on this machine.
    #[must_use]
    pub fn vfs_serial(&self) -> u64 {
        self.vfs.features().serial
    }

    /// Attributes as presented for the name at the end of `path`.
    pub(crate) fn presented(&self, path: &[u8], attributes: Attributes) -> Attributes {
        let name = path.rsplit(|&b| b == b'/').next().unwrap_or_default();
        self.presented_as(name, attributes)
    }

    /// Attributes as presented for a name.
    pub(crate) fn presented_as(&self, name: &[u8], mut attributes: Attributes) -> Attributes {
        if !name.is_empty() && self.options.hidden_names.has(name) {
            let kind = attributes.kind;
            let plain = if kind == FileKind::Directory { dos::DIRECTORY } else { dos::ARCHIVE };
            attributes.dos.bits = Some(attributes.dos.bits.unwrap_or(plain) | dos::HIDDEN);
        }
        attributes
    }

    /// Whether the volume supports named streams.
    #[must_use]
    pub fn has_streams(&self) -> bool {
        self.options.streams && self.vfs.features().stream_bytes_max > 0
    }
}
