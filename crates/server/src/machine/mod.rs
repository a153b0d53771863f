//! The machine: file descriptors, network interfaces, listeners, CPU time, round trip times,
//! the vDSO.
//!
//! May import `limits` only. Every room may import it.

pub mod cpu_time;
pub mod descriptors;
pub mod interfaces;
pub mod port_holder;
pub mod round_trips;
pub mod vdso;
