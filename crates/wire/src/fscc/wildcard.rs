//! Names against patterns. MS-FSA 2.1.4.4.

use crate::fscc::upcase;

const STAR: u16 = b'*' as u16;
const QUESTION: u16 = b'?' as u16;
/// `<`: as many characters as there are up to the last dot.
const DOS_STAR: u16 = b'<' as u16;
/// `>`: one character, or nothing before a dot or the end.
const DOS_QM: u16 = b'>' as u16;
/// `"`: a dot, or nothing at the end.
const DOS_DOT: u16 = b'"' as u16;
const DOT: u16 = b'.' as u16;

/// Whether a pattern is more than a plain name.
#[must_use]
pub fn has_wildcards(pattern: &[u16]) -> bool {
    pattern.iter().any(|u| matches!(*u, STAR | QUESTION | DOS_STAR | DOS_QM | DOS_DOT))
}

/// Whether `name` is one that `pattern` describes, without regard to case.
#[must_use]
pub fn matches(pattern: &[u16], name: &[u16]) -> bool {
    Pattern::new(pattern).matches(name)
}

/// A pattern that many names are held against.
///
/// Runs over a name once with the set of reachable pattern positions: time
/// grows with the product of the lengths, never exponentially.
#[derive(Clone, Debug, Default)]
pub struct Pattern {
    /// In upper case.
    units: Vec<u16>,
    kind: Kind,
    /// The positions that are reached, and room for those that are next.
    reachable: Vec<bool>,
    next: Vec<bool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// One name.
    #[default]
    Plain,
    /// `*`.
    All,
    Wild,
}

impl Pattern {
    /// Of a pattern as clients send it.
    #[must_use]
    pub fn new(pattern: &[u16]) -> Self {
        let kind = match pattern {
            [STAR] => Kind::All,
            _ if has_wildcards(pattern) => Kind::Wild,
            _ => Kind::Plain,
        };
        let units: Vec<u16> = pattern.iter().map(|unit| upcase(*unit)).collect();
        let positions = if kind == Kind::Wild { units.len() + 1 } else { 0 };
        let reachable = vec![false; positions];
        Self { units, kind, next: reachable.clone(), reachable }
    }

    /// Whether it is more than a plain name.
    #[must_use]
    pub fn has_wildcards(&self) -> bool {
        self.kind != Kind::Plain
    }

    /// Whether it describes `name`, without regard to case.
    #[must_use]
    pub fn matches(&mut self, name: &[u16]) -> bool {
        match self.kind {
            Kind::All => true,
            Kind::Plain => {
                self.units.len() == name.len()
                    && self.units.iter().zip(name).all(|(p, n)| *p == upcase(*n))
            }
            Kind::Wild => self.matches_wild(name),
        }
    }

    fn matches_wild(&mut self, name: &[u16]) -> bool {
        let Self { units, reachable, next, .. } = self;
        let last_dot = name.iter().rposition(|&u| u == DOT);
        reachable.fill(false);
        reachable[0] = true;
        pass_empty(units, reachable, name.first().copied());
        for (at, unit) in name.iter().map(|unit| upcase(*unit)).enumerate() {
            next.fill(false);
            for position in (0..units.len()).filter(|&p| reachable[p]) {
                step(units, position, unit, Some(at) == last_dot, next);
            }
            std::mem::swap(reachable, next);
            pass_empty(units, reachable, name.get(at + 1).copied());
        }
        reachable[units.len()]
    }
}

/// Where `unit` leads from `position`; both in upper case.
fn step(pattern: &[u16], position: usize, unit: u16, is_last_dot: bool, next: &mut [bool]) {
    match pattern[position] {
        STAR => next[position] = true,
        // DOS_STAR passes over every dot but the last.
        DOS_STAR => {
            next[position] = true;
            next[position + 1] |= is_last_dot;
        }
        QUESTION => next[position + 1] = true,
        DOS_QM if unit != DOT => next[position + 1] = true,
        DOS_DOT if unit == DOT => next[position + 1] = true,
        plain if plain == unit => next[position + 1] = true,
        _ => {}
    }
}

/// Positions that are reached without taking a character.
fn pass_empty(pattern: &[u16], reachable: &mut [bool], upcoming: Option<u16>) {
    for position in 0..pattern.len() {
        let skips = match pattern[position] {
            STAR | DOS_STAR => true,
            DOS_QM => upcoming.is_none_or(|u| u == DOT),
            DOS_DOT => upcoming.is_none(),
            _ => false,
        };
        if reachable[position] && skips {
            reachable[position + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, name: &str) -> bool {
        let units = |t: &str| t.encode_utf16().collect::<Vec<_>>();
        matches(&units(pattern), &units(name))
    }

    #[test]
    fn patterns_match_as_the_specification_says() {
        for (pattern, name, expected) in [
            ("*", "anything", true),
            ("*.txt", "A.TXT", true),
            ("*.txt", "a.txt.bak", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("abc", "ABC", true),
            ("abc", "abcd", false),
            ("a>>", "ab", true),
            ("a>>", "a", true),
            ("a>>.x", "a.x", true),
            ("a\"", "a", true),
            ("a\"b", "a.b", true),
            ("<.txt", "a.b.txt", true),
            ("<", "a.b", true),
            ("*.*", "noext", false),
            ("<\"*", "noext", true),
            ("<\"*", "a.b", true),
            ("ä*", "Äpfel", true),
        ] {
            assert_eq!(check(pattern, name), expected, "{pattern} against {name}");
        }
    }

    #[test]
    fn a_pattern_that_was_used_is_as_good_as_new() {
        let units = |t: &str| t.encode_utf16().collect::<Vec<_>>();
        let mut pattern = Pattern::new(&units("*.txt"));
        assert!(pattern.has_wildcards());
        for (name, expected) in [("a.TXT", true), ("a.bak", false), (".txt", true), ("", false)] {
            assert_eq!(pattern.matches(&units(name)), expected, "{name}");
        }
    }

    #[test]
    fn a_hostile_pattern_costs_no_more_than_the_product_of_the_lengths() {
        let pattern = "*a".repeat(120);
        let name = "a".repeat(119) + &"b".repeat(130);
        assert!(!check(&pattern, &name));
    }
}
