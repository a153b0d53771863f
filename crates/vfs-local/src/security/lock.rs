//! Locks of files whose owner, permissions or descriptor change.
//!
//! Each file has a lock of its own: a file system that hangs blocks no change on another one. The
//! locks order changes within this process only; other processes take none.

use sync::{Condvar, Mutex};
use vfs::FileKey;

/// Number of tables, over which files are distributed by inode number.
const TABLES: usize = 16;

static LOCKED: [SecurityLockTable; TABLES] = [const { SecurityLockTable::new() }; TABLES];

/// The locked files of one table. A thread holds at most one lock, so their number is limited by
/// that of threads. No system call on a file runs under `entries`.
struct SecurityLockTable {
    entries: Mutex<LockedSecurity>,
    /// Notified when a file is unlocked while threads wait.
    unlocked: Condvar,
}

struct LockedSecurity {
    keys: Vec<FileKey>,
    waiting_threads: usize,
}

impl SecurityLockTable {
    const fn new() -> Self {
        let entries = LockedSecurity { keys: Vec::new(), waiting_threads: 0 };
        Self { entries: Mutex::new(entries), unlocked: Condvar::new() }
    }

    fn of(key: FileKey) -> &'static Self {
        &LOCKED[key.inode as usize % TABLES]
    }
}

/// The lock of a file, until it is dropped.
#[derive(Debug)]
pub struct SecurityLock(FileKey);

/// Locks a file. Blocks while another thread has the lock. A thread that has a lock already must
/// not call it.
pub fn lock(key: FileKey) -> SecurityLock {
    let files = SecurityLockTable::of(key);
    let mut entries = files.entries.lock();
    while entries.keys.contains(&key) {
        entries.waiting_threads += 1;
        entries = files.unlocked.wait(entries);
        entries.waiting_threads -= 1;
    }
    entries.keys.push(key);
    SecurityLock(key)
}

/// Locks a file; `None` if another thread has the lock.
pub fn try_lock(key: FileKey) -> Option<SecurityLock> {
    let mut entries = SecurityLockTable::of(key).entries.lock();
    if entries.keys.contains(&key) {
        return None;
    }
    entries.keys.push(key);
    Some(SecurityLock(key))
}

impl Drop for SecurityLock {
    fn drop(&mut self) {
        let files = SecurityLockTable::of(self.0);
        let mut entries = files.entries.lock();
        entries.keys.retain(|key| *key != self.0);
        if entries.waiting_threads > 0 {
            files.unlocked.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// A frozen file system of one share must not block another share.
    #[test]
    fn file_lock_leaves_other_files_unlocked() {
        let file = FileKey { device: u64::MAX, inode: 7 };
        let held = lock(file);
        assert!(try_lock(file).is_none());
        assert!(try_lock(FileKey { device: u64::MAX - 1, ..file }).is_some(), "other file system");
        for tables in [1, 4, 64] {
            let inode = file.inode + (tables * TABLES) as u64;
            assert!(try_lock(FileKey { inode, ..file }).is_some(), "same table");
        }
        drop(held);
        assert!(try_lock(file).is_some());
    }

    #[test]
    fn waiting_thread_gets_lock_when_it_is_dropped() {
        let file = FileKey { device: u64::MAX, inode: 8 };
        let held = lock(file);
        let (sender, locked) = mpsc::channel();
        let waiting = std::thread::spawn(move || {
            let _held = lock(file);
            sender.send(()).unwrap();
        });
        let early = locked.recv_timeout(Duration::from_millis(50));
        assert_eq!(early, Err(mpsc::RecvTimeoutError::Timeout));
        drop(held);
        locked.recv_timeout(Duration::from_secs(20)).unwrap();
        waiting.join().unwrap();
    }
}
