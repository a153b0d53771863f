//! Case-insensitive look-up of names.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, RawDir, openat};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use vfs::{Name, fold_case, has_case};

/// Bytes read from a directory per call.
const BUFFER_BYTES: usize = 32 * 1024;

/// See [`scans`].
static SCANS: AtomicU64 = AtomicU64::new(0);

/// Number of directory scans by this process, for look-ups and listings. A cost that grows with
/// each look-up also grows with the size of the directory.
#[must_use]
pub fn scans() -> u64 {
    SCANS.load(Ordering::Relaxed)
}

/// Counts one scan of a directory from its start.
pub(crate) fn count_scan() {
    SCANS.fetch_add(1, Ordering::Relaxed);
}

/// Finds the name in `directory` that equals `wanted` except for case; of several, the first in
/// byte order.
pub fn find(directory: &impl AsFd, wanted: &[u8]) -> Option<Name> {
    if !has_case(wanted) {
        return None;
    }
    // `directory` may be an O_PATH descriptor, which cannot be listed.
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
