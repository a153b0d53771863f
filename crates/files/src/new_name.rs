//! The new name of a rename or link: its directory, its checks, and the file that it may replace.
//! MS-FSA 2.1.5.15.6, 2.1.5.15.11.

use crate::announced_rename::RenameNames;
use crate::authorize::{may_add_known, rights_to_opened};
use crate::cache_holder::client_owner;
use crate::context::RequestContext;
use crate::delegation::begin_recall_except;
use crate::handle_breaks::break_handles;
use crate::rename_turns::{RenameInFlight, RenameTurn};
use crate::server_work::WANTED;
use crate::table::{FileTable, OpenFileState, OpenRefusal};
use crate::volume::dos;
use crate::watch::ChangeAction;
use crate::{Access, OpenFile};
use grants::{BlockedOperation, CacheOwner, GrantRefusal, OpenId, OpenWish, ShareMode};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use vfs::{
    Case, FileKey, FileKind, FsError, OpenHow, OpenWithSecurity, OpenedNode, RelPath, Result, Wait,
};

/// A snapshot's file cannot be renamed or linked into the live volume.
pub(crate) fn need_same_place(open: &OpenFile) -> Result<()> {
    if open.volume().options.frozen { Err(FsError::CrossDevice) } else { open.need_writable() }
}

/// Result of a step: an error, or a wait for another client.
pub(crate) type RenameStep<T> = std::result::Result<T, OpenRefusal>;

/// The directories whose entries a change of names concerns.
pub(crate) type DirectoryKeys = SmallVec<[FileKey; 2]>;

/// Reason why a rename was not carried out.
pub(crate) enum RenameFailure {
    Refused(OpenRefusal),
    /// The new name, which was not looked up, exists.
    Taken,
    /// Another change of names has claimed a directory.
    DirectoryClaimed,
    /// The open journal must record these names first.
    Unannounced(RenameNames),
}

impl<E: Into<OpenRefusal>> From<E> for RenameFailure {
    fn from(error: E) -> Self {
        Self::Refused(error.into())
    }
}

/// The directories of a rename or link, found and claimed before the rename is announced.
/// Refusals are reported after the checks of the open.
pub(crate) struct FoundDirectories {
    /// The present name's, if it was looked up.
    pub(crate) source: Result<Option<OpenedNode>>,
    /// The new name's.
    pub(crate) target: Result<OpenWithSecurity>,
}

impl FoundDirectories {
    /// Claims the directories for the rest of a turn. Earlier lookups of their entries are stale.
    pub(crate) fn claim(
        &self,
        turn: &mut RenameTurn,
        seen: &mut DirectoryKeys,
    ) -> std::result::Result<(), RenameFailure> {
        let source = self.source.as_ref().ok().and_then(Option::as_ref);
        let target = self.target.as_ref().ok().map(|target| &target.opened);
        let found = [source, target].into_iter().flatten().map(|found| found.attributes.key);
        seen.extend(found);
        seen.sort_unstable();
        seen.dedup();
        match turn.try_add_directories(seen) {
            true => Ok(()),
            false => Err(RenameFailure::DirectoryClaimed),
        }
    }
}

/// Announces the rename in its turn to concurrent opens, which resolve again. A symbolic link may be
/// a part of any path.
pub(crate) fn announce<'a>(
    table: &'a FileTable,
    open: &OpenFile,
    turn: &RenameTurn,
    names: &[&RelPath],
) -> RenameInFlight<'a> {
    match open.kind() == FileKind::File && !open.is_replaced() {
        true => table.rename_turns.begin_file_rename(open.key(), names),
        false => table.rename_turns.begin_rename(turn),
    }
}

/// Refuses a request after the open was closed, which would miss grants made since then, and one for
/// a name that is delete pending: the last close would remove the new name, too.
pub(crate) fn check_open(open: &OpenFile) -> Result<()> {
    let held = open.state.view();
    if !held.grants.is_open(open.id) {
        return Err(FsError::Stale);
    }
    match held.grants.is_delete_pending(open.name.link) {
        false => Ok(()),
        // As an NFS client finds such a name when it opens it.
        true if open.is_posix() => Err(FsError::DeletePending),
        true => Err(FsError::AccessDenied),
    }
}

/// Finds the new name's directory.
pub(crate) fn find_target_directory(
    context: &RequestContext,
    open: &OpenFile,
    to: &RelPath,
    into: Option<FileKey>,
) -> Result<OpenWithSecurity> {
    let (parent, _) = to.split().ok_or(FsError::AccessDenied)?;
    let found = match into {
        // A directory found by handle, so that a symbolic link is none.
        Some(_) => {
            let actor = context.call(open.caller.identity.actor());
            open.volume().names().open_directory(actor, &parent, Case::Sensitive, Wait::Allowed)
        }
        None => look(context, open, &parent).map(OpenWithSecurity::from),
    };
    let found = match found {
        Err(FsError::NotFound) => Err(FsError::PathNotFound),
        other => other,
    }?;
    let opened = &found.opened;
    if into.is_none() {
        open.volume().check_reached(opened, false).map_err(|error| match error {
            FsError::NotFound => FsError::PathNotFound,
            other => other,
        })?;
    }
    if into.is_some_and(|key| key != opened.attributes.key) {
        return Err(FsError::Stale);
    }
    match opened.attributes.kind {
        FileKind::Directory => Ok(found),
        _ => Err(FsError::PathNotFound),
    }
}

/// Checks that the caller may create the new name in its directory, and returns the directory and
/// the new path with the directory as stored.
pub(crate) fn check_target_directory(
    context: &RequestContext,
    table: &FileTable,
    open: &OpenFile,
    to: &RelPath,
    OpenWithSecurity { opened: found, security }: OpenWithSecurity,
) -> RenameStep<(OpenedNode, RelPath)> {
    let name = to.name().ok_or(FsError::AccessDenied)?;
    if table.is_directory_delete_pending(found.attributes.key, &open.volume().vfs, &found.path) {
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

/// Checks that opens of the new name's directory tolerate a new name, as an open for ADD_FILE
/// without shared deletion would. Breaks handle caching of an open with DELETE.
fn check_directory_share(context: &RequestContext, state: &Arc<OpenFileState>) -> RenameStep<()> {
    let share = ShareMode(ShareMode::READ.0 | ShareMode::WRITE.0);
    let wish = OpenWish::new(OpenId(u64::MAX), Access::WRITE_DATA, share);
    let mut held = state.lock(context);
    match held.grants.request_breaks(&wish) {
        Err(GrantRefusal::ShareViolation) => Err(FsError::ShareViolation.into()),
        Err(GrantRefusal::Breaking(number)) => {
            let wait = held.wait_for(state.clone(), number, BlockedOperation::Open(wish));
            Err(OpenRefusal::Breaking(wait))
        }
        _ => Ok(()),
    }
}

/// State of the new name.
pub(crate) enum RenameTarget {
    Free,
    /// The file itself: the rename changes at most the case.
    Itself,
    /// Another name of the same file: POSIX rename leaves both.
    OtherName,
    /// A file to replace, with its name as stored.
    Replaced(RelPath, FileKey),
}

impl RenameTarget {
    /// The successive names of the file on its way to `to`.
    pub(crate) fn names(&self, to: &RelPath) -> SmallVec<[RelPath; 2]> {
        match self {
            Self::Replaced(spelt, _) if spelt != to => smallvec![spelt.clone(), to.clone()],
            _ => smallvec![to.clone()],
        }
    }
}

/// Checks that the name `to` may be taken.
pub(crate) fn find_target(
    context: &RequestContext,
    open: &OpenFile,
    renaming: &mut RenameInFlight<'_>,
    (from, to): (&RelPath, &RelPath),
    parent: &OpenedNode,
    replace: bool,
) -> RenameStep<RenameTarget> {
    let table = &open.table;
    let target = match look(context, open, to) {
        Err(FsError::NotFound) => return Ok(RenameTarget::Free),
        other => other?,
    };
    if target.path == *from {
        return Ok(RenameTarget::Itself);
    }
    if !replace {
        return Err(FsError::AlreadyExists.into());
    }
    if open.is_posix() && target.attributes.key == open.key() {
        return Ok(RenameTarget::OtherName);
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
    // Announced before its opens are looked for. A file system may find it by names that count apart.
    renaming.note_file(target.attributes.key);
    let used = table.find(target.attributes.key).filter(|state| state.pins_names());
    if let Some(state) = used {
        break_handles(context, &state, CacheOwner::Open(open.id))?;
        return Err(FsError::AccessDenied.into());
    }
    let key = target.attributes.key;
    let recalled = table.find(key).and_then(|state| {
        begin_recall_except(context, &state, client_owner(context.client(), key))
    });
    if let Some(wait) = recalled {
        return Err(OpenRefusal::Breaking(wait));
    }
    let rights = |node: &OpenedNode| rights_to_opened(open.volume(), &open.caller, node);
    if !rights(&target).contains(Access::DELETE) && !rights(parent).contains(Access::DELETE_CHILD) {
        return Err(FsError::AccessDenied.into());
    }
    Ok(RenameTarget::Replaced(target.path, key))
}

pub(crate) fn look(
    context: &RequestContext,
    open: &OpenFile,
    path: &RelPath,
) -> Result<OpenedNode> {
    look_for(context, open, path, Wait::Allowed)
}

pub(crate) fn look_for(
    context: &RequestContext,
    open: &OpenFile,
    path: &RelPath,
    wait: Wait,
) -> Result<OpenedNode> {
    let case = if path.is_root() { Case::Sensitive } else { open.case() };
    let wanted = WANTED;
    let how = OpenHow { read: false, write: false, case, wanted, no_follow: true, wait };
    let actor = context.call(open.caller.identity.actor());
    open.volume().vfs.open(actor, path, how)
}

/// Handles a replaced name of the file with `key`. POSIX opens did not delay the rename; a client
/// with handle caching would find the new file by the name.
pub(crate) fn finish_replacement(
    context: &RequestContext,
    open: &OpenFile,
    name: &RelPath,
    key: FileKey,
) {
    if let Some(state) = open.table.find(key) {
        state.lock(context).grants.caches.handle_name_change(CacheOwner::Open(open.id));
    }
    open.report_name(context, ChangeAction::Removed, name);
}
