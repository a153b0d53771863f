//! Source and target of a copy: paths, shares and exports, with their connections.

use crate::export_url::ExportUrl;
use crate::remote::{self, connect_nfs, connect_smb};
use crate::session::{EncryptArg, SessionArgs, SignArg};
use crate::share_url::ShareUrl;
use crate::user::{ask_silently, read_line};
use ::copy::pairs::NameForm;
use ::copy::smb_names::text_of;
use ::copy::{Side, SidePath};
use anyhow::{Context, Result};
use client::{ChannelOpening, SmbClient, nfs};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Default number of connections to a server.
const CHANNELS: usize = 4;

/// A place as it was typed.
#[derive(Clone, Debug)]
pub enum CopyUrl {
    Local(PathBuf),
    Nfs(ExportUrl),
    Smb(ShareUrl),
}

impl FromStr for CopyUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the path is empty".into());
        }
        if let Some(hint) = unc_hint(text) {
            return Err(hint);
        }
        let is_url = text.contains("://") || text.starts_with("nfs:") || text.starts_with("smb:");
        if !is_url {
            return Ok(Self::Local(text.into()));
        }
        text.parse().map(|url| match url {
            remote::RemoteUrl::Smb(url) => Self::Smb(url),
            remote::RemoteUrl::Nfs(url) => Self::Nfs(url),
        })
    }
}

/// The URL to use instead of a UNC path. A POSIX path may begin with two slashes, too: one that
/// exists, or whose parent does, is such a path.
fn unc_hint(text: &str) -> Option<String> {
    let rest = match text.strip_prefix(r"\\") {
        Some(rest) => rest,
        None => {
            let path = Path::new(text);
            let is_there = path.exists() || path.parent().is_some_and(|parent| parent.exists());
            text.strip_prefix("//").filter(|_| !is_there)?
        }
    };
    let place = rest.replace('\\', "/");
    let place = place.trim_start_matches('/');
    Some(format!("this is a UNC path, not a directory; use \"smb://USER@{place}\""))
}

/// A typed path on a share. Names that SMB cannot hold are written as the copy writes them.
fn share_path(folder: &str) -> String {
    let folder = folder.replace('\\', "/");
    let name = |name: &str| match name {
        "." | ".." => name.to_owned(),
        name => NameForm::Smb.of(NameForm::Smb, name),
    };
    let names: Vec<String> = folder.split('/').filter(|name| !name.is_empty()).map(name).collect();
    names.join("/")
}

impl CopyUrl {
    /// Whether a file is to go into it under its own name.
    pub fn ends_with_slash(&self) -> bool {
        match self {
            Self::Local(path) => path.as_os_str().as_encoded_bytes().ends_with(b"/"),
            Self::Smb(url) => url.folder.is_empty() || url.folder.ends_with('/'),
            Self::Nfs(url) => url.path.is_empty(),
        }
    }

    fn smb(&self) -> Option<&ShareUrl> {
        match self {
            Self::Smb(url) => Some(url),
            _ => None,
        }
    }
}

/// Whether both are of one user of one server.
fn is_one_session(a: &ShareUrl, b: &ShareUrl) -> bool {
    (&a.host, a.port, &a.user, &a.domain) == (&b.host, b.port, &b.user, &b.domain)
}

/// Whether a server refused the operation, or answered with a malformed reply.
fn is_refusal(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(client::Error::RefusedOperation(..) | client::Error::Hostile(_))
    )
}

/// How to connect to both.
#[derive(Debug, clap::Args)]
pub struct CopyConnectionArgs {
    /// Connections to each server: SMB channels or NFS connections. Default: 4, but 1 for large
    /// files to an SMB server on the same machine without signing or encryption, where more
    /// connections gain nothing
    #[arg(long, value_name = "NUMBER")]
    channels: Option<usize>,
    #[command(flatten)]
    session: SessionArgs,
    /// Signing; "off" still signs if the server requires it
    #[arg(long, value_name = "HOW", default_value = "off")]
    sign: SignArg,
    /// Encryption; "off" still encrypts if the server requires it
    #[arg(long, value_name = "HOW", default_value = "off")]
    encrypt: EncryptArg,
}

impl CopyConnectionArgs {
    fn count(&self) -> usize {
        self.channels.unwrap_or(CHANNELS)
    }

    /// An explicit number of channels is opened even if the interfaces do not call for it.
    fn options(&self) -> client::SmbOptions {
        let opening = match self.channels {
            Some(_) => ChannelOpening::Meanwhile,
            None => ChannelOpening::WhereTheyHelp,
        };
        let options = self.session.options(self.count(), self.sign, self.encrypt);
        client::SmbOptions { opening, ..options }
    }
}

/// The passwords of both places; empty for a path, an export or a Kerberos ticket.
pub fn passwords(from_stdin: bool, source: &CopyUrl, target: &CopyUrl) -> Result<[String; 2]> {
    let (first, second) = (source.smb(), target.smb());
    let given = match (from_stdin, first.or(second)) {
        (_, None) => return Ok(Default::default()),
        (true, Some(_)) => Some(read_line()?),
        (false, Some(_)) => std::env::var("ANABRANCH_PASSWORD").ok(),
    };
    let ask = |url: &ShareUrl, given: Option<String>| match given {
        Some(password) => Ok(password),
        None if crate::tickets::are_there(&url.host) => Ok(String::new()),
        None => {
            let text = format!("Password of {} on {}: ", url.user, url.host);
            ask_silently([text.as_str()]).map(|[password]| password)
        }
    };
    let source_password = first.map(|url| ask(url, given.clone())).transpose()?;
    let target_password = match (first, second) {
        (_, None) => None,
        (Some(first), Some(second)) if is_one_session(first, second) => source_password.clone(),
        (_, Some(second)) => {
            let given = std::env::var("ANABRANCH_TARGET_PASSWORD").ok().or(given);
            Some(ask(second, given)?)
        }
    };
    Ok([source_password.unwrap_or_default(), target_password.unwrap_or_default()])
}

/// Connections that were opened, so that two places of one server share them.
#[derive(Debug, Default)]
pub struct OpenConnections {
    smb: Vec<(ShareUrl, SmbClient)>,
    nfs: Vec<(ExportUrl, nfs::NfsClient)>,
}

impl OpenConnections {
    /// Connects to a place.
    pub async fn place(
        &mut self,
        url: &CopyUrl,
        connection: &CopyConnectionArgs,
        password: &str,
    ) -> Result<SidePath> {
        match url {
            CopyUrl::Local(path) => local(path),
            CopyUrl::Smb(url) => self.share(url, connection, password).await,
            CopyUrl::Nfs(url) => self.export(url, connection).await,
        }
    }

    async fn share(
        &mut self,
        url: &ShareUrl,
        connection: &CopyConnectionArgs,
        password: &str,
    ) -> Result<SidePath> {
        let known = self.smb.iter().find(|(known, _)| is_one_session(known, url));
        let client = match known {
            Some((_, client)) => client.clone(),
            None => {
                let client = connect_smb(url, password, connection.options()).await?;
                self.smb.push((url.clone(), client.clone()));
                client
            }
        };
        let tree = client.tree(&url.share).await.with_context(|| url.share.clone())?;
        let label = format!("smb://{}:{}/{}", url.host, url.port, url.share);
        Ok(SidePath { side: Side::smb(label, tree), path: share_path(&url.folder) })
    }

    async fn export(
        &mut self,
        url: &ExportUrl,
        connection: &CopyConnectionArgs,
    ) -> Result<SidePath> {
        let is_there = |known: &ExportUrl| (&known.host, known.port) == (&url.host, url.port);
        let known = self.nfs.iter().find(|(known, _)| is_there(known));
        let client = match known {
            Some((_, client)) => client.clone(),
            None => {
                let client = begin_nfs(url, connection).await?;
                self.nfs.push((url.clone(), client.clone()));
                client
            }
        };
        let (folder, name) = ::copy::names::split(&url.path);
        let label = format!("nfs://{}:{}/{folder}", url.host, url.port);
        let export = nfs::NfsExport::open(client, folder).await;
        let export = export.with_context(|| format!("/{folder}"))?;
        Ok(SidePath { side: Side::nfs(label, export), path: text_of(name.as_bytes()) })
    }

    /// Logs off.
    pub async fn close(self) {
        for (_, client) in self.smb {
            client.close().await;
        }
        for (_, client) in self.nfs {
            client.close().await;
        }
    }
}

/// A session of NFS. 4.2 knows holes; a server that does not know 4.2 says so at once.
async fn begin_nfs(url: &ExportUrl, connection: &CopyConnectionArgs) -> Result<nfs::NfsClient> {
    let connections = connection.count().clamp(1, nfs::CONNECTIONS_MAX);
    match connect_nfs(&url.host, url.port, 2, connections).await {
        Err(error) if is_refusal(&error) => connect_nfs(&url.host, url.port, 1, connections).await,
        other => other,
    }
}

/// A path's directory as the side, its name as the path, without links on the way.
fn local(path: &Path) -> Result<SidePath> {
    let whole = match std::fs::canonicalize(path) {
        Ok(whole) => whole,
        Err(_) => {
            let name = path.file_name().context("the path has no name at its end")?;
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            let parent = std::fs::canonicalize(parent)
                .with_context(|| format!("{} does not exist", parent.display()))?;
            parent.join(name)
        }
    };
    match (whole.parent(), whole.file_name()) {
        (Some(parent), Some(name)) => {
            let path = text_of(name.as_bytes());
            Ok(SidePath { side: Side::local(parent.to_owned()), path })
        }
        _ => Ok(SidePath { side: Side::local(whole), path: String::new() }),
    }
}

/// Where journals are kept. XDG Base Directory Specification: state that outlives a restart.
pub fn state_folder() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = match of("XDG_STATE_HOME") {
        Some(base) => PathBuf::from(base),
        None => PathBuf::from(of("HOME")?).join(".local/state"),
    };
    Some(base.join("anabranch/copy"))
}

/// `1 file`, `2 files`.
pub fn names_more(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_place_kind_follows_its_url_scheme() {
        assert!(matches!("smb://a@h/s/x".parse(), Ok(CopyUrl::Smb(_))));
        assert!(matches!("nfs://h/e".parse(), Ok(CopyUrl::Nfs(_))));
        assert!(matches!("./a:b".parse(), Ok(CopyUrl::Local(_))));
        assert!("http://h/x".parse::<CopyUrl>().is_err() && "".parse::<CopyUrl>().is_err());
    }

    #[test]
    fn unc_path_is_answered_with_its_url() {
        for text in [r"\\nas\data\new", "//nas/data/new"] {
            let error = text.parse::<CopyUrl>().unwrap_err();
            assert!(error.contains("\"smb://USER@nas/data/new\""), "{error}");
        }
        for text in ["//tmp", "//tmp/new", "/nas/data/new"] {
            assert!(matches!(text.parse(), Ok(CopyUrl::Local(_))), "{text}");
        }
    }

    #[test]
    fn typed_share_path_is_written_as_the_share_holds_it() {
        assert_eq!(share_path("a:b/end./x"), "a\u{F022}b/end\u{F029}/x");
        assert_eq!(share_path("\\a\\\u{F022}/"), "a/\u{F022}");
    }

    #[test]
    fn local_path_needs_an_existing_parent_directory() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(&root, root.join("link")).unwrap();
        let place = local(&root.join("link/new")).unwrap();
        assert_eq!(place.path, "new");
        assert_eq!(
            local(&root.join("link")).unwrap().path,
            root.file_name().unwrap().to_str().unwrap()
        );
        assert!(local(&root.join("missing/new")).is_err());
        assert_eq!(local(Path::new("/")).unwrap().path, "");
    }
}
