//! The pages in `docs/dev` and `benchmarks`: every file, method of the backend and link that they name exists.

use super::DIRECTION;
use anyhow::Result;
use std::path::{Path, PathBuf};

const PAGES: [&str; 2] = ["docs/dev", "benchmarks"];
/// The traits that `Vfs::name` and `Node::name` refer to.
const BACKEND: &str = "crates/vfs/src/lib.rs";

/// Adds a breach for each name that leads nowhere.
///
/// # Errors
/// A page cannot be read.
pub fn check(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let backend = std::fs::read_to_string(root.join(BACKEND))?;
    let mut all_pages = Vec::new();
    for folder in PAGES {
        all_pages.extend(pages(&root.join(folder))?);
    }
    for page in all_pages {
        let text = std::fs::read_to_string(&page)?;
        let shown = page.strip_prefix(root).unwrap_or(&page).display();
        let missing = missing_names(root, &backend, &text).into_iter();
        breaches.extend(missing.map(|name| format!("{shown}: {name} does not exist")));
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
        let method = name.strip_prefix("Vfs::").or(name.strip_prefix("Node::"));
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
}
