//! The tables of `docs/dev/operations.md`: an operation has one name at every layer, and every
//! handler of a protocol, operation of the file layer and method of a backend is in one of them.

use super::rust_files;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const PAGE: &str = "docs/dev/operations.md";
/// Headings of the page, in their order: after the rows of operations stand names that lack the word
/// of their row, and names that belong to no operation.
const EXCEPTIONS: &str = "## Other names";
const NO_OPERATIONS: &str = "## No operation on files";

/// Folders below `crates` whose modules handle the operations of a protocol.
const HANDLERS: [&str; 2] = ["smb/src/commands", "nfs/src/ops"];
/// The type of the file layer whose public methods are its operations.
const FILE_LAYER: &str = "RequestFiles";

/// Names of methods by their type or trait.
pub type Methods = BTreeMap<String, BTreeSet<String>>;

/// Adds a breach for each name that is in no table, in the wrong one, or without its row's word.
///
/// # Errors
/// A file cannot be read.
pub fn check(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let page = std::fs::read_to_string(root.join(PAGE))?;
    let mut names = handlers(root)?;
    for (of, methods) in methods(root)? {
        names.extend(methods.into_iter().map(|method| format!("{of}::{method}")));
    }
    let faults = other_names(&page).into_iter().chain(unlisted(&page, &names));
    breaches.extend(faults.map(|fault| format!("{PAGE}: {fault}")));
    Ok(())
}

/// The modules of [`HANDLERS`] as paths below `crates`.
fn handlers(root: &Path) -> Result<BTreeSet<String>> {
    let mut handlers = BTreeSet::new();
    for folder in HANDLERS {
        for file in rust_files(&root.join("crates").join(folder))? {
            let path = file.strip_prefix(root.join("crates"))?;
            handlers.insert(path.to_string_lossy().into_owned());
        }
    }
    Ok(handlers)
}

/// The public methods of the file layer, and those of every public trait of the backend.
///
/// # Errors
/// A file cannot be read.
pub fn methods(root: &Path) -> Result<Methods> {
    let mut methods = Methods::new();
    for file in rust_files(&root.join("crates/files/src"))? {
        let source = std::fs::read_to_string(file)?;
        add_methods(&source, "impl ", "    pub ", &mut methods);
    }
    methods.retain(|of, _| of == FILE_LAYER);
    for entry in std::fs::read_dir(root.join("crates/vfs/src"))? {
        let path = entry?.path();
        if path.is_file() {
            add_methods(&std::fs::read_to_string(path)?, "pub trait ", "    ", &mut methods);
        }
    }
    Ok(methods)
}

/// Adds the methods of each block that begins with `start`; each method begins with `indent`.
fn add_methods(source: &str, start: &str, indent: &str, methods: &mut Methods) {
    let mut block: Option<String> = None;
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    for line in source.lines().take_while(|line| !line.contains("mod tests {")) {
        if let Some(name) = line.strip_prefix(start) {
            block = (!line.ends_with("{}")).then(|| word(name));
        } else if line == "}" {
            block = None;
        }
        let Some(of) = &block else { continue };
        let method = line
            .strip_prefix(indent)
            .and_then(|rest| rest.strip_prefix("async ").unwrap_or(rest).strip_prefix("fn "));
        if let Some(method) = method {
            methods.entry(of.clone()).or_default().insert(word(method));
        }
    }
}

/// Names that stand neither in a row nor among those that are no operation, and names of the latter
/// that are in a row or have no reason. A module's own folder holds its steps.
fn unlisted(page: &str, names: &BTreeSet<String>) -> Vec<String> {
    let (operations, rest) = page.split_once(EXCEPTIONS).unwrap_or((page, ""));
    let (_, others) = rest.split_once(NO_OPERATIONS).unwrap_or((rest, ""));
    let in_rows: BTreeSet<&str> =
        rows(operations).iter().flatten().flat_map(|cell| backticked(cell)).collect();
    let mut faults = Vec::new();
    let mut in_none = BTreeSet::new();
    for cells in rows(others) {
        let (listed, reason) = (cells[0], cells.get(1).copied().unwrap_or_default());
        in_none.extend(backticked(listed));
        if reason.is_empty() || backticked(listed).any(|name| in_rows.contains(name)) {
            faults.push(format!("{listed} is an operation, or none without a reason"));
        }
    }
    let is_listed = |name: &str| in_rows.contains(name) || in_none.contains(name);
    // The folders of all handlers have a `mod.rs`, too, which is none of a command.
    let is_step = |name: &str| {
        name.rsplit_once('/').is_some_and(|(folder, _)| {
            !HANDLERS.contains(&folder) && is_listed(&format!("{folder}/mod.rs"))
        })
    };
    let lost = names.iter().filter(|name| !is_listed(name) && !is_step(name));
    faults.extend(lost.map(|name| {
        format!("{name} is in no row; add it to one, or to the names that are no operation")
    }));
    faults
}

/// Names in the rows of operations that lack the word of their row and are no exceptions, and
/// exceptions that no row needs.
fn other_names(page: &str) -> Vec<String> {
    let (table, exceptions) = page.split_once(EXCEPTIONS).unwrap_or((page, ""));
    let (exceptions, _) = exceptions.split_once(NO_OPERATIONS).unwrap_or((exceptions, ""));
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
        for name in backticked(names).filter(|name| !needed.contains(name) || reason.is_empty()) {
            faults.push(format!("{name} needs no exception, or has none with a reason"));
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
/// that underscores part, also in the plural or singular, or with `un` for the opposite.
fn has_word(name: &str, word: &str) -> bool {
    let singular = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
    let stem = name.strip_suffix("/mod.rs").or(name.strip_suffix(".rs")).unwrap_or(name);
    let last = stem.rsplit(['/', ':']).next().unwrap_or(stem);
    last.split('_').any(|part| {
        [part, part.strip_prefix("un").unwrap_or(part)].map(singular).contains(&singular(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| word | a | b |\n|---|---|---|\n| `read` | `x/read.rs`, `y/read/mod.rs` | `Node::read_at`, `Node::reads`, `Node::unread` |\n| `sync` | `x/flush.rs` | `Node::syncs` |\n";

    #[test]
    fn name_without_the_word_of_its_row_is_found_unless_excepted() {
        assert_eq!(other_names(TABLE), ["x/flush.rs lacks the word of its row"]);
        let excepted = format!("{TABLE}{EXCEPTIONS}\n\n| name | why |\n|---|---|\n");
        let flush = "| `x/flush.rs` | MS-SMB2 2.2.17 |\n";
        let none = format!("{NO_OPERATIONS}\n\n| `x/echo.rs` | probes a connection |\n");
        assert_eq!(other_names(&format!("{excepted}{flush}{none}")), [""; 0]);
        for bad in ["| `x/flush.rs` | |\n", "| `x/read.rs` | why |\n"] {
            assert!(!other_names(&format!("{excepted}{bad}")).is_empty(), "{bad}");
        }
    }

    #[test]
    fn module_or_method_in_neither_table_is_found() {
        let page = |none: &str| format!("{TABLE}{EXCEPTIONS}\n{NO_OPERATIONS}\n\n{none}");
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        let known = ["x/read.rs", "y/read/mod.rs", "y/read/step.rs", "Node::reads"];
        assert_eq!(unlisted(&page(""), &names(&known)), [""; 0]);
        for name in ["smb/src/commands/echo.rs", "x/read/step.rs", "Node::kind"] {
            let names = names(&[name, "Node::reads"]);
            let found = unlisted(&page(""), &names);
            assert!(found.len() == 1 && found[0].starts_with(name), "{found:?}");
            let none = page(&format!("| `{name}` | why |\n"));
            assert_eq!(unlisted(&none, &names), [""; 0]);
            let none = page(&format!("| `{name}` | |\n"));
            assert_eq!(unlisted(&none, &names).len(), 1, "without a reason");
        }
        let both = page("| `Node::reads` | why |\n");
        assert_eq!(unlisted(&both, &names(&["Node::reads"])).len(), 1, "in both tables");
    }

    #[test]
    fn handler_of_a_folder_with_a_listed_module_is_no_step() {
        let page = "| `read` | `nfs/src/ops/mod.rs` |\n";
        let names = ["nfs/src/ops/mod.rs", "nfs/src/ops/seek.rs"].map(str::to_owned).into();
        let found = unlisted(page, &names);
        assert!(found.len() == 1 && found[0].starts_with("nfs/src/ops/seek.rs"), "{found:?}");
    }

    #[test]
    fn public_methods_of_blocks_are_collected() {
        let source = "impl Files {\n    pub fn a() {}\n}\nimpl RequestFiles {\n    pub async fn b<T>() {\n        x\n    }\n    pub(crate) fn c() {}\n    fn d() {}\n}\nimpl Volume {\n    pub fn e() {}\n}\n";
        let mut found = Methods::new();
        add_methods(source, "impl ", "    pub ", &mut found);
        found.retain(|of, _| of == FILE_LAYER);
        let source = "pub trait Mark: Send {}\npub trait Node: Send {\n    fn f(&self);\n    fn g(\n        &self,\n    );\n}\nimpl dyn Node {\n    pub fn h() {}\n}\n";
        add_methods(source, "pub trait ", "    ", &mut found);
        let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        let expected = [("Node", set(&["f", "g"])), ("RequestFiles", set(&["b"]))];
        assert_eq!(found, expected.map(|(of, names)| (of.to_owned(), names)).into());
    }
}
