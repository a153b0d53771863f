//! The text of an smb.conf: sections of parameters, with the files it includes.
//!
//! Names of parameters and sections have no case, and spaces in them say
//! nothing; a backslash at the end of a line goes on with it.

use super::Note;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of one file, files in all, depth of includes, parameters in all.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;
const FILES_MAX: usize = 64;
const DEPTH_MAX: usize = 8;
const PARAMETERS_MAX: usize = 100_000;

/// Where something was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// File.
    pub file: Arc<Path>,
    /// Line, from 1.
    pub line: usize,
}

/// `name = value`.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The name in lower case without spaces, and the usual one of its synonyms.
    pub key: String,
    /// The name as it was typed.
    pub shown: String,
    /// The value, without spaces around it.
    pub value: String,
    /// Where.
    pub place: Place,
}

/// A service, or `[global]`.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name as it was typed.
    pub name: String,
    /// Where it begins.
    pub place: Place,
    /// What it says, in order.
    pub parameters: Vec<Parameter>,
}

impl Section {
    /// Whether it is the one called `name`.
    pub fn is(&self, name: &str) -> bool {
        squeezed(&self.name) == squeezed(name)
    }
}

/// Other names of parameters.
const SYNONYMS: &[(&str, &str)] = &[
    ("allowhosts", "hostsallow"),
    ("browsable", "browseable"),
    ("casesignames", "casesensitive"),
    ("createmode", "createmask"),
    ("denyhosts", "hostsdeny"),
    ("directory", "path"),
    ("directorymode", "directorymask"),
    ("exec", "preexec"),
    ("group", "forcegroup"),
    ("maxprotocol", "servermaxprotocol"),
    ("minprotocol", "serverminprotocol"),
    ("onlyguest", "guestonly"),
    ("preload", "autoservices"),
    ("printok", "printable"),
    ("printcap", "printcapname"),
    ("protocol", "servermaxprotocol"),
    ("public", "guestok"),
    ("serversmbencrypt", "smbencrypt"),
    ("user", "username"),
    ("users", "username"),
    ("vfsobject", "vfsobjects"),
    ("writable", "writeable"),
    ("writeok", "writeable"),
];

/// How files are had.
pub type Read<'a> = &'a dyn Fn(&Path) -> std::io::Result<String>;

/// Reads a file of at most [`FILE_BYTES_MAX`] bytes.
///
/// # Errors
/// It cannot be read, is no text of UTF-8, or is longer: of that no more is read, whatever it is.
pub fn read_file(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    let limit = FILE_BYTES_MAX as u64 + 1;
    std::fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(std::io::Error::other(format!("longer than {FILE_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))
}

/// Reads `path` and what it includes. The first section is `[global]`, said or not.
///
/// # Errors
/// A sentence if `path` itself cannot be read or is too large.
pub fn parse(path: &Path, read: Read<'_>) -> Result<(Vec<Section>, Vec<Note>), String> {
    let text = read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if text.len() > FILE_BYTES_MAX {
        return Err(format!("{}: longer than {FILE_BYTES_MAX} bytes", path.display()));
    }
    let place = Place { file: path.into(), line: 1 };
    let global = Section { name: "global".into(), place, parameters: Vec::new() };
    let mut parser = Parser {
        read,
        folder: path.parent().map(Path::to_path_buf).unwrap_or_default(),
        sections: vec![global],
        present: 0,
        notes: Vec::new(),
        files: 1,
        parameters: 0,
    };
    parser.file(path, &text, 0);
    Ok((parser.sections, parser.notes))
}

struct Parser<'a> {
    read: Read<'a>,
    folder: PathBuf,
    sections: Vec<Section>,
    /// The section that parameters go to.
    present: usize,
    notes: Vec<Note>,
    files: usize,
    parameters: usize,
}

impl Parser<'_> {
    fn file(&mut self, path: &Path, text: &str, depth: usize) {
        let file: Arc<Path> = path.into();
        let mut lines = text.lines().enumerate();
        while let Some((at, first)) = lines.next() {
            let mut line = first.trim().to_owned();
            let is_comment = line.starts_with(['#', ';']);
            while !is_comment && line.ends_with('\\') {
                line.pop();
                let Some((_, next)) = lines.next() else { break };
                line.push_str(next.trim());
            }
            if !line.is_empty() && !is_comment {
                self.line(&line, Place { file: file.clone(), line: at + 1 }, depth);
            }
        }
    }

    fn line(&mut self, line: &str, place: Place, depth: usize) {
        if let Some(rest) = line.strip_prefix('[') {
            match rest.split_once(']') {
                Some((name, _)) if !name.trim().is_empty() => self.section(name.trim(), place),
                _ => self.note(place, format!("{line:?} is not a section; it was skipped")),
            }
            return;
        }
        let Some((name, value)) = line.split_once('=') else {
            return self.note(place, format!("{line:?} is not a parameter; it was skipped"));
        };
        let (shown, value) = (name.trim().to_owned(), value.trim().to_owned());
        let key = squeezed(&shown);
        if key == "include" {
            return self.include(&value, place, depth);
        }
        if self.parameters == PARAMETERS_MAX {
            return;
        }
        self.parameters += 1;
        let synonym = SYNONYMS.iter().find(|(other, _)| *other == key);
        let key = synonym.map_or(key, |(_, usual)| (*usual).to_owned());
        let parameter = Parameter { key, shown, value, place };
        self.sections[self.present].parameters.push(parameter);
    }

    fn section(&mut self, name: &str, place: Place) {
        let name = if squeezed(name) == "globals" { "global" } else { name };
        // What is said later of a section adds to it.
        let known = self.sections.iter().position(|section| section.is(name));
        self.present = known.unwrap_or(self.sections.len());
        if known.is_none() {
            let parameters = Vec::new();
            self.sections.push(Section { name: name.to_owned(), place, parameters });
        }
    }

    fn include(&mut self, value: &str, place: Place, depth: usize) {
        let name = unquoted(value);
        let what = if name == "registry" {
            Some(
                "the registry was not read; give what `net conf list` prints to this command"
                    .into(),
            )
        } else if name.contains('%') {
            Some(format!("include = {name} is another file for every client; it was not read"))
        } else if depth >= DEPTH_MAX || self.files >= FILES_MAX {
            Some(format!("include = {name} was not read: too many files"))
        } else {
            None
        };
        if let Some(what) = what {
            return self.note(place, what);
        }
        self.files += 1;
        let path = self.folder.join(name);
        match (self.read)(&path) {
            Ok(text) if text.len() <= FILE_BYTES_MAX => self.file(&path, &text, depth + 1),
            Ok(_) => self.note(place, format!("{} was not read: too long", path.display())),
            Err(error) => self.note(place, format!("{} was not read: {error}", path.display())),
        }
    }

    fn note(&mut self, place: Place, text: String) {
        self.notes.push(Note { place, text });
    }
}

/// As names are compared: without case and spaces.
pub fn squeezed(name: &str) -> String {
    name.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
}

/// Without the quotes around it.
pub fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value)
}

/// The items of a list, separated by spaces and commas, unless quoted.
pub fn items(value: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut is_quoted = false;
    for c in value.chars() {
        if c == '"' {
            is_quoted = !is_quoted;
        } else if !is_quoted && (c.is_whitespace() || c == ',') {
            items.push(String::new());
        } else if let Some(last) = items.last_mut() {
            last.push(c);
        }
    }
    items.retain(|item| !item.is_empty());
    items
}

/// Yes or no, in any of the words for it.
pub fn boolean(value: &str) -> Option<bool> {
    match squeezed(value).as_str() {
        "yes" | "true" | "on" | "1" => Some(true),
        "no" | "false" | "off" | "0" => Some(false),
        _ => None,
    }
}
