//! Grace period after a restart: earlier clients reclaim their state, and no client gets new state.
//! RFC 8881 8.4.2.
//!
//! Pure: the caller provides the client records and the time.

use crate::state::client_record::ClientRecord;
use crate::state::principal::Principal;
use std::collections::HashSet;
use std::time::Instant;
use wire::nfs::NfsStatus;

/// Clients from before the restart without RECLAIM_COMPLETE so far.
#[derive(Debug)]
pub struct Grace {
    awaited: HashSet<ClientRecord>,
    until: Instant,
}

impl Grace {
    /// A grace period until `until`, for these clients.
    #[must_use]
    pub fn new(awaited: HashSet<ClientRecord>, until: Instant) -> Self {
        Self { awaited, until }
    }

    /// Whether the grace period is active: it ends early when no client is awaited.
    #[must_use]
    pub fn is_active(&self, now: Instant) -> bool {
        !self.awaited.is_empty() && now < self.until
    }

    /// End of the grace period at the latest; `now` if it is over.
    #[must_use]
    pub fn end(&self, now: Instant) -> Instant {
        if self.is_active(now) { self.until } else { now }
    }

    /// The record of a client that is still awaited.
    fn record(&self, owner: &[u8], principal: Principal) -> Option<ClientRecord> {
        let owner = owner.to_vec();
        let own = ClientRecord { owner: owner.clone(), principal: Some(principal) };
        // Records of older versions have no principal.
        let former = ClientRecord { owner, principal: None };
        [own, former].into_iter().find(|record| self.awaited.contains(record))
    }

    /// Whether the owner string belongs to an awaited client of another principal, which must not
    /// lose it. RFC 8881 18.35.4.
    #[must_use]
    pub fn awaits_another_principal(
        &self,
        owner: &[u8],
        principal: Principal,
        now: Instant,
    ) -> bool {
        self.is_active(now)
            && self.record(owner, principal).is_none()
            && self.awaited.iter().any(|record| record.owner == owner)
    }

    /// Whether a client may get state, by reclaim or anew.
    ///
    /// # Errors
    /// GRACE for new state during the grace period; NO_GRACE for a reclaim that is not, or no
    /// longer, possible.
    pub fn check(
        &self,
        (owner, principal): (&[u8], Principal),
        reclaims: bool,
        has_reclaimed: bool,
        now: Instant,
    ) -> Result<(), NfsStatus> {
        match (reclaims, self.is_active(now)) {
            (true, true) if !has_reclaimed && self.record(owner, principal).is_some() => Ok(()),
            (true, _) => Err(NfsStatus::NO_GRACE),
            (false, true) => Err(NfsStatus::GRACE),
            // A client without RECLAIM_COMPLETE must not get new state.
            (false, false) if !has_reclaimed => Err(NfsStatus::GRACE),
            (false, false) => Ok(()),
        }
    }

    /// Notes that a client has completed its reclaim, or is gone. Returns its record of an older
    /// version, which a new record replaces.
    pub fn complete(&mut self, owner: &[u8], principal: Principal) -> Option<ClientRecord> {
        let record = self.record(owner, principal)?;
        self.awaited.take(&record).filter(|record| record.principal.is_none())
    }

    /// Takes the records of clients that did not return in time.
    pub fn take_absent(&mut self, now: Instant) -> Vec<ClientRecord> {
        if now < self.until { Vec::new() } else { self.awaited.drain().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LEASE: Duration = Duration::from_secs(90);

    const ROOT: Principal = Principal { flavor: 1, uid: 0, gid: 0, has_reserved_port: true };
    const PROGRAM: Principal = Principal { has_reserved_port: false, ..ROOT };

    fn record(owner: &[u8], principal: Option<Principal>) -> ClientRecord {
        ClientRecord { owner: owner.to_vec(), principal }
    }

    fn grace(start: Instant) -> Grace {
        let awaited = [record(b"one", Some(ROOT)), record(b"two", None)];
        Grace::new(awaited.into_iter().collect(), start + LEASE)
    }

    #[test]
    fn awaited_owner_string_is_reserved_for_its_principal() {
        let now = Instant::now();
        let mut grace = grace(now);
        assert!(grace.awaits_another_principal(b"one", PROGRAM, now));
        assert_eq!(grace.check((b"one", PROGRAM), true, false, now), Err(NfsStatus::NO_GRACE));
        assert!(!grace.awaits_another_principal(b"one", ROOT, now));
        assert!(!grace.awaits_another_principal(b"two", PROGRAM, now), "nobody knows whose it was");
        assert!(!grace.awaits_another_principal(b"three", PROGRAM, now));
        assert_eq!(grace.complete(b"one", PROGRAM), None);
        assert!(grace.awaits_another_principal(b"one", PROGRAM, now), "not by another's word");
        assert!(!grace.awaits_another_principal(b"one", PROGRAM, now + LEASE));
        assert_eq!(grace.complete(b"one", ROOT), None, "its record stays on disk");
        assert_eq!(grace.complete(b"two", ROOT), Some(record(b"two", None)), "the former one goes");
    }

    #[test]
    fn grace_permits_only_reclaims_of_earlier_clients() {
        let now = Instant::now();
        let mut grace = grace(now);
        assert_eq!(grace.check((b"one", ROOT), true, false, now), Ok(()));
        assert_eq!(grace.check((b"three", ROOT), true, false, now), Err(NfsStatus::NO_GRACE));
        for owner in [b"one", b"two"] {
            assert_eq!(grace.check((owner, ROOT), false, true, now), Err(NfsStatus::GRACE));
        }
        grace.complete(b"one", ROOT);
        assert_eq!(grace.check((b"one", ROOT), true, true, now), Err(NfsStatus::NO_GRACE));
        assert_eq!(
            grace.check((b"one", ROOT), false, true, now),
            Err(NfsStatus::GRACE),
            "for the other"
        );
        grace.complete(b"two", ROOT);
        assert_eq!(grace.check((b"one", ROOT), false, true, now), Ok(()), "all are back");
    }

    #[test]
    fn grace_ends_at_its_deadline() {
        let start = Instant::now();
        let mut grace = grace(start);
        let late = start + LEASE;
        assert_eq!((grace.end(start), grace.end(late)), (late, late));
        assert!(grace.take_absent(late - Duration::from_millis(1)).is_empty());
        assert_eq!(grace.check((b"two", ROOT), false, true, late), Ok(()));
        assert_eq!(grace.check((b"one", ROOT), true, false, late), Err(NfsStatus::NO_GRACE));
        assert_eq!(grace.take_absent(late).len(), 2);
    }

    #[test]
    fn no_earlier_clients_means_no_grace() {
        let now = Instant::now();
        let grace = Grace::new(HashSet::new(), now + LEASE);
        assert!(!grace.is_active(now));
        assert_eq!(grace.end(now), now);
        assert_eq!(grace.check((b"one", ROOT), false, true, now), Ok(()));
        assert_eq!(grace.check((b"one", ROOT), false, false, now), Err(NfsStatus::GRACE));
    }
}
