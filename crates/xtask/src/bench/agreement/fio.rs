//! Compares fio's nfs engine and `anabranch bench`, both with NFS-Ganesha: the engine's library,
//! libnfs, speaks NFSv4.0 only, which our server does not.
//!
//! Each load is limited in two ways: by a CPU quota, within which the rate depends on how requests
//! arrive, and by a shaped link, whose limit is the same for every loader.

use super::super::network::{ClientNetwork, NetworkLink, behind};
use super::super::nfs::MeasuredNfsServer;
use super::super::{Args, Result, network};
use super::{
    CPUS, CpuQuota, KEEPS_MEMORY, LoaderResult, MEGABITS, by_anabranch, found, hold, on, pin, print,
};
use anyhow::{Context, bail};
use std::path::Path;

/// A load of both loaders.
struct AgreementLoad {
    name: &'static str,
    bytes: u32,
    depth: u32,
    /// Whether blocks are read in order.
    is_sequential: bool,
}

const LOADS: [AgreementLoad; 3] = [
    AgreementLoad {
        name: "NFS: read 4 KiB, depth 64",
        bytes: 4096,
        depth: 64,
        is_sequential: false,
    },
    AgreementLoad {
        name: "NFS: read 64 KiB, depth 8",
        bytes: 65_536,
        depth: 8,
        is_sequential: false,
    },
    AgreementLoad {
        name: "NFS: read 1020 KiB, depth 8",
        bytes: 1_044_480,
        depth: 8,
        is_sequential: true,
    },
];

impl AgreementLoad {
    /// Size of the file, a multiple of the block: fio counts a partial last block as an operation.
    fn file_bytes(&self) -> u32 {
        FILE_BYTES.next_multiple_of(self.bytes)
    }
}

/// The server's CPU quota in percent of one CPU.
const PERCENT: u32 = 25;

/// The file to read.
const FILE: &str = "fio";
/// Least size of the file; it is rounded up to whole blocks. Our loader first writes its own file,
/// whose cost counts, too, but is small beside that of the reads.
const FILE_BYTES: u32 = 8 << 20;

/// Prints a row for each load and each limit of the server.
pub fn run(
    root: &Path,
    binary: &Path,
    program: &Path,
    quota: Option<&CpuQuota>,
    args: &Args,
) -> Result<()> {
    if !args.host_network {
        // Ganesha needs an address that is not a loopback one.
        network::second_address()?;
    }
    let programs = [binary, program];
    let (server, _) =
        MeasuredNfsServer::ganesha_with(root, crate::server::address(63), &KEEPS_MEMORY)?;
    let held = format!("NFS-Ganesha, {}", hold(server.pid, quota, PERCENT)?);
    let here = on(CPUS[1]);
    in_turns(programs, &server, &held, &here, args)?;
    drop(server);

    let line = ClientNetwork::new(1, &NetworkLink::Shaped { megabits: MEGABITS })?;
    let (server, _) =
        MeasuredNfsServer::ganesha_with(root, line.addresses(0).remove(0), &KEEPS_MEMORY)?;
    pin(server.pid)?;
    let held = format!("NFS-Ganesha, a link of {MEGABITS} Mbit/s");
    in_turns(programs, &server, &held, &[line.before(), here].concat(), args)
}

/// All loads of one server. Loaders run with `before` before their commands.
fn in_turns(
    [binary, fio]: [&Path; 2],
    server: &MeasuredNfsServer,
    held: &str,
    before: &[String],
    args: &Args,
) -> Result<()> {
    for load in LOADS.iter().filter(|load| args.wants(load.name)) {
        let (mut own, mut foreign) = (Vec::new(), Vec::new());
        let order = if load.is_sequential { "" } else { " --random" };
        let (block, depth, bytes) = (load.bytes, load.depth, load.file_bytes());
        std::fs::write(server.folder.join(FILE), vec![0x5a; usize::try_from(bytes)?])?;
        let ours = format!("--depth {depth} --block {block} --file-size {bytes}{order}");
        for _ in 0..args.rounds {
            own.push(by_anabranch(before, binary, &server.url(), &ours, args.seconds)?);
            foreign.push(by_fio(before, fio, server, load, args.seconds)?);
        }
        print(load.name, held, own, foreign);
    }
    Ok(())
}

fn by_fio(
    before: &[String],
    program: &Path,
    server: &MeasuredNfsServer,
    load: &AgreementLoad,
    seconds: u32,
) -> Result<LoaderResult> {
    let pattern = if load.is_sequential { "read" } else { "randread" };
    let (address, port, path) = (&server.address, server.port, server.path);
    let url = format!("nfs://{address}/{path}?version=4&nfsport={port}&uid=0&gid=0");
    found(seconds, || {
        let output = behind(before)
            .arg(program)
            .args(["--name=agreement", "--ioengine=nfs", "--time_based", "--output-format=json"])
            .arg(format!("--filename={FILE}"))
            .arg(format!("--nfs_url={url}"))
            .arg(format!("--size={}", load.file_bytes()))
            .arg(format!("--rw={pattern}"))
            .arg(format!("--bs={}", load.bytes))
            .arg(format!("--iodepth={}", load.depth))
            .arg(format!("--runtime={seconds}"))
            .output()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        // The engine's own messages precede the JSON report.
        let report = text.find('{').and_then(|at| text.get(at..)).context("fio printed no JSON")?;
        let report: serde_json::Value = serde_json::from_str(report).context("fio's report")?;
        let rate = report["jobs"][0]["read"]["iops"].as_f64().unwrap_or_default();
        if rate <= 0.0 {
            bail!("fio: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(rate)
    })
}
