//! Opens channels to any server as a client, and measures them under load.

use super::{Args, sockets};
use crate::output;
use crate::probe::interfaces_of;
use crate::remote::{self, RemoteUrl, connect_nfs, connect_smb, own_name};
use advise::InterfaceFacts;
use advise::channels::{ConnectionFacts, LoadedSessionFacts, imbalance, shown, steps};
use anyhow::{Context, Result};
use client::load::{LoadKind, LoaderRun, Plan, Report, RunLimit, Storage};
use client::{SmbClient, nfs};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;
use wire::smb::negotiate::capabilities;

/// The load: reads and writes in pieces of this size, so many at once, on so many files.
const BLOCK_BYTES: u32 = 256 * 1024;
const DEPTH_PER_CHANNEL: usize = 8;
const FILES: usize = 4;
const FILE_BYTES: u64 = 4 << 20;
/// Timeout of everything but the load.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connects, loads, and shows.
pub fn run(args: &Args, url: &RemoteUrl) -> Result<ExitCode> {
    let password = match url {
        RemoteUrl::Smb(share) => Some(remote::password(share, args.password_stdin)?),
        RemoteUrl::Nfs(_) => None,
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let most = PATIENCE + Duration::from_secs(args.seconds.into());
    let measured = runtime.block_on(async {
        let facts = async {
            match url {
                RemoteUrl::Smb(_) => of_smb(args, url, &password.unwrap_or_default()).await,
                RemoteUrl::Nfs(_) => of_nfs(args, url).await,
            }
        };
        tokio::time::timeout(most, facts).await
    });
    runtime.shutdown_background();
    let facts = measured.context("the server did not answer in time")??;
    let verified = steps(&facts);
    if args.json {
        let all = serde_json::json!({ "Session": facts, "Steps": verified });
        output::print_json(&all)?;
    } else {
        out!("{}", shown(&facts));
    }
    let passed = verified.iter().all(|step| step.passed);
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn of_smb(args: &Args, url: &RemoteUrl, password: &str) -> Result<LoadedSessionFacts> {
    let RemoteUrl::Smb(url) = url else {
        anyhow::bail!("the URL must be that of a share, such as smb://HOST/SHARE")
    };
    let wanted = usize::from(args.channels);
    let mut options = remote::options(wanted);
    options.assume_rss = args.any_interface;
    let client = connect_smb(url, password, options).await?;
    let tree = client.tree(&url.share).await.with_context(|| url.share.clone())?;
    let advertised = client.interfaces().await.unwrap_or_default();
    let before: Vec<(SocketAddr, u64)> =
        client.channels().iter().map(|channel| (channel.local, channel.bytes)).collect();
    let report = load(args, tree, &url.folder).await?;
    let server = remote::address(&url.host, url.port)?;
    let facts = smb_facts(args, &client, &interfaces_of(&advertised), &before, &report, server);
    client.close().await;
    Ok(LoadedSessionFacts { share: format!("\\\\{}\\{}", url.host, url.share), ..facts })
}

fn smb_facts(
    args: &Args,
    client: &SmbClient,
    server_interfaces: &[InterfaceFacts],
    before: &[(SocketAddr, u64)],
    report: &Report,
    server: SocketAddr,
) -> LoadedSessionFacts {
    let wanted = usize::from(args.channels);
    let client_interfaces = own_interfaces();
    let of = |all: &[InterfaceFacts], ip: IpAddr| {
        all.iter().find(|one| one.ip_addresses.contains(&ip.to_string())).cloned()
    };
    let connection = |channel: &client::ChannelFacts| {
        let (ours, theirs) = (
            of(&client_interfaces, channel.local.ip()),
            of(server_interfaces, channel.remote.ip()),
        );
        // Bytes of the connection setup are not part of the load.
        let begun = before.iter().find(|(local, _)| *local == channel.local).map_or(0, |(_, b)| *b);
        ConnectionFacts {
            client_ip_address: channel.local.ip().to_string(),
            client_port: channel.local.port(),
            server_ip_address: channel.remote.ip().to_string(),
            server_port: channel.remote.port(),
            client_interface_index: ours.as_ref().map(|one| one.interface_index),
            server_interface_index: theirs.as_ref().map(|one| one.interface_index),
            client_rss_capable: ours.is_some_and(|one| one.rss_capable),
            server_rss_capable: theirs.as_ref().is_some_and(|one| one.rss_capable),
            server_rdma_capable: theirs.is_some_and(|one| one.rdma_capable),
            bytes: channel.bytes.saturating_sub(begun),
            credits: channel.credits,
        }
    };
    let connections: Vec<ConnectionFacts> = client.channels().iter().map(connection).collect();
    let bytes: Vec<u64> = connections.iter().map(|one| one.bytes).collect();
    let environment = &report.environment;
    LoadedSessionFacts {
        protocol: "SMB".into(),
        server_name: client.name().to_owned(),
        dialect: environment.dialect.clone(),
        signing_algorithm: environment.signing.into(),
        encryption_algorithm: environment.cipher.into(),
        enable_multichannel: wanted > 1,
        server_multichannel: client.negotiated().capabilities & capabilities::MULTI_CHANNEL != 0,
        max_channels: wanted,
        current_channels: connections.len(),
        refusal: environment.channel_refusal.clone(),
        sockets: sockets::established(server),
        connections,
        client_interfaces,
        server_interfaces: server_interfaces.to_vec(),
        bytes_per_second: report.bytes_per_second,
        imbalance: imbalance(&bytes),
        ..LoadedSessionFacts::default()
    }
}

async fn of_nfs(args: &Args, url: &RemoteUrl) -> Result<LoadedSessionFacts> {
    let RemoteUrl::Nfs(url) = url else {
        anyhow::bail!("the URL must be that of an export, such as nfs://HOST/EXPORT")
    };
    let wanted = usize::from(args.channels);
    let client = connect_nfs(&url.host, url.port, 1, wanted).await?;
    let export = nfs::NfsExport::open(client.clone(), &url.path).await;
    let export = export.with_context(|| format!("/{}", url.path))?;
    let before = client.connection_bytes();
    let report = load(args, export, "").await?;
    let slots = client.slots();
    let connections: Vec<ConnectionFacts> = client
        .connection_addresses()
        .iter()
        .zip(client.connection_bytes().iter().zip(&before))
        .map(|((local, remote), (bytes, begun))| ConnectionFacts {
            client_ip_address: local.ip().to_string(),
            client_port: local.port(),
            server_ip_address: remote.ip().to_string(),
            server_port: remote.port(),
            bytes: bytes.saturating_sub(*begun),
            credits: slots,
            ..ConnectionFacts::default()
        })
        .collect();
    let bytes: Vec<u64> = connections.iter().map(|one| one.bytes).collect();
    let facts = LoadedSessionFacts {
        protocol: "NFS".into(),
        server_name: url.host.clone(),
        share: format!("{}:/{}", url.host, url.path),
        dialect: client.version(),
        signing_algorithm: "off".into(),
        encryption_algorithm: "off".into(),
        enable_multichannel: wanted > 1,
        server_multichannel: true,
        max_channels: wanted,
        current_channels: connections.len(),
        sockets: sockets::established(remote::address(&url.host, url.port)?),
        connections,
        client_interfaces: own_interfaces(),
        bytes_per_second: report.bytes_per_second,
        imbalance: imbalance(&bytes),
        ..LoadedSessionFacts::default()
    };
    client.close().await;
    Ok(facts)
}

/// The interfaces of this machine.
pub fn own_interfaces() -> Vec<InterfaceFacts> {
    let known = server::machine_interfaces();
    known
        .into_iter()
        .map(|(link, addresses)| InterfaceFacts {
            friendly_name: link.name,
            interface_index: link.index,
            ip_addresses: addresses.iter().map(ToString::to_string).collect(),
            link_speed: link.bits_per_second.unwrap_or_default(),
            rss_capable: link.queues > 1 || link.is_virtual || link.is_loopback,
            rdma_capable: false,
        })
        .collect()
}

/// A burst of reads and writes on files of its own, which are removed.
async fn load<S: Storage>(args: &Args, storage: S, folder: &str) -> Result<Report> {
    let plan = Plan {
        work: LoadKind::Data,
        folder: folder.to_owned(),
        block_bytes: BLOCK_BYTES.min(storage.block_bytes_max()),
        depth: DEPTH_PER_CHANNEL * usize::from(args.channels),
        threads: 1,
        files: FILES,
        file_bytes: FILE_BYTES,
        random: true,
        read_percent: 50,
        until: RunLimit::Seconds(args.seconds.into()),
        warm_up_seconds: 0.2,
        verify: false,
        seed: 1,
    };
    let mut run = LoaderRun::new(storage, plan, &own_name("channels"))?;
    let report = match run.prepare().await {
        Ok(()) => run.measure(None, |_| {}).await,
        Err(error) => Err(error),
    };
    let cleaned = run.clean().await;
    let report = report?;
    cleaned?;
    Ok(report)
}
