//! Compares the access that exports grant: an import must never grant more than its source.

use super::draft_client::DraftClient;
use crate::config::{HostRule, NfsClients, NfsSquash};
use std::collections::HashMap;

/// An export within another one.
#[derive(Debug, PartialEq, Eq)]
pub struct NestedExport {
    /// Index of the outer export.
    pub outer: usize,
    /// Index of the inner export.
    pub inner: usize,
    /// The outer export grants some client more access to the inner directory than the inner export
    /// does.
    pub is_opened: bool,
}

/// The components of a path, lexically: symbolic links are not resolved.
pub fn parts_of(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}

/// For each of the first `served` exports that contains another one: the first one that it exposes,
/// else the first one.
pub fn nested(exports: &[(&str, &[DraftClient])], served: usize) -> Vec<NestedExport> {
    let parts: Vec<_> = exports.iter().map(|(path, _)| parts_of(path)).collect();
    let mut outer_ones: HashMap<&[&str], Vec<usize>> = HashMap::new();
    for (at, parts) in parts.iter().take(served).enumerate() {
        outer_ones.entry(parts).or_default().push(at);
    }
    let mut found: HashMap<usize, NestedExport> = HashMap::new();
    for (inner, parts) in parts.iter().enumerate() {
        let above = (0..parts.len()).filter_map(|length| outer_ones.get(&parts[..length]));
        for outer in above.flatten().copied() {
            if found.get(&outer).is_some_and(|known| known.is_opened) {
                continue;
            }
            let is_opened = !is_no_wider(exports[outer].1, exports[inner].1);
            if is_opened || !found.contains_key(&outer) {
                found.insert(outer, NestedExport { outer, inner, is_opened });
            }
        }
    }
    let mut found: Vec<_> = found.into_values().collect();
    found.sort_by_key(|one| one.outer);
    found
}

/// The entries that decide: an entry for all ends the list, and trailing refusals change nothing.
pub fn counting(clients: &[DraftClient]) -> &[DraftClient] {
    let all = clients.iter().position(|client| client.rule == HostRule::All);
    let clients = &clients[..all.map_or(clients.len(), |all| all + 1)];
    let last = clients.iter().rposition(|client| !client.is_refused);
    &clients[..last.map_or(0, |last| last + 1)]
}

/// Whether no client gets more access by `one` than by `other`. Lists that differ entry by entry
/// count as wider.
fn is_no_wider(one: &[DraftClient], other: &[DraftClient]) -> bool {
    let counts = counting(one);
    let is_within = |(one, other): (&DraftClient, &DraftClient)| {
        one.rule == other.rule && grants_no_more(one, other)
    };
    counts.len() <= other.len() && counts.iter().zip(other).all(is_within)
}

/// Whether one entry grants at most the access of another one.
pub fn grants_no_more(one: &DraftClient, other: &DraftClient) -> bool {
    let [Some(of_one), Some(of_other)] = [one, other].map(terms_of) else { return false };
    let is_within = !other.is_refused
        && (other.is_insecure || !one.is_insecure)
        && (of_other.may_write || !of_one.may_write)
        && power_of(of_one.squash) <= power_of(of_other.squash)
        && (of_one.anonuid, of_one.anongid) == (of_other.anonuid, of_other.anongid);
    one.is_refused || is_within
}

fn terms_of(client: &DraftClient) -> Option<NfsClients> {
    NfsClients::parse(&format!("*({})", client.options.join(","))).ok()
}

fn power_of(squash: Option<NfsSquash>) -> u8 {
    match squash {
        Some(NfsSquash::All) => 0,
        None | Some(NfsSquash::Root) => 1,
        Some(NfsSquash::None) => 2,
    }
}

/// Refuses a wildcard that could match numeric addresses: other servers match wildcards against
/// addresses, too, and this server against names only.
///
/// # Errors
/// A sentence for people.
pub fn check_wildcard(rule: HostRule) -> Result<HostRule, String> {
    let HostRule::Wildcard(_) = rule else { return Ok(rule) };
    let text = rule.to_string();
    let is_of_digits =
        |text: &str| text.bytes().all(|b| !b.is_ascii_alphabetic() || b.is_ascii_hexdigit());
    // A numeric address has no letter after a dot.
    let has_letter = |text: &str| text.bytes().any(|b| b.is_ascii_alphabetic());
    let is_name =
        text.split_once('.').is_some_and(|(_, behind)| has_letter(behind) && !behind.contains('['));
    match is_of_digits(&text) && !is_name {
        true => Err(format!("{text:?} may be meant for addresses, and is for names here")),
        false => Ok(rule),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(entry: &str) -> DraftClient {
        let (rule, options) = entry.split_once(' ').unwrap();
        let is_refused = options == "no_access";
        let options = if is_refused { Vec::new() } else { vec![options.to_owned()] };
        let rule = HostRule::parse(rule).unwrap();
        DraftClient { rule, options, is_insecure: false, is_refused }
    }

    #[test]
    fn outer_export_with_no_more_access_does_not_widen() {
        for (outer, inner, is_opened) in [
            ("* ro", "* rw", false),
            ("* rw", "* ro", true),
            ("* rw", "192.0.2.7 rw", true),
            ("* rw", "* no_access", true),
            ("* no_access", "* no_access", false),
            ("* all_squash", "* root_squash", false),
            ("* no_root_squash", "* root_squash", true),
            ("* anonuid=7", "* anonuid=8", true),
        ] {
            let (outer_one, inner_one) = ([client(outer)], [client(inner)]);
            let exports = [("/srv/", &outer_one[..]), ("/srv//x/../a", &inner_one[..])];
            let expected = [NestedExport { outer: 0, inner: 1, is_opened }];
            assert_eq!(nested(&exports, 2), expected, "{outer} {inner}");
            assert_eq!(nested(&[exports[0], ("/srv2/a", &inner_one[..])], 2), []);
        }
        let more = [client("192.0.2.1 ro"), client("192.0.2.7 rw")];
        assert!(!nested(&[("/", &more[..1]), ("/a", &more[..])], 2)[0].is_opened);
        assert!(nested(&[("/", &more[..]), ("/a", &more[..1])], 2)[0].is_opened);
        assert!(nested(&[("/", &more[..1]), ("/a/b", &[])], 1)[0].is_opened, "closed");
    }

    #[test]
    fn address_wildcard_is_refused() {
        for (text, is_taken) in [
            ("fd*", false),
            ("*a*", false),
            ("fd??.*", false),
            ("*.de", true),
            ("node*", true),
            ("*.lab.example", true),
            ("@fd", true),
        ] {
            assert_eq!(check_wildcard(HostRule::parse(text).unwrap()).is_ok(), is_taken, "{text}");
        }
    }
}
