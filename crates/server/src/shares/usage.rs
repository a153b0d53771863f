//! Measures the used size of shares repeatedly, the less often the longer a measurement takes.

use crate::backend::SpaceMeter;
use crate::shares::limits::{LimitsBook, SizedShare};
use limits::ShareLimits;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Minimum pause between two measurements of a share. The duration of one is multiplied, so that they
/// take at most a hundredth of a core.
const PAUSE_MIN: Duration = Duration::from_secs(2);
const PAUSE_PARTS: u32 = 100;
/// Pause for a share without changes by clients, because local users may change it, too.
const PAUSE_UNCHANGED: Duration = Duration::from_mins(10);

/// A measured share and the times of its next measurement.
#[derive(Debug)]
struct MeasuredShare {
    limits: Arc<ShareLimits>,
    due: Instant,
    due_unchanged: Instant,
}

/// Measures shares with a size limit one after the other, until the task is dropped.
pub async fn follow(book: Arc<LimitsBook>) {
    let mut seconds = tokio::time::interval(Duration::from_millis(500));
    let mut known: Vec<MeasuredShare> = Vec::new();
    loop {
        seconds.tick().await;
        let sized = book.sized();
        known.retain(|one| sized.iter().any(|share| Arc::ptr_eq(&share.limits, &one.limits)));
        for SizedShare { name, limits, meter } in sized {
            let at = known.iter().position(|one| Arc::ptr_eq(&one.limits, &limits));
            let is_due = at.is_none_or(|at| {
                let due = if limits.space_usage().is_changed() {
                    known[at].due
                } else {
                    known[at].due_unchanged
                };
                due <= Instant::now()
            });
            if !is_due {
                continue;
            }
            let took = measure(name, meter, &limits).await;
            let now = Instant::now();
            let due = now + PAUSE_MIN.max(took * PAUSE_PARTS);
            let next = MeasuredShare { limits, due, due_unchanged: due + PAUSE_UNCHANGED };
            match at {
                Some(at) => known[at] = next,
                None => known.push(next),
            }
        }
    }
}

/// Measures a share once and returns the duration.
async fn measure(share: String, meter: Arc<dyn SpaceMeter>, limits: &Arc<ShareLimits>) -> Duration {
    let (start, begun) = (Instant::now(), limits.space_usage().begin_measure());
    match tokio::task::spawn_blocking(move || meter.used_bytes()).await {
        Ok(Ok(bytes)) => limits.space_usage().end_measure(begun, bytes),
        Ok(Err(error)) => {
            tracing::warn!(share, %error, "the used size of the share cannot be measured");
        }
        Err(_) => tracing::error!(share, "measuring a share failed"),
    }
    start.elapsed()
}
