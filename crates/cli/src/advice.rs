//! `anabranch advise`.

mod machine;
mod measure;

use crate::remote::{self, Url};
use advise::{Facts, limit, rules, table};
use anyhow::{Context, Result};
use std::process::ExitCode;
use std::time::Duration;

/// Shown below the options.
const EXAMPLES: &str = "\
Makes a few small files in the share, loads them in all the ways that matter (one request at
a time and many, one file and several, three sizes, reads and writes) over few connections and
many, in turns, removes the files, and says:
  what holds it back: share, file, network adapter, processors, disks, latency, queue depth,
    size of requests, or the server;
  which workloads gain by several connections: green, yellow (neutral), red (they lose);
  what to set: lines for PowerShell, Linux mounts and udev, and keys of our server.

The small files are in the server's memory: disks are seen by writes only.

Examples:
  anabranch advise smb://alice@server/data
  anabranch advise nfs://server/export --seconds 120 --connections 1,4,8,16 --target 10G";

/// How long anything but the loads may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Arguments of `advise`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// smb://USER@HOST[:PORT]/SHARE[/FOLDER] or nfs://HOST[:PORT]/PATH
    url: Url,
    /// Seconds for all loads together
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(5..=7200))]
    seconds: u32,
    /// Numbers of connections to compare
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,4", value_parser = clap::value_parser!(u8).range(1..=32))]
    connections: Vec<u8>,
    /// Rate that is aimed at, a second, as in 10G: how many clients that takes
    #[arg(long, value_name = "SIZE", value_parser = crate::bench::parse_size)]
    target: Option<u64>,
    /// Process of the server, if it runs on this machine
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Read the password from standard input
    #[arg(long)]
    password_stdin: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

/// Measures and advises.
pub fn run(args: &Args) -> Result<ExitCode> {
    let password = match &args.url {
        Url::Smb(share) => remote::password(share, args.password_stdin)?,
        Url::Nfs(_) => String::new(),
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors.min(8))
        .enable_all()
        .build()?;
    let most = PATIENCE + Duration::from_secs(args.seconds.into());
    let measured = runtime
        .block_on(async { tokio::time::timeout(most, measure::facts(args, &password)).await });
    runtime.shutdown_background();
    let facts = measured.context("the server takes too long")??;
    if args.json {
        outln!("{}", server::log::escape_json(&serde_json::to_string_pretty(&json(&facts))?));
    } else {
        out!("{}", shown(&facts));
    }
    Ok(ExitCode::SUCCESS)
}

fn json(facts: &Facts) -> serde_json::Value {
    serde_json::json!({
        "facts": facts,
        "limits": limit::bindings(facts),
        "table": table::rows(facts),
        "findings": rules::findings(facts),
    })
}

fn shown(facts: &Facts) -> String {
    let mut out = format!(
        "{}/{}: {} {}, signing {}, sealing {}, round trip {:.2} ms\n\n",
        facts.server,
        facts.share,
        if facts.is_nfs { "NFS" } else { "SMB" },
        facts.dialect,
        facts.signing,
        facts.cipher,
        facts.round_trip_ms
    );
    let bindings = limit::bindings(facts);
    if let Some((first, others)) = bindings.split_first() {
        out += &format!("What holds it back: {} ({})\n", first.limit.name(), first.evidence);
        for one in others {
            out += &format!("  also: {} ({})\n", one.limit.name(), one.evidence);
        }
    }
    if let Some(best) = facts.best() {
        out += &format!(
            "Best rate: {}/s, {} requests of {} a second\n",
            advise::size(best.bytes_per_second.round()),
            best.per_second.round(),
            advise::size(f64::from(best.block_bytes))
        );
    }
    out += "\nSeveral connections against the fewest: green is recommended, red not; yellow is \
            neutral, or the rounds do not agree (then give more --seconds, on a quieter \
            machine)\n";
    out += &table::shown(facts);
    out += "\nWhat to do\n";
    out += &rules::shown(&rules::findings(facts));
    out
}
