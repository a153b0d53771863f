//! The persistent record of one open. Numbers are little-endian, as in messages; the first byte is
//! the version.

use crate::limits::{PERSISTENT_LOCKS_MAX, PERSISTENT_TEXT_BYTES_MAX};
use crate::opens::create_guids::Guid;
use crate::opens::lock_sequence::LOCK_SEQUENCE_ENTRIES;
use files::{
    Access, CacheKey, CachingRights, FURTHER_PATHS_MAX, FileIdentity, LockKind, OpenAction,
    OpenFacts, Range, RangeLock, Semantics, ShareMode, StoppedTimes,
};
use vfs::{Name, NodeHandle, RelPath, Timestamp};
use wire::codec::{DecodeError, Reader, Writer};

/// The present version. Version 1 had no leases; versions 1 and 2 had a device number instead of
/// [`FileIdentity::lasting`]; versions 1 to 3 had one path; versions 1 to 4 had no stopped times.
const VERSION: u8 = 5;
/// The last version without stopped times. Opens that stopped none still get it, so that an earlier
/// server restores them.
const MOVING_TIMES_VERSION: u8 = 4;
/// The last version with one path.
const ONE_PATH_VERSION: u8 = 3;
/// The last version with a device number.
const DEVICE_VERSION: u8 = 2;

/// The state from which an open is restored after a restart. MS-SMB2 3.3.1.10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRecord {
    /// FileId.Persistent.
    pub id: u64,
    /// ClientGuid of the CREATE.
    pub client_guid: Guid,
    /// CreateGuid.
    pub create_guid: Guid,
    /// Reconnect timeout in milliseconds.
    pub timeout_ms: u32,
    /// CreateAction.
    pub action: OpenAction,
    /// FILE_* mode flags.
    pub mode: u32,
    /// Account of the CREATE.
    pub owner: String,
    /// Name of the share.
    pub share: String,
    /// The file.
    pub file: OpenFacts,
    /// The client requested its lease in version 2.
    pub has_lease_v2: bool,
    /// The completed LOCK requests, if any were counted.
    pub lock_sequences: Option<[u8; LOCK_SEQUENCE_ENTRIES]>,
}

const DELETE_ON_CLOSE: u8 = 1;
const DELETE_PENDING: u8 = 2;
const POSIX: u8 = 4;
const LEASE: u8 = 8;
const LEASE_V2: u8 = 16;
const PARENT_KEY: u8 = 32;
const FLAGS: u8 = DELETE_ON_CLOSE | DELETE_PENDING | POSIX | LEASE | LEASE_V2 | PARENT_KEY;

impl OpenRecord {
    /// Encodes the record.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let w = &mut Writer::new(&mut bytes);
        let stopped = self.file.stopped_times;
        let stops = stopped != StoppedTimes::default();
        w.u8(if stops { VERSION } else { MOVING_TIMES_VERSION });
        w.u64(self.id);
        w.bytes(&self.client_guid);
        w.bytes(&self.create_guid);
        w.u32(self.timeout_ms);
        w.u8(match self.action {
            OpenAction::Superseded => 0,
            OpenAction::Opened => 1,
            OpenAction::Created => 2,
            OpenAction::Overwritten => 3,
        });
        w.u32(self.mode);
        put_text(w, self.owner.as_bytes());
        put_text(w, self.share.as_bytes());
        put_file(w, &self.file, self.has_lease_v2);
        match &self.lock_sequences {
            None => w.u8(0),
            Some(places) => {
                w.u8(1);
                w.bytes(places);
            }
        }
        if stops {
            w.u8(stopped.bits());
        }
        bytes
    }

    /// Decodes the output of [`OpenRecord::to_bytes`].
    ///
    /// # Errors
    /// [`DecodeError`] for anything else, and for other versions.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let version = r.u8("record version")?;
        if !(1..=VERSION).contains(&version) {
            return Err(r.malformed("record version"));
        }
        let has_lease_v2;
        let mut record = Self {
            id: r.u64("record id")?,
            client_guid: r.array("record client")?,
            create_guid: r.array("record create")?,
            timeout_ms: r.u32("record timeout")?,
            action: match r.u8("record action")? {
                0 => OpenAction::Superseded,
                1 => OpenAction::Opened,
                2 => OpenAction::Created,
                3 => OpenAction::Overwritten,
                _ => return Err(r.malformed("record action")),
            },
            mode: r.u32("record mode")?,
            owner: text(&mut r, "record owner")?,
            share: text(&mut r, "record share")?,
            file: {
                let (file, is_v2) = file(&mut r, version)?;
                has_lease_v2 = is_v2;
                file
            },
            has_lease_v2,
            lock_sequences: match r.u8("record locks")? {
                0 => None,
                1 => Some(r.array("record locks")?),
                _ => return Err(r.malformed("record locks")),
            },
        };
        if version > MOVING_TIMES_VERSION {
            let stopped = StoppedTimes::new(r.u8("record times")?);
            record.file.stopped_times = stopped.ok_or_else(|| r.malformed("record times"))?;
        }
        if r.remaining() == 0 { Ok(record) } else { Err(r.malformed("record end")) }
    }
}

fn put_text(w: &mut Writer<'_>, bytes: &[u8]) {
    w.u16(bytes.len() as u16);
    w.bytes(bytes);
}

fn text_bytes<'a>(r: &mut Reader<'a>, what: &'static str) -> Result<&'a [u8], DecodeError> {
    let length = usize::from(r.u16(what)?);
    if length > PERSISTENT_TEXT_BYTES_MAX {
        return Err(r.malformed(what));
    }
    r.take(length, what)
}

fn text(r: &mut Reader<'_>, what: &'static str) -> Result<String, DecodeError> {
    let bytes = text_bytes(r, what)?.to_vec();
    String::from_utf8(bytes).map_err(|_| r.malformed(what))
}

fn put_file(w: &mut Writer<'_>, file: &OpenFacts, has_lease_v2: bool) {
    let FileIdentity { inode, born, lasting } = &file.identity;
    w.u64(*inode);
    w.u8(u8::from(born.is_some()));
    w.bytes(&born.unwrap_or_default().0.to_le_bytes());
    put_text(w, lasting.as_ref().map_or(&[], NodeHandle::as_bytes));
    put_text(w, file.path.as_bytes());
    w.u8(file.further_paths.len() as u8);
    file.further_paths.iter().for_each(|path| put_text(w, path.as_bytes()));
    w.u32(file.granted.0);
    w.u32(file.share.0);
    let on_close = if file.delete_on_close { DELETE_ON_CLOSE } else { 0 };
    let pending = if file.delete_pending { DELETE_PENDING } else { 0 };
    let posix = if file.semantics == Semantics::Posix { POSIX } else { 0 };
    let lease = if file.cache_key.is_some() { LEASE } else { 0 };
    let v2 = if has_lease_v2 { LEASE_V2 } else { 0 };
    let parent = if file.parent_key.is_some() { PARENT_KEY } else { 0 };
    w.u8(on_close | pending | posix | lease | v2 | parent);
    w.u8(file.caching.0);
    if let Some(key) = file.cache_key {
        w.bytes(&key.client);
        w.bytes(&key.key);
        w.u16(file.epoch);
    }
    file.parent_key.iter().for_each(|key| w.bytes(key));
    w.u32(file.locks.len() as u32);
    for lock in &file.locks {
        w.u64(lock.range.offset);
        w.u64(lock.range.length);
        w.u8(u8::from(lock.kind == LockKind::Exclusive));
    }
}

fn identity(r: &mut Reader<'_>, version: u8) -> Result<FileIdentity, DecodeError> {
    let has_device = version <= DEVICE_VERSION;
    if has_device {
        // A device number may change with a restart of the machine, so it is ignored.
        r.skip(8, "record device")?;
    }
    let inode = r.u64("record inode")?;
    let is_born = r.u8("record birth")?;
    let born = i128::from_le_bytes(r.array("record birth")?);
    if is_born > 1 {
        return Err(r.malformed("record birth"));
    }
    let lasting = if has_device { &[] } else { text_bytes(r, "record handle")? };
    let lasting = match lasting {
        [] => None,
        bytes => Some(NodeHandle::new(bytes).map_err(|_| r.malformed("record handle"))?),
    };
    Ok(FileIdentity { inode, born: (is_born == 1).then_some(Timestamp(born)), lasting })
}

/// The file, and whether its lease has version 2.
fn file(r: &mut Reader<'_>, version: u8) -> Result<(OpenFacts, bool), DecodeError> {
    let identity = identity(r, version)?;
    let path = path(r)?;
    let further = if version <= ONE_PATH_VERSION { 0 } else { r.u8("record path")?.into() };
    if further > FURTHER_PATHS_MAX {
        return Err(r.malformed("record path"));
    }
    let further_paths = (0..further).map(|_| self::path(r)).collect::<Result<_, _>>()?;
    let (granted, share) =
        (Access(r.u32("record access")?), ShareMode(r.u32("record share mode")?));
    let flags = r.u8("record flags")?;
    let caching = CachingRights(r.u8("record caching")?);
    let known = flags & !FLAGS == 0 && CachingRights::BATCH.contains(caching);
    if !known || !ShareMode::ALL.contains(share) {
        return Err(r.malformed("record flags"));
    }
    let (mut cache_key, mut epoch, mut parent_key) = (None, 0, None);
    if flags & LEASE != 0 {
        let (client, key) = (r.array("record lease")?, r.array("record lease")?);
        cache_key = Some(CacheKey { client, key });
        epoch = r.u16("record lease")?;
    }
    if flags & PARENT_KEY != 0 {
        parent_key = Some(r.array("record lease")?);
    }
    let count = r.u32("record locks")? as usize;
    if count > PERSISTENT_LOCKS_MAX {
        return Err(r.malformed("record locks"));
    }
    let locks = (0..count).map(|_| lock(r)).collect::<Result<_, _>>()?;
    let file = OpenFacts {
        identity,
        path,
        further_paths,
        granted,
        share,
        semantics: if flags & POSIX == 0 { Semantics::Windows } else { Semantics::Posix },
        delete_on_close: flags & DELETE_ON_CLOSE != 0,
        delete_pending: flags & DELETE_PENDING != 0,
        caching,
        epoch,
        cache_key,
        parent_key,
        locks,
        stopped_times: StoppedTimes::default(),
    };
    Ok((file, flags & LEASE_V2 != 0))
}

fn path(r: &mut Reader<'_>) -> Result<RelPath, DecodeError> {
    let bytes = text_bytes(r, "record path")?;
    path_of(bytes).ok_or_else(|| r.malformed("record path"))
}

/// A path within the share; none for a path that leads out.
fn path_of(bytes: &[u8]) -> Option<RelPath> {
    if bytes.is_empty() {
        return Some(RelPath::root());
    }
    bytes.split(|byte| *byte == b'/').map(|name| Name::new(name).ok()).collect()
}

fn lock(r: &mut Reader<'_>) -> Result<RangeLock, DecodeError> {
    let range = Range::new(r.u64("record lock")?, r.u64("record lock")?);
    let kind = match r.u8("record lock")? {
        0 => LockKind::Shared,
        1 => LockKind::Exclusive,
        _ => return Err(r.malformed("record lock")),
    };
    Ok(RangeLock { range: range.ok_or_else(|| r.malformed("record lock"))?, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> OpenRecord {
        let lock = |offset, kind| RangeLock { range: Range::new(offset, 10).unwrap(), kind };
        OpenRecord {
            id: 0x0102_0304_0506_0708,
            client_guid: [1; 16],
            create_guid: [2; 16],
            timeout_ms: 60_000,
            action: OpenAction::Created,
            mode: 2,
            owner: "älice".into(),
            share: "data".into(),
            file: OpenFacts {
                identity: FileIdentity {
                    inode: 4,
                    born: Some(Timestamp(-5)),
                    lasting: Some(NodeHandle::new([1, 2, 3]).unwrap()),
                },
                path: path_of(b"a/b").unwrap(),
                further_paths: vec![path_of(b"a/c").unwrap(), path_of(b"d").unwrap()],
                granted: Access(0x0012_019F),
                share: ShareMode::READ,
                semantics: Semantics::Posix,
                delete_on_close: true,
                delete_pending: false,
                caching: CachingRights::BATCH,
                epoch: 0x0605,
                cache_key: Some(CacheKey { client: [3; 16], key: [4; 16] }),
                parent_key: Some([5; 16]),
                locks: vec![lock(0, LockKind::Exclusive), lock(u64::MAX - 9, LockKind::Shared)],
                stopped_times: StoppedTimes::new(5).unwrap(),
            },
            has_lease_v2: true,
            lock_sequences: Some([7; LOCK_SEQUENCE_ENTRIES]),
        }
    }

    /// The bytes of a record without [`FileIdentity::lasting`] and with one path, in an older
    /// version.
    fn of_version(version: u8, record: &OpenRecord) -> Vec<u8> {
        let mut bytes = record.to_bytes();
        bytes[0] = version;
        let inode = 50 + (2 + record.owner.len()) + (2 + record.share.len());
        let handle = inode + 8 + 1 + 16;
        assert_eq!(bytes[handle..handle + 2], [0, 0]);
        let further = handle + 2 + (2 + record.file.path.as_bytes().len());
        assert_eq!(bytes.remove(further), 0);
        if version > DEVICE_VERSION {
            return bytes;
        }
        bytes.drain(handle..handle + 2);
        bytes.splice(inode..inode, 3u64.to_le_bytes());
        bytes
    }

    #[test]
    fn record_round_trips() {
        let with = record();
        assert_eq!(OpenRecord::decode(&with.to_bytes()), Ok(with.clone()));
        let (cache_key, parent_key, epoch) = (None, None, 0);
        let identity = FileIdentity { inode: 4, born: None, lasting: None };
        let (locks, further_paths) = (Vec::new(), Vec::new());
        let file = OpenFacts { identity, locks, further_paths, ..with.file.clone() };
        let stopped_times = StoppedTimes::default();
        let file = OpenFacts { cache_key, parent_key, epoch, stopped_times, ..file };
        let without = OpenRecord { lock_sequences: None, has_lease_v2: false, file, ..with };
        assert_eq!(OpenRecord::decode(&without.to_bytes()).as_ref(), Ok(&without));
        assert_eq!(without.to_bytes()[0], 4);
        for version in [1, 2, 3] {
            let bytes = of_version(version, &without);
            assert_eq!(OpenRecord::decode(&bytes).as_ref(), Ok(&without), "version {version}");
        }
    }

    #[test]
    fn record_encoding_is_stable() {
        let bytes = record().to_bytes();
        assert_eq!(bytes[..9], [5, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[41..50], [0x60, 0xEA, 0, 0, 2, 2, 0, 0, 0]);
        assert_eq!(bytes[50..57], [6, 0, 0xC3, 0xA4, b'l', b'i', b'c']);
        assert_eq!(bytes[64..73], [4, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[89..94], [3, 0, 1, 2, 3]);
        assert_eq!(bytes[94..108], *b"\x03\0a/b\x02\x03\0a/c\x01\0d");
        assert_eq!((bytes.len(), bytes[271]), (272, 5));
    }

    #[test]
    fn truncated_or_newer_record_is_refused() {
        let bytes = record().to_bytes();
        for length in 0..bytes.len() {
            assert!(OpenRecord::decode(&bytes[..length]).is_err(), "{length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(OpenRecord::decode(&longer).is_err());
        let newer = [&[VERSION + 1], &bytes[1..]].concat();
        assert!(OpenRecord::decode(&newer).is_err());
    }

    #[test]
    fn changed_record_byte_is_refused_or_changes_the_value() {
        let bytes = record().to_bytes();
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                if let Ok(other) = OpenRecord::decode(&changed) {
                    assert_ne!(other, record(), "{at}");
                }
            }
        }
    }
}
