//! Project automation: `cargo xtask tidy|quick|language|words|licences|advisories|coverage|conformance|bench|sim|fuzz`.
#![forbid(unsafe_code)]

mod advisories;
mod bench;
mod charts;
mod conformance;
mod coverage;
mod fuzz;
mod language;
mod licences;
mod power;
mod quick;
mod server;
mod sim;
mod tap;
mod tidy;
mod words;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(about = "Project automation")]
struct XtaskCommandLine {
    #[command(subcommand)]
    task: XtaskCommand,
}

#[derive(Debug, Subcommand)]
enum XtaskCommand {
    /// Check the house rules that no compiler checks
    Tidy,
    /// Check form, lints and tests of the crates that changed, and the house rules
    Quick(quick::Args),
    /// Count comments and names that a stranger cannot read, by crate
    Language(language::Args),
    /// List comments and help texts, drawn by a seed, beside their text at an earlier revision
    Words(words::Args),
    /// Check that every dependency has a permitted licence
    Licences,
    /// Check dependencies for known vulnerabilities, foreign sources and duplicates
    Advisories(advisories::Args),
    /// Write the page of requirements with the test or command that shows each, or check it
    Coverage(coverage::Args),
    /// Run a foreign test suite against the server
    Conformance(conformance::Args),
    /// Benchmark the server side by side with another one
    Bench(Box<bench::Args>),
    /// Draw the charts of the benchmarks from their tables, or check them
    Charts(charts::Args),
    /// Simulate clients, network, failures and crashes, with one run per seed
    Sim(sim::Args),
    /// Test that acknowledged operations survive power cuts
    Power(power::Args),
    /// Search for inputs that break a decoder, guided by coverage
    Fuzz(fuzz::Args),
}

fn main() -> Result<ExitCode> {
    match XtaskCommandLine::parse().task {
        XtaskCommand::Tidy => tidy::run(&root()),
        XtaskCommand::Quick(args) => quick::run(&root(), &args),
        XtaskCommand::Language(args) => language::run(&root(), &args),
        XtaskCommand::Words(args) => words::run(&root(), &args),
        XtaskCommand::Licences => licences::run(&root()),
        XtaskCommand::Advisories(args) => advisories::run(&root(), &args),
        XtaskCommand::Coverage(args) => coverage::run(&root(), &args),
        XtaskCommand::Conformance(args) => conformance::run(&root(), &args),
        XtaskCommand::Bench(args) => bench::run(&root(), &args),
        XtaskCommand::Charts(args) => charts::run(&root(), &args),
        XtaskCommand::Sim(args) => sim::run(&root(), &args),
        XtaskCommand::Power(args) => power::run(&root(), &args),
        XtaskCommand::Fuzz(args) => fuzz::run(&root(), &args),
    }
}

/// The checkout: two folders above this crate.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn arguments_of_each_command_have_unique_names() {
        super::XtaskCommandLine::command().debug_assert();
    }
}
