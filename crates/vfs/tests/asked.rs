//! What requests have heard, in a process of its own: changes are counted for the whole of it.

use std::sync::{Mutex, PoisonError};
use vfs::asked::{Listener, Together, changing, listen_again, work};

/// Each of these tests counts changes.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn one_request_hears_once_and_again_after_what_this_process_changes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (one, other) = (Listener::new(), Listener::new());
    let listen = |listener: Listener| listener.listen(|| {});
    listen(one);
    assert!(!one.has_heard(), "without a request everything is asked anew");
    work(true, || {
        assert!(!one.has_heard());
        listen(one);
        assert!(one.has_heard() && !other.has_heard());
        drop(changing());
        assert!(!one.has_heard());
        listen(one);
        std::thread::spawn(|| drop(changing())).join().unwrap();
        assert!(!one.has_heard(), "whichever thread that is");
        one.listen(|| drop(changing()));
        assert!(!one.has_heard(), "also meanwhile");
        listen(one);
        listen_again();
        assert!(!one.has_heard());
        listen(one);
        work(true, || assert!(!one.has_heard(), "another request"));
        work(false, || {
            listen(one);
            assert!(!one.has_heard(), "work of nobody");
        });
        assert!(one.has_heard());
        listen(other);
        assert!(other.has_heard() && !one.has_heard());
    });
    assert!(!other.has_heard());
    work(true, || assert!(!other.has_heard(), "the same one, later"));
}

#[test]
fn requests_that_came_together_hear_once() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (one, mut together) = (Listener::new(), Together::default());
    let listen = || one.listen(|| {});
    together.begin(|| {
        work(true, || {
            assert!(!one.has_heard());
            listen();
        });
    });
    work(true, || assert!(!one.has_heard(), "one that came later"));
    together.begin(|| work(false, || assert!(!one.has_heard(), "work of nobody")));
    together.begin(|| work(true, || assert!(one.has_heard())));
    drop(changing());
    together.begin(|| {
        work(true, || {
            assert!(!one.has_heard(), "one of them has changed something");
            listen();
        });
    });
    let failed = std::panic::catch_unwind(|| {
        Together::default().begin(|| work(true, || panic!("in the middle")))
    });
    assert!(failed.is_err());
    work(true, || assert!(!one.has_heard()));
    together.begin(|| work(true, || assert!(one.has_heard())));
    Together::default().begin(|| work(true, || assert!(!one.has_heard(), "the next of them")));
}
