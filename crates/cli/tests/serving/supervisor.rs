//! The server under systemd: its notifications, and passed sockets.

use crate::support::{PATIENCE, Setup, anabranch_by, text};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;

/// Socket of a service manager that receives the server's notifications.
struct Manager(UnixDatagram);

impl Manager {
    fn new(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    fn next(&self) -> String {
        let mut bytes = [0; 4096];
        let count = self.0.recv(&mut bytes).expect("the server says something");
        text(&bytes[..count])
    }

    /// Waits for a message with this line.
    fn hears(&self, line: &str) -> String {
        loop {
            let message = self.next();
            if message.lines().any(|one| one == line) {
                return message;
            }
        }
    }
}

#[test]
fn service_manager_is_notified_of_start_reload_and_stop() {
    let mut setup = Setup::new();
    let path = setup.folder.path().join("notify");
    let manager = Manager::new(&path);
    let variable = format!("NOTIFY_SOCKET={}", path.display());
    setup.launcher = ["env", &variable, "WATCHDOG_USEC=1000000"].map(str::to_owned).to_vec();
    let mut running = setup.start();

    let first = manager.next();
    assert_eq!(first, "READY=1\nSTATUS=Serving 1 share over SMB; connections: 0");
    let _client = TcpStream::connect(running.smb).unwrap();
    loop {
        if manager.hears("WATCHDOG=1").contains("connections: 1") {
            break;
        }
    }
    running.signal("HUP");
    // Before it there may be signs of life, or of a loaded machine: STATUS=No progress.
    let time = loop {
        let message = manager.next();
        if let Some(time) = message.strip_prefix("RELOADING=1\nMONOTONIC_USEC=") {
            break time.to_owned();
        }
    };
    assert!(time.parse::<u64>().is_ok(), "{time}");
    manager.hears("READY=1");
    running.signal("TERM");
    manager.hears("STOPPING=1");
    assert!(running.ended().success());
}

/// The shell moves the descriptors to the numbers of the protocol, and replaces itself by the
/// server.
#[test]
fn activation_sockets_are_served_by_their_names() {
    let setup = Setup::new();
    let config = setup.folder.path().join("config.toml");
    // An unusable address: the server must not try it.
    let text = setup.config().replace("127.0.0.1:0", "192.0.2.1:445");
    std::fs::write(&config, text).unwrap();
    let (smb, admin) = (TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
    let (smb, admin) = (smb.unwrap(), admin.unwrap());
    let (smb_address, admin_address) = (smb.local_addr().unwrap(), admin.local_addr().unwrap());
    let script = "exec 3<&0 4<&1 </dev/null >&2; LISTEN_PID=$$ LISTEN_FDS=2 \
                  LISTEN_FDNAMES=smb:admin exec \"$0\" \"$@\"";
    let mut child = anabranch_by("sh", &["-c", script])
        .args(["serve", "--start-text", "always", "--config"])
        .arg(&config)
        .args(&setup.arguments)
        .stdin(OwnedFd::from(smb))
        .stdout(OwnedFd::from(admin))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said: Vec<String> = lines.take_while(|line| !line.contains("--admin")).collect();
    let wanted = format!("({smb_address}):");
    assert!(said.iter().any(|line| line.ends_with(&wanted)), "{said:#?}");
    let address = admin_address.to_string();
    let status = crate::support::run(&["status", "--admin", &address]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(status.status.success(), "{status:?}");
}

#[test]
fn activation_socket_with_unknown_name_is_refused() {
    let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 \
                  LISTEN_FDNAMES=web.socket exec \"$0\" \"$@\"";
    let setup = Setup::new();
    let output = anabranch_by("sh", &["-c", script])
        .arg("serve")
        .arg(setup.folder.path().join("data"))
        .args(&setup.arguments)
        .stdin(OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap()))
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("\"web.socket\"; its unit needs FileDescriptorName=smb"), "{said}");
}
