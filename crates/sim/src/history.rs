//! Decides whether the replies are possible: tries the operations in flight in every order, and
//! drops impossible states.
//!
//! Just-in-time linearization: the history retains all possible states, and executes an operation
//! no earlier than some reply requires.

use crate::model::{
    FileOperation, ModelAnswer, ModelRequest, ModelRules, ModelState, OpId, OperationProgress,
    ReferenceFile,
};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of states per reply. Beyond it the run is no longer judged.
const TRIED_MAX: usize = 60_000;

/// One possible state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct PossibleState {
    state: ModelState,
    progress: BTreeMap<OpId, OperationProgress>,
}

/// The history of a run.
pub struct OperationHistory {
    rules: ModelRules,
    worlds: BTreeSet<PossibleState>,
    pending: BTreeMap<OpId, ModelRequest>,
    /// Sessions whose connection is lost and whose opens are being closed.
    ending: BTreeSet<u32>,
    said: Vec<String>,
    /// The judgement stopped, because too many states were possible.
    pub gave_up: bool,
    /// Maximum number of states tried for one reply.
    pub tried_max: usize,
}

/// An impossible reply.
#[derive(Debug)]
pub struct Contradiction(pub String);

impl OperationHistory {
    /// The history of an empty tree.
    #[must_use]
    pub fn new(rules: ModelRules) -> Self {
        let world = PossibleState { state: ModelState::default(), progress: BTreeMap::new() };
        Self {
            rules,
            worlds: BTreeSet::from([world]),
            pending: BTreeMap::new(),
            ending: BTreeSet::new(),
            said: Vec::new(),
            gave_up: false,
            tried_max: 0,
        }
    }

    /// Number of operations in flight.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// An operation is requested.
    pub fn ask(&mut self, request: ModelRequest) {
        self.change(|world| drop(world.progress.insert(request.id, OperationProgress::New)));
        self.pending.insert(request.id, request);
    }

    /// The cancellation of an operation is requested.
    pub fn cancel(&mut self, id: OpId) {
        if let Some(request) = self.pending.get_mut(&id) {
            request.is_cancelled = true;
        }
    }

    /// An operation was answered.
    ///
    /// # Errors
    /// [`Contradiction`] if no order of the operations in flight allows the answer.
    pub fn answer(&mut self, id: OpId, answer: &ModelAnswer) -> Result<(), Contradiction> {
        self.said.push(format!("has {id}: {answer:x?}"));
        let said = format!("{:?} was answered {answer:x?}", self.pending.get(&id));
        self.settle(&said, |world| match world.progress.get(&id) {
            Some(OperationProgress::Done(allowed)) if allowed.allows(answer) => {
                let mut world = world.clone();
                world.progress.remove(&id);
                Some(world)
            }
            _ => None,
        })?;
        self.pending.remove(&id);
        Ok(())
    }

    /// Takes the replies since the last query, for a log.
    pub fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    /// An operation failed unexecuted, because its predecessor failed.
    ///
    /// # Errors
    /// [`Contradiction`] if it must have been executed.
    pub fn withdraw(&mut self, id: OpId) -> Result<(), Contradiction> {
        self.pending.remove(&id);
        self.settle("withdrawn", |world| {
            let mut world = world.clone();
            (world.progress.remove(&id) == Some(OperationProgress::New)).then_some(world)
        })
    }

    /// The connection of a session is lost; its opens are closed from now on.
    pub fn begin_end(&mut self, session: u32) {
        self.ending.insert(session);
    }

    /// No work of the session is left.
    ///
    /// # Errors
    /// [`Contradiction`] never, as long as opens can be closed.
    pub fn end(&mut self, session: u32) -> Result<(), Contradiction> {
        let requests: Vec<OpId> =
            self.pending.values().filter(|r| r.session == session).map(|r| r.id).collect();
        // Another ending session may still have a delete pending.
        let several = self.ending.len() > 1;
        // Its operations in flight may have been executed or not.
        self.settle_all("end of a session", |world| {
            // Files that another CLOSE or ending session is about to remove.
            let removing = |file| {
                let at =
                    |p: &OperationProgress| matches!(p, OperationProgress::At(2, f) if *f == file);
                world.progress.iter().any(|(id, p)| at(p) && !requests.contains(id))
            };
            let is_clean = several || world.state.removable().all(removing);
            if !world.state.is_rid_of(session) || !is_clean {
                return None;
            }
            let mut world = world.clone();
            world.progress.retain(|id, _| !requests.contains(id));
            Some(world)
        })?;
        self.pending.retain(|_, request| request.session != session);
        self.ending.remove(&session);
        Ok(())
    }

    /// The process died and left this tree.
    ///
    /// # Errors
    /// [`Contradiction`] if an answered operation is missing from the tree.
    pub fn kill(&mut self, image: &BTreeMap<u8, Vec<u8>>) -> Result<(), Contradiction> {
        let said = format!("the process died and left {image:?}");
        self.settle_all(&said, |world| {
            let mut state = world.state.clone();
            state.kill();
            (state.image() == *image).then(|| PossibleState { state, progress: BTreeMap::new() })
        })?;
        self.pending.clear();
        self.ending.clear();
        Ok(())
    }

    /// The machine lost power and left this tree.
    ///
    /// # Errors
    /// [`Contradiction`] if durable data is missing from the tree.
    pub fn lose_power(&mut self, image: &BTreeMap<u8, Vec<u8>>) -> Result<(), Contradiction> {
        let said = format!("power was lost and {image:?} found");
        self.settle_all(&said, |world| {
            let promises = world.state.files.values().filter_map(|file| file.durable.as_ref());
            let mut promises = promises;
            promises.all(|durable| durable.is_kept(image)).then(|| world.clone())
        })?;
        let mut state = ModelState::default();
        for (name, cells) in image {
            // No operation has such a number.
            let file = ReferenceFile {
                cells: cells.clone(),
                name: Some(*name),
                ..ReferenceFile::default()
            };
            state.files.insert(OpId::MAX - OpId::from(*name), file);
        }
        self.worlds = BTreeSet::from([PossibleState { state, progress: BTreeMap::new() }]);
        self.pending.clear();
        self.ending.clear();
        Ok(())
    }

    /// All clients are gone and left this tree.
    ///
    /// # Errors
    /// [`Contradiction`] if the tree is not a possible one.
    pub fn finish(&mut self, image: &BTreeMap<u8, Vec<u8>>) -> Result<(), Contradiction> {
        let said = format!("at the end there is {image:?}");
        self.settle(&said, |world| (world.state.image() == *image).then(|| world.clone()))
    }

    /// The file of an open, if it is certain.
    #[must_use]
    pub fn file_of(&self, open: OpId) -> Option<OpId> {
        let mut files = self.worlds.iter().map(|w| w.state.opens.get(&open).map(|o| o.file));
        let first = files.next()??;
        files.all(|file| file == Some(first)).then_some(first)
    }

    /// True if a certain open accesses the contents of its file.
    #[must_use]
    pub fn uses_data(&self, open: OpId) -> bool {
        self.worlds.iter().all(|w| w.state.opens.get(&open).is_some_and(|o| o.access != 0))
    }

    /// True if a request may wait indefinitely for another client's lock.
    #[must_use]
    pub fn may_wait(&self, id: OpId) -> bool {
        let Some(request) = self.pending.get(&id) else { return false };
        let FileOperation::Lock { open, lock: cells, exclusive, waits: true } = request.op else {
            return false;
        };
        self.gave_up
            || self.worlds.iter().any(|world| {
                let file =
                    world.state.opens.get(&open).and_then(|o| world.state.files.get(&o.file));
                let wanted = crate::model::ModelLock { open, cells, exclusive };
                file.is_some_and(|file| file.is_locked_against(&wanted))
            })
    }

    /// Describes the possible states, for a report.
    #[must_use]
    pub fn describe(&self) -> String {
        let pending: Vec<String> = self.pending.values().map(|r| format!("  {r:?}\n")).collect();
        let worlds: Vec<String> =
            self.worlds.iter().take(3).map(|w| format!("  {w:?}\n")).collect();
        let (pending, count, worlds) = (pending.concat(), self.worlds.len(), worlds.concat());
        format!("pending:\n{pending}{count} possible states, among them:\n{worlds}")
    }

    fn change(&mut self, run: impl Fn(&mut PossibleState)) {
        let worlds = std::mem::take(&mut self.worlds);
        self.worlds = worlds
            .into_iter()
            .map(|mut w| {
                run(&mut w);
                w
            })
            .collect();
    }

    /// Retains the states that reach the goal with the fewest steps.
    fn settle(
        &mut self,
        said: &str,
        goal: impl Fn(&PossibleState) -> Option<PossibleState>,
    ) -> Result<(), Contradiction> {
        self.search(said, false, goal)
    }

    /// Retains all states that reach the goal with any steps.
    fn settle_all(
        &mut self,
        said: &str,
        goal: impl Fn(&PossibleState) -> Option<PossibleState>,
    ) -> Result<(), Contradiction> {
        self.search(said, true, goal)
    }

    fn search(
        &mut self,
        said: &str,
        goes_on: bool,
        goal: impl Fn(&PossibleState) -> Option<PossibleState>,
    ) -> Result<(), Contradiction> {
        if self.gave_up {
            return Ok(());
        }
        let mut seen = self.worlds.clone();
        let mut left: Vec<PossibleState> = self.worlds.iter().cloned().collect();
        let mut reached = BTreeSet::new();
        while let Some(world) = left.pop() {
            if let Some(kept) = goal(&world) {
                reached.insert(kept);
                if !goes_on {
                    continue;
                }
            }
            for next in self.successors(&world) {
                if !seen.contains(&next) {
                    seen.insert(next.clone());
                    left.push(next);
                }
            }
            if seen.len() > TRIED_MAX {
                self.gave_up = true;
                return Ok(());
            }
        }
        self.tried_max = self.tried_max.max(seen.len());
        if reached.is_empty() {
            return Err(Contradiction(format!("impossible: {said}\n{}", self.describe())));
        }
        self.worlds = reached;
        Ok(())
    }

    fn successors(&self, world: &PossibleState) -> Vec<PossibleState> {
        let mut after = Vec::new();
        for (id, request) in &self.pending {
            let Some(progress) = world.progress.get(id) else { continue };
            let waits_for = request.after.and_then(|before| world.progress.get(&before));
            if waits_for.is_some_and(|before| !matches!(before, OperationProgress::Done(_))) {
                continue;
            }
            for (state, next) in world.state.step(request, progress, self.rules) {
                let mut progress = world.progress.clone();
                progress.insert(*id, next);
                after.push(PossibleState { state, progress });
            }
        }
        for session in &self.ending {
            let states = world.state.end_session(*session);
            let with = |state| PossibleState { state, progress: world.progress.clone() };
            after.extend(states.into_iter().map(with));
        }
        after
    }
}
