//! `smb://user@host/share/folder`, the name of a share for the tools.

use std::str::FromStr;

/// The port of SMB.
const PORT: u16 = 445;

/// A share, or a folder in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareUrl {
    /// The user that logs on.
    pub user: String,
    /// Domain of the user; may be empty.
    pub domain: String,
    /// Name or address of the server.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Share.
    pub share: String,
    /// Folder in it; may be empty.
    pub folder: String,
}

impl FromStr for ShareUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("smb://").ok_or("a share's URL begins with smb://")?;
        let (server, path) = rest.split_once('/').ok_or("a share is missing: /SHARE")?;
        let (who, place) = server.rsplit_once('@').ok_or("a user is missing: USER@")?;
        if who.contains(':') {
            return Err("a URL must not hold a password: other users could see it".into());
        }
        let (domain, user) = who.split_once(';').unwrap_or(("", who));
        let (host, port) = split_host(place, PORT)?;
        let (share, folder) = path.split_once('/').unwrap_or((path, ""));
        if user.is_empty() || host.is_empty() || share.is_empty() {
            return Err("user, host and share must not be empty".into());
        }
        let owned = str::to_owned;
        let (user, domain, host) = (owned(user), owned(domain), owned(host));
        Ok(Self { user, domain, host, port, share: owned(share), folder: owned(folder) })
    }
}

/// Host and port of `HOST[:PORT]`, where HOST may stand in brackets.
pub fn split_host(place: &str, default_port: u16) -> Result<(&str, u16), String> {
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    match port {
        Some(port) => Ok((
            host,
            port.parse().map_err(|_| {
                format!(
                    "{port:?} is not a port \
            number"
                )
            })?,
        )),
        None => Ok((host, default_port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_url_is_parsed_into_its_parts() {
        let url: ShareUrl = "smb://WG;alice@server:4450/data/a/b".parse().unwrap();
        assert_eq!((url.domain.as_str(), url.user.as_str()), ("WG", "alice"));
        assert_eq!((url.host.as_str(), url.port), ("server", 4450));
        assert_eq!((url.share.as_str(), url.folder.as_str()), ("data", "a/b"));
        let short: ShareUrl = "smb://alice@[fe80::1]/data".parse().unwrap();
        assert_eq!((short.host.as_str(), short.port, short.folder.as_str()), ("fe80::1", 445, ""));
    }

    #[test]
    fn malformed_share_url_or_password_in_it_is_refused() {
        for (text, part) in [
            ("//server/data", "smb://"),
            ("smb://server/data", "user"),
            ("smb://alice@server", "share"),
            ("smb://alice:secret@server/data", "password"),
            ("smb://alice@server:x/data", "port"),
            ("smb://alice@/data", "empty"),
        ] {
            let error = text.parse::<ShareUrl>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
