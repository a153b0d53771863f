//! Comments and help texts of a source file, each with the item that it belongs to.

/// Derives of clap: the comments inside such an item are shown to users.
const COMMAND_LINE_DERIVES: [&str; 4] = ["Args", "Parser", "Subcommand", "ValueEnum"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// A comment for engineers.
    Comment,
    /// A comment that clap shows as help of a command, an argument or a value.
    Help,
}

/// Consecutive comment lines of one kind, joined.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceText {
    pub kind: TextKind,
    /// Path inside the crate.
    pub path: String,
    /// First line, from 1.
    pub line: usize,
    /// Start of the code line that follows, without visibility; "module" for `//!`.
    pub item: String,
    pub text: String,
}

/// All texts of a file. Blocks of code inside comments are skipped.
pub fn of(path: &str, source: &str) -> Vec<SourceText> {
    let mut texts: Vec<SourceText> = Vec::new();
    let (mut open, mut marker, mut in_code) = (false, "", false);
    let mut is_command_line = false;
    for (at, line) in source.lines().enumerate() {
        let Some((found, text)) = comment(line) else {
            is_command_line = (is_command_line || derives_command_line(line)) && line != "}";
            (open, in_code) = (false, false);
            name_item(&mut texts, line);
            continue;
        };
        let is_fence = text.starts_with("```");
        in_code ^= is_fence;
        if is_fence || in_code {
            continue;
        }
        if open && found == marker {
            if let Some(last) = texts.last_mut() {
                last.text.push(' ');
                last.text.push_str(text);
            }
            continue;
        }
        (open, marker) = (true, found);
        let kind =
            if is_command_line && found == "///" { TextKind::Help } else { TextKind::Comment };
        let item = if found == "//!" { "module" } else { "" };
        let (path, item, text) = (path.to_owned(), item.to_owned(), text.to_owned());
        texts.push(SourceText { kind, path, line: at + 1, item, text });
    }
    for text in &mut texts {
        text.text = text.text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    texts.retain(|text| !text.text.is_empty());
    texts
}

/// The marker and the text of a line that holds only a comment.
fn comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    // A line with an escaped line end belongs to a string.
    if line.contains("\\n") {
        return None;
    }
    let marker = ["///", "//!", "//"].into_iter().find(|marker| line.starts_with(marker))?;
    Some((marker, line[marker.len()..].trim()))
}

fn derives_command_line(line: &str) -> bool {
    let Some(derives) = line.strip_prefix("#[derive(") else { return false };
    derives.split([',', ')', ' ', ':']).any(|one| COMMAND_LINE_DERIVES.contains(&one))
}

/// Gives the code line to the comment above it; attributes stand between the two.
fn name_item(texts: &mut [SourceText], line: &str) {
    let line = line.trim();
    let Some(last) = texts.last_mut().filter(|text| text.item.is_empty()) else { return };
    if line.is_empty() || line.starts_with("#[") {
        return;
    }
    let line = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub ")).unwrap_or(line);
    let end = line.find(['(', '{', '=', ';', ':', '<', ',']).unwrap_or(line.len());
    line[..end].trim().clone_into(&mut last.item);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_lines_are_one_text_with_the_item_below() {
        let source = "//! The module.\n\n/// Closes\n/// a file.\n///\n/// ```\n/// code();\n/// ```\n\
                      #[must_use]\npub fn close(a: u8) {\n    // The lock is held.\n    wait();\n}\n";
        let texts = of("src/a.rs", source);
        let shown: Vec<(usize, &str, &str)> =
            texts.iter().map(|t| (t.line, t.item.as_str(), t.text.as_str())).collect();
        let expected = [
            (1, "module", "The module."),
            (3, "fn close", "Closes a file."),
            (11, "wait", "The lock is held."),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn comments_inside_a_command_line_are_help_and_others_are_not() {
        let source = "/// Arguments.\n#[derive(Debug, clap::Args)]\npub struct Args {\n\
                      \x20   /// File to read\n    #[arg(long)]\n    file: String,\n}\n\
                      /// Reads.\nfn read() {}\n";
        let kinds: Vec<(TextKind, String)> =
            of("src/a.rs", source).into_iter().map(|t| (t.kind, t.item)).collect();
        let expected = [
            (TextKind::Comment, "struct Args".to_owned()),
            (TextKind::Help, "file".to_owned()),
            (TextKind::Comment, "fn read".to_owned()),
        ];
        assert_eq!(kinds, expected);
    }
}
