//! Freshness of feeds, in a process of its own because changes are counted per process.

use std::sync::{Mutex, PoisonError};
use vfs::ArrivalOrder;
use vfs::freshness::{FeedFreshness, begin_change};

/// Serialises these tests, because each counts changes.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn request_drains_once_and_again_after_own_changes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (one, other) = (FeedFreshness::default(), FeedFreshness::default());
    let request = ArrivalOrder::next();
    let refresh = |listener: &FeedFreshness| listener.refresh(|| {});
    assert!(!one.is_fresh_for(request));
    refresh(&one);
    assert!(one.is_fresh_for(request) && !other.is_fresh_for(request));
    drop(begin_change());
    assert!(!one.is_fresh_for(request));
    refresh(&one);
    std::thread::spawn(|| drop(begin_change())).join().unwrap();
    assert!(!one.is_fresh_for(request), "whichever thread that is");
    one.refresh(|| drop(begin_change()));
    assert!(!one.is_fresh_for(request), "also meanwhile");
    refresh(&one);
    refresh(&other);
    assert!(one.is_fresh_for(request) && other.is_fresh_for(request), "each for itself");
    assert!(!one.is_fresh_for(ArrivalOrder::next()), "another request, which came later");
}

#[test]
fn earlier_requests_need_no_further_drain() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let one = FeedFreshness::default();
    let (first, second) = (ArrivalOrder::next(), ArrivalOrder::next());
    one.refresh(|| {});
    let later = ArrivalOrder::next();
    assert!(one.is_fresh_for(first) && one.is_fresh_for(second));
    assert!(!one.is_fresh_for(later));
    one.refresh(|| {});
    assert!(one.is_fresh_for(later));
    let meanwhile = ArrivalOrder::next();
    one.refresh(|| {});
    assert!(one.is_fresh_for(meanwhile));
    let during = std::cell::Cell::new(None);
    one.refresh(|| during.set(Some(ArrivalOrder::next())));
    assert!(during.get().is_some_and(|order| !one.is_fresh_for(order)), "it came while that asked");
    drop(begin_change());
    assert!(!one.is_fresh_for(first), "something was changed");
}
