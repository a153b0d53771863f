//! Opens as SMB sees them: a file of the file layer, or a named pipe.
//! MS-SMB2 3.3.1.10.

use crate::lock_sequence::LockSequences;
use crate::oplock::Oplock;
use crate::signal::Signal;
use crate::tree::Tree;
use files::OpenFile;
use std::sync::{Arc, Mutex, PoisonError};
use wire::ntstatus::NtStatus;
use wire::rpc::Pipe;
use wire::smb::FileId;

/// One open of a session.
#[derive(Debug)]
pub struct Open {
    /// Both halves of the id the client was given.
    pub id: FileId,
    /// The tree it was made on.
    pub tree: Arc<Tree>,
    /// What is open.
    pub target: Target,
    /// Every write is durable before it is answered.
    pub write_through: bool,
    /// FILE_* mode flags of CREATE that queries show again (MS-FSCC 2.4.31).
    pub mode: u32,
    /// It outlives its connection for a while.
    pub is_durable: bool,
    /// How its client is asked for its oplock.
    pub oplock: Option<Arc<Oplock>>,
    /// Raised when it is closed: whatever waits on it gives up.
    pub closed: Signal,
    /// Which LOCK requests were carried out.
    pub lock_sequences: Mutex<LockSequences>,
    /// Where QUERY_DIRECTORY stands.
    pub scan: Mutex<Option<crate::commands::query_directory::Scan>>,
}

/// What is behind an open.
#[derive(Debug)]
pub enum Target {
    /// A file or directory.
    File(Arc<OpenFile>),
    /// A pipe of IPC$.
    Pipe(Mutex<Pipe>),
}

impl Open {
    /// What is known of LOCK requests, for the open that goes on in its place.
    pub fn take_lock_sequences(&self) -> LockSequences {
        std::mem::take(&mut self.lock_sequences.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The file behind it.
    ///
    /// # Errors
    /// `INVALID_DEVICE_REQUEST` if it is a pipe.
    pub fn file(&self) -> Result<&Arc<OpenFile>, NtStatus> {
        match &self.target {
            Target::File(file) => Ok(file),
            Target::Pipe(_) => Err(NtStatus::INVALID_DEVICE_REQUEST),
        }
    }
}
