//! How much of a share's size is used: what was measured last, and what has grown since.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is used of a size. What was removed counts until it is measured again.
#[derive(Debug, Default)]
pub struct Room {
    is_measured: AtomicBool,
    measured: AtomicU64,
    /// All that has grown since the start.
    grown: AtomicU64,
    /// How much of that was there when the last measuring began.
    grown_before: AtomicU64,
    /// Something was changed since then.
    is_changed: AtomicBool,
}

impl Room {
    /// Bytes used; none before they were measured.
    #[must_use]
    pub fn used_bytes(&self) -> Option<u64> {
        self.is_measured.load(Ordering::Acquire).then(|| {
            let before = self.grown_before.load(Ordering::Relaxed);
            let grown = self.grown.load(Ordering::Relaxed).saturating_sub(before);
            self.measured.load(Ordering::Relaxed).saturating_add(grown)
        })
    }

    /// Takes so many bytes of `size_bytes`, if they are left. Two that ask at the same moment
    /// may both get the last of them. Before anything was measured all get what they ask for.
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

    /// Something was changed by which it may be used less.
    pub fn note_change(&self) {
        self.is_changed.store(true, Ordering::Relaxed);
    }

    /// Whether something was changed since it was measured last.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.is_changed.load(Ordering::Relaxed)
    }

    /// Measuring begins: what is to be said at its end.
    #[must_use]
    pub fn begin_measure(&self) -> u64 {
        self.is_changed.store(false, Ordering::Relaxed);
        self.grown.load(Ordering::Relaxed)
    }

    /// So many bytes are used. What has grown meanwhile counts beside, also where it was
    /// among them already.
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
        let room = Room::default();
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
