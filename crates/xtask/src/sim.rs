//! Longer simulations than those of the tests.

use anyhow::{Context, Result};
use std::path::Path;
use std::process::{Command, ExitCode};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of seeds
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// First seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run only one kind: files, channels, schedules, cache, sessions or both
    #[arg(long)]
    kind: Option<String>,
}

/// Runs the simulator; it stops at the first seed that fails.
pub fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let status = Command::new("cargo")
        .args(["run", "--quiet", "--package", "sim", "--"])
        .args([args.seeds.to_string(), args.from.to_string()])
        .args(&args.kind)
        .current_dir(root)
        .status()
        .context("cannot run cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
