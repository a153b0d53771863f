//! Target of a probe: a host on both ports, on one port, or a share.

use crate::remote::RemoteUrl;
use crate::share_url::split_host;
use std::str::FromStr;

/// Ports of the two protocols.
const SMB_PORT: u16 = 445;
const NFS_PORT: u16 = 2049;

/// One argument.
#[derive(Clone, Debug)]
pub enum ProbeTarget {
    /// A host, and its port if it was named.
    Host(String, Option<u16>),
    /// A share or export.
    RemoteUrl(RemoteUrl),
}

/// One port of a host.
#[derive(Clone, Debug)]
pub struct ProbedPort {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// True for NFS, false for SMB.
    pub is_nfs: bool,
    /// The share or export, if the argument was a URL.
    pub url: Option<RemoteUrl>,
    /// The password for it.
    pub password: Option<String>,
}

impl FromStr for ProbeTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains("://") {
            return text.parse().map(Self::RemoteUrl);
        }
        // An address of version 6 has colons, too.
        if text.parse::<std::net::Ipv6Addr>().is_ok() {
            return Ok(Self::Host(text.to_owned(), None));
        }
        let (host, port) = split_host(text, 0)?;
        if host.is_empty() || host.contains('/') {
            return Err("a target is HOST, HOST:PORT, smb://… or nfs://…".into());
        }
        Ok(Self::Host(host.to_owned(), (port != 0).then_some(port)))
    }
}

impl ProbeTarget {
    /// The ports to probe.
    pub fn places(&self) -> Vec<ProbedPort> {
        let place = |host: &str, port, is_nfs, url: Option<&RemoteUrl>| ProbedPort {
            host: host.to_owned(),
            port,
            is_nfs,
            url: url.cloned(),
            password: None,
        };
        match self {
            Self::Host(host, None) => {
                vec![place(host, SMB_PORT, false, None), place(host, NFS_PORT, true, None)]
            }
            Self::Host(host, Some(port)) => vec![place(host, *port, *port == NFS_PORT, None)],
            Self::RemoteUrl(url @ RemoteUrl::Smb(share)) => {
                vec![place(&share.host, share.port, false, Some(url))]
            }
            Self::RemoteUrl(url @ RemoteUrl::Nfs(export)) => {
                vec![place(&export.host, export.port, true, Some(url))]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(text: &str) -> Vec<(String, u16, bool)> {
        let target: ProbeTarget = text.parse().expect("it is one");
        target.places().into_iter().map(|p| (p.host, p.port, p.is_nfs)).collect()
    }

    #[test]
    fn host_is_probed_on_both_ports_unless_one_is_given() {
        let name = || "server".to_owned();
        assert_eq!(ports("server"), [(name(), 445, false), (name(), 2049, true)]);
        assert_eq!(ports("server:2049"), [(name(), 2049, true)]);
        assert_eq!(ports("server:4450"), [(name(), 4450, false)]);
        assert_eq!(ports("::1")[0].0, "::1");
        assert_eq!(ports("[::1]:445"), [("::1".to_owned(), 445, false)]);
        assert_eq!(ports("nfs://server:4000/export"), [(name(), 4000, true)]);
        assert_eq!(ports("smb://alice@server/data"), [(name(), 445, false)]);
        for wrong in ["", "server:x", "a/b", "http://server"] {
            assert!(wrong.parse::<ProbeTarget>().is_err(), "{wrong}");
        }
    }
}
