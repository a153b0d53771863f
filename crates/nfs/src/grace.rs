//! The time after a restart in which clients of before take back what they had, and
//! nobody else takes anything. RFC 8881 8.4.2.
//!
//! Pure: which clients there were is handed in, and time is.

use std::collections::HashSet;
use std::time::Instant;
use wire::nfs::NfsStatus;

/// Clients from before the restart that have not said yet that they have everything back.
#[derive(Debug)]
pub struct Grace {
    awaited: HashSet<Vec<u8>>,
    until: Instant,
}

impl Grace {
    /// Until `until`, for these.
    #[must_use]
    pub fn new(awaited: HashSet<Vec<u8>>, until: Instant) -> Self {
        Self { awaited, until }
    }

    /// Whether somebody is still waited for.
    #[must_use]
    pub fn is_on(&self, now: Instant) -> bool {
        !self.awaited.is_empty() && now < self.until
    }

    /// When it is over at the latest: now, if it is.
    #[must_use]
    pub fn end(&self, now: Instant) -> Instant {
        if self.is_on(now) { self.until } else { now }
    }

    /// Whether `owner` may take something, back or for the first time.
    ///
    /// # Errors
    /// GRACE for what is new while others may come back; NO_GRACE for what cannot be
    /// taken back, or no longer.
    pub fn check(
        &self,
        owner: &[u8],
        reclaims: bool,
        has_reclaimed: bool,
        now: Instant,
    ) -> Result<(), NfsStatus> {
        match (reclaims, self.is_on(now)) {
            (true, true) if self.awaited.contains(owner) && !has_reclaimed => Ok(()),
            (true, _) => Err(NfsStatus::NO_GRACE),
            (false, true) => Err(NfsStatus::GRACE),
            // Who has not said that it reclaims nothing more cannot begin anew.
            (false, false) if !has_reclaimed => Err(NfsStatus::GRACE),
            (false, false) => Ok(()),
        }
    }

    /// A client has everything back, or will not come.
    pub fn complete(&mut self, owner: &[u8]) {
        self.awaited.remove(owner);
    }

    /// Those who have not come in time: they are not waited for any more.
    pub fn take_absent(&mut self, now: Instant) -> Vec<Vec<u8>> {
        if now < self.until { Vec::new() } else { self.awaited.drain().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LEASE: Duration = Duration::from_secs(90);

    fn grace(start: Instant) -> Grace {
        let awaited = [&b"one"[..], b"two"].map(<[u8]>::to_vec).into_iter().collect();
        Grace::new(awaited, start + LEASE)
    }

    #[test]
    fn only_who_was_there_takes_something_back_and_nobody_takes_anything_new() {
        let now = Instant::now();
        let mut grace = grace(now);
        assert_eq!(grace.check(b"one", true, false, now), Ok(()));
        assert_eq!(grace.check(b"three", true, false, now), Err(NfsStatus::NO_GRACE));
        for owner in [b"one", b"two"] {
            assert_eq!(grace.check(owner, false, true, now), Err(NfsStatus::GRACE));
        }
        grace.complete(b"one");
        assert_eq!(grace.check(b"one", true, true, now), Err(NfsStatus::NO_GRACE));
        assert_eq!(grace.check(b"one", false, true, now), Err(NfsStatus::GRACE), "for the other");
        grace.complete(b"two");
        assert_eq!(grace.check(b"one", false, true, now), Ok(()), "all are back");
    }

    #[test]
    fn who_does_not_come_is_waited_for_no_longer_than_that() {
        let start = Instant::now();
        let mut grace = grace(start);
        let late = start + LEASE;
        assert_eq!((grace.end(start), grace.end(late)), (late, late));
        assert!(grace.take_absent(late - Duration::from_millis(1)).is_empty());
        assert_eq!(grace.check(b"two", false, true, late), Ok(()));
        assert_eq!(grace.check(b"one", true, false, late), Err(NfsStatus::NO_GRACE));
        assert_eq!(grace.take_absent(late).len(), 2);
    }

    #[test]
    fn without_clients_of_before_there_is_none() {
        let now = Instant::now();
        let grace = Grace::new(HashSet::new(), now + LEASE);
        assert!(!grace.is_on(now));
        assert_eq!(grace.end(now), now);
        assert_eq!(grace.check(b"one", false, true, now), Ok(()));
        assert_eq!(grace.check(b"one", false, false, now), Err(NfsStatus::GRACE));
    }
}
