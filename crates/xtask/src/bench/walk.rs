//! Measures the latency of reads during a walk through a tree of very many names, in three cases: no
//! walk, a walk on another server of this machine, and a walk on the same server. The second case
//! shows the machine's share of the delay, the third that of the server's cache.

use super::{Args, median, peers};
use crate::server::{PASSWORD, PORT, RunningServer, USER};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Numbers of the servers' loopback addresses.
const OURS: u8 = 65;
const BESIDE: u8 = 66;
const FOLDER: &str = "walked";
const NAMES_IN_EACH: u64 = 1000;
/// Loads without a walk.
const QUIET_LOADS: usize = 3;

/// Size of the walked tree.
#[derive(Debug, clap::Args)]
pub struct WalkedTree {
    /// `walk`: names in the tree; ten million take 11 GB on tmpfs
    #[arg(long, default_value_t = 10_000_000)]
    walked: u64,
}

/// Percentiles of one load, µs, and its requests a second.
#[derive(Clone, Copy)]
struct LoadFigures {
    p50: f64,
    p99: f64,
    p999: f64,
    rate: f64,
}

/// Measures by turns, and prints a table.
///
/// # Errors
/// A server, a load or a walk that does not run; a temporary folder without room.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let binary = super::binary(root)?;
    let ours = RunningServer::anabranch(&binary, OURS)?;
    let beside = RunningServer::anabranch(&binary, BESIDE)?;
    fill(&ours.share().join(FOLDER), args.walk.walked)?;
    println!(
        "Reads of 4 KiB one at a time (latencies in µs) beside a walk through {} names by smbclient:\n",
        args.walk.walked
    );
    println!(
        "| walk | reads/s | p50 | p99 | p99.9 | names/s | server µs a name | most memory, MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for _ in 0..args.rounds {
        let quiet = (0..QUIET_LOADS).map(|_| read(&binary, &ours, args)).collect::<Result<_>>()?;
        println!("| none | {} | | | |", figures(quiet)?);
        fs::rename(ours.share().join(FOLDER), beside.share().join(FOLDER))?;
        walk("another server's", &binary, &ours, &beside, args)?;
        fs::rename(beside.share().join(FOLDER), ours.share().join(FOLDER))?;
        walk("the same server's", &binary, &ours, &ours, args)?;
    }
    println!();
    Ok(())
}

/// Creates a tree of directories with empty files, which every user may read.
fn fill(tree: &Path, names: u64) -> Result<()> {
    for first in (0..names).step_by(usize::try_from(NAMES_IN_EACH)?) {
        let directory = tree.join(format!("directory{}", first / NAMES_IN_EACH));
        fs::create_dir_all(&directory)?;
        for name in first..names.min(first + NAMES_IN_EACH) {
            fs::File::create(directory.join(format!("Name of a file {name}")))?;
        }
    }
    Ok(())
}

/// Walks through the tree of `walked` while `ours` is read from, and prints a line.
fn walk(
    name: &str,
    binary: &Path,
    ours: &RunningServer,
    walked: &RunningServer,
    args: &Args,
) -> Result<()> {
    // Resets the peak of the memory, so that it is the peak of this walk.
    fs::write(format!("/proc/{}/clear_refs", walked.pid()), "5")?;
    let (begun, before) = (Instant::now(), peers::ticks(walked.pid()));
    let mut walker = Walker::start(walked)?;
    let mut loads = Vec::new();
    let seconds = loop {
        let load = read(binary, ours, args)?;
        if let Some(status) = walker.0.try_wait()? {
            ensure!(status.success(), "smbclient: {status}");
            ensure!(!loads.is_empty(), "the walk was over at once; more names are needed");
            break begun.elapsed().as_secs_f64();
        }
        loads.push(load);
    };
    let names = args.walk.walked as f64;
    let ticks = peers::ticks(walked.pid()) - before;
    // The same server served the reads, too; their cost does not belong to the walk.
    let is_same = walked.pid() == ours.pid();
    let cost = if is_same {
        "-".to_owned()
    } else {
        format!("{:.2}", ticks * 1e6 / peers::TICKS_PER_SECOND / names)
    };
    println!(
        "| {name} | {} | {:.0} | {cost} | {:.0} |",
        figures(loads)?,
        names / seconds,
        most_memory_mib(walked.pid())?
    );
    Ok(())
}

/// A program that lists a whole tree; killed when dropped.
struct Walker(Child);

impl Walker {
    fn start(server: &RunningServer) -> Result<Self> {
        let child = Command::new("smbclient")
            .args([&format!("//{}/plain", server.address), "-p", &PORT.to_string()])
            .args(["-U", &format!("{USER}%{PASSWORD}")])
            .args(["-c", &format!("recurse on; cd {FOLDER}; ls")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Ok(Self(child.context("smbclient")?))
    }
}

impl Drop for Walker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads a file of the share with our loader; returns its figures.
fn read(binary: &Path, server: &RunningServer, args: &Args) -> Result<LoadFigures> {
    let output = Command::new(binary)
        .args(["bench", &format!("smb://{USER}@{}:{PORT}/plain", server.address)])
        .args(["--quiet", "--json", "-", "--channels", "1", "--random", "--block", "4K"])
        .args(["--files", "1", "--file-size", "16M", "--depth", "1", "--warm-up", "1"])
        .args(["--duration", &args.seconds.to_string()])
        .env("ANABRANCH_PASSWORD", PASSWORD)
        .output()
        .context("anabranch bench")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let latencies = &report["operations"][0]["latency_us"];
    let latency = |figure: &str| latencies[figure].as_f64().context("no latency");
    Ok(LoadFigures {
        p50: latency("p50")?,
        p99: latency("p99")?,
        p999: latency("p99_9")?,
        rate: report["per_second"].as_f64().context("no rate")?,
    })
}

/// Median of each figure.
fn figures(loads: Vec<LoadFigures>) -> Result<String> {
    let middle = |figure: fn(&LoadFigures) -> f64| {
        Ok::<_, anyhow::Error>(figure(&median(loads.clone(), figure).context("no loads")?))
    };
    Ok(format!(
        "{:.0} | {:.0} | {:.0} | {:.0}",
        middle(|l| l.rate)?,
        middle(|l| l.p50)?,
        middle(|l| l.p99)?,
        middle(|l| l.p999)?
    ))
}

/// Peak memory of a process since the last reset, in MiB.
fn most_memory_mib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 = line.and_then(|l| l.split_whitespace().next()).context("no VmHWM")?.parse()?;
    Ok(kib / 1024.0)
}
