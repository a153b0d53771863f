//! A recursive walk through ten million names stays within the budget, measured at the allocator.
#![allow(clippy::unwrap_used)]

use peak_alloc::PeakAlloc;
use std::any::Any;
use std::sync::Arc;
use vfs::{
    Actor, AttributeChanges, AttributeRequest, Attributes, Case, ChangeFeed, ChangeFeeds,
    CreateHow, CreationMode, DirEntry, DosInfo, FileKey, FileKind, FollowId, FsError, Identity,
    ListingFeed, MetadataPresence, Name, NameCache, NameChange, Node, OpenHow, OpenedNode, RelPath,
    Replace, Result, SecurityChange, Space, SpecialKind, Timestamp, TreeFeatures, Vfs, Wait,
};
use vfs_cache::{CacheOptions, CachedVfs, Clock};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const DIRECTORIES: u64 = 10_000;
const NAMES: u64 = 1_000;
const BUDGET_BYTES: usize = 16 << 20;

/// A tree whose files are generated on demand.
#[derive(Debug)]
struct GeneratedVfs;

#[derive(Debug)]
struct GeneratedNode(u64);

#[derive(Debug)]
struct SilentFeed;

impl ChangeFeed for SilentFeed {
    fn follow(&self, _: vfs::ServerWork, directory: &dyn Node) -> Result<FollowId> {
        Ok(FollowId(directory.key().inode))
    }
    fn unfollow(&self, _: FollowId) {}
    fn drain(&self, _: &mut dyn FnMut(NameChange<'_>)) {}
}

fn attributes(inode: u64) -> Attributes {
    let kind = if inode <= DIRECTORIES { FileKind::Directory } else { FileKind::File };
    let time = Timestamp::default();
    Attributes {
        key: FileKey { device: 1, inode },
        kind,
        mode: 0o755,
        uid: 0,
        gid: 0,
        links: 1,
        size_bytes: 0,
        allocated_bytes: 0,
        accessed: time,
        modified: time,
        changed: time,
        change: 0,
        born: None,
        dos: DosInfo::default(),
        set_changed: None,
        device: None,
        compressed: false,
        protection: vfs::Protection::None,
        stored: MetadataPresence::default(),
    }
}

/// `D7` is directory 7, `D7/Name of a file 12` a file in it.
fn number(path: &RelPath) -> Result<u64> {
    let mut parts = path.components();
    let of = |part: Option<&[u8]>, prefix: &str, end: u64| -> Result<Option<u64>> {
        let Some(part) = part else { return Ok(None) };
        let text = std::str::from_utf8(part).map_err(|_| FsError::NotFound)?;
        let number = text.strip_prefix(prefix).and_then(|n| n.parse().ok());
        number.filter(|n| *n < end).map(Some).ok_or(FsError::NotFound)
    };
    let Some(directory) = of(parts.next(), "D", DIRECTORIES)? else { return Ok(0) };
    let file = of(parts.next(), "Name of a file ", NAMES)?;
    Ok(file.map_or(directory + 1, |file| (directory + 1) * 1_000_000 + file))
}

impl Vfs for GeneratedVfs {
    fn open(&self, _: Actor<'_>, path: &RelPath, _: OpenHow) -> Result<OpenedNode> {
        let inode = number(path)?;
        let node = Arc::new(GeneratedNode(inode));
        Ok(OpenedNode { node, attributes: attributes(inode), path: path.clone() })
    }
    fn open_node(&self, _: Actor<'_>, node: &dyn Node, _: OpenHow) -> Result<OpenedNode> {
        let key = node.key();
        let node = Arc::new(GeneratedNode(key.inode));
        Ok(OpenedNode { node, attributes: attributes(key.inode), path: RelPath::nameless(key) })
    }
    fn create(&self, _: Actor<'_>, _: &RelPath, _: Case, _: CreateHow) -> Result<OpenedNode> {
        Err(FsError::ReadOnly)
    }
    fn remove(&self, _: Actor<'_>, _: &RelPath, _: FileKey) -> Result<()> {
        Err(FsError::ReadOnly)
    }
    fn rename(&self, _: Actor<'_>, _: &RelPath, _: &RelPath, _: Replace) -> Result<()> {
        Err(FsError::ReadOnly)
    }
    fn link(&self, _: Actor<'_>, _: &dyn Node, _: &RelPath, _: Replace) -> Result<()> {
        Err(FsError::ReadOnly)
    }
    fn symlink(&self, _: Actor<'_>, _: &RelPath, _: &[u8]) -> Result<OpenedNode> {
        Err(FsError::ReadOnly)
    }
    fn create_special(
        &self,
        _: Actor<'_>,
        _: &RelPath,
        _: SpecialKind,
        _: CreationMode,
    ) -> Result<OpenedNode> {
        Err(FsError::ReadOnly)
    }
    fn space(&self, _: Actor<'_>) -> Result<Space> {
        Ok(Space::default())
    }
    fn feeds(&self) -> Option<&dyn ChangeFeeds> {
        Some(self)
    }
    fn features(&self) -> TreeFeatures {
        TreeFeatures::default()
    }
}

impl ChangeFeeds for GeneratedVfs {
    fn change_feed(&self) -> Result<Box<dyn ChangeFeed>> {
        Ok(Box::new(SilentFeed))
    }
    fn listing_feed(&self) -> Result<Box<dyn ListingFeed>> {
        Err(FsError::NotSupported)
    }
}

impl Node for GeneratedNode {
    fn key(&self) -> FileKey {
        attributes(self.0).key
    }
    fn kind(&self) -> FileKind {
        attributes(self.0).kind
    }
    fn attributes(&self, _: AttributeRequest) -> Result<Attributes> {
        Ok(attributes(self.0))
    }
    fn readdir(&self, _: u64, each: &mut dyn FnMut(DirEntry) -> bool) -> Result<bool> {
        let entry = |name: String, inode| {
            let name = Name::new(name.into_bytes()).unwrap();
            DirEntry { name, inode, kind: None, next: inode }
        };
        Ok(if self.0 == 0 {
            (0..DIRECTORIES).all(|n| each(entry(format!("D{n}"), n + 1)))
        } else {
            (0..NAMES).all(|n| each(entry(format!("Name of a file {n}"), n)))
        })
    }
    fn security_descriptor(&self) -> Result<Option<Vec<u8>>> {
        Ok(Some(vec![7; 200]))
    }
    fn set_attributes(&self, _: Actor<'_>, _: &AttributeChanges) -> Result<()> {
        Err(FsError::ReadOnly)
    }
    fn read(&self, _: u64, _: usize, _: &mut Vec<u8>, _: Wait) -> Result<usize> {
        Ok(0)
    }
    fn write(&self, _: Actor<'_>, _: u64, _: &[u8]) -> Result<()> {
        Err(FsError::ReadOnly)
    }
    fn sync(&self, _: Actor<'_>, _: bool) -> Result<()> {
        Ok(())
    }
    fn set_size(&self, _: Actor<'_>, _: u64) -> Result<()> {
        Err(FsError::ReadOnly)
    }
    fn copy_range(&self, _: Actor<'_>, _: u64, _: &dyn Node, _: u64, _: u64) -> Result<u64> {
        Err(FsError::ReadOnly)
    }
    fn child_attributes(&self, _: Actor<'_>, _: &Name, _: AttributeRequest) -> Result<Attributes> {
        Err(FsError::NotFound)
    }
    fn readlink(&self, _: Actor<'_>) -> Result<Vec<u8>> {
        Err(FsError::NotSupported)
    }
    fn set_security(&self, _: Actor<'_>, _: &SecurityChange<'_>) -> Result<()> {
        Err(FsError::ReadOnly)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn walk_through_ten_million_names_stays_in_budget() {
    let before = ALLOCATOR.current_usage();
    let options = CacheOptions { budget_bytes: BUDGET_BYTES, ..CacheOptions::default() };
    let clock = Clock(Arc::new(|| Timestamp(1 << 62)));
    let cached = CachedVfs::new(Arc::new(GeneratedVfs), options, clock);
    let actor = Identity::root();
    let how = OpenHow {
        read: false,
        write: false,
        case: Case::Insensitive,
        wanted: AttributeRequest { dos: Some(vfs::ServerWork::Metadata) },
        no_follow: false,
        wait: Wait::Allowed,
    };
    let path = |text: String| -> RelPath {
        text.split('/').map(|part| Name::new(part.as_bytes()).unwrap()).collect()
    };
    ALLOCATOR.reset_peak_usage();
    for directory in 0..DIRECTORIES {
        // A miss in any case makes the cache read all names of the directory.
        let missed = cached.open(actor.actor(), &path(format!("d{directory}/none")), how);
        assert_eq!(missed.unwrap_err(), FsError::NotFound);
        for file in 0..4 {
            for _ in 0..2 {
                let at = path(format!("D{directory}/Name of a file {file}"));
                let known = cached.open_with_security(actor.actor(), &at, how).unwrap();
                let security = known
                    .security
                    .map(|s| s.descriptor(&*known.opened.node).unwrap().map(<[u8]>::len));
                assert!(security.is_none_or(|bytes| bytes == Some(200)));
            }
        }
    }
    let peak = ALLOCATOR.peak_usage() - before;
    let most = BUDGET_BYTES + BUDGET_BYTES / 20;
    assert!(peak <= most, "{peak} bytes, of {BUDGET_BYTES}");
    assert!(peak >= BUDGET_BYTES / 2, "{peak} bytes: the budget is not used");
}
