//! Shares under construction from another NFS server's exports.

use super::draft::{list_of, one_line, quoted};
use super::draft_client::DraftClient;
use super::text::SourcePosition;
use super::{ImportRemark, ImportResult, width};
use crate::config::{HostRule, check_share_name};
use std::collections::HashSet;
use std::fmt::Write;

/// Maximum number of exports; larger servers need other means.
pub const EXPORTS_MAX: usize = 1000;

/// Entries of `nfs_clients`.
pub struct Entries {
    pub words: Vec<String>,
    /// The entry by name that ended the list. A refused client cannot be excluded by name for
    /// certain, so later entries would admit it.
    pub cut_at: Option<HostRule>,
}

/// Converts clients to entries. A later entry must not admit a refused client: it would get access
/// that the other server denied, or without encryption.
pub fn entries(clients: &[DraftClient]) -> Entries {
    let mut words = Vec::new();
    for DraftClient { rule, options, is_refused, .. } in width::counting(clients) {
        match rule {
            HostRule::All | HostRule::Network(_) if *is_refused => {
                words.push(format!("{rule}(no_access)"));
            }
            _ if *is_refused => return Entries { words, cut_at: Some(rule.clone()) },
            _ if options.is_empty() => words.push(rule.to_string()),
            _ => words.push(format!("{rule}({})", options.join(","))),
        }
    }
    Entries { words, cut_at: None }
}

/// The configuration under construction.
pub struct NfsDraft {
    config: String,
    exports: Vec<DraftShare>,
    /// Paths of exports that are not carried over.
    closed: Vec<String>,
    lost: Vec<ImportRemark>,
    needless: Vec<ImportRemark>,
}

/// A share to add.
pub struct DraftShare {
    /// Location of its export.
    pub place: SourcePosition,
    pub path: String,
    /// Path in the other server's pseudo file system, if any; its last component becomes the name.
    pub pseudo: Option<String>,
    pub clients: Vec<DraftClient>,
    /// Further keys, one per line.
    pub keys: String,
}

impl DraftShare {
    /// Its path and clients.
    fn reach(&self) -> (&str, &[DraftClient]) {
        (&self.path, &self.clients)
    }
}

fn nested_text(outer: &str, inner: &str, is_opened: bool) -> String {
    if is_opened {
        return format!(
            "{outer} was omitted: {inner} is inside it, and clients of {outer} would bypass the \
             options of {inner}; serve them from separate directories"
        );
    }
    format!("{inner} is inside {outer}, whose clients reach it there under the options of {outer}")
}

/// Used share names.
#[derive(Default)]
struct ShareNames(HashSet<String>);

impl ShareNames {
    /// Returns the name, with a number if it is taken; names are case-insensitive.
    fn take(&mut self, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let is_new = |name: &String| self.0.insert(name.to_lowercase());
        names.find(is_new).unwrap_or_default()
    }
}

impl NfsDraft {
    /// Starts a configuration from the file `from`, with these listening addresses.
    pub fn new(from: &str, listening: &[String]) -> Self {
        let config = format!(
            "# Written by anabranch import, from {}.\n# No SMB client may connect to the shares: \
             list their `users`, or remove that key to admit all accounts.\n\n[server]\nnfs = {}\n",
            one_line(from),
            list_of(listening)
        );
        let (exports, closed) = (Vec::new(), Vec::new());
        Self { config, exports, closed, lost: Vec::new(), needless: Vec::new() }
    }

    pub fn has_room(&self) -> bool {
        self.exports.len() < EXPORTS_MAX
    }

    pub fn lose(&mut self, place: SourcePosition, text: impl Into<String>) {
        self.lost.push(ImportRemark::new(place, text));
    }

    pub fn need_not(&mut self, place: SourcePosition, text: impl Into<String>) {
        self.needless.push(ImportRemark::new(place, text));
    }

    /// Converts `insecure`: here it applies to all clients of a share, elsewhere to each client.
    pub fn ports(&mut self, place: &SourcePosition, path: &str, clients: &[DraftClient]) -> String {
        let served = || clients.iter().filter(|client| !client.is_refused);
        match served().filter(|client| client.is_insecure).count() {
            0 => String::new(),
            all if all == served().count() => "reserved_ports = false\n".into(),
            _ => {
                let text =
                    format!("{path}: insecure for some clients: all must use a reserved port");
                self.lose(place.clone(), text);
                String::new()
            }
        }
    }

    /// Adds a share.
    pub fn share(&mut self, share: DraftShare) {
        self.exports.push(share);
    }

    /// Records an export that is not carried over, so that no other share exposes its directory.
    pub fn close(&mut self, path: &str) {
        self.closed.push(path.to_owned());
    }

    /// Writes all shares, except those that would expose a nested export to more clients than its
    /// own.
    pub fn finish(mut self) -> ImportResult {
        let exports = std::mem::take(&mut self.exports);
        let closed = std::mem::take(&mut self.closed);
        let of_closed = closed.iter().map(|path| (&**path, &[][..]));
        let all: Vec<_> = exports.iter().map(DraftShare::reach).chain(of_closed).collect();
        let (mut names, mut shares) = (ShareNames::default(), Vec::new());
        let mut nested = width::nested(&all, exports.len()).into_iter().peekable();
        for (at, share) in exports.iter().enumerate() {
            let one = nested.next_if(|one| one.outer == at);
            if let Some(one) = &one {
                self.lose(
                    share.place.clone(),
                    nested_text(&share.path, all[one.inner].0, one.is_opened),
                );
            }
            if !one.is_some_and(|one| one.is_opened) {
                shares.extend(self.write(share, &mut names));
            }
        }
        let Self { config, lost, needless, .. } = self;
        ImportResult { config, shares, lost, needless }
    }

    /// Writes a share and returns its name.
    fn write(&mut self, share: &DraftShare, names: &mut ShareNames) -> Option<String> {
        let DraftShare { place, path, pseudo, clients, keys } = share;
        let Entries { words, cut_at } = entries(clients);
        if let Some(rule) = cut_at {
            let text = format!(
                "{path}: {:?} is refused by name, so the clients after it are omitted; use its \
                 address",
                rule.to_string()
            );
            self.lose(place.clone(), text);
        }
        if words.is_empty() {
            self.lose(place.clone(), format!("{path}: none of its clients can be imported"));
            return None;
        }
        let name = last_part(pseudo.as_ref().unwrap_or(path));
        if let Err(what) = check_share_name(name) {
            self.lose(place.clone(), format!("{what}; convert the export by hand"));
            return None;
        }
        let name = names.take(name);
        let (name_said, path_said, clients) = (quoted(&name), quoted(path), list_of(&words));
        // Writing to a string does not fail.
        let _ = write!(
            self.config,
            "\n# Line {}: mounted as SERVER:/{}.\n[[share]]\nname = {name_said}\npath = {path_said}\n\
             nfs = true\nnfs_clients = {clients}\n{keys}users = []\nlisted = \"nobody\"\n",
            place.line,
            one_line(&name)
        );
        let other =
            pseudo.as_ref().filter(|pseudo| **pseudo != format!("/{name}") && *pseudo != path);
        if let Some(pseudo) = other {
            let text =
                format!("{pseudo:?} is mounted as SERVER:/{name} here; change the clients' fstab");
            self.lose(place.clone(), text);
        }
        Some(name)
    }
}

/// The last component of a path, as a share name.
fn last_part(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("root")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(rule: &str, is_refused: bool) -> DraftClient {
        let rule = HostRule::parse(rule).unwrap();
        DraftClient { rule, options: vec!["rw".into()], is_insecure: false, is_refused }
    }

    #[test]
    fn refused_client_is_not_permitted_by_a_later_entry() {
        let of = |clients: &[(&str, bool)]| {
            let clients: Vec<_> = clients.iter().map(|(rule, no)| client(rule, *no)).collect();
            let Entries { words, cut_at } = entries(&clients);
            (words, cut_at.map(|rule| rule.to_string()))
        };
        assert_eq!(
            of(&[("192.0.2.1", true), ("*", false)]),
            (vec!["192.0.2.1(no_access)".into(), "*(rw)".into()], None)
        );
        assert_eq!(of(&[("192.0.2.1", false), ("*", true)]), (vec!["192.0.2.1(rw)".into()], None));
        assert_eq!(
            of(&[("192.0.2.1", false), ("@x", true), ("*", false)]),
            (vec!["192.0.2.1(rw)".into()], Some("@x".into()))
        );
        assert_eq!(of(&[("@x", true)]), (vec![], None));
    }
}
