//! Tests by behaviour, then random operations against a naive model, then every interleaving of two
//! clients.

use super::*;
use crate::{LockKind, Range, RangeLock};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const L: LinkId = LinkId(1);
const READ: Access = Access::READ_DATA;
const WRITE: Access = Access::WRITE_DATA;

fn wish(id: u64, access: Access, share: ShareMode) -> OpenWish {
    OpenWish { link: L, only_link: true, ..OpenWish::new(OpenId(id), access, share) }
}

/// Caching state of an open without caching.
const NOTHING: CacheState = CacheState { has: CachingRights::NONE, is_breaking: false, epoch: 0 };

fn delete_on_close(id: u64) -> OpenWish {
    OpenWish { delete_on_close: true, ..wish(id, Access::DELETE, ShareMode::ALL) }
}

fn closed(last: bool, remove: Option<LinkId>) -> CloseOutcome {
    CloseOutcome { last, remove }
}

#[test]
fn share_modes_bind_both_opens() {
    let mut file = FileGrants::default();
    file.handle_open(&wish(1, READ, ShareMode::READ)).unwrap();
    assert_eq!(
        file.handle_open(&wish(2, WRITE, ShareMode::ALL)),
        Err(GrantRefusal::ShareViolation)
    );
    assert_eq!(
        file.handle_open(&wish(2, READ, ShareMode::WRITE)),
        Err(GrantRefusal::ShareViolation)
    );
    assert_eq!(file.handle_open(&wish(2, READ, ShareMode::READ)), Ok(NOTHING));
    assert_eq!(file.open_count(), 2);
}

#[test]
fn append_counts_as_write_and_execute_as_read() {
    let mut file = FileGrants::default();
    file.handle_open(&wish(1, Access::EXECUTE, ShareMode::READ)).unwrap();
    assert_eq!(
        file.handle_open(&wish(2, Access::APPEND_DATA, ShareMode::ALL)),
        Err(GrantRefusal::ShareViolation)
    );
    assert_eq!(
        file.handle_open(&wish(2, Access::DELETE, ShareMode::ALL)),
        Err(GrantRefusal::ShareViolation)
    );
    assert_eq!(
        file.handle_open(&wish(2, READ, ShareMode::DELETE)),
        Err(GrantRefusal::ShareViolation)
    );
    assert_eq!(file.handle_open(&wish(2, READ, ShareMode::READ)), Ok(NOTHING));
}

#[test]
fn attribute_open_conflicts_with_nothing() {
    let mut file = FileGrants::default();
    let look = Access::READ_ATTRIBUTES
        | Access::WRITE_ATTRIBUTES
        | Access::READ_CONTROL
        | Access::SYNCHRONIZE;
    file.handle_open(&wish(1, WRITE, ShareMode::default())).unwrap();
    assert_eq!(file.handle_open(&wish(2, look, ShareMode::default())), Ok(NOTHING));
    file.handle_close(OpenId(1));
    assert_eq!(file.handle_open(&wish(3, WRITE | READ, ShareMode::default())), Ok(NOTHING));
}

#[test]
fn closed_open_denies_nothing() {
    let mut file = FileGrants::default();
    file.handle_open(&wish(1, READ, ShareMode::default())).unwrap();
    assert_eq!(file.handle_open(&wish(2, READ, ShareMode::ALL)), Err(GrantRefusal::ShareViolation));
    assert_eq!(file.handle_close(OpenId(1)), closed(true, None));
    assert_eq!(file.handle_open(&wish(2, READ, ShareMode::ALL)), Ok(NOTHING));
}

#[test]
fn right_used_once_is_checked_and_not_retained() {
    let mut file = FileGrants::default();
    file.handle_open(&wish(1, READ, ShareMode::READ)).unwrap();
    let cut = OpenWish { opening_access: WRITE, ..wish(2, READ, ShareMode::ALL) };
    assert_eq!(file.handle_open(&cut), Err(GrantRefusal::ShareViolation));
    file.handle_close(OpenId(1));
    assert_eq!(file.handle_open(&cut), Ok(NOTHING));
    assert_eq!(file.handle_open(&wish(3, READ, ShareMode::READ)), Ok(NOTHING), "the cut is over");
}

#[test]
fn delete_on_close_becomes_pending_until_last_close() {
    let mut file = FileGrants::default();
    file.handle_open(&delete_on_close(1)).unwrap();
    file.handle_open(&wish(2, READ, ShareMode::ALL)).unwrap();
    assert!(!file.is_delete_pending(L), "it is invisible before the close");
    assert_eq!(file.handle_close(OpenId(1)), closed(false, None));
    assert!(file.is_delete_pending(L));
    assert_eq!(file.handle_open(&wish(3, READ, ShareMode::ALL)), Err(GrantRefusal::DeletePending));
    assert_eq!(file.handle_close(OpenId(2)), closed(true, Some(L)));
    assert_eq!(file.handle_close(OpenId(2)), CloseOutcome::default(), "closing twice does nothing");
    assert_eq!(
        file.handle_open(&wish(3, READ, ShareMode::ALL)),
        Err(GrantRefusal::DeletePending),
        "it is in removal"
    );
    assert!(!file.is_idle());
    file.handle_removed(L);
    assert!(file.is_idle());
}

#[test]
fn posix_opens_do_not_pin_name() {
    let mut file = FileGrants::default();
    let posix = |wish| OpenWish { posix: true, ..wish };
    file.handle_open(&posix(wish(1, READ, ShareMode::ALL))).unwrap();
    file.handle_open(&wish(2, READ, ShareMode::ALL)).unwrap();
    file.handle_open(&posix(delete_on_close(3))).unwrap();
    assert!(!file.all_posix());
    assert_eq!(file.handle_close(OpenId(3)), closed(false, None), "the Windows open pins it");
    assert_eq!(file.handle_close(OpenId(2)), closed(false, Some(L)));
    assert!(file.all_posix());
    file.handle_disposition(OpenId(1), false);
    assert!(file.is_delete_pending(L), "it is in removal: too late to clear");
    assert_eq!(file.handle_close(OpenId(1)), closed(true, None));
    assert!(!file.is_idle(), "until it is removed");
    file.handle_removed(L);
    assert!(file.is_idle());
}

#[test]
fn cleared_disposition_removes_nothing() {
    let mut file = FileGrants::default();
    file.handle_open(&wish(1, Access::DELETE, ShareMode::ALL)).unwrap();
    file.handle_disposition(OpenId(1), true);
    file.handle_disposition(OpenId(1), true);
    assert!(file.is_delete_pending(L));
    file.handle_disposition(OpenId(1), false);
    assert_eq!(file.handle_open(&wish(2, READ, ShareMode::ALL)), Ok(NOTHING));
    assert_eq!(file.handle_close(OpenId(1)), closed(false, None));
    assert_eq!(file.handle_close(OpenId(2)), closed(true, None));
}

#[test]
fn withdrawn_open_keeps_others_deletion() {
    let mut file = FileGrants::default();
    file.handle_open(&delete_on_close(1)).unwrap();
    assert_eq!(file.handle_withdraw(OpenId(1)), closed(true, None));

    file.handle_open(&wish(2, Access::DELETE, ShareMode::ALL)).unwrap();
    file.handle_open(&wish(3, READ, ShareMode::ALL)).unwrap();
    file.handle_disposition(OpenId(2), true);
    assert_eq!(file.handle_close(OpenId(2)), closed(false, None));
    assert_eq!(file.handle_withdraw(OpenId(3)), closed(true, Some(L)));
}

#[test]
fn deleting_one_name_leaves_the_other_usable() {
    let mut file = FileGrants::default();
    let (a, b) = (file.new_link(), file.new_link());
    let by = |link, wish: OpenWish| OpenWish { link, only_link: false, ..wish };
    file.handle_open(&by(a, delete_on_close(1))).unwrap();
    file.handle_open(&by(b, wish(2, READ, ShareMode::ALL))).unwrap();
    assert_eq!(
        file.handle_close(OpenId(1)),
        closed(false, Some(a)),
        "no other open came by this name"
    );
    assert_eq!(
        file.handle_open(&by(a, wish(3, READ, ShareMode::ALL))),
        Err(GrantRefusal::DeletePending)
    );
    assert_eq!(file.handle_open(&by(b, wish(3, READ, ShareMode::ALL))), Ok(NOTHING));
    assert_eq!(file.handle_open(&by(b, wish(4, READ, ShareMode::READ))), Ok(NOTHING));
    file.handle_removed(a);
    assert_eq!(file.handle_close(OpenId(2)), closed(false, None));
}

#[test]
fn only_link_is_delete_pending_by_any_path() {
    let mut file = FileGrants::default();
    file.handle_open(&delete_on_close(1)).unwrap();
    file.handle_open(&wish(2, READ, ShareMode::ALL)).unwrap();
    file.handle_close(OpenId(1));
    let elsewhere = OpenWish { link: LinkId(9), ..wish(3, READ, ShareMode::ALL) };
    assert_eq!(file.check_open(&elsewhere), Err(GrantRefusal::DeletePending));
    assert_eq!(file.check_open(&OpenWish { only_link: false, ..elsewhere }), Ok(()));
}

#[test]
fn own_share_mode_permits_own_rename() {
    let mut file = FileGrants::default();
    file.handle_open(&wish(1, Access::DELETE, ShareMode::READ)).unwrap();
    assert!(!file.others_forbid_delete(OpenId(1)));
    assert!(file.others_forbid_delete(OpenId(7)));
}

#[test]
fn opens_of_one_file_are_limited() {
    let mut file = FileGrants::default();
    for id in 0..FileGrants::OPENS_MAX as u64 {
        file.handle_open(&wish(id, READ, ShareMode::ALL)).unwrap();
    }
    let one_more = wish(u64::MAX, READ, ShareMode::ALL);
    assert_eq!(file.handle_open(&one_more), Err(GrantRefusal::TooMany));
    file.handle_close(OpenId(3));
    assert_eq!(file.handle_open(&one_more), Ok(NOTHING));
}

#[test]
fn stat_open_spares_oplock_and_read_breaks_it() {
    let mut file = FileGrants::default();
    let batch =
        |id, access| OpenWish { caching: CachingRights::BATCH, ..wish(id, access, ShareMode::ALL) };
    file.handle_open(&wish(1, Access::READ_ATTRIBUTES, ShareMode::ALL)).unwrap();
    assert_eq!(
        file.handle_open(&batch(2, READ)).map(|s| s.has),
        Ok(CachingRights::BATCH),
        "the other only looks"
    );
    file.handle_open(&wish(3, Access::WRITE_ATTRIBUTES, ShareMode::default())).unwrap();
    assert_eq!(file.caches.poll_break(), None);
    let refused = file.handle_open(&batch(4, READ)).map(|s| s.has).unwrap_err();
    assert!(matches!(refused, GrantRefusal::Breaking(_)), "{refused:?}");
    assert!(!file.is_open(OpenId(4)));
    file.caches.handle_acknowledge(CacheOwner::Open(OpenId(2)), CachingRights::LEVEL_II).unwrap();
    assert_eq!(file.handle_open(&batch(4, READ)).map(|s| s.has), Ok(CachingRights::LEVEL_II));
}

#[test]
fn batch_oplock_is_broken_before_share_violation() {
    let mut file = FileGrants::default();
    let batch = OpenWish { caching: CachingRights::BATCH, ..wish(1, WRITE, ShareMode::default()) };
    file.handle_open(&batch).unwrap();
    assert!(matches!(
        file.handle_open(&wish(2, READ, ShareMode::ALL)),
        Err(GrantRefusal::Breaking(_))
    ));
    file.handle_close(OpenId(1));
    assert!(file.caches.poll_settled());
    assert_eq!(file.handle_open(&wish(2, READ, ShareMode::ALL)), Ok(NOTHING));
}

/// Pairwise rules.
#[derive(Default)]
struct FileOpensModel {
    opens: BTreeMap<u64, OpenWish>,
    delete_pending: BTreeSet<LinkId>,
    removed: BTreeSet<LinkId>,
}

impl FileOpensModel {
    fn forbids(share: ShareMode, access: Access) -> bool {
        let reads = access.0 & 0x21 != 0;
        let writes = access.0 & 0x6 != 0;
        let deletes = access.0 & 0x1_0000 != 0;
        (reads && share.0 & 1 == 0) || (writes && share.0 & 2 == 0) || (deletes && share.0 & 4 == 0)
    }

    fn open(&mut self, wish: OpenWish) -> Result<(), GrantRefusal> {
        if self.delete_pending.contains(&wish.link)
            || (wish.only_link && !self.delete_pending.is_empty())
        {
            return Err(GrantRefusal::DeletePending);
        }
        let counted = |access: Access| access.0 & 0x1_0027 != 0;
        let wanted = wish.access | wish.opening_access;
        let conflict = self.opens.values().any(|other| {
            counted(wanted)
                && counted(other.access)
                && (Self::forbids(other.share, wanted) || Self::forbids(wish.share, other.access))
        });
        if conflict {
            return Err(GrantRefusal::ShareViolation);
        }
        self.opens.insert(wish.id.0, wish);
        Ok(())
    }

    fn close(&mut self, id: u64) -> CloseOutcome {
        let Some(open) = self.opens.remove(&id) else { return CloseOutcome::default() };
        if open.delete_on_close {
            self.delete_pending.insert(open.link);
        }
        let kept = self.opens.values().any(|o| o.link == open.link && !o.posix);
        let removes =
            !kept && self.delete_pending.contains(&open.link) && self.removed.insert(open.link);
        CloseOutcome { last: self.opens.is_empty(), remove: removes.then_some(open.link) }
    }
}

#[derive(Clone, Debug)]
enum OpenStep {
    Open {
        link: u64,
        only_link: bool,
        access: u32,
        opening_access: bool,
        share: u32,
        delete_on_close: bool,
        posix: bool,
    },
    Close(usize),
    Withdraw(usize),
    Disposition(usize, bool),
    Removed(u64),
}

fn steps() -> impl Strategy<Value = Vec<OpenStep>> {
    let bits = [0x1u32, 0x2, 0x4, 0x20, 0x80, 0x100, 0x1_0000, 0x10_0000];
    let access = prop::collection::vec(prop::sample::select(bits.to_vec()), 0..4)
        .prop_map(|bits| bits.into_iter().fold(0, |all, bit| all | bit));
    let open = (
        0u64..3,
        any::<bool>(),
        access,
        prop::bool::weighted(0.1),
        0u32..8,
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.3),
    )
        .prop_map(
            |(link, only_link, access, opening_access, share, delete_on_close, posix)| {
                OpenStep::Open {
                    link,
                    only_link,
                    access,
                    opening_access,
                    share,
                    delete_on_close,
                    posix,
                }
            },
        );
    let step = prop_oneof![
        4 => open,
        3 => any::<usize>().prop_map(OpenStep::Close),
        1 => any::<usize>().prop_map(OpenStep::Withdraw),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(n, delete)| OpenStep::Disposition(n, delete)),
        1 => (0u64..3).prop_map(OpenStep::Removed),
    ];
    prop::collection::vec(step, 1..80)
}

/// Selects one of the present opens, so that every number is valid.
fn pick(model: &FileOpensModel, n: usize) -> Option<u64> {
    (!model.opens.is_empty()).then(|| *model.opens.keys().nth(n % model.opens.len()).unwrap())
}

proptest! {
    #[test]
    fn random_opens_agree_with_pairwise_rules(steps in steps()) {
        let (mut file, mut model) = (FileGrants::default(), FileOpensModel::default());
        for (id, step) in (1u64..).zip(steps) {
            match step {
                OpenStep::Open { link, only_link, access, opening_access, share, delete_on_close, posix } => {
                    let wish = OpenWish {
                        link: LinkId(link),
                        only_link,
                        opening_access: if opening_access { Access::WRITE_DATA } else { Access::NONE },
                        delete_on_close,
                        posix,
                        ..wish(id, Access(access), ShareMode(share))
                    };
                    prop_assert_eq!(file.check_open(&wish).is_ok(), file.handle_open(&wish).is_ok() && {
                        file.handle_withdraw(wish.id);
                        true
                    });
                    prop_assert_eq!(file.handle_open(&wish).map(|_| ()), model.open(wish));
                }
                OpenStep::Close(n) => {
                    let Some(id) = pick(&model, n) else { continue };
                    prop_assert_eq!(file.handle_close(OpenId(id)), model.close(id));
                }
                OpenStep::Withdraw(n) => {
                    let Some(id) = pick(&model, n) else { continue };
                    model.opens.get_mut(&id).unwrap().delete_on_close = false;
                    prop_assert_eq!(file.handle_withdraw(OpenId(id)), model.close(id));
                }
                OpenStep::Disposition(n, delete) => {
                    let Some(id) = pick(&model, n) else { continue };
                    let link = model.opens[&id].link;
                    if model.removed.contains(&link) {
                        // Too late.
                    } else if delete {
                        model.delete_pending.insert(link);
                    } else {
                        model.delete_pending.remove(&link);
                    }
                    file.handle_disposition(OpenId(id), delete);
                }
                OpenStep::Removed(link) => {
                    model.delete_pending.remove(&LinkId(link));
                    model.removed.remove(&LinkId(link));
                    file.handle_removed(LinkId(link));
                }
            }
            prop_assert_eq!(file.open_count(), model.opens.len());
            prop_assert_eq!(file.is_idle(), model.opens.is_empty() && model.delete_pending.is_empty());
            for link in 0..3 {
                prop_assert_eq!(file.is_delete_pending(LinkId(link)), model.delete_pending.contains(&LinkId(link)));
            }
        }
    }
}

/// Steps of one client in order.
#[derive(Clone, Copy, Debug)]
enum ClientStep {
    Open(Access, ShareMode, bool),
    Delete,
    Close,
}

/// All interleavings of two programs with three steps.
fn interleavings() -> Vec<[usize; 6]> {
    (0u32..64)
        .filter(|bits| bits.count_ones() == 3)
        .map(|bits| std::array::from_fn(|at| (bits >> at & 1) as usize))
        .collect()
}

#[test]
fn all_two_client_orders_are_conflict_free() {
    let opens = [
        ClientStep::Open(READ, ShareMode::ALL, false),
        ClientStep::Open(WRITE, ShareMode::READ, false),
        ClientStep::Open(Access::DELETE | READ, ShareMode::ALL, true),
        ClientStep::Open(Access::DELETE, ShareMode::default(), false),
    ];
    let middles = [ClientStep::Delete, ClientStep::Close];
    let mut runs = 0;
    for (a, b) in opens.iter().flat_map(|a| opens.iter().map(move |b| (*a, *b))) {
        for (x, y) in middles.iter().flat_map(|x| middles.iter().map(move |y| (*x, *y))) {
            for order in interleavings() {
                run_interleaved([[a, x, ClientStep::Close], [b, y, ClientStep::Close]], order);
                runs += 1;
            }
        }
    }
    assert_eq!(runs, 16 * 4 * 20);
}

fn run_interleaved(programs: [[ClientStep; 3]; 2], order: [usize; 6]) {
    let mut file = FileGrants::default();
    let mut next = [0, 0];
    let mut held: [Option<OpenWish>; 2] = [None, None];
    let (mut asked, mut removals) = (false, 0);
    for client in order {
        let act = programs[client][next[client]];
        next[client] += 1;
        match act {
            ClientStep::Open(access, share, delete_on_close) => {
                let wish = OpenWish { delete_on_close, ..wish(client as u64, access, share) };
                if file.handle_open(&wish).is_ok() {
                    assert_eq!(removals, 0, "{programs:?} {order:?}: it is gone");
                    held[client] = Some(wish);
                }
            }
            ClientStep::Delete => {
                if held[client].is_some_and(|h| h.access.contains(Access::DELETE)) {
                    file.handle_disposition(OpenId(client as u64), true);
                    asked = true;
                }
            }
            ClientStep::Close => {
                let closed = file.handle_close(OpenId(client as u64));
                asked |= held[client].take().is_some_and(|h| h.delete_on_close);
                removals += usize::from(closed.remove.is_some());
            }
        }
        if let [Some(a), Some(b)] = held {
            assert!(
                !FileOpensModel::forbids(a.share, b.access)
                    && !FileOpensModel::forbids(b.share, a.access),
                "{programs:?} {order:?}"
            );
        }
    }
    assert_eq!(file.open_count(), 0);
    assert_eq!(removals, usize::from(asked), "{programs:?} {order:?}");
}

#[test]
fn absent_client_blocks_file_until_back_or_closed() {
    let mut file = FileGrants::default();
    file.handle_open(&wish(1, READ, ShareMode::ALL)).unwrap();
    file.handle_open(&wish(2, READ, ShareMode::ALL)).unwrap();
    file.set_absence(OpenId(1), Some(Absence::RetainsCaching));
    file.set_absence(OpenId(1), Some(Absence::RetainsCaching));
    file.set_absence(OpenId(2), Some(Absence::RetainsCaching));
    assert_eq!(file.check_open(&wish(3, READ, ShareMode::ALL)), Err(GrantRefusal::ClientAbsent));
    assert_eq!(file.check_open(&wish(3, Access::READ_ATTRIBUTES, ShareMode::ALL)), Ok(()));
    file.set_absence(OpenId(1), None);
    assert_eq!(file.check_open(&wish(3, READ, ShareMode::ALL)), Err(GrantRefusal::ClientAbsent));
    file.handle_close(OpenId(2));
    assert_eq!(file.check_open(&wish(3, READ, ShareMode::ALL)), Ok(()));
}

#[test]
fn absent_client_with_locks_blocks_others() {
    let lock = RangeLock { range: Range::new(0, 1).unwrap(), kind: LockKind::Exclusive };
    let mut file = FileGrants::default();
    file.handle_open(&OpenWish { caching: CachingRights::BATCH, ..wish(1, READ, ShareMode::ALL) })
        .unwrap();
    file.locks.handle_locks(OpenId(1), &[lock]).unwrap();
    let second = wish(2, READ, ShareMode::ALL);
    assert!(matches!(file.handle_open(&second), Err(GrantRefusal::Breaking(_))));
    file.caches.handle_acknowledge(CacheOwner::Open(OpenId(1)), CachingRights::READ).unwrap();
    file.set_absence(OpenId(1), Some(Absence::RetainsCaching));
    // It retains read caching only: its locks block others.
    assert_eq!(file.handle_open(&second), Err(GrantRefusal::ClientAbsent));
}

/// A client with two opens of the file under one lease.
fn leased() -> (FileGrants, CacheKey) {
    let key = CacheKey { client: [1; 16], key: [1; 16] };
    let mut file = FileGrants::default();
    for id in [1, 2] {
        let caching = CachingRights::BATCH;
        file.handle_open(&OpenWish { caching, key: Some(key), ..wish(id, READ, ShareMode::ALL) })
            .unwrap();
    }
    (file, key)
}

#[test]
fn absent_yielding_lease_breaks_at_once() {
    for conflict in [false, true] {
        let (mut file, key) = leased();
        file.set_absence(OpenId(1), Some(Absence::YieldsCaching));
        file.set_absence(OpenId(2), Some(Absence::YieldsCaching));
        let share = if conflict { ShareMode::WRITE } else { ShareMode::ALL };
        let expected = if conflict { Err(GrantRefusal::ShareViolation) } else { Ok(()) };
        assert_eq!(file.handle_open(&wish(3, WRITE, share)).map(|_| ()), expected);
        assert_eq!(file.caches.of(CacheOwner::Key(key)), CachingRights::NONE);
        let cache_break = file.caches.poll_break().unwrap();
        assert_eq!((cache_break.to, cache_break.acknowledge), (CachingRights::NONE, false));
        assert_eq!(file.caches.poll_break(), None);
    }
}

#[test]
fn absent_retaining_lease_is_waited_for() {
    let (mut file, key) = leased();
    for id in [1, 2] {
        file.set_absence(OpenId(id), Some(Absence::RetainsCaching));
    }
    let others = wish(3, READ, ShareMode::ALL);
    for _ in 0..2 {
        assert!(matches!(file.handle_open(&others), Err(GrantRefusal::Breaking(_))));
        assert!(file.holds_up(&BlockedOperation::Open(others)));
    }
    let renamer = CacheOwner::Open(OpenId(9));
    assert!(matches!(file.break_handles(renamer), Err(GrantRefusal::Breaking(_))));
    assert_eq!(file.caches.of(CacheOwner::Key(key)), CachingRights::BATCH);
}

#[test]
fn lease_with_present_open_is_broken_normally() {
    for absence in [Absence::YieldsCaching, Absence::RetainsCaching] {
        let (mut file, _) = leased();
        file.set_absence(OpenId(1), Some(absence));
        let refused = file.handle_open(&wish(3, READ, ShareMode::ALL));
        assert!(matches!(refused, Err(GrantRefusal::Breaking(_))));
    }
}

#[test]
fn lease_with_retaining_open_is_waited_for() {
    let (mut file, key) = leased();
    file.set_absence(OpenId(1), Some(Absence::YieldsCaching));
    file.set_absence(OpenId(2), Some(Absence::RetainsCaching));
    let refused = file.handle_open(&wish(3, READ, ShareMode::ALL));
    assert!(matches!(refused, Err(GrantRefusal::Breaking(_))));
    assert_eq!(file.caches.of(CacheOwner::Key(key)), CachingRights::BATCH);
}

#[test]
fn wait_ends_when_holder_leaves_and_yields() {
    let (mut file, _) = leased();
    let others = wish(3, READ, ShareMode::ALL);
    assert!(matches!(file.handle_open(&others), Err(GrantRefusal::Breaking(_))));
    assert!(file.holds_up(&BlockedOperation::Open(others)));
    file.caches.poll_settled();
    for id in [1, 2] {
        file.set_absence(OpenId(id), Some(Absence::YieldsCaching));
    }
    assert!(file.caches.poll_settled() && !file.holds_up(&BlockedOperation::Open(others)));
    file.handle_open(&others).unwrap();
}
