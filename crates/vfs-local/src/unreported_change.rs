//! Changes by this process of which the kernel notifies no directory.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of changes by this process that notify no directory.
static UNREPORTED: AtomicU64 = AtomicU64::new(0);

/// Number of such changes since the start of the process.
pub fn unreported_changes() -> u64 {
    UNREPORTED.load(Ordering::Acquire)
}

/// A change that notifies no directory, in progress. It is counted on drop.
#[derive(Debug)]
pub struct UnreportedChange(());

impl UnreportedChange {
    /// Starts such a change. The caller drops the value when the change is complete.
    pub fn begin() -> Self {
        Self(())
    }
}

impl Drop for UnreportedChange {
    fn drop(&mut self) {
        UNREPORTED.fetch_add(1, Ordering::Release);
    }
}
