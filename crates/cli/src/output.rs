//! Standard output and standard error of the commands: nothing else writes there.
//!
//! `println!` panics where it cannot write, as in `anabranch status | head -1`. A reader that has
//! gone is no failure: the command goes on, and its exit code is what it found. Another failure,
//! such as a full disk, is reported by [`finish`].

use anyhow::Context;
use serde::Serialize;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// The file name of standard output in options that take a file.
pub const STANDARD_OUTPUT: &str = "-";

/// Why standard output could not be written first.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Writes to standard output, as `print!`.
macro_rules! out {
    ($($what:tt)*) => { $crate::output::write_out(format_args!($($what)*)) };
}

/// Writes a line to standard output, as `println!`.
macro_rules! outln {
    ($($what:tt)*) => { $crate::output::write_out(format_args!("{}\n", format_args!($($what)*))) };
}

/// Writes to standard error, as `eprint!`.
macro_rules! err {
    ($($what:tt)*) => { $crate::output::write_error(format_args!($($what)*)) };
}

/// Writes a line to standard error, as `eprintln!`.
macro_rules! errln {
    ($($what:tt)*) => {
        $crate::output::write_error(format_args!("{}\n", format_args!($($what)*)))
    };
}

/// See `out!`.
pub fn write_out(text: Arguments<'_>) {
    note(io::stdout().write_fmt(text));
}

/// See `err!`. There is no place to report that it cannot be written.
pub fn write_error(text: Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}

/// Prints a document, as every `--json` option does: indented, and with the characters that could
/// control a terminal escaped.
///
/// # Errors
/// The value is not representable in JSON.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    outln!("{}", server::log::escape_json(&serde_json::to_string_pretty(value)?));
    Ok(())
}

/// Writes a document to a file, or prints it if `place` is [`STANDARD_OUTPUT`]. Returns whether it
/// was printed, and so no text may follow it.
///
/// # Errors
/// The file cannot be written.
pub fn write_json(place: Option<&str>, value: &impl Serialize) -> anyhow::Result<bool> {
    match place {
        None => Ok(false),
        Some(STANDARD_OUTPUT) => print_json(value).map(|()| true),
        Some(file) => {
            let text = serde_json::to_string_pretty(value)? + "\n";
            std::fs::write(file, text).with_context(|| format!("cannot write {file}"))?;
            Ok(false)
        }
    }
}

/// Writes what is buffered.
///
/// # Errors
/// Standard output could not be written, now or before, and has its reader.
pub fn finish() -> Result<(), &'static io::Error> {
    note(io::stdout().flush());
    FAILURE.get().map_or(Ok(()), Err)
}

fn note(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = FAILURE.set(error);
    }
}
