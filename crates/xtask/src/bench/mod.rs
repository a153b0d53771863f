//! Compares this server with another one: throughput, and the server's CPU time for each operation.

mod agreement;
mod builds;
mod chart;
mod copy;
mod dbench;
mod instructions;
mod limits;
mod links;
mod metadata;
mod network;
mod nfs;
mod own_loader;
mod peers;
mod quota;
mod samba;
mod walk;

pub use chart::BarChart;

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Earlier name of the benchmark `links`, which the help does not show.
const EARLIER_LINKS: &str = "lines";

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Benchmark to run: `peers`, both servers on the loopback device; `builds`, two builds of this
    /// server in turns; `links`, over slow or long ones; `metadata`, operations on names; `nfs`,
    /// compared with NFS-Ganesha; `copy`, compared with other copy programs; `dbench`, with that
    /// program; `agreement`, our loader compared with foreign ones; `limits`, limits of shares under
    /// overload; `instructions`, the cost of limits for each request; `walk`, reads during a walk
    /// through a tree of millions of names; `floor`, the machine's own cost without any protocol
    what: String,
    /// Measure only rows whose names contain this text
    #[arg(long)]
    row: Option<String>,
    /// Duration of one measurement in seconds
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Rounds of each measurement; the median is shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Measure with the machine's own TCP settings, not in a network namespace
    #[arg(long)]
    host_network: bool,
    /// Use only this load generator: Samba's benches, or `anabranch bench`
    #[arg(long)]
    loader: Option<Loader>,
    /// Measure this earlier build of the server instead of the peer, in `peers`, `metadata` and `nfs`,
    /// and beside the present one in `builds`
    #[arg(long, value_name = "BINARY")]
    before: Option<PathBuf>,
    /// Draw charts (SVG) into this folder
    #[arg(long)]
    charts: Option<PathBuf>,
    #[command(flatten)]
    cpus: builds::Cpus,
    #[command(flatten)]
    sizes: metadata::Sizes,
    #[command(flatten)]
    amount: copy::Amount,
    #[command(flatten)]
    walk: walk::WalkedTree,
    /// Measure only this program of `copy`
    #[arg(long)]
    program: Option<String>,
    /// Folder of a dbench with SMB support, for `dbench`
    #[arg(long)]
    dbench: Option<PathBuf>,
    /// Path of a fio with libnfs support, for `agreement`
    #[arg(long)]
    fio: Option<PathBuf>,
}

/// The program that generates the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Loader {
    /// `smbtorture`
    Torture,
    /// `anabranch bench`
    Own,
}

impl Args {
    fn loads_with(&self, loader: Loader) -> bool {
        self.loader.is_none_or(|wanted| wanted == loader)
    }

    fn wants(&self, name: &str) -> bool {
        self.row.as_ref().is_none_or(|row| name.contains(row.as_str()))
    }

    fn wants_program(&self, name: &str) -> bool {
        self.program.as_ref().is_none_or(|program| name.contains(program.as_str()))
    }

    fn draw(&self, file: &str, chart: &BarChart) -> Result<()> {
        let Some(folder) = &self.charts else { return Ok(()) };
        std::fs::create_dir_all(folder)?;
        Ok(std::fs::write(folder.join(file), chart.svg())?)
    }
}

/// Measures, and prints tables in Markdown.
///
/// # Errors
/// A server or a load that does not run.
pub fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    if !args.host_network || ["links", EARLIER_LINKS].contains(&args.what.as_str()) {
        network::enter()?;
    }
    println!("TCP congestion control: {}\n", network::congestion_control());
    match args.what.as_str() {
        "peers" => peers::run(root, args)?,
        "builds" => builds::run(root, args)?,
        "links" | EARLIER_LINKS => links::run(root, args)?,
        "metadata" => metadata::run(root, args)?,
        "nfs" => nfs::run(root, args)?,
        "copy" => copy::run(root, args)?,
        "dbench" => dbench::run(root, args)?,
        "agreement" => agreement::run(root, args)?,
        "limits" => limits::run(root, args)?,
        "instructions" => instructions::run(root, args)?,
        "walk" => walk::run(root, args)?,
        "floor" => floor(root, args)?,
        other => bail!(
            "no bench {other:?}; there are: peers, builds, links, metadata, nfs, copy, dbench, agreement, limits, instructions, walk, floor"
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the cost of moving blocks with system calls and cryptography alone.
fn floor(root: &Path, args: &Args) -> Result<()> {
    let status = Command::new("cargo")
        .args(["run", "--release", "--quiet", "--package", "server", "--example", "floor", "--"])
        .arg(args.seconds.to_string())
        .current_dir(root)
        .status()?;
    anyhow::ensure!(status.success(), "cannot measure the floor");
    Ok(())
}

/// The server's binary: the release build where there is one.
fn binary(root: &Path) -> Result<PathBuf> {
    let targets = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
    let binary = targets.join("release/anabranch");
    if binary.exists() { Ok(binary) } else { crate::server::binary() }
}

/// The median element by this measure; `None` for an empty list.
fn median<T: Copy>(mut all: Vec<T>, measure: impl Fn(&T) -> f64) -> Option<T> {
    all.sort_by(|a, b| measure(a).total_cmp(&measure(b)));
    all.get(all.len() / 2).copied()
}
