//! Clients by path (Windows) beside clients by handle with delegations: random operations on a few
//! names against a short reference model, on both backends.

use crate::harness::*;
use files::{
    Access, CacheBreak, CacheHolder, CacheKeyWish, CacheWish, CachingRights, Caller, Delegation,
    DelegationKind, Files, IfExists, IfMissing, Object, ObjectOpen, OpenAt, OpenFile, OpenPlan,
    OpenProgress, RequestFiles, ShareMode, Volume, VolumeId, VolumeOptions, delegation_key,
};
use futures_util::FutureExt;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
use vfs::{FsError, Identity, Result};

const NAMES: [&str; 3] = ["a", "b", "c"];
const V: VolumeId = VolumeId(1);

/// Acting client: Windows, or one of two NFS clients.
type ClientRole = Option<u8>;

#[derive(Clone, Debug)]
enum ObjectStep {
    Create { who: ClientRole, name: usize, access: u32, share: u32 },
    Open { who: ClientRole, name: usize, access: u32, share: u32 },
    OpenOld { client: u8, file: usize, access: u32, share: u32 },
    Close(usize),
    Put(usize, u8),
    Doom(usize),
    Remove(usize),
    Rename(usize, usize),
    DelegationKind(usize, bool),
    Return(usize),
}

fn steps() -> impl Strategy<Value = Vec<ObjectStep>> {
    let who = || prop::option::of(0..2u8);
    let name = || 0..NAMES.len();
    // Mostly shared, so that files have several opens.
    let share = || prop_oneof![4 => Just(7u32), 1 => 0..8u32];
    let access = || 0..4u32;
    let step = prop_oneof![
        4 => (who(), name(), access(), share())
            .prop_map(|(who, name, access, share)| ObjectStep::Create { who, name, access, share }),
        6 => (who(), name(), 0..8u32, share())
            .prop_map(|(who, name, access, share)| ObjectStep::Open { who, name, access, share }),
        2 => (0..2u8, any::<usize>(), access(), share())
            .prop_map(|(client, file, access, share)| ObjectStep::OpenOld { client, file, access, share }),
        5 => any::<usize>().prop_map(ObjectStep::Close),
        2 => (any::<usize>(), any::<u8>()).prop_map(|(open, byte)| ObjectStep::Put(open, byte)),
        1 => any::<usize>().prop_map(ObjectStep::Doom),
        3 => name().prop_map(ObjectStep::Remove),
        3 => (name(), name()).prop_map(|(from, to)| ObjectStep::Rename(from, to)),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(open, writes)| ObjectStep::DelegationKind(open, writes)),
        3 => any::<usize>().prop_map(ObjectStep::Return),
    ];
    prop::collection::vec(step, 1..70)
}

#[derive(Debug)]
struct RecallClient;

impl CacheHolder for RecallClient {
    fn handle_break(&self, cache_break: &CacheBreak) {
        assert_eq!(
            (cache_break.to, cache_break.acknowledge),
            (CachingRights::NONE, true),
            "a recall"
        );
    }
}

/// The served files with their state in the reference.
struct ObjectWorld {
    files: RequestFiles,
    volume: Arc<Volume>,
    alice: Arc<Caller>,
    holder: Arc<RecallClient>,
    names: BTreeMap<usize, usize>,
    known: Vec<ObjectFile>,
    opens: Vec<ObjectModelOpen>,
    delegations: Vec<(usize, u8, bool, Delegation)>,
    /// Whether a handle finds an unlinked file while it is open.
    finds_nameless: bool,
}

struct ObjectFile {
    handle: Vec<u8>,
    is_delete_pending: bool,
    byte: Option<u8>,
}

struct ObjectModelOpen {
    real: Arc<OpenFile>,
    who: ClientRole,
    file: usize,
    access: u32,
    share: u32,
}

/// Outcome that the reference expects without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedOutcome {
    Now,
    Waits,
}

const READS: u32 = 1;
const WRITES: u32 = 2;
const DELETES: u32 = 4;

fn rights(access: u32) -> Access {
    let parts =
        [(READS, Access::READ_DATA), (WRITES, Access::WRITE_DATA), (DELETES, Access::DELETE)];
    let of = |(bit, right)| if access & bit != 0 { right } else { Access::NONE };
    parts.into_iter().map(of).fold(Access::READ_ATTRIBUTES, |all, right| all | right)
}

impl ObjectWorld {
    fn new(volume: Arc<Volume>, alice: Arc<Caller>, finds_nameless: bool) -> Self {
        Self {
            files: Arc::new(Files::new(Arc::new(Inline))).for_server(),
            volume,
            alice,
            holder: Arc::new(RecallClient),
            names: BTreeMap::new(),
            known: Vec::new(),
            opens: Vec::new(),
            delegations: Vec::new(),
            finds_nameless,
        }
    }

    fn root(&self) -> Object {
        now(self.files.root_object(&self.volume)).unwrap()
    }

    fn find(&self, file: usize) -> Result<Object> {
        let handle = self.files.parse_handle(&self.known[file].handle).unwrap();
        now(self.files.find_object(&self.volume, &handle))
    }

    /// Whether the operation conflicts with another client's delegation.
    fn disturbs(&self, who: ClientRole, file: usize, access: u32, share: u32) -> bool {
        let intrudes = access & (WRITES | DELETES) != 0 || share & READS == 0;
        self.delegations.iter().any(|(of, client, writes, _)| {
            *of == file && Some(*client) != who && access != 0 && (intrudes || *writes)
        })
    }

    fn conflicts(&self, file: usize, access: u32, share: u32) -> bool {
        self.opens.iter().any(|open| {
            let clash = access & !open.share != 0 || open.access & !share != 0;
            open.file == file && access != 0 && open.access != 0 && clash
        })
    }

    /// Expected outcome of opening an existing file.
    fn may_open(
        &self,
        who: ClientRole,
        file: usize,
        access: u32,
        share: u32,
    ) -> Result<ExpectedOutcome> {
        match () {
            () if self.known[file].is_delete_pending => Err(FsError::DeletePending),
            () if self.disturbs(who, file, access, share) => Ok(ExpectedOutcome::Waits),
            () if self.conflicts(file, access, share) => Err(FsError::ShareViolation),
            () => Ok(ExpectedOutcome::Now),
        }
    }

    fn begin(&self, who: ClientRole, at: &OpenAt, plan: OpenPlan) -> Result<OpenProgress> {
        if who.is_none() {
            let OpenAt::Name(_, name) = at else { unreachable!() };
            let path = [name.clone()].into_iter().collect();
            let semantics = files::Semantics::Windows;
            let plan = OpenPlan { path, semantics, ..plan };
            return now(self.files.begin_open(&self.volume, &self.alice, plan));
        }
        now(self.files.begin_open_object(&self.alice, at, plan, ObjectOpen::default()))
    }

    /// An open plan with the client's delegation key, if it is an NFS client and the file exists.
    fn plan(&self, who: ClientRole, file: Option<usize>, access: u32, share: u32) -> OpenPlan {
        let plan = OpenPlan::posix(rights(access), ShareMode(share));
        let (Some(client), Some(file)) = (who, file) else { return plan };
        let Ok(object) = self.find(file) else { return plan };
        let key = delegation_key([client; 16], object.key());
        let key = CacheKeyWish { key, epoch: 0, parent: None, of_directories: false };
        let holder = self.holder.clone();
        let caching = Some(CacheWish { wanted: CachingRights::NONE, key: Some(key), holder });
        OpenPlan { caching, ..plan }
    }

    fn check_opened(
        &mut self,
        begun: Result<OpenProgress>,
        expected: Result<ExpectedOutcome>,
        (who, file, access, share): (ClientRole, usize, u32, u32),
    ) {
        match (begun, expected) {
            (Ok(OpenProgress::Opened(result)), Ok(ExpectedOutcome::Now)) => {
                self.opens.push(ObjectModelOpen { real: result.open, who, file, access, share });
            }
            (Ok(OpenProgress::Waiting(_)), Ok(ExpectedOutcome::Waits)) => {}
            (Err(error), Err(expected)) => assert_eq!(error, expected),
            (begun, expected) => panic!("{begun:?}, not {expected:?}"),
        }
    }

    fn create(&mut self, who: ClientRole, name: usize, access: u32, share: u32) {
        let create = OpenPlan {
            if_exists: IfExists::Fail,
            if_missing: IfMissing::Create,
            ..self.plan(None, None, access, share)
        };
        let at = OpenAt::Name(self.root(), crate::harness::name(NAMES[name]));
        let begun = self.begin(who, &at, create);
        if self.names.contains_key(&name) {
            assert_eq!(begun.map(|_| ()).unwrap_err(), FsError::AlreadyExists);
            return;
        }
        let Ok(OpenProgress::Opened(result)) = begun else { panic!("{begun:?}") };
        let handle = self.files.handle(V, &result.open.object()).unwrap().as_bytes().to_vec();
        let file = self.known.len();
        self.known.push(ObjectFile { handle, is_delete_pending: false, byte: None });
        self.names.insert(name, file);
        // Without a key, the open counts as another client's.
        let who = who.map(|_| u8::MAX);
        self.opens.push(ObjectModelOpen { real: result.open, who, file, access, share });
    }

    fn remove(&mut self, name: usize) {
        let root = self.root();
        let named = crate::harness::name(NAMES[name]);
        let real = self.files.remove_object(&self.alice, &root, &named).now_or_never();
        let Some(&file) = self.names.get(&name) else {
            return assert_eq!(real, Some(Err(FsError::NotFound)));
        };
        match self.may_open(None, file, DELETES, 7) {
            Ok(ExpectedOutcome::Now) => assert_eq!(real, Some(Ok(()))),
            Ok(ExpectedOutcome::Waits) => return assert_eq!(real, None),
            Err(error) => return assert_eq!(real, Some(Err(error))),
        }
        if self.is_open_by_windows(file) {
            self.known[file].is_delete_pending = true;
        } else {
            self.names.remove(&name);
        }
    }

    fn is_open_by_windows(&self, file: usize) -> bool {
        self.opens.iter().any(|open| open.file == file && open.who.is_none())
    }

    fn rename(&mut self, from: usize, to: usize) {
        let root = self.root();
        let (old, new) = (crate::harness::name(NAMES[from]), crate::harness::name(NAMES[to]));
        let rename = self.files.rename_object(&self.alice, (&root, &old), (&root, &new));
        let real = rename.now_or_never();
        let Some(&file) = self.names.get(&from) else {
            return assert_eq!(real, Some(Err(FsError::NotFound)));
        };
        match self.may_open(None, file, DELETES, 7) {
            Ok(ExpectedOutcome::Now) => {}
            Ok(ExpectedOutcome::Waits) => return assert_eq!(real, None),
            Err(error) => return assert_eq!(real, Some(Err(error))),
        }
        if let Some(&target) = self.names.get(&to).filter(|target| **target != file) {
            if self.delegations.iter().any(|(of, ..)| *of == target) {
                return assert_eq!(real, None);
            }
            if self.is_open_by_windows(target) {
                return assert_eq!(real, Some(Err(FsError::AccessDenied)));
            }
        }
        assert_eq!(real, Some(Ok(())));
        self.names.remove(&from);
        self.names.insert(to, file);
    }

    fn close(&mut self, at: usize) {
        let ObjectModelOpen { real, file, .. } = self.opens.remove(at);
        now(self.files.close(real)).unwrap();
        if self.known[file].is_delete_pending && !self.is_open_by_windows(file) {
            self.known[file].is_delete_pending = false;
            self.names.retain(|_, named| *named != file);
        }
    }

    fn delegate(&mut self, at: usize, writes: bool) {
        let ObjectModelOpen { real, who, file, access, .. } = &self.opens[at];
        let (file, Some(client @ 0..2)) = (*file, *who) else { return };
        let needs = if writes { READS | WRITES } else { READS };
        let is_for = *access & needs == needs;
        let delegate = if writes { DelegationKind::Write } else { DelegationKind::Read };
        let real = self.files.grant_delegation(real, delegate).unwrap();
        let others = || self.opens.iter().filter(|o| o.file == file && o.who != Some(client));
        let theirs = || self.delegations.iter().filter(|(of, ..)| *of == file);
        let intrudes = |o: &ObjectModelOpen| {
            let denies = o.access != 0 && o.share & READS == 0;
            o.access & (WRITES | DELETES) != 0 || denies
        };
        let is_free = match writes {
            true => {
                // A client's opens under its key conflict even with attribute access only.
                let minds = |o: &ObjectModelOpen| o.access != 0 || matches!(o.who, Some(0..2));
                !others().any(minds) && theirs().next().is_none()
            }
            false => {
                let alone = theirs().all(|(_, c, theirs, _)| *c != client && !theirs);
                alone && !others().any(intrudes)
            }
        };
        let is_free = is_for && is_free && !self.known[file].is_delete_pending;
        assert_eq!(real.is_some(), is_free, "{delegate:?}");
        if let Some(delegation) = real {
            drop(delegation.granting());
            self.delegations.push((file, client, writes, delegation));
        }
    }

    fn step(&mut self, step: &ObjectStep) {
        let pick = |n: usize, of: usize| (of > 0).then(|| n % of);
        match *step {
            ObjectStep::Create { who, name, access, share } => {
                self.create(who, name, access, share)
            }
            ObjectStep::Open { who, name, access, share } => {
                let at = OpenAt::Name(self.root(), crate::harness::name(NAMES[name]));
                let file = self.names.get(&name).copied();
                let begun = self.begin(who, &at, self.plan(who, file, access, share));
                match file {
                    Some(file) => {
                        let expected = self.may_open(who, file, access, share);
                        self.check_opened(begun, expected, (who, file, access, share));
                    }
                    None => assert_eq!(begun.map(|_| ()).unwrap_err(), FsError::NotFound),
                }
            }
            ObjectStep::OpenOld { client, file, access, share } => {
                let Some(file) = pick(file, self.known.len()) else { return };
                let Ok(object) = self.find(file) else { return };
                let who = Some(client);
                let plan = self.plan(who, Some(file), access, share);
                let begun = self.begin(who, &OpenAt::Object(object), plan);
                let expected = self.may_open(who, file, access, share);
                self.check_opened(begun, expected, (who, file, access, share));
            }
            ObjectStep::Close(n) => {
                if let Some(at) = pick(n, self.opens.len()) {
                    self.close(at);
                }
            }
            ObjectStep::Put(n, byte) => {
                let Some(at) = pick(n, self.opens.len()) else { return };
                let open = &self.opens[at];
                let may = open.access & WRITES != 0;
                assert_eq!(
                    self.files.write(open.real.caller(), &open.real, 0, &[byte]).is_ok(),
                    may
                );
                if may {
                    self.known[open.file].byte = Some(byte);
                }
            }
            ObjectStep::Doom(n) => {
                let Some(at) = pick(n, self.opens.len()) else { return };
                let open = &self.opens[at];
                if open.who.is_none() && open.access & DELETES != 0 {
                    self.files.set_delete(&open.real, true, false).unwrap();
                    self.known[open.file].is_delete_pending = true;
                }
            }
            ObjectStep::Remove(name) => self.remove(name),
            ObjectStep::Rename(from, to) => self.rename(from, to),
            ObjectStep::DelegationKind(n, writes) => {
                if let Some(at) = pick(n, self.opens.len()) {
                    self.delegate(at, writes);
                }
            }
            ObjectStep::Return(n) => {
                let Some(at) = pick(n, self.delegations.len()) else { return };
                let (.., delegation) = self.delegations.remove(at);
                now(self.files.return_delegation(delegation)).unwrap();
            }
        }
    }

    /// Compares every name and handle with the reference.
    fn compare(&self) {
        let keys: Vec<_> = (0..self.known.len()).map(|file| self.find(file)).collect();
        let mut in_use = std::collections::BTreeSet::new();
        in_use.extend(self.opens.iter().map(|open| open.file));
        in_use.extend(self.delegations.iter().map(|(file, ..)| *file));
        for (file, found) in keys.iter().enumerate() {
            let is_named = self.names.values().any(|named| *named == file);
            let is_open = self.finds_nameless && in_use.contains(&file);
            assert_eq!(found.is_ok(), is_named || is_open, "handle of {file}");
        }
        for (at, text) in NAMES.iter().enumerate() {
            let named = crate::harness::name(text);
            let real = now(self.files.lookup(&self.alice, &self.root(), &named));
            let expected = self.names.get(&at).map(|file| keys[*file].as_ref().unwrap().key());
            assert_eq!(real.map(|object| object.key()), expected.ok_or(FsError::NotFound));
        }
        for open in &self.opens {
            let mut data = Vec::new();
            let read = now(self.files.read(&open.real, 0, 9, &mut data));
            assert_eq!(read.is_ok(), open.access & READS != 0);
            if read.is_ok() {
                assert_eq!(data.first().copied(), self.known[open.file].byte);
            }
        }
        assert_eq!(self.files.open_file_count(), in_use.len());
    }

    fn run(mut self, steps: &[ObjectStep]) {
        for step in steps {
            self.step(step);
            self.compare();
        }
        while !self.opens.is_empty() {
            self.close(0);
        }
        self.delegations.clear();
        self.compare();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn path_and_handle_operations_agree_on_disk(steps in steps()) {
        let served = serve();
        let (volume, alice) = (served.volume.clone(), served.alice.clone());
        ObjectWorld::new(volume, alice, served.is_root).run(&steps);
        served.assert_nothing_held();
    }

    #[test]
    fn path_and_handle_operations_agree_in_memory(steps in steps()) {
        let vfs = MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()));
        let volume = Volume::new(Arc::new(vfs), VolumeOptions::default());
        let alice = Arc::new(Caller::of(Identity { uid: 7, gid: 7, groups: vec![] }));
        ObjectWorld::new(Arc::new(volume), alice, true).run(&steps);
    }
}
