//! Parameters of an open request.

use crate::Volume;
use crate::cache_holder::CacheWish;
use acl::Access;
use grants::ShareMode;
use vfs::{Case, CreationMode, RelPath, StreamName, XattrName};

/// Action on a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// Refuse.
    Fail,
    /// Open it.
    Open,
    /// Open and truncate it. Unless [`Semantics::Posix`] applies, its streams and DOS attributes
    /// are removed, too.
    Overwrite,
    /// Replace it with an empty file.
    Supersede,
}

/// Action on a file that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMissing {
    /// Refuse.
    Fail,
    /// Create it.
    Create,
}

/// Kind of file that the caller requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedKind {
    /// Any kind; a created one is a file.
    Any,
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// Protocol family whose open rules apply. Share modes bind both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    /// Names compare as the volume configures. A deleted name stays until its last open is closed,
    /// and a file in use cannot be replaced.
    Windows,
    /// Names compare byte for byte. A removed name disappears when the remover's open is closed,
    /// and a POSIX open does not prevent a replacement. A symbolic link at the end of a path is not
    /// followed. DOS attributes do not forbid removal.
    Posix,
}

impl Semantics {
    /// Case rule for names in `volume`.
    #[must_use]
    pub fn case(self, volume: &Volume) -> Case {
        match self {
            Self::Windows => volume.options.case,
            Self::Posix => Case::Sensitive,
        }
    }
}

/// Parameters of an open request.
#[derive(Clone, Debug)]
pub struct OpenPlan {
    /// Path of the file, relative to the volume's root.
    pub path: RelPath,
    /// Named stream to open; the file's data if none.
    pub stream: Option<StreamName>,
    /// Requested rights, including generic ones and MAXIMUM_ALLOWED.
    pub desired: Access,
    /// Share mode: access that the caller tolerates of other opens.
    pub share: ShareMode,
    /// See [`IfExists`].
    pub if_exists: IfExists,
    /// See [`IfMissing`].
    pub if_missing: IfMissing,
    /// See [`RequestedKind`].
    pub kind: RequestedKind,
    /// Delete the file when this open is closed.
    pub delete_on_close: bool,
    /// DOS attributes for a created or overwritten file.
    pub dos_bits: u32,
    /// Space to reserve for a created or overwritten file, in bytes.
    pub allocation_bytes: Option<u64>,
    /// Security descriptor for a created file, self-relative.
    pub descriptor: Option<Vec<u8>>,
    /// Extended attributes for a created or overwritten file.
    pub xattrs: Vec<(XattrName, Vec<u8>)>,
    /// Open a symbolic link itself instead of its target.
    pub no_follow: bool,
    /// Create the file uncompressed, whatever its directory says.
    pub uncompressed: bool,
    /// Caching that the client requests (oplock or lease).
    pub caching: Option<CacheWish>,
    /// See [`Semantics`].
    pub semantics: Semantics,
    /// Permission bits for a created file; the volume's default if none.
    pub mode: Option<NewMode>,
}

impl OpenPlan {
    /// A POSIX open of an existing file: byte-for-byte names, no following of links, and removal of
    /// its names permitted.
    #[must_use]
    pub fn posix(desired: Access, share: ShareMode) -> Self {
        Self {
            path: RelPath::root(),
            stream: None,
            desired,
            share,
            if_exists: IfExists::Open,
            if_missing: IfMissing::Fail,
            kind: RequestedKind::Any,
            delete_on_close: false,
            dos_bits: 0,
            allocation_bytes: None,
            descriptor: None,
            xattrs: Vec::new(),
            no_follow: false,
            uncompressed: false,
            caching: None,
            semantics: Semantics::Posix,
            mode: None,
        }
    }
}

/// Permission bits for a created file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewMode {
    /// Permission bits that apply where nothing is inherited.
    pub bits: u32,
    /// Upper bound for inherited ACL entries: inheritance grants nothing beyond these bits. None
    /// disables inheritance. RFC 8881 6.4.3, RFC 8275 4.
    pub inherits_within: Option<u32>,
}

impl NewMode {
    /// Exactly these bits, without inheritance.
    #[must_use]
    pub fn exactly(bits: u32) -> Self {
        Self { bits, inherits_within: None }
    }

    /// Mode and umask for the creating call, so that the backend bounds a default POSIX ACL by the
    /// same bits as a stored descriptor.
    pub(crate) fn at_creation(self) -> CreationMode {
        // A umask covers permission bits only.
        let bits = self.bits | self.inherits_within.unwrap_or(0) & 0o777;
        CreationMode { bits, umask: bits & !self.bits }
    }
}
