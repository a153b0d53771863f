//! Changes of a share's provisioned size: up at any time, down a day after the last raise.

use std::time::Duration;

/// Minimum time between a raise and a reduction.
pub const LOWERED_AFTER: Duration = Duration::from_hours(24);

/// A size and the time of its last raise. It is persisted across restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// In GiB.
    pub gib: u64,
    /// Time of the last raise, in seconds since 1970.
    pub raised: u64,
}

/// A reduction within a day after a raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSoon {
    /// The present size in GiB.
    pub gib: u64,
    /// Earliest time of the reduction, in seconds since 1970.
    pub from: u64,
}

impl Size {
    /// The size of a new share, which was never raised.
    #[must_use]
    pub fn new(gib: u64) -> Self {
        Self { gib, raised: 0 }
    }

    /// The size after a change.
    ///
    /// # Errors
    /// [`TooSoon`] for a reduction within a day after a raise.
    pub fn change(self, gib: u64, now: u64) -> Result<Self, TooSoon> {
        let from = self.raised.saturating_add(LOWERED_AFTER.as_secs());
        match gib.cmp(&self.gib) {
            std::cmp::Ordering::Greater => Ok(Self { gib, raised: now }),
            std::cmp::Ordering::Less if now < from => Err(TooSoon { gib: self.gib, from }),
            _ => Ok(Self { gib, ..self }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_lowered_no_sooner_than_a_day_after_a_raise() {
        let day = LOWERED_AFTER.as_secs();
        let size = Size::new(100).change(500, 1000).unwrap();
        assert_eq!(size, Size { gib: 500, raised: 1000 });
        let soon = size.change(200, 1000 + day - 1);
        assert_eq!(soon, Err(TooSoon { gib: 500, from: 1000 + day }));
        let lowered = size.change(200, 1000 + day).unwrap();
        assert_eq!(lowered.gib, 200);
        assert_eq!(lowered.change(150, 1000 + day).unwrap().gib, 150, "lowering is no raise");
        assert_eq!(size.change(500, 1001), Ok(size));
    }
}
