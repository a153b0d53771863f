//! Parsing of a file with mistakes: after each one, the rest is parsed without the item at fault, so
//! all mistakes are found at once.

use super::meaning::line_of;
use super::{Problem, reference, suggest};
use serde::de::DeserializeOwned;
use std::ops::Range;

/// Maximum number of mistakes of one file that are reported.
const PROBLEMS_MAX: usize = 100;

/// The parsed file and its mistakes.
pub(super) struct TolerantParse<T> {
    /// The items without mistakes; `None` if there are too many mistakes.
    pub raw: Option<T>,
    /// The mistakes, in no order.
    pub problems: Vec<Problem>,
    /// The items at fault.
    pub faults: Faults,
}

/// Positions and keys of the items at fault.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<(usize, String)>);

impl Faults {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `key` is at fault in the table whose header is at or before `start`: then it is not
    /// missing.
    pub fn have(&self, text: &str, start: usize, key: &str) -> bool {
        let is_in_table = |at: usize| {
            let lines = text.get(start..at).unwrap_or_default().lines();
            at > start && lines.skip(1).all(|line| !line.trim_start().starts_with('['))
        };
        self.0.iter().any(|(at, own)| own == key && is_in_table(*at))
    }
}

/// Parses `text` as far as possible.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> TolerantParse<T> {
    let mut rest = text.to_owned();
    let (mut problems, mut faults) = (Vec::new(), Faults::default());
    for _ in 0..PROBLEMS_MAX {
        let error = match toml::from_str(&rest) {
            Ok(parsed) => return TolerantParse { raw: Some(parsed), problems, faults },
            Err(error) => error,
        };
        let span = error.span().unwrap_or_default();
        let items = items(&rest);
        // A parser may report the end of the file or of a line.
        let at = items.iter().rposition(|item| item.range.start <= span.start);
        let item = at.map(|at| section_and_key(&rest, &items, at)).unwrap_or_default();
        let missing = error.message().strip_prefix("missing field `");
        let missing = missing.and_then(|rest| rest.split('`').next());
        if !missing.is_some_and(|key| faults.have(text, span.start, key)) {
            problems.push(explain(text, &error, &item));
        }
        let Some(at) = at else { break };
        faults.0.push((items[at].range.start, item.1));
        let end = match items[at].is_header {
            // Keys of an unknown table would belong to the one before it.
            true => items[at + 1..].iter().find(|item| item.is_header).map(|next| next.range.start),
            false => Some(items[at].range.end),
        };
        let range = items[at].range.start..end.unwrap_or(rest.len());
        if rest[range.clone()].trim().is_empty() {
            break;
        }
        rest = blanked(&rest, range);
    }
    TolerantParse { raw: None, problems, faults }
}

/// One `key = value`, or a table's header.
struct Item {
    range: Range<usize>,
    is_header: bool,
}

/// Splits a text into items, also where it is not valid TOML. Lines without a `=` are items, too.
fn items(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let line = text[at..].split('\n').next().unwrap_or_default();
        let start = at + line.len() - line.trim_start().len();
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with('#') {
            at += line.len() + 1;
            continue;
        }
        let is_header = bare.starts_with('[');
        let value = line.find('=').filter(|_| !is_header);
        let end = value.map_or(at + line.len(), |equals| value_end(text, at + equals + 1));
        items.push(Item { range: start..end, is_header });
        at = end + 1;
    }
    items
}

/// The end of the value at `start`: the end of its last line.
fn value_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (start, 0usize);
    while at < bytes.len() {
        match bytes[at] {
            b'\n' if depth == 0 => return at,
            b'#' => at += text[at..].find('\n').unwrap_or(bytes.len() - at) - 1,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            quote @ (b'"' | b'\'') => at = string_end(bytes, at, quote),
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The position of the last quote of the string at `start`; of a string without an end, the last
/// position of its line.
fn string_end(bytes: &[u8], start: usize, quote: u8) -> usize {
    let triple = [quote; 3];
    let is_long = bytes[start..].starts_with(&triple);
    let mut at = start + if is_long { 3 } else { 1 };
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote == b'"' => at += 1,
            b'\n' if !is_long => return at - 1,
            _ if is_long && bytes[at..].starts_with(&triple) => return at + 2,
            byte if byte == quote && !is_long => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len() - 1
}

/// The text with spaces in `range`, but with its lines.
fn blanked(text: &str, range: Range<usize>) -> String {
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..range.start]);
    for letter in text[range.clone()].chars() {
        match letter {
            '\n' => out.push('\n'),
            other => out.extend(std::iter::repeat_n(' ', other.len_utf8())),
        }
    }
    out.push_str(&text[range.end..]);
    out
}

/// The header of the item's table as in the reference, and the item's key.
fn section_and_key(text: &str, items: &[Item], at: usize) -> (String, String) {
    let header = items[..=at].iter().rfind(|item| item.is_header);
    let header = header.map_or("", |item| text[item.range.clone()].trim());
    let header = header.split('#').next().unwrap_or_default().trim();
    let item = &text[items[at].range.clone()];
    let key = item.split('=').next().unwrap_or_default().trim().trim_matches('"');
    (header.to_owned(), key.to_owned())
}

/// The parser's error in the words of the configuration: a suggestion for a mistyped word, and the
/// expected form for a value of the wrong type.
fn explain(text: &str, error: &toml::de::Error, item: &(String, String)) -> Problem {
    let line = error.span().map(|span| line_of(text, span.start));
    let message = error.message();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let typed = quoted.next().unwrap_or_default();
    let known: Vec<&str> = quoted.collect();
    let (header, key) = item;
    let text = if message.starts_with("unknown field") {
        format!("unknown key `{typed}`{}", suggest::hint(typed, &known))
    } else if message.starts_with("unknown variant") {
        format!("`{typed}` is not a value of this key{}", suggest::hint(typed, &known))
    } else if message.starts_with("missing field") {
        format!("the key `{typed}` is missing here")
    } else if message.starts_with("duplicate key") {
        format!("the key `{key}` is set twice; remove one")
    } else if let Some(form) = form_of(header, key) {
        let found =
            message.strip_prefix("invalid type: ").and_then(|m| m.split(", expected").next());
        match found {
            Some(found) => format!("{key} is the {found}; it must be {form}"),
            None => format!("{key}: {message}; it must be {form}"),
        }
    } else {
        message.to_owned()
    };
    Problem { line, text }
}

/// The permitted values of a key with an example, from the reference.
fn form_of(header: &str, key: &str) -> Option<String> {
    const EXAMPLES: &[(&str, &str)] = &[
        ("a list of users", "[\"alice\", \"@staff\"]"),
        ("a path", "\"/srv/data\""),
        ("an IP address", "\"192.0.2.1\""),
        ("a system group", "\"staff\""),
        ("a system user", "\"nobody\""),
        ("a text", "\"text\""),
        ("the number", "65534"),
    ];
    let section = reference::SECTIONS.iter().find(|section| section.header == header)?;
    let key = section.keys.iter().find(|known| known.name == key)?;
    let form = key.form.replace('`', "");
    if form.contains(", as ") {
        return Some(form);
    }
    let usual = match key.default {
        reference::DefaultValue::Is(value) if value != "[]" => Some(value.to_owned()),
        _ => EXAMPLES
            .iter()
            .find(|(start, _)| form.starts_with(start))
            .map(|(_, example)| (*example).to_owned())
            .or_else(|| first_number(&form)),
    };
    Some(usual.map_or_else(|| form.clone(), |usual| format!("{form}, as {} = {usual}", key.name)))
}

/// The first number of a text such as "a number from 1 to 600".
fn first_number(form: &str) -> Option<String> {
    let mut words = form.split([' ', ',']).filter(|word| !word.is_empty());
    words.find(|word| word.bytes().all(|b| b.is_ascii_digit())).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_around_mistakes() {
        let text = "# a\n[server]\nsmb = [ # ]\n  \"a]\", 'b'\n]\nx y\nt = \"\"\"\n= 1\n\"\"\"\nu = \"no end\nv = { a = 1 }\n[[share]]\n";
        let found: Vec<&str> = items(text).into_iter().map(|item| &text[item.range]).collect();
        let expected = [
            "[server]",
            "smb = [ # ]\n  \"a]\", 'b'\n]",
            "x y",
            "t = \"\"\"\n= 1\n\"\"\"",
            "u = \"no end",
            "v = { a = 1 }",
            "[[share]]",
        ];
        assert_eq!(found, expected);
        for cut in 0..text.len() {
            items(&text[..cut]);
        }
    }

    #[test]
    fn mistakes_are_all_found() {
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Raw {
            #[serde(default)]
            known: Vec<u8>,
        }
        let text = "\u{e4} = 1\nknown = \"x\"\nother = [\n 1,\n]\nknown = [7]\n";
        let TolerantParse { raw, problems, .. } = parse::<Raw>(text);
        assert_eq!(raw.unwrap().known, [0u8; 0]);
        let mut lines: Vec<usize> = problems.iter().filter_map(|problem| problem.line).collect();
        lines.sort_unstable();
        assert_eq!(lines, [1, 2, 3, 6], "{problems:?}");
    }
}
