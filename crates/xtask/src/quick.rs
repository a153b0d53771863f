//! The inner loop: form, lints and tests of the crates that changed, and the house rules.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Crates whose integration tests run the built server or take minutes: only their unit tests run
/// here.
const LONG: [&str; 3] = ["cli", "sim", "fuzz"];

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Check the crates that changed since this commit; by default HEAD, or HEAD~1 without
    /// uncommitted changes
    #[arg(long, value_name = "COMMIT", default_value = "HEAD")]
    since: String,
}

/// Stops at the first step that fails.
///
/// # Errors
/// git or cargo cannot be run.
pub fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let begun = Instant::now();
    let mut crates = changed(root, &args.since)?;
    if crates.is_empty() && args.since == "HEAD" {
        crates = changed(root, "HEAD~1")?;
    }
    let names: Vec<&str> = crates.iter().map(String::as_str).collect();
    println!(
        "crates that changed: {}",
        if names.is_empty() { "none".into() } else { names.join(", ") }
    );
    for step in steps(&names) {
        let step_begun = Instant::now();
        let status = Command::new(cargo()).args(&step).current_dir(root).status()?;
        println!("{:>5.1} s  cargo {}", seconds(step_begun.elapsed()), step.join(" "));
        if !status.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    let outcome = crate::tidy::run(root)?;
    println!("{:>5.1} s  in all", seconds(begun.elapsed()));
    for name in names.iter().filter(|name| LONG.contains(name)) {
        println!("integration tests of {name} were left out: cargo test -p {name}");
    }
    Ok(outcome)
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Arguments of cargo, in the order in which faults show soonest.
fn steps(crates: &[&str]) -> Vec<Vec<String>> {
    let mut steps = vec![words("fmt --all --check")];
    if crates.is_empty() {
        return steps;
    }
    let packages: Vec<String> =
        crates.iter().flat_map(|n| ["--package".into(), n.to_string()]).collect();
    let with = |before: &str, packages: &[String], after: &str| {
        [words(before), packages.to_vec(), words(after)].concat()
    };
    steps.push(with("clippy --quiet --locked --all-targets", &packages, "-- -D warnings"));
    let (long, short): (Vec<&str>, Vec<&str>) = crates.iter().partition(|n| LONG.contains(n));
    for (of, targets) in [(short, ""), (long, "--lib --bins")] {
        let packages: Vec<String> =
            of.iter().flat_map(|n| ["--package".into(), n.to_string()]).collect();
        if !packages.is_empty() {
            steps.push(with("test --quiet --locked --no-fail-fast", &packages, targets));
        }
    }
    steps
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn changed(root: &Path, since: &str) -> Result<BTreeSet<String>> {
    let tracked = git(root, &["diff", "--name-only", since])?;
    let untracked = git(root, &["ls-files", "--others", "--exclude-standard"])?;
    Ok(tracked.lines().chain(untracked.lines()).filter_map(crate_of).collect())
}

fn git(root: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new("git").args(args).current_dir(root).output().context("git")?;
    let reason = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {}", args.join(" "), reason.trim());
    Ok(String::from_utf8(output.stdout)?)
}

fn crate_of(path: &str) -> Option<String> {
    let (name, _) = path.strip_prefix("crates/")?.split_once('/')?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crate_of_path_is_its_folder() {
        assert_eq!(crate_of("crates/smb/src/lib.rs").as_deref(), Some("smb"));
        assert_eq!(crate_of("docs/dev/testing.md"), None);
        assert_eq!(crate_of("crates/readme"), None);
    }

    #[test]
    fn long_crate_runs_its_unit_tests_only() {
        let steps: Vec<String> = steps(&["cli", "smb"]).iter().map(|s| s.join(" ")).collect();
        assert_eq!(steps.len(), 4, "{steps:?}");
        assert!(steps[1].contains("--package cli --package smb -- -D warnings"), "{steps:?}");
        assert!(steps[2].ends_with("--package smb"), "{steps:?}");
        assert!(steps[3].ends_with("--package cli --lib --bins"), "{steps:?}");
    }

    #[test]
    fn change_outside_of_crates_checks_the_form_alone() {
        assert_eq!(steps(&[]), [words("fmt --all --check")]);
    }
}
