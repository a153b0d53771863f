//! Who is called when, with times that the tests choose.

use super::*;

const BOUNDS: Bounds = Bounds { calls: 100, threads: 8, processors: 2 };
const NOBODY: Summons = Summons { wake: 0, make: 0 };
const ONE_MADE: Summons = Summons { wake: 0, make: 1 };
const ONE_WOKEN: Summons = Summons { wake: 1, make: 0 };

fn come(line: &mut Line<u32>) -> (Duty<u32>, Summons) {
    let mut summons = Summons::default();
    (line.come(&mut summons), summons)
}

fn end(line: &mut Line<u32>) -> (Duty<u32>, Summons) {
    let mut summons = Summons::default();
    (line.end(&mut summons), summons)
}

fn look(line: &mut Line<u32>, now: Instant) -> (Duty<u32>, Summons) {
    let mut summons = Summons::default();
    (line.look(now, &mut summons), summons)
}

/// One worker that runs call 1, call 2 behind it, and a sentry.
fn one_waits_behind_another(start: Instant) -> Line<u32> {
    let mut line = Line::new(BOUNDS);
    assert_eq!(line.join(1, start), Ok(ONE_MADE));
    assert_eq!(come(&mut line), (Duty::Run(1), NOBODY));
    assert_eq!(line.join(2, start), Ok(ONE_MADE), "somebody must look whether this one waits long");
    assert_eq!(come(&mut line), (Duty::Watch, NOBODY));
    line
}

#[test]
fn one_worker_takes_quick_calls_one_after_the_other() {
    let start = Instant::now();
    let mut line = one_waits_behind_another(start);
    for call in 3..50 {
        assert_eq!(line.join(call, start), Ok(NOBODY));
    }
    for call in 2..50 {
        assert_eq!(end(&mut line), (Duty::Run(call), NOBODY));
    }
    assert_eq!(end(&mut line), (Duty::Rest, NOBODY));
    assert_eq!(line.join(50, start), Ok(ONE_WOKEN), "nobody else is made");
}

#[test]
fn a_worker_alone_needs_no_sentry() {
    let start = Instant::now();
    let mut line = Line::new(BOUNDS);
    assert_eq!(line.join(1, start), Ok(ONE_MADE));
    assert_eq!(come(&mut line), (Duty::Run(1), NOBODY));
    assert_eq!(end(&mut line), (Duty::Rest, NOBODY));
    assert_eq!(line.join(2, start), Ok(ONE_WOKEN));
    assert!(!line.is_quiet());
}

#[test]
fn once_the_line_stands_still_every_call_has_a_worker() {
    let start = Instant::now();
    let mut line = one_waits_behind_another(start);
    for call in 3..6 {
        assert_eq!(line.join(call, start), Ok(NOBODY));
    }
    assert_eq!(look(&mut line, start + TICK / 2), (Duty::Watch, NOBODY), "not yet");
    let later = start + TICK;
    let all = Summons { wake: 0, make: 3 };
    assert_eq!(look(&mut line, later), (Duty::Run(2), all), "three more for 3, 4 and 5");
    for call in 3..6 {
        assert!(matches!(come(&mut line), (Duty::Run(n), _) if n == call));
    }
    assert_eq!(line.join(6, later), Ok(ONE_MADE), "and so for a while");
    assert!(matches!(come(&mut line).0, Duty::Run(6)));
    let past = later + SPREAD;
    assert_eq!(line.join(7, past), Ok(ONE_MADE), "then one looks again");
    assert_eq!(come(&mut line), (Duty::Watch, NOBODY));
}

#[test]
fn a_line_that_moves_has_as_many_workers_as_processors() {
    let start = Instant::now();
    let mut line = one_waits_behind_another(start);
    for call in 3..20 {
        assert_eq!(line.join(call, start), Ok(NOBODY));
    }
    assert_eq!(end(&mut line), (Duty::Run(2), NOBODY));
    let later = start + TICK;
    assert_eq!(look(&mut line, later), (Duty::Run(3), ONE_MADE), "the second; and a new sentry");
    assert_eq!(come(&mut line), (Duty::Watch, NOBODY));
    assert_eq!(end(&mut line), (Duty::Run(4), NOBODY));
    assert_eq!(look(&mut line, later + TICK), (Duty::Watch, NOBODY), "not a third");
    assert_eq!(end(&mut line), (Duty::Run(5), NOBODY));
    assert!(matches!(look(&mut line, start + TOO_LONG).0, Duty::Run(6)), "but not for ever");
}

#[test]
fn the_sentry_leaves_when_nothing_waits_for_a_while() {
    let start = Instant::now();
    let mut line = one_waits_behind_another(start);
    assert_eq!(end(&mut line), (Duty::Run(2), NOBODY));
    for tick in 1..QUIET_TICKS {
        assert_eq!(look(&mut line, start + TICK * tick), (Duty::Watch, NOBODY));
    }
    assert_eq!(look(&mut line, start + TICK * QUIET_TICKS), (Duty::Rest, NOBODY));
    assert_eq!(line.join(3, start), Ok(ONE_WOKEN), "call 2 is still being run");
    assert_eq!(come(&mut line), (Duty::Watch, NOBODY));
}

#[test]
fn what_does_not_fit_comes_back() {
    let start = Instant::now();
    let mut line = Line::new(Bounds { calls: 2, ..BOUNDS });
    assert!(line.join(1, start).is_ok());
    assert!(line.join(2, start).is_ok());
    assert_eq!(line.join(3, start), Err(3));
}

#[test]
fn without_any_thread_the_calls_come_back() {
    let mut line = Line::new(BOUNDS);
    assert_eq!(line.join(1, Instant::now()), Ok(ONE_MADE));
    assert_eq!(line.not_made(), [1]);
    assert!(line.is_quiet());
    assert_eq!(line.join(2, Instant::now()), Ok(ONE_MADE), "it is tried again");
}

proptest::proptest! {
    /// Threads do what they are told in any order: whatever joins is run, in a bounded
    /// number of steps, by as many workers as are allowed at most.
    #[test]
    fn nothing_that_joined_is_forgotten(steps in proptest::collection::vec(0_u8..4, 1..300)) {
        let (start, mut time) = (Instant::now(), Duration::ZERO);
        let mut line = Line::new(BOUNDS);
        let (mut joined, mut ran) = (0, 0);
        let (mut called, mut busy, mut watching) = (0, 0, 0);
        let finish = [0; 400].into_iter().flat_map(|_| [1, 2, 3]);
        for step in steps.into_iter().chain(finish) {
            let mut summons = Summons::default();
            time += TICK;
            let duty = match step {
                0 => {
                    joined += 1;
                    summons = line.join(joined, start + time).unwrap();
                    None
                }
                1 if called > 0 => { called -= 1; Some(line.come(&mut summons)) }
                2 if busy > 0 => { busy -= 1; Some(line.end(&mut summons)) }
                3 if watching > 0 => {
                    watching -= 1;
                    Some(line.look(start + time, &mut summons))
                }
                _ => None,
            };
            called += summons.wake + summons.make;
            match duty {
                Some(Duty::Run(_)) => { ran += 1; busy += 1 }
                Some(Duty::Watch) => watching += 1,
                Some(Duty::Rest) | None => (),
            }
            proptest::prop_assert!(called + busy + watching <= BOUNDS.threads);
            proptest::prop_assert!(watching <= 1);
        }
        proptest::prop_assert_eq!(ran, joined);
        proptest::prop_assert!(line.is_quiet());
    }
}
