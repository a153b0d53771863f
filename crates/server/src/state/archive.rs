//! The state as one file, for a backup or a move to another machine: a tar archive of the files of the
//! state directory and of the user file, after a manifest with their checksums.
//!
//! A running server replaces its files as a whole, and appends to its journals entries with
//! checksums. So an archive made meanwhile has each file as it was at one moment.

use crate::config::ServerConfig;
use crate::state::directory;
use crate::state::format::{self, FORMAT_FILE, StateFormat};
use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// First entry of an archive.
const MANIFEST: &str = "manifest.json";
/// Name of the user file in an archive, whatever its own name is.
const USERS: &str = "users.toml";
/// Maximum length of the manifest.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;
/// Maximum length of one file: a journal.
const FILE_BYTES_MAX: u64 = crate::limits::JOURNAL_READ_BYTES_MAX;
/// The files that hold a server's state, beside [`FORMAT_FILE`]. Other files of the directory may be
/// an administrator's, if the user file decides where it is.
const STATE_FILES: [&str; 9] = [
    "admin-token",
    "metrics-token",
    "nfs-clients",
    "opens",
    "pinned-sids.toml",
    "share-credits.json",
    "share-sizes.json",
    USERS,
    "usual-networks.json",
];

/// Where a server's state is.
#[derive(Clone, Debug)]
pub struct StatePlace {
    /// The state directory.
    pub folder: PathBuf,
    /// The user file, within or outside of the directory.
    pub users: PathBuf,
}

impl StatePlace {
    /// The state of a server with this configuration.
    #[must_use]
    pub fn of(config: &ServerConfig) -> Self {
        Self { folder: config.state_folder().to_owned(), users: config.users.clone() }
    }

    fn path_of(&self, name: &str) -> PathBuf {
        if name == USERS { self.users.clone() } else { self.folder.join(name) }
    }
}

/// Contents of [`MANIFEST`].
#[derive(Debug, Serialize, Deserialize)]
struct ArchiveManifest {
    #[serde(flatten)]
    state: StateFormat,
    files: Vec<ArchivedFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ArchivedFile {
    name: String,
    /// SHA-256 of the contents, in hexadecimal digits.
    sha256: String,
}

/// Contents of an archive.
#[derive(Debug)]
pub struct StateContents {
    /// Format and version of the program that wrote the state.
    pub state: StateFormat,
    files: Vec<(String, Vec<u8>)>,
}

fn sha256(bytes: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl StateContents {
    /// Reads the state of a server, which may be running.
    ///
    /// # Errors
    /// A sentence for people: there is no state, or a file cannot be read.
    pub fn of(place: &StatePlace) -> Result<Self, String> {
        let state = format::read(&place.folder)?.unwrap_or_else(StateFormat::own);
        state.check(&place.folder)?;
        let mut files = Vec::new();
        for name in STATE_FILES {
            files.extend(read(&place.path_of(name))?.map(|bytes| (name.to_owned(), bytes)));
        }
        if files.is_empty() {
            return Err(format!("{} has no state of a server", place.folder.display()));
        }
        Ok(Self { state, files })
    }

    /// Names of the files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(name, _)| name.as_str())
    }

    /// Writes the archive.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write(&self, out: impl Write) -> std::io::Result<()> {
        let listed = |(name, bytes): &(String, Vec<u8>)| ArchivedFile {
            name: name.clone(),
            sha256: sha256(bytes),
        };
        let files = self.files.iter().map(listed).collect();
        let manifest = ArchiveManifest { state: self.state.clone(), files };
        let manifest = serde_json::to_vec_pretty(&manifest)?;
        let mut archive = tar::Builder::new(out);
        let all = self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
        for (name, bytes) in std::iter::once((MANIFEST, manifest.as_slice())).chain(all) {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o600);
            archive.append_data(&mut header, name, bytes)?;
        }
        archive.into_inner()?.flush()
    }

    /// Reads an archive, and checks it against its manifest.
    ///
    /// # Errors
    /// A sentence for people: it is no archive of a state, is damaged, or is of a later format.
    pub fn read(from: impl Read) -> Result<Self, String> {
        let bad = |why: String| format!("this is not a whole archive of `state export`: {why}");
        let mut archive = tar::Archive::new(from);
        let mut entries = archive.entries().map_err(|e| bad(e.to_string()))?;
        let mut next = |max: u64| {
            let Some(entry) = entries.next() else { return Ok(None) };
            let entry = entry.map_err(|e| bad(e.to_string()))?;
            let path = entry.path().map_err(|e| bad(e.to_string()))?;
            let name = path.to_str().map(str::to_owned).ok_or_else(|| bad("a name".into()))?;
            let mut bytes = Vec::new();
            entry.take(max + 1).read_to_end(&mut bytes).map_err(|e| bad(e.to_string()))?;
            if bytes.len() as u64 > max {
                return Err(bad(format!("an entry has more than {max} bytes")));
            }
            Ok(Some((name, bytes)))
        };
        let manifest = next(MANIFEST_BYTES_MAX)?.filter(|(name, _)| name == MANIFEST);
        let manifest: ArchiveManifest = manifest
            .and_then(|(_, bytes)| serde_json::from_slice(&bytes).ok())
            .ok_or_else(|| bad(format!("it does not begin with {MANIFEST}")))?;
        manifest.state.check(Path::new("the archive"))?;
        let mut files = Vec::new();
        for listed in manifest.files {
            let is_new = files.iter().all(|(name, _): &(String, _)| *name != listed.name);
            if !STATE_FILES.contains(&listed.name.as_str()) || !is_new {
                return Err(bad("it lists a file that no state has".into()));
            }
            match next(FILE_BYTES_MAX)? {
                Some((name, bytes)) if name == listed.name && sha256(&bytes) == listed.sha256 => {
                    files.push((name, bytes));
                }
                _ => return Err(bad(format!("{} is damaged or missing", listed.name))),
            }
        }
        Ok(Self { state: manifest.state, files })
    }

    /// Stores the files as the state of a server that does not run. With `replace` they replace the
    /// present state, whose files are removed if the archive does not have them.
    ///
    /// # Errors
    /// A sentence for people: a server uses the state, there is state already, or the system refuses.
    /// Each file is the old or the new one then.
    pub fn store(&self, place: &StatePlace, replace: bool) -> Result<(), String> {
        directory::create_dir(&place.folder).map_err(|e| said(&place.folder, &e))?;
        let _lock = lock(place)?;
        let is_present = |name: &str| place.path_of(name).exists();
        if !replace && STATE_FILES.into_iter().any(is_present) {
            return Err(format!(
                "{} has state already; --replace replaces it",
                place.folder.display()
            ));
        }
        // Until the number is back, no program takes a mixture for a state.
        let number = place.folder.join(FORMAT_FILE);
        let unfinished = format!("an import of {} files has not ended", self.files.len());
        store(place, &number, unfinished.as_bytes())?;
        let is_kept = |name: &str| self.names().any(|kept| kept == name);
        for name in STATE_FILES.into_iter().filter(|name| !is_kept(name) && is_present(name)) {
            let path = place.path_of(name);
            std::fs::remove_file(&path).map_err(|e| said(&path, &e))?;
        }
        for (name, bytes) in &self.files {
            store(place, &place.path_of(name), bytes)?;
        }
        let text = serde_json::to_vec(&self.state).map_err(|error| error.to_string())?;
        store(place, &number, &text)
    }
}

fn said(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// The contents of a file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    // The directory may belong to a server without privileges, which must not lead root to another
    // file by a link, nor have it wait for the other end of a pipe.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|e| said(path, &e))?,
    };
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(format!("{} is not a regular file", path.display()));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(|e| said(path, &e))?;
    Ok(Some(bytes))
}

/// Replaces a file of the state. It keeps its owner, or gets that of the state directory, so that a
/// server without privileges can read what root has imported.
fn store(place: &StatePlace, path: &Path, bytes: &[u8]) -> Result<(), String> {
    let stored = std::fs::symlink_metadata(path).or_else(|_| place.folder.metadata());
    let stored = stored.and_then(|owner| {
        let file = directory::replace(path, bytes)?;
        give(&file, &owner)?;
        file.sync_all()
    });
    stored.map_err(|e| said(path, &e))
}

fn give(file: &File, owner: &Metadata) -> std::io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    std::os::unix::fs::fchown(file, Some(owner.uid()), Some(owner.gid()))
}

/// Takes the lock of the state for one import, which lasts as long as the file is open.
fn lock(place: &StatePlace) -> Result<File, String> {
    let path = place.folder.join(format::LOCK_FILE);
    let file = format::open_lock(&place.folder).map_err(|e| said(&path, &e))?;
    place.folder.metadata().and_then(|owner| give(&file, &owner)).map_err(|e| said(&path, &e))?;
    file.try_lock().map_err(|_| {
        format!(
            "a server uses {}: stop it first (systemctl stop anabranch)",
            place.folder.display()
        )
    })?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(folder: &Path) -> StatePlace {
        StatePlace { folder: folder.join("state"), users: folder.join("users") }
    }

    /// A place with state.
    fn stated(folder: &Path) -> StatePlace {
        let place = place(folder);
        format::claim(&place.folder).unwrap();
        for (name, text) in [("opens", "journal"), ("pinned-sids.toml", "pins")] {
            std::fs::write(place.folder.join(name), text).unwrap();
        }
        for name in ["opens.lock", "opens.new", "anabranch.toml", "users.toml"] {
            std::fs::write(place.folder.join(name), "not of the state").unwrap();
        }
        std::fs::write(&place.users, "accounts").unwrap();
        place
    }

    fn archive(place: &StatePlace) -> Vec<u8> {
        let mut bytes = Vec::new();
        StateContents::of(place).unwrap().write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn imported_state_equals_the_exported_one() {
        let folder = tempfile::tempdir().unwrap();
        let from = stated(folder.path());
        let contents = StateContents::read(archive(&from).as_slice()).unwrap();
        let names: Vec<&str> = contents.names().collect();
        assert_eq!(names, ["opens", "pinned-sids.toml", "users.toml"]);
        let other = tempfile::tempdir().unwrap();
        let to = place(other.path());
        contents.store(&to, false).unwrap();
        assert_eq!(archive(&to), archive(&from));
        assert_eq!(std::fs::read_to_string(&to.users).unwrap(), "accounts");
        assert_eq!(std::fs::metadata(to.folder.join("opens")).unwrap().mode() & 0o7777, 0o600);
        format::claim(&to.folder).unwrap();
    }

    #[test]
    fn present_state_is_replaced_by_request_only() {
        let folder = tempfile::tempdir().unwrap();
        let place = stated(folder.path());
        let contents = StateContents::read(archive(&place).as_slice()).unwrap();
        std::fs::write(place.folder.join("opens"), "later").unwrap();
        std::fs::write(place.folder.join("share-sizes.json"), "later").unwrap();
        let why = contents.store(&place, false).unwrap_err();
        assert!(why.contains("--replace"), "{why}");
        assert_eq!(std::fs::read_to_string(place.folder.join("opens")).unwrap(), "later");
        contents.store(&place, true).unwrap();
        assert_eq!(std::fs::read_to_string(place.folder.join("opens")).unwrap(), "journal");
        assert!(!place.folder.join("share-sizes.json").exists());
        for name in ["anabranch.toml", "users.toml"] {
            let kept = std::fs::read_to_string(place.folder.join(name)).unwrap();
            assert_eq!(kept, "not of the state", "{name}");
        }
    }

    #[test]
    fn state_of_a_running_server_is_exported_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        let _used = format::occupy(&place.folder).unwrap();
        std::fs::write(place.folder.join("opens"), "journal").unwrap();
        let bytes = archive(&place);
        let why = StateContents::read(bytes.as_slice()).unwrap().store(&place, true).unwrap_err();
        assert!(why.contains("stop it first"), "{why}");
    }

    #[test]
    fn import_beside_other_state_removes_nothing() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let contents = StateContents::read(archive(&stated(folder.path())).as_slice()).unwrap();
        let to = place(other.path());
        std::fs::create_dir(&to.folder).unwrap();
        std::fs::write(to.folder.join("share-sizes.json"), "sizes").unwrap();
        assert!(contents.store(&to, false).unwrap_err().contains("--replace"));
        assert!(to.folder.join("share-sizes.json").exists() && !to.users.exists());
    }

    #[test]
    fn link_and_pipe_in_the_directory_are_not_exported() {
        let folder = tempfile::tempdir().unwrap();
        let place = stated(folder.path());
        let path = place.folder.join("usual-networks.json");
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        StateContents::of(&place).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
        assert!(StateContents::of(&place).unwrap_err().contains("not a regular file"));
    }

    #[test]
    fn user_file_without_a_directory_is_imported() {
        let folder = tempfile::tempdir().unwrap();
        let contents = StateContents::read(archive(&stated(folder.path())).as_slice()).unwrap();
        let kept = StateContents { files: Vec::new(), ..contents };
        let here = StatePlace { folder: folder.path().join("new"), users: "users.toml".into() };
        assert!(here.users.parent().is_some_and(|parent| parent.as_os_str().is_empty()));
        kept.store(&here, false).unwrap();
        format::claim(&here.folder).unwrap();
    }

    #[test]
    fn damaged_archive_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = archive(&stated(folder.path()));
        let at = bytes.windows(7).rposition(|window| window == b"journal").unwrap();
        let mut changed = bytes.clone();
        changed[at] = b'J';
        let cut = bytes[..at].to_vec();
        let mut empty = Vec::new();
        tar::Builder::new(&mut empty).finish().unwrap();
        for (bad, part) in [
            (changed, "opens is damaged"),
            (cut, "not a whole archive"),
            (empty, "does not begin"),
            (vec![7; 4096], "not a whole archive"),
        ] {
            let why = StateContents::read(bad.as_slice()).unwrap_err();
            assert!(why.contains(part), "{part}: {why}");
        }
    }

    #[test]
    fn hostile_names_and_later_formats_are_refused() {
        let with = |format: u32, name: &str| {
            let state = StateFormat { format, written_by: "9\u{1b}.9".into() };
            let contents = StateContents { state, files: vec![(name.into(), b"x".to_vec())] };
            let mut bytes = Vec::new();
            contents.write(&mut bytes).unwrap();
            StateContents::read(bytes.as_slice())
        };
        assert!(with(1, "opens").is_ok());
        let later = with(format::STATE_FORMAT + 1, "opens").unwrap_err();
        assert!(later.contains("later version") && !later.contains('\u{1b}'), "{later}");
        for name in ["opens.lock", "anabranch.toml", FORMAT_FILE, "a/b"] {
            assert!(with(1, name).unwrap_err().contains("no state has"), "{name}");
        }
    }

    #[test]
    fn interrupted_import_leaves_no_usable_state() {
        let folder = tempfile::tempdir().unwrap();
        let place = stated(folder.path());
        let mut contents = StateContents::read(archive(&place).as_slice()).unwrap();
        // A directory cannot be replaced by a file.
        std::fs::create_dir(place.folder.join("share-sizes.json")).unwrap();
        contents.files.push(("share-sizes.json".into(), Vec::new()));
        contents.store(&place, true).unwrap_err();
        let why = format::claim(&place.folder).unwrap_err();
        assert!(why.contains("not valid"), "{why}");
        std::fs::remove_dir(place.folder.join("share-sizes.json")).unwrap();
        contents.store(&place, true).unwrap();
        format::claim(&place.folder).unwrap();
    }
}
