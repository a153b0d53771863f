//! `anabranch doctor`: looks at this machine and says whether it is fit to serve.
//!
//! What is looked at is in the modules below; what follows from it is `advise::doctor`.

mod machine;
mod network;
mod places;
mod refusals;

use crate::check::{self, Checked};
use advise::doctor::{self, Facts, LogonWays, ServerVersion, State};
use anyhow::Result;
use server::config::{AdminAddress, Config, Ntlm};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// The packaged service's file, which is looked at if none is named.
const CONFIG: &str = "/etc/anabranch/anabranch.toml";

/// Shown below the options.
const EXAMPLES: &str = "\
Looks at the kernel, limits, memory, the clock, the network's queues and interfaces, ports and
who holds them, firewalls, the configuration, permissions, and the file system of each share:
free space, attributes, access lists, shared blocks, long named streams. Nothing is changed: what is written to try
a share has no name and is gone at once. Each finding is ok, YELLOW (it serves, and something
costs or lacks) or RED (it does not serve, or not safely), with the command that helps.

Exit code:
  0  all is well
  1  something is yellow, and nothing red
  2  something is red

Examples:
  sudo anabranch doctor
  anabranch doctor /srv/data
  sudo anabranch doctor --config anabranch.toml
  anabranch doctor --json | jq '.findings[] | select(.state != \"green\")'";

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directory that is to be served, where there is no configuration file
    #[arg(conflicts_with = "config")]
    dir: Option<PathBuf>,
    /// Configuration file; if none is named, the packaged service's, if it is there
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print findings and what they rest on as JSON
    #[arg(long)]
    json: bool,
}

/// Looks, says what is found, and answers by the exit code.
pub fn run(args: &Args) -> Result<ExitCode> {
    let facts = look(args)?;
    let findings = doctor::findings(&facts);
    if args.json {
        let all = serde_json::json!({
            "state": doctor::worst(&findings), "findings": findings, "facts": facts,
        });
        outln!("{}", server::log::escape_json(&serde_json::to_string_pretty(&all)?));
    } else {
        out!("{}", doctor::shown(&findings));
    }
    Ok(ExitCode::from(match doctor::worst(&findings) {
        State::Green => 0,
        State::Yellow => 1,
        State::Red => 2,
    }))
}

fn look(args: &Args) -> Result<Facts> {
    let usual = || Some(PathBuf::from(CONFIG)).filter(|path| path.exists());
    let path = args.config.clone().or_else(|| args.dir.is_none().then(usual).flatten());
    let mut facts = machine::facts();
    let mut config = Config::empty();
    if let Some(path) = &path {
        let checked = check::look(path);
        facts.config_path = Some(path.display().to_string());
        let Checked { config: read, problems, warnings } = checked;
        (facts.config_problems, facts.config_warnings) = (problems, warnings);
        // Nothing follows from a file that cannot be read but that.
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
    facts.nfs_shares = network::nfs_shares(&config);
    let (kerberos, ntlm) = (config.kerberos.is_some(), config.ntlm == Ntlm::On);
    facts.logon = Some(LogonWays { kerberos, ntlm });
    let is_confined = |layers: &Vec<String>| !layers.iter().any(|layer| layer == "seccomp");
    facts.missing_layers = running.as_ref().and_then(|own| own.missing_layers.clone());
    facts.refusals =
        facts.missing_layers.as_ref().filter(|l| is_confined(l)).map(|_| refusals::look());
    facts.running = running.map_or(ServerVersion::No, |own| ServerVersion::Version(own.version));
    facts.other_servers = network::other_servers();
    facts.firewall = network::firewall();
    facts.multichannel = config.multichannel.enabled;
    facts.cache_bytes = config.shares.iter().map(|share| share.metadata_cache_bytes).sum();
    facts.folders = places::folders(path.as_deref(), &config);
    facts.file_systems = config.shares.iter().filter_map(places::file_system).collect();
    Ok(facts)
}
