//! Open files, and the requests that every kind of side carries out.

use crate::error::Error;
use crate::item::ItemFacts;
use bytes::Bytes;

/// An open file. The caller must close it.
#[derive(Debug)]
pub(crate) enum CopyHandle {
    Local(std::fs::File),
    Nfs(client::nfs::NfsFile),
    Smb(client::SmbFile),
}

/// The means of a server-side copy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Offload {
    /// FSCTL_SRV_COPYCHUNK with the resume key of the open source.
    Smb([u8; 24]),
    Nfs,
}

/// A small file that one request creates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole<'a> {
    /// Its name until it is complete.
    pub temporary: &'a str,
    pub path: &'a str,
    /// Whether the target has a file at `path`.
    pub replaces: bool,
    pub data: &'a Bytes,
    pub facts: &'a ItemFacts,
}

/// Facts and final name of a complete open file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finish<'a> {
    pub facts: &'a ItemFacts,
    /// Its temporary name.
    pub from: &'a str,
    /// Its final name.
    pub to: &'a str,
    /// Whether an existing file of that name is replaced; NFS always replaces it.
    pub replaces: bool,
    /// Whether the file must be on stable storage before the call returns.
    pub syncs: bool,
}

impl CopyHandle {
    pub(crate) fn smb(&self) -> Result<&client::SmbFile, Error> {
        match self {
            Self::Smb(file) => Ok(file),
            _ => Err(foreign()),
        }
    }

    pub(crate) fn nfs(&self) -> Result<&client::nfs::NfsFile, Error> {
        match self {
            Self::Nfs(file) => Ok(file),
            _ => Err(foreign()),
        }
    }

    pub(crate) fn local(&self) -> Result<&std::fs::File, Error> {
        match self {
            Self::Local(file) => Ok(file),
            _ => Err(foreign()),
        }
    }
}

/// Refusal of a file of another kind of side.
pub(crate) fn foreign() -> Error {
    Error::Refused("the file belongs to another side".into())
}
