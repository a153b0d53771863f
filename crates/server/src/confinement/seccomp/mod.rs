//! System call filters: a list of permitted calls, and a list of calls that kill the process.
//!
//! There are three filters, and the kernel applies the strictest result. The kernel answers
//! unconditional calls from a bitmap (Linux 5.11), so data paths run no filter program. Only rare
//! calls have conditions. The kernel logs the refusals of the last two filters.

mod list;

#[cfg(test)]
pub(super) use list::{
    FATAL, FATAL_OLDER, NEWER, OLDER, OLDER_OF_AARCH64, PLAIN, SystemCall, TRIED,
};

use super::ConfinementError;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// State that a thread may unshare: umask, working directory and root directory.
const SEPARATED: u64 = libc::CLONE_FS.unsigned_abs() as u64;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Outcome<T> = Result<T, seccompiler::BackendError>;

/// Installs the filters in all threads of the process.
pub(super) fn install() -> Result<(), ConfinementError> {
    let refused = |error: &dyn std::fmt::Display| ConfinementError::new("seccomp", error);
    let unlogged = trying().map_err(|error| refused(&error))?;
    seccompiler::apply_filter_all_threads(&unlogged).map_err(|error| refused(&error))?;
    for program in [denying(), permitting()] {
        let program = program.map_err(|error| refused(&error))?;
        let mut program: Vec<_> = program.iter().map(instruction).collect();
        sockets::install_logged_filter(&mut program).map_err(|error| refused(&error))?;
    }
    Ok(())
}

fn instruction(one: &seccompiler::sock_filter) -> libc::sock_filter {
    libc::sock_filter { code: one.code, jt: one.jt, jf: one.jf, k: one.k }
}

/// Refuses calls that every start makes; their records would hide others in the log.
fn trying() -> Outcome<BpfProgram> {
    let rules = unconditional([list::TRIED]).collect();
    compile(rules, SeccompAction::Allow, missing())
}

/// Fails the call with ENOSYS.
fn missing() -> SeccompAction {
    SeccompAction::Errno(u32::from(libc::ENOSYS.unsigned_abs() as u16))
}

/// Kills the process at a call that only injected code makes.
fn denying() -> Outcome<BpfProgram> {
    let mut rules: Rules = unconditional([list::FATAL, list::FATAL_OLDER]).collect();
    // Every unshare except CLONE_FS.
    let others = rule(0, SeccompCmpOp::Ne, SEPARATED)?;
    rules.insert(libc::SYS_unshare, vec![others]);
    compile(rules, SeccompAction::Allow, SeccompAction::KillProcess)
}

/// Fails unlisted calls with ENOSYS: libraries then use fallbacks, as on an older kernel.
fn permitting() -> Outcome<BpfProgram> {
    // Calls that the previous filter refuses: a second refusal would be logged.
    let tried = list::TRIED;
    let mut rules: Rules = unconditional([list::PLAIN, list::NEWER, list::OLDER, tried]).collect();
    rules.extend(conditional()?);
    compile(rules, missing(), SeccompAction::Allow)
}

fn unconditional<const N: usize>(
    lists: [&'static [list::SystemCall]; N],
) -> impl Iterator<Item = (i64, Vec<SeccompRule>)> {
    lists.into_iter().flatten().map(|(_, number)| (*number, Vec::new()))
}

fn compile(rules: Rules, others: SeccompAction, listed: SeccompAction) -> Outcome<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, others, listed, arch)?.try_into()
}

/// Calls that are permitted with certain arguments.
fn conditional() -> Outcome<Rules> {
    let bits = |argument, mask: i32, value: i32| {
        let (mask, value) = (mask.unsigned_abs().into(), value.unsigned_abs().into());
        rule(argument, SeccompCmpOp::MaskedEq(mask), value)
    };
    let one_of = |argument, values: &[i32]| -> Outcome<Vec<SeccompRule>> {
        let one = |value: &i32| rule(argument, SeccompCmpOp::Eq, value.unsigned_abs().into());
        values.iter().map(one).collect()
    };
    let own = std::process::id().into();
    Ok(Rules::from([
        // Memory is writable or executable, never both.
        (libc::SYS_mmap, vec![bits(2, libc::PROT_WRITE, 0)?, bits(2, libc::PROT_EXEC, 0)?]),
        (libc::SYS_mprotect, vec![bits(1, libc::PROT_EXEC, 0)?]),
        // Threads only, no processes. A filter cannot inspect the flags of clone3; that call is
        // unlisted, and the C library falls back to clone.
        (libc::SYS_clone, vec![bits(0, libc::CLONE_THREAD, libc::CLONE_THREAD)?]),
        (libc::SYS_tgkill, vec![rule(0, SeccompCmpOp::Eq, own)?]),
        (
            libc::SYS_socket,
            one_of(0, &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK])?,
        ),
        (libc::SYS_unshare, vec![rule(0, SeccompCmpOp::Eq, SEPARATED)?]),
        (libc::SYS_prctl, one_of(0, list::PRCTL)?),
    ]))
}

fn rule(argument: u8, operation: SeccompCmpOp, value: u64) -> Outcome<SeccompRule> {
    SeccompRule::new(vec![SeccompCondition::new(argument, Dword, operation, value)?])
}
