//! One side of a copy: a local directory, an SMB share or an NFS export, behind one
//! interface. Paths have slashes and begin where the side begins; the empty path is there.

use crate::error::Error;
use crate::item::{Facts, Item, Kind};
use crate::limits::{BLOCK_BYTES, SMALL_BYTES_MAX};
use crate::local::Local;
use crate::names::join;
use crate::nfs::Nfs;
use crate::ranges::Ranges;
use crate::smb::Smb;
use bytes::Bytes;
use client::{Tree, nfs::Export};
use std::ops::Range;
use std::path::PathBuf;

/// One side. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Side {
    label: String,
    back: Back,
}

/// An enumeration, not a trait object: the methods are asynchronous, and there are three.
#[derive(Clone, Debug)]
enum Back {
    Local(Local),
    Nfs(Nfs),
    Smb(Smb),
}

/// A file or directory of a side.
#[derive(Clone, Debug)]
pub struct Place {
    /// The side.
    pub side: Side,
    /// The path there.
    pub path: String,
}

/// An open file. It must be closed.
#[derive(Debug)]
pub(crate) enum Handle {
    Local(std::fs::File),
    Nfs(client::nfs::File),
    Smb(client::File),
}

/// How a server is asked to copy by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Offload {
    /// By the key of the open source.
    Smb([u8; 24]),
    Nfs,
}

/// A whole small file to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole<'a> {
    /// Its name until it is whole.
    pub temporary: &'a str,
    pub path: &'a str,
    /// Whether a file has that name.
    pub replaces: bool,
    pub data: &'a Bytes,
    pub facts: &'a Facts,
}

/// Facts and name of an open file that is whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finish<'a> {
    pub facts: &'a Facts,
    /// Its name until then.
    pub from: &'a str,
    /// Its name, over what may have that.
    pub to: &'a str,
    /// It is to survive a loss of power before it counts as done.
    pub syncs: bool,
}

/// Calls one method of whichever side it is.
macro_rules! on {
    ($side:expr, $back:ident => $call:expr) => {
        match &$side.back {
            Back::Local($back) => $call,
            Back::Nfs($back) => $call,
            Back::Smb($back) => $call,
        }
    };
}

impl Place {
    /// A path below it.
    pub(crate) fn at(&self, path: &str) -> String {
        join(&self.path, path)
    }

    /// What a path below it is known by, in journals.
    pub(crate) fn name(&self, path: &str) -> String {
        format!("{}/{}", self.side.label.trim_end_matches('/'), self.at(path))
    }
}

impl Side {
    /// A directory of this machine.
    #[must_use]
    pub fn local(root: PathBuf) -> Self {
        Self { label: format!("file:{}", root.display()), back: Back::Local(Local::new(root)) }
    }

    /// A share; `label` tells it from others.
    #[must_use]
    pub fn smb(label: String, tree: Tree) -> Self {
        Self { label, back: Back::Smb(Smb::new(tree)) }
    }

    /// An export; `label` tells it from others.
    #[must_use]
    pub fn nfs(label: String, export: Export) -> Self {
        Self { label, back: Back::Nfs(Nfs::new(export)) }
    }

    /// Connections that stand; none for a local directory.
    #[must_use]
    pub fn connections(&self) -> usize {
        on!(self, back => back.connections())
    }

    /// Its share, if it is one.
    #[must_use]
    pub fn as_smb(&self) -> Option<&Tree> {
        match &self.back {
            Back::Smb(smb) => Some(smb.tree()),
            _ => None,
        }
    }

    /// Whether it is on this machine: a directory, or a server.
    pub(crate) async fn is_near(&self) -> bool {
        match &self.back {
            Back::Local(_) => true,
            Back::Nfs(_) => false,
            Back::Smb(smb) => smb.is_near().await,
        }
    }

    /// Files of at most so many bytes go whole.
    pub(crate) fn small_bytes_max(&self) -> u64 {
        u64::from(self.io_bytes_max()).min(SMALL_BYTES_MAX)
    }

    /// Bytes of a block that it reads and writes at once.
    pub(crate) fn io_bytes_max(&self) -> u32 {
        on!(self, back => back.io_bytes_max()).min(BLOCK_BYTES)
    }

    /// What there is of that name.
    ///
    /// # Errors
    /// The side's refusal; so for all that follow.
    pub async fn stat(&self, path: &str) -> Result<Option<Item>, Error> {
        match on!(self, back => back.stat(path).await) {
            Ok(item) => Ok(Some(item)),
            Err(Error::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Item>, Error> {
        on!(self, back => back.list(path).await)
    }

    /// A whole file of at most `length` bytes, and what is known of it.
    pub(crate) async fn get(&self, path: &str, length: u32) -> Result<(Bytes, Item), Error> {
        on!(self, back => back.get(path, length).await)
    }

    pub(crate) async fn put(&self, whole: &Whole<'_>) -> Result<(), Error> {
        on!(self, back => back.put(whole).await)
    }

    pub(crate) async fn open_source(&self, path: &str) -> Result<Handle, Error> {
        on!(self, back => back.open_source(path).await)
    }

    /// Opens a file to be filled: made, or emptied, if `fresh`; else it must be there.
    pub(crate) async fn open_target(&self, path: &str, fresh: bool) -> Result<Handle, Error> {
        on!(self, back => back.open_target(path, fresh).await)
    }

    pub(crate) async fn read(&self, file: &Handle, at: u64, length: u32) -> Result<Bytes, Error> {
        on!(self, back => back.read(file, at, length).await)
    }

    pub(crate) async fn write(&self, file: &Handle, at: u64, data: &Bytes) -> Result<(), Error> {
        on!(self, back => back.write(file, at, data).await)
    }

    /// Sets the length; what is not written then is a hole, if `sparse` and it can be.
    pub(crate) async fn set_size(
        &self,
        file: &Handle,
        size: u64,
        sparse: bool,
    ) -> Result<(), Error> {
        on!(self, back => back.set_size(file, size, sparse).await)
    }

    /// Which ranges have data; nothing if the side cannot tell.
    pub(crate) async fn data_ranges(&self, file: &Handle, size: u64) -> Option<Ranges> {
        on!(self, back => back.data_ranges(file, size).await)
    }

    pub(crate) async fn flush(&self, file: &Handle) -> Result<(), Error> {
        on!(self, back => back.flush(file).await)
    }

    pub(crate) async fn set_facts(&self, file: &Handle, facts: &Facts) -> Result<(), Error> {
        on!(self, back => back.set_facts(file, facts).await)
    }

    pub(crate) async fn close(&self, file: Handle) -> Result<(), Error> {
        on!(self, back => back.close(file).await)
    }

    /// Gives a file that is whole its facts and its name, over what may have that, and closes it.
    pub(crate) async fn finish(&self, file: Handle, finish: &Finish<'_>) -> Result<(), Error> {
        if let Back::Smb(smb) = &self.back {
            return smb.finish(file, finish).await;
        }
        let mut set = self.set_facts(&file, finish.facts).await;
        if finish.syncs && set.is_ok() {
            set = self.flush(&file).await;
        }
        let closed = self.close(file).await;
        set.and(closed)?;
        self.rename(finish.from, finish.to).await?;
        match &self.back {
            Back::Local(back) if finish.syncs => back.sync_directory_of(finish.to).await,
            // RENAME of NFS is on stable storage when it is answered (RFC 8881 18.26.4).
            _ => Ok(()),
        }
    }

    /// Makes all that was written to a local side survive a loss of power. Others are asked for
    /// each large file, and have no request for all.
    pub(crate) async fn sync_all(&self, path: &str) -> Result<(), Error> {
        match &self.back {
            Back::Local(back) => back.sync_all(path).await,
            Back::Smb(_) | Back::Nfs(_) => Ok(()),
        }
    }

    /// Renames a file over what may be there.
    async fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        on!(self, back => back.rename(from, to).await)
    }

    /// Removes a file or an empty directory.
    pub(crate) async fn remove(&self, path: &str, kind: Kind) -> Result<(), Error> {
        on!(self, back => back.remove(path, kind).await)
    }

    /// Makes a directory, or finds it there.
    pub(crate) async fn make_directory(&self, path: &str) -> Result<(), Error> {
        on!(self, back => back.make_directory(path).await)
    }

    /// Whether one session has both, so that its server may copy by itself.
    pub(crate) fn is_one_session(&self, other: &Self) -> bool {
        match (&self.back, &other.back) {
            (Back::Smb(a), Back::Smb(b)) => a.tree().client().is_same(b.tree().client()),
            (Back::Nfs(a), Back::Nfs(b)) => a.is_one_session(b),
            _ => false,
        }
    }

    /// Looks whether the server can copy between two open files.
    pub(crate) async fn offload(&self, source: &Handle) -> Option<Offload> {
        match &self.back {
            Back::Smb(_) => Smb::resume_key(source).await.ok().map(Offload::Smb),
            Back::Nfs(_) => Some(Offload::Nfs),
            Back::Local(_) => None,
        }
    }

    /// Lets the server copy a range of at most 16 MiB.
    pub(crate) async fn copy_range(
        &self,
        how: &Offload,
        source: &Handle,
        target: &Handle,
        range: &Range<u64>,
    ) -> Result<(), Error> {
        match (&self.back, how) {
            (Back::Smb(_), Offload::Smb(key)) => Smb::copy_range(key, target, range).await,
            (Back::Nfs(back), Offload::Nfs) => back.copy_range(source, target, range).await,
            _ => Err(foreign()),
        }
    }

    /// Many small files are to come.
    pub(crate) fn expect_many(&self) {
        if let Back::Smb(back) = &self.back {
            back.expect_many();
        }
    }

    /// No more come.
    pub(crate) async fn expect_no_more(&self) {
        if let Back::Smb(back) = &self.back {
            back.expect_no_more().await;
        }
    }

    pub(crate) async fn set_directory_facts(&self, path: &str, facts: &Facts) -> Result<(), Error> {
        on!(self, back => back.set_directory_facts(path, facts).await)
    }
}

impl Handle {
    pub(crate) fn smb(&self) -> Result<&client::File, Error> {
        match self {
            Self::Smb(file) => Ok(file),
            _ => Err(foreign()),
        }
    }

    pub(crate) fn nfs(&self) -> Result<&client::nfs::File, Error> {
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

fn foreign() -> Error {
    Error::Refused("the file belongs to another side".into())
}
