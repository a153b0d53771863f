//! One request: its context, its payment to the limits of the share, and its waits.
//!
//! May import the server, sessions and opens. Handlers and connections import it.

pub mod context;
pub mod element;
pub mod session_wait;
pub mod throttle;
pub mod unpaid;
