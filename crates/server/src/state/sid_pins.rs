//! Pins the SID of the first Kerberos logon of each account.
//!
//! A realm may reassign a name to another person. The principal name alone would grant that person
//! access to the former owner's files. The SID in the ticket's PAC is never reassigned.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use sync::Mutex;

/// Name in the state directory.
const FILE_NAME: &str = "pinned-sids.toml";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PinFile {
    /// SIDs by account.
    #[serde(default)]
    sid: BTreeMap<String, String>,
}

/// The pinned SIDs. An administrator may edit the file at any time.
#[derive(Debug)]
pub struct SidPins {
    path: PathBuf,
    pinned: Mutex<PinFile>,
}

impl SidPins {
    /// The pins of a state directory.
    #[must_use]
    pub fn of(state: &Path) -> Self {
        Self { path: state.join(FILE_NAME), pinned: Mutex::default() }
    }

    /// Compares the SID of a ticket with the pinned SID of the account; the first SID is pinned.
    /// `None` is a ticket without a PAC. Blocks on a file.
    ///
    /// # Errors
    /// The reason to refuse the ticket, with the remedy.
    pub fn check(&self, account: &str, sid: Option<&str>) -> Result<(), String> {
        let mut pins = self.pinned.lock();
        if sid.is_some() && pins.sid.get(account).map(String::as_str) == sid {
            return Ok(());
        }
        *pins = self.load()?;
        let file = self.path.display();
        match (pins.sid.get(account), sid) {
            (None, None) => Ok(()),
            (None, Some(sid)) => {
                pins.sid.insert(account.to_owned(), sid.to_owned());
                self.save(&pins).map_err(|error| {
                    pins.sid.remove(account);
                    format!("the SID of {account} cannot be stored: {file}: {error}")
                })
            }
            (Some(pinned), Some(sid)) if pinned == sid => Ok(()),
            (Some(pinned), Some(sid)) => Err(format!(
                "the ticket's SID is {sid}, but {account} is pinned to {pinned}: the realm has \
                 reassigned the name; to accept the new owner, remove {account} from {file}"
            )),
            (Some(pinned), None) => Err(format!(
                "the ticket has no PAC, but {account} is pinned to {pinned}; have the realm issue \
                 tickets with a PAC, or remove {account} from {file}"
            )),
        }
    }

    fn load(&self) -> Result<PinFile, String> {
        let wrong = |error: String| format!("{}: {error}", self.path.display());
        match std::fs::read_to_string(&self.path) {
            Ok(text) => toml::from_str(&text).map_err(|error| wrong(error.to_string())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(PinFile::default()),
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    fn save(&self, pins: &PinFile) -> std::io::Result<()> {
        let text = toml::to_string(pins).map_err(std::io::Error::other)?;
        crate::state::directory::replace(&self.path, text.as_bytes()).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const FIRST: Option<&str> = Some("S-1-5-21-1-2-3-1106");
    const OTHER: Option<&str> = Some("S-1-5-21-1-2-3-1109");

    #[test]
    fn first_sid_of_an_account_is_pinned_and_another_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pins = SidPins::of(&folder.path().join("state"));
        assert_eq!(pins.check("alice", FIRST), Ok(()));
        assert_eq!(pins.check("alice", FIRST), Ok(()));
        assert_eq!(pins.check("bob", OTHER), Ok(()));
        let refused = pins.check("alice", OTHER).unwrap_err();
        assert!(refused.contains("S-1-5-21-1-2-3-1109") && refused.contains("remove alice from"));
        // The pin survives a restart.
        let again = SidPins::of(&folder.path().join("state"));
        assert!(again.check("alice", OTHER).is_err());
        assert_eq!(again.check("alice", FIRST), Ok(()));
        let file = folder.path().join("state").join(FILE_NAME);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn ticket_without_a_pac_is_refused_for_a_pinned_account_only() {
        let folder = tempfile::tempdir().unwrap();
        let pins = SidPins::of(folder.path());
        assert_eq!(pins.check("alice", None), Ok(()));
        assert_eq!(pins.check("alice", FIRST), Ok(()));
        assert!(pins.check("alice", None).unwrap_err().contains("no PAC"));
    }

    #[test]
    fn removed_pin_is_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let pins = SidPins::of(folder.path());
        assert_eq!(pins.check("alice", FIRST), Ok(()));
        std::fs::write(folder.path().join(FILE_NAME), "[sid]\n").unwrap();
        assert_eq!(pins.check("alice", OTHER), Ok(()));
        assert!(pins.check("alice", FIRST).is_err());
    }

    #[test]
    fn file_that_cannot_be_read_refuses_tickets() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE_NAME), "sid = 3\n").unwrap();
        assert!(SidPins::of(folder.path()).check("alice", FIRST).is_err());
    }
}
