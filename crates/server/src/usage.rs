//! How much of a share's size is used: measured by looking at every file of it, again and
//! again, as seldom as that takes long.

use crate::share_limits::LimitsBook;
use limits::ShareLimits;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks at one share; the time that one took is multiplied, so that looking
/// takes a hundredth of a core at most.
const PAUSE_MIN: Duration = Duration::from_secs(2);
const PAUSE_PARTS: u32 = 100;
/// A share that clients change nothing in, since others may.
const PAUSE_UNCHANGED: Duration = Duration::from_mins(10);
/// Files with several names that are told apart; of more, each name counts.
const LINKED_MAX: usize = 1 << 20;

/// A share that is measured, and when next.
#[derive(Debug)]
struct Measured {
    limits: Arc<ShareLimits>,
    due: Instant,
    due_unchanged: Instant,
}

/// Measures shares with a size, one after the other, until the task is dropped.
pub async fn follow(book: Arc<LimitsBook>) {
    let mut seconds = tokio::time::interval(Duration::from_millis(500));
    let mut known: Vec<Measured> = Vec::new();
    loop {
        seconds.tick().await;
        let sized = book.sized();
        known.retain(|one| sized.iter().any(|(_, limits)| Arc::ptr_eq(limits, &one.limits)));
        for (path, limits) in sized {
            let at = known.iter().position(|one| Arc::ptr_eq(&one.limits, &limits));
            let is_due = at.is_none_or(|at| {
                let due = if limits.room().is_changed() {
                    known[at].due
                } else {
                    known[at].due_unchanged
                };
                due <= Instant::now()
            });
            if !is_due {
                continue;
            }
            let took = measure(path, &limits).await;
            let now = Instant::now();
            let due = now + PAUSE_MIN.max(took * PAUSE_PARTS);
            let next = Measured { limits, due, due_unchanged: due + PAUSE_UNCHANGED };
            match at {
                Some(at) => known[at] = next,
                None => known.push(next),
            }
        }
    }
}

/// How long it took.
async fn measure(path: PathBuf, limits: &Arc<ShareLimits>) -> Duration {
    let (start, begun) = (Instant::now(), limits.room().begin_measure());
    let shown = path.display().to_string();
    match tokio::task::spawn_blocking(move || used_bytes(&path)).await {
        Ok(Ok(bytes)) => limits.room().end_measure(begun, bytes),
        Ok(Err(error)) => {
            tracing::warn!(path = shown, %error, "how much of the share is used cannot be measured");
        }
        Err(_) => tracing::error!(path = shown, "measuring a share failed"),
    }
    start.elapsed()
}

/// Bytes that everything below a directory has allocated, on its file system. What vanishes
/// meanwhile is passed over.
fn used_bytes(root: &Path) -> io::Result<u64> {
    let top = fs::symlink_metadata(root)?;
    let device = top.dev();
    let (mut bytes, mut linked) = (top.blocks() * 512, HashSet::new());
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.dev() != device {
                continue;
            }
            let has_others = !metadata.is_dir() && metadata.nlink() > 1;
            if has_others && linked.len() < LINKED_MAX && !linked.insert(metadata.ino()) {
                continue;
            }
            bytes += metadata.blocks() * 512;
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_counts_once_however_many_names_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let empty = used_bytes(folder.path()).unwrap();
        let below = folder.path().join("below");
        fs::create_dir(&below).unwrap();
        let file = below.join("file");
        fs::write(&file, vec![1; 1 << 20]).unwrap();
        fs::File::open(&file).unwrap().sync_all().unwrap();
        fs::hard_link(&file, folder.path().join("again")).unwrap();
        let sparse = fs::File::create(folder.path().join("sparse")).unwrap();
        sparse.set_len(1 << 30).unwrap();
        let used = used_bytes(folder.path()).unwrap() - empty;
        assert!((1 << 20..(1 << 20) + 65_536).contains(&used), "{used}");
        assert!(used_bytes(&folder.path().join("none")).is_err());
    }
}
