//! The tokens of the admin API. The first start generates them, one file each in the state
//! directory, private to the server's user.

use crate::limits::{TOKEN_BYTES_MAX, TOKEN_BYTES_MIN};
use crate::state::directory;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// File of the admin token.
pub const ADMIN_TOKEN_FILE: &str = "admin-token";
/// File of the metrics token, for collectors.
pub const METRICS_TOKEN_FILE: &str = "metrics-token";

/// A token; `Debug` hides it.
pub struct AdminToken(Vec<u8>);

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl AdminToken {
    /// Whether `shown` equals the token, in constant time.
    pub fn is(&self, shown: &[u8]) -> bool {
        let at = |bytes: &[u8], index: usize| bytes.get(index).copied().unwrap_or_default();
        let mut differs = u8::from(self.0.len() != shown.len());
        for index in 0..TOKEN_BYTES_MAX {
            // Without the hint the compiler might leave the loop at the first difference.
            differs = std::hint::black_box(differs | (at(&self.0, index) ^ at(shown, index)));
        }
        differs == 0
    }

    /// Reads the token from `path`; generates it if the file does not exist.
    fn open(path: &Path) -> Result<Self, String> {
        match Self::create(path) {
            Ok(token) => return Ok(token),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("cannot be created: {error}")),
        }
        let file = File::open(path).map_err(|error| error.to_string())?;
        let mode = file.metadata().map_err(|error| error.to_string())?.mode();
        // A group may read one of them, for example that of a collector.
        if mode & 0o037 != 0 {
            return Err("others can read or change it; run: chmod 600".into());
        }
        let mut text = String::new();
        let read = file.take(TOKEN_BYTES_MAX as u64 + 2).read_to_string(&mut text);
        read.map_err(|error| error.to_string())?;
        let token = text.trim_end();
        let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain || !(TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&token.len()) {
            return Err(format!(
                "holds no token of {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} letters and digits; \
                 remove it to generate a new one"
            ));
        }
        Ok(Self(token.into()))
    }

    /// Generates a token of 256 random bits; fails if the file exists.
    fn create(path: &Path) -> std::io::Result<Self> {
        let mut random = [0; 32];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut file = directory::open(path, OpenOptions::new().write(true).create_new(true))?;
        file.write_all(format!("{token}\n").as_bytes())?;
        Ok(Self(token.into_bytes()))
    }
}

/// The accepted tokens.
#[derive(Debug)]
pub struct Tokens {
    /// Permits all operations.
    pub admin: AdminToken,
    /// Permits metrics only.
    pub metrics: AdminToken,
}

impl Tokens {
    /// Reads or generates the tokens in `folder`, which is created if necessary.
    ///
    /// # Errors
    /// The defect with its remedy.
    pub fn open(folder: &Path) -> Result<Self, String> {
        directory::create_dir(folder).map_err(|error| wrong(folder, &error.to_string()))?;
        let open = |name: &str| {
            let path = folder.join(name);
            AdminToken::open(&path).map_err(|why| wrong(&path, &why))
        };
        Ok(Self { admin: open(ADMIN_TOKEN_FILE)?, metrics: open(METRICS_TOKEN_FILE)? })
    }
}

fn wrong(path: &Path, why: &str) -> String {
    format!(
        "the admin API's token: {}: {why}; or set `state` to a directory of this server's own, or admin = \"off\"",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn token_files_are_created_once_private_and_distinct() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let first = Tokens::open(&state).unwrap();
        let second = Tokens::open(&state).unwrap();
        assert_eq!(first.admin.0, second.admin.0);
        assert_ne!(first.admin.0, first.metrics.0);
        assert_eq!(first.admin.0.len(), 64);
        for name in [ADMIN_TOKEN_FILE, METRICS_TOKEN_FILE] {
            let mode = std::fs::metadata(state.join(name)).unwrap().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn invalid_or_readable_token_file_is_refused_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(ADMIN_TOKEN_FILE);
        Tokens::open(folder.path()).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(Tokens::open(folder.path()).unwrap_err().contains("chmod 600"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(Tokens::open(folder.path()).is_ok(), "a group may be given it");
        for bad in ["short", "a space in it, and more than thirty two letters", ""] {
            std::fs::write(&path, bad).unwrap();
            assert!(Tokens::open(folder.path()).unwrap_err().contains("remove it"), "{bad}");
        }
    }

    #[test]
    fn token_matches_itself_only() {
        let token = AdminToken(b"0123456789abcdef0123456789abcdef".into());
        assert!(token.is(b"0123456789abcdef0123456789abcdef"));
        for other in
            ["", "0", "0123456789abcdef0123456789abcdeF", "0123456789abcdef0123456789abcdef0"]
        {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
        let with_nul = b"0123456789abcdef0123456789abcdef\0";
        assert!(!token.is(with_nul), "what is not there is no letter");
        assert!(!token.is(&[b'0'; TOKEN_BYTES_MAX * 2]));
    }
}
