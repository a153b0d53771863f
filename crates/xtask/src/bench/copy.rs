//! Copies of one large file and of many small ones: `anabranch copy` beside the programs
//! that people use, to our server and to Samba.

use super::network::{Ends, Line};
use super::samba::Samba;
use super::{Args, median};
use crate::server::{PASSWORD, PORT, Running, USER};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Files in one folder of the many.
const FOLDER_FILES: usize = 1000;
const SMALL_BYTES: usize = 4096;

/// How much is copied.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Amount {
    /// MiB of the large file of `copy`
    #[arg(long, default_value_t = 4096)]
    large_mib: usize,
    /// Small files of `copy`, of 4 KiB each
    #[arg(long, default_value_t = 20_000)]
    copied_files: usize,
}

/// A program that copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Anabranch { channels: u8 },
    Smbclient,
    SmbclientTar,
    Rclone,
}

impl Tool {
    fn name(self) -> String {
        match self {
            Self::Anabranch { channels } => format!("anabranch copy, {channels} channels"),
            Self::Smbclient => "smbclient".into(),
            Self::SmbclientTar => "smbclient, tar".into(),
            Self::Rclone => "rclone".into(),
        }
    }
}

/// What is copied, and which way.
#[derive(Clone, Copy, Debug)]
struct Way<'a> {
    /// On this machine.
    here: &'a Path,
    /// In the share.
    there: &'a str,
    is_up: bool,
    is_tree: bool,
}

/// Where the servers are, and a way to run a program where the client is.
struct Stage<'a> {
    binary: &'a Path,
    ends: Option<&'a Ends>,
    work: &'a Path,
    args: &'a Args,
}

/// Measures on the loopback device, and over a long line.
///
/// # Errors
/// A server or a program that does not run.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let binary = super::binary(root)?;
    let work = std::env::temp_dir().join(format!("anabranch-bench-copy-{}", std::process::id()));
    fs::create_dir_all(&work)?;
    let amount = args.amount;
    let measured = both(&binary, root, &work, args, amount);
    let _ = fs::remove_dir_all(&work);
    measured
}

fn both(binary: &Path, root: &Path, work: &Path, args: &Args, amount: Amount) -> Result<()> {
    if args.wants("loopback") {
        let ours = Running::anabranch(binary, 61)?;
        let samba = Samba::start(&[crate::server::address(super::peers::SAMBA_HOST)])?;
        let servers = [
            ("Anabranch", ours.address.as_str(), ours.share()),
            ("Samba", samba.addresses[0].as_str(), samba.share()),
        ];
        let stage = Stage { binary, ends: None, work, args };
        table(&stage, &servers, amount, "loopback")?;
    }
    if args.wants("23 ms") {
        let ends = Ends::new(1, &Line::Long { root, round_trip_ms: 23 })?;
        let ours = Running::anabranch_on(binary, 61, &ends.addresses(0))?;
        let samba = Samba::start(&ends.addresses(1))?;
        let servers = [
            ("Anabranch", ours.address.as_str(), ours.share()),
            ("Samba", samba.addresses[0].as_str(), samba.share()),
        ];
        let stage = Stage { binary, ends: Some(&ends), work, args };
        let less = Amount {
            large_mib: amount.large_mib.div_ceil(8),
            copied_files: amount.copied_files.div_ceil(20),
        };
        table(&stage, &servers, less, "23 ms there and back")?;
    }
    Ok(())
}

fn table(
    stage: &Stage<'_>,
    servers: &[(&str, &str, PathBuf); 2],
    amount: Amount,
    line: &str,
) -> Result<()> {
    let (large, small) = (stage.work.join("large"), stage.work.join("small"));
    make_large(&large, amount.large_mib)?;
    make_small(&small, amount.copied_files)?;
    println!("\nCopies, {line}, seconds (MiB/s or files/s):\n");
    println!("| what | program | Anabranch | Samba |");
    println!("|---|---|---|---|");
    for (is_tree, here) in [(false, &large), (true, &small)] {
        for is_up in [true, false] {
            let way = Way { here, there: if is_tree { "tree" } else { "file" }, is_up, is_tree };
            rows(stage, servers, &way, amount)?;
        }
    }
    fs::remove_file(large)?;
    Ok(fs::remove_dir_all(small)?)
}

fn rows(
    stage: &Stage<'_>,
    servers: &[(&str, &str, PathBuf); 2],
    way: &Way<'_>,
    amount: Amount,
) -> Result<()> {
    let direction = if way.is_up { "up" } else { "down" };
    let (what, count) = match way.is_tree {
        true => {
            (format!("{} files of 4 KiB {direction}", amount.copied_files), amount.copied_files)
        }
        false => (format!("{} MiB {direction}", amount.large_mib), amount.large_mib),
    };
    let mut tools = vec![Tool::Anabranch { channels: 4 }, Tool::Anabranch { channels: 1 }];
    tools.push(Tool::Smbclient);
    if way.is_tree {
        tools.push(Tool::SmbclientTar);
    }
    if has("rclone") {
        tools.push(Tool::Rclone);
    }
    for tool in tools.into_iter().filter(|tool| stage.args.wants_program(&tool.name())) {
        print!("| {what} | {} |", tool.name());
        for (_, address, share) in servers {
            let mut seconds = Vec::new();
            for _ in 0..stage.args.rounds {
                seconds.push(measure(stage, tool, address, share, way)?);
            }
            let middle = median(seconds, |one| *one).context("no rounds")?;
            print!(" {middle:.2} ({:.0}) |", count as f64 / middle);
            std::io::stdout().flush()?;
        }
        println!();
    }
    Ok(())
}

fn has(program: &str) -> bool {
    let found = Command::new("which").arg(program).stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

fn make_large(path: &Path, mebibytes: usize) -> Result<()> {
    let mut file = fs::File::create(path)?;
    let mut block: Vec<u8> = (0..1 << 20).map(|at: usize| (at * 31 >> 3) as u8).collect();
    for number in 0..mebibytes {
        block[..8].copy_from_slice(&(number as u64).to_le_bytes());
        file.write_all(&block)?;
    }
    Ok(())
}

fn make_small(root: &Path, count: usize) -> Result<()> {
    for number in 0..count {
        let folder = root.join((number / FOLDER_FILES).to_string());
        if number % FOLDER_FILES == 0 {
            fs::create_dir_all(&folder)?;
        }
        fs::write(folder.join(format!("file{number}")), vec![number as u8; SMALL_BYTES])?;
    }
    Ok(())
}

/// Copies once, from nothing; gives the seconds, after looking that all is there.
fn measure(
    stage: &Stage<'_>,
    tool: Tool,
    address: &str,
    share: &Path,
    way: &Way<'_>,
) -> Result<f64> {
    let (there, back) = (share.join(way.there), stage.work.join("back"));
    remove(&back)?;
    if way.is_up {
        remove(&there)?;
        if way.is_tree && tool == Tool::Smbclient || tool == Tool::SmbclientTar {
            fs::create_dir(&there)?;
            own(&there);
        }
    } else {
        // What is read is the same for all; made once.
        if !there.exists() {
            bail!("there is nothing to copy back");
        }
        fs::create_dir_all(&back)?;
    }
    let tar = stage.work.join("tree.tar");
    if tool == Tool::SmbclientTar && way.is_up {
        let archive = tar.to_string_lossy().into_owned();
        let made = Command::new("tar").args(["cf", &archive, "-C"]).arg(way.here).arg(".").status();
        anyhow::ensure!(made?.success(), "tar");
    }
    let _ = Command::new("sync").status();
    let mut command = command(stage, tool, address, way, &back, &tar)?;
    command.stdin(Stdio::null());
    let begun = Instant::now();
    let output = command.output().with_context(|| tool.name())?;
    let seconds = begun.elapsed().as_secs_f64();
    // `anabranch copy` ends with 1 when it has copied.
    let is_right = match tool {
        Tool::Anabranch { .. } => output.status.code() == Some(1),
        _ => output.status.success(),
    };
    if !is_right {
        let said = [output.stdout, output.stderr].concat();
        bail!("{}: {}", tool.name(), String::from_utf8_lossy(&said));
    }
    let copy = match (way.is_up, tool) {
        (true, _) => there,
        (false, Tool::SmbclientTar) => tar.clone(),
        (false, _) => back.clone(),
    };
    look(&copy, way)?;
    let _ = fs::remove_file(tar);
    remove(&back)?;
    Ok(seconds)
}

fn own(path: &Path) {
    let _ = Command::new("chown").arg(USER).arg(path).status();
}

fn remove(path: &Path) -> Result<()> {
    if path.is_dir() {
        fs::remove_dir_all(path)?;
    } else if path.exists() {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// As many files and bytes as there should be.
fn look(copy: &Path, way: &Way<'_>) -> Result<()> {
    let (expected, found) = (total(way.here)?, total(copy)?);
    let is_archive = copy.extension().is_some_and(|extension| extension == "tar");
    let is_right = if is_archive { found.1 >= expected.1 } else { found == expected };
    anyhow::ensure!(is_right, "{}: {found:?} instead of {expected:?}", copy.display());
    Ok(())
}

fn total(path: &Path) -> Result<(usize, u64)> {
    if !path.is_dir() {
        return Ok((1, fs::metadata(path)?.len()));
    }
    let mut sum = (0, 0);
    for entry in fs::read_dir(path)? {
        let (files, bytes) = total(&entry?.path())?;
        sum = (sum.0 + files, sum.1 + bytes);
    }
    Ok(sum)
}

fn command(
    stage: &Stage<'_>,
    tool: Tool,
    address: &str,
    way: &Way<'_>,
    back: &Path,
    tar: &Path,
) -> Result<Command> {
    let program: PathBuf = match tool {
        Tool::Anabranch { .. } => stage.binary.to_owned(),
        Tool::Smbclient | Tool::SmbclientTar => "smbclient".into(),
        Tool::Rclone => "rclone".into(),
    };
    let mut command = match stage.ends {
        Some(ends) => ends.in_client(program),
        None => Command::new(program),
    };
    let here = way.here.to_string_lossy();
    let there = way.there;
    match tool {
        Tool::Anabranch { channels } => {
            let url = format!("smb://{USER}@{address}:{PORT}/plain/{there}");
            let back = back.join(if way.is_tree { "" } else { "file" });
            let back = back.to_string_lossy().into_owned();
            let ends = if way.is_up { [here.into_owned(), url] } else { [url, back] };
            command.arg("copy").args(ends).args(["--quiet", "--any-interface"]);
            command.args(["--channels", &channels.to_string()]);
            command.arg("--state").arg(stage.work.join("state"));
            command.env("ANABRANCH_PASSWORD", PASSWORD);
        }
        Tool::Smbclient | Tool::SmbclientTar => {
            let script = script(tool, way, back, tar);
            command.arg(format!("//{address}/plain")).args(["-p", &PORT.to_string()]);
            command.args(["-U", &format!("{USER}%{PASSWORD}"), "-c", &script]);
        }
        Tool::Rclone => {
            let hidden = Command::new("rclone").args(["obscure", PASSWORD]).output()?.stdout;
            let hidden = String::from_utf8(hidden)?;
            let remote = format!(
                ":smb,host={address},port={PORT},user={USER},pass={}:plain/",
                hidden.trim()
            );
            let remote = remote + there;
            let back = back.join(if way.is_tree { "" } else { "file" });
            let back = back.to_string_lossy().into_owned();
            let ends = if way.is_up { [here.into_owned(), remote] } else { [remote, back] };
            command.arg(if way.is_tree { "copy" } else { "copyto" }).args(ends);
            // As many at once as our threads.
            command.args(["--transfers", "8", "--checkers", "8"]);
        }
    }
    Ok(command)
}

fn script(tool: Tool, way: &Way<'_>, back: &Path, tar: &Path) -> String {
    let (here, there, back) = (way.here.display(), way.there, back.display());
    let tar = tar.display();
    match (tool, way.is_tree, way.is_up) {
        (Tool::SmbclientTar, _, true) => format!("cd {there}; tar x {tar}"),
        (Tool::SmbclientTar, _, false) => format!("cd {there}; tar c {tar}"),
        (_, true, true) => format!("recurse on; prompt off; cd {there}; lcd {here}; mput *"),
        (_, true, false) => format!("recurse on; prompt off; cd {there}; lcd {back}; mget *"),
        (_, false, true) => format!("put {here} {there}"),
        (_, false, false) => format!("get {there} {back}/file"),
    }
}
