//! `anabranch check`.

use anyhow::Result;
use server::config::Config;
use server::users::Users;
use std::path::PathBuf;
use std::process::ExitCode;

/// Shown below the options.
const EXAMPLES: &str = "\
Example:
  anabranch check /etc/anabranch/anabranch.toml";

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The configuration file
    #[arg(value_name = "FILE")]
    config: PathBuf,
}

/// Says what is wrong, or that nothing is. Whatever is wrong is told at once.
pub fn run(args: &Args) -> Result<ExitCode> {
    let path = args.config.display();
    let config = match Config::load(&args.config) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{error}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let outside = config.problems_outside().into_iter();
    let mut problems: Vec<String> =
        outside.map(|p| format!("{path}:{}: {}", p.line.unwrap_or(1), p.text)).collect();
    if config.shares.is_empty() {
        problems.push(format!("{path}: nothing is served; add a [[share]] with name and path"));
    }
    problems.extend(problem_of_users(&config));
    for problem in &problems {
        eprintln!("{problem}");
    }
    for warning in config.warnings() {
        eprintln!("{path}:{}: warning: {}", warning.line.unwrap_or(1), warning.text);
    }
    if !problems.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    println!("{path}: nothing wrong; shares: {}", names(&config));
    Ok(ExitCode::SUCCESS)
}

fn names(config: &Config) -> String {
    config.shares.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn problem_of_users(config: &Config) -> Option<String> {
    let file = config.users.display();
    match Users::load(&config.users) {
        Ok(users) if users.is_empty() && config.guest.is_none() => Some(format!(
            "{file}: nobody can log on; add a user with: anabranch user add NAME --users {file}"
        )),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}
