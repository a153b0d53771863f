//! Hit counters of the metadata caches.

use super::AdminState;
use super::answer::{AdminAnswer, AdminRefusal, OperationInput};
use serde_json::json;

/// Lists the caches by share and kind.
pub fn list(state: &AdminState, input: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let counts = state.caches.counts();
    Ok(AdminAnswer::Json(input.page(&counts, |(share, kind, count)| {
        json!({
            "share": share,
            "kind": kind,
            "hits": count.hits,
            "misses": count.misses,
            "invalidations": count.invalidations,
            "evictions": count.evictions,
            "bytes": count.bytes,
        })
    })))
}
