//! The kernel server's exports(5): a share for each directory, with its clients' terms.

use super::draft::{list_of, one_line, quoted};
use super::text::{FILE_BYTES_MAX, Place, Read};
use super::{Imported, Note};
use crate::config::{check_share_name, same_name};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// Exports that are taken down; a server with more is set up by other means.
const EXPORTS_MAX: usize = 1000;
/// Options that change nothing here.
const NEEDLESS: &[&str] = &[
    "sync",
    "subtree_check",
    "no_subtree_check",
    "wdelay",
    "no_wdelay",
    "no_acl",
    "acl",
    "auth_nlm",
    "no_auth_nlm",
    "secure_locks",
    "insecure_locks",
    "xprtsec=none",
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

/// A share under construction, from the entries of one line.
#[derive(Default)]
struct DraftExport {
    clients: Vec<DraftClient>,
    /// Changes are answered before they are stable.
    relaxed: bool,
    /// File systems mounted below are shown.
    shows_mounts: bool,
}

/// One entry of a line, defaults included.
#[derive(Default)]
struct DraftClient {
    /// An address, a network or `*`.
    host: String,
    /// Options that `nfs_clients` has, too.
    options: Vec<String>,
    /// It may come from any source port.
    is_insecure: bool,
    /// A demand on the client that the share would not make.
    demands: Option<&'static str>,
}

impl DraftClient {
    /// Hosts come before networks, and these before `*`, in whatever order they are said: the
    /// kernel's server decides so, and the first entry counts here. exports(5).
    fn rank(&self) -> u8 {
        match &*self.host {
            "*" => 2,
            host => u8::from(host.contains('/')),
        }
    }

    /// As `nfs_clients` has it.
    fn entry(&self) -> String {
        match self.options.is_empty() {
            true => self.host.clone(),
            false => format!("{}({})", self.host, self.options.join(",")),
        }
    }
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
        let mut export = DraftExport::default();
        let (mut defaults, mut is_first) = (String::new(), true);
        for word in words {
            match word.strip_prefix('-') {
                Some(options) => options.clone_into(&mut defaults),
                None => self.client(at, &word, &defaults, &mut export),
            }
            is_first = false;
        }
        if is_first {
            self.client(at, "*", "", &mut export);
        }
        if export.clients.is_empty() {
            return self.lose(at, format!("{path}: no client of it can be carried over"));
        }
        export.clients.sort_by_key(DraftClient::rank);
        self.share(at, &path, &export);
    }

    /// One entry: a client with its options.
    fn client(&mut self, at: usize, word: &str, defaults: &str, export: &mut DraftExport) {
        let (host, options) = word.split_once('(').unwrap_or((word, ""));
        let options = options.strip_suffix(')').unwrap_or(options);
        let Some(address) = address_of(host) else {
            let what = if host.starts_with('@') { "a netgroup" } else { "a name" };
            return self.lose(
                at,
                format!(
                    "{host:?} is {what}: name the addresses of its clients in nfs_clients, before \
                     the networks that they are in, whose terms they have until then"
                ),
            );
        };
        let mut client = DraftClient { host: address, ..DraftClient::default() };
        for option in defaults.split(',').chain(options.split(',')).filter(|o| !o.is_empty()) {
            self.option(at, option, &mut client, export);
        }
        if let Some(demands) = client.demands {
            return self.lose(at, format!("{host:?} has to {demands}; it is left out until then"));
        }
        export.clients.push(client);
    }

    /// The last of contrary options counts, but for those of squashing.
    fn option(
        &mut self,
        at: usize,
        option: &str,
        client: &mut DraftClient,
        export: &mut DraftExport,
    ) {
        match option {
            "ro" | "rw" | "root_squash" | "no_root_squash" | "all_squash" | "no_all_squash" => {
                client.options.push(option.to_owned());
            }
            _ if option.starts_with("anonuid=") || option.starts_with("anongid=") => {
                client.options.push(option.to_owned());
            }
            "secure" => client.is_insecure = false,
            "insecure" => client.is_insecure = true,
            "async" => export.relaxed = true,
            "crossmnt" | "nohide" => export.shows_mounts = true,
            "hide" => export.shows_mounts = false,
            "xprtsec=tls" | "xprtsec=mtls" | "xprtsec=tls:mtls" => {
                client.demands = Some(
                    "come by TLS: set nfs_tls_certificate and nfs_tls_key, and nfs_tls = \"required\"",
                );
            }
            _ if option.starts_with("sec=") && option[4..].split(':').any(|one| one == "sys") => {}
            _ if option.starts_with("sec=") => {
                client.demands =
                    Some("prove its users by Kerberos, which exports here do not ask for");
            }
            _ if NEEDLESS.contains(&option) || option.starts_with("fsid=") => {
                let place = Place { file: self.file.clone(), line: at };
                let text = format!("{option} needs no counterpart");
                self.needless.push(Note { place, text });
            }
            _ => self.lose(at, format!("{option:?} has no counterpart; see what it did")),
        }
    }

    /// Keys that hold for all clients of a share here, and for each by itself in exports(5).
    fn of_all(&mut self, at: usize, path: &str, export: &DraftExport) -> String {
        let mut keys = String::new();
        let insecure = export.clients.iter().filter(|client| client.is_insecure).count();
        if insecure == export.clients.len() {
            keys.push_str("reserved_ports = false\n");
        } else if insecure > 0 {
            let text =
                format!("{path}: insecure for some clients: all have to come from a reserved port");
            self.lose(at, text);
        }
        if export.relaxed {
            keys.push_str("nfs_stable = \"relaxed\"\n");
        }
        if !export.shows_mounts {
            let text = format!(
                "{path} has no crossmnt: file systems mounted below it were hidden, and are shown here"
            );
            self.lose(at, text);
        }
        keys
    }

    fn share(&mut self, at: usize, path: &str, export: &DraftExport) {
        let last = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("root");
        let is_taken = |name: &str| self.shares.iter().any(|one| same_name(one, name));
        let numbered = (2..).map(|number| format!("{last}-{number}"));
        let mut names = std::iter::once(last.to_owned()).chain(numbered);
        let Some(name) = names.find(|name| !is_taken(name)) else { return };
        if let Err(what) = check_share_name(&name) {
            return self.lose(at, format!("{what}; write the export by hand"));
        }
        let (name_said, path_said) = (quoted(&name), quoted(path));
        let clients: Vec<String> = export.clients.iter().map(DraftClient::entry).collect();
        let clients = list_of(&clients);
        let keys = self.of_all(at, path, export);
        // A String takes everything.
        let _ = write!(
            self.config,
            "\n# Line {at}: mounted as SERVER:/{}.\n[[share]]\nname = {name_said}\npath = {path_said}\n\
             nfs = true\nnfs_clients = {clients}\n{keys}users = []\nlisted = \"nobody\"\n",
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
