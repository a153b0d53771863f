//! The user file: names and password hashes.
//!
//! An NT hash is as good as the password, so the file must be private to its owner; the server
//! refuses a file that others can read. Writers replace the file as a whole, so a reader sees the
//! old or the new version.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wire::ntlm::NtHash;

/// Maximum length of a user name in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Reason for which the file cannot be used.
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
    /// NT hash of the password, in hexadecimal.
    pub nt_hash: String,
    /// The system user for file access; by default the one of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_user: Option<String>,
    /// Permits a Kerberos logon although the system user is root.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub root_by_ticket: bool,
}

/// All users by name in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    #[serde(default)]
    user: BTreeMap<String, User>,
}

impl Users {
    /// Reads the file; a missing file has no users.
    ///
    /// # Errors
    /// [`UsersError`] if the file is unreadable, readable by others, or malformed.
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
    /// [`UsersError`] if the write fails; the old file remains.
    pub fn save(&self, path: &Path) -> Result<(), UsersError> {
        let error = |why: String| UsersError { path: path.to_path_buf(), why };
        let text = toml::to_string(self).map_err(|e| error(e.to_string()))?;
        let replaced = crate::state::directory::replace(path, text.as_bytes());
        replaced.map(drop).map_err(|e| error(e.to_string()))
    }

    /// Applies `change` to the file under an exclusive lock.
    ///
    /// # Errors
    /// A sentence for people: the error of `change`, or the reason for which the file cannot be
    /// used.
    pub fn update(
        path: &Path,
        change: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let said = |e: std::io::Error| format!("{}: {e}", path.display());
        crate::state::directory::create_dir(folder_of(path)).map_err(said)?;
        // The lock lasts until the file is closed. The user file itself cannot carry it, because
        // writers replace it.
        let mut options = std::fs::OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        let lock = crate::state::directory::open(&path.with_extension("lock"), options);
        let lock = lock.map_err(said)?;
        lock.lock().map_err(said)?;
        let mut users = Self::load(path).map_err(|e| e.to_string())?;
        change(&mut users)?;
        users.save(path).map_err(|e| e.to_string())
    }

    /// Sets the system user of `name`.
    ///
    /// # Errors
    /// A sentence for people if the user does not exist.
    pub fn set_system_user(&mut self, name: &str, system_user: &str) -> Result<(), String> {
        let user =
            self.user.get_mut(&key_of(name)).ok_or_else(|| format!("there is no user {name}"))?;
        user.system_user = Some(system_user.to_owned());
        Ok(())
    }

    /// Adds a user or changes its password.
    ///
    /// # Errors
    /// A sentence for people if the name is invalid.
    pub fn set_password(&mut self, name: &str, password: &str) -> Result<(), String> {
        self.set_hash(name, &NtHash::of_password(password))
    }

    /// Adds a user or changes its password, given as a hash.
    ///
    /// # Errors
    /// A sentence for people if the name is invalid.
    pub fn set_hash(&mut self, name: &str, hash: &NtHash) -> Result<(), String> {
        let key = key_of(name);
        let bad = key.is_empty()
            || key.len() > NAME_BYTES_MAX
            || key.contains(['\\', '/', '@', ':', '\n']);
        if bad {
            return Err(format!("{name:?} cannot be a user's name"));
        }
        let nt_hash = hash.to_hex();
        let user = self.user.entry(key).or_insert_with(|| User {
            nt_hash: String::new(),
            system_user: None,
            root_by_ticket: false,
        });
        user.nt_hash = nt_hash;
        Ok(())
    }

    /// Removes a user; returns false if there was none.
    pub fn remove(&mut self, name: &str) -> bool {
        self.user.remove(&key_of(name)).is_some()
    }

    /// Whether the user exists.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.user.contains_key(&key_of(name))
    }

    /// Whether a Kerberos logon as this user may act as root.
    #[must_use]
    pub fn is_root_by_ticket(&self, name: &str) -> bool {
        self.user.get(&key_of(name)).is_some_and(|user| user.root_by_ticket)
    }

    /// Adds all users of `others`; they replace users of the same name.
    pub fn merge(&mut self, others: &Self) {
        self.user.extend(others.user.iter().map(|(name, user)| (name.clone(), user.clone())));
    }

    /// Whether there are no users.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.user.is_empty()
    }

    /// The user names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.user.keys().map(String::as_str)
    }

    /// A user's stored name, hash and system user.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(&str, NtHash, &str)> {
        let (key, user) = self.user.get_key_value(&key_of(name))?;
        let hash = NtHash::from_hex(&user.nt_hash)?;
        Some((key, hash, user.system_user.as_deref().unwrap_or(key)))
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn key_of(name: &str) -> String {
    name.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn saved_users_file_is_private_and_reads_back() {
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
    fn concurrent_changes_are_all_stored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/users.toml");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    Users::update(path, |u| u.set_password(&format!("user{n}"), "x")).unwrap()
                });
            }
        });
        assert_eq!(Users::load(&path).unwrap().names().count(), 8);
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            2,
            "the file and its lock"
        );
    }

    #[test]
    fn refused_change_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        let said = Users::update(&path, |users| {
            users.set_password("alice", "x")?;
            Err("no".into())
        });
        assert_eq!((said, path.exists()), (Err("no".into()), false));
    }

    #[test]
    fn password_change_keeps_the_system_user() {
        let mut users = Users::default();
        assert!(users.set_system_user("alice", "www").is_err());
        users.set_password("alice", "x").unwrap();
        assert_eq!(users.find("alice").unwrap().2, "alice");
        users.set_system_user("Alice", "www").unwrap();
        users.set_password("alice", "y").unwrap();
        assert_eq!(users.find("alice").unwrap().2, "www");
    }

    #[test]
    fn invalid_hash_and_unknown_key_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        for (text, part) in [
            ("[user.alice]\nnt_hash = \"12\"\n", "the hash of alice is not 32 hexadecimal digits"),
            ("[user.alice]\npassword = \"12\"\n", "unknown field `password`"),
        ] {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            let said = Users::load(&path).unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn ambiguous_user_name_is_refused() {
        for bad in ["", "a\\b", "a@b", "a:b"] {
            assert!(Users::default().set_password(bad, "x").is_err());
        }
    }
}
