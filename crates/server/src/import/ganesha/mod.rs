//! Imports exports of NFS-Ganesha: one share for each, with its clients' terms.
//! ganesha-export-config(8).
//!
//! Settings of a CLIENT block precede those of its EXPORT block, and these precede EXPORT_DEFAULTS.
//! The first matching CLIENT block counts; other clients have the export's terms.

mod parse;
mod terms;

use super::ImportResult;
use super::draft_client::DraftClient;
use super::nfs_draft::{DraftShare, EXPORTS_MAX, NfsDraft};
use super::text::{Read, SourcePosition};
use super::width;
use crate::config::HostRule;
use parse::{GaneshaItem, GaneshaItemBody};
use std::path::Path;
use terms::Terms;

/// FSALs whose exports are local directories.
const LOCAL: &[&str] = &["VFS", "XFS", "ZFS", "LUSTRE", "GPFS"];

/// Export settings without an effect here.
const NEEDLESS: &[&str] = &[
    "export_id",
    "filesystem_id",
    "tag",
    "maxread",
    "maxwrite",
    "prefread",
    "prefwrite",
    "prefreaddir",
    "maxoffsetread",
    "maxoffsetwrite",
    "disablereaddirplus",
    "trust_readdir_negative_cache",
    "usecookieverifier",
    "attr_expiration_time",
    "delegations",
    "nfs_commit",
    "transports",
];

/// Blocks that configure the server itself.
const OWN_BLOCKS: &[&str] = &[
    "9p",
    "cacheinode",
    "ceph",
    "directory_services",
    "export_defaults",
    "gpfs",
    "log",
    "mdcache",
    "nfs_ip_name",
    "nfs_krb5",
    "nfsv4",
    "pseudofs",
    "rados_kv",
    "rados_urls",
    "rgw",
    "vfs",
    "xfs",
];

/// Whether a file is a Ganesha configuration: it begins with one of its blocks or with an include.
pub fn is_ganesha(text: &str) -> bool {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut said = lines.filter(|line| !line.is_empty());
    let Some(first) = said.next() else { return false };
    let (name, rest) = first.split_at(first.find([' ', '\t', '{']).unwrap_or(first.len()));
    let mut blocks = OWN_BLOCKS.iter().chain(&["export", "nfs_core_param"]);
    let is_name = blocks.any(|block| name.eq_ignore_ascii_case(block));
    let opens = |text: &str| text.trim_start().starts_with('{');
    let is_directive = ["%include", "%dir", "%url"].iter().any(|d| name.eq_ignore_ascii_case(d));
    is_directive
        || is_name && (opens(rest) || rest.trim().is_empty() && said.next().is_some_and(opens))
}

/// Reads a Ganesha configuration and converts its exports.
///
/// # Errors
/// A sentence if a file is unreadable or malformed.
pub fn import(path: &Path, read: Read<'_>) -> Result<ImportResult, String> {
    let items = parse::parse(path, read)?;
    let from = path.display().to_string();
    let mut importer = GaneshaImporter { draft: NfsDraft::new(&from, &listening(&items)) };
    let mut defaults = (Terms::default(), Vec::new());
    for item in &items {
        match &item.body {
            GaneshaItemBody::Block(items) if item.is("export_defaults") => {
                importer.terms_of(items, &mut defaults.0, &mut defaults.1);
                importer.demands_of_all(items, &mut defaults.0);
            }
            GaneshaItemBody::Block(items) if item.is("nfs_core_param") => {
                importer.core(items, &mut defaults.0);
            }
            _ => {}
        }
    }
    for item in &items {
        importer.top(item, &defaults);
    }
    Ok(importer.draft.finish())
}

/// Listening addresses from NFS_CORE_PARAM.
fn listening(items: &[GaneshaItem]) -> Vec<String> {
    let (mut port, mut address) = (2049_u16, None);
    let cores = items.iter().filter(|item| item.is("nfs_core_param"));
    let blocks = cores
        .filter_map(|item| if let GaneshaItemBody::Block(b) = &item.body { Some(b) } else { None });
    for GaneshaItem { name, body, .. } in blocks.flatten() {
        let GaneshaItemBody::Values(values) = body else { continue };
        let Some(value) = values.first() else { continue };
        match &*name.to_ascii_lowercase() {
            "nfs_port" => port = value.parse().unwrap_or(port),
            "bind_addr" => address = value.parse::<std::net::IpAddr>().ok(),
            _ => {}
        }
    }
    match address.filter(|address| !address.is_unspecified()) {
        Some(address) => vec![std::net::SocketAddr::new(address, port).to_string()],
        None => vec![format!("0.0.0.0:{port}"), format!("[::]:{port}")],
    }
}

/// A CLIENT block.
#[derive(Clone, Debug)]
struct ClientBlock {
    place: SourcePosition,
    rules: Vec<HostRule>,
    terms: Terms,
}

/// An EXPORT block.
#[derive(Default)]
struct ExportBlock {
    path: Option<String>,
    pseudo: Option<String>,
    fsal: Option<String>,
    terms: Terms,
    clients: Vec<ClientBlock>,
    /// Reason for which the export is left out.
    refusal: Option<String>,
}

impl ExportBlock {
    /// Whether the export is a local directory.
    fn is_local(&self) -> bool {
        let fsal = self.fsal.as_deref().unwrap_or_default();
        LOCAL.iter().any(|local| fsal.eq_ignore_ascii_case(local))
    }
}

struct GaneshaImporter {
    draft: NfsDraft,
}

impl GaneshaImporter {
    fn top(&mut self, item: &GaneshaItem, defaults: &(Terms, Vec<ClientBlock>)) {
        let (name, place) = (&item.name, || item.place.clone());
        match &item.body {
            GaneshaItemBody::Block(items) if item.is("export") => {
                self.export(&item.place, items, defaults)
            }
            GaneshaItemBody::Block(_)
                if item.is("nfs_core_param") || item.is("export_defaults") => {}
            GaneshaItemBody::Block(_) if OWN_BLOCKS.iter().any(|own| item.is(own)) => {
                self.draft.need_not(place(), format!("{name} is not needed"));
            }
            GaneshaItemBody::Block(_) => {
                self.draft.lose(
                    place(),
                    format!("{name:?} is not supported; check whether you relied on it"),
                );
            }
            GaneshaItemBody::Values(_) => {
                self.draft.lose(place(), format!("{name:?} is outside all blocks; it was ignored"));
            }
            GaneshaItemBody::Unread(what) => {
                let text = format!("{name} {what} was not read; import its exports separately");
                self.draft.lose(place(), text);
            }
        }
    }

    /// Applies NFS_CORE_PARAM.
    fn core(&mut self, items: &[GaneshaItem], all: &mut Terms) {
        for item in items {
            let (place, name) = (item.place.clone(), &item.name);
            let GaneshaItemBody::Values(values) = &item.body else {
                self.draft.need_not(place, format!("{name} is not needed"));
                continue;
            };
            if terms::demands_tls(name, values) {
                self.refuse_all(place, name, all);
            } else if item.is("protocols") && !terms::has_version_4(values) {
                all.refuse();
                let text = "NFS version 4 is off, and other versions are not supported here; all \
                            exports are omitted";
                self.draft.lose(place, text);
            } else {
                self.draft.need_not(place, format!("{name} is not needed"));
            }
        }
    }

    /// Applies requirements of EXPORT_DEFAULTS for all exports, besides their terms.
    fn demands_of_all(&mut self, items: &[GaneshaItem], all: &mut Terms) {
        for item in items {
            let name = item.name.to_ascii_lowercase();
            let GaneshaItemBody::Values(values) = &item.body else { continue };
            if terms::is_term(&name) || NEEDLESS.contains(&&*name) {
            } else if terms::demands_tls(&name, values) || terms::restricts(&name) {
                self.refuse_all(item.place.clone(), &item.name, all);
            } else {
                self.lose_setting(item);
            }
        }
    }

    fn refuse_all(&mut self, place: SourcePosition, name: &str, all: &mut Terms) {
        all.refuse();
        let text = format!(
            "{name} restricts all clients (for TLS, set nfs_tls_certificate and nfs_tls_key, and \
             nfs_tls = \"required\"); all exports are omitted until it is removed here"
        );
        self.draft.lose(place, text);
    }

    fn lose_setting(&mut self, item: &GaneshaItem) {
        let text = format!("{:?} is not supported; check whether you relied on it", item.name);
        self.draft.lose(item.place.clone(), text);
    }

    fn export(
        &mut self,
        place: &SourcePosition,
        items: &[GaneshaItem],
        defaults: &(Terms, Vec<ClientBlock>),
    ) {
        let mut export = ExportBlock::default();
        for item in items {
            self.setting(item, &mut export);
        }
        self.terms_of(items, &mut export.terms, &mut export.clients);
        if export.clients.is_empty() {
            export.clients.clone_from(&defaults.1);
        }
        let Some(path) = export.path.clone() else {
            return self.draft.lose(place.clone(), "an export without Path; it was omitted");
        };
        if let Some(why) = self.obstacle(&path, &export) {
            // The path of a remote file system is no local directory.
            if export.fsal.is_none() || export.is_local() {
                self.draft.close(&path);
            }
            return self.draft.lose(place.clone(), why);
        }
        let clients = self.clients(place, &path, &export, &defaults.0);
        let keys = self.draft.ports(place, &path, &clients);
        let (place, pseudo) = (place.clone(), export.pseudo);
        self.draft.share(DraftShare { place, path, pseudo, clients, keys });
    }

    /// Reason for which an export must be left out, if any.
    fn obstacle(&self, path: &str, export: &ExportBlock) -> Option<String> {
        if !self.draft.has_room() {
            return Some(format!("{path}: more than {EXPORTS_MAX} exports; convert it by hand"));
        }
        if !export.is_local() {
            let fsal = export.fsal.as_deref().unwrap_or_default();
            return Some(format!(
                "{path}: FSAL {fsal:?} is not a local directory; mount it here and convert the \
                 export by hand"
            ));
        }
        let why = export.refusal.as_ref()?;
        Some(format!("{path}: {why}; it was omitted"))
    }

    /// Applies a setting of an export.
    fn setting(&mut self, item: &GaneshaItem, export: &mut ExportBlock) {
        let (place, name) = (item.place.clone(), item.name.to_ascii_lowercase());
        let values = match &item.body {
            GaneshaItemBody::Block(items) if name == "fsal" => {
                let named = items.iter().filter(|item| item.is("name"));
                let mut values = named.filter_map(|i| {
                    if let GaneshaItemBody::Values(v) = &i.body { v.first() } else { None }
                });
                export.fsal = values.next_back().cloned();
                return;
            }
            GaneshaItemBody::Block(_) if name == "client" => return,
            GaneshaItemBody::Values(values) => values,
            GaneshaItemBody::Block(_) | GaneshaItemBody::Unread(_) => {
                return self.draft.lose(place, format!("{:?} is not supported", item.name));
            }
        };
        let value = values.first().cloned().unwrap_or_default();
        match &*name {
            "path" => export.path = Some(value),
            "pseudo" => export.pseudo = Some(value),
            "disable_acl" | "security_label" if terms::boolean(&value) == Some(false) => {}
            "security_label" => self.draft.lose(place, "security labels are not supported"),
            "disable_acl" => self.draft.lose(place, "ACLs cannot be disabled; clients see them"),
            _ if terms::is_term(&name) => {}
            _ if NEEDLESS.contains(&&*name) => {
                self.draft.need_not(place, format!("{} is not needed", item.name));
            }
            _ if terms::demands_tls(&name, values) => {
                export.refusal = Some(format!(
                    "{} requires TLS, so set nfs_tls_certificate and nfs_tls_key, and nfs_tls = \
                     \"required\"",
                    item.name
                ));
            }
            _ if terms::restricts(&name) => {
                export.refusal =
                    Some(format!("{} restricts clients and is not supported", item.name));
            }
            _ => self.lose_setting(item),
        }
    }

    /// Collects the terms of a block and its CLIENT blocks.
    fn terms_of(
        &mut self,
        items: &[GaneshaItem],
        terms: &mut Terms,
        clients: &mut Vec<ClientBlock>,
    ) {
        for item in items {
            match &item.body {
                GaneshaItemBody::Values(values) => {
                    if let Err(what) = terms.set(&item.name, values) {
                        self.draft.lose(item.place.clone(), what);
                    }
                }
                GaneshaItemBody::Block(items) if item.is("client") => {
                    let client = self.client_block(&item.place, items);
                    clients.push(client);
                }
                GaneshaItemBody::Block(_) | GaneshaItemBody::Unread(_) => {}
            }
        }
    }

    fn client_block(&mut self, place: &SourcePosition, items: &[GaneshaItem]) -> ClientBlock {
        let mut terms = Terms::default();
        self.terms_of(items, &mut terms, &mut Vec::new());
        let mut rules = Vec::new();
        for item in items {
            let GaneshaItemBody::Values(values) = &item.body else { continue };
            match &*item.name.to_ascii_lowercase() {
                "clients" => {
                    for value in values {
                        match rule_of(value) {
                            Ok(rule) => rules.push(rule),
                            Err(what) => {
                                // The terms of an unparsable client may be narrower than those of
                                // later blocks.
                                terms.refuse();
                                rules.push(HostRule::All);
                                let text = format!(
                                    "{what}; convert the client by hand: until then, clients after \
                                     it are omitted"
                                );
                                self.draft.lose(item.place.clone(), text);
                            }
                        }
                    }
                }
                name if terms::is_term(name) || NEEDLESS.contains(&name) => {}
                name if terms::demands_tls(name, values) => {
                    terms.refuse();
                    let text = "its clients must use TLS; they are omitted until then";
                    self.draft.lose(item.place.clone(), text);
                }
                name if terms::restricts(name) => {
                    terms.refuse();
                    let text = format!(
                        "{name} restricts clients and is not supported; they are omitted until then"
                    );
                    self.draft.lose(item.place.clone(), text);
                }
                _ => self.lose_setting(item),
            }
        }
        ClientBlock { place: place.clone(), rules, terms }
    }

    /// All client entries of an export; the first match counts.
    fn clients(
        &mut self,
        place: &SourcePosition,
        path: &str,
        export: &ExportBlock,
        defaults: &Terms,
    ) -> Vec<DraftClient> {
        let of_export = export.terms.or(defaults);
        let all = ClientBlock {
            place: place.clone(),
            rules: vec![HostRule::All],
            terms: of_export.clone(),
        };
        let mut clients = Vec::new();
        for block in export.clients.iter().chain([&all]) {
            let meaning = block.terms.or(&of_export).meaning();
            if let Some(why) = meaning.refusal {
                let hosts: Vec<_> = block.rules.iter().map(ToString::to_string).collect();
                let text = format!("{path}: {} {why}", hosts.join(", "));
                self.draft.lose(block.place.clone(), text);
            }
            clients.extend(block.rules.iter().map(|rule| DraftClient {
                rule: rule.clone(),
                options: meaning.options.clone(),
                is_insecure: meaning.is_insecure,
                is_refused: meaning.is_refused,
            }));
        }
        clients
    }
}

/// Converts a client for `nfs_clients`. Ganesha's wildcards contain `*` or `?`, and match
/// addresses, too.
fn rule_of(text: &str) -> Result<HostRule, String> {
    if text == "0.0.0.0" {
        return Err(format!(
            "{text:?} is not a client's address; use \"*\" for all, \"0.0.0.0/0\" for all of IPv4"
        ));
    }
    HostRule::parse(text).and_then(width::check_wildcard)
}

#[cfg(test)]
mod tests;
