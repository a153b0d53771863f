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
///
/// Runs over the name once with the set of reachable pattern positions: time
/// grows with the product of the lengths, never exponentially.
#[must_use]
pub fn matches(pattern: &[u16], name: &[u16]) -> bool {
    if pattern == [STAR] {
        return true;
    }
    if !has_wildcards(pattern) {
        return pattern.len() == name.len()
            && pattern.iter().zip(name).all(|(p, n)| upcase(*p) == upcase(*n));
    }
    let last_dot = name.iter().rposition(|&u| u == DOT);
    let mut reachable = vec![false; pattern.len() + 1];
    reachable[0] = true;
    pass_empty(pattern, &mut reachable, name.first().copied());
    for (at, &unit) in name.iter().enumerate() {
        let mut next = vec![false; pattern.len() + 1];
        for position in (0..pattern.len()).filter(|&p| reachable[p]) {
            step(pattern, position, unit, Some(at) == last_dot, &mut next);
        }
        reachable = next;
        pass_empty(pattern, &mut reachable, name.get(at + 1).copied());
    }
    reachable[pattern.len()]
}

/// Where `unit` leads from `position`.
fn step(pattern: &[u16], position: usize, unit: u16, is_last_dot: bool, next: &mut [bool]) {
    match pattern[position] {
        STAR => next[position] = true,
        // DOS_STAR passes over every dot but the last.
        DOS_STAR => {
            if !is_last_dot {
                next[position] = true;
            } else {
                next[position] = true;
                next[position + 1] = true;
            }
        }
        QUESTION => next[position + 1] = true,
        DOS_QM if unit != DOT => next[position + 1] = true,
        DOS_DOT if unit == DOT => next[position + 1] = true,
        plain if upcase(plain) == upcase(unit) => next[position + 1] = true,
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
    fn a_hostile_pattern_costs_no_more_than_the_product_of_the_lengths() {
        let pattern = "*a".repeat(120);
        let name = "a".repeat(119) + &"b".repeat(130);
        assert!(!check(&pattern, &name));
    }
}
