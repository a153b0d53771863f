//! `anabranch serve`.

use crate::start_text::{self, NfsAccess, StartFacts, StartShare};
use crate::{admin, first_user};
use anyhow::{Context, Result, anyhow, bail};
use server::Service;
use server::config::{
    Confinement, EncryptionSetting, NfsTls, ServerConfig, SigningSetting, default_addresses,
    has_ipv6,
};
use server::confinement;
use server::supervisor::{PassedSockets, Supervisor};
use server::users::Users;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Default addresses of NFS.
const NFS: [&str; 2] = ["0.0.0.0:2049", "[::]:2049"];
/// Time that calls on a hanging disk may delay the exit of the process.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Shown below the options.
const EXAMPLES: &str = "\
Examples:
  anabranch serve /srv/data
  anabranch serve --share media=/srv/media,read_only=yes --smb 0.0.0.0:445
  anabranch serve --config /etc/anabranch.toml

Environment, while the user file has no users:
  ANABRANCH_USER           name of the first user
  ANABRANCH_PASSWORD_FILE  file that holds the password";

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directory to serve, as a share with the directory's name
    dir: Option<PathBuf>,
    /// Configuration file; reloaded on SIGHUP
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to serve SMB on (default: port 445 at all addresses, or 4450 if that is not
    /// possible); may be given several times
    #[arg(long, value_name = "ADDR:PORT")]
    smb: Vec<SocketAddr>,
    /// Also serve NFS at this address (default: port 2049 at all addresses); may be given
    /// several times. The server trusts the user ids that NFS clients send
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, require_equals = false, default_missing_values = NFS)]
    nfs: Vec<SocketAddr>,
    /// Address of the admin API, or `off` (default: 127.0.0.1:4480 without --config)
    #[arg(long, value_name = "ADDR:PORT|unix:PATH")]
    admin: Option<String>,
    /// Share with its keys, as in read_only=yes; may be given several times
    #[arg(long, value_name = "NAME=PATH[,key=value…]")]
    share: Vec<String>,
    /// User for tests; all users of this machine can see the password
    #[arg(long, value_name = "NAME:PASSWORD")]
    user: Vec<String>,
    /// Whether SMB signing is required (the default) or offered
    #[arg(long, value_enum)]
    signing: Option<SigningArg>,
    /// Whether SMB encryption is off, offered (the default) or required
    #[arg(long, value_enum)]
    encryption: Option<EncryptionArg>,
    /// Whether to print how clients connect, and to create and print a first user (default: auto,
    /// which is only to a terminal)
    #[arg(long, value_enum, default_value = "auto", hide_default_value = true)]
    start_text: StartTextArg,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum StartTextArg {
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SigningArg {
    Required,
    Offered,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum EncryptionArg {
    Off,
    Offered,
    Required,
}

/// Serves until SIGTERM or SIGINT.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut config = configuration(args)?;
    server::log::begin(&config.log);
    let users = users_of(args)?;
    if config.shares.is_empty() {
        bail!("no share to serve; give a directory, as in: anabranch serve /srv/data");
    }
    let passed = PassedSockets::from_environment()?;
    let mut start = StartContext { is_shown: args.shows_start_text(), port_reason: None };
    if config.smb.is_empty() && !passed.serves() {
        let file = args.config.as_deref().unwrap_or(Path::new(""));
        let chosen = default_addresses(file);
        (config.smb, start.port_reason) = (chosen.addresses, chosen.reason);
    }
    // Held until the process ends.
    let _state = server::occupy_state(config.state_folder()).map_err(anyhow::Error::msg)?;
    first_user::create(&config, &users, start.is_shown)?;
    server::backend::heed_limits().context("cannot drop the exemption from quotas")?;
    // Threads inherit the dropped capabilities, so none may start before.
    confinement::confine(&config)?;
    server::log::start_writing().context("cannot start the log thread")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(config.workers)
        .thread_name("anabranch")
        .on_thread_start(server::backend::rest_as_process)
        .build()?;
    let result = runtime.block_on(serve(args, &config, &users, passed, &start));
    runtime.shutdown_timeout(STOP_WITHIN);
    result
}

async fn serve(
    args: &Args,
    config: &ServerConfig,
    users: &Users,
    passed: PassedSockets,
    start: &StartContext,
) -> Result<ExitCode> {
    let supervisor = Arc::new(Supervisor::from_environment());
    // Handlers stand before the first request: the default actions would kill the process.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let service = Service::start(config, users, passed).await?;
    let summary = service.summary();
    announce(&service, config, users, start);
    warn(config);
    supervisor.ready(&summary());
    let attends =
        tokio::spawn(supervisor.clone().attend(service.pulse().clone(), service.summary()));
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                supervisor.reloading();
                drop(reload(args, &service, config, users));
                supervisor.ready(&summary());
            }
            wish = service.reload_wish() => {
                supervisor.reloading();
                let done = reload(args, &service, config, users);
                supervisor.ready(&summary());
                // The client of the admin API that requested the reload may be gone.
                let _ = wish.send(done.map_err(|error| format!("{error:#}")));
            }
        }
    }
    attends.abort();
    supervisor.stopping();
    tracing::info!("stopping; requests in flight may finish");
    service.stop().await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

fn reload(args: &Args, service: &Service, first: &ServerConfig, users: &Users) -> Result<()> {
    let result = configuration(args).and_then(|config| {
        service.reload(&config, users)?;
        Ok(config)
    });
    match &result {
        Ok(config) => {
            tracing::info!(shares = config.shares.len(), "configuration reloaded");
            warn(config);
            let addresses = |c: &ServerConfig| (c.smb.clone(), c.nfs.clone(), c.admin.clone());
            let fixed = |c: &ServerConfig| (addresses(c), c.workers, c.state.clone());
            warn_of_confinement(config, first);
            let of_log =
                |c: &ServerConfig| (c.log.format, c.log.level.clone(), c.log.audit.clone());
            if of_log(config) != of_log(first) {
                tracing::warn!("format, level and audit of [log] take effect after a restart");
            }
            // A file without addresses leaves them as chosen at the start.
            if !config.smb.is_empty() && fixed(config) != fixed(first) {
                tracing::warn!("smb, nfs, admin, workers and state take effect after a restart");
            }
        }
        Err(error) => {
            tracing::error!("reload failed, the old configuration stays in effect: {error:#}")
        }
    }
    result.map(drop)
}

/// Capabilities that were dropped at the start cannot be regained.
fn warn_of_confinement(config: &ServerConfig, first: &ServerConfig) {
    if config.confinement != first.confinement {
        tracing::warn!("confinement takes effect after a restart");
    }
    let lacks_mknod =
        confinement::needs_device_nodes(config) && !confinement::needs_device_nodes(first);
    if first.confinement == Confinement::On && lacks_mknod {
        tracing::warn!(
            "device_nodes takes effect after a restart: the server dropped CAP_MKNOD at its start"
        );
    }
}

fn warn(config: &ServerConfig) {
    for warning in config.warnings() {
        tracing::warn!(target: server::log::CONFIGURATION_TARGET, "{}", warning.text);
    }
}

/// The configuration file, overridden by the command line.
fn configuration(args: &Args) -> Result<ServerConfig> {
    let mut config = match &args.config {
        Some(path) => ServerConfig::load(path)?,
        None => ServerConfig::empty(),
    };
    if !args.smb.is_empty() {
        config.smb.clone_from(&args.smb);
    }
    if !args.nfs.is_empty() {
        config.nfs.clone_from(&args.nfs);
        let is_default = config.nfs.iter().map(ToString::to_string).eq(NFS);
        config.nfs.retain(|address| !is_default || address.is_ipv4() || has_ipv6());
    }
    match args.admin.as_deref() {
        Some("off") => config.admin = None,
        Some(address) => {
            let address = address.parse().map_err(|why| anyhow!("--admin: {why}, nor off"))?;
            config.admin = Some(address);
        }
        None if args.config.is_none() => config.admin = admin::ADDRESS.parse().ok(),
        None => {}
    }
    if let Some(signing) = args.signing {
        config.signing = match signing {
            SigningArg::Required => SigningSetting::Required,
            SigningArg::Offered => SigningSetting::Offered,
        };
    }
    if let Some(encryption) = args.encryption {
        config.encryption = match encryption {
            EncryptionArg::Off => EncryptionSetting::Off,
            EncryptionArg::Offered => EncryptionSetting::Offered,
            EncryptionArg::Required => EncryptionSetting::Required,
        };
    }
    for share in &args.share {
        add_share(&mut config, share)?;
    }
    if let Some(dir) = &args.dir {
        let dir = dir.canonicalize().with_context(|| format!("cannot serve {}", dir.display()))?;
        config.add_share(&share_name(&dir), &dir)?;
    }
    Ok(config)
}

fn add_share(config: &mut ServerConfig, text: &str) -> Result<()> {
    let mut parts = text.split(',');
    let first = parts.next().unwrap_or_default();
    let (name, path) =
        first.split_once('=').ok_or_else(|| anyhow!("--share takes NAME=PATH, not {text:?}"))?;
    let share = config.add_share(name, Path::new(path))?;
    for part in parts {
        let (key, value) =
            part.split_once('=').ok_or_else(|| anyhow!("{part:?} is not key=value"))?;
        share.set(key, value)?;
    }
    Ok(())
}

/// The folder's name, without what a share's name cannot have.
fn share_name(dir: &Path) -> String {
    let name = dir.file_name().map_or_else(|| "share".into(), |n| n.to_string_lossy());
    let clean: String = name
        .chars()
        .map(|c| if c.is_alphanumeric() || "-_. ".contains(c) { c } else { '_' })
        .collect();
    clean.chars().take(80).collect()
}

fn users_of(args: &Args) -> Result<Users> {
    let mut users = Users::default();
    for text in &args.user {
        let (name, password) =
            text.split_once(':').ok_or_else(|| anyhow!("--user takes NAME:PASSWORD"))?;
        users.set_password(name, password).map_err(anyhow::Error::msg)?;
    }
    Ok(users)
}

/// Findings of the start before the server listens.
struct StartContext {
    /// Whether the start text is printed.
    is_shown: bool,
    /// The reason for a port other than 445.
    port_reason: Option<String>,
}

impl Args {
    /// A service's output is its log: neither instructions nor a password belong there.
    fn shows_start_text(&self) -> bool {
        match self.start_text {
            StartTextArg::Auto => std::io::stdout().is_terminal(),
            StartTextArg::Always => true,
            StartTextArg::Never => false,
        }
    }
}

fn announce(service: &Service, config: &ServerConfig, extra: &Users, start: &StartContext) {
    let smb = service.listening();
    let nfs = service.listening_nfs();
    if !start.is_shown {
        let reason = start.port_reason.as_deref();
        let admin = service.admin().map(tracing::field::display);
        tracing::info!(?smb, ?nfs, admin, detail = reason, "listening");
        return;
    }
    let stored = Users::load(&config.users).unwrap_or_default();
    let user = extra.names().next().or_else(|| stored.names().next()).unwrap_or("USER");
    let share = |share: &server::config::ShareConfig| StartShare {
        folder: share.path.display().to_string(),
        name: share.name.clone(),
        nfs: service.is_exported(&share.name).then_some(match share.nfs_tls {
            NfsTls::Required => NfsAccess::TlsOnly,
            NfsTls::Offered => NfsAccess::Any,
        }),
    };
    let facts = StartFacts {
        server: &config.name,
        user,
        shares: config.shares.iter().map(share).collect(),
        smb,
        port_reason: start.port_reason.as_deref(),
        nfs,
        multichannel: config.multichannel.enabled,
        admin: service.admin(),
    };
    out!("{}", start_text::start_text(&facts, &start_text::own_address));
}
