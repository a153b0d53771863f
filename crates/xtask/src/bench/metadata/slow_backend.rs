//! Our server over a slow backend, with its cache and without: two servers, measured in turns.

use super::{CACHE_OFF, LoaderReport, MeasuredServer, OURS, WITHOUT_CACHE};
use crate::bench::Args;
use crate::server::RunningServer;
use anyhow::{Context, Result};
use std::path::Path;

/// Workers of the loader: one, which waits for each reply, and several.
const DEPTHS: [&str; 2] = ["1", "8"];
const KINDS: [&str; 4] = ["create", "open", "close", "delete"];

/// Prints a table for each number of workers.
pub fn run(binary: &Path, args: &Args, latency_us: u64) -> Result<()> {
    let slow = format!(",backend_latency_us={latency_us}");
    let on = RunningServer::anabranch_with(binary, OURS, &slow)?;
    let off = RunningServer::anabranch_with(binary, WITHOUT_CACHE, &format!("{slow}{CACHE_OFF}"))?;
    let servers = [MeasuredServer::of("on", &on), MeasuredServer::of("off", &off)];
    println!(
        "Each look at the directory takes {latency_us} µs longer; latencies in µs, p50 / p99:\n"
    );
    println!("| names | workers | cache | /s | server µs/op | {} |", KINDS.join(" | "));
    println!("|---|---|---|---|---|---|---|---|---|");
    for names in &args.sizes.names {
        let folder = format!("names{names}");
        for server in &servers {
            server.fill(&folder, *names)?;
        }
        for depth in DEPTHS {
            compare(binary, &servers, &folder, (*names, depth), args)?;
        }
        for server in &servers {
            server.empty(&folder)?;
        }
    }
    println!();
    Ok(())
}

fn compare(
    binary: &Path,
    servers: &[MeasuredServer; 2],
    folder: &str,
    (names, depth): (u64, &str),
    args: &Args,
) -> Result<()> {
    let (files, seconds) = (names.to_string(), args.seconds.to_string());
    let load = ["--in-folder", "--files", &files, "--depth", depth, "--duration", &seconds];
    let load: Vec<&str> = load.into_iter().chain(["--warm-up", "2"]).collect();
    let mut reports = [Vec::new(), Vec::new()];
    for _ in 0..args.rounds {
        for (server, reports) in servers.iter().zip(&mut reports) {
            reports.push(server.measure(binary, folder, &load)?);
        }
    }
    let [on, off] = reports.map(|mut reports| {
        reports.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
        let middle = reports.len() / 2;
        (!reports.is_empty()).then(|| reports.swap_remove(middle))
    });
    let (on, off) = (on.context("no rounds")?, off.context("no rounds")?);
    for (server, report) in servers.iter().zip([&on, &off]) {
        let figure =
            |kind: &str| format!("{:.0} / {:.0}", report.of(kind, "p50"), report.of(kind, "p99"));
        println!(
            "| {names} | {depth} | {} | {:.0} | {:.1} | {} |",
            server.name,
            report.rate(),
            report.server_us(),
            KINDS.map(figure).join(" | ")
        );
    }
    let ratio = |kind: &str| {
        let of = |figure| over(&on, &off, |report: &LoaderReport| report.of(kind, figure));
        format!("{:.2} / {:.2}", of("p50"), of("p99"))
    };
    println!(
        "| {names} | {depth} | on : off | {:.2} | {:.2} | {} |",
        over(&on, &off, LoaderReport::rate),
        over(&on, &off, LoaderReport::server_us),
        KINDS.map(ratio).join(" | ")
    );
    Ok(())
}

fn over(on: &LoaderReport, off: &LoaderReport, figure: impl Fn(&LoaderReport) -> f64) -> f64 {
    figure(on) / figure(off)
}
