//! `anabranch advise`.

mod machine;
mod measure;

use crate::output;
use crate::remote::{self, RemoteUrl};
use advise::{MeasurementFacts, limit, report, rules, table};
use anyhow::{Context, Result};
use std::process::ExitCode;
use std::time::Duration;

/// Shown below the options.
const EXAMPLES: &str = "\
Creates a few small files in the share, measures typical loads (one request at a time and
many, one file and several, three sizes, reads and writes) over each number of connections in
turns, several rounds each, removes the files, and reports:
  first, if one connection is all there is; then nothing is compared;
  the bottleneck: share, file, network adapter, CPUs, disks, latency, queue depth,
    size of requests, or the server;
  the spread of the rounds, and the workloads that gain or lose by several connections;
    differences within the spread are no difference;
  the settings: lines for PowerShell, Linux mounts and udev, and the options of the server that
    is there: Anabranch, Samba or Windows.

The small files stay in the server's memory, so only writes measure the disks.

Examples:
  anabranch advise smb://alice@server/data
  anabranch advise nfs://server/export --seconds 120 --connections 1,4,8,16 --target 10G";

/// Timeout of everything but the loads.
const PATIENCE: Duration = Duration::from_secs(120);

/// Arguments of `advise`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// smb://USER@HOST[:PORT]/SHARE[/FOLDER] or nfs://HOST[:PORT]/PATH
    url: RemoteUrl,
    /// Seconds for all loads together
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(5..=7200))]
    seconds: u32,
    /// Numbers of connections to compare
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,4", value_parser = clap::value_parser!(u8).range(1..=32))]
    connections: Vec<u8>,
    /// Target rate in bytes a second, as in 10G: reports the number of clients that reach it
    #[arg(long, value_name = "SIZE", value_parser = crate::bench::parse_size)]
    target: Option<u64>,
    /// Process id of the server, if it runs on this machine
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Read the password from standard input
    #[arg(long)]
    password_stdin: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Show the codes of the rules, too
    #[arg(long, short)]
    verbose: bool,
    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

/// Measures and advises.
pub fn run(args: &Args) -> Result<ExitCode> {
    let password = match &args.url {
        RemoteUrl::Smb(share) => remote::password(share, args.password_stdin)?,
        RemoteUrl::Nfs(_) => String::new(),
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cpus.min(8))
        .enable_all()
        .build()?;
    let most = PATIENCE + Duration::from_secs(args.seconds.into());
    let measured = runtime
        .block_on(async { tokio::time::timeout(most, measure::facts(args, &password)).await });
    runtime.shutdown_background();
    let facts = measured.context("the server did not answer in time")??;
    if args.json {
        output::print_json(&json(&facts))?;
    } else {
        out!("{}", report::shown(&facts, args.verbose));
    }
    Ok(ExitCode::SUCCESS)
}

fn json(facts: &MeasurementFacts) -> serde_json::Value {
    serde_json::json!({
        "facts": facts,
        "limits": limit::bindings(facts),
        "table": table::rows(facts),
        "findings": rules::findings(facts),
    })
}
