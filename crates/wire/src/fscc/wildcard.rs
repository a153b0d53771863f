//! Names in expressions. MS-FSA 2.1.4.4.
//!
//! Windows programs write `*`, `?` and `.`; Win32 sends some of them as `<`, `>` and `"`, which
//! follow the rules of DOS: `*.` (names without an extension) goes out as `<`.

use crate::fscc::upcase;

const STAR: u16 = b'*' as u16;
const QUESTION: u16 = b'?' as u16;
/// `<`: any characters before the name's last dot, and that dot, but none behind it. From behind
/// the last dot, and in a name without one: any characters.
const DOS_STAR: u16 = b'<' as u16;
/// `>`: one character that is no dot; nothing before a dot and at the end of the name.
const DOS_QM: u16 = b'>' as u16;
/// `"`: a dot; nothing at the end of the name.
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
    /// `*`, and `*.*`, which a name without a dot matches, too.
    All,
    Wild,
}

impl Pattern {
    /// Of a pattern as clients send it.
    #[must_use]
    pub fn new(pattern: &[u16]) -> Self {
        let kind = match pattern {
            [STAR] | [STAR, DOT, STAR] => Kind::All,
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
        // The last dot ends it: no further character is its.
        DOS_STAR if is_last_dot => next[position + 1] = true,
        DOS_STAR => next[position] = true,
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

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    fn check(pattern: &str, name: &str) -> bool {
        matches(&units(pattern), &units(name))
    }

    /// Rows of MS-FSA 2.1.4.4, and the patterns that `cmd` sends.
    #[test]
    fn patterns_match_as_the_specification_says() {
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

    /// The specification's rules as they are written, tried one after another.
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

    /// Every pattern and every name of up to four and six characters of an alphabet in which
    /// each rule has its character.
    #[test]
    fn every_short_pattern_matches_as_a_brute_force_model() {
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
            let mut pattern = Pattern::new(&expression);
            for name in &names {
                let expected = expression == units("*.*") || model(&expression, name);
                let shown = || (String::from_utf16(&expression), String::from_utf16(name));
                assert_eq!(pattern.matches(name), expected, "{:?}", shown());
            }
        }
    }

    #[test]
    fn a_pattern_that_was_used_is_as_good_as_new() {
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
