//! An open of the quota file. MS-FSA 2.1.5.21.

use files::Volume;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// An open of a volume's quotas.
#[derive(Debug)]
pub struct OpenQuotas {
    /// The volume.
    pub volume: Arc<Volume>,
    /// The next user of an enumeration.
    pub next: AtomicU64,
}

impl OpenQuotas {
    /// Quotas at the start of an enumeration.
    #[must_use]
    pub fn new(volume: Arc<Volume>) -> Self {
        Self { volume, next: AtomicU64::new(0) }
    }
}
