//! Both servers on the loopback device, under foreign load and our own.

use super::chart::BarChart;
use super::samba::SambaPeer;
use super::{Args, Loader, median, own_loader};
use crate::server::{PASSWORD, PORT, RunningServer, USER};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Clock ticks of /proc in a second (USER_HZ, fixed on Linux).
pub const TICKS_PER_SECOND: f64 = 100.0;

/// A load: name, smbtorture's bench, bytes, depth, connections, further options.
pub type PeerLoad = (&'static str, &'static str, u32, u32, u32, &'static [&'static str]);

const SIGNED: &[&str] = &["--option=clientsigning=required"];
const SEALED: &[&str] = &["--client-protection=encrypt"];

const ROWS: [PeerLoad; 10] = [
    ("read 4 KiB, depth 32", "read", 4096, 32, 1, &[]),
    ("write 4 KiB, depth 32", "write", 4096, 32, 1, &[]),
    ("read 64 KiB, depth 8", "read", 65_536, 8, 1, &[]),
    ("read 64 KiB, depth 8, signed", "read", 65_536, 8, 1, SIGNED),
    ("read 64 KiB, 4 connections, depth 8", "read", 65_536, 8, 4, &[]),
    ("read 1 MiB, depth 4", "read", 1_048_576, 4, 1, &[]),
    ("read 1 MiB, depth 4, sealed", "read", 1_048_576, 4, 1, SEALED),
    ("write 1 MiB, depth 4", "write", 1_048_576, 4, 1, &[]),
    ("echo, depth 32", "echo", 4096, 32, 1, &[]),
    ("session setup", "session-setup", 4096, 1, 4, &[]),
];

/// Operations per second, and the server's CPU time for each.
#[derive(Clone, Copy, Debug)]
pub struct PeerFigure {
    /// Operations per second.
    pub rate: f64,
    /// Server CPU time for each operation, in microseconds.
    pub cpu_us: f64,
}

/// Measures all rows and prints a table.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let binary = super::binary(root)?;
    let ours = RunningServer::anabranch(&binary, 61)?;
    let peer = PeerServer::start(args.before.as_deref())?;
    if args.loads_with(Loader::Torture) {
        under_torture(&ours, &peer, args)?;
    }
    if args.loads_with(Loader::Own) {
        let servers = [(ours.address.as_str(), ours.pid()), (peer.address(), peer.pid())];
        own_loader::run(&binary, servers, peer.name(), args)?;
    }
    Ok(())
}

/// The server to compare ours with.
pub enum PeerServer {
    /// Debian's Samba, the default.
    Samba(SambaPeer),
    /// An earlier build of this server.
    EarlierBuild(RunningServer),
}

impl PeerServer {
    /// Starts Samba, or the earlier build.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(before: Option<&Path>) -> Result<Self> {
        Ok(match before {
            Some(binary) => Self::EarlierBuild(RunningServer::anabranch(binary, SAMBA_HOST)?),
            None => Self::Samba(SambaPeer::start(&[crate::server::address(SAMBA_HOST)])?),
        })
    }

    /// Name in the tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Samba(_) => "Samba",
            Self::EarlierBuild(_) => "before",
        }
    }

    /// Address it serves on.
    pub fn address(&self) -> &str {
        match self {
            Self::Samba(samba) => &samba.addresses[0],
            Self::EarlierBuild(running) => &running.address,
        }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        match self {
            Self::Samba(samba) => samba.pid(),
            Self::EarlierBuild(running) => running.pid(),
        }
    }

    /// The folder of its share.
    pub fn share(&self) -> PathBuf {
        match self {
            Self::Samba(samba) => samba.share(),
            Self::EarlierBuild(running) => running.share(),
        }
    }
}

fn under_torture(ours: &RunningServer, peer: &PeerServer, args: &Args) -> Result<()> {
    let (torture, name) = (torture()?, peer.name());
    println!("| load | ours /s | {name} /s | ratio | ours µs/op | {name} µs/op |");
    println!("|---|---|---|---|---|---|");
    let mut chart = BarChart::new("Server CPU time of an SMB operation, µs", ["Anabranch", name]);
    for row in ROWS.iter().filter(|row| args.wants(row.0)) {
        let mut figures = [Vec::new(), Vec::new()];
        for _ in 0..args.rounds {
            let seconds = args.seconds;
            figures[0].push(measure(&torture, row, &ours.address, ours.pid(), seconds)?);
            figures[1].push(measure(&torture, row, peer.address(), peer.pid(), seconds)?);
        }
        let [Some(a), Some(b)] = figures.map(middle) else { continue };
        println!(
            "| {} | {:.0} | {:.0} | {:.2} | {:.1} | {:.1} |",
            row.0,
            a.rate,
            b.rate,
            a.rate / b.rate,
            a.cpu_us,
            b.cpu_us
        );
        chart.row(row.0, [a.cpu_us, b.cpu_us]);
    }
    args.draw("smb-cpu.svg", &chart)
}

/// Median rate and median time, each taken separately.
fn middle(figures: Vec<PeerFigure>) -> Option<PeerFigure> {
    let rate = median(figures.clone(), |f| f.rate)?.rate;
    let cpu_us = median(figures, |f| f.cpu_us)?.cpu_us;
    Some(PeerFigure { rate, cpu_us })
}

/// The command that starts smbtorture: the newest version if it is installed.
///
/// # Errors
/// smbtorture is not installed.
pub fn torture() -> Result<Vec<String>> {
    let home = std::env::var("HOME")?;
    let root = PathBuf::from(
        std::env::var("ANABRANCH_CACHE").unwrap_or(format!("{home}/.cache/anabranch")),
    )
    .join("forky");
    if !root.join("usr/bin/smbtorture").exists() {
        bail!("the benches need the newest smbtorture: run conformance/torture-root");
    }
    Ok(vec!["chroot".into(), root.display().to_string(), "/usr/bin/smbtorture".into()])
}

/// Runs one of smbtorture's benches once.
///
/// # Errors
/// It does not run, or prints no figure.
pub fn measure(
    torture: &[String],
    row: &PeerLoad,
    address: &str,
    pid: u32,
    seconds: u32,
) -> Result<PeerFigure> {
    let (_, bench, bytes, depth, connections, options) = row;
    let mut command = Command::new(&torture[0]);
    command.args(&torture[1..]).arg(format!("//{address}/plain")).args(["-p", &PORT.to_string()]);
    command.args(["-U", &format!("{USER}%{PASSWORD}"), "-t", &seconds.to_string()]).args(*options);
    for option in [("nprocs", connections), ("qdepth", depth), ("io_size", bytes)] {
        command.arg(format!("--option=torture:{}={}", option.0, option.1));
    }
    let before = ticks(pid);
    let output = command.arg(format!("smb2.bench.{bench}")).output().context("smbtorture")?;
    let used = (ticks(pid) - before) / TICKS_PER_SECOND;
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let rates: Vec<f64> = text.split(['\r', '\n']).filter_map(rate_of).collect();
    if rates.is_empty() {
        bail!("{bench}: no figure in: {text}");
    }
    let rate = rates.iter().sum::<f64>() / rates.len() as f64;
    Ok(PeerFigure { rate, cpu_us: used * 1e6 / (rate * f64::from(seconds)) })
}

fn rate_of(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once("num/s=")?;
    let digits: String = rest
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, ',' | '.'))
        .filter(|c| *c != ',')
        .collect();
    digits.trim_end_matches('.').parse().ok()
}

/// User and system time of a process and all below it, in ticks.
pub fn ticks(pid: u32) -> f64 {
    let mut total = 0.0;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    if let Some((_, rest)) = stat.rsplit_once(") ") {
        let fields: Vec<f64> = rest.split_whitespace().map(|f| f.parse().unwrap_or(0.0)).collect();
        // CPU time of the process itself and of its exited children.
        total += fields.get(11..15).map_or(0.0, |f| f.iter().sum());
    }
    let children =
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    total + children.split_whitespace().filter_map(|c| c.parse().ok()).map(ticks).sum::<f64>()
}

/// Last number of Samba's loopback address.
pub const SAMBA_HOST: u8 = 62;
