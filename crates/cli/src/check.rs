//! `anabranch check`.

use crate::output;
use anyhow::Result;
use serde_json::json;
use server::config::{Problem, ServerConfig};
use server::users::Users;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Shown below the options.
const EXAMPLES: &str = "\
Examples:
  anabranch check /etc/anabranch/anabranch.toml
  anabranch check --json anabranch.toml | jq -r '.problems[].text'";

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The configuration file
    #[arg(value_name = "FILE")]
    config: PathBuf,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Result of checking a configuration file.
pub struct CheckResult {
    /// The configuration, if the file is valid.
    pub config: Option<ServerConfig>,
    /// Errors in the file or its surroundings, each with file and line.
    pub problems: Vec<String>,
    /// Warnings, each with file and line.
    pub warnings: Vec<String>,
}

/// Reports all problems of the file at once, or that there is none.
pub fn run(args: &Args) -> Result<ExitCode> {
    let checked = look(&args.config);
    if args.json {
        return print_json(args, &checked);
    }
    let CheckResult { config, problems, warnings } = checked;
    problems.iter().for_each(|problem| errln!("{problem}"));
    warnings.iter().for_each(|warning| errln!("{warning}"));
    let Some(config) = config.filter(|_| problems.is_empty()) else {
        return Ok(ExitCode::FAILURE);
    };
    outln!("{}: valid; shares: {}", args.config.display(), names(&config));
    Ok(ExitCode::SUCCESS)
}

/// Prints the findings, each with the file and the line that it is about, if it is about one.
fn print_json(args: &Args, checked: &CheckResult) -> Result<ExitCode> {
    let CheckResult { config, problems, warnings } = checked;
    let file = args.config.display().to_string();
    let one = |text: &String| {
        let placed = text.strip_prefix(&file).and_then(|rest| rest.strip_prefix(':'));
        let rest = placed.unwrap_or(text);
        let line = rest.split_once(": ").and_then(|(line, text)| Some((line.parse().ok()?, text)));
        let (line, text) = line.map_or((None::<usize>, rest), |(line, text)| (Some(line), text));
        let text = text.trim_start();
        let text = text.strip_prefix("warning: ").unwrap_or(text);
        let file = placed.map(|_| file.as_str());
        json!({ "file": file, "line": line, "text": text })
    };
    let is_valid = config.is_some() && problems.is_empty();
    let shares = config.iter().flat_map(|config| &config.shares).map(|share| &share.name);
    output::print_json(&json!({
        "file": file,
        "valid": is_valid,
        "shares": shares.collect::<Vec<_>>(),
        "problems": problems.iter().map(one).collect::<Vec<_>>(),
        "warnings": warnings.iter().map(one).collect::<Vec<_>>(),
    }))?;
    Ok(if is_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads a configuration file and checks all that would make the start or a logon fail: paths,
/// accounts, addresses, certificates.
pub fn look(file: &Path) -> CheckResult {
    let path = file.display();
    let config = match ServerConfig::load(file) {
        Ok(config) => config,
        Err(error) => {
            let problems = error.to_string().lines().map(str::to_owned).collect();
            return CheckResult { config: None, problems, warnings: Vec::new() };
        }
    };
    let outside = config.problems_outside().into_iter();
    let mut problems: Vec<String> =
        outside.map(|p| format!("{path}:{}: {}", p.line.unwrap_or(1), p.text)).collect();
    if config.shares.is_empty() {
        problems
            .push(format!("{path}: no share is configured; add a [[share]] with name and path"));
    }
    let users = Users::load(&config.users);
    problems.extend(users.as_ref().err().map(ToString::to_string));
    let nobody = users.as_ref().ok().and_then(|users| warning_of_users(&config, users));
    let surroundings = config.surroundings(file, &users.unwrap_or_default());
    let place = |problem: Problem, kind: &str| match problem.line {
        Some(line) => format!("{path}:{line}: {kind}{}", problem.text),
        None => format!("{path}: {kind}{}", problem.text),
    };
    problems.extend(surroundings.problems.into_iter().map(|problem| place(problem, "")));
    let warnings = config.warnings().into_iter().chain(surroundings.warnings).chain(nobody);
    let warnings = warnings.map(|warning| place(warning, "warning: ")).collect();
    CheckResult { config: Some(config), problems, warnings }
}

fn names(config: &ServerConfig) -> String {
    config.shares.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Users can be added while the server runs, so it starts without one.
fn warning_of_users(config: &ServerConfig, users: &Users) -> Option<Problem> {
    let is_empty = users.is_empty() && config.guest.is_none() && config.kerberos.is_none();
    let file = config.users.display();
    let text =
        format!("{file}: no user can log on; add one: anabranch user add NAME --users {file}");
    is_empty.then_some(Problem { line: None, text })
}
