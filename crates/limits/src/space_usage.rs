//! Used bytes of a share's provisioned size: the last measurement, plus later growth.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Usage accounting. Removed data counts until the next measurement.
#[derive(Debug, Default)]
pub struct SpaceUsage {
    /// Number of the tree that the share shows; [`SpaceUsage::restart`] raises it.
    generation: AtomicU64,
    /// Generation of the last measurement plus one; zero before the first. Comparing it with the
    /// generation makes a measurement of another tree invalid at once.
    measured_generation: AtomicU64,
    measured: AtomicU64,
    /// Total growth since the start.
    grown: AtomicU64,
    /// Total growth at the start of the last measurement.
    grown_before: AtomicU64,
    /// The share changed since then.
    is_changed: AtomicBool,
}

/// The state of a share's usage when a measurement begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasurementStart {
    generation: u64,
    grown: u64,
}

impl MeasurementStart {
    /// The generation that is measured; see [`SpaceUsage::generation`].
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl SpaceUsage {
    /// Bytes used; none before the first measurement of the present tree.
    #[must_use]
    pub fn used_bytes(&self) -> Option<u64> {
        let measured = self.measured_generation.load(Ordering::Acquire);
        (measured == self.generation() + 1).then(|| {
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

    /// Number of the tree that the share shows.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Records that the share shows another tree from now on. The usage is unknown until that one is
    /// measured, and measurements in flight are invalid.
    pub fn restart(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.is_changed.store(true, Ordering::Relaxed);
    }

    /// Begins a measurement; the result is passed to [`SpaceUsage::end_measure`]. A caller that
    /// measures a tree excludes [`SpaceUsage::restart`] while it chooses the tree and calls this.
    #[must_use]
    pub fn begin_measure(&self) -> MeasurementStart {
        self.is_changed.store(false, Ordering::Relaxed);
        let grown = self.grown.load(Ordering::Relaxed);
        MeasurementStart { generation: self.generation(), grown }
    }

    /// Ends a measurement; a share has one at a time. Growth during the measurement counts in
    /// addition, even if it was measured. The result of an older generation is discarded.
    pub fn end_measure(&self, begun: MeasurementStart, bytes: u64) {
        if begun.generation != self.generation() {
            return;
        }
        self.grown_before.store(begun.grown, Ordering::Relaxed);
        self.measured.store(bytes, Ordering::Relaxed);
        self.measured_generation.store(begun.generation + 1, Ordering::Release);
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

    #[test]
    fn another_tree_has_no_usage_until_it_is_measured() {
        let room = SpaceUsage::default();
        room.end_measure(room.begin_measure(), 80);
        let begun = room.begin_measure();
        room.restart();
        assert!(room.is_changed() && room.used_bytes().is_none());
        room.end_measure(begun, 90);
        assert_eq!(room.used_bytes(), None, "the result is of the tree before");
        let begun = room.begin_measure();
        assert!(begun.generation() == room.generation() && room.claim(5, 10));
        room.end_measure(begun, 20);
        assert_eq!(room.used_bytes(), Some(25));
    }
}
