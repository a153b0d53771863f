//! Compares this server with another one under our own loader, `anabranch bench`: one and four
//! channels, plain, signed and encrypted, small and large blocks.

use super::chart::BarChart;
use super::{Args, median};
use crate::server::{PASSWORD, PORT, USER};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Output};

/// Size of the file, which fits into the server's memory.
const FILE: &str = "64M";

/// Blocks: name, bytes, depth, further arguments.
const BLOCKS: [(&str, u32, &str, &[&str]); 3] = [
    ("4 KiB, depth 32", 4096, "32", &["--random"]),
    ("64 KiB, depth 16", 65_536, "16", &[]),
    ("1 MiB, depth 8", 1_048_576, "8", &[]),
];

/// Protection of messages: name, and arguments. A session with several channels is not signed by
/// AES-GMAC.
fn protections(channels: &str) -> [(&'static str, &'static [&'static str]); 3] {
    let signed: (&str, &[&str]) = match channels {
        "1" => ("signed", &["--sign", "gmac"]),
        _ => ("signed with CMAC", &["--sign", "cmac"]),
    };
    [("plain", &[]), signed, ("sealed", &["--encrypt", "gcm"])]
}

/// A load.
#[derive(Debug)]
pub struct OwnLoad {
    /// Name in the table.
    pub name: String,
    /// Bytes of one operation; none for metadata.
    pub bytes: Option<u32>,
    /// Arguments of `anabranch bench`.
    pub arguments: Vec<String>,
}

/// Figures of one load.
#[derive(Clone, Copy, Debug)]
pub struct LoadFigure {
    /// Operations per second.
    pub rate: f64,
    /// Server CPU time for each operation, in microseconds.
    pub server_us: f64,
    /// Loader CPU time for each operation, in microseconds.
    pub loader_us: f64,
    /// Channels that were used.
    pub channels: u64,
}

impl OwnLoad {
    fn new(name: String, bytes: Option<u32>, arguments: &[&[&str]]) -> Self {
        let arguments = arguments.iter().flat_map(|some| some.iter()).map(|a| (*a).to_owned());
        Self { name, bytes, arguments: arguments.collect() }
    }
}

/// Every load, in the order of the table.
fn loads() -> Vec<OwnLoad> {
    let mut all = Vec::new();
    for (direction, percent) in [("read", "100"), ("write", "0")] {
        let to = ["--read-percent", percent, "--file-size", FILE];
        for (block, bytes, depth, more) in BLOCKS {
            let size = bytes.to_string();
            for channels in ["1", "4"] {
                for (protection, how) in protections(channels) {
                    let name =
                        format!("own {direction} {block}, {protection}, channels: {channels}");
                    let block = ["--block", &size, "--depth", depth, "--channels", channels];
                    all.push(OwnLoad::new(name, Some(bytes), &[&block, &to, more, how]));
                }
            }
        }
        for channels in ["1", "4"] {
            let name = format!("own {direction} 4 KiB, depth 1, plain, channels: {channels}");
            let block = ["--random", "--block", "4K", "--depth", "1", "--channels", channels];
            all.push(OwnLoad::new(name, Some(4096), &[&block, &to]));
        }
        let name = format!("own {direction} 1 MiB, depth 8, signed with CMAC, channels: 1");
        let block = ["--block", "1M", "--depth", "8", "--channels", "1", "--sign", "cmac"];
        all.push(OwnLoad::new(name, Some(1_048_576), &[&block, &to]));
    }
    for (protection, how) in protections("1") {
        let name = format!("own metadata, depth 8, {protection}, channels: 1");
        let what = ["--metadata", "--depth", "8", "--channels", "1"];
        all.push(OwnLoad::new(name, None, &[&what, how]));
    }
    all
}

/// Measures all rows on both servers, given by address and process, and prints
/// a table; the second is called `peer` in it.
pub fn run(binary: &Path, servers: [(&str, u32); 2], peer: &str, args: &Args) -> Result<()> {
    println!();
    println!(
        "| own loader | ours /s | {peer} /s | ratio | ours µs/op | {peer} µs/op | loader µs/op | \
         ours s/GiB | {peer} s/GiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut chart =
        BarChart::new(&format!("Operations in a second, times those of {peer}"), ["Anabranch"]);
    for load in loads().iter().filter(|load| args.wants(&load.name)) {
        let mut figures = [Vec::new(), Vec::new()];
        for _ in 0..args.rounds {
            for (at, (address, pid)) in servers.into_iter().enumerate() {
                let figure = measure(&mut Command::new(binary), address, pid, args.seconds, load);
                figures[at].push(figure.with_context(|| format!("{} on {address}", load.name))?);
            }
        }
        let [Some(ours), Some(samba)] = figures.map(|f| median(f, |f| f.rate)) else { continue };
        print(load, &ours, &samba);
        chart.row(&load.name, [ours.rate / samba.rate]);
    }
    args.draw("own-loader.svg", &chart)
}

fn print(load: &OwnLoad, ours: &LoadFigure, samba: &LoadFigure) {
    let seconds_each_gib = |figure: &LoadFigure| match load.bytes {
        Some(bytes) => format!("{:.2}", figure.server_us * 1_073.741_824 / f64::from(bytes)),
        None => "-".to_owned(),
    };
    println!(
        "| {} ({}, {}) | {:.0} | {:.0} | {:.2} | {:.1} | {:.1} | {:.1} | {} | {} |",
        load.name,
        ours.channels,
        samba.channels,
        ours.rate,
        samba.rate,
        ours.rate / samba.rate,
        ours.server_us,
        samba.server_us,
        ours.loader_us,
        seconds_each_gib(ours),
        seconds_each_gib(samba),
    );
}

/// Runs a load once with this command: `anabranch`, or a wrapper that runs it.
///
/// # Errors
/// The loader does not run, or its report lacks a figure.
pub fn measure(
    anabranch: &mut Command,
    address: &str,
    pid: u32,
    seconds: u32,
    load: &OwnLoad,
) -> Result<LoadFigure> {
    let output = anabranch
        .args(["bench", &format!("smb://{USER}@{address}:{PORT}/plain"), "--quiet"])
        .args(["--json", "-", "--warm-up", "1", "--duration", &seconds.to_string()])
        .args(["--server-pid", &pid.to_string()])
        .args(&load.arguments)
        .env("ANABRANCH_PASSWORD", PASSWORD)
        .output()
        .context("anabranch bench")?;
    LoadFigure::of(&output)
}

impl LoadFigure {
    /// Parses the report of `anabranch bench --json -`.
    ///
    /// # Errors
    /// The loader failed, or its report lacks a figure.
    pub fn of(output: &Output) -> Result<Self> {
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr));
        }
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let number = |key: &str| report[key].as_f64().with_context(|| format!("no {key}"));
        let (rate, measured) = (number("per_second")?, number("seconds")?);
        let count = rate * measured;
        Ok(Self {
            rate,
            server_us: number("server_cpu_seconds")? * 1e6 / count,
            loader_us: number("client_cpu_seconds")? * 1e6 / count,
            channels: report["environment"]["channels"].as_u64().unwrap_or(0),
        })
    }
}
