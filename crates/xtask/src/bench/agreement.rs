//! Compares `anabranch bench` with foreign loaders: rates on the same servers in turns, and the CPU
//! time of each loader. The foreign loaders are `smbtorture`'s smb2.bench.read, and over NFS fio's
//! engine.
//!
//! The loaders can agree on a rate only where the same bottleneck limits both. Our server is faster
//! than smbtorture, so its share has a limit of operations a second. Foreign servers are limited in
//! two ways: by a CPU quota that every loader can saturate (the loader has another CPU), and by
//! a shaped link. Under a CPU quota the rate also depends on how requests arrive, together or one by
//! one, in which loaders differ.

mod filler;
mod fio;

use super::network::{ClientNetwork, NetworkLink, behind};
use super::peers::{self, PeerLoad, TICKS_PER_SECOND};
use super::quota::CpuQuota;
use super::samba::SambaPeer;
use super::{Args, median};
use crate::server::{PASSWORD, PORT, RunningServer, USER};
use anyhow::{Context, Result, bail};
use filler::Filler;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Largest accepted relative difference of the two rates.
const AGREED: f64 = 0.1;

/// The CPUs of the server and of the loader.
const CPUS: [&str; 2] = ["0", "1"];

/// Settings with which glibc retains freed memory. By default it returns memory to the system and
/// faults it in again page by page. That takes a fifth of Samba's time for reads of 1 MiB under a fast
/// loader, and nothing under a slow one.
const KEEPS_MEMORY: [(&str, &str); 2] =
    [("MALLOC_TRIM_THRESHOLD_", "1073741824"), ("MALLOC_MMAP_THRESHOLD_", "268435456")];

/// A load of both loaders, and the limits of the servers.
struct CapacityRow {
    /// The foreign loader uses one file of one block for each request in flight; ours does the same.
    row: PeerLoad,
    /// Samba's CPU quota in percent of one CPU.
    percent: u32,
    /// Limit of our share, in operations a second.
    iops: u32,
}

const ROWS: [CapacityRow; 3] = [
    CapacityRow {
        row: ("read 4 KiB, depth 32", "read", 4096, 32, 1, &[]),
        percent: 20,
        iops: 5000,
    },
    CapacityRow {
        row: ("read 64 KiB, depth 8", "read", 65_536, 8, 1, &[]),
        percent: 25,
        iops: 2000,
    },
    CapacityRow {
        row: ("read 1 MiB, depth 4", "read", 1_048_576, 4, 1, &[]),
        percent: 25,
        iops: 100,
    },
];

/// Bandwidth of the link to a foreign server, each way, in Mbit/s.
const MEGABITS: u32 = 400;

/// The rate that one loader measured, and the CPU time that it used.
#[derive(Clone, Copy, Debug)]
struct LoaderResult {
    rate: f64,
    client_us: f64,
}

/// Measures all rows on all servers, and prints a table.
///
/// # Errors
/// A server or a load that does not run; a machine with one CPU.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    anyhow::ensure!(cores > 1, "server and loader need one CPU each");
    let binary = super::binary(root)?;
    // Created first, so dropped last: the servers have ended by then.
    let quota = quota();
    println!(
        "| load | server | anabranch bench /s | other loader /s | ratio | within 10 % | \
         client µs: anabranch | other loader |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    over_smb(&binary, quota.as_ref(), args)?;
    match &args.fio {
        Some(program) => fio::run(root, &binary, program, quota.as_ref(), args),
        None => {
            println!("\nOver NFS with --fio PROGRAM: one built with libnfs (Debian's is not).");
            Ok(())
        }
    }
}

/// A control group for the servers; prints the reason where there is none.
fn quota() -> Option<CpuQuota> {
    match CpuQuota::new() {
        Ok(quota) => Some(quota),
        Err(why) => {
            println!("The servers have a whole CPU, and may wait for the loaders: {why:#}\n");
            None
        }
    }
}

fn over_smb(binary: &Path, quota: Option<&CpuQuota>, args: &Args) -> Result<()> {
    let wanted = || ROWS.iter().filter(|held| args.wants(held.row.0));
    let address = crate::server::address(peers::SAMBA_HOST);
    let samba = SambaPeer::start_with(&[address], &KEEPS_MEMORY)?;
    let here = on(CPUS[1]);
    for CapacityRow { row, percent, iops } in wanted() {
        let ours = RunningServer::anabranch_with(binary, 61, &format!(",limits.iops={iops}"))?;
        pin(ours.pid())?;
        let held = format!("Anabranch, a share of {iops} IOPS");
        let server = (held.as_str(), ours.address.as_str(), ours.share(), ours.pid());
        smb_in_turns(binary, row, server, &here, args)?;
        let held = format!("Samba, {}", hold(samba.pid(), quota, *percent)?);
        smb_in_turns(binary, row, of_samba(&held, &samba), &here, args)?;
    }
    drop(samba);

    let line = ClientNetwork::new(1, &NetworkLink::Shaped { megabits: MEGABITS })?;
    let samba = SambaPeer::start_with(&line.addresses(0), &KEEPS_MEMORY)?;
    pin(samba.pid())?;
    let there = [line.before(), here].concat();
    let held = format!("Samba, a link of {MEGABITS} Mbit/s");
    wanted().try_for_each(|CapacityRow { row, .. }| {
        smb_in_turns(binary, row, of_samba(&held, &samba), &there, args)
    })
}

/// A server: name, address, folder of its share, process id.
type BenchServer<'a> = (&'a str, &'a str, PathBuf, u32);

fn of_samba<'a>(held: &'a str, samba: &'a SambaPeer) -> BenchServer<'a> {
    (held, samba.addresses[0].as_str(), samba.share(), samba.pid())
}

/// A row on a server by both loaders, which run with `before` before their commands.
fn smb_in_turns(
    binary: &Path,
    row: &PeerLoad,
    (held, address, share, pid): BenchServer<'_>,
    before: &[String],
    args: &Args,
) -> Result<()> {
    let torture = [before, &peers::torture()?].concat();
    let (mut own, mut foreign) = (Vec::new(), Vec::new());
    let url = format!("smb://{USER}@{address}:{PORT}/plain");
    let (_, _, bytes, depth, ..) = row;
    let load = format!("--depth {depth} --block {bytes} --files {depth} --file-size {bytes}");
    for _ in 0..args.rounds {
        own.push(by_anabranch(before, binary, &url, &load, args.seconds)?);
        let filler = Filler::start(&share, *depth, *bytes);
        foreign.push(by_torture(&torture, row, address, pid, args.seconds)?);
        filler.end()?;
    }
    print(row.0, held, own, foreign);
    Ok(())
}

/// Pins a server to the first CPU, within a quota if there is one; returns the table's label.
fn hold(pid: u32, quota: Option<&CpuQuota>, percent: u32) -> Result<String> {
    pin(pid)?;
    match quota {
        Some(quota) => {
            quota.hold(pid, percent)?;
            Ok(format!("{percent} % of a CPU"))
        }
        None => Ok("a CPU".to_owned()),
    }
}

/// The command prefix that pins a program to a CPU.
fn on(cpu: &str) -> Vec<String> {
    ["taskset", "--cpu-list", cpu].map(str::to_owned).to_vec()
}

/// Pins a running server, with its later threads and processes, to the first CPU.
fn pin(pid: u32) -> Result<()> {
    let status = Command::new("taskset")
        .args(["--all-tasks", "--cpu-list", "--pid", CPUS[0], &pid.to_string()])
        .stdout(Stdio::null())
        .status()
        .context("cannot run taskset; run: apt-get install util-linux")?;
    anyhow::ensure!(status.success(), "cannot pin process {pid} to a CPU");
    Ok(())
}

/// Prints a row with the results of both loaders. The ratio is the median over all turns: other work
/// of the machine slows down both loaders of a turn.
fn print(load: &str, server: &str, own: Vec<LoaderResult>, foreign: Vec<LoaderResult>) {
    let ratios = own.iter().zip(&foreign).map(|(own, foreign)| own.rate / foreign.rate).collect();
    let ratio = median(ratios, |ratio| *ratio);
    let (Some(ratio), Some(own), Some(foreign)) = (ratio, middle(own), middle(foreign)) else {
        return;
    };
    let agrees = if (ratio - 1.0).abs() <= AGREED { "yes" } else { "no" };
    println!(
        "| {load} | {server} | {:.0} | {:.0} | {ratio:.2} | {agrees} | {:.1} | {:.1} |",
        own.rate, foreign.rate, own.client_us, foreign.client_us
    );
}

/// Median rate and median time, each taken separately.
fn middle(found: Vec<LoaderResult>) -> Option<LoaderResult> {
    let rate = median(found.clone(), |one| one.rate)?.rate;
    let client_us = median(found, |one| one.client_us)?.client_us;
    Some(LoaderResult { rate, client_us })
}

/// CPU time in seconds of all child processes that have been waited for. Both loaders are measured
/// from start to end by the same clock.
pub(super) fn children_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, rest) = stat.rsplit_once(") ").context("no line of proc(5)")?;
    // cutime and cstime are fields 16 and 17; the command name is field 2. proc(5).
    let fields = rest.split_whitespace().skip(13).take(2);
    Ok(fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND)
}

/// Runs a loader for `seconds`; returns the rate that it reports, and its CPU time.
fn found(seconds: u32, load: impl FnOnce() -> Result<f64>) -> Result<LoaderResult> {
    let before = children_seconds()?;
    let rate = load()?;
    let used = children_seconds()? - before;
    Ok(LoaderResult { rate, client_us: used * 1e6 / (rate * f64::from(seconds)) })
}

fn by_torture(
    torture: &[String],
    row: &PeerLoad,
    address: &str,
    pid: u32,
    seconds: u32,
) -> Result<LoaderResult> {
    found(seconds, || Ok(peers::measure(torture, row, address, pid, seconds)?.rate))
}

/// One run of `anabranch bench` with these arguments, with `before` before its command.
fn by_anabranch(
    before: &[String],
    binary: &Path,
    url: &str,
    load: &str,
    seconds: u32,
) -> Result<LoaderResult> {
    found(seconds, || {
        let output = behind(before)
            .arg(binary)
            .args(["bench", url, "--quiet", "--json", "-", "--warm-up", "0", "--channels", "1"])
            .args(["--duration", &seconds.to_string()])
            .args(load.split(' '))
            .env("ANABRANCH_PASSWORD", PASSWORD)
            .output()
            .context("anabranch bench")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr));
        }
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        report["per_second"].as_f64().context("no rate")
    })
}
