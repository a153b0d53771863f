//! Before a name changes or goes: whoever keeps the file open only for its
//! cache is asked to close it. MS-FSA 2.1.5.15.3, 2.1.5.15.11; MS-SMB2 3.3.4.7.

use crate::context::RequestContext;
use crate::table::{FileState, NotEntered, Table};
use crate::{Access, OpenFile, RequestFiles};
use grants::{Awaited, CacheOwner};
use std::collections::VecDeque;
use std::sync::Arc;
use vfs::{FsError, RelPath, Result};

/// Times that one request waits for others to let go: a client that takes up
/// again what it has just given back does not hold it up for ever.
pub(crate) const WAITS_MAX: u32 = 64;

/// Asks all leases on a file but that of `by` to let go of handles. One load where nobody keeps
/// anything.
///
/// # Errors
/// [`NotEntered::Breaking`] if that must be waited for.
pub(crate) fn ask_for_handles(
    context: &RequestContext,
    state: &Arc<FileState>,
    by: CacheOwner,
) -> std::result::Result<(), NotEntered> {
    if !state.has_caches() {
        return Ok(());
    }
    let mut held = state.lock(context);
    let asked = held.grants.ask_for_handles(by);
    asked.map_err(|refusal| held.not_entered(state.clone(), refusal, Awaited::NameChange(by)))
}

/// The files below a directory that is to be renamed, as far as they are kept
/// open by leases alone and were not asked for yet.
#[derive(Debug, Default)]
pub(crate) struct Below(Option<VecDeque<Arc<FileState>>>);

impl Below {
    /// Asks one after the other to be closed, and only those that were there
    /// at first: as Windows does it, who opens one meanwhile stops the rename. Where `open` moves
    /// what is open below its directory, only those are asked that are kept for a cache alone.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if one is open and stays so; a wait.
    pub fn clear(
        &mut self,
        context: &RequestContext,
        table: &Table,
        open: &OpenFile,
        directory: &RelPath,
    ) -> std::result::Result<(), NotEntered> {
        if self.0.is_none() {
            let states = table.open_below(open.volume(), directory, open.is_posix());
            let (kept, used): (Vec<_>, Vec<_>) =
                states.into_iter().partition(|state| state.look().grants.is_open_by_handles_only());
            if !used.is_empty() && !open.moves_opens_below() {
                return Err(FsError::AccessDenied.into());
            }
            self.0 = Some(kept.into());
        }
        let queue = self.0.get_or_insert_default();
        while let Some(state) = queue.front() {
            ask_for_handles(context, state, CacheOwner::Open(open.id))?;
            if state.look().grants.open_count() > 0 && !open.moves_opens_below() {
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
    /// Has others let go of what they keep open of a file that is to vanish;
    /// to be awaited before [`RequestFiles::set_delete`].
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] without DELETE.
    pub async fn ask_before_delete(&self, open: &OpenFile) -> Result<()> {
        open.need_any(Access::DELETE)?;
        open.need_writable()?;
        self.have_handles_given_back(open).await
    }

    /// Has others let go of what they keep open of a file that vanishes by the wish of
    /// this open, made with delete-on-close; to be awaited before [`RequestFiles::close`]
    /// where a client asks for it. What is marked already has been asked for.
    ///
    /// # Errors
    /// Those of waiting, none by itself.
    pub async fn ask_before_close(&self, open: &OpenFile) -> Result<()> {
        if !open.deletes_on_close() || open.is_delete_pending() {
            return Ok(());
        }
        self.have_handles_given_back(open).await
    }

    async fn have_handles_given_back(&self, open: &OpenFile) -> Result<()> {
        for _ in 0..WAITS_MAX {
            match ask_for_handles(&self.context, &open.state, open.cache_owner()) {
                Ok(()) => break,
                Err(NotEntered::Breaking(wait)) => {
                    wait.settled(&self.context, &*self.workers).await?;
                }
                Err(NotEntered::Refused(refused)) => return Err(refused),
            }
        }
        Ok(())
    }
}
