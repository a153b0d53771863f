//! `anabranch state`.

use crate::admin::CONFIGURATION;
use crate::output;
use anyhow::{Context, Result, bail};
use rustix::termios::isatty;
use serde_json::json;
use server::config::ServerConfig;
use server::{StateContents, StatePlace};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind, Read, stdin, stdout};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Shown below the options.
const EXAMPLES: &str = "\
Examples:
  anabranch state export /root/anabranch-state.tar
  anabranch state import /root/anabranch-state.tar
  anabranch state export - | ssh other anabranch state import -

The archive holds password hashes and tokens: protect it as the passwords.
The configuration file and the shares are not in it.";

/// Arguments of `state`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    action: StateAction,
}

#[derive(Debug, clap::Subcommand)]
enum StateAction {
    /// Save the state of a server, which may be running, as a tar archive
    Export(ExportArgs),
    /// Restore the state of a server that does not run
    Import(ImportArgs),
}

#[derive(Debug, clap::Args)]
struct ExportArgs {
    /// The archive to write; - for standard output
    #[arg(value_name = "FILE")]
    archive: String,
    #[command(flatten)]
    of: StateServer,
}

#[derive(Debug, clap::Args)]
struct ImportArgs {
    /// The archive to read; - for standard input
    #[arg(value_name = "FILE")]
    archive: String,
    /// Replace the state that is there
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    of: StateServer,
}

/// The server that the state belongs to.
#[derive(Debug, clap::Args)]
struct StateServer {
    /// The server's configuration, which names the state directory; by default
    /// /etc/anabranch/anabranch.toml if it exists, else the directories of a server without one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// Name of standard output or input.
const STANDARD: &str = "-";

/// Carries out the action.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.action {
        StateAction::Export(export) => self::export(export),
        StateAction::Import(import) => self::import(import),
    }
}

impl StateServer {
    fn place(&self) -> Result<StatePlace> {
        let config = match &self.config {
            Some(path) => ServerConfig::load(path)?,
            None if Path::new(CONFIGURATION).exists() => {
                ServerConfig::load(Path::new(CONFIGURATION))?
            }
            None => ServerConfig::empty(),
        };
        Ok(StatePlace::of(&config))
    }

    fn report(&self, what: &str, place: &StatePlace, contents: &StateContents) -> Result<()> {
        let names: Vec<&str> = contents.names().collect();
        if self.json {
            return output::print_json(&json!({
                "state": place.folder,
                "files": names,
                "format": contents.state.format,
                "written_by": contents.state.written_by,
            }));
        }
        outln!("{}: {what} {} files: {}", place.folder.display(), names.len(), names.join(", "));
        Ok(())
    }
}

fn export(args: &ExportArgs) -> Result<ExitCode> {
    let place = args.of.place()?;
    let contents = StateContents::of(&place).map_err(anyhow::Error::msg)?;
    if args.archive == STANDARD {
        if args.of.json || isatty(stdout()) {
            bail!("standard output takes the archive: name a file, or redirect it");
        }
        contents.write(BufWriter::new(stdout().lock())).context("cannot write the archive")?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = Path::new(&args.archive);
    write_whole(path, &contents).with_context(|| format!("cannot write {}", path.display()))?;
    args.of.report("exported", &place, &contents)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the archive under another name first, so that an earlier one stays until this one is whole.
fn write_whole(path: &Path, contents: &StateContents) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => bail!("it is there and not a regular file"),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let mut options = OpenOptions::new();
    // Password hashes are for nobody else.
    let file = options.write(true).create_new(true).mode(0o600).open(&beside)?;
    let mut out = BufWriter::new(file);
    let written = contents.write(&mut out).and_then(|()| out.into_inner()?.sync_all());
    let written = written.and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // The file is this call's own.
        let _ = std::fs::remove_file(&beside);
    }
    Ok(written?)
}

fn import(args: &ImportArgs) -> Result<ExitCode> {
    let place = args.of.place()?;
    let from: Box<dyn Read> = if args.archive == STANDARD {
        Box::new(stdin().lock())
    } else {
        let file = File::open(&args.archive);
        Box::new(BufReader::new(file.with_context(|| format!("cannot open {}", args.archive))?))
    };
    let contents = StateContents::read(from).map_err(anyhow::Error::msg)?;
    contents.store(&place, args.replace).map_err(anyhow::Error::msg)?;
    args.of.report("imported", &place, &contents)?;
    Ok(ExitCode::SUCCESS)
}
