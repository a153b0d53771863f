//! A share over NFS: its hosts, and the terms of clients on it. exports(5).

use files::{Volume, VolumeId};
use meter::ShareId;
use std::net::IpAddr;
use std::sync::Arc;
use vfs::Identity;

/// (uid_t)-1, which no user and no group has. System calls read it as "no change", so a thread that
/// should assume it would keep its previous identity.
pub(crate) const NO_ID: u32 = u32::MAX;

/// Identity mapping of a client's users, as `root_squash` of exports(5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// Maps all users to the anonymous user.
    All,
    /// Maps no user.
    None,
    /// Maps root to the anonymous user.
    #[default]
    Root,
}

/// Whether a host filter admits an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostVerdict {
    /// The filter admits it.
    Admitted,
    /// The filter refuses it.
    Refused,
    /// A lookup of the host name is in flight: the client should retry.
    Unknown,
    /// The lookup failed or timed out, so that the filter may or may not match.
    Unanswered,
}

impl From<bool> for HostVerdict {
    fn from(is_admitted: bool) -> Self {
        if is_admitted { Self::Admitted } else { Self::Refused }
    }
}

/// Filter of client addresses.
pub trait HostFilter: Send + Sync + std::fmt::Debug {
    /// The verdict on an address. Never waits.
    fn verdict(&self, peer: IpAddr) -> HostVerdict;
}

/// Terms of a client on a share: its access, and the identities of its users. exports(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportTerms {
    /// Nothing in the share can be changed.
    pub read_only: bool,
    /// See [`Squash`].
    pub squash: Squash,
    /// User and group id of the anonymous.
    pub anonymous: (u32, u32),
}

/// Terms that replace the general ones for some clients.
#[derive(Clone, Debug)]
pub struct ClientTerms {
    /// Addresses of the clients.
    pub hosts: Arc<dyn HostFilter>,
    /// Their terms; none denies them the share, whatever other entries say.
    pub terms: Option<ExportTerms>,
}

/// A volume whose backend has what NFS needs: persistent handles.
#[derive(Clone, Debug)]
pub struct ExportedVolume(Arc<Volume>);

impl ExportedVolume {
    /// Asks the backend.
    ///
    /// # Errors
    /// [`NoHandles`] if it has no persistent handles.
    pub fn new(volume: Arc<Volume>) -> Result<Self, NoHandles> {
        let has_handles = volume.vfs.handles().is_some();
        has_handles.then_some(Self(volume)).ok_or(NoHandles)
    }
}

impl std::ops::Deref for ExportedVolume {
    type Target = Arc<Volume>;

    fn deref(&self) -> &Arc<Volume> {
        &self.0
    }
}

/// The backend has no persistent handles, so that NFS cannot export it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHandles;

impl std::fmt::Display for NoHandles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("its file system has no persistent file handles, which NFS needs: serve it over SMB alone (nfs = false)")
    }
}

impl std::error::Error for NoHandles {}

/// A share as NFS clients see it: a directory in the pseudo root.
#[derive(Clone, Debug)]
pub struct Export {
    /// Id in file handles, stable over restarts.
    pub id: VolumeId,
    /// Name of its directory.
    pub name: Vec<u8>,
    /// Volume behind it.
    pub volume: ExportedVolume,
    /// General terms.
    pub terms: ExportTerms,
    /// Terms by client; the first matching entry applies. If there are any, clients without one do
    /// not reach the share.
    pub clients: Vec<ClientTerms>,
    /// Filter of hosts.
    pub hosts: Arc<dyn HostFilter>,
    /// The share requires TLS.
    pub tls_required: bool,
    /// The share requires a reserved source port, as `secure` of the kernel server. With AUTH_SYS
    /// only that port shows that a trusted machine's system vouches for the user.
    pub reserved_ports: bool,
    /// Replies imply stable storage, as `sync` of the kernel server. Otherwise that holds for data
    /// alone, and a power loss may take names and attributes.
    pub is_stable: bool,
    /// Share id of its metrics.
    pub counted: ShareId,
}

impl Export {
    /// Whether clients at an address may reach the share. [`HostVerdict::Unanswered`] refuses them
    /// too, until the name service answers for an entry that may admit them.
    #[must_use]
    pub fn verdict(&self, peer: IpAddr) -> HostVerdict {
        match self.hosts.verdict(peer) {
            HostVerdict::Admitted => self.find_terms(peer).0,
            other => other,
        }
    }

    /// Terms of clients at an address; None if it has no terms for them, or their lookup is in
    /// flight.
    #[must_use]
    pub fn terms_of(&self, peer: IpAddr) -> Option<ExportTerms> {
        self.find_terms(peer).1
    }

    /// Verdict and terms for an address: those of the first entry that admits it. Unknown while an
    /// earlier entry's lookup is in flight. An entry without an answer might apply, so that a later
    /// entry grants no more than it. Unanswered where only such an entry refuses the address.
    fn find_terms(&self, peer: IpAddr) -> (HostVerdict, Option<ExportTerms>) {
        if self.clients.is_empty() {
            return (HostVerdict::Admitted, Some(self.terms));
        }
        let mut unanswered = Vec::new();
        for ClientTerms { hosts, terms } in &self.clients {
            match hosts.verdict(peer) {
                HostVerdict::Admitted => {
                    let Some(granted) = *terms else { break };
                    if unanswered.iter().all(|bound| is_within(granted, *bound)) {
                        return (HostVerdict::Admitted, *terms);
                    }
                    return (HostVerdict::Unanswered, None);
                }
                HostVerdict::Refused => {}
                HostVerdict::Unanswered => unanswered.push(*terms),
                HostVerdict::Unknown => return (HostVerdict::Unknown, None),
            }
        }
        let may_admit = unanswered.iter().any(Option::is_some);
        (if may_admit { HostVerdict::Unanswered } else { HostVerdict::Refused }, None)
    }

    /// Whether the share is read-only for clients at an address.
    #[must_use]
    pub fn is_read_only(&self, peer: IpAddr) -> bool {
        self.terms_of(peer).is_none_or(|terms| terms.read_only)
    }
}

/// Whether terms grant no more than `bound`. None grants nothing.
fn is_within(terms: ExportTerms, bound: Option<ExportTerms>) -> bool {
    let power = |squash| match squash {
        Squash::All => 0,
        Squash::Root => 1,
        Squash::None => 2,
    };
    bound.is_some_and(|bound| {
        (terms.read_only || !bound.read_only)
            && power(terms.squash) <= power(bound.squash)
            && terms.anonymous == bound.anonymous
    })
}

impl ExportTerms {
    /// Root is mapped to the anonymous user; permissions decide all changes.
    #[must_use]
    pub fn usual(nobody: u32) -> Self {
        Self { read_only: false, squash: Squash::Root, anonymous: (nobody, nobody) }
    }

    /// Identity of a client's user on the share.
    #[must_use]
    pub fn squashed(&self, identity: Option<&Identity>) -> Identity {
        let (uid, gid) = self.anonymous;
        let anonymous = || Identity { uid, gid, groups: Vec::new() };
        let Some(identity) = identity else { return anonymous() };
        if identity.uid == NO_ID {
            return anonymous();
        }
        match self.squash {
            Squash::All => anonymous(),
            Squash::None if identity.gid != NO_ID && !identity.groups.contains(&NO_ID) => {
                identity.clone()
            }
            Squash::None => Identity {
                uid: identity.uid,
                gid: if identity.gid == NO_ID { gid } else { identity.gid },
                groups: without(&identity.groups, [NO_ID, NO_ID]),
            },
            Squash::Root if identity.uid == 0 => anonymous(),
            // For files of its group, root's group is as powerful as root.
            Squash::Root => Identity {
                uid: identity.uid,
                gid: if [0, NO_ID].contains(&identity.gid) { gid } else { identity.gid },
                groups: without(&identity.groups, [0, NO_ID]),
            },
        }
    }
}

fn without(groups: &[u32], left_out: [u32; 2]) -> Vec<u32> {
    groups.iter().copied().filter(|group| !left_out.contains(group)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squashed(squash: Squash, uid: u32, gid: u32, groups: &[u32]) -> (u32, u32, Vec<u32>) {
        let terms = ExportTerms { squash, read_only: false, anonymous: (65_534, 65_533) };
        let who = terms.squashed(Some(&Identity { uid, gid, groups: groups.to_vec() }));
        (who.uid, who.gid, who.groups)
    }

    #[test]
    fn root_is_squashed_by_default() {
        assert_eq!(squashed(Squash::Root, 0, 0, &[4]), (65_534, 65_533, vec![]));
        assert_eq!(squashed(Squash::Root, 5, 0, &[0, 4]), (5, 65_533, vec![4]));
        assert_eq!(squashed(Squash::Root, 5, 6, &[4]), (5, 6, vec![4]));
        assert_eq!(squashed(Squash::None, 0, 0, &[0]), (0, 0, vec![0]));
        assert_eq!(squashed(Squash::All, 5, 6, &[4]), (65_534, 65_533, vec![]));
    }

    #[test]
    fn uid_and_gid_of_minus_one_are_always_anonymous() {
        for squash in [Squash::All, Squash::None, Squash::Root] {
            assert_eq!(squashed(squash, NO_ID, 6, &[4]), (65_534, 65_533, vec![]), "{squash:?}");
        }
        for squash in [Squash::None, Squash::Root] {
            assert_eq!(squashed(squash, 5, NO_ID, &[4, NO_ID]), (5, 65_533, vec![4]), "{squash:?}");
            assert_eq!(squashed(squash, 5, 6, &[4, NO_ID]), (5, 6, vec![4]), "{squash:?}");
        }
    }

    #[test]
    fn export_of_backend_without_handles_is_refused() {
        use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
        let volume = |has_handles| {
            let options = MemoryOptions { has_handles, ..MemoryOptions::default() };
            let vfs = MemoryVfs::new(options, Arc::new(StillClock::default()));
            Arc::new(Volume::new(Arc::new(vfs), files::VolumeOptions::default()))
        };
        assert!(ExportedVolume::new(volume(true)).is_ok());
        assert_eq!(ExportedVolume::new(volume(false)).map(drop), Err(NoHandles));
    }
}
