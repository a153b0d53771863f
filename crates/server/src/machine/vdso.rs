//! The kernel's functions in user space (vdso(7)), which the libraries look up at their first use.

/// Looks the functions up. Call it first in `main`, while the process has one thread.
///
/// Where the vDSO has no `getcpu`, as in gVisor and User-Mode Linux, rustix 1.1 panics at the first
/// use of a clock, in whichever request that is. It has set the system calls by then, so every later
/// use succeeds.
pub fn look_up() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = std::panic::catch_unwind(rustix::thread::sched_getcpu);
    std::panic::set_hook(hook);
    if found.is_err() {
        tracing::debug!("the vDSO has no getcpu: it is a system call");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn core_and_clock_are_known_after_the_look_up() {
        super::look_up();
        assert!(rustix::thread::sched_getcpu() < 1 << 16);
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        assert!(clock.tv_sec >= 0 && clock.tv_nsec >= 0);
    }
}
