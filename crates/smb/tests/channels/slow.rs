//! A server without cached data, so that workers do all the work, on demand of the test. Detached
//! work also runs on demand.

use files::{CallHolder, Workers};
use futures_util::FutureExt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vfs::memory::MemoryVfs;
use vfs::{
    Actor, Case, CreateHow, CreationMode, FileKey, FsError, Node, OpenHow, OpenedNode, RelPath,
    Replace, Result, Space, SpecialKind, TreeFeatures, Vfs, Wait,
};

type BlockedTask = Box<dyn FnOnce() + Send>;
pub type DetachedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Workers that a test can block.
#[derive(Default)]
pub struct BlockableWorkers(Mutex<Option<Vec<BlockedTask>>>);

impl BlockableWorkers {
    /// Blocks the workers.
    pub fn hold(&self) {
        self.0.lock().unwrap().get_or_insert_default();
    }

    /// Runs the queued work, and blocks again.
    pub fn work(&self) {
        let tasks = std::mem::take(self.0.lock().unwrap().as_mut().expect("they are held"));
        tasks.into_iter().for_each(|task| task());
    }

    /// Unblocks the workers.
    pub fn release(&self) {
        let tasks = self.0.lock().unwrap().take();
        tasks.into_iter().flatten().for_each(|task| task());
    }
}

impl Workers for BlockableWorkers {
    fn run(&self, _: &CallHolder, task: BlockedTask) {
        let mut held = self.0.lock().unwrap();
        match &mut *held {
            Some(tasks) => tasks.push(task),
            None => {
                drop(held);
                task();
            }
        }
    }

    fn sleep(&self, _: Duration) -> DetachedFuture {
        Box::pin(std::future::pending())
    }
}

/// Detached work, which no task awaits.
#[derive(Default)]
pub struct DetachedWorkQueue(Mutex<Vec<DetachedFuture>>);

impl DetachedWorkQueue {
    pub fn take(&self, work: DetachedFuture) {
        self.0.lock().unwrap().push(work);
    }

    /// Polls all of it; returns the number of unfinished futures.
    pub fn run_detached(&self) -> usize {
        let mut works = std::mem::take(&mut *self.0.lock().unwrap());
        works.retain_mut(|work| work.as_mut().now_or_never().is_none());
        let mut carried = self.0.lock().unwrap();
        carried.extend(works);
        carried.len()
    }
}

/// A backend without cached data.
#[derive(Debug)]
pub struct ColdBackend(pub MemoryVfs);

impl Vfs for ColdBackend {
    fn open(&self, who: Actor<'_>, path: &RelPath, how: OpenHow) -> Result<OpenedNode> {
        if how.wait == Wait::Never { Err(FsError::WouldBlock) } else { self.0.open(who, path, how) }
    }

    fn create(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        self.0.create(who, path, case, how)
    }

    fn remove(&self, who: Actor<'_>, path: &RelPath, expected: FileKey) -> Result<()> {
        self.0.remove(who, path, expected)
    }

    fn rename(&self, who: Actor<'_>, from: &RelPath, to: &RelPath, replace: Replace) -> Result<()> {
        self.0.rename(who, from, to, replace)
    }

    fn link(&self, who: Actor<'_>, node: &dyn Node, to: &RelPath, replace: Replace) -> Result<()> {
        self.0.link(who, node, to, replace)
    }

    fn symlink(&self, who: Actor<'_>, path: &RelPath, target: &[u8]) -> Result<OpenedNode> {
        self.0.symlink(who, path, target)
    }

    fn open_node(&self, who: Actor<'_>, node: &dyn Node, how: OpenHow) -> Result<OpenedNode> {
        self.0.open_node(who, node, how)
    }

    fn create_special(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        kind: SpecialKind,
        mode: CreationMode,
    ) -> Result<OpenedNode> {
        self.0.create_special(who, path, kind, mode)
    }

    fn space(&self, who: Actor<'_>) -> Result<Space> {
        self.0.space(who)
    }

    fn features(&self) -> TreeFeatures {
        self.0.features()
    }
}

/// The parts of a server that a test can block.
pub struct BlockableParts {
    pub hands: Arc<BlockableWorkers>,
    pub carried: Arc<DetachedWorkQueue>,
}
