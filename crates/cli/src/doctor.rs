//! `anabranch doctor`: checks whether this machine is fit to serve.
//!
//! The modules below collect the facts; `advise::doctor` derives the findings.

mod machine;
mod network;
mod places;
mod refusals;

use crate::check::{self, CheckResult};
use crate::output;
use advise::doctor::{self, DoctorFacts, FindingSeverity, LogonWays, ServerVersion};
use anyhow::Result;
use server::config::{AdminAddress, Ntlm, ServerConfig};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// The packaged service's configuration file, the default.
const CONFIG: &str = "/etc/anabranch/anabranch.toml";

/// Exit code if there are no findings.
const UNCHECKED: u8 = 3;

/// Shown below the options.
const EXAMPLES: &str = "\
Checks the kernel, limits, memory, the clock, network queues and interfaces, ports and the
programs that hold them, firewalls, the configuration, permissions, and the file system of each
share: free space, attributes, access lists, shared blocks, long named streams. Nothing is
changed: test files on a share have no name and are removed at once. Each finding is ok, YELLOW
(serves, but slower or without a feature) or RED (does not serve, or not safely), with the
command that helps.

Examples:
  sudo anabranch doctor
  anabranch doctor /srv/data
  sudo anabranch doctor --config anabranch.toml
  anabranch doctor --json | jq '.findings[] | select(.state != \"green\")'";

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directory to serve, instead of a configuration file
    #[arg(conflicts_with = "config")]
    dir: Option<PathBuf>,
    /// Configuration file; by default the packaged service's, if it exists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the findings and the facts behind them as JSON
    #[arg(long)]
    json: bool,
}

/// Collects the facts, prints the findings, and returns the worst state as the exit code.
pub fn run(args: &Args) -> Result<ExitCode> {
    let facts = match look(args) {
        Ok(facts) => facts,
        Err(error) => {
            errln!("anabranch: {error:#}");
            return Ok(ExitCode::from(UNCHECKED));
        }
    };
    let findings = doctor::findings(&facts);
    if args.json {
        let all = serde_json::json!({
            "state": doctor::worst(&findings), "findings": findings, "facts": facts,
        });
        output::print_json(&all)?;
    } else {
        out!("{}", doctor::shown(&findings));
    }
    Ok(ExitCode::from(match doctor::worst(&findings) {
        FindingSeverity::Green => 0,
        FindingSeverity::Yellow => 1,
        FindingSeverity::Red => 2,
    }))
}

fn look(args: &Args) -> Result<DoctorFacts> {
    let usual = || Some(PathBuf::from(CONFIG)).filter(|path| path.exists());
    let path = args.config.clone().or_else(|| args.dir.is_none().then(usual).flatten());
    let mut facts = machine::facts();
    let mut config = ServerConfig::empty();
    if let Some(path) = &path {
        let checked = check::look(path);
        facts.config_path = Some(path.display().to_string());
        let CheckResult { config: read, problems, warnings } = checked;
        (facts.config_problems, facts.config_warnings) = (problems, warnings);
        // An unreadable configuration is the only finding that it allows.
        let Some(read) = read else { return Ok(facts) };
        config = read;
    }
    if let Some(dir) = &args.dir {
        config.add_share("share", &dir.canonicalize().unwrap_or_else(|_| dir.clone()))?;
    }
    let running = network::running(config.admin.as_ref());
    let addresses = |what, of: &[SocketAddr]| -> Vec<_> {
        of.iter().map(|address| network::port(what, *address, &running)).collect()
    };
    let usual = [SocketAddr::from(([0, 0, 0, 0], 445))];
    let smb = if config.smb.is_empty() { &usual[..] } else { &config.smb };
    facts.ports = addresses("SMB", smb);
    facts.ports.extend(addresses("NFS", &config.nfs));
    if let Some(AdminAddress::Tcp(admin)) = config.admin {
        facts.ports.extend(addresses("admin", &[admin]));
    }
    facts.nfs_shares = network::nfs_shares(&config, running.as_ref());
    let (kerberos, ntlm) = (config.kerberos.is_some(), config.ntlm == Ntlm::On);
    facts.logon = Some(LogonWays { kerberos, ntlm });
    let is_confined = |layers: &Vec<String>| !layers.iter().any(|layer| layer == "seccomp");
    facts.missing_layers = running.as_ref().and_then(|own| own.missing_layers.clone());
    facts.refusals =
        facts.missing_layers.as_ref().filter(|l| is_confined(l)).map(|_| refusals::look());
    if let Some(own) = &running {
        let (problems, lines): (Vec<_>, Vec<_>) =
            own.announced.lines().partition(|line| line.starts_with(' '));
        facts.announcements = Some(lines.into_iter().map(str::to_owned).collect());
        facts.announcement_problems = problems.into_iter().map(|l| l.trim().to_owned()).collect();
    }
    facts.running = running.map_or(ServerVersion::No, |own| ServerVersion::Version(own.version));
    facts.other_servers = network::other_servers();
    facts.firewall = network::firewall();
    facts.multichannel = config.multichannel.enabled;
    facts.cache_bytes = config.shares.iter().map(|share| share.metadata_cache_bytes).sum();
    facts.folders = places::folders(path.as_deref(), &config);
    facts.file_systems = config.shares.iter().filter_map(places::file_system).collect();
    Ok(facts)
}
