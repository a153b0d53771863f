//! The directory for what must survive the server.

use std::fs::{self, DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes it, and what is missing above, for the server's user alone: hashes of passwords are
/// kept there, and whoever may write in it puts in what the server takes for its own.
///
/// # Errors
/// What the system says.
pub fn make(folder: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Puts a text in the place of a file there, so that one of both is there whatever happens.
///
/// # Errors
/// What the system says; the old file is there then.
pub fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    make(path.parent().unwrap_or(Path::new(".")))?;
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_made_is_its_owners_alone_and_what_is_there_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let (above, state) = (folder.path().join("a"), folder.path().join("a/state"));
        let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
        make(&state).expect("it can be made");
        assert_eq!((mode(&above), mode(&state)), (0o700, 0o700));
        std::fs::set_permissions(&state, PermissionsExt::from_mode(0o750)).expect("ours");
        make(&state).expect("it is there");
        assert_eq!(mode(&state), 0o750);
    }
}
