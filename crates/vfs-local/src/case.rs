//! Names that differ in case only.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, RawDir, openat};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use vfs::{Name, fold_case, has_case};

/// Bytes read from a directory at once.
const BUFFER_BYTES: usize = 32 * 1024;

/// See [`scans`].
static SCANS: AtomicU64 = AtomicU64::new(0);

/// Directories that this process has read from their beginning, to look for a name
/// or to list them: what grows with every look-up grows with directories too.
#[must_use]
pub fn scans() -> u64 {
    SCANS.load(Ordering::Relaxed)
}

/// A directory is read from its beginning.
pub(crate) fn count_scan() {
    SCANS.fetch_add(1, Ordering::Relaxed);
}

/// The name in `directory` that differs from `wanted` in case only; the first
/// in byte order if there are several.
pub fn find(directory: &impl AsFd, wanted: &[u8]) -> Option<Name> {
    if !has_case(wanted) {
        return None;
    }
    // The handle may be for looking up only: listing needs one of its own.
    let list: OwnedFd =
        openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .ok()?;
    count_scan();
    let folded = fold_case(wanted);
    let mut best: Option<Vec<u8>> = None;
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
    let mut entries = RawDir::new(list, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.ok()?;
        let name = entry.file_name().to_bytes();
        if fold_case(name) == folded && best.as_deref().is_none_or(|b| name < b) {
            best = Some(name.to_vec());
        }
    }
    best.and_then(|name| Name::new(name).ok())
}
