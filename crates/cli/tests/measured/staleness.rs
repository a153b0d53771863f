//! A local process, two SMB sessions and an NFS client change one tree at the same time, each
//! with its own names in common directories. After each change the actor reads it back
//! through the other clients, and each reply must be current. SEMANTICS.md, "Answers
//! are current".
//!
//! `ANABRANCH_STEPS` is how many changes each of the four makes, `ANABRANCH_SEED` where
//! randomness begins.

use crate::support::MeasuringTurn;
use crate::support::Setup;
use crate::support::library;
use client::nfs::{
    Disposition, NfsClient, NfsDirectoryEntry, NfsExport, NfsOptions, NfsSetAttributes, NfsTarget,
};
use client::{Error, SmbOpenHow, SmbTree};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use wire::fscc::{FILE_CREATE, FILE_OPEN, FileTime};
use wire::nfs::{NfsStatus, NfsTime};

/// Changes of each actor, and the time limit of all changes.
const STEPS: u64 = 150;
const SECONDS_MAX: u64 = 50;
const DIRECTORIES: [&str; 3] = ["one", "two", "One more"];
const NAMES: u64 = 12;
const SHARE: &str = "exported";
const HIDDEN: u32 = 2;
const WRITE_ATTRIBUTES: u32 = 0x100;
/// Consecutive listings: the second fills the cache, the third is served from it.
const LISTINGS: usize = 3;

/// Expected attributes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ExpectedAttributes {
    size_bytes: u64,
    is_hidden: bool,
    /// Time of the last write, if an actor has set it.
    written: Option<u64>,
}

impl ExpectedAttributes {
    /// The reported attributes, reduced to the ones that this file's actor has set.
    fn with_reported(self, reported: ReportedFile) -> Self {
        let written = self.written.map(|_| reported.written);
        let is_hidden = reported.is_hidden.unwrap_or(self.is_hidden);
        Self { size_bytes: reported.size_bytes, is_hidden, written }
    }
}

/// Attributes of a file, as a server reports them.
#[derive(Clone, Copy, Debug)]
struct ReportedFile {
    size_bytes: u64,
    /// The hidden attribute; none over NFS.
    is_hidden: Option<bool>,
    written: u64,
}

impl ReportedFile {
    fn over_smb(size_bytes: u64, attributes: u32, written: FileTime) -> Self {
        Self { size_bytes, is_hidden: Some(attributes & HIDDEN != 0), written: written.0 }
    }

    fn over_nfs(entry: &NfsDirectoryEntry) -> Self {
        let [_, NfsTime { seconds, nanoseconds }] = entry.times;
        let seconds = u64::try_from(seconds).unwrap() + SECONDS_1601_TO_1970;
        let written = seconds * 10_000_000 + u64::from(nanoseconds / 100);
        Self { size_bytes: entry.size_bytes, is_hidden: None, written }
    }
}

/// Seconds from the epoch of FILETIME, 1601, to that of Unix, 1970.
const SECONDS_1601_TO_1970: u64 = 11_644_473_600;

/// Key: directory and name.
type ExpectedFiles = BTreeMap<(&'static str, String), ExpectedAttributes>;

/// Path of an actor's changes.
enum ChangePath {
    Local(PathBuf),
    Session(SmbTree),
    Export(NfsExport),
}

/// Client that reads a change back.
#[derive(Clone)]
enum ReadingClient {
    Session(SmbTree),
    Export(NfsExport),
}

impl ReadingClient {
    /// The reported attributes of a path; none if it does not exist.
    async fn stat(&self, path: &str) -> Option<ReportedFile> {
        let reported = match self {
            Self::Session(tree) => {
                let reported = tree.stat(path).await;
                reported.map(|found| {
                    ReportedFile::over_smb(found.size_bytes, found.attributes, found.times[2])
                })
            }
            Self::Export(export) => {
                export.stat(path).await.map(|entry| ReportedFile::over_nfs(&entry))
            }
        };
        match reported {
            Ok(reported) => Some(reported),
            Err(Error::Refused(_, status)) if is_missing(status) => None,
            Err(Error::RefusedOperation(_, NfsStatus::NOENT)) => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    async fn list(&self, directory: &str) -> Vec<(String, ReportedFile)> {
        match self {
            Self::Session(tree) => {
                let listed = tree.list(directory).await.unwrap().into_iter();
                let reported = listed.map(|entry| {
                    let of = &entry.record;
                    (entry.name, ReportedFile::over_smb(of.size_bytes, of.attributes, of.times[2]))
                });
                reported.collect()
            }
            Self::Export(export) => {
                let listed = export.list(directory).await.unwrap();
                listed
                    .iter()
                    .map(|entry| (entry.name_text(), ReportedFile::over_nfs(entry)))
                    .collect()
            }
        }
    }
}

/// One client that changes the tree and checks it through the others.
struct ChangingClient {
    name: &'static str,
    way: ChangePath,
    asked: Vec<ReadingClient>,
    files: ExpectedFiles,
    random: u64,
}

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

impl ChangingClient {
    fn below(&mut self, count: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 31)) % count
    }

    /// Chooses a directory and a name, which may exist or not.
    fn place(&mut self) -> (&'static str, String) {
        let directory = DIRECTORIES[self.below(3) as usize];
        let number = self.below(NAMES);
        (directory, format!("{} Näme {number}", self.name))
    }

    /// Makes one change, and notes it in the expected state.
    async fn change(&mut self) {
        let at = self.place();
        let path = path_of(&at);
        let Some(known) = self.files.get(&at).copied() else {
            let size_bytes = self.below(5000);
            self.way.write(&path, size_bytes, true).await;
            self.files
                .insert(at, ExpectedAttributes { size_bytes, is_hidden: false, written: None });
            return;
        };
        match self.below(6) {
            0 => {
                self.way.remove(&path).await;
                self.files.remove(&at);
            }
            1 => {
                let size_bytes = known.size_bytes + 1 + self.below(100);
                self.way.write(&path, size_bytes, false).await;
                self.files.insert(at, ExpectedAttributes { size_bytes, written: None, ..known });
            }
            3 => {
                let size_bytes = known.size_bytes / 2;
                self.way.write(&path, size_bytes, false).await;
                self.files.insert(at, ExpectedAttributes { size_bytes, written: None, ..known });
            }
            4 => {
                let seconds = 1_500_000_000 + self.below(100_000_000);
                self.way.set_written(&path, seconds).await;
                let written = Some((seconds + SECONDS_1601_TO_1970) * 10_000_000);
                self.files.insert(at, ExpectedAttributes { written, ..known });
            }
            2 if !matches!(self.way, ChangePath::Export(_)) => {
                let is_hidden = !known.is_hidden;
                self.way.hide(&path, is_hidden).await;
                self.files.insert(at, ExpectedAttributes { is_hidden, ..known });
            }
            _ => {
                let to = self.place();
                if !self.files.contains_key(&to) {
                    self.way.rename(&path, &path_of(&to)).await;
                    self.files.remove(&at);
                    self.files.insert(to, known);
                }
            }
        }
    }

    /// Reads a name in its own and in another case, and a directory, through another client.
    async fn check(&mut self) {
        let number = self.below(self.asked.len() as u64) as usize;
        let asked = self.asked[number].clone();
        let at = self.place();
        let expected = self.files.get(&at).copied();
        let known = expected.unwrap_or_default();
        let path = path_of(&at);
        let other = path.to_uppercase();
        let found = asked.stat(&path).await.map(|reported| known.with_reported(reported));
        assert_eq!(found, expected, "{} asked for {path}", self.name);
        // NFS is case-sensitive.
        let expected = expected.filter(|_| matches!(asked, ReadingClient::Session(_)));
        let found = asked.stat(&other).await.map(|reported| known.with_reported(reported));
        assert_eq!(found, expected, "{} asked for {other}", self.name);
        if self.below(4) == 0 {
            self.check_listing(&asked, at.0).await;
        }
    }

    /// Other actors change the directory meanwhile, so only this actor's names count.
    async fn check_listing(&self, asked: &ReadingClient, directory: &'static str) {
        for round in 0..LISTINGS {
            let listed = asked.list(directory).await.into_iter();
            let own =
                listed.filter(|(name, _)| name.starts_with(self.name)).map(|(name, reported)| {
                    let at = (directory, name);
                    let known = self.files.get(&at).copied().unwrap_or_default();
                    (at, known.with_reported(reported))
                });
            let expected = self.files.iter().filter(|(at, _)| at.0 == directory);
            let expected: ExpectedFiles =
                expected.map(|(at, known)| (at.clone(), *known)).collect();
            assert_eq!(
                own.collect::<ExpectedFiles>(),
                expected,
                "{} listed {directory}, {round}",
                self.name
            );
        }
    }

    async fn run(mut self, steps: u64) {
        for _ in 0..steps {
            self.change().await;
            for _ in 0..3 {
                self.check().await;
            }
        }
        for directory in DIRECTORIES {
            for asked in self.asked.clone() {
                self.check_listing(&asked, directory).await;
            }
        }
    }
}

fn path_of((directory, name): &(&'static str, String)) -> String {
    format!("{directory}/{name}")
}

fn is_missing(status: wire::ntstatus::NtStatus) -> bool {
    status == wire::ntstatus::NtStatus::OBJECT_NAME_NOT_FOUND
}

impl ChangePath {
    /// Creates a file of this length, or extends it.
    async fn write(&self, path: &str, size_bytes: u64, is_new: bool) {
        match self {
            Self::Local(root) => {
                let mut how = std::fs::OpenOptions::new();
                let file = how.write(true).create_new(is_new).open(root.join(path)).unwrap();
                file.set_len(size_bytes).unwrap();
            }
            Self::Session(tree) => {
                let disposition = if is_new { FILE_CREATE } else { FILE_OPEN };
                let how = SmbOpenHow { disposition, ..SmbOpenHow::read_write() };
                let file = tree.open(path, &how).await.unwrap();
                file.set_size(size_bytes).await.unwrap();
                file.close().await.unwrap();
            }
            Self::Export(export) => {
                let disposition = if is_new { Disposition::Create } else { Disposition::Open };
                let file = export.open_file(path, disposition).await.unwrap();
                export.set_size(&file, size_bytes).await.unwrap();
                export.close(file).await.unwrap();
            }
        }
    }

    async fn remove(&self, path: &str) {
        match self {
            Self::Local(root) => std::fs::remove_file(root.join(path)).unwrap(),
            Self::Session(tree) => tree.remove(path).await.unwrap(),
            Self::Export(export) => export.remove(path).await.unwrap(),
        }
    }

    async fn rename(&self, from: &str, to: &str) {
        match self {
            Self::Local(root) => std::fs::rename(root.join(from), root.join(to)).unwrap(),
            Self::Session(tree) => tree.rename(from, to, false).await.unwrap(),
            Self::Export(export) => export.rename(from, to).await.unwrap(),
        }
    }

    async fn set_written(&self, path: &str, seconds: u64) {
        match self {
            Self::Local(root) => {
                let file = std::fs::File::options().write(true).open(root.join(path)).unwrap();
                file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
            }
            Self::Session(tree) => {
                let time = (seconds + SECONDS_1601_TO_1970) * 10_000_000;
                let mut basic = [0; 40];
                basic[16..24].copy_from_slice(&time.to_le_bytes());
                set_basic(tree, path, &basic).await;
            }
            Self::Export(export) => {
                let seconds = i64::try_from(seconds).unwrap();
                let modified = Some(NfsTime { seconds, nanoseconds: 0 });
                let file = export.open_file(path, Disposition::Open).await.unwrap();
                export
                    .set_facts(&file, &NfsSetAttributes { modified, ..NfsSetAttributes::default() })
                    .await
                    .unwrap();
                export.close(file).await.unwrap();
            }
        }
    }

    async fn hide(&self, path: &str, is_hidden: bool) {
        let attributes = 0x20 | if is_hidden { HIDDEN } else { 0 };
        match self {
            // The format of the oldest Samba versions.
            Self::Local(root) => {
                let value = format!("{attributes:#x}\0");
                let flags = rustix::fs::XattrFlags::empty();
                let path = root.join(path);
                rustix::fs::setxattr(path, "user.DOSATTRIB", value.as_bytes(), flags).unwrap();
            }
            Self::Session(tree) => {
                let mut basic = [0; 40];
                basic[32..36].copy_from_slice(&attributes.to_le_bytes());
                set_basic(tree, path, &basic).await;
            }
            Self::Export(_) => unreachable!("it has no such attribute"),
        }
    }
}

/// Sets attributes and times; zeros leave them.
async fn set_basic(tree: &SmbTree, path: &str, basic: &[u8]) {
    let access = SmbOpenHow::stat().access | WRITE_ATTRIBUTES;
    let how = SmbOpenHow { access, ..SmbOpenHow::stat() };
    let file = tree.open(path, &how).await.unwrap();
    file.set_info(4, basic).await.unwrap();
    file.close().await.unwrap();
}

/// An NFS client on a machine of its own.
async fn export(address: SocketAddr, machine: u8) -> NfsExport {
    let target =
        NfsTarget { name: "server".into(), address, uid: 0, gid: 0, instance: [machine; 8] };
    let client = NfsClient::connect(target, NfsOptions::default()).await.unwrap();
    NfsExport::open(client, SHARE).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn metadata_replies_reflect_the_last_change_by_any_writer() {
    let _turn = MeasuringTurn::wait();
    let (steps, seed) =
        (from_environment("ANABRANCH_STEPS", STEPS), from_environment("ANABRANCH_SEED", 1));
    let mut setup = Setup::new();
    let (address, root) = setup.export(92, 24460);
    let server = setup.start();
    DIRECTORIES.iter().for_each(|directory| std::fs::create_dir_all(root.join(directory)).unwrap());
    let trees = [library::share(&server, SHARE).await, library::share(&server, SHARE).await];
    let exports = [export(address, 1).await, export(address, 2).await];
    let mut asked: Vec<ReadingClient> = trees.iter().cloned().map(ReadingClient::Session).collect();
    asked.extend(exports.iter().cloned().map(ReadingClient::Export));
    let [first, second] = trees;
    let [exported, _] = exports;
    let ways = [
        ("local", ChangePath::Local(root)),
        ("first", ChangePath::Session(first)),
        ("second", ChangePath::Session(second)),
        ("over NFS", ChangePath::Export(exported)),
    ];
    let actors = ways.into_iter().enumerate().map(|(at, (name, way))| {
        let random = seed.wrapping_mul(4).wrapping_add(at as u64) << 20;
        let actor =
            ChangingClient { name, way, asked: asked.clone(), files: ExpectedFiles::new(), random };
        tokio::spawn(actor.run(steps))
    });
    let actors: Vec<_> = actors.collect();
    let seconds = SECONDS_MAX * (1 + steps / STEPS);
    for actor in actors {
        let ended = tokio::time::timeout(Duration::from_secs(seconds), actor).await;
        ended.expect("it takes too long").unwrap();
    }
}
