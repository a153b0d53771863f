//! Names and paths as backends take them.

use crate::{FileKey, FsError};
use std::fmt;

/// One component: not empty, no `/`, no NUL, neither `.` nor `..`, at most 255 bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Longest name in bytes that Linux file systems store.
    pub const LENGTH_MAX: usize = 255;

    /// Checks and takes a component.
    ///
    /// # Errors
    /// [`FsError::InvalidName`] for a form that cannot be a component,
    /// [`FsError::NameTooLong`] past [`Name::LENGTH_MAX`].
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, FsError> {
        let bytes = bytes.into();
        Self::check(&bytes)?;
        Ok(Self(bytes))
    }

    /// Checks a component.
    fn check(bytes: &[u8]) -> Result<(), FsError> {
        if bytes.iter().any(|b| matches!(b, b'/' | 0)) {
            return Err(FsError::InvalidName);
        }
        Self::check_form(bytes)
    }

    /// Checks bytes that contain neither `/` nor NUL.
    fn check_form(bytes: &[u8]) -> Result<(), FsError> {
        if bytes.is_empty() || bytes == b"." || bytes == b".." {
            return Err(FsError::InvalidName);
        }
        if bytes.len() > Self::LENGTH_MAX {
            return Err(FsError::NameTooLong);
        }
        Ok(())
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

/// Checks the name of a stream or an extended attribute, which may have a `/`: not empty, no NUL.
pub(crate) fn check_label(bytes: &[u8], length_max: usize) -> Result<(), FsError> {
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(FsError::InvalidName);
    }
    if bytes.len() > length_max { Err(FsError::NameTooLong) } else { Ok(()) }
}

/// Name of a user's extended attribute, without Linux's prefix `user.`: any bytes but NUL.
/// xattr(7); RFC 8276 5.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct XattrName(Box<[u8]>);

impl XattrName {
    /// Longest name in bytes: `XATTR_NAME_MAX` less the prefix `user.`, which Linux counts.
    pub const LENGTH_MAX: usize = 250;

    /// Checks and takes a name.
    ///
    /// # Errors
    /// [`FsError::InvalidName`] for an empty one and one with a NUL, [`FsError::NameTooLong`] past
    /// [`XattrName::LENGTH_MAX`].
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, FsError> {
        let bytes = bytes.into();
        check_label(&bytes, Self::LENGTH_MAX)?;
        Ok(Self(bytes))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for XattrName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

/// A path below a root: components joined by `/`, none of them `.` or `..`,
/// without a leading or trailing `/`. Empty for the root itself.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelPath(Vec<u8>);

impl RelPath {
    /// Longest path in bytes of a name that is created or renamed. It is four times the limit of a
    /// system call (PATH_MAX), so backends resolve it in pieces. A rename of a directory may make
    /// deeper paths longer; another rename makes them reachable again.
    pub const LENGTH_MAX: usize = 4 * 4095;

    /// Checks that a new name may have this path.
    ///
    /// # Errors
    /// [`FsError::NameTooLong`] past [`RelPath::LENGTH_MAX`].
    pub fn check_length(&self) -> Result<(), FsError> {
        if self.0.len() > Self::LENGTH_MAX { Err(FsError::NameTooLong) } else { Ok(()) }
    }

    /// The root.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// The root, with capacity for a path of so many bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// Placeholder for the path of a node without a known one. It is unique to the node and leads
    /// nowhere in any backend.
    #[must_use]
    pub fn nameless(key: FileKey) -> Self {
        Self(format!("\0{:x}.{:x}", key.device, key.inode).into_bytes())
    }

    /// The path of these [`RelPath::as_bytes`].
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [] => Some(Self::root()),
            _ => Self::of_components(bytes.to_vec()).ok(),
        }
    }

    /// The path of `/`-separated components; the root has none.
    ///
    /// # Errors
    /// As [`Name::new`], of a component.
    pub fn of_components(bytes: Vec<u8>) -> Result<Self, FsError> {
        if bytes.contains(&0) {
            return Err(FsError::InvalidName);
        }
        bytes.split(|b| *b == b'/').try_for_each(Name::check_form)?;
        Ok(Self(bytes))
    }

    /// Whether it is [`RelPath::nameless`].
    #[must_use]
    pub fn is_nameless(&self) -> bool {
        self.0.first() == Some(&0)
    }

    /// Whether this is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends a component of these bytes.
    ///
    /// # Errors
    /// As [`Name::new`]; the path is then unchanged.
    pub fn try_push(&mut self, name: &[u8]) -> Result<(), FsError> {
        Name::check(name)?;
        self.push_checked(name);
        Ok(())
    }

    /// Appends a component.
    pub fn push(&mut self, name: &Name) {
        self.push_checked(name.as_bytes());
    }

    fn push_checked(&mut self, name: &[u8]) {
        if !self.0.is_empty() {
            self.0.push(b'/');
        }
        self.0.extend_from_slice(name);
    }

    /// This path with one more component.
    #[must_use]
    pub fn join(&self, name: &Name) -> Self {
        let mut path = Self(Vec::with_capacity(self.0.len() + 1 + name.0.len()));
        path.0.extend_from_slice(&self.0);
        path.push(name);
        path
    }

    /// The parent directory and the last component; none for the root and a nameless path.
    #[must_use]
    pub fn split(&self) -> Option<(Self, Name)> {
        self.cut().map(|(parent, name)| (Self(parent.to_vec()), Name(name.into())))
    }

    /// The parent directory; see [`RelPath::split`].
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.cut().map(|(parent, _)| Self(parent.to_vec()))
    }

    /// The last component; see [`RelPath::split`].
    #[must_use]
    pub fn name(&self) -> Option<Name> {
        self.cut().map(|(_, name)| Name(name.into()))
    }

    fn cut(&self) -> Option<(&[u8], &[u8])> {
        if self.0.is_empty() || self.is_nameless() {
            return None;
        }
        Some(match self.0.iter().rposition(|&b| b == b'/') {
            Some(at) => (&self.0[..at], &self.0[at + 1..]),
            None => (&self.0[..0], &self.0[..]),
        })
    }

    /// The components in order.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|&b| b == b'/').filter(|c| !c.is_empty())
    }

    /// Whether this path is `ancestor` or lies below it.
    #[must_use]
    pub fn starts_with(&self, ancestor: &Self) -> bool {
        ancestor.is_root()
            || self.0 == ancestor.0
            || (self.0.starts_with(&ancestor.0) && self.0.get(ancestor.0.len()) == Some(&b'/'))
    }

    /// This path after a rename of its prefix `from` to `to`; none if it lies elsewhere.
    #[must_use]
    pub fn moved(&self, from: &Self, to: &Self) -> Option<Self> {
        if !self.starts_with(from) || from.is_root() {
            return None;
        }
        let rest = &self.0[from.0.len()..];
        Some(Self([&to.0, rest].concat()))
    }

    /// The path relative to a directory (see [`RelPath::directories`]); none if it does not lie
    /// below.
    #[must_use]
    pub fn below(&self, directory: &[u8]) -> Option<Self> {
        if directory.is_empty() {
            return (!self.is_root()).then(|| self.clone());
        }
        let rest = self.0.strip_prefix(directory)?.strip_prefix(b"/")?;
        Some(Self(rest.to_vec()))
    }

    /// The directories above the path, as bytes: the nearest first, the root (empty) last. None for
    /// the root.
    pub fn directories(&self) -> impl Iterator<Item = &[u8]> {
        let up = |path: &[u8]| path.iter().rposition(|&b| b == b'/').unwrap_or(0);
        let first = (!self.is_root() && !self.is_nameless()).then(|| &self.0[..up(&self.0)]);
        std::iter::successors(first, move |path| (!path.is_empty()).then(|| &path[..up(path)]))
    }

    /// The bytes, `/` between components.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl FromIterator<Name> for RelPath {
    fn from_iter<I: IntoIterator<Item = Name>>(names: I) -> Self {
        let mut path = Self::default();
        for name in names {
            path.push(&name);
        }
        path
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath(text.as_bytes().to_vec())
    }

    #[test]
    fn directories_of_a_path_end_at_the_root() {
        let path = path("a/bc/d");
        assert_eq!(path.directories().collect::<Vec<_>>(), [&b"a/bc"[..], b"a", b""]);
        assert_eq!(RelPath::root().directories().count(), 0);
    }

    #[test]
    fn path_of_components_checks_each_component() {
        let of = |text: &str| RelPath::of_components(text.as_bytes().to_vec());
        assert_eq!(of("a/bc"), Ok(path("a/bc")));
        for bad in ["", "/a", "a//b", "a/", "a/..", ".", "a\0"] {
            assert_eq!(of(bad), Err(FsError::InvalidName), "{bad}");
        }
        assert_eq!(of(&format!("a/{}", "b".repeat(256))), Err(FsError::NameTooLong));
    }

    #[test]
    fn path_moves_with_its_renamed_ancestor() {
        let moved = |at, from, to| path(at).moved(&path(from), &path(to));
        assert_eq!(moved("a/b/c", "a/b", "d"), Some(path("d/c")));
        assert_eq!(moved("a/b", "a/b", "d/e"), Some(path("d/e")));
        assert_eq!(moved("a/bc", "a/b", "d"), None);
        assert_eq!(moved("a", "", "d"), None);
    }

    #[test]
    fn path_is_below_whole_components_only() {
        assert_eq!(path("a/b/c").below(b"a"), Some(path("b/c")));
        assert_eq!(path("a/b").below(b""), Some(path("a/b")));
        assert_eq!(path("ab").below(b"a"), None);
        assert_eq!(path("a").below(b"a"), None);
    }
}
