//! `anabranch bench`.

use crate::export_url::ExportUrl;
use crate::remote::{self, Url, connect_nfs, connect_smb, own_name};
use crate::share_url::ShareUrl;
use anyhow::{Context, Result, bail};
use client::load::{Plan, Progress, Report, Run, Storage, Until, Work};
use client::nfs;
use client::{Options, Signing};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use wire::crypto::{Cipher, SigningAlgorithm};
use wire::smb::Dialect;

/// Shown below the options.
const EXAMPLES: &str = "\
The password comes from the environment (ANABRANCH_PASSWORD), from standard input
(--password-stdin), or is asked for. All files are made in a new folder, which is
removed at the end, also after an error or Ctrl-C.

What to measure:
  the most bytes in a second    --block 1M --depth 8
  the most small requests       --random --block 4K --depth 64 --threads 2
  the time of a single request  --random --block 4K --depth 1 --threads 1
  what a database does          --random --block 8K --read-percent 70 --files 4
  what a build or a mail server does  --metadata --depth 32
  what unpacking an archive takes     --small-files --files 50000 --file-size 4K

Compare one thing at a time, with all else equal:
  --channels 1    and  --channels 4      what Multichannel gains
  --sign off      and  --sign gmac       what signing costs (the server may insist on it)
  --encrypt off   and  --encrypt gcm     what sealing costs

The first line of the results says what was really used. A read that the server has
in memory measures network and processor, not disks: use a --file-size beyond its memory.

Examples:
  anabranch bench smb://alice@server/data
  anabranch bench smb://alice@server/data --random --block 4K --depth 32 --json result.json
  anabranch bench smb://alice@127.0.0.1:4450/data --metadata --server-pid $(pidof anabranch)
  anabranch bench nfs://server/export/scratch --nconnect 4 --random --block 4K --depth 64";

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Share to measure: smb://[DOMAIN;]USER@HOST[:PORT]/SHARE[/FOLDER], or export:
    /// nfs://HOST[:PORT]/PATH
    url: Url,
    /// Read the password from standard input
    #[arg(long)]
    password_stdin: bool,
    /// Make, look at, list and remove files instead of reading and writing
    #[arg(long, group = "work")]
    metadata: bool,
    /// Make, open, close and remove files in the URL's folder, which is there with --files
    /// files called file0, file1 and so on
    #[arg(long, group = "work")]
    in_folder: bool,
    /// List the URL's folder, which has --files files or more
    #[arg(long, group = "work")]
    listing: bool,
    /// Write --files files of --file-size, and read them back, once
    #[arg(long, group = "work")]
    small_files: bool,
    /// At random places instead of one block after the other
    #[arg(long)]
    random: bool,
    /// Share of reads among the requests; the rest are writes
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u8).range(0..=100))]
    read_percent: u8,
    /// Size of one request, as in 4K or 1M
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = parse_size)]
    block: u64,
    /// Requests under way for each thread
    #[arg(long, default_value_t = 8)]
    depth: usize,
    /// Threads of the load generator
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Files that the requests are spread over
    #[arg(long, default_value_t = 1)]
    files: usize,
    /// Size of each file
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    file_size: u64,
    /// How long to measure, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    duration: f64,
    /// Measure so many bytes instead, however long it takes
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    bytes: Option<u64>,
    /// What is not counted at first, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    warm_up: f64,
    /// Check all that is read
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    connection: Connection,
    /// Process of the server, if it runs on this machine: its processor time is told
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Write the results as JSON to a file; - for standard output, without the table
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    /// No progress
    #[arg(long, short)]
    quiet: bool,
    /// Where the random numbers begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// How to connect.
#[derive(Debug, clap::Args)]
pub struct Connection {
    /// Connections of an SMB session, as far as the server says that they help
    #[arg(long, default_value_t = 4)]
    pub channels: usize,
    /// Connections of an NFS session
    #[arg(long, value_name = "CONNECTIONS", default_value_t = 1)]
    nconnect: usize,
    /// Version of NFS
    #[arg(long, value_name = "VERSION", default_value = "4.1")]
    nfs_version: NfsVersionArg,
    /// Several connections to one address, whatever the server says
    #[arg(long)]
    any_interface: bool,
    /// Dialect to speak; without it the newest that the server has
    #[arg(long, value_name = "VERSION")]
    dialect: Option<DialectArg>,
    /// Signing; "off" still signs for a server that insists
    #[arg(long, value_name = "HOW", default_value = "off")]
    sign: SignArg,
    /// Sealing; "off" still seals for a server that insists
    #[arg(long, value_name = "HOW", default_value = "off")]
    encrypt: EncryptArg,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DialectArg {
    #[value(name = "2.1")]
    Smb210,
    #[value(name = "3.0")]
    Smb300,
    #[value(name = "3.0.2")]
    Smb302,
    #[value(name = "3.1.1")]
    Smb311,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum NfsVersionArg {
    #[value(name = "4.1")]
    Nfs41,
    #[value(name = "4.2")]
    Nfs42,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SignArg {
    Off,
    /// With the best that the server knows
    On,
    Gmac,
    Cmac,
    Hmac,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum EncryptArg {
    Off,
    /// With the best that the server knows
    On,
    Gcm,
    Ccm,
    #[value(name = "gcm-256")]
    Gcm256,
    #[value(name = "ccm-256")]
    Ccm256,
}

impl Connection {
    /// Options of an SMB session.
    pub fn options(&self) -> Options {
        let mut options =
            Options { assume_rss: self.any_interface, ..remote::options(self.channels) };
        if let Some(dialect) = self.dialect {
            let dialect = match dialect {
                DialectArg::Smb210 => Dialect::Smb210,
                DialectArg::Smb300 => Dialect::Smb300,
                DialectArg::Smb302 => Dialect::Smb302,
                DialectArg::Smb311 => Dialect::Smb311,
            };
            (options.dialect_min, options.dialect_max) = (dialect, dialect);
        }
        let algorithm = match self.sign {
            SignArg::Off | SignArg::On => None,
            SignArg::Gmac => Some(SigningAlgorithm::AesGmac),
            SignArg::Cmac => Some(SigningAlgorithm::AesCmac),
            SignArg::Hmac => Some(SigningAlgorithm::HmacSha256),
        };
        if !matches!(self.sign, SignArg::Off) {
            options.signing = Signing::Required;
        }
        if let Some(algorithm) = algorithm {
            options.signing_algorithms = vec![algorithm];
        }
        let cipher = match self.encrypt {
            EncryptArg::Off | EncryptArg::On => None,
            EncryptArg::Gcm => Some(Cipher::Aes128Gcm),
            EncryptArg::Ccm => Some(Cipher::Aes128Ccm),
            EncryptArg::Gcm256 => Some(Cipher::Aes256Gcm),
            EncryptArg::Ccm256 => Some(Cipher::Aes256Ccm),
        };
        options.sealed = !matches!(self.encrypt, EncryptArg::Off);
        if let Some(cipher) = cipher {
            options.ciphers = vec![cipher];
        }
        options
    }
}

/// Bytes with a unit of powers of two.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err("a size is a number with K, M, G or T".into()),
    };
    let number: u64 = digits.parse().map_err(|_| "a size is a number with K, M, G or T")?;
    number.checked_mul(1 << shift).ok_or_else(|| "that is too much".into())
}

/// Measures.
pub fn run(args: &Args) -> Result<ExitCode> {
    let plan = args.plan()?;
    let runtime = if args.threads > 1 {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(args.threads)
            .enable_all()
            .build()
    } else {
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    }?;
    let report = match &args.url {
        Url::Smb(url) => {
            let password = remote::password(url, args.password_stdin)?;
            runtime.block_on(measure_smb(args, url, plan, &password))?
        }
        Url::Nfs(url) => runtime.block_on(measure_nfs(args, url, plan))?,
    };
    print(args, &report)?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn work(&self) -> Work {
        match self {
            Self { metadata: true, .. } => Work::Metadata,
            Self { in_folder: true, .. } => Work::Folder,
            Self { listing: true, .. } => Work::Listing,
            Self { small_files: true, .. } => Work::SmallFiles,
            _ => Work::Data,
        }
    }

    fn plan(&self) -> Result<Plan> {
        let times = [self.duration, self.warm_up];
        if times.iter().any(|seconds| !(0.0..=1e6).contains(seconds)) {
            bail!("a time is 0 to a million seconds");
        }
        Ok(Plan {
            work: self.work(),
            folder: match &self.url {
                Url::Smb(url) => url.folder.clone(),
                Url::Nfs(_) => String::new(),
            },
            block_bytes: u32::try_from(self.block).context("--block is too large")?,
            depth: self.depth,
            threads: self.threads,
            files: self.files,
            file_bytes: self.file_size,
            random: self.random,
            read_percent: self.read_percent,
            until: self.bytes.map_or(Until::Seconds(self.duration), Until::Bytes),
            warm_up_seconds: self.warm_up,
            verify: self.verify,
            seed: self.seed,
        })
    }
}

async fn measure_smb(args: &Args, url: &ShareUrl, plan: Plan, password: &str) -> Result<Report> {
    let client = connect_smb(url, password, args.connection.options()).await?;
    let tree = client.tree(&url.share).await.with_context(|| url.share.clone())?;
    let report = measure(args, plan, tree).await;
    client.close().await;
    report
}

async fn measure_nfs(args: &Args, url: &ExportUrl, plan: Plan) -> Result<Report> {
    let minor_version = match args.connection.nfs_version {
        NfsVersionArg::Nfs41 => 1,
        NfsVersionArg::Nfs42 => 2,
    };
    let connections = args.connection.nconnect;
    let client = connect_nfs(&url.host, url.port, minor_version, connections).await?;
    let export = nfs::Export::open(client.clone(), &url.path).await;
    let report = match export.with_context(|| format!("/{}", url.path)) {
        Ok(export) => measure(args, plan, export).await,
        Err(error) => Err(error),
    };
    client.close().await;
    report
}

async fn measure(args: &Args, plan: Plan, storage: impl Storage) -> Result<Report> {
    let name = own_name("bench");
    let mut run = Run::new(storage, plan, &name)?;
    let shows = !args.quiet && std::io::stderr().is_terminal();
    let measured = tokio::select! {
        measured = steps(&mut run, args.server_pid, shows) => measured,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    if shows {
        eprint!("\r\x1b[K");
    }
    let cleaned = run.clean().await.with_context(|| format!("could not remove {name}"));
    let report = measured?;
    cleaned?;
    Ok(report)
}

async fn steps<S: Storage>(run: &mut Run<S>, server: Option<u32>, shows: bool) -> Result<Report> {
    if shows {
        eprint!("making files");
    }
    run.prepare().await?;
    Ok(run
        .measure(server, |progress| {
            if shows {
                show(progress)
            }
        })
        .await?)
}

fn show(progress: Progress) {
    let seconds = progress.elapsed.as_secs_f64();
    if progress.is_counting {
        let (per_second, mib) =
            (progress.operations as f64 / seconds, progress.bytes as f64 / seconds / 1048576.0);
        let channels = progress.channels;
        eprint!("\r\x1b[K{seconds:.1} s  {per_second:.0}/s  {mib:.1} MiB/s  {channels} channels");
    } else {
        eprint!("\r\x1b[Kwarming up {seconds:.1} s");
    }
    let _ = std::io::stderr().flush();
}

fn print(args: &Args, report: &Report) -> Result<()> {
    let json = || serde_json::to_string_pretty(report);
    match args.json.as_deref() {
        Some("-") => {
            println!("{}", json()?);
            return Ok(());
        }
        Some(file) => {
            std::fs::write(file, json()? + "\n").with_context(|| format!("cannot write {file}"))?;
        }
        None => {}
    }
    print!("{}", report.table());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_two_and_nonsense_is_refused() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("4k"), Ok(4096));
        assert_eq!(parse_size("1MiB"), Ok(1 << 20));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        for text in ["", "K", "4X", "-1", "99999999999T"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
