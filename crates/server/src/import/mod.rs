//! `anabranch import`: converts the configuration and users of Samba, the exports of the kernel's
//! NFS server, or the configuration of NFS-Ganesha.
//!
//! Parameters that cannot be carried over are reported with file, line and remedy.

mod draft;
mod draft_client;
mod exports;
mod ganesha;
mod meaning;
mod nfs_draft;
pub mod passwords;
mod remarks;
mod text;
mod width;

use crate::config::ServerConfig;
use std::path::{Path, PathBuf};
pub use text::{SourcePosition, read_file};

/// A remark on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportRemark {
    /// File and line.
    pub place: SourcePosition,
    /// The problem and its remedy.
    pub text: String,
}

impl std::fmt::Display for ImportRemark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.place.file.display(), self.place.line, self.text)
    }
}

/// Facts about the machine and its users.
pub struct ImportMachine<'a> {
    /// Reads a file.
    pub read: text::Read<'a>,
    /// Home directory of a system user.
    pub home_of: &'a dyn Fn(&str) -> Option<PathBuf>,
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
        let (sections, notes) = text::parse(path, facts.read)?;
        meaning::SmbConfConverter::new(facts, notes).of(&sections)
    };
    if let Err(error) = ServerConfig::parse(&imported.config) {
        // An invalid result that the administrator can correct is better than none.
        let place = SourcePosition { file: path.into(), line: 1 };
        let text = format!("the result is not a valid configuration yet; correct it: {error}");
        imported.lost.push(ImportRemark { place, text });
    }
    Ok(imported)
}

#[cfg(test)]
mod tests;
