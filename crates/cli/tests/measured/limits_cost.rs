//! Cost of share limits in the built server. Limits that no load reaches are measured by the
//! server's CPU time with and without them; a throttled share is measured by its neighbour's
//! throughput. `cargo xtask bench limits` runs longer.

use crate::support::{MeasuringTurn, ServerProcess, Setup};
use bytes::Bytes;
use client::nfs::{Disposition, NfsExport, NfsFile};
use client::{SmbFile, SmbOpenHow, SmbTree};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, LocalSet};

const FILE_BYTES: u64 = 1 << 20;
/// CPUs of the server and of the load generator.
const CPUS: [usize; 2] = [0, 1];
/// Pause in which threads finish their work after the reply.
const SETTLE: Duration = Duration::from_millis(1);

/// Every kind of limit, so high that nothing reaches it.
const HIGH: &str = r#"{
    "limits.iops": 90000000, "limits.read_iops": 80000000, "limits.write_iops": 80000000,
    "limits.metadata_iops": 70000000, "limits.bandwidth": "900 GiB", "limits.ingress": "800 GiB",
    "limits.egress": "800 GiB", "limits.file_iops": 60000000, "limits.file_read_iops": 50000000,
    "limits.file_write_iops": 50000000, "limits.file_bandwidth": "700 GiB",
    "limits.file_ingress": "600 GiB", "limits.file_egress": "600 GiB",
    "limits.root_handles": 900000, "limits.file_handles": 800000, "provisioned_gib": 262144 }"#;

/// The same keys without limits.
fn none() -> String {
    let wish: serde_json::Map<String, serde_json::Value> = serde_json::from_str(HIGH).unwrap();
    let none = wish.into_iter().map(|(key, _)| (key, "default".into()));
    serde_json::Value::Object(none.collect()).to_string()
}

/// Seconds to measure, if `cargo xtask bench limits` asks for some.
fn seconds() -> Option<u64> {
    std::env::var("ANABRANCH_LIMITS_SECONDS").ok()?.parse().ok()
}

/// The operation that the client repeats.
#[derive(Clone, Copy, PartialEq)]
enum RepeatedOperation {
    Read(u32),
    Write(u32),
    Stat,
}

/// A connection and the requests to send on it.
#[derive(Clone)]
enum LoadedConnection {
    Smb(Rc<(SmbTree, SmbFile)>),
    Nfs(Rc<(NfsExport, NfsFile)>),
}

impl LoadedConnection {
    async fn smb(server: &ServerProcess, share: &str) -> Self {
        let tree = crate::support::library::share(server, share).await;
        let file = tree.open("file", &SmbOpenHow::read_write()).await.unwrap();
        Self::Smb(Rc::new((tree, file)))
    }

    async fn nfs(address: SocketAddr, share: &str) -> Self {
        let export = crate::support::library::export(address, share).await;
        let file = export.open_file("file", Disposition::Open).await.unwrap();
        Self::Nfs(Rc::new((export, file)))
    }

    async fn ask(&self, work: RepeatedOperation, number: u64) {
        let at = |bytes: u32| number * u64::from(bytes) % FILE_BYTES;
        match (self, work) {
            (Self::Smb(smb), RepeatedOperation::Read(bytes)) => {
                let data = smb.1.read(at(bytes), bytes).await.unwrap();
                assert_eq!(data.len(), bytes as usize);
            }
            (Self::Smb(smb), RepeatedOperation::Write(bytes)) => {
                let data = Bytes::from(vec![1; bytes as usize]);
                smb.1.write(at(bytes), &data).await.unwrap();
            }
            (Self::Smb(smb), RepeatedOperation::Stat) => drop(smb.0.stat("file").await.unwrap()),
            (Self::Nfs(nfs), RepeatedOperation::Read(bytes)) => {
                let data = nfs.0.read(&nfs.1, at(bytes), bytes).await.unwrap();
                assert_eq!(data.len(), bytes as usize);
            }
            (Self::Nfs(nfs), RepeatedOperation::Write(bytes)) => {
                let data = vec![1; bytes as usize];
                nfs.0.write(&nfs.1, at(bytes), &data).await.unwrap();
            }
            (Self::Nfs(nfs), RepeatedOperation::Stat) => drop(nfs.0.stat("file").await.unwrap()),
        }
    }

    /// Sends `count` requests, `depth` of them in flight.
    async fn ask_all(&self, TurnLoad { work, depth, count, .. }: TurnLoad) {
        let left = Rc::new(Cell::new(count));
        let asking = (0..depth).map(|_| {
            let (client, left) = (self.clone(), left.clone());
            tokio::task::spawn_local(async move {
                while let Some(next) = left.get().checked_sub(1) {
                    left.set(next);
                    client.ask(work, next).await;
                }
            })
        });
        for asking in asking.collect::<Vec<_>>() {
            asking.await.unwrap();
        }
    }
}

/// Number of requests of a kind in one turn.
#[derive(Clone, Copy)]
struct TurnLoad {
    name: &'static str,
    work: RepeatedOperation,
    depth: u64,
    count: u64,
}

const fn load(name: &'static str, work: RepeatedOperation, depth: u64, count: u64) -> TurnLoad {
    TurnLoad { name, work, depth, count }
}

/// A turn takes the server two or three milliseconds: other load on the machine disturbs many short
/// turns less than a few long ones.
const LOADS: [TurnLoad; 6] = [
    load("reads of 4 KiB, 32 at once", RepeatedOperation::Read(4096), 32, 512),
    load("reads of 4 KiB, one by one", RepeatedOperation::Read(4096), 1, 128),
    load("writes of 4 KiB, 32 at once", RepeatedOperation::Write(4096), 32, 512),
    load("reads of 1 MiB, 8 at once", RepeatedOperation::Read(1 << 20), 8, 24),
    load("writes of 1 MiB, 8 at once", RepeatedOperation::Write(1 << 20), 8, 16),
    load("names looked up, 8 at once", RepeatedOperation::Stat, 8, 192),
];

/// A server with the shares `data` and `free`, and its load generator, each on a CPU of its own
/// where the machine has two.
struct CostServer {
    running: ServerProcess,
    nfs: SocketAddr,
    local: LocalSet,
    runtime: Runtime,
}

impl CostServer {
    fn start(keys: &str, last: u8, port: u16) -> Self {
        let mut setup = Setup::new();
        setup.shares += &format!("nfs_squash = \"none\"\n{keys}");
        let free = setup.folder.path().join("free");
        std::fs::create_dir(&free).unwrap();
        let path = free.display();
        setup.shares +=
            &format!("[[share]]\nname = \"free\"\npath = \"{path}\"\nnfs_squash = \"none\"\n");
        if std::thread::available_parallelism().unwrap().get() > 1 {
            let on = ["taskset", "--cpu-list", &CPUS[0].to_string()].map(str::to_owned);
            setup.launcher = on.to_vec();
            stay_on(CPUS[1]);
        }
        let nfs = setup.serve_nfs(last, port);
        let running = setup.start();
        for folder in [running.data(), free] {
            std::fs::write(folder.join("file"), vec![7; FILE_BYTES as usize]).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { running, nfs, local: LocalSet::new(), runtime }
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.local.block_on(&self.runtime, work)
    }

    fn set_limits(&self, wish: &str) {
        let answer = self.running.ask("PATCH", "/v1/shares/data/limits", wish);
        assert!(answer.contains(" 200 "), "{answer}");
        std::thread::sleep(SETTLE);
    }

    /// CPU time of the server, in nanoseconds. Exact while it is idle: the kernel accounts a
    /// thread's time when the thread stops running.
    fn spent(&self) -> f64 {
        let tasks = format!("/proc/{}/task", self.running.process_id());
        let time = |task: std::fs::DirEntry| -> Option<f64> {
            let said = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            said.split(' ').next()?.parse().ok()
        };
        std::fs::read_dir(tasks).unwrap().filter_map(|task| time(task.ok()?)).sum()
    }

    /// One turn: microseconds of the server's CPU time for each request.
    fn turn(&self, client: &LoadedConnection, load: TurnLoad) -> f64 {
        let before = self.spent();
        self.wait(client.ask_all(load));
        std::thread::sleep(SETTLE);
        (self.spent() - before) / 1000.0 / load.count as f64
    }
}

/// Binds this thread, and threads that it starts, to one CPU.
fn stay_on(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}

/// The median with its 95 % confidence interval, from order statistics of the binomial
/// distribution.
fn middle(mut all: Vec<f64>) -> [f64; 3] {
    all.sort_by(f64::total_cmp);
    let (half, last) = (all.len() as f64 / 2.0, all.len() as f64 - 1.0);
    let reach = 0.98 * (all.len() as f64).sqrt();
    [half - reach, half, half + reach].map(|at| all[at.clamp(0.0, last) as usize])
}

/// Extra cost of a load under `wish`, measured in pairs of turns with and without limits: same
/// server, file and connection, in alternating order.
fn compare(
    served: &CostServer,
    client: &LoadedConnection,
    load: TurnLoad,
    wish: &str,
) -> [[f64; 3]; 3] {
    let (none, begun) = (none(), Instant::now());
    let [mut without, mut with, mut more] = [const { Vec::new() }; 3];
    let time = Duration::from_secs(seconds().unwrap_or(1));
    served.turn(client, load);
    while begun.elapsed() < time || more.len() < 4 {
        let mut pair = [0.0; 2];
        let order = if more.len() % 2 == 0 { [0, 1] } else { [1, 0] };
        for which in order {
            served.set_limits([none.as_str(), wish][which]);
            pair[which] = served.turn(client, load);
        }
        without.push(pair[0]);
        with.push(pair[1]);
        more.push(pair[1] / pair[0] - 1.0);
    }
    [without, with, more].map(middle)
}

fn row(what: &str, measured: [[f64; 3]; 3]) -> f64 {
    let [without, with, more] = measured;
    let [low, middle, high] = more.map(|part| 100.0 * part);
    println!(
        "| server's time, without and with limits: {what} | {:.2} us | {:.2} us | {middle:+.2} % ({low:+.2} to {high:+.2}) |",
        without[1], with[1]
    );
    // On a busy machine the interval is wide.
    let most = if seconds().is_some() { 2.0 } else { 30.0 };
    assert!(low < most, "{what}: at least {low} % more");
    high
}

#[test]
#[ignore = "minutes, and a CPU each for server and clients: cargo xtask bench limits"]
fn limits_that_nobody_reaches_cost_next_to_nothing() {
    let _turn = MeasuringTurn::wait();
    let served = CostServer::start("", 70, 24511);
    let smb = served.wait(LoadedConnection::smb(&served.running, "data"));
    let nfs = served.wait(LoadedConnection::nfs(served.nfs, "data"));
    let mut uncertain = Vec::new();
    for load in LOADS {
        for (client, over) in [(&smb, "SMB"), (&nfs, "NFS")] {
            let what = format!("{} over {over}", load.name);
            if row(&what, compare(&served, client, load, HIGH)) >= 2.0 {
                uncertain.push(what);
            }
        }
    }
    row("the same twice, without limits", compare(&served, &smb, LOADS[0], &none()));
    // A cost is below 2 % if its whole interval is.
    println!(
        "| rows that may be 2 % or more | 0 | {} | {} |",
        uncertain.len(),
        uncertain.join(", ")
    );
}

/// Load of the throttled share, beside its neighbour.
#[derive(Clone, Copy, PartialEq)]
enum ThrottledLoad {
    Nothing,
    /// As many requests as the limit permits.
    Modest,
    /// As many requests as possible, of which the limit permits few.
    Held,
}

const HELD_IOPS: u64 = 100;
const NEIGHBOUR: TurnLoad =
    load("reads of 4 KiB, 8 at once", RepeatedOperation::Read(4096), 8, 4096);

/// Starts the throttled share's load, which runs while the returned flag is true.
fn start(
    served: &CostServer,
    clients: &[LoadedConnection; 2],
    beside: ThrottledLoad,
) -> (Rc<Cell<bool>>, Tasks) {
    let goes_on = Rc::new(Cell::new(true));
    let (count, pause) = match beside {
        ThrottledLoad::Nothing => (0, None),
        ThrottledLoad::Modest => (1, Some(Duration::from_secs(1) / HELD_IOPS as u32)),
        ThrottledLoad::Held => (16, None),
    };
    let ask = |number: usize| {
        let (client, goes_on) = (clients[number % 2].clone(), goes_on.clone());
        let mut ticks = pause.map(tokio::time::interval);
        async move {
            while goes_on.get() {
                if let Some(ticks) = &mut ticks {
                    ticks.tick().await;
                }
                client.ask(NEIGHBOUR.work, 0).await;
            }
        }
    };
    let tasks =
        served.wait(async { (0..count).map(|n| tokio::task::spawn_local(ask(n))).collect() });
    (goes_on, tasks)
}

type Tasks = Vec<JoinHandle<()>>;

/// Requests a second of the neighbour beside that load, and the server's CPU time for each in
/// microseconds, including its work for the throttled share.
fn neighbours_turn(
    served: &CostServer,
    free: &LoadedConnection,
    held: &[LoadedConnection; 2],
    beside: ThrottledLoad,
) -> [f64; 2] {
    let (goes_on, tasks) = start(served, held, beside);
    // Waits until the load has used its initial tokens.
    served.wait(async { tokio::time::sleep(Duration::from_millis(20)).await });
    let begun = Instant::now();
    let before = served.spent();
    served.wait(free.ask_all(NEIGHBOUR));
    let seconds = begun.elapsed().as_secs_f64();
    let spent = served.spent() - before;
    goes_on.set(false);
    for task in tasks {
        served.wait(task).unwrap();
    }
    std::thread::sleep(SETTLE);
    [NEIGHBOUR.count as f64 / seconds, spent / 1000.0 / NEIGHBOUR.count as f64]
}

#[test]
fn throttled_share_does_not_slow_its_neighbour() {
    let _turn = MeasuringTurn::wait();
    let keys = format!("limits = {{ iops = {HELD_IOPS} }}\n");
    let served = CostServer::start(&keys, 72, 24513);
    let free = served.wait(LoadedConnection::smb(&served.running, "free"));
    let held = [
        served.wait(LoadedConnection::smb(&served.running, "data")),
        served.wait(LoadedConnection::nfs(served.nfs, "data")),
    ];
    let time = Duration::from_secs(seconds().map_or(2, |seconds| 4 * seconds));
    let (begun, mut turns) = (Instant::now(), Vec::new());
    let mut order = [ThrottledLoad::Nothing, ThrottledLoad::Modest, ThrottledLoad::Held];
    served.turn(&free, NEIGHBOUR);
    while begun.elapsed() < time || turns.len() < 4 {
        let mut three = [[0.0; 2]; 3];
        for beside in order {
            three[beside as usize] = neighbours_turn(&served, &free, &held, beside);
        }
        turns.push(three);
        // All orders in turn, so that each load comes first and after each other once.
        order.rotate_left(1);
        if turns.len() % 3 == 0 {
            order.swap(0, 1);
        }
    }
    let limits = served.running.page("/v1/shares/data/limits");
    let limits: serde_json::Value = serde_json::from_str(&limits).unwrap();
    assert!(limits["throttled"]["iops"].as_u64().unwrap() > 0, "it was not held");
    let of = |beside: ThrottledLoad, figure: usize| {
        middle(turns.iter().map(|three| three[beside as usize][figure]).collect())[1]
    };
    for (other, what) in
        [(ThrottledLoad::Nothing, "alone"), (ThrottledLoad::Modest, "beside a modest share")]
    {
        for (figure, unit) in ["reads/s", "us of the server for each"].into_iter().enumerate() {
            let part = |three: &[[f64; 2]; 3]| {
                three[ThrottledLoad::Held as usize][figure] / three[other as usize][figure] - 1.0
            };
            let [low, middle, high] =
                middle(turns.iter().map(part).collect()).map(|part| 100.0 * part);
            println!(
                "| the neighbour {what}, and beside a share that is held: {unit} | {:.2} | {:.2} | {middle:+.2} % ({low:+.2} to {high:+.2}) |",
                of(other, figure),
                of(ThrottledLoad::Held, figure)
            );
            // Fewer requests are a loss, and so is more time.
            let loss = if figure == 0 { -high } else { low };
            let most = if seconds().is_some() { 5.0 } else { 50.0 };
            assert!(loss < most, "{what}, {unit}: at least {loss} % are lost");
        }
    }
}
