//! Terms of NFS clients by their addresses, each as one word of exports(5).

use super::NfsSquash;
use smb::Network;
use vfs::Identity;

/// User and group of who is nobody in particular, as everywhere.
pub const NOBODY: u32 = 65_534;
/// Entries that a share may have: each request is held against them in their order.
const CLIENTS_MAX: usize = 256;
/// Options that an entry may have.
const OPTIONS: &str = "ro, rw, root_squash, no_root_squash, all_squash, anonuid=N and anongid=N";

/// Clients and what they may, as `192.0.2.0/24(rw,all_squash,anonuid=1000)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfsClients {
    /// Where they are; none for all.
    pub network: Option<Network>,
    /// They may change something, if the share lets anybody.
    pub may_write: bool,
    /// Accounts that their users act as.
    pub squash: NfsSquash,
    /// The user of who is nobody in particular; the share's if none.
    pub anonuid: Option<u32>,
    /// The group of who is nobody in particular; the share's if none.
    pub anongid: Option<u32>,
}

/// All entries of a share.
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
    let network = match host {
        "*" => None,
        host => Some(Network::parse(host).map_err(|what| {
            format!("{what}; names and netgroups are not known here, \"*\" is every client")
        })?),
    };
    let (may_write, squash) = (false, NfsSquash::Root);
    let mut clients = NfsClients { network, may_write, squash, anonuid: None, anongid: None };
    for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        clients.set(option)?;
    }
    Ok(clients)
}

impl NfsClients {
    fn set(&mut self, option: &str) -> Result<(), String> {
        match option.split_once('=') {
            None => match option {
                "ro" => self.may_write = false,
                "rw" => self.may_write = true,
                "root_squash" => self.squash = NfsSquash::Root,
                "no_root_squash" => self.squash = NfsSquash::None,
                "all_squash" => self.squash = NfsSquash::All,
                _ => return Err(format!("{option:?} is no option; there are {OPTIONS}")),
            },
            Some(("anonuid", id)) => self.anonuid = Some(parse_id("anonuid", id)?),
            Some(("anongid", id)) => self.anongid = Some(parse_id("anongid", id)?),
            Some(_) => return Err(format!("{option:?} is no option; there are {OPTIONS}")),
        }
        Ok(())
    }
}

/// The number of a user or group that a thread can act as.
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
    fn entries_are_read_as_exports_has_them() {
        let entries = ["192.0.2.7", "2001:db8::/32(rw, no_root_squash)"];
        let all = "*(ro,all_squash,anonuid=1000,anongid=100)";
        let read = parse(entries.into_iter().chain([all]).collect::<Vec<_>>().into_iter()).unwrap();
        let network = |text| Some(Network::parse(text).unwrap());
        let ids = |anonuid, anongid| (anonuid, anongid);
        let expected = [
            (network("192.0.2.7"), false, NfsSquash::Root, ids(None, None)),
            (network("2001:db8::/32"), true, NfsSquash::None, ids(None, None)),
            (None, false, NfsSquash::All, ids(Some(1000), Some(100))),
        ];
        let found = read
            .into_iter()
            .map(|one| (one.network, one.may_write, one.squash, ids(one.anonuid, one.anongid)));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn mistakes_in_entries_are_named() {
        for (entry, said) in [
            (
                "host.example(rw)",
                "\"host.example\" is not an address or a network, as \"192.0.2.0/24\"; names and netgroups are not known here, \"*\" is every client",
            ),
            ("*(rw", "\"*(rw\" does not end with \")\""),
            (
                "*(async)",
                "\"async\" is no option; there are ro, rw, root_squash, no_root_squash, all_squash, anonuid=N and anongid=N",
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
