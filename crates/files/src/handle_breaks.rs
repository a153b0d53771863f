//! Handle cache breaks before a name changes: a client that holds a file open only in its cache is
//! asked to close it. MS-FSA 2.1.5.15.3, 2.1.5.15.11; MS-SMB2 3.3.4.7.

use crate::context::RequestContext;
use crate::table::{FileTable, OpenFileState, OpenRefusal};
use crate::{Access, OpenFile, RequestFiles};
use grants::{BlockedOperation, CacheOwner};
use std::collections::VecDeque;
use std::sync::Arc;
use vfs::{FsError, RelPath, Result};

/// Limit of waits of one request: a client that repeatedly reacquires its caching cannot delay it
/// for ever.
pub(crate) const WAITS_MAX: u32 = 64;

/// Breaks handle caching of all leases on a file but that of `by`. It costs one load if no client
/// caches the file.
///
/// # Errors
/// [`OpenRefusal::Breaking`] if an acknowledgement is outstanding.
pub(crate) fn break_handles(
    context: &RequestContext,
    state: &Arc<OpenFileState>,
    by: CacheOwner,
) -> std::result::Result<(), OpenRefusal> {
    if !state.has_caches() {
        return Ok(());
    }
    let mut held = state.lock(context);
    let result = held.grants.break_handles(by);
    result.map_err(|refusal| {
        held.refuse_or_wait(state.clone(), refusal, BlockedOperation::NameChange(by))
    })
}

/// Files below a directory to be renamed that only handle caches hold open and whose break is not
/// requested yet.
#[derive(Debug, Default)]
pub(crate) struct OpenDescendants(Option<VecDeque<Arc<OpenFileState>>>);

impl OpenDescendants {
    /// Breaks handle caching of each file in turn, limited to those open at first: as on Windows, a
    /// concurrent open stops the rename. If `open` moves opens below its directory, files in use
    /// are left alone.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if a file stays open; a wait.
    pub fn clear(
        &mut self,
        context: &RequestContext,
        table: &FileTable,
        open: &OpenFile,
        directory: &RelPath,
    ) -> std::result::Result<(), OpenRefusal> {
        if self.0.is_none() {
            let states = table.open_below(open.volume(), directory, open.is_posix());
            let (breakable, used): (Vec<_>, Vec<_>) =
                states.into_iter().partition(|state| state.view().grants.is_open_by_handles_only());
            if !used.is_empty() && !open.moves_opens_below() {
                return Err(FsError::AccessDenied.into());
            }
            self.0 = Some(breakable.into());
        }
        let queue = self.0.get_or_insert_default();
        while let Some(state) = queue.front() {
            break_handles(context, state, CacheOwner::Open(open.id))?;
            if state.view().grants.open_count() > 0 && !open.moves_opens_below() {
                return Err(FsError::AccessDenied.into());
            }
            queue.pop_front();
        }
        if open.moves_opens_below()
            || table.open_below(open.volume(), directory, open.is_posix()).is_empty()
        {
            Ok(())
        } else {
            Err(FsError::AccessDenied.into())
        }
    }
}

impl RequestFiles {
    /// Breaks handle caching of a file before it is deleted; await it before
    /// [`RequestFiles::set_delete`].
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] without DELETE.
    pub async fn break_handles_before_delete(&self, open: &OpenFile) -> Result<()> {
        open.need_any(Access::DELETE)?;
        open.need_writable()?;
        self.await_handle_breaks(open).await
    }

    /// Breaks handle caching before the close of an open with delete on close; await it before
    /// [`RequestFiles::close`]. A name that is delete pending already was handled before.
    ///
    /// # Errors
    /// Errors of waiting.
    pub async fn break_handles_before_close(&self, open: &OpenFile) -> Result<()> {
        if !open.deletes_on_close() || open.is_delete_pending() {
            return Ok(());
        }
        self.await_handle_breaks(open).await
    }

    async fn await_handle_breaks(&self, open: &OpenFile) -> Result<()> {
        for _ in 0..WAITS_MAX {
            match break_handles(&self.context, &open.state, open.cache_owner()) {
                Ok(()) => break,
                Err(OpenRefusal::Breaking(wait)) => {
                    wait.settled(&self.context, &*self.workers).await?;
                }
                Err(OpenRefusal::Refused(refused)) => return Err(refused),
            }
        }
        Ok(())
    }
}
