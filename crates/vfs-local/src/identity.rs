//! Per-thread credentials: acting as another user.
//!
//! `setfsuid`, `setresgid` and `setgroups` as raw system calls change the calling thread only. An
//! [`IdentityGuard`] sets them, verifies them, and restores them when it is dropped. Within
//! [`keep_identity`], where a thread processes nothing but requests, the outermost guard leaves the
//! credentials in place, so that a run of calls for one user costs nothing. Every call has its own
//! guard, so none inherits another user's identity.
//!
//! Between guards a thread has the process's credentials, or after [`rest_without_power`] those of
//! an id that owns nothing. A call without a guard then fails instead of succeeding with
//! privileges.
//!
//! An elevated user ([`vfs::ElevationReason`], [`vfs::NameActor`]) retains its own user id and gets
//! single capabilities. Files that it creates belong to it, and the capabilities never include
//! CAP_CHOWN, CAP_FSETID or CAP_MKNOD, except CAP_CHOWN to take ownership. capabilities(7). A call
//! that resolves a path uses [`IdentityGuard::on_path`], which refuses all of these elevations.

use rustix::thread::{CapabilitySet, UnshareFlags};
use std::cell::RefCell;
use std::sync::OnceLock;
use vfs::{Actor, ElevationReason, FsError, Identity, NameActor, Result, Role, ServerWork};

/// The calling thread's credentials, as far as this module set them. The kernel keeps them per
/// thread.
#[derive(Debug)]
struct ThreadCredentials {
    /// `None` before the first guard and after a failed change: unknown credentials are set
    /// completely.
    present: Option<EffectiveCredentials>,
    /// Number of live guards on this thread.
    guards: u32,
    /// Nesting depth of [`keep_identity`].
    keepers: u32,
    /// True if the thread rests as [`POWERLESS`].
    rests_without_power: bool,
    /// True if the thread has its own umask; `None` before the attempt.
    owns_umask: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct EffectiveCredentials {
    identity: Identity,
    power: Option<Power>,
}

/// An elevation of a thread beyond its user's rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    /// For one open node.
    Node(ElevationReason),
    /// For names in open directories: [`NameActor::Granted`].
    Names,
    /// For one hard link to an open node in an open directory: [`IdentityGuard::on_link`].
    Link,
}

thread_local! {
    static THREAD: RefCell<ThreadCredentials> = const {
        RefCell::new(ThreadCredentials {
            present: None,
            guards: 0,
            keepers: 0,
            rests_without_power: false,
            owns_umask: None,
        })
    };
}

/// The process's own credentials, which all server work has.
const SERVER: Actor<'static> = Actor::server(ServerWork::Metadata);

/// Owns no file, and no user can have it ([`Identity::is_valid`]).
static POWERLESS: Identity =
    Identity { uid: Identity::POWERLESS_ID, gid: Identity::POWERLESS_ID, groups: Vec::new() };

/// True if the identity has no group that owns anything, like a thread at rest.
fn is_without_group(identity: &Identity) -> bool {
    identity.gid == POWERLESS.gid && identity.groups.is_empty()
}

/// True if this process may act as others.
pub(crate) fn may_switch() -> bool {
    static IS_ROOT: OnceLock<bool> = OnceLock::new();
    *IS_ROOT.get_or_init(|| rustix::process::geteuid().is_root())
}

/// Makes the thread act as one actor until it is dropped, and then as the previous one.
#[derive(Debug)]
#[must_use]
pub struct IdentityGuard {
    before: PreviousCredentials,
    /// Credentials belong to the thread, so the guard must stay on it.
    _of_thread: std::marker::PhantomData<*const ()>,
}

/// The state to which a thread returns.
#[derive(Debug)]
enum PreviousCredentials {
    /// Unchanged: the process cannot act as others.
    Unchanged,
    /// The state between guards.
    Rest,
    /// The credentials of an outer guard that is still alive.
    Guarded(EffectiveCredentials),
}

impl IdentityGuard {
    /// Makes the calling thread act as `actor`.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] for an identity that no thread can have
    /// ([`Identity::is_valid`]), or if the kernel refuses. The thread's credentials then stay
    /// unchanged.
    pub fn begin(actor: Actor<'_>) -> Result<Self> {
        if actor.user().is_some_and(|user| !user.is_valid()) {
            return Err(FsError::AccessDenied);
        }
        Self::guard(|thread| thread.become_actor(actor))
    }

    /// Like [`IdentityGuard::begin`], for a call that resolves a path.
    ///
    /// # Errors
    /// Like [`IdentityGuard::begin`]; [`FsError::AccessDenied`] for an actor that may not resolve
    /// paths ([`Actor::may_resolve_paths`]).
    pub fn on_path(actor: Actor<'_>) -> Result<Self> {
        if actor.may_resolve_paths() { Self::begin(actor) } else { Err(FsError::AccessDenied) }
    }

    /// Makes the calling thread change names in open directories as `actor`.
    ///
    /// # Errors
    /// Like [`IdentityGuard::begin`].
    pub fn on_names(actor: NameActor<'_>) -> Result<Self> {
        match actor {
            NameActor::Granted(user) if user.uid != 0 && user.is_valid() => {
                Self::guard(|thread| thread.become_user(user, Some(Power::Names)))
            }
            _ => Self::on_path(actor.actor()),
        }
    }

    /// Like [`IdentityGuard::on_names`], to remove a name from a directory that the actor owns, on
    /// a thread without groups: the thread takes the actor's user id only. `owner` returns the
    /// owner of the directory. For an owner the kernel checks no group, neither in mode bits nor in
    /// access lists (acl(5)), and a removal stores none. That saves two of four changes of
    /// credentials. These are fewer rights than the actor's own, so a refusal is not final.
    ///
    /// `None` if this does not apply.
    ///
    /// # Errors
    /// Like [`IdentityGuard::begin`].
    pub fn on_own_directory(
        actor: NameActor<'_>,
        owner: impl FnOnce() -> Option<u32>,
    ) -> Result<Option<Self>> {
        let NameActor::Own(actor) = actor else { return Ok(None) };
        let Role::User(user) = actor.role() else { return Ok(None) };
        let has_no_group = THREAD.with_borrow(|thread| {
            thread.present.as_ref().is_some_and(|now| is_without_group(&now.identity))
        });
        if user.uid == 0 || !user.is_valid() || !has_no_group || owner() != Some(user.uid) {
            return Ok(None);
        }
        let alone = Identity { uid: user.uid, ..POWERLESS.clone() };
        Self::guard(|thread| thread.become_user(&alone, None)).map(Some)
    }

    /// Lets the calling thread add a hard link to an open node, even if `fs.protected_hardlinks`
    /// (proc(5)) restricts `actor` to files that it may write. POSIX permits the link to every user
    /// that may add the name, and the kernel still checks that. link(3p).
    ///
    /// `None` for an actor that the setting does not restrict, or whose call may not resolve paths.
    ///
    /// # Errors
    /// Like [`IdentityGuard::begin`].
    pub fn on_link(actor: Actor<'_>) -> Result<Option<Self>> {
        match actor.role() {
            Role::User(user) if user.uid != 0 && user.is_valid() => {
                Self::guard(|thread| thread.become_user(user, Some(Power::Link))).map(Some)
            }
            Role::User(_) | Role::Elevated(..) | Role::Server(_) => Ok(None),
        }
    }

    /// Lets the calling thread change the data of a file that is open for writing, on behalf of
    /// `actor`: as the actor, or without privileges. The kernel checks no permission then, but
    /// whether the caller may use reserved blocks and keep set-user-ID bits, which neither may.
    /// Only for a file with `is_group_marked` does it check the caller's groups, so that call runs
    /// as the actor.
    ///
    /// # Errors
    /// Like [`IdentityGuard::begin`].
    pub fn on_open_file(actor: Actor<'_>, is_group_marked: impl FnOnce() -> bool) -> Result<Self> {
        match actor.user() {
            Some(user) if user.is_valid() && user.uid != 0 => Self::guard(|thread| {
                let present = thread.present.as_ref();
                if present.is_some_and(|now| now.identity == POWERLESS) && !is_group_marked() {
                    return Ok(());
                }
                thread.become_actor(user.actor())
            }),
            _ => Self::begin(actor),
        }
    }

    /// Keeps the calling thread without privileges for a call, if it already is: for an optional
    /// look-up on behalf of a user that is known to be permitted. `None` if the thread acts as a
    /// user, which it should continue to do.
    pub fn on_public_name() -> Option<Self> {
        let is_powerless = THREAD.with_borrow(|thread| {
            thread.present.as_ref().is_some_and(|now| now.identity == POWERLESS)
        });
        is_powerless.then(|| Self::guard(|_| Ok(())).ok()).flatten()
    }

    /// Keeps the calling thread's credentials, if they are those of `actor` without elevation, with
    /// or without its groups ([`IdentityGuard::on_own_directory`]). `None` otherwise.
    pub fn on_present(actor: Actor<'_>) -> Option<Self> {
        let Role::User(user) = actor.role() else { return None };
        let is_present = THREAD.with_borrow(|thread| {
            let is_it = |now: &EffectiveCredentials| {
                let identity = &now.identity;
                let is_alone = identity.uid == user.uid && is_without_group(identity);
                now.power.is_none() && (identity == user || is_alone)
            };
            user.is_valid() && thread.present.as_ref().is_some_and(is_it)
        });
        is_present.then(|| Self::guard(|_| Ok(())).ok()).flatten()
    }

    /// Makes the calling thread act as the server.
    ///
    /// # Errors
    /// Like [`IdentityGuard::begin`].
    pub fn server(work: ServerWork) -> Result<Self> {
        Self::begin(Actor::server(work))
    }

    fn guard(change: impl FnOnce(&mut ThreadCredentials) -> Result<()>) -> Result<Self> {
        let _of_thread = std::marker::PhantomData;
        if !may_switch() {
            return Ok(Self { before: PreviousCredentials::Unchanged, _of_thread });
        }
        THREAD.with_borrow_mut(|thread| {
            let before = match &thread.present {
                Some(present) if thread.guards > 0 => PreviousCredentials::Guarded(present.clone()),
                _ => PreviousCredentials::Rest,
            };
            if let Err(error) = change(thread) {
                // The thread must not continue with a partial change.
                thread.go_back(before)?;
                return Err(error);
            }
            thread.guards += 1;
            Ok(Self { before, _of_thread })
        })
    }
}

impl Drop for IdentityGuard {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut self.before, PreviousCredentials::Unchanged);
        if matches!(before, PreviousCredentials::Unchanged) {
            return;
        }
        THREAD.with_borrow_mut(|thread| {
            thread.guards -= 1;
            let is_kept = thread.guards == 0 && thread.keepers > 0;
            if !is_kept {
                thread.go_back_or_abort(before);
            }
        });
    }
}

/// Processes requests: until `work` returns, dropped guards leave the thread's credentials in
/// place. `work` must not access a file without a guard. Afterwards the thread rests.
pub fn keep_identity<T>(work: impl FnOnce() -> T) -> T {
    THREAD.with_borrow_mut(|thread| thread.keepers += 1);
    let _end = KeeperEnd;
    work()
}

/// Ends a [`keep_identity`], also after a panic.
struct KeeperEnd;

impl Drop for KeeperEnd {
    fn drop(&mut self) {
        THREAD.with_borrow_mut(|thread| {
            thread.keepers -= 1;
            // A process that cannot act as others never changes its credentials.
            if thread.keepers == 0 && thread.guards == 0 && may_switch() {
                thread.go_back_or_abort(PreviousCredentials::Rest);
            }
        });
    }
}

/// Makes the calling thread, which processes requests only, rest without privileges between guards:
/// as an id that owns no file, without groups and without file capabilities. A process whose user
/// namespace lacks that id, or that cannot act as others, keeps its own credentials.
pub fn rest_without_power() {
    if !may_switch() {
        return;
    }
    THREAD.with_borrow_mut(|thread| {
        thread.rests_without_power = has_powerless_id();
        if thread.guards == 0 {
            thread.go_back_or_abort(PreviousCredentials::Rest);
        }
    });
}

/// Gives the calling thread, a new one, the process's credentials: a thread starts with those that its
/// creator has at that moment, which may act as a user or rest without privileges. For threads that
/// access files of the process itself, as those of its state.
pub fn rest_as_process() {
    if may_switch() {
        THREAD.with_borrow_mut(|thread| thread.go_back_or_abort(PreviousCredentials::Rest));
    }
}

/// True if the calling thread has its own umask: from the first call on, unless the system refuses.
pub fn owns_umask() -> bool {
    THREAD.with_borrow_mut(|thread| *thread.owns_umask.get_or_insert_with(separate_umask))
}

/// The new umask is a copy of the shared one, which a creation by another thread may have set.
fn separate_umask() -> bool {
    // SAFETY: of what threads share, this separates umask, working and root directory, of which no
    // thread changes the last two.
    let is_own = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.is_ok();
    if is_own {
        rustix::process::umask(rustix::fs::Mode::empty());
    }
    is_own
}

/// True if the process's user namespace contains the id; that of a container may lack it.
fn has_powerless_id() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let tried = std::thread::spawn(|| switch(None, &POWERLESS).is_ok());
        tried.join().unwrap_or(false)
    })
}

/// Runs a call as the server, and restores the thread's credentials.
///
/// # Errors
/// The errors of [`IdentityGuard::begin`] and of the call.
pub fn as_server<T>(work: ServerWork, call: impl FnOnce() -> Result<T>) -> Result<T> {
    let _acting = IdentityGuard::server(work)?;
    call()
}

/// Drops CAP_SYS_RESOURCE from this thread and the threads that it starts. Acting as a user does
/// not remove it, so users could exceed their quotas and use ext4's reserved blocks. Must be called
/// before other threads exist.
///
/// # Errors
/// The system's error.
pub fn heed_limits() -> std::io::Result<()> {
    let mut held = rustix::thread::capabilities(None)?;
    let exempting = CapabilitySet::SYS_RESOURCE;
    if !(held.effective | held.permitted).intersects(exempting) {
        return Ok(());
    }
    held.effective -= exempting;
    held.permitted -= exempting;
    held.inheritable -= exempting;
    Ok(rustix::thread::set_capabilities(None, held)?)
}

/// The capabilities that an elevation adds to the user's own rights.
fn capabilities_of(power: Power) -> CapabilitySet {
    let any_mode = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    match power {
        // Only an owner may change names in a sticky directory, and its extended attributes.
        Power::Names | Power::Node(ElevationReason::Attributes | ElevationReason::StoredData) => {
            any_mode | CapabilitySet::FOWNER
        }
        // Permits linking like an owner. The kernel still checks the directories' permissions, and
        // refuses append-only and immutable files.
        Power::Link => CapabilitySet::FOWNER,
        // A change of the owner clears set-user-ID bits, which the kernel permits to an owner only.
        Power::Node(ElevationReason::TakeOwnership) => CapabilitySet::CHOWN | CapabilitySet::FOWNER,
    }
}

impl ThreadCredentials {
    fn become_actor(&mut self, actor: Actor<'_>) -> Result<()> {
        let power = actor.elevated().filter(|_| actor.creator().uid != 0).map(Power::Node);
        match actor.user() {
            Some(user) => self.become_user(user, power),
            None => self.become_server(),
        }
    }

    fn become_user(&mut self, identity: &Identity, power: Option<Power>) -> Result<()> {
        let present = self.present.as_ref().filter(|now| now.identity == *identity);
        match present.map(|now| now.power) {
            Some(now) if now == power => return Ok(()),
            Some(None) => {}
            Some(Some(_)) | None => {
                // Until the change has succeeded, the credentials count as unknown.
                let present = self.present.take();
                switch(present.as_ref(), identity)?;
                self.present =
                    Some(EffectiveCredentials { identity: identity.clone(), power: None });
            }
        }
        if let Some(power) = power {
            let present = self.present.take();
            raise(capabilities_of(power))?;
            self.present = present.map(|now| EffectiveCredentials { power: Some(power), ..now });
        }
        Ok(())
    }

    /// Server work creates no files ([`ServerWork`]), and the superuser needs no group. So the
    /// groups stay, which makes a server call within a user's call cheaper.
    fn become_server(&mut self) -> Result<()> {
        let Some(mut present) = self.present.take() else {
            return self.become_user(SERVER.creator(), None);
        };
        if present.identity.uid != 0 {
            set_user(present.power.is_some(), 0)?;
            present.identity.uid = 0;
            present.power = None;
        }
        self.present = Some(present);
        Ok(())
    }

    fn go_back(&mut self, before: PreviousCredentials) -> Result<()> {
        match before {
            PreviousCredentials::Unchanged => Ok(()),
            PreviousCredentials::Rest if self.rests_without_power => {
                self.become_user(&POWERLESS, None)
            }
            PreviousCredentials::Rest => self.become_user(SERVER.creator(), None),
            PreviousCredentials::Guarded(EffectiveCredentials { identity, power }) => {
                self.become_user(&identity, power)
            }
        }
    }

    /// Like [`ThreadCredentials::go_back`]; aborts the process rather than continue with another
    /// user's credentials.
    fn go_back_or_abort(&mut self, before: PreviousCredentials) {
        if let Err(error) = self.go_back(before) {
            tracing::error!(%error, "a thread cannot restore its credentials after it acted as a user: the server aborts");
            std::process::abort();
        }
    }
}

/// Raises effective capabilities, as far as the process is permitted them. The kernel drops them at
/// the next change of the user id by [`set_user`].
fn raise(wanted: CapabilitySet) -> Result<()> {
    let refused = |errno: rustix::io::Errno| {
        tracing::error!(%errno, "cannot set the capabilities of a thread: access is denied");
        FsError::AccessDenied
    };
    let mut held = rustix::thread::capabilities(None).map_err(refused)?;
    held.effective |= wanted & held.permitted;
    rustix::thread::set_capabilities(None, held).map_err(refused)
}

/// Changes the thread's credentials from `from`, if known, to `to`. Each change costs as much as a
/// small write, so equal parts are skipped.
fn switch(from: Option<&EffectiveCredentials>, to: &Identity) -> Result<()> {
    if from.is_none_or(|from| !from.identity.has_groups_of(to)) {
        set_groups(&to.groups)?;
    }
    if from.is_none_or(|from| from.identity.gid != to.gid) {
        set_group(to.gid)?;
    }
    match from {
        Some(from) if from.power.is_none() && from.identity.uid == to.uid => Ok(()),
        Some(from) => set_user(from.power.is_some(), to.uid),
        // Capabilities may remain.
        None => set_user(true, to.uid),
    }
}

/// Sets the user id and verifies it. With `had_power` it goes through the superuser, which sets the
/// file capabilities anew; leaving the superuser drops all of them, whatever was raised before.
fn set_user(had_power: bool, uid: u32) -> Result<()> {
    // SAFETY: these calls take integers; they change credentials of this thread alone.
    let now = unsafe {
        if had_power {
            libc::syscall(libc::SYS_setfsuid, 0);
        }
        libc::syscall(libc::SYS_setfsuid, uid);
        // setfsuid returns the previous id; an invalid argument queries it.
        libc::syscall(libc::SYS_setfsuid, -1)
    };
    if now == libc::c_long::from(uid) {
        return Ok(());
    }
    tracing::error!(
        uid,
        "cannot act as this user: access is denied; give the server CAP_SETUID, and map the id in its \
         user namespace"
    );
    Err(FsError::AccessDenied)
}

/// Sets the primary group: the effective one, which implies the file system group. Unlike setfsgid
/// the call reports failure.
fn set_group(gid: u32) -> Result<()> {
    // SAFETY: the call takes integers; it changes credentials of this thread alone.
    if unsafe { libc::syscall(libc::SYS_setresgid, -1, gid, -1) } == 0 {
        return Ok(());
    }
    tracing::error!(
        gid,
        "cannot act in this group: access is denied; give the server CAP_SETGID, and map the id in its \
         user namespace"
    );
    Err(FsError::AccessDenied)
}

fn set_groups(groups: &[u32]) -> Result<()> {
    // SAFETY: the pointer is to as many group ids as are counted; the call changes this thread
    // alone.
    if unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) } == 0 {
        return Ok(());
    }
    tracing::error!(
        count = groups.len(),
        "cannot act in these groups: access is denied; give the server CAP_SETGID, and map the ids in \
         its user namespace"
    );
    Err(FsError::AccessDenied)
}

#[cfg(test)]
mod tests;
