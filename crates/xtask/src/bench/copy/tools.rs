//! The copy programs and their command lines.

use super::{CopyDirection, MeasuringClient};
use crate::server::{PASSWORD, PORT, USER};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Anabranch {
        /// `--channels`; `None` for the default.
        channels: Option<u8>,
    },
    Smbclient,
    /// Unpacks through a pipe, so that the result is the same as with the other programs.
    SmbclientTar,
    Rclone,
}

impl Tool {
    /// The installed programs that suit a tree, or one file.
    pub fn all(is_tree: bool) -> Vec<Self> {
        let ours = [None, Some(4), Some(1)].map(|channels| Self::Anabranch { channels });
        let mut tools = ours.to_vec();
        tools.push(Self::Smbclient);
        if is_tree {
            tools.push(Self::SmbclientTar);
        }
        if has("rclone") {
            tools.push(Self::Rclone);
        }
        tools
    }

    pub fn is_foreign(self) -> bool {
        !matches!(self, Self::Anabranch { .. })
    }

    /// Whether the program does not create the target folder of a tree.
    pub fn needs_folder(self) -> bool {
        matches!(self, Self::Smbclient | Self::SmbclientTar)
    }

    pub fn name(self) -> String {
        match self {
            Self::Anabranch { channels: None } => "anabranch copy".into(),
            Self::Anabranch { channels: Some(1) } => "anabranch copy, 1 channel".into(),
            Self::Anabranch { channels: Some(count) } => {
                format!("anabranch copy, {count} channels")
            }
            Self::Smbclient => "smbclient".into(),
            Self::SmbclientTar => "smbclient and tar".into(),
            Self::Rclone => "rclone".into(),
        }
    }
}

/// The programs without rows, with the reasons.
pub fn missing() -> Vec<String> {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let loads = Command::new("modprobe").args(["--dry-run", "--quiet", "cifs"]).status();
    let mounts = known.contains("cifs") || loads.is_ok_and(|status| status.success());
    let cp = match mounts {
        true => "`cp` to a mount of the kernel: this bench makes none",
        false => "`cp` to a mount: this kernel has no SMB (no module cifs)",
    };
    let rclone = (!has("rclone")).then(|| "rclone: it is not installed".to_owned());
    [cp.to_owned()].into_iter().chain(rclone).collect()
}

fn has(program: &str) -> bool {
    let found = Command::new("which").arg(program).stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// The command that copies once.
///
/// # Errors
/// rclone cannot hide the password.
pub fn command(
    stage: &MeasuringClient<'_>,
    tool: Tool,
    address: &str,
    way: &CopyDirection<'_>,
    back: &Path,
) -> Result<Command> {
    let program: PathBuf = match tool {
        Tool::Anabranch { .. } => stage.binary.to_owned(),
        Tool::Smbclient => "smbclient".into(),
        Tool::SmbclientTar => "sh".into(),
        Tool::Rclone => "rclone".into(),
    };
    let mut command = match stage.ends {
        Some(ends) => ends.in_client(program),
        None => Command::new(program),
    };
    let here = way.here.to_string_lossy().into_owned();
    let there = way.there;
    let user = format!("{USER}%{PASSWORD}");
    let copy = back.join(if way.is_tree { "" } else { "file" }).to_string_lossy().into_owned();
    match tool {
        Tool::Anabranch { channels } => {
            let url = format!("smb://{USER}@{address}:{PORT}/plain/{there}");
            let ends = if way.is_up { [here, url] } else { [url, copy] };
            command.arg("copy").args(ends).arg("--quiet");
            if let Some(channels) = channels {
                command.args(["--any-interface", "--channels", &channels.to_string()]);
            }
            command.arg("--state").arg(stage.work.join("state"));
            command.env("ANABRANCH_PASSWORD", PASSWORD);
        }
        Tool::Smbclient => {
            command.arg(format!("//{address}/plain")).args(["-p", &PORT.to_string()]);
            command.args(["-U", &user, "-c", &script(way, back)]);
        }
        Tool::SmbclientTar => {
            let share = format!("smbclient //{address}/plain -p {PORT} -U {user} -D {there}");
            let line = match way.is_up {
                true => format!("tar cf - -C {here} . | {share} -Tx -"),
                false => format!("{share} -Tc - | tar xf - -C {copy}"),
            };
            command.args(["-c", &line]);
        }
        Tool::Rclone => {
            let hidden = Command::new("rclone").args(["obscure", PASSWORD]).output()?.stdout;
            let hidden = String::from_utf8(hidden)?;
            let pass = hidden.trim();
            let remote =
                format!(":smb,host={address},port={PORT},user={USER},pass={pass}:plain/{there}");
            let ends = if way.is_up { [here, remote] } else { [remote, copy] };
            command.arg(if way.is_tree { "copy" } else { "copyto" }).args(ends);
            // As many transfers at once as `anabranch copy` has threads.
            command.args(["--transfers", "8", "--checkers", "8"]);
        }
    }
    Ok(command)
}

fn script(way: &CopyDirection<'_>, back: &Path) -> String {
    let (here, there, back) = (way.here.display(), way.there, back.display());
    match (way.is_tree, way.is_up) {
        (true, true) => format!("recurse on; prompt off; cd {there}; lcd {here}; mput *"),
        (true, false) => format!("recurse on; prompt off; cd {there}; lcd {back}; mget *"),
        (false, true) => format!("put {here} {there}"),
        (false, false) => format!("get {there} {back}/file"),
    }
}
