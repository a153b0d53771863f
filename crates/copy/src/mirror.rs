//! Removes what only the target has, once everything else is copied.
//!
//! A target may store or list names in another form than they were sent: without a trailing dot, in
//! another case, shortened, normalised. An entry is then extra by its name alone, and may be the very
//! file that was just copied. Therefore a directory is listed once more before anything in it is
//! removed: it must have every entry that the source has.

use crate::error::Error;
use crate::item::{CopyItem, ItemKind};
use crate::job::CopyJob;
use crate::names::{self, EntryPaths, join};
use crate::pairs::NameRules;
use crate::tally::add;
use std::collections::HashSet;
use std::sync::Arc;

/// The extra entries of one directory of the target.
#[derive(Debug)]
pub(crate) struct FolderExtras {
    pub folder: EntryPaths,
    pub rules: NameRules,
    /// Names of the source's entries on the target.
    pub expected: Vec<String>,
    /// The entries, each with its path for people.
    pub items: Vec<(String, CopyItem)>,
}

/// Removes extra entries of the target, directories recursively. A dry run reports them.
pub(crate) async fn remove(job: &Arc<CopyJob>, extras: Vec<FolderExtras>) {
    for extras in extras {
        let is_over = match confirmed(job, &extras).await {
            Ok(listed) => remove_all(job, &extras, &listed).await,
            Err(error) => {
                job.tally.fail(&extras.folder.shown, &error);
                error.is_fatal()
            }
        };
        if is_over {
            return;
        }
    }
}

/// The names in the directory, provided that it has every entry of the source.
async fn confirmed(job: &CopyJob, extras: &FolderExtras) -> Result<HashSet<String>, Error> {
    if job.options.dry_run {
        return Ok(extras.items.iter().map(|(_, item)| item.name.clone()).collect());
    }
    let listed = job.target.side.list(&job.target.at(&extras.folder.to)).await?;
    if let Some(name) = extras.rules.missing(&extras.expected, &listed) {
        let (count, shown) = (extras.items.len(), extras.rules.target.shown(name));
        return Err(Error::Refused(format!(
            "nothing is removed from it ({count} surplus): the target does not list {shown:?}, which the source has"
        )));
    }
    Ok(listed.into_iter().map(|item| item.name).collect())
}

/// Removes the entries that are still listed; returns whether the copy cannot continue.
async fn remove_all(job: &Arc<CopyJob>, extras: &FolderExtras, listed: &HashSet<String>) -> bool {
    for (shown, item) in extras.items.iter().filter(|(_, item)| listed.contains(&item.name)) {
        let path = join(&extras.folder.to, &item.name);
        match remove_one(job, shown, &path, &extras.rules, item.kind).await {
            Ok(()) => {
                add(&job.tally.removed, 1);
                job.report(|| format!("removed {shown}"));
            }
            Err(error) => {
                job.tally.fail(shown, &error);
                if error.is_fatal() {
                    return true;
                }
            }
        }
    }
    false
}

async fn remove_one(
    job: &Arc<CopyJob>,
    shown: &str,
    path: &str,
    rules: &NameRules,
    kind: ItemKind,
) -> Result<(), Error> {
    let side = &job.target.side;
    if job.options.dry_run {
        let slash = if kind == ItemKind::Directory { "/" } else { "" };
        job.tally.say(format!("remove {shown}{slash}"));
        return Ok(());
    }
    if kind != ItemKind::Directory {
        return side.remove(&job.target.at(path), kind).await;
    }
    if side.is_link(&job.target.at(path)).await? {
        return side.remove(&job.target.at(path), ItemKind::Link).await;
    }
    // Parents stand before their children; the removal goes from the end.
    let (mut directories, mut next) = (vec![path.to_owned()], 0);
    while let Some(directory) = directories.get(next).cloned() {
        next += 1;
        for item in side.list(&job.target.at(&directory)).await? {
            names::check(&item.name, rules.target)?;
            let below = join(&directory, &item.name);
            let at = job.target.at(&below);
            if item.kind == ItemKind::Directory && !side.is_link(&at).await? {
                directories.push(below);
            } else if item.kind == ItemKind::Directory {
                side.remove(&at, ItemKind::Link).await?;
            } else {
                side.remove(&at, item.kind).await?;
            }
        }
    }
    for directory in directories.iter().rev() {
        side.remove(&job.target.at(directory), ItemKind::Directory).await?;
    }
    Ok(())
}
