//! Extended attribute of an orphaned store file that records the scans that found its host missing.
//!
//! A single scan proves little: the kernel gives the same answer for a deleted file and for one
//! that a failing disk does not return, and the clock may be wrong. So scans on several days count,
//! and searches for files that refer to the stream. A search may miss a file that is moved
//! meanwhile.

use rustix::fd::AsFd;
use rustix::fs::XattrFlags;
use rustix::io::Errno;

/// Name of the attribute.
pub(super) const ORPHAN_SINCE: &str = "user.anabranch.orphan-since";
/// Minimum age of an orphan before its removal, unless this process removed the host.
const ORPHAN_SECONDS: u64 = 24 * 60 * 60;
/// Minimum interval between scans that count.
const LOOK_SECONDS: u64 = 20 * 60 * 60;
/// Number of scans that must have found no host.
pub(super) const LOOKS_MIN: u32 = 3;
/// Number of searches that must have found no reference.
pub(super) const SEARCHES_MIN: u32 = 2;
/// Interval after a search that found a reference which the stream cannot follow. Users may plant
/// such references, and a search reads the complete file system.
const REFERRED_SECONDS: u64 = 30 * 24 * 60 * 60;

/// Length of the kernel's boot id.
const BOOT_BYTES: usize = 36;
/// Length of an encoded mark.
const BYTES: usize = 4 * 8 + 2 * 4 + BOOT_BYTES;

/// Readings of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockReading {
    /// Seconds since 1970.
    pub wall: u64,
    /// Seconds since this boot.
    pub awake: u64,
    pub boot: [u8; BOOT_BYTES],
}

impl ClockReading {
    /// Reads both clocks.
    pub(super) fn now() -> Self {
        let awake = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let mut boot = [0; BOOT_BYTES];
        if let Ok(text) = std::fs::read("/proc/sys/kernel/random/boot_id")
            && let Some(text) = text.get(..BOOT_BYTES)
        {
            boot.copy_from_slice(text);
        }
        Self {
            wall: u64::try_from(crate::xattr_notes::now() / 1_000_000_000).unwrap_or(0),
            awake: u64::try_from(awake.tv_sec).unwrap_or(0),
            boot,
        }
    }
}

/// Scans of a store file without a host. Times are wall clock seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrphanMark {
    /// Time of the first scan.
    pub since: u64,
    /// The last scan that counts.
    pub last: ClockReading,
    pub looks: u32,
    /// Number of complete searches without a reference.
    pub searches: u32,
    /// Time of the last search that found an unusable reference; 0 if none did.
    pub referred: u64,
}

impl OrphanMark {
    /// The mark of a first scan.
    pub(super) fn new(now: ClockReading) -> Self {
        Self { since: now.wall, last: now, looks: 1, searches: 0, referred: 0 }
    }

    /// The mark after a further scan; `None` if it comes too early to count.
    pub(super) fn looked(self, now: ClockReading) -> Option<Self> {
        if now.wall < self.last.wall {
            // The clock was or is wrong.
            return Some(Self::new(now));
        }
        // The wall clock may have been set meanwhile; the boot clock cannot be.
        let is_later =
            now.boot != self.last.boot || now.awake.saturating_sub(self.last.awake) >= LOOK_SECONDS;
        let counts = is_later && now.wall - self.last.wall >= LOOK_SECONDS;
        counts.then(|| Self { last: now, looks: self.looks.saturating_add(1), ..self })
    }

    /// True if a search for references is due.
    pub(super) fn is_search_due(&self) -> bool {
        let now = self.last.wall;
        let is_referred =
            self.referred != 0 && self.referred <= now && now - self.referred < REFERRED_SECONDS;
        self.looks >= LOOKS_MIN && now - self.since.min(now) >= ORPHAN_SECONDS && !is_referred
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BYTES);
        for time in [self.since, self.last.wall, self.last.awake, self.referred] {
            bytes.extend(time.to_le_bytes());
        }
        bytes.extend(self.looks.to_le_bytes());
        bytes.extend(self.searches.to_le_bytes());
        bytes.extend(self.last.boot);
        bytes
    }

    fn decode(bytes: &[u8; BYTES]) -> Self {
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * at + byte]));
        let short =
            |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[32 + 4 * at + byte]));
        let boot = std::array::from_fn(|byte| bytes[40 + byte]);
        let last = ClockReading { wall: long(1), awake: long(2), boot };
        let (looks, searches) = (short(0), short(1));
        Self { since: long(0), last, looks, searches, referred: long(3) }
    }

    /// The mark of a file; `None` if it has none, or one of an older version.
    pub(super) fn of(file: impl AsFd) -> rustix::io::Result<Option<Self>> {
        let mut bytes = [0; BYTES];
        match rustix::fs::fgetxattr(file, ORPHAN_SINCE, &mut bytes) {
            Ok(BYTES) => Ok(Some(Self::decode(&bytes))),
            Ok(_) | Err(Errno::NODATA | Errno::RANGE) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Stores a mark; with `REPLACE` only if the file still has one.
    pub(super) fn put(&self, file: impl AsFd, flags: XattrFlags) -> rustix::io::Result<()> {
        rustix::fs::fsetxattr(file, ORPHAN_SINCE, &self.encode(), flags)
    }
}

/// Removes the mark of a file whose host was found.
pub(super) fn clear(file: impl AsFd) {
    match rustix::fs::fremovexattr(file, ORPHAN_SINCE) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::ROFS) => {}
        Err(error) => {
            tracing::warn!(%error, "cannot remove the orphan mark of a long stream whose file was found; the next scan retries");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 60 * 60;

    fn at(wall: u64, awake: u64, boot: u8) -> ClockReading {
        ClockReading { wall, awake, boot: [boot; BOOT_BYTES] }
    }

    #[test]
    fn orphan_search_is_due_after_scans_on_three_days() {
        let first = OrphanMark::new(at(DAY, 10, 1));
        assert_eq!(first.looked(at(DAY + 60, 70, 1)), None, "a reload");
        let second = first.looked(at(2 * DAY, DAY, 1)).unwrap();
        assert!(!second.is_search_due());
        let third = second.looked(at(3 * DAY, 5, 2)).unwrap();
        assert!(third.is_search_due());
        assert_eq!(OrphanMark::decode(&third.encode().try_into().unwrap()), third);
    }

    #[test]
    fn set_clock_does_not_age_a_mark() {
        let first = OrphanMark::new(at(0, 10, 1));
        assert_eq!(first.looked(at(20_000 * DAY, 70, 1)), None, "it was set a minute later");
        let second = first.looked(at(20_000 * DAY, 10 + DAY, 1)).unwrap();
        assert!(!second.is_search_due());
        let back = second.looked(at(5 * DAY, 20 + DAY, 1)).unwrap();
        assert_eq!((back.looks, back.since), (1, 5 * DAY), "it begins again");
    }

    #[test]
    fn orphan_with_a_foreign_reference_is_searched_for_rarely() {
        let mark = OrphanMark { looks: LOOKS_MIN, ..OrphanMark::new(at(0, 10, 1)) };
        let mark = OrphanMark { referred: 3 * DAY, ..mark };
        let mut now = mark.looked(at(4 * DAY, 4 * DAY, 1)).unwrap();
        assert!(!now.is_search_due());
        now = now.looked(at(34 * DAY, 34 * DAY, 1)).unwrap();
        assert!(now.is_search_due());
    }
}
