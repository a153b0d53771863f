//! Compares our NFS server with NFS-Ganesha, or with an earlier build of ours, under our own loader:
//! small and large reads and writes, files by name, and one to sixteen connections, also with a
//! bandwidth limit on each connection. Both servers store their files on the same file system, beside
//! Ganesha one in memory.

use super::chart::BarChart;
use super::network::{self, ClientNetwork, NetworkLink};
use super::own_loader::LoadFigure;
use super::{Args, median};
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ports of our server and of Ganesha that no other program uses.
const PORTS: [u16; 2] = [24_454, 24_455];

/// Connections of one session.
const CONNECTIONS: [&str; 5] = ["1", "2", "4", "8", "16"];

/// Loads: name, and arguments of `anabranch bench`.
const LOADS: [(&str, &str); 11] = [
    ("read 4 KiB, depth 64", "--random --block 4K --depth 64"),
    ("write 4 KiB, depth 64", "--random --block 4K --depth 64 --read-percent 0"),
    ("read 4 KiB, depth 1", "--random --block 4K --depth 1"),
    ("read 1020 KiB, depth 8", "--block 1020K --depth 8"),
    ("write 1020 KiB, depth 8", "--block 1020K --depth 8 --read-percent 0"),
    ("create, getattr, readdir; depth 8", "--unpack --depth 8"),
    ("create, getattr, readdir; depth 64", "--unpack --depth 64"),
    ("create, getattr, readdir, remove; depth 8", "--metadata --depth 8"),
    ("create, getattr, readdir, remove; depth 64", "--metadata --depth 64"),
    ("ls -l of 32 files, depth 64", "--listing --files 32 --depth 64"),
    ("ls -l of 50,000 files", "--listing --files 50000 --depth 1"),
];

/// Bandwidth in Mbit/s of each connection in the limited case.
const SLOW_MEGABITS: u32 = 200;

/// A measured server.
pub struct MeasuredNfsServer {
    name: &'static str,
    child: Child,
    /// Process id.
    pub pid: u32,
    /// Address it serves on, with [`MeasuredNfsServer::port`].
    pub address: String,
    /// See [`MeasuredNfsServer::address`].
    pub port: u16,
    /// The export to measure.
    pub path: &'static str,
    /// Local path of the export.
    pub folder: PathBuf,
}

impl MeasuredNfsServer {
    /// Starts Ganesha; returns it with the local folder of its exports.
    ///
    /// # Errors
    /// It does not start; `conformance/ganesha-root` installs it.
    pub fn ganesha(root: &Path, address: String) -> Result<(Self, PathBuf)> {
        Self::ganesha_with(root, address, &[])
    }

    /// [`MeasuredNfsServer::ganesha`] with these variables in its environment.
    ///
    /// # Errors
    /// As there.
    pub fn ganesha_with(
        root: &Path,
        address: String,
        environment: &[(&str, &str)],
    ) -> Result<(Self, PathBuf)> {
        let port = PORTS[1];
        let mut child = Command::new(root.join("conformance/ganesha"))
            .args([&address, &port.to_string()])
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("conformance/ganesha")?;
        let mut line = String::new();
        let out = child.stdout.take().context("piped")?;
        BufReader::new(out).read_line(&mut line)?;
        let (pid, folder) = line.trim().split_once(' ').context("NFS-Ganesha did not start")?;
        let (pid, folder) = (pid.parse()?, PathBuf::from(folder));
        std::fs::create_dir(folder.join("ganesha"))?;
        let path = "export/ganesha";
        let own = folder.join("ganesha");
        Ok((Self { name: "Ganesha", child, pid, address, port, path, folder: own }, folder))
    }

    /// Starts a build of ours with a share and its state in `folder`.
    fn ours(name: &'static str, binary: &Path, address: String, folder: &Path) -> Result<Self> {
        // An earlier build may not know the option, and then has no such restriction.
        Self::ours_with(name, binary, &address, folder, ",reserved_ports=no")
            .or_else(|_| Self::ours_with(name, binary, &address, folder, ""))
    }

    fn ours_with(
        name: &'static str,
        binary: &Path,
        address: &str,
        folder: &Path,
        options: &str,
    ) -> Result<Self> {
        let port = PORTS[0];
        let own = folder.join(name);
        std::fs::create_dir_all(&own)?;
        let config = folder.join(format!("{name}.toml"));
        let state = folder.join(format!("{name}.state"));
        std::fs::write(&config, format!("[server]\nstate = {state:?}\n"))?;
        let child = Command::new(binary)
            .args(["serve", "--admin", "off", "--nfs", &format!("{address}:{port}")])
            .args(["--smb", &format!("{address}:{}", port + 100), "--config"])
            .arg(&config)
            .args(["--share", &format!("bench={},nfs_squash=none{options}", own.display())])
            .args(["--user", "alice:secret.0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let (pid, address) = (child.id(), address.to_owned());
        let mut server = Self { name, child, pid, address, port, path: "bench", folder: own };
        server.wait()?;
        Ok(server)
    }

    fn wait(&mut self) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) {
            if TcpStream::connect((self.address.as_str(), self.port)).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended: {status}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the server does not answer on {}", self.address)
    }

    /// URL for `anabranch bench`.
    pub fn url(&self) -> String {
        format!("nfs://{}:{}/{}", self.address, self.port, self.path)
    }

    /// Creates a folder of `count` files; the count is the folder's name.
    fn fill(&self, count: u32) -> Result<()> {
        let folder = self.folder.join(count.to_string());
        std::fs::create_dir(&folder)?;
        for number in 0..count {
            std::fs::write(folder.join(format!("file{number}")), b"")?;
        }
        Ok(())
    }
}

impl Drop for MeasuredNfsServer {
    fn drop(&mut self) {
        // Ganesha's script ends at the end of its input, and cleans up.
        if self.child.stdin.take().is_none() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// The two measured servers, ended in this order.
struct MeasuredPair {
    /// This build, and its peer.
    servers: [MeasuredNfsServer; 2],
    /// Holds their files, unless Ganesha's script does.
    _folder: Option<tempfile::TempDir>,
}

impl MeasuredPair {
    fn start(root: &Path, binary: &Path, args: &Args, addresses: [String; 2]) -> Result<Self> {
        let [own, other] = addresses;
        let (peer, folder, temporary) = if let Some(before) = &args.before {
            let temporary = tempfile::tempdir()?;
            let folder = temporary.path().to_owned();
            let peer = MeasuredNfsServer::ours("before", before, other, &folder)?;
            (peer, folder, Some(temporary))
        } else {
            let (peer, folder) = MeasuredNfsServer::ganesha(root, other)?;
            (peer, folder, None)
        };
        let ours = MeasuredNfsServer::ours("ours", binary, own, &folder)?;
        Ok(Self { servers: [ours, peer], _folder: temporary })
    }
}

/// Measures all tables.
///
/// # Errors
/// A server or a load that does not run.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let binary = super::binary(root)?;
    if !args.host_network {
        network::second_address()?;
    }
    {
        let addresses = [62, 63].map(crate::server::address);
        let MeasuredPair { servers, _folder } =
            MeasuredPair::start(root, &binary, args, addresses)?;
        loads(&binary, &servers, args)?;
        let title = "Reads of 4 KiB, depth 64, in a second";
        let load = ["--random", "--block", "4K", "--depth", "64"];
        sweep(|| Command::new(&binary), &servers, args, (title, "nfs-connections.svg"), &load)?;
    }
    let ends = ClientNetwork::new(1, &NetworkLink::SlowConnections { megabits: SLOW_MEGABITS })?;
    let addresses = [0, 1].map(|server| ends.addresses(server).swap_remove(0));
    let MeasuredPair { servers, _folder } = MeasuredPair::start(root, &binary, args, addresses)?;
    let title = format!("Reads of 256 KiB in a second, each connection {SLOW_MEGABITS} Mbit/s");
    let load = ["--block", "256K", "--depth", "64"];
    let names = (title.as_str(), "nfs-slow-connections.svg");
    sweep(|| ends.in_client(&binary), &servers, args, names, &load)
}

/// Every load on both servers, with one connection.
fn loads(binary: &Path, servers: &[MeasuredNfsServer; 2], args: &Args) -> Result<()> {
    let peer = servers[1].name;
    println!(
        "| NFS 4.1, one connection | ours /s | {peer} /s | ratio | ours µs/op | {peer} µs/op | \
         ratio | loader µs/op |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut chart = BarChart::new("Server CPU time of an NFS operation, µs", ["Anabranch", peer]);
    for (name, arguments) in LOADS.iter().filter(|load| args.wants(load.0)) {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let listed = arguments.iter().skip_while(|word| **word != "--files").nth(1);
        if let Some(count) = listed {
            let count = count.parse()?;
            servers.iter().try_for_each(|server| server.fill(count))?;
        }
        let mut figures = [Vec::new(), Vec::new()];
        for _ in 0..args.rounds {
            for (at, server) in servers.iter().enumerate() {
                let folder = listed.copied().unwrap_or_default();
                let figure = measure(Command::new(binary), server, folder, args, &arguments);
                figures[at].push(figure.with_context(|| format!("{name} on {}", server.name))?);
            }
        }
        let [Some(a), Some(b)] = figures.map(|f| median(f, |f| f.rate)) else { continue };
        println!(
            "| {name} | {:.0} | {:.0} | {:.2} | {:.1} | {:.1} | {:.2} | {:.1} |",
            a.rate,
            b.rate,
            a.rate / b.rate,
            a.server_us,
            b.server_us,
            b.server_us / a.server_us,
            a.loader_us
        );
        chart.row(name, [a.server_us, b.server_us]);
    }
    args.draw("nfs-cpu.svg", &chart)
}

/// One load with one to sixteen connections.
fn sweep(
    client: impl Fn() -> Command,
    servers: &[MeasuredNfsServer; 2],
    args: &Args,
    (title, chart_file): (&str, &str),
    load: &[&str],
) -> Result<()> {
    if !args.wants(title) {
        return Ok(());
    }
    println!("\n{title}:\n");
    let peer = servers[1].name;
    println!("| connections | ours | times one | {peer} | times one |");
    println!("|---|---|---|---|---|");
    let mut chart = BarChart::new(title, ["Anabranch", peer]);
    let mut first = [0.0; 2];
    for connections in CONNECTIONS {
        let arguments = [load, &["--nconnect", connections]].concat();
        let mut rates = [0.0; 2];
        for (at, server) in servers.iter().enumerate() {
            let mut figures = Vec::new();
            for _ in 0..args.rounds {
                let figure = measure(client(), server, "", args, &arguments);
                figures.push(figure.with_context(|| format!("{connections} on {}", server.name))?);
            }
            rates[at] = median(figures, |f| f.rate).map_or(0.0, |figure| figure.rate);
            if connections == "1" {
                first[at] = rates[at];
            }
        }
        println!(
            "| {connections} | {:.0} | {:.2} | {:.0} | {:.2} |",
            rates[0],
            rates[0] / first[0],
            rates[1],
            rates[1] / first[1]
        );
        chart.row(connections, rates);
    }
    args.draw(chart_file, &chart)
}

/// Runs a load once, in a folder of the export.
fn measure(
    mut anabranch: Command,
    server: &MeasuredNfsServer,
    folder: &str,
    args: &Args,
    arguments: &[impl AsRef<OsStr>],
) -> Result<LoadFigure> {
    let output = anabranch
        .args(["bench", format!("{}/{folder}", server.url()).trim_end_matches('/')])
        .args(["--quiet", "--json", "-", "--warm-up", "1"])
        .args(["--duration", &args.seconds.to_string(), "--server-pid", &server.pid.to_string()])
        .args(["--file-size", "64M"])
        .args(arguments)
        .output()
        .context("anabranch bench")?;
    LoadFigure::of(&output)
}
