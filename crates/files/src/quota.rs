//! User quotas. Each user may query its own; only root may query others or set limits, as only
//! administrators may on Windows.

use crate::server_work::SYNC;
use crate::{Caller, OpenFile, RequestFiles, Volume};
use std::sync::Arc;
use vfs::{FsError, Quota, QuotaLimits, QuotaState, Result, UserQuotas};

fn quotas_of(volume: &Volume) -> Result<&dyn UserQuotas> {
    volume.vfs.quotas().ok_or(FsError::NotSupported)
}

impl RequestFiles {
    /// Quota support of the volume's file system.
    #[must_use]
    pub fn quota_state(&self, volume: &Volume) -> QuotaState {
        volume.vfs.quotas().map_or(QuotaState::Absent, |quotas| quotas.quota_state())
    }

    /// Quota support of the file system of the file or directory.
    #[must_use]
    pub fn quota_state_of(&self, open: &OpenFile) -> QuotaState {
        let quotas = open.volume().vfs.quotas();
        quotas.map_or(QuotaState::Absent, |quotas| quotas.quota_state_of(&**open.main_node()))
    }

    /// Usage and limits of these users.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] for another user's, [`FsError::NotSupported`] without quota
    /// support.
    pub async fn quotas(
        &self,
        volume: &Arc<Volume>,
        caller: &Caller,
        users: Vec<u32>,
    ) -> Result<Vec<(u32, Quota)>> {
        if !caller.is_root() && users.iter().any(|uid| *uid != caller.identity.uid) {
            return Err(FsError::AccessDenied);
        }
        let volume = volume.clone();
        let identity = caller.identity.clone();
        let get =
            move |uid| quotas_of(&volume)?.quota(identity.actor(), uid).map(|quota| (uid, quota));
        self.offload(move || users.into_iter().map(get).collect()).await
    }

    /// Usage and limits of users with accounted usage from `first` on, at most `count_max`, as far
    /// as the caller may query them.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] without quota support.
    pub async fn quotas_from(
        &self,
        volume: &Arc<Volume>,
        caller: &Caller,
        first: u32,
        count_max: usize,
    ) -> Result<Vec<(u32, Quota)>> {
        let own = caller.identity.uid;
        if !caller.is_root() {
            let users = if first <= own { vec![own] } else { Vec::new() };
            return self.quotas(volume, caller, users).await;
        }
        let (volume, identity) = (volume.clone(), caller.identity.clone());
        self.offload(move || {
            let (mut quotas, mut next) = (Vec::new(), Some(first));
            while let Some(uid) = next.filter(|_| quotas.len() < count_max) {
                match quotas_of(&volume)?.next_quota(identity.actor(), uid) {
                    Ok(found) => quotas.push(found),
                    Err(FsError::NotFound) => break,
                    Err(error) => return Err(error),
                }
                next = quotas.last().and_then(|(uid, _)| uid.checked_add(1));
            }
            Ok(quotas)
        })
        .await
    }

    /// Sets users' limits in order.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] unless the caller is root, [`FsError::ReadOnly`],
    /// [`FsError::NotSupported`] without quota support.
    pub async fn set_quotas(
        &self,
        volume: &Arc<Volume>,
        caller: &Caller,
        limits: Vec<(u32, QuotaLimits)>,
    ) -> Result<()> {
        if !caller.is_root() {
            return Err(FsError::AccessDenied);
        }
        volume.check_changeable()?;
        let (volume, identity) = (volume.clone(), caller.identity.clone());
        let set = move |(uid, limits)| quotas_of(&volume)?.set_quota(identity.actor(), uid, limits);
        self.offload(move || limits.into_iter().try_for_each(set)).await
    }

    /// Returns once set limits are on stable storage.
    ///
    /// # Errors
    /// As [`RequestFiles::make_stable`].
    pub async fn make_quotas_stable(&self, volume: &Arc<Volume>) -> Result<()> {
        let root = self.root_object(volume).await?;
        let volume = volume.clone();
        self.sync_beside(root.key().device, move || match volume.vfs.quotas() {
            Some(quotas) => quotas.sync_quotas(SYNC),
            None => Ok(()),
        })
        .await
    }
}
