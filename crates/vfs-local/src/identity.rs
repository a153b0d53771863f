//! Acting as another user, one thread at a time.
//!
//! `setfsuid`, `setfsgid` and `setgroups` as raw system calls change the calling thread only.
//! An [`Acting`] guard sets them, verifies them, and takes them back when it is dropped. Within
//! [`keep_identity`], in which nothing but requests is worked on, the outermost guard leaves the
//! thread as it is, so that a run of calls for one user costs nothing: every call has a guard
//! of its own, so none inherits another's identity.
//!
//! A user that goes beyond POSIX permissions ([`vfs::Elevated`]) keeps its own user id and is
//! given single capabilities: what it creates is its own, and neither CAP_CHOWN, CAP_FSETID nor
//! CAP_MKNOD are among them. capabilities(7).

use rustix::thread::CapabilitySet;
use std::cell::RefCell;
use std::sync::OnceLock;
use vfs::{Actor, Elevated, FsError, Identity, Result, ServerWork};

/// What the calling thread acts as, as far as this module set it: state of the kernel's, which
/// keeps it by thread.
#[derive(Debug)]
struct ThreadCredentials {
    /// None while the thread has the process's own.
    present: Option<Credentials>,
    /// Guards that are alive on this thread.
    guards: u32,
    /// Calls of [`keep_identity`] that this thread is in.
    keepers: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Credentials {
    identity: Identity,
    elevated: Option<Elevated>,
}

thread_local! {
    static THREAD: RefCell<ThreadCredentials> =
        const { RefCell::new(ThreadCredentials { present: None, guards: 0, keepers: 0 }) };
}

/// The process's own credentials, as every reason of its own has them.
const SERVER: Actor<'static> = Actor::server(ServerWork::Metadata);

/// Whether this process may act as others.
fn may_switch() -> bool {
    static IS_ROOT: OnceLock<bool> = OnceLock::new();
    *IS_ROOT.get_or_init(|| rustix::process::geteuid().is_root())
}

/// While this lives, the thread acts as one actor; then as the one before.
#[derive(Debug)]
#[must_use]
pub struct Acting {
    /// What the thread goes back to; none if the process cannot act as others.
    before: Option<Option<Credentials>>,
    /// Credentials belong to the thread: the guard stays on it.
    _of_thread: std::marker::PhantomData<*const ()>,
}

impl Acting {
    /// Makes the calling thread act as `actor`.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] for an identity that no thread can have
    /// ([`Identity::INVALID_ID`]), or if the kernel refuses; the thread then acts as before.
    pub fn begin(actor: Actor<'_>) -> Result<Self> {
        if actor.user().is_some_and(|user| !user.is_valid()) {
            return Err(FsError::AccessDenied);
        }
        if !may_switch() {
            return Ok(Self { before: None, _of_thread: std::marker::PhantomData });
        }
        THREAD.with_borrow_mut(|thread| {
            // The outermost guard goes back to the process's own credentials.
            let before = thread.present.clone().filter(|_| thread.guards > 0);
            if let Err(error) = thread.become_actor(actor) {
                // What is left of a change that failed is not to be worked with.
                thread.restore(before)?;
                return Err(error);
            }
            thread.guards += 1;
            let before = Some(before);
            Ok(Self { before, _of_thread: std::marker::PhantomData })
        })
    }

    /// Makes the calling thread act for the server itself.
    ///
    /// # Errors
    /// As [`Acting::begin`].
    pub fn server(work: ServerWork) -> Result<Self> {
        Self::begin(Actor::server(work))
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        let Some(before) = self.before.take() else { return };
        THREAD.with_borrow_mut(|thread| {
            thread.guards -= 1;
            let is_kept = thread.guards == 0 && thread.keepers > 0;
            if !is_kept {
                thread.restore_or_abort(before);
            }
        });
    }
}

/// Works on requests: until `work` returns, guards that are dropped leave the thread as they set
/// it. Nothing in it may touch a file without a guard. Afterwards the thread is the process's.
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
                thread.restore_or_abort(None);
            }
        });
    }
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

/// The capabilities that a reason brings beside the user's own rights.
fn capabilities_of(elevated: Elevated) -> CapabilitySet {
    let any_mode = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    match elevated {
        // Extended attributes in a sticky directory, and names in one, are the owner's.
        Elevated::Attributes | Elevated::Names | Elevated::StoredData => {
            any_mode | CapabilitySet::FOWNER
        }
        // The kernel takes set-user-ID bits away with the owner, which it lets an owner do.
        Elevated::TakeOwnership => CapabilitySet::CHOWN | CapabilitySet::FOWNER,
    }
}

impl ThreadCredentials {
    fn become_actor(&mut self, actor: Actor<'_>) -> Result<()> {
        let identity = actor.creator();
        let elevated = actor.elevated().filter(|_| identity.uid != 0);
        let is_present = self
            .present
            .as_ref()
            .is_some_and(|now| now.identity == *identity && now.elevated == elevated);
        if is_present {
            return Ok(());
        }
        switch(identity)?;
        if let Some(elevated) = elevated {
            raise(capabilities_of(elevated))?;
        }
        self.present = Some(Credentials { identity: identity.clone(), elevated });
        Ok(())
    }

    /// Goes back to `before`, or with `None` to the process's own credentials.
    fn restore(&mut self, before: Option<Credentials>) -> Result<()> {
        if self.present == before && self.present.is_some() {
            return Ok(());
        }
        match before {
            Some(Credentials { identity, elevated }) => {
                let actor = match elevated {
                    Some(elevated) => Actor::beyond(&identity, elevated),
                    None => identity.actor(),
                };
                self.present = None;
                self.become_actor(actor)
            }
            None => {
                let present = self.present.take();
                let is_process = |now: &Credentials| now.identity == *SERVER.creator();
                if present.as_ref().is_some_and(is_process) {
                    return Ok(());
                }
                switch(SERVER.creator())
            }
        }
    }

    /// As [`ThreadCredentials::restore`]; a thread that would go on as somebody else ends the
    /// process.
    fn restore_or_abort(&mut self, before: Option<Credentials>) {
        if let Err(error) = self.restore(before) {
            tracing::error!(%error, "a thread cannot give up a user's identity: the server stops");
            std::process::abort();
        }
    }
}

/// Gives the thread further effective capabilities, as far as the process is permitted them. The
/// kernel takes them away with the next change of the user id by [`switch`].
fn raise(wanted: CapabilitySet) -> Result<()> {
    let refused = |errno: rustix::io::Errno| {
        tracing::error!(%errno, "capabilities cannot be changed");
        FsError::AccessDenied
    };
    let mut held = rustix::thread::capabilities(None).map_err(refused)?;
    held.effective |= wanted & held.permitted;
    rustix::thread::set_capabilities(None, held).map_err(refused)
}

fn switch(who: &Identity) -> Result<()> {
    // SAFETY: these calls take integers, and a pointer to as many group ids
    // as are counted; they change credentials of this thread alone.
    let (groups, uid, gid) = unsafe {
        // By way of the superuser, which sets the file system capabilities anew: leaving it
        // takes all of them, whatever was raised before.
        libc::syscall(libc::SYS_setfsuid, 0);
        let groups = libc::syscall(libc::SYS_setgroups, who.groups.len(), who.groups.as_ptr());
        libc::syscall(libc::SYS_setfsgid, who.gid);
        libc::syscall(libc::SYS_setfsuid, who.uid);
        // Both return the id before the call: asking for an invalid one tells it.
        (groups, libc::syscall(libc::SYS_setfsuid, -1), libc::syscall(libc::SYS_setfsgid, -1))
    };
    if groups == 0 && uid == i64::from(who.uid) && gid == i64::from(who.gid) {
        return Ok(());
    }
    tracing::error!(uid = who.uid, gid = who.gid, "cannot act as this user");
    Err(FsError::AccessDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// User id, group id and effective capabilities of the calling thread in file system calls.
    fn of_thread() -> (u32, u32, u64) {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let field = |name: &str, at: usize| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().nth(at).unwrap().to_owned()
        };
        let effective = u64::from_str_radix(&field("CapEff:", 0), 16).unwrap();
        (field("Uid:", 3).parse().unwrap(), field("Gid:", 3).parse().unwrap(), effective)
    }

    fn user(uid: u32) -> Identity {
        Identity { uid, gid: uid + 1, groups: vec![uid + 2] }
    }

    const OF_FILES: CapabilitySet = CapabilitySet::CHOWN
        .union(CapabilitySet::DAC_OVERRIDE)
        .union(CapabilitySet::DAC_READ_SEARCH)
        .union(CapabilitySet::FOWNER)
        .union(CapabilitySet::FSETID)
        .union(CapabilitySet::MKNOD);

    fn held() -> CapabilitySet {
        CapabilitySet::from_bits_retain(of_thread().2) & OF_FILES
    }

    #[test]
    fn dropped_guard_leaves_thread_as_process() {
        if !may_switch() {
            return;
        }
        let (one, two) = (user(54_321), user(54_331));
        let before = of_thread();
        let outer = Acting::begin(one.actor()).unwrap();
        assert_eq!(of_thread().0, 54_321);
        {
            let _inner = Acting::begin(two.actor()).unwrap();
            assert_eq!((of_thread().0, of_thread().1), (54_331, 54_332));
        }
        assert_eq!((of_thread().0, held()), (54_321, CapabilitySet::empty()));
        drop(outer);
        assert_eq!(of_thread(), before);
    }

    /// Such a process cannot have uid 0, which the check of a change of credentials would end it
    /// for.
    #[test]
    fn process_of_an_ordinary_user_outlives_kept_identity() {
        use std::os::unix::process::CommandExt as _;
        // The directories above the binary may be closed to the user.
        let mut command = std::process::Command::new("/proc/self/exe");
        let name = "identity::tests::child_of_an_ordinary_user_keeps_identity";
        command.args(["--exact", name, "--ignored", "--test-threads=1"]);
        if may_switch() {
            command.uid(54_321).gid(54_321);
        }
        let output = command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{output:?}");
    }

    #[test]
    #[ignore = "the process of process_of_an_ordinary_user_outlives_kept_identity"]
    fn child_of_an_ordinary_user_keeps_identity() {
        assert!(!may_switch());
        let before = of_thread();
        keep_identity(|| {
            drop(Acting::begin(user(54_331).actor()).unwrap());
            assert_eq!(of_thread(), before);
            as_server(ServerWork::Metadata, || Ok(())).unwrap();
        });
        assert_eq!(of_thread(), before);
    }

    #[test]
    fn kept_identity_ends_with_its_scope() {
        if !may_switch() {
            return;
        }
        let one = user(54_321);
        let before = of_thread();
        keep_identity(|| {
            drop(Acting::begin(one.actor()).unwrap());
            assert_eq!(of_thread().0, 54_321);
            as_server(ServerWork::Metadata, || {
                assert_eq!(of_thread().0, 0);
                Ok(())
            })
            .unwrap();
        });
        assert_eq!(of_thread(), before);
    }

    #[test]
    fn panic_within_kept_identity_leaves_thread_as_process() {
        if !may_switch() {
            return;
        }
        let one = user(54_321);
        let before = of_thread();
        let panicked = std::panic::catch_unwind(|| {
            keep_identity(|| {
                let _acting = Acting::begin(one.actor()).unwrap();
                panic!("a request fails");
            })
        });
        assert!(panicked.is_err());
        assert_eq!(of_thread(), before);
    }

    #[test]
    fn invalid_ids_are_refused_and_change_nothing() {
        let before = of_thread();
        let invalid = Identity::INVALID_ID;
        for identity in [
            Identity { uid: invalid, gid: 1, groups: vec![] },
            Identity { uid: 1, gid: invalid, groups: vec![] },
            Identity { uid: 1, gid: 1, groups: vec![invalid] },
        ] {
            assert_eq!(Acting::begin(identity.actor()).err(), Some(FsError::AccessDenied));
            assert_eq!(of_thread(), before);
        }
    }

    #[test]
    fn elevated_user_keeps_its_id_and_gets_no_more_than_named() {
        if !may_switch() {
            return;
        }
        let one = user(54_321);
        for elevated in Elevated::ALL {
            let acting = Acting::begin(Actor::beyond(&one, elevated)).unwrap();
            assert_eq!(of_thread().0, 54_321, "{elevated:?}");
            assert_eq!(held(), capabilities_of(elevated), "{elevated:?}");
            let never = CapabilitySet::FSETID | CapabilitySet::MKNOD;
            assert!(!held().intersects(never), "{elevated:?}");
            // Without the power again, though the user is the same.
            let plain = Acting::begin(one.actor()).unwrap();
            assert_eq!(held(), CapabilitySet::empty());
            drop((plain, acting));
        }
    }
}
