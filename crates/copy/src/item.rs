//! What is known of a file or directory, in terms that all sides share.

/// What kind of entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A link, a device: what is not copied.
    Other,
}

/// Times and attributes that can be kept; what a side does not know is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// When it was made, in nanoseconds since 1970; so for all times.
    pub created: Option<i128>,
    /// When it was last read.
    pub accessed: Option<i128>,
    /// When its data last changed.
    pub written: Option<i128>,
    /// FILE_ATTRIBUTE_*.
    pub dos: Option<u32>,
    /// Permission bits.
    pub mode: Option<u32>,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name, without the path.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Bytes of data.
    pub size_bytes: u64,
    /// Whether it has holes, as far as its storage tells.
    pub is_sparse: bool,
    /// Another number when it has changed, where the side has one.
    pub change: u64,
    /// Times and attributes.
    pub facts: Facts,
}

impl Item {
    /// Whether nothing tells that it has changed since it was `before`.
    #[must_use]
    pub fn is_unchanged(&self, before: &Self) -> bool {
        self.size_bytes == before.size_bytes
            && self.facts.written == before.facts.written
            && self.change == before.change
    }
}
