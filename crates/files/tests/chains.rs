//! Backend calls of a request chain: the open resolves the path once, and later requests reuse its
//! results.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test, which fails by it")]

use files::{
    Access, BasicChange, Caller, Files, IfExists, IfMissing, Inline, OpenFile, OpenPlan,
    RequestFiles, RequestedKind, Semantics, ShareMode, Volume, VolumeOptions,
};
use futures_util::FutureExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use vfs::memory::{CallOutcome, MemoryCall, MemoryOptions, MemoryVfs, Surroundings};
use vfs::{Identity, Name, RelPath, Timestamp, Vfs};
use vfs_cache::{CacheOptions, CachedVfs, Clock};

/// Counts calls by their kind.
#[derive(Default)]
struct CallCounts(Mutex<BTreeMap<&'static str, usize>>);

impl Surroundings for CallCounts {
    fn now(&self) -> Timestamp {
        Timestamp(1_750_000_000_000_000_000)
    }

    fn before(&self, call: MemoryCall) -> CallOutcome {
        let kind = match call {
            MemoryCall::Open(_) => "open",
            MemoryCall::Create => "create",
            MemoryCall::Attributes => "attributes",
            MemoryCall::SetAttributes => "set attributes",
            MemoryCall::Read(_) => "read",
            MemoryCall::Write { .. } => "write",
            MemoryCall::Xattr => "descriptor",
            _ => "other",
        };
        *self.0.lock().unwrap().entry(kind).or_default() += 1;
        CallOutcome::Runs
    }
}

struct CountedShare {
    counting: Arc<CallCounts>,
    files: RequestFiles,
    volume: Arc<Volume>,
    caller: Arc<Caller>,
}

fn serve(is_cached: bool) -> CountedShare {
    let counting = Arc::<CallCounts>::default();
    let memory = MemoryVfs::new(MemoryOptions::default(), counting.clone());
    let vfs: Arc<dyn Vfs> = Arc::new(memory);
    let volume = Arc::new(if is_cached {
        // A second later, so that changes count as settled.
        let clock = Clock(Arc::new(|| Timestamp(1_750_000_001_000_000_000)));
        let cache = CachedVfs::new(vfs, CacheOptions::default(), clock);
        Volume::cached(Arc::new(cache), VolumeOptions::default())
    } else {
        Volume::new(vfs, VolumeOptions::default())
    });
    let caller = Arc::new(Caller::of(Identity::root()));
    CountedShare {
        counting,
        files: Arc::new(Files::new(Arc::new(Inline))).for_server(),
        volume,
        caller,
    }
}

fn plan(at: &str, desired: Access, makes: bool) -> OpenPlan {
    let path: RelPath = at.split('/').map(|part| Name::new(part.as_bytes()).unwrap()).collect();
    OpenPlan {
        path,
        if_exists: if makes { IfExists::Fail } else { IfExists::Open },
        if_missing: if makes { IfMissing::Create } else { IfMissing::Fail },
        kind: RequestedKind::File,
        semantics: Semantics::Windows,
        ..OpenPlan::posix(desired, ShareMode::ALL)
    }
}

impl CountedShare {
    fn open(&self, plan: OpenPlan) -> Arc<OpenFile> {
        let opened = self.files.open(&self.volume, &self.caller, plan).now_or_never();
        opened.expect("nothing is waited for").unwrap().open
    }

    /// Opens, runs an operation and closes; returns the calls of each kind.
    fn chain(
        &self,
        plan: OpenPlan,
        run: impl FnOnce(&RequestFiles, &Arc<OpenFile>),
    ) -> Vec<(&'static str, usize)> {
        self.counting.0.lock().unwrap().clear();
        let open = self.open(plan);
        run(&self.files, &open);
        self.files.close(open).now_or_never().expect("nothing is waited for").unwrap();
        self.counting.0.lock().unwrap().clone().into_iter().collect()
    }
}

#[test]
fn chain_resolves_path_once() {
    let served = serve(false);
    let all = Access::FILE_ALL;
    served.chain(plan("file", all, true), |files, open| {
        files.write(open.caller(), open, 0, b"content").unwrap();
    });
    let queried = served.chain(plan("file", Access::READ_ATTRIBUTES, false), |files, open| {
        assert_eq!(files.attributes(open).unwrap().size_bytes, 7);
    });
    assert_eq!(queried, QUERY);
    let read = served.chain(plan("file", Access::FILE_READ, false), |files, open| {
        let mut data = Vec::new();
        files.read(open, 0, 100, &mut data).now_or_never().unwrap().unwrap();
        assert_eq!(data, b"content");
    });
    assert_eq!(read, READ);
    let written = served.chain(plan("file", Access::FILE_WRITE, false), |files, open| {
        files.write(open.caller(), open, 0, b"other").unwrap();
    });
    assert_eq!(written, WRITE);
    let set = served.chain(plan("file", Access::WRITE_ATTRIBUTES, false), |files, open| {
        let change = BasicChange { dos_bits: Some(2), ..BasicChange::default() };
        files.set_attributes(open, &change).unwrap();
    });
    assert_eq!(set, SET);
    let made = served.chain(plan("new", all, true), |files, open| {
        files.write(open.caller(), open, 0, b"content").unwrap();
    });
    assert_eq!(made, MAKE);
}

/// One open each, with attributes: without a stored descriptor they determine the user's rights.
const QUERY: [(&str, usize); 2] = [("attributes", 1), ("open", 1)];
const READ: [(&str, usize); 2] = [("open", 1), ("read", 1)];
/// A read, even of no data, makes the kernel update the access time.
const WRITE: [(&str, usize); 3] = [("open", 1), ("read", 1), ("write", 1)];
/// Attributes are set as the file's current owner.
const SET: [(&str, usize); 3] = [("attributes", 1), ("open", 1), ("set attributes", 1)];
/// A create looks its name up, and reads the directory for inheritance.
const MAKE: [(&str, usize); 5] =
    [("create", 1), ("descriptor", 1), ("open", 2), ("read", 1), ("write", 1)];

#[test]
fn chain_on_cached_path_resolves_nothing() {
    let served = serve(true);
    let all = Access::FILE_ALL;
    served.chain(plan("file", all, true), |_, _| {});
    for _ in 0..3 {
        served.chain(plan("file", Access::FILE_READ, false), |_, _| {});
        served.chain(plan("file", Access::READ_ATTRIBUTES, false), |_, _| {});
    }
    let queried = served.chain(plan("file", Access::READ_ATTRIBUTES, false), |files, open| {
        assert_eq!(files.attributes(open).unwrap().size_bytes, 0);
    });
    assert_eq!(queried, KNOWN_QUERY);
    let read = served.chain(plan("file", Access::FILE_READ, false), |files, open| {
        let mut data = Vec::new();
        files.read(open, 0, 100, &mut data).now_or_never().unwrap().unwrap();
    });
    assert_eq!(read, KNOWN_READ);
    let set = served.chain(plan("file", Access::WRITE_ATTRIBUTES, false), |files, open| {
        let change = BasicChange { dos_bits: Some(2), ..BasicChange::default() };
        files.set_attributes(open, &change).unwrap();
    });
    assert_eq!(set, KNOWN_SET);
    let written = served.chain(plan("other", all, true), |files, open| {
        files.write(open.caller(), open, 0, b"content").unwrap();
    });
    assert_eq!(written, KNOWN_MAKE);
}

/// A revalidation, and the requested call.
const KNOWN_QUERY: [(&str, usize); 1] = [("attributes", 2)];
const KNOWN_READ: [(&str, usize); 2] = [("attributes", 1), ("read", 1)];
const KNOWN_SET: [(&str, usize); 2] = [("attributes", 2), ("set attributes", 1)];
const KNOWN_MAKE: [(&str, usize); 3] = [("create", 1), ("read", 1), ("write", 1)];
