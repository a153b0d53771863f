//! Opens and the state that belongs to them: oplocks, leases, durability, replay detection.
//! MS-SMB2 3.3.1.10 to 3.3.1.12.
//!
//! May import `shares`, `outgoing` and `conversion`. Knows no session and no server: breaks reach them
//! through `break_router`. Handlers, sessions and the server import it.

pub mod app_instances;
pub mod break_router;
pub mod channel_sequence;
pub mod create_guids;
pub mod directory_scan;
pub mod durability;
pub mod durable;
pub mod lease;
pub mod lock_sequence;
pub mod open;
pub mod open_quotas;
pub mod oplock;
pub mod persistent_opens;
pub mod pipe;
pub mod stable;
pub mod timed_table;
