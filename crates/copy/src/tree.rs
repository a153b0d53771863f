//! Copies a whole tree: schedules the listings of directories and the copies of files.
//!
//! One task schedules; the others list or copy and report to it. Once all files are copied,
//! directories get their times, and extra entries of the target are removed.

use crate::decide::{Decision, decide};
use crate::error::Error;
use crate::extras;
use crate::item::{CopyItem, ItemFacts, ItemKind};
use crate::job::CopyJob;
use crate::large;
use crate::limits::{
    DEPTH_MAX, FURTHER_SESSIONS_FROM_FILES, LISTINGS_EACH_THREAD, SMALL_FILES_EACH_THREAD,
    WAITING_FILES_MAX,
};
use crate::links::{self, FollowedLinks, LinkFolder, LinkTask};
use crate::mirror::{self, FolderExtras};
use crate::names::{self, EntryPaths};
use crate::options::{CopyOptions, LinkPolicy};
use crate::pairs::{NameRules, PairedEntry, Pairs};
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
    at: EntryPaths,
    facts: ItemFacts,
    /// Whether the target has it, too.
    exists: bool,
    depth: usize,
    /// Real paths of the directories whose links led here.
    above: Arc<[String]>,
}

/// A file that is to be copied.
#[derive(Debug)]
struct FileTask {
    at: EntryPaths,
    item: CopyItem,
    decision: Decision,
}

/// The entries of a directory on both sides.
#[derive(Debug)]
struct Listing {
    rules: NameRules,
    pairs: Pairs,
    followed: FollowedLinks,
}

/// Where an entry of a listing is.
#[derive(Debug)]
struct EntryPlace {
    at: EntryPaths,
    /// Real paths of the directories whose links led here.
    above: Arc<[String]>,
    depth: usize,
}

/// A task's report to the scheduling task.
#[derive(Debug)]
enum TaskReport {
    Listed(Box<(PendingFolder, Result<Option<Listing>, Error>)>),
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
    if is_target_within(job, item.kind).await? {
        return Err(Error::Refused("the target is within the source".into()));
    }
    let mut walk = Walk::new(job.clone());
    match decision(job, &item, there.as_ref()) {
        Decision::Link => {
            let there = there.map(|there| there.kind);
            walk.links.push(LinkTask { at: EntryPaths::default(), there });
        }
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
        Decision::Same => job.take_same(&EntryPaths::default(), &item),
        decision if item.kind == ItemKind::File => {
            walk.take_file(EntryPaths::default(), item, decision);
        }
        decision => walk.folders.push(PendingFolder {
            at: EntryPaths::default(),
            facts: item.facts,
            exists: decision == Decision::Enter,
            depth: 0,
            above: Arc::default(),
        }),
    }
    walk.all().await;
    Ok(())
}

/// Whether the target is the source or below it, by its name or through links.
async fn is_target_within(job: &CopyJob, kind: ItemKind) -> Result<bool, Error> {
    let (source, target) = (&job.source, &job.target);
    let (from, to) = (source.name(""), target.name(""));
    if kind != ItemKind::Directory {
        return Ok(from == to);
    }
    if from == to || to.starts_with(&format!("{from}/")) {
        return Ok(true);
    }
    if !source.side.is_local() || !target.side.is_local() {
        return Ok(false);
    }
    let from = source.side.real_path(&source.path).await?;
    Ok(links::is_within(&target.side.real_path(&target.path).await?, &from))
}

/// The action for an entry of the source, by the options.
fn decision(job: &CopyJob, item: &CopyItem, there: Option<&CopyItem>) -> Decision {
    if item.kind == ItemKind::Link && job.options.links == LinkPolicy::Keep {
        return Decision::Link;
    }
    decide(item, there, job.options.times)
}

/// State of the scheduling task.
#[derive(Debug)]
struct Walk {
    job: Arc<CopyJob>,
    folders: Vec<PendingFolder>,
    small: VecDeque<FileTask>,
    large: VecDeque<FileTask>,
    /// Symbolic links, which are copied after all files.
    links: Vec<LinkTask>,
    /// Changed directories, which get their times at the end.
    changed: Vec<(EntryPaths, ItemFacts)>,
    /// Entries to remove, which only the target has.
    extra: Vec<FolderExtras>,
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
            links: Vec::new(),
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
                    let (folder, listing) = *listed;
                    self.take_listing(folder, listing);
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
            links::copy_all(&self.job, std::mem::take(&mut self.links)).await;
            if self.job.options.deletes {
                mirror::remove(&self.job, std::mem::take(&mut self.extra)).await;
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
                let listing = list(&job, &folder).await;
                TaskReport::Listed(Box::new((folder, listing)))
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

    fn take_listing(&mut self, folder: PendingFolder, listing: Result<Option<Listing>, Error>) {
        let tally = self.job.tally.clone();
        // Without the source's whole listing nothing is an extra entry of the target.
        let Listing { rules, pairs, mut followed } = match listing {
            Ok(Some(listing)) => listing,
            Ok(None) => {
                add(&tally.mismatched, 1);
                let shown = &folder.at.shown;
                return tally
                    .say(format!("{shown}: a directory on the source, a link on the target"));
            }
            Err(error) => return tally.fail(&folder.at.shown, &error),
        };
        for item in &pairs.clashing {
            let why = Error::BadName("is, on the target, that of another entry");
            let shown = rules.source.shown(&item.name);
            tally.fail(&names::join(&folder.at.shown, &shown), &why);
        }
        let mut is_changed = !folder.exists;
        let mut expected = Vec::new();
        for PairedEntry { item, to, there } in pairs.both {
            let mut at = folder.at.child(&rules.source.shown(&item.name), &item.name, &to);
            let mut above = folder.above.clone();
            if !self.job.options.filter.takes(&at.shown, &item) {
                add(&tally.skipped, 1);
                continue;
            }
            let safe = names::check(&item.name, rules.source);
            if let Err(error) = safe.and_then(|()| names::check(&to, rules.target)) {
                tally.fail(&at.shown, &error);
                continue;
            }
            match followed.remove(&item.name) {
                Some(Ok(link)) => (at.from, above) = (link.path, link.above),
                Some(Err(error)) => {
                    tally.fail(&at.shown, &error);
                    continue;
                }
                None => {}
            }
            let decision = decision(&self.job, &item, there.as_ref());
            if decision != Decision::NotCopied {
                expected.push(to);
            }
            let place = EntryPlace { at, above, depth: folder.depth };
            is_changed |= self.take_entry(place, item, there.map(|there| there.kind), decision);
        }
        is_changed |= self.take_extras(&folder.at, &rules, pairs.extra, expected);
        if is_changed {
            self.changed.push((folder.at, folder.facts));
        }
    }

    /// Queues or counts an entry; returns whether its directory on the target changes.
    fn take_entry(
        &mut self,
        place: EntryPlace,
        item: CopyItem,
        there: Option<ItemKind>,
        decision: Decision,
    ) -> bool {
        let tally = &self.job.tally;
        let EntryPlace { at, above, depth } = place;
        match decision {
            Decision::NotCopied => {
                self.job.skip(&at, item.kind);
                false
            }
            Decision::Link => {
                self.links.push(LinkTask { at, there });
                true
            }
            Decision::Mismatch => {
                add(&tally.mismatched, 1);
                tally.say(format!("{}: a file on one side, a directory on the other", at.shown));
                false
            }
            Decision::Same => {
                self.job.take_same(&at, &item);
                false
            }
            _ if item.kind != ItemKind::Directory => {
                self.take_file(at, item, decision);
                true
            }
            _ if depth >= DEPTH_MAX => {
                let why = Error::Refused("its path has too many components".into());
                tally.fail(&at.shown, &why);
                false
            }
            _ => {
                let exists = decision == Decision::Enter;
                let facts = item.facts;
                self.folders.push(PendingFolder { at, facts, exists, depth: depth + 1, above });
                !exists
            }
        }
    }

    fn take_file(&mut self, at: EntryPaths, item: CopyItem, decision: Decision) {
        let tally = &self.job.tally;
        add(&tally.files_found, 1);
        add(&tally.bytes_found, item.size_bytes);
        if self.job.options.dry_run {
            let what = if decision == Decision::New { "copy" } else { "replace" };
            tally.say(format!("{what} {} ({} bytes)", at.shown, item.size_bytes));
            add(&tally.files_copied, 1);
            add(&tally.bytes_copied, item.size_bytes);
            return;
        }
        let is_large = self.job.is_large(&item);
        self.small_found += u64::from(!is_large);
        if self.small_found == FURTHER_SESSIONS_FROM_FILES {
            self.job.sides().for_each(Side::expect_many);
        }
        let queue = if is_large { &mut self.large } else { &mut self.small };
        queue.push_back(FileTask { at, item, decision });
    }

    /// Counts extra entries of the target; returns whether one of them will be removed.
    fn take_extras(
        &mut self,
        folder: &EntryPaths,
        rules: &NameRules,
        extra: Vec<CopyItem>,
        expected: Vec<String>,
    ) -> bool {
        let mut items = Vec::new();
        for item in extra {
            let shown = names::join(&folder.shown, &rules.target.shown(&item.name));
            let filter = &self.job.options.filter;
            let is_partial = item.kind == ItemKind::Directory && filter.is_selective();
            let is_taken = filter.takes(&shown, &item) && !is_partial;
            // Entries that the filters exclude stay, and so do temporary files of another run.
            let is_bad = names::check(&item.name, rules.target).is_err();
            if is_taken && !is_bad && !names::is_temporary(&item.name) {
                items.push((shown, item));
            }
        }
        add(&self.job.tally.extras, items.len() as u64);
        if items.is_empty() || !self.job.options.deletes {
            return false;
        }
        let folder = folder.clone();
        self.extra.push(FolderExtras { folder, rules: *rules, expected, items });
        true
    }
}

/// Creates the directory in the target if it is missing, and lists both. `None` if the target has a
/// link of that name, through which another directory would be written to and emptied.
async fn list(job: &Arc<CopyJob>, folder: &PendingFolder) -> Result<Option<Listing>, Error> {
    let (from, to) = (job.source.at(&folder.at.from), job.target.at(&folder.at.to));
    let (source_side, target_side) = (&job.source.side, &job.target.side);
    // The target itself may be a link: the user named it.
    if folder.exists && !folder.at.to.is_empty() && target_side.is_link(&to).await? {
        return Ok(None);
    }
    let mut source = source_side.list(&from).await?;
    let links = LinkFolder { from: folder.at.from.clone(), above: folder.above.clone() };
    let followed = links::follow_all(job, &links, &mut source).await;
    let target = if folder.exists {
        target_side.list(&to).await?
    } else {
        if job.options.dry_run {
            job.tally.say(format!("make {}/", folder.at.shown));
        } else {
            target_side.make_directory(&to).await?;
            let shown = if folder.at.to.is_empty() { "." } else { &folder.at.shown };
            job.report(|| format!("created {shown}/"));
        }
        add(&job.tally.directories_created, 1);
        Vec::new()
    };
    let rules = NameRules {
        source: source_side.spelling(),
        target: target_side.spelling(),
        folds: target_side.folds(&to).await,
    };
    Ok(Some(Listing { rules, pairs: rules.pair(source, target), followed }))
}

async fn copy_file(job: Arc<CopyJob>, task: FileTask, is_large: bool) -> TaskReport {
    let FileTask { at, item, decision } = task;
    let mut tries = 0;
    let done = loop {
        let done = if is_large {
            large::copy(&job, &at, decision).await
        } else {
            small::copy(&job, &at, &item, decision).await
        };
        match done {
            Err(error) if tries < job.options.retries && error.may_pass() => {
                tries += 1;
                job.tally.say(format!("{}: {error}; trying again", at.shown));
                tokio::time::sleep(job.options.retry_wait).await;
            }
            done => break done,
        }
    };
    match done {
        Ok(()) => {
            add(&job.tally.files_copied, 1);
            let what = if decision == Decision::Replace { "replaced" } else { "copied" };
            job.report(|| format!("{what} {} ({} bytes)", at.shown, item.size_bytes));
        }
        Err(error) => job.tally.fail(&at.shown, &error),
    }
    TaskReport::Copied { is_large }
}

/// Sets the times of changed directories, many at once. The order does not matter, since only a
/// change of its own entries changes a directory's time.
async fn set_directories(job: &Arc<CopyJob>, changed: Vec<(EntryPaths, ItemFacts)>) {
    if job.options.dry_run {
        return;
    }
    let mut tasks = JoinSet::new();
    for (at, facts) in changed {
        if tasks.len() >= job.options.threads {
            tasks.join_next().await;
        }
        let job = job.clone();
        tasks.spawn(async move {
            let selected = job.selected_facts(&facts);
            let (from, to) = (job.source.at(&at.from), job.target.at(&at.to));
            let mut set = extras::copy_directory(&job, &from, &to).await;
            if set.is_ok() && selected != ItemFacts::default() {
                set = job.target.side.set_directory_facts(&to, &selected).await;
            }
            // The root of a share often belongs to another user, so a refusal there is ignored.
            if let Err(error) = set
                && !at.to.is_empty()
            {
                job.tally.fail(&at.shown, &error);
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}
