//! Progress of a copy, and its summary.

use super::place::names_more;
use ::copy::{CopyTally, JobProgress, Side, Summary};
use anyhow::{Context, Result};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Intervals of progress output: on a terminal, and in a file.
const EVERY: Duration = Duration::from_millis(200);
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Number of samples that the rate is averaged over.
const RATE_OVER: usize = 25;

const BAR_WIDTH: u64 = 20;

/// Waits for `copied` and shows its progress: on a terminal one line that is rewritten, else a
/// line every [`LINE_EVERY`]. Ctrl-C interrupts the copy and leaves its resume journal.
pub async fn shown(
    quiet: bool,
    tally: &Arc<CopyTally>,
    sides: [Side; 2],
    log: &mut MessageLog,
    copied: impl Future<Output = Summary>,
) -> Result<Summary> {
    let is_terminal = std::io::stderr().is_terminal() && !quiet;
    let mut copied = std::pin::pin!(copied);
    let mut ticks = tokio::time::interval(EVERY);
    let mut rate = Rate::default();
    let begun = Instant::now();
    let mut last_line = begun;
    let mut show_messages = |always_clears: bool| {
        let messages = tally.take_messages();
        if is_terminal && (always_clears || !messages.is_empty()) {
            err!("\r\x1b[K");
        }
        for message in messages {
            log.write(&message);
            errln!("{message}");
        }
    };
    loop {
        tokio::select! {
            summary = &mut copied => {
                show_messages(true);
                return Ok(summary);
            }
            _ = tokio::signal::ctrl_c() => {
                show_messages(true);
                anyhow::bail!("interrupted; run the same command again to resume");
            }
            _ = ticks.tick() => {}
        }
        let progress = tally.progress();
        let per_second = rate.of(begun.elapsed(), progress.bytes);
        show_messages(false);
        let connections = sides.iter().map(Side::connections).max().unwrap_or(0);
        if is_terminal {
            err!("\r\x1b[K{}", line(&progress, per_second, connections));
            std::io::stderr().flush()?;
        } else if !quiet && last_line.elapsed() >= LINE_EVERY {
            last_line = Instant::now();
            errln!("{}", line(&progress, per_second, connections));
        }
    }
}

/// A file that receives the messages, if the user names one.
#[derive(Debug)]
pub struct MessageLog(Option<std::fs::File>);

impl MessageLog {
    /// Opens the file for appending.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file = std::fs::File::options().create(true).append(true).open(path);
        Ok(Self(Some(file.with_context(|| path.display().to_string())?)))
    }

    /// Appends a message. A full disk does not end the copy.
    pub fn write(&mut self, message: &str) {
        if let Some(file) = &mut self.0 {
            let _ = writeln!(file, "{message}");
        }
    }
}

/// The rate over the last few seconds.
#[derive(Debug, Default)]
struct Rate {
    seen: std::collections::VecDeque<(Duration, u64)>,
}

impl Rate {
    fn of(&mut self, now: Duration, bytes: u64) -> f64 {
        self.seen.push_back((now, bytes));
        if self.seen.len() > RATE_OVER {
            self.seen.pop_front();
        }
        let Some((then, before)) = self.seen.front() else { return 0.0 };
        let seconds = now.saturating_sub(*then).as_secs_f64();
        if seconds > 0.0 { bytes.saturating_sub(*before) as f64 / seconds } else { 0.0 }
    }
}

fn line(progress: &JobProgress, per_second: f64, connections: usize) -> String {
    let JobProgress { files, files_found, bytes, bytes_found, is_listed } = *progress;
    let bytes_found = bytes_found.max(bytes);
    let filled = (bytes * BAR_WIDTH).checked_div(bytes_found).unwrap_or(0);
    let bar: String = (0..BAR_WIDTH).map(|at| if at < filled { '█' } else { '░' }).collect();
    let mut text = format!(
        "{bar} {} of {}{}, {files} of {}, {}/s",
        size(bytes),
        if is_listed { "" } else { "≥ " },
        size(bytes_found),
        names_more(files_found, "file", "files"),
        size(per_second as u64),
    );
    if is_listed && per_second >= 1.0 {
        let left = (bytes_found - bytes) as f64 / per_second;
        text += &format!(", {} left", time(left));
    }
    if connections > 0 {
        text += &format!(", {}", names_more(connections as u64, "channel", "channels"));
    }
    text
}

/// Bytes with a unit.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}

fn time(seconds: f64) -> String {
    let seconds = seconds.min(359_999.0) as u64;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{rest:02}")
    } else {
        format!("{minutes}:{rest:02}")
    }
}

/// The summary, for people.
pub fn summary_text(summary: &Summary, dry_run: bool) -> String {
    let would = if dry_run { "would be " } else { "" };
    let mut text = format!(
        "{} {would}copied, {}\n",
        names_more(summary.files_copied, "file", "files"),
        size(summary.bytes_copied)
    );
    let mut more = |count: u64, what: String| {
        if count > 0 {
            text += &what;
            text.push('\n');
        }
    };
    let resumed = size(summary.bytes_resumed);
    more(summary.bytes_resumed, format!("{resumed} transferred by an earlier run"));
    more(summary.bytes_sparse, format!("{} sparse, not transferred", size(summary.bytes_sparse)));
    let files = |count| names_more(count, "file", "files");
    more(summary.files_unchanged, format!("{} unchanged", files(summary.files_unchanged)));
    let links = names_more(summary.links_copied, "symbolic link", "symbolic links");
    more(summary.links_copied, format!("{links} {would}copied"));
    let directories = names_more(summary.directories_created, "directory", "directories");
    more(summary.directories_created, format!("{directories} {would}created"));
    let kept = summary.extras - summary.removed.min(summary.extras);
    more(kept, format!("{kept} only in the target"));
    more(summary.removed, format!("{} {would}removed", summary.removed));
    more(summary.skipped, format!("{} skipped", summary.skipped));
    let mismatched = summary.mismatched;
    more(mismatched, format!("{mismatched} are a file on one side, a directory on the other"));
    more(summary.failed, format!("{} NOT copied", summary.failed));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_line_shows_bytes_files_rate_and_time_left() {
        let progress = JobProgress {
            files: 1,
            files_found: 2,
            bytes: 1 << 30,
            bytes_found: 4 << 30,
            is_listed: true,
        };
        let text = line(&progress, f64::from(1 << 20), 4);
        assert_eq!(
            text,
            "█████░░░░░░░░░░░░░░░ 1.0 GiB of 4.0 GiB, 1 of 2 files, 1.0 MiB/s, 51:12 left, 4 channels"
        );
        let unknown = JobProgress { is_listed: false, ..progress };
        assert!(!line(&unknown, 1.0, 0).contains("left"));
        assert!(line(&JobProgress::default(), 0.0, 0).starts_with('░'));
    }

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!([size(0), size(999), size(1000)], ["0 bytes", "999 bytes", "1.0 KiB"]);
        assert_eq!([time(0.0), time(61.0), time(3661.0)], ["0:00", "1:01", "1:01:01"]);
        assert_eq!(time(f64::INFINITY), "99:59:59");
    }

    #[test]
    fn rate_covers_the_last_seconds_only() {
        let mut rate = Rate::default();
        for second in 0..100u64 {
            let bytes = if second < 50 { second * 1000 } else { 50_000 };
            rate.of(Duration::from_secs(second), bytes);
        }
        assert!(rate.of(Duration::from_secs(100), 50_000) < 1.0);
    }
}
