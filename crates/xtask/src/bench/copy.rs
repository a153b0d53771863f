//! Measures copies of one large file and of many small ones: `anabranch copy` and other programs, to
//! our server and to Samba.

mod tools;

use super::agreement::children_seconds;
use super::network::{ClientNetwork, NetworkLink};
use super::peers::{TICKS_PER_SECOND, ticks};
use super::samba::SambaPeer;
use super::{Args, median};
use crate::server::{RunningServer, USER};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tools::Tool;

/// Files in each folder of small files.
const FOLDER_FILES: usize = 1000;
const SMALL_BYTES: usize = 4096;

/// Amount of data to copy.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Amount {
    /// MiB of the large file of `copy`
    #[arg(long, default_value_t = 4096)]
    large_mib: usize,
    /// Small files of `copy`, of 4 KiB each
    #[arg(long, default_value_t = 20_000)]
    copied_files: usize,
    /// `copy` without the link of high latency
    #[arg(long)]
    only_loopback: bool,
    /// `copy` over the link of high latency only
    #[arg(long, conflicts_with = "only_loopback")]
    only_long: bool,
}

/// The data to copy, and the direction.
#[derive(Clone, Copy, Debug)]
struct CopyDirection<'a> {
    /// Path on this machine.
    here: &'a Path,
    /// Path in the share.
    there: &'a str,
    is_up: bool,
    is_tree: bool,
}

/// A server of the comparison.
struct ComparedServer<'a> {
    name: &'static str,
    address: &'a str,
    share: PathBuf,
    pid: u32,
}

/// The client's side of a measurement: runs programs in its network.
struct MeasuringClient<'a> {
    binary: &'a Path,
    ends: Option<&'a ClientNetwork>,
    work: &'a Path,
    args: &'a Args,
}

/// Cost of one copy.
#[derive(Clone, Copy, Debug)]
struct CopyCost {
    seconds: f64,
    /// CPU seconds of the program, and of the server.
    client_seconds: f64,
    server_seconds: f64,
}

/// Measures on the loopback device, and over a link of high latency.
///
/// # Errors
/// A server or a program does not run.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let binary = super::binary(root)?;
    let work = std::env::temp_dir().join(format!("anabranch-bench-copy-{}", std::process::id()));
    fs::create_dir_all(&work)?;
    let measured = both(&binary, root, &work, args, args.amount);
    let _ = fs::remove_dir_all(&work);
    measured?;
    println!("\nNot measured:");
    tools::missing().iter().for_each(|what| println!("- {what}"));
    Ok(())
}

fn both(binary: &Path, root: &Path, work: &Path, args: &Args, amount: Amount) -> Result<()> {
    if !args.amount.only_long {
        let ours = RunningServer::anabranch(binary, 61)?;
        let samba = SambaPeer::start(&[crate::server::address(super::peers::SAMBA_HOST)])?;
        let stage = MeasuringClient { binary, ends: None, work, args };
        table(&stage, &servers(&ours, &samba), amount, "loopback")?;
    }
    if !args.amount.only_loopback {
        let ends = ClientNetwork::new(1, &NetworkLink::Long { root, round_trip_ms: 23 })?;
        let ours = RunningServer::anabranch_on(binary, 61, &ends.addresses(0))?;
        let samba = SambaPeer::start(&ends.addresses(1))?;
        let stage = MeasuringClient { binary, ends: Some(&ends), work, args };
        let less = Amount {
            large_mib: amount.large_mib.div_ceil(8),
            copied_files: amount.copied_files.div_ceil(20),
            ..amount
        };
        table(&stage, &servers(&ours, &samba), less, "23 ms there and back")?;
    }
    Ok(())
}

fn servers<'a>(ours: &'a RunningServer, samba: &'a SambaPeer) -> [ComparedServer<'a>; 2] {
    let address = &ours.address;
    [
        ComparedServer { name: "Anabranch", address, share: ours.share(), pid: ours.pid() },
        ComparedServer {
            name: "Samba",
            address: &samba.addresses[0],
            share: samba.share(),
            pid: samba.pid(),
        },
    ]
}

fn table(
    stage: &MeasuringClient<'_>,
    servers: &[ComparedServer<'_>],
    amount: Amount,
    line: &str,
) -> Result<()> {
    let (large, small) = (stage.work.join("large"), stage.work.join("small"));
    make_large(&large, amount.large_mib)?;
    make_small(&small, amount.copied_files)?;
    println!(
        "\nCopies, {line}: seconds (MiB/s or files/s), µs of CPU time of the program + the \
         server for each:\n"
    );
    println!("| what | program | {} | {} |", servers[0].name, servers[1].name);
    println!("|---|---|---|---|");
    for (is_tree, here) in [(false, &large), (true, &small)] {
        for is_up in [true, false] {
            let way = CopyDirection {
                here,
                there: if is_tree { "tree" } else { "file" },
                is_up,
                is_tree,
            };
            rows(stage, servers, &way, amount)?;
        }
    }
    fs::remove_file(large)?;
    Ok(fs::remove_dir_all(small)?)
}

/// Measures all programs in turns, and prints the medians.
fn rows(
    stage: &MeasuringClient<'_>,
    servers: &[ComparedServer<'_>],
    way: &CopyDirection<'_>,
    amount: Amount,
) -> Result<()> {
    let direction = if way.is_up { "up" } else { "down" };
    let (what, count) = match way.is_tree {
        true => {
            (format!("{} files of 4 KiB {direction}", amount.copied_files), amount.copied_files)
        }
        false => (format!("{} MiB {direction}", amount.large_mib), amount.large_mib),
    };
    if !stage.args.wants(&what) {
        return Ok(());
    }
    let tools: Vec<Tool> = Tool::all(way.is_tree)
        .into_iter()
        .filter(|tool| stage.args.wants_program(&tool.name()))
        .collect();
    let mut figures = vec![vec![Vec::new(); servers.len()]; tools.len()];
    // Every program reads the same source, so it is created once.
    if !way.is_up {
        for server in servers {
            measure(
                stage,
                Tool::Anabranch { channels: Some(1) },
                server,
                &CopyDirection { is_up: true, ..*way },
            )?;
        }
    }
    for round in 0..stage.args.rounds {
        // The order rotates, since a run's leftovers (caches, dirty pages) affect the next one.
        let turned = |count: usize| (0..count).map(move |at| (at + round as usize) % count);
        for tool in turned(tools.len()) {
            for server in turned(servers.len()) {
                let found = measure(stage, tools[tool], &servers[server], way)?;
                figures[tool][server].push(found);
            }
        }
    }
    let mut best = vec![[f64::INFINITY; 2]; servers.len()];
    for (tool, row) in tools.iter().zip(figures) {
        print!("| {what} | {} |", tool.name());
        for (found, best) in row.into_iter().zip(&mut best) {
            let middle = middle(found).context("no rounds")?;
            print!(" {} |", cell_text(&middle, count as f64));
            let best = &mut best[usize::from(tool.is_foreign())];
            *best = best.min(middle.seconds);
        }
        println!();
    }
    if best.iter().flatten().all(|seconds| seconds.is_finite()) {
        print!("| {what} | **best other / ours** |");
        best.iter().for_each(|[ours, other]| print!(" {:.2} |", other / ours));
        println!();
    }
    Ok(std::io::stdout().flush()?)
}

/// Medians of the measures, each taken separately.
fn middle(found: Vec<CopyCost>) -> Option<CopyCost> {
    let of = |measure: fn(&CopyCost) -> f64| Some(measure(&median(found.clone(), measure)?));
    Some(CopyCost {
        seconds: of(|one| one.seconds)?,
        client_seconds: of(|one| one.client_seconds)?,
        server_seconds: of(|one| one.server_seconds)?,
    })
}

fn cell_text(figure: &CopyCost, count: f64) -> String {
    let CopyCost { seconds, client_seconds, server_seconds } = figure;
    let each = |seconds: &f64| seconds * 1e6 / count;
    let rate = count / seconds;
    format!("{seconds:.2} ({rate:.0}), {:.0} + {:.0}", each(client_seconds), each(server_seconds))
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

/// Copies once to an empty target, and checks that the copy is complete.
fn measure(
    stage: &MeasuringClient<'_>,
    tool: Tool,
    server: &ComparedServer<'_>,
    way: &CopyDirection<'_>,
) -> Result<CopyCost> {
    let (there, back) = (server.share.join(way.there), stage.work.join("back"));
    remove(&back)?;
    if way.is_up {
        remove(&there)?;
        if way.is_tree && tool.needs_folder() {
            fs::create_dir(&there)?;
            own(&there);
        }
    } else {
        fs::create_dir_all(&back)?;
    }
    let _ = Command::new("sync").status();
    let mut command = tools::command(stage, tool, server.address, way, &back)?;
    command.stdin(Stdio::null());
    let used = || Ok::<_, anyhow::Error>((children_seconds()?, ticks(server.pid)));
    let (begun, before) = (Instant::now(), used()?);
    let output = command.output().with_context(|| tool.name())?;
    let (seconds, after) = (begun.elapsed().as_secs_f64(), used()?);
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("{}: {}", tool.name(), String::from_utf8_lossy(&said));
    }
    let copy = if way.is_up { there } else { back.clone() };
    let (expected, found) = (total(way.here)?, total(&copy)?);
    anyhow::ensure!(found == expected, "{}: {found:?}, not {expected:?}", copy.display());
    remove(&back)?;
    let server_seconds = (after.1 - before.1) / TICKS_PER_SECOND;
    Ok(CopyCost { seconds, client_seconds: after.0 - before.0, server_seconds })
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

/// Number of files, and their total size in bytes.
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
