//! Seccomp filters whose refusals the kernel logs.

use std::io;

/// Installs a system call filter (seccomp(2)) in all threads of the process. The kernel writes an
/// audit record for each call that the filter does not allow.
///
/// The kernel accepts the filter only from a process with `no_new_privs` or CAP_SYS_ADMIN.
///
/// # Errors
/// The errors of seccomp(2): the kernel has no filters, refuses the program, or a thread has
/// another filter than the calling one.
pub fn install_logged_filter(program: &mut [libc::sock_filter]) -> io::Result<()> {
    let length = u16::try_from(program.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the filter is too long"))?;
    let program = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_LOG;
    // SAFETY: the kernel copies `len` instructions from `filter`, which are borrowed until the call
    // returns, checks them, and retains no pointer.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    match result {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        thread => Err(io::Error::other(format!("thread {thread} has another filter"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_bpf_program_is_refused() {
        assert_eq!(install_logged_filter(&mut []).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        let one = libc::sock_filter { code: u16::MAX, jt: 0, jf: 0, k: 0 };
        let error = install_logged_filter(&mut [one]).unwrap_err();
        assert!([Some(libc::EINVAL), Some(libc::EACCES)].contains(&error.raw_os_error()));
        let error = install_logged_filter(&mut vec![one; 1 << 16]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
