//! Fills the files of smbtorture's smb2.bench.read, which sets their length and writes no data. A
//! server reads holes from one cached page, but the files of our loader, which have data, from
//! memory.

use anyhow::{Context, Result};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

/// Folder of the bench's files.
const FOLDER: &str = "bench_read_dir";

/// Interval between two scans of the folder.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A thread that fills files as they are created.
pub struct Filler {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<usize>>,
    files: u32,
}

impl Filler {
    /// Starts to fill `files` files of `bytes` bytes each below the folder of a share.
    pub fn start(share: &Path, files: u32, bytes: u32) -> Self {
        let (folder, is_over) = (share.join(FOLDER), Arc::new(AtomicBool::new(false)));
        let is_ended = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut filled = HashSet::new();
            while filled.len() < files as usize && !is_ended.load(Ordering::Relaxed) {
                fill(&folder, bytes, &mut filled)?;
                sleep(LOOK_EVERY);
            }
            Ok(filled.len())
        });
        Self { is_over, thread, files }
    }

    /// Stops the thread.
    ///
    /// # Errors
    /// Some files did not appear or could not be filled.
    pub fn end(self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        let filled = self.thread.join().ok().context("the filling thread ended")??;
        let files = self.files;
        anyhow::ensure!(filled >= files as usize, "smbtorture opened {filled} files, not {files}");
        Ok(())
    }
}

/// Fills the files of this length that are not in `filled`.
fn fill(folder: &Path, bytes: u32, filled: &mut HashSet<PathBuf>) -> std::io::Result<()> {
    // The bench may not have created the folder yet.
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_whole = fs::metadata(&path).is_ok_and(|found| found.len() == u64::from(bytes));
        if is_whole && !filled.contains(&path) {
            let data: Vec<u8> = (0..bytes).map(|at| (at.wrapping_mul(31) >> 3) as u8).collect();
            write(&path, &data)?;
            filled.insert(path);
        }
    }
    Ok(())
}

fn write(path: &Path, data: &[u8]) -> std::io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all_at(data, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_length_are_filled_once_and_others_are_missed() {
        let share = std::env::temp_dir().join(format!("anabranch-filler-{}", std::process::id()));
        let folder = share.join(FOLDER);
        fs::create_dir_all(&folder).unwrap();
        let make = |name: &str, bytes| {
            fs::File::create(folder.join(name)).unwrap().set_len(bytes).unwrap();
        };
        make("other", 100);
        make("a", 4096);
        let mut filled = HashSet::new();
        fill(&folder, 4096, &mut filled).unwrap();
        assert_eq!(filled.len(), 1);
        assert!(fs::read(folder.join("a")).unwrap().iter().any(|byte| *byte != 0));
        fs::write(folder.join("a"), [0; 4096]).unwrap();
        fill(&folder, 4096, &mut filled).unwrap();
        assert!(fs::read(folder.join("a")).unwrap().iter().all(|byte| *byte == 0), "once");
        fs::remove_file(folder.join("a")).unwrap();
        let filler = Filler::start(&share, 2, 4096);
        assert!(filler.end().is_err(), "none was made");
        fs::remove_dir_all(share).unwrap();
    }
}
