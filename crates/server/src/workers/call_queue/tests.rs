//! Tests of the queue with simulated time.

use super::*;

const BOUNDS: QueueBounds = QueueBounds {
    calls: 100,
    holder_calls: 80,
    holder_floor: 10,
    threads: 12,
    cpus: 2,
    all_wait: false,
};
/// The holder in tests in which the holder does not matter.
const ONE: u8 = 1;
/// The first lane, which belongs to that holder.
const LANE: LaneId = LaneId(0);
const NOBODY: WorkerWakeups = WorkerWakeups { wake: 0, make: 0 };
const ONE_MADE: WorkerWakeups = WorkerWakeups { wake: 0, make: 1 };
const ONE_WOKEN: WorkerWakeups = WorkerWakeups { wake: 1, make: 0 };

fn come(queue: &mut CallQueue<u8, u32>) -> (WorkerStep<u32>, WorkerWakeups) {
    let mut wakeups = WorkerWakeups::default();
    (queue.come(&mut wakeups), wakeups)
}

fn end(queue: &mut CallQueue<u8, u32>) -> (WorkerStep<u32>, WorkerWakeups) {
    let mut wakeups = WorkerWakeups::default();
    (queue.end(LANE, &mut wakeups), wakeups)
}

fn look(queue: &mut CallQueue<u8, u32>, now: Instant) -> (WorkerStep<u32>, WorkerWakeups) {
    let mut wakeups = WorkerWakeups::default();
    (queue.look(now, &mut wakeups), wakeups)
}

/// A queue with one worker that runs call 1, call 2 behind it, and a sentry.
fn one_waits_behind_another(start: Instant) -> CallQueue<u8, u32> {
    let mut queue = CallQueue::new(BOUNDS);
    assert_eq!(queue.join(&ONE, 1, start), Ok(ONE_MADE));
    assert_eq!(come(&mut queue), (WorkerStep::Run(LANE, 1), NOBODY));
    assert_eq!(
        queue.join(&ONE, 2, start),
        Ok(ONE_MADE),
        "somebody must look whether this one waits long"
    );
    assert_eq!(come(&mut queue), (WorkerStep::Watch, NOBODY));
    queue
}

#[test]
fn quick_calls_run_on_one_worker() {
    let start = Instant::now();
    let mut queue = one_waits_behind_another(start);
    for call in 3..50 {
        assert_eq!(queue.join(&ONE, call, start), Ok(NOBODY));
    }
    for call in 2..50 {
        assert_eq!(end(&mut queue), (WorkerStep::Run(LANE, call), NOBODY));
    }
    assert_eq!(end(&mut queue), (WorkerStep::Rest, NOBODY));
    assert_eq!(queue.join(&ONE, 50, start), Ok(ONE_WOKEN), "nobody else is made");
}

#[test]
fn single_worker_has_no_sentry() {
    let start = Instant::now();
    let mut queue = CallQueue::new(BOUNDS);
    assert_eq!(queue.join(&ONE, 1, start), Ok(ONE_MADE));
    assert_eq!(come(&mut queue), (WorkerStep::Run(LANE, 1), NOBODY));
    assert_eq!(end(&mut queue), (WorkerStep::Rest, NOBODY));
    assert_eq!(queue.join(&ONE, 2, start), Ok(ONE_WOKEN));
    assert!(!queue.is_quiet());
}

#[test]
fn stalled_queue_gets_a_worker_for_each_call() {
    let start = Instant::now();
    let mut queue = one_waits_behind_another(start);
    for call in 3..6 {
        assert_eq!(queue.join(&ONE, call, start), Ok(NOBODY));
    }
    assert_eq!(look(&mut queue, start + TICK / 2), (WorkerStep::Watch, NOBODY), "not yet");
    let later = start + TICK;
    let all = WorkerWakeups { wake: 0, make: 3 };
    assert_eq!(
        look(&mut queue, later),
        (WorkerStep::Run(LANE, 2), all),
        "three more for 3, 4 and 5"
    );
    for call in 3..6 {
        assert!(matches!(come(&mut queue), (WorkerStep::Run(LANE, n), _) if n == call));
    }
    assert_eq!(queue.join(&ONE, 6, later), Ok(ONE_MADE), "and so for a while");
    assert!(matches!(come(&mut queue).0, WorkerStep::Run(LANE, 6)));
    let past = later + SPREAD;
    assert_eq!(queue.join(&ONE, 7, past), Ok(ONE_MADE), "then one looks again");
    assert_eq!(come(&mut queue), (WorkerStep::Watch, NOBODY));
}

#[test]
fn moving_queue_has_as_many_workers_as_cpus() {
    let start = Instant::now();
    let mut queue = one_waits_behind_another(start);
    for call in 3..20 {
        assert_eq!(queue.join(&ONE, call, start), Ok(NOBODY));
    }
    assert_eq!(end(&mut queue), (WorkerStep::Run(LANE, 2), NOBODY));
    let later = start + TICK;
    assert_eq!(
        look(&mut queue, later),
        (WorkerStep::Run(LANE, 3), ONE_MADE),
        "the second; and a new sentry"
    );
    assert_eq!(come(&mut queue), (WorkerStep::Watch, NOBODY));
    assert_eq!(end(&mut queue), (WorkerStep::Run(LANE, 4), NOBODY));
    assert_eq!(look(&mut queue, later + TICK), (WorkerStep::Watch, NOBODY), "not a third");
    assert_eq!(end(&mut queue), (WorkerStep::Run(LANE, 5), NOBODY));
    assert!(
        matches!(look(&mut queue, start + TOO_LONG).0, WorkerStep::Run(LANE, 6)),
        "but not for ever"
    );
}

#[test]
fn sentry_ends_after_an_idle_period() {
    let start = Instant::now();
    let mut queue = one_waits_behind_another(start);
    assert_eq!(end(&mut queue), (WorkerStep::Run(LANE, 2), NOBODY));
    for tick in 1..QUIET_TICKS {
        assert_eq!(look(&mut queue, start + TICK * tick), (WorkerStep::Watch, NOBODY));
    }
    assert_eq!(look(&mut queue, start + TICK * QUIET_TICKS), (WorkerStep::Rest, NOBODY));
    assert_eq!(queue.join(&ONE, 3, start), Ok(ONE_WOKEN), "call 2 is still being run");
    assert_eq!(come(&mut queue), (WorkerStep::Watch, NOBODY));
}

#[test]
fn call_beyond_the_bound_is_returned() {
    let start = Instant::now();
    let mut queue = CallQueue::new(QueueBounds { calls: 2, ..BOUNDS });
    assert!(queue.join(&ONE, 1, start).is_ok());
    assert!(queue.join(&ONE, 2, start).is_ok());
    assert_eq!(queue.join(&ONE, 3, start), Err(3));
}

#[test]
fn calls_are_returned_if_no_thread_starts() {
    let mut queue = CallQueue::new(BOUNDS);
    assert_eq!(queue.join(&ONE, 1, Instant::now()), Ok(ONE_MADE));
    assert_eq!(queue.take_unstarted(), [1]);
    assert!(queue.is_quiet());
    assert_eq!(queue.join(&ONE, 2, Instant::now()), Ok(ONE_MADE), "it is tried again");
}

#[test]
fn holder_bound_is_the_free_share_with_a_floor() {
    let start = Instant::now();
    let bounds = QueueBounds { calls: 20, holder_calls: 12, holder_floor: 3, ..BOUNDS };
    let mut queue = CallQueue::new(bounds);
    let mut join_all =
        |holder: u8| (0..100).take_while(|_| queue.join(&holder, 0, start).is_ok()).count();
    assert_eq!(join_all(1), 10, "half of all");
    assert_eq!(join_all(2), 5, "half of the rest");
    assert_eq!(join_all(3), 3, "the floor");
    assert_eq!(join_all(4), 2, "what is left");
    assert_eq!(queue.holders(), 4);
    let mut alone = CallQueue::new(QueueBounds { calls: 100, ..bounds });
    let joined = (0..100).take_while(|_| alone.join(&ONE, 0, start).is_ok()).count();
    assert_eq!(joined, 12, "the bound of one holder");
}

#[test]
fn holders_take_turns_regardless_of_call_count() {
    let start = Instant::now();
    let mut queue = CallQueue::new(QueueBounds { threads: 1, ..BOUNDS });
    for call in 0..40 {
        queue.join(&1, call, start).unwrap();
    }
    for call in 100..103 {
        queue.join(&2, call, start).unwrap();
    }
    queue.join(&3, 200, start).unwrap();
    let mut order = Vec::new();
    let mut step = come(&mut queue).0;
    while let WorkerStep::Run(lane, call) = step {
        order.push(call);
        step = queue.end(lane, &mut WorkerWakeups::default());
    }
    assert_eq!(order[..8], [0, 100, 200, 1, 101, 2, 102, 3]);
    assert_eq!(order.len(), 44);
}

#[test]
fn long_calls_of_one_holder_leave_workers_for_others() {
    let start = Instant::now();
    let mut queue = CallQueue::new(BOUNDS);
    queue.join(&1, 0, start).unwrap();
    assert!(matches!(come(&mut queue).0, WorkerStep::Run(_, 0)));
    for call in 1..50 {
        queue.join(&1, call, start).unwrap();
    }
    assert_eq!(come(&mut queue).0, WorkerStep::Watch);
    // No call ends: the queue stands still, and every call within its limit has a worker.
    let (step, wakeups) = look(&mut queue, start + TICK);
    assert!(matches!(step, WorkerStep::Run(..)));
    let mut running = 2;
    for _ in 0..wakeups.make {
        running += u32::from(matches!(come(&mut queue).0, WorkerStep::Run(..)));
    }
    assert_eq!(running, 9, "three quarters of twelve workers");
    assert_eq!(queue.join(&1, 50, start + TICK), Ok(NOBODY), "it may run no more");
    assert_eq!(queue.join(&2, 100, start + TICK).map(|wakeups| wakeups.wake + wakeups.make), Ok(1));
    assert!(
        matches!(come(&mut queue).0, WorkerStep::Run(_, 100)),
        "another holder's begins at once"
    );
}

#[test]
fn holder_at_its_bound_wakes_no_worker() {
    let start = Instant::now();
    let mut queue = CallQueue::new(QueueBounds { threads: 2, ..BOUNDS });
    queue.join(&1, 0, start).unwrap();
    assert!(matches!(come(&mut queue).0, WorkerStep::Run(_, 0)));
    for call in 1..5 {
        assert_eq!(queue.join(&1, call, start), Ok(NOBODY), "the other worker is for others");
    }
    assert!(matches!(end(&mut queue), (WorkerStep::Run(_, 1), NOBODY)), "an end leads to the next");
}

#[test]
fn lane_of_an_ended_holder_is_reused() {
    let start = Instant::now();
    let mut queue: CallQueue<u32, u32> = CallQueue::new(BOUNDS);
    for holder in 0..10_000 {
        let wakeups = queue.join(&holder, holder, start).unwrap();
        assert_eq!(wakeups.wake + wakeups.make, 1);
        let WorkerStep::Run(lane, call) = queue.come(&mut WorkerWakeups::default()) else {
            panic!("it waits")
        };
        assert_eq!(call, holder);
        assert_eq!(queue.end(lane, &mut WorkerWakeups::default()), WorkerStep::Rest);
    }
    assert!(queue.lanes.len() <= QUIET_LANES + 1 && queue.places.len() <= QUIET_LANES + 1);
    assert_eq!(queue.holders(), 0);
}

/// A simulation of the worker threads in any order of events.
#[derive(Default)]
struct SimulatedWorkers {
    called: usize,
    watching: usize,
    running: Vec<LaneId>,
}

impl SimulatedWorkers {
    /// Applies a step; returns the call that has started, if one did.
    fn obey<T>(&mut self, step: WorkerStep<T>, wakeups: WorkerWakeups) -> Option<T> {
        self.called += wakeups.wake + wakeups.make;
        match step {
            WorkerStep::Run(lane, call) => {
                self.running.push(lane);
                return Some(call);
            }
            WorkerStep::Watch => self.watching += 1,
            WorkerStep::Rest => {}
        }
        None
    }

    /// Performs the next possible event of one thread, chosen by `step`.
    fn act<T>(&mut self, queue: &mut CallQueue<u8, T>, step: u8, now: Instant) -> Option<T> {
        let mut wakeups = WorkerWakeups::default();
        let step = match step % 3 {
            0 if self.called > 0 => {
                self.called -= 1;
                queue.come(&mut wakeups)
            }
            1 if !self.running.is_empty() => {
                let lane = self.running.swap_remove(usize::from(step) % self.running.len());
                queue.end(lane, &mut wakeups)
            }
            2 if self.watching > 0 => {
                self.watching -= 1;
                queue.look(now, &mut wakeups)
            }
            _ => return None,
        };
        self.obey(step, wakeups)
    }
}

/// Every queued call by holder, with the number of calls of each other holder that have started
/// since it was queued.
type QueuedCalls = Vec<(u8, u32, std::collections::HashMap<u8, usize>)>;

/// Checks a started call: it is the first of its holder. Since it was queued, no other holder has
/// started more calls than its holder had queued, itself included.
fn check_turn(waiting: &mut QueuedCalls, (holder, call): (u8, u32)) {
    let at = waiting.iter().position(|(of, ..)| *of == holder).unwrap();
    let (_, first, others) = waiting.remove(at);
    assert_eq!(first, call, "in the order in which the holder's calls came");
    let ahead = others.get(&u8::MAX).copied().unwrap_or_default() + 1;
    for (other, began) in others {
        assert!(other == u8::MAX || began <= ahead, "{began} of {other} before {call} of {holder}");
    }
    for (of, _, others) in waiting {
        if *of != holder {
            *others.entry(holder).or_default() += 1;
        }
    }
}

proptest::proptest! {
    /// A holder that runs nothing waits for at most one call of each other holder for each of its
    /// own calls, however many the others have queued.
    #[test]
    fn holder_waits_for_one_call_of_each_other_per_call(
        steps in proptest::collection::vec((0_u8..8, proptest::num::u8::ANY), 1..400)
    ) {
        let (start, mut time) = (Instant::now(), Duration::ZERO);
        // With one worker the calls that a holder runs never delay itself.
        let mut queue = CallQueue::new(QueueBounds { threads: 1, calls: 1000, ..BOUNDS });
        let (mut threads, mut waiting, mut joined) = (SimulatedWorkers::default(), QueuedCalls::new(), 0);
        for (what, by) in steps {
            time += TICK;
            if what < 5 {
                // The first holder queues most calls.
                let holder = if by < 150 { 0 } else { by % 8 };
                let own = waiting.iter().filter(|(of, ..)| *of == holder).count();
                if let Ok(wakeups) = queue.join(&holder, (holder, joined), start + time) {
                    threads.called += wakeups.wake + wakeups.make;
                    waiting.push((holder, joined, [(u8::MAX, own)].into()));
                    joined += 1;
                }
            } else if let Some(began) = threads.act(&mut queue, by, start + time) {
                check_turn(&mut waiting, began);
            }
        }
        for step in [0, 1, 2].into_iter().cycle().take(9 * 400) {
            time += TICK;
            if let Some(began) = threads.act(&mut queue, step, start + time) {
                check_turn(&mut waiting, began);
            }
        }
        proptest::prop_assert!(waiting.is_empty() && queue.is_quiet());
    }

    /// In any order of events every queued call runs within a bounded number of steps. The workers
    /// never exceed their limit, and no holder has more than its part of them while another could
    /// use one.
    #[test]
    fn calls_all_run_and_no_holder_has_all_workers(
        steps in proptest::collection::vec((0_u8..4, proptest::num::u8::ANY), 1..300)
    ) {
        let (start, mut time) = (Instant::now(), Duration::ZERO);
        let mut queue = CallQueue::new(BOUNDS);
        let (mut threads, mut joined, mut ran) = (SimulatedWorkers::default(), 0, 0);
        let finish = (0..400_u16).flat_map(|_| [(1, 0), (1, 1), (1, 2)]);
        for (what, by) in steps.into_iter().chain(finish) {
            time += TICK;
            if what == 0 {
                if let Ok(wakeups) = queue.join(&(by % 3), by, start + time) {
                    threads.called += wakeups.wake + wakeups.make;
                    joined += 1;
                }
            } else if threads.act(&mut queue, by, start + time).is_some() {
                ran += 1;
            }
            let all = threads.called + threads.watching + threads.running.len();
            proptest::prop_assert!(all <= BOUNDS.threads && threads.watching <= 1);
            for lane in &threads.running {
                let own = threads.running.iter().filter(|other| *other == lane).count();
                proptest::prop_assert!(own <= BOUNDS.threads * 3 / 4);
            }
        }
        proptest::prop_assert_eq!(ran, joined);
        proptest::prop_assert!(queue.is_quiet());
    }
}

#[test]
fn blocking_calls_get_a_worker_each_at_once() {
    let now = Instant::now();
    let mut queue = CallQueue::new(QueueBounds { all_wait: true, ..BOUNDS });
    for call in 0..6 {
        let wakeups = queue.join(&1, call, now).unwrap();
        assert_eq!(wakeups, WorkerWakeups { wake: 0, make: 1 }, "the worker of call {call}");
    }
    for call in 0..6 {
        let step = queue.come(&mut WorkerWakeups::default());
        assert!(
            matches!(step, WorkerStep::Run(_, found) if found == call),
            "nobody watches: {step:?}"
        );
    }
}
