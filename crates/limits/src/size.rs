//! Changes of a share's provisioned size: up at any time, down a day after the last raise.

use std::time::Duration;

/// Minimum time between a raise and a reduction.
pub const SIZE_REDUCTION_DELAY: Duration = Duration::from_hours(24);

/// A size and the time of its last raise. It is persisted across restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProvisionedSize {
    /// In GiB.
    pub gib: u64,
    /// Time of the last raise, in seconds since 1970.
    pub raised: u64,
}

/// A reduction within a day after a raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReductionTooSoon {
    /// The present size in GiB.
    pub gib: u64,
    /// Earliest time of the reduction, in seconds since 1970.
    pub from: u64,
}

impl ProvisionedSize {
    /// The size of a new share, which was never raised.
    #[must_use]
    pub fn new(gib: u64) -> Self {
        Self { gib, raised: 0 }
    }

    /// The size after a change.
    ///
    /// # Errors
    /// [`ReductionTooSoon`] for a reduction within a day after a raise.
    pub fn change(self, gib: u64, now: u64) -> Result<Self, ReductionTooSoon> {
        let from = self.raised.saturating_add(SIZE_REDUCTION_DELAY.as_secs());
        match gib.cmp(&self.gib) {
            std::cmp::Ordering::Greater => Ok(Self { gib, raised: now }),
            std::cmp::Ordering::Less if now < from => Err(ReductionTooSoon { gib: self.gib, from }),
            _ => Ok(Self { gib, ..self }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_lowered_no_sooner_than_a_day_after_a_raise() {
        let day = SIZE_REDUCTION_DELAY.as_secs();
        let size = ProvisionedSize::new(100).change(500, 1000).unwrap();
        assert_eq!(size, ProvisionedSize { gib: 500, raised: 1000 });
        let soon = size.change(200, 1000 + day - 1);
        assert_eq!(soon, Err(ReductionTooSoon { gib: 500, from: 1000 + day }));
        let lowered = size.change(200, 1000 + day).unwrap();
        assert_eq!(lowered.gib, 200);
        assert_eq!(lowered.change(150, 1000 + day).unwrap().gib, 150, "lowering is no raise");
        assert_eq!(size.change(500, 1001), Ok(size));
    }
}
