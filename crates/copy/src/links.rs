//! Symbolic links: left out, copied as links, or followed.
//!
//! Links are created after all files: a directory of the target that became a link during the copy
//! would lead later files elsewhere.

use crate::error::Error;
use crate::item::{CopyItem, ItemKind};
use crate::job::CopyJob;
use crate::names::{self, EntryPaths, join, split};
use crate::options::LinkPolicy;
use crate::pairs::NameForm;
use crate::tally::add;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Most links that lead to one another.
const HOPS_MAX: usize = 40;

/// A link that is to be copied.
#[derive(Debug)]
pub(crate) struct LinkTask {
    pub at: EntryPaths,
    /// Kind of the target's entry of that name, if it has one.
    pub there: Option<ItemKind>,
}

/// A directory of the source, as the links in it are followed.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkFolder {
    /// Its path relative to the source.
    pub from: String,
    /// Real paths of the directories whose links led here.
    pub above: Arc<[String]>,
}

/// The entry that a link leads to.
#[derive(Debug)]
pub(crate) struct FollowedLink {
    /// Its path relative to the source.
    pub path: String,
    /// Real paths of the directories whose links led here.
    pub above: Arc<[String]>,
}

/// The links of a directory by name: what each leads to, or why it is not copied.
pub(crate) type FollowedLinks = HashMap<String, Result<FollowedLink, Error>>;

/// Replaces the links among the entries of a directory by what they lead to, if the copy follows links.
pub(crate) async fn follow_all(
    job: &CopyJob,
    folder: &LinkFolder,
    items: &mut [CopyItem],
) -> FollowedLinks {
    let mut followed = HashMap::new();
    if job.options.links != LinkPolicy::Follow {
        return followed;
    }
    for item in items.iter_mut().filter(|item| item.kind == ItemKind::Link) {
        let result = match follow(job, folder, &item.name).await {
            Ok((link, found)) => {
                *item = CopyItem { name: item.name.clone(), ..found };
                Ok(link)
            }
            Err(error) => Err(error),
        };
        followed.insert(item.name.clone(), result);
    }
    followed
}

async fn follow(
    job: &CopyJob,
    folder: &LinkFolder,
    name: &str,
) -> Result<(FollowedLink, CopyItem), Error> {
    let side = &job.source.side;
    let link = join(&folder.from, name);
    let (path, item) = if side.is_local() {
        let found = side.stat(&job.source.at(&link)).await?;
        (link, found.ok_or_else(|| Error::Refused("the link leads nowhere".into()))?)
    } else {
        resolve(job, link).await?
    };
    if item.kind != ItemKind::Directory {
        return Ok((FollowedLink { path, above: Arc::default() }, item));
    }
    let here = side.real_path(&job.source.at(&folder.from)).await?;
    let there = side.real_path(&job.source.at(&path)).await?;
    let holders = folder.above.iter().chain([&here]);
    let mut above: Vec<String> = Vec::new();
    for holder in holders {
        if is_within(holder, &there) {
            return Err(Error::Refused("the link leads to a directory that contains it".into()));
        }
        above.push(holder.clone());
    }
    if side.is_local() && job.target.side.is_local() {
        let target = job.target.side.real_path(&job.target.path).await?;
        if is_within(&target, &there) || is_within(&there, &target) {
            let why = "the link leads to the target, or to a directory within or above it";
            return Err(Error::Refused(why.into()));
        }
    }
    Ok((FollowedLink { path, above: above.into() }, item))
}

/// Whether the directory is the other one, or below it.
pub(crate) fn is_within(path: &str, other: &str) -> bool {
    // The root of all directories ends with a slash.
    let other = other.trim_end_matches('/');
    other.is_empty() || path == other || path.starts_with(&format!("{other}/"))
}

/// Resolves a link within the source. A server's link must not lead out of it.
async fn resolve(job: &CopyJob, link: String) -> Result<(String, CopyItem), Error> {
    let side = &job.source.side;
    let mut path = link;
    for _ in 0..HOPS_MAX {
        let to = side.read_link(&job.source.at(&path)).await?;
        let form = |name: &str| side.spelling().of(NameForm::Bytes, name);
        path = target_path(split(&path).0, &to.text, form)?;
        match side.stat(&job.source.at(&path)).await {
            Ok(None) => return Err(Error::Refused(format!("the link leads nowhere: {}", to.text))),
            Ok(Some(item)) if item.kind != ItemKind::Link => return Ok((path, item)),
            // A link to a link; an SMB server does not open it.
            Ok(Some(_)) | Err(_) => {}
        }
    }
    Err(Error::Refused("the link leads to itself".into()))
}

/// The path that a link in `folder` leads to, relative to the source, with its names in this form.
fn target_path(folder: &str, text: &str, form: impl Fn(&str) -> String) -> Result<String, Error> {
    let outside = || Error::Refused(format!("the link leads out of the source: {text}"));
    if text.starts_with('/') {
        return Err(outside());
    }
    let mut names: Vec<String> =
        folder.split('/').filter(|name| !name.is_empty()).map(ToOwned::to_owned).collect();
    for name in text.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop().ok_or_else(outside)?),
            name => names.push(form(name)),
        }
    }
    Ok(names.join("/"))
}

/// Copies the links, many at once.
pub(crate) async fn copy_all(job: &Arc<CopyJob>, links: Vec<LinkTask>) {
    let mut tasks = JoinSet::new();
    for task in links {
        if tasks.len() >= job.options.threads {
            tasks.join_next().await;
        }
        if job.tally.fatal().is_some() {
            break;
        }
        let job = job.clone();
        tasks.spawn(async move {
            if let Err(error) = copy(&job, &task).await {
                job.tally.fail(&task.at.shown, &error);
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

async fn copy(job: &CopyJob, task: &LinkTask) -> Result<(), Error> {
    let LinkTask { at, there } = task;
    let (from, to) = (job.source.at(&at.from), job.target.at(&at.to));
    let link = job.source.side.read_link(&from).await?;
    let side = &job.target.side;
    // A server that follows links lists what they lead to, or nothing: only reading finds a link.
    let before = side.read_link(&to).await;
    if before.as_ref().is_ok_and(|before| before.text == link.text) {
        add(&job.tally.files_unchanged, 1);
        return Ok(());
    }
    if before.is_err() && there.is_some() {
        add(&job.tally.mismatched, 1);
        job.tally
            .say(format!("{}: a link on the source, a file or directory on the target", at.shown));
        return Ok(());
    }
    let shown = format!("{} -> {}", at.shown, link.text);
    if job.options.dry_run {
        job.tally.say(format!("link {shown}"));
    } else {
        let temporary = names::temporary(&to, job.key(at));
        side.put_link(&to, &temporary, &link, before.is_ok()).await?;
        job.report(|| format!("linked {shown}"));
    }
    add(&job.tally.links_copied, 1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_of_all_directories_contains_them() {
        for (path, other) in [("/a", "/"), ("/", "/"), ("/a/b", "/a"), ("/a", "/a"), ("a", "")] {
            assert!(is_within(path, other), "{path} {other}");
        }
        for (path, other) in [("/", "/a"), ("/ab", "/a"), ("/a", "/a/b")] {
            assert!(!is_within(path, other), "{path} {other}");
        }
    }

    #[test]
    fn link_of_a_server_leads_only_within_the_source() {
        let good =
            [("", "a", "a"), ("a/b", "../c", "a/c"), ("a", "./b//c/", "a/b/c"), ("a", "..", "")];
        for (folder, text, path) in good {
            assert_eq!(target_path(folder, text, str::to_owned).unwrap(), path, "{folder} {text}");
        }
        for (folder, text) in
            [("", ".."), ("a", "../../x"), ("a", "/etc/passwd"), ("", "b/../../c")]
        {
            assert!(target_path(folder, text, str::to_owned).is_err(), "{folder} {text}");
        }
    }
}
