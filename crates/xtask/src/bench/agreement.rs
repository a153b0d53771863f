//! Whether `anabranch bench` finds what other loaders find, on the same servers in turns, and what
//! each of them costs its own machine: the same reads by `smbtorture`'s smb2.bench.read, and over
//! NFS by fio's engine.
//!
//! Only where something is the limit that both loaders meet alike is there a rate that they can agree on.
//! Ours, which is quicker than smbtorture can ask, has a share that is held to a number of operations a
//! second. Foreign servers are held twice: by a part of one processor, so small that every loader can
//! ask for more (the loader has another processor), and by a line. With a part of a processor a
//! server does more or less, as requests come together or one by one, in which loaders differ.

mod filler;
mod fio;

use super::network::{Ends, Line, behind};
use super::peers::{self, Row, TICKS_PER_SECOND};
use super::quota::Quota;
use super::samba::Samba;
use super::{Args, median};
use crate::server::{PASSWORD, PORT, Running, USER};
use anyhow::{Context, Result, bail};
use filler::Filler;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How far the two may lie apart.
const AGREED: f64 = 0.1;

/// The processors of the server and of the loader.
const PROCESSORS: [&str; 2] = ["0", "1"];

/// glibc gives memory back to the system whenever enough of it is free at once, and takes it again page by
/// page: a fifth of Samba's time for reads of 1 MiB under a loader that is quick to ask for the next,
/// and nothing under one that is slow. With these it keeps what it has.
const KEEPS_MEMORY: [(&str, &str); 2] =
    [("MALLOC_TRIM_THRESHOLD_", "1073741824"), ("MALLOC_MMAP_THRESHOLD_", "268435456")];

/// A load of both, and what holds the servers back.
struct Held {
    /// The foreign loader has as many files of one block as requests under way, and so has ours then.
    row: Row,
    /// Hundredths of a processor that Samba has.
    percent: u32,
    /// The operations a second to which our share is held.
    iops: u32,
}

const ROWS: [Held; 3] = [
    Held { row: ("read 4 KiB, depth 32", "read", 4096, 32, 1, &[]), percent: 20, iops: 5000 },
    Held { row: ("read 64 KiB, depth 8", "read", 65_536, 8, 1, &[]), percent: 25, iops: 2000 },
    Held { row: ("read 1 MiB, depth 4", "read", 1_048_576, 4, 1, &[]), percent: 25, iops: 100 },
];

/// Million bits in a second, each way, of the line to a foreign server.
const MEGABITS: u32 = 400;

/// What one loader found, and what it took.
#[derive(Clone, Copy, Debug)]
struct Found {
    rate: f64,
    client_us: f64,
}

/// Measures all rows on all servers, and prints a table.
///
/// # Errors
/// A server or a load that does not run; a machine with one processor.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    anyhow::ensure!(cores > 1, "server and loader need a processor each");
    let binary = super::binary(root)?;
    // Made first, it goes last: the servers have ended by then.
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

/// A group for the servers; without one it is said why.
fn quota() -> Option<Quota> {
    match Quota::new() {
        Ok(quota) => Some(quota),
        Err(why) => {
            println!("The servers have a whole processor, and may wait for the loaders: {why:#}\n");
            None
        }
    }
}

fn over_smb(binary: &Path, quota: Option<&Quota>, args: &Args) -> Result<()> {
    let wanted = || ROWS.iter().filter(|held| args.wants(held.row.0));
    let address = crate::server::address(peers::SAMBA_HOST);
    let samba = Samba::start_with(&[address], &KEEPS_MEMORY)?;
    let here = on(PROCESSORS[1]);
    for Held { row, percent, iops } in wanted() {
        let ours = Running::anabranch_with(binary, 61, &format!(",limits.iops={iops}"))?;
        pin(ours.pid())?;
        let held = format!("Anabranch, a share of {iops} IOPS");
        let server = (held.as_str(), ours.address.as_str(), ours.share(), ours.pid());
        smb_in_turns(binary, row, server, &here, args)?;
        let held = format!("Samba, {}", hold(samba.pid(), quota, *percent)?);
        smb_in_turns(binary, row, of_samba(&held, &samba), &here, args)?;
    }
    drop(samba);

    let line = Ends::new(1, &Line::Shaped { megabits: MEGABITS })?;
    let samba = Samba::start_with(&line.addresses(0), &KEEPS_MEMORY)?;
    pin(samba.pid())?;
    let there = [line.before(), here].concat();
    let held = format!("Samba, a line of {MEGABITS} Mbit/s");
    wanted().try_for_each(|Held { row, .. }| {
        smb_in_turns(binary, row, of_samba(&held, &samba), &there, args)
    })
}

/// What a server is called and where it is: its address, its share's folder and its process.
type At<'a> = (&'a str, &'a str, PathBuf, u32);

fn of_samba<'a>(held: &'a str, samba: &'a Samba) -> At<'a> {
    (held, samba.addresses[0].as_str(), samba.share(), samba.pid())
}

/// A row on a server by both loaders, which run with `before` before their commands.
fn smb_in_turns(
    binary: &Path,
    row: &Row,
    (held, address, share, pid): At<'_>,
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

/// Gives a server the first processor, or a part of it; tells which.
fn hold(pid: u32, quota: Option<&Quota>, percent: u32) -> Result<String> {
    pin(pid)?;
    match quota {
        Some(quota) => {
            quota.hold(pid, percent)?;
            Ok(format!("{percent} % of a processor"))
        }
        None => Ok("a processor".to_owned()),
    }
}

/// How a command is run on a processor.
fn on(processor: &str) -> Vec<String> {
    ["taskset", "--cpu-list", processor].map(str::to_owned).to_vec()
}

/// Gives a running server, with the threads and processes it makes later, the first processor.
fn pin(pid: u32) -> Result<()> {
    let status = Command::new("taskset")
        .args(["--all-tasks", "--cpu-list", "--pid", PROCESSORS[0], &pid.to_string()])
        .stdout(Stdio::null())
        .status()
        .context("taskset; apt-get install util-linux")?;
    anyhow::ensure!(status.success(), "process {pid} could not be given a processor");
    Ok(())
}

/// Prints a line of what both found in turns. The ratio is the middle one of all turns: what else
/// the machine does meanwhile slows down both loaders of a turn.
fn print(load: &str, server: &str, own: Vec<Found>, foreign: Vec<Found>) {
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

/// The middle rate and the middle time, each for itself.
fn middle(found: Vec<Found>) -> Option<Found> {
    let rate = median(found.clone(), |one| one.rate)?.rate;
    let client_us = median(found, |one| one.client_us)?.client_us;
    Some(Found { rate, client_us })
}

/// Processor time of all programs that this one has waited for, in seconds: both loaders are
/// measured whole, start and end included, by the same clock.
pub(super) fn children_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, rest) = stat.rsplit_once(") ").context("no line of proc(5)")?;
    // cutime and cstime are the 16th and 17th field of all, the name being the second.
    let fields = rest.split_whitespace().skip(13).take(2);
    Ok(fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND)
}

/// What a loader finds that runs for `seconds` and tells its rate, and what it takes.
fn found(seconds: u32, load: impl FnOnce() -> Result<f64>) -> Result<Found> {
    let before = children_seconds()?;
    let rate = load()?;
    let used = children_seconds()? - before;
    Ok(Found { rate, client_us: used * 1e6 / (rate * f64::from(seconds)) })
}

fn by_torture(
    torture: &[String],
    row: &Row,
    address: &str,
    pid: u32,
    seconds: u32,
) -> Result<Found> {
    found(seconds, || Ok(peers::measure(torture, row, address, pid, seconds)?.rate))
}

/// One run of `anabranch bench` with these arguments, with `before` before its command.
fn by_anabranch(
    before: &[String],
    binary: &Path,
    url: &str,
    load: &str,
    seconds: u32,
) -> Result<Found> {
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
