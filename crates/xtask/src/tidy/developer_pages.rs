//! The pages in `docs/dev` and `benchmarks`: every file, method of the backend and link that they name exists.

use super::DIRECTION;
use anyhow::Result;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const PAGES: [&str; 2] = ["docs/dev", "benchmarks"];
/// The table of operations, and the heading of its exceptions.
const OPERATIONS: &str = "operations.md";
const EXCEPTIONS: &str = "## Other names";
/// The files and names of the backend's traits, to whose methods `Vfs::name` and the like refer.
const BACKEND: [&str; 6] =
    ["changes.rs", "external.rs", "handle.rs", "lib.rs", "name_cache.rs", "user_quotas.rs"];
const TRAITS: [&str; 7] = [
    "ChangeFeeds::",
    "ExternalWatches::",
    "NameCache::",
    "Node::",
    "PersistentHandles::",
    "UserQuotas::",
    "Vfs::",
];

/// Adds a breach for each name that leads nowhere.
///
/// # Errors
/// A page cannot be read.
pub fn check(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let mut backend = String::new();
    for file in BACKEND {
        backend += &std::fs::read_to_string(root.join("crates/vfs/src").join(file))?;
    }
    let mut all_pages = Vec::new();
    for folder in PAGES {
        all_pages.extend(pages(&root.join(folder))?);
    }
    for page in all_pages {
        let text = std::fs::read_to_string(&page)?;
        let shown = page.strip_prefix(root).unwrap_or(&page).display();
        let missing = missing_names(root, &backend, &text).into_iter();
        breaches.extend(missing.map(|name| format!("{shown}: {name} does not exist")));
        if page.ends_with(OPERATIONS) {
            let other = other_names(&text).into_iter();
            breaches.extend(other.map(|name| format!("{shown}: {name}")));
        }
        let folder = page.parent().unwrap_or(root);
        for target in link_targets(&text).filter(|t| !folder.join(t).exists()) {
            breaches.push(format!("{shown}: the link {target} leads nowhere"));
        }
    }
    Ok(())
}

fn pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            pages.extend(self::pages(&path)?);
        } else if path.extension().is_some_and(|e| e == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

fn link_targets(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter_map(|target| target.split('#').next());
    files.filter(|target| !target.is_empty() && !target.contains("://"))
}

/// Paths below a crate, and methods of the backend's traits, in backticks.
fn missing_names(root: &Path, backend: &str, text: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for name in text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)) {
        let is_in_crate = DIRECTION.iter().any(|(crate_name, _)| {
            name.strip_prefix(crate_name).is_some_and(|rest| rest.starts_with("/"))
        });
        let is_path = is_in_crate && !name.contains(' ') && !name.contains("NAME");
        let exists = |folder: &str| root.join(folder).join(name).exists();
        let is_missing_path = is_path && !exists("crates") && !exists("");
        let method = TRAITS.iter().find_map(|backend| name.strip_prefix(backend));
        let is_missing_method = method.is_some_and(|method| {
            let declared = ["(", "<"].map(|end| format!("fn {method}{end}"));
            !declared.iter().any(|declaration| backend.contains(declaration))
        });
        if is_missing_path || is_missing_method {
            missing.push(name.to_owned());
        }
    }
    missing
}

/// Names in the table of operations that lack the word of their row and are no exceptions, and
/// exceptions that no row needs.
fn other_names(text: &str) -> Vec<String> {
    let (table, exceptions) = text.split_once(EXCEPTIONS).unwrap_or((text, ""));
    let exceptions = rows(exceptions);
    let mut faults = Vec::new();
    let mut needed = BTreeSet::new();
    for cells in rows(table) {
        let Some(word) = cells.first().and_then(|cell| backticked(cell).next()) else { continue };
        for name in cells.iter().skip(1).flat_map(|cell| backticked(cell)) {
            if !has_word(name, word) {
                needed.insert(name);
            }
        }
    }
    let mut excepted = BTreeSet::new();
    for cells in &exceptions {
        let [names, reason] = cells[..] else { continue };
        if !backticked(names).all(|name| needed.contains(name) && !reason.is_empty()) {
            faults.push(format!("{names} needs no exception, or has none with a reason"));
        }
        excepted.extend(backticked(names));
    }
    let unnamed = needed.difference(&excepted);
    faults.extend(unnamed.map(|name| format!("{name} lacks the word of its row")));
    faults
}

/// The cells of the rows of tables, without their heads.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix('|'));
    let cells = lines.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    cells.filter(|cells| cells[0].starts_with('`')).collect()
}

fn backticked(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Whether the name of a file, of the folder of a `mod.rs`, or of a method has this word among those
/// that underscores part.
fn has_word(name: &str, word: &str) -> bool {
    let stem = name.strip_suffix("/mod.rs").or(name.strip_suffix(".rs")).unwrap_or(name);
    let last = stem.rsplit(['/', ':']).next().unwrap_or(stem);
    last.split('_').any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_leads_nowhere_is_found() {
        let text =
            "`vfs/src/lib.rs`, `vfs/src/gone.rs`, `Node::read`, `Vfs::gone`, `vfs/src/NAME.rs`";
        let backend = "    fn read(&self) -> u8;";
        let missing = missing_names(&crate::root(), backend, text);
        assert_eq!(missing, ["vfs/src/gone.rs", "Vfs::gone"]);
    }

    #[test]
    fn links_to_other_sites_and_sections_are_left_out() {
        let text = "[a](x.md) [b](https://example.org/y) [c](#here) [d](z.md#there)";
        assert_eq!(link_targets(text).collect::<Vec<_>>(), ["x.md", "z.md"]);
    }

    #[test]
    fn name_without_the_word_of_its_row_is_found_unless_excepted() {
        let table = "| word | a | b |\n|---|---|---|\n| `read` | `x/read.rs`, `y/read/mod.rs` | `Node::read_at` |\n| `sync` | `x/flush.rs` | |\n";
        assert_eq!(other_names(table), ["x/flush.rs lacks the word of its row"]);
        let excepted = format!("{table}## Other names\n\n| name | why |\n|---|---|\n");
        let flush = "| `x/flush.rs` | MS-SMB2 2.2.17 |\n";
        assert_eq!(other_names(&format!("{excepted}{flush}")), [""; 0]);
        for bad in ["| `x/flush.rs` | |\n", "| `x/read.rs` | why |\n"] {
            assert!(!other_names(&format!("{excepted}{bad}")).is_empty(), "{bad}");
        }
    }
}
