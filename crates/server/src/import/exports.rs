//! The kernel server's exports(5): a share for each directory, with its clients' terms.

use super::draft::{list_of, one_line, quoted};
use super::text::{FILE_BYTES_MAX, Place, Read};
use super::{Imported, Note};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// Exports that are taken down; a server with more is set up by other means.
const EXPORTS_MAX: usize = 1000;
/// Options that change nothing here, as every share is so.
const NEEDLESS: &[&str] = &[
    "sync",
    "secure",
    "subtree_check",
    "no_subtree_check",
    "wdelay",
    "no_wdelay",
    "crossmnt",
    "nohide",
    "hide",
    "no_acl",
    "acl",
    "auth_nlm",
    "no_auth_nlm",
    "secure_locks",
    "insecure_locks",
    "sec=sys",
    "mountpoint",
    "mp",
];

/// Whether a file is of exports(5): its first word is a path.
pub fn is_exports(text: &str) -> bool {
    let lines = text.lines().map(str::trim);
    let mut said = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    said.next().is_some_and(|line| line.starts_with(['/', '"']))
}

/// Reads exports and writes what they mean.
///
/// # Errors
/// A sentence if the file cannot be read or is too large.
pub fn import(path: &Path, read: Read<'_>) -> Result<Imported, String> {
    let text = read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if text.len() > FILE_BYTES_MAX {
        return Err(format!("{}: longer than {FILE_BYTES_MAX} bytes", path.display()));
    }
    let mut importer = Importer {
        file: path.into(),
        config: format!(
            "# Written by anabranch import, from {}.\n# Nobody reaches the shares over SMB: name their \
             `users`, or leave `users` out.\n\n[server]\nnfs = [\"0.0.0.0:2049\", \"[::]:2049\"]\n",
            one_line(&path.display().to_string())
        ),
        shares: Vec::new(),
        lost: Vec::new(),
        needless: Vec::new(),
    };
    let mut lines = text.lines().enumerate();
    while let Some((at, first)) = lines.next() {
        let mut line = first.to_owned();
        while line.ends_with('\\') {
            line.pop();
            line.push_str(lines.next().map_or("", |(_, next)| next));
        }
        importer.line(at + 1, &line);
    }
    let Importer { config, shares, lost, needless, .. } = importer;
    Ok(Imported { config, shares, lost, needless })
}

struct Importer {
    file: Arc<Path>,
    config: String,
    shares: Vec<String>,
    lost: Vec<Note>,
    needless: Vec<Note>,
}

/// What the entries of one line come to.
#[derive(Default)]
struct Terms {
    clients: Vec<String>,
    /// A client may come from any source port.
    insecure: bool,
    /// Changes are answered before they are stable.
    relaxed: bool,
}

impl Importer {
    fn lose(&mut self, line: usize, text: impl Into<String>) {
        let place = Place { file: self.file.clone(), line };
        self.lost.push(Note { place, text: text.into() });
    }

    fn line(&mut self, at: usize, line: &str) {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = words_of(line).into_iter();
        let Some(path) = words.next() else { return };
        if !path.starts_with('/') {
            return self.lose(at, format!("{path:?} is no path; write the export by hand"));
        }
        if self.shares.len() == EXPORTS_MAX {
            return self.lose(at, format!("more than {EXPORTS_MAX} exports; write it by hand"));
        }
        let (mut terms, mut defaults, mut is_first) = (Terms::default(), String::new(), true);
        for word in words {
            match word.strip_prefix('-') {
                Some(options) => options.clone_into(&mut defaults),
                None => self.client(at, &word, &defaults, &mut terms),
            }
            is_first = false;
        }
        if is_first {
            self.client(at, "*", "", &mut terms);
        }
        if terms.clients.is_empty() {
            return self.lose(at, format!("{path}: no client of it can be carried over"));
        }
        self.share(at, &path, &terms);
    }

    /// One entry: a client with its options.
    fn client(&mut self, at: usize, word: &str, defaults: &str, terms: &mut Terms) {
        let (host, options) = word.split_once('(').unwrap_or((word, ""));
        let options = options.strip_suffix(')').unwrap_or(options);
        let Some(host) = address_of(host) else {
            let what = if host.starts_with('@') { "a netgroup" } else { "a name" };
            return self.lose(
                at,
                format!(
                    "{host:?} is {what}: name the addresses of its clients in nfs_clients instead"
                ),
            );
        };
        let mut ours: Vec<&str> = Vec::new();
        for option in defaults.split(',').chain(options.split(',')).filter(|o| !o.is_empty()) {
            match option {
                "ro" | "rw" | "root_squash" | "no_root_squash" | "all_squash" => ours.push(option),
                _ if option.starts_with("anonuid=") || option.starts_with("anongid=") => {
                    ours.push(option);
                }
                "insecure" => terms.insecure = true,
                "async" => terms.relaxed = true,
                _ if NEEDLESS.contains(&option) || option.starts_with("fsid=") => {
                    let place = Place { file: self.file.clone(), line: at };
                    let text = format!("{option} needs no counterpart");
                    self.needless.push(Note { place, text });
                }
                _ => self.lose(at, format!("{option:?} has no counterpart; see what it did")),
            }
        }
        terms.clients.push(match ours.is_empty() {
            true => host,
            false => format!("{host}({})", ours.join(",")),
        });
    }

    fn share(&mut self, at: usize, path: &str, terms: &Terms) {
        let last = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("root");
        let is_taken = |name: &str| self.shares.iter().any(|one| one.eq_ignore_ascii_case(name));
        let numbered = (2..).map(|number| format!("{last}-{number}"));
        let mut names = std::iter::once(last.to_owned()).chain(numbered);
        let Some(name) = names.find(|name| !is_taken(name)) else { return };
        let (name_said, path_said) = (quoted(&name), quoted(path));
        let clients = list_of(&terms.clients);
        let insecure = if terms.insecure { "reserved_ports = false\n" } else { "" };
        let relaxed = if terms.relaxed { "nfs_stable = \"relaxed\"\n" } else { "" };
        // A String takes everything.
        let _ = write!(
            self.config,
            "\n# Line {at}: mounted as SERVER:/{}.\n[[share]]\nname = {name_said}\npath = {path_said}\n\
             nfs = true\nnfs_clients = {clients}\n{insecure}{relaxed}users = []\nlisted = \"nobody\"\n",
            one_line(&name)
        );
        self.shares.push(name);
    }
}

/// An address, a network or `*`, as `nfs_clients` takes it.
fn address_of(host: &str) -> Option<String> {
    if matches!(host, "" | "*") {
        return Some("*".into());
    }
    let (address, mask) = host.split_once('/').map_or((host, None), |(a, m)| (a, Some(m)));
    let text = match mask.map(|mask| mask.parse::<std::net::Ipv4Addr>()) {
        Some(Ok(mask)) => {
            let bits = mask.to_bits();
            let is_prefix = bits.leading_ones() + bits.trailing_zeros() == 32 || bits == 0;
            format!("{address}/{}", is_prefix.then(|| bits.leading_ones())?)
        }
        Some(Err(_)) | None => host.to_owned(),
    };
    smb::Network::parse(&text).ok().map(|_| text)
}

/// Words between blanks; quotes keep blanks, and a backslash with three digits is that byte.
fn words_of(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted, mut is_open) = (Vec::new(), Vec::new(), false, false);
    let mut rest = line.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'"' => (is_quoted, is_open) = (!is_quoted, true),
            b' ' | b'\t' if !is_quoted => {
                if std::mem::take(&mut is_open) {
                    words.push(std::mem::take(&mut word));
                }
            }
            byte => {
                is_open = true;
                let digits = after.get(..3).filter(|_| *byte == b'\\');
                let octal = digits.and_then(|digits| std::str::from_utf8(digits).ok());
                let code = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
                word.push(code.unwrap_or(*byte));
                rest = if code.is_some() { &after[3..] } else { after };
            }
        }
    }
    if is_open {
        words.push(word);
    }
    words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}
