//! Side by side with another server: throughput, and the server's processor
//! time for each operation, under the same foreign load.

use crate::own_loader;
use crate::server::{self, PASSWORD, PORT, Running, USER};
use anyhow::{Context, Result, bail};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// Clock ticks of /proc in a second (USER_HZ, fixed on Linux).
const TICKS_PER_SECOND: f64 = 100.0;

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to measure; only peers so far
    what: String,
    /// Only rows whose names contain this
    #[arg(long)]
    row: Option<String>,
    /// Seconds of one measurement
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// How often the pair is measured; the middle one is shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
}

impl Args {
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.row.as_ref().is_none_or(|row| name.contains(row.as_str()))
    }

    /// Seconds of one measurement, and how often it is made.
    pub(crate) fn effort(&self) -> (u32, u32) {
        (self.seconds, self.rounds)
    }
}

/// A load: name, smbtorture's bench, bytes, depth, connections, further options.
type Row = (&'static str, &'static str, u32, u32, u32, &'static [&'static str]);

const SIGNED: &[&str] = &["--option=clientsigning=required"];
const SEALED: &[&str] = &["--client-protection=encrypt"];

const ROWS: [Row; 10] = [
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

/// Operations in a second, and microseconds of server time for each.
#[derive(Clone, Copy, Debug)]
struct Figure {
    rate: f64,
    cpu_us: f64,
}

/// Measures all rows and prints a table.
pub fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    if args.what != "peers" {
        bail!("there is no bench {:?}; there is: peers", args.what);
    }
    let targets = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
    let binary = targets.join("release/anabranch");
    let binary = if binary.exists() { binary } else { server::binary()? };
    let torture = torture()?;
    let ours = Running::anabranch(&binary, 61)?;
    let samba = Samba::start()?;
    println!("| load | ours /s | Samba /s | ratio | ours µs/op | Samba µs/op |");
    println!("|---|---|---|---|---|---|");
    for row in ROWS.iter().filter(|row| args.wants(row.0)) {
        let mut figures = [Vec::new(), Vec::new()];
        for _ in 0..args.rounds {
            let seconds = args.seconds;
            figures[0].push(measure(&torture, row, &ours.address, ours.pid(), seconds)?);
            figures[1].push(measure(&torture, row, &samba.address, samba.child.id(), seconds)?);
        }
        let [a, b] = figures.map(|f| median(&f));
        println!(
            "| {} | {:.0} | {:.0} | {:.2} | {:.1} | {:.1} |",
            row.0,
            a.rate,
            b.rate,
            a.rate / b.rate,
            a.cpu_us,
            b.cpu_us
        );
    }
    let servers = [(ours.address.as_str(), ours.pid()), (&samba.address, samba.child.id())];
    own_loader::run(&binary, servers, args)?;
    Ok(ExitCode::SUCCESS)
}

fn median(figures: &[Figure]) -> Figure {
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Figure {
        rate: middle(figures.iter().map(|f| f.rate).collect()),
        cpu_us: middle(figures.iter().map(|f| f.cpu_us).collect()),
    }
}

/// The command that starts smbtorture: the newest where it is there.
fn torture() -> Result<Vec<String>> {
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

fn measure(torture: &[String], row: &Row, address: &str, pid: u32, seconds: u32) -> Result<Figure> {
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
    Ok(Figure { rate, cpu_us: used * 1e6 / (rate * f64::from(seconds)) })
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
fn ticks(pid: u32) -> f64 {
    let mut total = 0.0;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    if let Some((_, rest)) = stat.rsplit_once(") ") {
        let fields: Vec<f64> = rest.split_whitespace().map(|f| f.parse().unwrap_or(0.0)).collect();
        // Own time, and that of children that have ended.
        total += fields.get(11..15).map_or(0.0, |f| f.iter().sum());
    }
    let children =
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    total + children.split_whitespace().filter_map(|c| c.parse().ok()).map(ticks).sum::<f64>()
}

const SAMBA_HOST: u8 = 62;

/// Debian's Samba with the same share and user.
struct Samba {
    child: Child,
    address: String,
    folder: PathBuf,
}

impl Samba {
    fn start() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("anabranch-samba-{}", std::process::id()));
        for part in ["plain", "private", "lock", "state", "cache", "pid", "ncalrpc"] {
            std::fs::create_dir_all(folder.join(part))?;
        }
        Command::new("chown").arg(USER).arg(folder.join("plain")).status()?;
        let at = folder.display();
        let address = server::address(SAMBA_HOST);
        let config = format!(
            "[global]\nnetbios name = PEER\nserver role = standalone server\nmap to guest = Never\n\
             disable netbios = yes\nsmb ports = {PORT}\nbind interfaces only = yes\ninterfaces = \"{address}/8;speed=10000000000,capability=RSS\"\n\
             server multi channel support = yes\n\
             server min protocol = SMB2_02\nload printers = no\nstore dos attributes = yes\nmap archive = no\n\
             private dir = {at}/private\nlock directory = {at}/lock\nstate directory = {at}/state\n\
             cache directory = {at}/cache\npid directory = {at}/pid\nncalrpc dir = {at}/ncalrpc\n\
             log file = {at}/log\n[plain]\npath = {at}/plain\nread only = no\n"
        );
        let file = folder.join("smb.conf");
        std::fs::write(&file, config)?;
        let mut passwd = Command::new("smbpasswd")
            .args(["-c", &file.display().to_string(), "-s", "-a", USER])
            .stdin(Stdio::piped())
            .spawn()
            .context("smbpasswd; apt-get install samba")?;
        if let Some(stdin) = passwd.stdin.as_mut() {
            use std::io::Write;
            write!(stdin, "{PASSWORD}\n{PASSWORD}\n")?;
        }
        passwd.wait()?;
        let child = Command::new("smbd")
            .args(["-F", "--no-process-group", "-s", &file.display().to_string()])
            // When it ends it ends its whole group, which must not be ours.
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("smbd; apt-get install samba")?;
        std::thread::sleep(Duration::from_secs(2));
        Ok(Self { child, address, folder })
    }
}

impl Drop for Samba {
    fn drop(&mut self) {
        // Asked to end, it ends its children too.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
