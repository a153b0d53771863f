//! NFS-Ganesha as a foreign server, started by `conformance/ganesha`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A port that no other test uses.
const PORT: u16 = 24453;

/// A running server of `/export`.
pub struct Ganesha {
    child: Child,
    pub nfs: SocketAddr,
    pub folder: PathBuf,
    pub pid: u32,
}

impl Ganesha {
    /// Starts it on the loopback address with this last number.
    pub fn start(host: u8) -> Self {
        let net = std::env::var("ANABRANCH_TEST_NET").unwrap_or_else(|_| "0".into());
        let address = format!("127.0.{net}.{host}");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/ganesha");
        let mut child = Command::new(script)
            .args([&address, &PORT.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("conformance/ganesha");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let (pid, folder) = line.trim().split_once(' ').expect("it serves");
        let nfs = format!("{address}:{PORT}").parse().expect("an address");
        let (pid, folder) = (pid.parse().expect("a number"), folder.into());
        Self { child, nfs, folder, pid }
    }
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
