//! Probes a host layer by layer, from its name upwards; each layer has a timeout.

use super::ProbePlan;
use super::target::ProbedPort;
use crate::remote::{self, RemoteUrl, SystemHost, connect_nfs, connect_smb, own_name};
use advise::probe::{Connects, ProbedHost, ProbedSession, Reads, ServerNegotiation};
use advise::{Attempt, InterfaceFacts};
use anyhow::{Context, Result, bail};
use client::load::{LoadKind, LoaderRun, RunLimit, Storage};
use client::{SmbClient, load, nfs, probe};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wire::smb::NetworkInterface;
use wire::smb::negotiate::{SIGNING_REQUIRED, capabilities};

/// The file that is read: so large, in so many requests at a time.
const FILE_BYTES: u64 = 8 << 20;
const SMALL_BYTES: u32 = 4096;
const LARGE_BYTES_MAX: u32 = 1 << 20;
const LARGE_DEPTH: usize = 16;
/// How long reads are measured, if the layer's time allows.
const READ_SECONDS: f64 = 1.5;
const CAPABILITIES: [(u32, &str); 7] = [
    (capabilities::DFS, "DFS"),
    (capabilities::LEASING, "leasing"),
    (capabilities::LARGE_MTU, "large requests"),
    (capabilities::MULTI_CHANNEL, "multichannel"),
    (capabilities::PERSISTENT_HANDLES, "persistent handles"),
    (capabilities::DIRECTORY_LEASING, "directory leasing"),
    (capabilities::ENCRYPTION, "encryption"),
];

/// Probes all hosts: connects run in parallel, as they do not disturb each other; the layers above
/// run one host after the other, as reads compete for the link.
pub async fn all(places: Vec<ProbedPort>, plan: ProbePlan) -> Vec<ProbedHost> {
    let connecting: Vec<_> =
        places.iter().map(|place| tokio::spawn(below(place.clone(), plan))).collect();
    let mut hosts = Vec::new();
    for (place, connecting) in places.iter().zip(connecting) {
        let (mut host, address) = connecting.await.unwrap_or_default();
        if let Some(address) = address.filter(|_| host.connects.lost < host.connects.count) {
            above(&mut host, place, address, plan).await;
        }
        hosts.push(host);
    }
    hosts
}

/// Turns a timeout into an error.
async fn within<T>(time: Duration, what: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(time, what).await {
        Ok(result) => result,
        Err(_) => bail!("no answer within {} s", time.as_secs_f64()),
    }
}

fn attempt<T>(result: Result<T>) -> Attempt<T> {
    result.map_err(|error| format!("{error:#}")).into()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Resolves the name and measures TCP connects.
async fn below(place: ProbedPort, plan: ProbePlan) -> (ProbedHost, Option<SocketAddr>) {
    let mut host = ProbedHost {
        name: place.host.clone(),
        protocol: if place.is_nfs { "NFS" } else { "SMB" }.into(),
        port: place.port,
        ..ProbedHost::default()
    };
    let name = (place.host.as_str(), place.port);
    let found = within(plan.within, async {
        let mut found = tokio::net::lookup_host(name).await?;
        found.next().context("the name has no address")
    });
    let found = found.await;
    host.address =
        attempt(found.as_ref().map(|a| a.ip().to_string()).map_err(|e| anyhow::anyhow!("{e:#}")));
    let Ok(address) = found else { return (host, None) };
    let (begun, mut times, mut failure) = (Instant::now(), Vec::new(), None);
    let mut count = 0;
    while count < plan.count {
        let left = plan.within.saturating_sub(begun.elapsed());
        // A connect without enough time left to fail would count as lost.
        if count > 0 && left < plan.within / 4 {
            break;
        }
        count += 1;
        match probe::connect(address, left.min(plan.within / 4)).await {
            Ok(time) => times.push(millis(time)),
            Err(error) => failure = Some(error.to_string()),
        }
        tokio::time::sleep(plan.interval).await;
    }
    host.connects = Connects::new(count as usize, times, failure);
    (host, Some(address))
}

async fn above(host: &mut ProbedHost, place: &ProbedPort, address: SocketAddr, plan: ProbePlan) {
    host.negotiation = match place.is_nfs {
        true => attempt(within(plan.within, nfs_greeting(place, address)).await),
        false => attempt(within(plan.within * 2, smb_greeting(address, plan)).await),
    };
    if host.negotiation.done().is_none() {
        return;
    }
    match (&place.url, &place.password) {
        (Some(RemoteUrl::Smb(url)), Some(password)) => {
            let begun = Instant::now();
            let options = remote::options(plan.channels);
            let connected = within(plan.within, connect_smb(url, password, options)).await;
            let took = begun.elapsed();
            let client = match connected {
                Ok(client) => client,
                Err(error) => return host.session = Attempt::Failed(format!("{error:#}")),
            };
            host.session = Attempt::Done(smb_session(&client, took, plan).await);
            let begun = Instant::now();
            let tree = within(plan.within, async { Ok(client.tree(&url.share).await?) }).await;
            host.share = attempt(
                tree.as_ref()
                    .map(|_| millis(begun.elapsed()))
                    .map_err(|e| anyhow::anyhow!("{e:#}")),
            );
            if let Ok(tree) = tree {
                reads(host, tree, &url.folder, plan).await;
            }
            client.close().await;
        }
        (Some(RemoteUrl::Nfs(url)), _) => {
            let begun = Instant::now();
            let connecting = connect_nfs(&url.host, url.port, 1, plan.channels);
            let client = match within(plan.within, connecting).await {
                Ok(client) => client,
                Err(error) => return host.session = Attempt::Failed(format!("{error:#}")),
            };
            host.session = Attempt::Done(nfs_session(&client, begun.elapsed(), plan));
            let begun = Instant::now();
            let opening = nfs::NfsExport::open(client.clone(), &url.path);
            let export = within(plan.within, async { Ok(opening.await?) }).await;
            host.share = attempt(
                export
                    .as_ref()
                    .map(|_| millis(begun.elapsed()))
                    .map_err(|e| anyhow::anyhow!("{e:#}")),
            );
            if let Ok(export) = export {
                reads(host, export, "", plan).await;
            }
            let _ = tokio::time::timeout(plan.within, client.close()).await;
        }
        _ => {}
    }
}

async fn smb_greeting(address: SocketAddr, plan: ProbePlan) -> Result<ServerNegotiation> {
    // A server reports Multichannel only to clients that announce it.
    let options = remote::options(2);
    let (took, found) = probe::negotiate(address, &options, &SystemHost, plan.within).await?;
    // Further NEGOTIATEs that time out must not turn a slow server into a broken one.
    let asking = probe::offers(address, &options, &SystemHost, plan.within / 4);
    let offers = tokio::time::timeout(plan.within, asking).await.unwrap_or_default();
    let says = |(bit, name): &(u32, &str)| (found.capabilities & bit != 0).then(|| (*name).into());
    Ok(ServerNegotiation {
        ms: millis(took),
        dialect: found.dialect.to_string(),
        dialects: offers.dialects.iter().map(ToString::to_string).collect(),
        ciphers: offers.ciphers.iter().map(|one| one.name().to_owned()).collect(),
        signing_algorithms: offers.signing_algorithms.iter().map(|a| a.name().to_owned()).collect(),
        signing_required: found.security_mode & SIGNING_REQUIRED != 0,
        capabilities: CAPABILITIES.iter().filter_map(says).collect(),
        read_bytes_max: found.read_bytes_max,
        write_bytes_max: found.write_bytes_max,
    })
}

/// Sends NULL (RFC 8881, 16.1), then opens a session in each minor version.
async fn nfs_greeting(place: &ProbedPort, address: SocketAddr) -> Result<ServerNegotiation> {
    let begun = Instant::now();
    nfs::null(address).await?;
    let mut negotiation =
        ServerNegotiation { ms: millis(begun.elapsed()), ..ServerNegotiation::default() };
    let mut refusal = None;
    for minor_version in [1, 2] {
        match connect_nfs(&place.host, place.port, minor_version, 1).await {
            Ok(client) => {
                negotiation.dialect = client.version();
                negotiation.dialects.push(client.version());
                negotiation.read_bytes_max = client.io_bytes_max();
                negotiation.write_bytes_max = client.io_bytes_max();
                client.close().await;
            }
            Err(error) => refusal = Some(error),
        }
    }
    match refusal {
        Some(error) if negotiation.dialects.is_empty() => Err(error),
        _ => Ok(negotiation),
    }
}

async fn smb_session(client: &SmbClient, took: Duration, plan: ProbePlan) -> ProbedSession {
    let (negotiated, session) = (client.negotiated(), client.session());
    let interfaces = within(plan.within, async { Ok(client.interfaces().await?) }).await;
    let channels = client.channels();
    ProbedSession {
        ms: millis(took),
        signing: if session.signs && !session.seals { negotiated.signing.name() } else { "off" }
            .into(),
        cipher: negotiated.cipher.filter(|_| session.seals).map_or("off", |c| c.name()).into(),
        channels_requested: plan.channels,
        channels: channels.len(),
        channel_refusal: client.refusal().map(|refusal| refusal.to_string()),
        credits: channels.iter().map(|channel| channel.credits).collect(),
        interfaces: attempt(interfaces.map(|all| interfaces_of(&all))),
    }
}

/// The interfaces that a server advertises, with the addresses of each index merged.
pub fn interfaces_of(advertised: &[NetworkInterface]) -> Vec<InterfaceFacts> {
    let mut out: Vec<InterfaceFacts> = Vec::new();
    for one in advertised {
        let ip = one.address.to_string();
        if let Some(known) = out.iter_mut().find(|known| known.interface_index == one.index) {
            known.ip_addresses.push(ip);
            continue;
        }
        out.push(InterfaceFacts {
            friendly_name: String::new(),
            interface_index: one.index,
            ip_addresses: vec![ip],
            link_speed: one.bits_per_second,
            rss_capable: one.capability & NetworkInterface::RSS != 0,
            rdma_capable: one.capability & NetworkInterface::RDMA != 0,
        });
    }
    out
}

fn nfs_session(client: &nfs::NfsClient, took: Duration, plan: ProbePlan) -> ProbedSession {
    ProbedSession {
        ms: millis(took),
        signing: "off".into(),
        cipher: "off".into(),
        channels_requested: plan.channels,
        channels: client.connection_bytes().len(),
        channel_refusal: None,
        credits: vec![client.slots()],
        interfaces: Attempt::NotTested,
    }
}

/// Creates a file, reads it in small and in large requests, and removes it.
async fn reads<S: Storage>(host: &mut ProbedHost, storage: S, folder: &str, plan: ProbePlan) {
    let large = LARGE_BYTES_MAX.min(storage.block_bytes_max());
    let small_plan = read_plan(folder, SMALL_BYTES.min(large), 1, plan);
    let large_plan = load::Plan { random: false, ..read_plan(folder, large, LARGE_DEPTH, plan) };
    let mut run = match LoaderRun::new(storage, small_plan, &own_name("probe")) {
        Ok(run) => run,
        Err(error) => return host.small_reads = Attempt::Failed(error.to_string()),
    };
    let result = within(plan.within, async { Ok(run.prepare().await?) }).await;
    match result {
        Err(error) => host.small_reads = Attempt::Failed(format!("no file was created: {error:#}")),
        Ok(()) => {
            host.small_reads = attempt(within(plan.within, read(&mut run)).await);
            if host.small_reads.done().is_some() {
                host.large_reads = match run.change(large_plan) {
                    Ok(()) => attempt(within(plan.within, read(&mut run)).await),
                    Err(error) => Attempt::Failed(error.to_string()),
                };
            }
        }
    }
    let _ = tokio::time::timeout(plan.within, run.clean()).await;
}

fn read_plan(folder: &str, block_bytes: u32, depth: usize, plan: ProbePlan) -> load::Plan {
    load::Plan {
        work: LoadKind::Data,
        folder: folder.to_owned(),
        block_bytes,
        depth,
        threads: 1,
        files: 1,
        file_bytes: FILE_BYTES,
        random: true,
        read_percent: 100,
        until: RunLimit::Seconds(READ_SECONDS.min(plan.within.as_secs_f64() / 4.0)),
        warm_up_seconds: (READ_SECONDS / 5.0).min(plan.within.as_secs_f64() / 8.0),
        verify: false,
        seed: 1,
    }
}

async fn read<S: Storage>(run: &mut LoaderRun<S>) -> Result<Reads> {
    let report = run.measure(None, |_| {}).await?;
    let figures = report.operations.first().context("nothing was read in time")?;
    Ok(Reads {
        block_bytes: report.plan.block_bytes,
        depth: report.plan.depth * report.plan.threads,
        per_second: figures.per_second,
        bytes_per_second: figures.bytes_per_second,
        p50_ms: figures.latency_us.p50 / 1000.0,
        p99_ms: figures.latency_us.p99 / 1000.0,
    })
}
