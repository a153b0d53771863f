//! Measures the used size of shares repeatedly, the less often the longer a measurement takes.

use crate::shares::limits::{LimitsBook, Measurement};
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
    /// The generation that was measured.
    generation: u64,
    due: Instant,
    due_unchanged: Instant,
}

impl MeasuredShare {
    /// A share that shows another tree is due at once, because its used size is unknown.
    fn is_due(&self, now: Instant) -> bool {
        let usage = self.limits.space_usage();
        let due = if usage.is_changed() { self.due } else { self.due_unchanged };
        usage.generation() != self.generation || due <= now
    }
}

/// Measures shares with a size limit one after the other, until the task is dropped.
pub async fn follow(book: Arc<LimitsBook>) {
    let mut seconds = tokio::time::interval(Duration::from_millis(500));
    let mut known: Vec<MeasuredShare> = Vec::new();
    loop {
        seconds.tick().await;
        let sized = book.sized();
        known.retain(|one| sized.iter().any(|limits| Arc::ptr_eq(limits, &one.limits)));
        for limits in sized {
            let at = known.iter().position(|one| Arc::ptr_eq(&one.limits, &limits));
            if at.is_some_and(|at| !known[at].is_due(Instant::now())) {
                continue;
            }
            // A reload may have moved or removed the share while others were measured.
            let Some(measurement) = book.begin_measure(&limits) else { continue };
            let generation = measurement.start.generation();
            let took = measure(measurement, &limits).await;
            let due = Instant::now() + PAUSE_MIN.max(took * PAUSE_PARTS);
            let due_unchanged = due + PAUSE_UNCHANGED;
            let next = MeasuredShare { limits, generation, due, due_unchanged };
            match at {
                Some(at) => known[at] = next,
                None => known.push(next),
            }
        }
    }
}

/// Runs a measurement and returns the duration.
async fn measure(measurement: Measurement, limits: &ShareLimits) -> Duration {
    let Measurement { share, meter, start } = measurement;
    let begun = Instant::now();
    match tokio::task::spawn_blocking(move || meter.used_bytes()).await {
        Ok(Ok(bytes)) => limits.space_usage().end_measure(start, bytes),
        Ok(Err(error)) => {
            tracing::warn!(share, %error, "cannot measure the used size of a share: its last value stays in use");
        }
        Err(_) => tracing::error!(
            share,
            "a defect of this server: a measurement of a share's used size panicked"
        ),
    }
    begun.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::SpaceMeter;
    use crate::config::{ServerConfig, ShareConfig};
    use crate::shares::limits::OpenedMeter;
    use std::sync::atomic::{AtomicU32, Ordering};
    use sync::Mutex;
    use tokio::sync::Notify;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A meter with a known result. The first measurement waits for the gate, if there is one.
    #[derive(Debug, Default)]
    struct GatedMeter {
        bytes: u64,
        calls: AtomicU32,
        begun: Notify,
        gate: Mutex<Option<std::sync::mpsc::Receiver<()>>>,
    }

    impl SpaceMeter for GatedMeter {
        fn used_bytes(&self) -> std::io::Result<u64> {
            self.calls.fetch_add(1, Ordering::SeqCst);
            self.begun.notify_one();
            let gate = self.gate.lock().take();
            if let Some(gate) = gate {
                gate.recv_timeout(PATIENCE).map_err(std::io::Error::other)?;
            }
            Ok(self.bytes)
        }
    }

    fn meter(bytes: u64) -> Arc<GatedMeter> {
        Arc::new(GatedMeter { bytes, ..GatedMeter::default() })
    }

    fn opened(meters: [&Arc<GatedMeter>; 2], is_other_tree: bool) -> Vec<OpenedMeter> {
        meters.map(|meter| OpenedMeter { meter: meter.clone(), is_other_tree }).into()
    }

    fn shares() -> Vec<ShareConfig> {
        let share = |name: &str| {
            format!(
                "[[share]]\nname = \"{name}\"\npath = \"/\"\nclass = \"premium\"\n\
                 provisioned_gib = 100\n"
            )
        };
        ServerConfig::parse(&(share("first") + &share("second"))).unwrap().shares
    }

    #[tokio::test]
    async fn share_moved_during_a_measurement_is_measured_at_once() {
        let (folder, now) = (tempfile::tempdir().unwrap(), Instant::now());
        let book = Arc::new(LimitsBook::open(folder.path()));
        let limits = [0, 1].map(|at| book.of(&shares()[at], now));
        let used = || limits.each_ref().map(|limits| limits.space_usage().used_bytes());
        let (open_gate, gate) = std::sync::mpsc::channel();
        let (first, second) = (meter(10), meter(20));
        *first.gate.lock() = Some(gate);
        book.apply(&shares(), opened([&first, &second], true), now);
        let following = tokio::spawn(follow(book.clone()));
        tokio::time::timeout(PATIENCE, first.begun.notified()).await.unwrap();

        let moved = [meter(11), meter(21)];
        book.apply(&shares(), opened(moved.each_ref(), true), now);
        open_gate.send(()).unwrap();
        let all = async {
            while used() != [Some(11), Some(21)] {
                assert!(!used().contains(&Some(10)), "the directory before the reload");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        // Less than the pause that would have followed a measurement.
        tokio::time::timeout(PAUSE_MIN - Duration::from_millis(500), all).await.unwrap();
        assert_eq!(second.calls.load(Ordering::SeqCst), 0, "its directory is not served any more");

        book.apply(&shares(), opened(moved.each_ref(), false), now);
        assert_eq!(used(), [Some(11), Some(21)], "a reload in place keeps the measurement");
        assert!(limits.iter().all(|limits| !limits.space_usage().is_changed()));
        following.abort();
    }
}
