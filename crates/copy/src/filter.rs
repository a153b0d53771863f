//! Selects the files to copy by include and exclude globs, by size and by time.

use crate::item::{CopyItem, ItemKind};

/// Include and exclude patterns; without any, every file is copied.
///
/// `*` matches any characters within a name and `**` any number of names. `?` matches one
/// character, `[a-z]` and `[!a-z]` one of a set. A pattern with a `/` is compared with the whole
/// path, a pattern without one with each name. Matching is case-sensitive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Patterns of files to copy; an empty list selects all files.
    pub include: Vec<String>,
    /// Patterns of files and whole directories to skip; they take precedence over `include`.
    pub exclude: Vec<String>,
    /// Smallest and largest size of a file in bytes.
    pub bytes: (Option<u64>, Option<u64>),
    /// Earliest and latest last write time of a file, in nanoseconds since 1970.
    pub written: (Option<i128>, Option<i128>),
}

impl Filter {
    /// Whether files of a directory that is taken may be excluded.
    #[must_use]
    pub fn is_selective(&self) -> bool {
        !self.include.is_empty() || self.bytes != (None, None) || self.written != (None, None)
    }

    /// Whether the copy descends into a directory.
    #[must_use]
    pub fn takes_directory(&self, path: &str) -> bool {
        !self.exclude.iter().any(|pattern| names(pattern, path))
    }

    /// Whether an entry is copied, by its path, size and time; the caller has already checked its
    /// directories.
    #[must_use]
    pub fn takes(&self, path: &str, item: &CopyItem) -> bool {
        match item.kind {
            ItemKind::Directory => self.takes_directory(path),
            ItemKind::Link | ItemKind::Other => self.takes_file(path),
            ItemKind::File => {
                is_within(item.size_bytes, self.bytes)
                    && item.facts.written.is_none_or(|written| is_within(written, self.written))
                    && self.takes_file(path)
            }
        }
    }

    /// Whether a file of this path is copied.
    #[must_use]
    pub fn takes_file(&self, path: &str) -> bool {
        self.takes_directory(path)
            && (self.include.is_empty() || self.include.iter().any(|pattern| names(pattern, path)))
    }
}

fn is_within<T: PartialOrd>(value: T, (least, most): (Option<T>, Option<T>)) -> bool {
    least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most)
}

fn names(pattern: &str, path: &str) -> bool {
    let whole = pattern.contains('/');
    let pattern: Vec<&str> = pattern.trim_matches('/').split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    if whole { path_fits(&pattern, &path) } else { fits(pattern[0], path[path.len() - 1]) }
}

/// Matches the names of a path against those of a pattern. `**` stands for any number of names, at
/// the end for at least one. Dynamic programming: each pair of names is compared once.
fn path_fits(pattern: &[&str], path: &[&str]) -> bool {
    // `fitting[n]`: the first `n` names of the path match the pattern parts before `at`.
    let mut fitting = vec![false; path.len() + 1];
    fitting[0] = true;
    for (at, part) in pattern.iter().enumerate() {
        let mut next = vec![false; path.len() + 1];
        for count in 0..=path.len() {
            next[count] = match (*part, count) {
                ("**", 0) => fitting[0] && at + 1 < pattern.len(),
                ("**", _) if at + 1 < pattern.len() => fitting[count] || next[count - 1],
                ("**", _) => fitting[..count].contains(&true),
                (_, 0) => false,
                _ => fitting[count - 1] && fits(part, path[count - 1]),
            };
        }
        fitting = next;
    }
    fitting[path.len()]
}

/// Matches one name. Backtracking goes to the last star only, which bounds the time to the product
/// of both lengths.
fn fits(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut pos) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&'*') {
            at += 1;
            star = Some((at, pos));
        } else if at == pattern.len() && pos == name.len() {
            return true;
        } else if let Some(next) = name.get(pos).and_then(|c| one(&pattern, at, *c)) {
            (at, pos) = (next, pos + 1);
        } else {
            let Some((behind, reach)) = star.filter(|(_, reach)| *reach < name.len()) else {
                return false;
            };
            star = Some((behind, reach + 1));
            (at, pos) = (behind, reach + 1);
        }
    }
}

/// The pattern index behind the element that matches `c`, if it does.
fn one(pattern: &[char], at: usize, c: char) -> Option<usize> {
    match *pattern.get(at)? {
        '?' => Some(at + 1),
        '[' => {
            let end = (at + 2..pattern.len()).find(|end| pattern[*end] == ']')?;
            let set = &pattern[at + 1..end];
            let (negated, set) = match set {
                ['!' | '^', rest @ ..] => (true, rest),
                set => (false, set),
            };
            (in_set(set, c) != negated).then_some(end + 1)
        }
        '\\' if pattern.get(at + 1) == Some(&c) => Some(at + 2),
        exact if exact == c => Some(at + 1),
        _ => None,
    }
}

fn in_set(mut set: &[char], c: char) -> bool {
    loop {
        match set {
            [from, '-', to, rest @ ..] => {
                if (*from..=*to).contains(&c) {
                    return true;
                }
                set = rest;
            }
            [same, rest @ ..] => {
                if *same == c {
                    return true;
                }
                set = rest;
            }
            [] => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::ItemFacts;
    use proptest::prelude::*;

    #[test]
    fn glob_matches_names_and_paths() {
        for (pattern, path, expected) in [
            ("*.txt", "a/b.txt", true),
            ("*.txt", "a.txt/b", false),
            ("a/*.txt", "a/b.txt", true),
            ("a/*.txt", "a/b/c.txt", false),
            ("a/**/*.txt", "a/b/c.txt", true),
            ("a/**/*.txt", "a/c.txt", true),
            ("**/node_modules", "x/y/node_modules", true),
            ("**/node_modules", "node_modules", true),
            ("**/b/c", "a/bb/c", false),
            ("/top", "top", true),
            ("/top", "a/top", false),
            ("build/", "build", true),
            ("?at", "cat", true),
            ("?at", "at", false),
            ("[a-c]at", "bat", true),
            ("[!a-c]at", "bat", false),
            ("[a-c]at", "dat", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("*", "anything", true),
            ("a/**", "a/b/c", true),
            ("a/**", "b/a/c", false),
        ] {
            assert_eq!(names(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn exclude_overrides_include_and_no_pattern_selects_all() {
        let all = Filter::default();
        assert!(all.takes_file("a/b") && all.takes_directory("a"));
        let filter = Filter {
            include: vec!["*.c".into()],
            exclude: vec!["old".into(), "x.c".into()],
            ..all
        };
        assert!(filter.takes_file("src/a.c") && !filter.takes_file("src/a.h"));
        assert!(!filter.takes_file("x.c") && !filter.takes_directory("src/old"));
        assert!(filter.takes_directory("src"), "--include names files only");
    }

    #[test]
    fn size_and_time_select_files_only() {
        let filter =
            Filter { bytes: (Some(10), Some(20)), written: (Some(-5), None), ..Filter::default() };
        let item = |kind, size_bytes, written| CopyItem {
            name: "a".into(),
            kind,
            size_bytes,
            is_sparse: false,
            change: 0,
            facts: ItemFacts { written, ..ItemFacts::default() },
        };
        for (size_bytes, written, expected) in [
            (9, Some(0), false),
            (10, Some(-5), true),
            (20, None, true),
            (21, Some(0), false),
            (15, Some(-6), false),
        ] {
            let file = item(ItemKind::File, size_bytes, written);
            assert_eq!(filter.takes("a", &file), expected, "{size_bytes} {written:?}");
            assert!(filter.takes("a", &item(ItemKind::Directory, size_bytes, written)));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_pattern_neither_panics_nor_takes_long(pattern in "[a*?/\\[\\]!\\\\-]{0,24}", path in "[a/b]{0,64}") {
            let _ = names(&pattern, &path);
        }

        #[test]
        fn pattern_without_wildcards_matches_only_itself(name in "[a-z]{1,8}", other in "[a-z]{1,8}") {
            prop_assert_eq!(names(&name, &other), name == other);
        }
    }
}
