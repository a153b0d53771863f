//! Links between documents: each leads to a file, and its `#anchor` to a heading of that file.

use anyhow::Result;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Folders below the root whose documents have links; those of the root itself do, too.
const FOLDERS: [&str; 4] = ["benchmarks", "conformance", "deploy", "docs"];
/// Folders that a lane fills with the work of others.
const FOREIGN: [&str; 2] = ["node_modules", "target"];

/// Adds a breach for each link that leads nowhere.
///
/// # Errors
/// A document cannot be read.
pub fn check(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    // Targets are compared with the documents' paths, so both are without `..`.
    let root = &normal(root);
    let documents = documents(root)?;
    let anchors: BTreeMap<&Path, HashSet<String>> =
        documents.iter().map(|(path, text)| (path.as_path(), anchors(text))).collect();
    for (path, text) in &documents {
        let folder = path.parent().unwrap_or(root);
        for target in targets(text) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let leads_to = if file.is_empty() { path.clone() } else { normal(&folder.join(file)) };
            let is_lost = match anchors.get(leads_to.as_path()) {
                Some(known) => !anchor.is_empty() && !known.contains(anchor),
                None => !leads_to.exists(),
            };
            if is_lost {
                let shown = path.strip_prefix(root).unwrap_or(path).display();
                breaches.push(format!("{shown}: the link {target} leads nowhere"));
            }
        }
    }
    Ok(())
}

/// Documents at the root and below [`FOLDERS`], by their path.
fn documents(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut documents = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let is_foreign = FOREIGN.iter().any(|name| path.ends_with(name));
            let is_among = FOLDERS.iter().any(|name| path.starts_with(root.join(name)));
            if path.is_dir() && is_among && !is_foreign {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                let text = std::fs::read_to_string(&path)?;
                documents.push((path, text));
            }
        }
    }
    documents.sort();
    Ok(documents)
}

/// A path without `..`, whether it exists or not.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

/// Targets of links within the tree, outside of blocks of code.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let links = prose(text).flat_map(|line| line.split("](").skip(1));
    let targets = links.filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

/// The anchors of a document; a heading that stands there again has a number, as on GitHub.
fn anchors(text: &str) -> HashSet<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut anchors = HashSet::new();
    for (_, anchor) in headings(text) {
        let count = counts.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// The level and the anchor of each heading.
pub fn headings(text: &str) -> impl Iterator<Item = (usize, String)> {
    let levels = prose(text).map(|line| (line.chars().take_while(|c| *c == '#').count(), line));
    let headings = levels.filter(|(level, line)| *level > 0 && line[*level..].starts_with(' '));
    headings.map(|(level, line)| (level, anchor(&line[level..])))
}

/// Lines outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The anchor that GitHub derives from a heading.
fn anchor(heading: &str) -> String {
    let text =
        heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    text.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_without_its_file_or_heading_is_found() {
        let folder = std::env::temp_dir().join(format!("links-{}", std::process::id()));
        // The form in which the tree's root is known.
        let root = folder.join("crates/..");
        std::fs::create_dir_all(folder.join("crates")).unwrap();
        let put = |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("A.md", "# Title\n\n## One, two\n\n```\n## Code\n```\n## One, two\n");
        let good = "[a](../A.md#one-two) [b](../A.md#one-two-1) [c](#own) [d](https://x.example/#y)\n\n## Own\n";
        put("docs/b.md", good);
        put("conformance/browser/node_modules/x/README.md", "[a](elsewhere)\n");
        let mut breaches = Vec::new();
        check(&root, &mut breaches).unwrap();
        assert_eq!(breaches, [""; 0]);
        for bad in ["../A.md#two", "../A.md#code", "../A.md#one-two-2", "#title", "gone.md"] {
            put("docs/b.md", &format!("{good}[e]({bad})\n"));
            let mut breaches = Vec::new();
            check(&root, &mut breaches).unwrap();
            assert_eq!(breaches, [format!("docs/b.md: the link {bad} leads nowhere")]);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
