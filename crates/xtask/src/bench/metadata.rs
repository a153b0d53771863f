//! Measures operations on names: hot paths in folders of all sizes, many small files, long listings.
//! Our server, on request ours without its cache, and Samba run in turn.

mod slow_backend;

use super::peers::PeerServer;
use super::{Args, median};
use crate::server::{PASSWORD, PORT, RunningServer, USER};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Numbers of the servers' loopback addresses.
const OURS: u8 = 61;
const WITHOUT_CACHE: u8 = 63;
/// Option of a share without a cache.
const CACHE_OFF: &str = ",metadata_cache=off";
/// Workers of the loader.
const DEPTH: &str = "8";
/// Largest folder in which a peer gets all workers and rounds. A peer scans the whole folder for each
/// new name, so in a larger one it gets one worker and one round.
const PEER_NAMES_MAX: u64 = 100_000;
/// Bytes of a small file, as an option and as a number.
const SMALL: (&str, usize) = ("4K", 4096);

/// Size of the loads.
#[derive(Debug, clap::Args)]
pub struct Sizes {
    /// `metadata`: files in the folders of the metadata loads
    #[arg(long, value_delimiter = ',', default_values_t = [100, 10_000, 1_000_000])]
    names: Vec<u64>,
    /// `metadata`: small files to write and read back
    #[arg(long, default_value_t = 50_000)]
    small_files: u64,
    /// `metadata`: files in the folder to list
    #[arg(long, default_value_t = 100_000)]
    listed: u64,
    /// `metadata`: also measure our server without its cache
    #[arg(long)]
    cache_off: bool,
    /// `metadata`: measure only our server, with and without its cache in turns, over a backend
    /// with this latency in microseconds
    #[arg(long)]
    backend_latency_us: Option<u64>,
}

/// A measured server.
struct MeasuredServer {
    name: &'static str,
    address: String,
    pid: u32,
    /// Its share.
    folder: PathBuf,
    /// Whether it is the peer's server, not ours.
    is_peer: bool,
}

/// Measures everything, and prints tables.
///
/// # Errors
/// A server or a load that does not run.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let binary = super::binary(root)?;
    if let Some(latency_us) = args.sizes.backend_latency_us {
        return slow_backend::run(&binary, args, latency_us);
    }
    let ours = RunningServer::anabranch(&binary, OURS)?;
    let off = args
        .sizes
        .cache_off
        .then(|| RunningServer::anabranch_with(&binary, WITHOUT_CACHE, CACHE_OFF));
    let off = off.transpose()?;
    let peer = PeerServer::start(args.before.as_deref())?;
    let mut servers = vec![MeasuredServer::of("Anabranch", &ours)];
    servers.extend(off.as_ref().map(|off| MeasuredServer::of("without its cache", off)));
    servers.push(MeasuredServer {
        name: peer.name(),
        address: peer.address().to_owned(),
        pid: peer.pid(),
        folder: peer.share(),
        is_peer: matches!(peer, PeerServer::Samba(_)),
    });
    if args.wants("hot paths") {
        hot_paths(&binary, &servers, args)?;
    }
    if args.wants("small files") {
        small_files(&binary, &servers, args)?;
    }
    if args.wants("listing") {
        listing(&binary, &servers, args)?;
    }
    Ok(())
}

impl MeasuredServer {
    fn of(name: &'static str, running: &RunningServer) -> Self {
        let (address, folder) = (running.address.clone(), running.share());
        Self { name, address, pid: running.pid(), folder, is_peer: false }
    }

    /// Creates a folder of the share with `files` empty files, named as the loader expects.
    fn fill(&self, name: &str, files: u64) -> Result<()> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)?;
        for number in 0..files {
            std::fs::File::create(folder.join(format!("file{number}")))?;
        }
        let owned = Command::new("chown").args(["-R", USER]).arg(&folder).status()?;
        if owned.success() {
            Ok(())
        } else {
            bail!("cannot change the owner of {}", folder.display())
        }
    }

    fn empty(&self, name: &str) -> Result<()> {
        Ok(std::fs::remove_dir_all(self.folder.join(name))?)
    }

    /// Runs a load on a folder of the share; returns our loader's report.
    fn measure(&self, binary: &Path, folder: &str, arguments: &[&str]) -> Result<LoaderReport> {
        let output = Command::new(binary)
            .args(["bench", &format!("smb://{USER}@{}:{PORT}/plain/{folder}", self.address)])
            .args(["--quiet", "--json", "-", "--channels", "1"])
            .args(["--server-pid", &self.pid.to_string()])
            .args(arguments)
            .env("ANABRANCH_PASSWORD", PASSWORD)
            .output()
            .context("anabranch bench")?;
        if !output.status.success() {
            bail!("{}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        }
        Ok(LoaderReport(serde_json::from_slice(&output.stdout)?))
    }

    /// The run with the median cost.
    fn measure_rounds(
        &self,
        binary: &Path,
        folder: &str,
        arguments: &[&str],
        rounds: u32,
    ) -> Result<LoaderReport> {
        let reports = (0..rounds).map(|_| self.measure(binary, folder, arguments));
        let mut reports = reports.collect::<Result<Vec<_>>>()?;
        reports.sort_by(|a, b| a.server_us().total_cmp(&b.server_us()));
        let middle = reports.len() / 2;
        Ok(reports.swap_remove(middle))
    }
}

/// The loader's JSON report.
struct LoaderReport(Value);

impl LoaderReport {
    fn number(&self, key: &str) -> f64 {
        self.0[key].as_f64().unwrap_or_default()
    }

    fn rate(&self) -> f64 {
        self.number("per_second")
    }

    /// Server CPU time for each operation, in microseconds.
    fn server_us(&self) -> f64 {
        self.number("server_cpu_seconds") * 1e6 / (self.rate() * self.number("seconds"))
    }

    /// A figure of one operation.
    fn of(&self, name: &str, figure: &str) -> f64 {
        let operations = self.0["operations"].as_array();
        let found = operations.into_iter().flatten().find(|one| one["name"] == name);
        let found = found
            .map(|one| if figure == "count" { &one[figure] } else { &one["latency_us"][figure] });
        found.and_then(Value::as_f64).unwrap_or_default()
    }
}

/// Creates, opens, closes and removes files in folders of several sizes.
fn hot_paths(binary: &Path, servers: &[MeasuredServer], args: &Args) -> Result<()> {
    let kinds = ["create", "open", "close", "delete"];
    println!("Create, open, close, delete by {DEPTH} workers; latencies in µs, p50 / p99:\n");
    println!(
        "| names | server | /s | server µs/op | times the last one's per CPU s | {} | smbprotocol: server µs/op |",
        kinds.join(" | ")
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for names in &args.sizes.names {
        let (folder, files) = (format!("names{names}"), names.to_string());
        let seconds = args.seconds.to_string();
        let (mut reports, mut foreign) = (Vec::new(), Vec::new());
        for server in servers {
            server.fill(&folder, *names)?;
            foreign.push(server.load_by_smbprotocol(&folder, *names, args.seconds)?);
            let is_slow = server.is_peer && *names > PEER_NAMES_MAX;
            let (depth, rounds) = if is_slow { ("1", 1) } else { (DEPTH, args.rounds) };
            let load = ["--in-folder", "--files", &files, "--depth", depth];
            let load: Vec<&str> =
                load.into_iter().chain(["--duration", &seconds, "--warm-up", "1"]).collect();
            let name =
                if is_slow { format!("{}, 1 worker", server.name) } else { server.name.into() };
            reports.push((name, server.measure_rounds(binary, &folder, &load, rounds)));
            server.empty(&folder)?;
        }
        let samba = reports
            .last()
            .and_then(|(_, report)| report.as_ref().ok())
            .map(LoaderReport::server_us);
        for ((name, report), foreign) in reports.into_iter().zip(foreign) {
            let report = match report {
                Ok(report) => report,
                // The load did not finish in time; the table shows that.
                Err(error) => {
                    println!("| {names} | {name} | {error:#} |");
                    continue;
                }
            };
            let mut line =
                format!("| {names} | {name} | {:.0} | {:.1} |", report.rate(), report.server_us());
            let _ = write!(line, " {:.2} |", samba.unwrap_or_default() / report.server_us());
            for kind in kinds {
                let _ = write!(
                    line,
                    " {:.0} / {:.0} |",
                    report.of(kind, "p50"),
                    report.of(kind, "p99")
                );
            }
            let foreign = foreign.map_or("-".to_owned(), |us| format!("{us:.1}"));
            println!("{line} {foreign} |");
        }
    }
    println!();
    Ok(())
}

/// Writes small files and reads them back, in the share and in a local folder.
fn small_files(binary: &Path, servers: &[MeasuredServer], args: &Args) -> Result<()> {
    let files = args.sizes.small_files;
    println!("{files} files of {} written and read back by {DEPTH} workers:\n", SMALL.0);
    println!(
        "| server | written /s | read /s | server µs a file | slower than local: written, read |"
    );
    println!("|---|---|---|---|---|");
    let local = local_files(&servers[0].folder, files)?;
    let count = files.to_string();
    let load = ["--small-files", "--files", &count, "--file-size", SMALL.0, "--depth", DEPTH];
    let workers: f64 = DEPTH.parse()?;
    for server in servers {
        let report = server.measure_rounds(binary, "", &load, args.rounds)?;
        // The phases run one after the other.
        let rate = |kind| workers * 1e6 / report.of(kind, "mean");
        let (written, read) = (rate("write"), rate("read"));
        println!(
            "| {} | {written:.0} | {read:.0} | {:.1} | {:.1}, {:.1} |",
            server.name,
            report.server_us(),
            local[0] / written,
            local[1] / read
        );
    }
    println!("| local | {:.0} | {:.0} | | |\n", local[0], local[1]);
    Ok(())
}

/// Files in a second that one local process writes, and reads.
fn local_files(share: &Path, files: u64) -> Result<[f64; 2]> {
    let folder = share.join("local");
    std::fs::create_dir_all(&folder)?;
    let path = |number| folder.join(format!("file{number}"));
    let rate = |each: &dyn Fn(u64) -> std::io::Result<()>| {
        let begun = Instant::now();
        (0..files).try_for_each(each)?;
        anyhow::Ok(files as f64 / begun.elapsed().as_secs_f64())
    };
    let contents = vec![b'x'; SMALL.1];
    let written = rate(&|number| std::fs::write(path(number), &contents))?;
    let read = rate(&|number| std::fs::read(path(number)).map(drop))?;
    std::fs::remove_dir_all(&folder)?;
    Ok([written, read])
}

/// A long folder, listed with attributes.
fn listing(binary: &Path, servers: &[MeasuredServer], args: &Args) -> Result<()> {
    let files = args.sizes.listed;
    println!("Listing {files} files with attributes:\n");
    println!(
        "| server | entries/s | entries a second of server CPU | by smbclient: seconds, entries a second of server CPU |"
    );
    println!("|---|---|---|---|");
    let (count, seconds) = (files.to_string(), args.seconds.to_string());
    let load =
        ["--listing", "--files", &count, "--depth", "1", "--duration", &seconds, "--warm-up", "1"];
    for server in servers {
        server.fill("listed", files)?;
        let report = server.measure_rounds(binary, "listed", &load, args.rounds)?;
        let foreign = (0..args.rounds).map(|_| server.list_by_smbclient("listed"));
        let foreign = foreign.collect::<Result<Vec<_>>>()?;
        server.empty("listed")?;
        let (elapsed, cpu) = median(foreign, |f| f.1).context("no rounds")?;
        println!(
            "| {} | {:.0} | {:.0} | {elapsed:.2}, {:.0} |",
            server.name,
            report.rate() * files as f64,
            files as f64 * 1e6 / report.server_us(),
            files as f64 / cpu
        );
    }
    println!();
    Ok(())
}

impl MeasuredServer {
    /// Seconds that smbclient takes to list a folder, and CPU seconds of the server.
    fn list_by_smbclient(&self, folder: &str) -> Result<(f64, f64)> {
        let (begun, before) = (Instant::now(), super::peers::ticks(self.pid));
        let output = Command::new("smbclient")
            .args([&format!("//{}/plain", self.address), "-p", &PORT.to_string()])
            .args(["-U", &format!("{USER}%{PASSWORD}"), "-c", &format!("cd {folder}; ls")])
            .output()
            .context("smbclient")?;
        if !output.status.success() {
            bail!("smbclient: {}", String::from_utf8_lossy(&output.stdout));
        }
        let ticks = super::peers::ticks(self.pid) - before;
        Ok((begun.elapsed().as_secs_f64(), ticks.max(1.0) / super::peers::TICKS_PER_SECOND))
    }

    /// CPU microseconds of the server for an operation of smbprotocol; none if it is not installed
    /// (`make clients` installs it).
    fn load_by_smbprotocol(&self, folder: &str, files: u64, seconds: u32) -> Result<Option<f64>> {
        let home = std::env::var("HOME")?;
        let cache = std::env::var("ANABRANCH_CACHE").unwrap_or(format!("{home}/.cache/anabranch"));
        let before = super::peers::ticks(self.pid);
        let output = Command::new(format!("{cache}/venv/bin/python"))
            .arg("conformance/python/metadata_load.py")
            .args([&self.address, &PORT.to_string(), "plain", USER, PASSWORD, folder])
            .args([files.to_string(), seconds.to_string()])
            .output();
        let Some(output) = output.ok().filter(|output| output.status.success()) else {
            return Ok(None);
        };
        let ticks = super::peers::ticks(self.pid) - before;
        let count: f64 = String::from_utf8(output.stdout)?.trim().parse()?;
        Ok(Some(ticks / super::peers::TICKS_PER_SECOND * 1e6 / count))
    }
}
