//! Frames that leave: their buffers, interim responses, notifications without a request, and the
//! handle by which jobs and sessions reach a connection.
//!
//! May import no other room. Every room that sends may import it.

pub mod conn_handle;
pub mod notices;
pub mod pending;
pub mod transmit;
