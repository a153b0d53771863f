//! Persistent handles on a continuously available share survive a kill of the server.

use crate::support::client::{
    ACCESS_DENIED, CLOSE, CREATE, FILE_NOT_AVAILABLE, LOCK, LOCK_NOT_GRANTED,
    OBJECT_NAME_NOT_FOUND, OPLOCK_BREAK, PENDING, READ, RawFileId, RawReply, RawSmbClient,
    SET_INFO, SUCCESS, WRITE,
};
use crate::support::{PASSWORD, ServerProcess, Setup, wait_for};
use client::nfs::{NfsClient, NfsExport, NfsOptions, NfsTarget};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

/// A timeout in milliseconds that no test reaches.
const LONG: u32 = 60_000;
const GUID: [u8; 16] = *b"a create's guid.";
const CLIENT: [u8; 16] = *b"a client's guid.";
/// FileDispositionInformation. MS-FSCC 2.4.
const DISPOSITION: u8 = 13;
/// FileRenameInformation.
const RENAME: u8 = 10;

fn available() -> Setup {
    let mut setup = Setup::new();
    setup.shares += "continuously_available = true\n";
    setup
}

fn open(client: &mut RawSmbClient, name: &str, guid: [u8; 16], timeout_ms: u32) -> RawFileId {
    let reply = client.call(CREATE, &RawSmbClient::durable_body(name, guid, timeout_ms, true));
    assert_eq!(reply.status, SUCCESS);
    assert_eq!(reply.context(b"DH2Q").map(|data| data[4]), Some(2), "it is persistent");
    reply.file_id()
}

fn back(client: &mut RawSmbClient, file: RawFileId, guid: [u8; 16]) -> Result<RawFileId, u32> {
    let reply = client.call(CREATE, &RawSmbClient::reconnect_body(file, guid, true));
    if reply.status == SUCCESS { Ok(reply.file_id()) } else { Err(reply.status) }
}

fn restarted(mut server: ServerProcess) -> ServerProcess {
    server.kill().start()
}

#[test]
fn persistent_open_survives_kill_and_delays_other_clients() {
    let server = available().argument("--user").argument(&format!("daemon:{PASSWORD}")).start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let file = open(&mut client, "file", GUID, LONG);
    assert_eq!(client.call(WRITE, &RawSmbClient::write_body(file, 0, b"kept")).status, SUCCESS);
    assert_eq!(client.call(LOCK, &RawSmbClient::lock_body(file, false)).status, SUCCESS);
    let server = restarted(server);

    let mut other = RawSmbClient::ready_3(&server, [9; 16]);
    assert_eq!(other.try_create("file"), Err(FILE_NOT_AVAILABLE));
    let mut stranger = RawSmbClient::connect_3(&server, CLIENT).set_up_as("daemon");
    assert_eq!(back(&mut stranger, file, GUID), Err(ACCESS_DENIED));
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    assert_eq!(back(&mut client, file, [0; 16]), Err(OBJECT_NAME_NOT_FOUND));
    let file = back(&mut client, file, GUID).unwrap();
    assert_eq!(client.call(READ, &RawSmbClient::read_body(file, 0, 4)).data(), b"kept");
    let seen = other.create("file");
    assert_eq!(other.call(LOCK, &RawSmbClient::lock_body(seen, false)).status, LOCK_NOT_GRANTED);
    assert_eq!(client.call(CLOSE, &RawSmbClient::close_body(file)).status, SUCCESS);
    assert_eq!(other.call(LOCK, &RawSmbClient::lock_body(seen, false)).status, SUCCESS);

    let server = restarted(server);
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    assert_eq!(back(&mut client, file, GUID), Err(OBJECT_NAME_NOT_FOUND), "it was closed");
    client.create("file");
}

#[test]
fn persistent_opens_of_one_file_survive_kill_per_client() {
    let server = available().start();
    let mut clients = [[1; 16], [2; 16], [3; 16]].map(|guid| RawSmbClient::ready_3(&server, guid));
    let files = clients.each_mut().map(|client| open(client, "file", GUID, LONG));
    let server = restarted(server);
    let mut other = RawSmbClient::ready_3(&server, [4; 16]);
    for (guid, file) in [[1; 16], [2; 16], [3; 16]].into_iter().zip(files) {
        assert_eq!(back(&mut other, file, GUID), Err(OBJECT_NAME_NOT_FOUND));
        let mut client = RawSmbClient::ready_3(&server, guid);
        assert!(back(&mut client, file, GUID).is_ok(), "{file:?}");
    }
}

#[test]
fn server_guid_survives_kill() {
    let guid = |server: &ServerProcess| {
        let mut client = RawSmbClient::connect_3(server, CLIENT);
        client.negotiate().bytes[72..88].to_vec()
    };
    let server = available().start();
    let before = guid(&server);
    assert_eq!(guid(&restarted(server)), before);
}

#[test]
fn unclaimed_persistent_open_expires_after_its_timeout() {
    let server = available().start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    open(&mut client, "file", GUID, 500);
    let server = restarted(server);
    let mut other = RawSmbClient::ready_3(&server, [9; 16]);
    wait_for("the end of its time", || other.try_create("file").ok());
    // The kill may precede the stored removal of the record; this start then expires the open
    // again.
    let server = restarted(server);
    wait_for("nothing to be open", || (server.metric("anabranch_open_files") == 0).then_some(()));
}

#[test]
fn rename_and_pending_delete_survive_kill() {
    let server = available().start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let renamed = open(&mut client, "old", [1; 16], LONG);
    let name: Vec<u8> = "new".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut info = vec![0; 20];
    info[16] = name.len() as u8;
    info.extend_from_slice(&name);
    // Uses another open of the same file, which is not persistent.
    let deletes = RawSmbClient::create_body("old");
    let by = client.call(CREATE, &with_access(deletes, 0x0013_019F)).file_id();
    assert_eq!(
        client.call(SET_INFO, &RawSmbClient::set_info_body(by, RENAME, &info)).status,
        SUCCESS
    );
    let delete_pending = {
        let body = RawSmbClient::durable_body("delete_pending", [2; 16], LONG, true);
        client.call(CREATE, &with_access(body, 0x0013_019F)).file_id()
    };
    let mark = RawSmbClient::set_info_body(delete_pending, DISPOSITION, &[1]);
    assert_eq!(client.call(SET_INFO, &mark).status, SUCCESS);

    let server = restarted(server);
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let renamed = back(&mut client, renamed, [1; 16]).unwrap();
    assert_eq!(client.call(WRITE, &RawSmbClient::write_body(renamed, 0, b"x")).status, SUCCESS);
    assert_eq!(std::fs::read(server.data().join("new")).unwrap(), b"x");
    let delete_pending = back(&mut client, delete_pending, [2; 16]).unwrap();
    assert!(server.data().join("delete_pending").exists());
    assert_eq!(client.call(CLOSE, &RawSmbClient::close_body(delete_pending)).status, SUCCESS);
    assert!(!server.data().join("delete_pending").exists());
}

/// The instants of a rename at which the server is killed: the file has its new name, or the journal
/// of persistent opens has grown.
#[derive(Clone, Copy, Debug)]
enum Instant {
    NameAppears,
    JournalGrows,
}

/// Kills the server at an instant. The returned future completes then.
fn kill_at(server: &ServerProcess, instant: Instant) -> tokio::sync::oneshot::Receiver<()> {
    let state = server.path("state");
    let journal = if state.exists() { state.join("opens") } else { server.path("opens") };
    let new = server.data().join("new");
    let bytes = move || std::fs::metadata(&journal).map_or(0, |found| found.len());
    let (before, process) = (bytes(), server.process_id());
    let process = rustix::process::Pid::from_raw(process.cast_signed()).unwrap();
    let (killed, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let is_now = || match instant {
            Instant::NameAppears => new.exists(),
            Instant::JournalGrows => bytes() > before,
        };
        while !is_now() {
            std::hint::spin_loop();
        }
        rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
        // The test may have failed meanwhile.
        let _ = killed.send(());
    });
    end
}

/// Reconnects to the persistent open of `old`, which must refer to the same file under its present
/// name.
fn check_comes_back(server: ServerProcess, file: RawFileId, what: &str) {
    let server = restarted(server);
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let file = back(&mut client, file, GUID).unwrap_or_else(|status| panic!("{what}: {status:#x}"));
    assert_eq!(
        client.call(WRITE, &RawSmbClient::write_body(file, 0, b"x")).status,
        SUCCESS,
        "{what}"
    );
    let names = ["old", "new"].map(|name| std::fs::read(server.data().join(name)).ok());
    assert_eq!(names.iter().flatten().collect::<Vec<_>>(), [b"x"], "{what}");
}

fn open_to_rename(client: &mut RawSmbClient) -> RawFileId {
    let body = with_access(RawSmbClient::durable_body("old", GUID, LONG, true), 0x0013_019F);
    client.call(CREATE, &body).file_id()
}

#[test]
fn open_survives_a_kill_at_each_instant_of_its_rename() {
    for instant in [Instant::NameAppears, Instant::JournalGrows] {
        let server = available().start();
        let mut client = RawSmbClient::ready_3(&server, CLIENT);
        let file = open_to_rename(&mut client);
        let killed = kill_at(&server, instant);
        let name: Vec<u8> = "new".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let info = [&[0; 16], &(name.len() as u32).to_le_bytes()[..], &name].concat();
        // The server may reply or not.
        let _ = client.try_call(SET_INFO, &RawSmbClient::set_info_body(file, RENAME, &info));
        killed.blocking_recv().unwrap();
        check_comes_back(server, file, &format!("{instant:?}"));
    }
}

#[test]
fn open_survives_a_kill_at_each_instant_of_a_rename_by_nfs() {
    for (instant, host) in [(Instant::NameAppears, 40), (Instant::JournalGrows, 41)] {
        let mut setup = available();
        setup.shares += "nfs_squash = \"none\"\n";
        let nfs = setup.serve_nfs(host, 24459);
        let server = setup.start();
        let mut client = RawSmbClient::ready_3(&server, CLIENT);
        let file = open_to_rename(&mut client);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let export = runtime.block_on(over_nfs(nfs));
        let killed = kill_at(&server, instant);
        runtime.block_on(async {
            tokio::select! {
                biased;
                killed = killed => killed.unwrap(),
                // The server replied, and is killed afterwards.
                _ = async { drop(export.rename("old", "new").await); std::future::pending::<()>().await } => {}
            }
        });
        check_comes_back(server, file, &format!("{instant:?}"));
    }
}

async fn over_nfs(address: SocketAddr) -> NfsExport {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let target = NfsTarget { name: "nfs".into(), address, uid, gid, instance: [7; 8] };
    let client = NfsClient::connect(target, NfsOptions::default()).await.unwrap();
    NfsExport::open(client, "data").await.unwrap()
}

/// Key of a lease, and its state: read, handle and write caching.
const KEY: [u8; 16] = *b"a lease's key...";
const RH: u32 = 3;
const RWH: u32 = 7;

/// SMB2_CREATE_REQUEST_LEASE_V2.
fn lease(state: u32, epoch: u16) -> (&'static [u8; 4], Vec<u8>) {
    let mut data =
        [&KEY[..], &state.to_le_bytes(), &[0; 4 + 8 + 16], &epoch.to_le_bytes()].concat();
    data.extend_from_slice(&[0; 2]);
    (b"RqLs", data)
}

/// State and epoch in the reply to a CREATE.
fn granted(reply: &RawReply) -> (u32, u16) {
    let data = reply.context(b"RqLs").expect("it is under a lease");
    let state = u32::from_le_bytes(data[16..20].try_into().unwrap());
    (state, u16::from_le_bytes(data[48..50].try_into().unwrap()))
}

/// Opens `file` persistently under a lease.
fn open_leased(client: &mut RawSmbClient, state: u32) -> RawFileId {
    let long = [&LONG.to_le_bytes()[..], &2u32.to_le_bytes(), &[0; 8], &GUID].concat();
    let mut body = RawSmbClient::create_body_with("file", &[(b"DH2Q", long), lease(state, 5)]);
    body[3] = 0xFF;
    let reply = client.call(CREATE, &body);
    assert_eq!((reply.status, granted(&reply)), (SUCCESS, (state, 6)));
    reply.file_id()
}

fn back_leased(client: &mut RawSmbClient, file: RawFileId) -> RawReply {
    let named = [&file[..], &GUID, &2u32.to_le_bytes()].concat();
    let mut body = RawSmbClient::create_body_with("file", &[(b"DH2C", named), lease(RWH, 0)]);
    body[3] = 0xFF;
    let reply = client.call(CREATE, &body);
    assert_eq!(reply.status, SUCCESS);
    reply
}

#[test]
fn persistent_lease_survives_kill_and_breaks_after_reclaim() {
    let server = available().start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let file = open_leased(&mut client, RWH);
    let server = restarted(server);

    let mut other = RawSmbClient::ready_3(&server, [9; 16]);
    other.send(CREATE, &RawSmbClient::create_body("file"));
    assert_eq!(other.receive().unwrap().status, PENDING, "it is asked for");
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let reply = back_leased(&mut client, file);
    assert_eq!(granted(&reply), (RWH, 6), "as it was");
    let notice = client.receive().unwrap().bytes;
    assert_eq!(notice[66..68], 7u16.to_le_bytes(), "the epoch after the change");
    assert_eq!((&notice[72..88], notice[88], notice[92]), (&KEY[..], 7, 3));
    let answer = [&[36, 0, 0, 0, 0, 0, 0, 0], &KEY[..], &RH.to_le_bytes(), &[0; 8]].concat();
    assert_eq!(client.call(OPLOCK_BREAK, &answer).status, SUCCESS);
    assert_eq!(other.receive().unwrap().status, SUCCESS);
}

#[test]
fn file_changed_while_client_was_gone_is_not_cached_after_kill() {
    let server = available().start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let file = open_leased(&mut client, RH);
    drop(client);
    wait_for("the loss", || {
        (server.metric("anabranch_sessions{protocol=\"SMB\"}") == 0).then_some(())
    });
    let mut other = RawSmbClient::ready_3(&server, [9; 16]);
    let seen = other.create("file");
    assert_eq!(other.call(WRITE, &RawSmbClient::write_body(seen, 0, b"new")).status, SUCCESS);
    // The write does not wait for the break notification, which is in flight.
    wait_for("its being written down", || {
        let journal = std::fs::read(server.path("opens")).unwrap();
        (journal.windows(16).filter(|w| *w == KEY).count() > 1).then_some(())
    });
    let server = restarted(server);
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    assert_eq!(granted(&back_leased(&mut client, file)).0, 0, "nothing is kept");
}

fn with_access(mut body: Vec<u8>, access: u32) -> Vec<u8> {
    body[24..28].copy_from_slice(&access.to_le_bytes());
    body
}

#[test]
fn create_with_lost_reply_is_replayed_after_kill() {
    let server = available().start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let body = RawSmbClient::durable_body("file", GUID, LONG, true);
    let first = client.call(CREATE, &body);
    let server = restarted(server);
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    client.replays = true;
    let again = client.call(CREATE, &body);
    assert_eq!((again.status, again.action()), (SUCCESS, 2));
    assert_eq!(again.persistent_id(), first.persistent_id());
}

#[test]
fn persistent_delete_on_close_open_survives_orderly_stop() {
    let mut server = available().start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let mut body = with_access(RawSmbClient::durable_body("file", GUID, LONG, true), 0x0013_019F);
    body[40..44].copy_from_slice(&0x1040u32.to_le_bytes()); // DELETE_ON_CLOSE
    let file = client.call(CREATE, &body).file_id();
    server.signal("TERM");
    server.ended();
    assert!(server.data().join("file").exists());
    let server = restarted(server);
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let file = back(&mut client, file, GUID).unwrap();
    assert_eq!(client.call(CLOSE, &RawSmbClient::close_body(file)).status, SUCCESS);
    assert!(!server.data().join("file").exists());
}

#[test]
fn damaged_journal_record_is_logged_and_others_are_restored() {
    let mut server = available().start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let first = open(&mut client, "first", [1; 16], LONG);
    let second = open(&mut client, "second", [2; 16], LONG);
    let third = open(&mut client, "third", [3; 16], LONG);
    let setup = server.kill();
    let path = server.path("opens");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(6).position(|w| w == b"second").unwrap();
    bytes[at] ^= 1;
    bytes.truncate(bytes.len() - 1);
    std::fs::write(&path, &bytes).unwrap();
    let server = setup.start();
    assert!(server.log().contains("wrong checksum"));
    assert!(server.log().contains("cut off"));
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    back(&mut client, first, [1; 16]).unwrap();
    assert_eq!(back(&mut client, second, [2; 16]), Err(OBJECT_NAME_NOT_FOUND));
    assert_eq!(back(&mut client, third, [3; 16]), Err(OBJECT_NAME_NOT_FOUND));
}

const WORKERS: u8 = 4;
const PAGE: usize = 512;
const PAGES: u64 = 64;
/// Offset of the locked bytes, beyond all pages.
const LOCKED_FROM: u64 = 1 << 20;
const LOCKS: u64 = 32;
/// Default number of kills; `ANABRANCH_KILLS` overrides it.
const KILLS: u32 = 6;

/// A client that writes, locks and unlocks, and records the acknowledged operations.
struct Worker {
    number: u8,
    client: RawSmbClient,
    file: RawFileId,
    /// Number of the last acknowledged write to each page.
    pages: HashMap<u64, u64>,
    locks: BTreeSet<u64>,
    under_way: Option<PersistentStep>,
    sequence: u64,
}

#[derive(Clone, Copy, Debug)]
enum PersistentStep {
    Write { page: u64, sequence: u64 },
    Lock(u64),
    Unlock(u64),
}

fn content(worker: u8, page: u64, sequence: u64) -> Vec<u8> {
    let mut bytes = sequence.to_le_bytes().to_vec();
    bytes.resize(PAGE, worker ^ page as u8 ^ sequence as u8);
    bytes
}

impl Worker {
    fn new(server: &ServerProcess, number: u8) -> Self {
        let mut client = RawSmbClient::ready_3(server, [number; 16]);
        let file = open(&mut client, &format!("worker {number}"), [number; 16], LONG);
        let (pages, locks) = (HashMap::new(), BTreeSet::new());
        Self { number, client, file, pages, locks, under_way: None, sequence: 0 }
    }

    /// Works until the server has ended.
    fn start(mut self) -> JoinHandle<Self> {
        std::thread::spawn(move || {
            while self.step().is_ok() {}
            self
        })
    }

    fn step(&mut self) -> io::Result<()> {
        self.sequence += 1;
        let sequence = self.sequence;
        let random = (u64::from(self.number) << 32 ^ sequence).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let at = random >> 33;
        let step = match random >> 61 {
            0 => PersistentStep::Lock(at % LOCKS),
            1 => PersistentStep::Unlock(at % LOCKS),
            _ => PersistentStep::Write { page: at % PAGES, sequence },
        };
        let (command, body) = match step {
            PersistentStep::Lock(lock) if self.locks.contains(&lock) => return Ok(()),
            PersistentStep::Unlock(lock) if !self.locks.contains(&lock) => return Ok(()),
            PersistentStep::Lock(lock) => {
                (LOCK, RawSmbClient::lock_byte_body(self.file, LOCKED_FROM + lock, false))
            }
            PersistentStep::Unlock(lock) => {
                (LOCK, RawSmbClient::lock_byte_body(self.file, LOCKED_FROM + lock, true))
            }
            PersistentStep::Write { page, sequence } => {
                let data = content(self.number, page, sequence);
                (WRITE, RawSmbClient::write_body(self.file, page * PAGE as u64, &data))
            }
        };
        self.under_way = Some(step);
        let reply = self.client.try_call(command, &body)?;
        assert_eq!(reply.status, SUCCESS, "worker {}: {step:?}", self.number);
        self.under_way = None;
        match step {
            PersistentStep::Lock(lock) => drop(self.locks.insert(lock)),
            PersistentStep::Unlock(lock) => drop(self.locks.remove(&lock)),
            PersistentStep::Write { page, sequence } => drop(self.pages.insert(page, sequence)),
        }
        Ok(())
    }

    /// Reconnects to the persistent open, and checks its locks and data.
    fn come_back(&mut self, server: &ServerProcess) {
        let mut other = RawSmbClient::ready_3(server, [0xFF; 16]);
        let name = format!("worker {}", self.number);
        assert_eq!(other.try_create(&name), Err(FILE_NOT_AVAILABLE), "until it is back");
        self.client = RawSmbClient::ready_3(server, [self.number; 16]);
        self.file = back(&mut self.client, self.file, [self.number; 16]).expect("its open");
        let seen = other.create(&name);
        for lock in 0..LOCKS {
            let body = RawSmbClient::lock_byte_body(seen, LOCKED_FROM + lock, false);
            let is_held = other.call(LOCK, &body).status == LOCK_NOT_GRANTED;
            match self.under_way {
                // The lost reply left the lock's state unknown: the server's state counts.
                Some(PersistentStep::Lock(asked) | PersistentStep::Unlock(asked))
                    if asked == lock =>
                {
                    if is_held {
                        self.locks.insert(lock)
                    } else {
                        self.locks.remove(&lock)
                    };
                }
                _ => assert_eq!(is_held, self.locks.contains(&lock), "{name}: lock {lock}"),
            }
        }
        assert_eq!(other.call(CLOSE, &RawSmbClient::close_body(seen)).status, SUCCESS);
        self.check_pages(&name);
        self.under_way = None;
    }

    fn check_pages(&mut self, name: &str) {
        if let Some(PersistentStep::Write { page, .. }) = self.under_way {
            self.pages.entry(page).or_default();
        }
        for (&page, last) in &mut self.pages {
            let body = RawSmbClient::read_body(self.file, page * PAGE as u64, PAGE as u32);
            let reply = self.client.call(READ, &body);
            let found =
                reply.data().get(..8).map_or(0, |n| u64::from_le_bytes(n.try_into().unwrap()));
            let is_late = matches!(self.under_way, Some(PersistentStep::Write { page: p, sequence })
                if p == page && sequence == found);
            assert!(found == *last || is_late, "{name}: page {page}: {found}, not {last}");
            if found > 0 {
                assert_eq!(reply.data(), content(self.number, page, found), "{name}: page {page}");
            }
            *last = found;
        }
    }
}

#[test]
fn opens_locks_and_writes_under_load_survive_kills() {
    let kills = std::env::var("ANABRANCH_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let mut server = available().start();
    let mut workers: Vec<Worker> = (1..=WORKERS).map(|n| Worker::new(&server, n)).collect();
    for kill in 0..kills {
        let threads: Vec<_> = workers.into_iter().map(Worker::start).collect();
        std::thread::sleep(Duration::from_millis(40 + u64::from(kill % 7) * 35));
        server = restarted(server);
        workers = threads.into_iter().map(|t| t.join().unwrap()).collect();
        workers.iter_mut().for_each(|worker| worker.come_back(&server));
    }
    let steps: u64 = workers.iter().map(|w| w.sequence).sum();
    println!("{kills} kills, {steps} steps; nothing was lost");
    assert!(workers.iter().all(|w| !w.pages.is_empty()));
}
