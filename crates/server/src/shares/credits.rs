//! Persists burst credits over a restart: at intervals and at the end, beside the sizes of the
//! shares.
//!
//! A stopped server does no I/O, so credits refill in the meantime at the usual rate. After a crash
//! the credits of the last write are restored; credits spent since then are not deducted.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use sync::Mutex;

/// Name in the state directory.
pub(crate) const FILE_NAME: &str = "share-credits.json";

/// Interval at which changed credits are written.
pub(crate) const KEPT_EVERY: Duration = Duration::from_mins(1);

/// Timeout of the write when the server stops; all such timeouts add up to the unit's stop timeout.
pub(crate) const KEPT_WITHIN: Duration = Duration::from_secs(2);

/// Maximum size of the file: several thousand shares.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Credits of one share at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredCredits {
    held: u64,
    /// Unix time in seconds.
    at: u64,
}

/// The file and its present content, by share name.
#[derive(Debug)]
pub(crate) struct CreditFile {
    path: PathBuf,
    kept: Mutex<BTreeMap<String, StoredCredits>>,
    /// Locked during a write, which may take as long as a disk does; readers do not wait for it.
    writing: Mutex<()>,
}

impl CreditFile {
    /// Reads the file in `folder`.
    pub fn open(folder: &Path) -> Self {
        let path = folder.join(FILE_NAME);
        let kept = read(&path).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "burst credits cannot be read; all \
                                                            shares start with full credits");
            BTreeMap::new()
        });
        Self { path, kept: Mutex::new(kept), writing: Mutex::default() }
    }

    /// Stored credits of a share and their age, if there are any. A clock that was set back gives
    /// age zero.
    pub fn of(&self, key: &str, now_seconds: u64) -> Option<(u64, Duration)> {
        let kept = self.kept.lock();
        let StoredCredits { held, at } = *kept.get(key)?;
        Some((held, Duration::from_secs(now_seconds.saturating_sub(at))))
    }

    /// Writes the credits unless the file already has them. Other shares are removed from the file.
    pub fn keep(&self, shares: impl Iterator<Item = (String, u64)>, now_seconds: u64) {
        let _writing = self.writing.lock();
        let next: BTreeMap<String, StoredCredits> =
            shares.map(|(key, held)| (key, StoredCredits { held, at: now_seconds })).collect();
        let held = |of: &BTreeMap<String, StoredCredits>| -> Vec<(String, u64)> {
            of.iter().map(|(key, kept)| (key.clone(), kept.held)).collect()
        };
        if held(&self.kept.lock()) == held(&next) {
            return;
        }
        let written = serde_json::to_string(&next)
            .map_err(std::io::Error::from)
            .and_then(|text| crate::state::directory::replace(&self.path, text.as_bytes()));
        match written {
            Ok(_) => *self.kept.lock() = next,
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "cannot store burst \
                                                                     credits: after a restart \
                                                                     shares start with older ones");
            }
        }
    }
}

fn read(path: &Path) -> Result<BTreeMap<String, StoredCredits>, String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Ok(facts) if facts.len() > FILE_BYTES_MAX => return Err("it is too large".into()),
        _ => {}
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(held: u64) -> impl Iterator<Item = (String, u64)> {
        [("data".to_owned(), held)].into_iter()
    }

    #[test]
    fn stored_credits_and_their_age_reach_the_next_server() {
        let folder = tempfile::tempdir().unwrap();
        let file = CreditFile::open(folder.path());
        assert_eq!(file.of("data", 1000), None);
        file.keep(data(500), 1000);
        let next = CreditFile::open(folder.path());
        assert_eq!(next.of("data", 1060), Some((500, Duration::from_secs(60))));
        assert_eq!(next.of("data", 900), Some((500, Duration::ZERO)), "the clock was set back");
        next.keep(std::iter::empty(), 1100);
        assert_eq!(CreditFile::open(folder.path()).of("data", 1100), None, "it is gone");
    }

    #[test]
    fn unchanged_credits_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = CreditFile::open(folder.path());
        file.keep(std::iter::empty(), 1000);
        assert!(!folder.path().join(FILE_NAME).exists(), "no share has any");
        file.keep(data(500), 1000);
        fs::remove_file(folder.path().join(FILE_NAME)).unwrap();
        file.keep(data(500), 2000);
        assert!(!folder.path().join(FILE_NAME).exists());
        file.keep(data(499), 2000);
        assert!(folder.path().join(FILE_NAME).exists());
    }

    #[test]
    fn invalid_credits_file_is_reported_and_ignored() {
        let folder = tempfile::tempdir().unwrap();
        for wrong in ["", "{", "[]", "{\"data\":{\"held\":-1,\"at\":0}}"] {
            fs::write(folder.path().join(FILE_NAME), wrong).unwrap();
            assert_eq!(CreditFile::open(folder.path()).of("data", 0), None, "{wrong}");
        }
    }
}
