//! Looks that found a stream's host gone, as an attribute of the stream's file remembers them.
//!
//! One look proves little: the kernel says the same of a file that is gone and of one that a broken
//! disk does not give, and the clock may be wrong. So looks on several days count, and searches for
//! files that refer to the stream: a file that is moved while a search runs may be missed by it.

use rustix::fd::AsFd;
use rustix::fs::XattrFlags;
use rustix::io::Errno;

/// The attribute with the mark.
pub(super) const ORPHAN_SINCE: &str = "user.anabranch.orphan-since";
/// How long the host of a stream's file is known to be gone before that is removed, unless this
/// process has removed the host.
const ORPHAN_SECONDS: u64 = 24 * 60 * 60;
/// Between two looks that count.
const LOOK_SECONDS: u64 = 20 * 60 * 60;
/// Looks that must have found the host gone.
pub(super) const LOOKS_MIN: u32 = 3;
/// Searches that must have found no reference.
pub(super) const SEARCHES_MIN: u32 = 2;
/// After a search has found a reference that the stream cannot follow: users may plant those, and
/// a search reads the whole file system.
const REFERRED_SECONDS: u64 = 30 * 24 * 60 * 60;

/// Bytes of the kernel's name of a start of the system.
const BOOT_BYTES: usize = 36;
/// Bytes of a mark.
const BYTES: usize = 4 * 8 + 2 * 4 + BOOT_BYTES;

/// The time by each clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockReading {
    /// Seconds since 1970.
    pub wall: u64,
    /// Seconds since this start of the system.
    pub awake: u64,
    pub boot: [u8; BOOT_BYTES],
}

impl ClockReading {
    /// Reads them.
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

/// The looks at a stream's file of which the host was gone. Times are of the wall clock, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrphanMark {
    /// The first look.
    pub since: u64,
    /// The last look that counts.
    pub last: ClockReading,
    pub looks: u32,
    /// Complete searches that have found no reference.
    pub searches: u32,
    /// When a reference was found last that the stream cannot follow; 0 if never.
    pub referred: u64,
}

impl OrphanMark {
    /// The mark of a first look.
    pub(super) fn new(now: ClockReading) -> Self {
        Self { since: now.wall, last: now, looks: 1, searches: 0, referred: 0 }
    }

    /// The mark after a further look; none if that comes too early to count.
    pub(super) fn looked(self, now: ClockReading) -> Option<Self> {
        if now.wall < self.last.wall {
            // The clock was wrong, or is.
            return Some(Self::new(now));
        }
        // The wall clock may have been set since: this start's own clock is not.
        let is_later =
            now.boot != self.last.boot || now.awake.saturating_sub(self.last.awake) >= LOOK_SECONDS;
        let counts = is_later && now.wall - self.last.wall >= LOOK_SECONDS;
        counts.then(|| Self { last: now, looks: self.looks.saturating_add(1), ..self })
    }

    /// Whether references are to be searched for.
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

    /// The mark of a file; none if it has none, or that of an older version.
    pub(super) fn of(file: impl AsFd) -> rustix::io::Result<Option<Self>> {
        let mut bytes = [0; BYTES];
        match rustix::fs::fgetxattr(file, ORPHAN_SINCE, &mut bytes) {
            Ok(BYTES) => Ok(Some(Self::decode(&bytes))),
            Ok(_) | Err(Errno::NODATA | Errno::RANGE) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Marks a file, or with `REPLACE` one that is marked still.
    pub(super) fn put(&self, file: impl AsFd, flags: XattrFlags) -> rustix::io::Result<()> {
        rustix::fs::fsetxattr(file, ORPHAN_SINCE, &self.encode(), flags)
    }
}

/// Takes the mark from a file of which the host was found again.
pub(super) fn clear(file: impl AsFd) {
    match rustix::fs::fremovexattr(file, ORPHAN_SINCE) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::ROFS) => {}
        Err(error) => {
            tracing::warn!(%error, "a long stream stays marked, though its file is there");
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
    fn orphan_is_searched_for_after_looks_on_three_days() {
        let first = OrphanMark::new(at(DAY, 10, 1));
        assert_eq!(first.looked(at(DAY + 60, 70, 1)), None, "a reload");
        let second = first.looked(at(2 * DAY, DAY, 1)).unwrap();
        assert!(!second.is_search_due());
        let third = second.looked(at(3 * DAY, 5, 2)).unwrap();
        assert!(third.is_search_due());
        assert_eq!(OrphanMark::decode(&third.encode().try_into().unwrap()), third);
    }

    #[test]
    fn clock_that_was_set_makes_no_look_older() {
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
