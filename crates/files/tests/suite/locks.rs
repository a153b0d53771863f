//! Byte-range locks through opens. MS-FSA 2.1.5.8, 2.1.5.9.

use crate::harness::*;
use files::{LockKind, LockOwner, OpenFile, OwnerLockOutcome, Range, RangeLock};
use futures_util::task::noop_waker;
use limits::LedgerHolder;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use vfs::{FsError, Result};

fn range(offset: u64, length: u64) -> Range {
    Range::new(offset, length).unwrap()
}

fn exclusive(offset: u64, length: u64) -> RangeLock {
    RangeLock { range: range(offset, length), kind: LockKind::Exclusive }
}

type PendingLock<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Requests a lock; the future was polled once.
fn ask<'a>(served: &'a ServedVolume, open: &'a Arc<OpenFile>, lock: RangeLock) -> PendingLock<'a> {
    let mut waiting: PendingLock<'a> = Box::pin(served.files.lock(open, lock, &HOLDER));
    assert!(poll(&mut waiting).is_pending());
    waiting
}

fn poll(waiting: &mut PendingLock<'_>) -> Poll<Result<()>> {
    waiting.as_mut().poll(&mut Context::from_waker(&noop_waker()))
}

#[test]
fn locks_bind_reads_writes_and_truncation_of_others() {
    let served = serve();
    served.put("file", b"0123456789");
    let (a, b) = (served.open("file", ALL), served.open("file", ALL));
    served.files.try_locks(&a, &[exclusive(4, 4)], &HOLDER).unwrap();
    let mut data = Vec::new();
    assert_eq!(now(served.files.read(&b, 0, 4, &mut data)), Ok(4));
    assert_eq!(now(served.files.read(&b, 0, 5, &mut data)), Err(FsError::LockConflict));
    assert_eq!(served.files.write(b.caller(), &b, 7, b"x"), Err(FsError::LockConflict));
    assert_eq!(served.files.write(b.caller(), &b, 8, b"x"), Ok(()));
    assert_eq!(served.files.write(a.caller(), &a, 4, b"y"), Ok(()));
    assert_eq!(now(served.files.set_size(b.caller(), &b, 5)), Err(FsError::LockConflict));
    assert_eq!(now(served.files.zero_range(b.caller(), &b, 0, 5)), Err(FsError::LockConflict));
    assert_eq!(
        now(served.files.copy_range(b.caller(), (&a, 0), (&b, 6), 1)),
        Err(FsError::LockConflict)
    );
    assert!(served.files.read_resident(&b, 4, 1).is_err());
    served.files.unlock(&a, range(4, 4)).unwrap();
    assert_eq!(now(served.files.set_size(b.caller(), &b, 5)), Ok(()));
    assert_eq!(served.files.unlock(&a, range(4, 4)), Err(FsError::RangeNotLocked));
}

#[test]
fn several_locks_are_granted_together_or_none() {
    let served = serve();
    served.put("file", b"");
    let (a, b) = (served.open("file", ALL), served.open("file", ALL));
    served.files.try_locks(&a, &[exclusive(10, 1)], &HOLDER).unwrap();
    let both = [exclusive(0, 1), exclusive(10, 1)];
    assert_eq!(served.files.try_locks(&b, &both, &HOLDER), Err(FsError::LockNotGranted));
    served.files.try_locks(&a, &[exclusive(0, 1)], &HOLDER).expect("nothing of it stayed");
}

#[test]
fn lock_requests_are_granted_in_arrival_order() {
    let served = serve();
    served.put("file", b"");
    let opens: [_; 3] = std::array::from_fn(|_| served.open("file", ALL));
    served.files.try_locks(&opens[0], &[exclusive(0, 1)], &HOLDER).unwrap();
    let mut first = ask(&served, &opens[1], exclusive(0, 1));
    let mut second = ask(&served, &opens[2], exclusive(0, 1));
    served.files.unlock(&opens[0], range(0, 1)).unwrap();
    assert!(poll(&mut second).is_pending());
    assert_eq!(poll(&mut first), Poll::Ready(Ok(())));
    drop(first);
    assert!(
        poll(&mut second).is_pending(),
        "a granted request retains its lock after the future is dropped"
    );
    served.files.unlock(&opens[1], range(0, 1)).unwrap();
    assert_eq!(poll(&mut second), Poll::Ready(Ok(())));
}

#[test]
fn cancelled_lock_request_leaves_no_lock() {
    let served = serve();
    served.put("file", b"");
    let opens: [_; 3] = std::array::from_fn(|_| served.open("file", ALL));
    served.files.try_locks(&opens[0], &[exclusive(0, 1)], &HOLDER).unwrap();
    drop(ask(&served, &opens[1], exclusive(0, 1)));
    let served_unseen = ask(&served, &opens[1], exclusive(0, 1));
    served.files.unlock(&opens[0], range(0, 1)).unwrap();
    assert_eq!(
        served.files.try_locks(&opens[2], &[exclusive(0, 1)], &HOLDER),
        Err(FsError::LockNotGranted)
    );
    drop(served_unseen);
    served.files.try_locks(&opens[2], &[exclusive(0, 1)], &HOLDER).unwrap();
}

#[test]
fn closing_ends_locks_and_waits() {
    let served = serve();
    served.put("file", b"");
    let (a, b) = (served.open("file", ALL), served.open("file", ALL));
    let c = served.open("file", ALL);
    served.files.try_locks(&a, &[exclusive(0, 1)], &HOLDER).unwrap();
    let mut own = ask(&served, &b, exclusive(0, 1));
    let mut next = ask(&served, &c, exclusive(0, 1));
    served.close(b.clone());
    assert_eq!(poll(&mut own), Poll::Ready(Err(FsError::RangeNotLocked)));
    assert!(poll(&mut next).is_pending());
    served.close(a);
    assert_eq!(poll(&mut next), Poll::Ready(Ok(())));
    assert_eq!(
        served.files.try_locks(&b, &[exclusive(5, 1)], &HOLDER),
        Err(FsError::RangeNotLocked),
        "it is closed"
    );
    assert_eq!(now(served.files.lock(&b, exclusive(5, 1), &HOLDER)), Err(FsError::RangeNotLocked));
}

#[test]
fn locks_of_many_threads_exclude_each_other_and_end() {
    let served = serve();
    served.put("file", &[0; 8]);
    let rounds = 200;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let open = served.open("file", ALL);
                for _ in 0..rounds {
                    futures_util::future::FutureExt::now_or_never(async {
                        while served.files.try_locks(&open, &[exclusive(0, 8)], &HOLDER).is_err() {
                            std::thread::yield_now();
                        }
                    });
                    let mut data = Vec::new();
                    now(served.files.read(&open, 0, 8, &mut data)).unwrap();
                    let count = u64::from_le_bytes(data.try_into().unwrap()) + 1;
                    served.files.write(open.caller(), &open, 0, &count.to_le_bytes()).unwrap();
                    served.files.unlock(&open, range(0, 8)).unwrap();
                }
            });
        }
    });
    assert_eq!(served.get("file").unwrap(), (4 * rounds as u64).to_le_bytes());
    served.assert_nothing_held();
}

#[test]
fn ranges_are_charged_to_holder_and_returned() {
    let served = serve();
    served.put("file", b"");
    let (a, b) = (served.open("file", ALL), served.open("file", ALL));
    let used = || served.files.lock_ranges().usage().used;
    let all: Vec<_> = (0..100).map(|at| exclusive(2 * at, 1)).collect();
    served.files.try_locks(&a, &all, &HOLDER).unwrap();
    assert_eq!(used(), 100);
    assert!(served.files.try_locks(&b, &all[99..], &HOLDER).is_err());
    let waiting = ask(&served, &b, exclusive(0, 1));
    assert_eq!(used(), 101, "a waiting request is charged already");
    drop(waiting);
    assert_eq!(used(), 100);
    served.files.unlock(&a, range(0, 1)).unwrap();
    assert_eq!(used(), 99);
    drop(a);
    assert_eq!(used(), 0, "closing gives all back");
}

#[test]
fn holder_with_too_many_ranges_is_refused_and_others_are_not() {
    let served = serve();
    served.put("file", b"");
    served.put("other", b"");
    served.files.lock_ranges().set_max(10_000);
    let (a, b) = (served.open("file", ALL), served.open("other", ALL));
    let all: Vec<_> = (0..6000).map(|at| exclusive(2 * at, 1)).collect();
    assert_eq!(served.files.try_locks(&a, &all, &HOLDER), Err(FsError::TooMany));
    served.files.try_locks(&a, &all[..5000], &HOLDER).unwrap();
    assert_eq!(served.files.try_locks(&b, &all[..1], &HOLDER), Err(FsError::TooMany));
    assert_eq!(now(served.files.lock(&b, all[0], &HOLDER)), Err(FsError::TooMany));
    let other = LedgerHolder::User("another".into());
    served.files.try_locks(&b, &all[..1], &other).unwrap();
    assert_eq!(served.files.lock_ranges().usage().used, 5001, "refusals leave nothing behind");
}

#[test]
fn owner_is_charged_for_its_lock_pieces() {
    let served = serve();
    served.put("file", b"");
    let open = served.open("file", ALL);
    let owner = LockOwner(1);
    let used = || served.files.lock_ranges().usage().used;
    let wanted = exclusive(0, 100);
    let locking = served.files.lock_owned(&open, owner, wanted, &HOLDER);
    assert_eq!((locking, used()), (Ok(OwnerLockOutcome::Granted), 1));
    served.files.unlock_owned(&open, owner, range(10, 1), &HOLDER).unwrap();
    assert_eq!(used(), 2);
    served.files.lock_ranges().set_max(2);
    let many = LedgerHolder::User("many".into());
    let _hoard = served.files.lock_ranges().account(&many).force(4096);
    let halved = served.files.unlock_owned(&open, owner, range(20, 1), &many);
    assert_eq!((halved, used()), (Err(FsError::TooMany), 4098));
    served.files.unlock_owned(&open, owner, Range::to_end(0), &many).unwrap();
    assert_eq!(used(), 4096, "an unlock is never refused");
}
