//! The kernel server's exports(5): a share for each directory, with its clients' terms.

use super::Imported;
use super::nfs_draft::{DraftClient, DraftShare, EXPORTS_MAX, NfsDraft, last_part};
use super::text::{FILE_BYTES_MAX, Place, Read};
use crate::config::HostRule;
use std::path::Path;
use std::sync::Arc;

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
    let listening = ["0.0.0.0:2049".to_owned(), "[::]:2049".to_owned()];
    let draft = NfsDraft::new(&path.display().to_string(), &listening);
    let mut importer = Importer { file: path.into(), draft };
    let mut lines = text.lines().enumerate();
    while let Some((at, first)) = lines.next() {
        let mut line = first.to_owned();
        while line.ends_with('\\') {
            line.pop();
            line.push_str(lines.next().map_or("", |(_, next)| next));
        }
        importer.line(at + 1, &line);
    }
    Ok(importer.draft.finish())
}

struct Importer {
    file: Arc<Path>,
    draft: NfsDraft,
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

impl Importer {
    fn place(&self, line: usize) -> Place {
        Place { file: self.file.clone(), line }
    }

    fn lose(&mut self, line: usize, text: impl Into<String>) {
        self.draft.lose(self.place(line), text);
    }

    fn line(&mut self, at: usize, line: &str) {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = words_of(line).into_iter();
        let Some(path) = words.next() else { return };
        if !path.starts_with('/') {
            return self.lose(at, format!("{path:?} is no path; write the export by hand"));
        }
        if !self.draft.has_room() {
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
        // Hosts come before networks, and these before `*`, in whatever order they are said: the
        // kernel's server decides so, and the first entry counts here. exports(5).
        export.clients.sort_by_key(|client| client.rule.rank());
        self.share(at, &path, &export);
    }

    /// One entry: a client with its options.
    fn client(&mut self, at: usize, word: &str, defaults: &str, export: &mut DraftExport) {
        let (host, options) = word.split_once('(').unwrap_or((word, ""));
        let options = options.strip_suffix(')').unwrap_or(options);
        let rule = match rule_of(host) {
            Ok(rule) => rule,
            Err(what) => return self.lose(at, format!("{what}; write the client by hand")),
        };
        let (options_of, mut demands) = (Vec::new(), None);
        let mut client =
            DraftClient { rule, options: options_of, is_insecure: false, is_refused: false };
        for option in defaults.split(',').chain(options.split(',')).filter(|o| !o.is_empty()) {
            self.option(at, option, (&mut client, &mut demands), export);
        }
        if let Some(demands) = demands {
            client.is_refused = true;
            self.lose(at, format!("{host:?} has to {demands}; it is left out until then"));
        }
        export.clients.push(client);
    }

    /// The last of contrary options counts, but for those of squashing.
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
                    "come by TLS: set nfs_tls_certificate and nfs_tls_key, and nfs_tls = \"required\"",
                );
            }
            _ if option.starts_with("sec=") && option[4..].split(':').any(|one| one == "sys") => {}
            _ if option.starts_with("sec=") => {
                *demands = Some("prove its users by Kerberos, which exports here do not ask for");
            }
            _ if NEEDLESS.contains(&option) || option.starts_with("fsid=") => {
                self.draft.need_not(self.place(at), format!("{option} needs no counterpart"));
            }
            _ => self.lose(at, format!("{option:?} has no counterpart; see what it did")),
        }
    }

    fn share(&mut self, at: usize, path: &str, export: &DraftExport) {
        let mut keys = self.draft.ports(&self.place(at), path, &export.clients);
        if export.relaxed {
            keys.push_str("nfs_stable = \"relaxed\"\n");
        }
        if !export.shows_mounts {
            let text = format!(
                "{path} has no crossmnt: file systems mounted below it were hidden, and are shown here"
            );
            self.lose(at, text);
        }
        let (place, name, clients) = (self.place(at), last_part(path), &export.clients[..]);
        self.draft.share(DraftShare { place, name, path, clients, keys });
    }
}

/// A client, as `nfs_clients` takes it: networks may have a mask.
fn rule_of(host: &str) -> Result<HostRule, String> {
    if host.is_empty() {
        return Ok(HostRule::All);
    }
    let masked = host.split_once('/').and_then(|(address, mask)| {
        let bits = mask.parse::<std::net::Ipv4Addr>().ok()?.to_bits();
        let is_prefix = bits.leading_ones() + bits.trailing_zeros() == 32 || bits == 0;
        is_prefix.then(|| format!("{address}/{}", bits.leading_ones()))
    });
    HostRule::parse(masked.as_deref().unwrap_or(host))
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
