//! Formats one event as one line. Every message and field passes here, so no call site can forget
//! to escape foreign text.

use super::escape::{EscapedText, escape_json};
use crate::config::LogFormat;
use serde_json::{Map, Value};
use std::fmt::{Debug, Write};
use std::net::{IpAddr, SocketAddr};
use tracing::field::{Field, Visit};
use tracing::{Level, Metadata};

/// Maximum length of one field value in characters.
const VALUE_CHARS_MAX: usize = 4096;
/// Maximum length of the message in characters; audit lines are messages.
const MESSAGE_CHARS_MAX: usize = 32 * 1024;

/// The message and the fields of an event.
#[derive(Debug, Default)]
pub struct EventFields {
    message: String,
    values: Vec<(&'static str, FieldValue)>,
    /// Client of the event, from the field `peer`.
    pub peer: Option<IpAddr>,
}

/// A field's value.
#[derive(Debug)]
enum FieldValue {
    /// Number or boolean.
    Plain(Value),
    /// A string.
    Text(String),
    /// Output of `Display` or `Debug`.
    Formatted(String),
}

impl EventFields {
    /// An event about the log itself.
    pub fn notice(message: &str, name: &'static str, count: u64) -> Self {
        let mut fields = Self { message: message.into(), ..Self::default() };
        fields.put_count(name, count);
        fields
    }

    /// A line with this message, truncated if necessary.
    pub fn titled(message: String) -> Self {
        Self { message: cut(message, MESSAGE_CHARS_MAX), ..Self::default() }
    }

    /// Adds a field.
    pub fn put_count(&mut self, name: &'static str, count: u64) {
        self.values.push((name, FieldValue::Plain(count.into())));
    }

    /// Adds a field, truncated if necessary.
    pub fn put_text(&mut self, name: &'static str, text: String) {
        self.values.push((name, FieldValue::Text(cut(text, VALUE_CHARS_MAX))));
    }

    fn put(&mut self, field: &Field, shown: FieldValue) {
        self.values.push((field.name(), shown));
    }

    fn put_string(&mut self, field: &Field, text: String, shown: fn(String) -> FieldValue) {
        match field.name() {
            "message" => self.message = cut(text, MESSAGE_CHARS_MAX),
            name => {
                if name == "peer" {
                    self.peer = text.parse().ok().map(|peer: SocketAddr| peer.ip());
                }
                self.put(field, shown(cut(text, VALUE_CHARS_MAX)));
            }
        }
    }
}

fn cut(text: String, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put_string(field, format!("{value:?}"), FieldValue::Formatted);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_string(field, value.to_owned(), FieldValue::Text);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, FieldValue::Plain(value.into()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, FieldValue::Plain(value.into()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, FieldValue::Plain(value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, FieldValue::Plain(value.into()));
    }
}

/// Layout of lines.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// For people or for machines.
    pub format: LogFormat,
    /// Whether levels are coloured, for a terminal.
    pub has_colours: bool,
}

impl Layout {
    /// Formats an event as a line with its line feed. `time` is in RFC 3339 form.
    #[must_use]
    pub fn line(self, time: &str, metadata: (Level, &str), fields: &EventFields) -> String {
        match self.format {
            LogFormat::Text => self.text(time, metadata.0, fields),
            LogFormat::Json => json(time, metadata, fields),
        }
    }

    fn text(self, time: &str, level: Level, fields: &EventFields) -> String {
        let (dim, colour, end) = match self.has_colours {
            true => ("\x1b[2m", colour(level), "\x1b[0m"),
            false => ("", "", ""),
        };
        let message = EscapedText(&fields.message);
        let mut out = format!("{dim}{time}{end} {colour}{:>5}{end} {message}", level.as_str());
        for (name, value) in &fields.values {
            // Writing to a string does not fail.
            let _ = match value {
                FieldValue::Plain(value) => write!(out, " {name}={value}"),
                FieldValue::Formatted(text) if is_word(text) => write!(out, " {name}={text}"),
                FieldValue::Text(text) | FieldValue::Formatted(text) => {
                    let quoted = format!("{text:?}");
                    write!(out, " {name}={}", EscapedText(&quoted))
                }
            };
        }
        out.push('\n');
        out
    }
}

/// Whether a value is unambiguous without quotes.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '='))
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        _ => "\x1b[34m",
    }
}

fn json(time: &str, (level, target): (Level, &str), fields: &EventFields) -> String {
    let mut line = Map::new();
    line.insert("timestamp".into(), time.into());
    line.insert("level".into(), level.as_str().into());
    line.insert("message".into(), fields.message.as_str().into());
    line.insert("target".into(), target.into());
    for (name, value) in &fields.values {
        let value = match value {
            FieldValue::Plain(value) => value.clone(),
            FieldValue::Text(text) | FieldValue::Formatted(text) => text.as_str().into(),
        };
        line.entry(*name).or_insert(value);
    }
    escape_json(&Value::Object(line).to_string()) + "\n"
}

/// Level and target of an event.
pub fn facts<'a>(metadata: &'a Metadata<'a>) -> (Level, &'a str) {
    (*metadata.level(), metadata.target())
}

#[cfg(test)]
mod tests {
    use super::super::escape::is_unsafe;
    use super::*;

    const HOSTILE: &str =
        "x\n2026-01-01T00:00:00Z  INFO forged user=\"admin\"\r\u{1b}[2J\u{9b}31m\u{202e}\u{2028}";

    fn hostile() -> EventFields {
        EventFields {
            message: format!("message {HOSTILE}"),
            values: vec![
                ("user", FieldValue::Text(HOSTILE.into())),
                ("owner", FieldValue::Formatted(HOSTILE.into())),
                ("peer", FieldValue::Formatted("192.0.2.1:7".into())),
                ("share", FieldValue::Formatted("a user=root".into())),
                ("count", FieldValue::Plain(3.into())),
            ],
            peer: None,
        }
    }

    fn line(format: LogFormat, fields: &EventFields) -> String {
        let layout = Layout { format, has_colours: false };
        layout.line("2026-02-03T04:05:06Z", (Level::WARN, "server"), fields)
    }

    #[test]
    fn hostile_fields_make_one_plain_line_in_both_formats() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let line = line(format, &hostile());
            let line = line.strip_suffix('\n').unwrap();
            assert!(!line.chars().any(is_unsafe), "{line:?}");
        }
    }

    #[test]
    fn text_line_quotes_what_could_look_like_another_field() {
        let fields = EventFields { message: "m".into(), ..hostile() };
        let line = line(LogFormat::Text, &fields);
        assert!(line.starts_with("2026-02-03T04:05:06Z  WARN m user=\"x\\n2026"), "{line}");
        assert!(line.ends_with(" peer=192.0.2.1:7 share=\"a user=root\" count=3\n"), "{line}");
    }

    #[test]
    fn json_line_gives_back_the_exact_text() {
        let line: Value = serde_json::from_str(&line(LogFormat::Json, &hostile())).unwrap();
        assert_eq!((&line["user"], &line["owner"]), (&HOSTILE.into(), &HOSTILE.into()));
        assert_eq!((&line["level"], &line["count"]), (&"WARN".into(), &3.into()));
    }

    #[test]
    fn colours_are_for_terminals_only() {
        let fields = EventFields::notice("m", "n", 1);
        let line = |has_colours| {
            let layout = Layout { format: LogFormat::Text, has_colours };
            layout.line("t", (Level::INFO, ""), &fields)
        };
        assert_eq!(line(false), "t  INFO m n=1\n");
        assert!(line(true).contains("\x1b[32m"));
    }

    #[test]
    fn long_value_is_cut() {
        assert_eq!(cut("éé".repeat(9), 3), "ééé…");
        assert_eq!(cut("abc".into(), 3), "abc");
    }
}
