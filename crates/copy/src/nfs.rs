//! An NFS export as a side.

use crate::error::Error;
use crate::handle::{CopyHandle, Whole};
use crate::item::{CopyItem, ItemFacts, ItemKind, LinkTarget};
use crate::limits::RANGES_MAX;
use crate::ranges::Ranges;
use crate::smb_names::{bytes_of, text_of};
use bytes::Bytes;
use client::nfs::{self, NfsDirectoryEntry, NfsExport, OpenFor};
use std::ops::Range;
use wire::nfs::{FileType, NfsStatus, NfsTime, OperationNumber};

const NANOS: i128 = 1_000_000_000;

/// An export.
#[derive(Clone, Debug)]
pub(crate) struct Nfs {
    export: NfsExport,
}

impl Nfs {
    pub(crate) fn new(export: NfsExport) -> Self {
        Self { export }
    }

    pub(crate) fn connections(&self) -> usize {
        self.export.client().connection_bytes().len()
    }

    pub(crate) fn io_bytes_max(&self) -> u32 {
        self.export.client().io_bytes_max()
    }

    pub(crate) async fn stat(&self, path: &str) -> Result<CopyItem, Error> {
        if path.is_empty() {
            // The root has no name for LOOKUP; a successful listing shows that it is a directory.
            self.export.list("").await?;
            return Ok(root());
        }
        Ok(item_of(self.export.stat(bytes_of(path)).await?))
    }

    pub(crate) async fn list(&self, path: &str) -> Result<Vec<CopyItem>, Error> {
        Ok(self.export.list(bytes_of(path)).await?.into_iter().map(item_of).collect())
    }

    pub(crate) async fn get(&self, path: &str, length: u32) -> Result<(Bytes, CopyItem), Error> {
        let (data, entry) = self.export.get(bytes_of(path), length).await?;
        Ok((data, item_of(entry)))
    }

    pub(crate) async fn put(&self, whole: &Whole<'_>) -> Result<(), Error> {
        let facts = facts_to(whole.facts);
        Ok(self
            .export
            .put(bytes_of(whole.temporary), bytes_of(whole.path), whole.data, &facts)
            .await?)
    }

    pub(crate) async fn open_source(&self, path: &str) -> Result<CopyHandle, Error> {
        Ok(CopyHandle::Nfs(self.export.open_for(bytes_of(path), OpenFor::Reading).await?.0))
    }

    pub(crate) async fn open_target(&self, path: &str, fresh: bool) -> Result<CopyHandle, Error> {
        Ok(CopyHandle::Nfs(
            self.export.open_for(bytes_of(path), OpenFor::Filling { fresh }).await?.0,
        ))
    }

    pub(crate) async fn read(
        &self,
        file: &CopyHandle,
        at: u64,
        length: u32,
    ) -> Result<Bytes, Error> {
        Ok(self.export.read(file.nfs()?, at, length).await?)
    }

    pub(crate) async fn write(
        &self,
        file: &CopyHandle,
        at: u64,
        data: &Bytes,
    ) -> Result<(), Error> {
        Ok(self.export.write(file.nfs()?, at, data).await?)
    }

    pub(crate) async fn set_size(
        &self,
        file: &CopyHandle,
        size: u64,
        _: bool,
    ) -> Result<(), Error> {
        Ok(self.export.set_size(file.nfs()?, size).await?)
    }

    /// Finds the data ranges by SEEK. RFC 7862 15.11.
    pub(crate) async fn data_ranges(&self, file: &CopyHandle, size: u64) -> Option<Ranges> {
        let file = file.nfs().ok()?;
        let (mut at, mut found) = (0, Vec::new());
        while at < size {
            let Some(start) = self.export.seek(file, at, true).await.ok()? else { break };
            let end = self.export.seek(file, start, false).await.ok()?.unwrap_or(size).min(size);
            // A server that seeks backwards would make this loop endless.
            if start < at || end <= start || found.len() > RANGES_MAX {
                return None;
            }
            found.push(start..end);
            at = end;
        }
        Some(Ranges::of(found))
    }

    pub(crate) fn is_one_session(&self, other: &Self) -> bool {
        self.export.client().is_same(other.export.client())
    }

    /// Requests a server-side copy; one COPY may copy less than requested. RFC 7862 15.2.
    pub(crate) async fn copy_range(
        &self,
        source: &CopyHandle,
        target: &CopyHandle,
        range: &Range<u64>,
    ) -> Result<(), Error> {
        let (source, target) = (source.nfs()?, target.nfs()?);
        let mut at = range.start;
        while at < range.end {
            let copied = self.export.copy_range(source, target, &(at..range.end)).await;
            match copied.map_err(copy_refusal)? {
                // The source ends within the range, so it has changed.
                0 => return Err(Error::Changed),
                count => at += count,
            }
        }
        Ok(())
    }

    pub(crate) async fn flush(&self, file: &CopyHandle) -> Result<(), Error> {
        Ok(self.export.commit(file.nfs()?).await?)
    }

    pub(crate) async fn set_facts(
        &self,
        file: &CopyHandle,
        facts: &ItemFacts,
    ) -> Result<(), Error> {
        Ok(self.export.set_facts(file.nfs()?, &facts_to(facts)).await?)
    }

    pub(crate) async fn close(&self, file: CopyHandle) -> Result<(), Error> {
        let CopyHandle::Nfs(file) = file else { return Ok(()) };
        Ok(self.export.close(file).await?)
    }

    pub(crate) async fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        Ok(self.export.rename(bytes_of(from), bytes_of(to)).await?)
    }

    pub(crate) async fn read_link(&self, path: &str) -> Result<LinkTarget, Error> {
        let text = text_of(&self.export.read_link(bytes_of(path)).await?);
        Ok(LinkTarget { text, is_directory: false })
    }

    pub(crate) async fn make_link(&self, path: &str, to: &LinkTarget) -> Result<(), Error> {
        Ok(self.export.make_link(bytes_of(path), &bytes_of(&to.text)).await?)
    }

    pub(crate) async fn remove(&self, path: &str, _: ItemKind) -> Result<(), Error> {
        Ok(self.export.remove(bytes_of(path)).await?)
    }

    pub(crate) async fn make_directory(&self, path: &str) -> Result<(), Error> {
        match self.export.make_directory(bytes_of(path)).await {
            Err(client::Error::RefusedOperation(OperationNumber::CREATE, NfsStatus::EXIST)) => {
                match self.stat(path).await?.kind {
                    ItemKind::Directory => Ok(()),
                    _ => Err(Error::Refused("a file of that name exists".into())),
                }
            }
            other => Ok(other?),
        }
    }

    pub(crate) async fn set_directory_facts(
        &self,
        path: &str,
        facts: &ItemFacts,
    ) -> Result<(), Error> {
        Ok(self.export.set_directory_facts(bytes_of(path), &facts_to(facts)).await?)
    }
}

/// A server refuses a COPY that passes the end of its source with NFS4ERR_INVAL (RFC 7862 15.2.3), or
/// copies what there is: the source has changed since its size was read.
fn copy_refusal(error: client::Error) -> Error {
    match error {
        client::Error::RefusedOperation(OperationNumber::COPY, NfsStatus::INVAL) => Error::Changed,
        other => other.into(),
    }
}

fn root() -> CopyItem {
    CopyItem {
        name: String::new(),
        kind: ItemKind::Directory,
        size_bytes: 0,
        is_sparse: false,
        change: 0,
        facts: ItemFacts::default(),
    }
}

fn item_of(entry: NfsDirectoryEntry) -> CopyItem {
    let nanos =
        |time: NfsTime| Some(i128::from(time.seconds) * NANOS + i128::from(time.nanoseconds));
    CopyItem {
        name: text_of(&entry.name),
        kind: match entry.kind {
            FileType::Directory => ItemKind::Directory,
            FileType::Regular => ItemKind::File,
            FileType::Link => ItemKind::Link,
            _ => ItemKind::Other,
        },
        size_bytes: entry.size_bytes,
        is_sparse: entry.used_bytes.is_some_and(|used| used < entry.size_bytes),
        change: entry.change,
        facts: ItemFacts {
            created: None,
            accessed: nanos(entry.times[0]),
            written: nanos(entry.times[1]),
            dos: None,
            mode: Some(entry.mode & 0o7777),
        },
    }
}

fn facts_to(facts: &ItemFacts) -> nfs::NfsSetAttributes {
    let time = |nanos: i128| NfsTime {
        seconds: i64::try_from(nanos.div_euclid(NANOS)).unwrap_or(0),
        nanoseconds: nanos.rem_euclid(NANOS) as u32,
    };
    nfs::NfsSetAttributes {
        mode: facts.mode,
        accessed: facts.accessed.map(time),
        modified: facts.written.map(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_beyond_a_shrunken_source_begins_again() {
        let refused =
            |operation, status| copy_refusal(client::Error::RefusedOperation(operation, status));
        assert_eq!(refused(OperationNumber::COPY, NfsStatus::INVAL), Error::Changed);
        let others =
            [(OperationNumber::COPY, NfsStatus::ACCESS), (OperationNumber::READ, NfsStatus::INVAL)];
        for (operation, status) in others {
            assert!(matches!(refused(operation, status), Error::Refused(_)), "{status:?}");
        }
    }

    #[test]
    fn times_before_1970_have_positive_nanoseconds() {
        let of =
            |nanos| facts_to(&ItemFacts { written: Some(nanos), ..ItemFacts::default() }).modified;
        assert_eq!(of(-1), Some(NfsTime { seconds: -1, nanoseconds: 999_999_999 }));
        assert_eq!(of(1_500_000_000), Some(NfsTime { seconds: 1, nanoseconds: 500_000_000 }));
    }
}
