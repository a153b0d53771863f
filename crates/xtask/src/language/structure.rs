//! How far the modules of a crate can be read apart: files that import each other in circles, and the
//! size of each trait.

use std::collections::{BTreeMap, BTreeSet};

/// Steps from a published name to its owner.
const PUBLISHED_DEPTH_MAX: usize = 8;

/// Methods of a trait from which it is listed.
pub const LARGE_TRAIT: usize = 20;

/// The source files of one crate below `src`, by module path: `["open", "create"]`.
#[derive(Debug, Default)]
pub struct Modules {
    files: BTreeMap<Vec<String>, String>,
    sources: BTreeMap<Vec<String>, String>,
    /// Names of other modules that a module publishes, with their paths.
    published: BTreeMap<Vec<String>, BTreeMap<String, Vec<String>>>,
    imports: BTreeMap<Vec<String>, BTreeSet<Vec<String>>>,
}

/// A file in a circle of imports, with the files of its circle that it imports.
#[derive(Debug, PartialEq, Eq)]
pub struct CircularFile {
    pub file: String,
    pub imports: Vec<String>,
}

impl Modules {
    /// Adds a file by its path below `src`, with `/` between folders.
    pub fn add(&mut self, path: &str, source: &str) {
        self.files.insert(module_path(path), path.to_owned());
        self.sources.insert(module_path(path), code_of(source));
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// The files that are in a circle of imports. An import of a published name (`pub use`) counts as
    /// one of its owner, so that a facade hides no circle. A parent's use of its own modules by
    /// relative paths does not count.
    pub fn circles(&mut self) -> Vec<CircularFile> {
        self.published =
            self.sources.iter().map(|(of, code)| (of.clone(), published(of, code))).collect();
        let imports: BTreeMap<_, _> =
            self.sources.iter().map(|(of, code)| (of.clone(), self.imported(of, code))).collect();
        self.imports = imports;
        let reached: BTreeMap<_, _> = self.files.keys().map(|m| (m, self.reachable(m))).collect();
        let mut circular = Vec::new();
        for (module, file) in
            self.files.iter().filter(|(module, _)| reached[module].contains(*module))
        {
            let of_circle =
                self.imports[module].iter().filter(|other| reached[other].contains(module));
            let imports = of_circle.map(|other| self.files[other].clone()).collect();
            circular.push(CircularFile { file: file.clone(), imports });
        }
        circular
    }

    /// The modules that a source names after `crate::` or `super::`.
    fn imported(&self, module: &[String], code: &str) -> BTreeSet<Vec<String>> {
        let mut found = BTreeSet::new();
        let parent = &module[..module.len().saturating_sub(1)];
        for (root, base) in [("crate::", &[][..]), ("super::", parent)] {
            for (at, _) in code.match_indices(root) {
                let is_word = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == ':');
                if !is_word {
                    paths_in(&code[at + root.len()..], base, &mut |path| {
                        found.extend(self.file_of(path, PUBLISHED_DEPTH_MAX));
                    });
                }
            }
        }
        found.remove(module);
        found
    }

    /// The file of the longest prefix of `path` that is a module, or of the owner of the name that
    /// this module publishes.
    fn file_of(&self, path: &[String], depth_max: usize) -> Option<Vec<String>> {
        let known = |n: &usize| self.sources.contains_key(&path[..*n]);
        let length = (0..=path.len()).rev().find(known)?;
        let module = &path[..length];
        let owner = path.get(length).and_then(|name| self.published.get(module)?.get(name));
        match owner {
            Some(owner) if depth_max > 0 => self.file_of(owner, depth_max - 1),
            _ => (length > 0).then(|| module.to_vec()),
        }
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

/// A source without its comments and its tests.
fn code_of(source: &str) -> String {
    let code = source.lines().take_while(|line| !line.contains("mod tests {"));
    let code: Vec<&str> = code.filter(|line| !line.trim_start().starts_with("//")).collect();
    code.join("\n")
}

/// The names of other modules that a module publishes by `pub use` or `pub(crate) use`.
fn published(module: &[String], code: &str) -> BTreeMap<String, Vec<String>> {
    let mut names = BTreeMap::new();
    let starts = code.match_indices("use ").filter_map(|(at, word)| {
        let line = code[..at].rsplit('\n').next().unwrap_or_default();
        line.starts_with("pub").then_some(at + word.len())
    });
    let parent = &module[..module.len().saturating_sub(1)];
    for start in starts {
        let path = &code[start..];
        let (path, base) = match (path.strip_prefix("crate::"), path.strip_prefix("super::")) {
            (Some(path), _) => (path, &[][..]),
            (_, Some(path)) => (path, parent),
            _ => (path.strip_prefix("self::").unwrap_or(path), module),
        };
        paths_in(path, base, &mut |path| {
            let path = if path.last().is_some_and(|l| l == "self") {
                &path[..path.len() - 1]
            } else {
                path
            };
            if let Some(name) = path.last() {
                names.insert(name.clone(), path.to_vec());
            }
        });
    }
    names
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
        let circle = |file: &str, import: &str| CircularFile {
            file: file.to_owned(),
            imports: vec![import.to_owned()],
        };
        let circles =
            [circle("a.rs", "b/mod.rs"), circle("b/mod.rs", "c.rs"), circle("c.rs", "a.rs")];
        assert_eq!((modules.len(), modules.circles()), (5, circles.into()));
    }

    #[test]
    fn facade_of_published_names_hides_no_circle() {
        let mut modules = Modules::default();
        modules.add("lib.rs", "mod a;\nmod b;\npub use a::{A, self};\npub use b::inner::B;\n");
        modules.add("a.rs", "use crate::b::B;\n");
        modules.add("b/mod.rs", "pub mod inner;\npub(crate) use inner::B;\n");
        modules.add("b/inner.rs", "use crate::A;\n");
        let files: Vec<_> = modules.circles().into_iter().map(|found| found.file).collect();
        assert_eq!(files, ["a.rs", "b/inner.rs"]);
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
