//! Acting as another user, one thread at a time.
//!
//! `setfsuid`, `setresgid` and `setgroups` as raw system calls change the calling thread only.
//! An [`Acting`] guard sets them, verifies them, and takes them back when it is dropped. Within
//! [`keep_identity`], in which nothing but requests is worked on, the outermost guard leaves the
//! thread as it is, so that a run of calls for one user costs nothing: every call has a guard
//! of its own, so none inherits another's identity.
//!
//! Between guards a thread has the process's credentials, or after [`rest_without_power`]
//! those of an id that owns nothing: a call without a guard then fails rather than succeeds.
//!
//! A user that goes beyond POSIX permissions ([`vfs::Elevated`], [`vfs::NameActor`]) keeps its
//! own user id and is given single capabilities: what it creates is its own, and neither
//! CAP_CHOWN, CAP_FSETID nor CAP_MKNOD are among them. capabilities(7). A call that resolves a
//! path is made by [`Acting::on_path`], which refuses all of these powers.

use rustix::thread::{CapabilitySet, UnshareFlags};
use std::cell::RefCell;
use std::sync::OnceLock;
use vfs::{Actor, Elevated, FsError, Identity, NameActor, Result, Role, ServerWork};

/// What the calling thread acts as, as far as this module set it: state of the kernel's, which
/// keeps it by thread.
#[derive(Debug)]
struct ThreadCredentials {
    /// None before the first guard, and after a change that failed: what is not known is set
    /// whole.
    present: Option<Credentials>,
    /// Guards that are alive on this thread.
    guards: u32,
    /// Calls of [`keep_identity`] that this thread is in.
    keepers: u32,
    /// Whether it rests as [`POWERLESS`].
    rests_without_power: bool,
    /// Whether its umask is its own; none before that was tried.
    owns_umask: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Credentials {
    identity: Identity,
    power: Option<Power>,
}

/// A power of a thread beyond the rights of the user as which it acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    /// Over one open node.
    Node(Elevated),
    /// Over names in open directories: [`NameActor::Granted`].
    Names,
    /// Over one further name for an open node, in a directory that is open: [`Acting::on_link`].
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

/// The process's own credentials, as every reason of its own has them.
const SERVER: Actor<'static> = Actor::server(ServerWork::Metadata);

/// Owns no file, and no user has it ([`Identity::is_valid`]).
static POWERLESS: Identity =
    Identity { uid: Identity::POWERLESS_ID, gid: Identity::POWERLESS_ID, groups: Vec::new() };

/// Whether this process may act as others.
fn may_switch() -> bool {
    static IS_ROOT: OnceLock<bool> = OnceLock::new();
    *IS_ROOT.get_or_init(|| rustix::process::geteuid().is_root())
}

/// While this lives, the thread acts as one actor; then as the one before.
#[derive(Debug)]
#[must_use]
pub struct Acting {
    before: Before,
    /// Credentials belong to the thread: the guard stays on it.
    _of_thread: std::marker::PhantomData<*const ()>,
}

/// What a thread goes back to.
#[derive(Debug)]
enum Before {
    /// Nothing: the process cannot act as others.
    Unchanged,
    /// What it has between guards.
    Rest,
    /// What another guard set, which is still alive.
    Guarded(Credentials),
}

impl Acting {
    /// Makes the calling thread act as `actor`.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] for an identity that no thread can have
    /// ([`Identity::is_valid`]), or if the kernel refuses; the thread then acts as before.
    pub fn begin(actor: Actor<'_>) -> Result<Self> {
        if actor.user().is_some_and(|user| !user.is_valid()) {
            return Err(FsError::AccessDenied);
        }
        Self::guard(|thread| thread.become_actor(actor))
    }

    /// As [`Acting::begin`], for a call that resolves a path.
    ///
    /// # Errors
    /// As [`Acting::begin`]; [`FsError::AccessDenied`] for an actor that may not resolve paths
    /// ([`Actor::may_resolve_paths`]).
    pub fn on_path(actor: Actor<'_>) -> Result<Self> {
        if actor.may_resolve_paths() { Self::begin(actor) } else { Err(FsError::AccessDenied) }
    }

    /// Makes the calling thread change names in open directories as `actor`.
    ///
    /// # Errors
    /// As [`Acting::begin`].
    pub fn on_names(actor: NameActor<'_>) -> Result<Self> {
        match actor {
            NameActor::Granted(user) if user.uid != 0 && user.is_valid() => {
                Self::guard(|thread| thread.become_user(user, Some(Power::Names)))
            }
            _ => Self::on_path(actor.actor()),
        }
    }

    /// Lets the calling thread give an open node a further name in an open directory, where the host
    /// keeps `actor` from files that it may not write (`fs.protected_hardlinks`, proc(5)). POSIX lets
    /// each user do so who may add the name, which the kernel goes on asking. link(3p).
    ///
    /// None for an actor whom the host keeps from nothing, or whose call may resolve no path.
    ///
    /// # Errors
    /// As [`Acting::begin`].
    pub fn on_link(actor: Actor<'_>) -> Result<Option<Self>> {
        match actor.role() {
            Role::User(user) if user.uid != 0 && user.is_valid() => {
                Self::guard(|thread| thread.become_user(user, Some(Power::Link))).map(Some)
            }
            Role::User(_) | Role::Elevated(..) | Role::Server(_) => Ok(None),
        }
    }

    /// Lets the calling thread change data of a file that is open for writing, on behalf of
    /// `actor`: as the actor, or without power. The kernel asks for no permission then, but it
    /// looks whether the caller may use what the file system reserves and may keep
    /// set-user-ID bits, which neither may. Only of a file for which `is_group_marked` holds does it
    /// ask for the caller's groups, and so the call is made as the actor.
    ///
    /// # Errors
    /// As [`Acting::begin`].
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

    /// Keeps the calling thread without power for a call, if it is without by now: for a look
    /// on behalf of someone who is known to be allowed it, which need not succeed. None if the
    /// thread is somebody, which it then had better remain.
    pub fn on_public_name() -> Option<Self> {
        let is_powerless = THREAD.with_borrow(|thread| {
            thread.present.as_ref().is_some_and(|now| now.identity == POWERLESS)
        });
        is_powerless.then(|| Self::guard(|_| Ok(())).ok()).flatten()
    }

    /// Keeps the calling thread what it is, if that is `actor` with a user's own rights by now. None
    /// if it is anything else.
    pub fn on_present(actor: Actor<'_>) -> Option<Self> {
        let Role::User(user) = actor.role() else { return None };
        let is_present = THREAD.with_borrow(|thread| {
            let is_it = |now: &Credentials| now.identity == *user && now.power.is_none();
            user.is_valid() && thread.present.as_ref().is_some_and(is_it)
        });
        is_present.then(|| Self::guard(|_| Ok(())).ok()).flatten()
    }

    /// Makes the calling thread act for the server itself.
    ///
    /// # Errors
    /// As [`Acting::begin`].
    pub fn server(work: ServerWork) -> Result<Self> {
        Self::begin(Actor::server(work))
    }

    fn guard(change: impl FnOnce(&mut ThreadCredentials) -> Result<()>) -> Result<Self> {
        let _of_thread = std::marker::PhantomData;
        if !may_switch() {
            return Ok(Self { before: Before::Unchanged, _of_thread });
        }
        THREAD.with_borrow_mut(|thread| {
            let before = match &thread.present {
                Some(present) if thread.guards > 0 => Before::Guarded(present.clone()),
                _ => Before::Rest,
            };
            if let Err(error) = change(thread) {
                // What is left of a change that failed is not to be worked with.
                thread.go_back(before)?;
                return Err(error);
            }
            thread.guards += 1;
            Ok(Self { before, _of_thread })
        })
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut self.before, Before::Unchanged);
        if matches!(before, Before::Unchanged) {
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

/// Works on requests: until `work` returns, guards that are dropped leave the thread as they set
/// it. Nothing in it may touch a file without a guard. Afterwards the thread rests.
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
            // A process that cannot act as others has never left its own credentials.
            if thread.keepers == 0 && thread.guards == 0 && may_switch() {
                thread.go_back_or_abort(Before::Rest);
            }
        });
    }
}

/// Takes from the calling thread, which works on nothing but requests, what it has between
/// guards: it rests as an id that owns no file, without a group and without capabilities over
/// files. A process whose user namespace lacks that id, or that cannot act as others, keeps its own.
pub fn rest_without_power() {
    if !may_switch() {
        return;
    }
    THREAD.with_borrow_mut(|thread| {
        thread.rests_without_power = has_powerless_id();
        if thread.guards == 0 {
            thread.go_back_or_abort(Before::Rest);
        }
    });
}

/// Whether the calling thread has an umask that no other thread has: from the first call on, unless
/// the system refuses.
pub fn owns_umask() -> bool {
    THREAD.with_borrow_mut(|thread| *thread.owns_umask.get_or_insert_with(separate_umask))
}

/// The copy has what the thread had by chance, whose starter may have been about to create.
fn separate_umask() -> bool {
    // SAFETY: of what threads share, this separates umask, working and root directory, of which no
    // thread changes the last two.
    let is_own = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.is_ok();
    if is_own {
        rustix::process::umask(rustix::fs::Mode::empty());
    }
    is_own
}

/// Whether the process's user namespace has the id: one of a container may lack it.
fn has_powerless_id() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let tried = std::thread::spawn(|| switch(None, &POWERLESS).is_ok());
        tried.join().unwrap_or(false)
    })
}

/// Makes a call for the server itself, and goes back to whom the thread acted as.
///
/// # Errors
/// Those of [`Acting::begin`] and of the call.
pub fn as_server<T>(work: ServerWork, call: impl FnOnce() -> Result<T>) -> Result<T> {
    let _acting = Acting::server(work)?;
    call()
}

/// Gives up what lets this thread, and those that it starts, store more than
/// limits allow (CAP_SYS_RESOURCE): acting as a user does not take it away, and
/// users would write past their quotas and into what ext4 reserves. To be called
/// before there are other threads.
///
/// # Errors
/// What the system says, if it refuses.
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

/// The capabilities that a power brings beside the user's own rights.
fn capabilities_of(power: Power) -> CapabilitySet {
    let any_mode = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    match power {
        // Extended attributes in a sticky directory, and names in one, are the owner's.
        Power::Names | Power::Node(Elevated::Attributes | Elevated::StoredData) => {
            any_mode | CapabilitySet::FOWNER
        }
        // What lets an owner link: directories' permissions are asked, and append-only and
        // immutable files refused, as without it.
        Power::Link => CapabilitySet::FOWNER,
        // The kernel takes set-user-ID bits away with the owner, which it lets an owner do.
        Power::Node(Elevated::TakeOwnership) => CapabilitySet::CHOWN | CapabilitySet::FOWNER,
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
                // Until it has succeeded, what the thread acts as is not known.
                let present = self.present.take();
                switch(present.as_ref(), identity)?;
                self.present = Some(Credentials { identity: identity.clone(), power: None });
            }
        }
        if let Some(power) = power {
            let present = self.present.take();
            raise(capabilities_of(power))?;
            self.present = present.map(|now| Credentials { power: Some(power), ..now });
        }
        Ok(())
    }

    /// The server's own work creates nothing ([`ServerWork`]), and the superuser is in need of no
    /// group: the groups stay, and a call for the server within one for a user costs less.
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

    fn go_back(&mut self, before: Before) -> Result<()> {
        match before {
            Before::Unchanged => Ok(()),
            Before::Rest if self.rests_without_power => self.become_user(&POWERLESS, None),
            Before::Rest => self.become_user(SERVER.creator(), None),
            Before::Guarded(Credentials { identity, power }) => self.become_user(&identity, power),
        }
    }

    /// As [`ThreadCredentials::go_back`]; a thread that would go on as somebody else ends the
    /// process.
    fn go_back_or_abort(&mut self, before: Before) {
        if let Err(error) = self.go_back(before) {
            tracing::error!(%error, "a thread cannot give up a user's identity: the server stops");
            std::process::abort();
        }
    }
}

/// Gives the thread further effective capabilities, as far as the process is permitted them. The
/// kernel takes them away with the next change of the user id by [`set_user`].
fn raise(wanted: CapabilitySet) -> Result<()> {
    let refused = |errno: rustix::io::Errno| {
        tracing::error!(%errno, "capabilities cannot be changed");
        FsError::AccessDenied
    };
    let mut held = rustix::thread::capabilities(None).map_err(refused)?;
    held.effective |= wanted & held.permitted;
    rustix::thread::set_capabilities(None, held).map_err(refused)
}

/// Makes the thread, which is known to be `from` or is not known, `to`. Each change of
/// credentials costs as much as a small write: what is equal is left out.
fn switch(from: Option<&Credentials>, to: &Identity) -> Result<()> {
    if from.is_none_or(|from| from.identity.groups != to.groups) {
        set_groups(&to.groups)?;
    }
    if from.is_none_or(|from| from.identity.gid != to.gid) {
        set_group(to.gid)?;
    }
    match from {
        Some(from) if from.power.is_none() && from.identity.uid == to.uid => Ok(()),
        Some(from) => set_user(from.power.is_some(), to.uid),
        // Any power may be left.
        None => set_user(true, to.uid),
    }
}

/// Sets the user id and verifies it. With `had_power` by way of the superuser, which sets the file
/// system capabilities anew: leaving it takes all of them, whatever was raised before.
fn set_user(had_power: bool, uid: u32) -> Result<()> {
    // SAFETY: these calls take integers; they change credentials of this thread alone.
    let now = unsafe {
        if had_power {
            libc::syscall(libc::SYS_setfsuid, 0);
        }
        libc::syscall(libc::SYS_setfsuid, uid);
        // It returns the id before the call: asking for an invalid one tells it.
        libc::syscall(libc::SYS_setfsuid, -1)
    };
    if now == libc::c_long::from(uid) {
        return Ok(());
    }
    tracing::error!(uid, "cannot act as this user");
    Err(FsError::AccessDenied)
}

/// Sets the primary group: the effective one, which brings that of file system calls along and,
/// unlike a call for that one alone, says whether it has.
fn set_group(gid: u32) -> Result<()> {
    // SAFETY: the call takes integers; it changes credentials of this thread alone.
    if unsafe { libc::syscall(libc::SYS_setresgid, -1, gid, -1) } == 0 {
        return Ok(());
    }
    tracing::error!(gid, "cannot act in this group");
    Err(FsError::AccessDenied)
}

fn set_groups(groups: &[u32]) -> Result<()> {
    // SAFETY: the pointer is to as many group ids as are counted; the call changes this thread alone.
    if unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) } == 0 {
        return Ok(());
    }
    tracing::error!(count = groups.len(), "cannot act in these groups");
    Err(FsError::AccessDenied)
}

#[cfg(test)]
mod tests;
