//! Persists the networks from which accounts have logged on by password. After a restart a password
//! guesser from elsewhere does not delay the account on those networks.

use serde::{Deserialize, Serialize};
use smb::UsualNetwork;
use smb::limits::{USUAL_NETWORKS_MAX, USUAL_NETWORKS_PER_ACCOUNT};
use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use sync::Mutex;

/// Name in the state directory.
const FILE_NAME: &str = "usual-networks.json";

/// Interval at which changed networks are written.
const WRITTEN_EVERY: Duration = Duration::from_mins(1);

/// Timeout of the write when the server stops.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);

/// Maximum size of the file: all entries with long names.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

const DAY_SECONDS: u64 = 24 * 60 * 60;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UsualNetworkEntry {
    account: String,
    network: IpAddr,
    /// Day of the last logon since 1970; days keep the file from changing at every logon.
    day: u64,
}

/// The file and its present content.
#[derive(Debug)]
pub(crate) struct UsualNetworkFile {
    path: PathBuf,
    /// Locked while the file is written; request handling never waits for it.
    written: Mutex<Vec<UsualNetworkEntry>>,
}

impl UsualNetworkFile {
    /// Loads the networks from `folder` into the server.
    pub(crate) fn restore(server: &smb::SmbServer, folder: &Path) -> Arc<Self> {
        let (file, known) = Self::open(folder);
        server.restore_usual_networks(known);
        Arc::new(file)
    }

    /// Reads the file in `folder`.
    fn open(folder: &Path) -> (Self, Vec<UsualNetwork>) {
        let path = folder.join(FILE_NAME);
        let entries = read(&path).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "the networks that accounts have \
                                                            logged on from cannot be read; each \
                                                            network is recorded again at its \
                                                            next logon");
            Vec::new()
        });
        let known = entries.iter().map(|entry| UsualNetwork {
            account: entry.account.clone(),
            network: entry.network,
            last_unix_seconds: entry.day * DAY_SECONDS,
        });
        (Self { path, written: Mutex::new(entries.clone()) }, known.collect())
    }

    /// Writes the networks unless the file already has them.
    fn write(&self, known: Vec<UsualNetwork>) {
        let mut written = self.written.lock();
        let of = |known: UsualNetwork| UsualNetworkEntry {
            account: known.account,
            network: known.network,
            // Rounded up to the next day, so that the retention is never shorter: at most a day
            // longer.
            day: known.last_unix_seconds.div_ceil(DAY_SECONDS),
        };
        let mut next: Vec<UsualNetworkEntry> = known.into_iter().map(of).collect();
        next.sort_unstable();
        if *written == next {
            return;
        }
        let replaced = serde_json::to_string(&next)
            .map_err(std::io::Error::from)
            .and_then(|text| crate::state::directory::replace(&self.path, text.as_bytes()));
        match replaced {
            Ok(_) => *written = next,
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "cannot store the networks that accounts have logged on from; make the state directory writable, or free its disk");
            }
        }
    }
}

/// Writes the networks once.
pub(crate) async fn write(server: &Arc<smb::SmbServer>, file: &Arc<UsualNetworkFile>) {
    let (file, known) = (file.clone(), server.usual_networks());
    let written = tokio::task::spawn_blocking(move || file.write(known));
    if tokio::time::timeout(WRITTEN_WITHIN, written).await.is_err() {
        tracing::warn!(
            "the networks that accounts have logged on from were not written: the disk does not \
             respond"
        );
    }
}

/// Writes the networks at intervals, until the task is dropped.
pub(crate) async fn follow(server: Arc<smb::SmbServer>, file: Arc<UsualNetworkFile>) {
    let mut times = tokio::time::interval(WRITTEN_EVERY);
    loop {
        times.tick().await;
        write(&server, &file).await;
    }
}

fn read(path: &Path) -> Result<Vec<UsualNetworkEntry>, String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Ok(facts) if facts.len() > FILE_BYTES_MAX => return Err("it is too large".into()),
        _ => {}
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let entries: Vec<UsualNetworkEntry> =
        serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let mut of_accounts: HashMap<&str, usize> = HashMap::new();
    for entry in &entries {
        *of_accounts.entry(&entry.account).or_default() += 1;
    }
    let most = of_accounts.values().max().copied().unwrap_or_default();
    let is_bounded = entries.len() <= USUAL_NETWORKS_MAX && most <= USUAL_NETWORKS_PER_ACCOUNT;
    let days = entries.iter().all(|entry| entry.day < u64::MAX / DAY_SECONDS);
    if is_bounded && days { Ok(entries) } else { Err("it exceeds the limits of a server".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn known(account: &str, days: u64) -> UsualNetwork {
        UsualNetwork {
            account: account.to_owned(),
            network: IpAddr::from([192, 0, 2, 1]),
            last_unix_seconds: days * DAY_SECONDS,
        }
    }

    #[test]
    fn usual_networks_file_is_private_and_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let (file, none) = UsualNetworkFile::open(folder.path());
        assert_eq!(none, []);
        file.write(vec![known("bob", 20_000), known("alice", 20_001)]);
        let (next, read) = UsualNetworkFile::open(folder.path());
        assert_eq!(read, [known("alice", 20_001), known("bob", 20_000)]);
        let path = folder.path().join(FILE_NAME);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
        // A later logon on the same day changes nothing.
        fs::remove_file(&path).unwrap();
        let later = UsualNetwork { last_unix_seconds: 20_000 * DAY_SECONDS - 7, ..known("bob", 0) };
        next.write(vec![later, known("alice", 20_001)]);
        assert!(!path.exists());
        next.write(vec![known("bob", 20_002)]);
        assert_eq!(UsualNetworkFile::open(folder.path()).1, [known("bob", 20_002)]);
    }

    #[test]
    fn foreign_file_is_treated_as_empty() {
        let folder = tempfile::tempdir().unwrap();
        let many: Vec<UsualNetworkEntry> = (0..=USUAL_NETWORKS_PER_ACCOUNT)
            .map(|n| UsualNetworkEntry {
                account: "a".into(),
                network: IpAddr::from([10, 0, 0, n as u8]),
                day: 1,
            })
            .collect();
        let late = format!("[{{\"account\":\"a\",\"network\":\"::\",\"day\":{}}}]", u64::MAX);
        let many = serde_json::to_string(&many).unwrap();
        for wrong in ["", "{", "[{\"account\":\"a\"}]", &many, &late] {
            fs::write(folder.path().join(FILE_NAME), wrong).unwrap();
            assert_eq!(UsualNetworkFile::open(folder.path()).1, [], "{wrong}");
        }
    }
}
