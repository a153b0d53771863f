//! The interface to the service manager (systemd or a compatible one): passed sockets and
//! notifications.
//!
//! sd_listen_fds(3), sd_notify(3), sd_watchdog_enabled(3). Without a service manager all of this
//! does nothing.

mod notify;
mod passed;
mod pulse;

pub use notify::Supervisor;
pub use passed::PassedSockets;
pub use pulse::{ActivityCounter, Pulse};
