//! How far the modules of a crate can be read apart: files that import each other in circles, and the
//! size of each trait.

use std::collections::{BTreeMap, BTreeSet};

/// Methods of a trait from which it is listed.
pub const LARGE_TRAIT: usize = 20;

/// The source files of one crate below `src`, by module path: `["open", "create"]`.
#[derive(Debug, Default)]
pub struct Modules {
    imports: BTreeMap<Vec<String>, BTreeSet<Vec<String>>>,
    sources: BTreeMap<Vec<String>, String>,
}

impl Modules {
    /// Adds a file by its path below `src`, with `/` between folders.
    pub fn add(&mut self, path: &str, source: &str) {
        self.sources.insert(module_path(path), source.to_owned());
    }

    /// Files, and those of them that are in a circle of imports. A parent that declares its modules and
    /// a module that uses its parent's items are a circle, too.
    pub fn circles(&mut self) -> (usize, usize) {
        let imports: BTreeMap<_, _> = self
            .sources
            .iter()
            .map(|(module, source)| (module.clone(), self.imported(module, source)))
            .collect();
        self.imports = imports;
        let in_circle = self.sources.keys().filter(|m| self.reachable(m).contains(*m)).count();
        (self.sources.len(), in_circle)
    }

    /// The modules that a source names after `crate::` or `super::`.
    fn imported(&self, module: &[String], source: &str) -> BTreeSet<Vec<String>> {
        let code: Vec<&str> = source
            .lines()
            .take_while(|line| !line.contains("mod tests {"))
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        let code = code.join("\n");
        let mut found = BTreeSet::new();
        let parent = &module[..module.len().saturating_sub(1)];
        for (root, base) in [("crate::", &[][..]), ("super::", parent)] {
            for (at, _) in code.match_indices(root) {
                let is_word = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == ':');
                if !is_word {
                    paths_in(&code[at + root.len()..], base, &mut |path| {
                        found.extend(self.file_of(path));
                    });
                }
            }
        }
        found.remove(module);
        found
    }

    /// The file of the longest prefix of `path` that is a module.
    fn file_of(&self, path: &[String]) -> Option<Vec<String>> {
        (1..=path.len())
            .rev()
            .map(|n| &path[..n])
            .find_map(|prefix| self.sources.contains_key(prefix).then(|| prefix.to_vec()))
    }

    fn reachable(&self, from: &[String]) -> BTreeSet<Vec<String>> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&Vec<String>> = self.imports.get(from).into_iter().flatten().collect();
        while let Some(module) = next.pop() {
            if reached.insert(module.clone()) {
                next.extend(self.imports.get(module).into_iter().flatten());
            }
        }
        reached
    }
}

fn module_path(path: &str) -> Vec<String> {
    let mut parts: Vec<String> =
        path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// Calls `each` for the path, or for each path of the list in braces, that `text` begins with.
fn paths_in(text: &str, base: &[String], each: &mut dyn FnMut(&[String])) {
    if let Some(list) = text.strip_prefix('{') {
        let mut depth = 0;
        let mut start = 0;
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                ',' if depth == 0 => {
                    paths_in(list[start..at].trim_start(), base, each);
                    start = at + 1;
                }
                '}' if depth == 0 => return paths_in(list[start..at].trim_start(), base, each),
                '}' => depth -= 1,
                _ => {}
            }
        }
        return;
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let mut path = base.to_vec();
    if word == "super" {
        path.pop();
    } else if !word.is_empty() {
        path.push(word.to_owned());
    }
    match rest.strip_prefix("::") {
        Some(rest) if !word.is_empty() => paths_in(rest, &path, each),
        _ => each(&path),
    }
}

/// Each trait of a source with its number of methods.
pub fn traits(source: &str) -> Vec<(String, usize)> {
    let mut traits: Vec<(String, usize)> = Vec::new();
    let mut is_open = false;
    for line in source.lines() {
        let item = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        if let Some(rest) = item.strip_prefix("trait ") {
            let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            traits.push((rest[..end].to_owned(), 0));
            is_open = true;
        }
        is_open &= line != "}";
        let is_method = line.starts_with("    fn ") || line.starts_with("    async fn ");
        if let Some((_, methods)) = traits.last_mut().filter(|_| is_open && is_method) {
            *methods += 1;
        }
    }
    traits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let mut modules = Modules::default();
        modules.add("lib.rs", "mod a;\nmod b;\nmod c;");
        modules.add("a.rs", "use crate::b::{B, other};\n");
        modules.add("b/mod.rs", "use crate::{c::C, d};\n");
        modules.add("c.rs", "use crate::a::A;\n");
        modules.add("b/deep.rs", "use super::B;\n// crate::a is not used.\n");
        assert_eq!(modules.circles(), (5, 3));
    }

    #[test]
    fn nested_list_of_imports_gives_each_path() {
        let mut paths = Vec::new();
        paths_in("{a::{B, c::D}, e}", &[], &mut |path| paths.push(path.join("::")));
        assert_eq!(paths, ["a::B", "a::c::D", "e"]);
    }

    #[test]
    fn methods_of_each_trait_are_counted() {
        let source = "pub trait One {\n    fn a();\n    fn b() {\n        x();\n    }\n}\nfn free() {}\ntrait Two {\n}\n";
        assert_eq!(traits(source), [("One".into(), 2), ("Two".into(), 0)]);
    }
}
