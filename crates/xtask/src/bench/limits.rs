//! Limits of shares under overload, for long enough to be strict: the tests of the built
//! server (`crates/cli/tests/measured/limits.rs` and `limits_cost.rs`), which print a line for each
//! property that they check.

use super::{Args, binary};
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the tests in sequence, and prints their table line by line, since they take minutes.
///
/// # Errors
/// A property deviates by more than its bound.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--quiet", "--package", "cli"]);
    command.args(["--no-fail-fast", "--test", "measured"]);
    command.arg(args.row.as_deref().unwrap_or("limits")).args([
        "--",
        "--include-ignored",
        "--nocapture",
        "--test-threads",
        "1",
    ]);
    command.env("ANABRANCH_LIMITS_SECONDS", args.seconds.max(30).to_string());
    command.env("ANABRANCH_BINARY", binary(root)?).current_dir(root);
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let said = child.stdout.take().context("it is piped")?;
    println!("| what | limit | measured | off |\n|---|---|---|---|");
    let mut text = String::new();
    for line in BufReader::new(said).lines() {
        let line = line?;
        // The test harness's progress may precede the row.
        if let Some(at) = line.find("| ") {
            println!("{}", &line[at..]);
        }
        text += &line;
        text += "\n";
    }
    ensure!(child.wait()?.success(), "a measured rate differs from its limit:\n{text}");
    Ok(())
}
