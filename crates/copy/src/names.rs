//! Names of entries: refuses unsafe ones, and builds the temporary ones.

use crate::error::Error;
use crate::pairs::NameForm;
use twox_hash::XxHash3_64;

/// Prefix and suffix of temporary names. No leading dot: servers report such names as hidden, and
/// may not store an attribute that the name implies.
const OURS: (&str, &str) = ("~anabranch-", ".part");

/// Refuses a listed name that would leave its directory on the other side: a hostile server must not
/// choose where the copy writes. A name with a colon is refused over SMB: there the part behind the
/// colon names a stream (MS-FSCC 2.1.5.3).
///
/// # Errors
/// [`Error::BadName`].
pub fn check(name: &str, spelling: NameForm) -> Result<(), Error> {
    if name.is_empty() || name == "." || name == ".." {
        return Err(Error::BadName("is empty, . or .."));
    }
    let is_smb = spelling == NameForm::Smb;
    if name.contains(['/', '\0']) || (is_smb && name.contains('\\')) {
        return Err(Error::BadName("contains a path separator"));
    }
    if is_smb && name.contains(':') {
        return Err(Error::BadName("contains a colon, which SMB takes for a stream"));
    }
    Ok(())
}

/// The paths of one entry, each relative to its side's root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryPaths {
    /// For filters and people; relative to the source.
    pub shown: String,
    /// On the source, in its spelling.
    pub from: String,
    /// On the target, in its spelling.
    pub to: String,
}

impl EntryPaths {
    /// The paths of an entry of this directory, by its names.
    #[must_use]
    pub fn child(&self, shown: &str, from: &str, to: &str) -> Self {
        Self {
            shown: join(&self.shown, shown),
            from: join(&self.from, from),
            to: join(&self.to, to),
        }
    }
}

/// `folder/name`, where the folder may be empty.
#[must_use]
pub fn join(folder: &str, name: &str) -> String {
    match (folder.is_empty(), name.is_empty()) {
        (true, _) => name.to_owned(),
        (_, true) => folder.to_owned(),
        _ => format!("{folder}/{name}"),
    }
}

/// The folder of a path, and its name there.
#[must_use]
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Identifies the copy of one file; the same key in each run.
#[must_use]
pub fn key(source: &str, target: &str) -> u64 {
    XxHash3_64::oneshot(format!("{source}\0{target}").as_bytes())
}

/// The name, in the directory of `path`, under which a file is filled.
#[must_use]
pub fn temporary(path: &str, key: u64) -> String {
    join(split(path).0, &format!("{}{key:016x}{}", OURS.0, OURS.1))
}

/// Whether [`temporary`] built this name.
#[must_use]
pub fn is_temporary(name: &str) -> bool {
    let middle = name.strip_prefix(OURS.0).and_then(|rest| rest.strip_suffix(OURS.1));
    middle.is_some_and(|hex| hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_their_directory_are_refused() {
        for name in ["", ".", "..", "a/b", "a\0"] {
            assert!(check(name, NameForm::Bytes).is_err(), "{name:?}");
            assert!(check(name, NameForm::Smb).is_err(), "{name:?}");
        }
        for name in ["..\\a", "a:b"] {
            assert!(check(name, NameForm::Smb).is_err(), "{name:?}");
            assert_eq!(check(name, NameForm::Bytes), Ok(()), "{name:?}");
        }
        for name in ["a", "...", ".a", "a b", "ä"] {
            assert_eq!(check(name, NameForm::Smb), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn temporary_name_is_beside_the_file_and_recognised() {
        let one = temporary("a/b/c", key("smb://s/a", "/t/c"));
        assert_eq!(split(&one).0, "a/b");
        assert!(is_temporary(split(&one).1) && !is_temporary("c"));
        assert!(!is_temporary("~anabranch-.part") && !is_temporary("~anabranch-zz.part"));
        assert_eq!(one, temporary("a/b/c", key("smb://s/a", "/t/c")));
        assert_ne!(one, temporary("a/b/c", key("smb://s/b", "/t/c")));
        assert_eq!(split(&temporary("c", 1)).0, "");
    }
}
