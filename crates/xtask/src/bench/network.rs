//! Network namespaces of the benchmarks: they carry no other traffic, and the machine's own TCP
//! settings do not affect the figures.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Linux's default congestion control. BBR, another choice of administrators, paces by timers. On the
/// loopback device that costs both servers more CPU time than all their other work.
const CONGESTION_CONTROL: &str = "cubic";
/// Fallback: every kernel has it and permits it in namespaces. Without loss it behaves like cubic.
const CONGESTION_CONTROL_LEFT: &str = "reno";
const CONGESTION_CONTROL_FILE: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// Minimum, initial and maximum receive buffer in bytes where the TCP window is the bottleneck; the
/// window is half of it.
const SMALL_WINDOW: &str = "4096 131072 2097152";
/// Environment variable that is set within the namespace.
const MARK: &str = "ANABRANCH_BENCH_INSIDE";

/// Runs this command again in a network namespace with only a loopback device; returns in the
/// process inside.
///
/// # Errors
/// The namespace cannot be created or set up, which requires root.
pub fn enter() -> Result<()> {
    if std::env::var_os(MARK).is_none() {
        let mut arguments = std::env::args_os();
        let program = arguments.next().context("a command without a name")?;
        let error = Command::new("unshare")
            .args(["--net", "--"])
            .arg(program)
            .args(arguments)
            .env(MARK, "yes")
            .exec();
        return Err(error).context("unshare, of util-linux");
    }
    ip("link set lo up").context("run this as root, or peers with --host-network")?;
    fs::write(CONGESTION_CONTROL_FILE, CONGESTION_CONTROL)
        .or_else(|_| fs::write(CONGESTION_CONTROL_FILE, CONGESTION_CONTROL_LEFT))
        .with_context(|| format!("{CONGESTION_CONTROL_FILE} cannot be set"))
}

/// Adds an address outside 127.0.0.0/8 to the loopback device: NFS-Ganesha does not start without
/// one.
///
/// # Errors
/// The process is not root's.
pub fn second_address() -> Result<()> {
    ip("addr replace 192.0.2.1/32 dev lo")
}

/// Congestion control of the machine's connections.
pub fn congestion_control() -> String {
    let text = fs::read_to_string(CONGESTION_CONTROL_FILE).unwrap_or_default();
    text.trim().to_owned()
}

/// The network between client and servers.
pub enum NetworkLink<'a> {
    /// A link of this bandwidth in each direction.
    Shaped {
        /// Bandwidth in Mbit/s.
        megabits: u32,
    },
    /// A link of this bandwidth in each direction for each connection.
    SlowConnections {
        /// Bandwidth in Mbit/s.
        megabits: u32,
    },
    /// A link of this latency, with small TCP windows.
    Long {
        /// The checkout, which contains the relay.
        root: &'a Path,
        /// Round trip in milliseconds.
        round_trip_ms: u32,
    },
}

/// A client's namespace and its links to this one, in which the servers run.
pub struct ClientNetwork {
    /// Processes that hold the namespace and the links.
    held: Vec<Child>,
    links: u8,
}

impl ClientNetwork {
    /// Creates the links, with addresses for two servers on each.
    ///
    /// # Errors
    /// A command is missing or refused.
    pub fn new(links: u8, link: &NetworkLink<'_>) -> Result<Self> {
        let holder = Command::new("unshare").args(["--net", "sleep", "3600"]).spawn()?;
        let mut ends = Self { held: vec![holder], links };
        ends.wait_for_namespace()?;
        for at in 0..links {
            match link {
                NetworkLink::Shaped { megabits } => {
                    let queue = format!("tbf rate {megabits}mbit burst 256k latency 20ms");
                    ends.shaped(at, |device, _| format!("tc qdisc add dev {device} root {queue}"))?;
                }
                NetworkLink::SlowConnections { megabits } => {
                    ends.shaped(at, |device, port| by_connection(device, port, *megabits))?;
                }
                NetworkLink::Long { root, round_trip_ms } => ends.long(at, root, *round_trip_ms)?,
            }
            ip(&format!("addr add 10.99.{at}.1/24 dev server{at}"))?;
            ip(&format!("addr add 10.99.{at}.2/24 dev server{at}"))?;
            ip(&format!("link set server{at} up"))?;
            ends.client(&format!("ip addr add 10.99.{at}.9/24 dev client{at}"))?;
            ends.client(&format!("ip link set client{at} up"))?;
        }
        let chosen = congestion_control();
        ends.client(&format!("echo {chosen} > {CONGESTION_CONTROL_FILE}"))?;
        Ok(ends)
    }

    /// The addresses of the first or the second server, one on each link.
    pub fn addresses(&self, server: u8) -> Vec<String> {
        (0..self.links).map(|at| format!("10.99.{at}.{}", server + 1)).collect()
    }

    /// The command prefix that runs a program in the client's namespace.
    pub fn before(&self) -> Vec<String> {
        let net = format!("--net=/proc/{}/ns/net", self.held[0].id());
        vec!["nsenter".to_owned(), net, "--".to_owned()]
    }

    /// A command that runs in the client's namespace.
    pub fn in_client(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = behind(&self.before());
        command.arg(program);
        command
    }

    fn client(&self, line: &str) -> Result<()> {
        let status = self.in_client("sh").args(["-c", line]).status().context("nsenter")?;
        if status.success() { Ok(()) } else { bail!("{line}: {status}") }
    }

    fn wait_for_namespace(&self) -> Result<()> {
        let own = fs::read_link("/proc/self/ns/net")?;
        for _ in 0..200 {
            if fs::read_link(format!("/proc/{}/ns/net", self.held[0].id()))? != own {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("unshare created no namespace")
    }

    /// `shape` returns the command for a device, and the name of the packet field with the client's
    /// port.
    fn shaped(&mut self, at: u8, shape: impl Fn(&str, &str) -> String) -> Result<()> {
        let client = self.held[0].id();
        ip(&format!("link add server{at} type veth peer name client{at} netns {client}"))?;
        sh(&shape(&format!("server{at}"), "dport"))?;
        self.client(&shape(&format!("client{at}"), "sport"))
    }

    fn long(&mut self, at: u8, root: &Path, round_trip_ms: u32) -> Result<()> {
        let relay = Command::new("python3")
            .arg(root.join("conformance/long-link"))
            .args([format!("server{at}"), format!("client{at}")])
            .arg((f64::from(round_trip_ms) / 2.0).to_string())
            .stdin(Stdio::null())
            .spawn()
            .context("python3")?;
        self.held.push(relay);
        let device = format!("/sys/class/net/client{at}");
        for _ in 0..200 {
            if Path::new(&device).exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        ip(&format!("link set client{at} netns {}", self.held[0].id()))?;
        let window = format!("echo {SMALL_WINDOW} > /proc/sys/net/ipv4/tcp_rmem");
        sh(&window)?;
        self.client(&window)
    }
}

/// A queue for each of up to 16 consecutive connections: Linux assigns them ports two apart,
/// occasionally more.
fn by_connection(device: &str, port: &str, megabits: u32) -> String {
    let mut line = format!("tc qdisc add dev {device} root handle 1: htb r2q 1000");
    for number in 0..64 {
        let (class, bits) = (number + 1, number << 1);
        line += &format!(
            " && tc class add dev {device} parent 1: classid 1:{class:x} htb rate {megabits}mbit \
             burst 256k && tc filter add dev {device} parent 1: protocol ip u32 match ip {port} \
             {bits:#06x} 0x007e flowid 1:{class:x}"
        );
    }
    line
}

/// A command that runs the command line of its further arguments.
pub fn behind(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

impl Drop for ClientNetwork {
    fn drop(&mut self) {
        for at in 0..self.links {
            let _ = ip(&format!("link del server{at}"));
        }
        for child in &mut self.held {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn ip(arguments: &str) -> Result<()> {
    sh(&format!("ip {arguments}"))
}

fn sh(line: &str) -> Result<()> {
    let status = Command::new("sh").args(["-c", line]).status().context("sh")?;
    if status.success() { Ok(()) } else { bail!("{line}: {status}") }
}
