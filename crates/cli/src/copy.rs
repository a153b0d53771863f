//! `anabranch copy`.

mod place;
mod progress;

use crate::bench::parse_size;
use crate::output;
use ::copy::{CopyOptions, CopyTally, Failure, Filter, LinkPolicy, Side, SidePath, Summary};
use anyhow::{Result, bail};
use place::CopyConnectionArgs;
use place::{CopyUrl, OpenConnections, names_more};
use std::io::{BufRead, IsTerminal, Write};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::task::JoinSet;

/// Robocopy's exit code for a copy that failed to start or ended early.
pub const ROBOCOPY_FATAL: u8 = 16;

/// Exit code for a copy that failed to start or ended early.
const FATAL: u8 = 3;

/// Option that selects robocopy's exit codes.
pub const ROBOCOPY_OPTION: &str = "--robocopy-exit-codes";

/// Shown below the options.
const EXAMPLES: &str = "\
A directory's contents go into the target directory, which is created if it is missing. A
file goes to the target's name, or into a target that is a directory or ends with a slash.
Files that the target already has with the same length and time are skipped.

To resume an interrupted copy, run the same command again: complete files are skipped, and
blocks of large files that are already there are verified and reused. A file gets its final
name only when it is complete.

The password comes from the environment (ANABRANCH_PASSWORD; ANABRANCH_TARGET_PASSWORD
for the target, if it is another), from standard input (--password-stdin), or from a prompt,
if there is no Kerberos ticket.

Symbolic links are left out and named: --links copies them as links, --copy-links what they
lead to.

Names that SMB cannot hold (a dot or space at the end, \" * : < > ? \\ | and control
characters) are written on a share as macOS and Linux write them, and return as they were.
Names that differ only in case are refused where the target takes them for one.

Examples:
  anabranch copy big.vhdx smb://alice@server/data/
  anabranch copy smb://alice@server/data/project project --all
  anabranch copy /home smb://backup@nas/homes --mirror --delete --dry-run
  anabranch copy smb://alice@old/data nfs://new/export/data --verify --channels 8
  anabranch copy src smb://alice@server/data/src --include '*.rs' --exclude target";

/// Arguments of `copy`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Source: a path, smb://[DOMAIN;]USER@HOST[:PORT]/SHARE[/PATH] or nfs://HOST[:PORT]/PATH
    source: CopyUrl,
    /// Target, in the same forms as the source
    target: CopyUrl,
    /// Parallelism: each thread copies up to 8 small files and 4 blocks at a time
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=128))]
    threads: u16,
    /// Do not set times
    #[arg(long)]
    no_times: bool,
    /// Set times (the default)
    #[arg(long, conflicts_with = "no_times")]
    times: bool,
    /// Set DOS attributes, or permission bits
    #[arg(long)]
    attributes: bool,
    /// Copy named streams (SMB to SMB)
    #[arg(long)]
    streams: bool,
    /// Copy owner, group and access list (SMB to SMB, or between directories)
    #[arg(long)]
    acls: bool,
    /// Copy times, attributes, streams and access lists, as far as both sides have them
    #[arg(long)]
    all: bool,
    /// Copy only files that match a pattern: * ? [a-z], ** across directories
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Skip files and directories that match a pattern
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Copy only files of at least this size
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    min_size: Option<u64>,
    /// Copy only files of at most this size
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,
    /// Copy only files that were last written at least this long ago: 30s, 12h, 7d
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    min_age: Option<Duration>,
    /// Copy only files that were last written at most this long ago
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    max_age: Option<Duration>,
    /// Read at most this many bytes a second
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    bwlimit: Option<NonZeroU64>,
    /// Further attempts at a file that is in use
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    retries: u32,
    /// Seconds before each of them
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    retry_wait: u16,
    /// Append messages, failures and the summary to a file, too
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// Copy symbolic links as links, as rclone's -l and robocopy's /SL
    #[arg(long, short)]
    links: bool,
    /// Copy the files and directories that symbolic links lead to
    #[arg(long, short = 'L', conflicts_with = "links")]
    copy_links: bool,
    /// Leave symbolic links out without a message
    #[arg(long, conflicts_with_all = ["links", "copy_links"])]
    skip_links: bool,
    /// Print a line for each file
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
    /// Make the target equal to the source; required for --delete
    #[arg(long)]
    mirror: bool,
    /// Remove files that only the target has, after listing them and asking for confirmation
    #[arg(long, requires = "mirror")]
    delete: bool,
    /// Remove without asking for confirmation
    #[arg(long)]
    yes: bool,
    /// Print the actions without carrying them out
    #[arg(long)]
    dry_run: bool,
    /// Read written files back and compare checksums
    #[arg(long)]
    verify: bool,
    /// Do not flush large files, and files on a local target, to stable storage
    #[arg(long)]
    no_sync: bool,
    /// Transfer data through this machine even if one server holds both sides
    #[arg(long)]
    no_offload: bool,
    /// Restart large files from the beginning, and write no resume journal
    #[arg(long)]
    no_resume: bool,
    /// Folder of the resume journal; by default the user's state folder
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Read the password from standard input
    #[arg(long)]
    pub password_stdin: bool,
    #[command(flatten)]
    connection: CopyConnectionArgs,
    /// Print the summary as JSON instead of text, or write it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = output::STANDARD_OUTPUT)]
    json: Option<String>,
    /// Exit with robocopy's codes, where 1 means that files were copied
    #[arg(long)]
    robocopy_exit_codes: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Copies.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (copied, is_robocopy) = (copy(args), args.robocopy_exit_codes);
    if let Err(error) = &copied {
        errln!("anabranch: {error:#}");
    }
    Ok(ExitCode::from(match copied {
        Ok(summary) if is_robocopy => summary.robocopy_exit_code(),
        Ok(summary) if summary.fatal.is_none() => u8::from(!summary.is_complete()),
        Err(_) if is_robocopy => ROBOCOPY_FATAL,
        Ok(_) | Err(_) => FATAL,
    }))
}

fn copy(args: &Args) -> Result<Summary> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(usize::from(args.threads).min(cores))
        .enable_all()
        .build()?;
    let passwords = place::passwords(args.password_stdin, &args.source, &args.target)?;
    let summary = runtime.block_on(async {
        let mut open = OpenConnections::default();
        let source = open.place(&args.source, &args.connection, &passwords[0]).await?;
        let target = open.place(&args.target, &args.connection, &passwords[1]).await?;
        let target = into_directory(&source, target, args.target.ends_with_slash()).await?;
        let done = work(args, &source, &target).await;
        open.close().await;
        done
    });
    // A disk that does not answer must not delay the exit.
    runtime.shutdown_background();
    let summary = summary?;
    report(args, &summary)?;
    Ok(summary)
}

/// A file goes into a directory under its own name.
async fn into_directory(
    source: &SidePath,
    mut target: SidePath,
    has_slash: bool,
) -> Result<SidePath> {
    let Some(item) = source.side.stat(&source.path).await? else { bail!("the source is missing") };
    if matches!(item.kind, ::copy::ItemKind::File | ::copy::ItemKind::Link) {
        let there = target.side.stat(&target.path).await?;
        let is_directory = there.is_some_and(|there| there.kind == ::copy::ItemKind::Directory);
        if has_slash || is_directory {
            let name = target.side.spelling().of(source.side.spelling(), &item.name);
            target.path = ::copy::names::join(&target.path, &name);
        }
    }
    Ok(target)
}

async fn work(args: &Args, source: &SidePath, target: &SidePath) -> Result<Summary> {
    let both_smb = source.side.as_smb().is_some() && target.side.as_smb().is_some();
    let both_local = source.side.is_local() && target.side.is_local();
    if args.streams && !both_smb {
        bail!("--streams needs SMB on both sides");
    }
    if args.acls && !both_smb && !both_local {
        bail!("--acls needs SMB on both sides, or two directories");
    }
    let options = CopyOptions {
        threads: usize::from(args.threads),
        times: !args.no_times,
        attributes: args.attributes || args.all,
        streams: args.streams || (args.all && both_smb),
        acls: args.acls || (args.all && (both_smb || both_local)),
        links: links(args),
        verbose: args.verbose,
        filter: filter(args),
        deletes: args.delete,
        dry_run: args.dry_run,
        verify: args.verify,
        sync: !args.no_sync,
        offload: !args.no_offload,
        bytes_per_second: args.bwlimit,
        retries: args.retries,
        retry_wait: Duration::from_secs(args.retry_wait.into()),
        state: if args.no_resume { None } else { args.state.clone().or_else(place::state_folder) },
    };
    if options.deletes && !args.yes && !args.dry_run {
        confirm(source, target, &options).await?;
    }
    let tally = Arc::new(CopyTally::default());
    let mut log = progress::MessageLog::open(args.log_file.as_deref())?;
    let copied = on_worker(::copy::run(source.clone(), target.clone(), options, tally.clone()));
    let summary =
        progress::shown(args.quiet, &tally, sides(source, target), &mut log, copied).await?;
    for failure in &summary.failures {
        log.write(&failure_text(failure));
    }
    log.write(progress::summary_text(&summary, args.dry_run).trim_end());
    Ok(summary)
}

/// The treatment of symbolic links that the arguments select.
fn links(args: &Args) -> LinkPolicy {
    match (args.links, args.copy_links, args.skip_links) {
        (true, ..) => LinkPolicy::Keep,
        (_, true, _) => LinkPolicy::Follow,
        (.., true) => LinkPolicy::SkipSilently,
        _ => LinkPolicy::Skip,
    }
}

/// The files that the arguments select.
fn filter(args: &Args) -> Filter {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let ago = |age: Duration| now.as_nanos() as i128 - age.as_nanos() as i128;
    Filter {
        include: args.include.clone(),
        exclude: args.exclude.clone(),
        bytes: (args.min_size, args.max_size),
        written: (args.max_age.map(ago), args.min_age.map(ago)),
    }
}

/// A time with a unit: seconds, minutes, hours, days or weeks.
fn parse_age(text: &str) -> Result<Duration, String> {
    let hint = "an age is a number with s, m, h, d or w";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err(hint.into()),
    };
    let number: u32 = digits.parse().map_err(|_| hint)?;
    Ok(Duration::from_secs(u64::from(number) * unit))
}

fn parse_rate(text: &str) -> Result<NonZeroU64, String> {
    NonZeroU64::new(parse_size(text)?).ok_or_else(|| "the rate must not be 0".into())
}

/// Runs the copy as a task on a worker: a future of `block_on` wakes the main thread for each
/// file. Dropping the returned future aborts the task.
async fn on_worker(copying: impl Future<Output = Summary> + Send + 'static) -> Summary {
    let mut tasks = JoinSet::new();
    tasks.spawn(copying);
    match tasks.join_next().await.expect("it was spawned") {
        Ok(summary) => summary,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn sides(source: &SidePath, target: &SidePath) -> [Side; 2] {
    [source.side.clone(), target.side.clone()]
}

/// Lists the files to remove, and asks for confirmation.
async fn confirm(source: &SidePath, target: &SidePath, options: &CopyOptions) -> Result<()> {
    let tally = Arc::new(CopyTally::default());
    let dry = CopyOptions { dry_run: true, ..options.clone() };
    let summary = ::copy::run(source.clone(), target.clone(), dry, tally.clone()).await;
    if summary.removed == 0 {
        return Ok(());
    }
    let messages = tally.take_messages();
    for line in messages.iter().filter(|line| line.starts_with("remove ")) {
        errln!("{line}");
    }
    let what = names_more(summary.removed, "file or directory", "files and directories");
    if !std::io::stdin().is_terminal() {
        bail!("--delete would remove {what} from the target: check with --dry-run, then add --yes");
    }
    err!("Remove {what} from the target? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        bail!("cancelled; the target is unchanged");
    }
    Ok(())
}

fn failure_text(failure: &Failure) -> String {
    let path = if failure.path.is_empty() { "the copy" } else { &failure.path };
    format!("not copied: {path}: {}", failure.why)
}

fn report(args: &Args, summary: &Summary) -> Result<()> {
    if !output::write_json(args.json.as_deref(), summary)? {
        out!("{}", progress::summary_text(summary, args.dry_run));
    }
    for failure in &summary.failures {
        errln!("{}", failure_text(failure));
    }
    if let Some(why) = &summary.fatal {
        errln!("ended early: {why}; run the same command again to resume");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_has_a_unit() {
        assert_eq!(parse_age("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_age("2d"), Ok(Duration::from_secs(2 * 86_400)));
        for text in ["", "7", "d", "-1d", "1y"] {
            assert!(parse_age(text).is_err(), "{text:?}");
        }
        assert!(parse_rate("0").is_err() && parse_rate("1M").is_ok());
    }
}
