//! Observation: the audit log, metrics, features, traces of slow requests.
//!
//! May import every room but `service` and `admin`. Decides nothing.

pub mod audit;
pub mod feature_facts;
pub mod features;
pub mod history;
pub mod metrics;
pub mod observer;
pub mod refused_logons;
pub mod traces;
