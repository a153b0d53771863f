//! Tests of the pool with real threads.

use super::*;
use std::sync::mpsc;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn pool_runs_all_calls_and_reports_completion() {
    let runtime = runtime();
    let pool = runtime.block_on(async { WorkerPool::new(3) });
    let (tell, reports) = mpsc::channel();
    for number in 0..10_000 {
        let tell = tell.clone();
        pool.run(&CallHolder::Server, Box::new(move || tell.send(number).unwrap()));
    }
    assert!(runtime.block_on(pool.finish(Duration::from_secs(30))));
    let mut numbers: Vec<_> = reports.try_iter().collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..10_000).collect::<Vec<_>>());
}

#[test]
fn blocked_call_delays_no_other() {
    let runtime = runtime();
    let pool = runtime.block_on(async { WorkerPool::new(8) });
    let (go, gone) = mpsc::channel::<()>();
    pool.run(&CallHolder::Server, Box::new(move || gone.recv().unwrap()));
    let (tell, reports) = mpsc::channel();
    for number in 0..5 {
        let tell = tell.clone();
        pool.run(&CallHolder::Server, Box::new(move || tell.send(number).unwrap()));
    }
    for _ in 0..5 {
        reports.recv_timeout(Duration::from_secs(30)).unwrap();
    }
    assert!(!runtime.block_on(pool.finish(Duration::from_millis(20))), "one still waits");
    go.send(()).unwrap();
    assert!(runtime.block_on(pool.finish(Duration::from_secs(30))));
}

/// A hanging disk delays its syncs and no other call.
#[test]
fn blocked_sync_uses_no_worker_of_calls() {
    let runtime = runtime();
    let pool = runtime.block_on(async { WorkerPool::new(1) });
    let (go, gone) = mpsc::channel::<()>();
    let gone = std::sync::Arc::new(sync::Mutex::new(gone));
    let (begin, begun) = mpsc::channel();
    for _ in 0..4 {
        let (begin, gone) = (begin.clone(), gone.clone());
        let wait = move || {
            begin.send(()).unwrap();
            gone.lock().recv().unwrap();
        };
        pool.run(&CallHolder::Syncs { device: 1 }, Box::new(wait));
    }
    for _ in 0..4 {
        begun.recv_timeout(Duration::from_secs(30)).unwrap();
    }
    let (tell, reports) = mpsc::channel();
    pool.run(&CallHolder::Server, Box::new(move || tell.send(()).unwrap()));
    reports.recv_timeout(Duration::from_secs(30)).unwrap();
    assert!(!runtime.block_on(pool.finish(Duration::from_millis(20))), "the syncs still wait");
    (0..4).for_each(|_| go.send(()).unwrap());
    assert!(runtime.block_on(pool.finish(Duration::from_secs(30))));
}

#[test]
fn panicking_call_affects_no_other() {
    let runtime = runtime();
    let pool = runtime.block_on(async { WorkerPool::new(1) });
    let (tell, reports) = mpsc::channel();
    pool.run(&CallHolder::Server, Box::new(|| panic!("as the test wants it")));
    pool.run(&CallHolder::Server, Box::new(move || tell.send(()).unwrap()));
    reports.recv_timeout(Duration::from_secs(30)).unwrap();
}

#[test]
fn dropped_pool_leaves_no_thread() {
    let runtime = runtime();
    let pool = runtime.block_on(async { WorkerPool::new(4) });
    let (tell, reports) = mpsc::channel();
    pool.run(&CallHolder::Server, Box::new(move || tell.send(()).unwrap()));
    reports.recv_timeout(Duration::from_secs(30)).unwrap();
    let shared = Arc::downgrade(&pool.shared);
    drop(pool);
    let begun = Instant::now();
    while shared.upgrade().is_some() {
        assert!(begun.elapsed() < Duration::from_secs(5), "a thread holds on");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn calls_beyond_a_holders_bound_are_dropped_and_counted() {
    let runtime = runtime();
    let pool = runtime.block_on(async { WorkerPool::new(1) });
    let user = |name: &str| CallHolder::Client(limits::LedgerHolder::User(name.into()));
    let (go, gone) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    pool.run(
        &CallHolder::Server,
        Box::new(move || {
            begin.send(()).unwrap();
            gone.recv().unwrap();
        }),
    );
    begun.recv_timeout(Duration::from_secs(30)).unwrap();
    for _ in 0..WORKER_QUEUE_PER_HOLDER_MAX + 7 {
        pool.run(&user("busy"), Box::new(|| ()));
    }
    assert_eq!((pool.usage().used, pool.usage().refused), (WORKER_QUEUE_PER_HOLDER_MAX as u64, 7));
    let (tell, reports) = mpsc::channel();
    pool.run(&user("other"), Box::new(move || tell.send(()).unwrap()));
    assert_eq!((pool.usage().holders, pool.usage().refused), (3, 7));
    go.send(()).unwrap();
    reports.recv_timeout(Duration::from_secs(30)).unwrap();
    assert!(runtime.block_on(pool.finish(Duration::from_secs(30))));
}
