//! Detects a stalled server for the watchdog, which restarts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use sync::Mutex;
use tokio::task::AbortHandle;

/// Watched activities: tasks that beat every second, and tasks that must never end.
///
/// A beat follows a tick of a protocol layer. So a layer with a stuck lock does not beat, nor does
/// a runtime with stuck threads. Workers are not watched: one that waits for a dead disk would wait
/// again after a restart.
#[derive(Debug, Default)]
pub struct Pulse {
    beats: Mutex<Vec<MonitoredTask>>,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// Counter of one watched activity.
#[derive(Clone, Debug, Default)]
pub struct ActivityCounter(Arc<AtomicU64>);

#[derive(Debug)]
struct MonitoredTask {
    name: &'static str,
    beat: ActivityCounter,
    seen: u64,
    moved: Instant,
}

impl ActivityCounter {
    /// Counts a beat.
    pub fn beats(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Pulse {
    /// Watches a new activity from `now` on.
    pub fn expect(&self, name: &'static str, now: Instant) -> ActivityCounter {
        let beat = ActivityCounter::default();
        let watched = MonitoredTask { name, beat: beat.clone(), seen: 0, moved: now };
        self.beats.lock().push(watched);
        beat
    }

    /// Watches a task that must not end.
    pub fn keep(&self, task: AbortHandle) {
        self.tasks.lock().push(task);
    }

    /// The first stalled activity: it has not beaten `within` the time before `now`, or has ended.
    pub fn stalled(&self, now: Instant, within: Duration) -> Option<&'static str> {
        let mut beats = self.beats.lock();
        for watched in beats.iter_mut() {
            let count = watched.beat.0.load(Ordering::Relaxed);
            if count != watched.seen {
                (watched.seen, watched.moved) = (count, now);
            }
        }
        let late = |watched: &&MonitoredTask| now.saturating_duration_since(watched.moved) > within;
        if let Some(watched) = beats.iter().find(late) {
            return Some(watched.name);
        }
        let tasks = self.tasks.lock();
        tasks.iter().any(AbortHandle::is_finished).then_some("a task that must not end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_without_a_timely_beat_is_stalled() {
        let (pulse, start) = (Pulse::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let within = Duration::from_secs(10);
        let (smb, nfs) = (pulse.expect("SMB", start), pulse.expect("NFS", start));
        assert_eq!(pulse.stalled(at(10), within), None);
        smb.beats();
        nfs.beats();
        assert_eq!(pulse.stalled(at(15), within), None);
        smb.beats();
        assert_eq!(pulse.stalled(at(25), within), None);
        smb.beats();
        assert_eq!(pulse.stalled(at(26), within), Some("NFS"));
        nfs.beats();
        assert_eq!(pulse.stalled(at(27), within), None);
    }

    #[tokio::test]
    async fn ended_task_is_reported() {
        let pulse = Pulse::default();
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(async { drop(wait.await) });
        pulse.keep(task.abort_handle());
        let look = || pulse.stalled(Instant::now(), Duration::from_secs(1));
        assert_eq!(look(), None);
        drop(go);
        task.await.expect("it ends");
        assert!(look().is_some());
    }
}
