//! The types of the workspace and their members, found by lines as rustfmt leaves them: what
//! `Type::name` in a page can refer to.

use super::{DIRECTION, rust_files};
use crate::language::without_visibility;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Methods, variants, fields, associated constants and types by the name of their type or trait.
pub type Members = BTreeMap<String, BTreeSet<String>>;

/// Columns by which the members of an item are indented.
const INDENT: usize = 4;

/// The members of every type and trait in the crates.
///
/// # Errors
/// A file cannot be read.
pub fn all(root: &Path) -> Result<Members> {
    let mut members = Members::new();
    for (name, _) in DIRECTION {
        for file in rust_files(&root.join("crates").join(name))? {
            add(&std::fs::read_to_string(file)?, &mut members);
        }
    }
    Ok(members)
}

/// A declaration or implementation that is being read.
#[derive(Debug)]
struct ItemBlock<'a> {
    of: &'a str,
    indent: usize,
    /// Its header, which may have several lines, is complete.
    has_body: bool,
}

/// Adds the types of one source, without those of its tests.
fn add(source: &str, members: &mut Members) {
    let mut block: Option<ItemBlock<'_>> = None;
    for line in source.lines().take_while(|line| !line.contains("mod tests {")) {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if let Some(ItemBlock { of, indent: outer, has_body }) = &mut block {
            let is_member = *has_body && indent == *outer + INDENT;
            if let Some(name) = member(text).filter(|_| is_member) {
                members.entry((*of).to_owned()).or_default().insert(name.to_owned());
            }
            if indent > *outer || text.is_empty() {
                continue;
            }
            *has_body |= text.ends_with('{');
            if text.ends_with(['}', ';']) {
                block = None;
            }
        } else if let Some(of) = opened_type(text) {
            members.entry(of.to_owned()).or_default();
            let has_body = text.ends_with('{');
            block =
                Some(ItemBlock { of, indent, has_body }).filter(|_| !text.ends_with(['}', ';']));
        }
    }
}

/// The type or trait whose declaration or implementation begins in this line.
fn opened_type(line: &str) -> Option<&str> {
    let line = without_visibility(line);
    let line = line.strip_prefix("unsafe ").unwrap_or(line);
    let declared = ["struct ", "enum ", "trait ", "union "]
        .into_iter()
        .find_map(|keyword| line.strip_prefix(keyword));
    if let Some(rest) = declared {
        return Some(word(rest));
    }
    let rest = line.strip_prefix("impl").filter(|rest| rest.starts_with([' ', '<']))?;
    let rest = rest.rsplit_once(" for ").map_or_else(|| after_generics(rest), |(_, of)| of);
    let rest = rest.trim_start().trim_start_matches('&');
    let path = rest.strip_prefix("dyn ").unwrap_or(rest);
    let path = &path[..path.find(['<', ' ', '{']).unwrap_or(path.len())];
    Some(word(path.rsplit("::").next().unwrap_or(path))).filter(|name| !name.is_empty())
}

/// The rest of a text that begins with generic parameters.
fn after_generics(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if !text[..at].ends_with(['-', '=']) => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if c == '>' { &text[at + 1..] } else { text };
        }
    }
    text
}

/// The member that a line declares: `name: Type`, `Variant(…)`, `fn name`, `const NAME`, `type Name`.
fn member(line: &str) -> Option<&str> {
    let line = without_visibility(line);
    let mut rest = line;
    for qualifier in ["const ", "async ", "unsafe "] {
        // Without `fn`, the word `const` declares a constant.
        let after = rest.strip_prefix(qualifier).filter(|after| after.contains("fn "));
        rest = after.unwrap_or(rest);
    }
    let declared =
        ["fn ", "const ", "type "].into_iter().find_map(|keyword| rest.strip_prefix(keyword));
    if let Some(rest) = declared {
        return Some(word(rest));
    }
    let name = word(line);
    let after = line[name.len()..].trim_start();
    let is_declared =
        after.is_empty() || after.starts_with([',', '(', '{', '=']) || is_field(after);
    (!name.is_empty() && is_declared).then_some(name)
}

fn is_field(after_name: &str) -> bool {
    after_name.starts_with(':') && !after_name.starts_with("::")
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_every_kind_of_type_are_found() {
        let source = "\
pub enum ParsedEnum {
    /// Done.
    Done,
    Wait(Future),
    Named { field: u8 },
    Number = 3,
}
pub(crate) struct ParsedStruct<'a> {
    pub name: &'a str,
    state: Mutex<
        Inner,
    >,
}
struct ParsedUnit;
impl<'a, F: Fn(u8) -> u8> ParsedStruct<'a>
where
    F: Send,
{
    pub const LIMIT: usize = 3;

    pub(super) async fn run<T>(
        &self,
        argument: u8,
    ) {
        self.local(3);
    }

    pub const fn len(&self) -> usize {
        0
    }
}
impl std::fmt::Debug for wire::Number<'_> {
    type Error = ();
    fn fmt(&self) {}
}
pub trait ParsedTrait: Send {
    fn open(&self);
}
mod inner {
    pub struct ParsedInner {
        inside: u8,
    }
}
";
        let mut found = Members::new();
        add(source, &mut found);
        let of = |name: &str| found[name].iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(of("ParsedEnum"), ["Done", "Named", "Number", "Wait"]);
        assert_eq!(of("ParsedStruct"), ["LIMIT", "len", "name", "run", "state"]);
        assert_eq!(of("Number"), ["Error", "fmt"]);
        assert_eq!(of("ParsedTrait"), ["open"]);
        assert_eq!(of("ParsedInner"), ["inside"]);
        assert_eq!(of("ParsedUnit"), [""; 0]);
        assert_eq!(found.len(), 6, "{found:?}");
    }
}
