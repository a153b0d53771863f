//! Windows timestamps. MS-DTYP 2.3.3.

/// 100-nanosecond intervals since 1601-01-01 00:00 UTC. In set requests, 0 leaves the time
/// unchanged. All ones (-1) also suspends automatic updates through this handle, and -2 resumes
/// them (MS-FSCC 2.4.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTime(pub u64);

/// Seconds between 1601 and 1970, in 100-nanosecond intervals.
const UNIX_EPOCH: i128 = 116_444_736_000_000_000;

impl FileTime {
    /// Converts nanoseconds since 1970, clamped to the representable range.
    #[must_use]
    pub fn from_unix_nanos(nanos: i128) -> Self {
        // Present-day times fit into 64 bits, where a division is much faster.
        let hundreds = i64::try_from(nanos)
            .map_or_else(|_| nanos.div_euclid(100), |nanos| nanos.div_euclid(100).into());
        let intervals = hundreds + UNIX_EPOCH;
        Self(u64::try_from(intervals.clamp(0, i128::from(i64::MAX))).unwrap_or(0))
    }

    /// Converts to nanoseconds since 1970.
    #[must_use]
    pub fn to_unix_nanos(self) -> i128 {
        (i128::from(self.0) - UNIX_EPOCH) * 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_time_round_trips_through_unix_nanoseconds() {
        assert_eq!(FileTime::from_unix_nanos(0).0, 116_444_736_000_000_000);
        assert_eq!(FileTime(0).to_unix_nanos(), -11_644_473_600_000_000_000);
        let time = FileTime(133_000_000_000_000_001);
        assert_eq!(FileTime::from_unix_nanos(time.to_unix_nanos()), time);
        assert_eq!(FileTime::from_unix_nanos(-1).0, 116_444_735_999_999_999);
    }
}
