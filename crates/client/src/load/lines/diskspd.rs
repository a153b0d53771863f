//! diskspd's command line.

use super::{default_plan, number, size, words};
use crate::load::{Plan, RunLimit};

/// Flags without effect here: system buffering and caching, latency output, CPU affinity, random
/// contents.
const IGNORED: [&str; 10] = ["-S", "-L", "-D", "-h", "-R", "-n", "-a", "-A", "-x", "-Z"];

/// The plan of a line, with or without the program's name. Each target becomes one file with its
/// own threads, as in diskspd.
///
/// # Errors
/// An unknown flag, or an invalid value.
pub fn diskspd(line: &[&str]) -> Result<Plan, String> {
    // diskspd's own defaults.
    let mut plan = Plan { block_bytes: 65_536, depth: 2, warm_up_seconds: 5.0, ..default_plan() };
    let (mut targets, mut threads, mut all_threads) = (0, 1, None);
    let words = words(line)?;
    for (at, word) in words.iter().enumerate() {
        let Some(flag) = word.get(..2).filter(|_| word.starts_with('-')) else {
            let is_program = at == 0 && word.to_ascii_lowercase().contains("diskspd");
            targets += usize::from(!is_program);
            continue;
        };
        let value = &word[2..];
        match flag {
            "-W" => plan.warm_up_seconds = number(value)?,
            "-d" => plan.until = RunLimit::Seconds(number(value)?),
            // The cool-down is never counted.
            "-C" => drop(number::<f64>(value)?),
            "-r" => plan.random = true,
            "-s" => plan.random = false,
            "-w" => {
                let writes: u8 = if value.is_empty() { 0 } else { number(value)? };
                plan.read_percent =
                    100u8.checked_sub(writes).ok_or("more than 100 per cent of writes")?;
            }
            "-b" => plan.block_bytes = size(value)?.try_into().map_err(|_| "-b is too large")?,
            "-c" | "-f" => plan.file_bytes = size(value)?,
            "-t" => threads = number(value)?,
            "-F" => all_threads = Some(number(value)?),
            "-o" => plan.depth = number(value)?,
            "-z" => plan.seed = if value.is_empty() { 1 } else { number(value)? },
            flag if IGNORED.contains(&flag) => {}
            _ => return Err(format!("{word} is not supported")),
        }
    }
    if targets == 0 {
        return Err("the line names no file".into());
    }
    plan.files = targets;
    plan.threads = all_threads.unwrap_or(threads * targets);
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_diskspd_line_is_parsed() {
        let line = "diskspd.exe -W300 -C5 -r -w100 -b4k -t8 -o8 -Sh -d60 -L -c2G -Z1G \
                    z:\\write0.dat z:\\write1.dat z:\\write2.dat z:\\write3.dat z:\\write4.dat \
                    z:\\write5.dat z:\\write6.dat z:\\write7.dat z:\\write8.dat z:\\write9.dat";
        let plan = diskspd(&[line]).expect("it is known");
        assert_eq!((plan.files, plan.file_bytes), (10, 2 << 30));
        assert_eq!((plan.block_bytes, plan.read_percent, plan.random), (4096, 0, true));
        assert_eq!(plan.threads * plan.depth, 640, "eight threads a file, each of depth 8");
        assert_eq!((plan.until, plan.warm_up_seconds), (RunLimit::Seconds(60.0), 300.0));
        // As a shell passes it.
        let cut: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(diskspd(&cut).map(|plan| plan.threads), Ok(80));
    }

    #[test]
    fn diskspd_defaults_apply_and_unknown_flags_are_refused() {
        let plan = diskspd(&["-w30", "a.dat"]).expect("it is known");
        assert_eq!((plan.block_bytes, plan.depth, plan.read_percent), (65_536, 2, 70));
        assert!(!plan.random);
        for (line, part) in [
            ("-b4k", "no file"),
            ("-b4x a", "not a size"),
            ("-w101 a", "100 per cent"),
            ("-Q a", "-Q is not supported"),
            ("-tx a", "not a number"),
        ] {
            let error = diskspd(&[line]).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
