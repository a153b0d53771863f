//! Oplocks: breaks, waits, and their ends.

use crate::harness::*;
use files::{
    AcknowledgeRefusal, CacheBreak, CacheHolder, CacheWish, CachingRights, CallHolder, OpenPlan,
    RangeLock, ShareMode, Workers,
};
use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vfs::{FsError, StreamName};

/// A client that records its break notifications.
#[derive(Debug, Default)]
struct OplockRecorder(Mutex<Vec<(CachingRights, bool)>>);

impl CacheHolder for OplockRecorder {
    fn handle_break(&self, cache_break: &CacheBreak) {
        self.0.lock().unwrap().push((cache_break.to, cache_break.acknowledge));
    }
}

impl OplockRecorder {
    fn breaks(&self) -> Vec<(CachingRights, bool)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn cached(plan: OpenPlan, wanted: CachingRights, client: &Arc<OplockRecorder>) -> OpenPlan {
    OpenPlan { caching: Some(CacheWish { wanted, key: None, holder: client.clone() }), ..plan }
}

#[test]
fn second_open_waits_for_acknowledgement() {
    let served = serve();
    let (client, other) =
        (Arc::new(OplockRecorder::default()), Arc::new(OplockRecorder::default()));
    let first = served.try_open(cached(new_file("a"), CachingRights::BATCH, &client)).unwrap();
    assert_eq!(first.caching.has, CachingRights::BATCH);
    let second = cached(plan("a", READ), CachingRights::BATCH, &other);
    let mut waiting = Box::pin(served.files.open(&served.volume, &served.alice, second));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!(client.breaks(), [(CachingRights::LEVEL_II, true)]);
    served.files.acknowledge(&first.open, CachingRights::LEVEL_II).unwrap();
    let second = waiting.now_or_never().expect("nothing to wait for").unwrap();
    assert_eq!(
        (second.caching.has, first.open.caching()),
        (CachingRights::LEVEL_II, CachingRights::LEVEL_II)
    );
    // A write invalidates read caching of others.
    served.files.write(first.open.caller(), &first.open, 0, b"x").unwrap();
    assert_eq!(other.breaks(), [(CachingRights::NONE, false)]);
    assert_eq!(second.open.caching(), CachingRights::NONE);
}

#[test]
fn closing_ends_the_wait_too() {
    let served = serve();
    let client = Arc::new(OplockRecorder::default());
    let first = served.try_open(cached(new_file("a"), CachingRights::BATCH, &client)).unwrap();
    let mut waiting = Box::pin(served.files.open(&served.volume, &served.alice, plan("a", READ)));
    assert!(waiting.as_mut().now_or_never().is_none());
    served.close(first.open);
    assert!(waiting.now_or_never().expect("nothing to wait for").is_ok());
}

#[test]
fn cancelled_wait_leaves_nothing() {
    let served = serve();
    let client = Arc::new(OplockRecorder::default());
    let first = served.try_open(cached(new_file("a"), CachingRights::BATCH, &client)).unwrap();
    let mut waiting = Box::pin(served.files.open(&served.volume, &served.alice, plan("a", READ)));
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(waiting);
    served.files.acknowledge(&first.open, CachingRights::NONE).unwrap();
    assert_eq!(
        served.files.acknowledge(&first.open, CachingRights::NONE),
        Err(AcknowledgeRefusal::NotBreaking),
        "once is enough"
    );
    served.close(first.open);
    assert_eq!(served.files.open_file_count(), 0);
}

#[test]
fn size_lock_and_hole_changes_break_read_caching() {
    let served = serve();
    let client = Arc::new(OplockRecorder::default());
    let writer = served.try_open(new_file("a")).unwrap().open;
    let look = || {
        let reader =
            served.try_open(cached(plan("a", READ), CachingRights::LEVEL_II, &client)).unwrap();
        assert_eq!(reader.caching.has, CachingRights::LEVEL_II);
        reader.open
    };
    let mut open = look();
    now(served.files.set_size(writer.caller(), &writer, 10)).unwrap();
    assert_eq!((open.caching(), client.breaks().len()), (CachingRights::NONE, 1));
    open = look();
    now(served.files.zero_range(writer.caller(), &writer, 0, 4)).unwrap();
    assert_eq!((open.caching(), client.breaks().len()), (CachingRights::NONE, 1));
    open = look();
    let range = files::Range::new(0, 1).unwrap();
    let lock = RangeLock { range, kind: files::LockKind::Exclusive };
    served.files.try_locks(&writer, &[lock], &HOLDER).unwrap();
    assert_eq!((open.caching(), client.breaks().len()), (CachingRights::NONE, 1));
    let locked =
        served.try_open(cached(plan("a", READ), CachingRights::LEVEL_II, &client)).unwrap();
    assert_eq!(locked.caching.has, CachingRights::NONE, "locks prevent caching");
}

#[test]
fn write_of_no_bytes_breaks_no_cache_and_changes_no_time() {
    let served = serve();
    let client = Arc::new(OplockRecorder::default());
    let writer = served.try_open(new_file("a")).unwrap().open;
    let reader =
        served.try_open(cached(plan("a", READ), CachingRights::LEVEL_II, &client)).unwrap();
    let attributes = || served.files.attributes_unchecked(&writer).unwrap();
    let before = attributes();
    served.files.write(writer.caller(), &writer, 64, b"").unwrap();
    assert_eq!((reader.open.caching(), client.breaks().len()), (CachingRights::LEVEL_II, 0));
    assert_eq!(attributes(), before);
    let refused = served.files.write(reader.open.caller(), &reader.open, 0, b"");
    assert_eq!(refused, Err(FsError::AccessDenied));
    served.files.write(writer.caller(), &writer, 64, b"x").unwrap();
    assert_eq!((reader.open.caching(), client.breaks().len()), (CachingRights::NONE, 1));
}

/// A clock that the test advances.
#[derive(Default)]
struct TestTimer(Mutex<Vec<oneshot::Sender<()>>>);

impl Workers for TestTimer {
    fn run(&self, _: &CallHolder, task: Box<dyn FnOnce() + Send>) {
        task();
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        assert_eq!(time, files::ACKNOWLEDGED_WITHIN);
        let (ring, rung) = oneshot::channel();
        self.0.lock().unwrap().push(ring);
        Box::pin(rung.map(|_| ()))
    }
}

#[test]
fn silent_client_loses_oplock() {
    let alarm = Arc::new(TestTimer::default());
    let served = serve_with(files::VolumeOptions::default(), alarm.clone());
    let client = Arc::new(OplockRecorder::default());
    let first = served.try_open(cached(new_file("a"), CachingRights::BATCH, &client)).unwrap();
    let mut waiting = Box::pin(served.files.open(&served.volume, &served.alice, plan("a", READ)));
    assert!(waiting.as_mut().now_or_never().is_none());
    alarm.0.lock().unwrap().pop().unwrap().send(()).unwrap();
    assert!(waiting.now_or_never().expect("nothing to wait for").is_ok());
    assert_eq!(first.open.caching(), CachingRights::NONE);
}

fn of_stream(plan: OpenPlan) -> OpenPlan {
    OpenPlan { stream: Some(StreamName::new(*b"s").unwrap()), ..plan }
}

#[test]
fn each_stream_has_its_own_oplocks() {
    let served = serve();
    if !served.volume.has_streams() {
        return eprintln!("skipped: no extended attributes here");
    }
    let (one, two) = (Arc::new(OplockRecorder::default()), Arc::new(OplockRecorder::default()));
    let stream =
        served.try_open(cached(of_stream(new_file("a")), CachingRights::BATCH, &one)).unwrap();
    let file = served.try_open(cached(plan("a", READ), CachingRights::BATCH, &two)).unwrap();
    assert_eq!(
        (stream.caching.has, file.caching.has),
        (CachingRights::BATCH, CachingRights::BATCH)
    );
    let again = of_stream(plan("a", READ));
    let mut waiting = Box::pin(served.files.open(&served.volume, &served.alice, again));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!((one.breaks(), two.breaks()), (vec![(CachingRights::LEVEL_II, true)], vec![]));
    served.files.acknowledge(&stream.open, CachingRights::LEVEL_II).unwrap();
    assert!(waiting.now_or_never().expect("nothing to wait for").is_ok());
}

#[test]
fn cached_stream_is_broken_before_file_deletion() {
    let served = serve();
    if !served.volume.has_streams() {
        return eprintln!("skipped: no extended attributes here");
    }
    let client = Arc::new(OplockRecorder::default());
    let alone = OpenPlan { share: ShareMode(0), ..of_stream(new_file("a")) };
    let kept = served.try_open(cached(alone, CachingRights::BATCH, &client)).unwrap();
    let delete = || Box::pin(served.files.open(&served.volume, &served.alice, plan("a", DELETE)));
    let mut waiting = delete();
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!(client.breaks(), [(CachingRights::LEVEL_II, true)]);
    served.close(kept.open);
    assert!(waiting.now_or_never().expect("nothing to wait for").is_ok());
    served.assert_nothing_held();

    let alone = OpenPlan { share: ShareMode(0), ..of_stream(plan("a", READ)) };
    let used = served.try_open(cached(alone, CachingRights::BATCH, &client)).unwrap();
    let mut waiting = delete();
    assert!(waiting.as_mut().now_or_never().is_none());
    served.files.acknowledge(&used.open, CachingRights::LEVEL_II).unwrap();
    let refused = waiting.now_or_never().expect("nothing to wait for");
    assert_eq!(refused.unwrap_err(), FsError::ShareViolation);
}

/// MS-FSA 2.1.5.1.2.2, 2.1.5.1.2: a share mode conflict breaks handle caching first.
#[test]
fn cached_deleter_is_broken_before_stream_denies_delete() {
    let served = serve();
    if !served.volume.has_streams() {
        return eprintln!("skipped: no extended attributes here");
    }
    let client = Arc::new(OplockRecorder::default());
    let kept = served.try_open(cached(new_file("a"), CachingRights::BATCH, &client)).unwrap();
    let wish = OpenPlan { share: ShareMode(3), ..of_stream(new_file("a")) };
    let mut waiting = Box::pin(served.files.open(&served.volume, &served.alice, wish));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!(client.breaks().len(), 1);
    served.close(kept.open);
    let opened = waiting.now_or_never().expect("nothing to wait for").unwrap();
    served.close(opened.open);
    let used = served.try_open(cached(plan("a", ALL), CachingRights::BATCH, &client)).unwrap();
    let wish = OpenPlan { share: ShareMode(3), ..of_stream(plan("a", READ)) };
    let mut waiting = Box::pin(served.files.open(&served.volume, &served.alice, wish));
    assert!(waiting.as_mut().now_or_never().is_none());
    served.files.acknowledge(&used.open, CachingRights::LEVEL_II).unwrap();
    let refused = waiting.now_or_never().expect("nothing to wait for");
    assert_eq!(refused.unwrap_err(), FsError::ShareViolation);
}
