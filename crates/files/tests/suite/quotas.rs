//! Rights to query and set quotas.

use crate::harness::*;
use files::Caller;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{FsError, Identity, Quota, QuotaLimits, QuotaState};

const NO_LIMITS: QuotaLimits = QuotaLimits { soft_bytes: None, hard_bytes: None };

fn quota(used_bytes: u64) -> Quota {
    Quota { used_bytes, limits: NO_LIMITS }
}

fn serve_quotas() -> (ServedVolume, Arc<Caller>) {
    let served = serve();
    let users = BTreeMap::from([(0, quota(1)), (4001, quota(2)), (u32::MAX, quota(3))]);
    *served.vfs.quotas.lock().unwrap() = Some(users);
    (served, Arc::new(Caller::of(Identity::root())))
}

impl ServedVolume {
    fn quotas_listed(&self, by: &Caller, first: u32, count_max: usize) -> Vec<(u32, u64)> {
        let quotas = now(self.files.quotas_from(&self.volume, by, first, count_max)).unwrap();
        quotas.into_iter().map(|(uid, quota)| (uid, quota.used_bytes)).collect()
    }
}

#[test]
fn user_reads_own_quota_and_root_reads_all() {
    let (served, root) = serve_quotas();
    let alice = user(4001, 4001);
    let asked = |by: &Caller, uid| now(served.files.quotas(&served.volume, by, vec![uid]));
    assert_eq!(asked(&alice, 4001), Ok(vec![(4001, quota(2))]));
    assert_eq!(asked(&alice, 0), Err(FsError::AccessDenied));
    assert_eq!(asked(&root, 4001), Ok(vec![(4001, quota(2))]));
    assert_eq!(asked(&root, 7), Ok(vec![(7, quota(0))]), "nothing is counted of them");
    assert_eq!(served.quotas_listed(&root, 0, 9), [(0, 1), (4001, 2), (u32::MAX, 3)]);
    assert_eq!(served.quotas_listed(&root, 1, 1), [(4001, 2)]);
    assert_eq!(served.quotas_listed(&root, 4002, 9), [(u32::MAX, 3)]);
    assert_eq!(served.quotas_listed(&alice, 0, 9), [(4001, 2)]);
    assert_eq!(served.quotas_listed(&alice, 4002, 9), []);
}

#[test]
fn only_root_sets_quotas_on_writable_volume() {
    let (mut served, root) = serve_quotas();
    let limits = QuotaLimits { soft_bytes: Some(1), hard_bytes: Some(2) };
    let set = |served: &ServedVolume, by: &Caller| {
        now(served.files.set_quotas(&served.volume, by, vec![(4001, limits)]))
    };
    assert_eq!(set(&served, &user(4001, 4001)), Err(FsError::AccessDenied));
    assert_eq!(set(&served, &root), Ok(()));
    let quotas = now(served.files.quotas(&served.volume, &root, vec![4001])).unwrap();
    assert_eq!(quotas, [(4001, Quota { used_bytes: 2, limits })]);
    let options = files::VolumeOptions { read_only: true, ..Default::default() };
    served.volume = Arc::new(files::Volume::new(served.vfs.clone(), options));
    assert_eq!(set(&served, &root), Err(FsError::ShareReadOnly));
}

#[test]
fn missing_quota_support_is_reported() {
    let served = serve();
    let root = Caller::of(Identity::root());
    assert_eq!(served.files.quota_state(&served.volume), QuotaState::Absent);
    let refused = Err(FsError::NotSupported);
    assert_eq!(now(served.files.quotas(&served.volume, &root, vec![0])), refused);
    assert_eq!(now(served.files.quotas_from(&served.volume, &root, 0, 9)), refused);
}

#[test]
fn quota_sync_failure_is_reported() {
    let (served, _) = serve_quotas();
    let key = now(served.files.root_object(&served.volume)).unwrap().key();
    assert_eq!(now(served.files.make_quotas_stable(&served.volume)), Ok(()));
    let before = served.files.flushes_failed(key);
    served.vfs.loses_quotas.store(true, Ordering::Relaxed);
    assert_eq!(now(served.files.make_quotas_stable(&served.volume)), Err(FsError::Io));
    assert!(served.files.flushes_failed(key) > before, "a continuously available share notices");
}
