//! The matrix of loads: each for a short time, few connections and many in turns.

use super::Args;
use super::machine::{is_public, machine};
use crate::probe::interfaces_of;
use crate::remote::{self, RemoteUrl, connect_nfs, connect_smb, own_name};
use advise::{MeasuredLoad, MeasurementFacts, ServerProduct, WorkloadClass};
use anyhow::{Context, Result};
use client::load::{LoadKind, LoaderRun, Plan, Report, RunLimit, Storage};
use client::{SmbClient, SmbOpenHow, SmbTree, nfs, probe};
use std::io::IsTerminal;
use std::net::ToSocketAddrs;
use std::time::Duration;
use wire::ntlm::NtlmVersion;
use wire::smb::negotiate::capabilities;

const BLOCKS: [u32; 3] = [4096, 65_536, 1 << 20];
/// How often each load is measured: the spread of the rounds is noise.
const ROUNDS: usize = 3;
const DEPTHS: [usize; 5] = [1, 4, 16, 64, 128];
/// Requests in flight of a deep load: threads times depth.
const MANY: usize = 32;
const FILES: usize = 4;
const FILE_BYTES: u64 = 4 << 20;
/// Part of each load's time that is warm-up, and not counted.
const WARM_UP: f64 = 0.2;
/// Number of connects that measure the round trip.
const CONNECTS: usize = 8;
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Grace beyond a load's time before the measurement fails with a timeout.
const LOAD_PATIENCE: Duration = Duration::from_secs(20);
/// Attempts of a load whose short time ended before any reply.
const TRIES_MAX: usize = 4;
/// FileFsObjectIdInformation, its length, and the offset of ExtendedInfo. MS-FSCC 2.5.6.
const FS_OBJECT_ID: u8 = 8;
const FS_OBJECT_ID_BYTES: u32 = 64;
const EXTENDED_INFO_AT: usize = 16;
const CLEAN_WITHIN: Duration = Duration::from_secs(20);

/// Collects all facts that the rules of `advise` evaluate.
pub async fn facts(args: &Args, password: &str) -> Result<MeasurementFacts> {
    let (host, port) = match &args.url {
        RemoteUrl::Smb(url) => (url.host.as_str(), url.port),
        RemoteUrl::Nfs(url) => (url.host.as_str(), url.port),
    };
    let addresses: Vec<_> = (host, port)
        .to_socket_addrs()
        .with_context(|| format!("cannot resolve the host {host}"))?
        .collect();
    let first = *addresses.first().context("the host has no address")?;
    let mut round_trip_ms = f64::MAX;
    for _ in 0..CONNECTS {
        let took = probe::connect(first, CONNECT_WITHIN).await.context(first)?;
        round_trip_ms = round_trip_ms.min(took.as_secs_f64() * 1000.0);
    }
    let mut named: Vec<String> = addresses.iter().map(|one| one.ip().to_string()).collect();
    named.dedup();
    let mut facts = MeasurementFacts {
        server: host.to_owned(),
        port,
        is_public: addresses.iter().any(|one| is_public(one.ip())),
        addresses: named,
        round_trip_ms,
        client: machine(),
        target_bytes_per_second: args.target.map(|bytes| bytes as f64),
        ..MeasurementFacts::default()
    };
    match &args.url {
        RemoteUrl::Smb(_) => smb(args, password, &mut facts).await?,
        RemoteUrl::Nfs(_) => nfs(args, &mut facts).await?,
    }
    Ok(facts)
}

/// The numbers of connections, from few to many, each once.
fn arms(args: &Args) -> Vec<usize> {
    let mut arms: Vec<usize> = args.connections.iter().map(|count| usize::from(*count)).collect();
    arms.sort_unstable();
    arms.dedup();
    arms
}

async fn smb(args: &Args, password: &str, facts: &mut MeasurementFacts) -> Result<()> {
    let RemoteUrl::Smb(url) = &args.url else {
        anyhow::bail!("the URL must be that of a share, such as smb://HOST/SHARE")
    };
    facts.share.clone_from(&url.share);
    facts.user.clone_from(&url.user);
    let (mut clients, mut runs) = (Vec::new(), Vec::new());
    let wanted = arms(args);
    let mut established: Vec<usize> = Vec::new();
    for arm in &wanted {
        let client = connect_smb(url, password, remote::options(*arm)).await?;
        let count = client.channels().len();
        // A number that the server does not permit is measured as the one that it does.
        if !established.contains(&count) {
            let tree = client.tree(&url.share).await.with_context(|| url.share.clone())?;
            if established.is_empty() {
                facts.server_product = product(&tree, client.session().server_version).await;
            }
            runs.push((count, tree));
            established.push(count);
        }
        clients.push(client);
    }
    let name = own_name("advise");
    let plan = base(&url.folder, args, runs.len());
    let runs = runs.into_iter().map(|(count, tree)| {
        anyhow::Ok((count, LoaderRun::new(tree, plan.clone(), &format!("{name}-{count}"))?))
    });
    let mut runs = runs.collect::<Result<Vec<_>>>()?;
    if let Some(client) = clients.last() {
        facts.only_channel =
            (established == [1] && wanted.last() > Some(&1)).then(|| only_channel(client));
        let (negotiated, session) = (client.negotiated(), client.session());
        facts.dialect = negotiated.dialect.to_string();
        facts.signing =
            if session.signs && !session.seals { negotiated.signing.name() } else { "off" }.into();
        facts.cipher =
            negotiated.cipher.filter(|_| session.seals).map_or("off", |c| c.name()).into();
        facts.offers_channels = negotiated.capabilities & capabilities::MULTI_CHANNEL != 0;
        facts.channels_requested = wanted.last().copied().unwrap_or(1);
        facts.channels_established = client.channels().len();
        facts.server_interfaces = interfaces_of(&client.interfaces().await.unwrap_or_default());
    }
    let measured = matrix(args, &mut runs, facts).await;
    for client in clients {
        client.close().await;
    }
    measured
}

async fn nfs(args: &Args, facts: &mut MeasurementFacts) -> Result<()> {
    let RemoteUrl::Nfs(url) = &args.url else {
        anyhow::bail!("the URL must be that of an export, such as nfs://HOST/EXPORT")
    };
    facts.is_nfs = true;
    facts.share.clone_from(&url.path);
    facts.offers_channels = true;
    (facts.signing, facts.cipher) = ("off".into(), "off".into());
    let (mut clients, mut runs) = (Vec::new(), Vec::new());
    for arm in arms(args) {
        let client = connect_nfs(&url.host, url.port, 1, arm).await?;
        let export = nfs::NfsExport::open(client.clone(), &url.path).await;
        let export = export.with_context(|| format!("/{}", url.path))?;
        let plan = base("", args, arms(args).len());
        runs.push((arm, LoaderRun::new(export, plan, &own_name("advise"))?));
        facts.dialect = client.version();
        facts.channels_requested = arm;
        facts.channels_established = client.connection_bytes().len();
        clients.push(client);
    }
    let measured = matrix(args, &mut runs, facts).await;
    for client in clients {
        let _ = tokio::time::timeout(CLEAN_WITHIN, client.close()).await;
    }
    measured
}

/// The product of the server, by its share's root and its logon.
async fn product(tree: &SmbTree, version: Option<NtlmVersion>) -> ServerProduct {
    let info = async {
        let root = tree.open("", &SmbOpenHow::list()).await?;
        let info = root.query_fs_info(FS_OBJECT_ID, FS_OBJECT_ID_BYTES).await;
        let _ = root.close().await;
        info
    };
    // Some servers refuse the query.
    let info = info.await.unwrap_or_default();
    let extended = info.get(EXTENDED_INFO_AT..).unwrap_or_default();
    ServerProduct::of(extended, version.map(|version| version.build))
}

/// The reason for which a session has one channel.
fn only_channel(client: &SmbClient) -> String {
    let offered = client.negotiated().capabilities;
    match client.refusal() {
        Some(client::Error::Incompatible(why)) => why.into(),
        Some(refusal) => refusal.to_string(),
        None if offered & capabilities::MULTI_CHANNEL == 0 => {
            "the server does not offer Multichannel".into()
        }
        None => "the server advertises no adapter with RSS and no second adapter".into(),
    }
}

/// A plan that all others are changed from: its files are made full.
fn base(folder: &str, args: &Args, arms: usize) -> Plan {
    let each_arm = WorkloadClass::ALL.len() * BLOCKS.len() * 2;
    let loads = (each_arm * arms + DEPTHS.len()) * ROUNDS;
    let each = f64::from(args.seconds) / loads as f64;
    Plan {
        work: LoadKind::Data,
        folder: folder.to_owned(),
        block_bytes: BLOCKS[0],
        depth: 1,
        threads: 1,
        files: FILES,
        file_bytes: FILE_BYTES,
        random: true,
        read_percent: 100,
        until: RunLimit::Seconds(each * (1.0 - WARM_UP)),
        warm_up_seconds: each * WARM_UP,
        verify: false,
        seed: 1,
    }
}

async fn matrix<S: Storage>(
    args: &Args,
    runs: &mut [(usize, LoaderRun<S>)],
    facts: &mut MeasurementFacts,
) -> Result<()> {
    let measured = async {
        for (_, run) in runs.iter_mut() {
            tokio::time::timeout(LOAD_PATIENCE, run.prepare())
                .await
                .context("creating a few small files takes too long")??;
        }
        loads(args, runs, facts).await
    };
    let measured = tokio::select! {
        measured = measured => measured,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    for (_, run) in runs.iter_mut() {
        let _ = tokio::time::timeout(CLEAN_WITHIN, run.clean()).await;
    }
    measured
}

async fn loads<S: Storage>(
    args: &Args,
    runs: &mut [(usize, LoaderRun<S>)],
    facts: &mut MeasurementFacts,
) -> Result<()> {
    let base = runs.first().context("no number of connections")?.1.plan().clone();
    facts.warm_up_seconds = base.warm_up_seconds;
    let most = runs.first().map_or(BLOCKS[2], |(_, run)| run.block_bytes_max());
    let mut tell = ProgressLine::new(args, WorkloadClass::ALL.len() * BLOCKS.len() * 2);
    for class in WorkloadClass::ALL {
        for block_bytes in BLOCKS.map(|block| block.min(most)) {
            for read_percent in [100, 0] {
                let plan = Plan {
                    block_bytes,
                    read_percent,
                    depth: if class.is_single() { 1 } else { MANY },
                    files: if class.has_many_files() { FILES } else { 1 },
                    ..base.clone()
                };
                tell.step(class, block_bytes, read_percent);
                facts.cells.extend(in_turns(args, runs, class, &plan).await?);
            }
        }
    }
    let Some((arm, run)) = runs.last_mut() else { return Ok(()) };
    let mut rounds: Vec<Vec<MeasuredLoad>> = vec![Vec::new(); DEPTHS.len()];
    for _ in 0..ROUNDS {
        for (cells, depth) in rounds.iter_mut().zip(DEPTHS) {
            let plan = Plan { depth, ..base.clone() };
            let class = match depth {
                1 => WorkloadClass::SingleManyFiles,
                _ => WorkloadClass::ManyManyFiles,
            };
            cells.extend(load(args, run, *arm, class, plan).await?);
        }
    }
    facts.depths.extend(rounds.iter().filter_map(|cells| together(cells)));
    tell.end();
    Ok(())
}

/// Measures one load over each number of connections in turns, so that disturbances on the link
/// hit all alike, and the spread between rounds shows chance.
async fn in_turns<S: Storage>(
    args: &Args,
    runs: &mut [(usize, LoaderRun<S>)],
    class: WorkloadClass,
    plan: &Plan,
) -> Result<Vec<MeasuredLoad>> {
    let mut rounds: Vec<Vec<MeasuredLoad>> = vec![Vec::new(); runs.len()];
    for _ in 0..ROUNDS {
        for (cells, (arm, run)) in rounds.iter_mut().zip(runs.iter_mut()) {
            cells.extend(load(args, run, *arm, class, plan.clone()).await?);
        }
    }
    Ok(rounds.iter().filter_map(|cells| together(cells)).collect())
}

/// Merges the rounds of one load: means, and the rate of each round.
fn together(cells: &[MeasuredLoad]) -> Option<MeasuredLoad> {
    let mean =
        |of: fn(&MeasuredLoad) -> f64| cells.iter().map(of).sum::<f64>() / cells.len() as f64;
    let first = cells.first()?;
    Some(MeasuredLoad {
        per_second: mean(|cell| cell.per_second),
        bytes_per_second: mean(|cell| cell.bytes_per_second),
        p50_us: mean(|cell| cell.p50_us),
        p99_us: mean(|cell| cell.p99_us),
        client_cpus: mean(|cell| cell.client_cpus),
        rounds: cells.iter().map(|cell| cell.per_second).collect(),
        ..first.clone()
    })
}

/// Measures one load; none if no attempt had a reply in its time.
async fn load<S: Storage>(
    args: &Args,
    run: &mut LoaderRun<S>,
    connections: usize,
    class: WorkloadClass,
    plan: Plan,
) -> Result<Option<MeasuredLoad>> {
    run.change(plan)?;
    let patience = LOAD_PATIENCE + Duration::from_secs(args.seconds.into());
    for _ in 0..TRIES_MAX {
        let report = tokio::time::timeout(patience, run.measure(args.server_pid, |_| {})).await;
        let report = report.context("the server does not answer")??;
        if let Some(cell) = cell(&report, connections, class) {
            return Ok(Some(cell));
        }
    }
    Ok(None)
}

fn cell(report: &Report, connections: usize, class: WorkloadClass) -> Option<MeasuredLoad> {
    let figures = report.operations.first()?;
    Some(MeasuredLoad {
        class,
        connections,
        depth: report.plan.depth,
        block_bytes: report.plan.block_bytes,
        is_read: report.plan.read_percent == 100,
        per_second: figures.per_second,
        rounds: Vec::new(),
        bytes_per_second: figures.bytes_per_second,
        p50_us: figures.latency_us.p50,
        p99_us: figures.latency_us.p99,
        client_cpus: report.client_cpu_seconds / report.seconds,
        server_cpus: report.server_cpu_seconds.map(|used| used / report.seconds),
    })
}

/// Writes the progress line.
struct ProgressLine {
    shows: bool,
    at: usize,
    of: usize,
}

impl ProgressLine {
    fn new(args: &Args, of: usize) -> Self {
        Self { shows: !args.quiet, at: 0, of }
    }

    fn step(&mut self, class: WorkloadClass, block_bytes: u32, read_percent: u8) {
        self.at += 1;
        if !self.shows {
            return;
        }
        let kind = if read_percent == 100 { "read" } else { "write" };
        let block = advise::size(f64::from(block_bytes));
        let text = format!("{}/{} {}, {block} {kind}", self.at, self.of, class.name());
        if std::io::stderr().is_terminal() {
            err!("\r\x1b[K{text}");
        } else {
            errln!("{text}");
        }
    }

    fn end(&self) {
        if self.shows && std::io::stderr().is_terminal() {
            err!("\r\x1b[K");
        }
    }
}
