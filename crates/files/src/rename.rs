//! Rename. MS-FSA 2.1.5.15.11.

use crate::announced_rename::{AnnouncedRename, RenameNames};
use crate::authorize::{stored, stored_lets_remove};
use crate::context::RequestContext;
use crate::frozen_times::MovedTimes;
use crate::handle_breaks::{OpenDescendants, WAITS_MAX, break_handles};
use crate::link_target::check_moved;
use crate::new_name::{
    DirectoryKeys, FoundDirectories, RenameFailure, RenameTarget, announce, check_open,
    check_target_directory, find_target, find_target_directory, finish_replacement, look, look_for,
    need_same_place,
};
use crate::offload::offload_in_turn;
use crate::rename_turns::{RenameTurn, directory_to_claim};
use crate::table::{FileTable, OpenRefusal};
use crate::{Access, OpenFile, RequestFiles};
use smallvec::smallvec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{
    AttributeRequest, Case, ChildName, ChildRename, FileKey, FsError, Name, NameActor, OpenedNode,
    RelPath, Replace, Result, Wait,
};

/// Limit of retries after the new name was created meanwhile.
const RENAME_TRIES_MAX: u32 = 4;

impl RequestFiles {
    /// Renames the file to `to`. Every open by the old name follows.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] without DELETE, if files below or streams of it are open, or if
    /// the target is open, a directory or read-only; [`FsError::AlreadyExists`];
    /// [`FsError::ShareViolation`] if another open denies deletion. A stream fails with that or
    /// [`FsError::InvalidParameter`]: use [`RequestFiles::rename_stream`].
    pub async fn rename(&self, open: &Arc<OpenFile>, to: &RelPath, replace: bool) -> Result<()> {
        self.rename_between(open, to, None, replace).await
    }

    /// As [`RequestFiles::rename`]; opens below a directory follow it and do not prevent the
    /// rename, as Apple clients need it for bundles.
    ///
    /// # Errors
    /// As [`RequestFiles::rename`], without refusal for open files below.
    pub async fn rename_with_opens(
        &self,
        open: &Arc<OpenFile>,
        to: &RelPath,
        replace: bool,
    ) -> Result<()> {
        open.moves_opens.store(true, Ordering::Release);
        self.rename(open, to, replace).await
    }

    /// As [`RequestFiles::rename`], if the open still has the name `from` in its directory, and the
    /// parent of the new name is still `into`.
    ///
    /// # Errors
    /// As [`RequestFiles::rename`]; [`FsError::NotFound`] if the open has another name by now,
    /// [`FsError::Stale`] if the parent is another.
    pub(crate) async fn rename_between(
        &self,
        open: &Arc<OpenFile>,
        to: &RelPath,
        directories: Option<((FileKey, &Name), FileKey)>,
        replace: bool,
    ) -> Result<()> {
        open.need_any(Access::DELETE)?;
        need_same_place(open)?;
        if open.name.stream.is_some() {
            // A stream cannot leave its file, which is in use.
            let within = *to == open.path();
            return Err(if within { FsError::ShareViolation } else { FsError::InvalidParameter });
        }
        open.volume().options.veto_names.check(to, true)?;
        open.renames.store(true, Ordering::Release);
        let mut steps = RenameSteps::default();
        let into = directories.map(|(_, into)| into);
        if let Some(((from, name), into)) = directories {
            steps.directories = smallvec![from, into];
            steps.asked = Some((from, name.clone()));
        }
        for _ in 0..WAITS_MAX {
            let (result, done) = self.try_rename(open, (to, into), replace, steps).await?;
            steps = done;
            match result {
                Ok(()) => {
                    return match steps.announced {
                        Some(announced) => Box::pin(self.settle_rename(open, announced)).await,
                        None => Ok(()),
                    };
                }
                Err(RenameFailure::Refused(OpenRefusal::Refused(error))) => return Err(error),
                Err(RenameFailure::Refused(OpenRefusal::Breaking(wait))) => {
                    steps.announced = None;
                    wait.settled(&self.context, &*self.workers).await?;
                }
                Err(RenameFailure::Unannounced(names)) => {
                    steps.announced = Some(Box::pin(self.announce_rename(open, names)).await?);
                }
                Err(RenameFailure::Taken) => {
                    steps.announced = None;
                    steps.is_taken = true;
                }
                // The next try waits for these directories.
                Err(RenameFailure::DirectoryClaimed) => {}
            }
        }
        Err(FsError::ShareViolation)
    }

    async fn try_rename(
        &self,
        open: &Arc<OpenFile>,
        (to, into): (&RelPath, Option<FileKey>),
        replace: bool,
        mut steps: RenameSteps,
    ) -> Result<(std::result::Result<(), RenameFailure>, RenameSteps)> {
        let (table, open, to) = (self.table.clone(), open.clone(), to.clone());
        let context = self.context.clone();
        let mut turn = table.rename_turns.take(&open.name_change(), &steps.directories).await;
        steps.target_guess = guess_target(&context, &open, &to, &steps);
        let is_quick = moves_at_once(&open, steps.target_guess);
        let call = move || {
            let steps_to = (&to, into);
            let result = rename_now(&context, &open, &mut turn, steps_to, replace, &mut steps);
            Ok((result, steps))
        };
        match is_quick {
            true => call(),
            false => offload_in_turn(&*self.workers, &self.holder, call).await,
        }
    }
}

/// State of the new name before a rename is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TargetGuess {
    /// Unknown: a lookup follows.
    #[default]
    Unknown,
    /// A lookup found it free.
    Free,
    /// No lookup is made: NFS compares names byte for byte, so the file system refuses an existing
    /// name in the same call.
    Untried,
}

/// Looks the new name up, if that does not block.
fn guess_target(
    context: &RequestContext,
    open: &OpenFile,
    to: &RelPath,
    steps: &RenameSteps,
) -> TargetGuess {
    if open.is_of_object() {
        return if steps.is_taken { TargetGuess::Unknown } else { TargetGuess::Untried };
    }
    let is_plain = !open.is_directory() && open.volume().vfs.creates_without_waiting();
    match is_plain && matches!(look_for(context, open, to, Wait::Never), Err(FsError::NotFound)) {
        true => TargetGuess::Free,
        false => TargetGuess::Unknown,
    }
}

/// Whether the rename may run inline: it reads no more from disk than a create does and frees no
/// blocks. Renames in its directories wait for it, so a detour over a worker would delay all of
/// them.
fn moves_at_once(open: &OpenFile, target_guess: TargetGuess) -> bool {
    let is_plain = !open.is_directory() && open.volume().vfs.creates_without_waiting();
    is_plain && target_guess != TargetGuess::Unknown
}

/// Prepared steps of a rename. The worker owns them during a try, so that they are not undone
/// before it ends.
#[derive(Debug, Default)]
struct RenameSteps {
    below: OpenDescendants,
    announced: Option<AnnouncedRename>,
    target_guess: TargetGuess,
    /// Whether a try found the new name taken.
    is_taken: bool,
    /// Directories of the names, as the last try found them.
    directories: DirectoryKeys,
    /// Directory and name of the file that was asked for, if the request has a name.
    asked: Option<(FileKey, Name)>,
}

impl RenameSteps {
    /// Checks in the turn that the file still has the name that was asked for: a concurrent rename
    /// may have moved it to a name that this request does not concern.
    fn check_asked(&self, from: &RelPath, directory: Option<&OpenedNode>) -> Result<()> {
        let Some((asked, name)) = &self.asked else { return Ok(()) };
        let is_in_it = directory.is_none_or(|found| found.attributes.key == *asked);
        match is_in_it && from.name().as_ref() == Some(name) {
            true => Ok(()),
            false => Err(FsError::NotFound),
        }
    }
}

/// Finds the directories of both names. Within one directory the claim of the new name's suffices,
/// unless the present name is verified.
fn find_directories(
    context: &RequestContext,
    open: &OpenFile,
    (from, to): (&RelPath, &RelPath),
    into: Option<FileKey>,
) -> FoundDirectories {
    let source = match from.parent() == to.parent() && !open.is_posix() {
        true => Ok(None),
        false => source_directory(context, open, from),
    };
    FoundDirectories { source, target: find_target_directory(context, open, to, into) }
}

fn rename_now(
    context: &RequestContext,
    open: &OpenFile,
    turn: &mut RenameTurn,
    (to, into): (&RelPath, Option<FileKey>),
    replace: bool,
    steps: &mut RenameSteps,
) -> std::result::Result<(), RenameFailure> {
    let table = &*open.table;
    let from = open.path();
    if from.is_root() || to.is_root() {
        return Err(FsError::AccessDenied.into());
    }
    steps.directories = into.into_iter().collect();
    let found = find_directories(context, open, (&from, to), into);
    found.claim(turn, &mut steps.directories)?;
    steps.check_asked(&from, found.source.as_ref().ok().and_then(Option::as_ref))?;
    // Announced before any check or lookup of the names, so that concurrent opens resolve again.
    let mut renaming = announce(table, open, turn, &[&from, to]);
    check_open(open)?;
    break_handles(context, &open.state, open.cache_owner())?;
    let held = open.state.view();
    if held.has_open_streams() {
        return Err(FsError::AccessDenied.into());
    }
    if held.grants.others_forbid_delete(open.id) {
        return Err(FsError::ShareViolation.into());
    }
    drop(held);
    if open.is_directory() {
        steps.below.clear(context, table, open, &from)?;
    }
    let is_untried = steps.target_guess == TargetGuess::Untried;
    let source = found.source?;
    // Without a lookup of the new name, the rename call itself verifies the present one.
    let is_looked_at = open.is_posix() && !is_untried;
    if is_looked_at && look(context, open, &from)?.attributes.key != open.key() {
        // The name was removed, and may refer to another file by now.
        return Err(FsError::NotFound.into());
    }
    let (parent, to) = check_target_directory(context, table, open, to, found.target?)?;
    check_moved(open, (&from, &to))?;
    let source = source.filter(|_| open.is_of_object());
    let directories = (source.as_ref(), &parent);
    for attempt in 0..RENAME_TRIES_MAX {
        let target = match (steps.target_guess, attempt) {
            (TargetGuess::Untried, _) | (TargetGuess::Free, 0) => RenameTarget::Free,
            _ => find_target(context, open, &mut renaming, (&from, &to), &parent, replace)?,
        };
        if matches!(target, RenameTarget::OtherName) {
            return Ok(());
        }
        need_announced(table, open, (&from, &to), &target, steps)?;
        match move_with_rights(context, open, directories, (&from, &to), &target) {
            Err(FsError::AlreadyExists) if is_untried => return Err(RenameFailure::Taken),
            // The name was created since the lookup, and is to be replaced.
            Err(FsError::AlreadyExists) if replace => {}
            result => {
                // A rename over an intermediate name may be half done; any other refused rename
                // changed nothing.
                let has_steps = target.names(&to).len() > 1;
                if has_steps || matches!(result, Ok(()) | Err(FsError::Io)) {
                    steps.announced.iter_mut().for_each(AnnouncedRename::note_carried_out);
                }
                return Ok(result?);
            }
        }
    }
    Err(FsError::AlreadyExists.into())
}

/// Requires the journal to record the names that the file will have, if opens are journaled.
fn need_announced(
    table: &FileTable,
    open: &OpenFile,
    (from, to): (&RelPath, &RelPath),
    target: &RenameTarget,
    steps: &RenameSteps,
) -> std::result::Result<(), RenameFailure> {
    if !table.has_records() {
        return Ok(());
    }
    let names = RenameNames { from: from.clone(), to: target.names(to) };
    match table.is_announced(open, &names, steps.announced.as_ref()) {
        true => Ok(()),
        false => Err(RenameFailure::Unannounced(names)),
    }
}

/// Renames with the caller's own rights, or else those that stored descriptors grant.
fn move_with_rights(
    context: &RequestContext,
    open: &OpenFile,
    (source, parent): (Option<&OpenedNode>, &OpenedNode),
    names: (&RelPath, &RelPath),
    target: &RenameTarget,
) -> Result<()> {
    let route = source.map_or(RenameRoute::Paths, |source| {
        RenameRoute::Directories(NameAuthority::Own, source, parent)
    });
    open.keep_times(MovedTimes::Changed, || match move_to(context, open, route, names, target) {
        Err(FsError::AccessDenied) => {
            let directory = directory_to_move_from(context, open, names.0, parent);
            let directory = directory.ok_or(FsError::AccessDenied)?;
            let route = RenameRoute::Directories(NameAuthority::Granted, &directory, parent);
            move_to(context, open, route, names, target)
        }
        other => other,
    })
}

/// The directory of the present name. A file that was opened by its directory needs it, with the
/// caller's rights; any other only claims it, unless there is none.
fn source_directory(
    context: &RequestContext,
    open: &OpenFile,
    from: &RelPath,
) -> Result<Option<OpenedNode>> {
    if open.is_of_object() {
        return directory_of(context, open, from).map(Some);
    }
    let Some(directory) = from.parent() else { return Ok(None) };
    directory_to_claim(context, open.volume(), &directory)
}

/// The directory of a path, opened with the caller's rights.
fn directory_of(context: &RequestContext, open: &OpenFile, path: &RelPath) -> Result<OpenedNode> {
    let actor = context.call(open.caller.identity.actor());
    let (directory, _) = path.split().ok_or(FsError::AccessDenied)?;
    let names = open.volume().names();
    let found = names.open_directory(actor, &directory, Case::Sensitive, Wait::Allowed)?;
    Ok(found.opened)
}

/// Source directory, if stored descriptors let the caller move the name to `parent` although POSIX
/// refuses. The right to create there was checked.
fn directory_to_move_from(
    context: &RequestContext,
    open: &OpenFile,
    from: &RelPath,
    parent: &OpenedNode,
) -> Option<OpenedNode> {
    let directory = directory_of(context, open, from).ok()?;
    let attributes = open.node.attributes(AttributeRequest::default()).ok()?;
    let file = (&*open.node, &attributes);
    let lets = stored(&*parent.node).is_some()
        && stored_lets_remove(open.volume(), &open.caller, file, &directory);
    lets.then_some(directory)
}

/// Access path of a rename to the two directories.
#[derive(Clone, Copy)]
enum RenameRoute<'a> {
    /// By path, with the caller's own rights.
    Paths,
    /// By open directories that were looked up or authorized: their paths may lead elsewhere by
    /// now.
    Directories(NameAuthority, &'a OpenedNode, &'a OpenedNode),
}

/// Authority for changing names in open directories.
#[derive(Clone, Copy)]
enum NameAuthority {
    /// The caller's own.
    Own,
    /// A stored descriptor grants it beyond POSIX.
    Granted,
}

/// Renames by a route; `replaced` is the node that `to` may refer to.
fn rename_by(
    context: &RequestContext,
    open: &OpenFile,
    route: RenameRoute<'_>,
    (from, to): (&RelPath, &RelPath),
    (replace, replaced): (Replace, Option<FileKey>),
) -> Result<()> {
    let (vfs, user) = (&open.volume().vfs, &open.caller.identity);
    match route {
        RenameRoute::Paths => vfs.rename(context.call(user.actor()), from, to, replace),
        RenameRoute::Directories(right, directory, parent) => {
            let actor = match right {
                NameAuthority::Own => NameActor::Own(context.call(user.actor())),
                NameAuthority::Granted => NameActor::Granted(user),
            };
            let from = ChildName { directory: &*directory.node, path: from };
            let to = ChildName { directory: &*parent.node, path: to };
            let moved = open.key();
            let rename = ChildRename { from, moved, to, replace, replaced };
            vfs.rename_in(actor, rename)
        }
    }
}

fn move_to(
    context: &RequestContext,
    open: &OpenFile,
    route: RenameRoute<'_>,
    (from, to): (&RelPath, &RelPath),
    target: &RenameTarget,
) -> Result<()> {
    let rename = |route, names, replace| rename_by(context, open, route, names, replace);
    let over_itself = (Replace::File, Some(open.key()));
    match target {
        RenameTarget::Free => rename(route, (from, to), (Replace::Never, None))?,
        RenameTarget::Itself | RenameTarget::OtherName => rename(route, (from, to), over_itself)?,
        RenameTarget::Replaced(spelt, key) => {
            // One call renames to the existing spelling, so that the name never disappears. A
            // failed change of case is ignored.
            let replace = if open.is_of_object() { Replace::Any } else { Replace::File };
            rename(route, (from, spelt), (replace, Some(*key)))?;
            finish_replacement(context, open, spelt, *key);
            finish_rename(context, open, from, spelt);
            let route = match route {
                RenameRoute::Paths => route,
                RenameRoute::Directories(right, _, parent) => {
                    RenameRoute::Directories(right, parent, parent)
                }
            };
            if spelt != to && rename(route, (spelt, to), over_itself).is_ok() {
                finish_rename(context, open, spelt, to);
            }
            return Ok(());
        }
    }
    finish_rename(context, open, from, to);
    Ok(())
}

/// Updates the file's opens and reports the rename to watches.
fn finish_rename(context: &RequestContext, open: &OpenFile, from: &RelPath, to: &RelPath) {
    open.state.lock(context).rename(&open.volume().vfs, from, to);
    if open.is_directory() && (open.is_posix() || open.moves_opens_below()) {
        open.table.rename_below(&open.volume().vfs, from, to);
    }
    open.report_renamed(context, from, to);
}
