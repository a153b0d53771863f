//! The identity on whose behalf the server calls a backend.

use crate::freshness::ArrivalOrder;
use std::hash::{Hash, Hasher};

/// A local user and its groups. Shared by `Arc`; immutable.
#[derive(Clone, Debug, Eq)]
pub struct Identity {
    /// Numeric user id; new files belong to it.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups, sorted, without the primary one; at most [`Identity::GROUPS_MAX`]. The
    /// constructor's caller drops the rest.
    pub groups: Vec<u32>,
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.uid == other.uid && self.gid == other.gid && self.has_groups_of(other)
    }
}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.uid, self.gid, &*self.groups).hash(state);
    }
}

impl Identity {
    /// Linux's NGROUPS_MAX.
    pub const GROUPS_MAX: usize = 65_536;

    /// The id that the kernel reads as "no change": no user and no group has it.
    pub const INVALID_ID: u32 = u32::MAX;

    /// The id of threads without any identity. No user and no group has it and it owns nothing; it
    /// lies far from the ids of systems and domains.
    pub const POWERLESS_ID: u32 = u32::MAX - 2;

    /// The superuser, for tests. The server's own work states its reason: [`ServerWork`].
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn root() -> Self {
        Self { uid: 0, gid: 0, groups: Vec::new() }
    }

    /// Whether both have the same supplementary groups. Two empty lists, the most frequent case,
    /// are compared without memcmp. They have no memory, and glibc's AVX-512 variant loads from
    /// their addresses under an empty mask: 130 ns instead of one.
    #[must_use]
    pub fn has_groups_of(&self, other: &Self) -> bool {
        self.groups.len() == other.groups.len()
            && (self.groups.is_empty() || self.groups == other.groups)
    }

    /// Whether the user belongs to `gid`.
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.binary_search(&gid).is_ok()
    }

    /// Whether a thread can assume this identity: no id is [`Identity::INVALID_ID`] or
    /// [`Identity::POWERLESS_ID`].
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let is_id = |id: &u32| ![Self::INVALID_ID, Self::POWERLESS_ID].contains(id);
        is_id(&self.uid) && is_id(&self.gid) && self.groups.iter().all(is_id)
    }

    /// A call by this user, with the user's own rights.
    #[must_use]
    pub fn actor(&self) -> Actor<'_> {
        Actor::new(Role::User(self))
    }
}

/// Identity behind a backend call, with the arrival of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actor<'a> {
    role: Role<'a>,
    /// None for work of no request.
    order: Option<ArrivalOrder>,
}

/// Authority of a backend call: a user's own rights, or a power with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role<'a> {
    /// The user's own rights; the user owns a created node.
    User(&'a Identity),
    /// The user, with a power beyond POSIX permissions; the user still owns a created node.
    Elevated(&'a Identity, ElevationReason),
    /// The server itself, on behalf of no user. It creates no user's file and changes none.
    Server(ServerWork),
}

/// Identity of server work: it sees all names, and creates nothing.
static SUPERUSER: Identity = Identity { uid: 0, gid: 0, groups: Vec::new() };

#[cfg(any(test, feature = "testing"))]
impl Actor<'static> {
    /// The superuser as a user, for tests whose subject is something else.
    pub const SUPERUSER: Self = Self::new(Role::User(&SUPERUSER));
}

impl<'a> Actor<'a> {
    /// Without a request; see [`Actor::in_order`].
    const fn new(role: Role<'a>) -> Self {
        Self { role, order: None }
    }

    /// The user, with a power beyond POSIX permissions.
    #[must_use]
    pub const fn elevate(user: &'a Identity, reason: ElevationReason) -> Self {
        Self::new(Role::Elevated(user, reason))
    }

    /// The server itself.
    #[must_use]
    pub const fn server(work: ServerWork) -> Self {
        Self::new(Role::Server(work))
    }

    /// This actor with the arrival of its request. The call need not see later changes by other
    /// processes.
    #[must_use]
    pub const fn in_order(self, order: ArrivalOrder) -> Self {
        Self { order: Some(order), ..self }
    }

    /// The authority of the call.
    #[must_use]
    pub const fn role(self) -> Role<'a> {
        self.role
    }

    /// The arrival of the request; without a request a new one.
    #[must_use]
    pub fn order(self) -> ArrivalOrder {
        self.order.unwrap_or_else(ArrivalOrder::next)
    }

    /// The user; none for the server itself.
    #[must_use]
    pub fn user(self) -> Option<&'a Identity> {
        match self.role {
            Role::User(user) | Role::Elevated(user, _) => Some(user),
            Role::Server(_) => None,
        }
    }

    /// The identity that owns a created node and whose ids the calling thread assumes: the user, or
    /// the superuser for the server itself.
    #[must_use]
    pub fn creator(self) -> &'a Identity {
        self.user().unwrap_or(self.effective_identity())
    }

    /// The power beyond the user's own rights.
    #[must_use]
    pub fn elevated(self) -> Option<ElevationReason> {
        match self.role {
            Role::Elevated(_, elevated) => Some(elevated),
            Role::User(_) | Role::Server(_) => None,
        }
    }

    /// The identity whose view of names applies: the user, or the superuser for every elevated
    /// call. Caches key their entries by it.
    #[must_use]
    pub fn effective_identity(self) -> &'a Identity {
        match self.role {
            Role::User(user) => user,
            Role::Elevated(..) | Role::Server(_) => &SUPERUSER,
        }
    }

    /// Whether the actor may resolve paths. A power granted on one node must not reach another to
    /// which the path now leads.
    #[must_use]
    pub fn may_resolve_paths(self) -> bool {
        !matches!(self.role, Role::Elevated(..) | Role::Server(ServerWork::OpenChecked))
    }

    /// Whether the actor may create device nodes: only the superuser as a user.
    #[must_use]
    pub fn may_make_devices(self) -> bool {
        matches!(self.role, Role::User(user) if user.uid == 0)
    }

    /// Whether the actor may set quotas: only the superuser as a user.
    #[must_use]
    pub fn may_set_quotas(self) -> bool {
        self.may_make_devices()
    }

    /// Whether the actor may read every user's quota: the superuser and the server.
    #[must_use]
    pub fn may_know_all_quotas(self) -> bool {
        self.may_set_quotas() || matches!(self.role, Role::Server(_))
    }

    /// Whether the actor may read the quota of `uid`: each user may read their own.
    #[must_use]
    pub fn may_know_quota_of(self, uid: u32) -> bool {
        self.may_know_all_quotas() || self.creator().uid == uid
    }

    /// Whether the backend skips POSIX permission bits and access lists.
    #[must_use]
    pub fn overrides_permissions(self) -> bool {
        match self.role {
            Role::User(user) => user.uid == 0,
            Role::Elevated(user, elevated) => {
                user.uid == 0 || elevated != ElevationReason::TakeOwnership
            }
            Role::Server(_) => true,
        }
    }

    /// Whether the actor may change what POSIX reserves for the owner of a file of `uid`: times,
    /// and permission bits except set-user-ID and set-group-ID.
    #[must_use]
    pub fn acts_as_owner_of(self, uid: u32) -> bool {
        match self.role {
            Role::User(user) => user.uid == 0 || user.uid == uid,
            Role::Elevated(user, elevated) => {
                user.uid == 0 || user.uid == uid || elevated != ElevationReason::TakeOwnership
            }
            Role::Server(_) => true,
        }
    }

    /// Whether this actor may not make these changes of owner, group or mode. An elevated call
    /// never sets set-user-ID or set-group-ID bits. It gives a file only to the actor and the
    /// actor's own groups.
    #[must_use]
    pub fn withholds(self, changes: &crate::AttributeChanges) -> bool {
        const SET_IDS: u32 = 0o6000;
        let crate::OwnerChange { uid, gid } = changes.owner;
        let changes_owner = uid.is_some() || gid.is_some();
        match self.role {
            Role::User(_) => false,
            Role::Server(_) => changes_owner || changes.mode.is_some(),
            Role::Elevated(user, _) if user.uid == 0 => false,
            Role::Elevated(user, ElevationReason::TakeOwnership) => {
                let is_own = uid.is_none_or(|uid| uid == user.uid);
                !is_own || gid.is_some_and(|gid| !user.in_group(gid)) || changes.mode.is_some()
            }
            Role::Elevated(..) => changes_owner || changes.mode.is_some_and(|m| m & SET_IDS != 0),
        }
    }
}

/// Reason for which a user's call on an open node exceeds POSIX permissions. The caller has decided
/// before, by a right that a descriptor or an open grants. The set is closed: no reason gives a
/// foreign owner or group, set-ID bits, or device nodes. Names have a power of their own, which no
/// call by path takes: [`crate::NameActor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElevationReason {
    /// An open with WRITE_ATTRIBUTES or WRITE_DAC changes times, DOS attributes or permission bits,
    /// which POSIX reserves for the owner. MS-FSA 2.1.5.15.
    Attributes,
    /// A stored descriptor grants access to what the server stores in extended attributes: users'
    /// attributes, named streams, reparse data.
    StoredData,
    /// A descriptor grants WRITE_OWNER, and the caller takes ownership or gives the file to one of
    /// its own groups. MS-FSA 2.1.5.17.
    TakeOwnership,
}

impl ElevationReason {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Attributes, Self::StoredData, Self::TakeOwnership];
}

/// Reason for which the server looks at or opens a node for itself. No reason creates or removes a
/// visible name. None changes an owner, a group, a mode or data of a user's file, except to restore
/// the earlier state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerWork {
    /// Filling a cache that all users share; the cache checks each user's permission on a hit.
    FillCache,
    /// Opening the very node on which the caller's permission was checked, by no path. The
    /// permission comes from a descriptor or an execute bit.
    OpenChecked,
    /// Locating a node, so that its open is not taken for another's.
    LocateNode,
    /// The root of a share, for mounts, usage and identification.
    ShareRoot,
    /// Snapshots of a share.
    Snapshots,
    /// The times of a file that the holder of a write delegation has changed and not sent yet.
    /// RFC 8881 10.4.3.
    DelegatedWrite,
    /// Making a request's changes survive a power loss, whether or not the caller may read the
    /// file.
    Sync,
    /// Metadata that the server stores beside a file: DOS attributes, descriptors, names and
    /// lengths of streams and extended attributes, verifiers, reparse data. Linux wants read
    /// permission on the data for it, while SMB shows it to everyone who may stat the file.
    Metadata,
    /// Restoring owner, permissions and descriptor after a change that failed in part.
    UndoSecurity,
    /// The backend's own files, which hold streams that are too long for an attribute. The
    /// permission check was made on the stream's file.
    StreamStore,
    /// Watching a directory or a file for changes. Linux wants read permission; the server checks
    /// each recipient of a notification separately.
    Watch,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_equal_by_both_ids_and_groups() {
        let one = Identity { uid: 1, gid: 2, groups: vec![3, 4] };
        let alone = Identity { groups: Vec::new(), ..one.clone() };
        assert_eq!((one.clone(), alone.clone()), (one.clone(), alone.clone()));
        for other in [
            Identity { uid: 2, ..one.clone() },
            Identity { gid: 1, ..one.clone() },
            Identity { groups: vec![3, 5], ..one.clone() },
            Identity { groups: vec![3], ..one.clone() },
            alone,
        ] {
            assert_ne!(one, other);
            assert_ne!(other, one);
        }
    }
}
