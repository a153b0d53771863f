//! One request: the waits before and after its handler, and its promise of stability.
//!
//! May import the server, sessions and opens. Handlers and connections import it.

pub mod session_wait;
pub mod stable;
pub mod throttle;
