//! Whether what was answered can have come about: the operations under way
//! are tried in every order, and what cannot be is dropped.
//!
//! Just-in-time linearization: all possible states are kept, and an operation
//! is put into its place no earlier than some answer needs it there.

use crate::model::{Answer, File, Op, OpId, Progress, Request, Rules, State};
use std::collections::{BTreeMap, BTreeSet};

/// States tried at one answer. Beyond it the run is no longer judged.
const TRIED_MAX: usize = 60_000;

/// One way in which it may have been.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct World {
    state: State,
    progress: BTreeMap<OpId, Progress>,
}

/// What has happened so far.
pub struct History {
    rules: Rules,
    worlds: BTreeSet<World>,
    pending: BTreeMap<OpId, Request>,
    /// Sessions whose connection is gone and whose opens are being closed.
    ending: BTreeSet<u32>,
    said: Vec<String>,
    /// There were too many possibilities: nothing is judged any more.
    pub gave_up: bool,
    /// The most states that were tried at one answer.
    pub tried_max: usize,
}

/// What cannot have come about.
#[derive(Debug)]
pub struct Impossible(pub String);

impl History {
    /// The history of a tree without files.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let world = World { state: State::default(), progress: BTreeMap::new() };
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

    /// Number of operations that have not been answered.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// An operation is asked for.
    pub fn ask(&mut self, request: Request) {
        self.change(|world| drop(world.progress.insert(request.id, Progress::New)));
        self.pending.insert(request.id, request);
    }

    /// The cancellation of an operation is asked for.
    pub fn cancel(&mut self, id: OpId) {
        if let Some(request) = self.pending.get_mut(&id) {
            request.is_cancelled = true;
        }
    }

    /// An operation has been answered.
    ///
    /// # Errors
    /// [`Impossible`] if no order of what is under way allows it.
    pub fn answer(&mut self, id: OpId, answer: &Answer) -> Result<(), Impossible> {
        self.said.push(format!("has {id}: {answer:x?}"));
        let said = format!("{:?} was answered {answer:x?}", self.pending.get(&id));
        self.settle(&said, |world| match world.progress.get(&id) {
            Some(Progress::Done(allowed)) if allowed.allows(answer) => {
                let mut world = world.clone();
                world.progress.remove(&id);
                Some(world)
            }
            _ => None,
        })?;
        self.pending.remove(&id);
        Ok(())
    }

    /// What has been answered since this was asked last, for a log.
    pub fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    /// An operation failed because the one before it did, and was never begun.
    ///
    /// # Errors
    /// [`Impossible`] if it must have been.
    pub fn withdraw(&mut self, id: OpId) -> Result<(), Impossible> {
        self.pending.remove(&id);
        self.settle("withdrawn", |world| {
            let mut world = world.clone();
            (world.progress.remove(&id) == Some(Progress::New)).then_some(world)
        })
    }

    /// The connection of a session has gone: its opens are closed from now on.
    pub fn begin_end(&mut self, session: u32) {
        self.ending.insert(session);
    }

    /// Nothing runs for that session any more.
    ///
    /// # Errors
    /// [`Impossible`] never, as long as opens can be closed.
    pub fn end(&mut self, session: u32) -> Result<(), Impossible> {
        let requests: Vec<OpId> =
            self.pending.values().filter(|r| r.session == session).map(|r| r.id).collect();
        // Another session that ends may have a removal to do yet.
        let several = self.ending.len() > 1;
        // What was under way for it may have happened or not.
        self.settle_all("end of a session", |world| {
            // What another's CLOSE or end is about to remove.
            let removing = |file| {
                let at = |p: &Progress| matches!(p, Progress::At(2, f) if *f == file);
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

    /// The process has died and left this behind.
    ///
    /// # Errors
    /// [`Impossible`] if an answered operation is not in it.
    pub fn kill(&mut self, image: &BTreeMap<u8, Vec<u8>>) -> Result<(), Impossible> {
        let said = format!("the process died and left {image:?}");
        self.settle_all(&said, |world| {
            let mut state = world.state.clone();
            state.kill();
            (state.image() == *image).then(|| World { state, progress: BTreeMap::new() })
        })?;
        self.pending.clear();
        self.ending.clear();
        Ok(())
    }

    /// The machine has lost power, and this was found.
    ///
    /// # Errors
    /// [`Impossible`] if what was made durable is not in it.
    pub fn lose_power(&mut self, image: &BTreeMap<u8, Vec<u8>>) -> Result<(), Impossible> {
        let said = format!("power was lost and {image:?} found");
        self.settle_all(&said, |world| {
            let promises = world.state.files.values().filter_map(|file| file.durable.as_ref());
            let mut promises = promises;
            promises.all(|durable| durable.is_kept(image)).then(|| world.clone())
        })?;
        let mut state = State::default();
        for (name, cells) in image {
            // No operation has such a number.
            let file = File { cells: cells.clone(), name: Some(*name), ..File::default() };
            state.files.insert(OpId::MAX - OpId::from(*name), file);
        }
        self.worlds = BTreeSet::from([World { state, progress: BTreeMap::new() }]);
        self.pending.clear();
        self.ending.clear();
        Ok(())
    }

    /// All clients have gone, and this is left.
    ///
    /// # Errors
    /// [`Impossible`] if it should be something else.
    pub fn finish(&mut self, image: &BTreeMap<u8, Vec<u8>>) -> Result<(), Impossible> {
        let said = format!("at the end there is {image:?}");
        self.settle(&said, |world| (world.state.image() == *image).then(|| world.clone()))
    }

    /// The file that an open is of, if that is certain.
    #[must_use]
    pub fn file_of(&self, open: OpId) -> Option<OpId> {
        let mut files = self.worlds.iter().map(|w| w.state.opens.get(&open).map(|o| o.file));
        let first = files.next()??;
        files.all(|file| file == Some(first)).then_some(first)
    }

    /// Whether an open, if it is there for certain, uses the content of its file.
    #[must_use]
    pub fn uses_data(&self, open: OpId) -> bool {
        self.worlds.iter().all(|w| w.state.opens.get(&open).is_some_and(|o| o.access != 0))
    }

    /// Whether a request may have to wait for ever, as things are: a lock that
    /// another holds.
    #[must_use]
    pub fn may_wait(&self, id: OpId) -> bool {
        let Some(request) = self.pending.get(&id) else { return false };
        let Op::Lock { open, lock: cells, exclusive, waits: true } = request.op else {
            return false;
        };
        self.gave_up
            || self.worlds.iter().any(|world| {
                let file =
                    world.state.opens.get(&open).and_then(|o| world.state.files.get(&o.file));
                let wanted = crate::model::Lock { open, cells, exclusive };
                file.is_some_and(|file| file.is_locked_against(&wanted))
            })
    }

    /// The states that are possible, for a report.
    #[must_use]
    pub fn describe(&self) -> String {
        let pending: Vec<String> = self.pending.values().map(|r| format!("  {r:?}\n")).collect();
        let worlds: Vec<String> =
            self.worlds.iter().take(3).map(|w| format!("  {w:?}\n")).collect();
        let (pending, count, worlds) = (pending.concat(), self.worlds.len(), worlds.concat());
        format!("pending:\n{pending}{count} possible states, among them:\n{worlds}")
    }

    fn change(&mut self, run: impl Fn(&mut World)) {
        let worlds = std::mem::take(&mut self.worlds);
        self.worlds = worlds
            .into_iter()
            .map(|mut w| {
                run(&mut w);
                w
            })
            .collect();
    }

    /// Keeps what reaches the goal, by as few steps as it takes.
    fn settle(
        &mut self,
        said: &str,
        goal: impl Fn(&World) -> Option<World>,
    ) -> Result<(), Impossible> {
        self.search(said, false, goal)
    }

    /// Keeps all that reaches the goal, by any steps.
    fn settle_all(
        &mut self,
        said: &str,
        goal: impl Fn(&World) -> Option<World>,
    ) -> Result<(), Impossible> {
        self.search(said, true, goal)
    }

    fn search(
        &mut self,
        said: &str,
        goes_on: bool,
        goal: impl Fn(&World) -> Option<World>,
    ) -> Result<(), Impossible> {
        if self.gave_up {
            return Ok(());
        }
        let mut seen = self.worlds.clone();
        let mut left: Vec<World> = self.worlds.iter().cloned().collect();
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
            return Err(Impossible(format!("impossible: {said}\n{}", self.describe())));
        }
        self.worlds = reached;
        Ok(())
    }

    fn successors(&self, world: &World) -> Vec<World> {
        let mut after = Vec::new();
        for (id, request) in &self.pending {
            let Some(progress) = world.progress.get(id) else { continue };
            let waits_for = request.after.and_then(|before| world.progress.get(&before));
            if waits_for.is_some_and(|before| !matches!(before, Progress::Done(_))) {
                continue;
            }
            for (state, next) in world.state.step(request, progress, self.rules) {
                let mut progress = world.progress.clone();
                progress.insert(*id, next);
                after.push(World { state, progress });
            }
        }
        for session in &self.ending {
            let states = world.state.end_session(*session);
            let with = |state| World { state, progress: world.progress.clone() };
            after.extend(states.into_iter().map(with));
        }
        after
    }
}
