//! Fibers: suspendable work on threads, of which one runs at a time.
//!
//! The caller that starts or resumes a fiber waits until it parks or ends. So one place decides
//! which thread runs, and a run is repeatable.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A fiber that runs longer without parking is stuck: another fiber parked in a backend call holds
/// a lock.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// Id of a parked fiber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FiberId(pub u64);

/// Result of running a fiber.
#[derive(Debug)]
pub enum FiberTurn<T> {
    /// The fiber has parked, and continues when it is resumed.
    Parked(FiberId),
    /// The fiber has ended.
    Done(T),
    /// The fiber has panicked with this message, or is stuck.
    Failed(String),
}

enum FiberOrder<T> {
    Run(Box<dyn FnOnce() -> T + Send>),
    Resume,
}

enum FiberEvent<T> {
    Parked,
    Done(T),
    Panicked(String),
}

struct Thread<T> {
    orders: Sender<FiberOrder<T>>,
    events: Receiver<FiberEvent<T>>,
}

type Park = Box<dyn Fn()>;

thread_local! {
    static PARK: RefCell<Option<Park>> = const { RefCell::new(None) };
}

/// Parks the current fiber until it is resumed; does nothing on other threads.
pub fn park() {
    let park = PARK.with_borrow_mut(Option::take);
    if let Some(park) = park {
        park();
        PARK.with_borrow_mut(|slot| *slot = Some(park));
    }
}

/// All fibers: parked ones, and idle threads.
pub struct Fibers<T> {
    idle: Vec<Thread<T>>,
    parked: BTreeMap<FiberId, Thread<T>>,
    next: u64,
}

impl<T> Default for Fibers<T> {
    fn default() -> Self {
        Self { idle: Vec::new(), parked: BTreeMap::new(), next: 0 }
    }
}

impl<T: Send + 'static> Fibers<T> {
    /// Runs `work` until it parks or ends.
    pub fn start(&mut self, work: Box<dyn FnOnce() -> T + Send>) -> FiberTurn<T> {
        let thread = self.idle.pop().unwrap_or_else(Thread::spawn);
        self.go_on(thread, FiberOrder::Run(work))
    }

    /// Runs a parked fiber until it parks again or ends.
    pub fn resume(&mut self, id: FiberId) -> FiberTurn<T> {
        match self.parked.remove(&id) {
            Some(thread) => self.go_on(thread, FiberOrder::Resume),
            None => FiberTurn::Failed("a fiber was resumed that is not parked".into()),
        }
    }

    fn go_on(&mut self, thread: Thread<T>, order: FiberOrder<T>) -> FiberTurn<T> {
        if thread.orders.send(order).is_err() {
            return FiberTurn::Failed("a thread has ended".into());
        }
        match thread.events.recv_timeout(STUCK_AFTER) {
            Ok(FiberEvent::Parked) => {
                self.next += 1;
                let id = FiberId(self.next);
                self.parked.insert(id, thread);
                FiberTurn::Parked(id)
            }
            Ok(FiberEvent::Done(value)) => {
                self.idle.push(thread);
                FiberTurn::Done(value)
            }
            Ok(FiberEvent::Panicked(what)) => FiberTurn::Failed(format!("panic: {what}")),
            Err(RecvTimeoutError::Timeout) => {
                FiberTurn::Failed("stuck: a lock is held across a backend call".into())
            }
            Err(RecvTimeoutError::Disconnected) => FiberTurn::Failed("a thread has ended".into()),
        }
    }
}

impl<T: Send + 'static> Thread<T> {
    fn spawn() -> Self {
        let (orders, taken) = channel::<FiberOrder<T>>();
        let (events_out, events) = channel();
        std::thread::spawn(move || {
            // Shared by the loop and by `park`, on this thread alone.
            let taken = std::rc::Rc::new(taken);
            let (waits, sender) = (taken.clone(), events_out.clone());
            let park = move || {
                // If nothing resumes the fiber any more, the run is over.
                let _ = sender.send(FiberEvent::Parked);
                if waits.recv().is_err() {
                    std::thread::park();
                }
            };
            PARK.with_borrow_mut(|slot| *slot = Some(Box::new(park)));
            while let Ok(FiberOrder::Run(work)) = taken.recv() {
                let event = match catch_unwind(AssertUnwindSafe(work)) {
                    Ok(value) => FiberEvent::Done(value),
                    Err(panic) => FiberEvent::Panicked(message(&*panic)),
                };
                if events_out.send(event).is_err() {
                    return;
                }
            }
        });
        Self { orders, events }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without words").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resumed_fiber_continues_where_it_parked() {
        let mut fibers = Fibers::default();
        let work = |n: u32| {
            Box::new(move || {
                park();
                park();
                n
            })
        };
        let FiberTurn::Parked(a) = fibers.start(work(1)) else { panic!("it parks") };
        let FiberTurn::Parked(b) = fibers.start(work(2)) else { panic!("it parks") };
        let FiberTurn::Parked(a) = fibers.resume(a) else { panic!("it parks again") };
        assert!(matches!(fibers.resume(a), FiberTurn::Done(1)));
        let FiberTurn::Parked(b) = fibers.resume(b) else { panic!("it parks again") };
        assert!(matches!(fibers.resume(b), FiberTurn::Done(2)));
        assert_eq!(fibers.idle.len(), 2);
        park();
    }

    #[test]
    fn fiber_panic_is_reported_and_ends_one_thread() {
        let mut fibers: Fibers<()> = Fibers::default();
        let FiberTurn::Failed(what) = fibers.start(Box::new(|| panic!("as {}", "asked"))) else {
            panic!("it fails")
        };
        assert_eq!(what, "panic: as asked");
        assert!(matches!(fibers.start(Box::new(|| ())), FiberTurn::Done(())));
    }
}
