//! Who may log on: a file of names and password hashes.
//!
//! An NT hash is as good as the password, so the file must be readable by
//! its owner only; one that others can read is refused. It is replaced as a
//! whole: a reader sees the old one or the new one.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use wire::ntlm::NtHash;

/// Longest name of a user, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Why the file cannot be used.
#[derive(Debug)]
pub struct UsersError {
    path: PathBuf,
    why: String,
}

impl fmt::Display for UsersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for UsersError {}

/// One user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Hash of the password, in hexadecimal.
    pub nt_hash: String,
    /// The system user whose files are touched; the one of the same name if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_user: Option<String>,
}

/// All users, by name in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    #[serde(default)]
    user: BTreeMap<String, User>,
}

impl Users {
    /// Reads the file; one that does not exist has no users.
    ///
    /// # Errors
    /// [`UsersError`] if it cannot be read, others may read it, or its form is wrong.
    pub fn load(path: &Path) -> Result<Self, UsersError> {
        let error = |why: String| UsersError { path: path.to_path_buf(), why };
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(error(e.to_string())),
        };
        if metadata.mode() & 0o077 != 0 {
            return Err(error(format!(
                "others can read the password hashes; chmod 600 {}",
                path.display()
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|e| error(e.to_string()))?;
        let users: Self = toml::from_str(&text).map_err(|e| error(e.to_string()))?;
        if let Some((name, _)) =
            users.user.iter().find(|(_, u)| NtHash::from_hex(&u.nt_hash).is_none())
        {
            return Err(error(format!(
                "the hash of {name} is not 32 hexadecimal digits; set a new password"
            )));
        }
        Ok(users)
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// [`UsersError`] if it cannot be written; the old one is left then.
    pub fn save(&self, path: &Path) -> Result<(), UsersError> {
        let error = |why: String| UsersError { path: path.to_path_buf(), why };
        let text = toml::to_string(self).map_err(|e| error(e.to_string()))?;
        let temporary = path.with_extension("new");
        let write = || -> std::io::Result<()> {
            if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
                std::fs::create_dir_all(parent)?;
            }
            let mut options = std::fs::OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&temporary, path)
        };
        write().map_err(|e| error(e.to_string()))
    }

    /// Adds a user or changes one's password.
    ///
    /// # Errors
    /// A sentence for people if the name is not one.
    pub fn set_password(&mut self, name: &str, password: &str) -> Result<(), String> {
        let key = key_of(name);
        let bad = key.is_empty()
            || key.len() > NAME_BYTES_MAX
            || key.contains(['\\', '/', '@', ':', '\n']);
        if bad {
            return Err(format!("{name:?} cannot be a user's name"));
        }
        let nt_hash = NtHash::of_password(password).to_hex();
        let system_user = self.user.get(&key).and_then(|u| u.system_user.clone());
        self.user.insert(key, User { nt_hash, system_user });
        Ok(())
    }

    /// Takes a user out; false if there was none.
    pub fn remove(&mut self, name: &str) -> bool {
        self.user.remove(&key_of(name)).is_some()
    }

    /// Whether there is such a user.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.user.contains_key(&key_of(name))
    }

    /// Takes over all users of `others`, replacing those of the same name.
    pub fn merge(&mut self, others: &Self) {
        self.user.extend(others.user.iter().map(|(name, user)| (name.clone(), user.clone())));
    }

    /// Whether there is nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.user.is_empty()
    }

    /// The names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.user.keys().map(String::as_str)
    }

    /// One user's name as stored, hash and system user.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(&str, NtHash, &str)> {
        let (key, user) = self.user.get_key_value(&key_of(name))?;
        let hash = NtHash::from_hex(&user.nt_hash)?;
        Some((key, hash, user.system_user.as_deref().unwrap_or(key)))
    }
}

fn key_of(name: &str) -> String {
    name.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_saved_file_is_private_and_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        let mut users = Users::default();
        users.set_password("Alice", "secret").unwrap();
        users.save(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let read = Users::load(&path).unwrap();
        assert_eq!(read, users);
        assert_eq!(read.find("ALICE").unwrap().1, NtHash::of_password("secret"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Users::load(&path).unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn names_that_would_be_misread_are_refused() {
        for bad in ["", "a\\b", "a@b", "a:b"] {
            assert!(Users::default().set_password(bad, "x").is_err());
        }
    }
}
