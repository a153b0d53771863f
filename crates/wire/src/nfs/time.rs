//! NFS timestamps: `nfstime4`. RFC 8881 3.3.1.

use super::xdr::xdr_struct;

xdr_struct! {
    /// Time since 1970-01-01 00:00 UTC.
    #[derive(Copy, Default, Hash, PartialOrd, Ord)]
    struct NfsTime {
        /// Whole seconds, negative before 1970.
        seconds: i64,
        /// Nanoseconds to add; valid below 1,000,000,000.
        nanoseconds: u32,
    }
}

impl NfsTime {
    /// True if the nanoseconds are below one second.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.nanoseconds < 1_000_000_000
    }
}
