//! What the kernel knows of its clock: here because asking takes `unsafe`.

/// How far the system's clock can be trusted. adjtimex(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockState {
    /// Whether something keeps it right.
    pub synchronized: bool,
    /// By how much it may be wrong, in microseconds.
    pub error_microseconds: u64,
}

/// Asks, and changes nothing.
///
/// # Errors
/// What the system says, if it does not tell.
pub fn clock_state() -> std::io::Result<ClockState> {
    // SAFETY: integers only, for which zero is a value: `modes` says that nothing is set.
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
    fn the_clock_tells_by_how_much_it_may_be_wrong() {
        let state = clock_state().expect("anybody may ask");
        // The kernel counts 16 s at most while nothing keeps it right.
        assert!(state.error_microseconds <= 16_000_000 || !state.synchronized, "{state:?}");
    }
}
