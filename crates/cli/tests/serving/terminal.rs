//! The start text of the built server: on a terminal, and nowhere else.

use crate::support::{Setup, anabranch, text, user, wait_for};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A server under `script`, which gives it a terminal.
struct OnTerminal {
    script: Child,
    shown: Arc<Mutex<String>>,
    pid_file: PathBuf,
}

impl OnTerminal {
    fn start(setup: &Setup, arguments: &str) -> Self {
        let binary = anabranch().get_program().to_string_lossy().into_owned();
        let pid_file = setup.folder.path().join("pid");
        let command =
            format!("echo $$ > '{}'; exec '{binary}' serve {arguments}", pid_file.display());
        let mut script = Command::new("script")
            .args(["--quiet", "--flush", "--return", "--command", &command, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .env("RUNTIME_DIRECTORY", concat!(env!("CARGO_TARGET_TMPDIR"), "/run"))
            .env_remove("SUDO_USER")
            .env_remove("ANABRANCH_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script of util-linux is installed");
        let mut from = script.stdout.take().expect("it is piped");
        let shown = Arc::new(Mutex::new(String::new()));
        let collected = shown.clone();
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut some) {
                let part = text(&some[..count]).replace('\r', "");
                collected.lock().unwrap().push_str(&part);
            }
        });
        Self { script, shown, pid_file }
    }

    fn shows(&self, part: &str) -> String {
        wait_for(part, || {
            let shown = self.shown.lock().unwrap().clone();
            shown.contains(part).then_some(shown)
        })
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(&self.pid_file).unwrap_or_default();
        let _ = Command::new("kill").args(["-s", "TERM", pid.trim()]).status();
        let _ = self.script.wait();
    }
}

fn folder_with_space(setup: &Setup) -> PathBuf {
    let folder = setup.folder.path().join("Bob's files");
    std::fs::create_dir(&folder).unwrap();
    folder
}

fn config(setup: &Setup, folder: &Path) -> String {
    let share = format!("[[share]]\nname = \"Bob's files\"\npath = \"{}\"\n", folder.display());
    let mut setup = setup.clone();
    setup.shares = share;
    let file = setup.folder.path().join("config.toml");
    std::fs::write(&file, setup.config()).unwrap();
    file.display().to_string()
}

#[test]
fn terminal_gets_lines_that_can_be_pasted() {
    let setup = Setup::new();
    let config = config(&setup, &folder_with_space(&setup));
    let server = OnTerminal::start(&setup, &format!("--config '{config}'"));
    let shown = server.shows("Status: anabranch status --admin ");
    let name = user();
    let users = setup.folder.path().join("users.toml");
    for part in [
        format!("anabranch user passwd {name} --users {}):", users.display()),
        format!("  user      {name}\n  password  "),
        format!("/user:{name} /TCPPORT:"),
        r"sudo mount -t cifs '//127.0.0.1/Bob'\''s files' /mnt -o username=".to_owned(),
        ",uid=$(id -u),gid=$(id -g),hard,port=".to_owned(),
        format!("open 'smb://{name}@127.0.0.1:"),
    ] {
        assert!(shown.contains(&part), "{part} is not in\n{shown}");
    }
}

/// A pipe may end in a journal or a file, which keep the password and are read by others.
#[test]
fn output_that_is_no_terminal_gets_no_start_text() {
    let setup = Setup::new();
    let config = config(&setup, &folder_with_space(&setup));
    let mut child = anabranch()
        .args(["serve", "--config", &config])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = String::new();
    let mut from = std::io::BufReader::new(child.stderr.take().unwrap());
    while !log.contains("listening") {
        let count = std::io::BufRead::read_line(&mut from, &mut log).unwrap();
        assert!(count > 0, "it ended: {log}");
    }
    assert!(log.contains("no user can log on; add one: anabranch user add NAME"), "{log}");
    assert!(!setup.folder.path().join("users.toml").exists(), "no password that nobody has seen");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "");
}
