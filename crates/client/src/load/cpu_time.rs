//! CPU time of processes, from Linux' proc(5).

/// Clock ticks of /proc in a second (USER_HZ, fixed on Linux).
pub const TICKS_PER_SECOND: f64 = 100.0;

/// Maximum depth of child processes.
const GENERATIONS_MAX: u32 = 4;

/// User and system time of a process and its descendants, in ticks; 0 if it does not exist.
#[must_use]
pub fn ticks(pid: u32) -> f64 {
    ticks_below(pid, GENERATIONS_MAX)
}

fn ticks_below(pid: u32, generations: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let mut total = own_ticks(&stat);
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    if generations > 0 {
        let numbers = children.split_whitespace().filter_map(|child| child.parse().ok());
        total += numbers.map(|child| ticks_below(child, generations - 1)).sum::<f64>();
    }
    total
}

/// CPU time of a process and its terminated children, from a line of /proc/PID/stat.
fn own_ticks(stat: &str) -> f64 {
    // The name is in parentheses, and may contain some.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return 0.0 };
    rest.split_whitespace().skip(11).take(4).filter_map(|f| f.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_ticks_sum_all_four_times() {
        let line = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 22 33 44 20 0 1 0 99";
        assert_eq!(own_ticks(line), (11 + 22 + 33 + 44) as f64);
        assert_eq!(own_ticks("garbage"), 0.0);
    }
}
