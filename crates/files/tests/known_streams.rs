//! Streams of a repeatedly opened file are served from the cache while its change time stays, and
//! read again otherwise.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test, which fails by it")]

use files::{
    Access, Caller, Files, Inline, OpenPlan, RequestFiles, Semantics, ShareMode, Volume,
    VolumeOptions,
};
use futures_util::FutureExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs::{Identity, Name, RelPath, Timestamp};
use vfs_cache::{CacheOptions, CachedVfs, Clock};
use vfs_local::LocalVfs;

/// Longer than the time after which a file counts as settled.
const SETTLED: Duration = Duration::from_millis(80);

struct StreamShare {
    files: RequestFiles,
    volume: Arc<Volume>,
    cache: Arc<CachedVfs>,
    caller: Arc<Caller>,
}

fn serve(folder: &Path) -> StreamShare {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let clock = Clock(Arc::new(move || Timestamp(now() as i128)));
    let local = Arc::new(LocalVfs::open(folder).unwrap());
    let cache = Arc::new(CachedVfs::new(local, CacheOptions::default(), clock));
    let volume = Arc::new(Volume::cached(cache.clone(), VolumeOptions::default()));
    let caller = Arc::new(Caller::of(Identity::root()));
    StreamShare {
        files: Arc::new(Files::new(Arc::new(Inline))).for_server(),
        volume,
        cache,
        caller,
    }
}

impl StreamShare {
    /// Names and sizes of the streams, through an open for attributes.
    fn streams(&self) -> Vec<(String, u64)> {
        let path = ["d", "file"].map(|part| Name::new(part.as_bytes()).unwrap());
        let plan = OpenPlan {
            path: RelPath::from_iter(path),
            semantics: Semantics::Windows,
            ..OpenPlan::posix(Access::READ_ATTRIBUTES, ShareMode::ALL)
        };
        let opened = self.files.open(&self.volume, &self.caller, plan).now_or_never().unwrap();
        let open = opened.unwrap().open;
        let (attributes, streams) = self.files.attributes_and_streams(&open).unwrap();
        assert_eq!(attributes.size_bytes, 7);
        self.files.close(open).now_or_never().unwrap().unwrap();
        let shown = |entry: &vfs::StreamEntry| {
            (String::from_utf8_lossy(entry.name.as_bytes()).into_owned(), entry.size_bytes)
        };
        streams.iter().map(shown).collect()
    }

    /// Number of lists served from the cache, and read from the backend.
    fn counts(&self) -> (u64, u64) {
        let counts = self.cache.counts();
        let (_, count) = counts.iter().find(|(kind, _)| *kind == "streams").unwrap();
        (count.hits, count.misses)
    }
}

fn set(at: &Path, stream: &str, value: &[u8]) {
    let name = format!("user.DosStream.{stream}:$DATA");
    // Samba stores a terminating zero byte.
    let value = [value, b"\0"].concat();
    rustix::fs::setxattr(at, name.as_str(), &value, rustix::fs::XattrFlags::empty()).unwrap();
}

#[test]
fn streams_are_listed_from_cache_until_file_changes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("d")).unwrap();
    let at = folder.path().join("d/file");
    std::fs::write(&at, b"content").unwrap();
    set(&at, "first", b"one");
    let served = serve(folder.path());
    let first = vec![("first".to_owned(), 3)];
    for _ in 0..3 {
        std::thread::sleep(SETTLED);
        assert_eq!(served.streams(), first);
    }
    let (hits, misses) = served.counts();
    for _ in 0..5 {
        assert_eq!(served.streams(), first);
    }
    assert_eq!(served.counts(), (hits + 5, misses), "they are known");
    set(&at, "first", b"longer");
    assert_eq!(served.streams(), [("first".to_owned(), 6)]);
    std::thread::sleep(SETTLED);
    set(&at, "second", b"");
    let mut both = served.streams();
    both.sort();
    assert_eq!(both, [("first".to_owned(), 6), ("second".to_owned(), 0)]);
    rustix::fs::removexattr(&at, "user.DosStream.first:$DATA").unwrap();
    assert_eq!(served.streams(), [("second".to_owned(), 0)]);
}
