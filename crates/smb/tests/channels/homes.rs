//! Shares whose volume depends on the user: reloads and re-authentications overtake a TREE_CONNECT
//! while the user's directory is being opened.

use crate::harness::{ALICE, Net};
use files::{Volume, VolumeOptions};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use smb::{
    Accounts, Admission, SmbServer, SmbShare, UserVolumeRefusal, UserVolumes, VolumeRequester,
};
use std::collections::VecDeque;
use std::fmt::{Debug, Formatter};
use std::sync::{Arc, Mutex};
use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
use wire::ntstatus::NtStatus;

const SUCCESS: NtStatus = NtStatus::SUCCESS;

type ShareChange = fn(&mut SmbShare);

/// Opens a memory volume, and before each reply reloads the share with the next change.
struct OvertakenVolumes {
    server: Arc<SmbServer>,
    share: Mutex<SmbShare>,
    changes: Mutex<VecDeque<ShareChange>>,
    options: VolumeOptions,
}

impl Debug for OvertakenVolumes {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("OvertakenVolumes")
    }
}

impl OvertakenVolumes {
    fn reload(&self, share: &SmbShare) {
        let mut config = (*self.server.config()).clone();
        config.shares = vec![Arc::new(share.clone())];
        self.server.configure(config);
    }
}

impl UserVolumes for OvertakenVolumes {
    fn open(
        &self,
        _: VolumeRequester,
    ) -> BoxFuture<'static, Result<Arc<Volume>, UserVolumeRefusal>> {
        if let Some(change) = self.changes.lock().unwrap().pop_front() {
            let mut share = self.share.lock().unwrap();
            change(&mut share);
            self.reload(&share);
        }
        let vfs = MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()));
        let volume = Volume::new(Arc::new(vfs), self.options.clone());
        async move { Ok(Arc::new(volume)) }.boxed()
    }

    fn options(&self) -> &VolumeOptions {
        &self.options
    }

    fn has_snapshots(&self) -> bool {
        false
    }

    fn open_volumes(&self) -> Vec<Arc<Volume>> {
        Vec::new()
    }
}

/// The result of a connect that these reloads overtake, and the number of reloads left.
fn connect_during(changes: &[ShareChange]) -> (NtStatus, usize) {
    let net = Net::new();
    let volumes = Arc::new(OvertakenVolumes {
        server: net.server.clone(),
        share: Mutex::default(),
        changes: Mutex::new(changes.iter().copied().collect()),
        options: VolumeOptions::default(),
    });
    let share = SmbShare {
        name: "homes".into(),
        user_volumes: Some(volumes.clone()),
        ..SmbShare::default()
    };
    volumes.reload(&share);
    *volumes.share.lock().unwrap() = share;
    let mut client = net.connect();
    assert_eq!(client.log_on(ALICE), SUCCESS);
    let status = client.connect_tree("homes");
    let left = volumes.changes.lock().unwrap().len();
    // The servers' configuration and this refer to each other.
    net.reload(|_, _| {});
    (status, left)
}

#[test]
fn reload_during_a_tree_connect_counts_for_it() {
    assert_eq!(connect_during(&[]), (SUCCESS, 0));
    assert_eq!(connect_during(&[|share| share.comment = "another".into()]), (SUCCESS, 0));
    let denies: ShareChange = |share| {
        share.admission = Admission { users: Some(Accounts::default()), ..Admission::default() };
    };
    assert_eq!(connect_during(&[denies]), (NtStatus::ACCESS_DENIED, 0));
    let seals: ShareChange = |share| share.encryption_required = true;
    assert_eq!(connect_during(&[seals]), (NtStatus::ACCESS_DENIED, 0));
    let removes: ShareChange = |share| share.name = "other".into();
    assert_eq!(connect_during(&[removes]), (NtStatus::BAD_NETWORK_NAME, 0));
}

#[test]
fn tree_connect_that_reloads_overtake_again_and_again_ends() {
    let comments: ShareChange = |share| share.comment.push('x');
    assert_eq!(connect_during(&[comments; 100]), (NtStatus::ACCESS_DENIED, 96));
}
