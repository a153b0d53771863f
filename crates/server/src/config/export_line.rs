//! NFS exports in the form of exports(5), for `anabranch exports`.

use super::{HostRule, NfsClients, NfsSquash, NfsStable, NfsTls, ServerConfig, ShareConfig};
use serde_json::{Value, json};

/// One exported share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportLine {
    /// Name of the share.
    pub name: String,
    /// Its directory.
    pub path: String,
    /// Paths that clients mount, after `SERVER:`.
    pub mounts: Vec<String>,
    /// Clients and their options; the first match counts.
    pub clients: Vec<(String, Vec<String>)>,
    /// Clients that may connect; all if empty.
    pub hosts_allowed: Vec<String>,
    /// Networks that may not connect.
    pub hosts_denied: Vec<String>,
}

impl ExportLine {
    /// Describes a share; `has_path` adds its path as a mount name, and `reserved_ports` sets
    /// `secure`.
    #[must_use]
    pub fn new(share: &ShareConfig, has_path: bool, reserved_ports: bool) -> Self {
        let all = NfsClients::new(HostRule::All, !share.read_only);
        let clients = if share.nfs_clients.is_empty() { &[all][..] } else { &share.nfs_clients };
        let path = share.path.to_string_lossy().into_owned();
        let name = format!("/{}", share.name);
        let is_another = has_path && path != name;
        Self {
            name: share.name.clone(),
            mounts: [Some(name), is_another.then(|| path.clone())].into_iter().flatten().collect(),
            path,
            clients: clients
                .iter()
                .map(|one| (one.hosts.to_string(), options(share, one, reserved_ports)))
                .collect(),
            hosts_allowed: share.hosts_allowed.iter().map(ToString::to_string).collect(),
            hosts_denied: share.hosts_denied.iter().map(ToString::to_string).collect(),
        }
    }

    /// All exports of a configuration.
    #[must_use]
    pub fn all(config: &ServerConfig) -> Vec<Self> {
        let exported = config.shares.iter().filter(|share| share.is_exported());
        let line = |share| Self::new(share, config.nfs_paths, config.requires_reserved_port(share));
        exported.map(line).collect()
    }

    /// The JSON form.
    #[must_use]
    pub fn json(&self) -> Value {
        let client = |(hosts, options): &(String, Vec<String>)| json!({ "hosts": hosts, "options": options });
        json!({
            "name": self.name,
            "path": self.path,
            "mounts": self.mounts,
            "clients": self.clients.iter().map(client).collect::<Vec<_>>(),
            "hosts_allowed": self.hosts_allowed,
            "hosts_denied": self.hosts_denied,
        })
    }
}

/// The effective options, including those inherited from the share.
fn options(share: &ShareConfig, clients: &NfsClients, reserved_ports: bool) -> Vec<String> {
    if clients.is_refused {
        return vec!["no_access".into()];
    }
    let may_write = clients.may_write && !share.read_only;
    let squash = match clients.squash.unwrap_or(share.nfs_squash) {
        NfsSquash::All => "all_squash",
        NfsSquash::None => "no_root_squash",
        NfsSquash::Root => "root_squash",
    };
    let mut options = vec![
        if may_write { "rw" } else { "ro" }.to_owned(),
        if share.nfs_stable == NfsStable::Always { "sync" } else { "async" }.to_owned(),
        if reserved_ports { "secure" } else { "insecure" }.to_owned(),
        squash.to_owned(),
        format!("anonuid={}", clients.anonuid.unwrap_or(share.nfs_anonuid)),
        format!("anongid={}", clients.anongid.unwrap_or(share.nfs_anongid)),
    ];
    if share.nfs_tls == NfsTls::Required {
        options.push("xprtsec=tls".into());
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn export_line_contains_the_effective_options() {
        let config = ServerConfig::parse(
            "[server]\nnfs = [\"127.0.0.1:2049\"]\n[[share]]\nname = \"data\"\npath = \"/srv/data\"\n\
             nfs_squash = \"all\"\nnfs_anonuid = 7\nreserved_ports = false\nhosts_denied = [\"192.0.2.66\"]\n\
             nfs_clients = [\"192.0.2.7(no_access)\", \"*.lab.example(rw,no_root_squash)\", \"@b\"]\n\
             [[share]]\nname = \"srv\"\npath = \"/srv\"\nread_only = true\nnfs_stable = \"relaxed\"\n\
             [[share]]\nname = \"private\"\npath = \"/p\"\nusers = [\"a\"]\n",
        )
        .unwrap();
        let [data, srv] = &ExportLine::all(&config)[..] else { panic!("two exports") };
        assert_eq!(
            (&*data.path, &data.mounts[..]),
            ("/srv/data", &["/data".into(), "/srv/data".into()][..])
        );
        let words: Vec<_> = data
            .clients
            .iter()
            .map(|(hosts, options)| format!("{hosts}({})", options.join(",")))
            .collect();
        assert_eq!(
            words,
            [
                "192.0.2.7(no_access)",
                "*.lab.example(rw,sync,insecure,no_root_squash,anonuid=7,anongid=65534)",
                "@b(ro,sync,insecure,all_squash,anonuid=7,anongid=65534)",
            ]
        );
        assert_eq!(data.hosts_denied, ["192.0.2.66"]);
        assert_eq!(srv.mounts, ["/srv"], "one way if both are the same");
        assert_eq!(
            srv.clients[0].1.join(","),
            "ro,async,secure,root_squash,anonuid=65534,anongid=65534"
        );
    }
}
