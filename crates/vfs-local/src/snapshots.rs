//! Snapshots in directories: of ZFS, CephFS, snapper, or mounted at any path.

mod name;

use crate::errors::refusal;
use crate::identity::as_server;
use crate::resolve::{Root, open_beneath};
use crate::tree::LocalVfs;
pub use name::{NameFormat, NameFormatError};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::io::Read;
use std::mem::MaybeUninit;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Weak};
use sync::{Mutex, MutexGuard};
use vfs::{FsError, Result, ServerWork, Snapshots, Timestamp, Vfs, Wait};

/// Maximum number of snapshots in a list, the newest first. Their times fit into 64 KiB.
pub const SNAPSHOTS_MAX: usize = 1024;
/// Maximum number of directory entries that are examined.
const ENTRIES_MAX: usize = 65_536;
/// Bytes read from the directory per call.
const LIST_BYTES: usize = 32 * 1024;
/// Maximum length of snapper's description of a snapshot.
const DESCRIPTION_BYTES_MAX: u64 = 16 * 1024;

/// Source of a snapshot's creation time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotNaming {
    /// The snapshot's name, in one of these formats; times are UTC.
    Names(Vec<NameFormat>),
    /// A file beside the snapshot, as snapper creates it: `NUMBER/info.xml`, `NUMBER/snapshot`.
    Snapper,
}

/// Location of a share's snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPlace {
    /// The directory with one entry per snapshot. Below `root` no symbolic link is followed to it.
    /// Users may change names there, and the server opens the directory on behalf of all of them.
    pub directory: PathBuf,
    /// The directory that the snapshots were taken of.
    pub root: PathBuf,
    /// Source of their creation times.
    pub naming: SnapshotNaming,
    /// Path of the served tree within a snapshot; empty for its root.
    pub inside: PathBuf,
    /// See [`vfs::TreeFeatures::follows_links`].
    pub follows_links: bool,
}

/// Snapshots below one directory. No symbolic link leads a look-up out of it.
#[derive(Debug)]
pub struct LocalSnapshots {
    place: SnapshotPlace,
    known: Mutex<SnapshotIndex>,
}

#[derive(Debug, Default)]
struct SnapshotIndex {
    /// Entries of the directory at the last scan.
    names: BTreeMap<Timestamp, Vec<u8>>,
    /// Snapshots in use.
    open: BTreeMap<Timestamp, Weak<LocalVfs>>,
}

impl LocalSnapshots {
    /// Creates the source of the snapshots at `place`, which need not exist yet.
    #[must_use]
    pub fn new(place: SnapshotPlace) -> Self {
        Self { place, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, SnapshotIndex> {
        self.known.lock()
    }

    fn directory(&self) -> Result<OwnedFd> {
        let SnapshotPlace { directory, root, .. } = &self.place;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path: &Path, flags| rustix::fs::open(path, flags, Mode::empty());
        let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
        let below = directory.strip_prefix(root).ok();
        let opened = match below.filter(|below| below.components().all(is_name)) {
            Some(below) => open(root, flags | OFlags::PATH).and_then(|root| {
                let root = Root { fd: root.as_fd(), stops_at_links: true };
                let path = below.as_os_str().as_encoded_bytes();
                open_beneath(root, path, flags, Mode::empty(), Wait::Allowed)
            }),
            None => open(directory, flags),
        };
        opened.map_err(|e| refusal("open the directory of snapshots", e))
    }

    /// Scans the directory.
    fn scan(&self) -> Result<BTreeMap<Timestamp, Vec<u8>>> {
        let directory = self.directory()?;
        let mut found = BTreeMap::new();
        let mut buffer = vec![MaybeUninit::uninit(); LIST_BYTES];
        let mut entries = rustix::fs::RawDir::new(&directory, &mut buffer);
        for _ in 0..ENTRIES_MAX {
            let Some(entry) = entries.next() else { break };
            let entry = entry.map_err(|e| refusal("list snapshots", e))?;
            let name = entry.file_name().to_bytes();
            let at = match &self.place.naming {
                SnapshotNaming::Names(formats) => {
                    formats.iter().find_map(|format| format.time(name))
                }
                SnapshotNaming::Snapper => time_by_snapper(&directory, name),
            };
            if let Some(at) = at {
                // Of two snapshots with the same time the first by name counts, whatever the order
                // of the directory.
                let kept = found.entry(at).or_insert_with(|| name.to_vec());
                if name < kept.as_slice() {
                    *kept = name.to_vec();
                }
            }
            if found.len() > SNAPSHOTS_MAX {
                found.pop_first();
            }
        }
        Ok(found)
    }

    fn refresh(&self) -> Result<()> {
        let names = as_server(ServerWork::Snapshots, || self.scan())?;
        let mut known = self.known();
        known.open.retain(|_, open| open.strong_count() > 0);
        known.names = names;
        Ok(())
    }

    fn open_now(&self, at: Timestamp) -> Result<Arc<LocalVfs>> {
        let name = self.known().names.get(&at).cloned().ok_or(FsError::NotFound)?;
        let mut path = name;
        if self.place.naming == SnapshotNaming::Snapper {
            path.extend_from_slice(b"/snapshot");
        }
        for part in self.place.inside.components() {
            path.push(b'/');
            path.extend_from_slice(part.as_os_str().as_encoded_bytes());
        }
        let directory = self.directory()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let root = Root { fd: directory.as_fd(), stops_at_links: true };
        let root = open_beneath(root, &path, flags, Mode::empty(), Wait::Allowed)
            .map_err(|e| refusal("open snapshot", e))?;
        LocalVfs::of(root, self.place.follows_links).map(Arc::new)
    }
}

impl Snapshots for LocalSnapshots {
    fn list(&self) -> Result<Vec<Timestamp>> {
        self.refresh()?;
        Ok(self.known().names.keys().rev().copied().collect())
    }

    fn open(&self, at: Timestamp) -> Result<Arc<dyn Vfs>> {
        if let Some(open) = self.known().open.get(&at).and_then(Weak::upgrade) {
            return Ok(open);
        }
        let opened = match as_server(ServerWork::Snapshots, || self.open_now(at)) {
            // The snapshot was created or renamed after the last scan.
            Err(FsError::NotFound | FsError::PathNotFound) => {
                self.refresh()?;
                as_server(ServerWork::Snapshots, || self.open_now(at))
            }
            other => other,
        };
        let vfs = opened.map_err(|_| FsError::NotFound)?;
        self.known().open.insert(at, Arc::downgrade(&vfs));
        Ok(vfs)
    }
}

/// The creation time that snapper recorded for its snapshot `number`.
fn time_by_snapper(directory: &OwnedFd, number: &[u8]) -> Option<Timestamp> {
    if number.is_empty() || !number.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let path = [number, b"/info.xml"].concat();
    let root = Root { fd: directory.as_fd(), stops_at_links: true };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = open_beneath(root, &path, flags, Mode::empty(), Wait::Allowed).ok()?;
    let mut text = Vec::new();
    std::fs::File::from(file).take(DESCRIPTION_BYTES_MAX).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (_, rest) = text.split_once("<date>")?;
    let (date, _) = rest.split_once("</date>")?;
    NameFormat::new("%Y-%m-%d %H:%M:%S").ok()?.time(date.trim().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use vfs::{Actor, AttributeRequest, Case, OpenHow, RelPath};

    fn place(directory: &Path, formats: &[&str]) -> SnapshotPlace {
        SnapshotPlace {
            directory: directory.into(),
            root: "/srv/share".into(),
            naming: SnapshotNaming::Names(
                formats.iter().map(|f| NameFormat::new(f).unwrap()).collect(),
            ),
            inside: PathBuf::new(),
            follows_links: true,
        }
    }

    fn seconds(snapshots: &LocalSnapshots) -> Vec<i128> {
        snapshots.list().unwrap().iter().map(|t| t.0 / 1_000_000_000).collect()
    }

    fn has(vfs: &Arc<dyn Vfs>, name: &str) -> bool {
        let how = OpenHow {
            read: true,
            write: false,
            case: Case::Sensitive,
            wanted: AttributeRequest::default(),
            no_follow: false,
            wait: Wait::Allowed,
        };
        let path: RelPath = [vfs::Name::new(name.as_bytes()).unwrap()].into_iter().collect();
        vfs.open(Actor::SUPERUSER, &path, how).is_ok()
    }

    #[test]
    fn snapshots_list_newest_first_and_open_by_time() {
        let folder = tempfile::tempdir().unwrap();
        for (name, file) in [("auto-2001-09-09_01-46", "a"), ("1000000100", "b"), ("other", "c")] {
            fs::create_dir_all(folder.path().join(name).join("in")).unwrap();
            fs::write(folder.path().join(name).join("in").join(file), "").unwrap();
        }
        let formats = ["auto-%Y-%m-%d_%H-%M", "%s"];
        let place = SnapshotPlace { inside: "in".into(), ..place(folder.path(), &formats) };
        let snapshots = LocalSnapshots::new(place);
        assert_eq!(seconds(&snapshots), [1_000_000_100, 999_999_960]);
        let open = |seconds: i128| snapshots.open(Timestamp(seconds * 1_000_000_000));
        assert!(has(&open(999_999_960).unwrap(), "a"));
        assert!(has(&open(1_000_000_100).unwrap(), "b"));
        assert!(matches!(open(1), Err(FsError::NotFound)));
        // A newer snapshot is found without listing first.
        fs::create_dir_all(folder.path().join("1000000200/in")).unwrap();
        assert!(open(1_000_000_200).is_ok());
        fs::remove_dir_all(folder.path().join("1000000200")).unwrap();
        assert!(matches!(open(1_000_000_200), Err(FsError::NotFound)));
    }

    #[test]
    fn link_never_leads_out_of_the_snapshot_directory() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join("1000000000")).unwrap();
        fs::create_dir(folder.path().join("1000000001")).unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join("1000000001/in")).unwrap();
        for inside in ["", "in"] {
            let place = SnapshotPlace { inside: inside.into(), ..place(folder.path(), &["%s"]) };
            let snapshots = LocalSnapshots::new(place);
            let open = |seconds: i128| snapshots.open(Timestamp(seconds * 1_000_000_000));
            assert!(matches!(open(1_000_000_000), Err(FsError::NotFound)));
            assert_eq!(open(1_000_000_001).is_ok(), inside.is_empty());
        }
    }

    #[test]
    fn share_link_to_the_snapshot_directory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (share, kept) = (folder.path().join("share"), folder.path().join("kept"));
        fs::create_dir_all(share.join("honest/1000000000")).unwrap();
        fs::create_dir_all(kept.join("below/1000000000")).unwrap();
        std::os::unix::fs::symlink(&kept, share.join("link")).unwrap();
        std::os::unix::fs::symlink(&share, folder.path().join("other name")).unwrap();
        for (root, directory, is_there) in [
            ("share", "share/honest", true),
            ("other name", "other name/honest", true),
            ("share", "share/../kept/below", true),
            ("other", "share/link/below", true),
            ("share", "share/link/below", false),
            ("share", "share/link", false),
        ] {
            let at = |path| folder.path().join(path);
            let place = SnapshotPlace { root: at(root), ..place(&at(directory), &["%s"]) };
            let snapshots = LocalSnapshots::new(place);
            assert_eq!(snapshots.list().is_ok(), is_there, "{directory} of {root}");
            let opened = snapshots.open(Timestamp(1_000_000_000_000_000_000));
            assert_eq!(opened.is_ok(), is_there, "{directory} of {root}");
        }
    }

    #[test]
    fn snapper_metadata_gives_snapshot_times() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("7/snapshot")).unwrap();
        let text = "<snapshot>\n <num>7</num>\n <date>2001-09-09 01:46:40</date>\n</snapshot>";
        fs::write(folder.path().join("7/info.xml"), text).unwrap();
        fs::write(folder.path().join("7/snapshot/file"), "").unwrap();
        fs::create_dir_all(folder.path().join("8/snapshot")).unwrap();
        let place = SnapshotPlace { naming: SnapshotNaming::Snapper, ..place(folder.path(), &[]) };
        let snapshots = LocalSnapshots::new(place);
        assert_eq!(seconds(&snapshots), [1_000_000_000]);
        let open = snapshots.open(Timestamp(1_000_000_000_000_000_000)).unwrap();
        assert!(has(&open, "file"));
    }

    #[test]
    fn excess_snapshots_keep_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        for n in 0..SNAPSHOTS_MAX + 10 {
            fs::create_dir(folder.path().join((1_000_000 + n).to_string())).unwrap();
        }
        let snapshots = LocalSnapshots::new(place(folder.path(), &["%s"]));
        let listed = seconds(&snapshots);
        assert_eq!(listed.len(), SNAPSHOTS_MAX);
        assert_eq!(listed[0], 1_000_000 + SNAPSHOTS_MAX as i128 + 9);
    }
}
