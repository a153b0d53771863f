//! `anabranch check`.

use anyhow::Result;
use server::config::Config;
use server::users::Users;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration file
    #[arg(value_name = "FILE")]
    config: PathBuf,
}

/// Says what is wrong, or that nothing is.
pub fn run(args: &Args) -> Result<ExitCode> {
    let config = Config::load(&args.config)?;
    let mut problems = Vec::new();
    for share in &config.shares {
        match std::fs::metadata(&share.path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => problems.push(format!(
                "share {}: {} is not a directory",
                share.name,
                share.path.display()
            )),
            Err(e) => problems.push(format!(
                "share {}: {}: {e}; make it, or correct path",
                share.name,
                share.path.display()
            )),
        }
    }
    match Users::load(&config.users) {
        Ok(users) if users.is_empty() => problems.push(format!(
            "nobody can log on: {} has no users; add one with: anabranch user add NAME --users {}",
            config.users.display(),
            config.users.display()
        )),
        Ok(_) => {}
        Err(error) => problems.push(error.to_string()),
    }
    if config.shares.is_empty() {
        problems.push("there is no [[share]]".into());
    }
    for problem in &problems {
        eprintln!("{problem}");
    }
    if !problems.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    println!("{}: {} shares, nothing wrong", args.config.display(), config.shares.len());
    Ok(ExitCode::SUCCESS)
}
