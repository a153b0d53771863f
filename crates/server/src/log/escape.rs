//! Escapes foreign text so that it can neither end a line nor control a terminal.

use std::fmt::{self, Display, Formatter, Write};

/// Formats a text on one line: control and invisible characters appear as Rust escapes, for example
/// `\n` and `\u{202e}`.
#[derive(Clone, Copy, Debug)]
pub struct EscapedText<'a>(pub &'a str);

impl Display for EscapedText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_escaped(f, self.0, |_| false)
    }
}

/// Formats a multi-line text: as [`EscapedText`], but line feeds and tabs stay.
#[derive(Clone, Copy, Debug)]
pub struct EscapedLines<'a>(pub &'a str);

impl Display for EscapedLines<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_escaped(f, self.0, |letter| matches!(letter, '\n' | '\t'))
    }
}

fn write_escaped(f: &mut Formatter<'_>, text: &str, stays: fn(char) -> bool) -> fmt::Result {
    for letter in text.chars() {
        match letter {
            letter if !is_unsafe(letter) || stays(letter) => f.write_char(letter)?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            other => write!(f, "\\u{{{:x}}}", u32::from(other))?,
        }
    }
    Ok(())
}

/// Escapes the same characters in a JSON document as JSON escapes. A parser gets the exact text,
/// and a terminal is safe. Outside of strings JSON has no such characters but line feeds, which
/// stay.
#[must_use]
pub fn escape_json(document: &str) -> String {
    let mut out = String::with_capacity(document.len());
    for letter in document.chars() {
        if letter == '\n' || !is_unsafe(letter) {
            out.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            // Writing to a string does not fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// Whether `letter` could mislead a terminal, a line reader or a person: control characters of both
/// blocks, line and paragraph separators, and invisible or direction-changing characters (Unicode,
/// general categories Cc, Cf, Zl and Zp).
#[must_use]
pub fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(
            u32::from(letter),
            0xad
                | 0x0600..=0x0605
                | 0x061c
                | 0x06dd
                | 0x070f
                | 0x180e
                | 0x200b..=0x200f
                | 0x2028..=0x202e
                | 0x2060..=0x206f
                | 0xfeff
                | 0xfff9..=0xfffb
                | 0xe0000..=0xe007f
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str =
        "a\nb\r\t\x1b[2J\x1b]0;x\x07\x7f\u{9b}31m\u{85}\u{202e}\u{2028}\u{2029}\u{2066}\u{feff}é\\";

    #[test]
    fn hostile_text_stays_on_its_line() {
        let shown = EscapedText(HOSTILE).to_string();
        assert_eq!(
            shown,
            "a\\nb\\r\\t\\u{1b}[2J\\u{1b}]0;x\\u{7}\\u{7f}\\u{9b}31m\\u{85}\\u{202e}\\u{2028}\\u{2029}\\u{2066}\\u{feff}é\\"
        );
        assert!(!shown.chars().any(is_unsafe));
    }

    #[test]
    fn text_of_several_lines_keeps_line_feeds_only() {
        let shown = EscapedLines("a\n\tb\r\u{1b}").to_string();
        assert_eq!(shown, "a\n\tb\\r\\u{1b}");
    }

    #[test]
    fn escaped_json_is_safe_and_means_the_same() {
        let text = format!("{HOSTILE}\u{e0041}");
        let document = serde_json::json!({ &text: text }).to_string();
        let escaped = escape_json(&document);
        assert!(!escaped.chars().any(is_unsafe), "{escaped}");
        let back: serde_json::Value = serde_json::from_str(&escaped).unwrap();
        assert_eq!(back[&text], text);
    }
}
