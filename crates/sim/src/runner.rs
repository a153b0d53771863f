//! Scheduler of the work within the server: suspended fibers, worker calls, and detached work. The
//! worlds of both protocols share it.

use crate::environment::{DetachedWork, Environment};
use crate::fibers::{FiberId, Fibers, Turn};
use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

/// Result of a turn. `S` is the server's end of a connection.
pub enum Outcome<S> {
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
    fibers: Fibers<Outcome<S>>,
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
    pub fn collect(&mut self, environment: &Environment) {
        self.carried.extend(environment.take_carried());
    }

    /// All work that can continue, with its weight as the next action.
    pub fn nexts(&self, environment: &Environment) -> Vec<(u32, Next)> {
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
        environment: &Environment,
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
                    Outcome::Over
                })
            }
            Next::Carry(at) => {
                let (mut work, flag) = self.carried.swap_remove(at);
                self.start(environment, 0, move || {
                    flag.lower();
                    let waker = Waker::from(flag.clone());
                    let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
                    Outcome::Detached(matches!(polled, Poll::Pending).then_some((work, flag)))
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
        environment: &Environment,
        owner: u32,
        work: impl FnOnce() -> Outcome<S> + Send + 'static,
    ) -> Result<FinishedStep<S>, String> {
        environment.set_owner(owner as usize);
        let turn = self.fibers.start(Box::new(work));
        self.end_turn(owner, turn)
    }

    fn end_turn(&mut self, owner: u32, turn: Turn<Outcome<S>>) -> Result<FinishedStep<S>, String> {
        match turn {
            Turn::Failed(what) => Err(what),
            Turn::Parked(id) => {
                self.parked.insert(id, owner);
                Ok(None)
            }
            Turn::Done(Outcome::Over) => Ok(None),
            Turn::Done(Outcome::Detached(left)) => {
                self.carried.extend(left);
                Ok(None)
            }
            Turn::Done(Outcome::Stepped(number, side, Ok(()))) => Ok(Some((number, side))),
            Turn::Done(Outcome::Stepped(number, _, Err(close))) => {
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
                Turn::Failed(what) => return Err(what),
                Turn::Parked(_) => return Err("a dead process goes on".into()),
                Turn::Done(outcome) => drop(outcome),
            }
        }
        self.carried.clear();
        Ok(())
    }
}
