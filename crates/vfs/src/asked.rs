//! What the request that a thread works on has heard of already.
//!
//! A request has to know of what was changed before it came, not of what is changed while it is
//! worked on. So who keeps what a [`crate::ChangeFeed`] tells need not ask that anew for each
//! question of one request: it has asked once, after the request had come, and then only after
//! something was changed by this process, for this request or another: what opens, renames and
//! removals know of each other rests on seeing what those before them have done. Known to the
//! thread, and forgotten when it turns to something else: what is done by no request, and each
//! part of one that is worked on after a wait or by another thread, asks for itself.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Who keeps what a feed tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener(u64);

#[derive(Clone, Copy)]
enum Heard {
    /// No request is worked on.
    NoRequest,
    Nothing,
    /// When so many changes had been made.
    By(Listener, u64),
}

/// Changes that this process has made of what feeds tell.
static CHANGES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static HEARD: Cell<Heard> = const { Cell::new(Heard::NoRequest) };
}

impl Listener {
    /// One that is no other.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether the present request knows of all that it has to.
    #[must_use]
    pub fn has_heard(self) -> bool {
        let is_so = |by, changes| by == self && changes == CHANGES.load(Ordering::SeqCst);
        matches!(HEARD.get(), Heard::By(by, changes) if is_so(by, changes))
    }

    /// Asks for all that has happened.
    pub fn listen(self, ask: impl FnOnce()) {
        // Before it: what is done meanwhile may not be told.
        let changes = CHANGES.load(Ordering::SeqCst);
        ask();
        if !matches!(HEARD.get(), Heard::NoRequest) {
            HEARD.set(Heard::By(self, changes));
        }
    }
}

impl Default for Listener {
    fn default() -> Self {
        Self::new()
    }
}

/// Works on a request that has come, or goes on with one; with `is_request` false on something
/// else.
pub fn work<T>(is_request: bool, call: impl FnOnce() -> T) -> T {
    let now = if is_request { Heard::Nothing } else { Heard::NoRequest };
    let _back = Back(HEARD.replace(now));
    call()
}

/// The present request has to know of what was done since it came, too.
pub fn listen_again() {
    if matches!(HEARD.get(), Heard::By(..)) {
        HEARD.set(Heard::Nothing);
    }
}

/// A change that is being made; it is over, however it ends, when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Changing(());

/// This process changes something of what feeds tell.
pub fn changing() -> Changing {
    Changing(())
}

impl Drop for Changing {
    fn drop(&mut self) {
        CHANGES.fetch_add(1, Ordering::SeqCst);
    }
}

/// What was worked on before goes on; also after a panic.
struct Back(Heard);

impl Drop for Back {
    fn drop(&mut self) {
        HEARD.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_hears_once_and_again_after_what_this_process_changes() {
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
}
