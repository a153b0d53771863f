//! On whose behalf a backend call is made.

use crate::freshness::ArrivalOrder;

/// A local user and its groups. Shared by `Arc`; immutable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Numeric user id; new files belong to it.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups, sorted, without the primary one. At most
    /// [`Identity::GROUPS_MAX`]; the rest is dropped where it is made.
    pub groups: Vec<u32>,
}

impl Identity {
    /// Linux's NGROUPS_MAX.
    pub const GROUPS_MAX: usize = 65_536;

    /// The id that the kernel takes for "no change": no user and no group has it.
    pub const INVALID_ID: u32 = u32::MAX;

    /// The id that threads have which act as nobody: no user and no group has it, and it owns
    /// nothing. It is far from the ids that systems and domains give out.
    pub const POWERLESS_ID: u32 = u32::MAX - 2;

    /// The superuser, for tests. The server's own work names its reason: [`ServerWork`].
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn root() -> Self {
        Self { uid: 0, gid: 0, groups: Vec::new() }
    }

    /// Whether the user belongs to `gid`.
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.binary_search(&gid).is_ok()
    }

    /// Whether a thread can act as this: no id of it is [`Identity::INVALID_ID`] or
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

/// Who makes a backend call, and with which place among the requests that have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actor<'a> {
    role: Role<'a>,
    /// None for what is done by no request.
    order: Option<ArrivalOrder>,
}

/// As whom a backend call is made: a user with the user's own rights, or one with a power that
/// is named with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role<'a> {
    /// The user; what is created belongs to it.
    User(&'a Identity),
    /// The user, beyond what POSIX permissions let it do; what is created still belongs to it.
    Beyond(&'a Identity, Elevated),
    /// The server itself, on behalf of no user. It creates and changes no user's file.
    Server(ServerWork),
}

/// Sees all names; owns what the server would create for itself, which is nothing.
static SUPERUSER: Identity = Identity { uid: 0, gid: 0, groups: Vec::new() };

#[cfg(any(test, feature = "testing"))]
impl Actor<'static> {
    /// The superuser as a user, for tests that are about something else.
    pub const SUPERUSER: Self = Self::new(Role::User(&SUPERUSER));
}

impl<'a> Actor<'a> {
    /// By no request; see [`Actor::in_order`].
    const fn new(role: Role<'a>) -> Self {
        Self { role, order: None }
    }

    /// The user, beyond what POSIX permissions let it do.
    #[must_use]
    pub const fn beyond(user: &'a Identity, reason: Elevated) -> Self {
        Self::new(Role::Beyond(user, reason))
    }

    /// The server itself.
    #[must_use]
    pub const fn server(work: ServerWork) -> Self {
        Self::new(Role::Server(work))
    }

    /// The same by the request with this place: it need not know of what others than this
    /// process have done since.
    #[must_use]
    pub const fn in_order(self, order: ArrivalOrder) -> Self {
        Self { order: Some(order), ..self }
    }

    /// As whom the call is made.
    #[must_use]
    pub const fn role(self) -> Role<'a> {
        self.role
    }

    /// The place of the request; for no request the next one.
    #[must_use]
    pub fn order(self) -> ArrivalOrder {
        self.order.unwrap_or_else(ArrivalOrder::next)
    }

    /// The user; none if the server acts for itself.
    #[must_use]
    pub fn user(self) -> Option<&'a Identity> {
        match self.role {
            Role::User(user) | Role::Beyond(user, _) => Some(user),
            Role::Server(_) => None,
        }
    }

    /// The user, or the superuser where the server acts for itself: to whom belongs what it
    /// creates, and whose ids a thread has that makes the call.
    #[must_use]
    pub fn creator(self) -> &'a Identity {
        self.user().unwrap_or(self.seen_as())
    }

    /// The power beyond the user's own rights.
    #[must_use]
    pub fn elevated(self) -> Option<Elevated> {
        match self.role {
            Role::Beyond(_, elevated) => Some(elevated),
            Role::User(_) | Role::Server(_) => None,
        }
    }

    /// As whom it sees names: the user, or with any power beyond the user's own rights the
    /// superuser, who sees all of them. What a cache keeps is kept under this.
    #[must_use]
    pub fn seen_as(self) -> &'a Identity {
        match self.role {
            Role::User(user) => user,
            Role::Beyond(..) | Role::Server(_) => &SUPERUSER,
        }
    }

    /// Whether it may make a call that resolves a path. A power that was decided about one node
    /// must not reach another one to which the path leads by then.
    #[must_use]
    pub fn may_resolve_paths(self) -> bool {
        !matches!(self.role, Role::Beyond(..) | Role::Server(ServerWork::OpenChecked))
    }

    /// Whether it may make device nodes: the superuser for itself, and no elevated call.
    #[must_use]
    pub fn may_make_devices(self) -> bool {
        matches!(self.role, Role::User(user) if user.uid == 0)
    }

    /// Whether it may limit what users store: the superuser for itself, and no elevated call.
    #[must_use]
    pub fn may_set_quotas(self) -> bool {
        self.may_make_devices()
    }

    /// Whether it may know what each user stores: the superuser and the server.
    #[must_use]
    pub fn may_know_all_quotas(self) -> bool {
        self.may_set_quotas() || matches!(self.role, Role::Server(_))
    }

    /// Whether it may know what the user `uid` stores: everyone knows that of themselves.
    #[must_use]
    pub fn may_know_quota_of(self, uid: u32) -> bool {
        self.may_know_all_quotas() || self.creator().uid == uid
    }

    /// Whether POSIX permission bits and access lists are not asked.
    #[must_use]
    pub fn overrides_permissions(self) -> bool {
        match self.role {
            Role::User(user) => user.uid == 0,
            Role::Beyond(user, elevated) => user.uid == 0 || elevated != Elevated::TakeOwnership,
            Role::Server(_) => true,
        }
    }

    /// Whether what POSIX reserves for the owner of a file of `uid` is let through: times, and
    /// permission bits other than set-user-ID and set-group-ID.
    #[must_use]
    pub fn acts_as_owner_of(self, uid: u32) -> bool {
        match self.role {
            Role::User(user) => user.uid == 0 || user.uid == uid,
            Role::Beyond(user, elevated) => {
                user.uid == 0 || user.uid == uid || elevated != Elevated::TakeOwnership
            }
            Role::Server(_) => true,
        }
    }

    /// Whether these changes of owner, group or mode are withheld from this actor's power,
    /// whatever reason it names: an elevated call gives nobody set-user-ID or set-group-ID bits,
    /// and gives a file to nobody but the actor and the actor's own groups.
    #[must_use]
    pub fn is_withheld(self, changes: &crate::AttributeChanges) -> bool {
        const SET_IDS: u32 = 0o6000;
        let crate::OwnerChange { uid, gid } = changes.owner;
        let changes_owner = uid.is_some() || gid.is_some();
        match self.role {
            Role::User(_) => false,
            Role::Server(_) => changes_owner || changes.mode.is_some(),
            Role::Beyond(user, _) if user.uid == 0 => false,
            Role::Beyond(user, Elevated::TakeOwnership) => {
                let is_own = uid.is_none_or(|uid| uid == user.uid);
                !is_own || gid.is_some_and(|gid| !user.in_group(gid)) || changes.mode.is_some()
            }
            Role::Beyond(..) => changes_owner || changes.mode.is_some_and(|m| m & SET_IDS != 0),
        }
    }
}

/// Why a user's call on an open node goes beyond POSIX permissions. The caller has decided
/// before, by a right that a descriptor or an open grants; the set is closed, and none of it
/// gives a foreign owner or group, set-user-ID or set-group-ID bits, or device nodes. Names
/// have a power of their own, which no call by a path takes: [`crate::NameActor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elevated {
    /// An open with WRITE_ATTRIBUTES or WRITE_DAC changes times, DOS attributes or permission
    /// bits, which POSIX reserves for the owner. MS-FSA 2.1.5.15.
    Attributes,
    /// A stored descriptor grants reading or writing what the server keeps in extended
    /// attributes: users' attributes, named streams, reparse data.
    StoredData,
    /// A descriptor grants WRITE_OWNER, and the caller takes the file for itself or gives it to
    /// one of its own groups. MS-FSA 2.1.5.17.
    TakeOwnership,
}

impl Elevated {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Attributes, Self::StoredData, Self::TakeOwnership];
}

/// Why the server looks at or opens something for itself. None of it creates or removes a name that
/// a user sees, or changes an owner, a group, a mode or data of a user's file: it may put them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerWork {
    /// What a cache keeps for all users; whom it is shown is decided for each of them.
    FillCache,
    /// What a descriptor or an execute permission lets the caller open, once that was checked of
    /// the very node: it is opened anew, by no path.
    OpenChecked,
    /// Where a node is by now, so that its open is not given for another.
    LocateNode,
    /// A share's own root, for mounts, usage and identification.
    ShareRoot,
    /// Snapshots of a share.
    Snapshots,
    /// The times of a file that a client with a write delegation has changed and not sent yet.
    /// RFC 8881 10.4.3.
    DelegatedWrite,
    /// Making what a request changed survive a loss of power, whoever may read it.
    Sync,
    /// What the server keeps beside a file: DOS attributes, descriptors, names and lengths of
    /// streams and extended attributes, verifiers, reparse data. Linux asks for the right to
    /// read data, and they are shown to all who may look at the file.
    Metadata,
    /// Putting owner, permissions and descriptor back, after a change of which a part failed.
    UndoSecurity,
    /// Files of the backend's own, in which it keeps streams that are too long for an attribute.
    /// Who may use the stream was asked of its file.
    StreamStore,
    /// Hearing of changes to a directory or a file. Linux asks for the right to read it; whom the
    /// server tells of a change is decided for each of them.
    Watch,
}
