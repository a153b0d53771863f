//! Tests with a backend whose directories hang, are replaced, and belong to others on demand.

use super::*;
use crate::backend::{OpenedBackend, ShareSource};
use crate::config::ServerConfig;
use crate::limits::{
    USER_VOLUME_WITHIN, USER_VOLUMES_OPENING_MAX, USER_VOLUMES_OPENING_PER_ACCOUNT_MAX,
    USER_VOLUMES_OPENING_PER_SHARE_MAX, USER_VOLUMES_WAITING_PER_ACCOUNT_MAX,
    USER_VOLUMES_WAITING_PER_SHARE_MAX,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use sync::Condvar;
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};

const ALICE: u32 = 1000;
const BOB: u32 = 1001;

#[derive(Clone, Copy, Debug)]
struct FakeDirectory {
    inode: u64,
    owner: u32,
    hangs: bool,
}

#[derive(Debug, Default)]
struct FakeBackend {
    directories: Mutex<HashMap<String, FakeDirectory>>,
    changed: Condvar,
    finds: AtomicUsize,
    created: Mutex<Vec<NewOwner>>,
}

impl FakeBackend {
    fn set(&self, name: &str, directory: FakeDirectory) {
        self.directories.lock().insert(name.to_owned(), directory);
        self.changed.notify_all();
    }
}

impl Backend for FakeBackend {
    fn open(&self, _: &ShareSource) -> Result<OpenedBackend, String> {
        Err("only directories of users".into())
    }

    fn find_user_directory(&self, at: &UserPath) -> Result<Box<dyn UserTreeRoot>, UserPathError> {
        self.finds.fetch_add(1, Ordering::SeqCst);
        let name = at.below.display().to_string();
        let mut directories = self.directories.lock();
        loop {
            match directories.get(&name) {
                None => return Err(UserPathError::Missing),
                Some(found) if !found.hangs => return Ok(Box::new(*found)),
                Some(_) => directories = self.changed.wait(directories),
            }
        }
    }

    fn create_user_directory(&self, at: &UserPath, owner: NewOwner) -> Result<(), UserPathError> {
        self.created.lock().push(owner);
        let name = at.below.display().to_string();
        self.set(&name, FakeDirectory { inode: 77, owner: owner.uid, hangs: false });
        Ok(())
    }
}

impl UserTreeRoot for FakeDirectory {
    fn key(&self) -> FileKey {
        FileKey { device: 1, inode: self.inode }
    }

    fn owner(&self) -> u32 {
        self.owner
    }

    fn serve(self: Box<Self>, follows_links: bool) -> Result<ServedDirectory, String> {
        let options = MemoryOptions { serial: self.inode, ..MemoryOptions::default() };
        let vfs = Arc::new(MemoryVfs::new(options, Arc::new(StillClock::default())));
        Ok(ServedDirectory { vfs, links: TreeLinkPolicy::new(follows_links) })
    }
}

fn homes(path: &str) -> (ShareUserVolumes, Arc<FakeBackend>) {
    let text = format!("[[share]]\nname = \"Homes\"\npath = \"{path}\"\n");
    let share = ServerConfig::parse(&text).unwrap().shares.remove(0);
    let backend = Arc::new(FakeBackend::default());
    let volumes = ShareUserVolumes {
        template: share.template.clone().unwrap(),
        share: Arc::new(share),
        options: VolumeOptions::default(),
        backend: backend.clone(),
        over: |_, vfs| vfs,
        open: Arc::default(),
        within: USER_VOLUME_WITHIN,
        runtime: Handle::current(),
    };
    (volumes, backend)
}

fn requester(account: &str, uid: u32) -> VolumeRequester {
    let peer = [192, 0, 2, 7].into();
    VolumeRequester { account: account.into(), uid, gid: 7, forced: None, peer }
}

fn directory(inode: u64, owner: u32) -> FakeDirectory {
    FakeDirectory { inode, owner, hangs: false }
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_directory_holds_up_its_own_clients_only() {
    let (volumes, backend) = homes("/home/%U");
    let hanging = FakeDirectory { hangs: true, ..directory(1, ALICE) };
    backend.set("alice", hanging);
    backend.set("bob", directory(2, BOB));
    let waiting: Vec<_> = (0..2 * USER_VOLUMES_OPENING_MAX)
        .map(|_| tokio::spawn(volumes.open(requester("alice", ALICE))))
        .collect();
    assert!(volumes.open(requester("bob", BOB)).await.is_ok());
    assert_eq!(volumes.open.count("HOMES"), 1);
    backend.set("alice", directory(1, ALICE));
    for waiting in waiting {
        assert!(waiting.await.unwrap().is_ok());
    }
    assert_eq!(volumes.open.openings.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_one_path_wait_for_one_opening() {
    let (volumes, backend) = homes("/home/%U");
    backend.set("alice", FakeDirectory { hangs: true, ..directory(1, ALICE) });
    let at = volumes.path_of(&requester("alice", ALICE)).unwrap();
    let outcomes: Vec<_> =
        (0..100).map(|_| volumes.begin(&at, &requester("alice", ALICE)).unwrap()).collect();
    backend.set("alice", directory(1, ALICE));
    for mut outcome in outcomes {
        let done = outcome.wait_for(Option::is_some).await.unwrap().clone();
        assert_eq!(done.unwrap().unwrap().owner, ALICE);
    }
    assert_eq!(backend.finds.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_of_a_hanging_directory_is_refused_in_time() {
    let (mut volumes, backend) = homes("/home/%U");
    volumes.within = Duration::ZERO;
    backend.set("alice", FakeDirectory { hangs: true, ..directory(1, ALICE) });
    let refused = volumes.open(requester("alice", ALICE)).await.unwrap_err();
    assert_eq!(refused, UserVolumeRefusal::Busy);
    backend.set("alice", directory(1, ALICE));
}

/// Begins openings of directories that hang, each of an account of its own unless one is given.
/// Returns when all turns that they may have are taken.
async fn hang(
    volumes: &ShareUserVolumes,
    backend: &FakeBackend,
    account: Option<&str>,
    (openings, turns): (usize, usize),
) -> Vec<OpeningReceiver> {
    let mut outcomes = Vec::new();
    for number in 0..openings {
        let name = format!("hanging{number}");
        let at = UserPath { base: "/home".into(), below: name.clone().into() };
        backend.set(&name, FakeDirectory { hangs: true, ..directory(number as u64, ALICE) });
        let of = requester(account.unwrap_or(&name), ALICE);
        outcomes.push(volumes.begin(&at, &of).unwrap());
    }
    while backend.finds.load(Ordering::SeqCst) < turns {
        tokio::task::yield_now().await;
    }
    outcomes
}

/// Lets all of [`hang`] open.
async fn recover(backend: &FakeBackend, outcomes: Vec<OpeningReceiver>) {
    (0..outcomes.len())
        .for_each(|number| backend.set(&format!("hanging{number}"), directory(1, ALICE)));
    for mut outcome in outcomes {
        outcome.wait_for(Option::is_some).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openings_in_flight_are_bounded() {
    let (volumes, backend) = homes("/home/%U");
    let counts = (USER_VOLUMES_WAITING_PER_SHARE_MAX, USER_VOLUMES_OPENING_PER_SHARE_MAX);
    let outcomes = hang(&volumes, &backend, None, counts).await;
    let refused = |of: VolumeRequester| {
        let at = volumes.path_of(&of).unwrap();
        assert_eq!(volumes.begin(&at, &of).unwrap_err(), UserVolumeRefusal::Busy);
    };
    refused(requester("bob", BOB));
    assert_eq!(backend.finds.load(Ordering::SeqCst), USER_VOLUMES_OPENING_PER_SHARE_MAX);
    recover(&backend, outcomes).await;

    let (volumes, backend) = homes("/home/%U");
    let counts = (USER_VOLUMES_WAITING_PER_ACCOUNT_MAX, USER_VOLUMES_OPENING_PER_ACCOUNT_MAX);
    let outcomes = hang(&volumes, &backend, Some("alice"), counts).await;
    let of = requester("alice", ALICE);
    let at = volumes.path_of(&of).unwrap();
    assert_eq!(volumes.begin(&at, &of).unwrap_err(), UserVolumeRefusal::Busy);
    assert_eq!(backend.finds.load(Ordering::SeqCst), USER_VOLUMES_OPENING_PER_ACCOUNT_MAX);
    recover(&backend, outcomes).await;
    assert_eq!(volumes.open.openings.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_directories_of_a_share_hold_up_no_other_share() {
    let (volumes, backend) = homes("/home/%U");
    let (mut others, healthy) = homes("/srv/%U");
    others.share = Arc::new(ShareConfig { name: "Data".into(), ..(*others.share).clone() });
    others.open = volumes.open.clone();
    healthy.set("bob", directory(2, BOB));
    let counts = (USER_VOLUMES_WAITING_PER_SHARE_MAX, USER_VOLUMES_OPENING_PER_SHARE_MAX);
    let outcomes = hang(&volumes, &backend, None, counts).await;
    assert!(others.open(requester("bob", BOB)).await.is_ok());
    recover(&backend, outcomes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_directories_of_an_account_hold_up_no_other_account() {
    let (volumes, backend) = homes("/home/%U");
    backend.set("bob", directory(2, BOB));
    let counts = (USER_VOLUMES_WAITING_PER_ACCOUNT_MAX, USER_VOLUMES_OPENING_PER_ACCOUNT_MAX);
    let outcomes = hang(&volumes, &backend, Some("alice"), counts).await;
    assert!(volumes.open(requester("bob", BOB)).await.is_ok());
    recover(&backend, outcomes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_directory_needs_no_turn_for_its_account() {
    let (volumes, backend) = homes("/home/%U");
    backend.set("bob", directory(2, BOB));
    let bob = volumes.open(requester("bob", BOB)).await.unwrap();
    for waiting in [USER_VOLUMES_WAITING_PER_SHARE_MAX, USER_VOLUMES_OPENING_PER_SHARE_MAX] {
        let before = backend.finds.load(Ordering::SeqCst);
        let counts = (waiting, before + USER_VOLUMES_OPENING_PER_SHARE_MAX);
        let outcomes = hang(&volumes, &backend, None, counts).await;
        let again = volumes.open(requester("bob", BOB)).await.unwrap();
        assert!(Arc::ptr_eq(&bob.vfs, &again.vfs));
        let at = volumes.path_of(&requester("bob", BOB)).unwrap();
        assert!(volumes.found_lately(&at, &requester("carol", BOB)).is_none());
        recover(&backend, outcomes).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_opening_leaves_no_entry() {
    let (mut volumes, backend) = homes("/home/%U");
    backend.set("alice", directory(1, ALICE));
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let own = std::mem::replace(&mut volumes.runtime, runtime.handle().clone());
    runtime.shutdown_background();
    let at = volumes.path_of(&requester("alice", ALICE)).unwrap();
    let mut outcome = volumes.begin(&at, &requester("alice", ALICE)).unwrap();
    assert!(outcome.wait_for(Option::is_some).await.is_err(), "its task never ran");
    volumes.runtime = own;
    assert_eq!(volumes.open.openings.count(), 0);
    assert!(volumes.open(requester("alice", ALICE)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_by_another_configuration_is_not_joined() {
    let (volumes, backend) = homes("/home/%U");
    let mut reloaded = volumes.clone();
    reloaded.share = Arc::new((*volumes.share).clone());
    backend.set("alice", FakeDirectory { hangs: true, ..directory(1, ALICE) });
    let of = requester("alice", ALICE);
    let at = volumes.path_of(&of).unwrap();
    let outcomes = vec![volumes.begin(&at, &of).unwrap(), reloaded.begin(&at, &of).unwrap()];
    assert_eq!(volumes.open.openings.count(), 2);
    backend.set("alice", directory(1, ALICE));
    for mut outcome in outcomes {
        outcome.wait_for(Option::is_some).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn same_directory_has_one_volume_and_a_replaced_one_another() {
    let (volumes, backend) = homes("/home/%U");
    backend.set("alice", directory(1, ALICE));
    let first = volumes.open(requester("alice", ALICE)).await.unwrap();
    let again = volumes.open(requester("alice", ALICE)).await.unwrap();
    assert!(Arc::ptr_eq(&first.vfs, &again.vfs));
    backend.set("alice", directory(2, ALICE));
    let other = volumes.open(requester("alice", ALICE)).await.unwrap();
    assert!(!Arc::ptr_eq(&first.vfs, &other.vfs));
    volumes.open.close_unused();
    assert_eq!(volumes.open.count("homes"), 2, "the replaced one is in use");
    drop((first, again));
    volumes.open.close_unused();
    assert_eq!((volumes.open.count("homes"), volumes.open.count("data")), (1, 0));
    drop(other);
    volumes.open.close_unused();
    assert_eq!(volumes.open.count("homes"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn number_of_open_volumes_is_bounded() {
    let (volumes, backend) = homes("/home/%U");
    volumes.open.configure(2, &[]);
    for (name, inode) in [("a", 1), ("b", 2), ("c", 3)] {
        backend.set(name, directory(inode, ALICE));
    }
    let used = [
        volumes.open(requester("a", ALICE)).await.unwrap(),
        volumes.open(requester("b", ALICE)).await.unwrap(),
    ];
    let refused = volumes.open(requester("c", ALICE)).await.unwrap_err();
    assert_eq!(refused, UserVolumeRefusal::TooMany);
    assert!(volumes.open(requester("a", ALICE)).await.is_ok(), "it is open already");
    drop(used);
    assert!(volumes.open(requester("c", ALICE)).await.is_ok(), "unused ones are closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_of_another_user_is_refused() {
    let (volumes, backend) = homes("/home/%U");
    let open = |owner| {
        backend.set("alice", directory(u64::from(owner) + 1, owner));
        volumes.open(requester("alice", ALICE))
    };
    assert!(open(ALICE).await.is_ok());
    assert!(open(ROOT).await.is_ok());
    volumes.open.close_unused();
    assert_eq!(open(BOB).await.unwrap_err(), UserVolumeRefusal::Denied);
    assert_eq!(volumes.open.count("homes"), 0, "it is not served");
    let forced = VolumeRequester { forced: Some((BOB, 7)), ..requester("alice", ALICE) };
    assert!(volumes.open(forced).await.is_ok(), "all files are the forced user's");

    let (volumes, backend) = homes("/srv/by-%I");
    backend.set("by-192.0.2.7", directory(5, BOB));
    assert!(volumes.open(requester("alice", ALICE)).await.is_ok(), "it is no user's own");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_link_policy_applies_to_open_volumes() {
    let (volumes, backend) = homes("/home/%U");
    backend.set("alice", directory(1, ALICE));
    let follows = |shows| {
        let share = ShareConfig { show_symlinks: shows, ..(*volumes.share).clone() };
        volumes.open.configure(USER_VOLUMES_MAX, &[share]);
        let table = volumes.open.volumes.lock();
        table.open.values().map(|open| open.links.follows()).collect::<Vec<_>>()
    };
    let used = volumes.open(requester("alice", ALICE)).await.unwrap();
    assert_eq!((follows(false), follows(true)), (vec![true], vec![false]));
    drop(used);
    volumes.open.close_unused();
    let _used = volumes.open(requester("alice", ALICE)).await.unwrap();
    let table = volumes.open.volumes.lock();
    assert!(table.open.values().all(|open| !open.links.follows()), "the newest setting applies");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_directory_is_created_only_where_configured() {
    let (mut volumes, backend) = homes("/home/%U");
    let refused = volumes.open(requester("alice", ALICE)).await.unwrap_err();
    assert_eq!(refused, UserVolumeRefusal::Missing);
    volumes.share = Arc::new(ShareConfig { create_home: true, ..(*volumes.share).clone() });
    assert!(volumes.open(requester("alice", ALICE)).await.is_ok());
    assert!(volumes.open(requester("alice", ALICE)).await.is_ok());
    assert_eq!(*backend.created.lock(), [NewOwner { uid: ALICE, gid: 7 }]);
}
