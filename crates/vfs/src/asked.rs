//! What the request that a thread works on has heard of already.
//!
//! A request has to know of what was changed before it came, not of what is changed while it is
//! worked on. So who keeps what a [`crate::ChangeFeed`] tells need not ask that anew for each
//! question of one request: it has asked once, after the request had come, and then only after
//! something was changed by this process, for this request or another: what opens, renames and
//! removals know of each other rests on seeing what those before them have done. Of requests that
//! came together the first asks for all ([`Together`]). Known to the
//! thread, and forgotten when it turns to something else: what is done by no request, and each
//! part of one that is worked on after a wait or by another thread, asks for itself.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Who keeps what a feed tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener(u64);

#[derive(Clone, Copy, Debug)]
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
    /// What the requests have heard that are begun together.
    static TOGETHER: Cell<Option<Heard>> = const { Cell::new(None) };
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
    let begun = || TOGETHER.get().unwrap_or(Heard::Nothing);
    let now = if is_request { begun() } else { Heard::NoRequest };
    let before = HEARD.replace(now);
    let _back = Back { before, is_request };
    call()
}

/// Requests that had all come before the first of them is begun: what one has heard the others
/// need not ask again.
#[derive(Clone, Copy, Debug)]
pub struct Together(Heard);

impl Default for Together {
    fn default() -> Self {
        Self(Heard::Nothing)
    }
}

impl Together {
    /// Begins one of them.
    pub fn begin<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let _end = End(TOGETHER.replace(Some(self.0)));
        let result = call();
        self.0 = TOGETHER.get().unwrap_or(Heard::Nothing);
        result
    }
}

/// What was begun together before; also after a panic.
struct End(Option<Heard>);

impl Drop for End {
    fn drop(&mut self) {
        TOGETHER.set(self.0);
    }
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
struct Back {
    before: Heard,
    is_request: bool,
}

impl Drop for Back {
    fn drop(&mut self) {
        let heard = HEARD.replace(self.before);
        if self.is_request && TOGETHER.get().is_some() {
            TOGETHER.set(Some(heard));
        }
    }
}
