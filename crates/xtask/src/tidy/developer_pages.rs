//! The pages in `docs/dev` and `benchmarks`: every file, type and member that they name
//! exists.

use super::members::{self, Members};
use super::{DIRECTION, rust_files};
use anyhow::Result;
use std::path::{Path, PathBuf};

const PAGES: [&str; 2] = ["docs/dev", "benchmarks"];

/// Adds a breach for each name that leads nowhere.
///
/// # Errors
/// A page cannot be read.
pub fn check(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let names = CodeNames { members: members::all(root)?, sources: sources(root)? };
    let mut all_pages = Vec::new();
    for folder in PAGES {
        all_pages.extend(pages(&root.join(folder))?);
    }
    for page in all_pages {
        let text = std::fs::read_to_string(&page)?;
        let shown = page.strip_prefix(root).unwrap_or(&page).display();
        let missing = missing_names(root, &names, &text).into_iter();
        breaches.extend(missing.map(|name| format!("{shown}: {name} does not exist")));
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

/// The names that a page may refer to.
#[derive(Debug)]
struct CodeNames {
    members: Members,
    /// Source files as paths below the root, each with a leading slash.
    sources: Vec<String>,
}

fn sources(root: &Path) -> Result<Vec<String>> {
    let files = rust_files(&root.join("crates"))?.into_iter();
    Ok(files.map(|f| format!("/{}", f.strip_prefix(root).unwrap_or(&f).display())).collect())
}

/// Names in backticks that lead nowhere: paths below a crate, ends of paths of source files, and
/// `Type::name`.
fn missing_names(root: &Path, names: &CodeNames, text: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for name in text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)) {
        let is_in_crate = DIRECTION.iter().any(|(crate_name, _)| {
            name.strip_prefix(crate_name).is_some_and(|rest| rest.starts_with("/"))
        });
        let is_path = !name.contains(' ') && !name.contains("NAME");
        let exists = |folder: &str| root.join(folder).join(name).exists();
        let is_missing_path = is_path && is_in_crate && !exists("crates") && !exists("");
        let is_missing_source = is_path
            && !is_in_crate
            && name.ends_with(".rs")
            && !names.sources.iter().any(|file| file.ends_with(&format!("/{name}")));
        if is_missing_path || is_missing_source || !has_member(&names.members, name) {
            missing.push(name.to_owned());
        }
    }
    missing
}

/// Whether `Type::name` is a member of a type of the workspace. Any other text has no member to
/// miss.
fn has_member(members: &Members, name: &str) -> bool {
    let mut parts = name.rsplit("::");
    let (Some(member), Some(of)) = (parts.next(), parts.next()) else { return true };
    let is_word = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c == '_');
    let member = member.split(['(', '<']).next().unwrap_or(member);
    let is_type = of.starts_with(|c: char| c.is_ascii_uppercase());
    if !is_type || !is_word(of) || !is_word(member) {
        return true;
    }
    members.get(of).is_some_and(|known| known.contains(member))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_leads_nowhere_is_found() {
        let text = "`vfs/src/lib.rs`, `vfs/src/gone.rs`, `Node::read`, `Vfs::gone`, `vfs/src/NAME.rs`, \
                    `vfs::Node::read(…)`, `Gone::read`, `vfs::path`, `Type::name of it`, `lib.rs`, \
                    `tidy/members.rs`, `gone.rs`, `tidy/lib.rs`";
        let known = |name: &str| [name.to_owned()].into();
        let members = [("Node".to_owned(), known("read")), ("Vfs".to_owned(), known("open"))];
        let root = crate::root();
        let names = CodeNames { members: members.into(), sources: sources(&root).unwrap() };
        let missing = missing_names(&root, &names, text);
        let expected = ["vfs/src/gone.rs", "Vfs::gone", "Gone::read", "gone.rs", "tidy/lib.rs"];
        assert_eq!(missing, expected);
    }
}
