//! The format of the state directory: one number for all of its files, in a file of its own. A
//! program reads its own format and the earlier ones, and refuses later ones.

use crate::log::EscapedText;
use crate::state::directory;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The format that this program writes. State without a number has format 1.
///
/// A change that an earlier program would misread raises it, and [`claim`] then converts the files.
pub const STATE_FORMAT: u32 = 1;
/// The file with the number.
pub const FORMAT_FILE: &str = "format.json";
/// Maximum length of that file.
const BYTES_MAX: usize = 4096;

/// Contents of [`FORMAT_FILE`]. Later programs may add fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFormat {
    /// See [`STATE_FORMAT`].
    pub format: u32,
    /// Version of the program that wrote the state.
    pub written_by: String,
}

impl StateFormat {
    /// The format that this program writes.
    #[must_use]
    pub fn own() -> Self {
        Self { format: STATE_FORMAT, written_by: env!("CARGO_PKG_VERSION").into() }
    }

    /// Checks that this program can read the format of `place`.
    ///
    /// # Errors
    /// A sentence for people, with the remedy.
    pub fn check(&self, place: &Path) -> Result<(), String> {
        if self.format <= STATE_FORMAT {
            return Ok(());
        }
        Err(format!(
            "{} has state of a later version, {} (format {}), and this version, {}, reads formats up to \
             {STATE_FORMAT}: start version {} again, or restore the state that you saved before the \
             upgrade (anabranch state import)",
            place.display(),
            EscapedText(&self.written_by),
            self.format,
            env!("CARGO_PKG_VERSION"),
            EscapedText(&self.written_by),
        ))
    }
}

/// Reads the format of a state directory; `None` if it has no number.
///
/// # Errors
/// A sentence for people if the file cannot be read or understood.
pub fn read(folder: &Path) -> Result<Option<StateFormat>, String> {
    let path = folder.join(FORMAT_FILE);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {
            return Ok(None);
        }
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let found = (bytes.len() <= BYTES_MAX).then(|| serde_json::from_slice(&bytes).ok()).flatten();
    found.map(Some).ok_or_else(|| {
        format!(
            "{} is not valid, so the format of the state is unknown: restore the state from a backup \
             (anabranch state import --replace), or remove the file if this version wrote the state",
            path.display()
        )
    })
}

/// Checks that this program can use the state directory. A directory that does not exist can be used.
///
/// # Errors
/// A sentence for people, with the remedy.
pub fn check(folder: &Path) -> Result<(), String> {
    read(folder)?.map_or(Ok(()), |found| found.check(folder))
}

/// Marks the state directory as one of this program's format, before any of its files is written. An
/// earlier program refuses it from then on, if the format differs.
///
/// # Errors
/// As [`check`], and the errors of the file system.
pub fn claim(folder: &Path) -> Result<(), String> {
    let found = read(folder)?;
    if let Some(found) = &found {
        found.check(folder)?;
    }
    if found.is_some_and(|found| found.format == STATE_FORMAT) {
        return Ok(());
    }
    let path = folder.join(FORMAT_FILE);
    let text = serde_json::to_vec(&StateFormat::own()).map_err(|error| error.to_string())?;
    directory::replace(&path, &text)
        .map(drop)
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// The file that servers lock together, and an import alone.
pub const LOCK_FILE: &str = "state.lock";

/// Opens the lock file, but no file behind a link of that name.
///
/// # Errors
/// Any error of the file system.
pub fn open_lock(folder: &Path) -> std::io::Result<File> {
    let path = folder.join(LOCK_FILE);
    let mut options = OpenOptions::new();
    directory::open(
        &path,
        options.write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW),
    )
}

/// Checks the format and keeps imports away as long as the returned file is open. A server that
/// cannot write its state directory, and so has nothing there that an import could spoil, gets
/// `None`.
///
/// # Errors
/// A sentence for people, with the remedy: the state has a later format, or an import is under way.
pub fn occupy(folder: &Path) -> Result<Option<File>, String> {
    check(folder)?;
    if let Err(why) = claim(folder) {
        tracing::debug!(why, "the state directory is not marked with its format");
        return Ok(None);
    }
    let Ok(lock) = open_lock(folder) else { return Ok(None) };
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Err(format!(
            "{} is being replaced by an import; start the server after it",
            folder.display()
        )),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(lock)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_a_later_format_is_refused_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let later = r#"{"format": 2, "written_by": "7.1.0", "more": []}"#;
        std::fs::write(folder.path().join(FORMAT_FILE), later).unwrap();
        let why = claim(folder.path()).unwrap_err();
        assert!(why.contains("7.1.0 (format 2)") && why.contains("state import"), "{why}");
        assert_eq!(check(folder.path()).unwrap_err(), why);
        assert_eq!(std::fs::read_to_string(folder.path().join(FORMAT_FILE)).unwrap(), later);
    }

    #[test]
    fn claimed_directory_has_the_own_format() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        assert_eq!((check(&state), read(&state)), (Ok(()), Ok(None)));
        for _ in 0..2 {
            claim(&state).unwrap();
            assert_eq!(read(&state), Ok(Some(StateFormat::own())));
        }
    }

    #[test]
    fn several_servers_occupy_a_directory_and_keep_imports_away() {
        let folder = tempfile::tempdir().unwrap();
        let servers = [(); 2].map(|()| occupy(folder.path()).unwrap());
        assert!(servers.iter().all(Option::is_some));
        let import = open_lock(folder.path()).unwrap();
        assert!(import.try_lock().is_err());
        drop(servers);
        import.try_lock().unwrap();
        assert!(occupy(folder.path()).unwrap_err().contains("import"));
    }

    #[test]
    fn unreadable_number_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for bad in ["", "{}", "{\"format\": -1}", &"x".repeat(BYTES_MAX + 1)] {
            std::fs::write(folder.path().join(FORMAT_FILE), bad).unwrap();
            let why = claim(folder.path()).unwrap_err();
            assert!(why.contains("not valid") && why.contains("--replace"), "{why}");
        }
    }
}
