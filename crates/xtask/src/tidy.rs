//! The house rules that no compiler checks.

mod backend_calls;
mod backend_seam;
mod commits;
mod developer_pages;
mod links;
mod members;
mod operations;
mod promises;

use anyhow::Result;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Lines of one function; of one file, tests beside not counted.
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 1000;

/// Paths that only the listed crates may name, with the alternative for the others.
const PLACES: [(&str, &[&str], &str); 8] = [
    ("unsafe {", &["vfs-local", "lanes", "gss", "sockets"], "keep it in a backend"),
    (
        "tokio",
        &["server", "client", "copy", "cli"],
        "the runtime is the server's business; return a future",
    ),
    (
        "Instant::now",
        &["server", "client", "copy", "cli", "sim", "xtask", "fuzz"],
        "take the time as an argument",
    ),
    ("SystemTime::now", &["server", "cli", "xtask"], "take the time as an argument"),
    (
        "RequestContext::SERVER",
        &["files"],
        "a request has a context of its own; for work of the server's own: Files::for_server",
    ),
    ("getrandom", &["server", "cli"], "take random bytes as an argument"),
    ("env::var", &["server", "cli", "xtask", "fuzz"], "take it as an argument"),
    (
        "NtStatus",
        &["wire", "smb", "client", "copy", "cli", "sim", "fuzz"],
        "answer with FsError; smb/src/conversion/status.rs translates",
    ),
];

/// Words that declare thread-local or task-local state, by any path or attribute.
const THREAD_STATE_WORDS: [&str; 3] = ["thread_local", "task_local", "LocalKey"];

/// Files that may have thread-local state, with the reason why it decides nothing about a request.
const THREAD_STATE: [(&str, &str); 6] = [
    ("files/tests/slow_backend.rs", "a test's own"),
    ("meter/src/registry.rs", "counters"),
    ("meter/src/stage.rs", "time spans"),
    ("server/src/conn/spare.rs", "spare buffers"),
    ("sim/src/fibers.rs", "simulated threads"),
    ("vfs-local/src/identity.rs", "the kernel keeps credentials by thread"),
];

/// Crates of the workspace on which each crate may depend.
pub const DIRECTION: [(&str, &[&str]); 24] = [
    ("gss", &[]),
    ("discovery", &[]),
    ("sync", &[]),
    ("sockets", &["sync"]),
    ("acl", &[]),
    ("advise", &[]),
    ("lanes", &[]),
    ("limits", &["sync"]),
    ("meter", &["limits", "sync"]),
    ("wire", &["lanes", "sync"]),
    ("grants", &["acl"]),
    ("vfs", &["acl", "sync"]),
    ("vfs-cache", &["vfs", "sync"]),
    ("vfs-local", &["acl", "vfs", "sync"]),
    ("files", &["acl", "grants", "limits", "meter", "vfs", "sync"]),
    ("smb", &["wire", "files", "limits", "meter", "vfs", "sync"]),
    ("nfs", &["wire", "files", "limits", "meter", "vfs", "sync"]),
    (
        "server",
        &[
            "wire",
            "discovery",
            "files",
            "gss",
            "limits",
            "meter",
            "nfs",
            "smb",
            "sockets",
            "vfs",
            "vfs-cache",
            "vfs-local",
            "sync",
        ],
    ),
    ("client", &["sockets", "wire", "sync"]),
    ("copy", &["client", "wire", "sync"]),
    ("cli", &["advise", "client", "copy", "gss", "server", "wire"]),
    ("sim", &["wire", "files", "meter", "nfs", "smb", "vfs", "vfs-cache", "sync"]),
    (
        "fuzz",
        &[
            "acl",
            "client",
            "discovery",
            "files",
            "meter",
            "nfs",
            "smb",
            "vfs",
            "vfs-local",
            "wire",
            "sync",
        ],
    ),
    ("xtask", &["wire", "sync"]),
];

/// Reports every breach.
pub fn run(root: &Path) -> Result<ExitCode> {
    let mut notes = Vec::new();
    let breaches = check(root, &mut notes)?;
    notes.iter().for_each(|note| println!("tidy: {note}"));
    breaches.iter().for_each(|b| eprintln!("{b}"));
    println!("tidy: {} breaches", breaches.len());
    Ok(if breaches.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All tests, as `crate::name`.
pub fn tests(root: &Path) -> Result<HashSet<String>> {
    let mut tests = HashSet::new();
    for (name, _) in DIRECTION {
        for file in rust_files(&root.join("crates").join(name))? {
            collect_tests(name, &std::fs::read_to_string(&file)?, &mut tests);
        }
    }
    Ok(tests)
}

/// Returns the breaches; adds to `notes` what was not checked, and why.
fn check(root: &Path, notes: &mut Vec<String>) -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    let mut tests = HashSet::new();
    for (name, allowed) in DIRECTION {
        let folder = root.join("crates").join(name);
        check_manifest(&folder, name, allowed, &mut breaches)?;
        for file in rust_files(&folder)? {
            let text = std::fs::read_to_string(&file)?;
            check_file(name, &file, &text, &mut breaches);
            backend_seam::check(file.strip_prefix(root.join("crates"))?, &text, &mut breaches);
            collect_tests(name, &text, &mut tests);
        }
    }
    backend_calls::check(root, &mut breaches)?;
    crate::language::check(root, &mut breaches)?;
    check_documents(root, &tests, &mut breaches)?;
    promises::check(root, &tests, &mut breaches)?;
    developer_pages::check(root, &mut breaches)?;
    operations::check(root, &mut breaches)?;
    links::check(root, &mut breaches)?;
    crate::charts::check(root, &mut breaches)?;
    notes.extend(commits::check(root, &crate::language::commits_since(root)?, &mut breaches));
    Ok(breaches)
}

fn check_manifest(
    folder: &Path,
    name: &str,
    allowed: &[&str],
    breaches: &mut Vec<String>,
) -> Result<()> {
    let text = std::fs::read_to_string(folder.join("Cargo.toml"))?;
    let manifest: toml::Table = toml::from_str(&text)?;
    let dependencies = manifest.get("dependencies").and_then(|d| d.as_table());
    for dependency in dependencies.into_iter().flat_map(|d| d.keys()) {
        let ours = DIRECTION.iter().any(|(n, _)| n == dependency);
        if ours && !allowed.contains(&dependency.as_str()) {
            breaches.push(format!("{name} must not depend on {dependency}"));
        }
    }
    Ok(())
}

pub fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn check_file(name: &str, file: &Path, text: &str, breaches: &mut Vec<String>) {
    let shown = file.display();
    if !text.starts_with("//!") {
        breaches.push(format!("{shown}: the first line says what the module owns, in //!"));
    }
    let code: Vec<&str> = text.lines().take_while(|l| !l.contains("mod tests {")).collect();
    if code.len() > FILE_LINES_MAX {
        breaches.push(format!("{shown}: {} lines; at most {FILE_LINES_MAX}", code.len()));
    }
    check_functions(&code, &shown.to_string(), breaches);
    if let Some(line) = text.lines().position(is_broken_heading) {
        breaches
            .push(format!("{shown}:{}: the text of a heading begins on its own line", line + 1));
    }
    if name == "xtask" {
        return;
    }
    let is_listed = THREAD_STATE.iter().any(|(listed, _)| file.ends_with(listed));
    // Thread-local state is a breach in unit tests, too, so the whole file is searched.
    if let Some(line) = text.lines().position(declares_thread_state).filter(|_| !is_listed) {
        let line = line + 1;
        breaches.push(format!("{shown}:{line}: state of a thread: pass it as an argument"));
    }
    // A test may read the clock: its simulated time begins somewhere.
    let is_test = file.components().any(|part| part.as_os_str() == "tests");
    for (word, places, instead) in
        PLACES.into_iter().filter(|p| !is_test || !p.0.ends_with("::now"))
    {
        let line = code.iter().position(|l| l.contains(word) && !l.trim_start().starts_with("//"));
        if let Some(line) = line.filter(|_| !places.contains(&name)) {
            breaches.push(format!("{shown}:{}: {word}: {instead}", line + 1));
        }
    }
}

/// A heading of a documentation comment that a careless wrap has joined with its text.
fn is_broken_heading(line: &str) -> bool {
    let text = line.trim_start();
    let comment = text.strip_prefix("///").or(text.strip_prefix("//!"));
    comment.is_some_and(|text| {
        [" # Errors ", " # Panics ", " # Safety "].iter().any(|heading| text.starts_with(heading))
    })
}

fn declares_thread_state(line: &str) -> bool {
    let is_comment = line.trim_start().starts_with("//");
    !is_comment && THREAD_STATE_WORDS.iter().any(|word| line.contains(word))
}

/// Functions by indentation, as rustfmt leaves them.
fn check_functions(code: &[&str], shown: &str, breaches: &mut Vec<String>) {
    let mut start: Option<(usize, usize)> = None;
    for (at, line) in code.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let trimmed = line.trim_start();
        let is_fn = [
            "fn ",
            "pub fn ",
            "async fn ",
            "pub async fn ",
            "pub(crate) fn ",
            "pub(super) fn ",
            "pub(crate) async fn ",
        ]
        .iter()
        .any(|p| trimmed.starts_with(p));
        if is_fn && start.is_none() && !trimmed.ends_with(';') {
            start = Some((at, indent));
        }
        // The end of a declaration without a body, in a trait.
        if start.is_some_and(|(_, fn_indent)| trimmed.ends_with(';') && indent == fn_indent) {
            start = None;
        }
        if let Some((from, fn_indent)) = start
            && (trimmed == "}" || trimmed.ends_with("{}"))
            && indent == fn_indent
        {
            if at - from + 1 > FUNCTION_LINES_MAX {
                breaches.push(format!(
                    "{shown}:{}: a function of {} lines",
                    from + 1,
                    at - from + 1
                ));
            }
            start = None;
        }
    }
}

/// Functions with the attribute of a test; other functions of the same name prove nothing.
fn collect_tests(name: &str, text: &str, tests: &mut HashSet<String>) {
    let mut is_test = false;
    for line in text.lines() {
        let trimmed = line.trim_start();
        is_test |= trimmed.starts_with("#[test]") || trimmed.starts_with("#[tokio::test");
        if let Some(rest) = trimmed.strip_prefix("fn ").or(trimmed.strip_prefix("async fn ")) {
            let function: String =
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if std::mem::take(&mut is_test) {
                tests.insert(format!("{name}::{function}"));
            }
        }
    }
}

fn check_documents(root: &Path, tests: &HashSet<String>, breaches: &mut Vec<String>) -> Result<()> {
    for name in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SEMANTICS.md", "BENCHMARKS.md"] {
        let text = std::fs::read_to_string(root.join(name)).unwrap_or_default();
        if text.is_empty() {
            breaches.push(format!("{name} is missing"));
        }
    }
    let contributing = std::fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap_or_default();
    let lost = lost_tests(&contributing, tests).into_iter();
    breaches.extend(lost.map(|name| format!("CONTRIBUTING.md: there is no test {name}")));
    let changes = std::fs::read_to_string(root.join("CHANGELOG.md")).unwrap_or_default();
    breaches.extend(changelog_breaches(&changes));
    Ok(())
}

/// Tests to which a document refers as `crate::name` in backticks, but which do not exist.
fn lost_tests<'a>(text: &'a str, tests: &HashSet<String>) -> Vec<&'a str> {
    let names = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_test = |name: &&str| {
        name.split_once("::").is_some_and(|(of, _)| DIRECTION.iter().any(|(n, _)| *n == of))
    };
    names.filter(is_test).filter(|name| !tests.contains(*name)).collect()
}

/// Groups of a release's changes, in their order.
const CHANGE_GROUPS: [&str; 4] = ["Security", "Added", "Changed", "Fixed"];

/// A release begins with `## `, has its groups in order and one line for each entry; entries of
/// security carry the word, so that a search finds them.
fn changelog_breaches(text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    if !text.contains("\n## Unreleased\n") {
        breaches.push("CHANGELOG.md: begins with \"## Unreleased\"".to_owned());
    }
    let mut group = None;
    let mut entries = HashSet::new();
    let releases = text.lines().enumerate().skip_while(|(_, line)| !line.starts_with("## "));
    for (at, line) in releases.filter(|(_, line)| !line.is_empty()) {
        let fault = if line.starts_with("## ") {
            group = None;
            None
        } else if let Some(name) = line.strip_prefix("### ") {
            let next = CHANGE_GROUPS.iter().position(|known| *known == name);
            let is_in_order = next.is_some() && next > group;
            group = next;
            (!is_in_order).then_some("groups are Security, Added, Changed, Fixed, in this order")
        } else if !line.starts_with("- ") || group.is_none() {
            Some("an entry of a group is one line that begins with \"- \"")
        } else if line.starts_with("- Security: ") != (group == Some(0)) {
            Some("entries of the group Security, and no others, begin with \"Security: \"")
        } else {
            (!entries.insert(line)).then_some("this entry stands there twice")
        };
        breaches.extend(fault.map(|fault| format!("CHANGELOG.md:{}: {fault}", at + 1)));
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_tree_has_no_tidy_breaches() {
        let breaches = check(&crate::root(), &mut Vec::new()).unwrap();
        assert!(breaches.is_empty(), "{breaches:#?}");
    }

    #[test]
    fn long_functions_and_misplaced_words_are_found() {
        let body = "    x();\n".repeat(80);
        let text =
            format!("//! A file.\nfn long() {{\n{body}}}\nfn now() {{\n    Instant::now();\n}}\n");
        let mut breaches = Vec::new();
        check_file("wire", Path::new("x.rs"), &text, &mut breaches);
        assert_eq!(breaches.len(), 2, "{breaches:?}");
    }

    #[test]
    fn thread_state_outside_its_list_is_found() {
        let declarations = [
            "thread_local! {\n    static WHO: u32 = 0;\n}",
            "std::thread_local! {\n    static WHO: u32 = 0;\n}",
            "fn f() { ::std::thread_local!(static WHO: u32 = 0); }",
            "#[thread_local]\nstatic WHO: u32 = 0;",
            "use std::thread_local as of_thread;",
            "task_local! {\n    static WHO: u32;\n}",
            "static WHO: std::thread::LocalKey<u32> = made();",
            "#[cfg(test)]\nmod tests {\n    thread_local!(static WHO: u32 = 0);\n}",
        ];
        for declaration in declarations {
            let text = format!("//! A file.\n{declaration}\n");
            for (file, count) in [("crates/nfs/src/x.rs", 1), ("crates/meter/src/stage.rs", 0)] {
                let mut breaches = Vec::new();
                check_file("nfs", Path::new(file), &text, &mut breaches);
                assert_eq!(breaches.len(), count, "{declaration}: {breaches:?}");
            }
        }
        let mut breaches = Vec::new();
        let comment = "//! A file.\n    // No thread_local! here.\n";
        check_file("nfs", Path::new("crates/nfs/src/x.rs"), comment, &mut breaches);
        assert_eq!(breaches, [""; 0]);
    }

    #[test]
    fn heading_joined_with_its_text_is_found() {
        let text = "//! A file.\n/// Reads.\n///\n/// # Errors None.\nfn f() {}\n";
        let mut breaches = Vec::new();
        check_file("wire", Path::new("x.rs"), text, &mut breaches);
        assert_eq!(breaches.len(), 1, "{breaches:?}");
        let mut breaches = Vec::new();
        let text = text.replace("Errors ", "Errors\n/// ");
        check_file("wire", Path::new("x.rs"), &text, &mut breaches);
        assert_eq!(breaches, [""; 0]);
    }

    #[test]
    fn each_fault_of_the_changelog_is_found() {
        let text =
            "# Changelog\n\n## Unreleased\n\n### Security\n\n- Security: a\n\n### Fixed\n\n- b\n";
        assert_eq!(changelog_breaches(text), [""; 0]);
        let edits = [
            ("## Unreleased", "## 1.0"),
            ("### Fixed", "### Before"),
            ("### Security", "### Fixed"),
            ("- Security: a", "- a"),
            ("- b", "- b\n  and more"),
            ("- b", "- Security: b"),
            ("- b", "- b\n- b"),
            ("### Fixed\n", ""),
        ];
        for (before, after) in edits {
            assert!(text.contains(before), "{before}");
            let found = changelog_breaches(&text.replacen(before, after, 1));
            assert!(!found.is_empty(), "{before} as {after}");
        }
    }

    #[test]
    fn document_that_refers_to_no_test_is_found() {
        let tests = HashSet::from(["smb::here".to_owned()]);
        let text = "`smb::here`, `smb::gone`, `smb/src/lib.rs`, `Node::read`";
        assert_eq!(lost_tests(text, &tests), ["smb::gone"]);
    }

    #[test]
    fn only_functions_with_the_attribute_are_tests() {
        let text = "#[test]\nfn one() {}\nfn helper() {}\n    #[test]\n    #[ignore = \"slow\"]\n    \
                    async fn two() {}\n#[tokio::test(flavor = \"current_thread\")]\nfn three() {}\n";
        let mut tests = HashSet::new();
        collect_tests("files", text, &mut tests);
        let expected = ["files::one", "files::two", "files::three"];
        assert_eq!(tests, HashSet::from(expected.map(str::to_owned)));
    }
}
