//! `anabranch import`: converts the configuration and users of Samba, the exports of the kernel's
//! NFS server, or the configuration of NFS-Ganesha.
//!
//! Parameters that cannot be carried over are reported with file, line and remedy.

mod draft;
mod draft_client;
mod exports;
mod ganesha;
mod host_lists;
mod listening;
mod meaning;
mod nfs_draft;
pub mod passwords;
mod placing;
mod remarks;
mod report;
mod shadow_copies;
mod share_terms;
mod text;
mod width;

use crate::config::ServerConfig;
pub use report::{ImportRemark, RemarkWeight, grouped};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
pub use text::{SourcePosition, read_file};

/// Facts about the machine and its users.
pub struct ImportMachine<'a> {
    /// Reads a file.
    pub read: text::Read<'a>,
    /// Home directory of a system user.
    pub home_of: &'a dyn Fn(&str) -> Option<PathBuf>,
    /// Names of the groups of a system user.
    pub groups_of: &'a dyn Fn(&str) -> Vec<String>,
    /// Mount point of the file system of a directory; `None` if the directory is missing.
    pub mount_point_of: &'a dyn Fn(&Path) -> Option<PathBuf>,
    /// Whether a directory exists.
    pub has_directory: &'a dyn Fn(&Path) -> bool,
    /// The interfaces that are up, with their usable addresses.
    pub interfaces: Vec<(String, Vec<IpAddr>)>,
    /// Local time is UTC.
    pub is_utc: bool,
    /// Host name.
    pub host: String,
    /// Imported users, in order.
    pub users: Vec<String>,
    /// User file of the new configuration.
    pub users_file: PathBuf,
}

/// The converted configuration.
#[derive(Clone, Debug)]
pub struct ImportResult {
    /// Its text.
    pub config: String,
    /// Names of its shares.
    pub shares: Vec<String>,
    /// Remarks on parameters that could not be carried over, by line.
    pub lost: Vec<ImportRemark>,
    /// Remarks on parameters without a needed counterpart.
    pub needless: Vec<ImportRemark>,
}

/// Converts an smb.conf, an exports(5) file, or a ganesha.conf.
///
/// # Errors
/// A sentence if the file is unreadable.
pub fn import(path: &Path, facts: &ImportMachine<'_>) -> Result<ImportResult, String> {
    let text = (facts.read)(path).unwrap_or_default();
    let mut imported = if exports::is_exports(&text) {
        exports::import(path, facts.read)?
    } else if ganesha::is_ganesha(&text) {
        ganesha::import(path, facts.read)?
    } else {
        meaning::SmbConfConverter::new(facts).of(text::parse(path, facts.read)?)
    };
    if let Err(error) = ServerConfig::parse(&imported.config) {
        // An invalid result that the administrator can correct is better than none.
        let place = SourcePosition { file: path.into(), line: 1 };
        let text = format!("the result is not a valid configuration yet; correct it: {error}");
        let remark = ImportRemark::new(place, text);
        imported.lost.push(ImportRemark { weight: RemarkWeight::Access, ..remark });
    }
    Ok(imported)
}

/// The mount point of the file system of `path`: the highest directory above it on the same device,
/// as Samba's shadow_copy2 determines it. `None` if the directory is missing.
#[must_use]
pub fn mount_point(path: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
    let own = device(path)?;
    let above = path.ancestors().take_while(|above| device(above) == Some(own));
    above.last().map(Path::to_path_buf)
}

#[cfg(test)]
mod tests;
