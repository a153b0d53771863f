//! The threads that serve connections, and the assignment of connections to them.
//!
//! There is one thread per CPU with its own reactor, and a connection normally stays on its thread.
//! The kernel prefers a thread that has used little CPU time of late. So an occasional request is
//! served at once, even if another client keeps another thread busy. With work stealing all threads
//! use the same CPU time, and each request may wait for a time slice of another program: 3 ms.
//!
//! The cost is that no thread helps an overloaded one. Therefore a new connection goes to the
//! thread with the fewest connections. [`ThreadAssignments::even_out`] moves one from a busy thread
//! to an idle one.

use crate::backend;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use sync::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Interval of the rebalancing.
pub const EVEN_OUT_EVERY: Duration = Duration::from_millis(500);

/// Percentage of busy time from which a thread is overloaded.
const BUSY_PERCENT: u32 = 80;

/// Percentage of busy time up to which a thread accepts a moved connection.
const FREE_PERCENT: u32 = 40;

/// Turns in one interval that make a connection worth moving.
const TURNS_MIN: u64 = 20;

/// The threads. They end with all their tasks on drop.
pub struct ConnectionThreads {
    assignments: Arc<ThreadAssignments>,
    _running: Vec<oneshot::Sender<()>>,
}

/// Assignment of connections to threads.
#[derive(Debug)]
pub struct ThreadAssignments {
    threads: Box<[Handle]>,
    table: Mutex<AssignmentTable>,
}

#[derive(Debug)]
struct AssignmentTable {
    next: u64,
    taken: BTreeMap<u64, AssignedConnection>,
    /// Number of connections on each thread.
    connections: Vec<usize>,
    looked: Instant,
    /// Busy time of each thread at that moment.
    worked: Vec<Duration>,
    /// The thread that was overloaded at that moment; the turns of its connections are counted
    /// since.
    counted: Option<usize>,
}

#[derive(Debug)]
struct AssignedConnection {
    turns_before: u64,
    shared: Arc<ConnectionThread>,
}

/// State shared between a connection's task and the assignment.
#[derive(Debug)]
struct ConnectionThread {
    turns: AtomicU64,
    /// Index of the assigned thread; changes under the table's lock.
    thread: AtomicUsize,
}

/// Assignment of one connection; ends on drop.
#[derive(Debug)]
pub struct ThreadAssignment {
    assignments: Arc<ThreadAssignments>,
    number: u64,
    thread: usize,
    shared: Arc<ConnectionThread>,
}

impl ConnectionThreads {
    /// Starts `count` threads, at least one.
    ///
    /// # Errors
    /// The system has no more threads or descriptors.
    pub fn start(count: usize) -> io::Result<Self> {
        let started: Vec<_> = (0..count.max(1)).map(|_| start()).collect::<io::Result<_>>()?;
        let (threads, running): (Vec<_>, _) = started.into_iter().unzip();
        Ok(Self { assignments: Arc::new(ThreadAssignments::new(threads)), _running: running })
    }

    /// The assignment of connections to these threads.
    pub fn assignments(&self) -> &Arc<ThreadAssignments> {
        &self.assignments
    }
}

fn start() -> io::Result<(Handle, oneshot::Sender<()>)> {
    // Its blocking threads are started by the thread of connections, with the credentials of the moment.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_start(backend::rest_as_process)
        .build()?;
    let handle = runtime.handle().clone();
    let (running, ended) = oneshot::channel::<()>();
    let run = move || {
        backend::rest_without_power();
        // The channel carries no value; only its end counts.
        let _ = runtime.block_on(ended);
    };
    std::thread::Builder::new().name("connections".to_owned()).spawn(run)?;
    Ok((handle, running))
}

impl ThreadAssignments {
    fn new(threads: Vec<Handle>) -> Self {
        let table = AssignmentTable {
            next: 0,
            taken: BTreeMap::new(),
            connections: vec![0; threads.len()],
            looked: Instant::now(),
            worked: vec![Duration::ZERO; threads.len()],
            counted: None,
        };
        Self { threads: threads.into(), table: Mutex::new(table) }
    }

    /// Assigns a connection to the thread with the fewest.
    pub fn assign(self: &Arc<Self>) -> ThreadAssignment {
        let mut table = self.table.lock();
        let threads = table.connections.iter().enumerate();
        // The first of several equal threads; there is at least one.
        let thread =
            threads.min_by_key(|(_, connections)| **connections).map_or(0, |(thread, _)| thread);
        table.connections[thread] += 1;
        let shared = Arc::new(ConnectionThread { turns: AtomicU64::new(0), thread: thread.into() });
        let number = table.next;
        table.next += 1;
        table.taken.insert(number, AssignedConnection { turns_before: 0, shared: shared.clone() });
        ThreadAssignment { assignments: self.clone(), number, thread, shared }
    }

    /// Compares the busy times since the last call and moves a connection from an overloaded thread
    /// to an idle one.
    pub fn even_out(&self) {
        let mut table = self.table.lock();
        let since = std::mem::replace(&mut table.looked, Instant::now()).elapsed();
        let worked: Vec<_> =
            self.threads.iter().map(|one| one.metrics().worker_total_busy_duration(0)).collect();
        let before = std::mem::replace(&mut table.worked, worked);
        let busy = table.worked.iter().zip(&before);
        let percents: Vec<u32> =
            busy.map(|(now, before)| percent(now.saturating_sub(*before), since)).collect();
        table.even_out(&percents);
    }

    #[cfg(test)]
    pub fn threads(&self) -> &[Handle] {
        &self.threads
    }

    /// Moves every connection to the next thread.
    #[cfg(test)]
    pub fn move_all(&self) {
        let mut table = self.table.lock();
        let all: Vec<_> =
            table.taken.iter().map(|(number, taken)| (*number, taken.thread())).collect();
        all.iter().for_each(|(number, at)| table.send(*number, (at + 1) % self.threads.len()));
    }
}

impl AssignmentTable {
    /// [`ThreadAssignments::even_out`] with the busy percentages as input. The first call for an
    /// overloaded thread starts the count of turns; the second moves a connection.
    fn even_out(&mut self, busy_percents: &[u32]) {
        let Some((from, to)) = uneven(busy_percents) else {
            self.counted = None;
            return;
        };
        let is_counted = self.counted.replace(from) == Some(from);
        let on_it = self.taken.iter_mut().filter(|(_, taken)| taken.thread() == from);
        let turns: Vec<_> = on_it.map(|(number, taken)| (*number, taken.take_turns())).collect();
        if is_counted && let Some(number) = connection_to_move(&turns) {
            self.send(number, to);
            // The effect of the move must show before the next one.
            self.counted = None;
        }
    }

    fn send(&mut self, number: u64, to: usize) {
        let Some(taken) = self.taken.get(&number) else { return };
        let from = taken.shared.thread.swap(to, Ordering::Relaxed);
        self.connections[from] -= 1;
        self.connections[to] += 1;
    }
}

impl AssignedConnection {
    fn thread(&self) -> usize {
        self.shared.thread.load(Ordering::Relaxed)
    }

    /// Turns since the last call.
    fn take_turns(&mut self) -> u64 {
        let now = self.shared.turns.load(Ordering::Relaxed);
        now - std::mem::replace(&mut self.turns_before, now)
    }
}

fn percent(part: Duration, of: Duration) -> u32 {
    let hundredths = part.as_micros() * 100 / of.as_micros().max(1);
    u32::try_from(hundredths).unwrap_or(u32::MAX)
}

/// The busiest and the idlest thread, if a connection should move between them.
fn uneven(busy_percents: &[u32]) -> Option<(usize, usize)> {
    let threads = || busy_percents.iter().enumerate();
    let (from, most) = threads().max_by_key(|(_, percent)| **percent)?;
    let (to, least) = threads().min_by_key(|(_, percent)| **percent)?;
    (*most >= BUSY_PERCENT && *least <= FREE_PERCENT).then_some((from, to))
}

/// Of connections and their turns, the busiest one that leaves at least half of the turns behind. A
/// connection that does all the work would only move the load.
fn connection_to_move(turns: &[(u64, u64)]) -> Option<u64> {
    let all: u64 = turns.iter().map(|(_, turns)| turns).sum();
    let movable = turns.iter().filter(|(_, turns)| *turns >= TURNS_MIN && *turns <= all / 2);
    movable.max_by_key(|(_, turns)| *turns).map(|(number, _)| *number)
}

impl ThreadAssignment {
    /// The assigned thread. Tasks on it are dropped when the threads end.
    pub fn thread(&self) -> Handle {
        self.assignments.threads[self.thread].clone()
    }

    /// Counts a turn of the connection. Only its task may call it.
    pub fn count_turn(&self) {
        let turns = &self.shared.turns;
        turns.store(turns.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Whether the connection must move to the thread that [`ThreadAssignment::thread`] now
    /// returns.
    pub fn moves(&mut self) -> bool {
        let thread = self.shared.thread.load(Ordering::Relaxed);
        std::mem::replace(&mut self.thread, thread) != thread
    }
}

impl Drop for ThreadAssignment {
    fn drop(&mut self) {
        let mut table = self.assignments.table.lock();
        if let Some(taken) = table.taken.remove(&self.number) {
            table.connections[taken.thread()] -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads_of(assignments: &[ThreadAssignment]) -> Vec<usize> {
        assignments.iter().map(|assignment| assignment.thread).collect()
    }

    fn count_turns(assignment: &ThreadAssignment, turns: u64) {
        (0..turns).for_each(|_| assignment.count_turn());
    }

    #[test]
    fn new_connection_goes_to_the_least_loaded_thread() {
        let threads = ConnectionThreads::start(3).unwrap();
        let mut assignments: Vec<ThreadAssignment> =
            (0..6).map(|_| threads.assignments().assign()).collect();
        assert_eq!(threads_of(&assignments), [0, 1, 2, 0, 1, 2]);
        drop(assignments.remove(4));
        assignments.push(threads.assignments().assign());
        assert_eq!(threads_of(&assignments), [0, 1, 2, 0, 2, 1]);
    }

    #[test]
    fn one_of_two_busy_connections_moves_to_an_idle_thread() {
        let threads = ConnectionThreads::start(2).unwrap();
        let mut assignments: Vec<ThreadAssignment> =
            (0..4).map(|_| threads.assignments().assign()).collect();
        let mut look = |turns: [u64; 4], busy: [u32; 2]| {
            assignments
                .iter()
                .zip(turns)
                .for_each(|(assignment, turns)| count_turns(assignment, turns));
            threads.assignments().table.lock().even_out(&busy);
            assignments.iter_mut().map(ThreadAssignment::moves).collect::<Vec<bool>>()
        };
        let (turns, nobody) = ([1000, 0, 900, 0], vec![false; 4]);
        for busy in [[70, 10], [95, 50], [70, 10], [95, 50]] {
            assert_eq!(look(turns, busy), nobody, "not too much, or nobody is free");
        }
        assert_eq!(look(turns, [95, 10]), nobody, "turns are counted from now on");
        assert_eq!(look(turns, [95, 10]), [false, false, true, false]);
        assert_eq!(threads.assignments().table.lock().connections, [1, 3]);
        let turns = [0, 500, 400, 0];
        assert_eq!(look(turns, [10, 95]), nobody, "it is seen first what came of it");
        assert_eq!(look(turns, [10, 95]), [false, false, true, false], "and back");
        drop(assignments);
        assert_eq!(threads.assignments().table.lock().connections, [0, 0]);
    }

    #[test]
    fn sole_busy_connection_and_idle_ones_stay() {
        assert_eq!(connection_to_move(&[]), None);
        assert_eq!(connection_to_move(&[(1, 5000)]), None);
        assert_eq!(connection_to_move(&[(1, 5000), (2, TURNS_MIN - 1), (3, 0)]), None);
        assert_eq!(connection_to_move(&[(1, 5000), (2, 100), (3, 300)]), Some(3));
        assert_eq!(connection_to_move(&[(1, 100), (2, 100)]), Some(2));
        assert_eq!(uneven(&[]), None);
        assert_eq!(uneven(&[100]), None);
        assert_eq!(uneven(&[50, 100, 40, 39]), Some((1, 3)));
    }

    /// A blocked task does not stop the other thread, and the threads end with their owner.
    #[test]
    fn task_runs_on_its_assigned_thread_until_shutdown() {
        let threads = ConnectionThreads::start(2).unwrap();
        let (tell, reports) = std::sync::mpsc::channel();
        let assignments = [threads.assignments().assign(), threads.assignments().assign()];
        for assignment in &assignments {
            let tell = tell.clone();
            assignment
                .thread()
                .spawn(async move { tell.send(std::thread::current().id()).unwrap() });
        }
        assert_ne!(reports.recv().unwrap(), reports.recv().unwrap());
        assignments[0].thread().spawn(async move {
            let _kept = tell;
            std::future::pending::<()>().await;
        });
        drop(threads);
        assert!(reports.recv().is_err(), "dropped with its thread");
    }
}
