//! dbench with its own load files for SMB, compared with Samba: a foreign model of clients, by a
//! foreign library (libsmbclient).

use super::samba::SambaPeer;
use super::{Args, median, peers};
use crate::server::{PASSWORD, PORT, RunningServer, USER};
use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// A load file and its number of concurrent clients. In the file with all operations the clients
/// share the same files, so it has one client.
const LOADS: [(&str, &str); 3] = [("smb.load", "1"), ("smb_1.load", "1"), ("smb_1.load", "8")];

/// Figures of one dbench run.
#[derive(Clone, Debug)]
struct DbenchRun {
    /// Operation, count, and average latency in milliseconds.
    operations: Vec<(String, f64, f64)>,
    /// Server CPU time for each operation, in microseconds.
    server_us: f64,
}

impl DbenchRun {
    /// Number of operations.
    fn count(&self) -> f64 {
        self.operations.iter().map(|operation| operation.1).sum()
    }

    /// Average latency of an operation of this kind.
    fn milliseconds(&self, kind: &str) -> f64 {
        self.operations.iter().find(|(name, ..)| name == kind).map_or(0.0, |found| found.2)
    }
}

/// Runs the loads to both servers in turns.
///
/// # Errors
/// No dbench, or one without SMB; a server that does not run.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let folder = args.dbench.as_deref().context(
        "say --dbench DIR: a checkout of dbench 5 that was built with libsmbclient \
         (Debian's package has no SMB)",
    )?;
    let ours = RunningServer::anabranch(&super::binary(root)?, 61)?;
    let samba = SambaPeer::start(&[crate::server::address(peers::SAMBA_HOST)])?;
    let servers = [
        ("Anabranch", ours.address.as_str(), ours.pid()),
        ("Samba", samba.addresses[0].as_str(), samba.pid()),
    ];
    println!("dbench, {} s each, the middle one of {} rounds:\n", args.seconds, args.rounds);
    println!(
        "| load | clients | server | operations/s | server µs an operation | ms: average of each kind |"
    );
    println!("|---|---|---|---|---|---|");
    for (load, clients) in LOADS {
        if !args.wants(load) {
            continue;
        }
        let mut runs = [Vec::new(), Vec::new()];
        for _ in 0..args.rounds {
            for (server, runs) in servers.iter().zip(&mut runs) {
                runs.push(measure(folder, load, clients, server, args.seconds)?);
            }
        }
        for ((name, ..), runs) in servers.iter().zip(&runs) {
            let order: Vec<usize> = (0..runs.len()).collect();
            let middle = median(order, |at| runs[*at].server_us).context("no rounds")?;
            println!("| {load} | {clients} | {name} | {}", row(&runs[middle], args.seconds));
        }
    }
    Ok(())
}

fn row(run: &DbenchRun, seconds: u32) -> String {
    let mut row = format!("{:.0} | {:.1} |", run.count() / f64::from(seconds), run.server_us);
    for (kind, ..) in &run.operations {
        // Writing to a string does not fail.
        let _ = write!(row, " {} {:.2}", kind.to_lowercase(), run.milliseconds(kind));
    }
    row + " |"
}

fn measure(
    folder: &Path,
    load: &str,
    clients: &str,
    (name, address, pid): &(&str, &str, u32),
    seconds: u32,
) -> Result<DbenchRun> {
    let before = peers::ticks(*pid);
    let output = Command::new(folder.join("dbench"))
        .args(["--backend", "smb", "--loadfile"])
        .arg(folder.join("loadfiles").join(load))
        .arg(format!("--smb-share=//{address}:{PORT}/plain"))
        .arg(format!("--smb-user={USER}%{PASSWORD}"))
        // dbench does not count the operations of a warm-up, but the server's CPU time includes them.
        .args(["--warmup", "0", "--timelimit", &seconds.to_string(), clients])
        .output()
        .context("dbench")?;
    let ticks = peers::ticks(*pid) - before;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut run = DbenchRun { operations: operations(&said), server_us: 0.0 };
    if !output.status.success() || run.operations.is_empty() {
        bail!("{name}: {load}: {said}{}", String::from_utf8_lossy(&output.stderr));
    }
    run.server_us = ticks / peers::TICKS_PER_SECOND * 1e6 / run.count();
    Ok(run)
}

/// The lines of dbench's table: operation, count, average and longest.
fn operations(said: &str) -> Vec<(String, f64, f64)> {
    let table = said.lines().skip_while(|line| !line.trim_start().starts_with("----")).skip(1);
    let lines = table.map_while(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let mut numbers = words.map_while(|word| word.parse::<f64>().ok());
        Some((name, numbers.next()?, numbers.next()?))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dbench_table_is_parsed_and_other_lines_are_skipped() {
        let said = "   4  execute   1 sec\n\n Operation                Count    AvgLat    MaxLat\n \
                    --------------------------------------------------\n \
                    CLOSE                      630     0.050     1.899\n \
                    WRITE                     7560     0.061     8.532\n\nThroughput 8.1 MB/sec\n";
        let read = operations(said);
        assert_eq!(read, [("CLOSE".into(), 630.0, 0.05), ("WRITE".into(), 7560.0, 0.061)]);
        assert!(operations("no table\n").is_empty());
    }
}
