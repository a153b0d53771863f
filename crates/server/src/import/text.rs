//! Parser for smb.conf: sections of parameters, including included files.
//!
//! Parameter and section names are case-insensitive and ignore spaces. A backslash at the end of a
//! line continues it.

use super::report::ImportRemark;
pub use super::report::SourcePosition;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Limits: bytes of one file, number of files, depth of includes, number of parameters.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;
const FILES_MAX: usize = 64;
const DEPTH_MAX: usize = 8;
const PARAMETERS_MAX: usize = 100_000;

/// `name = value`.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The normalised name, in its usual synonym.
    pub key: String,
    /// The name as typed.
    pub shown: String,
    /// The value without surrounding spaces.
    pub value: String,
    /// File and line.
    pub place: SourcePosition,
}

/// A section: a share, or `[global]`.
#[derive(Clone, Debug)]
pub struct SmbConfSection {
    /// The name as typed.
    pub name: String,
    /// Start of the section.
    pub place: SourcePosition,
    /// Number of parameters of all sections that precede its first header.
    pub preceding: usize,
}

/// The sections and parameters of a file and its includes.
#[derive(Debug)]
pub struct SambaFile {
    /// The sections in the order of their first headers; the first one is `[global]`.
    pub sections: Vec<SmbConfSection>,
    /// All parameters in order, each with the index of its section. The order matters to `copy`
    /// and to the defaults in `[global]`.
    pub parameters: Vec<(usize, Parameter)>,
    /// Remarks on lines that could not be parsed.
    pub notes: Vec<ImportRemark>,
}

impl SmbConfSection {
    /// Whether the section is called `name`.
    pub fn is(&self, name: &str) -> bool {
        squeezed(&self.name) == squeezed(name)
    }
}

/// Synonyms of parameter names.
const SYNONYMS: &[(&str, &str)] = &[
    ("allowhosts", "hostsallow"),
    ("browsable", "browseable"),
    ("casesignames", "casesensitive"),
    ("createmode", "createmask"),
    ("debuglevel", "loglevel"),
    ("default", "defaultservice"),
    ("denyhosts", "hostsdeny"),
    ("directory", "path"),
    ("directorymode", "directorymask"),
    ("exec", "preexec"),
    ("group", "forcegroup"),
    ("lockdir", "lockdirectory"),
    ("maxprotocol", "servermaxprotocol"),
    ("minprotocol", "serverminprotocol"),
    ("onlyguest", "guestonly"),
    ("preferedmaster", "preferredmaster"),
    ("preload", "autoservices"),
    ("printcap", "printcapname"),
    ("printer", "printername"),
    ("printok", "printable"),
    ("privatedirectory", "privatedir"),
    ("protocol", "servermaxprotocol"),
    ("public", "guestok"),
    ("root", "rootdirectory"),
    ("rootdir", "rootdirectory"),
    ("serversmbencrypt", "smbencrypt"),
    ("timestamplogs", "debugtimestamp"),
    ("user", "username"),
    ("users", "username"),
    ("vfsobject", "vfsobjects"),
    ("winbindgid", "idmapgid"),
    ("writable", "writeable"),
    ("writeok", "writeable"),
];

/// Reads a file as text.
pub type Read<'a> = &'a dyn Fn(&Path) -> std::io::Result<String>;

/// Reads a file of at most [`FILE_BYTES_MAX`] bytes.
///
/// # Errors
/// The file is unreadable, not UTF-8, or longer. At most one byte more than the limit is read.
pub fn read_file(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    let limit = FILE_BYTES_MAX as u64 + 1;
    std::fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(std::io::Error::other(format!("longer than {FILE_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))
}

/// Parses `path` and its includes. The first section is always `[global]`.
///
/// # Errors
/// A sentence if `path` itself is unreadable or too large.
pub fn parse(path: &Path, read: Read<'_>) -> Result<SambaFile, String> {
    let text = read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if text.len() > FILE_BYTES_MAX {
        return Err(format!("{}: longer than {FILE_BYTES_MAX} bytes", path.display()));
    }
    let place = SourcePosition { file: path.into(), line: 1 };
    let global = SmbConfSection { name: "global".into(), place, preceding: 0 };
    let mut parser = SmbConfParser {
        read,
        folder: path.parent().map(Path::to_path_buf).unwrap_or_default(),
        found: SambaFile { sections: vec![global], parameters: Vec::new(), notes: Vec::new() },
        present: 0,
        files: 1,
    };
    parser.file(path, &text, 0);
    Ok(parser.found)
}

struct SmbConfParser<'a> {
    read: Read<'a>,
    folder: PathBuf,
    found: SambaFile,
    /// The section that receives parameters.
    present: usize,
    files: usize,
}

impl SmbConfParser<'_> {
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
                self.line(&line, SourcePosition { file: file.clone(), line: at + 1 }, depth);
            }
        }
    }

    fn line(&mut self, line: &str, place: SourcePosition, depth: usize) {
        if let Some(rest) = line.strip_prefix('[') {
            match rest.split_once(']') {
                Some((name, _)) if !name.trim().is_empty() => self.section(name.trim(), place),
                _ => self.note(place, format!("{line:?} is not a section; it was ignored")),
            }
            return;
        }
        let Some((name, value)) = line.split_once('=') else {
            return self.note(place, format!("{line:?} is not a parameter; it was ignored"));
        };
        let (shown, value) = (name.trim().to_owned(), value.trim().to_owned());
        let key = squeezed(&shown);
        if key == "include" {
            return self.include(&value, place, depth);
        }
        if self.found.parameters.len() == PARAMETERS_MAX {
            return;
        }
        let synonym = SYNONYMS.iter().find(|(other, _)| *other == key);
        let key = synonym.map_or(key, |(_, usual)| (*usual).to_owned());
        let parameter = Parameter { key, shown, value, place };
        self.found.parameters.push((self.present, parameter));
    }

    fn section(&mut self, name: &str, place: SourcePosition) {
        let name = if squeezed(name) == "globals" { "global" } else { name };
        // A repeated section extends the earlier one.
        let (sections, preceding) = (&mut self.found.sections, self.found.parameters.len());
        let known = sections.iter().position(|section| section.is(name));
        self.present = known.unwrap_or(sections.len());
        if known.is_none() {
            sections.push(SmbConfSection { name: name.to_owned(), place, preceding });
        }
    }

    fn include(&mut self, value: &str, place: SourcePosition, depth: usize) {
        let name = unquoted(value);
        let what = if name == "registry" {
            Some("the registry was not read; import the output of `net conf list`".into())
        } else if name.contains('%') {
            Some(format!("include = {name} differs for each client; it was not read"))
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

    fn note(&mut self, place: SourcePosition, text: String) {
        self.found.notes.push(ImportRemark::new(place, text));
    }
}

/// Normalises a name: lower case without spaces.
pub fn squeezed(name: &str) -> String {
    name.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
}

/// Removes the quotes at either end, as Samba does for single values. A value with quotes inside of
/// it keeps all of them.
pub fn unquoted(value: &str) -> &str {
    let bare = value.trim_matches('"');
    if bare.contains('"') { value } else { bare.trim() }
}

/// Splits a list at spaces and commas outside of quotes.
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

/// Parses a boolean in any of Samba's forms.
pub fn boolean(value: &str) -> Option<bool> {
    match squeezed(value).as_str() {
        "yes" | "true" | "on" | "1" => Some(true),
        "no" | "false" | "off" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_removed_as_samba_does() {
        for (value, expected) in [
            ("\"/srv/a b\"", "/srv/a b"),
            ("\"/srv/b", "/srv/b"),
            ("\"\"double\"\"", "double"),
            ("\"x\" and \"y\"", "\"x\" and \"y\""),
            ("'single'", "'single'"),
            ("\"", ""),
        ] {
            assert_eq!(unquoted(value), expected, "{value}");
        }
    }
}
