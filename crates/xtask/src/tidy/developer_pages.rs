//! The pages in `docs/dev` and `benchmarks`: every file and method that they name exists.

use super::DIRECTION;
use super::operations::{self, Methods};
use anyhow::Result;
use std::path::{Path, PathBuf};

const PAGES: [&str; 2] = ["docs/dev", "benchmarks"];

/// Adds a breach for each name that leads nowhere.
///
/// # Errors
/// A page cannot be read.
pub fn check(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let methods = operations::methods(root)?;
    let mut all_pages = Vec::new();
    for folder in PAGES {
        all_pages.extend(pages(&root.join(folder))?);
    }
    for page in all_pages {
        let text = std::fs::read_to_string(&page)?;
        let shown = page.strip_prefix(root).unwrap_or(&page).display();
        let missing = missing_names(root, &methods, &text).into_iter();
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

/// Paths below a crate, and methods of the file layer and the backend's traits, in backticks.
fn missing_names(root: &Path, methods: &Methods, text: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for name in text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)) {
        let is_in_crate = DIRECTION.iter().any(|(crate_name, _)| {
            name.strip_prefix(crate_name).is_some_and(|rest| rest.starts_with("/"))
        });
        let is_path = is_in_crate && !name.contains(' ') && !name.contains("NAME");
        let exists = |folder: &str| root.join(folder).join(name).exists();
        let is_missing_path = is_path && !exists("crates") && !exists("");
        let method = name.split_once("::").and_then(|(of, name)| Some((methods.get(of)?, name)));
        if is_missing_path || method.is_some_and(|(known, name)| !known.contains(name)) {
            missing.push(name.to_owned());
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_leads_nowhere_is_found() {
        let text =
            "`vfs/src/lib.rs`, `vfs/src/gone.rs`, `Node::read`, `Vfs::gone`, `vfs/src/NAME.rs`";
        let known = |name: &str| [name.to_owned()].into();
        let methods = [("Node".to_owned(), known("read")), ("Vfs".to_owned(), known("open"))];
        let missing = missing_names(&crate::root(), &methods.into(), text);
        assert_eq!(missing, ["vfs/src/gone.rs", "Vfs::gone"]);
    }
}
