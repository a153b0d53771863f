//! Clients in the forms of exports(5): address, network, host, wildcard, netgroup.

use smb::Network;
use std::fmt;

/// Maximum length of a name, pattern or netgroup in bytes.
const TEXT_BYTES_MAX: usize = sockets::HOST_NAME_BYTES_MAX;

/// A set of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRule {
    /// `*`: every client.
    All,
    /// A host name in lower case; its addresses are resolved.
    Name(String),
    /// `@NAME`: the hosts of a netgroup.
    Netgroup(String),
    /// An address or a network.
    Network(Network),
    /// A pattern of host names.
    Wildcard(NamePattern),
}

impl HostRule {
    /// Parses `192.0.2.0/24`, `build.example.org`, `*.example.org`, `@builders` or `*`.
    ///
    /// # Errors
    /// A sentence for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::All);
        }
        if text.is_empty() || text.len() > TEXT_BYTES_MAX {
            return Err(format!(
                "{text:?} is not a client: its length must be from 1 to {TEXT_BYTES_MAX} bytes"
            ));
        }
        if let Some(group) = text.strip_prefix('@') {
            let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"(),@".contains(&byte);
            let is_name = !group.is_empty() && group.bytes().all(is_plain);
            let wrong = || format!("{text:?} is not a netgroup, such as \"@builders\"");
            return is_name.then(|| Self::Netgroup(group.into())).ok_or_else(wrong);
        }
        match Network::parse(text) {
            Ok(network) => Ok(Self::Network(network)),
            Err(what) if text.contains(['/', ':']) => Err(what),
            Err(what) if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
                Err(what)
            }
            Err(_) if text.contains(['*', '?', '[']) => {
                NamePattern::parse(text).map(Self::Wildcard)
            }
            Err(_) => host_name(text).map(Self::Name),
        }
    }

    /// Whether the rule requires reverse look-ups of clients.
    #[must_use]
    pub fn is_about_names(&self) -> bool {
        matches!(self, Self::Wildcard(_) | Self::Netgroup(_))
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Name(name) => f.write_str(name),
            Self::Netgroup(group) => write!(f, "@{group}"),
            Self::Network(network) => write!(f, "{network}"),
            Self::Wildcard(pattern) => f.write_str(&pattern.text),
        }
    }
}

fn host_name(text: &str) -> Result<String, String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let has_parts = name.split('.').all(|part| !part.is_empty());
    if has_parts && name.bytes().all(is_plain) {
        return Ok(name.to_ascii_lowercase());
    }
    Err(format!(
        "{text:?} is not a client: use an address, a network such as \"192.0.2.0/24\", a host, a wildcard such as \
         \"*.example.org\", a netgroup such as \"@builders\", or \"*\" for every client"
    ))
}

/// A pattern of host names. `*` matches any characters including dots, and `?` matches one. `[a-c]`
/// matches one of a class, `[!a-c]` one outside of it. exports(5), "Machine Name Formats".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    text: String,
    units: Vec<Unit>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Unit {
    Any,
    One,
    Letter(u8),
    /// A character class of ranges; `false` negates it.
    Class(bool, Vec<(u8, u8)>),
}

impl Unit {
    fn has(&self, letter: u8) -> bool {
        match self {
            Self::Any | Self::One => true,
            Self::Letter(own) => *own == letter,
            Self::Class(is, ranges) => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&letter)) == *is
            }
        }
    }
}

impl NamePattern {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{text:?} is not a pattern of host names: {what}");
        let mut units = Vec::new();
        let lower = text.to_ascii_lowercase();
        let mut rest = lower.as_bytes();
        while let [letter, after @ ..] = rest {
            rest = after;
            units.push(match letter {
                b'*' => Unit::Any,
                b'?' => Unit::One,
                b'[' => {
                    let unclosed = || wrong("\"[\" needs a \"]\" behind some letters");
                    let end = after.iter().position(|b| *b == b']').ok_or_else(unclosed)?;
                    rest = &after[end + 1..];
                    class(&after[..end]).ok_or_else(unclosed)?
                }
                letter if letter.is_ascii_alphanumeric() || b"-_.".contains(letter) => {
                    Unit::Letter(*letter)
                }
                _ => {
                    return Err(wrong(
                        "there are letters, digits, \"-\", \".\", \"*\", \"?\", \"[a-z]\"",
                    ));
                }
            });
        }
        // Names are not addresses: a pattern without letters would match no host, or only names
        // that a reverse zone invents.
        let is_letter = |unit: &Unit| matches!(unit, Unit::Letter(b) if b.is_ascii_alphabetic());
        if !units.iter().any(is_letter) {
            return Err(wrong(
                "networks are written as \"192.0.2.0/24\", and \"*\" is every client",
            ));
        }
        Ok(Self { text: lower, units })
    }

    /// Whether the pattern matches a name in lower case.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let (units, name) = (&self.units, name.as_bytes());
        let (mut at, mut of) = (0, 0);
        // Position of the last `*`, and of the text after its tentative match.
        let mut star: Option<(usize, usize)> = None;
        while of < name.len() {
            match units.get(at) {
                Some(Unit::Any) => {
                    star = Some((at, of));
                    at += 1;
                }
                Some(unit) if unit.has(name[of]) => (at, of) = (at + 1, of + 1),
                _ => {
                    let Some((star_at, tried)) = star else { return false };
                    star = Some((star_at, tried + 1));
                    (at, of) = (star_at + 1, tried + 1);
                }
            }
        }
        units[at..].iter().all(|unit| *unit == Unit::Any)
    }
}

/// Parses the part between brackets.
fn class(text: &[u8]) -> Option<Unit> {
    let (is, mut rest) = match text {
        [b'!' | b'^', rest @ ..] => (false, rest),
        rest => (true, rest),
    };
    let mut ranges = Vec::new();
    while let [from, after @ ..] = rest {
        let (to, after) = match after {
            [b'-', to, after @ ..] => (to, after),
            after => (from, after),
        };
        ranges.push((*from, *to));
        rest = after;
    }
    (!ranges.is_empty()).then_some(Unit::Class(is, ranges))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> NamePattern {
        match HostRule::parse(text) {
            Ok(HostRule::Wildcard(pattern)) => pattern,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn host_rule_of_each_kind_is_parsed() {
        let network = |text| HostRule::Network(Network::parse(text).unwrap());
        for (text, rule) in [
            ("*", HostRule::All),
            ("192.0.2.7", network("192.0.2.7")),
            ("2001:db8::7", network("2001:db8::7")),
            ("192.0.2.0/24", network("192.0.2.0/24")),
            ("Build.Example.ORG.", HostRule::Name("build.example.org".into())),
            ("build", HostRule::Name("build".into())),
            ("*.Lab.example", HostRule::Wildcard(pattern("*.lab.example"))),
            ("@Builders", HostRule::Netgroup("Builders".into())),
        ] {
            let read = HostRule::parse(text).unwrap();
            assert_eq!(read, rule, "{text}");
            assert_eq!(HostRule::parse(&read.to_string()), Ok(read), "{text}");
        }
    }

    #[test]
    fn host_rule_that_names_no_client_is_refused() {
        for text in [
            "",
            "@",
            "@a b",
            "@a(b",
            "192.0.2.300",
            "192.0.2.0/99",
            "192.0.2.*",
            "**",
            "a..b",
            "a b",
            "a[b",
            "a[]c",
            "a/b",
            "ä",
            "?",
        ] {
            assert!(HostRule::parse(text).is_err(), "{text}");
        }
        assert!(HostRule::parse(&"a".repeat(TEXT_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn host_wildcard_star_matches_dots_as_in_exports() {
        for (text, yes, no) in [
            (
                "*.lab.example",
                vec!["a.lab.example", "a.b.lab.example"],
                vec!["lab.example", "a.lab.example.org", "alab.example"],
            ),
            ("node?.lab", vec!["node1.lab"], vec!["node.lab", "node10.lab"]),
            ("node[0-4a].lab", vec!["node3.lab", "nodea.lab"], vec!["node5.lab", "node.lab"]),
            ("node[!0-4].lab", vec!["node5.lab"], vec!["node3.lab", "node.lab"]),
            ("*a*b*", vec!["ab", "xaybz"], vec!["ba"]),
        ] {
            let pattern = pattern(text);
            yes.into_iter().for_each(|name| assert!(pattern.has(name), "{text} {name}"));
            no.into_iter().for_each(|name| assert!(!pattern.has(name), "{text} {name}"));
        }
    }

    /// The definition of a match, character by character.
    fn naive(units: &[Unit], name: &[u8]) -> bool {
        match (units, name) {
            ([], []) => true,
            ([Unit::Any, rest @ ..], name) => {
                (0..=name.len()).any(|skipped| naive(rest, &name[skipped..]))
            }
            ([unit, rest @ ..], [letter, name @ ..]) => unit.has(*letter) && naive(rest, name),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn pattern_matches_what_its_definition_says(text in "[ab*?]{0,7}a", name in "[ab.]{0,9}") {
            let pattern = NamePattern::parse(&text).unwrap();
            prop_assert_eq!(pattern.has(&name), naive(&pattern.units, name.as_bytes()));
        }

        #[test]
        fn host_rule_parser_accepts_or_refuses_any_text(text in "\\PC{0,20}") {
            if let Ok(rule) = HostRule::parse(&text) {
                prop_assert_eq!(HostRule::parse(&rule.to_string()), Ok(rule));
            }
        }
    }
}
