//! Servers to test and to measure, each on an address of its own.

use anyhow::{Context, Result, bail};
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The users that the test suites log on as.
pub const USER: &str = "alice";
/// The second one.
pub const USER2: &str = "bob";
/// Their password.
pub const PASSWORD: &str = "secret.0";
/// The share's previous version, which contains a file with a stream.
pub const SNAPSHOT: &str = "@GMT-2001.09.09-01.46.40";
/// See [`SNAPSHOT`].
pub const SNAPSHOT_FILE: &str = "old";
/// See [`SNAPSHOT`]; it has [`SNAPSHOT_STREAM_BYTES`].
pub const SNAPSHOT_STREAM: &str = "kept";
/// See [`SNAPSHOT_STREAM`].
pub const SNAPSHOT_STREAM_BYTES: usize = 6;
/// A port that no other program uses.
pub const PORT: u16 = 24450;

/// A loopback address. `ANABRANCH_TEST_NET`, 0 to 255, separates concurrent runs on one machine.
pub fn address(host: u8) -> String {
    let net = std::env::var("ANABRANCH_TEST_NET").unwrap_or_else(|_| "0".to_owned());
    format!("127.0.{net}.{host}")
}

/// A running server with an empty share named `plain`.
pub struct RunningServer {
    child: Child,
    /// Address it serves on.
    pub address: String,
    folder: PathBuf,
}

impl RunningServer {
    /// Starts our server on the loopback address with this last number.
    pub fn anabranch(binary: &Path, host: u8) -> Result<Self> {
        Self::anabranch_on(binary, host, &[address(host)])
    }

    /// As [`RunningServer::anabranch`], with further options of the share, as in `,posix=no`.
    pub fn anabranch_with(binary: &Path, host: u8, options: &str) -> Result<Self> {
        Self::serve(binary, host, &[address(host)], options)
    }

    /// As [`RunningServer::anabranch`], on other addresses; the first is [`RunningServer::address`].
    pub fn anabranch_on(binary: &Path, host: u8, addresses: &[String]) -> Result<Self> {
        Self::serve(binary, host, addresses, "")
    }

    fn serve(binary: &Path, host: u8, addresses: &[String], options: &str) -> Result<Self> {
        let address = addresses.first().context("no listening address")?.clone();
        let folder = new_folder(host)?;
        let (plain, noperm) = (folder.join("plain"), folder.join("noperm"));
        let kept = folder.join("snapshots");
        let log = fs::File::create(folder.join("log"))?;
        let config = folder.join("config.toml");
        // The suite also logs on anonymously, which requires `guest`, and opens as many channels as
        // Windows permits.
        let state = folder.join("state");
        let text = format!(
            "[server]\nguest = \"nobody\"\nstate = {state:?}\n[multichannel]\nchannels_max = 32\n"
        );
        fs::write(&config, text)?;
        let child = Command::new(binary)
            .args(["serve", "--admin", "off", "--signing", "offered"])
            .args(["--config", &config.display().to_string()])
            .args(addresses.iter().flat_map(|a| ["--smb".to_owned(), format!("{a}:{PORT}")]))
            // A test checks that a file of this name is hidden.
            .args([
                "--share",
                &format!(
                    "plain={},hidden_names=.*+hidefile,continuously_available=yes,snapshots={}{options}",
                    plain.display(),
                    kept.display()
                ),
            ])
            .args(["--share", &format!("noperm={}", noperm.display())])
            // The same folder, without entries that the user cannot read.
            .args(["--share", &format!("hideunread={},hide_unreadable=true", plain.display())])
            .args(["--share", &format!("nostreams={},named_streams=no", plain.display())])
            .args([
                "--user",
                &format!("{USER}:{PASSWORD}"),
                "--user",
                &format!("{USER2}:{PASSWORD}"),
            ])
            .stdout(log.try_clone()?)
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let mut running = Self { child, address, folder };
        running.wait()?;
        Ok(running)
    }

    fn wait(&mut self) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) {
            if TcpStream::connect((self.address.as_str(), PORT)).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended: {status}; see {}", self.folder.join("log").display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the server does not answer on {}", self.address)
    }

    /// The folder of the share.
    pub fn share(&self) -> PathBuf {
        self.folder.join("plain")
    }

    /// Number of the server's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Creates the files of the tests of previous versions, in the share and in its snapshot.
    pub fn keep_snapshot(&self) -> Result<()> {
        let kept = self.folder.join("snapshots").join(SNAPSHOT);
        for root in [self.folder.join("plain"), kept.clone()] {
            fs::create_dir_all(root.join("subdir"))?;
            fs::write(root.join("subdir/hardlink"), "")?;
        }
        let file = kept.join(SNAPSHOT_FILE);
        fs::write(&file, "as it was")?;
        let stream = "import os, sys; os.setxattr(sys.argv[1], sys.argv[2], b'stream\\0')";
        let name = format!("user.DosStream.{SNAPSHOT_STREAM}:$DATA");
        let _ = Command::new("python3").args(["-c", stream]).arg(&file).arg(name).status();
        for root in [self.folder.join("plain"), kept] {
            let _ = Command::new("chown").args(["-R", USER]).arg(root).status();
        }
        Ok(())
    }

    /// Empties the share.
    pub fn clean(&self) -> Result<()> {
        for entry in fs::read_dir(self.folder.join("plain"))? {
            let path = entry?.path();
            let removed = if path.is_dir() && !path.is_symlink() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            removed.with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(())
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A temporary folder with a share that belongs to the first user.
fn new_folder(host: u8) -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("anabranch-test-{}-{host}", std::process::id()));
    let (plain, noperm) = (folder.join("plain"), folder.join("noperm"));
    fs::create_dir_all(&plain)?;
    fs::create_dir_all(&noperm)?;
    fs::create_dir_all(folder.join("snapshots").join(SNAPSHOT))?;
    // Without root there is only one user, who owns all files.
    let _ = Command::new("chown").arg(USER).arg(&plain).stderr(Stdio::null()).status();
    let _ = Command::new("chmod").arg("0000").arg(&noperm).status();
    Ok(folder)
}

/// The binary that `cargo build` made, in the profile of this program.
pub fn binary() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let binary = own.parent().context("no folder")?.join("anabranch");
    if !binary.exists() {
        bail!("{} is missing; run: cargo build -p cli", binary.display());
    }
    Ok(binary)
}
