//! Samba as a foreign server: Debian's, or a newer one of another root.

use super::{PASSWORD, PATIENCE};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A port that no other test uses.
const PORT: u16 = 24452;

/// The user that the tests log on as; Samba needs to be started by root anyway.
pub const USER: &str = "root";

/// A running smbd with the shares `data` and `sealed`, the latter encrypted.
pub struct SambaServer {
    child: Child,
    pub smb: SocketAddr,
    pub folder: PathBuf,
}

/// Installed version of Samba.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SambaRelease {
    /// The distribution's Samba.
    Installed,
    /// The Samba of `conformance/torture-root`, beside the newest smbtorture.
    Newest,
}

fn root_of(which: SambaRelease) -> Option<PathBuf> {
    let cache = std::env::var("ANABRANCH_CACHE").map_or_else(
        |_| PathBuf::from(std::env::var("HOME").unwrap_or_default()).join(".cache/anabranch"),
        PathBuf::from,
    );
    (which == SambaRelease::Newest).then(|| cache.join("forky"))
}

fn program(root: Option<&PathBuf>, path: &str) -> Command {
    let mut command = match root {
        Some(_) => Command::new("chroot"),
        None => Command::new(path),
    };
    if let Some(root) = root {
        command.arg(root).arg(path);
    }
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

impl SambaServer {
    /// Starts it on the loopback address with this last number; `options` are
    /// lines of `[global]`.
    pub fn start(which: SambaRelease, host: u8, options: &str) -> Self {
        let root = root_of(which);
        let net = std::env::var("ANABRANCH_TEST_NET").unwrap_or_else(|_| "0".into());
        let address = format!("127.0.{net}.{host}");
        let inner = PathBuf::from(format!("/tmp/anabranch-samba-{}-{host}", std::process::id()));
        let folder = match &root {
            Some(root) => root.join(inner.strip_prefix("/").expect("an absolute path")),
            None => inner.clone(),
        };
        let taken = || TcpStream::connect((address.as_str(), PORT)).is_ok();
        // Two servers on one address would share the connections.
        assert!(!taken(), "a server is left on {address}:{PORT}: end it");
        for part in ["data", "private", "lock", "state", "cache", "pid", "ncalrpc"] {
            std::fs::create_dir_all(folder.join(part)).expect("a folder");
        }
        let at = inner.display();
        let config = format!(
            "[global]\nnetbios name = PEER\nserver role = standalone server\nmap to guest = Never\n\
             disable netbios = yes\nsmb ports = {PORT}\nbind interfaces only = yes\n\
             interfaces = \"{address}/8;speed=10000000000,capability=RSS\"\n\
             server min protocol = SMB2_02\nload printers = no\nserver multi channel support = yes\n\
             private dir = {at}/private\nlock directory = {at}/lock\nstate directory = {at}/state\n\
             cache directory = {at}/cache\npid directory = {at}/pid\nncalrpc dir = {at}/ncalrpc\n\
             log file = {at}/log\n{options}\n[data]\npath = {at}/data\nread only = no\n\
             [sealed]\npath = {at}/data\nread only = no\nsmb encrypt = required\n"
        );
        std::fs::write(folder.join("smb.conf"), config).expect("a file");
        let config = inner.join("smb.conf");
        let mut passwd = program(root.as_ref(), "/usr/bin/smbpasswd")
            .arg("-c")
            .arg(&config)
            .args(["-s", "-a", USER])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("apt-get install samba");
        write!(passwd.stdin.take().expect("piped"), "{PASSWORD}\n{PASSWORD}\n").expect("it reads");
        assert!(passwd.wait().expect("our child").success(), "smbpasswd failed");
        let child = program(root.as_ref(), "/usr/sbin/smbd")
            .args(["-F", "--no-process-group", "-s"])
            .arg(&config)
            // smbd kills its whole process group when it ends, so it gets a group of its own.
            .process_group(0)
            // smbd ends at the end of its standard input, and `make --jobs` gives a closed pipe to
            // all lanes but one.
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("apt-get install samba");
        let smb: SocketAddr = format!("{address}:{PORT}").parse().expect("an address");
        let mut samba = Self { child, smb, folder };
        let start = Instant::now();
        while TcpStream::connect(smb).is_err() {
            let ended = samba.child.try_wait().expect("our child");
            assert!(
                ended.is_none() && start.elapsed() < PATIENCE,
                "smbd does not answer ({ended:?}): {}",
                std::fs::read_to_string(samba.folder.join("log")).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        samba
    }
}

impl Drop for SambaServer {
    fn drop(&mut self) {
        // SIGTERM ends its children, too.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
