//! Closing: the end of an open, and with the last one the removal of a delete-pending name. MS-FSA
//! 2.1.5.5, RFC 8881 18.2.

use crate::context::RequestContext;
use crate::handle_breaks::break_handles;
use crate::offload::offload_in_turn;
use crate::pending_removal::remove_pending_name;
use crate::rename_turns::{RenameTurn, TurnRequest, directory_to_claim};
use crate::table::{BreakWait, OpenRefusal};
use crate::{OpenFile, RequestFiles};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{AttributeRequest, Attributes, FileKey, FileKind, FsError, Name, Result};

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
        let times = self.frozen_times();
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
                    (self.parent_key, times.as_ref()),
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
        result.and(hold.map_or(Ok(()), |hold| hold.release(context, times.as_ref())))
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
            tracing::warn!(path = ?self.path(), %error, "cannot remove a delete-pending file at its last close");
        }
    }
}

impl RequestFiles {
    /// Stores the access time of this open's writes, as its close would: attributes that are read
    /// after it are those that the close leaves.
    pub fn store_access_before_close(&self, open: &OpenFile) {
        open.advance_access_time();
    }

    /// Closes an open: its locks and share mode end, and a delete-pending file is removed with its
    /// last open. Other owners of the same `Arc` find it closed.
    ///
    /// # Errors
    /// Errors from removing the file.
    pub async fn close(&self, open: Arc<OpenFile>) -> Result<()> {
        self.close_and_record(open, None).await
    }

    /// Removes a name: in one turn of changes of names, checks that the open still has this name,
    /// marks it delete pending and closes the open. So no rename that ends before the mark can make
    /// it concern another name.
    ///
    /// # Errors
    /// As [`RequestFiles::set_delete`] and [`RequestFiles::close`]; [`FsError::Stale`] if the name
    /// has been renamed; [`FsError::NotEmpty`] if the directory was filled meanwhile,
    /// [`FsError::NotFound`] if another caller removed the name.
    pub(crate) async fn close_removing(
        &self,
        open: Arc<OpenFile>,
        removal: NameRemoval,
    ) -> Result<()> {
        self.close_and_record(open, Some(Arc::new(removal))).await
    }

    async fn close_and_record(
        &self,
        open: Arc<OpenFile>,
        removal: Option<Arc<NameRemoval>>,
    ) -> Result<()> {
        let marks = removal.is_some() || open.may_remove_at_close();
        let marked = marks.then(|| open.clone());
        let closed = self.close_in_turn(open, removal).await;
        let Some(marked) = marked else { return closed };
        // Journaled opens may retain the name, and must remove it after a restart, too. The first of
        // them may have been recorded since the close began.
        let recorded = Box::pin(self.record_opens(&marked)).await;
        closed.and(recorded)
    }

    async fn close_in_turn(
        &self,
        open: Arc<OpenFile>,
        removal: Option<Arc<NameRemoval>>,
    ) -> Result<()> {
        let removes = removal.is_some() || open.may_remove_at_close();
        // A concurrent rename could remove the file's old name and leave the new one. POSIX renames
        // open descendants and unlinked files.
        let removes_in_turn = removal.is_some() || (removes && open.is_posix());
        let size_bytes = removal.as_ref().map(|removal| removal.attributes.size_bytes);
        let on_worker = removes && open.should_remove_on_worker(size_bytes);
        if !removes_in_turn && !open.renames.load(Ordering::Acquire) {
            let context = self.context.clone();
            return match on_worker {
                true => self.offload(move || open.close_now(&context)).await,
                false => open.close_now(&context),
            };
        }
        let change = TurnRequest { moves_directory: false, ..open.name_change() };
        let mut directory = removal.as_ref().map(|removal| removal.directory);
        for _ in 0..CLAIM_TRIES_MAX {
            let turn = self.table.rename_turns.take(&change, directory.as_slice()).await;
            let (open, removal) = (open.clone(), removal.clone());
            let close = move |files: &Self| {
                files.close_with_claims(&open, turn, removal.as_deref(), removes_in_turn)
            };
            match self.call_in_turn(on_worker, close).await? {
                Ok(closed) => return closed,
                Err(CloseObstacle::Directory(claimed)) => directory = Some(claimed),
                Err(CloseObstacle::Tree) => break,
                Err(CloseObstacle::Break(wait)) => {
                    wait.settled(&self.context, &*self.workers).await?;
                }
            }
        }
        // The directory cannot be found, or the name moves faster than directories can be claimed.
        let turn = self.table.rename_turns.take_tree(change.root_device).await;
        let close = move |files: &Self| {
            let _turn = turn;
            let Some(removal) = removal.as_deref() else { return open.close_now(&files.context) };
            let directory = match files.directory_of_name(&open) {
                Ok(found) => found,
                // Only the name itself can be compared.
                Err(_) => Some(removal.directory),
            };
            files.remove_and_close(&open, removal, directory)
        };
        self.call_in_turn(on_worker, close).await?
    }

    /// Runs a call that holds a turn, on a worker if it may take long.
    async fn call_in_turn<T: Send + 'static>(
        &self,
        on_worker: bool,
        call: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T> {
        if !on_worker {
            return Ok(call(self));
        }
        let files = self.clone();
        offload_in_turn(&*self.workers, &self.holder, move || Ok(call(&files))).await
    }

    /// Closes an open in its turn. A close that removes claims the directory of its name.
    fn close_with_claims(
        &self,
        open: &OpenFile,
        mut turn: RenameTurn,
        removal: Option<&NameRemoval>,
        removes: bool,
    ) -> std::result::Result<Result<()>, CloseObstacle> {
        let mut directory = None;
        if removes {
            directory = self.directory_of_name(open).map_err(|_| CloseObstacle::Tree)?;
            if let Some(key) = directory.filter(|key| !turn.try_add_directories(&[*key])) {
                return Err(CloseObstacle::Directory(key));
            }
        }
        let Some(removal) = removal else { return Ok(open.close_now(&self.context)) };
        // Handle caching that was granted since the removal waited for its breaks.
        match break_handles(&self.context, &open.state, open.cache_owner()) {
            Err(OpenRefusal::Breaking(wait)) => Err(CloseObstacle::Break(wait)),
            Err(OpenRefusal::Refused(error)) => Ok(Err(error)),
            Ok(()) => Ok(self.remove_and_close(open, removal, directory)),
        }
    }

    /// The directory of an open's name; none for the root, or if it is gone.
    fn directory_of_name(&self, open: &OpenFile) -> Result<Option<FileKey>> {
        let Some(parent) = open.path().parent() else { return Ok(None) };
        let found = directory_to_claim(&self.context, open.volume(), &parent)?;
        Ok(found.map(|found| found.attributes.key))
    }

    /// Marks a name delete pending and closes its open, in a turn. `directory` is that of the open's
    /// present name.
    fn remove_and_close(
        &self,
        open: &OpenFile,
        removal: &NameRemoval,
        directory: Option<FileKey>,
    ) -> Result<()> {
        let is_same = directory == Some(removal.directory)
            && open.path().name().as_ref() == Some(&removal.name);
        let marked = match is_same {
            true => self.mark_new_open_deleted(open, &removal.attributes),
            false => Err(FsError::Stale),
        };
        open.reports_removal.store(marked.is_ok(), Ordering::Relaxed);
        let closed = open.close_now(&self.context);
        marked.and(closed)
    }
}

/// Name to remove, and its file's attributes when it was opened.
#[derive(Debug)]
pub(crate) struct NameRemoval {
    pub directory: FileKey,
    pub name: Name,
    pub attributes: Attributes,
}

/// Obstacle that a close waits out before it removes its name.
enum CloseObstacle {
    /// Another change of names has claimed the directory.
    Directory(FileKey),
    /// The directory is unknown: the tree is to be claimed.
    Tree,
    /// A client has to give up its handle caching.
    Break(BreakWait),
}
