//! The tables of `docs/dev/operations.md`: an operation has one name at every layer, and every
//! handler of a protocol, operation of the file layer and method of a backend is in one of them. A
//! handler calls an operation of its row.

use super::rust_files;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const PAGE: &str = "docs/dev/operations.md";
/// Headings of the page, in their order: after the rows of operations stand names that lack the word
/// of their row, handlers that call no operation of their row, and names that belong to no operation.
const EXCEPTIONS: &str = "## Other names";
const INDIRECT: &str = "## Handlers without a call";
const NO_OPERATIONS: &str = "## No operation on files";

/// Folders below `crates` whose modules handle the operations of a protocol.
const HANDLERS: [&str; 2] = ["smb/src/commands", "nfs/src/ops"];
/// Handlers of commands that the connection serves itself: MS-SMB2 3.3.5.4, 3.3.5.5 and 3.3.5.16.
const CONNECTION_HANDLERS: [&str; 3] =
    ["smb/src/conn/negotiate.rs", "smb/src/logon/setup.rs", "smb/src/conn/connection.rs"];
/// The types of the file layer whose public methods are its operations.
const FILE_LAYER: [&str; 2] = ["Files", "RequestFiles"];
/// Columns of the table of protocols that list handlers.
const HANDLER_COLUMNS: [usize; 2] = [2, 4];
/// Cells of a row in the table of protocols, and in that of the file layer.
const PROTOCOL_CELLS: usize = 5;
const LAYER_CELLS: usize = 4;
/// Columns of the latter: the files of the file layer, and its operations.
const LAYER_COLUMN: usize = 1;
const OPERATION_COLUMN: usize = 2;

/// Names of methods by their type or trait.
type Methods = BTreeMap<String, BTreeSet<String>>;

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
    let mut sources = BTreeMap::new();
    for (_, file) in handler_cells(&page) {
        // A file that does not exist is the breach of another check.
        let source = std::fs::read_to_string(root.join("crates").join(file)).unwrap_or_default();
        sources.insert(file.to_owned(), source);
    }
    let faults = other_names(&page).into_iter().chain(unlisted(&page, &names));
    let faults = faults.chain(without_call(&page, &sources));
    let faults = faults.chain(defined_elsewhere(&page, &layer_methods(root)?));
    breaches.extend(faults.map(|fault| format!("{PAGE}: {fault}")));
    Ok(())
}

/// The sections of the page.
#[derive(Debug)]
struct PageSections<'a> {
    operations: &'a str,
    other_names: &'a str,
    indirect: &'a str,
    no_operations: &'a str,
}

impl<'a> PageSections<'a> {
    fn of(page: &'a str) -> Self {
        let cut = |text: &'a str, heading| text.split_once(heading).unwrap_or((text, ""));
        let (rest, no_operations) = cut(page, NO_OPERATIONS);
        let (rest, indirect) = cut(rest, INDIRECT);
        let (operations, other_names) = cut(rest, EXCEPTIONS);
        Self { operations, other_names, indirect, no_operations }
    }
}

/// The modules of [`HANDLERS`] and the [`CONNECTION_HANDLERS`] as paths below `crates`.
fn handlers(root: &Path) -> Result<BTreeSet<String>> {
    let mut handlers: BTreeSet<String> = CONNECTION_HANDLERS.map(str::to_owned).into();
    for folder in HANDLERS {
        for file in rust_files(&root.join("crates").join(folder))? {
            let path = file.strip_prefix(root.join("crates"))?;
            handlers.insert(path.to_string_lossy().into_owned());
        }
    }
    Ok(handlers)
}

/// The public methods of the file layer by their file, a path below `crates`.
fn layer_methods(root: &Path) -> Result<BTreeMap<String, Methods>> {
    let mut by_file = BTreeMap::new();
    for file in rust_files(&root.join("crates/files/src"))? {
        let mut methods = Methods::new();
        add_methods(&std::fs::read_to_string(&file)?, "impl ", "    pub ", &mut methods);
        methods.retain(|of, _| FILE_LAYER.contains(&of.as_str()));
        let path = file.strip_prefix(root.join("crates"))?;
        by_file.insert(path.to_string_lossy().into_owned(), methods);
    }
    Ok(by_file)
}

/// The public methods of the file layer, and those of every public trait of the backend.
fn methods(root: &Path) -> Result<Methods> {
    let mut methods = Methods::new();
    for (of, names) in layer_methods(root)?.into_values().flatten() {
        methods.entry(of).or_default().extend(names);
    }
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
            .map(|rest| rest.strip_prefix("const ").unwrap_or(rest))
            .and_then(|rest| rest.strip_prefix("async ").unwrap_or(rest).strip_prefix("fn "));
        if let Some(method) = method {
            methods.entry(of.clone()).or_default().insert(word(method));
        }
    }
}

/// Names that stand neither in a row nor among those that are no operation, and names of the latter
/// that are in a row or have no reason. A module's own folder holds its steps.
fn unlisted(page: &str, names: &BTreeSet<String>) -> Vec<String> {
    let PageSections { operations, no_operations, .. } = PageSections::of(page);
    let in_rows: BTreeSet<&str> =
        rows(operations).iter().flatten().flat_map(|cell| backticked(cell)).collect();
    let mut faults = Vec::new();
    let mut in_none = BTreeSet::new();
    for cells in rows(no_operations) {
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
    let PageSections { operations, other_names, .. } = PageSections::of(page);
    let exceptions = rows(other_names);
    let mut faults = Vec::new();
    let mut needed = BTreeSet::new();
    for cells in rows(operations) {
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

/// The handlers of each row of protocols, with its word.
fn handler_cells(page: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for cells in rows(PageSections::of(page).operations) {
        let Some(word) = backticked(cells[0]).next().filter(|_| cells.len() == PROTOCOL_CELLS)
        else {
            continue;
        };
        let handlers = HANDLER_COLUMNS.into_iter().flat_map(|column| backticked(cells[column]));
        found.extend(handlers.map(|file| (word, file)));
    }
    found
}

/// Handlers that call no operation of their row and are not excepted, and exceptions that are not
/// needed or have no reason. `sources` has the text of each handler.
fn without_call(page: &str, sources: &BTreeMap<String, String>) -> Vec<String> {
    let PageSections { operations, indirect, .. } = PageSections::of(page);
    let layers = rows(operations).into_iter().filter(|cells| cells.len() == LAYER_CELLS);
    let methods: BTreeMap<&str, Vec<&str>> = layers
        .filter_map(|cells| {
            let of_row = backticked(cells[OPERATION_COLUMN]).filter_map(|m| m.split_once("::"));
            let of_row = of_row.filter(|(of, _)| FILE_LAYER.contains(of)).map(|(_, name)| name);
            Some((backticked(cells[0]).next()?, of_row.collect()))
        })
        .collect();
    let mut needed = BTreeSet::new();
    for (word, file) in handler_cells(page) {
        let source = sources.get(file).map_or("", String::as_str);
        let mut of_row = methods.get(word).into_iter().flatten();
        if !of_row.any(|method| calls(source, method)) {
            needed.insert((word, file));
        }
    }
    let mut faults = Vec::new();
    let mut excepted = BTreeSet::new();
    for cells in rows(indirect) {
        let [word, files, reason] = cells[..] else { continue };
        for pair in backticked(word).flat_map(|word| backticked(files).map(move |f| (word, f))) {
            if reason.is_empty() || !needed.contains(&pair) {
                let (word, file) = pair;
                faults.push(format!(
                    "{file} calls an operation of row {word}, or is excepted without a reason"
                ));
            }
            excepted.insert(pair);
        }
    }
    let wrong = needed.difference(&excepted);
    faults.extend(wrong.map(|(word, file)| {
        format!("{file} calls no operation of row {word}; find the handler, or except it")
    }));
    faults
}

/// Operations of the file layer that none of the files of their row defines. `by_file` has the methods
/// of each file.
fn defined_elsewhere(page: &str, by_file: &BTreeMap<String, Methods>) -> Vec<String> {
    let mut faults = Vec::new();
    let all = rows(PageSections::of(page).operations).into_iter();
    for cells in all.filter(|cells| cells.len() == LAYER_CELLS) {
        let files: Vec<&str> = backticked(cells[LAYER_COLUMN]).collect();
        for operation in backticked(cells[OPERATION_COLUMN]) {
            let Some((of, name)) = operation.split_once("::") else { continue };
            let defines = |file: &str| {
                let methods = by_file.get(file).and_then(|methods| methods.get(of));
                methods.is_some_and(|names| names.contains(name))
            };
            if FILE_LAYER.contains(&of) && !files.iter().any(|file| defines(file)) {
                let place = by_file.keys().find(|file| defines(file)).map_or("", String::as_str);
                faults.push(format!("{operation} is defined in {place}, which its row lacks"));
            }
        }
    }
    faults
}

/// Whether code, tests and comments left out, calls a method of this name.
fn calls(source: &str, method: &str) -> bool {
    let code = source.lines().take_while(|line| !line.contains("mod tests {"));
    let mut code = code.filter(|line| !line.trim_start().starts_with("//"));
    code.any(|line| {
        line.match_indices(method).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + method.len()..]);
            let is_method = before.ends_with('.') || before.ends_with("::");
            is_method && (after.starts_with('(') || after.starts_with("::<"))
        })
    })
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
    fn handler_that_calls_no_operation_of_its_row_is_found() {
        let table = "| `seek` | `x/ioctl.rs` | `a/ranges.rs` | | `b/seek.rs` |\n\
                     | `seek` | `files/src/seek.rs` | `RequestFiles::seek_data` | `Node::look` |\n";
        let sources = |ranges: &str| -> BTreeMap<String, String> {
            let seek = "    run.files().seek_data(open)\n";
            let of = |(file, text): (&str, &str)| (file.to_owned(), text.to_owned());
            [("a/ranges.rs", ranges), ("b/seek.rs", seek)].map(of).into()
        };
        let without = [
            "    node.look()\n",
            "    // files.seek_data(open)\n",
            "    files.seek_data_of(open)\n",
            "    known.seek_data\n",
            "mod tests {\n    files.seek_data(open)\n",
        ];
        for ranges in without {
            let found = without_call(table, &sources(ranges));
            assert!(found.len() == 1 && found[0].starts_with("a/ranges.rs"), "{ranges}: {found:?}");
        }
        for ranges in ["    files.seek_data(open)\n", "    RequestFiles::seek_data(&files)\n"] {
            assert_eq!(without_call(table, &sources(ranges)), [""; 0], "{ranges}");
        }
        let excepted = format!("{table}{INDIRECT}\n\n| `seek` | `a/ranges.rs` | why |\n");
        assert_eq!(without_call(&excepted, &sources(without[0])), [""; 0]);
        let unneeded = without_call(&excepted, &sources("    files.seek_data(open)\n"));
        assert_eq!(unneeded.len(), 1, "an exception that is not needed");
        let no_reason = excepted.replace("why", "");
        assert_eq!(without_call(&no_reason, &sources(without[0])).len(), 1, "no reason");
    }

    #[test]
    fn operation_that_no_file_of_its_row_defines_is_found() {
        let files = ["files/src/lock.rs", "files/src/owner_lock.rs"];
        let page = |file: &str| format!("| `lock` | `{file}` | `Files::lock` | `Node::lock` |\n");
        let methods = |name: &str| [("Files".to_owned(), [name.to_owned()].into())].into();
        let by_file = [(files[0], methods("lock")), (files[1], methods("unlock"))];
        let by_file = by_file.map(|(file, methods)| (file.to_owned(), methods)).into();
        assert_eq!(defined_elsewhere(&page(files[0]), &by_file), [""; 0]);
        assert_eq!(
            defined_elsewhere(&page(files[1]), &by_file),
            ["Files::lock is defined in files/src/lock.rs, which its row lacks"]
        );
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
        let source = "impl Files {\n    pub const fn a() {}\n}\nimpl RequestFiles {\n    pub async fn b<T>() {\n        x\n    }\n    pub(crate) fn c() {}\n    fn d() {}\n}\nimpl Volume {\n    pub fn e() {}\n}\n";
        let mut found = Methods::new();
        add_methods(source, "impl ", "    pub ", &mut found);
        found.retain(|of, _| FILE_LAYER.contains(&of.as_str()));
        let source = "pub trait Mark: Send {}\npub trait Node: Send {\n    fn f(&self);\n    fn g(\n        &self,\n    );\n}\nimpl dyn Node {\n    pub fn h() {}\n}\n";
        add_methods(source, "pub trait ", "    ", &mut found);
        let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        let expected =
            [("Files", set(&["a"])), ("Node", set(&["f", "g"])), ("RequestFiles", set(&["b"]))];
        assert_eq!(found, expected.map(|(of, names)| (of.to_owned(), names)).into());
    }
}
