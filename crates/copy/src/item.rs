//! Metadata of a file or directory in terms that all sides share.

/// Type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A device, a pipe, a socket or a junction; these are not copied.
    Other,
}

/// The target of a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTarget {
    /// Its text with slashes, in the form [`crate::pairs::NameForm::Bytes`].
    pub text: String,
    /// Whether it is known to lead to a directory: Windows has two kinds of links.
    pub is_directory: bool,
}

/// Times and attributes that can be preserved; `None` where a side does not have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemFacts {
    /// Creation time in nanoseconds since 1970, as for all times here.
    pub created: Option<i128>,
    /// Last access time.
    pub accessed: Option<i128>,
    /// Last write time.
    pub written: Option<i128>,
    /// FILE_ATTRIBUTE_*.
    pub dos: Option<u32>,
    /// Permission bits.
    pub mode: Option<u32>,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyItem {
    /// Its name, without the path.
    pub name: String,
    /// Its type.
    pub kind: ItemKind,
    /// Bytes of data.
    pub size_bytes: u64,
    /// Whether it has holes, as far as its storage reports.
    pub is_sparse: bool,
    /// Change attribute or change time: another value after each change; 0 where the side has none.
    pub change: u64,
    /// Times and attributes.
    pub facts: ItemFacts,
}

impl CopyItem {
    /// Whether size, last write time and change attribute equal those of `before`.
    #[must_use]
    pub fn is_unchanged(&self, before: &Self) -> bool {
        self.size_bytes == before.size_bytes
            && self.facts.written == before.facts.written
            && self.change == before.change
    }
}
