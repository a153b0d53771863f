//! Scheduler of the work within the server: suspended fibers, worker calls, and detached work. The
//! worlds of both protocols share it.

use crate::environment::{DetachedWork, ProcessEnvironment};
use crate::fibers::{FiberId, FiberTurn, Fibers};
use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

/// Result of a turn. `S` is the server's end of a connection.
pub enum TurnOutcome<S> {
    /// A connection's step; an error if the connection must be closed.
    Stepped(u32, Box<S>, Result<(), String>),
    /// Detached work; its remainder, if it has not ended.
    Detached(Option<DetachedWork>),
    /// A worker call, or the end of a connection.
    Over,
}

/// Work that can continue.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// A suspended fiber.
    Resume(FiberId),
    /// A worker call.
    Work(usize),
    /// Detached work that was woken.
    Carry(usize),
}

/// The connection whose step has ended, with its server end; `None` for other turns.
pub type FinishedStep<S> = Option<(u32, Box<S>)>;

/// See the module.
pub struct Runner<S> {
    fibers: Fibers<TurnOutcome<S>>,
    /// Parked fibers, each with the connection on whose behalf it runs.
    parked: BTreeMap<FiberId, u32>,
    carried: Vec<DetachedWork>,
}

impl<S> Default for Runner<S> {
    fn default() -> Self {
        Self { fibers: Fibers::default(), parked: BTreeMap::new(), carried: Vec::new() }
    }
}

impl<S: Send + 'static> Runner<S> {
    /// Collects work that was started meanwhile.
    pub fn collect(&mut self, environment: &ProcessEnvironment) {
        self.carried.extend(environment.take_carried());
    }

    /// All work that can continue, with its weight as the next action.
    pub fn nexts(&self, environment: &ProcessEnvironment) -> Vec<(u32, Next)> {
        let mut nexts: Vec<_> = self.parked.keys().map(|id| (10, Next::Resume(*id))).collect();
        let tasks = environment.task_weights();
        nexts.extend(tasks.into_iter().enumerate().map(|(at, w)| (w, Next::Work(at))));
        let woken = self.carried.iter().enumerate().filter(|(_, (_, flag))| flag.is_raised());
        nexts.extend(woken.map(|(at, _)| (10, Next::Carry(at))));
        nexts
    }

    /// Continues one of them.
    ///
    /// # Errors
    /// The work has panicked, or is stuck.
    pub fn go_on(
        &mut self,
        environment: &ProcessEnvironment,
        next: Next,
    ) -> Result<FinishedStep<S>, String> {
        match next {
            Next::Resume(id) => {
                let Some(owner) = self.parked.remove(&id) else { return Ok(None) };
                environment.set_owner(owner as usize);
                let turn = self.fibers.resume(id);
                self.end_turn(owner, turn)
            }
            Next::Work(at) => {
                let task = environment.take_task(at);
                self.start(environment, task.owner as u32, move || {
                    (task.run)();
                    TurnOutcome::Over
                })
            }
            Next::Carry(at) => {
                let (mut work, flag) = self.carried.swap_remove(at);
                self.start(environment, 0, move || {
                    flag.lower();
                    let waker = Waker::from(flag.clone());
                    let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
                    TurnOutcome::Detached(matches!(polled, Poll::Pending).then_some((work, flag)))
                })
            }
        }
    }

    /// Starts work on behalf of a connection.
    ///
    /// # Errors
    /// The work has panicked or is stuck, or the server closes a connection.
    pub fn start(
        &mut self,
        environment: &ProcessEnvironment,
        owner: u32,
        work: impl FnOnce() -> TurnOutcome<S> + Send + 'static,
    ) -> Result<FinishedStep<S>, String> {
        environment.set_owner(owner as usize);
        let turn = self.fibers.start(Box::new(work));
        self.end_turn(owner, turn)
    }

    fn end_turn(
        &mut self,
        owner: u32,
        turn: FiberTurn<TurnOutcome<S>>,
    ) -> Result<FinishedStep<S>, String> {
        match turn {
            FiberTurn::Failed(what) => Err(what),
            FiberTurn::Parked(id) => {
                self.parked.insert(id, owner);
                Ok(None)
            }
            FiberTurn::Done(TurnOutcome::Over) => Ok(None),
            FiberTurn::Done(TurnOutcome::Detached(left)) => {
                self.carried.extend(left);
                Ok(None)
            }
            FiberTurn::Done(TurnOutcome::Stepped(number, side, Ok(()))) => Ok(Some((number, side))),
            FiberTurn::Done(TurnOutcome::Stepped(number, _, Err(close))) => {
                Err(format!("the server closes the connection {number}: {close}"))
            }
        }
    }

    /// Runs the work of a dead process to its end; its effects are discarded.
    ///
    /// # Errors
    /// The work does not end.
    pub fn bury(&mut self) -> Result<(), String> {
        for id in std::mem::take(&mut self.parked).into_keys() {
            match self.fibers.resume(id) {
                FiberTurn::Failed(what) => return Err(what),
                FiberTurn::Parked(_) => return Err("a dead process goes on".into()),
                FiberTurn::Done(outcome) => drop(outcome),
            }
        }
        self.carried.clear();
        Ok(())
    }
}
