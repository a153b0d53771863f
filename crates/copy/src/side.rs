//! One side of a copy: a local directory, an SMB share or an NFS export, behind one interface. Paths
//! have slashes and are relative to the side's root; the empty path is the root.

use crate::error::Error;
use crate::handle::{CopyHandle, Finish, Offload, Whole, foreign};
use crate::item::{CopyItem, ItemFacts, ItemKind, LinkTarget};
use crate::limits::{BLOCK_BYTES, SMALL_BYTES_MAX};
use crate::local::Local;
use crate::names::join;
use crate::nfs::Nfs;
use crate::pairs::NameForm;
use crate::ranges::Ranges;
use crate::smb::Smb;
use bytes::Bytes;
use client::{SmbTree, nfs::NfsExport};
use std::ops::Range;
use std::path::PathBuf;

/// One side. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Side {
    label: String,
    back: SideBackend,
}

/// An enumeration, not a trait object: the methods are asynchronous, and there are three.
#[derive(Clone, Debug)]
enum SideBackend {
    Local(Local),
    Nfs(Nfs),
    Smb(Smb),
}

/// A file or directory of a side.
#[derive(Clone, Debug)]
pub struct SidePath {
    /// The side.
    pub side: Side,
    /// The path on that side, in its spelling ([`Side::spelling`]).
    pub path: String,
}

/// Calls one method of the side's backend.
macro_rules! on {
    ($side:expr, $back:ident => $call:expr) => {
        match &$side.back {
            SideBackend::Local($back) => $call,
            SideBackend::Nfs($back) => $call,
            SideBackend::Smb($back) => $call,
        }
    };
}

impl SidePath {
    /// A path below it.
    pub(crate) fn at(&self, path: &str) -> String {
        join(&self.path, path)
    }

    /// The name of a path below it in journals.
    pub(crate) fn name(&self, path: &str) -> String {
        format!("{}/{}", self.side.label.trim_end_matches('/'), self.at(path))
    }
}

impl Side {
    /// A directory of this machine.
    #[must_use]
    pub fn local(root: PathBuf) -> Self {
        Self {
            label: format!("file:{}", root.display()),
            back: SideBackend::Local(Local::new(root)),
        }
    }

    /// An SMB share; `label` distinguishes it from other sides.
    #[must_use]
    pub fn smb(label: String, tree: SmbTree) -> Self {
        Self { label, back: SideBackend::Smb(Smb::new(tree)) }
    }

    /// An NFS export; `label` distinguishes it from other sides.
    #[must_use]
    pub fn nfs(label: String, export: NfsExport) -> Self {
        Self { label, back: SideBackend::Nfs(Nfs::new(export)) }
    }

    /// Number of established connections; 0 for a local directory.
    #[must_use]
    pub fn connections(&self) -> usize {
        on!(self, back => back.connections())
    }

    /// The share, if the side is SMB.
    #[must_use]
    pub fn as_smb(&self) -> Option<&SmbTree> {
        match &self.back {
            SideBackend::Smb(smb) => Some(smb.tree()),
            _ => None,
        }
    }

    /// The names that the side can hold.
    #[must_use]
    pub fn spelling(&self) -> NameForm {
        match &self.back {
            SideBackend::Local(_) | SideBackend::Nfs(_) => NameForm::Bytes,
            SideBackend::Smb(_) => NameForm::Smb,
        }
    }

    /// The same side, whose files are opened through symbolic links. Servers resolve none: there the
    /// copy itself does.
    pub(crate) fn following_links(self) -> Self {
        let back = match self.back {
            SideBackend::Local(back) => SideBackend::Local(back.following_links()),
            other => other,
        };
        Self { back, ..self }
    }

    /// The same side, where files and directories are their owner's alone until they get their mode.
    /// Servers decide on theirs.
    pub(crate) fn creating_private(self) -> Self {
        let back = match self.back {
            SideBackend::Local(back) => SideBackend::Local(back.creating_private()),
            other => other,
        };
        Self { back, ..self }
    }

    /// Whether the side is a local directory.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self.back, SideBackend::Local(_))
    }

    pub(crate) fn as_local(&self) -> Option<&Local> {
        match &self.back {
            SideBackend::Local(back) => Some(back),
            _ => None,
        }
    }

    /// The path of a directory without links, to compare directories.
    pub(crate) async fn real_path(&self, path: &str) -> Result<String, Error> {
        match &self.back {
            SideBackend::Local(back) => back.real_path(path).await,
            SideBackend::Nfs(_) | SideBackend::Smb(_) => Ok(path.to_owned()),
        }
    }

    pub(crate) async fn read_link(&self, path: &str) -> Result<LinkTarget, Error> {
        on!(self, back => back.read_link(path).await)
    }

    /// Whether a listed directory is a link to one. Only shares list what links lead to.
    pub(crate) async fn is_link(&self, path: &str) -> Result<bool, Error> {
        match &self.back {
            SideBackend::Smb(back) => back.is_link(path).await,
            SideBackend::Local(_) | SideBackend::Nfs(_) => Ok(false),
        }
    }

    /// Creates a link. One that replaces another is created as `temporary` and renamed, but on a share,
    /// where a rename would follow the link.
    pub(crate) async fn put_link(
        &self,
        path: &str,
        temporary: &str,
        to: &LinkTarget,
        replaces: bool,
    ) -> Result<(), Error> {
        let is_share = matches!(self.back, SideBackend::Smb(_));
        let other = if is_share { path } else { temporary };
        if replaces {
            // A run that was interrupted may have left the temporary name.
            match self.remove(other, ItemKind::Link).await {
                Err(Error::Missing) => {}
                removed => removed?,
            }
        }
        if !replaces || is_share {
            return on!(self, back => back.make_link(path, to).await);
        }
        on!(self, back => back.make_link(temporary, to).await)?;
        self.rename(temporary, path).await
    }

    /// Whether names in this directory that differ only in case are one name. SMB servers compare
    /// names so, unless configured otherwise.
    pub(crate) async fn folds(&self, path: &str) -> bool {
        match &self.back {
            SideBackend::Local(back) => back.folds(path).await,
            SideBackend::Nfs(_) => false,
            SideBackend::Smb(_) => true,
        }
    }

    /// Whether the side is on this machine: a local directory, or a local server.
    pub(crate) async fn is_near(&self) -> bool {
        match &self.back {
            SideBackend::Local(_) => true,
            SideBackend::Nfs(_) => false,
            SideBackend::Smb(smb) => smb.is_near().await,
        }
    }

    /// Largest size in bytes of a file that is copied whole.
    pub(crate) fn small_bytes_max(&self) -> u64 {
        u64::from(self.io_bytes_max()).min(SMALL_BYTES_MAX)
    }

    /// Largest read or write request in bytes.
    pub(crate) fn io_bytes_max(&self) -> u32 {
        on!(self, back => back.io_bytes_max()).min(BLOCK_BYTES)
    }

    /// The entry at `path`, or `None` if there is none.
    ///
    /// # Errors
    /// The side's refusal; so for all that follow.
    pub async fn stat(&self, path: &str) -> Result<Option<CopyItem>, Error> {
        match on!(self, back => back.stat(path).await) {
            Ok(item) => Ok(Some(item)),
            Err(Error::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn list(&self, path: &str) -> Result<Vec<CopyItem>, Error> {
        on!(self, back => back.list(path).await)
    }

    /// Reads a whole file of at most `length` bytes, with its metadata.
    pub(crate) async fn get(&self, path: &str, length: u32) -> Result<(Bytes, CopyItem), Error> {
        on!(self, back => back.get(path, length).await)
    }

    pub(crate) async fn put(&self, whole: &Whole<'_>) -> Result<(), Error> {
        on!(self, back => back.put(whole).await)
    }

    pub(crate) async fn open_source(&self, path: &str) -> Result<CopyHandle, Error> {
        on!(self, back => back.open_source(path).await)
    }

    /// Opens a file for writing. `fresh` creates or truncates it; otherwise it must exist.
    pub(crate) async fn open_target(&self, path: &str, fresh: bool) -> Result<CopyHandle, Error> {
        on!(self, back => back.open_target(path, fresh).await)
    }

    pub(crate) async fn read(
        &self,
        file: &CopyHandle,
        at: u64,
        length: u32,
    ) -> Result<Bytes, Error> {
        on!(self, back => back.read(file, at, length).await)
    }

    pub(crate) async fn write(
        &self,
        file: &CopyHandle,
        at: u64,
        data: &Bytes,
    ) -> Result<(), Error> {
        on!(self, back => back.write(file, at, data).await)
    }

    /// Sets the length. With `sparse`, unwritten ranges stay holes where the side supports it.
    pub(crate) async fn set_size(
        &self,
        file: &CopyHandle,
        size: u64,
        sparse: bool,
    ) -> Result<(), Error> {
        on!(self, back => back.set_size(file, size, sparse).await)
    }

    /// The ranges with data; `None` if the side cannot report them.
    pub(crate) async fn data_ranges(&self, file: &CopyHandle, size: u64) -> Option<Ranges> {
        on!(self, back => back.data_ranges(file, size).await)
    }

    pub(crate) async fn flush(&self, file: &CopyHandle) -> Result<(), Error> {
        on!(self, back => back.flush(file).await)
    }

    pub(crate) async fn set_facts(
        &self,
        file: &CopyHandle,
        facts: &ItemFacts,
    ) -> Result<(), Error> {
        on!(self, back => back.set_facts(file, facts).await)
    }

    pub(crate) async fn close(&self, file: CopyHandle) -> Result<(), Error> {
        on!(self, back => back.close(file).await)
    }

    /// Sets facts and final name of a complete file, replacing an existing one, and closes it.
    pub(crate) async fn finish(&self, file: CopyHandle, finish: &Finish<'_>) -> Result<(), Error> {
        if let SideBackend::Smb(smb) = &self.back {
            return smb.finish(file, finish).await;
        }
        let mut set = self.set_facts(&file, finish.facts).await;
        if finish.syncs && set.is_ok() {
            set = self.flush(&file).await;
        }
        let closed = self.close(file).await;
        set.and(closed)?;
        match &self.back {
            SideBackend::Local(back) if !finish.replaces => {
                back.rename_new(finish.from, finish.to).await?;
            }
            _ => self.rename(finish.from, finish.to).await?,
        }
        match &self.back {
            SideBackend::Local(back) if finish.syncs => back.sync_directory_of(finish.to).await,
            // An NFS server replies to RENAME once it is on stable storage (RFC 8881 18.26.4).
            _ => Ok(()),
        }
    }

    /// Syncs a local side, so that the copy survives a power loss. SMB and NFS have no such request:
    /// there each large file is flushed by itself.
    pub(crate) async fn sync_all(&self, path: &str) -> Result<(), Error> {
        match &self.back {
            SideBackend::Local(back) => back.sync_all(path).await,
            SideBackend::Smb(_) | SideBackend::Nfs(_) => Ok(()),
        }
    }

    /// Renames a file, replacing an existing one.
    async fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        on!(self, back => back.rename(from, to).await)
    }

    /// Removes a file or an empty directory.
    pub(crate) async fn remove(&self, path: &str, kind: ItemKind) -> Result<(), Error> {
        on!(self, back => back.remove(path, kind).await)
    }

    /// Creates a directory; an existing directory is no error.
    pub(crate) async fn make_directory(&self, path: &str) -> Result<(), Error> {
        on!(self, back => back.make_directory(path).await)
    }

    /// Whether both sides are in one session, as a server-side copy requires.
    pub(crate) fn is_one_session(&self, other: &Self) -> bool {
        match (&self.back, &other.back) {
            (SideBackend::Smb(a), SideBackend::Smb(b)) => {
                a.tree().client().is_same(b.tree().client())
            }
            (SideBackend::Nfs(a), SideBackend::Nfs(b)) => a.is_one_session(b),
            _ => false,
        }
    }

    /// The means of a server-side copy from `source`, if the side supports it.
    pub(crate) async fn offload(&self, source: &CopyHandle) -> Option<Offload> {
        match &self.back {
            SideBackend::Smb(_) => Smb::resume_key(source).await.ok().map(Offload::Smb),
            SideBackend::Nfs(_) => Some(Offload::Nfs),
            SideBackend::Local(_) => None,
        }
    }

    /// Requests a server-side copy of a range of at most 16 MiB.
    pub(crate) async fn copy_range(
        &self,
        how: &Offload,
        source: &CopyHandle,
        target: &CopyHandle,
        range: &Range<u64>,
    ) -> Result<(), Error> {
        match (&self.back, how) {
            (SideBackend::Smb(_), Offload::Smb(key)) => Smb::copy_range(key, target, range).await,
            (SideBackend::Nfs(back), Offload::Nfs) => back.copy_range(source, target, range).await,
            _ => Err(foreign()),
        }
    }

    /// Prepares for many small files: an SMB side opens further sessions.
    pub(crate) fn expect_many(&self) {
        if let SideBackend::Smb(back) = &self.back {
            back.expect_many();
        }
    }

    /// Ends the further sessions of an SMB side.
    pub(crate) async fn expect_no_more(&self) {
        if let SideBackend::Smb(back) = &self.back {
            back.expect_no_more().await;
        }
    }

    pub(crate) async fn set_directory_facts(
        &self,
        path: &str,
        facts: &ItemFacts,
    ) -> Result<(), Error> {
        on!(self, back => back.set_directory_facts(path, facts).await)
    }
}
