//! What requests have heard, in a process of its own: changes are counted for the whole of it.

use std::sync::{Mutex, PoisonError};
use vfs::ArrivalOrder;
use vfs::freshness::{Listener, changing};

/// Each of these tests counts changes.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn one_request_hears_once_and_again_after_what_this_process_changes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (one, other) = (Listener::default(), Listener::default());
    let request = ArrivalOrder::next();
    let listen = |listener: &Listener| listener.listen(|| {});
    assert!(!one.has_heard(request));
    listen(&one);
    assert!(one.has_heard(request) && !other.has_heard(request));
    drop(changing());
    assert!(!one.has_heard(request));
    listen(&one);
    std::thread::spawn(|| drop(changing())).join().unwrap();
    assert!(!one.has_heard(request), "whichever thread that is");
    one.listen(|| drop(changing()));
    assert!(!one.has_heard(request), "also meanwhile");
    listen(&one);
    listen(&other);
    assert!(one.has_heard(request) && other.has_heard(request), "each for itself");
    assert!(!one.has_heard(ArrivalOrder::next()), "another request, which came later");
}

#[test]
fn requests_that_had_come_by_then_need_not_ask_again() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let one = Listener::default();
    let (first, second) = (ArrivalOrder::next(), ArrivalOrder::next());
    one.listen(|| {});
    let later = ArrivalOrder::next();
    assert!(one.has_heard(first) && one.has_heard(second));
    assert!(!one.has_heard(later));
    one.listen(|| {});
    assert!(one.has_heard(later));
    let meanwhile = ArrivalOrder::next();
    one.listen(|| {});
    assert!(one.has_heard(meanwhile));
    let during = std::cell::Cell::new(None);
    one.listen(|| during.set(Some(ArrivalOrder::next())));
    assert!(during.get().is_some_and(|order| !one.has_heard(order)), "it came while that asked");
    drop(changing());
    assert!(!one.has_heard(first), "something was changed");
}
