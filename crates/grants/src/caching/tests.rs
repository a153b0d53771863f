//! Oplocks: individual rules, then invariants; leases in a module below.

mod delegations;
mod leases;
mod storm;

use super::*;
use proptest::prelude::*;

const A: CacheOwner = CacheOwner::Open(OpenId(1));
const B: CacheOwner = CacheOwner::Open(OpenId(2));
const STRANGER: CacheOwner = CacheOwner::Open(OpenId(99));

fn breaks(caches: &mut Caches) -> Vec<(CacheOwner, CachingRights, bool)> {
    std::iter::from_fn(|| caches.poll_break()).map(|b| (b.owner, b.to, b.acknowledge)).collect()
}

fn grant(
    caches: &mut Caches,
    owner: CacheOwner,
    wanted: CachingRights,
    alone: bool,
    locks: bool,
) -> CachingRights {
    let request = GrantRequest {
        owner,
        wanted,
        epoch: 0,
        is_non_stat: true,
        others_are_non_stat: !alone,
        has_locks: locks,
        is_delegation: false,
        others_conflict: false,
    };
    caches.grant(&request).has
}

fn demand(caches: &mut Caches, demand: BreakReason) -> bool {
    caches.begin_breaks(&BreakRequest {
        demand,
        by: STRANGER,
        spares_leases: false,
        conflicts_with_read: false,
    })
}

fn with_batch() -> Caches {
    let mut caches = Caches::default();
    assert_eq!(grant(&mut caches, A, CachingRights::BATCH, true, false), CachingRights::BATCH);
    caches
}

#[test]
fn second_open_waits_for_batch_oplock_break() {
    let mut caches = with_batch();
    assert!(demand(&mut caches, BreakReason::Share));
    assert_eq!(breaks(&mut caches), [(A, CachingRights::LEVEL_II, true)]);
    // A repeated request sends no second notification.
    assert!(demand(&mut caches, BreakReason::Share));
    assert_eq!(breaks(&mut caches), []);
    assert!(!caches.poll_settled());
    assert_eq!(caches.handle_acknowledge(A, CachingRights::LEVEL_II), Ok(()));
    assert!(caches.poll_settled());
    assert!(!demand(&mut caches, BreakReason::Share));
    assert_eq!(grant(&mut caches, B, CachingRights::BATCH, false, false), CachingRights::LEVEL_II);
}

#[test]
fn break_is_repeated_until_acknowledged() {
    let mut caches = with_batch();
    caches.repeat_break(A);
    assert_eq!(breaks(&mut caches), []);
    assert!(demand(&mut caches, BreakReason::Share));
    let first = breaks(&mut caches);
    caches.repeat_break(A);
    assert_eq!(breaks(&mut caches), first);
    assert_eq!(caches.handle_acknowledge(A, CachingRights::LEVEL_II), Ok(()));
    caches.repeat_break(A);
    assert_eq!(breaks(&mut caches), []);
}

#[test]
fn reconnected_client_gets_break_timeout_once_more() {
    let mut caches = with_batch();
    assert!(demand(&mut caches, BreakReason::Share));
    let first = breaks(&mut caches);
    let before = caches.latest_break();
    caches.handle_reconnect(A);
    assert_eq!(breaks(&mut caches), first);
    caches.handle_timeout(before);
    assert!(demand(&mut caches, BreakReason::Share), "it has had no time since");
    let renewed = caches.latest_break();
    caches.handle_reconnect(A);
    assert_eq!(breaks(&mut caches), first);
    caches.handle_timeout(renewed);
    assert!(!demand(&mut caches, BreakReason::Share), "a reconnect does not extend the wait again");
}

#[test]
fn share_conflict_breaks_handle_caching_only() {
    let mut caches = with_batch();
    assert!(demand(&mut caches, BreakReason::Conflict));
    let mut caches = Caches::default();
    assert_eq!(
        grant(&mut caches, A, CachingRights::EXCLUSIVE, true, false),
        CachingRights::EXCLUSIVE
    );
    assert!(!demand(&mut caches, BreakReason::Conflict));
    assert_eq!(breaks(&mut caches), []);
}

#[test]
fn overwrite_breaks_all_and_waits_for_no_reader() {
    let mut caches = Caches::default();
    grant(&mut caches, A, CachingRights::LEVEL_II, false, false);
    assert!(!demand(&mut caches, BreakReason::Replace));
    assert_eq!(breaks(&mut caches), [(A, CachingRights::NONE, false)]);
    assert!(caches.is_empty());
    let mut caches = with_batch();
    assert!(demand(&mut caches, BreakReason::Replace));
    assert_eq!(breaks(&mut caches), [(A, CachingRights::NONE, true)]);
}

#[test]
fn data_change_breaks_readers_but_not_sole_writer() {
    let mut caches = with_batch();
    caches.handle_change(A);
    assert_eq!(breaks(&mut caches), []);
    let mut caches = Caches::default();
    grant(&mut caches, A, CachingRights::LEVEL_II, false, false);
    grant(&mut caches, B, CachingRights::LEVEL_II, false, false);
    caches.handle_change(A);
    let mut breaks = breaks(&mut caches);
    breaks.sort_by_key(|(id, ..)| *id);
    assert_eq!(breaks, [(A, CachingRights::NONE, false), (B, CachingRights::NONE, false)]);
}

#[test]
fn shutdown_breaks_write_and_handle_caching_once() {
    let mut caches = with_batch();
    assert_eq!(caches.handle_shutdown(), 1);
    assert_eq!(breaks(&mut caches), [(A, CachingRights::LEVEL_II, true)]);
    assert_eq!(caches.handle_shutdown(), 1, "it has not answered yet");
    assert_eq!(breaks(&mut caches), []);
    assert_eq!(caches.handle_acknowledge(A, CachingRights::LEVEL_II), Ok(()));
    assert_eq!(caches.handle_shutdown(), 0);
    assert_eq!(breaks(&mut caches), [], "read caching remains");
}

#[test]
fn acknowledging_too_much_loses_oplock() {
    let mut caches = with_batch();
    assert_eq!(
        caches.handle_acknowledge(A, CachingRights::NONE),
        Err(AcknowledgeRefusal::NotBreaking),
        "no break is outstanding"
    );
    demand(&mut caches, BreakReason::Share);
    assert_eq!(
        caches.handle_acknowledge(A, CachingRights::BATCH),
        Err(AcknowledgeRefusal::TooMuch)
    );
    assert!(caches.is_empty() && caches.poll_settled());
}

#[test]
fn timeout_ends_breaks_up_to_its_number() {
    let mut caches = with_batch();
    caches.handle_timeout(caches.latest_break());
    assert_eq!(caches.of(A), CachingRights::BATCH, "it was never broken");
    demand(&mut caches, BreakReason::Share);
    caches.handle_timeout(BreakNumber(0));
    assert!(caches.is_breaking(A), "it began later");
    caches.handle_timeout(caches.latest_break());
    assert!(caches.is_empty() && caches.poll_settled());
}

#[test]
fn locks_and_other_opens_limit_caching() {
    let grant =
        |wanted, alone, locks| super::tests::grant(&mut Caches::default(), A, wanted, alone, locks);
    assert_eq!(grant(CachingRights::BATCH, true, true), CachingRights::NONE);
    assert_eq!(grant(CachingRights::EXCLUSIVE, false, false), CachingRights::LEVEL_II);
    assert_eq!(grant(CachingRights::LEVEL_II, true, false), CachingRights::LEVEL_II);
    assert_eq!(grant(CachingRights::NONE, true, false), CachingRights::NONE);
    let mut caches = with_batch();
    assert_eq!(
        super::tests::grant(&mut caches, B, CachingRights::LEVEL_II, false, false),
        CachingRights::NONE,
        "A has write caching"
    );
}

#[derive(Clone, Debug)]
enum OplockStep {
    Grant(u64, u8, bool, bool),
    BreakReason(u8),
    Change(u64),
    Acknowledge(u64, u8),
    TimeOut,
    Close(u64),
}

fn open(id: u64) -> CacheOwner {
    CacheOwner::Open(OpenId(id))
}

fn steps() -> impl Strategy<Value = Vec<OplockStep>> {
    let step = prop_oneof![
        (0..4u64, 0..8u8, any::<bool>(), any::<bool>())
            .prop_map(|(id, wanted, alone, locks)| OplockStep::Grant(id, wanted, alone, locks)),
        (0..3u8).prop_map(OplockStep::BreakReason),
        (0..4u64).prop_map(OplockStep::Change),
        (0..4u64, 0..8u8).prop_map(|(id, keeps)| OplockStep::Acknowledge(id, keeps)),
        Just(OplockStep::TimeOut),
        (0..4u64).prop_map(OplockStep::Close),
    ];
    prop::collection::vec(step, 0..40)
}

proptest! {
    #[test]
    fn caching_permits_one_writer_and_notifies_each_loss(steps in steps()) {
        let mut caches = Caches::default();
        // Caching that each client believes to have.
        let mut believes = [CachingRights::NONE; 4];
        for step in steps {
            let asked: Vec<u64> = (0..4).filter(|&id| caches.is_breaking(open(id))).collect();
            match step {
                OplockStep::Grant(id, wanted, alone, locks) if caches.of(open(id)) == CachingRights::NONE => {
                    // As in `FileGrants`: an open that must wait is not granted.
                    if demand(&mut caches, BreakReason::Share) { continue }
                    believes[id as usize] = grant(&mut caches, open(id), CachingRights(wanted), alone, locks);
                }
                OplockStep::Grant(..) => {}
                OplockStep::BreakReason(which) => {
                    let demand = [BreakReason::Share, BreakReason::Replace, BreakReason::Conflict][usize::from(which)];
                    self::demand(&mut caches, demand);
                }
                OplockStep::Change(id) => caches.handle_change(open(id)),
                OplockStep::Acknowledge(id, keeps) => {
                    let result = caches.handle_acknowledge(open(id), CachingRights(keeps));
                    prop_assert_eq!(result == Err(AcknowledgeRefusal::NotBreaking), !asked.contains(&id));
                    if result != Err(AcknowledgeRefusal::NotBreaking) {
                        believes[id as usize] =
                            if result.is_ok() { CachingRights(keeps) } else { CachingRights::NONE };
                    }
                }
                OplockStep::TimeOut => {
                    caches.handle_timeout(caches.latest_break());
                    for id in asked { believes[id as usize] = CachingRights::NONE; }
                }
                OplockStep::Close(id) => {
                    caches.handle_close(open(id), true);
                    believes[id as usize] = CachingRights::NONE;
                }
            }
            while let Some(cache_break) = caches.poll_break() {
                let CacheOwner::Open(id) = cache_break.owner else { continue };
                if !cache_break.acknowledge { believes[id.0 as usize] = cache_break.to; }
            }
            for id in 0..4 {
                prop_assert_eq!(caches.of(open(id)), believes[id as usize], "open {}", id);
            }
            let writers = believes.iter().filter(|b| b.contains(CachingRights::WRITE)).count();
            let holders = believes.iter().filter(|b| **b != CachingRights::NONE).count();
            prop_assert!(writers == 0 || holders == 1, "{:?}", believes);
        }
    }
}
