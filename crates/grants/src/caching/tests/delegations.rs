//! Delegations, which conflicting operations wait for. RFC 8881 10.4.

use crate::{
    Access, BlockedOperation, CacheBreak, CacheKey, CacheOwner, CachingRights, FileGrants,
    GrantRefusal, OpenId, OpenWish, ShareMode,
};
use proptest::prelude::*;

const READ: Access = Access::READ_DATA;
const WRITE: Access = Access::WRITE_DATA;

fn key(client: u8) -> CacheKey {
    CacheKey { client: [client; 16], key: [9; 16] }
}

fn owner(client: u8) -> CacheOwner {
    CacheOwner::Key(key(client))
}

/// An open of an NFS client.
fn open(id: u64, client: u8, access: Access) -> OpenWish {
    let wish = OpenWish::new(OpenId(id), access, ShareMode::ALL);
    OpenWish { key: Some(key(client)), posix: true, ..wish }
}

fn delegate(file: &mut FileGrants, id: u64, client: u8, wanted: CachingRights) -> bool {
    let wish = OpenWish { caching: wanted, is_delegation: true, ..open(id, client, Access::NONE) };
    let had = file.handle_open(&wish).unwrap().has == wanted;
    if !had {
        file.handle_close(OpenId(id));
    }
    had
}

const READ_DELEGATION: CachingRights = CachingRights::READ;
const WRITE_DELEGATION: CachingRights = CachingRights::EXCLUSIVE;

fn recall(file: &mut FileGrants) -> Option<CacheOwner> {
    let cache_break = file.caches.poll_break()?;
    let CacheBreak { owner, to, acknowledge, .. } = cache_break;
    assert!(acknowledge && to == CachingRights::NONE, "{cache_break:?}");
    Some(owner)
}

fn breaking(result: Result<crate::CacheState, GrantRefusal>) -> bool {
    matches!(result, Err(GrantRefusal::Breaking(_)))
}

#[test]
fn shutdown_recalls_read_delegations_too() {
    for (wanted, writes) in [(READ_DELEGATION, 0), (WRITE_DELEGATION, 1)] {
        let mut file = FileGrants::default();
        file.handle_open(&open(1, 1, READ)).unwrap();
        assert!(delegate(&mut file, 2, 1, wanted));
        assert_eq!(file.caches.handle_shutdown(), writes);
        assert_eq!(recall(&mut file), Some(owner(1)));
        file.caches.handle_return(owner(1));
        assert_eq!(file.caches.handle_shutdown(), 0);
        assert_eq!(recall(&mut file), None);
    }
}

#[test]
fn writer_waits_for_return_of_read_delegation() {
    let mut file = FileGrants::default();
    file.handle_open(&open(1, 1, READ)).unwrap();
    assert!(delegate(&mut file, 2, 1, READ_DELEGATION));
    let reader = OpenWish::new(OpenId(3), READ, ShareMode::ALL);
    assert!(file.handle_open(&reader).is_ok(), "readers do not disturb");
    assert_eq!(recall(&mut file), None);
    let writer = OpenWish::new(OpenId(4), WRITE, ShareMode::ALL);
    assert!(breaking(file.handle_open(&writer)));
    assert_eq!(recall(&mut file), Some(owner(1)));
    assert!(breaking(file.handle_open(&writer)), "and is notified once");
    assert_eq!(recall(&mut file), None);
    assert!(file.holds_up(&BlockedOperation::Open(writer)));
    file.caches.handle_return(owner(1));
    assert!(file.caches.poll_settled() && !file.holds_up(&BlockedOperation::Open(writer)));
    assert!(file.handle_open(&writer).is_ok());
    assert!(!delegate(&mut file, 5, 1, READ_DELEGATION), "an open writes");
}

#[test]
fn deny_read_and_delete_recall_read_delegation() {
    for (access, share) in [(READ, ShareMode::WRITE), (Access::DELETE, ShareMode::ALL)] {
        let mut file = FileGrants::default();
        assert!(delegate(&mut file, 1, 1, READ_DELEGATION));
        let wish = OpenWish::new(OpenId(2), access, share);
        assert!(breaking(file.handle_open(&wish)), "{access:?} {share:?}");
        assert_eq!(recall(&mut file), Some(owner(1)));
        let looking = OpenWish::new(OpenId(3), Access::READ_ATTRIBUTES, share);
        assert!(file.handle_open(&looking).is_ok(), "a stat open has no conflict");
    }
}

#[test]
fn reader_waits_for_return_of_write_delegation() {
    let mut file = FileGrants::default();
    file.handle_open(&open(1, 1, READ | WRITE)).unwrap();
    assert!(delegate(&mut file, 2, 1, WRITE_DELEGATION));
    assert!(file.handle_open(&open(3, 1, READ)).is_ok(), "its own opens do not disturb it");
    assert!(breaking(file.handle_open(&open(4, 2, READ))));
    assert_eq!(recall(&mut file), Some(owner(1)));
    file.caches.handle_timeout(file.caches.latest_break());
    assert!(breaking(file.handle_open(&open(4, 2, READ))), "the grantor decides the revocation");
    file.caches.handle_return(owner(1));
    assert_eq!(file.caches.of(owner(1)), CachingRights::NONE, "it was not given back in time");
    assert!(file.handle_open(&open(4, 2, READ)).is_ok());
}

#[test]
fn delegation_is_granted_without_conflict() {
    let other = |access, share| OpenWish::new(OpenId(1), access, share);
    for (wish, reads, writes) in [
        (other(Access::READ_ATTRIBUTES, ShareMode::ALL), true, true),
        (other(READ, ShareMode::ALL), true, false),
        (other(READ, ShareMode::WRITE), false, false),
        (other(WRITE, ShareMode::ALL), false, false),
        (open(1, 1, READ | WRITE), true, true),
    ] {
        for (wanted, may) in [(READ_DELEGATION, reads), (WRITE_DELEGATION, writes)] {
            let mut file = FileGrants::default();
            file.handle_open(&wish).unwrap();
            assert_eq!(delegate(&mut file, 2, 1, wanted), may, "{wanted:?} beside {wish:?}");
        }
    }
    let mut file = FileGrants::default();
    assert!(delegate(&mut file, 1, 1, READ_DELEGATION));
    assert!(delegate(&mut file, 2, 2, READ_DELEGATION));
    assert!(!delegate(&mut file, 3, 3, WRITE_DELEGATION));
}

#[test]
fn leases_and_delegations_break_each_other() {
    let mut file = FileGrants::default();
    let lease = OpenWish { caching: CachingRights::BATCH, ..open(1, 1, READ | WRITE) };
    assert_eq!(file.handle_open(&lease).unwrap().has, CachingRights::BATCH);
    assert!(breaking(file.handle_open(&open(2, 2, READ))));
    let cache_break = file.caches.poll_break().unwrap();
    assert_eq!(
        (cache_break.owner, cache_break.to),
        (owner(1), CachingRights(3)),
        "a lease retains what it may"
    );
    file.caches.handle_acknowledge(owner(1), CachingRights(3)).unwrap();
    file.handle_open(&open(2, 2, READ)).unwrap();
    assert!(!delegate(&mut file, 3, 2, READ_DELEGATION), "the lease's open may write");
    file.handle_close(OpenId(1));
    assert!(delegate(&mut file, 4, 2, READ_DELEGATION));
    let again = OpenWish { id: OpenId(5), ..lease };
    assert!(breaking(file.handle_open(&again)));
    assert_eq!(recall(&mut file), Some(owner(2)));
}

#[test]
fn name_and_attribute_changes_recall_delegations() {
    let mut file = FileGrants::default();
    for client in [1, 2] {
        assert!(delegate(&mut file, client.into(), client, READ_DELEGATION));
    }
    assert!(file.caches.handle_recall(owner(1)));
    assert_eq!(recall(&mut file), Some(owner(2)));
    assert!(file.holds_up(&BlockedOperation::Recall(owner(1))));
    file.caches.handle_return(owner(2));
    assert!(
        !file.caches.handle_recall(owner(1)) && !file.holds_up(&BlockedOperation::Recall(owner(1)))
    );
    let stranger = CacheOwner::Open(OpenId(0));
    assert!(file.caches.handle_name_change(stranger));
    assert!(file.holds_up(&BlockedOperation::NameChange(stranger)));
    file.caches.handle_acknowledge(owner(1), CachingRights::NONE).unwrap();
    assert!(!file.holds_up(&BlockedOperation::NameChange(stranger)));
}

#[test]
fn write_without_open_breaks_caching() {
    let mut file = FileGrants::default();
    assert!(delegate(&mut file, 1, 1, WRITE_DELEGATION));
    file.caches.handle_change(CacheOwner::Open(OpenId(0)));
    assert_eq!(recall(&mut file), Some(owner(1)));
}

#[derive(Clone, Debug)]
enum DelegationStep {
    Open(u8, bool, bool),
    Windows(bool, bool, u8),
    Close(usize),
    Delegate(u8, bool),
    Return(u8),
    Timeout,
    Recall(u8),
}

fn steps() -> impl Strategy<Value = Vec<DelegationStep>> {
    let client = || 1..4u8;
    let step = prop_oneof![
        3 => (client(), any::<bool>(), any::<bool>()).prop_map(|(c, r, w)| DelegationStep::Open(c, r, w)),
        3 => (any::<bool>(), any::<bool>(), 0..8u8).prop_map(|(r, w, share)| DelegationStep::Windows(r, w, share)),
        3 => any::<usize>().prop_map(DelegationStep::Close),
        3 => (client(), any::<bool>()).prop_map(|(c, writes)| DelegationStep::Delegate(c, writes)),
        2 => client().prop_map(DelegationStep::Return),
        1 => Just(DelegationStep::Timeout),
        1 => client().prop_map(DelegationStep::Recall),
    ];
    prop::collection::vec(step, 1..80)
}

/// Opens, and delegations by client.
#[derive(Default)]
struct DelegationModel {
    opens: Vec<(OpenId, CacheOwner, Access, ShareMode)>,
    delegations: Vec<(OpenId, u8, CachingRights)>,
}

impl DelegationModel {
    /// Whether no open conflicts with another client's delegation.
    fn is_sound(&self) -> bool {
        self.delegations.iter().filter(|(.., has)| *has != CachingRights::NONE).all(
            |(_, client, has)| {
                let others = self.delegations.iter().filter(|(_, other, _)| other != client);
                let alone = !has.contains(CachingRights::WRITE);
                let beside = others
                    .clone()
                    .all(|(_, _, theirs)| alone && !theirs.contains(CachingRights::WRITE));
                beside
                    && self.opens.iter().all(|(_, by, access, share)| {
                        *by == owner(*client)
                            || !access.intersects(READ | WRITE)
                            || (alone
                                && !access.intersects(WRITE)
                                && share.contains(ShareMode::READ))
                    })
            },
        )
    }
}

proptest! {
    #[test]
    fn random_opens_respect_delegations(steps in steps()) {
        let (mut file, mut model, mut next) = (FileGrants::default(), DelegationModel::default(), 0);
        for step in steps {
            next += 1;
            let id = OpenId(next);
            let access = |reads: bool, writes: bool| {
                let read = if reads { READ } else { Access::NONE };
                read | if writes { WRITE } else { Access::NONE }
            };
            match step {
                DelegationStep::Open(client, reads, writes) => {
                    let wish = open(next, client, access(reads, writes));
                    if file.handle_open(&wish).is_ok() {
                        model.opens.push((id, wish.owner(), wish.access, wish.share));
                    }
                }
                DelegationStep::Windows(reads, writes, share) => {
                    let wish = OpenWish::new(id, access(reads, writes), ShareMode(share.into()));
                    if file.handle_open(&wish).is_ok() {
                        model.opens.push((id, wish.owner(), wish.access, wish.share));
                    }
                }
                DelegationStep::Close(at) => {
                    if !model.opens.is_empty() {
                        let at = at % model.opens.len();
                        let (id, ..) = model.opens.remove(at);
                        file.handle_close(id);
                    }
                }
                DelegationStep::Delegate(client, writes) => {
                    let wanted = if writes { WRITE_DELEGATION } else { READ_DELEGATION };
                    let has = file.caches.of(owner(client)) != CachingRights::NONE;
                    let held = model.delegations.iter().any(|(_, c, _)| *c == client);
                    if !has && !held && delegate(&mut file, next, client, wanted) {
                        model.delegations.push((id, client, wanted));
                    }
                }
                DelegationStep::Return(client) => {
                    let at = model.delegations.iter().position(|(_, c, _)| *c == client);
                    if let Some(at) = at {
                        let (id, ..) = model.delegations.remove(at);
                        file.caches.handle_return(owner(client));
                        file.handle_close(id);
                    }
                }
                DelegationStep::Timeout => file.caches.handle_timeout(file.caches.latest_break()),
                DelegationStep::Recall(client) => {
                    let others = model.delegations.iter().any(|(_, c, has)| {
                        *c != client && *has != CachingRights::NONE
                    });
                    prop_assert_eq!(file.caches.handle_recall(owner(client)), others);
                }
            }
            while file.caches.poll_break().is_some() {}
            for (_, client, has) in &mut model.delegations {
                *has = file.caches.of(owner(*client));
            }
            prop_assert!(model.is_sound(), "{:?} {:?}", model.delegations, model.opens);
        }
        for (id, client, _) in model.delegations.drain(..) {
            file.caches.handle_return(owner(client));
            file.handle_close(id);
        }
        for (id, ..) in model.opens {
            file.handle_close(id);
        }
        prop_assert!(file.is_idle() && file.caches.is_empty());
    }
}
