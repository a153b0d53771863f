//! An SMB share as a side.

use crate::error::Error;
use crate::handle::{CopyHandle, Finish, Whole};
use crate::item::{CopyItem, ItemFacts, ItemKind, LinkTarget};
use crate::limits::{CHUNK_BYTES, CHUNKS_MAX, RANGES_MAX};
use crate::names::split;
use crate::ranges::Ranges;
use crate::sessions::ShareSessions;
use crate::smb_links;
use bytes::Bytes;
use client::{FileCompletion, OpenedAttributes, Put, SmbDirectoryEntry, SmbOpenHow, SmbTree};
use std::ops::Range;
use wire::codec::Reader;
use wire::fscc::{self, FileTime, REPARSE_TAG_LX_SYMLINK, REPARSE_TAG_NFS, REPARSE_TAG_SYMLINK};
use wire::smb::fsctl;

/// Attributes that a client sets.
const SETTABLE: u32 = fscc::FILE_ATTRIBUTE_READONLY
    | fscc::FILE_ATTRIBUTE_HIDDEN
    | fscc::FILE_ATTRIBUTE_SYSTEM
    | fscc::FILE_ATTRIBUTE_ARCHIVE
    | fscc::FILE_ATTRIBUTE_NOT_CONTENT_INDEXED;

const WRITE_ATTRIBUTES: u32 = 0x100;
const DELETE: u32 = 0x0001_0000;
/// READ_CONTROL, WRITE_DAC and WRITE_OWNER.
pub(crate) const ALL_OF_DESCRIPTOR: u32 = 0x000E_0000;

/// Reparse tags of junctions and of other systems' links and devices: MOUNT_POINT, NFS, LX_SYMLINK.
/// MS-FSCC 2.1.2.1.
const NOT_COPIED: [u32; 3] = [0xA000_0003, REPARSE_TAG_NFS, REPARSE_TAG_LX_SYMLINK];

/// A share.
#[derive(Clone, Debug)]
pub(crate) struct Smb {
    tree: SmbTree,
    /// The share in each session.
    sessions: ShareSessions,
}

impl Smb {
    pub(crate) fn new(tree: SmbTree) -> Self {
        Self { sessions: ShareSessions::new(tree.clone()), tree }
    }

    pub(crate) fn tree(&self) -> &SmbTree {
        &self.tree
    }

    pub(crate) async fn is_near(&self) -> bool {
        self.tree.client().is_near().await
    }

    pub(crate) fn connections(&self) -> usize {
        self.sessions.connections()
    }

    pub(crate) fn io_bytes_max(&self) -> u32 {
        let negotiated = self.tree.client().negotiated();
        negotiated.read_bytes_max.min(negotiated.write_bytes_max)
    }

    pub(crate) async fn stat(&self, path: &str) -> Result<CopyItem, Error> {
        Ok(item_of(split(path).1, &self.tree.stat(path).await?))
    }

    pub(crate) async fn list(&self, path: &str) -> Result<Vec<CopyItem>, Error> {
        Ok(self.tree.list(path).await?.into_iter().map(listed).collect())
    }

    /// Prepares for many small files: opens further sessions.
    pub(crate) fn expect_many(&self) {
        self.sessions.open_more();
    }

    /// Ends the further sessions.
    pub(crate) async fn expect_no_more(&self) {
        self.sessions.end().await;
    }

    pub(crate) async fn get(&self, path: &str, length: u32) -> Result<(Bytes, CopyItem), Error> {
        let (tree, is_further) = self.sessions.next();
        let got = match tree.get(path, length).await {
            Err(client::Error::Lost { .. }) if is_further => {
                self.sessions.first().get(path, length).await
            }
            other => other,
        };
        let (data, created) = got?;
        Ok((Bytes::from_owner(data), item_of(split(path).1, &created)))
    }

    pub(crate) async fn put(&self, whole: &Whole<'_>) -> Result<(), Error> {
        let (times, attributes) = basic(whole.facts);
        let Whole { temporary, path, replaces, data, .. } = *whole;
        let put = Put { temporary, path, replaces, data, times, attributes, is_again: false };
        let (tree, is_further) = self.sessions.next();
        match tree.put(&put).await {
            Err(client::Error::Lost { .. }) if is_further => {
                Ok(self.sessions.first().put(&Put { is_again: true, ..put }).await?)
            }
            other => Ok(other?),
        }
    }

    pub(crate) async fn open_source(&self, path: &str) -> Result<CopyHandle, Error> {
        Ok(CopyHandle::Smb(self.tree.open(path, &SmbOpenHow::read()).await?))
    }

    pub(crate) async fn open_target(&self, path: &str, fresh: bool) -> Result<CopyHandle, Error> {
        let how = SmbOpenHow::read_write();
        let access = how.access | DELETE | WRITE_ATTRIBUTES;
        let disposition = if fresh { fscc::FILE_OVERWRITE_IF } else { fscc::FILE_OPEN };
        Ok(CopyHandle::Smb(self.tree.open(path, &SmbOpenHow { access, disposition, ..how }).await?))
    }

    pub(crate) async fn read(
        &self,
        file: &CopyHandle,
        at: u64,
        length: u32,
    ) -> Result<Bytes, Error> {
        Ok(Bytes::from_owner(file.smb()?.read(at, length).await?))
    }

    pub(crate) async fn write(
        &self,
        file: &CopyHandle,
        at: u64,
        data: &Bytes,
    ) -> Result<(), Error> {
        Ok(file.smb()?.write(at, data).await?)
    }

    pub(crate) async fn set_size(
        &self,
        file: &CopyHandle,
        size: u64,
        sparse: bool,
    ) -> Result<(), Error> {
        if sparse {
            // A server without sparse files allocates the holes; the copy is still right.
            let _ = file.smb()?.control(fsctl::SET_SPARSE, &[1], 0).await;
        }
        Ok(file.smb()?.set_size(size).await?)
    }

    pub(crate) async fn data_ranges(&self, file: &CopyHandle, size: u64) -> Option<Ranges> {
        let (mut at, mut found) = (0, Vec::new());
        while at < size {
            let input = [at.to_le_bytes(), (size - at).to_le_bytes()].concat();
            let code = fsctl::QUERY_ALLOCATED_RANGES;
            let output = file.smb().ok()?.control(code, &input, 64 * 1024).await.ok()?;
            let part = ranges_of(&output, size)?;
            let Some(last) = part.last().cloned() else { break };
            found.extend(part);
            // A full reply means that there may be more ranges.
            if last.end <= at || output.len() + 16 <= 64 * 1024 {
                break;
            }
            if found.len() > RANGES_MAX {
                return None;
            }
            at = last.end;
        }
        Some(Ranges::of(found))
    }

    pub(crate) async fn flush(&self, file: &CopyHandle) -> Result<(), Error> {
        Ok(file.smb()?.flush().await?)
    }

    pub(crate) async fn set_facts(
        &self,
        file: &CopyHandle,
        facts: &ItemFacts,
    ) -> Result<(), Error> {
        let (times, attributes) = basic(facts);
        Ok(file.smb()?.set_basic(times, attributes).await?)
    }

    pub(crate) async fn close(&self, file: CopyHandle) -> Result<(), Error> {
        let CopyHandle::Smb(file) = file else { return Ok(()) };
        Ok(file.close().await?)
    }

    /// Sets times, attributes and final name of a complete file, and closes it.
    pub(crate) async fn finish(&self, file: CopyHandle, finish: &Finish<'_>) -> Result<(), Error> {
        let Finish { facts, from, to, replaces, syncs } = *finish;
        let (times, attributes) = basic(facts);
        let ending = FileCompletion { times, attributes, path: to, replaces, syncs };
        match self.tree.finish_file(file.smb()?, &ending).await {
            Err(client::Error::Lost { .. }) if self.tree.client().is_alive() => {}
            other => return Ok(other?),
        }
        // The server may have renamed the file before the channel was lost: its name shows it.
        let _ = self.close(file).await;
        match self.stat(from).await {
            Err(Error::Missing) => self.stat(to).await.map(drop)?,
            Err(error) => return Err(error),
            Ok(_) => {
                self.set_directory_facts(from, facts).await?;
                self.tree.rename(from, to, replaces).await?;
            }
        }
        if !syncs {
            return Ok(());
        }
        let named = self.open_target(to, false).await?;
        let synced = self.flush(&named).await;
        self.close(named).await.and(synced)
    }

    pub(crate) async fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        Ok(self.tree.rename(from, to, true).await?)
    }

    /// Removes an entry. A listed file may be a link to one: only the link goes.
    pub(crate) async fn remove(&self, path: &str, _: ItemKind) -> Result<(), Error> {
        smb_links::remove(&self.tree, path).await
    }

    pub(crate) async fn is_link(&self, path: &str) -> Result<bool, Error> {
        smb_links::is_link(&self.tree, path).await
    }

    pub(crate) async fn read_link(&self, path: &str) -> Result<LinkTarget, Error> {
        smb_links::read_link(&self.tree, path).await
    }

    pub(crate) async fn make_link(&self, path: &str, to: &LinkTarget) -> Result<(), Error> {
        smb_links::make_link(&self.tree, path, to).await
    }

    pub(crate) async fn make_directory(&self, path: &str) -> Result<(), Error> {
        Ok(self.tree.make_directory(path).await?)
    }

    pub(crate) async fn set_directory_facts(
        &self,
        path: &str,
        facts: &ItemFacts,
    ) -> Result<(), Error> {
        let (times, attributes) = basic(facts);
        let how = SmbOpenHow::stat();
        let how = SmbOpenHow { access: how.access | WRITE_ATTRIBUTES, ..how };
        let directory = self.tree.open(path, &how).await?;
        let set = directory.set_basic(times, attributes).await;
        directory.close().await?;
        Ok(set?)
    }

    /// The resume key that identifies an open source in FSCTL_SRV_COPYCHUNK. MS-SMB2 2.2.32.3.
    pub(crate) async fn resume_key(file: &CopyHandle) -> Result<[u8; 24], Error> {
        let output = file.smb()?.control(fsctl::SRV_REQUEST_RESUME_KEY, &[], 32).await?;
        let key = output.get(..24).and_then(|key| key.try_into().ok());
        key.ok_or_else(|| Error::Refused("the server's key is too short".into()))
    }

    /// Requests a server-side copy of a range of at most 16 chunks. MS-SMB2 2.2.31.1.
    pub(crate) async fn copy_range(
        key: &[u8; 24],
        target: &CopyHandle,
        range: &Range<u64>,
    ) -> Result<(), Error> {
        let mut chunks = Vec::new();
        let mut at = range.start;
        while at < range.end && (chunks.len() as u64) < CHUNKS_MAX {
            let length = (range.end - at).min(CHUNK_BYTES);
            chunks.push((at, length));
            at += length;
        }
        let mut input = key.to_vec();
        input.extend_from_slice(&(chunks.len() as u32).to_le_bytes());
        input.extend_from_slice(&[0; 4]);
        for (at, length) in chunks {
            input.extend_from_slice(&at.to_le_bytes());
            input.extend_from_slice(&at.to_le_bytes());
            input.extend_from_slice(&(length as u32).to_le_bytes());
            input.extend_from_slice(&[0; 4]);
        }
        let output = target.smb()?.control(fsctl::SRV_COPYCHUNK_WRITE, &input, 12).await?;
        let written = output.get(8..12).and_then(|total| total.try_into().ok());
        if written.map(u32::from_le_bytes).map(u64::from) == Some(at - range.start) {
            return Ok(());
        }
        Err(Error::Refused("the server copied less than requested".into()))
    }
}

/// FILE_ALLOCATED_RANGE_BUFFER. MS-FSCC 2.3.48.
fn ranges_of(output: &[u8], size: u64) -> Option<Vec<Range<u64>>> {
    let mut r = Reader::new(output);
    let mut found = Vec::new();
    for _ in 0..output.len() / 16 {
        let (start, length) = (r.u64("range").ok()?, r.u64("range").ok()?);
        let end = start.checked_add(length)?.min(size);
        if start < end {
            found.push(start..end);
        }
    }
    Some(found)
}

fn basic(facts: &ItemFacts) -> ([FileTime; 4], u32) {
    let time = |nanos: Option<i128>| nanos.map_or(FileTime(0), FileTime::from_unix_nanos);
    let times = [time(facts.created), time(facts.accessed), time(facts.written), FileTime(0)];
    let attributes = facts.dos.map_or(0, |dos| match dos & SETTABLE {
        0 => fscc::FILE_ATTRIBUTE_NORMAL,
        dos => dos,
    });
    (times, attributes)
}

fn facts_of(times: [FileTime; 4], attributes: u32) -> ItemFacts {
    let nanos = |time: FileTime| (time.0 != 0).then(|| time.to_unix_nanos());
    ItemFacts {
        created: nanos(times[0]),
        accessed: nanos(times[1]),
        written: nanos(times[2]),
        dos: Some(attributes),
        mode: None,
    }
}

fn kind_of(attributes: u32) -> ItemKind {
    let directory = attributes & fscc::FILE_ATTRIBUTE_DIRECTORY != 0;
    if directory { ItemKind::Directory } else { ItemKind::File }
}

fn item_of(name: &str, created: &OpenedAttributes) -> CopyItem {
    CopyItem {
        name: name.to_owned(),
        kind: kind_of(created.attributes),
        size_bytes: created.size_bytes,
        is_sparse: created.attributes & fscc::FILE_ATTRIBUTE_SPARSE != 0,
        change: created.times[3].0,
        facts: facts_of(created.times, created.attributes),
    }
}

fn listed(entry: SmbDirectoryEntry) -> CopyItem {
    let record = entry.record;
    let is_reparse = record.attributes & fscc::FILE_ATTRIBUTE_REPARSE_POINT != 0;
    let kind = match record.ea_bytes {
        REPARSE_TAG_SYMLINK if is_reparse => ItemKind::Link,
        tag if is_reparse && NOT_COPIED.contains(&tag) => ItemKind::Other,
        _ => kind_of(record.attributes),
    };
    CopyItem {
        name: entry.name,
        kind,
        size_bytes: record.size_bytes,
        is_sparse: record.attributes & fscc::FILE_ATTRIBUTE_SPARSE != 0,
        change: record.times[3].0,
        facts: facts_of(record.times, record.attributes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocated_ranges_are_clipped_to_the_file() {
        let encode = |list: &[u64]| list.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(ranges_of(&encode(&[0, 10, 20, 100]), 50), Some(vec![0..10, 20..50]));
        assert_eq!(ranges_of(&encode(&[60, 10]), 50), Some(vec![]));
        assert_eq!(ranges_of(&encode(&[u64::MAX, 10]), 50), None);
        assert_eq!(ranges_of(&[1, 2, 3], 50), Some(vec![]));
    }

    #[test]
    fn empty_attributes_become_normal_and_server_ones_are_dropped() {
        let of = |dos| basic(&ItemFacts { dos, ..ItemFacts::default() }).1;
        assert_eq!(of(None), 0, "left to the server");
        assert_eq!(of(Some(0x10)), 0x80);
        assert_eq!(of(Some(0x223)), 0x23);
    }
}
