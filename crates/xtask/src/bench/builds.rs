//! Compares two builds of this server, in turns of short rounds: every load over both protocols, as
//! an ordinary user. Differences of a few per cent are visible here; the medians of a few long
//! rounds hide them.

use super::own_loader::LoadFigure;
use super::{Args, median};
use crate::server::{PASSWORD, USER, address};
use anyhow::{Context, Result, bail};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ports of each server.
const SMB_PORT: u16 = 24_456;
const NFS_PORT: u16 = 24_457;
/// Last numbers of the addresses of the earlier build and of the present one.
const HOSTS: [u8; 2] = [65, 66];
/// Names in the folder that is filled for the loads on a folder.
const NAMES: u32 = 10_000;
/// A row counts as slower from this ratio on.
const SLOWER: f64 = 1.03;

/// LoadProtocol of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadProtocol {
    Smb,
    Nfs,
}

/// Loads: protocol, name, arguments of `anabranch bench`.
const LOADS: [(LoadProtocol, &str, &str); 24] = [
    (LoadProtocol::Smb, "SMB read 4 KiB, depth 32", "--random --block 4K --depth 32 --channels 1"),
    (
        LoadProtocol::Smb,
        "SMB read 4 KiB, depth 32, 4 channels",
        "--random --block 4K --depth 32 --channels 4",
    ),
    (LoadProtocol::Smb, "SMB read 4 KiB, depth 1", "--random --block 4K --depth 1 --channels 1"),
    (
        LoadProtocol::Smb,
        "SMB write 4 KiB, depth 32",
        "--random --block 4K --depth 32 --channels 1 --read-percent 0",
    ),
    (
        LoadProtocol::Smb,
        "SMB write 4 KiB, depth 32, 4 channels",
        "--random --block 4K --depth 32 --channels 4 --read-percent 0",
    ),
    (LoadProtocol::Smb, "SMB read 64 KiB, depth 16", "--block 64K --depth 16 --channels 1"),
    (
        LoadProtocol::Smb,
        "SMB read 64 KiB, depth 16, signed",
        "--block 64K --depth 16 --channels 1 --sign gmac",
    ),
    (LoadProtocol::Smb, "SMB read 1 MiB, depth 8", "--block 1M --depth 8 --channels 1"),
    (
        LoadProtocol::Smb,
        "SMB read 1 MiB, depth 8, encrypted",
        "--block 1M --depth 8 --channels 1 --encrypt gcm",
    ),
    (
        LoadProtocol::Smb,
        "SMB write 1 MiB, depth 8",
        "--block 1M --depth 8 --channels 1 --read-percent 0",
    ),
    (LoadProtocol::Smb, "SMB metadata, depth 1", "--metadata --depth 1 --channels 1"),
    (LoadProtocol::Smb, "SMB metadata, depth 8", "--metadata --depth 8 --channels 1"),
    (
        LoadProtocol::Smb,
        "SMB metadata, depth 8, encrypted",
        "--metadata --depth 8 --channels 1 --encrypt gcm",
    ),
    (
        LoadProtocol::Smb,
        "SMB create, open, close, remove among 10,000 names, depth 8",
        "--in-folder --files 10000 --depth 8 --channels 1",
    ),
    (
        LoadProtocol::Smb,
        "SMB listing of 10,000 names",
        "--listing --files 10000 --depth 1 --channels 1",
    ),
    (LoadProtocol::Nfs, "NFS read 4 KiB, depth 64", "--random --block 4K --depth 64"),
    (LoadProtocol::Nfs, "NFS read 4 KiB, depth 1", "--random --block 4K --depth 1"),
    (
        LoadProtocol::Nfs,
        "NFS write 4 KiB, depth 64",
        "--random --block 4K --depth 64 --read-percent 0",
    ),
    (LoadProtocol::Nfs, "NFS read 1020 KiB, depth 8", "--block 1020K --depth 8"),
    (LoadProtocol::Nfs, "NFS write 1020 KiB, depth 8", "--block 1020K --depth 8 --read-percent 0"),
    (LoadProtocol::Nfs, "NFS create, getattr, readdir, remove, depth 1", "--metadata --depth 1"),
    (LoadProtocol::Nfs, "NFS create, getattr, readdir, remove, depth 8", "--metadata --depth 8"),
    (LoadProtocol::Nfs, "NFS create, getattr, readdir, remove, depth 64", "--metadata --depth 64"),
    (LoadProtocol::Nfs, "NFS listing of 10,000 names", "--listing --files 10000 --depth 1"),
];

/// The file of reads and writes fits into memory.
const FILE: [&str; 2] = ["--file-size", "64M"];

/// CPUs of the servers and of the loader, as `taskset` takes them.
#[derive(Debug, clap::Args)]
pub struct Cpus {
    /// `builds`: CPUs of the servers, as `taskset` takes them
    #[arg(long, value_name = "LIST")]
    server_cpus: Option<String>,
    /// `builds`: CPUs of the load generator, as `taskset` takes them
    #[arg(long, value_name = "LIST")]
    loader_cpus: Option<String>,
}

/// A build that serves an empty share of its own.
struct ServedBuild {
    child: Child,
    host: u8,
    folder: PathBuf,
}

/// Measures every load on both builds in turns and prints a table.
///
/// # Errors
/// No earlier build is given, or a server or a load does not run.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let before = args.before.as_deref().context("name the earlier build: --before BINARY")?;
    let now = super::binary(root)?;
    let builds =
        [ServedBuild::start(before, HOSTS[0], args)?, ServedBuild::start(&now, HOSTS[1], args)?];
    println!(
        "CPU time of the server for each operation, in µs: mean of the best quarter of {} rounds (median).\n",
        args.rounds
    );
    println!("| load | before | now | ratio | ratio of rates |");
    println!("|---|---|---|---|---|");
    let mut slower = Vec::new();
    for (protocol, name, arguments) in LOADS.iter().filter(|load| args.wants(load.1)) {
        let mut figures = [Vec::new(), Vec::new()];
        for round in 0..args.rounds {
            // Which one comes first changes, because a machine's clock rate falls within a load.
            for at in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                let figure = builds[at].measure(&now, *protocol, arguments, args);
                figures[at].push(figure.with_context(|| format!("{name}, build {at}"))?);
            }
        }
        let row = Row::of(&figures);
        println!("| {name} | {} |", row.text());
        if row.is_slower() {
            slower.push(*name);
        }
    }
    if slower.is_empty() {
        println!("\nNo row needs more than {SLOWER} times the CPU time of before.");
    } else {
        println!(
            "\nMore than {SLOWER} times the CPU time of before, in best quarter and median: {}",
            slower.join("; ")
        );
    }
    Ok(())
}

impl ServedBuild {
    fn start(binary: &Path, host: u8, args: &Args) -> Result<Self> {
        // An earlier build may not know the option, and then has no such restriction.
        Self::start_with(binary, host, args, ",reserved_ports=no")
            .or_else(|_| Self::start_with(binary, host, args, ""))
    }

    fn start_with(binary: &Path, host: u8, args: &Args, options: &str) -> Result<Self> {
        let name = format!("anabranch-builds-{}-{host}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let share = folder.join("plain");
        std::fs::create_dir_all(share.join("names"))?;
        for number in 0..NAMES {
            std::fs::write(share.join(format!("names/file{number}")), b"")?;
        }
        if !Command::new("chown").args(["-R", USER]).arg(&share).status()?.success() {
            bail!("the benches need a user {USER}: conformance/prepare");
        }
        let state = folder.join("state");
        let config = folder.join("config.toml");
        std::fs::write(
            &config,
            format!("[server]\nstate = {state:?}\n[multichannel]\nchannels_max = 32\n"),
        )?;
        let log = std::fs::File::create(folder.join("log"))?;
        let child = pinned(binary, args.cpus.server_cpus.as_deref())
            .args(["serve", "--admin", "off", "--signing", "offered", "--config"])
            .arg(&config)
            .args(["--smb", &format!("{}:{SMB_PORT}", address(host))])
            .args(["--nfs", &format!("{}:{NFS_PORT}", address(host))])
            .args(["--share", &format!("plain={},nfs_squash=none{options}", share.display())])
            .args(["--user", &format!("{USER}:{PASSWORD}")])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let mut build = Self { child, host, folder };
        build.wait()?;
        Ok(build)
    }

    fn wait(&mut self) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) {
            if TcpStream::connect((address(self.host).as_str(), NFS_PORT)).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                bail!("the server ended: {status}\n{log}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the server does not answer on {}", address(self.host))
    }

    /// Runs a load once, as the user whose files they are.
    fn measure(
        &self,
        loader: &Path,
        protocol: LoadProtocol,
        arguments: &str,
        args: &Args,
    ) -> Result<LoadFigure> {
        let at = address(self.host);
        let in_names = arguments.contains("--in-folder") || arguments.contains("--listing");
        let folder = if in_names { "/names" } else { "" };
        let url = match protocol {
            LoadProtocol::Smb => format!("smb://{USER}@{at}:{SMB_PORT}/plain{folder}"),
            LoadProtocol::Nfs => format!("nfs://{at}:{NFS_PORT}/plain{folder}"),
        };
        let mut command = Command::new("setpriv");
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
        if let Some(cpus) = &args.cpus.loader_cpus {
            command.args(["taskset", "-c", cpus]);
        }
        command.arg(loader).args(["bench", &url, "--quiet", "--json", "-", "--warm-up", "0.2"]);
        command.args(["--duration", &args.seconds.to_string()]);
        command.args(["--server-pid", &self.child.id().to_string()]).args(arguments.split(' '));
        if arguments.contains("--block") {
            command.args(FILE);
        }
        let output = command.env("ANABRANCH_PASSWORD", PASSWORD).output();
        LoadFigure::of(&output.context("anabranch bench")?)
    }
}

impl Drop for ServedBuild {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn pinned(binary: &Path, cpus: Option<&str>) -> Command {
    let Some(cpus) = cpus else { return Command::new(binary) };
    let mut command = Command::new("taskset");
    command.args(["-c", cpus]).arg(binary);
    command
}

/// Server CPU time for an operation of both builds, in µs, and the ratio of their rates.
#[derive(Clone, Copy, Debug)]
struct Row {
    best: [f64; 2],
    middle: [f64; 2],
    rates: f64,
}

impl Row {
    fn of(figures: &[Vec<LoadFigure>; 2]) -> Self {
        let middle_rate =
            |at: usize| median(figures[at].clone(), |f| f.rate).map_or(0.0, |f| f.rate);
        let middle =
            |at: usize| median(figures[at].clone(), |f| f.server_us).map_or(0.0, |f| f.server_us);
        Self {
            best: [best_quarter(&figures[0]), best_quarter(&figures[1])],
            middle: [middle(0), middle(1)],
            rates: middle_rate(1) / middle_rate(0),
        }
    }

    fn text(&self) -> String {
        let ([a, b], [x, y]) = (self.best, self.middle);
        format!(
            "{a:.2} ({x:.2}) | {b:.2} ({y:.2}) | {:.3} ({:.3}) | {:.3}",
            b / a,
            y / x,
            self.rates
        )
    }

    /// Noise only adds, and seldom to both measures: a row that is slower is so in both.
    fn is_slower(&self) -> bool {
        let ([a, b], [x, y]) = (self.best, self.middle);
        b > a * SLOWER && y > x * SLOWER
    }
}

/// Mean of the smallest quarter, at least one.
fn best_quarter(figures: &[LoadFigure]) -> f64 {
    let mut all: Vec<f64> = figures.iter().map(|figure| figure.server_us).collect();
    all.sort_by(f64::total_cmp);
    all.truncate((all.len() / 4).max(1));
    all.iter().sum::<f64>() / all.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(all: &[f64]) -> Vec<LoadFigure> {
        let figure =
            |&server_us| LoadFigure { rate: 100.0, server_us, loader_us: 1.0, channels: 1 };
        all.iter().map(figure).collect()
    }

    #[test]
    fn best_quarter_leaves_out_disturbed_rounds() {
        assert_eq!(best_quarter(&figures(&[9.0, 1.0, 3.0, 9.0, 9.0, 9.0, 9.0, 9.0])), 2.0);
        assert_eq!(best_quarter(&figures(&[7.0])), 7.0);
    }

    #[test]
    fn row_slower_in_one_measure_only_is_not_slower() {
        let calm = figures(&[10.0, 10.0, 10.0, 10.0]);
        let disturbed = figures(&[10.0, 20.0, 20.0, 20.0]);
        assert!(!Row::of(&[calm.clone(), disturbed]).is_slower());
        assert!(Row::of(&[calm, figures(&[11.0, 11.0, 11.0, 11.0])]).is_slower());
    }
}
