//! `anabranch bench`.

mod cache_switch;
mod chart;
mod clients;
mod connection;
mod html;
mod series;

use crate::export_url::ExportUrl;
use crate::output;
use crate::remote::{self, RemoteUrl, connect_nfs, connect_smb, own_name};
use crate::share_url::ShareUrl;
use anyhow::{Context, Result, bail};
use cache_switch::RemoteCacheSwitch;
use client::load::{self, LoadKind, LoadProgress, LoaderRun, Plan, Report, RunLimit, Storage};
use client::nfs;
use connection::{Arm, BenchConnectionArgs};
use series::{LoadRun, Series, in_turns};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Shown below the options.
const EXAMPLES: &str = "\
The password comes from the environment (ANABRANCH_PASSWORD), from standard input
(--password-stdin), or from a prompt, if there is no Kerberos ticket. All files are created in a
new folder, which is removed at the end, also after an error or Ctrl-C.

What to measure:
  throughput in bytes a second  --block 1M --depth 8
  small requests a second       --random --block 4K --depth 64 --threads 2
  latency of a single request   --random --block 4K --depth 1 --threads 1
  load of a database            --random --block 8K --read-percent 70 --files 4
  load of a build or a mail server    --metadata --depth 32
  the same without its removals       --unpack --depth 32
  time to unpack an archive           --small-files --files 50000 --file-size 4K

Compare kinds of connections, measured in turns with all else equal:
  --channels 1,4          gain of Multichannel
  --sign off,gmac,cmac    cost of signing (the server may require it)
  --encrypt off,gcm       cost of encryption
  --nconnect 1,4,16       gain of several NFS connections
  --metadata-cache on,off  gain of this server's cache, with --metadata or --listing

Compare loads: --block 4K,64K,1M for sizes of requests, --files 1,2,5,10 for numbers of files,
--mix-sweep 10 for mixes of reads and writes. --html FILE shows any of these as charts, each of
which can be saved as SVG or PNG.

Predefined loads: --profile seed-multichannel, seed-anf-random, seed-anf-single,
seed-nconnect, seed-copy, quick, or typical programs: media, genomics, risk, database
with few large files, web, devops, indexing, desktops with many small ones.
A profile runs at 1 % of the original length and size; change with --scale.
The command lines of diskspd and fio are accepted, too, and run by this program.

The first line of the results shows the settings that were negotiated. Reads from the server's
memory measure network and CPU, not disks: use a --file-size beyond its memory.

Examples:
  anabranch bench smb://alice@server/data
  anabranch bench smb://alice@server/data --random --block 4K --depth 32 --json result.json
  anabranch bench smb://alice@127.0.0.1:4450/data --metadata --server-pid $(pidof anabranch)
  anabranch bench nfs://server/export/scratch --nconnect 4 --random --block 4K --depth 64
  anabranch bench smb://alice@server/data --profile seed-multichannel --html report.html
  anabranch bench smb://alice@server/data --random --block 4K --mix-sweep 10 --csv mix.csv
  anabranch bench smb://alice@server/data diskspd -- -r -w100 -b4k -t8 -o8 -d60 -c2G a.dat
  anabranch bench nfs://server/export fio -- --rw=randread --bs=4k --iodepth=64 --filesize=4G";

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Share to measure: smb://[DOMAIN;]USER@HOST[:PORT]/SHARE[/FOLDER], or export:
    /// nfs://HOST[:PORT]/PATH
    url: RemoteUrl,
    /// Program whose command line follows --
    #[arg(requires = "line", conflicts_with_all = ["work", "profile"])]
    program: Option<Program>,
    /// Arguments of that program, after --
    #[arg(last = true, requires = "program")]
    line: Vec<String>,
    /// Run the predefined loads of this name
    #[arg(long, value_name = "NAME", conflicts_with = "work")]
    profile: Option<String>,
    /// Fraction of the original length and size of a profile or command line, up to 1
    #[arg(long, value_name = "PART")]
    scale: Option<f64>,
    /// Measure mixes from 100 % to 0 % reads, in this many steps
    #[arg(long, value_name = "STEPS", conflicts_with_all = ["work", "profile", "program"], value_parser = clap::value_parser!(u8).range(1..=100))]
    mix_sweep: Option<u8>,
    /// Rounds of each load in a comparison
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=100))]
    rounds: u8,
    /// Number of clients that run the load at the same time, each a process with its own files
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=64))]
    clients: Option<u8>,
    /// Hosts that run these clients, over ssh, instead of this one; anabranch must be installed
    #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Write a comparison as comma-separated values to a file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a comparison as one HTML page with charts to a file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the charts of a comparison as SVG files to a directory
    #[arg(long, value_name = "DIR")]
    charts: Option<PathBuf>,
    /// Read the password from standard input
    #[arg(long)]
    password_stdin: bool,
    /// Create, stat, list and remove files instead of reading and writing
    #[arg(long, group = "work")]
    metadata: bool,
    /// Create, stat and list files in ever more folders, and remove them after the measurement
    #[arg(long, group = "work")]
    unpack: bool,
    /// Create, open, close and remove files in the URL's folder, which must already hold --files
    /// files named file0, file1 and so on
    #[arg(long, group = "work")]
    in_folder: bool,
    /// List the URL's folder, which must hold at least --files files
    #[arg(long, group = "work")]
    listing: bool,
    /// Write --files files of --file-size once, and read them back
    #[arg(long, group = "work")]
    small_files: bool,
    /// Use random offsets instead of sequential ones
    #[arg(long)]
    random: bool,
    /// Percentage of reads among the requests; the rest are writes
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u8).range(0..=100))]
    read_percent: u8,
    /// Size of one request, as in 4K or 1M; several, as in 4K,64K,1M, are measured one after the
    /// other
    #[arg(long, value_name = "SIZES", default_value = "64K", value_delimiter = ',', value_parser = parse_size)]
    block: Vec<u64>,
    /// Requests in flight for each thread
    #[arg(long, default_value_t = 8)]
    depth: usize,
    /// Threads of the load generator
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Files that the requests are spread over; several numbers, as in 1,2,5,10, are measured one
    /// after the other
    #[arg(long, value_name = "NUMBERS", default_value = "1", value_delimiter = ',')]
    files: Vec<usize>,
    /// Size of each file
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    file_size: u64,
    /// Duration of the measurement, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    duration: f64,
    /// Measure this many bytes instead of a duration
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    bytes: Option<u64>,
    /// Duration of the warm-up, which is not counted, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    warm_up: f64,
    /// Verify the contents of all reads
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    connection: BenchConnectionArgs,
    /// Process id of the server, if it runs on this machine: also report its CPU time
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Print the results as JSON instead of a table, or write them to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = output::STANDARD_OUTPUT)]
    json: Option<String>,
    /// No progress
    #[arg(long, short)]
    quiet: bool,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The program whose command line follows `--`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Program {
    Diskspd,
    Fio,
}

/// Default `--scale` of a profile.
const PROFILE_SCALE: f64 = 0.01;

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
    number.checked_mul(1 << shift).ok_or_else(|| "the size is too large".into())
}

/// The loads to measure.
struct Loads {
    name: String,
    scale: f64,
    plans: Vec<Plan>,
    /// Numbers of connections that the profile compares.
    connections: Option<Vec<usize>>,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    let loads = args.loads()?;
    let is_nfs = matches!(args.url, RemoteUrl::Nfs(_));
    let arms = args.connection.arms(is_nfs, loads.connections.as_deref());
    let arms = arms.map_err(anyhow::Error::msg)?;
    let password = match &args.url {
        RemoteUrl::Smb(url) => remote::password(url, args.password_stdin)?,
        RemoteUrl::Nfs(_) => String::new(),
    };
    if args.clients.is_some() || !args.hosts.is_empty() {
        let count = usize::from(args.clients.unwrap_or(1));
        print_together(args, &clients::measure(count, &args.hosts, &password)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let writes = args.csv.is_some() || args.html.is_some() || args.charts.is_some();
    let switches = arms.iter().any(|arm| arm.metadata_cache.is_some());
    if let ([plan], [arm], false) = (&loads.plans[..], &arms[..], writes || switches) {
        // A thread of another program's command line is a request in flight: few threads serve all.
        let threads = if args.program.is_some() { plan.threads.min(cpus) } else { plan.threads };
        let report = runtime(threads)?.block_on(async {
            match &args.url {
                RemoteUrl::Smb(url) => measure_smb(args, url, plan.clone(), &password, arm).await,
                RemoteUrl::Nfs(url) => measure_nfs(args, url, plan.clone(), arm).await,
            }
        })?;
        print(args, &report)?;
        return Ok(ExitCode::SUCCESS);
    }
    if loads.plans.iter().any(|plan| plan.work == LoadKind::SmallFiles) {
        bail!("--small-files runs once: run it once for each kind of connection");
    }
    let threads = loads.plans.iter().map(|plan| plan.threads).max().unwrap_or(1);
    let measured = runtime(threads.min(cpus))?.block_on(async {
        match &args.url {
            RemoteUrl::Smb(url) => compare_smb(args, url, &loads, &password, &arms).await,
            RemoteUrl::Nfs(url) => compare_nfs(args, url, &loads, &arms).await,
        }
    })?;
    print_series(args, &Series::new(&loads.name, loads.scale, measured))?;
    Ok(ExitCode::SUCCESS)
}

fn runtime(threads: usize) -> Result<tokio::runtime::Runtime> {
    Ok(if threads > 1 {
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()
    } else {
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    }?)
}

impl Args {
    fn work(&self) -> LoadKind {
        match self {
            Self { metadata: true, .. } => LoadKind::Metadata,
            Self { unpack: true, .. } => LoadKind::Unpack,
            Self { in_folder: true, .. } => LoadKind::Folder,
            Self { listing: true, .. } => LoadKind::Listing,
            Self { small_files: true, .. } => LoadKind::SmallFiles,
            _ => LoadKind::Data,
        }
    }

    fn loads(&self) -> Result<Loads> {
        let scale = |by_default: f64| {
            let part = self.scale.unwrap_or(by_default);
            let fits = part > 0.0 && part <= 1.0;
            if fits {
                Ok(part)
            } else {
                Err(anyhow::anyhow!("--scale must be more than 0 and at most 1"))
            }
        };
        let placed = |plans: Vec<Plan>, part: f64| -> Result<Vec<Plan>> {
            let folder = self.plan()?.folder;
            let plan = |plan: &Plan| Plan { folder: folder.clone(), ..plan.scaled(part) };
            Ok(plans.iter().map(plan).collect())
        };
        if let Some(name) = &self.profile {
            let Some(profile) = load::profile(name) else {
                let all = load::profiles();
                let lines = all.iter().map(|one| format!("\n  {}: {}", one.name, one.about));
                bail!("unknown profile {name}; the profiles are{}", lines.collect::<String>());
            };
            let part = scale(PROFILE_SCALE)?;
            let plans = placed(profile.plans, part)?;
            let connections = Some(profile.connections);
            return Ok(Loads { name: name.clone(), scale: part, plans, connections });
        }
        if let Some(program) = self.program {
            let words: Vec<&str> = self.line.iter().map(String::as_str).collect();
            let (name, plan) = match program {
                Program::Diskspd => ("diskspd", load::diskspd(&words)),
                Program::Fio => ("fio", load::fio(&words)),
            };
            let plan = plan.map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
            let part = scale(1.0)?;
            // A full-scale command line keeps its sizes unchanged.
            let plan = if part < 1.0 { plan.scaled(part) } else { plan };
            let plans = vec![Plan { folder: self.plan()?.folder, ..plan }];
            return Ok(Loads { name: name.into(), scale: part, plans, connections: None });
        }
        let plan = self.plan()?;
        let mixes = match self.mix_sweep {
            Some(steps) => load::mixes(steps).collect(),
            None => vec![self.read_percent],
        };
        let mut plans = Vec::new();
        for block_bytes in self.blocks()? {
            for read_percent in &mixes {
                for files in &self.files {
                    let (read_percent, files) = (*read_percent, *files);
                    plans.push(Plan { block_bytes, read_percent, files, ..plan.clone() });
                }
            }
        }
        Ok(Loads { name: String::new(), scale: 1.0, plans, connections: None })
    }

    /// Sizes of requests, of which there is one at least.
    fn blocks(&self) -> Result<Vec<u32>> {
        let size = |bytes: &u64| u32::try_from(*bytes).context("--block is too large");
        self.block.iter().map(size).collect()
    }

    fn plan(&self) -> Result<Plan> {
        let times = [self.duration, self.warm_up];
        if times.iter().any(|seconds| !(0.0..=1e6).contains(seconds)) {
            bail!("a duration must be from 0 to 1000000 seconds");
        }
        Ok(Plan {
            work: self.work(),
            folder: match &self.url {
                RemoteUrl::Smb(url) => url.folder.clone(),
                RemoteUrl::Nfs(_) => String::new(),
            },
            block_bytes: self.blocks()?[0],
            depth: self.depth,
            threads: self.threads,
            // The files of all loads are created before the first one.
            files: self.files.iter().copied().max().unwrap_or(1),
            file_bytes: self.file_size,
            random: self.random,
            read_percent: self.read_percent,
            until: self.bytes.map_or(RunLimit::Seconds(self.duration), RunLimit::Bytes),
            warm_up_seconds: self.warm_up,
            verify: self.verify,
            seed: self.seed,
        })
    }
}

async fn measure_smb(
    args: &Args,
    url: &ShareUrl,
    plan: Plan,
    password: &str,
    arm: &Arm,
) -> Result<Report> {
    let client = connect_smb(url, password, arm.options.clone()).await?;
    let tree = client.tree(&url.share).await.with_context(|| url.share.clone())?;
    let report = measure(args, plan, tree).await;
    client.close().await;
    report
}

async fn measure_nfs(args: &Args, url: &ExportUrl, plan: Plan, arm: &Arm) -> Result<Report> {
    let client = connect_nfs(&url.host, url.port, arm.minor_version, arm.nconnect).await?;
    let export = nfs::NfsExport::open(client.clone(), &url.path).await;
    let report = match export.with_context(|| format!("/{}", url.path)) {
        Ok(export) => measure(args, plan, export).await,
        Err(error) => Err(error),
    };
    client.close().await;
    report
}

async fn compare_smb(
    args: &Args,
    url: &ShareUrl,
    loads: &Loads,
    password: &str,
    arms: &[Arm],
) -> Result<Vec<LoadRun>> {
    let (mut clients, mut storages) = (Vec::new(), Vec::new());
    for arm in arms {
        let client = connect_smb(url, password, arm.options.clone()).await?;
        let tree = client.tree(&url.share).await.with_context(|| url.share.clone())?;
        storages.push((arm.label.clone(), tree));
        clients.push(client);
    }
    let switch = RemoteCacheSwitch::new(args.connection.server_admin(), &url.share, arms)?;
    let measured = compare(args, loads, storages, switch).await;
    for client in clients {
        client.close().await;
    }
    measured
}

async fn compare_nfs(
    args: &Args,
    url: &ExportUrl,
    loads: &Loads,
    arms: &[Arm],
) -> Result<Vec<LoadRun>> {
    let (mut clients, mut storages) = (Vec::new(), Vec::new());
    for arm in arms {
        let client = connect_nfs(&url.host, url.port, arm.minor_version, arm.nconnect).await?;
        let export = nfs::NfsExport::open(client.clone(), &url.path).await;
        storages.push((arm.label.clone(), export.with_context(|| format!("/{}", url.path))?));
        clients.push(client);
    }
    let share = url.path.split('/').next().unwrap_or_default();
    let switch = RemoteCacheSwitch::new(args.connection.server_admin(), share, arms)?;
    let measured = compare(args, loads, storages, switch).await;
    for client in clients {
        client.close().await;
    }
    measured
}

/// Measures all loads over all kinds of connections; each kind has its own files.
async fn compare<S: Storage>(
    args: &Args,
    loads: &Loads,
    storages: Vec<(String, S)>,
    mut switch: RemoteCacheSwitch,
) -> Result<Vec<LoadRun>> {
    let first = loads.plans.first().context("there is nothing to measure")?;
    // Files are filled if any load reads them, and as many as the largest load needs.
    let most = |of: fn(&Plan) -> usize| loads.plans.iter().map(of).max().unwrap_or_default();
    let read_percent = most(|plan| plan.read_percent.into()).min(100) as u8;
    let base = Plan { read_percent, files: most(|plan| plan.files), ..first.clone() };
    let mut runs = Vec::new();
    for (label, storage) in storages {
        runs.push((label, LoaderRun::new(storage, base.clone(), &own_name("bench"))?));
    }
    let shows = !args.quiet && std::io::stderr().is_terminal();
    let measuring = async {
        for (_, run) in &mut runs {
            run.prepare().await?;
        }
        let tell = |text: &str| {
            if shows {
                err!("\r\x1b[K{text}");
            }
        };
        let turn_to = |arm| switch.turn_to(arm);
        let rounds = args.rounds.into();
        in_turns(&mut runs, &loads.plans, rounds, args.server_pid, turn_to, tell).await
    };
    let measured = tokio::select! {
        measured = measuring => measured,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    if shows {
        err!("\r\x1b[K");
    }
    let mut cleaned = switch.put_back();
    for (_, run) in &mut runs {
        cleaned = cleaned.and(run.clean().await.context("could not remove the files"));
    }
    let measured = measured?;
    cleaned?;
    Ok(measured)
}

async fn measure(args: &Args, plan: Plan, storage: impl Storage) -> Result<Report> {
    let name = own_name("bench");
    let mut run = LoaderRun::new(storage, plan, &name)?;
    let shows = !args.quiet && std::io::stderr().is_terminal();
    let measured = tokio::select! {
        measured = steps(&mut run, args.server_pid, shows) => measured,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    if shows {
        err!("\r\x1b[K");
    }
    let cleaned = run.clean().await.with_context(|| format!("could not remove {name}"));
    let report = measured?;
    cleaned?;
    Ok(report)
}

async fn steps<S: Storage>(
    run: &mut LoaderRun<S>,
    server: Option<u32>,
    shows: bool,
) -> Result<Report> {
    if shows {
        err!("creating files");
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

fn show(progress: LoadProgress) {
    let seconds = progress.elapsed.as_secs_f64();
    if progress.is_counting {
        let (per_second, mib) =
            (progress.operations as f64 / seconds, progress.bytes as f64 / seconds / 1048576.0);
        let channels = progress.channels;
        err!("\r\x1b[K{seconds:.1} s  {per_second:.0}/s  {mib:.1} MiB/s  {channels} channels");
    } else {
        err!("\r\x1b[Kwarming up {seconds:.1} s");
    }
    let _ = std::io::stderr().flush();
}

fn print(args: &Args, report: &Report) -> Result<()> {
    if !output::write_json(args.json.as_deref(), report)? {
        out!("{}", report.table());
    }
    Ok(())
}

fn print_together(args: &Args, all: &clients::ClientsSum) -> Result<()> {
    if !output::write_json(args.json.as_deref(), all)? {
        out!("{}", all.table());
    }
    Ok(())
}

fn print_series(args: &Args, series: &Series) -> Result<()> {
    let write = |file: &Path, text: &str| {
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    if let Some(file) = &args.csv {
        write(file, &series.csv())?;
    }
    if let Some(file) = &args.html {
        write(file, &html::page(series)?)?;
    }
    if let Some(folder) = &args.charts {
        for one in chart::charts(series) {
            write(&folder.join(format!("{}.svg", one.name)), &one.file(series))?;
        }
    }
    if !output::write_json(args.json.as_deref(), series)? {
        out!("{}", series.table());
    }
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
