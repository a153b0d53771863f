//! Identifiers of opens and of the names through which they were opened.

/// Identifier of an open, unique in the process and increasing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpenId(pub u64);

/// Identifier of an open file's name within its file, assigned by [`crate::FileGrants::new_link`]. The
/// default stands for no name.
///
/// Share modes belong to the file, deletion to one name: another hard link stays usable. MS-FSA
/// 2.1.1.5 (Link.IsDeleted).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u64);
