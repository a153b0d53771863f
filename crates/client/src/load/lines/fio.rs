//! fio's command line.

use super::{default_plan, number, size, words};
use crate::load::{Plan, RunLimit};

/// Options without effect here: I/O engine, output format, and names.
const IGNORED: [&str; 13] = [
    "ioengine",
    "direct",
    "time_based",
    "group_reporting",
    "name",
    "directory",
    "filename",
    "thread",
    "invalidate",
    "randrepeat",
    "norandommap",
    "output-format",
    "eta",
];

/// The plan of a line, with or without the program's name.
///
/// # Errors
/// An unknown option, or an invalid value.
pub fn fio(line: &[&str]) -> Result<Plan, String> {
    let mut plan = default_plan();
    let (mut jobs, mut files, mut mix) = (1, 1, 50);
    let (mut mode, mut total) = ("read", None);
    for (at, word) in words(line)?.into_iter().enumerate() {
        let Some(option) = word.strip_prefix("--") else {
            if at == 0 && word.rsplit('/').next() == Some("fio") {
                continue;
            }
            return Err(format!("{word} is not supported: options begin with --"));
        };
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            "bs" | "blocksize" => {
                plan.block_bytes = size(value)?.try_into().map_err(|_| "--bs is too large")?;
            }
            "iodepth" => plan.depth = number(value)?,
            "numjobs" => jobs = number(value)?,
            "nrfiles" => files = number(value)?,
            "filesize" => plan.file_bytes = size(value)?,
            "size" => total = Some(size(value)?),
            "rw" | "readwrite" => mode = value,
            "rwmixread" => mix = number(value)?,
            "rwmixwrite" => mix = 100u8.checked_sub(number(value)?).ok_or("over 100 per cent")?,
            "runtime" => plan.until = RunLimit::Seconds(seconds(value)?),
            "ramp_time" => plan.warm_up_seconds = seconds(value)?,
            "randseed" => plan.seed = number(value)?,
            name if IGNORED.contains(&name) => {}
            _ => return Err(format!("--{name} is not supported")),
        }
    }
    plan.random = mode.starts_with("rand");
    plan.read_percent = match mode.strip_prefix("rand").unwrap_or(mode) {
        "read" => 100,
        "write" => 0,
        "rw" | "readwrite" => mix,
        _ => return Err(format!("--rw={mode} is not supported")),
    };
    // The size is that of one job, over all its files.
    if let Some(total) = total {
        plan.file_bytes = total / (files as u64).max(1);
    }
    plan.threads = jobs;
    plan.files = jobs.checked_mul(files).ok_or("too many files")?;
    Ok(plan)
}

fn seconds(text: &str) -> Result<f64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{text:?} is not a duration")),
    };
    Ok(number::<f64>(digits)? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_fio_lines_are_parsed() {
        for (block, bytes) in [("4k", 4096), ("8k", 8192), ("64k", 65_536), ("1024k", 1 << 20)] {
            for (mode, reads) in [("randread", 100), ("randwrite", 0)] {
                let line = format!(
                    "fio --ioengine=libaio --direct=1 --nrfiles=4 --numjobs=1 --runtime=1800 \
                     --time_based --bs={block} --iodepth=64 --filesize=4G --rw={mode} \
                     --group_reporting --ramp_time=300"
                );
                let plan = fio(&[&line]).expect("it is known");
                assert_eq!((plan.files, plan.file_bytes), (4, 4 << 30));
                assert_eq!(
                    (plan.block_bytes, plan.read_percent, plan.random),
                    (bytes, reads, true)
                );
                assert_eq!((plan.threads, plan.depth), (1, 64));
                assert_eq!((plan.until, plan.warm_up_seconds), (RunLimit::Seconds(1800.0), 300.0));
            }
        }
    }

    #[test]
    fn fio_mixes_jobs_and_sizes_are_parsed() {
        let line = "--rw=randrw --rwmixread=70 --numjobs=16 --size=1G --nrfiles=2 --runtime=2m";
        let plan = fio(&[line]).expect("it is known");
        assert_eq!((plan.read_percent, plan.threads, plan.files), (70, 16, 32));
        assert_eq!((plan.file_bytes, plan.until), (512 << 20, RunLimit::Seconds(120.0)));
        for (line, part) in [
            ("--rw=trim", "--rw=trim"),
            ("--bs=4x", "not a size"),
            ("job.fio", "begin with --"),
            ("--verify=md5", "--verify is not supported"),
            ("--runtime=5y", "not a duration"),
        ] {
            let error = fio(&[line]).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
