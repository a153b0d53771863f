//! Turns of changes of names: which renames, hard links and removals exclude each other.
//!
//! A change looks at names before it changes them, and a concurrent one could redirect it to another
//! file. So each claims what it relies on: its file and the directories whose entries it changes,
//! alone, and its tree together with other such changes. A change of a directory's own name claims
//! the tree alone, because opens record their names as paths. `docs/dev/design/rename.md` lists the
//! invariants.
//!
//! A claim refers to a file system or a node, never to a share, so shares of one tree take turns.

mod in_flight;

use crate::Volume;
use crate::context::RequestContext;
use crate::server_work::LOCATE;
use futures_channel::oneshot;
use in_flight::RenameCounts;
pub(crate) use in_flight::{RenameEpoch, RenameInFlight, RenameSubject};
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use sync::Mutex;
use vfs::{Case, FileKey, FsError, KeyedBuildHasher, OpenedNode, RelPath, Result, Wait};

/// Number of distinct file systems; more of them share turns. It is the width of a [`TreeSet`].
const TREES: usize = 64;

/// A set of file systems, one bit each by a hash of the device number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TreeSet(u64);

impl TreeSet {
    fn of(device: u64) -> Self {
        Self(1 << (device.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58))
    }

    fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn contains(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    fn numbers(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let number = (left != 0).then_some(left.trailing_zeros() as usize);
            left &= left.wrapping_sub(1);
            number
        })
    }
}

/// Subject of a claim. Claims are taken in this order, so holders cannot wait for each other in a
/// circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ClaimSubject {
    Tree(usize),
    File(FileKey),
    Directory(FileKey),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TurnClaim {
    subject: ClaimSubject,
    is_exclusive: bool,
}

/// Holders of one subject, and waiting claims in order of their arrival.
#[derive(Debug, Default)]
struct ClaimQueue {
    shared: u32,
    is_exclusive: bool,
    /// By ascending number.
    waiting: VecDeque<WaitingClaim>,
}

/// A claim in its queue. Its [`ClaimWait`] removes it, so that it never outlives its request.
#[derive(Debug)]
struct WaitingClaim {
    number: u64,
    claim: TurnClaim,
    granted: oneshot::Sender<RenameTurn>,
}

/// Granted claims with the requests that waited for them, to notify once the queues are unlocked.
type GrantedClaims = SmallVec<[WaitingClaim; 2]>;

impl ClaimQueue {
    fn admits(&self, claim: TurnClaim) -> bool {
        !self.is_exclusive && (!claim.is_exclusive || self.shared == 0)
    }

    fn enter(&mut self, claim: TurnClaim) {
        match claim.is_exclusive {
            true => self.is_exclusive = true,
            false => self.shared += 1,
        }
    }

    fn leave(&mut self, claim: TurnClaim) {
        match claim.is_exclusive {
            true => self.is_exclusive = false,
            false => self.shared -= 1,
        }
    }

    /// Admits waiting claims in their order, as far as they exclude no holder.
    fn admit(&mut self, granted: &mut GrantedClaims) {
        while self.waiting.front().is_some_and(|next| self.admits(next.claim)) {
            let Some(next) = self.waiting.pop_front() else { return };
            self.enter(next.claim);
            granted.push(next);
        }
    }

    fn is_idle(&self) -> bool {
        self.shared == 0 && !self.is_exclusive && self.waiting.is_empty()
    }
}

#[derive(Debug, Default)]
struct ClaimQueues {
    by_subject: HashMap<ClaimSubject, ClaimQueue, KeyedBuildHasher>,
    /// Number of the last claim that waited.
    last_number: u64,
}

impl ClaimQueues {
    fn is_free(&self, claim: TurnClaim) -> bool {
        let queue = self.by_subject.get(&claim.subject);
        queue.is_none_or(|queue| queue.waiting.is_empty() && queue.admits(claim))
    }

    fn enter(&mut self, claim: TurnClaim) {
        self.by_subject.entry(claim.subject).or_default().enter(claim);
    }

    /// Changes a queue, admits waiting claims and removes it if it is idle.
    fn change(
        &mut self,
        subject: ClaimSubject,
        granted: &mut GrantedClaims,
        change: impl FnOnce(&mut ClaimQueue),
    ) {
        let Some(queue) = self.by_subject.get_mut(&subject) else { return };
        change(queue);
        queue.admit(granted);
        if queue.is_idle() {
            self.by_subject.remove(&subject);
        }
    }
}

/// The wait for one claim. Dropping it before its end withdraws the claim.
struct ClaimWait<'a> {
    turns: &'a Arc<RenameTurns>,
    subject: ClaimSubject,
    number: u64,
    granted: oneshot::Receiver<RenameTurn>,
    is_over: bool,
}

impl ClaimWait<'_> {
    async fn granted(mut self) -> Option<RenameTurn> {
        let turn = (&mut self.granted).await;
        self.is_over = true;
        turn.ok()
    }
}

impl Drop for ClaimWait<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut granted = GrantedClaims::new();
        self.turns.queues.lock().change(self.subject, &mut granted, |queue| {
            // If it is gone, the receiver drops the granted claim.
            let place = queue.waiting.binary_search_by_key(&self.number, |one| one.number);
            if let Ok(place) = place {
                queue.waiting.remove(place);
            }
        });
        self.turns.notify(granted);
    }
}

/// The turns of all shares. Waiting takes no thread.
#[derive(Debug)]
pub(crate) struct RenameTurns {
    queues: Mutex<ClaimQueues>,
    /// Other file systems that were found mounted below shares of a file system.
    below: [AtomicU64; TREES],
    counts: RenameCounts,
}

impl Default for RenameTurns {
    fn default() -> Self {
        let below = std::array::from_fn(|_| AtomicU64::default());
        Self { queues: Mutex::default(), below, counts: RenameCounts::default() }
    }
}

/// A change of names to be claimed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnRequest {
    /// File system of the share's root.
    pub root_device: u64,
    /// The file or directory whose name changes.
    pub file: FileKey,
    /// Whether names below it change with it.
    pub moves_directory: bool,
}

impl RenameTurns {
    /// Waits for the turn of `change`, with claims of `directories` as far as they are known.
    pub async fn take(
        self: &Arc<Self>,
        change: &TurnRequest,
        directories: &[FileKey],
    ) -> RenameTurn {
        self.take_claims(self.claims(change, directories)).await
    }

    /// As [`RenameTurns::take`]; none if it would wait.
    pub fn try_take(
        self: &Arc<Self>,
        change: &TurnRequest,
        directories: &[FileKey],
    ) -> Option<RenameTurn> {
        let mut turn = RenameTurn { turns: self.clone(), claims: SmallVec::new() };
        turn.try_add(&self.claims(change, directories)).then_some(turn)
    }

    /// Waits for a turn in which no other name changes in the tree of a share.
    pub async fn take_tree(self: &Arc<Self>, root_device: u64) -> RenameTurn {
        self.take_claims(whole(self.trees_of(root_device)).collect()).await
    }

    /// Claims in the order in which they are taken.
    fn claims(&self, change: &TurnRequest, directories: &[FileKey]) -> SmallVec<[TurnClaim; 4]> {
        let devices = directories.iter().map(|key| key.device).chain([change.file.device]);
        let own = devices
            .fold(TreeSet::of(change.root_device), |all, device| all.union(TreeSet::of(device)));
        if change.moves_directory {
            return whole(own.union(self.trees_of(change.root_device))).collect();
        }
        let trees = own
            .numbers()
            .map(|number| TurnClaim { subject: ClaimSubject::Tree(number), is_exclusive: false });
        let file = TurnClaim { subject: ClaimSubject::File(change.file), is_exclusive: true };
        let mut claims: SmallVec<_> =
            trees.chain([file]).chain(directories.iter().map(|key| directory(*key))).collect();
        claims.sort_unstable();
        claims.dedup();
        claims
    }

    async fn take_claims(self: &Arc<Self>, claims: SmallVec<[TurnClaim; 4]>) -> RenameTurn {
        let mut turn = RenameTurn { turns: self.clone(), claims: SmallVec::new() };
        if turn.try_add(&claims) {
            return turn;
        }
        for claim in claims {
            let Some(wait) = self.queue(claim) else {
                turn.claims.push(claim);
                continue;
            };
            // The sender waits in the queue, which outlives the wait.
            if let Some(mut granted) = wait.granted().await {
                turn.claims.append(&mut granted.claims);
            }
        }
        turn
    }

    /// Takes a claim, or queues it.
    fn queue(self: &Arc<Self>, claim: TurnClaim) -> Option<ClaimWait<'_>> {
        let mut queues = self.queues.lock();
        if queues.is_free(claim) {
            queues.enter(claim);
            return None;
        }
        queues.last_number += 1;
        let (number, subject) = (queues.last_number, claim.subject);
        let (sender, receiver) = oneshot::channel();
        let waiting = WaitingClaim { number, claim, granted: sender };
        queues.by_subject.entry(subject).or_default().waiting.push_back(waiting);
        Some(ClaimWait { turns: self, subject, number, granted: receiver, is_over: false })
    }

    fn release(self: &Arc<Self>, claims: &[TurnClaim]) {
        let mut granted = GrantedClaims::new();
        let mut queues = self.queues.lock();
        for claim in claims {
            queues.change(claim.subject, &mut granted, |queue| queue.leave(*claim));
        }
        drop(queues);
        self.notify(granted);
    }

    /// Hands granted claims to their requests. A request that was dropped meanwhile drops its
    /// claim, which releases it.
    fn notify(self: &Arc<Self>, granted: GrantedClaims) {
        for WaitingClaim { claim, granted, .. } in granted {
            let turn = RenameTurn { turns: self.clone(), claims: SmallVec::from_slice(&[claim]) };
            drop(granted.send(turn));
        }
    }

    /// The file systems of a share: that of its root and those found below it.
    fn trees_of(&self, root_device: u64) -> TreeSet {
        let root = TreeSet::of(root_device);
        let below = root.numbers().map(|number| self.below[number].load(Ordering::SeqCst));
        below.fold(root, |all, below| all.union(TreeSet(below)))
    }

    /// Records that a file of another file system was found below a share's root. Opens that
    /// look for renames from then on see those of that file system, too.
    pub fn note_device(&self, root_device: u64, device: u64) {
        let (root, found) = (TreeSet::of(root_device), TreeSet::of(device));
        if device == root_device || self.trees_of(root_device).contains(found) {
            return;
        }
        for number in root.numbers() {
            self.below[number].fetch_or(found.0, Ordering::SeqCst);
        }
    }

    /// Number of the last rename that has ended, to read before a path is resolved: see
    /// [`RenameTurns::is_current`].
    pub fn epoch(&self) -> RenameEpoch {
        self.counts.epoch()
    }

    /// Whether a lookup after `epoch` is still true: no rename that concerns the subject is in
    /// flight or has ended since. To call after the open is registered; without a file, after a
    /// lookup that found none.
    ///
    /// Either a rename sees a registered open, or that open sees that the rename has begun: both
    /// announce themselves before they look.
    pub fn is_current(&self, epoch: RenameEpoch, subject: RenameSubject<'_>) -> bool {
        self.counts.is_quiet_since(epoch)
            || (self.is_tree_current(epoch, subject.root_device)
                && self.counts.is_file_quiet_since(epoch, subject))
    }

    /// The same for an open that has claimed the directory of its name: renames of files do not
    /// concern it.
    pub fn is_tree_current(&self, epoch: RenameEpoch, root_device: u64) -> bool {
        self.counts.are_trees_quiet_since(epoch, self.trees_of(root_device))
    }

    /// Whether a rename is in flight that concerns the subject.
    pub fn is_in_flight(&self, subject: RenameSubject<'_>) -> bool {
        self.counts.is_in_flight(self.trees_of(subject.root_device), subject)
    }

    /// Announces a rename in its turn to all opens in its tree: they resolve their path again.
    pub fn begin_rename(&self, turn: &RenameTurn) -> RenameInFlight<'_> {
        self.counts.begin_in_trees(turn.trees(|_| true))
    }

    /// Announces the rename of a file that is no symbolic link, a new name of it, or the rename of
    /// one of its streams, to opens of the file and by these names. Streams need no turn.
    pub fn begin_file_rename(&self, file: FileKey, names: &[&RelPath]) -> RenameInFlight<'_> {
        let mut renaming = self.counts.begin_in_trees(TreeSet::default());
        renaming.note_file(file);
        names.iter().for_each(|name| renaming.note_name(name));
        renaming
    }
}

fn directory(key: FileKey) -> TurnClaim {
    TurnClaim { subject: ClaimSubject::Directory(key), is_exclusive: true }
}

fn whole(trees: TreeSet) -> impl Iterator<Item = TurnClaim> {
    trees
        .numbers()
        .map(|number| TurnClaim { subject: ClaimSubject::Tree(number), is_exclusive: true })
}

/// Finds a directory whose entry changes, in order to claim it. None if it is gone with all its
/// entries.
///
/// # Errors
/// Errors of the lookup: the directory may exist, and the change needs its claim.
pub(crate) fn directory_to_claim(
    context: &RequestContext,
    volume: &Volume,
    path: &RelPath,
) -> Result<Option<OpenedNode>> {
    let (names, actor) = (volume.names(), context.call(LOCATE));
    match names.open_directory(actor, path, Case::Sensitive, Wait::Allowed) {
        Ok(found) => Ok(Some(found.opened)),
        Err(FsError::NotFound | FsError::PathNotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Claims of a change of names, until it is dropped.
#[derive(Debug)]
pub(crate) struct RenameTurn {
    turns: Arc<RenameTurns>,
    claims: SmallVec<[TurnClaim; 4]>,
}

impl RenameTurn {
    /// Claims directories in addition, without waiting. False, without any effect, if that is not
    /// possible: release the turn and take one with these directories.
    #[must_use]
    pub fn try_add_directories(&mut self, keys: &[FileKey]) -> bool {
        let lacks = |claim: &TurnClaim| self.claims.binary_search(claim).is_err();
        let mut more: SmallVec<[TurnClaim; 2]> = SmallVec::new();
        for key in keys {
            let tree = self.trees(|_| true);
            if !tree.contains(TreeSet::of(key.device)) {
                return false;
            }
            let is_whole = self.trees(|claim| claim.is_exclusive);
            let claim = directory(*key);
            let is_new = lacks(&claim) && !more.contains(&claim);
            if !is_whole.contains(TreeSet::of(key.device)) && is_new {
                more.push(claim);
            }
        }
        self.try_add(&more)
    }

    fn trees(&self, is_meant: impl Fn(&TurnClaim) -> bool) -> TreeSet {
        let numbers =
            self.claims.iter().filter(|claim| is_meant(claim)).map(|claim| match claim.subject {
                ClaimSubject::Tree(number) => TreeSet(1 << number),
                ClaimSubject::File(_) | ClaimSubject::Directory(_) => TreeSet::default(),
            });
        numbers.fold(TreeSet::default(), TreeSet::union)
    }

    /// Takes all claims or none. The turn must hold none of them.
    fn try_add(&mut self, claims: &[TurnClaim]) -> bool {
        let mut queues = self.turns.queues.lock();
        if !claims.iter().all(|claim| queues.is_free(*claim)) {
            return false;
        }
        claims.iter().for_each(|claim| queues.enter(*claim));
        drop(queues);
        self.claims.extend_from_slice(claims);
        self.claims.sort_unstable();
        true
    }
}

impl Drop for RenameTurn {
    fn drop(&mut self) {
        if !self.claims.is_empty() {
            self.turns.release(&self.claims);
        }
    }
}

#[cfg(test)]
mod tests;
