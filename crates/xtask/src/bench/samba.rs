//! The peer: Debian's Samba with the same share and user.

use crate::server::{PASSWORD, PORT, USER};
use anyhow::{Context, Result};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Debian's Samba with the same share and user.
pub struct SambaPeer {
    child: Child,
    /// Addresses it serves on.
    pub addresses: Vec<String>,
    folder: PathBuf,
}

impl SambaPeer {
    /// Starts it on these addresses.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start(addresses: &[String]) -> Result<Self> {
        Self::start_with(addresses, &[])
    }

    /// As [`SambaPeer::start`], with these variables in its environment.
    ///
    /// # Errors
    /// As [`SambaPeer::start`].
    pub fn start_with(addresses: &[String], variables: &[(&str, &str)]) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("anabranch-samba-{}", std::process::id()));
        for part in ["plain", "private", "lock", "state", "cache", "pid", "ncalrpc"] {
            std::fs::create_dir_all(folder.join(part))?;
        }
        Command::new("chown").arg(USER).arg(folder.join("plain")).status()?;
        let at = folder.display();
        let interfaces = addresses
            .iter()
            .enumerate()
            .map(|(at, address)| {
                let index = at + 2;
                format!("\"{address}/24;speed=10000000000,capability=RSS,if_index={index}\"")
            })
            .collect::<Vec<_>>()
            .join(" ");
        let config = format!(
            "[global]\nnetbios name = PEER\nserver role = standalone server\nmap to guest = Never\n\
             disable netbios = yes\nsmb ports = {PORT}\nbind interfaces only = yes\ninterfaces = {interfaces}\n\
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
            .context("cannot run smbpasswd; run: apt-get install samba")?;
        if let Some(stdin) = passwd.stdin.as_mut() {
            use std::io::Write;
            write!(stdin, "{PASSWORD}\n{PASSWORD}\n")?;
        }
        passwd.wait()?;
        let child = Command::new("smbd")
            .args(["-F", "--no-process-group", "-s", &file.display().to_string()])
            .envs(variables.iter().copied())
            // Samba kills its whole process group at its end, so it must not be in ours.
            .process_group(0)
            // Samba exits at the end of a pipe on standard input.
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run smbd; run: apt-get install samba")?;
        std::thread::sleep(Duration::from_secs(2));
        Ok(Self { child, addresses: addresses.to_vec(), folder })
    }

    /// The folder of its share.
    pub fn share(&self) -> PathBuf {
        self.folder.join("plain")
    }

    /// Process id of the main process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for SambaPeer {
    fn drop(&mut self) {
        // On SIGTERM the main process ends its children, too.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
