//! Warnings about the directories of shares: the whole system, and file systems that cannot store
//! what clients set.

use super::{Problem, ServerConfig, ShareConfig};
use crate::backend;

impl ServerConfig {
    /// Warnings about the directories of all shares. Looks at their file systems.
    pub(super) fn directory_warnings(&self) -> impl Iterator<Item = Problem> {
        self.shares.iter().flat_map(|share| {
            let texts =
                [share.whole_system(), share.lacking_attributes(), self.unlisted_ipv6(share)];
            let line = share.line;
            let name = &share.name;
            texts
                .into_iter()
                .flatten()
                .map(move |text| Problem { line, text: format!("share {name}: {text}") })
        })
    }

    /// A client in a refused IPv4 network usually has an IPv6 address, too, which is in no list.
    fn unlisted_ipv6(&self, share: &ShareConfig) -> Option<String> {
        let listens = self.smb.is_empty() || self.smb.iter().any(|address| address.is_ipv6());
        let lists_ipv4_only = share.hosts_allowed.is_empty()
            && !share.hosts_denied.is_empty()
            && !share.hosts_denied.iter().any(|network| network.address.is_ipv6());
        (listens && lists_ipv4_only).then(|| {
            "hosts_denied has IPv4 addresses only, and every IPv6 client is admitted; list the \
             clients in hosts_allowed, add IPv6 networks, or set smb = [\"0.0.0.0:445\"]"
                .to_owned()
        })
    }
}

impl ShareConfig {
    fn whole_system(&self) -> Option<String> {
        let path = self.path.display().to_string();
        let is_root = path.split('/').all(|part| matches!(part, "" | "."));
        is_root.then(|| {
            "path = \"/\" serves the whole system with its settings, its password hashes and all \
             disks; serve a directory below it, such as /srv/data"
                .to_owned()
        })
    }

    fn lacking_attributes(&self) -> Option<String> {
        let kind = backend::configured().lacks_attributes(&self.source())?;
        Some(format!(
            "{} is on {kind}, which has no extended attributes: DOS attributes, creation times, \
             Windows permissions and named streams cannot be stored; serve a directory on ext4, \
             XFS, btrfs or ZFS",
            self.path.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::ServerConfig;

    #[test]
    fn deny_list_of_ipv4_alone_is_named_where_ipv6_is_served() {
        for (smb, lists, is_named) in [
            ("[]", "hosts_denied = [\"192.0.2.0/24\"]", true),
            ("[\"[::]:445\"]", "hosts_denied = [\"192.0.2.0/24\"]", true),
            ("[\"0.0.0.0:445\"]", "hosts_denied = [\"192.0.2.0/24\"]", false),
            ("[]", "hosts_denied = [\"192.0.2.0/24\", \"2001:db8::/32\"]", false),
            ("[]", "hosts_denied = [\"192.0.2.7\"]\nhosts_allowed = [\"192.0.2.0/24\"]", false),
            ("[]", "", false),
        ] {
            let text = format!(
                "[server]\nsmb = {smb}\n[[share]]\nname = \"a\"\npath = \"/srv/a\"\n{lists}\n"
            );
            let config = ServerConfig::parse(&text).unwrap();
            let found = config.unlisted_ipv6(&config.shares[0]);
            assert_eq!(found.is_some(), is_named, "{text}{found:?}");
        }
    }
}
