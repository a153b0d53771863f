//! Name patterns of a volume: hidden and vetoed names.

use crate::private_use::mapped_name;
use vfs::{Case, FsError, RelPath, Result, fold_case};

/// Patterns of names: `*` matches any number of characters, `?` exactly one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamePatterns {
    patterns: Vec<Vec<char>>,
    is_folded: bool,
}

impl NamePatterns {
    /// Patterns that are compared by `case`.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>, case: Case) -> Self {
        let is_folded = case == Case::Insensitive;
        let letters = |pattern: &str| letters(pattern.as_bytes(), is_folded);
        Self { patterns: patterns.into_iter().map(letters).collect(), is_folded }
    }

    /// Whether there are no patterns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a name matches: as stored, as Windows presents it, or as clients that map private
    /// characters do.
    #[must_use]
    pub fn has(&self, name: &[u8]) -> bool {
        // A listing asks for each name.
        if self.is_empty() {
            return false;
        }
        self.matches_view(name)
            || mapped_name(name).is_some_and(|mapped| self.matches_view(&mapped))
    }

    fn matches_view(&self, name: &[u8]) -> bool {
        self.has_exactly(name) || windows_view(name).is_some_and(|view| self.has_exactly(view))
    }

    fn has_exactly(&self, name: &[u8]) -> bool {
        if !self.patterns.iter().any(|pattern| self.may_match(pattern, name)) {
            return false;
        }
        let name = letters(name, self.is_folded);
        self.patterns.iter().any(|pattern| matches(pattern, &name))
    }

    /// A cheap check that rules out nearly all names.
    fn may_match(&self, pattern: &[char], name: &[u8]) -> bool {
        let first = name.first().copied().unwrap_or_default();
        match pattern.first() {
            Some('*' | '?') | None => true,
            Some(letter) if !letter.is_ascii() => !first.is_ascii(),
            Some(&letter) if self.is_folded => letter == char::from(first.to_ascii_uppercase()),
            Some(&letter) => letter == char::from(first),
        }
    }

    /// Whether a component of `path` matches.
    #[must_use]
    pub fn has_any(&self, path: &RelPath) -> bool {
        !self.is_empty() && path.components().any(|name| self.has(name))
    }

    /// Refuses a path with a matching component as not found, or its creation as denied.
    pub(crate) fn check(&self, path: &RelPath, creates: bool) -> Result<()> {
        if !self.has_any(path) {
            return Ok(());
        }
        match path.split() {
            Some((parent, _)) if self.has_any(&parent) => Err(FsError::PathNotFound),
            _ if creates => Err(FsError::AccessDenied),
            _ => Err(FsError::NotFound),
        }
    }
}

/// The name that Windows opens for `name`, if it differs: Win32 strips trailing dots and spaces,
/// and a colon begins a stream name. MS-FSCC 2.1.5.
///
/// An NFS client may store each of these names, and a Windows client may send it without Win32.
fn windows_view(name: &[u8]) -> Option<&[u8]> {
    // Nearly all names are the same to Windows.
    if !matches!(name.last(), Some(b'.' | b' ')) && !name.contains(&b':') {
        return None;
    }
    let file = name.split(|byte| *byte == b':').next().unwrap_or_default();
    let last = file.iter().rposition(|byte| !matches!(byte, b'.' | b' '))?;
    (last + 1 < name.len()).then_some(&file[..=last])
}

fn letters(name: &[u8], is_folded: bool) -> Vec<char> {
    let folded = if is_folded { fold_case(name) } else { name.into() };
    String::from_utf8_lossy(&folded).chars().collect()
}

/// Backtracks to the last star only, so that it takes at most the product of both lengths.
fn matches(pattern: &[char], name: &[char]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while from < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, from));
                at += 1;
            }
            Some(&letter) if letter == '?' || letter == name[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((after, tried)) = star else { return false };
                star = Some((after, tried + 1));
                at = after;
                from = tried + 1;
            }
        }
    }
    pattern[at..].iter().all(|&letter| letter == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vfs::Name;

    fn has(pattern: &str, name: &str) -> bool {
        NamePatterns::new([pattern], Case::Insensitive).has(name.as_bytes())
    }

    #[test]
    fn stars_and_question_marks_stand_for_letters() {
        for (pattern, name) in
            [(".*", ".profile"), ("*.tmp", "A.TMP"), ("~$*", "~$x"), ("a?c", "abc"), ("*", "x")]
        {
            assert!(has(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [(".*", "a.b"), ("*.tmp", "a.tmp.x"), ("a?c", "ac"), ("", "a")] {
            assert!(!has(pattern, name), "{pattern} {name}");
        }
        assert!(has("ä*", "Äh"), "letters beyond ASCII have no case either");
        assert!(!NamePatterns::new(["a"], Case::Sensitive).has(b"A"));
        assert!(!NamePatterns::default().has(b"a"));
    }

    #[test]
    fn patterns_see_names_as_windows_does() {
        for name in [
            "secret.txt.",
            "secret.txt ",
            "secret.txt. .",
            "SECRET.TXT...",
            "secret.txt:s",
            "secret.txt::$DATA",
            "secret.txt. :s:$DATA",
            "Secret.txt:s.",
        ] {
            assert!(has("secret.txt", name), "{name}");
            assert!(has("*.TXT", name), "{name}");
        }
        for name in [" secret.txt", "secret.txt.x", "secret. txt", ".secret.txt", "x:secret.txt"] {
            assert!(!has("secret.txt", name), "{name}");
        }
        assert!(has("secret.", "secret."), "as it is stored, too");
        assert!(has("a:b", "a:b"));
        for name in ["...", " ", ". .", ":s"] {
            assert!(!has("", name), "{name:?}: nothing is left of it");
            assert!(has("*", name), "{name:?}");
        }
    }

    #[test]
    fn patterns_see_private_characters_as_clients_do() {
        for (pattern, name) in [
            ("plan:x", "plan\u{F022}x"),
            ("secret.txt", "secret.txt\u{F029}"),
            ("secret.txt", "secret.txt\u{F022}s"),
            ("secret.txt", "Secret\u{F029}txt"),
            ("plan\u{F022}x", "plan\u{F022}x"),
        ] {
            assert!(has(pattern, name), "{pattern} {name}");
        }
        assert!(!has("plan\u{F022}x", "plan:x"), "a pattern means what it says");
    }

    #[test]
    fn vetoed_path_is_not_found_and_creating_it_is_denied() {
        let patterns = NamePatterns::new(["secret"], Case::Insensitive);
        let path = |names: &[&str]| {
            names.iter().fold(RelPath::root(), |p, n| p.join(&Name::new(n.as_bytes()).unwrap()))
        };
        assert_eq!(patterns.check(&path(&["a", "SECRET"]), false), Err(FsError::NotFound));
        assert_eq!(patterns.check(&path(&["a", "SECRET"]), true), Err(FsError::AccessDenied));
        assert_eq!(patterns.check(&path(&["Secret", "a"]), true), Err(FsError::PathNotFound));
        assert_eq!(patterns.check(&path(&["a", "secrets"]), true), Ok(()));
        assert_eq!(patterns.check(&RelPath::root(), true), Ok(()));
    }

    proptest! {
        #[test]
        fn windows_names_of_a_file_match_as_the_file_does(
            pattern in "[aB.*? :]{1,6}",
            name in "[Ab. ]{0,5}[aB]",
            tail in "[. ]{0,3}(:[a. ]{0,2}(:\\$DATA)?)?",
        ) {
            let shown = format!("{name}{tail}");
            let exact = {
                let fold = |text: &str| letters(text.as_bytes(), true);
                matches(&fold(&pattern), &fold(&shown))
            };
            prop_assert_eq!(has(&pattern, &shown), has(&pattern, &name) || exact);
        }

        #[test]
        fn matching_agrees_with_naive_matcher(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
            fn naive(pattern: &[char], name: &[char]) -> bool {
                match (pattern.split_first(), name.split_first()) {
                    (None, rest) => rest.is_none(),
                    (Some(('*', rest)), _) => (0..=name.len()).any(|n| naive(rest, &name[n..])),
                    (Some((letter, rest)), Some((first, others))) => {
                        (*letter == '?' || letter == first) && naive(rest, others)
                    }
                    (Some(_), None) => false,
                }
            }
            let (p, n): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
            prop_assert_eq!(matches(&p, &n), naive(&p, &n));
        }
    }
}
