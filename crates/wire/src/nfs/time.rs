//! Time as NFS tells it: `nfstime4`. RFC 8881 3.3.1.

use super::xdr::xdr_struct;

xdr_struct! {
    /// Since the beginning of 1970, UTC.
    #[derive(Copy, Default, Hash, PartialOrd, Ord)]
    struct NfsTime {
        /// Whole seconds, negative before 1970.
        seconds: i64,
        /// Nanoseconds that are added to them; below a thousand million if valid.
        nanoseconds: u32,
    }
}

impl NfsTime {
    /// Whether the nanoseconds make up less than a second.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.nanoseconds < 1_000_000_000
    }
}
