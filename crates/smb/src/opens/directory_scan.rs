//! The position of a directory listing. MS-SMB2 3.3.1.10.

use wire::fscc::WildcardPattern;

/// Position of a listing, one an open: MS-SMB2 3.3.1.10 EnumerationLocation.
#[derive(Debug, Default)]
pub struct DirectoryScan {
    /// The pattern as the client sent it.
    pub units: Vec<u16>,
    /// The pattern, parsed.
    pub pattern: WildcardPattern,
    /// Number of entries among `.` and `..` that are done; they come first.
    pub dots_done: u8,
    /// Cookie of the last entry that is done.
    pub cookie: u64,
    /// The directory has no further entry.
    pub at_end: bool,
    /// An entry matched.
    pub found_any: bool,
}

impl DirectoryScan {
    /// The start of a listing of the names that match `units`.
    #[must_use]
    pub fn new(units: Vec<u16>) -> Self {
        Self { pattern: WildcardPattern::new(&units), units, ..Self::default() }
    }
}
