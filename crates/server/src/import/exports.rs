//! Imports exports(5) of the kernel's NFS server: one share for each directory, with its clients'
//! terms.

use super::ImportResult;
use super::draft_client::DraftClient;
use super::nfs_draft::{DraftShare, EXPORTS_MAX, NfsDraft};
use super::text::{FILE_BYTES_MAX, Read, SourcePosition};
use super::width;
use crate::config::HostRule;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Options without an effect here.
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

/// Options that restrict clients and have no counterpart here.
const RESTRICTING: &[&str] = &["refer=", "replicas=", "squash_gids=", "squash_uids="];

/// Whether a file is in exports(5) format: its first word is a path.
pub fn is_exports(text: &str) -> bool {
    let lines = text.lines().map(str::trim);
    let mut said = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    said.next().is_some_and(|line| line.starts_with(['/', '"']))
}

/// Reads an exports file and writes the equivalent configuration.
///
/// # Errors
/// A sentence if the file is unreadable or too large.
pub fn import(path: &Path, read: Read<'_>) -> Result<ImportResult, String> {
    let text = read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if text.len() > FILE_BYTES_MAX {
        return Err(format!("{}: longer than {FILE_BYTES_MAX} bytes", path.display()));
    }
    let listening = ["0.0.0.0:2049".to_owned(), "[::]:2049".to_owned()];
    let draft = NfsDraft::new(&path.display().to_string(), &listening);
    let (exports, by_path) = (Vec::new(), HashMap::new());
    let mut importer = ExportsImporter { file: path.into(), draft, exports, by_path };
    let mut lines = text.lines().enumerate();
    while let Some((at, first)) = lines.next() {
        let mut line = first.to_owned();
        while line.ends_with('\\') {
            line.pop();
            line.push_str(lines.next().map_or("", |(_, next)| next));
        }
        importer.line(at + 1, &line);
    }
    let exports = std::mem::take(&mut importer.exports);
    exports.into_iter().for_each(|export| importer.share(export));
    Ok(importer.draft.finish())
}

struct ExportsImporter {
    file: Arc<Path>,
    draft: NfsDraft,
    exports: Vec<DraftExport>,
    /// Index of each export by the components of its path.
    by_path: HashMap<Vec<String>, usize>,
}

/// A client entry in the file.
struct ExportClientEntry {
    line: usize,
    /// Kind of the client; of several matching entries the one of the lowest kind counts, see
    /// [`kind_of`].
    kind: u8,
    client: DraftClient,
}

/// A share under construction, from the entries of all lines of a path.
#[derive(Default)]
struct DraftExport {
    /// The first line of the path, and the path as written there.
    line: usize,
    path: String,
    entries: Vec<ExportClientEntry>,
    /// The server may reply before changes are stable (`async`).
    relaxed: bool,
    /// File systems mounted below are visible (`crossmnt`).
    shows_mounts: bool,
}

impl ExportsImporter {
    fn place(&self, line: usize) -> SourcePosition {
        SourcePosition { file: self.file.clone(), line }
    }

    fn lose(&mut self, line: usize, text: impl Into<String>) {
        self.draft.lose(self.place(line), text);
    }

    fn line(&mut self, at: usize, line: &str) {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = words_of(line).into_iter();
        let Some(path) = words.next() else { return };
        if !path.starts_with('/') {
            return self.lose(at, format!("{path:?} is not a path; convert the export by hand"));
        }
        let parts = width::parts_of(&path).into_iter().map(str::to_owned).collect();
        let number = match self.by_path.get(&parts) {
            Some(number) => *number,
            None if self.exports.len() == EXPORTS_MAX => {
                self.draft.close(&path);
                return self
                    .lose(at, format!("more than {EXPORTS_MAX} exports; convert it by hand"));
            }
            None => {
                self.by_path.insert(parts, self.exports.len());
                self.exports.push(DraftExport { line: at, path, ..DraftExport::default() });
                self.exports.len() - 1
            }
        };
        let mut export = std::mem::take(&mut self.exports[number]);
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
        self.exports[number] = export;
    }

    /// Parses one entry: a client with its options.
    fn client(&mut self, at: usize, word: &str, defaults: &str, export: &mut DraftExport) {
        let (host, options) = word.split_once('(').unwrap_or((word, ""));
        let options = options.strip_suffix(')').unwrap_or(options);
        let (rule, is_known) = match rule_of(host) {
            Ok(rule) => (rule, true),
            Err(what) => {
                // The terms of an unparsable client may be narrower than those of the following
                // kinds.
                let text = format!(
                    "{what}; convert the client by hand: until then, clients of its kind and of \
                     the next ones are omitted"
                );
                self.lose(at, text);
                (HostRule::All, false)
            }
        };
        let (options_of, mut demands) = (Vec::new(), None);
        let is_refused = !is_known;
        let mut client = DraftClient { rule, options: options_of, is_insecure: false, is_refused };
        for option in defaults.split(',').chain(options.split(',')).filter(|o| !o.is_empty()) {
            self.option(at, option, (&mut client, &mut demands), export);
        }
        if let Some(demands) = demands {
            client.is_refused = true;
            self.lose(at, format!("{host:?} must {demands}; it is omitted until then"));
        }
        let kind = kind_of(host, &client.rule);
        export.entries.push(ExportClientEntry { line: at, kind, client });
    }

    /// Applies an option. Of contrary options the last counts, except for squash options.
    fn option(
        &mut self,
        at: usize,
        option: &str,
        (client, demands): (&mut DraftClient, &mut Option<&'static str>),
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
                *demands = Some(
                    "use TLS: set nfs_tls_certificate and nfs_tls_key, and nfs_tls = \"required\"",
                );
            }
            _ if option.starts_with("sec=") && option[4..].split(':').any(|one| one == "sys") => {}
            _ if option.starts_with("sec=") => {
                *demands =
                    Some("authenticate its users by Kerberos, which exports here do not require");
            }
            _ if RESTRICTING.iter().any(|name| option.starts_with(name)) => {
                *demands = Some("have options that are not supported here");
            }
            _ if NEEDLESS.contains(&option) || option.starts_with("fsid=") => {
                self.draft.need_not(self.place(at), format!("{option} is not needed"));
            }
            _ => self
                .lose(at, format!("{option:?} is not supported; check whether you relied on it")),
        }
    }

    /// Sorts hosts before networks, and these before `*`. The kernel's server chooses by kind in
    /// any order, and the first entry counts here. exports(5).
    fn ordered(&mut self, path: &str, mut entries: Vec<ExportClientEntry>) -> Vec<DraftClient> {
        for at in 0..entries.len() {
            let (before, Some(own)) = (&entries[..at], entries.get(at)) else { continue };
            let HostRule::Network(address) = own.client.rule else { continue };
            let is_wider = |other: &&ExportClientEntry| {
                let HostRule::Network(network) = other.client.rule else { return false };
                own.kind == KIND_HOST
                    && other.kind == KIND_NETWORK
                    && network.has(address.address)
                    && !width::grants_no_more(&own.client, &other.client)
            };
            // exports(5) prefers an address to its network. The kernel's tools treat both as
            // networks, of which the first counts.
            if let Some(network) = before.iter().find(is_wider) {
                let text = format!(
                    "{path}: {} gets the options of {}, which precedes it and permits less; move \
                     it first if that is intended",
                    own.client.rule, network.client.rule
                );
                let line = own.line;
                entries[at].kind = KIND_NETWORK;
                self.lose(line, text);
            }
        }
        entries.sort_by_key(|entry| entry.kind);
        entries.into_iter().map(|entry| entry.client).collect()
    }

    fn share(&mut self, export: DraftExport) {
        let DraftExport { line, path, entries, relaxed, shows_mounts } = export;
        let clients = self.ordered(&path, entries);
        let place = self.place(line);
        let mut keys = self.draft.ports(&place, &path, &clients);
        if relaxed {
            keys.push_str("nfs_stable = \"relaxed\"\n");
        }
        if !shows_mounts {
            let text = format!(
                "{path} has no crossmnt: file systems mounted below it were hidden, and are \
                 visible here"
            );
            self.lose(line, text);
        }
        self.draft.share(DraftShare { place, path, pseudo: None, clients, keys });
    }
}

const KIND_HOST: u8 = 0;
const KIND_NETWORK: u8 = 1;
const KIND_WILDCARD: u8 = 2;
const KIND_NETGROUP: u8 = 3;
const KIND_ALL: u8 = 4;
const KIND_KERBEROS: u8 = 5;

/// The kind of a client: of several matching entries the lowest kind counts. An unparsable client
/// gets the lowest possible kind. exports(5), "Machine Name Formats".
fn kind_of(host: &str, rule: &HostRule) -> u8 {
    match rule {
        HostRule::All if matches!(host, "" | "*") => KIND_ALL,
        _ if host.starts_with("gss/") => KIND_KERBEROS,
        _ if host.starts_with('@') => KIND_NETGROUP,
        _ if host.contains('/') => KIND_NETWORK,
        _ if host.contains(['*', '?', '[']) => KIND_WILDCARD,
        _ => KIND_HOST,
    }
}

/// Converts a client for `nfs_clients`; networks may have a netmask.
fn rule_of(host: &str) -> Result<HostRule, String> {
    if host.is_empty() {
        return Ok(HostRule::All);
    }
    let masked = host.split_once('/').and_then(|(address, mask)| {
        let bits = mask.parse::<std::net::Ipv4Addr>().ok()?.to_bits();
        let is_prefix = bits.leading_ones() + bits.trailing_zeros() == 32 || bits == 0;
        is_prefix.then(|| format!("{address}/{}", bits.leading_ones()))
    });
    HostRule::parse(masked.as_deref().unwrap_or(host)).and_then(width::check_wildcard)
}

/// Splits a line at blanks. Quotes protect blanks, and a backslash with three octal digits is that
/// byte.
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
