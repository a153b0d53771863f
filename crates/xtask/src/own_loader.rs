//! Side by side with another server under our own loader, `anabranch bench`: one
//! channel and four, plain, signed and sealed, small blocks and large.

use crate::bench::Args;
use crate::server::{PASSWORD, PORT, USER};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// Size of the file, which is in the server's memory.
const FILE: &str = "64M";

/// Blocks: name, size, depth, further arguments.
const BLOCKS: [(&str, &str, &str, &[&str]); 3] = [
    ("4 KiB, depth 32", "4K", "32", &["--random"]),
    ("64 KiB, depth 16", "64K", "16", &[]),
    ("1 MiB, depth 8", "1M", "8", &[]),
];

/// How messages are protected: name, and arguments.
const PROTECTIONS: [(&str, &[&str]); 3] =
    [("plain", &[]), ("signed", &["--sign", "gmac"]), ("sealed", &["--encrypt", "gcm"])];

/// Operations in a second; microseconds of processor time for each, of the
/// server and of the loader; channels that were used.
#[derive(Clone, Copy, Debug)]
struct Figure {
    rate: f64,
    server_us: f64,
    loader_us: f64,
    channels: u64,
}

/// Measures all rows on both servers, given by address and process, and prints
/// a table.
pub fn run(binary: &Path, servers: [(&str, u32); 2], args: &Args) -> Result<()> {
    println!();
    println!(
        "| own loader | ours /s | Samba /s | ratio | ours µs/op | Samba µs/op | loader µs/op |"
    );
    println!("|---|---|---|---|---|---|---|");
    for direction in ["read", "write"] {
        for (block, size, depth, more) in BLOCKS {
            for (protection, how) in PROTECTIONS {
                for channels in ["1", "4"] {
                    let name =
                        format!("own {direction} {block}, {protection}, channels: {channels}");
                    if !args.wants(&name) {
                        continue;
                    }
                    let percent = if direction == "read" { "100" } else { "0" };
                    let load = [
                        &["--block", size, "--depth", depth, "--channels", channels][..],
                        &["--read-percent", percent, "--file-size", FILE],
                        more,
                        how,
                    ]
                    .concat();
                    row(binary, servers, args, &name, &load)?;
                }
            }
        }
    }
    Ok(())
}

fn row(
    binary: &Path,
    servers: [(&str, u32); 2],
    args: &Args,
    name: &str,
    load: &[&str],
) -> Result<()> {
    let (seconds, rounds) = args.effort();
    let mut figures = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (at, (address, pid)) in servers.into_iter().enumerate() {
            let figure = measure(binary, address, pid, seconds, load);
            figures[at].push(figure.with_context(|| format!("{name} on {address}"))?);
        }
    }
    let [ours, samba] = figures.map(middle);
    println!(
        "| {name} ({}, {}) | {:.0} | {:.0} | {:.2} | {:.1} | {:.1} | {:.1} |",
        ours.channels,
        samba.channels,
        ours.rate,
        samba.rate,
        ours.rate / samba.rate,
        ours.server_us,
        samba.server_us,
        ours.loader_us
    );
    Ok(())
}

/// The figure with the middle rate.
fn middle(mut figures: Vec<Figure>) -> Figure {
    figures.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    figures[figures.len() / 2]
}

fn measure(binary: &Path, address: &str, pid: u32, seconds: u32, load: &[&str]) -> Result<Figure> {
    let output = Command::new(binary)
        .args(["bench", &format!("smb://{USER}@{address}:{PORT}/plain"), "--quiet"])
        .args(["--json", "-", "--warm-up", "1", "--duration", &seconds.to_string()])
        .args(["--server-pid", &pid.to_string()])
        .args(load)
        .env("ANABRANCH_PASSWORD", PASSWORD)
        .output()
        .context("anabranch bench")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let number = |key: &str| report[key].as_f64().with_context(|| format!("no {key}"));
    let (rate, measured) = (number("per_second")?, number("seconds")?);
    let count = rate * measured;
    Ok(Figure {
        rate,
        server_us: number("server_cpu_seconds")? * 1e6 / count,
        loader_us: number("client_cpu_seconds")? * 1e6 / count,
        channels: report["environment"]["channels"].as_u64().unwrap_or(0),
    })
}
