//! Copies a whole tree: schedules the listings of directories and the copies of files.
//!
//! One task schedules; the others list or copy and report to it. Once all files are copied,
//! directories get their times, and extra entries of the target are removed.

use crate::decide::{Decision, Pairs, decide, pair};
use crate::error::Error;
use crate::extras;
use crate::item::{CopyItem, ItemFacts, ItemKind};
use crate::job::CopyJob;
use crate::large;
use crate::limits::{
    DEPTH_MAX, FURTHER_SESSIONS_FROM_FILES, LISTINGS_EACH_THREAD, SMALL_FILES_EACH_THREAD,
    WAITING_FILES_MAX,
};
use crate::names::{self, join};
use crate::options::CopyOptions;
use crate::side::{Side, SidePath};
use crate::small;
use crate::tally::{CopyTally, Summary, add};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::task::JoinSet;

/// A directory that is to be listed.
#[derive(Debug)]
struct PendingFolder {
    path: String,
    facts: ItemFacts,
    /// Whether the target has it, too.
    exists: bool,
    depth: usize,
}

/// A file that is to be copied.
#[derive(Debug)]
struct FileTask {
    path: String,
    item: CopyItem,
    decision: Decision,
}

/// A task's report to the scheduling task.
#[derive(Debug)]
enum TaskReport {
    Listed(Box<(PendingFolder, Result<Pairs, Error>)>),
    Copied { is_large: bool },
}

/// Copies `source` to `target`: a file to a file of that path, a directory's contents into a
/// directory, which is created if missing. `tally` counts the progress.
pub async fn run(
    source: SidePath,
    target: SidePath,
    options: CopyOptions,
    tally: Arc<CopyTally>,
) -> Summary {
    let job = Arc::new(CopyJob::new(source, target, options, tally.clone()).await);
    if let Err(error) = start(&job).await {
        tally.fail("", &error);
    }
    if job.options.sync && !job.options.dry_run && tally.has_changed() {
        let synced = job.target.side.sync_all(&job.target.path).await;
        synced.unwrap_or_else(|error| tally.fail("", &error));
    }
    for side in job.sides() {
        side.expect_no_more().await;
    }
    tally.is_listed.store(true, Ordering::Relaxed);
    tally.summary()
}

async fn start(job: &Arc<CopyJob>) -> Result<(), Error> {
    let item = job.source.side.stat(&job.source.path).await?.ok_or(Error::Missing)?;
    let there = job.target.side.stat(&job.target.path).await?;
    let (from, to) = (job.source.name(""), job.target.name(""));
    if from == to || (item.kind == ItemKind::Directory && to.starts_with(&format!("{from}/"))) {
        return Err(Error::Refused("the target is within the source".into()));
    }
    let mut walk = Walk::new(job.clone());
    match decide(&item, there.as_ref(), job.options.times) {
        Decision::NotCopied => {
            return Err(Error::Refused(
                "it is neither a file nor a \
                                                          directory"
                    .into(),
            ));
        }
        Decision::Mismatch => {
            add(&job.tally.mismatched, 1);
            let why = "one is a file, the other a directory";
            return Err(Error::Refused(why.into()));
        }
        Decision::Same => job.take_same("", &item),
        decision if item.kind == ItemKind::File => walk.take_file(String::new(), item, decision),
        decision => walk.folders.push(PendingFolder {
            path: String::new(),
            facts: item.facts,
            exists: decision == Decision::Enter,
            depth: 0,
        }),
    }
    walk.all().await;
    Ok(())
}

/// State of the scheduling task.
#[derive(Debug)]
struct Walk {
    job: Arc<CopyJob>,
    folders: Vec<PendingFolder>,
    small: VecDeque<FileTask>,
    large: VecDeque<FileTask>,
    /// Changed directories, which get their times at the end.
    changed: Vec<(String, ItemFacts)>,
    /// Entries that only the target has.
    extra: Vec<(String, ItemKind)>,
    tasks: JoinSet<TaskReport>,
    listings: usize,
    small_found: u64,
    small_in_flight: usize,
    large_in_flight: usize,
}

impl Walk {
    fn new(job: Arc<CopyJob>) -> Self {
        Self {
            job,
            folders: Vec::new(),
            small: VecDeque::new(),
            large: VecDeque::new(),
            changed: Vec::new(),
            extra: Vec::new(),
            tasks: JoinSet::new(),
            listings: 0,
            small_found: 0,
            small_in_flight: 0,
            large_in_flight: 0,
        }
    }

    async fn all(mut self) {
        loop {
            if self.folders.is_empty() && self.listings == 0 {
                self.job.tally.is_listed.store(true, Ordering::Relaxed);
            }
            if self.job.tally.fatal().is_none() {
                self.start_ready_tasks();
            }
            let Some(ended) = self.tasks.join_next().await else { break };
            match ended {
                Ok(TaskReport::Listed(listed)) => {
                    self.listings -= 1;
                    let (folder, pairs) = *listed;
                    self.take_listing(folder, pairs);
                }
                Ok(TaskReport::Copied { is_large: true }) => self.large_in_flight -= 1,
                Ok(TaskReport::Copied { is_large: false }) => self.small_in_flight -= 1,
                Err(_) => {
                    let ended = Error::Lost("a task of the copy ended".into());
                    self.job.tally.fail("", &ended);
                }
            }
        }
        if self.job.tally.fatal().is_none() {
            if self.job.options.deletes {
                remove(&self.job, std::mem::take(&mut self.extra)).await;
            }
            set_directories(&self.job, self.changed).await;
        }
    }

    fn start_ready_tasks(&mut self) {
        let threads = self.job.options.threads;
        while self.listings < threads * LISTINGS_EACH_THREAD
            && self.small.len() + self.large.len() < WAITING_FILES_MAX
        {
            let Some(folder) = self.folders.pop() else { break };
            self.listings += 1;
            let job = self.job.clone();
            self.tasks.spawn(async move {
                let pairs = list(&job, &folder).await;
                TaskReport::Listed(Box::new((folder, pairs)))
            });
        }
        while self.small_in_flight < threads * SMALL_FILES_EACH_THREAD {
            let Some(task) = self.small.pop_front() else { break };
            self.small_in_flight += 1;
            self.tasks.spawn(copy_file(self.job.clone(), task, false));
        }
        while self.large_in_flight < threads {
            let Some(task) = self.large.pop_front() else { break };
            self.large_in_flight += 1;
            self.tasks.spawn(copy_file(self.job.clone(), task, true));
        }
    }

    fn take_listing(&mut self, folder: PendingFolder, pairs: Result<Pairs, Error>) {
        let tally = self.job.tally.clone();
        let pairs = match pairs {
            Ok(pairs) => pairs,
            Err(error) => return tally.fail(&folder.path, &error),
        };
        let PendingFolder { path, facts, exists, depth } = folder;
        for item in &pairs.clashing {
            let why = Error::BadName("differs from another name only in case");
            tally.fail(&join(&path, &item.name), &why);
        }
        let mut is_changed = !exists;
        for (item, there) in pairs.both {
            let below = join(&path, &item.name);
            let is_directory = item.kind == ItemKind::Directory;
            let taken = match is_directory {
                true => self.job.options.filter.takes_directory(&below),
                false => self.job.options.filter.takes_file(&below),
            };
            if !taken {
                add(&tally.skipped, 1);
                continue;
            }
            if let Err(error) = names::check(&item.name) {
                tally.fail(&below, &error);
                continue;
            }
            match decide(&item, there.as_ref(), self.job.options.times) {
                Decision::NotCopied => add(&tally.skipped, 1),
                Decision::Mismatch => {
                    add(&tally.mismatched, 1);
                    tally.say(format!("{below}: a file on one side, a directory on the other"));
                }
                Decision::Same => self.job.take_same(&below, &item),
                _ if is_directory && depth >= DEPTH_MAX => {
                    tally.fail(&below, &Error::Refused("its path has too many components".into()));
                }
                decision if is_directory => {
                    let exists = decision == Decision::Enter;
                    is_changed |= !exists;
                    let facts = item.facts;
                    self.folders.push(PendingFolder {
                        path: below,
                        facts,
                        exists,
                        depth: depth + 1,
                    });
                }
                decision => {
                    is_changed = true;
                    self.take_file(below, item, decision);
                }
            }
        }
        is_changed |= self.take_extras(&path, pairs.extra);
        if is_changed {
            self.changed.push((path, facts));
        }
    }

    fn take_file(&mut self, path: String, item: CopyItem, decision: Decision) {
        let tally = &self.job.tally;
        add(&tally.files_found, 1);
        add(&tally.bytes_found, item.size_bytes);
        if self.job.options.dry_run {
            let what = if decision == Decision::New { "copy" } else { "replace" };
            tally.say(format!("{what} {path} ({} bytes)", item.size_bytes));
            add(&tally.files_copied, 1);
            return;
        }
        let is_large = self.job.is_large(&item);
        self.small_found += u64::from(!is_large);
        if self.small_found == FURTHER_SESSIONS_FROM_FILES {
            self.job.sides().for_each(Side::expect_many);
        }
        let queue = if is_large { &mut self.large } else { &mut self.small };
        queue.push_back(FileTask { path, item, decision });
    }

    /// Counts extra entries of the target; returns whether one of them will be removed.
    fn take_extras(&mut self, folder: &str, extra: Vec<CopyItem>) -> bool {
        let mut goes = false;
        for item in extra {
            let path = join(folder, &item.name);
            let filter = &self.job.options.filter;
            let taken = match item.kind {
                ItemKind::Directory => filter.takes_directory(&path) && filter.include.is_empty(),
                _ => filter.takes_file(&path),
            };
            // Entries that the filters exclude stay, and so do temporary files of another run.
            if !taken || names::check(&item.name).is_err() || names::is_temporary(&item.name) {
                continue;
            }
            add(&self.job.tally.extras, 1);
            if self.job.options.deletes {
                goes = true;
                self.extra.push((path, item.kind));
            }
        }
        goes
    }
}

/// Creates the directory in the target if it is missing, and lists both.
async fn list(job: &Arc<CopyJob>, folder: &PendingFolder) -> Result<Pairs, Error> {
    let (from, to) = (job.source.at(&folder.path), job.target.at(&folder.path));
    let source = job.source.side.list(&from).await?;
    let target = if folder.exists {
        job.target.side.list(&to).await?
    } else {
        if job.options.dry_run {
            job.tally.say(format!("make {}/", folder.path));
        } else {
            job.target.side.make_directory(&to).await?;
        }
        add(&job.tally.directories_created, 1);
        Vec::new()
    };
    // SMB names are case-insensitive.
    let folds = job.target.side.as_smb().is_some();
    Ok(pair(source, target, folds))
}

async fn copy_file(job: Arc<CopyJob>, task: FileTask, is_large: bool) -> TaskReport {
    let FileTask { path, item, decision } = task;
    let done = if is_large {
        large::copy(&job, &path).await
    } else {
        small::copy(&job, &path, &item, decision).await
    };
    match done {
        Ok(()) => add(&job.tally.files_copied, 1),
        Err(error) => job.tally.fail(&path, &error),
    }
    TaskReport::Copied { is_large }
}

/// Sets the times of changed directories, many at once. The order does not matter, since only a
/// change of its own entries changes a directory's time.
async fn set_directories(job: &Arc<CopyJob>, changed: Vec<(String, ItemFacts)>) {
    if job.options.dry_run {
        return;
    }
    let mut tasks = JoinSet::new();
    for (path, facts) in changed {
        if tasks.len() >= job.options.threads {
            tasks.join_next().await;
        }
        let job = job.clone();
        tasks.spawn(async move {
            let selected = job.selected_facts(&facts);
            let (from, to) = (job.source.at(&path), job.target.at(&path));
            let mut set = extras::copy_directory(&job, &from, &to).await;
            if set.is_ok() && selected != ItemFacts::default() {
                set = job.target.side.set_directory_facts(&to, &selected).await;
            }
            // The root of a share often belongs to another user, so a refusal there is ignored.
            if let Err(error) = set
                && !path.is_empty()
            {
                job.tally.fail(&path, &error);
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// Removes extra entries of the target, directories recursively.
async fn remove(job: &Arc<CopyJob>, extra: Vec<(String, ItemKind)>) {
    for (path, kind) in extra {
        if let Err(error) = remove_one(job, &path, kind).await {
            job.tally.fail(&path, &error);
            if error.is_fatal() {
                return;
            }
        } else {
            add(&job.tally.removed, 1);
        }
    }
}

async fn remove_one(job: &Arc<CopyJob>, path: &str, kind: ItemKind) -> Result<(), Error> {
    let side = &job.target.side;
    if job.options.dry_run {
        let slash = if kind == ItemKind::Directory { "/" } else { "" };
        job.tally.say(format!("remove {path}{slash}"));
        return Ok(());
    }
    if kind != ItemKind::Directory {
        return side.remove(&job.target.at(path), kind).await;
    }
    // Parents stand before their children; the removal goes from the end.
    let (mut directories, mut next) = (vec![path.to_owned()], 0);
    while let Some(directory) = directories.get(next).cloned() {
        next += 1;
        for item in side.list(&job.target.at(&directory)).await? {
            names::check(&item.name)?;
            let below = join(&directory, &item.name);
            match item.kind {
                ItemKind::Directory => directories.push(below),
                kind => side.remove(&job.target.at(&below), kind).await?,
            }
        }
    }
    for directory in directories.iter().rev() {
        side.remove(&job.target.at(directory), ItemKind::Directory).await?;
    }
    Ok(())
}
