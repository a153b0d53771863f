//! fio's nfs engine and `anabranch bench`, both to NFS-Ganesha: libnfs, on which the engine stands,
//! speaks 4.0 and no sessions, so ours (4.1 alone) is no server for it.

use super::super::nfs::Server;
use super::super::{Args, Result, network};
use super::{Found, PROCESSORS, Quota, by_anabranch, children_seconds, hold, on, print};
use anyhow::{Context, bail};
use std::path::Path;
use std::process::Command;

/// Loads: name, bytes, depth, and whether blocks are taken in turn.
const ROWS: [(&str, &str, &str, bool); 3] = [
    ("NFS: read 4 KiB, depth 64", "4096", "64", false),
    ("NFS: read 64 KiB, depth 8", "65536", "8", false),
    ("NFS: read 1020 KiB, depth 8", "1044480", "8", true),
];

/// Hundredths of a processor that the server has.
const PERCENT: u32 = 25;

/// The file that is read, and its bytes.
const FILE: (&str, u64) = ("fio", 64 << 20);

/// Prints a line for each load.
pub fn run(
    root: &Path,
    binary: &Path,
    program: &Path,
    quota: Option<&Quota>,
    args: &Args,
) -> Result<()> {
    if !args.host_network {
        // Ganesha resolves names, which takes an address besides the loopback one.
        network::second_address()?;
    }
    let (server, _) = Server::ganesha(root, crate::server::address(63))?;
    let held = format!("NFS-Ganesha, {}", hold(server.pid, quota, PERCENT)?);
    let (name, bytes) = FILE;
    std::fs::write(server.folder.join(name), vec![0x5a; usize::try_from(bytes)?])?;
    for (load, block, depth, sequential) in ROWS.iter().filter(|row| args.wants(row.0)) {
        let (mut own, mut foreign) = (Vec::new(), Vec::new());
        let order = if *sequential { "" } else { " --random" };
        let load_of_ours = format!("--depth {depth} --block {block} --file-size {bytes}{order}");
        for _ in 0..args.rounds {
            own.push(by_anabranch(binary, &server.url(), &load_of_ours, args.seconds)?);
            let pattern = if *sequential { "read" } else { "randread" };
            foreign.push(by_fio(program, &server, [pattern, block, depth], args.seconds)?);
        }
        print(load, &held, own, foreign);
    }
    Ok(())
}

fn by_fio(program: &Path, server: &Server, load: [&str; 3], seconds: u32) -> Result<Found> {
    let (name, bytes) = FILE;
    let [pattern, block, depth] = load;
    let (address, port, path) = (&server.address, server.port, server.path);
    let url = format!("nfs://{address}/{path}?version=4&nfsport={port}&uid=0&gid=0");
    let before = children_seconds()?;
    let [taskset, arguments @ ..] = on(PROCESSORS[1]);
    let output = Command::new(taskset)
        .args(arguments)
        .arg(program)
        .args(["--name=agreement", "--ioengine=nfs", "--time_based", "--output-format=json"])
        .arg(format!("--filename={name}"))
        .arg(format!("--nfs_url={url}"))
        .arg(format!("--size={bytes}"))
        .arg(format!("--rw={pattern}"))
        .arg(format!("--bs={block}"))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={seconds}"))
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let used = children_seconds()? - before;
    let text = String::from_utf8_lossy(&output.stdout);
    // What the engine says of itself comes first.
    let report = text.find('{').and_then(|at| text.get(at..)).context("fio said nothing")?;
    let report: serde_json::Value = serde_json::from_str(report).context("fio's report")?;
    let rate = report["jobs"][0]["read"]["iops"].as_f64().unwrap_or_default();
    if rate <= 0.0 {
        bail!("fio: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(Found { rate, client_us: used * 1e6 / (rate * f64::from(seconds)) })
}
