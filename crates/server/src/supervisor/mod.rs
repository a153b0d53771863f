//! What stands between this process and the program that started it, as systemd or
//! another one of its protocol: sockets that were opened before, and what it is told.
//!
//! sd_listen_fds(3), sd_notify(3), sd_watchdog_enabled(3). Without such a program all of
//! this does nothing.

mod notify;
mod passed;
mod pulse;

pub use notify::Supervisor;
pub use passed::Passed;
pub use pulse::{Beat, Pulse};
