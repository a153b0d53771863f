//! A client of an export with its terms, in the form common to the imported formats.

use crate::config::HostRule;

/// A client with its terms; the first matching one counts.
#[derive(Clone, Debug)]
pub struct DraftClient {
    pub rule: HostRule,
    /// Options of `nfs_clients`.
    pub options: Vec<String>,
    /// Any source port is permitted.
    pub is_insecure: bool,
    /// The client gets no access: it lacks a requirement, or had no access before.
    pub is_refused: bool,
}
