//! States of the features that the configuration controls.

use crate::observe::features::{FeatureFact, FeatureState};
use std::sync::Arc;

/// Determines the state of a feature on a share.
type OfShare = fn(&smb::SmbConfig, &nfs::NfsConfig, &smb::SmbShare) -> FeatureState;

/// All configured features: name and state function.
const FEATURES: [(&str, OfShare); 9] = [
    ("multichannel", |smb, _, share| {
        on(smb.multichannel.enabled && share.has_multichannel(), FeatureState::Stable)
    }),
    ("encryption-in-transit", |smb, _, share| {
        on(
            smb.encryption != smb::EncryptionPolicy::Off || share.encryption_required,
            FeatureState::Stable,
        )
    }),
    ("nfs", |_, nfs, share| on(export(nfs, share).is_some(), FeatureState::Stable)),
    ("nfs-tls", |_, nfs, share| {
        on(nfs.offers_tls && export(nfs, share).is_some(), FeatureState::Preview)
    }),
    ("persistent-handles", |_, _, share| on(share.continuously_available, FeatureState::Stable)),
    ("posix-extensions", |_, _, share| on(share.posix, FeatureState::Preview)),
    ("time-machine", |_, _, share| on(share.time_machine, FeatureState::Preview)),
    ("previous-versions", |_, _, share| {
        let is_on = |v: &Arc<files::Volume>| v.options.snapshots.is_some();
        on(share.volume.as_ref().is_some_and(is_on), FeatureState::Stable)
    }),
    ("named-streams", |_, _, share| {
        let Some(volume) = &share.volume else { return FeatureState::Off };
        if volume.features().stream_bytes_max == 0 {
            return FeatureState::Unsupported;
        }
        on(volume.options.streams, FeatureState::Stable)
    }),
];

fn on(is_on: bool, state: FeatureState) -> FeatureState {
    if is_on { state } else { FeatureState::Off }
}

fn export<'a>(nfs: &'a nfs::NfsConfig, share: &smb::SmbShare) -> Option<&'a nfs::Export> {
    nfs.exports.iter().find(|export| export.name == share.name.as_bytes()).map(|e| &**e)
}

/// The states of all features. `serves_nfs` is false if NFS is not served at all.
#[must_use]
pub fn facts(smb: &smb::SmbConfig, nfs: &nfs::NfsConfig, serves_nfs: bool) -> Vec<FeatureFact> {
    let fact = |(name, of): &(&'static str, OfShare)| {
        let is_off = name.starts_with("nfs") && !serves_nfs;
        let state = |share: &smb::SmbShare| {
            if is_off { FeatureState::Off } else { of(smb, nfs, share) }
        };
        let shares = smb.shares.iter().map(|share| (share.name.clone(), state(share)));
        FeatureFact { name, shares: shares.collect(), bare: FeatureState::Off }
    };
    FEATURES.iter().map(fact).collect()
}
