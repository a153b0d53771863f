//! Command lines of other load generators, converted to plans.

mod diskspd;
mod fio;

pub use diskspd::diskspd;
pub use fio::fio;

use super::{LoadKind, Plan, RunLimit};

/// Maximum number of words in one line.
const WORDS_MAX: usize = 1024;

/// Splits a line at white space, without quoting; accepts a line that is already split.
fn words<'a>(line: &[&'a str]) -> Result<Vec<&'a str>, String> {
    let words: Vec<&str> = line.iter().flat_map(|part| part.split_whitespace()).collect();
    if words.len() > WORDS_MAX { Err("the line is too long".into()) } else { Ok(words) }
}

/// Parses a size with K, M, G or T (powers of two).
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(format!("{text:?} is not a size, as in 4K or 1G")),
    };
    let number: u64 = digits.parse().map_err(|_| {
        format!(
            "{text:?} is not a size, as in 4K or \
                                                          1G"
        )
    })?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text:?} is too large"))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number"))
}

/// The common defaults of both programs.
fn default_plan() -> Plan {
    Plan {
        work: LoadKind::Data,
        folder: String::new(),
        block_bytes: 4096,
        depth: 1,
        threads: 1,
        files: 1,
        file_bytes: 1 << 30,
        random: false,
        read_percent: 100,
        until: RunLimit::Seconds(10.0),
        warm_up_seconds: 0.0,
        verify: false,
        seed: 1,
    }
}
