//! The built binary on loopback, and a client that sends exactly the bytes of a test.
#![allow(dead_code, reason = "each binary of tests uses a part of it")]

pub mod channel;
pub mod client;
pub mod copying;
pub mod ganesha;
pub mod library;
pub mod relay;
pub mod samba;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit of any step, on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const PASSWORD: &str = "a right password";

/// Turn of a measuring test: no other test of its binary runs meanwhile.
pub struct MeasuringTurn(
    #[allow(dead_code, reason = "held until it is dropped")] MutexGuard<'static, ()>,
);

impl MeasuringTurn {
    pub fn wait() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        // A failed test leaves no state, so the next may run.
        Self(TURN.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// User of all tests; for root it must be an existing system user.
pub fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("id runs");
    String::from_utf8(output.stdout).expect("a name").trim().to_owned()
}

/// The server that was built with the tests, or the instrumented one of `ANABRANCH_BINARY`.
pub fn anabranch() -> Command {
    let built = || env!("CARGO_BIN_EXE_anabranch").into();
    let mut command = Command::new(std::env::var_os("ANABRANCH_BINARY").unwrap_or_else(built));
    // Directory in which servers record the paths of their tokens, for commands to find them.
    command.env("RUNTIME_DIRECTORY", concat!(env!("CARGO_TARGET_TMPDIR"), "/run"));
    // A server on this machine may use the default state directories.
    command.env("STATE_DIRECTORY", concat!(env!("CARGO_TARGET_TMPDIR"), "/state"));
    command.env("XDG_STATE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/state-home"));
    command.env_remove("ANABRANCH_LOG").stdin(Stdio::null());
    command
}

/// The same, started by another program: `program` and `arguments`, then the binary.
pub fn anabranch_by(program: &str, arguments: &[&str]) -> Command {
    let binary = anabranch();
    let mut command = Command::new(program);
    command.args(arguments).arg(binary.get_program()).stdin(Stdio::null());
    for (name, value) in binary.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Runs a subcommand to its end.
pub fn run(args: &[&str]) -> Output {
    anabranch().args(args).output().expect("the binary runs")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Calls `probe` until it returns a value.
pub fn wait_for<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A running server with its own folder: `config.toml`, `users.toml`, `data`.
pub struct ServerProcess {
    pub folder: Arc<TempDir>,
    pub smb: SocketAddr,
    pub admin: SocketAddr,
    pub printed: String,
    setup: Setup,
    child: Child,
    log: Arc<Mutex<String>>,
}

/// Configuration and arguments of a server.
#[derive(Clone)]
pub struct Setup {
    pub folder: Arc<TempDir>,
    /// Lines of `[server]`.
    pub server: String,
    /// Lines after it.
    pub shares: String,
    pub arguments: Vec<String>,
    /// A launcher with its arguments.
    pub launcher: Vec<String>,
    /// See the method of the same name.
    pub in_small_pages: bool,
    /// File for the log, which is collected in memory otherwise.
    pub log_to: Option<PathBuf>,
}

impl Setup {
    /// A configuration with one user and one share, `data`.
    pub fn new() -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let data = folder.path().join("data");
        std::fs::create_dir(&data).expect("a folder");
        let shares = format!("[[share]]\nname = \"data\"\npath = \"{}\"\n", data.display());
        let arguments = vec!["--user".into(), format!("{}:{PASSWORD}", user())];
        let server = "signing = \"offered\"\n".into();
        Self {
            folder,
            server,
            shares,
            arguments,
            launcher: Vec::new(),
            in_small_pages: false,
            log_to: None,
        }
    }

    pub fn server(mut self, line: &str) -> Self {
        self.server += line;
        self.server += "\n";
        self
    }

    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Makes [`ServerProcess::memory_bytes`] exact to some KiB: otherwise transparent huge pages
    /// give the allocator 2 MiB at a time.
    pub fn in_small_pages(mut self) -> Self {
        self.in_small_pages = true;
        self
    }

    /// Serves NFS, too, at an address of this test run's own, 127.0.NET.`last`.
    pub fn serve_nfs(&mut self, last: u8, port: u16) -> SocketAddr {
        let net = std::env::var("ANABRANCH_TEST_NET").unwrap_or_else(|_| "0".into());
        let address: SocketAddr = format!("127.0.{net}.{last}:{port}").parse().expect("one");
        self.arguments.extend(["--nfs".into(), address.to_string()]);
        let state = self.folder.path().join("state");
        self.server += &format!("state = \"{}\"\n", state.display());
        self.let_unreserved_ports();
        address
    }

    /// Allows NFS from unreserved ports: tests that do not run as root cannot bind reserved ones.
    pub fn let_unreserved_ports(&mut self) {
        self.server += "reserved_ports = false\n";
    }

    /// Exports a folder as `exported`; see [`Setup::serve_nfs`].
    pub fn export(&mut self, last: u8, port: u16) -> (SocketAddr, PathBuf) {
        let folder = self.folder.path().join("exported");
        std::fs::create_dir(&folder).expect("a folder");
        let share = format!("exported={},nfs_squash=none", folder.display());
        self.arguments.extend(["--share".into(), share]);
        (self.serve_nfs(last, port), folder)
    }

    pub fn config(&self) -> String {
        let users = self.folder.path().join("users.toml");
        format!(
            "[server]\nname = \"TEST\"\nsmb = [\"127.0.0.1:0\"]\nadmin = \"127.0.0.1:0\"\nusers = \"{}\"\n{}{}",
            users.display(),
            self.server,
            self.shares
        )
    }

    pub fn start(self) -> ServerProcess {
        let config = self.folder.path().join("config.toml");
        std::fs::write(&config, self.config()).expect("a file");
        let mut command = anabranch();
        if self.in_small_pages {
            command.env("MIMALLOC_ALLOW_THP", "0");
        }
        if let [program, arguments @ ..] = &self.launcher[..] {
            let binary = std::mem::replace(&mut command, Command::new(program));
            command.args(arguments).arg(binary.get_program());
            command.envs(binary.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command.env_remove("ANABRANCH_LOG").stdin(Stdio::null());
        }
        command.arg("serve").arg("--config").arg(&config).args(&self.arguments);
        command.args(["--start-text", "always"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(path) = &self.log_to {
            let file = File::options().append(true).create(true).open(path).expect("a file");
            command.stderr(file);
        }
        let mut child = command.spawn().expect("the binary runs");
        let log = child.stderr.take().map_or_else(Arc::default, collect);
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let (mut printed, mut smb) = (String::new(), None);
        let admin = loop {
            let Some(Ok(line)) = lines.next() else {
                let _ = child.wait();
                panic!("it did not start:\n{printed}{}", log.lock().unwrap());
            };
            printed += &line;
            printed += "\n";
            if let Some((_, rest)) = line.split_once(" is shared as ") {
                let address = rest.rsplit_once('(').and_then(|(_, a)| a.strip_suffix("):"));
                smb = smb.or(address.and_then(|a| a.split(", ").next()?.parse().ok()));
            }
            if let Some((_, address)) = line.split_once("status --admin ") {
                // Tests that use a Unix socket know its path.
                break address.parse().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
            }
        };
        let smb = smb.expect("a share");
        ServerProcess { folder: self.folder.clone(), smb, admin, printed, setup: self, child, log }
    }
}

/// Reads the server's output, so that its writes never block.
fn collect(from: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let log = Arc::new(Mutex::new(String::new()));
    let kept = log.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let mut log = kept.lock().unwrap();
            *log += &line;
            *log += "\n";
        }
    });
    log
}

impl ServerProcess {
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a line that contains `part`, and returns it.
    pub fn logged(&self, part: &str) -> String {
        wait_for(part, || self.log().lines().find(|l| l.contains(part)).map(str::to_owned))
    }

    /// The text of its configuration file.
    pub fn config(&self) -> String {
        self.setup.config()
    }

    pub fn write_config(&self, text: &str) {
        std::fs::write(self.path("config.toml"), text).expect("a file");
    }

    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let pid = self.process_id().to_string();
        assert!(
            Command::new("kill").args(["-s", name, &pid]).status().expect("kill runs").success()
        );
    }

    /// Kills the server, and returns its setup to start it again.
    pub fn kill(&mut self) -> Setup {
        self.child.kill().expect("our child");
        self.child.wait().expect("our child");
        self.setup.clone()
    }

    /// Waits for the end of the process.
    pub fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        wait_for("the end of the server", || child.try_wait().expect("our child"))
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_none()
    }

    /// Memory that the process holds, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(Path::new(&path)).expect("it runs");
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("Linux tells it");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
    }

    /// The admin API's token in the file `name`.
    pub fn token(&self, name: &str) -> String {
        let places = [self.path("state").join(name), self.path(name)];
        let token = places.iter().find_map(|path| std::fs::read_to_string(path).ok());
        token.expect("a token").trim().to_owned()
    }

    /// One page of the admin API, without its head.
    pub fn page(&self, path: &str) -> String {
        let answer = self.ask("GET", path, "");
        let (head, body) = answer.split_once("\r\n\r\n").expect("HTTP");
        assert!(head.contains(" 200 "), "{head}\n{body}");
        body.to_owned()
    }

    /// The admin API's response to a request with its token.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let token = self.token("admin-token");
        let head = format!("{method} {path} HTTP/1.0\r\nHost: {}\r\n", self.admin);
        let kind = format!("Content-Type: application/json\r\nContent-Length: {}", body.len());
        self.request(&format!("{head}Authorization: Bearer {token}\r\n{kind}\r\n\r\n{body}"))
    }

    /// The admin API's response to these bytes.
    pub fn request(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).expect("the admin API");
        std::io::Write::write_all(&mut stream, request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    pub fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.page("/v1/status")).expect("JSON")
    }

    /// One metric, with its labels.
    pub fn metric(&self, name: &str) -> u64 {
        let page = self.page("/metrics");
        let line = page.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0, |value| value.parse().expect("a number"))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server wrote:\n{}", self.log());
        }
    }
}
