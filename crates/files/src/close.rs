//! Closing: the end of an open, and with the last one the removal of a delete-pending name. MS-FSA
//! 2.1.5.5, RFC 8881 18.2.

use crate::context::RequestContext;
use crate::offload::offload_in_turn;
use crate::pending_removal::remove_pending_name;
use crate::rename_turns::{RenameTurn, TurnRequest, directory_to_claim};
use crate::{OpenFile, RequestFiles};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{AttributeRequest, FileKey, FileKind, FsError, Result};

/// A larger file is removed on a worker, since freeing its blocks takes long.
pub(crate) const INLINE_FREE_BYTES_MAX: u64 = 1024 * 1024;

/// Tries of a removal to claim the directory of its name, before it claims the tree.
const CLAIM_TRIES_MAX: u32 = 4;

impl OpenFile {
    /// Closes once. Removes the name if this was its last open and it is delete pending.
    fn close_now(&self, context: &RequestContext) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.advance_access_time();
        self.note_unreported(self.take_deferred_kinds());
        self.report_unreported(context);
        if self.delete_on_close {
            let mut held = self.state.lock(context);
            held.grants.caches.handle_name_change(self.cache_owner());
            held.set_delete_pending(self.pending_delete());
        }
        let removal = self.table.close(context, &self.state, self.id, true);
        // Ordered after the close: a watch that begins now finds the open closed.
        self.end_watch();
        let result = match removal {
            Some(removal) => {
                let result = remove_pending_name(
                    context,
                    &self.table,
                    &self.state,
                    removal,
                    self.parent_key,
                );
                match result {
                    Err(FsError::NotFound | FsError::PathNotFound | FsError::NotEmpty)
                        if !self.reports_removal.load(Ordering::Relaxed) =>
                    {
                        Ok(())
                    }
                    other => other,
                }
            }
            None => {
                if self.delete_on_close && self.is_directory() {
                    self.report_delete_pending();
                }
                Ok(())
            }
        };
        // The stream's file is released after the stream.
        let hold = self.hold.lock().take();
        result.and(hold.map_or(Ok(()), |hold| hold.release(context)))
    }

    /// Whether a worker should remove the file: freeing a large file or any call of the backend
    /// takes long. Breaks are also sent before the remover receives the response, on which its
    /// client may act.
    fn should_remove_on_worker(&self, size_bytes: Option<u64>) -> bool {
        if self.volume().features().always_waits {
            return true;
        }
        if self.kind() != FileKind::File {
            return false;
        }
        let present = || Some(self.node.attributes(AttributeRequest::default()).ok()?.size_bytes);
        let is_large = || {
            let size_bytes = size_bytes.or_else(present);
            size_bytes.is_some_and(|size_bytes| size_bytes > INLINE_FREE_BYTES_MAX)
        };
        self.state.has_caches() || is_large()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // An explicit close has reported its error already.
        if let Err(error) = self.close_now(&RequestContext::SERVER) {
            tracing::warn!(path = ?self.path(), %error, "a file marked for deletion could not be removed");
        }
    }
}

impl RequestFiles {
    /// Closes an open: its locks and share mode end, and a delete-pending file is removed with its
    /// last open. Other owners of the same `Arc` find it closed.
    ///
    /// # Errors
    /// Errors from removing the file.
    pub async fn close(&self, open: Arc<OpenFile>) -> Result<()> {
        self.close_sized(open, None, None).await
    }

    /// As [`RequestFiles::close`], with the size of the file and the directory of its name, as far
    /// as they are known.
    async fn close_sized(
        &self,
        open: Arc<OpenFile>,
        size_bytes: Option<u64>,
        directory: Option<FileKey>,
    ) -> Result<()> {
        let marks = open.may_remove_at_close() && open.state.is_recorded();
        let marked = marks.then(|| open.clone());
        let closed = self.close_in_turn(open, size_bytes, directory).await;
        let Some(marked) = marked else { return closed };
        // Journaled opens may retain the name, and must remove it after a restart, too.
        let recorded = Box::pin(self.record_opens(&marked)).await;
        closed.and(recorded)
    }

    async fn close_in_turn(
        &self,
        open: Arc<OpenFile>,
        size_bytes: Option<u64>,
        mut directory: Option<FileKey>,
    ) -> Result<()> {
        let removes = open.may_remove_at_close();
        // A concurrent rename could remove the file's old name and leave the new one. POSIX renames
        // open descendants and unlinked files.
        let removes_in_turn = removes && open.is_posix();
        let on_worker = removes && open.should_remove_on_worker(size_bytes);
        let context = self.context.clone();
        if !removes_in_turn && !open.renames.load(Ordering::Acquire) {
            return match on_worker {
                true => self.offload(move || open.close_now(&context)).await,
                false => open.close_now(&context),
            };
        }
        let change = TurnRequest { moves_directory: false, ..open.name_change() };
        for _ in 0..CLAIM_TRIES_MAX {
            let turn = self.table.rename_turns.take(&change, directory.as_slice()).await;
            let (open, context) = (open.clone(), context.clone());
            let close = move || Ok(close_with_claims(&context, &open, turn, removes_in_turn));
            let closed = match on_worker {
                true => offload_in_turn(&*self.workers, &self.holder, close).await,
                false => close(),
            };
            match closed? {
                Ok(closed) => return closed,
                Err(MissingClaim::Directory(claimed)) => directory = Some(claimed),
                Err(MissingClaim::Tree) => break,
            }
        }
        // The directory cannot be found, or the name moves faster than directories can be claimed.
        let turn = self.table.rename_turns.take_tree(change.root_device).await;
        let close = move || {
            let _turn = turn;
            open.close_now(&context)
        };
        match on_worker {
            true => offload_in_turn(&*self.workers, &self.holder, close).await,
            false => close(),
        }
    }
}

/// Claim that a close needs before it may remove its name.
enum MissingClaim {
    /// Another change of names has claimed the directory.
    Directory(FileKey),
    /// The directory is unknown.
    Tree,
}

/// Closes an open in its turn.
fn close_with_claims(
    context: &RequestContext,
    open: &OpenFile,
    mut turn: RenameTurn,
    removes: bool,
) -> std::result::Result<Result<()>, MissingClaim> {
    if let Some(parent) = open.path().parent().filter(|_| removes) {
        let found =
            directory_to_claim(context, open.volume(), &parent).map_err(|_| MissingClaim::Tree)?;
        let key = found.map(|found| found.attributes.key);
        if let Some(key) = key.filter(|key| !turn.try_add_directories(&[*key])) {
            return Err(MissingClaim::Directory(key));
        }
    }
    Ok(open.close_now(context))
}

impl RequestFiles {
    /// Closes an open with a delete-pending name, and reports whether it was removed. `size_bytes`
    /// is a recent size of the file, `directory` that in which the name was.
    ///
    /// # Errors
    /// As [`RequestFiles::close`]; [`FsError::NotEmpty`] if the directory was filled meanwhile,
    /// [`FsError::NotFound`] if another caller removed the name.
    pub(crate) async fn close_removing(
        &self,
        open: Arc<OpenFile>,
        size_bytes: u64,
        directory: FileKey,
    ) -> Result<()> {
        open.reports_removal.store(true, Ordering::Relaxed);
        self.close_sized(open, Some(size_bytes), Some(directory)).await
    }
}
