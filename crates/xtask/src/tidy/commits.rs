//! Subjects of commits: rule 8 of `docs/dev/language.md`.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Characters of a subject.
const SUBJECT_MAX: usize = 72;

/// Adds a breach for each commit after `base` whose subject is too long or names no area.
///
/// Returns the reason for which no subject was checked: git is missing, or the tree lacks the
/// history since `base`, as a shallow clone or an archive does.
pub fn check(root: &Path, base: &str, breaches: &mut Vec<String>) -> Option<String> {
    match subjects_since(root, base) {
        Ok(log) => {
            breaches.extend(log.lines().filter_map(breach));
            None
        }
        Err(reason) => Some(format!("subjects of commits are not checked: {reason:#}")),
    }
}

/// The commits after `base`, one a line: abbreviated hash, subject.
fn subjects_since(root: &Path, base: &str) -> Result<String> {
    // A rewritten history has all its subjects after `base`, those of before the rule, too.
    git(root, &["merge-base", "--is-ancestor", base, "HEAD"])
        .with_context(|| format!("no history since {base:.12}"))?;
    git(root, &["log", "--no-merges", "--format=%h %s", &format!("{base}..HEAD")])
}

fn git(root: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new("git").args(args).current_dir(root).output().context("git")?;
    let reason = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {}", args[0], reason.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn breach(line: &str) -> Option<String> {
    let (commit, subject) = line.split_once(' ')?;
    let length = subject.chars().count();
    if length > SUBJECT_MAX {
        return Some(format!(
            "{commit}: a subject of {length} characters, at most {SUBJECT_MAX}: {subject}"
        ));
    }
    let area = subject.split_once(": ").map_or("", |(area, _)| area);
    let is_area = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ", -_./".contains(c);
    let has_area = !area.is_empty() && area.chars().all(is_area);
    (!has_area).then(|| format!("{commit}: a subject is \"area: imperative summary\": {subject}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_subjects_and_subjects_without_area_are_found() {
        let long = format!("1a2b files: {}", "x".repeat(66));
        assert!(breach(&long).is_some_and(|b| b.contains("73 characters")), "{long}");
        for line in ["1a2b Fix it", "1a2b : fix it", "1a2b See also: nothing", "1a2b files:fix"] {
            assert!(breach(line).is_some_and(|b| b.contains("area")), "{line}");
        }
        let fits = format!("1a2b files: {}", "x".repeat(65));
        for line in [&fits[..], "1a2b vfs-cache, nfs: evict names at removal"] {
            assert_eq!(breach(line), None);
        }
    }

    #[test]
    fn tree_without_history_is_skipped_with_a_reason() {
        let mut breaches = Vec::new();
        let root = std::env::temp_dir();
        let reason = check(&root, &"0".repeat(40), &mut breaches).unwrap();
        assert!(reason.contains("not checked: no history since 000000000000"), "{reason}");
        assert_eq!(breaches, [""; 0]);
    }
}
