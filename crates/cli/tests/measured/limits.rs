//! Limits of shares in the built server: clients that request more are held to them, over SMB, NFS
//! and both at once.

use crate::support::{MeasuringTurn, ServerProcess, Setup};
use bytes::Bytes;
use client::SmbOpenHow;
use client::nfs::{Disposition, OpenFor};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use wire::smb::fsctl;

const MIB: f64 = 1024.0 * 1024.0;
/// Requests in flight of each client.
const DEPTH: u64 = 8;
/// Warm-up and duration of a short run; `cargo xtask bench limits` runs longer.
const WARM_UP: Duration = Duration::from_millis(1500);
const SHORT_SECONDS: u64 = 4;
/// Tolerance of a short run on a shared machine, and of a long run.
const TOLERANCE_SHORT: f64 = 0.08;
const TOLERANCE: f64 = 0.03;

/// Seconds to measure.
fn seconds() -> u64 {
    let wished = std::env::var("ANABRANCH_LIMITS_SECONDS").ok();
    wished.and_then(|text| text.parse().ok()).unwrap_or(SHORT_SECONDS)
}

/// Whether the run is long enough for the strict tolerance.
fn is_long() -> bool {
    seconds() >= 20
}

/// The operation that clients repeat.
#[derive(Clone, Copy)]
enum ClientOperation {
    Read(u32),
    Write(u32),
    Stat,
    /// The server copies the file.
    Copy,
}

/// Load of one client: its operation and the number in flight.
#[derive(Clone, Copy)]
struct ClientLoad<'a> {
    share: &'a str,
    file: &'a str,
    work: ClientOperation,
    depth: u64,
}

impl<'a> ClientLoad<'a> {
    /// The share has limits; otherwise it is the neighbour.
    fn of(file: &'a str, work: ClientOperation) -> Self {
        Self { share: "data", file, work, depth: DEPTH }
    }
}

/// Count of completed operations and bytes.
#[derive(Default)]
struct WorkTally {
    operations: AtomicU64,
    bytes: AtomicU64,
}

impl WorkTally {
    fn note(&self, bytes: u64) {
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn look(&self) -> (f64, f64) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        (count(&self.operations), count(&self.bytes))
    }
}

/// A server with the share `data`, which has `keys`, over both protocols.
struct LimitedServer {
    running: ServerProcess,
    nfs: SocketAddr,
}

fn serve(keys: &str, last: u8, port: u16) -> LimitedServer {
    let mut setup = Setup::new();
    setup.shares += "nfs_squash = \"none\"\n";
    setup.shares += keys;
    let nfs = setup.serve_nfs(last, port);
    let running = setup.start();
    for number in 0..16 {
        let path = running.data().join(format!("file{number}"));
        std::fs::write(path, vec![7; 1 << 20]).unwrap();
    }
    LimitedServer { running, nfs }
}

/// Repeats `one` in as many loops as a client has requests in flight.
fn in_loops<F: Future<Output = u64> + Send + 'static>(
    depth: u64,
    done: &Arc<WorkTally>,
    one: impl Fn(u64) -> F + Clone + Send + 'static,
) -> Vec<JoinHandle<()>> {
    let start = |at| {
        let (done, one) = (done.clone(), one.clone());
        tokio::spawn(async move {
            loop {
                done.note(one(at).await);
            }
        })
    };
    (0..depth).map(start).collect()
}

async fn smb_load(
    served: &LimitedServer,
    load: ClientLoad<'_>,
    done: &Arc<WorkTally>,
) -> Vec<JoinHandle<()>> {
    let tree = Arc::new(
        crate::support::library::client(&served.running).await.tree(load.share).await.unwrap(),
    );
    let file = Arc::new(tree.open(load.file, &SmbOpenHow::read_write()).await.unwrap());
    let name = load.file.to_owned();
    match load.work {
        ClientOperation::Read(bytes) => in_loops(load.depth, done, move |at| {
            let file = file.clone();
            async move {
                file.read(at * u64::from(bytes) % MIB as u64, bytes).await.unwrap().len() as u64
            }
        }),
        ClientOperation::Write(bytes) => in_loops(load.depth, done, move |at| {
            let (file, data) = (file.clone(), Bytes::from(vec![1; bytes as usize]));
            async move {
                file.write(at * u64::from(bytes) % MIB as u64, &data).await.unwrap();
                u64::from(bytes)
            }
        }),
        ClientOperation::Copy => {
            let target = Arc::new(tree.open("copy", &SmbOpenHow::read_write()).await.unwrap());
            let key = file.control(fsctl::SRV_REQUEST_RESUME_KEY, &[], 32).await.unwrap();
            // One chunk: source offset 0, target offset 0.
            let chunk = [&key[..24], &[1, 0, 0, 0], &[0; 4 + 16], &(1u32 << 20).to_le_bytes()];
            let input = Arc::new([&chunk.concat()[..], &[0; 4]].concat());
            in_loops(load.depth, done, move |_| {
                // The resume key identifies the source while it is open.
                let (_source, target, input) = (file.clone(), target.clone(), input.clone());
                async move {
                    target.control(fsctl::SRV_COPYCHUNK, &input, 12).await.unwrap();
                    1 << 20
                }
            })
        }
        ClientOperation::Stat => in_loops(load.depth, done, move |_| {
            let (tree, name) = (tree.clone(), name.clone());
            async move {
                tree.stat(&name).await.unwrap();
                0
            }
        }),
    }
}

async fn nfs_load(
    served: &LimitedServer,
    load: ClientLoad<'_>,
    done: &Arc<WorkTally>,
) -> Vec<JoinHandle<()>> {
    let export = Arc::new(crate::support::library::export(served.nfs, load.share).await);
    let name = load.file.to_owned();
    let file = Arc::new(export.open_file(&name, Disposition::Open).await.unwrap());
    match load.work {
        ClientOperation::Read(bytes) => in_loops(load.depth, done, move |at| {
            let (export, file) = (export.clone(), file.clone());
            async move {
                export.read(&file, at * u64::from(bytes) % MIB as u64, bytes).await.unwrap().len()
                    as u64
            }
        }),
        ClientOperation::Write(bytes) => in_loops(load.depth, done, move |at| {
            let (export, file) = (export.clone(), file.clone());
            async move {
                let data = vec![1; bytes as usize];
                export.write(&file, at * u64::from(bytes) % MIB as u64, &data).await.unwrap();
                u64::from(bytes)
            }
        }),
        ClientOperation::Copy => {
            let target = Arc::new(
                export.open_for("copy", OpenFor::Filling { fresh: false }).await.unwrap().0,
            );
            in_loops(load.depth, done, move |_| {
                let (export, file, target) = (export.clone(), file.clone(), target.clone());
                async move { export.copy_whole(&file, &target).await.unwrap() }
            })
        }
        ClientOperation::Stat => in_loops(load.depth, done, move |_| {
            let (export, name) = (export.clone(), name.clone());
            async move {
                export.stat(&name).await.unwrap();
                0
            }
        }),
    }
}

/// Operations and bytes a second of clients at full load.
async fn rates(served: &LimitedServer, (smb, nfs): (u8, u8), work: ClientOperation) -> (f64, f64) {
    let done = Arc::new(WorkTally::default());
    let mut loops = Vec::new();
    for number in 0..smb {
        let name = format!("file{}", number % 16);
        loops.extend(smb_load(served, ClientLoad::of(&name, work), &done).await);
    }
    for number in 0..nfs {
        let name = format!("file{}", number % 16);
        loops.extend(nfs_load(served, ClientLoad::of(&name, work), &done).await);
    }
    let rates = measured(&done).await;
    loops.iter().for_each(JoinHandle::abort);
    rates
}

async fn measured(done: &WorkTally) -> (f64, f64) {
    tokio::time::sleep(WARM_UP).await;
    let (start, before) = (Instant::now(), done.look());
    tokio::time::sleep(Duration::from_secs(seconds())).await;
    let (seconds, after) = (start.elapsed().as_secs_f64(), done.look());
    ((after.0 - before.0) / seconds, (after.1 - before.1) / seconds)
}

fn is_near(measured: f64, limit: f64, what: &str) {
    let off = measured / limit - 1.0;
    println!("| {what} | {limit:.0} | {measured:.0} | {:+.2} % |", 100.0 * off);
    let tolerance = if is_long() { TOLERANCE } else { TOLERANCE_SHORT };
    assert!(off.abs() < tolerance, "{what}: {measured} instead of {limit}");
}

fn in_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

/// Numbers of SMB and NFS clients, with their label in the table.
const CLIENTS: [((u8, u8), &str); 4] = [
    ((1, 0), "one client over SMB"),
    ((0, 1), "one client over NFS"),
    ((16, 0), "sixteen over SMB"),
    ((8, 8), "eight over SMB and eight over NFS"),
];

#[test]
fn iops_limit_holds_for_any_mix_of_clients() {
    let _turn = MeasuringTurn::wait();
    let served = serve("limits = { iops = 500 }\n", 60, 24501);
    in_runtime(async {
        for (clients, who) in CLIENTS {
            let (iops, _) = rates(&served, clients, ClientOperation::Read(4096)).await;
            is_near(iops, 500.0, who);
        }
    });
}

#[test]
fn throughput_is_held_in_each_direction_by_itself() {
    let _turn = MeasuringTurn::wait();
    let served = serve("limits = { ingress = \"8 MiB\", egress = \"16 MiB\" }\n", 61, 24502);
    in_runtime(async {
        for (clients, who) in [CLIENTS[0], CLIENTS[1], CLIENTS[3]] {
            let (_, ingress) = rates(&served, clients, ClientOperation::Write(65_536)).await;
            is_near(ingress, 8.0 * MIB, &format!("ingress, {who}"));
            let (_, egress) = rates(&served, clients, ClientOperation::Read(65_536)).await;
            is_near(egress, 16.0 * MIB, &format!("egress, {who}"));
        }
        // Readers and writers together: writers do not delay readers.
        let (read, written) = (Arc::new(WorkTally::default()), Arc::new(WorkTally::default()));
        let mut loops =
            smb_load(&served, ClientLoad::of("file0", ClientOperation::Read(65_536)), &read).await;
        loops.extend(
            smb_load(&served, ClientLoad::of("file1", ClientOperation::Write(65_536)), &written)
                .await,
        );
        let (egress, ingress) = tokio::join!(measured(&read), measured(&written));
        is_near(ingress.1, 8.0 * MIB, "ingress beside egress");
        is_near(egress.1, 16.0 * MIB, "egress beside ingress");
        loops.iter().for_each(JoinHandle::abort);
    });
}

#[test]
fn server_side_copy_is_charged_as_read_and_write() {
    let _turn = MeasuringTurn::wait();
    for (last, port, what) in [(75, 24516, "ingress"), (76, 24517, "egress")] {
        let served = serve(&format!("limits = {{ {what} = \"16 MiB\" }}\n"), last, port);
        in_runtime(async {
            for (clients, who) in [CLIENTS[0], CLIENTS[1], ((2, 2), "two over either")] {
                let (_, copied) = rates(&served, clients, ClientOperation::Copy).await;
                is_near(copied, 16.0 * MIB, &format!("copied within the server, {what}, {who}"));
            }
        });
    }
}

#[test]
fn operations_on_names_have_a_limit_of_their_own() {
    let _turn = MeasuringTurn::wait();
    let served = serve("limits = { metadata_iops = 300 }\n", 62, 24503);
    in_runtime(async {
        // Two operations: CREATE and CLOSE.
        let (smb, _) = rates(&served, (1, 0), ClientOperation::Stat).await;
        is_near(smb * 2.0, 300.0, "opening and closing over SMB");
        let (nfs, _) = rates(&served, (0, 1), ClientOperation::Stat).await;
        is_near(nfs, 300.0, "looking up over NFS");
        let (reads, _) = rates(&served, (1, 0), ClientOperation::Read(4096)).await;
        assert!(reads > 1000.0, "{reads} reads a second, which are no metadata");
    });
}

#[test]
fn hot_file_is_throttled_and_other_files_are_not() {
    let _turn = MeasuringTurn::wait();
    let keys = "limits = { file_read_iops = 200, file_ingress = \"4 MiB\" }\n";
    let served = serve(keys, 63, 24504);
    in_runtime(async {
        let (hot, cool) = (Arc::new(WorkTally::default()), Arc::new(WorkTally::default()));
        let mut loops = Vec::new();
        for _ in 0..2 {
            loops.extend(
                smb_load(&served, ClientLoad::of("file0", ClientOperation::Read(4096)), &hot).await,
            );
        }
        loops.extend(
            nfs_load(&served, ClientLoad::of("file0", ClientOperation::Read(4096)), &hot).await,
        );
        loops.extend(
            nfs_load(&served, ClientLoad::of("file1", ClientOperation::Read(4096)), &cool).await,
        );
        let (hot, cool) = tokio::join!(measured(&hot), measured(&cool));
        is_near(hot.0, 200.0, "the hot file");
        is_near(cool.0, 200.0, "another file");
        loops.iter().for_each(JoinHandle::abort);
        let (_, ingress) = rates(&served, (1, 0), ClientOperation::Write(65_536)).await;
        is_near(ingress, 4.0 * MIB, "written to one file");
    });
}

/// Operations and bytes a second over SMB and over NFS, of clients that all use one file.
async fn on_one_file(
    served: &LimitedServer,
    (smb, nfs): (u8, u8),
    work: ClientOperation,
) -> [(f64, f64); 2] {
    let done = [Arc::new(WorkTally::default()), Arc::new(WorkTally::default())];
    let mut loops = Vec::new();
    for _ in 0..smb {
        loops.extend(smb_load(served, ClientLoad::of("file0", work), &done[0]).await);
    }
    for _ in 0..nfs {
        loops.extend(nfs_load(served, ClientLoad::of("file0", work), &done[1]).await);
    }
    let (over_smb, over_nfs) = tokio::join!(measured(&done[0]), measured(&done[1]));
    loops.iter().for_each(JoinHandle::abort);
    [over_smb, over_nfs]
}

/// Larger numbers of clients, for limits that other tests measure with few.
fn crowds() -> &'static [((u8, u8), &'static str)] {
    const ALL: [((u8, u8), &str); 6] = [
        ((8, 8), "eight over SMB and eight over NFS"),
        ((16, 0), "sixteen over SMB"),
        ((0, 16), "sixteen over NFS"),
        ((1, 1), "one over each"),
        ((1, 0), "one over SMB"),
        ((0, 1), "one over NFS"),
    ];
    if is_long() { &ALL } else { &ALL[..1] }
}

#[test]
fn names_and_single_files_are_held_against_a_crowd() {
    let _turn = MeasuringTurn::wait();
    let names = serve("limits = { metadata_iops = 300 }\n", 78, 24519);
    let keys =
        "limits = { file_read_iops = 200, file_ingress = \"4 MiB\", file_egress = \"8 MiB\" }\n";
    let file = serve(keys, 79, 24520);
    in_runtime(async {
        for (clients, who) in crowds() {
            // Two operations over SMB: CREATE and CLOSE.
            let [smb, nfs] = on_one_file(&names, *clients, ClientOperation::Stat).await;
            is_near(2.0 * smb.0 + nfs.0, 300.0, &format!("names, {who}"));
            let [smb, nfs] = on_one_file(&file, *clients, ClientOperation::Read(4096)).await;
            is_near(smb.0 + nfs.0, 200.0, &format!("operations on one file, {who}"));
            let [smb, nfs] = on_one_file(&file, *clients, ClientOperation::Write(65_536)).await;
            is_near(smb.1 + nfs.1, 4.0 * MIB, &format!("written to one file, {who}"));
            let [smb, nfs] = on_one_file(&file, *clients, ClientOperation::Read(65_536)).await;
            is_near(smb.1 + nfs.1, 8.0 * MIB, &format!("read of one file, {who}"));
        }
    });
}

#[test]
#[ignore = "minutes: cargo xtask bench limits"]
fn throughput_is_held_against_sixteen_of_one_protocol() {
    let _turn = MeasuringTurn::wait();
    let served = serve("limits = { ingress = \"8 MiB\", egress = \"16 MiB\" }\n", 80, 24521);
    in_runtime(async {
        for (clients, who) in [((16, 0), "sixteen over SMB"), ((0, 16), "sixteen over NFS")] {
            let (_, ingress) = rates(&served, clients, ClientOperation::Write(65_536)).await;
            is_near(ingress, 8.0 * MIB, &format!("ingress, {who}"));
            let (_, egress) = rates(&served, clients, ClientOperation::Read(65_536)).await;
            is_near(egress, 16.0 * MIB, &format!("egress, {who}"));
        }
    });
}

#[test]
fn sessions_have_equal_parts_however_much_each_asks_for() {
    let _turn = MeasuringTurn::wait();
    let served = serve("limits = { iops = 600 }\n", 64, 24505);
    in_runtime(async {
        let (greedy, modest) = (Arc::new(WorkTally::default()), Arc::new(WorkTally::default()));
        let tree =
            crate::support::library::client(&served.running).await.tree("data").await.unwrap();
        let file = Arc::new(tree.open("file0", &SmbOpenHow::read()).await.unwrap());
        let mut loops = Vec::new();
        for _ in 0..8 {
            let file = file.clone();
            loops.extend(in_loops(DEPTH, &greedy, move |_| {
                let file = file.clone();
                async move { file.read(0, 4096).await.unwrap().len() as u64 }
            }));
        }
        loops.extend(
            nfs_load(&served, ClientLoad::of("file1", ClientOperation::Read(4096)), &modest).await,
        );
        let (greedy, modest) = tokio::join!(measured(&greedy), measured(&modest));
        is_near(modest.0, 300.0, "the modest session");
        is_near(greedy.0, 300.0, "the greedy session");
        loops.iter().for_each(JoinHandle::abort);
    });
}

#[test]
fn reload_under_load_changes_limits_without_disconnects() {
    let _turn = MeasuringTurn::wait();
    let served = serve("limits = { iops = 200 }\n", 65, 24506);
    in_runtime(async {
        let done = Arc::new(WorkTally::default());
        let mut loops =
            smb_load(&served, ClientLoad::of("file0", ClientOperation::Read(4096)), &done).await;
        loops.extend(
            nfs_load(&served, ClientLoad::of("file1", ClientOperation::Read(4096)), &done).await,
        );
        is_near(measured(&done).await.0, 200.0, "at first");
        let faster = served.running.config().replace("iops = 200", "iops = 800");
        served.running.write_config(&faster);
        served.running.signal("HUP");
        is_near(measured(&done).await.0, 800.0, "after the reload");
        let off = served.running.config().replace("limits = { iops = 200 }", "");
        served.running.write_config(&off);
        served.running.signal("HUP");
        let (free, _) = measured(&done).await;
        assert!(free > 1500.0, "{free} a second without limits");
        // No loop has failed.
        assert!(loops.iter().all(|one| !one.is_finished()));
        loops.iter().for_each(JoinHandle::abort);
    });
}

/// A second share, `free`, without limits.
fn serve_neighbours(keys: &str, last: u8, port: u16) -> LimitedServer {
    let mut setup = Setup::new();
    setup.shares += "nfs_squash = \"none\"\n";
    setup.shares += keys;
    let free = setup.folder.path().join("free");
    std::fs::create_dir(&free).unwrap();
    std::fs::write(free.join("file0"), vec![7; 1 << 20]).unwrap();
    setup.shares += &format!(
        "[[share]]\nname = \"free\"\npath = \"{}\"\nnfs_squash = \"none\"\n",
        free.display()
    );
    let nfs = setup.serve_nfs(last, port);
    let running = setup.start();
    std::fs::write(running.data().join("file0"), vec![7; 1 << 20]).unwrap();
    LimitedServer { nfs, running }
}

#[test]
fn shares_of_one_session_do_not_hold_up_each_other() {
    let _turn = MeasuringTurn::wait();
    let served = serve_neighbours("limits = { iops = 100 }\n", 73, 24514);
    in_runtime(async {
        let (held, free) = (Arc::new(WorkTally::default()), Arc::new(WorkTally::default()));
        let client = crate::support::library::client(&served.running).await;
        let trees = [client.tree("data").await.unwrap(), client.tree("free").await.unwrap()];
        let mut loops = Vec::new();
        for (tree, name, done) in [(&trees[0], "file0", &held), (&trees[1], "file0", &free)] {
            let file = Arc::new(tree.open(name, &SmbOpenHow::read()).await.unwrap());
            loops.extend(in_loops(DEPTH, done, move |_| {
                let file = file.clone();
                async move { file.read(0, 4096).await.unwrap().len() as u64 }
            }));
        }
        let (held, free) = tokio::join!(measured(&held), measured(&free));
        is_near(held.0, 100.0, "the share that is held");
        assert!(free.0 > 5.0 * held.0, "{} a second on its neighbour", free.0);
        loops.iter().for_each(JoinHandle::abort);
    });
}

#[test]
fn requests_that_wait_end_with_their_session_and_hold_up_nobody() {
    let _turn = MeasuringTurn::wait();
    let served = serve("limits = { iops = 10 }\n", 66, 24507);
    in_runtime(async {
        let tree =
            crate::support::library::client(&served.running).await.tree("data").await.unwrap();
        let file = Arc::new(tree.open("file0", &SmbOpenHow::read()).await.unwrap());
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                let file = file.clone();
                tokio::spawn(async move { file.read(0, 4096).await.is_ok() })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let start = Instant::now();
        tree.client().close().await;
        let mut answered = 0;
        for read in waiting {
            answered += usize::from(read.await.unwrap());
        }
        assert!(answered < 50, "{answered} were answered by then");
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        // The session's turn is free, so another session gets the whole rate.
        let (iops, _) = rates(&served, (1, 0), ClientOperation::Read(4096)).await;
        assert!((8.0..13.0).contains(&iops), "{iops}");
    });
}

/// Number of opens over a protocol that count as refused by a limit; none may count as the server's
/// fault.
fn refused_by_limit(server: &ServerProcess, protocol: &str) -> u64 {
    let page = server.page("/metrics");
    let of = |response: &str| -> u64 {
        let labels = [format!("protocol=\"{protocol}\""), format!("response_type=\"{response}\"")];
        let lines = page.lines().filter(|line| line.starts_with("anabranch_transactions_total{"));
        let lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    };
    assert_eq!(of("ServerBusyError"), 0, "{page}");
    of("ClientThrottlingError")
}

#[test]
fn open_beyond_file_handle_limit_is_refused() {
    let _turn = MeasuringTurn::wait();
    let served = serve("limits = { file_handles = 3 }\n", 67, 24508);
    in_runtime(async {
        let tree =
            crate::support::library::client(&served.running).await.tree("data").await.unwrap();
        let mut files = Vec::new();
        for _ in 0..3 {
            files.push(tree.open("file0", &SmbOpenHow::read()).await.unwrap());
        }
        let refused = tree.open("file0", &SmbOpenHow::read()).await.unwrap_err().to_string();
        assert!(refused.contains("TOO_MANY_OPENED_FILES"), "{refused}");
        let export = crate::support::library::export(served.nfs, "data").await;
        // The client would retry for a long time.
        let open = export.open_file("file0", Disposition::Open);
        assert!(tokio::time::timeout(Duration::from_millis(200), open).await.is_err());
        assert!(refused_by_limit(&served.running, "SMB") == 1);
        assert!(refused_by_limit(&served.running, "NFS") > 0);
        tree.open("file1", &SmbOpenHow::read()).await.unwrap();
        files.pop().unwrap().close().await.unwrap();
        tree.open("file0", &SmbOpenHow::read()).await.unwrap();
    });
}

#[test]
fn full_share_refuses_writes_until_space_is_freed() {
    let _turn = MeasuringTurn::wait();
    let served = serve("provisioned_gib = 1\n", 68, 24509);
    // Allocates without writing, so that little space is left.
    let filler = std::fs::File::create(served.running.data().join("filler")).unwrap();
    rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), 0, 1000 << 20).unwrap();
    in_runtime(async {
        let tree =
            crate::support::library::client(&served.running).await.tree("data").await.unwrap();
        let export = crate::support::library::export(served.nfs, "data").await;
        // The server measures the used size again after a change.
        tree.open("new", &SmbOpenHow::read_write()).await.unwrap();
        let data = Bytes::from(vec![1; 1 << 20]);
        let full = wait_until_full(&tree, &data).await;
        assert!(full.contains("DISK_FULL"), "{full}");
        let file = export.open_file("other", Disposition::Create).await.unwrap();
        let refused = export.write(&file, 0, &data).await.unwrap_err().to_string();
        assert!(refused.contains("NOSPC"), "{refused}");
        // A full share still allows overwrites.
        export
            .write(&export.open_file("file1", Disposition::Open).await.unwrap(), 0, &data)
            .await
            .unwrap();
        tree.remove("filler").await.unwrap();
        let start = Instant::now();
        while export.write(&file, 0, &data).await.is_err() {
            assert!(start.elapsed() < crate::support::PATIENCE, "what was removed still counts");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}

/// Writes until a refusal, and returns it; the writes must not exceed the free space.
async fn wait_until_full(tree: &client::SmbTree, data: &Bytes) -> String {
    let start = Instant::now();
    let file = tree.open("grows", &SmbOpenHow::read_write()).await.unwrap();
    for at in 0..1024 {
        if let Err(refused) = file.write(at * data.len() as u64, data).await {
            assert!(at < 100, "{at} MiB were written though 8 were left");
            return refused.to_string();
        }
        // Waits until the measured size includes the test's own files.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(start.elapsed() < crate::support::PATIENCE, "it never was full");
    }
    panic!("a gigabyte was written");
}

/// Burst credits of the only share.
fn credits(server: &ServerProcess) -> u64 {
    let said: serde_json::Value =
        serde_json::from_str(&server.page("/v1/shares/data/limits")).unwrap();
    said["credits"]["available"].as_u64().unwrap()
}

#[test]
fn burst_credits_survive_stop_and_crash() {
    let _turn = MeasuringTurn::wait();
    // A second of the burst takes minutes to make up for.
    let keys = "limits = { iops = 10, burst_iops = 2010 }\n";
    let served = serve(keys, 77, 24518);
    let full = credits(&served.running);
    assert_eq!(full, 2000 * 3600, "a new share");
    let load = in_runtime(async { rates(&served, (1, 0), ClientOperation::Read(4096)).await.0 });
    assert!(load > 500.0, "{load}");
    // The refill of two minutes is small beside the credits used.
    let (left, soon) = (credits(&served.running), 120 * 10);
    assert!(left < full - 2 * soon, "{left}");
    let mut running = served.running;
    running.signal("TERM");
    assert!(running.ended().success());
    let mut running = running.kill().start();
    let kept = credits(&running);
    assert!((left - 100..left + soon).contains(&kept), "{kept} after {left}");
    // At its start the server stored the credits of that moment.
    let running = running.kill().start();
    let kept = credits(&running);
    assert!((left - 100..left + soon).contains(&kept), "{kept} after {left} and a crash");
}

#[test]
fn only_shares_of_some_classes_name_further_addresses() {
    let _turn = MeasuringTurn::wait();
    let keys = "class = \"standard\"\nprovisioned_gib = 100\n";
    let served = serve_neighbours(keys, 74, 24515);
    in_runtime(async {
        let client = crate::support::library::client_of(&served.running, 2).await;
        let _standard = client.tree("data").await.unwrap();
        let refused = client.interfaces().await.unwrap_err().to_string();
        assert!(refused.contains("FS_DRIVER_REQUIRED"), "{refused}");
        let _other = client.tree("free").await.unwrap();
        // The test's machine may have no address to advertise.
        let interfaces = client.interfaces().await.map_err(|error| error.to_string());
        assert!(
            !interfaces.is_err_and(|error| error.contains("FS_DRIVER_REQUIRED")),
            "another share, too"
        );
    });
}
