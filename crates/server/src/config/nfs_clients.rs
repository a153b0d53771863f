//! Terms of NFS clients: entries in the form of exports(5).

use super::{HostRule, NfsSquash};
use vfs::Identity;

/// Default anonymous user and group.
pub const NOBODY: u32 = 65_534;
/// Maximum number of entries of a share: each request is checked against them in order.
const CLIENTS_MAX: usize = 256;
/// Permitted options of an entry.
const OPTIONS: &str = "ro, rw, root_squash, no_root_squash, all_squash, no_all_squash, anonuid=N, \
     anongid=N and no_access";

/// Clients and their terms, for example `192.0.2.0/24(rw,all_squash,anonuid=1000)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfsClients {
    /// The clients.
    pub hosts: HostRule,
    /// Permits changes, unless the share is read-only.
    pub may_write: bool,
    /// Denies access, whatever later entries say.
    pub is_refused: bool,
    /// User mapping; `None` inherits the share's `nfs_squash`.
    pub squash: Option<NfsSquash>,
    /// Anonymous uid; `None` inherits the share's.
    pub anonuid: Option<u32>,
    /// Anonymous gid; `None` inherits the share's.
    pub anongid: Option<u32>,
}

/// Parses all entries of a share.
///
/// # Errors
/// A sentence for people.
pub(super) fn parse<'a>(
    entries: impl ExactSizeIterator<Item = &'a str>,
) -> Result<Vec<NfsClients>, String> {
    if entries.len() > CLIENTS_MAX {
        return Err(format!("nfs_clients has more than {CLIENTS_MAX} entries"));
    }
    entries.map(|entry| parse_one(entry).map_err(|what| format!("nfs_clients: {what}"))).collect()
}

fn parse_one(entry: &str) -> Result<NfsClients, String> {
    let (host, options) = match entry.split_once('(') {
        None => (entry, ""),
        Some((host, options)) => {
            let options = options.strip_suffix(')');
            (host, options.ok_or_else(|| format!("{entry:?} does not end with \")\""))?)
        }
    };
    let hosts = HostRule::parse(host)?;
    let mut clients = NfsClients::new(hosts, false);
    let mut squash = SquashOptions::default();
    for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        clients.set(option, &mut squash)?;
    }
    clients.squash = squash.meaning();
    let is_named = !matches!(clients.hosts, HostRule::All | HostRule::Network(_));
    if clients.is_refused && is_named {
        return Err(format!(
            "{entry:?}: no_access needs an address or a network; a later entry would admit a \
             client whose name cannot be resolved"
        ));
    }
    Ok(clients)
}

/// Two independent options: neither cancels the other, in any order. exports(5).
#[derive(Default)]
struct SquashOptions {
    root: Option<bool>,
    all: Option<bool>,
}

impl SquashOptions {
    fn meaning(&self) -> Option<NfsSquash> {
        match (self.all, self.root) {
            (Some(true), _) => Some(NfsSquash::All),
            (_, Some(false)) => Some(NfsSquash::None),
            (Some(false), None) | (_, Some(true)) => Some(NfsSquash::Root),
            (None, None) => None,
        }
    }
}

impl NfsClients {
    /// Parses one entry.
    ///
    /// # Errors
    /// A sentence for people.
    pub(crate) fn parse(entry: &str) -> Result<Self, String> {
        parse_one(entry)
    }

    /// Clients of a rule with inherited terms.
    #[must_use]
    pub fn new(hosts: HostRule, may_write: bool) -> Self {
        Self { hosts, may_write, is_refused: false, squash: None, anonuid: None, anongid: None }
    }

    fn set(&mut self, option: &str, squash: &mut SquashOptions) -> Result<(), String> {
        match option.split_once('=') {
            None => match option {
                "ro" => self.may_write = false,
                "rw" => self.may_write = true,
                "no_access" => self.is_refused = true,
                "root_squash" => squash.root = Some(true),
                "no_root_squash" => squash.root = Some(false),
                "all_squash" => squash.all = Some(true),
                "no_all_squash" => squash.all = Some(false),
                _ => return Err(format!("{option:?} is not an option; options are {OPTIONS}")),
            },
            Some(("anonuid", id)) => self.anonuid = Some(parse_id("anonuid", id)?),
            Some(("anongid", id)) => self.anongid = Some(parse_id("anongid", id)?),
            Some(_) => return Err(format!("{option:?} is not an option; options are {OPTIONS}")),
        }
        Ok(())
    }
}

/// Parses a uid or gid that a thread can assume.
///
/// # Errors
/// A sentence for people.
pub(super) fn parse_id(key: &str, text: &str) -> Result<u32, String> {
    let id = text.parse().ok().filter(|id| {
        let identity = Identity { uid: *id, gid: *id, groups: Vec::new() };
        identity.is_valid()
    });
    id.ok_or_else(|| format!("{key} = {text:?} is not the number of a user or group"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nfs_client_entries_are_parsed_as_in_exports() {
        let names = ["Build.example", "*.example(rw)", "@builders(rw)"].into_iter();
        let hosts = parse(names).unwrap().into_iter().map(|one| one.hosts.to_string());
        assert_eq!(hosts.collect::<Vec<_>>(), ["build.example", "*.example", "@builders"]);
        let entries = ["192.0.2.7", "2001:db8::/32(rw, no_root_squash)"];
        let all = "*(ro,all_squash,anonuid=1000,anongid=100)";
        let read = parse(entries.into_iter().chain([all]).collect::<Vec<_>>().into_iter()).unwrap();
        let ids = |anonuid, anongid| (anonuid, anongid);
        let expected = [
            ("192.0.2.7", false, None, ids(None, None)),
            ("2001:db8::/32", true, Some(NfsSquash::None), ids(None, None)),
            ("*", false, Some(NfsSquash::All), ids(Some(1000), Some(100))),
        ];
        let found = read
            .into_iter()
            .map(|one| (one.hosts, one.may_write, one.squash, ids(one.anonuid, one.anongid)));
        let expected = expected.map(|(hosts, may_write, squash, ids)| {
            (HostRule::parse(hosts).unwrap(), may_write, squash, ids)
        });
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn root_options_do_not_undo_all_squash() {
        for (options, squash) in [
            ("all_squash,no_root_squash", Some(NfsSquash::All)),
            ("no_root_squash,all_squash", Some(NfsSquash::All)),
            ("all_squash,root_squash", Some(NfsSquash::All)),
            ("root_squash,all_squash", Some(NfsSquash::All)),
            ("all_squash,no_all_squash", Some(NfsSquash::Root)),
            ("no_all_squash,no_root_squash", Some(NfsSquash::None)),
            ("no_root_squash,root_squash", Some(NfsSquash::Root)),
            ("rw", None),
        ] {
            let entry = format!("*({options})");
            assert_eq!(parse([&*entry].into_iter()).unwrap()[0].squash, squash, "{options}");
        }
    }

    #[test]
    fn nfs_client_mistakes_are_reported() {
        for (entry, said) in [
            (
                "192.0.2.0/99(rw)",
                "\"192.0.2.0/99\" is not an address or a network, such as \"192.0.2.0/24\"",
            ),
            (
                "*.example(no_access)",
                "\"*.example(no_access)\": no_access needs an address or a network; a later entry \
                 would admit a client whose name cannot be resolved",
            ),
            ("*(rw", "\"*(rw\" does not end with \")\""),
            (
                "*(async)",
                "\"async\" is not an option; options are ro, rw, root_squash, no_root_squash, \
                 all_squash, no_all_squash, anonuid=N, anongid=N and no_access",
            ),
            ("*(anonuid=-1)", "anonuid = \"-1\" is not the number of a user or group"),
            (
                "*(anongid=4294967295)",
                "anongid = \"4294967295\" is not the number of a user or group",
            ),
        ] {
            assert_eq!(parse([entry].into_iter()), Err(format!("nfs_clients: {said}")));
        }
        assert!(parse(vec!["*"; CLIENTS_MAX + 1].into_iter()).is_err());
    }
}
