//! Measures one channel and four over links of a known bandwidth or latency: the gain of
//! Multichannel where the link, not a CPU, is the bottleneck.

use super::chart::BarChart;
use super::network::{ClientNetwork, NetworkLink};
use super::own_loader::{LoadFigure, OwnLoad, measure};
use super::samba::SambaPeer;
use super::{Args, median};
use crate::server::{PORT, RunningServer};
use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::path::Path;

/// Links between client and servers, and the channels that use them.
const LINKS: u8 = 4;
/// Bytes of the copy over links of high latency, as a size and as a number.
const COPY: (&str, f64) = ("1G", 1_073_741_824.0);
const MIB: f64 = 1_048_576.0;

/// Measures both kinds of links.
///
/// # Errors
/// A namespace, a server or a load does not run.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let binary = super::binary(root)?;
    shaped(&binary, args)?;
    long(&binary, root, args)
}

/// Four links of the same bandwidth: one channel fills one of them, four channels all.
fn shaped(binary: &Path, args: &Args) -> Result<()> {
    let rate = NetworkLink::Shaped { megabits: 400 };
    let ends = ClientNetwork::new(LINKS, &rate)?;
    let ours = RunningServer::anabranch_on(binary, 61, &ends.addresses(0))?;
    let samba = SambaPeer::start(&ends.addresses(1))?;
    let servers = [(ours.address.as_str(), ours.pid()), (&samba.addresses[0], samba.pid())];
    println!("Four links of 400 Mbit/s, MiB/s:\n");
    println!("| load | ours, 1 channel | ours, 4 | gain | Samba, 1 channel | Samba, 4 | gain |");
    println!("|---|---|---|---|---|---|---|");
    let mut chart = BarChart::new("Four links of 400 Mbit/s, MiB/s", ["4 channels", "1 channel"]);
    for (direction, percent) in [("read", "100"), ("write", "0")] {
        for (block, bytes) in [("64 KiB", "64K"), ("1 MiB", "1M")] {
            let name = format!("{direction} {block}, depth 32");
            if !args.wants(&name) {
                continue;
            }
            let arguments = ["--read-percent", percent, "--block", bytes, "--depth", "32"];
            let size = if bytes == "1M" { 1_048_576 } else { 65_536 };
            let mut cells = Vec::new();
            for server in servers {
                let rates = one_and_four(binary, &ends, server, args, &arguments)?;
                cells.push(rates.map(|f| f.rate * f64::from(size) / MIB));
            }
            print(&name, &cells, |[one, four]| four / one);
            for (server, [one, four]) in ["Anabranch", "Samba"].into_iter().zip(cells) {
                chart.row(&format!("{name}, {server}"), [four, one]);
            }
        }
    }
    args.draw("links.svg", &chart)
}

/// A copy of 1 GiB over a link with a round trip of 23 ms, where the TCP window is the bottleneck.
fn long(binary: &Path, root: &Path, args: &Args) -> Result<()> {
    if !args.wants("copy of 1 GiB") {
        return Ok(());
    }
    let link = NetworkLink::Long { root, round_trip_ms: 23 };
    let ends = ClientNetwork::new(1, &link)?;
    let ours = RunningServer::anabranch_on(binary, 61, &ends.addresses(0))?;
    let samba = SambaPeer::start(&ends.addresses(1))?;
    let servers = [(ours.address.as_str(), ours.pid()), (&samba.addresses[0], samba.pid())];
    println!(
        "\n`anabranch probe` over 23 ms there and back, fastest of 20 connects, milliseconds:\n"
    );
    for (name, (address, _)) in ["Anabranch", "Samba"].into_iter().zip(servers) {
        println!("- {name}: {:.1}", probed(binary, &ends, address)?);
    }
    println!("\nA copy of 1 GiB, 23 ms there and back, windows of at most 1 MiB, seconds:\n");
    println!("| load | ours, 1 channel | ours, 4 | gain | Samba, 1 channel | Samba, 4 | gain |");
    println!("|---|---|---|---|---|---|---|");
    for (direction, percent) in [("read", "100"), ("write", "0")] {
        let arguments =
            ["--read-percent", percent, "--block", "1M", "--depth", "64", "--bytes", COPY.0];
        let mut cells = Vec::new();
        for server in servers {
            let rates = one_and_four(binary, &ends, server, args, &arguments)?;
            cells.push(rates.map(|f| COPY.1 / MIB / f.rate));
        }
        print(direction, &cells, |[one, four]| one / four);
    }
    Ok(())
}

/// Connect time in milliseconds as `anabranch probe` reports it; on an idle machine the link's round
/// trip.
fn probed(binary: &Path, ends: &ClientNetwork, address: &str) -> Result<f64> {
    let output = ends
        .in_client(binary)
        .args(["probe", &format!("{address}:{PORT}"), "--json"])
        .output()
        .context("anabranch probe")?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let connects = &report["hosts"][0]["facts"]["connects"];
    connects["min_ms"].as_f64().context("no connects")
}

/// The same load with one channel and with four; the median of all rounds.
fn one_and_four(
    binary: &Path,
    ends: &ClientNetwork,
    (address, pid): (&str, u32),
    args: &Args,
    arguments: &[&str],
) -> Result<[LoadFigure; 2]> {
    let mut figures = [Vec::new(), Vec::new()];
    for _ in 0..args.rounds {
        for (at, channels) in ["1", "4"].into_iter().enumerate() {
            let arguments = [arguments, &["--file-size", "256M", "--channels", channels]].concat();
            let load = OwnLoad {
                name: String::new(),
                bytes: None,
                arguments: arguments.into_iter().map(str::to_owned).collect(),
            };
            let mut client = ends.in_client(binary);
            let figure = measure(&mut client, address, pid, args.seconds, &load);
            figures[at].push(figure.with_context(|| format!("{channels} channels on {address}"))?);
        }
    }
    let [Some(one), Some(four)] = figures.map(|f| median(f, |f| f.rate)) else {
        bail!("no rounds");
    };
    if four.channels != 4 {
        println!("The session with {address} had {} channels.", four.channels);
    }
    Ok([one, four])
}

fn print(name: &str, cells: &[[f64; 2]], gain: fn([f64; 2]) -> f64) {
    let mut line = format!("| {name} |");
    for cell in cells {
        let _ = write!(line, " {:.1} | {:.1} | {:.2} |", cell[0], cell[1], gain(*cell));
    }
    println!("{line}");
}
