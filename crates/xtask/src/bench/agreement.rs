//! Whether `anabranch bench` finds what other loaders find, on the same servers in turns, and what
//! each of them costs its own machine: the same reads by `smbtorture`'s smb2.bench.read, and over
//! NFS by fio's engine.
//!
//! Only a server that is the limit has a rate that loaders can agree on. So each server has one
//! processor of its own and the loader another; and ours, which is quicker than smbtorture can
//! ask, is given a share that is held to a number of operations a second.

mod fio;

use super::peers::{self, Row, TICKS_PER_SECOND};
use super::samba::Samba;
use super::{Args, median};
use crate::server::{PASSWORD, PORT, Running, USER};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// How far the two may lie apart.
const AGREED: f64 = 0.1;

/// The processors of the server and of the loader.
const PROCESSORS: [&str; 2] = ["0", "1"];

/// Each connection of the foreign loader reads one block of each of its files again and again.
/// Beside each load the operations a second to which our share is held.
const ROWS: [(Row, u32); 3] = [
    (("read 4 KiB, depth 32", "read", 4096, 32, 1, &[]), 5000),
    (("read 64 KiB, depth 8", "read", 65_536, 8, 1, &[]), 2000),
    (("read 1 MiB, depth 4", "read", 1_048_576, 4, 1, &[]), 100),
];

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
    println!(
        "| load | server | anabranch bench /s | other loader /s | ratio | within 10 % | \
         client µs: anabranch | other loader |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    over_smb(&binary, args)?;
    match &args.fio {
        Some(program) => fio::run(root, &binary, program, args),
        None => {
            println!("\nOver NFS with --fio PROGRAM: one built with libnfs (Debian's is not).");
            Ok(())
        }
    }
}

fn over_smb(binary: &Path, args: &Args) -> Result<()> {
    let torture = [&on(PROCESSORS[1])[..], &peers::torture()?].concat();
    let samba = Samba::start(&[crate::server::address(peers::SAMBA_HOST)])?;
    pin(samba.pid())?;
    for (row, limit) in ROWS.iter().filter(|(row, _)| args.wants(row.0)) {
        let ours = Running::anabranch_with(binary, 61, &format!(",limits.iops={limit}"))?;
        pin(ours.pid())?;
        let held = format!("Anabranch, a share of {limit} IOPS");
        let servers = [
            (held.as_str(), ours.address.as_str(), ours.pid()),
            ("Samba", samba.addresses[0].as_str(), samba.pid()),
        ];
        for (name, address, pid) in servers {
            let (mut own, mut foreign) = (Vec::new(), Vec::new());
            let url = format!("smb://{USER}@{address}:{PORT}/plain");
            let (_, _, bytes, depth, ..) = row;
            let load = format!("--depth {depth} --block {bytes} --file-size {bytes}");
            for _ in 0..args.rounds {
                own.push(by_anabranch(binary, &url, &load, args.seconds)?);
                foreign.push(by_torture(&torture, row, address, pid, args.seconds)?);
            }
            let (Some(own), Some(foreign)) = (middle(own), middle(foreign)) else { continue };
            print(row.0, name, &own, &foreign);
        }
    }
    Ok(())
}

/// How a command is run on a processor.
fn on(processor: &str) -> [String; 3] {
    ["taskset".to_owned(), "--cpu-list".to_owned(), processor.to_owned()]
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

fn print(load: &str, server: &str, own: &Found, foreign: &Found) {
    let ratio = own.rate / foreign.rate;
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

fn by_torture(
    torture: &[String],
    row: &Row,
    address: &str,
    pid: u32,
    seconds: u32,
) -> Result<Found> {
    let before = children_seconds()?;
    let rate = peers::measure(torture, row, address, pid, seconds)?.rate;
    let used = children_seconds()? - before;
    Ok(Found { rate, client_us: used * 1e6 / (rate * f64::from(seconds)) })
}

/// One run of `anabranch bench` with these arguments.
fn by_anabranch(binary: &Path, url: &str, load: &str, seconds: u32) -> Result<Found> {
    let before = children_seconds()?;
    let [program, arguments @ ..] = on(PROCESSORS[1]);
    let output = Command::new(program)
        .args(arguments)
        .arg(binary)
        .args(["bench", url, "--quiet", "--json", "-", "--warm-up", "0", "--channels", "1"])
        .args(["--duration", &seconds.to_string()])
        .args(load.split(' '))
        .env("ANABRANCH_PASSWORD", PASSWORD)
        .output()
        .context("anabranch bench")?;
    let used = children_seconds()? - before;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let rate = report["per_second"].as_f64().context("no rate")?;
    Ok(Found { rate, client_us: used * 1e6 / (rate * f64::from(seconds)) })
}
