//! Leases: several opens of a key, steps, epochs; and, for any order of operations, that no client
//! has caching which another's forbids.

use super::*;

const NONE: CachingRights = CachingRights::NONE;
const R: CachingRights = CachingRights::READ;
const RH: CachingRights = CachingRights(3);
const RW: CachingRights = CachingRights(5);
const RWH: CachingRights = CachingRights(7);
const ONE: CacheOwner = lease(1);
const TWO: CacheOwner = lease(2);

const fn lease(key: u8) -> CacheOwner {
    CacheOwner::Key(CacheKey { client: [0; 16], key: [key; 16] })
}

/// Another open of `owner`, all of whose opens have data access.
fn open(caches: &mut Caches, owner: CacheOwner, wanted: CachingRights) -> CacheState {
    let others = [ONE, TWO, A, B].into_iter().filter(|other| *other != owner);
    let others_are_non_stat = others.map(|o| caches.non_stat_opens(o)).sum::<usize>() > 0;
    caches.grant(&GrantRequest {
        owner,
        wanted,
        epoch: 10,
        is_non_stat: true,
        others_are_non_stat,
        has_locks: false,
        is_delegation: false,
        others_conflict: false,
    })
}

fn with(held: &[(CacheOwner, CachingRights)]) -> Caches {
    let mut caches = Caches::default();
    for (owner, wanted) in held {
        assert_eq!(open(&mut caches, *owner, *wanted).has, *wanted);
    }
    caches
}

fn state(has: CachingRights, is_breaking: bool, epoch: u16) -> CacheState {
    CacheState { has, is_breaking, epoch }
}

#[test]
fn lease_without_read_caching_is_none() {
    let granted = |wanted| open(&mut Caches::default(), ONE, CachingRights(wanted)).has;
    let expected = [NONE, R, NONE, RH, NONE, RW, NONE, RWH];
    for (wanted, expected) in (0..).zip(expected) {
        assert_eq!(granted(wanted), expected, "{wanted}");
    }
    assert_eq!(granted(0xFF), RWH, "unknown bits");
}

#[test]
fn repeated_lease_request_upgrades_fully_or_not() {
    for held in [NONE, R, RH, RW, RWH] {
        for wanted in [NONE, R, RH, RW, RWH] {
            let mut caches = with(&[(ONE, held)]);
            let expected = if wanted.contains(held) { wanted } else { held };
            let changes = u16::from(held != NONE) + u16::from(expected != held);
            let got = open(&mut caches, ONE, wanted);
            assert_eq!(got, state(expected, false, 10 + changes), "{held:?} {wanted:?}");
        }
    }
    // Beside another lease: only rights that both can have, and no part of an upgrade.
    let mut caches = with(&[(ONE, R), (TWO, RH)]);
    assert_eq!(open(&mut caches, ONE, RWH).has, R);
    assert_eq!(open(&mut caches, ONE, RH).has, RH);
    assert_eq!(breaks(&mut caches), []);
}

#[test]
fn new_lease_gets_what_others_permit() {
    assert_eq!(open(&mut with(&[(ONE, RH)]), TWO, RWH).has, RH);
    assert_eq!(open(&mut with(&[(ONE, R)]), TWO, RW).has, R);
    // An oplock has no handle caching, and neither have leases beside one.
    assert_eq!(open(&mut with(&[(A, R)]), ONE, RWH).has, R);
    assert_eq!(open(&mut with(&[(ONE, RH)]), A, RWH).has, NONE);
    assert_eq!(open(&mut with(&[(ONE, R)]), A, RWH).has, R);
}

#[test]
fn opens_of_one_key_share_lease_until_last_close() {
    let mut caches = with(&[(ONE, RWH)]);
    open(&mut caches, ONE, NONE);
    let own = BreakRequest {
        demand: BreakReason::Replace,
        by: ONE,
        spares_leases: false,
        conflicts_with_read: false,
    };
    assert!(!caches.begin_breaks(&own));
    caches.handle_change(ONE);
    assert!(!caches.handle_name_change(ONE));
    assert_eq!(breaks(&mut caches), []);
    caches.handle_close(ONE, true);
    assert_eq!(caches.of(ONE), RWH);
    assert_eq!(caches.poll_removed_owner(), None);
    caches.handle_close(ONE, true);
    assert_eq!((caches.of(ONE), caches.poll_removed_owner()), (NONE, Some(ONE)));
    assert!(caches.is_empty());
}

#[test]
fn each_break_reason_takes_its_rights() {
    let after = |held, which| {
        let mut caches = with(&[(ONE, held)]);
        let waits = demand(&mut caches, which);
        (waits, breaks(&mut caches).first().map(|(_, to, acknowledge)| (*to, *acknowledge)))
    };
    assert_eq!(after(RWH, BreakReason::Share), (true, Some((RH, true))));
    assert_eq!(after(RW, BreakReason::Share), (true, Some((R, true))));
    assert_eq!(after(RH, BreakReason::Share), (false, None));
    assert_eq!(after(RWH, BreakReason::Conflict), (true, Some((RW, true))));
    assert_eq!(after(RH, BreakReason::Conflict), (true, Some((R, true))));
    assert_eq!(after(RW, BreakReason::Conflict), (false, None));
    assert_eq!(after(RWH, BreakReason::Replace), (true, Some((NONE, true))));
    // No dirty data must be written back first.
    assert_eq!(after(RH, BreakReason::Replace), (false, Some((NONE, true))));
    assert_eq!(after(R, BreakReason::Replace), (false, Some((NONE, false))));
}

#[test]
fn lease_break_during_break_goes_in_steps() {
    let mut caches = with(&[(ONE, RWH)]);
    assert!(demand(&mut caches, BreakReason::Share));
    assert!(demand(&mut caches, BreakReason::Replace));
    assert_eq!(breaks(&mut caches), [(ONE, RH, true)], "once");
    assert_eq!(caches.state(ONE), state(RWH, true, 12));
    // No upgrade during a break.
    assert_eq!(open(&mut caches, ONE, RWH), state(RWH, true, 12));
    let waiting = BreakRequest {
        demand: BreakReason::Share,
        by: STRANGER,
        spares_leases: false,
        conflicts_with_read: false,
    };
    for (keeps, next) in [(RH, Some((R, true))), (R, Some((NONE, false)))] {
        assert!(caches.holds_up(&waiting));
        assert_eq!(caches.handle_acknowledge(ONE, keeps), Ok(()));
        assert_eq!(breaks(&mut caches).pop().map(|(_, to, must)| (to, must)), next);
    }
    assert!(!caches.holds_up(&waiting) && caches.poll_settled());
    assert_eq!(caches.state(ONE), state(NONE, false, 12), "steps do not count");
}

#[test]
fn acknowledgement_may_retain_less_once() {
    for keeps in [RH, R, NONE] {
        let mut caches = with(&[(ONE, RWH)]);
        let early = caches.handle_acknowledge(ONE, keeps);
        assert_eq!(early, Err(AcknowledgeRefusal::NotBreaking));
        demand(&mut caches, BreakReason::Share);
        for too_much in [RWH, RW, CachingRights::WRITE] {
            let refused = caches.handle_acknowledge(ONE, too_much);
            assert_eq!(refused, Err(AcknowledgeRefusal::TooMuch));
            assert!(caches.is_breaking(ONE), "it can be done better");
        }
        assert_eq!(caches.handle_acknowledge(ONE, keeps), Ok(()));
        assert_eq!(caches.state(ONE), state(keeps, false, 12));
        let again = caches.handle_acknowledge(ONE, keeps);
        assert_eq!(again, Err(AcknowledgeRefusal::NotBreaking));
    }
}

#[test]
fn silent_client_loses_caching_and_retains_key() {
    let mut caches = with(&[(ONE, RWH)]);
    demand(&mut caches, BreakReason::Share);
    caches.handle_timeout(caches.latest_break());
    assert_eq!(caches.state(ONE), state(NONE, false, 12));
    assert_eq!(caches.poll_removed_owner(), None);
    assert_eq!(open(&mut caches, ONE, RWH).has, RWH, "no other owner exists");
}

#[test]
fn data_change_leaves_lease_of_its_maker() {
    let mut caches = with(&[(ONE, RH), (TWO, RH)]);
    caches.handle_change(ONE);
    caches.handle_change(ONE);
    assert_eq!(breaks(&mut caches), [(TWO, NONE, true)]);
    assert_eq!(caches.handle_acknowledge(TWO, NONE), Ok(()));
    caches.handle_change(TWO);
    assert_eq!(breaks(&mut caches), [(ONE, NONE, true)]);
}

#[test]
fn name_change_breaks_handle_caching_of_others() {
    let mut caches = with(&[(ONE, RH), (TWO, RH)]);
    assert!(caches.handle_name_change(ONE));
    assert_eq!(breaks(&mut caches), [(TWO, R, true)]);
    assert!(caches.has_handle_caching(ONE));
    caches.handle_acknowledge(TWO, R).unwrap();
    assert!(!caches.has_handle_caching(ONE) && !caches.handle_name_change(ONE));
    assert_eq!(caches.of(ONE), RH);
}

#[test]
fn directory_change_spares_parent_lease_key() {
    let mut caches = with(&[(ONE, RH), (TWO, RH)]);
    caches.handle_entry_change(Some([1; 16]));
    assert_eq!(breaks(&mut caches), [(TWO, NONE, true)]);
    caches.handle_entry_change(None);
    assert_eq!(breaks(&mut caches), [(ONE, NONE, true)]);
}

#[test]
fn read_control_breaks_oplocks_only() {
    let look = BreakRequest {
        demand: BreakReason::Share,
        by: STRANGER,
        spares_leases: true,
        conflicts_with_read: false,
    };
    let mut caches = with(&[(ONE, RWH)]);
    assert!(!caches.begin_breaks(&look) && !caches.holds_up(&look));
    let mut caches = with(&[(A, RWH)]);
    assert!(caches.begin_breaks(&look) && caches.holds_up(&look));
}

#[derive(Clone, Debug)]
enum LeaseStep {
    Open(usize, u8),
    BreakReason(usize, u8),
    Change(usize),
    NameChange(usize),
    Acknowledge(usize, u8),
    TimeOut,
    Close(usize),
}

const OWNERS: [CacheOwner; 5] = [ONE, TWO, lease(3), A, B];

fn steps() -> impl Strategy<Value = Vec<LeaseStep>> {
    let who = 0..OWNERS.len();
    let step = prop_oneof![
        3 => (who.clone(), 0..8u8).prop_map(|(who, wanted)| LeaseStep::Open(who, wanted)),
        2 => (who.clone(), 0..3u8).prop_map(|(who, which)| LeaseStep::BreakReason(who, which)),
        1 => who.clone().prop_map(LeaseStep::Change),
        1 => who.clone().prop_map(LeaseStep::NameChange),
        3 => (who.clone(), 0..8u8).prop_map(|(who, keeps)| LeaseStep::Acknowledge(who, keeps)),
        1 => Just(LeaseStep::TimeOut),
        2 => who.prop_map(LeaseStep::Close),
    ];
    prop::collection::vec(step, 0..60)
}

/// State of clients that rely on their notifications only.
#[derive(Default)]
struct LeaseClients {
    opens: [usize; OWNERS.len()],
    believe: [CachingRights; OWNERS.len()],
}

impl LeaseClients {
    fn receive_breaks(&mut self, caches: &mut Caches) {
        while let Some(cache_break) = caches.poll_break() {
            let at = OWNERS.iter().position(|owner| *owner == cache_break.owner).unwrap();
            assert_eq!(self.believe[at], cache_break.from, "the break names its caching");
            if !cache_break.acknowledge {
                self.believe[at] = cache_break.to;
            }
        }
    }

    /// A write cache is exclusive, and a handle cache excludes oplocks.
    fn check(&self) {
        let holders = || self.believe.iter().filter(|has| **has != NONE);
        let writes = holders().any(|has| has.contains(CachingRights::WRITE));
        assert!(!writes || holders().count() == 1, "{:?}", self.believe);
    }

    fn open(&mut self, caches: &mut Caches, at: usize, wanted: u8) {
        let owner = OWNERS[at];
        let is_oplock = matches!(owner, CacheOwner::Open(_));
        let request = BreakRequest {
            demand: BreakReason::Share,
            by: owner,
            spares_leases: false,
            conflicts_with_read: false,
        };
        if (is_oplock && self.opens[at] > 0) || caches.begin_breaks(&request) {
            return;
        }
        let others = (0..OWNERS.len()).filter(|other| *other != at).map(|o| self.opens[o]);
        self.believe[at] = caches
            .grant(&GrantRequest {
                owner,
                wanted: CachingRights(wanted),
                epoch: 0,
                is_non_stat: true,
                others_are_non_stat: others.sum::<usize>() > 0,
                has_locks: false,
                is_delegation: false,
                others_conflict: false,
            })
            .has;
        self.opens[at] += 1;
    }

    fn acknowledge(&mut self, caches: &mut Caches, at: usize, keeps: u8) {
        let was_asked = caches.is_breaking(OWNERS[at]);
        let result = caches.handle_acknowledge(OWNERS[at], CachingRights(keeps));
        assert_eq!(result == Err(AcknowledgeRefusal::NotBreaking), !was_asked);
        match result {
            Ok(()) => self.believe[at] = CachingRights(keeps),
            Err(AcknowledgeRefusal::TooMuch) if matches!(OWNERS[at], CacheOwner::Open(_)) => {
                self.believe[at] = NONE;
            }
            Err(_) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn writer_is_alone_and_states_match_notifications(steps in steps()) {
        let (mut caches, mut clients) = (Caches::default(), LeaseClients::default());
        for step in steps {
            match step {
                LeaseStep::Open(at, wanted) => clients.open(&mut caches, at, wanted),
                LeaseStep::BreakReason(by, which) => {
                    let demand = [BreakReason::Share, BreakReason::Replace, BreakReason::Conflict];
                    let demand = demand[usize::from(which)];
                    let request = BreakRequest { demand, by: OWNERS[by], spares_leases: false, conflicts_with_read: false };
                    caches.begin_breaks(&request);
                    // Once no holder blocks the open, incompatible caching is gone.
                    let waits_for = demand.waits_for();
                    let others = (0..OWNERS.len()).filter(|at| *at != by);
                    let left = others.into_iter().any(|at| caches.of(OWNERS[at]).intersects(waits_for));
                    prop_assert!(!left || caches.holds_up(&request));
                }
                LeaseStep::Change(at) => caches.handle_change(OWNERS[at]),
                LeaseStep::NameChange(at) => {
                    prop_assert_eq!(caches.handle_name_change(OWNERS[at]), caches.has_handle_caching(OWNERS[at]));
                }
                LeaseStep::Acknowledge(at, keeps) => clients.acknowledge(&mut caches, at, keeps),
                LeaseStep::TimeOut => {
                    for (owner, believes) in OWNERS.iter().zip(&mut clients.believe) {
                        if caches.is_breaking(*owner) { *believes = NONE; }
                    }
                    caches.handle_timeout(caches.latest_break());
                }
                LeaseStep::Close(at) if clients.opens[at] > 0 => {
                    clients.opens[at] -= 1;
                    caches.handle_close(OWNERS[at], true);
                    if clients.opens[at] == 0 { clients.believe[at] = NONE; }
                }
                LeaseStep::Close(_) => {}
            }
            clients.receive_breaks(&mut caches);
            clients.check();
            for (owner, believes) in OWNERS.iter().zip(clients.believe) {
                prop_assert_eq!(caches.of(*owner), believes, "{:?}", owner);
            }
            // The counts equal the sums over all holders.
            let mut counted = HolderCounts::default();
            caches.holders.iter().for_each(|holder| counted.add(holder));
            prop_assert_eq!(caches.counts, counted);
            prop_assert!(caches.holders.is_sorted_by_key(|holder| holder.owner));
        }
    }
}
