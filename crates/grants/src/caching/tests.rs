//! Oplocks, rule by rule, and against what must always hold.

use super::*;
use proptest::prelude::*;

const A: OpenId = OpenId(1);
const B: OpenId = OpenId(2);

fn told(caches: &mut Caches) -> Vec<(OpenId, Caching, bool)> {
    std::iter::from_fn(|| caches.poll_break()).map(|b| (b.id, b.to, b.acknowledge)).collect()
}

fn with_batch() -> Caches {
    let mut caches = Caches::default();
    assert_eq!(caches.grant(A, Caching::BATCH, true, false), Caching::BATCH);
    caches
}

#[test]
fn a_second_open_waits_until_a_batch_oplock_is_down_to_reading() {
    let mut caches = with_batch();
    assert!(caches.handle_demand(Demand::Share));
    assert_eq!(told(&mut caches), [(A, Caching::LEVEL_II, true)]);
    // Asked twice, told once.
    assert!(caches.handle_demand(Demand::Share));
    assert_eq!(told(&mut caches), []);
    assert!(!caches.poll_settled());
    assert_eq!(caches.handle_acknowledge(A, Caching::LEVEL_II), Ok(()));
    assert!(caches.poll_settled());
    assert!(!caches.handle_demand(Demand::Share));
    assert_eq!(caches.grant(B, Caching::BATCH, false, false), Caching::LEVEL_II);
}

#[test]
fn a_conflict_breaks_what_keeps_handles_only() {
    let mut caches = with_batch();
    assert!(caches.handle_demand(Demand::Conflict));
    let mut caches = Caches::default();
    assert_eq!(caches.grant(A, Caching::EXCLUSIVE, true, false), Caching::EXCLUSIVE);
    assert!(!caches.handle_demand(Demand::Conflict));
    assert_eq!(told(&mut caches), []);
}

#[test]
fn replacing_takes_all_and_does_not_wait_for_readers() {
    let mut caches = Caches::default();
    caches.grant(A, Caching::LEVEL_II, false, false);
    assert!(!caches.handle_demand(Demand::Replace));
    assert_eq!(told(&mut caches), [(A, Caching::NONE, false)]);
    assert!(caches.is_empty());
    let mut caches = with_batch();
    assert!(caches.handle_demand(Demand::Replace));
    assert_eq!(told(&mut caches), [(A, Caching::NONE, true)]);
}

#[test]
fn a_change_breaks_all_readers_but_not_who_alone_may_write() {
    let mut caches = with_batch();
    caches.handle_change(A);
    assert_eq!(told(&mut caches), []);
    let mut caches = Caches::default();
    caches.grant(A, Caching::LEVEL_II, false, false);
    caches.grant(B, Caching::LEVEL_II, false, false);
    caches.handle_change(A);
    let mut told = told(&mut caches);
    told.sort_by_key(|(id, ..)| *id);
    assert_eq!(told, [(A, Caching::NONE, false), (B, Caching::NONE, false)]);
}

#[test]
fn keeping_more_than_allowed_loses_all() {
    let mut caches = with_batch();
    assert_eq!(
        caches.handle_acknowledge(A, Caching::NONE),
        Err(AcknowledgeRefusal::NotBreaking),
        "nobody asked"
    );
    caches.handle_demand(Demand::Share);
    assert_eq!(caches.handle_acknowledge(A, Caching::BATCH), Err(AcknowledgeRefusal::TooMuch));
    assert!(caches.is_empty() && caches.poll_settled());
}

#[test]
fn a_time_out_ends_the_breaks_that_had_the_time() {
    let mut caches = with_batch();
    caches.handle_timeout(caches.latest_break());
    assert_eq!(caches.of(A), Caching::BATCH, "it was never asked");
    caches.handle_demand(Demand::Share);
    caches.handle_timeout(BreakNumber(0));
    assert!(caches.is_breaking(A), "it began later");
    caches.handle_timeout(caches.latest_break());
    assert!(caches.is_empty() && caches.poll_settled());
}

#[test]
fn locks_and_other_opens_leave_less() {
    let grant = |wanted, alone, locks| Caches::default().grant(A, wanted, alone, locks);
    assert_eq!(grant(Caching::BATCH, true, true), Caching::NONE);
    assert_eq!(grant(Caching::EXCLUSIVE, false, false), Caching::LEVEL_II);
    assert_eq!(grant(Caching::LEVEL_II, true, false), Caching::LEVEL_II);
    assert_eq!(grant(Caching::NONE, true, false), Caching::NONE);
    let mut caches = with_batch();
    assert_eq!(caches.grant(B, Caching::LEVEL_II, false, false), Caching::NONE, "A keeps writes");
}

#[derive(Clone, Debug)]
enum Step {
    Grant(u64, u8, bool, bool),
    Demand(u8),
    Change(u64),
    Acknowledge(u64, u8),
    TimeOut,
    Close(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..4u64, 0..8u8, any::<bool>(), any::<bool>())
            .prop_map(|(id, wanted, alone, locks)| Step::Grant(id, wanted, alone, locks)),
        (0..3u8).prop_map(Step::Demand),
        (0..4u64).prop_map(Step::Change),
        (0..4u64, 0..8u8).prop_map(|(id, keeps)| Step::Acknowledge(id, keeps)),
        Just(Step::TimeOut),
        (0..4u64).prop_map(Step::Close),
    ];
    prop::collection::vec(step, 0..40)
}

proptest! {
    #[test]
    fn one_writer_at_most_and_everyone_who_loses_is_told(steps in steps()) {
        let mut caches = Caches::default();
        // What each client believes that it has.
        let mut believes = [Caching::NONE; 4];
        for step in steps {
            let asked: Vec<u64> = (0..4).filter(|&id| caches.is_breaking(OpenId(id))).collect();
            match step {
                Step::Grant(id, wanted, alone, locks) if caches.of(OpenId(id)) == Caching::NONE => {
                    // As `FileGrants` does: an open that must wait is not granted.
                    if caches.handle_demand(Demand::Share) { continue }
                    believes[id as usize] = caches.grant(OpenId(id), Caching(wanted), alone, locks);
                }
                Step::Grant(..) => {}
                Step::Demand(which) => {
                    let demand = [Demand::Share, Demand::Replace, Demand::Conflict][usize::from(which)];
                    caches.handle_demand(demand);
                }
                Step::Change(id) => caches.handle_change(OpenId(id)),
                Step::Acknowledge(id, keeps) => {
                    let result = caches.handle_acknowledge(OpenId(id), Caching(keeps));
                    prop_assert_eq!(result == Err(AcknowledgeRefusal::NotBreaking), !asked.contains(&id));
                    if result != Err(AcknowledgeRefusal::NotBreaking) {
                        believes[id as usize] =
                            if result.is_ok() { Caching(keeps) } else { Caching::NONE };
                    }
                }
                Step::TimeOut => {
                    caches.handle_timeout(caches.latest_break());
                    for id in asked { believes[id as usize] = Caching::NONE; }
                }
                Step::Close(id) => {
                    caches.handle_close(OpenId(id));
                    believes[id as usize] = Caching::NONE;
                }
            }
            while let Some(told) = caches.poll_break() {
                if !told.acknowledge { believes[told.id.0 as usize] = told.to; }
            }
            for id in 0..4 {
                prop_assert_eq!(caches.of(OpenId(id)), believes[id as usize], "open {}", id);
            }
            let writers = believes.iter().filter(|b| b.contains(Caching::WRITE)).count();
            let holders = believes.iter().filter(|b| **b != Caching::NONE).count();
            prop_assert!(writers == 0 || holders == 1, "{:?}", believes);
        }
    }
}
