//! The share that a request counts on.

/// Index of a share's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShareId(pub(crate) u16);

impl ShareId {
    /// Requests without a share.
    pub const NONE: Self = Self(0);
}
