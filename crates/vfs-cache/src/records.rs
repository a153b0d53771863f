//! Compact entries of a listing: some 120 bytes and the name.

use vfs::{
    Attributes, DosInfo, FileKey, FileKind, ListedEntry, MetadataPresence, Protection, Timestamp,
};

/// Entries of one chunk.
pub const CHUNK_RECORDS_MAX: usize = 512;
/// Bytes of a chunk beside its records and names.
const CHUNK_BYTES: usize = 160;

/// The attributes are cached; else the entry needs a stat each time.
const HAS_ATTRIBUTES: u16 = 1;
const SYMLINK: u16 = 1 << 1;
const COMPRESSED: u16 = 1 << 2;
const HAS_BITS: u16 = 1 << 3;
const HAS_CREATED: u16 = 1 << 4;
const HAS_BORN: u16 = 1 << 5;
const XATTRS: u16 = 1 << 6;
const STREAMS: u16 = 1 << 7;
const DESCRIPTOR: u16 = 1 << 8;
const POSIX_ACL: u16 = 1 << 9;
const IMMUTABLE: u16 = 1 << 10;
const APPEND_ONLY: u16 = 1 << 11;
const HAS_SET_CHANGED: u16 = 1 << 12;

/// One entry; times in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct CacheRecord {
    next: u64,
    inode: u64,
    size_bytes: u64,
    allocated_bytes: u64,
    change: u64,
    accessed: i64,
    modified: i64,
    changed: i64,
    set_changed: i64,
    born: i64,
    created: i64,
    uid: u32,
    gid: u32,
    bits: u32,
    /// End of the name in the chunk's names.
    name_end: u32,
    mode: u16,
    flags: u16,
}

/// Consecutive entries.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    device: u64,
    records: Vec<CacheRecord>,
    names: Vec<u8>,
}

/// A cached entry.
#[derive(Clone, Copy, Debug)]
pub struct CachedEntry<'a> {
    pub name: &'a [u8],
    pub inode: u64,
    pub next: u64,
    /// None if the entry needs a stat.
    pub attributes: Option<Attributes>,
}

impl Chunk {
    /// An empty chunk of a directory on this device.
    pub fn of(device: u64) -> Self {
        Self { device, ..Self::default() }
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        CHUNK_BYTES + self.records.capacity() * size_of::<CacheRecord>() + self.names.capacity()
    }

    /// Cookie of the last entry; None if the chunk is empty.
    pub fn end(&self) -> Option<u64> {
        self.records.last().map(|record| record.next)
    }

    /// Whether the cookies increase from this one on.
    pub fn grows_from(&self, cookie: u64) -> bool {
        self.records.first().is_none_or(|first| first.next > cookie)
            && self.records.is_sorted_by(|a, b| a.next < b.next)
    }

    /// Index behind the entry with this cookie.
    pub fn index_after(&self, cookie: u64, is_sorted: bool) -> Option<usize> {
        let found = if is_sorted {
            self.records.binary_search_by_key(&cookie, |record| record.next).ok()
        } else {
            self.records.iter().position(|record| record.next == cookie)
        };
        found.map(|at| at + 1)
    }

    /// Adds an entry.
    pub fn push(&mut self, entry: &ListedEntry<'_>) {
        self.names.extend_from_slice(entry.name);
        let record = entry.attributes.and_then(|attributes| self.record(entry, &attributes));
        let record =
            record.unwrap_or(CacheRecord { next: entry.next, inode: entry.inode, ..NEEDS_STAT });
        // A chunk has at most 512 names of 255 bytes.
        let name_end = self.names.len() as u32;
        self.records.push(CacheRecord { name_end, ..record });
    }

    /// Appends the entries of the following chunk; false if there is no room.
    pub fn append(&mut self, other: &Self) -> bool {
        if self.len() + other.len() > CHUNK_RECORDS_MAX {
            return false;
        }
        let before = self.names.len() as u32;
        self.names.extend_from_slice(&other.names);
        let moved = |r: &CacheRecord| CacheRecord { name_end: r.name_end + before, ..*r };
        self.records.extend(other.records.iter().map(moved));
        true
    }

    /// Frees unused capacity.
    pub fn shrink(&mut self) {
        self.records.shrink_to_fit();
        self.names.shrink_to_fit();
    }

    /// The entry at an index.
    pub fn get(&self, at: usize) -> Option<CachedEntry<'_>> {
        let record = self.records.get(at)?;
        let begin = at.checked_sub(1).map_or(0, |before| self.records[before].name_end);
        let name = &self.names[begin as usize..record.name_end as usize];
        let attributes =
            (record.flags & HAS_ATTRIBUTES != 0).then(|| record.attributes(self.device));
        Some(CachedEntry { name, inode: record.inode, next: record.next, attributes })
    }

    /// The record of a cacheable entry. Changes of directories and of files with several names are
    /// not all reported.
    fn record(&self, entry: &ListedEntry<'_>, attributes: &Attributes) -> Option<CacheRecord> {
        let Attributes { kind, dos, stored, .. } = *attributes;
        let key = FileKey { device: self.device, inode: entry.inode };
        let is_reported = matches!(kind, FileKind::File | FileKind::Symlink)
            && attributes.links == 1
            && attributes.key == key;
        if !is_reported {
            return None;
        }
        let nanos = |Timestamp(time): Timestamp| i64::try_from(time).ok();
        let optional = |time: Option<Timestamp>| time.map_or(Some(0), nanos);
        let flags = [
            (true, HAS_ATTRIBUTES),
            (kind == FileKind::Symlink, SYMLINK),
            (attributes.compressed, COMPRESSED),
            (attributes.protection == Protection::Immutable, IMMUTABLE),
            (attributes.protection == Protection::AppendOnly, APPEND_ONLY),
            (dos.bits.is_some(), HAS_BITS),
            (dos.created.is_some(), HAS_CREATED),
            (attributes.born.is_some(), HAS_BORN),
            (attributes.set_changed.is_some(), HAS_SET_CHANGED),
            (stored.xattrs, XATTRS),
            (stored.streams, STREAMS),
            (stored.descriptor, DESCRIPTOR),
            (stored.posix_acl, POSIX_ACL),
        ];
        Some(CacheRecord {
            next: entry.next,
            inode: entry.inode,
            size_bytes: attributes.size_bytes,
            allocated_bytes: attributes.allocated_bytes,
            change: attributes.change,
            accessed: nanos(attributes.accessed)?,
            modified: nanos(attributes.modified)?,
            changed: nanos(attributes.changed)?,
            set_changed: optional(attributes.set_changed)?,
            born: optional(attributes.born)?,
            created: optional(dos.created)?,
            uid: attributes.uid,
            gid: attributes.gid,
            bits: dos.bits.unwrap_or(0),
            name_end: 0,
            mode: u16::try_from(attributes.mode).ok()?,
            flags: flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag),
        })
    }
}

const NEEDS_STAT: CacheRecord = CacheRecord {
    next: 0,
    inode: 0,
    size_bytes: 0,
    allocated_bytes: 0,
    change: 0,
    accessed: 0,
    modified: 0,
    changed: 0,
    set_changed: 0,
    born: 0,
    created: 0,
    uid: 0,
    gid: 0,
    bits: 0,
    name_end: 0,
    mode: 0,
    flags: 0,
};

impl CacheRecord {
    fn attributes(&self, device: u64) -> Attributes {
        let has = |flag| self.flags & flag != 0;
        let time = |nanos: i64| Timestamp(nanos.into());
        let created = has(HAS_CREATED).then(|| time(self.created));
        Attributes {
            key: FileKey { device, inode: self.inode },
            kind: if has(SYMLINK) { FileKind::Symlink } else { FileKind::File },
            mode: self.mode.into(),
            uid: self.uid,
            gid: self.gid,
            links: 1,
            size_bytes: self.size_bytes,
            allocated_bytes: self.allocated_bytes,
            accessed: time(self.accessed),
            modified: time(self.modified),
            changed: time(self.changed),
            change: self.change,
            born: has(HAS_BORN).then(|| time(self.born)),
            dos: DosInfo { bits: has(HAS_BITS).then_some(self.bits), created },
            set_changed: has(HAS_SET_CHANGED).then(|| time(self.set_changed)),
            stored: MetadataPresence {
                xattrs: has(XATTRS),
                streams: has(STREAMS),
                descriptor: has(DESCRIPTOR),
                posix_acl: has(POSIX_ACL),
            },
            device: None,
            compressed: has(COMPRESSED),
            protection: match (has(IMMUTABLE), has(APPEND_ONLY)) {
                (true, _) => Protection::Immutable,
                (false, true) => Protection::AppendOnly,
                (false, false) => Protection::None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_time_that_was_set_is_recorded_with_other_times() {
        let mut chunk = Chunk::of(7);
        let time = |nanos| Timestamp(nanos);
        let attributes = |inode, set_changed| Attributes {
            key: FileKey { device: 7, inode },
            kind: FileKind::File,
            mode: 0o644,
            uid: 1,
            gid: 2,
            links: 1,
            size_bytes: 3,
            allocated_bytes: 4,
            accessed: time(5),
            modified: time(6),
            changed: time(7),
            change: 8,
            born: Some(time(9)),
            dos: DosInfo { bits: Some(2), created: Some(time(10)) },
            set_changed,
            stored: MetadataPresence::NOTHING,
            device: None,
            compressed: false,
            protection: Protection::None,
        };
        let all = [
            attributes(1, Some(time(11))),
            attributes(2, None),
            attributes(3, Some(Timestamp(i128::MAX))),
        ];
        for (inode, attributes) in (1..).zip(all) {
            let attributes = Some(attributes);
            chunk.push(&ListedEntry { name: b"f", inode, attributes, next: inode });
        }
        let found = [0, 1, 2].map(|at| chunk.get(at).unwrap().attributes);
        assert_eq!(found, [Some(all[0]), Some(all[1]), None], "a time without a place is read");
    }
}
