//! The promises of `semantics.toml`: each test and lane exists, and each section of SEMANTICS.md has
//! promises.

use super::links;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::HashSet;
use std::path::Path;

const TABLE: &str = "semantics.toml";
const PAGE: &str = "SEMANTICS.md";
/// Prose of the promises: an administrator reads it as a whole.
const PAGE_BYTES_MAX: usize = 40 * 1024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PromiseTable {
    promise: Vec<PromiseEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PromiseEntry {
    id: String,
    /// Anchor of a heading of the page.
    section: String,
    promise: String,
    #[serde(default)]
    tests: Vec<String>,
    /// Scripts of `conformance/` that hold the promise.
    #[serde(default)]
    lanes: Vec<String>,
}

/// The tests and lanes that a promise may refer to.
struct PromiseReferences<'a> {
    /// Tests of the workspace, as `crate::name`.
    tests: &'a HashSet<String>,
    /// Lines of `conformance/smb-suites.txt`; one that begins with `-` excludes tests.
    samba_suites: Vec<String>,
    samba_failures: HashSet<String>,
    lanes: HashSet<String>,
}

/// Adds a breach for each promise that refers to nothing and each section without promises.
///
/// # Errors
/// A file cannot be read, or the table is not valid TOML.
pub fn check(root: &Path, tests: &HashSet<String>, breaches: &mut Vec<String>) -> Result<()> {
    let page = std::fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let text = std::fs::read_to_string(root.join(TABLE)).context(TABLE)?;
    let table: PromiseTable = toml::from_str(&text).context(TABLE)?;
    let references = PromiseReferences {
        tests,
        samba_suites: crate::conformance::read_suites(root)?,
        samba_failures: crate::conformance::expected_failures(root)?,
        lanes: lanes(root)?,
    };
    if page.len() > PAGE_BYTES_MAX {
        breaches.push(format!("{PAGE}: {} bytes; at most {PAGE_BYTES_MAX}", page.len()));
    }
    breaches.extend(promise_breaches(&table.promise, &references));
    breaches.extend(section_breaches(&table.promise, &page));
    Ok(())
}

/// Scripts of `conformance/` that a target of make runs: a lane that nothing runs proves nothing.
fn lanes(root: &Path) -> Result<HashSet<String>> {
    let makefile = std::fs::read_to_string(root.join("Makefile")).context("Makefile")?;
    let lanes = scripts(&makefile).filter(|lane| root.join("conformance").join(lane).is_file());
    Ok(lanes.map(str::to_owned).collect())
}

fn scripts(makefile: &str) -> impl Iterator<Item = &str> {
    let recipes = makefile.lines().filter(|line| line.starts_with('\t'));
    recipes.flat_map(str::split_whitespace).filter_map(|word| word.strip_prefix("conformance/"))
}

fn promise_breaches(promises: &[PromiseEntry], references: &PromiseReferences<'_>) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut ids = HashSet::new();
    for PromiseEntry { id, promise, tests, lanes, .. } in promises {
        let is_id_valid = !id.is_empty()
            && id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if !is_id_valid {
            breaches.push(format!("{TABLE}: {id:?}: an id is of lower-case words with hyphens"));
        }
        if !ids.insert(id) {
            breaches.push(format!("{TABLE}: {id} stands there twice"));
        }
        if promise.trim().is_empty() {
            breaches.push(format!("{TABLE}: {id} promises nothing"));
        }
        if tests.is_empty() && lanes.is_empty() {
            breaches.push(format!("{TABLE}: {id} has neither a test nor a lane"));
        }
        let lost = tests.iter().filter(|test| !references.has_test(test));
        breaches.extend(lost.map(|test| format!("{TABLE}: {id}: there is no test {test}")));
        let lost = lanes.iter().filter(|lane| !references.lanes.contains(*lane));
        breaches.extend(lost.map(|lane| format!("{TABLE}: {id}: there is no lane {lane}")));
    }
    breaches
}

impl PromiseReferences<'_> {
    /// A test of Samba's counts if the lane runs it and does not expect it to fail.
    fn has_test(&self, test: &str) -> bool {
        if !test.starts_with("smb2.") {
            return self.tests.contains(test);
        }
        let is_in = |suite: &str| crate::conformance::is_within(test, suite);
        let is_run = self.samba_suites.iter().any(|suite| is_in(suite));
        let is_excluded = self.samba_suites.iter().filter_map(|s| s.strip_prefix('-')).any(is_in);
        is_run && !is_excluded && !self.samba_failures.contains(test)
    }
}

fn section_breaches(promises: &[PromiseEntry], page: &str) -> Vec<String> {
    let headings = headings(page);
    let mut breaches = Vec::new();
    for promise in promises {
        if !headings.iter().any(|h| h.is_leaf && h.anchor == promise.section) {
            let PromiseEntry { id, section, .. } = promise;
            breaches.push(format!("{TABLE}: {id}: {PAGE} has no section {section}"));
        }
    }
    for heading in headings.iter().filter(|h| h.is_leaf) {
        if !promises.iter().any(|p| p.section == heading.anchor) {
            breaches.push(format!("{PAGE}: the section {} has no promises", heading.anchor));
        }
    }
    let mut anchors = HashSet::new();
    let twice = headings.iter().filter(|h| !anchors.insert(&h.anchor));
    breaches.extend(twice.map(|h| format!("{PAGE}: two headings have the anchor {}", h.anchor)));
    breaches
}

#[derive(Debug, PartialEq, Eq)]
struct SectionHeading {
    anchor: String,
    /// No heading of a deeper level follows before the next of its own: text stands below it.
    is_leaf: bool,
}

/// Headings below the title.
fn headings(page: &str) -> Vec<SectionHeading> {
    let all = links::headings(page);
    let found: Vec<(usize, String)> = all.filter(|(level, _)| *level >= 2).collect();
    let next_levels: Vec<usize> =
        found.iter().skip(1).map(|(level, _)| *level).chain([0]).collect();
    let with_next = found.into_iter().zip(next_levels);
    with_next
        .map(|((level, anchor), next)| SectionHeading { anchor, is_leaf: next <= level })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMISES: &str = r#"
        [[promise]]
        id = "read-back"
        section = "data"
        promise = "Data reads back."
        tests = ["files::here", "smb2.read.eof"]
        lanes = ["power"]

        [[promise]]
        id = "names"
        section = "names-and-case"
        promise = "Names match in any case."
        tests = ["files::here"]
    "#;
    const PAGE: &str = "# Title\n\n## Files\n\n### Data\n\nText.\n\n### Names, and case\n";

    fn breaches(promises: &str, page: &str) -> Vec<String> {
        let known = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<HashSet<_>>();
        let tests = known(&["files::here"]);
        let references = PromiseReferences {
            tests: &tests,
            samba_suites: ["smb2.read", "-smb2.read.slow"].map(str::to_owned).to_vec(),
            samba_failures: known(&["smb2.read.position"]),
            lanes: known(&["power"]),
        };
        let table: PromiseTable = toml::from_str(promises).expect("a valid table");
        let mut breaches = promise_breaches(&table.promise, &references);
        breaches.extend(section_breaches(&table.promise, page));
        breaches
    }

    #[test]
    fn promises_with_tests_and_sections_pass() {
        assert_eq!(breaches(PROMISES, PAGE), [""; 0]);
    }

    #[test]
    fn each_broken_reference_of_a_promise_is_found() {
        let edits = [
            (r#""files::here", "smb2"#, r#""files::gone", "smb2"#, "there is no test files::gone"),
            ("smb2.read.eof", "smb2.write.eof", "there is no test smb2.write.eof"),
            ("smb2.read.eof", "smb2.read.slow", "there is no test smb2.read.slow"),
            ("smb2.read.eof", "smb2.read.position", "there is no test smb2.read.position"),
            ("smb2.read.eof", "smb2.reads.eof", "there is no test smb2.reads.eof"),
            (r#"["power"]"#, r#"["powder"]"#, "there is no lane powder"),
            (r#"id = "names""#, r#"id = "read-back""#, "read-back stands there twice"),
            (r#"id = "names""#, r#"id = "Some names""#, "an id is of lower-case words"),
            ("Data reads back.", " ", "read-back promises nothing"),
            (r#"section = "data""#, r#"section = "files""#, "has no section files"),
            (r#"section = "data""#, r#"section = "date""#, "has no section date"),
        ];
        for (before, after, breach) in edits {
            assert!(PROMISES.contains(before), "{before}");
            let found = breaches(&PROMISES.replacen(before, after, 1), PAGE);
            assert!(found.iter().any(|f| f.contains(breach)), "{breach}: {found:?}");
        }
    }

    #[test]
    fn promise_without_test_and_section_without_promise_are_found() {
        let untested = PROMISES.replace(r#"tests = ["files::here"]"#, "");
        assert_eq!(
            breaches(&untested, PAGE),
            ["semantics.toml: names has neither a test nor a lane"]
        );
        let page = format!("{PAGE}\n### Quotas\n");
        let empty = "SEMANTICS.md: the section quotas has no promises";
        assert_eq!(breaches(PROMISES, &page), [empty]);
        let page = format!("{PAGE}\n### Data\n");
        let twice = "SEMANTICS.md: two headings have the anchor data";
        assert_eq!(breaches(PROMISES, &page), [twice]);
    }

    #[test]
    fn lanes_are_the_scripts_in_recipes_of_make() {
        let makefile = "kernel: built ## See conformance/POWER.md\n\t$(call lane,3) A=1 \
                        conformance/kernel uml\n\n# conformance/gone\n";
        assert_eq!(scripts(makefile).collect::<Vec<_>>(), ["kernel"]);
    }

    #[test]
    fn unknown_key_of_a_promise_is_refused() {
        let misspelt = PROMISES.replace("lanes =", "lane =");
        assert!(toml::from_str::<PromiseTable>(&misspelt).is_err());
    }

    #[test]
    fn anchors_follow_github_and_leave_code_out() {
        let page =
            "# T\n## Oplocks, leases & more\n```sh\n## no heading\n```\n### 8.3 names\n## End\n";
        let heading = |anchor: &str, is_leaf| SectionHeading { anchor: anchor.to_owned(), is_leaf };
        let expected = [
            heading("oplocks-leases--more", false),
            heading("83-names", true),
            heading("end", true),
        ];
        assert_eq!(headings(page), expected);
    }
}
