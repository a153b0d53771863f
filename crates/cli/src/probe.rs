//! `anabranch probe`.

mod measure;
mod target;

use crate::output;
use crate::remote;
use advise::probe::{LayerState, ProbedHost, compare, culprit, judge, story};
use anyhow::{Context, Result};
use std::process::ExitCode;
use std::time::Duration;
use target::ProbeTarget;

pub use measure::interfaces_of;

/// Shown below the options.
const EXAMPLES: &str = "\
A HOST is probed on both ports, SMB's 445 and NFS's 2049; HOST:PORT on that port, as NFS if it
is 2049 and as SMB otherwise. With a URL it also probes a session, the share, channels, and reads of
a file that it creates in the share and removes. The password comes from ANABRANCH_PASSWORD,
from standard input (--password-stdin), or from a prompt, if there is no Kerberos ticket.

Examples:
  anabranch probe files.example.com
  anabranch probe 192.0.2.5:445 192.0.2.9:445 --count 50
  anabranch probe smb://alice@server/data nfs://server/export --report story.md";

/// Most connects of one host, and the longest that a layer may take.
const COUNT_MAX: u64 = 10_000;
const SECONDS_MAX: f64 = 600.0;

/// Arguments of `probe`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// HOST, HOST:PORT, smb://USER@HOST[:PORT]/SHARE[/FOLDER] or nfs://HOST[:PORT]/PATH
    #[arg(required = true, num_args = 1..=16)]
    hosts: Vec<ProbeTarget>,
    /// Number of TCP connects to each host
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: u64,
    /// Milliseconds between two connects
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    interval: u64,
    /// Seconds that any one layer may take
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    within: f64,
    /// Connections of a session
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    channels: u8,
    /// Read the password from standard input
    #[arg(long)]
    password_stdin: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Write a report as Markdown to a file
    #[arg(long, value_name = "FILE")]
    report: Option<std::path::PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let wrong = || format!("seconds are a number from 0.1 to {SECONDS_MAX}");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if (0.1..=SECONDS_MAX).contains(&seconds) { Ok(seconds) } else { Err(wrong()) }
}

/// How a probe is done.
#[derive(Clone, Copy, Debug)]
struct ProbePlan {
    count: u64,
    interval: Duration,
    within: Duration,
    channels: usize,
}

/// Probes all hosts.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut places: Vec<_> = args.hosts.iter().flat_map(ProbeTarget::places).collect();
    for place in &mut places {
        if let Some(remote::RemoteUrl::Smb(url)) = &place.url {
            place.password = Some(remote::password(url, args.password_stdin)?);
        }
    }
    let plan = ProbePlan {
        count: args.count,
        interval: Duration::from_millis(args.interval),
        within: Duration::from_secs_f64(args.within),
        channels: usize::from(args.channels),
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let hosts = runtime.block_on(measure::all(places, plan));
    // A name server that does not answer must not delay the exit.
    runtime.shutdown_background();
    if let Some(file) = &args.report {
        std::fs::write(file, story(&hosts))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if args.json {
        output::print_json(&json(&hosts))?;
    } else {
        out!("{}", shown(&hosts));
    }
    let broken = hosts.iter().any(|host| judge(host).iter().any(|v| v.state == LayerState::Broken));
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn json(hosts: &[ProbedHost]) -> serde_json::Value {
    let one = |host: &ProbedHost| {
        let layers = judge(host);
        let verdict = culprit(&layers).cloned();
        serde_json::json!({ "facts": host, "layers": layers, "verdict": verdict })
    };
    serde_json::json!({
        "hosts": hosts.iter().map(one).collect::<Vec<_>>(),
        "side_by_side": compare(hosts),
    })
}

fn shown(hosts: &[ProbedHost]) -> String {
    let wide = hosts.iter().map(|host| host.place().chars().count()).max().unwrap_or_default();
    let mut out = format!(
        "{:<wide$}  {:>5}  {:>5}  {:>8}  {:>8}  {:>8}  {:>8}\n",
        "TCP connect", "count", "lost", "min ms", "avg ms", "max ms", "p99 ms"
    );
    for host in hosts {
        let c = &host.connects;
        out += &format!(
            "{:<wide$}  {:>5}  {:>5}  {:>8.2}  {:>8.2}  {:>8.2}  {:>8.2}\n",
            plain(&host.place()),
            c.count,
            c.lost,
            c.min_ms,
            c.avg_ms,
            c.max_ms,
            c.p99_ms
        );
    }
    for host in hosts {
        out += &format!("\n{}\n", plain(&host.place()));
        let layers = judge(host);
        for one in layers.iter().filter(|one| one.state != LayerState::NotTested) {
            let state = match one.state {
                LayerState::Broken => "BROKEN",
                LayerState::Slow => "slow",
                _ => "good",
            };
            out += &format!("  {state:<7} {:<14} {}\n", one.layer.name(), plain(&one.result));
        }
        out += &match culprit(&layers) {
            Some(one) => {
                let remedy = one.remedy.as_deref().unwrap_or("check this layer first");
                format!("  verdict: {}: {remedy}\n", one.layer.name())
            }
            None => "  verdict: every probed layer is good\n".into(),
        };
    }
    let lines = compare(hosts);
    if !lines.is_empty() {
        out += "\nside by side\n";
        lines.iter().for_each(|line| out += &format!("  {}\n", plain(line)));
    }
    out
}

/// Escapes control characters: names of other machines must not control the terminal.
fn plain(text: &str) -> String {
    server::log::EscapedText(text).to_string()
}
