//! Many holders of one file at once. `sim/tests/storm.rs`, which has a clock, measures the time.

use super::*;

const HOLDERS: u64 = 1000;

fn lease(number: u64) -> CacheOwner {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    CacheOwner::Key(CacheKey { client: key, key })
}

fn crowd() -> Caches {
    let mut caches = Caches::default();
    for number in 0..HOLDERS {
        let request = GrantRequest {
            owner: lease(number),
            wanted: CachingRights(3),
            epoch: 0,
            is_non_stat: true,
            others_are_non_stat: true,
            has_locks: false,
            is_delegation: false,
            others_conflict: false,
        };
        assert_eq!(caches.grant(&request).has, CachingRights(3));
    }
    caches
}

#[test]
fn thousand_holders_break_once_each() {
    let mut caches = crowd();
    let conflict = BreakRequest {
        demand: BreakReason::Conflict,
        by: STRANGER,
        spares_leases: false,
        conflicts_with_read: false,
    };
    assert!(caches.begin_breaks(&conflict));
    let asked = breaks(&mut caches);
    assert_eq!(asked.len() as u64, HOLDERS);
    for (owner, to, _) in asked {
        assert!(caches.holds_up(&conflict));
        // Further opens in between change nothing.
        assert!(caches.begin_breaks(&conflict));
        assert_eq!(caches.handle_acknowledge(owner, to), Ok(()));
        assert_eq!(breaks(&mut caches), []);
    }
    assert!(!caches.holds_up(&conflict));
    // Each write breaks read caching of all others.
    for number in 0..HOLDERS {
        caches.handle_change(lease(number));
    }
    assert_eq!(breaks(&mut caches).len() as u64, HOLDERS);
    for number in 0..HOLDERS {
        caches.handle_close(lease(number), true);
    }
    assert!(caches.is_empty());
}
