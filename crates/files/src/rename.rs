//! Renaming and linking. MS-FSA 2.1.5.15.6, 2.1.5.15.11.

use crate::authorize::{may_add_known, rights_to_opened, stored, stored_lets_remove};
use crate::context::RequestContext;
use crate::delegation::{ask_back, client_owner};
use crate::handles::{Below, WAITS_MAX, ask_for_handles};
use crate::link_target::check_moved;
use crate::offload::offload_in_turn;
use crate::open_journal::{AnnouncedRename, RenameNames};
use crate::server_work::WANTED;
use crate::table::{FileState, NotEntered, Table};
use crate::volume::dos;
use crate::watch::ChangeKind;
use crate::{Access, OpenFile, RequestFiles};
use grants::{Awaited, CacheOwner, OpenId, OpenWish, Refusal, Share};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{
    Case, ChildName, ChildRename, FileKey, FileKind, FsError, KnownOpen, NameActor, OpenHow,
    Opened, RelPath, Replace, Result, Wait, Wanted,
};

/// Times that a name is looked for again because it was made meanwhile.
const RENAME_TRIES_MAX: u32 = 4;

impl RequestFiles {
    /// Gives the file the name `to` instead of its present one. Every open
    /// that came by the old name has the new one then.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] without DELETE, if files below or streams of it
    /// are open, or if the target is open, a directory or read-only;
    /// [`FsError::AlreadyExists`]; [`FsError::ShareViolation`] if another open
    /// forbids it; either it or [`FsError::InvalidParameter`] for a stream, for
    /// which there is [`RequestFiles::rename_stream`].
    pub async fn rename(&self, open: &Arc<OpenFile>, to: &RelPath, replace: bool) -> Result<()> {
        self.rename_into(open, to, None, replace).await
    }

    /// As [`RequestFiles::rename`]; what is open below a directory moves along, as clients of
    /// Apple need it for bundles, and does not keep it in its place.
    ///
    /// # Errors
    /// As [`RequestFiles::rename`], but for files below.
    pub async fn rename_with_opens(
        &self,
        open: &Arc<OpenFile>,
        to: &RelPath,
        replace: bool,
    ) -> Result<()> {
        open.moves_opens.store(true, Ordering::Release);
        self.rename(open, to, replace).await
    }

    /// As [`RequestFiles::rename`], if the directory of the new name is still `into`.
    ///
    /// # Errors
    /// As [`RequestFiles::rename`]; [`FsError::Stale`] if it is not.
    pub(crate) async fn rename_into(
        &self,
        open: &Arc<OpenFile>,
        to: &RelPath,
        into: Option<FileKey>,
        replace: bool,
    ) -> Result<()> {
        open.need_any(Access::DELETE)?;
        need_same_place(open)?;
        if open.name.stream.is_some() {
            // A stream stays with its file, which is in use.
            let within = *to == open.path();
            return Err(if within { FsError::ShareViolation } else { FsError::InvalidParameter });
        }
        open.volume().options.veto_names.check(to, true)?;
        open.renames.store(true, Ordering::Release);
        let mut steps = RenameSteps::default();
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
                Err(NotRenamed::NotEntered(NotEntered::Refused(error))) => return Err(error),
                Err(NotRenamed::NotEntered(NotEntered::Breaking(wait))) => {
                    steps.announced = None;
                    wait.settled(&self.context, &*self.workers).await?;
                }
                Err(NotRenamed::Unannounced(names)) => {
                    steps.announced = Some(Box::pin(self.announce_rename(open, names)).await?);
                }
                Err(NotRenamed::Taken) => {
                    steps.announced = None;
                    steps.is_taken = true;
                }
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
    ) -> Result<(std::result::Result<(), NotRenamed>, RenameSteps)> {
        let (table, open, to) = (self.table.clone(), open.clone(), to.clone());
        let context = self.context.clone();
        let turn = table.rename_turns.clone().lock_owned().await;
        steps.foreseen = foresee(&context, &open, &to, &steps);
        let is_quick = moves_at_once(&open, steps.foreseen);
        let call = move || {
            let _turn = turn;
            let result = rename_now(&context, &table, &open, (&to, into), replace, &mut steps);
            Ok((result, steps))
        };
        match is_quick {
            true => call(),
            false => offload_in_turn(&*self.workers, call).await,
        }
    }

    /// Gives the file the further name `to`.
    ///
    /// # Errors
    /// As [`RequestFiles::rename`]; [`FsError::IsDirectory`] for directories.
    pub async fn link(&self, open: &Arc<OpenFile>, to: &RelPath, replace: bool) -> Result<()> {
        self.link_into(open, to, None, replace).await
    }

    /// As [`RequestFiles::link`], if the directory of the new name is still `into`.
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
        for _ in 0..WAITS_MAX {
            let (table, open, to) = (self.table.clone(), open.clone(), to.clone());
            let context = self.context.clone();
            let turn = table.rename_turns.clone().lock_owned().await;
            let is_quick = open.is_of_object() && open.volume().vfs.creates_at_once();
            let call = move || {
                let _turn = turn;
                Ok(link_now(&context, &table, &open, (&to, into), replace))
            };
            let linked = match is_quick {
                true => call(),
                false => offload_in_turn(&*self.workers, call).await,
            };
            match linked? {
                Err(NotEntered::Refused(error)) => return Err(error),
                Err(NotEntered::Breaking(wait)) => {
                    wait.settled(&self.context, &*self.workers).await?
                }
                Ok(()) => return Ok(()),
            }
        }
        Err(FsError::ShareViolation)
    }
}

/// Knowledge of the new name before a rename is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TargetGuess {
    /// Nothing: it is looked for.
    #[default]
    Unknown,
    /// It was looked for, and is free.
    Free,
    /// Nobody has looked, and it is taken if it is free: NFS compares names byte for byte, so the
    /// file system finds out in the same step.
    Untried,
}

/// Looks at the new name as far as that takes no time.
fn foresee(
    context: &RequestContext,
    open: &OpenFile,
    to: &RelPath,
    steps: &RenameSteps,
) -> TargetGuess {
    if open.is_of_object() {
        return if steps.is_taken { TargetGuess::Unknown } else { TargetGuess::Untried };
    }
    let is_plain = !open.is_directory() && open.volume().vfs.creates_at_once();
    match is_plain && matches!(look_for(context, open, to, Wait::Never), Err(FsError::NotFound)) {
        true => TargetGuess::Free,
        false => TargetGuess::Unknown,
    }
}

/// Whether giving a file its new name takes no longer than others can wait for: nothing is looked
/// for on a disk, or no more than to create a file takes, and no file goes whose blocks are to be
/// given back. All renames take turns, so going to a worker and back would be waited for by all.
fn moves_at_once(open: &OpenFile, foreseen: TargetGuess) -> bool {
    let is_plain = !open.is_directory() && open.volume().vfs.creates_at_once();
    is_plain && foreseen != TargetGuess::Unknown
}

/// A name out of a kept state would be one of the volume as it is now.
fn need_same_place(open: &OpenFile) -> Result<()> {
    if open.volume().options.frozen { Err(FsError::CrossDevice) } else { open.need_writable() }
}

/// What was done, or why not: for good, or before others have let go.
type Moved<T> = std::result::Result<T, NotEntered>;

/// The steps of a rename before it is carried out. The worker has them while it tries, so
/// that they are not undone before that has ended.
#[derive(Debug, Default)]
struct RenameSteps {
    below: Below,
    announced: Option<AnnouncedRename>,
    foreseen: TargetGuess,
    /// The new name was found taken when it was tried.
    is_taken: bool,
}

/// Why a rename was not carried out.
enum NotRenamed {
    NotEntered(NotEntered),
    /// The new name, which nobody had looked at, is not free.
    Taken,
    /// Records of opens have to get these names first.
    Unannounced(RenameNames),
}

impl<E: Into<NotEntered>> From<E> for NotRenamed {
    fn from(error: E) -> Self {
        Self::NotEntered(error.into())
    }
}

fn rename_now(
    context: &RequestContext,
    table: &Table,
    open: &OpenFile,
    (to, into): (&RelPath, Option<FileKey>),
    replace: bool,
    steps: &mut RenameSteps,
) -> std::result::Result<(), NotRenamed> {
    // Before anything is looked at: opens that run meanwhile look again.
    let _renaming = table.begin_rename();
    let from = open.path();
    if from.is_root() || to.is_root() {
        return Err(FsError::AccessDenied.into());
    }
    check_open(open)?;
    ask_for_handles(context, &open.state, open.cache_owner())?;
    let held = open.state.look();
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
    let is_untried = steps.foreseen == TargetGuess::Untried;
    // Where nobody looks at the new name the present one is looked at as it is changed.
    let is_looked_at = open.is_posix() && !is_untried;
    if is_looked_at && look(context, open, &from)?.attributes.key != open.key() {
        // Its name was removed, and may be another file's by now.
        return Err(FsError::NotFound.into());
    }
    let (parent, to) = target_directory(context, table, open, to, into)?;
    check_moved(open, (&from, &to))?;
    for attempt in 0..RENAME_TRIES_MAX {
        let target = match (steps.foreseen, attempt) {
            (TargetGuess::Untried, _) | (TargetGuess::Free, 0) => Target::Free,
            _ => target(context, table, open, &from, &parent, &to, replace)?,
        };
        if matches!(target, Target::OtherName) {
            return Ok(());
        }
        need_announced(table, open, (&from, &to), &target, steps)?;
        match move_with_rights(context, open, &parent, (&from, &to), &target) {
            Err(FsError::AlreadyExists) if is_untried => return Err(NotRenamed::Taken),
            // Made since we looked, and it is to be replaced.
            Err(FsError::AlreadyExists) if replace => {}
            result => {
                // One that goes by a name on the way may have got so far; any other that was
                // refused has changed nothing.
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

/// Records of opens name the file as it will be called, if there are any.
fn need_announced(
    table: &Table,
    open: &OpenFile,
    (from, to): (&RelPath, &RelPath),
    target: &Target,
    steps: &RenameSteps,
) -> std::result::Result<(), NotRenamed> {
    if !table.has_records() {
        return Ok(());
    }
    let names = RenameNames { from: from.clone(), to: target.names(to) };
    match table.is_announced(open, &names, steps.announced.as_ref()) {
        true => Ok(()),
        false => Err(NotRenamed::Unannounced(names)),
    }
}

/// Renames by the caller's own rights, or else by what stored descriptors grant.
fn move_with_rights(
    context: &RequestContext,
    open: &OpenFile,
    parent: &Opened,
    names: (&RelPath, &RelPath),
    target: &Target,
) -> Result<()> {
    let own = open.is_of_object().then(|| directory_of(context, open, names.0)).transpose()?;
    let route =
        own.as_ref().map_or(Route::Paths, |own| Route::Directories(Right::Own, own, parent));
    match move_to(context, open, route, names, target) {
        Err(FsError::AccessDenied) => {
            let directory = directory_to_move_from(context, open, names.0, parent);
            let directory = directory.ok_or(FsError::AccessDenied)?;
            let route = Route::Directories(Right::Granted, &directory, parent);
            move_to(context, open, route, names, target)
        }
        other => other,
    }
}

/// The directory that a path is in, as the caller reaches it.
fn directory_of(context: &RequestContext, open: &OpenFile, path: &RelPath) -> Result<Opened> {
    let who = context.call(open.caller.identity.actor());
    let (directory, _) = path.split().ok_or(FsError::AccessDenied)?;
    let vfs = &open.volume().vfs;
    let found = vfs.open_directory(who, &directory, Case::Sensitive, Wait::Allowed)?;
    Ok(found.opened)
}

/// The directory out of which stored descriptors let the caller take the name and put it into
/// `parent`, which POSIX refuses. That it may be made there was checked.
fn directory_to_move_from(
    context: &RequestContext,
    open: &OpenFile,
    from: &RelPath,
    parent: &Opened,
) -> Option<Opened> {
    let directory = directory_of(context, open, from).ok()?;
    let attributes = open.node.attributes(Wanted::default()).ok()?;
    let file = (&*open.node, &attributes);
    let lets = stored(&*parent.node).is_some()
        && stored_lets_remove(open.volume(), &open.caller, file, &directory);
    lets.then_some(directory)
}

/// How a rename reaches the two directories.
#[derive(Clone, Copy)]
enum Route<'a> {
    /// By their paths, with the caller's own rights.
    Paths,
    /// By open directories that were found or judged: their paths may lead elsewhere by now.
    Directories(Right, &'a Opened, &'a Opened),
}

/// By what right names in open directories are changed.
#[derive(Clone, Copy)]
enum Right {
    /// The caller's own.
    Own,
    /// A stored descriptor grants it, beyond what POSIX lets the caller do.
    Granted,
}

/// Renames by a route; `replaced` is the node that `to` may name.
fn rename_by(
    context: &RequestContext,
    open: &OpenFile,
    route: Route<'_>,
    (from, to): (&RelPath, &RelPath),
    (replace, replaced): (Replace, Option<FileKey>),
) -> Result<()> {
    let (vfs, user) = (&open.volume().vfs, &open.caller.identity);
    match route {
        Route::Paths => vfs.rename(context.call(user.actor()), from, to, replace),
        Route::Directories(right, directory, parent) => {
            let who = match right {
                Right::Own => NameActor::Own(context.call(user.actor())),
                Right::Granted => NameActor::Granted(user),
            };
            let from = ChildName { directory: &*directory.node, path: from };
            let to = ChildName { directory: &*parent.node, path: to };
            let moved = open.key();
            let rename = ChildRename { from, moved, to, replace, replaced };
            vfs.rename_in(who, rename)
        }
    }
}

fn move_to(
    context: &RequestContext,
    open: &OpenFile,
    route: Route<'_>,
    (from, to): (&RelPath, &RelPath),
    target: &Target,
) -> Result<()> {
    let rename = |route, names, replace| rename_by(context, open, route, names, replace);
    let over_itself = (Replace::File, Some(open.key()));
    match target {
        Target::Free => rename(route, (from, to), (Replace::Never, None))?,
        Target::Itself | Target::OtherName => rename(route, (from, to), over_itself)?,
        Target::Replaced(spelt, key) => {
            // In one step to the name as it is spelt, so that it is never
            // gone; a new spelling is not worth a failure.
            let replace = if open.is_of_object() { Replace::Any } else { Replace::File };
            rename(route, (from, spelt), (replace, Some(*key)))?;
            replaced(context, open, spelt, *key);
            renamed(context, open, from, spelt);
            let route = match route {
                Route::Paths => route,
                Route::Directories(right, _, parent) => Route::Directories(right, parent, parent),
            };
            if spelt != to && rename(route, (spelt, to), over_itself).is_ok() {
                renamed(context, open, spelt, to);
            }
            return Ok(());
        }
    }
    renamed(context, open, from, to);
    Ok(())
}

/// Another file has taken the name of the one with `key`. Opens of POSIX were not
/// waited for; who keeps one only for its cache would find that file by the name.
fn replaced(context: &RequestContext, open: &OpenFile, name: &RelPath, key: FileKey) {
    if let Some(state) = open.table.find(key) {
        state.lock(context).grants.caches.handle_name_change(CacheOwner::Open(open.id));
    }
    open.report_name(context, ChangeKind::Removed, name);
}

/// The file has another name: its opens know it, and who watches is told.
fn renamed(context: &RequestContext, open: &OpenFile, from: &RelPath, to: &RelPath) {
    open.state.lock(context).rename(&open.volume().vfs, from, to);
    if open.is_directory() && (open.is_posix() || open.moves_opens_below()) {
        open.table.rename_below(&open.volume().vfs, from, to);
    }
    open.report_renamed(context, from, to);
}

fn link_now(
    context: &RequestContext,
    table: &Table,
    open: &OpenFile,
    (to, into): (&RelPath, Option<FileKey>),
    replace: bool,
) -> Moved<()> {
    let _renaming = table.begin_rename();
    check_open(open)?;
    let (parent, to) = target_directory(context, table, open, to, into)?;
    check_moved(open, (&open.path(), &to))?;
    let vfs = &open.volume().vfs;
    let who = context.call(open.caller.identity.actor());
    let target = match open.is_of_object() && !replace {
        // Not looked at: the file system refuses a name that is taken.
        true => Target::Free,
        false => target(context, table, open, &open.path(), &parent, &to, replace)?,
    };
    match target {
        Target::Free if open.is_of_object() => vfs.link_as_posix(who, &*open.node, &to)?,
        Target::Free => vfs.link(who, &*open.node, &to, Replace::Never)?,
        Target::Itself | Target::OtherName => return Err(FsError::AlreadyExists.into()),
        Target::Replaced(spelt, key) if spelt == to => {
            vfs.link(who, &*open.node, &to, Replace::File)?;
            replaced(context, open, &to, key);
        }
        Target::Replaced(spelt, key) => {
            vfs.remove(who, &spelt, key)?;
            replaced(context, open, &spelt, key);
            vfs.link(who, &*open.node, &to, Replace::File)?;
        }
    }
    open.report_name(context, ChangeKind::Added, &to);
    Ok(())
}

/// Refuses what comes after the open was closed: what others hold on the file
/// since then is not known to it.
fn check_open(open: &OpenFile) -> Result<()> {
    if open.state.look().grants.is_open(open.id) { Ok(()) } else { Err(FsError::Stale) }
}

/// The directory of the new name, in which the caller may make it, and the
/// new name with its directory as it is stored.
fn target_directory(
    context: &RequestContext,
    table: &Table,
    open: &OpenFile,
    to: &RelPath,
    into: Option<FileKey>,
) -> Moved<(Opened, RelPath)> {
    let (parent, name) = to.split().ok_or(FsError::AccessDenied)?;
    let found = match into {
        // A directory that is known by its handle, so that no link counts as one.
        Some(_) => {
            let who = context.call(open.caller.identity.actor());
            open.volume().vfs.open_directory(who, &parent, Case::Sensitive, Wait::Allowed)
        }
        None => look(context, open, &parent).map(KnownOpen::from),
    };
    let KnownOpen { opened: found, security } = match found {
        Err(FsError::NotFound) => Err(FsError::PathNotFound),
        other => other,
    }?;
    if into.is_none() {
        open.volume().check_reached(&found, false).map_err(|error| match error {
            FsError::NotFound => FsError::PathNotFound,
            other => other,
        })?;
    }
    if into.is_some_and(|key| key != found.attributes.key) {
        return Err(FsError::Stale.into());
    }
    if found.attributes.kind != FileKind::Directory {
        return Err(FsError::PathNotFound.into());
    }
    if table.is_vanishing(found.attributes.key, &open.volume().vfs, &found.path) {
        return Err(FsError::DeletePending.into());
    }
    let known = (&found, security.as_deref());
    may_add_known(open.volume(), &open.caller, known, open.is_directory())?;
    if let Some(state) = table.find(found.attributes.key) {
        check_directory_share(context, &state)?;
    }
    let to = found.path.join(&name);
    Ok((found, to))
}

/// Whether the opens of the new name's directory tolerate a new name in it:
/// as if it were opened for adding one, not shared with those who delete it.
/// Whoever deletes it only for its client's cache is asked to let it go.
fn check_directory_share(context: &RequestContext, state: &Arc<FileState>) -> Moved<()> {
    let share = Share(Share::READ.0 | Share::WRITE.0);
    let wish = OpenWish::new(OpenId(u64::MAX), Access::WRITE_DATA, share);
    let mut held = state.lock(context);
    match held.grants.ask(&wish) {
        Err(Refusal::ShareViolation) => Err(FsError::ShareViolation.into()),
        Err(Refusal::Breaking(number)) => {
            let wait = held.wait_for(state.clone(), number, Awaited::Open(wish));
            Err(NotEntered::Breaking(wait))
        }
        _ => Ok(()),
    }
}

/// What is at the new name.
enum Target {
    Free,
    /// The file itself: only the spelling changes, or nothing does.
    Itself,
    /// The file itself by another of its names: POSIX leaves both.
    OtherName,
    /// A file that goes, spelt like this.
    Replaced(RelPath, FileKey),
}

impl Target {
    /// The names that the file has, one after the other, on its way to `to`.
    fn names(&self, to: &RelPath) -> SmallVec<[RelPath; 2]> {
        match self {
            Self::Replaced(spelt, _) if spelt != to => smallvec![spelt.clone(), to.clone()],
            _ => smallvec![to.clone()],
        }
    }
}

/// Whether the name `to` may be taken.
fn target(
    context: &RequestContext,
    table: &Table,
    open: &OpenFile,
    from: &RelPath,
    parent: &Opened,
    to: &RelPath,
    replace: bool,
) -> Moved<Target> {
    let target = match look(context, open, to) {
        Err(FsError::NotFound) => return Ok(Target::Free),
        other => other?,
    };
    if target.path == *from {
        return Ok(Target::Itself);
    }
    if !replace {
        return Err(FsError::AlreadyExists.into());
    }
    if open.is_posix() && target.attributes.key == open.key() {
        return Ok(Target::OtherName);
    }
    let bits = target.attributes.dos.bits.unwrap_or(0);
    let is_directory = target.attributes.kind == FileKind::Directory;
    let is_kept = bits & dos::READONLY != 0 && !open.is_posix();
    match (is_directory, open.is_directory()) {
        (true, false) if open.is_of_object() => return Err(FsError::IsDirectory.into()),
        (false, true) if open.is_of_object() => return Err(FsError::NotDirectory.into()),
        _ => {}
    }
    let is_stuck = (is_directory || open.is_directory()) && !open.is_of_object();
    if is_stuck || is_kept {
        return Err(FsError::AccessDenied.into());
    }
    let used = table.find(target.attributes.key).filter(|state| state.keeps_its_names());
    if let Some(state) = used {
        ask_for_handles(context, &state, CacheOwner::Open(open.id))?;
        return Err(FsError::AccessDenied.into());
    }
    let key = target.attributes.key;
    let recalled =
        table.find(key).and_then(|state| ask_back(context, &state, client_owner(context, key)));
    if let Some(wait) = recalled {
        return Err(NotEntered::Breaking(wait));
    }
    let rights = |node: &Opened| rights_to_opened(open.volume(), &open.caller, node);
    if !rights(&target).contains(Access::DELETE) && !rights(parent).contains(Access::DELETE_CHILD) {
        return Err(FsError::AccessDenied.into());
    }
    Ok(Target::Replaced(target.path, key))
}

fn look(context: &RequestContext, open: &OpenFile, path: &RelPath) -> Result<Opened> {
    look_for(context, open, path, Wait::Allowed)
}

fn look_for(
    context: &RequestContext,
    open: &OpenFile,
    path: &RelPath,
    wait: Wait,
) -> Result<Opened> {
    let case = if path.is_root() { Case::Sensitive } else { open.case() };
    let wanted = WANTED;
    let how = OpenHow { read: false, write: false, case, wanted, no_follow: true, wait };
    let who = context.call(open.caller.identity.actor());
    open.volume().vfs.open(who, path, how)
}
