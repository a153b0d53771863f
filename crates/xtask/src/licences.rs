//! Licences of all dependencies, from `cargo metadata`, without a build.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Licences that require only their text and the copyright notice.
const ALLOWED: [&str; 12] = [
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "NCSA",
    "Unicode-3.0",
    "Zlib",
    "CC0-1.0",
    "0BSD",
    "MIT-0",
    "Apache-2.0 WITH LLVM-exception",
];

/// Fails if a dependency cannot be used under an allowed licence.
pub fn run(root: &Path) -> Result<ExitCode> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let mut bad = 0;
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("(none)");
        if !is_allowed(licence) {
            eprintln!("{} {}: {licence}", package["name"], package["version"]);
            bad += 1;
        }
    }
    println!("{} packages, {bad} with a licence that is not allowed", packages.len());
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether an SPDX expression can be satisfied: OR needs one side, AND both.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let result = any(&tokens, &mut at);
    result && at == tokens.len()
}

fn any(tokens: &[&str], at: &mut usize) -> bool {
    let mut result = all(tokens, at);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        result |= all(tokens, at);
    }
    result
}

fn all(tokens: &[&str], at: &mut usize) -> bool {
    let mut result = one(tokens, at);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        result &= one(tokens, at);
    }
    result
}

fn one(tokens: &[&str], at: &mut usize) -> bool {
    let Some(token) = tokens.get(*at) else { return false };
    *at += 1;
    if *token == "(" {
        let result = any(tokens, at);
        *at += 1;
        return result;
    }
    let mut name = (*token).to_owned();
    if tokens.get(*at) == Some(&"WITH") {
        name = format!("{name} WITH {}", tokens.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    ALLOWED.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn expressions_are_understood() {
        assert!(is_allowed("MIT OR GPL-3.0-only"));
        assert!(is_allowed("ISC AND (Apache-2.0 OR ISC)"));
        assert!(is_allowed("Apache-2.0 WITH LLVM-exception OR GPL-2.0"));
        assert!(!is_allowed("ISC AND GPL-2.0"));
        assert!(!is_allowed("MPL-2.0"));
        assert!(!is_allowed(""));
    }
}
