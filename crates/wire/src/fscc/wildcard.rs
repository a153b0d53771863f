//! File name expressions. MS-FSA 2.1.4.4.
//!
//! Windows programs write `*`, `?` and `.`. Win32 sends some of them as `<`, `>` and `"`, which
//! follow the rules of DOS: `*.` (names without an extension) becomes `<`.

use crate::fscc::upcase;

const STAR: u16 = b'*' as u16;
const QUESTION: u16 = b'?' as u16;
/// DOS_STAR `<`: matches any characters up to and including the name's last dot. Behind the last
/// dot, and in a name without one, it matches any characters.
const DOS_STAR: u16 = b'<' as u16;
/// DOS_QM `>`: one character other than a dot; matches nothing before a dot and at the end of the
/// name.
const DOS_QM: u16 = b'>' as u16;
/// DOS_DOT `"`: a dot; matches nothing at the end of the name.
const DOS_DOT: u16 = b'"' as u16;
const DOT: u16 = b'.' as u16;

/// True if a pattern contains a wildcard.
#[must_use]
pub fn has_wildcards(pattern: &[u16]) -> bool {
    pattern.iter().any(|u| matches!(*u, STAR | QUESTION | DOS_STAR | DOS_QM | DOS_DOT))
}

/// True if `name` matches `pattern`, ignoring case.
#[must_use]
pub fn matches(pattern: &[u16], name: &[u16]) -> bool {
    WildcardPattern::new(pattern).matches(name)
}

/// A pattern prepared for matching many names.
///
/// One pass over a name tracks the set of reachable pattern positions. The time is bounded by the
/// product of the two lengths, never exponential.
#[derive(Clone, Debug, Default)]
pub struct WildcardPattern {
    /// The pattern, case-folded.
    units: Vec<u16>,
    kind: PatternKind,
    /// Reachable positions, followed by scratch space for the next set.
    reachable: Vec<bool>,
    next: Vec<bool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PatternKind {
    /// A literal name.
    #[default]
    Plain,
    /// `*`, or `*.*`, which also matches a name without a dot.
    All,
    Wild,
}

impl WildcardPattern {
    /// Prepares a pattern as the client sent it.
    #[must_use]
    pub fn new(pattern: &[u16]) -> Self {
        let kind = match pattern {
            [STAR] | [STAR, DOT, STAR] => PatternKind::All,
            _ if has_wildcards(pattern) => PatternKind::Wild,
            _ => PatternKind::Plain,
        };
        let units: Vec<u16> = pattern.iter().map(|unit| upcase(*unit)).collect();
        let positions = if kind == PatternKind::Wild { units.len() + 1 } else { 0 };
        let reachable = vec![false; positions];
        Self { units, kind, next: reachable.clone(), reachable }
    }

    /// True if the pattern contains a wildcard.
    #[must_use]
    pub fn has_wildcards(&self) -> bool {
        self.kind != PatternKind::Plain
    }

    /// True if `name` matches, ignoring case.
    #[must_use]
    pub fn matches(&mut self, name: &[u16]) -> bool {
        match self.kind {
            PatternKind::All => true,
            PatternKind::Plain => {
                self.units.len() == name.len()
                    && self.units.iter().zip(name).all(|(p, n)| *p == upcase(*n))
            }
            PatternKind::Wild => self.matches_wild(name),
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

/// Marks the positions that `unit` reaches from `position`; both sides are case-folded.
fn step(pattern: &[u16], position: usize, unit: u16, is_last_dot: bool, next: &mut [bool]) {
    match pattern[position] {
        STAR => next[position] = true,
        // DOS_STAR ends with the last dot, and consumes no further character.
        DOS_STAR if is_last_dot => next[position + 1] = true,
        DOS_STAR => next[position] = true,
        QUESTION => next[position + 1] = true,
        DOS_QM if unit != DOT => next[position + 1] = true,
        DOS_DOT if unit == DOT => next[position + 1] = true,
        plain if plain == unit => next[position + 1] = true,
        _ => {}
    }
}

/// Adds the positions that are reachable without consuming a character.
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

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    fn check(pattern: &str, name: &str) -> bool {
        matches(&units(pattern), &units(name))
    }

    /// Rows of MS-FSA 2.1.4.4, and patterns that `cmd` sends.
    #[test]
    fn patterns_match_as_ms_fsa_specifies() {
        for (pattern, names, others) in [
            ("*", "a a.b .a a. ..", ""),
            ("*.*", "a a.b .a a. .. .", ""),
            ("*.txt", "A.TXT .txt a.b.txt", "a.txt.bak a txt"),
            ("a?c", "abc a.c", "ac abcd"),
            ("abc", "ABC", "abcd ab"),
            ("?", "a .", "ab .."),
            // `dir *.`: names without an extension.
            ("<", "noext xy a. .. .", "a.b a.b.c .b"),
            ("a<", "a ab a1 a. ab.", "a.b b"),
            ("<.txt", "a.b.txt a.txt .txt", "a.txt.bak txt"),
            ("<.", "a. a.b. .", "a a.b"),
            ("<<", "a a.b a.b.c", ""),
            ("*<", "a a.b a.b.c", ""),
            ("<*", "a a.b", ""),
            ("<\"*", "noext a.b a.b.c .b", ""),
            ("<\"<", "noext a.b a.b. a.b.c", ""),
            ("<\"", "a a.", "a.b"),
            ("x<", "xy x", "x.y"),
            ("<b", "ab a.b", "a.b.c a"),
            ("a>>", "a ab abc", "a. abcd a.b"),
            ("a>>.x", "a.x ab.x abc.x", "abcd.x a. a.b"),
            (">>", "a ab", "abc a.b .. ."),
            (">.>", "a.b a. .", "ab a.bc ab.c"),
            ("a>b", "acb", "ab a.b"),
            ("a\"", "a a.", "a.b ab"),
            ("a\"b", "a.b", "ab a acb"),
            ("a\"\"", "a a. a..", "a.b"),
            ("a>\"", "a a. ab ab.", "abc a.b"),
            ("\"", ".", "a .."),
            ("ä*", "Äpfel", "a"),
        ] {
            for (list, expected) in [(names, true), (others, false)] {
                for name in list.split(' ').filter(|name| !name.is_empty()) {
                    assert_eq!(check(pattern, name), expected, "{pattern} against {name}");
                }
            }
        }
    }

    /// Reference model: the specification's rules, with backtracking.
    fn model(pattern: &[u16], name: &[u16]) -> bool {
        let any = |from: &[u16], upto: usize| (0..=upto).any(|n| model(from, &name[n..]));
        let Some((&first, rest)) = pattern.split_first() else { return name.is_empty() };
        let last_dot = name.iter().rposition(|&unit| unit == DOT);
        match (first, name.split_first()) {
            (STAR, _) => any(rest, name.len()),
            (DOS_STAR, _) => any(rest, last_dot.map_or(name.len(), |dot| dot + 1)),
            (DOS_QM, None | Some((&DOT, _))) | (DOS_DOT, None) => model(rest, name),
            (_, None) => false,
            (unit, Some((&of_name, behind))) => {
                let is_one = match unit {
                    QUESTION | DOS_QM => true,
                    DOS_DOT => of_name == DOT,
                    unit => upcase(unit) == upcase(of_name),
                };
                is_one && model(rest, behind)
            }
        }
    }

    /// Compares all patterns of up to four characters with all names of up to six, over an alphabet
    /// that exercises each rule.
    #[test]
    fn short_patterns_match_the_brute_force_model() {
        let words = |alphabet: &str, longest: usize| {
            let alphabet = units(alphabet);
            let mut words = vec![Vec::new()];
            let mut last = words.clone();
            for _ in 0..longest {
                let extend = |word: &Vec<u16>| {
                    let longer = |unit: &u16| [word.as_slice(), &[*unit]].concat();
                    alphabet.iter().map(longer).collect::<Vec<_>>()
                };
                last = last.iter().flat_map(extend).collect();
                words.extend(last.iter().cloned());
            }
            words
        };
        let names = words("a.", 6);
        for expression in words("A.*?<>\"", 4) {
            let mut pattern = WildcardPattern::new(&expression);
            for name in &names {
                let expected = expression == units("*.*") || model(&expression, name);
                let shown = || (String::from_utf16(&expression), String::from_utf16(name));
                assert_eq!(pattern.matches(name), expected, "{:?}", shown());
            }
        }
    }

    #[test]
    fn pattern_reuse_leaves_no_state_behind() {
        let mut pattern = WildcardPattern::new(&units("*.txt"));
        assert!(pattern.has_wildcards());
        for (name, expected) in [("a.TXT", true), ("a.bak", false), (".txt", true), ("", false)] {
            assert_eq!(pattern.matches(&units(name)), expected, "{name}");
        }
    }

    #[test]
    fn hostile_pattern_cost_is_bounded_by_the_product() {
        let pattern = "*a".repeat(120);
        let name = "a".repeat(119) + &"b".repeat(130);
        assert!(!check(&pattern, &name));
    }
}
