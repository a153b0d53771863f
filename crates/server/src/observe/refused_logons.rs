//! The last refused logons, for the dashboard: who, from where, why, how often.

use crate::limits::LOGGED_NAME_CHARS_MAX;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::IpAddr;
use sync::Mutex;

/// Number of retained combinations of account, address and reason.
const REFUSED_LOGONS_MAX: usize = 32;
/// Characters of a reason.
const REASON_CHARS_MAX: usize = 200;

/// Refusals of one account from one address for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RefusedLogon {
    /// As the client sent it.
    user: String,
    address: IpAddr,
    reason: String,
    count: u64,
    /// Time of the last in milliseconds since 1970.
    last_ms: u64,
}

/// The last refused logons, the newest at the end. Any thread may add to it.
#[derive(Debug, Default)]
pub struct RefusedLogons(Mutex<VecDeque<RefusedLogon>>);

impl RefusedLogons {
    /// Adds a refusal at `now_ms` (milliseconds since 1970). The oldest combination makes room.
    pub fn add(&self, user: &str, address: IpAddr, reason: &str, now_ms: u64) {
        let user: String = user.chars().take(LOGGED_NAME_CHARS_MAX).collect();
        let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
        let address = address.to_canonical();
        let mut kept = self.0.lock();
        let same =
            |one: &RefusedLogon| one.user == user && one.address == address && one.reason == reason;
        let before = kept.iter().position(same).and_then(|at| kept.remove(at));
        let count = before.map_or(0, |one| one.count).saturating_add(1);
        if kept.len() == REFUSED_LOGONS_MAX {
            kept.pop_front();
        }
        kept.push_back(RefusedLogon { user, address, reason, count, last_ms: now_ms });
    }

    /// The refusals for the admin API, the newest first.
    #[must_use]
    pub fn shown(&self) -> Vec<Value> {
        let kept = self.0.lock();
        let shown = kept.iter().rev().map(|one| {
            json!({
                "user": one.user,
                "address": one.address.to_string(),
                "reason": one.reason,
                "count": one.count,
                "last_ms": one.last_ms,
            })
        });
        shown.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_combination_and_bounded() {
        let refused = RefusedLogons::default();
        let address = |n: u8| IpAddr::from([10, 0, 0, n]);
        refused.add("alice", address(1), "wrong password", 1);
        refused.add("bob", address(1), "no such user", 2);
        refused.add("alice", "::ffff:10.0.0.1".parse().unwrap(), "wrong password", 3);
        let shown = refused.shown();
        assert_eq!(shown.len(), 2);
        assert_eq!(shown[0]["user"], "alice");
        assert_eq!((&shown[0]["count"], &shown[0]["last_ms"]), (&json!(2), &json!(3)));
        for n in 0..100 {
            refused.add(&"x".repeat(10_000), address(n), "wrong password", 4);
        }
        let shown = refused.shown();
        assert_eq!(shown.len(), REFUSED_LOGONS_MAX);
        assert_eq!(shown[0]["address"], "10.0.0.99");
        assert!(shown[0]["user"].as_str().unwrap().len() <= LOGGED_NAME_CHARS_MAX);
    }
}
