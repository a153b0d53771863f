//! Acting as another user, one thread at a time.
//!
//! `setfsuid`, `setfsgid` and `setgroups` as raw system calls change the
//! calling thread only. What a thread acts as is remembered, so a run of calls
//! for one user costs nothing; every call names its user, so none can inherit
//! another's.

use rustix::thread::CapabilitySet;
use std::cell::RefCell;
use std::sync::OnceLock;
use vfs::{FsError, Identity, Result};

thread_local! {
    static PRESENT: RefCell<Option<Identity>> = const { RefCell::new(None) };
}

/// Whether this process may act as others.
fn may_switch() -> bool {
    static IS_ROOT: OnceLock<bool> = OnceLock::new();
    *IS_ROOT.get_or_init(|| rustix::process::geteuid().is_root())
}

/// Makes this thread act as `who` until the next call of this function.
///
/// # Errors
/// [`FsError::AccessDenied`] if the kernel refuses; the thread then acts as
/// nobody in particular and the next call tries again.
pub fn act_as(who: &Identity) -> Result<()> {
    if !may_switch() {
        return Ok(());
    }
    PRESENT.with_borrow_mut(|present| {
        if present.as_ref() == Some(who) {
            return Ok(());
        }
        *present = None;
        switch(who)?;
        *present = Some(who.clone());
        Ok(())
    })
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

/// Makes a call as the superuser, and goes back to whom the thread acted as:
/// what follows may be a user's write, to which other limits apply.
///
/// # Errors
/// Those of [`act_as`] and of the call.
pub fn as_root<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = PRESENT.with_borrow(Clone::clone);
    act_as(&Identity::root())?;
    let result = call();
    if let Some(before) = before {
        act_as(&before)?;
    }
    result
}

fn switch(who: &Identity) -> Result<()> {
    // SAFETY: these calls take integers, and a pointer to as many group ids
    // as are counted; they change credentials of this thread alone.
    let (groups, uid, gid) = unsafe {
        // Back to root first: only root may set groups.
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
