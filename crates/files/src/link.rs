//! Hard links. MS-FSA 2.1.5.15.6.

use crate::context::RequestContext;
use crate::frozen_times::MovedTimes;
use crate::handle_breaks::WAITS_MAX;
use crate::link_target::check_moved;
use crate::new_name::{
    DirectoryKeys, FoundDirectories, RenameFailure, RenameTarget, announce, check_open,
    check_target_directory, find_target, find_target_directory, finish_replacement,
    need_same_place,
};
use crate::offload::offload_in_turn;
use crate::rename_turns::RenameTurn;
use crate::table::OpenRefusal;
use crate::watch::ChangeAction;
use crate::{OpenFile, RequestFiles};
use std::sync::Arc;
use vfs::{FileKey, FsError, RelPath, Replace, Result};

impl RequestFiles {
    /// Adds the name `to` to the file.
    ///
    /// # Errors
    /// As [`RequestFiles::rename`]; [`FsError::IsDirectory`] for directories.
    pub async fn link(&self, open: &Arc<OpenFile>, to: &RelPath, replace: bool) -> Result<()> {
        self.link_into(open, to, None, replace).await
    }

    /// As [`RequestFiles::link`], if the parent of the new name is still `into`.
    ///
    /// # Errors
    /// As [`RequestFiles::link`]; [`FsError::Stale`] if it is not.
    pub(crate) async fn link_into(
        &self,
        open: &Arc<OpenFile>,
        to: &RelPath,
        into: Option<FileKey>,
        replace: bool,
    ) -> Result<()> {
        need_same_place(open)?;
        if open.is_directory() {
            return Err(FsError::IsDirectory);
        }
        if open.name.stream.is_some() {
            return Err(FsError::InvalidParameter);
        }
        open.volume().options.veto_names.check(to, true)?;
        let mut directories: DirectoryKeys = into.into_iter().collect();
        for _ in 0..WAITS_MAX {
            let (open, to, context) = (open.clone(), to.clone(), self.context.clone());
            let mut turn = self.table.rename_turns.take(&open.name_change(), &directories).await;
            let is_quick = open.is_of_object() && open.volume().vfs.creates_without_waiting();
            // The call owns the turn, which ends before a wait for another client.
            let call = move || {
                let mut seen: DirectoryKeys = into.into_iter().collect();
                let claims = (&mut turn, &mut seen);
                let linked = link_now(&context, &open, claims, (&to, into), replace);
                drop(turn);
                Ok((linked, seen))
            };
            let (linked, seen) = match is_quick {
                true => call(),
                false => offload_in_turn(&*self.workers, &self.holder, call).await,
            }?;
            directories = seen;
            match linked {
                Err(RenameFailure::Refused(OpenRefusal::Refused(error))) => return Err(error),
                Err(RenameFailure::Refused(OpenRefusal::Breaking(wait))) => {
                    wait.settled(&self.context, &*self.workers).await?
                }
                // The next try waits for the directory.
                Err(_) => {}
                Ok(()) => return Ok(()),
            }
        }
        Err(FsError::ShareViolation)
    }
}

fn link_now(
    context: &RequestContext,
    open: &OpenFile,
    (turn, seen): (&mut RenameTurn, &mut DirectoryKeys),
    (to, into): (&RelPath, Option<FileKey>),
    replace: bool,
) -> std::result::Result<(), RenameFailure> {
    let table = &*open.table;
    let directory = find_target_directory(context, open, to, into);
    let found = FoundDirectories { source: Ok(None), target: directory };
    found.claim(turn, seen)?;
    let mut renaming = announce(table, open, turn, &[to]);
    check_open(open)?;
    let (parent, to) = check_target_directory(context, table, open, to, found.target?)?;
    check_moved(open, (&open.path(), &to))?;
    let vfs = &open.volume().vfs;
    let actor = context.call(open.caller.identity.actor());
    let target = match open.is_of_object() && !replace {
        // No lookup: the file system refuses an existing name.
        true => RenameTarget::Free,
        false => find_target(context, open, &mut renaming, (&open.path(), &to), &parent, replace)?,
    };
    let link = |replace| {
        open.keep_times(MovedTimes::Changed, || vfs.link(actor, &*open.node, &to, replace))
    };
    match target {
        RenameTarget::Free if open.is_of_object() => vfs.link_as_posix(actor, &*open.node, &to)?,
        RenameTarget::Free => link(Replace::Never)?,
        RenameTarget::Itself | RenameTarget::OtherName => return Err(FsError::AlreadyExists.into()),
        RenameTarget::Replaced(spelt, key) if spelt == to => {
            link(Replace::File)?;
            finish_replacement(context, open, &to, key);
        }
        RenameTarget::Replaced(spelt, key) => {
            vfs.remove(actor, &spelt, key)?;
            finish_replacement(context, open, &spelt, key);
            link(Replace::File)?;
        }
    }
    open.report_name(context, ChangeAction::Added, &to);
    Ok(())
}
