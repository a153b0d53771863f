//! Frames that leave: their buffers, interim responses, and notifications without a request.
//!
//! May import no other room. Every room that sends may import it.

pub mod notices;
pub mod pending;
pub mod transmit;
