//! A file layer over an in-memory tree, with or without the cache in between.

use super::surroundings::CacheEnvironment;
use super::{CacheStep, Hits, Requester, generate};
use crate::random::Random;
use files::{
    Access, CallHolder, Caller, ClientProtocol, Descriptor, Files, Inline, ObjectHandle, OpenFile,
    RequestContext, RequestFiles, Volume, VolumeOptions,
};
use futures_util::FutureExt;
use std::future::Future;
use std::sync::Arc;
use vfs::memory::{MemoryOptions, MemoryVfs};
use vfs::{
    ArrivalOrder, Attributes, DosInfo, FsError, Identity, KeyedBuildHasher, MetadataPresence,
};
use vfs_cache::{CacheOptions, CachedVfs};

/// Result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerReply {
    Done,
    Refused(FsError),
    /// The operation would wait for another client.
    Waits,
    /// Attributes at the open and now, the granted access, and the descriptor.
    Seen(Box<(Attributes, Attributes, Access, Option<Descriptor>)>),
    Data(Vec<u8>),
    Listed(Vec<(Vec<u8>, Attributes)>),
}

/// A reply, or the one that ends an operation early.
pub(super) type StepResult = Result<LayerReply, LayerReply>;

/// One of the two file layers on which every operation runs.
pub struct FileLayer {
    pub files: RequestFiles,
    pub volume: Arc<Volume>,
    pub backend: Arc<MemoryVfs>,
    cache: Option<Arc<CachedVfs>>,
    pub callers: [Arc<Caller>; 2],
    /// Retained opens of users by path, and handles of users by handle.
    pub held: [Option<Arc<OpenFile>>; generate::SLOTS],
    pub handles: [Option<ObjectHandle>; generate::SLOTS],
}

impl FileLayer {
    pub fn plain(around: Arc<CacheEnvironment>) -> Self {
        let backend = tree(around);
        Self::over(backend, None)
    }

    /// Creates a side with a cache of random size.
    pub fn cached(around: Arc<CacheEnvironment>, random: &mut Random) -> Self {
        let clock = around.clock();
        let options = CacheOptions {
            budget_bytes: random.pick(&[2_000, 8_000, 20_000, 1 << 20, 1 << 20]),
            directories_max: random.pick(&[2, 4, 1000]),
            open_nodes_max: random.pick(&[1, 3, 1000]),
        };
        let backend = tree(around);
        let hasher = KeyedBuildHasher::by(random.next());
        let cache = Arc::new(CachedVfs::keyed(backend.clone(), options, clock, &hasher));
        Self::over(backend, Some(cache))
    }

    fn over(backend: Arc<MemoryVfs>, cache: Option<Arc<CachedVfs>>) -> Self {
        let user = |uid| {
            let identity = Identity { uid, gid: uid, groups: Vec::new() };
            Arc::new(Caller::of(identity))
        };
        let options = VolumeOptions { absolute_links: true, ..VolumeOptions::default() };
        let volume = Arc::new(match &cache {
            Some(cache) => Volume::cached(cache.clone(), options),
            None => Volume::new(backend.clone(), options),
        });
        let files = Arc::new(Files::new(Arc::new(Inline))).for_server();
        let (held, handles) = Default::default();
        Self { files, volume, backend, cache, callers: [user(1000), user(1001)], held, handles }
    }

    /// Cache hits.
    pub fn hits(&self) -> Hits {
        let counts = self.cache.iter().flat_map(|cache| cache.counts());
        counts.map(|(kind, count)| (kind, count.hits)).collect()
    }

    /// Starts a request that arrives now; it covers the steps until its end.
    pub fn begin_request(&mut self) {
        let order = ArrivalOrder::next();
        let context = RequestContext::new(ClientProtocol::Smb, [0; 16], None, order);
        self.files = self.files.for_request(&context, CallHolder::Server);
    }

    /// Ends the request.
    pub fn end_request(&mut self) {
        self.files = self.files.for_server();
    }

    /// Performs a step.
    pub fn step(&mut self, step: &CacheStep) -> LayerReply {
        match (step, &self.cache) {
            (CacheStep::Do(Requester::Paths(user), op), _) => self.by_path(*user, op),
            (CacheStep::Do(Requester::Handles(user), op), _) => self.by_handle(*user, op),
            (CacheStep::Do(Requester::Local, op), _) => self.by_local(op),
            (CacheStep::Wait { ticks: true, .. }, Some(cache)) => {
                cache.tick();
                LayerReply::Done
            }
            (CacheStep::Switch(is_on), Some(cache)) => {
                cache.set_enabled(*is_on);
                LayerReply::Done
            }
            (CacheStep::Budget(bytes), Some(cache)) => {
                cache.set_budget(*bytes);
                LayerReply::Done
            }
            _ => LayerReply::Done,
        }
    }
}

fn tree(around: Arc<CacheEnvironment>) -> Arc<MemoryVfs> {
    let capacity_bytes = MemoryOptions::ENDLESS_BYTES;
    let options =
        MemoryOptions { counts_changes: false, capacity_bytes, ..MemoryOptions::default() };
    Arc::new(MemoryVfs::new(options, around))
}

/// Runs an operation to its end. No other operation is in flight, so it can only wait for a
/// retained open.
pub fn now<T>(work: impl Future<Output = vfs::Result<T>>) -> Result<T, LayerReply> {
    match work.now_or_never() {
        Some(result) => result.map_err(LayerReply::Refused),
        None => Err(LayerReply::Waits),
    }
}

/// Removes fields that are at their default or not, depending on the access path.
pub fn without_stored(attributes: Attributes) -> Attributes {
    Attributes { dos: DosInfo::default(), stored: MetadataPresence::UNKNOWN, ..attributes }
}

/// A result, successful or not.
pub fn either(answer: Result<LayerReply, LayerReply>) -> LayerReply {
    answer.unwrap_or_else(|refused| refused)
}

impl From<FsError> for LayerReply {
    fn from(error: FsError) -> Self {
        Self::Refused(error)
    }
}
