//! What the NFS layer is configured with.

use crate::conn::Shared;
use crate::pseudo::PseudoTree;
use files::{Volume, VolumeId};
use meter::ShareId;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use vfs::Identity;
use wire::nfs::NfsStatus;

/// The number that is no user's and no group's, (uid_t)-1: the system's calls take it for "leave
/// as it is", so that a thread that is to act as this user would act as the last one.
pub(crate) const NO_ID: u32 = u32::MAX;

/// Whose power a client's users have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// All users are anonymous.
    All,
    /// What they say.
    None,
    /// The superuser is anonymous.
    #[default]
    Root,
}

/// Whether an address is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostVerdict {
    /// It is.
    Admitted,
    /// It is not.
    Refused,
    /// That is being found out, by a look-up of the client's name: it is to come again.
    Unknown,
    /// It may be: the look-up failed, or had no answer in time.
    Unanswered,
}

impl From<bool> for HostVerdict {
    fn from(is_admitted: bool) -> Self {
        if is_admitted { Self::Admitted } else { Self::Refused }
    }
}

/// Which addresses are let in.
pub trait HostFilter: Send + Sync + std::fmt::Debug {
    /// Whether this one is. Never waits.
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

/// Terms of some clients, in place of those of all.
#[derive(Clone, Debug)]
pub struct ClientTerms {
    /// The addresses of the clients.
    pub hosts: Arc<dyn HostFilter>,
    /// Their terms; none if they do not reach the share, whatever other entries say.
    pub terms: Option<ExportTerms>,
}

/// A share, as NFS clients see it: a directory in the root of all.
#[derive(Clone, Debug)]
pub struct Export {
    /// What it is called in file handles: the same after a restart.
    pub id: VolumeId,
    /// The name of its directory.
    pub name: Vec<u8>,
    /// What is in it.
    pub volume: Arc<Volume>,
    /// The terms of all clients.
    pub terms: ExportTerms,
    /// Terms by client, of which the first that is for a client counts. Clients that none is for
    /// do not reach the share, unless there are none.
    pub clients: Vec<ClientTerms>,
    /// Who may reach it.
    pub hosts: Arc<dyn HostFilter>,
    /// Only connections under TLS reach it.
    pub tls_required: bool,
    /// Only connections from a reserved source port reach it, as with the kernel server's `secure`:
    /// with AUTH_SYS the system of a trusted machine vouches for the user by that port alone.
    pub reserved_ports: bool,
    /// What is answered is on stable storage, as with the kernel server's `sync`; otherwise that
    /// holds for data alone, and names and attributes may be lost with the power.
    pub is_stable: bool,
    /// What its requests are counted under.
    pub counted: ShareId,
}

impl Export {
    /// Whether a connection may reach it.
    ///
    /// # Errors
    /// `absent`, the status of what does not exist, for other machines; DELAY while it is looked up
    /// whether this is one; PERM, as the Linux kernel's server replies, for a source port that any
    /// program can have where it must be reserved; WRONGSEC without TLS where that is required.
    pub(crate) fn admit(&self, conn: &Shared, absent: NfsStatus) -> Result<(), NfsStatus> {
        match self.verdict(conn.facts.peer.ip()) {
            HostVerdict::Admitted => {}
            HostVerdict::Refused | HostVerdict::Unanswered => return Err(absent),
            HostVerdict::Unknown => return Err(NfsStatus::DELAY),
        }
        if self.reserved_ports && !conn.facts.has_reserved_port() {
            conn.warn_of_unreserved_port(&self.name);
            return Err(NfsStatus::PERM);
        }
        if self.tls_required && !conn.is_under_tls() {
            conn.warn_of_missing_tls(&self.name);
            return Err(NfsStatus::WRONGSEC);
        }
        Ok(())
    }

    /// Whether clients at an address may reach it; never [`HostVerdict::Unanswered`].
    #[must_use]
    pub fn verdict(&self, peer: IpAddr) -> HostVerdict {
        match self.hosts.verdict(peer) {
            HostVerdict::Admitted => self.find_terms(peer).0,
            HostVerdict::Unanswered => HostVerdict::Refused,
            other => other,
        }
    }

    /// The terms of clients at an address; none if it has none for them, or that is being found out.
    #[must_use]
    pub fn terms_of(&self, peer: IpAddr) -> Option<ExportTerms> {
        self.find_terms(peer).1
    }

    /// Whether there are terms for clients at an address, and if so, which: those of the first entry
    /// that is for them, or of none before it is known whether the entry is. An entry that stays
    /// without an answer may be for them: no later entry gives more than it would.
    fn find_terms(&self, peer: IpAddr) -> (HostVerdict, Option<ExportTerms>) {
        if self.clients.is_empty() {
            return (HostVerdict::Admitted, Some(self.terms));
        }
        let mut unanswered = Vec::new();
        for ClientTerms { hosts, terms } in &self.clients {
            match hosts.verdict(peer) {
                HostVerdict::Admitted => {
                    let is_bounded = unanswered.iter().all(|bound| is_within(*terms, *bound));
                    let terms = terms.filter(|_| is_bounded);
                    return (terms.is_some().into(), terms);
                }
                HostVerdict::Refused => {}
                HostVerdict::Unanswered => unanswered.push(*terms),
                HostVerdict::Unknown => return (HostVerdict::Unknown, None),
            }
        }
        (HostVerdict::Refused, None)
    }

    /// Whether clients at an address may change nothing.
    #[must_use]
    pub fn is_read_only(&self, peer: IpAddr) -> bool {
        self.terms_of(peer).is_none_or(|terms| terms.read_only)
    }
}

/// Whether terms give nothing that `bound` does not. None give nothing.
fn is_within(terms: Option<ExportTerms>, bound: Option<ExportTerms>) -> bool {
    let Some(terms) = terms else { return true };
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
    /// The superuser is nobody in particular, and all may change what permissions let them.
    #[must_use]
    pub fn usual(nobody: u32) -> Self {
        Self { read_only: false, squash: Squash::Root, anonymous: (nobody, nobody) }
    }

    /// Whom a client's user is here.
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
            // The superuser's group is as good as the superuser for what belongs to it.
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

/// What the NFS layer is configured with.
#[derive(Clone, Debug)]
pub struct Config {
    /// All shares.
    pub exports: Vec<Arc<Export>>,
    /// Directories that lead to them by their paths, beside their names in the root.
    pub tree: PseudoTree,
    /// How long a client that says nothing keeps what it has.
    pub lease: Duration,
    /// The server's name for clients that reach it at several addresses: the same at
    /// all of them, another one on every other server. RFC 8881 2.5.
    pub owner: Vec<u8>,
    /// Connections may go on under TLS. RFC 9289.
    pub offers_tls: bool,
    /// Opens, locks and delegations of all clients.
    pub states_max: usize,
}

impl Config {
    /// The share of this number.
    #[must_use]
    pub fn export(&self, id: VolumeId) -> Option<&Arc<Export>> {
        self.exports.iter().find(|export| export.id == id)
    }

    /// The share of this name.
    #[must_use]
    pub fn export_named(&self, name: &[u8]) -> Option<&Arc<Export>> {
        self.exports.iter().find(|export| export.name == name)
    }
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
    fn the_superuser_is_nobody_unless_the_share_says_otherwise() {
        assert_eq!(squashed(Squash::Root, 0, 0, &[4]), (65_534, 65_533, vec![]));
        assert_eq!(squashed(Squash::Root, 5, 0, &[0, 4]), (5, 65_533, vec![4]));
        assert_eq!(squashed(Squash::Root, 5, 6, &[4]), (5, 6, vec![4]));
        assert_eq!(squashed(Squash::None, 0, 0, &[0]), (0, 0, vec![0]));
        assert_eq!(squashed(Squash::All, 5, 6, &[4]), (65_534, 65_533, vec![]));
    }

    #[test]
    fn uid_and_gid_of_minus_one_are_anonymous_on_every_share() {
        for squash in [Squash::All, Squash::None, Squash::Root] {
            assert_eq!(squashed(squash, NO_ID, 6, &[4]), (65_534, 65_533, vec![]), "{squash:?}");
        }
        for squash in [Squash::None, Squash::Root] {
            assert_eq!(squashed(squash, 5, NO_ID, &[4, NO_ID]), (5, 65_533, vec![4]), "{squash:?}");
            assert_eq!(squashed(squash, 5, 6, &[4, NO_ID]), (5, 6, vec![4]), "{squash:?}");
        }
    }
}
