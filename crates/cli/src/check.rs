//! `anabranch check`.

use anyhow::Result;
use server::config::{Config, Problem};
use server::users::Users;
use std::path::{Path, PathBuf};
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

/// What there is to say of a file.
pub struct Checked {
    /// What it means, if it can be understood.
    pub config: Option<Config>,
    /// What is wrong in it or outside, each with its place.
    pub problems: Vec<String>,
    /// What should be thought about.
    pub warnings: Vec<String>,
}

/// Says what is wrong, or that nothing is. Whatever is wrong is told at once.
pub fn run(args: &Args) -> Result<ExitCode> {
    let Checked { config, problems, warnings } = look(&args.config);
    problems.iter().for_each(|problem| errln!("{problem}"));
    warnings.iter().for_each(|warning| errln!("{warning}"));
    let Some(config) = config.filter(|_| problems.is_empty()) else {
        return Ok(ExitCode::FAILURE);
    };
    outln!("{}: nothing wrong; shares: {}", args.config.display(), names(&config));
    Ok(ExitCode::SUCCESS)
}

/// Reads a file and looks whether what it names is there.
pub fn look(file: &Path) -> Checked {
    let path = file.display();
    let config = match Config::load(file) {
        Ok(config) => config,
        Err(error) => {
            let problems = error.to_string().lines().map(str::to_owned).collect();
            return Checked { config: None, problems, warnings: Vec::new() };
        }
    };
    let outside = config.problems_outside().into_iter();
    let mut problems: Vec<String> =
        outside.map(|p| format!("{path}:{}: {}", p.line.unwrap_or(1), p.text)).collect();
    if config.shares.is_empty() {
        problems.push(format!("{path}: nothing is served; add a [[share]] with name and path"));
    }
    problems.extend(problem_of_users(&config));
    let warning = |w: Problem| format!("{path}:{}: warning: {}", w.line.unwrap_or(1), w.text);
    let warnings = config.warnings().into_iter().map(warning).collect();
    Checked { config: Some(config), problems, warnings }
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
