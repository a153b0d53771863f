//! From Samba's configuration and users, or the exports of the kernel's NFS server or of NFS-Ganesha,
//! to ours: `anabranch import`.
//!
//! What cannot be carried over is told with its file, its line and what to do.

mod draft;
mod exports;
mod ganesha;
mod meaning;
mod nfs_draft;
pub mod passwords;
mod remarks;
mod text;
mod width;

use crate::config::Config;
use std::path::{Path, PathBuf};
pub use text::{Place, read_file};

/// Something to be known of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where.
    pub place: Place,
    /// What, and what to do.
    pub text: String,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.place.file.display(), self.place.line, self.text)
    }
}

/// What is known of the machine and its users.
pub struct Facts<'a> {
    /// How files are read.
    pub read: text::Read<'a>,
    /// Home directory of a system user.
    pub home_of: &'a dyn Fn(&str) -> Option<PathBuf>,
    /// Name of the machine.
    pub host: String,
    /// Who is to log on, in order.
    pub users: Vec<String>,
    /// The users' file that the configuration is to name.
    pub users_file: PathBuf,
}

/// A configuration of ours.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Its text.
    pub config: String,
    /// Names of its shares.
    pub shares: Vec<String>,
    /// What could not be carried over, by line.
    pub lost: Vec<Note>,
    /// What needed not.
    pub needless: Vec<Note>,
}

/// Reads an smb.conf, what exports(5) describes, or a ganesha.conf, and writes what it means.
///
/// # Errors
/// A sentence if the file cannot be read.
pub fn import(path: &Path, facts: &Facts<'_>) -> Result<Imported, String> {
    let text = (facts.read)(path).unwrap_or_default();
    let mut imported = if exports::is_exports(&text) {
        exports::import(path, facts.read)?
    } else if ganesha::is_ganesha(&text) {
        ganesha::import(path, facts.read)?
    } else {
        let (sections, notes) = text::parse(path, facts.read)?;
        meaning::Meaning::new(facts, notes).of(&sections)
    };
    if let Err(error) = Config::parse(&imported.config) {
        // Whatever was typed there: rather a file to correct than none.
        let place = Place { file: path.into(), line: 1 };
        let text = format!("the result is not valid yet; correct it: {error}");
        imported.lost.push(Note { place, text });
    }
    Ok(imported)
}

#[cfg(test)]
mod tests;
