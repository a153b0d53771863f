//! Counts the instructions that unreached limits add to each request. Valgrind counts those of the
//! server's own program, for the same requests to one directory that is shared twice: with limits of
//! every kind and without any.
//!
//! Each load runs with two numbers of requests, on a new server each time. The difference excludes
//! start, end, logon, and the creation and removal of files. Kernel instructions are not counted;
//! limits add no system call.

use super::Args;
use crate::server::{PASSWORD, USER};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::fs::Permissions;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ports of SMB and of NFS that no other program uses.
const PORTS: [u16; 2] = [24_556, 24_456];
/// Timeout for a server under valgrind, which is slow.
const PATIENCE: Duration = Duration::from_mins(5);
/// Every kind of limit, so high that nothing reaches it.
const LIMITS: &str = "provisioned_gib = 262144\n[share.limits]\niops = 90000000\nread_iops = 80000000\n\
    write_iops = 80000000\nmetadata_iops = 70000000\nbandwidth = \"900 GiB\"\ningress = \"800 GiB\"\n\
    egress = \"800 GiB\"\nfile_iops = 60000000\nfile_read_iops = 50000000\nfile_write_iops = 50000000\n\
    file_bandwidth = \"700 GiB\"\nfile_ingress = \"600 GiB\"\nfile_egress = \"600 GiB\"\n\
    root_handles = 900000\nfile_handles = 800000\n";
/// The shares without and with limits.
const SHARES: [&str; 2] = ["free", "held"];

/// A load of `anabranch bench`: name, size of a request, arguments, the lesser count.
type CountedLoad = (&'static str, u64, &'static str, u64);

const LOADS: [CountedLoad; 8] = [
    ("read 4 KiB, depth 32", 4096, "--depth 32", 10_000),
    ("read 4 KiB, depth 1", 4096, "--depth 1", 5000),
    ("write 4 KiB, depth 32", 4096, "--depth 32 --read-percent 0", 10_000),
    ("write 4 KiB, depth 1", 4096, "--depth 1 --read-percent 0", 5000),
    ("read 1 MiB, depth 32", 1 << 20, "--depth 32", 1000),
    ("read 1 MiB, depth 1", 1 << 20, "--depth 1", 1000),
    ("write 1 MiB, depth 32", 1 << 20, "--depth 32 --read-percent 0", 500),
    ("write 1 MiB, depth 1", 1 << 20, "--depth 1 --read-percent 0", 500),
];

/// Environment of the servers under callgrind, which run one after the other.
struct CallgrindServers {
    /// Runs valgrind.
    launcher: PathBuf,
    binary: PathBuf,
    folder: PathBuf,
    address: String,
}

/// A server under callgrind.
struct InstrumentedServer<'a> {
    child: Child,
    bench: &'a CallgrindServers,
}

/// Counts all rows, and prints a table.
///
/// # Errors
/// valgrind is missing; a load that does not run.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let bench = CallgrindServers::new(root)?;
    println!("| load | instructions of the server for one, without limits | with | more |");
    println!("|---|---|---|---|");
    for load in LOADS {
        for scheme in ["smb", "nfs"] {
            let name = format!("{}, {}", load.0, scheme.to_uppercase());
            if !args.wants(&name) {
                continue;
            }
            let mut each = [0.0; 2];
            for (share, each) in SHARES.iter().zip(&mut each) {
                *each = bench.instructions_each(scheme, share, load)?;
            }
            println!("| {name} | {:.0} | {:.0} | {:.0} |", each[0], each[1], each[1] - each[0]);
        }
    }
    Ok(())
}

impl CallgrindServers {
    fn new(root: &Path) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("anabranch-counted-{}", std::process::id()));
        let data = folder.join("data");
        fs::create_dir_all(&data)?;
        // The logon may be of another user than this process.
        fs::set_permissions(&data, Permissions::from_mode(0o777))?;
        let state = folder.join("state");
        let share = |name: &str| {
            format!(
                "[[share]]\nname = {name:?}\npath = {data:?}\nnfs_squash = \"none\"\nreserved_ports = false\n"
            )
        };
        let (free, held) = (share(SHARES[0]), share(SHARES[1]));
        // Valgrind makes system calls of its own, and has none to install filters.
        let server = format!("[server]\nconfinement = \"off\"\nstate = {state:?}\n");
        let text = format!("{server}{free}{held}{LIMITS}");
        fs::write(folder.join("config.toml"), text)?;
        let launcher = root.join("conformance/under-valgrind");
        let address = crate::server::address(62);
        Ok(Self { launcher, binary: super::binary(root)?, folder, address })
    }

    /// Instructions for one request of a load, from runs with its count and with three times that.
    fn instructions_each(&self, scheme: &str, share: &str, load: CountedLoad) -> Result<f64> {
        let of = |count: u64| -> Result<f64> {
            let mut server = InstrumentedServer::start(self)?;
            self.ask(scheme, share, load, count)?;
            server.end()
        };
        let (few, many) = (of(load.3)?, of(3 * load.3)?);
        Ok((many - few) / (2 * load.3) as f64)
    }

    fn ask(&self, scheme: &str, share: &str, load: CountedLoad, count: u64) -> Result<()> {
        let is_smb = scheme == "smb";
        let (user, port) =
            if is_smb { (format!("{USER}@"), PORTS[0]) } else { (String::new(), PORTS[1]) };
        let url = format!("{scheme}://{user}{}:{port}/{share}", self.address);
        let bytes = [load.1, 1 << 20, load.1 * count].map(|bytes| bytes.to_string());
        let output = Command::new(&self.binary)
            .args(["bench", &url, "--quiet", "--json", "-", "--warm-up", "0"])
            .args(if is_smb { &["--channels", "1"][..] } else { &[] })
            .args(["--block", &bytes[0], "--file-size", &bytes[1], "--bytes", &bytes[2]])
            .args(load.2.split(' '))
            .env("ANABRANCH_PASSWORD", PASSWORD)
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

impl Drop for CallgrindServers {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl<'a> InstrumentedServer<'a> {
    fn start(bench: &'a CallgrindServers) -> Result<Self> {
        let _ = fs::remove_dir_all(bench.folder.join("state"));
        let log = fs::File::create(bench.folder.join("log"))?;
        let (address, [smb, nfs]) = (&bench.address, PORTS);
        let child = Command::new(&bench.launcher)
            .args(["--quiet", "--tool=callgrind", "--callgrind-out-file=counted"])
            .arg(&bench.binary)
            .args(["serve", "--admin", "off", "--signing", "offered", "--config", "config.toml"])
            .args(["--smb", &format!("{address}:{smb}"), "--nfs", &format!("{address}:{nfs}")])
            .args(["--user", &format!("{USER}:{PASSWORD}")])
            .current_dir(&bench.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("conformance/under-valgrind")?;
        let mut counted = Self { child, bench };
        counted.wait()?;
        Ok(counted)
    }

    fn wait(&mut self) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if TcpStream::connect((self.bench.address.as_str(), PORTS[1])).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                let log = fs::read_to_string(self.bench.folder.join("log"))?;
                bail!(
                    "the server ended (valgrind 3.27 does, 3.19 does not know openat2): {status}\n{log}"
                );
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("the server does not answer on {}", self.bench.address)
    }

    /// Ends the server; returns its total number of instructions.
    fn end(&mut self) -> Result<f64> {
        let pid = self.child.id().to_string();
        ensure!(Command::new("kill").args(["-s", "TERM", &pid]).status()?.success(), "kill");
        self.child.wait()?;
        let counted = fs::read_to_string(self.bench.folder.join("counted"))?;
        let total = counted.lines().rev().find_map(|line| line.strip_prefix("totals: "));
        total
            .and_then(|total| total.trim().parse().ok())
            .context("valgrind counted no instructions")
    }
}

impl Drop for InstrumentedServer<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
