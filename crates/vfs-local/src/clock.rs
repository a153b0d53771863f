//! State of the kernel's clock. It lives here because the query needs `unsafe`.

/// Accuracy of the system clock. adjtimex(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockState {
    /// True if a time source synchronizes the clock.
    pub synchronized: bool,
    /// Maximum error, in microseconds.
    pub error_microseconds: u64,
}

/// Queries the clock without changing it.
///
/// # Errors
/// The error of adjtimex(2).
pub fn clock_state() -> std::io::Result<ClockState> {
    // SAFETY: integers only, for which zero is valid; `modes` 0 sets nothing.
    let mut clock: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is the kernel's, and outlives the call.
    let state = unsafe { libc::adjtimex(&raw mut clock) };
    if state < 0 {
        return Err(std::io::Error::last_os_error());
    }
    let synchronized = state != libc::TIME_ERROR && clock.status & libc::STA_UNSYNC == 0;
    let error_microseconds = u64::try_from(clock.maxerror).unwrap_or(u64::MAX);
    Ok(ClockState { synchronized, error_microseconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_state_reports_the_maximum_error() {
        let state = clock_state().expect("anybody may ask");
        // The kernel caps the error of an unsynchronized clock at 16 s.
        assert!(state.error_microseconds <= 16_000_000 || !state.synchronized, "{state:?}");
    }
}
