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
mod export_url;
mod exports;
mod feature;
mod generate;
mod import;
mod mounts;
mod probe;
mod remote;
mod serve;
mod session;
mod sessions;
mod share_limits;
mod share_url;
mod status;
mod tickets;
mod user;

use clap::{Parser, Subcommand};
use server::config::Logging;
use std::process::ExitCode;

/// Requests allocate and free buffers of all sizes on every core.
#[cfg(feature = "own-allocator")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A file-share server: directories on Linux, served over SMB 3.1.1.
///
/// Start with:
///   anabranch serve DIR
/// It makes a user and prints how to connect from Windows, Linux and macOS.
///
/// For a server that stays:
///   anabranch check /etc/anabranch/anabranch.toml
///   anabranch serve --config /etc/anabranch/anabranch.toml
///   anabranch user add NAME
///   anabranch status
#[derive(Debug, Parser)]
#[command(name = "anabranch", version, max_term_width = 100, verbatim_doc_comment)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve directories to SMB clients
    Serve(serve::Args),
    /// Say what is wrong with a configuration file, and where
    Check(check::Args),
    /// Look at this machine: is it fit to serve, and what would help
    Doctor(doctor::Args),
    /// Take over shares and users of Samba, or exports of an NFS server
    Import(import::Args),
    /// Show sessions, connections and open files of a running server
    Status(status::Args),
    /// Show the channels of a running server, or those that any server gives to us
    Channels(channels::Args),
    /// List NFS exports with their clients' terms, of a running server or a configuration
    Exports(exports::Args),
    /// Show features of a running server, or switch one
    Feature(feature::Args),
    /// Show sessions of a running server, or close one
    Sessions(sessions::Args),
    /// Show or change class and limits of a share of a running server
    Share(share_limits::Args),
    /// Print the address of a running server's dashboard, with its token
    Dashboard(dashboard::Args),
    /// Prepare the end of a running server: no new clients, time for those that are there
    Drain(drain::Args),
    /// Manage who may log on
    User(user::Args),
    /// Copy files and trees between directories, SMB shares and NFS exports
    Copy(Box<copy::Args>),
    /// Look at any SMB or NFS server layer by layer: which one is slow or broken
    Probe(probe::Args),
    /// Measure what holds a share back, and say what to set
    Advise(advice::Args),
    /// Measure any SMB server: throughput, latency, processor time
    Bench(Box<bench::Args>),
    /// Write manual pages, completions and the reference of the configuration
    #[command(hide = true)]
    Generate(generate::Args),
}

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        let copies = std::env::args_os().nth(1).is_some_and(|command| command == "copy");
        if copies && error.use_stderr() {
            let _ = error.print();
            // Clap's 2 would mean there that all is well.
            std::process::exit(i32::from(copy::FATAL));
        }
        error.exit()
    });
    // A server's log is as its configuration says.
    if !matches!(cli.command, Command::Serve(_)) {
        server::log::begin(&Logging::default());
        // Without a thread the lines are written at the end.
        let _ = server::log::start_writing();
    }
    let serves = matches!(cli.command, Command::Serve(_));
    let result = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Channels(args) => channels::run(&args),
        Command::Exports(args) => exports::run(&args),
        Command::Feature(args) => feature::run(&args),
        Command::Sessions(args) => sessions::run(&args),
        Command::Share(args) => share_limits::run(&args),
        Command::Dashboard(args) => dashboard::run(&args),
        Command::Drain(args) => drain::run(&args),
        Command::User(args) => user::run(&args),
        Command::Copy(args) => copy::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Advise(args) => advice::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Generate(args) => generate::run(&args),
    };
    server::log::finish();
    let result = result.and_then(|code| match output::finish() {
        // A server prints how to connect, and has served whether or not anybody read it.
        Err(error) if !serves => Err(anyhow::anyhow!("cannot write to standard output: {error}")),
        _ => Ok(code),
    });
    result.unwrap_or_else(|error| {
        // Messages of others are among them.
        let text = format!("anabranch: {error:#}");
        errln!("{}", server::log::EscapedLines(&text));
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn no_two_arguments_of_a_command_have_one_name() {
        super::Cli::command().debug_assert();
    }
}
