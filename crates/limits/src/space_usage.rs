//! Used bytes of a share's provisioned size: the last measurement, plus later growth.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Usage accounting. Removed data counts until the next measurement.
#[derive(Debug, Default)]
pub struct SpaceUsage {
    is_measured: AtomicBool,
    measured: AtomicU64,
    /// Total growth since the start.
    grown: AtomicU64,
    /// Total growth at the start of the last measurement.
    grown_before: AtomicU64,
    /// The share changed since then.
    is_changed: AtomicBool,
}

impl SpaceUsage {
    /// Bytes used; none before the first measurement.
    #[must_use]
    pub fn used_bytes(&self) -> Option<u64> {
        self.is_measured.load(Ordering::Acquire).then(|| {
            let before = self.grown_before.load(Ordering::Relaxed);
            let grown = self.grown.load(Ordering::Relaxed).saturating_sub(before);
            self.measured.load(Ordering::Relaxed).saturating_add(grown)
        })
    }

    /// Claims bytes of `size_bytes`, if available. Two concurrent claims may both get the last
    /// bytes. Before the first measurement every claim succeeds.
    #[must_use]
    pub fn claim(&self, bytes: u64, size_bytes: u64) -> bool {
        if let Some(used) = self.used_bytes()
            && used.saturating_add(bytes) > size_bytes
        {
            return false;
        }
        self.grown.fetch_add(bytes, Ordering::Relaxed);
        self.is_changed.store(true, Ordering::Relaxed);
        true
    }

    /// Records a change that may have freed space.
    pub fn mark_changed(&self) {
        self.is_changed.store(true, Ordering::Relaxed);
    }

    /// True if the share changed since the last measurement.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.is_changed.load(Ordering::Relaxed)
    }

    /// Begins a measurement; the result is passed to [`SpaceUsage::end_measure`].
    #[must_use]
    pub fn begin_measure(&self) -> u64 {
        self.is_changed.store(false, Ordering::Relaxed);
        self.grown.load(Ordering::Relaxed)
    }

    /// Ends a measurement. Growth during the measurement counts in addition, even if it was
    /// measured.
    pub fn end_measure(&self, begun: u64, bytes: u64) {
        self.grown_before.store(begun, Ordering::Relaxed);
        self.measured.store(bytes, Ordering::Relaxed);
        self.is_measured.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_counts_at_once_and_shrinkage_when_measured() {
        let room = SpaceUsage::default();
        assert_eq!(room.used_bytes(), None);
        assert!(room.claim(50, 10), "nothing is known yet");
        let begun = room.begin_measure();
        assert!(!room.is_changed() && room.claim(5, 100), "while it is measured");
        room.end_measure(begun, 80);
        assert_eq!(room.used_bytes(), Some(85));
        assert!(room.is_changed());
        assert!(room.claim(0, 85), "what does not grow is not refused");
        assert!(room.claim(15, 100) && !room.claim(1, 100));
        let begun = room.begin_measure();
        room.end_measure(begun, 30);
        assert_eq!(room.used_bytes(), Some(30));
        assert!(room.claim(1, 100));
    }
}
