//! `nfs://host/export/path`, the name of an export for the tools.

use crate::share_url::split_host;
use std::str::FromStr;

/// The port of NFS.
const PORT: u16 = 2049;

/// An export, or a folder in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportUrl {
    /// Name or address of the server.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The path on the server; may be empty.
    pub path: String,
}

impl FromStr for ExportUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("nfs://").ok_or("an export's URL begins with nfs://")?;
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        if place.contains('@') {
            return Err("an NFS URL takes no user: requests use your user id".into());
        }
        let (host, port) = split_host(place, PORT)?;
        if host.is_empty() {
            return Err("the host must not be empty".into());
        }
        Ok(Self { host: host.to_owned(), port, path: path.trim_matches('/').to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_port_and_path_are_found() {
        let url: ExportUrl = "nfs://server:20490/export/a/b/".parse().unwrap();
        assert_eq!(
            (url.host.as_str(), url.port, url.path.as_str()),
            ("server", 20490, "export/a/b")
        );
        let short: ExportUrl = "nfs://[::1]".parse().unwrap();
        assert_eq!((short.host.as_str(), short.port, short.path.as_str()), ("::1", 2049, ""));
    }

    #[test]
    fn malformed_export_url_is_refused_with_its_cause() {
        for (text, part) in [
            ("smb://server/data", "nfs://"),
            ("nfs://alice@server/data", "takes no user"),
            ("nfs:///data", "empty"),
            ("nfs://server:x/data", "port"),
        ] {
            let error = text.parse::<ExportUrl>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
