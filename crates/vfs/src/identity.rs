//! On whose behalf a call is made.

/// The local user that a call acts as. Shared by `Arc`; immutable.
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

    /// The superuser, for the server's own work.
    #[must_use]
    pub fn root() -> Self {
        Self { uid: 0, gid: 0, groups: Vec::new() }
    }

    /// Whether the user belongs to `gid`.
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.binary_search(&gid).is_ok()
    }
}
