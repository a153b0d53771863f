//! Parser for NFS-Ganesha's configuration: blocks, settings and includes. ganesha-config(8).

use crate::import::text::{FILE_BYTES_MAX, Read, SourcePosition};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum depth of blocks; Ganesha uses three levels.
const DEPTH_MAX: usize = 8;
/// Maximum number of files, and maximum depth of includes.
const FILES_MAX: usize = 1000;
const INCLUDES_DEPTH_MAX: usize = 8;
/// Total bytes of all files.
const BYTES_MAX: usize = 16 * FILE_BYTES_MAX;

/// An entry of a block or of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GaneshaItem {
    pub place: SourcePosition,
    /// Name as written; names are case-insensitive.
    pub name: String,
    pub body: GaneshaItemBody,
}

/// Contents of a [`GaneshaItem`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GaneshaItemBody {
    /// `NAME { ... }`
    Block(Vec<GaneshaItem>),
    /// `NAME = VALUE, VALUE;`
    Values(Vec<String>),
    /// `%dir FOLDER` and similar; the referenced files were not read.
    Unread(String),
}

impl GaneshaItem {
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Parses a configuration with its includes.
///
/// # Errors
/// A sentence with file and line: Ganesha, too, rejects a malformed configuration as a whole.
pub fn parse(path: &Path, read: Read<'_>) -> Result<Vec<GaneshaItem>, String> {
    let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
    let mut files = GaneshaFiles { read, folder, count: 0, bytes: 0 };
    files.items(path, 0)
}

struct GaneshaFiles<'a> {
    read: Read<'a>,
    /// Base directory of relative file names: that of the first file.
    folder: PathBuf,
    count: usize,
    bytes: usize,
}

impl GaneshaFiles<'_> {
    fn items(&mut self, path: &Path, depth: usize) -> Result<Vec<GaneshaItem>, String> {
        let of_file = |what: String| format!("{}: {what}", path.display());
        self.count += 1;
        if self.count > FILES_MAX || depth > INCLUDES_DEPTH_MAX {
            return Err(of_file("too many files include each other".into()));
        }
        let text = (self.read)(path).map_err(|error| of_file(error.to_string()))?;
        self.bytes += text.len();
        if text.len() > FILE_BYTES_MAX || self.bytes > BYTES_MAX {
            return Err(of_file(format!("longer than {FILE_BYTES_MAX} bytes")));
        }
        let mut parser = GaneshaParser { file: path.into(), text: &text, at: 0, line: 1 };
        let mut items = Vec::new();
        while let Some(token) = parser.token()? {
            let place = parser.place();
            match token {
                GaneshaToken::Word(word) if word.starts_with('%') => {
                    let name = parser.value("a file")?;
                    if !word.eq_ignore_ascii_case("%include") {
                        items.push(GaneshaItem {
                            place,
                            name: word,
                            body: GaneshaItemBody::Unread(name),
                        });
                        continue;
                    }
                    let path = self.folder.join(name);
                    items.extend(self.items(&path, depth + 1)?);
                }
                GaneshaToken::Word(name) => items.push(parser.item(place, name, 0)?),
                // Some files have a semicolon after a block.
                GaneshaToken::Sign(';') => {}
                _ => return Err(parser.expected("the name of a block")),
            }
        }
        Ok(items)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum GaneshaToken {
    Quoted(String),
    /// One of `{ } = , ;`.
    Sign(char),
    Word(String),
}

struct GaneshaParser<'a> {
    file: Arc<Path>,
    text: &'a str,
    at: usize,
    /// Line of the last token.
    line: usize,
}

impl GaneshaParser<'_> {
    fn place(&self) -> SourcePosition {
        SourcePosition { file: self.file.clone(), line: self.line }
    }

    fn expected(&self, what: &str) -> String {
        format!(
            "{}:{}: expected {what}; Ganesha refuses this file, too",
            self.file.display(),
            self.line
        )
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.text[self.at..].chars().next()?;
        self.at += letter.len_utf8();
        self.line += usize::from(letter == '\n');
        Some(letter)
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    /// The next token; `None` at the end of the file.
    fn token(&mut self) -> Result<Option<GaneshaToken>, String> {
        loop {
            match self.peek() {
                None => return Ok(None),
                Some('#') => {
                    while self.peek().is_some_and(|letter| letter != '\n') {
                        self.next();
                    }
                }
                Some(letter) if letter.is_whitespace() => {
                    self.next();
                }
                Some(quote @ ('"' | '\'')) => return self.quoted(quote).map(Some),
                Some(sign @ ('{' | '}' | '=' | ',' | ';')) => {
                    self.next();
                    return Ok(Some(GaneshaToken::Sign(sign)));
                }
                Some(_) => {
                    let ends =
                        |letter: char| letter.is_whitespace() || "{}=,;#\"'".contains(letter);
                    let rest = &self.text[self.at..];
                    let length = rest.find(ends).unwrap_or(rest.len());
                    self.at += length;
                    return Ok(Some(GaneshaToken::Word(rest[..length].to_owned())));
                }
            }
        }
    }

    /// In double quotes a backslash escapes the next character.
    fn quoted(&mut self, quote: char) -> Result<GaneshaToken, String> {
        let mut text = String::new();
        self.next();
        while let Some(letter) = self.next() {
            match letter {
                _ if letter == quote => return Ok(GaneshaToken::Quoted(text)),
                '\\' if quote == '"' => match self.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some(other) => text.push(other),
                    None => break,
                },
                _ => text.push(letter),
            }
        }
        Err(self.expected(&format!("{quote} at the end of a text")))
    }

    /// Parses the rest of a block or setting after its name.
    fn item(
        &mut self,
        place: SourcePosition,
        name: String,
        depth: usize,
    ) -> Result<GaneshaItem, String> {
        match self.token()? {
            Some(GaneshaToken::Sign('=')) => {
                Ok(GaneshaItem { place, name, body: GaneshaItemBody::Values(self.values()?) })
            }
            Some(GaneshaToken::Sign('{')) if depth < DEPTH_MAX => Ok(GaneshaItem {
                place,
                name,
                body: GaneshaItemBody::Block(self.block(depth + 1)?),
            }),
            Some(GaneshaToken::Sign('{')) => Err(self.expected("fewer blocks within blocks")),
            _ => Err(self.expected(&format!("\"=\" or \"{{\" behind {name:?}"))),
        }
    }

    fn block(&mut self, depth: usize) -> Result<Vec<GaneshaItem>, String> {
        let mut items = Vec::new();
        loop {
            match self.token()? {
                Some(GaneshaToken::Sign('}')) => return Ok(items),
                Some(GaneshaToken::Sign(';')) => {}
                Some(GaneshaToken::Word(name)) => {
                    let place = self.place();
                    items.push(self.item(place, name, depth)?);
                }
                _ => return Err(self.expected("a setting, a block or \"}\"")),
            }
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        loop {
            match self.token()? {
                Some(GaneshaToken::Sign(';')) => return Ok(values),
                Some(GaneshaToken::Sign(',')) => {}
                Some(GaneshaToken::Word(text) | GaneshaToken::Quoted(text)) => {
                    values.push(text);
                    match self.token()? {
                        Some(GaneshaToken::Sign(';')) => return Ok(values),
                        Some(GaneshaToken::Sign(',')) => {}
                        _ => return Err(self.expected("\",\" or \";\" behind a value")),
                    }
                }
                _ => return Err(self.expected("a value or \";\"")),
            }
        }
    }

    fn value(&mut self, what: &str) -> Result<String, String> {
        match self.token()? {
            Some(GaneshaToken::Word(text) | GaneshaToken::Quoted(text)) => Ok(text),
            _ => Err(self.expected(what)),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Error, ErrorKind};

    pub fn parse_files(files: &[(&str, &str)]) -> Result<Vec<GaneshaItem>, String> {
        let read = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found
                .map(|(_, text)| (*text).to_owned())
                .ok_or_else(|| Error::from(ErrorKind::NotFound))
        };
        parse(Path::new(files[0].0), &read)
    }

    /// Formats items as text, without their locations.
    fn written(items: &[GaneshaItem]) -> String {
        let quoted = |text: &String| {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            format!("\"{text}\"")
        };
        let one = |item: &GaneshaItem| match &item.body {
            GaneshaItemBody::Block(items) => format!("{} {{\n{}}}\n", item.name, written(items)),
            GaneshaItemBody::Values(values) => {
                let values: Vec<_> = values.iter().map(quoted).collect();
                format!("{} = {};\n", item.name, values.join(", "))
            }
            GaneshaItemBody::Unread(name) => format!("{} {}\n", item.name, quoted(name)),
        };
        items.iter().map(one).collect()
    }

    #[test]
    fn parser_reads_blocks_values_comments_and_quotes() {
        let text = "# A comment\nEXPORT {\n  Export_Id = 1; # another\n  Path = \"/srv/a b\\\"#\";\n  \
                    Clients = 192.0.2.0/24, @group,*.lab; FSAL { Name = 'VFS'; }\n}\n";
        let items = parse_files(&[("/e/g.conf", text)]).unwrap();
        let [GaneshaItem { name, body: GaneshaItemBody::Block(inner), place }] = &items[..] else {
            panic!("{items:?}")
        };
        assert_eq!((&**name, place.line), ("EXPORT", 2));
        let lines: Vec<_> = inner.iter().map(|item| item.place.line).collect();
        assert_eq!(lines, [3, 4, 5, 5]);
        let values = |at: usize| match &inner[at].body {
            GaneshaItemBody::Values(values) => values.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(values(1), ["/srv/a b\"#"]);
        assert_eq!(values(2), ["192.0.2.0/24", "@group", "*.lab"]);
        assert_eq!(written(&items).matches("\"VFS\"").count(), 1);
    }

    #[test]
    fn included_file_replaces_its_include() {
        let items = parse_files(&[
            ("/e/g.conf", "A { }\n%include \"b.conf\"\n%dir /e/d\n%include /x/c.conf\n"),
            ("/e/b.conf", "B { }"),
            ("/x/c.conf", "C { }"),
        ]);
        let items = items.unwrap();
        let said: Vec<_> = items
            .iter()
            .map(|item| (&*item.name, item.place.file.to_str().unwrap(), item.place.line))
            .collect();
        let main = "/e/g.conf";
        assert_eq!(
            said,
            [("A", main, 1), ("B", "/e/b.conf", 1), ("%dir", main, 3), ("C", "/x/c.conf", 1)]
        );
    }

    #[test]
    fn syntax_error_has_file_and_line() {
        for (text, said) in [
            ("EXPORT {\n a = 1;\n", "/g:3: expected a setting, a block or \"}\""),
            ("EXPORT\n{ a = 1 b }", "/g:2: expected \",\" or \";\" behind a value"),
            ("EXPORT = \"a", "/g:1: expected \" at the end of a text"),
            ("EXPORT a;", "/g:1: expected \"=\" or \"{\" behind \"EXPORT\""),
            ("}", "/g:1: expected the name of a block"),
            ("%include /none", "/none: "),
            ("%include /g", "/g: too many files include each other"),
            (&"a{".repeat(20), "/g:1: expected fewer blocks within blocks"),
        ] {
            let error = parse_files(&[("/g", text)]).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }

    fn any_items() -> impl Strategy<Value = Vec<GaneshaItem>> {
        let place = || SourcePosition { file: Path::new("/g").into(), line: 0 };
        let values =
            proptest::collection::vec("[ -~\t]{0,8}", 0..3).prop_map(GaneshaItemBody::Values);
        let leaf = ("[A-Za-z_]{1,6}", values).prop_map(move |(name, body)| GaneshaItem {
            place: place(),
            name,
            body,
        });
        let items = proptest::collection::vec(leaf, 0..4);
        items.prop_recursive(3, 20, 4, move |inner| {
            let block = ("[A-Za-z_]{1,6}", inner).prop_map(move |(name, items)| GaneshaItem {
                place: place(),
                name,
                body: GaneshaItemBody::Block(items),
            });
            proptest::collection::vec(block, 0..4)
        })
    }

    proptest! {
        #[test]
        fn written_configuration_parses_to_the_same_items(items in any_items()) {
            let text = written(&items);
            let read = parse_files(&[("/g", &text)]).unwrap();
            prop_assert_eq!(written(&read), text);
        }

        #[test]
        fn parser_accepts_or_refuses_any_text(text in "([a-zA-Z0-9%/.@*?\\[\\]{}=,;#'\"\\\\ \n]|\\PC){0,60}") {
            let _ = parse_files(&[("/g", &text)]);
        }
    }
}
