//! Hit counters of the metadata caches.

use super::State;
use super::answer::{Answer, Input, Refusal};
use serde_json::json;

/// Lists the caches by share and kind.
pub fn list(state: &State, input: &Input) -> Result<Answer, Refusal> {
    let counts = state.caches.counts();
    Ok(Answer::Json(input.page(&counts, |(share, kind, count)| {
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
