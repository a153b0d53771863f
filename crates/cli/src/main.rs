//! `anabranch`: a file-share server and the tools beside it.
//!
//! Arguments, printing and exit codes; one module a subcommand.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod output;

mod admin;
mod advice;
mod bench;
mod channels;
mod check;
mod copy;
mod dashboard;
mod doctor;
mod drain;
mod exit_codes;
mod export_url;
mod exports;
mod feature;
mod first_user;
mod generate;
mod import;
mod mounts;
mod probe;
mod quoting;
mod remote;
mod serve;
mod session;
mod sessions;
mod share_limits;
mod share_url;
mod start_text;
mod state;
mod status;
mod tickets;
mod user;

use clap::{FromArgMatches, Parser, Subcommand};
use server::config::LogSettings;
use std::process::ExitCode;

/// Requests allocate and free buffers of all sizes on every core.
#[cfg(feature = "own-allocator")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A file server: shares Linux directories over SMB 3.1.1 and NFSv4.
///
/// Start with:
///   anabranch serve DIR
/// It creates a user and prints how to connect from Windows, Linux and macOS.
///
/// For a permanent server:
///   anabranch check /etc/anabranch/anabranch.toml
///   anabranch serve --config /etc/anabranch/anabranch.toml
///   anabranch user add NAME
///   anabranch status
#[derive(Debug, Parser)]
#[command(name = "anabranch", version, max_term_width = 100, verbatim_doc_comment)]
struct CommandLine {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Serve directories to SMB and NFS clients
    Serve(serve::Args),
    /// Check a configuration file and report each problem with its line
    Check(check::Args),
    /// Check whether this machine is fit to serve, with a remedy for each finding
    Doctor(doctor::Args),
    /// Import shares and users from Samba, or exports from an NFS server
    Import(import::Args),
    /// Show sessions, connections and open files of a running server
    Status(status::Args),
    /// Show the channels of a running server, or test Multichannel against any server
    Channels(channels::Args),
    /// List the NFS exports of a running server or a configuration, with their client options
    Exports(exports::Args),
    /// Show features of a running server, or switch one on or off
    Feature(feature::Args),
    /// Show sessions of a running server, or close one
    Sessions(sessions::Args),
    /// Show or change the class and limits of a running server's share
    Share(share_limits::Args),
    /// Print the address of a running server's dashboard, with its token
    Dashboard(dashboard::Args),
    /// Drain a running server before a stop: refuse new clients, let connected ones finish
    Drain(drain::Args),
    /// Manage the accounts that may log on
    User(user::Args),
    /// Save or restore the state of a server: users, open files, NFS clients, tokens
    State(state::Args),
    /// Copy files and trees between directories, SMB shares and NFS exports
    Copy(Box<copy::Args>),
    /// Test any SMB or NFS server layer by layer to find the slow or broken one
    Probe(probe::Args),
    /// Measure the bottleneck of a share and recommend settings
    Advise(advice::Args),
    /// Benchmark any SMB or NFS server: throughput, latency, CPU time
    Bench(Box<bench::Args>),
    /// Generate manual pages, shell completions and the configuration reference
    #[command(hide = true)]
    Generate(generate::Args),
}

/// Parses the process's arguments.
fn arguments() -> Result<CommandLine, clap::Error> {
    let mut command = exit_codes::command();
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    CommandLine::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

fn main() -> ExitCode {
    server::look_up_vdso();
    let cli = arguments().unwrap_or_else(|error| {
        let copies = std::env::args_os().nth(1).is_some_and(|command| command == "copy");
        let is_robocopy = copies && std::env::args_os().any(|one| one == copy::ROBOCOPY_OPTION);
        if is_robocopy && error.use_stderr() {
            let _ = error.print();
            // Clap exits with 2, which robocopy's codes define as success.
            std::process::exit(i32::from(copy::ROBOCOPY_FATAL));
        }
        error.exit()
    });
    // `serve` starts the log itself, as its configuration says.
    if !matches!(cli.command, CliCommand::Serve(_)) {
        server::log::begin(&LogSettings::default());
        // Without the log thread, `finish` writes the lines at exit.
        let _ = server::log::start_writing();
    }
    let serves = matches!(cli.command, CliCommand::Serve(_));
    let result = match cli.command {
        CliCommand::Serve(args) => serve::run(&args),
        CliCommand::Check(args) => check::run(&args),
        CliCommand::Doctor(args) => doctor::run(&args),
        CliCommand::Import(args) => import::run(&args),
        CliCommand::Status(args) => status::run(&args),
        CliCommand::Channels(args) => channels::run(&args),
        CliCommand::Exports(args) => exports::run(&args),
        CliCommand::Feature(args) => feature::run(&args),
        CliCommand::Sessions(args) => sessions::run(&args),
        CliCommand::Share(args) => share_limits::run(&args),
        CliCommand::Dashboard(args) => dashboard::run(&args),
        CliCommand::Drain(args) => drain::run(&args),
        CliCommand::User(args) => user::run(&args),
        CliCommand::State(args) => state::run(&args),
        CliCommand::Copy(args) => copy::run(&args),
        CliCommand::Probe(args) => probe::run(&args),
        CliCommand::Advise(args) => advice::run(&args),
        CliCommand::Bench(args) => bench::run(&args),
        CliCommand::Generate(args) => generate::run(&args),
    };
    server::log::finish();
    let result = result.and_then(|code| match output::finish() {
        // A server prints how to connect, and has served whether or not anybody read it.
        Err(error) if !serves => Err(anyhow::anyhow!("cannot write to standard output: {error}")),
        _ => Ok(code),
    });
    result.unwrap_or_else(|error| {
        // The chain may hold a remote peer's text, which must not control the terminal.
        let text = format!("anabranch: {error:#}");
        errln!("{}", server::log::EscapedLines(&text));
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn command_line_arguments_have_unique_names() {
        super::exit_codes::command().debug_assert();
    }
}
