//! The state directory and its files. They are private to the server's user, whatever the umask is.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Permission bits of every file in the directory.
const FILE_MODE: u32 = 0o600;

/// Creates the directory and its missing parents with mode 0700, because it holds password hashes
/// and the server trusts its contents. The new directories survive a loss of power.
///
/// # Errors
/// Any error of the file system.
pub fn create_dir(folder: &Path) -> std::io::Result<()> {
    let missing: Vec<&Path> = folder
        .ancestors()
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
        .collect();
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    missing.into_iter().rev().try_for_each(|made| sync(parent(made)))
}

/// The parent directory of a path.
fn parent(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Makes the entries of a directory survive a loss of power.
fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Opens a file of the directory with `options` and [`FILE_MODE`]; changes the mode of an existing
/// file to that.
///
/// # Errors
/// Any error of the file system.
pub fn open(path: &Path, options: &mut OpenOptions) -> std::io::Result<File> {
    let file = options.mode(FILE_MODE).open(path)?;
    // The umask narrows the mode of a new file, and an existing file keeps its mode.
    if file.metadata()?.permissions().mode() & 0o7777 != FILE_MODE {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// Replaces a file by `bytes` atomically: after a power failure the file has either the old or the
/// new content. Returns the file, open for reading and writing, positioned at its end. Only one
/// caller at a time may replace a file.
///
/// # Errors
/// Any error of the file system; the old file remains.
pub fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<File> {
    let folder = parent(path);
    create_dir(folder)?;
    let beside = path.with_extension("new");
    // A leftover of a killed server may still be open in another process.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = open(&beside, OpenOptions::new().read(true).write(true).create_new(true))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    sync(folder)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("it is there").permissions().mode() & 0o7777
    }

    #[test]
    fn created_directory_is_private_and_existing_one_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let (above, state) = (folder.path().join("a"), folder.path().join("a/state"));
        create_dir(&state).expect("it can be made");
        assert_eq!((mode(&above), mode(&state)), (0o700, 0o700));
        fs::set_permissions(&state, Permissions::from_mode(0o750)).expect("ours");
        create_dir(&state).expect("it is there");
        assert_eq!(mode(&state), 0o750);
    }

    #[test]
    fn opened_file_of_any_mode_becomes_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        open(&path, OpenOptions::new().write(true).create(true)).expect("it can be made");
        assert_eq!(mode(&path), 0o600);
        for wider in [0o666, 0o640, 0o4700] {
            fs::set_permissions(&path, Permissions::from_mode(wider)).expect("ours");
            open(&path, OpenOptions::new().append(true)).expect("it is there");
            assert_eq!(mode(&path), 0o600, "{wider:o}");
        }
    }

    #[test]
    fn replaced_file_is_private_and_ignores_a_stale_temporary() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, left) = (folder.path().join("file.json"), folder.path().join("file.new"));
        for old in [&path, &left] {
            fs::write(old, "old").expect("ours");
            fs::set_permissions(old, Permissions::from_mode(0o666)).expect("ours");
        }
        let mut reader = File::open(&left).expect("it is there");
        replace(&path, b"new").expect("it can be replaced");
        assert_eq!((fs::read(&path).expect("it is there"), mode(&path)), (b"new".to_vec(), 0o600));
        assert!(!left.exists());
        let mut seen = String::new();
        std::io::Read::read_to_string(&mut reader, &mut seen).expect("it is open");
        assert_eq!(seen, "old", "the reader of a file that was left sees nothing of the new one");
    }
}
