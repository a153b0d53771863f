//! The threads that serve connections, and on which of them each connection sits.
//!
//! There is a thread for each processor, with a reactor of its own, and a connection stays where it
//! sits. The system gives a processor at once to a thread that has used little of it of late, so a client
//! that asks for little, now and then, gets by beside one that keeps another thread busy. Threads
//! that take whatever comes next have all used as much, and each of their requests may wait for a whole
//! turn of another program: 3 ms. What is lost is that nobody helps a thread that has too
//! much to do, so a new connection sits down where the fewest are, and one gets up when its
//! thread is busy and another is not ([`Seats::even_out`]).

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// How often threads are looked at.
pub const EVEN_OUT_EVERY: Duration = Duration::from_millis(500);

/// Looks without a move after one: what it has changed is to be seen first.
const RESTS: u32 = 2;

/// Hundredths of its time that a thread is busy that has too much to do.
const BUSY_PERCENT: u32 = 80;

/// Hundredths of its time that a thread is busy at most to which one moves.
const FREE_PERCENT: u32 = 40;

/// Turns between two looks of a connection that is worth moving.
const TURNS_MIN: u64 = 20;

/// The threads. They end, and what they serve with them, when this is dropped.
pub struct Threads {
    seats: Arc<Seats>,
    _running: Vec<oneshot::Sender<()>>,
}

/// Who sits where.
#[derive(Debug)]
pub struct Seats {
    threads: Box<[Handle]>,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    next: u64,
    taken: BTreeMap<u64, Taken>,
    looked: Instant,
    /// What each thread had worked by then.
    worked: Vec<Duration>,
    rests: u32,
}

#[derive(Debug)]
struct Taken {
    thread: usize,
    turns_before: u64,
    shared: Arc<Shared>,
}

/// What a connection tells of itself, and is told.
#[derive(Debug)]
struct Shared {
    turns: AtomicU64,
    thread: AtomicUsize,
}

/// One connection's; given back when dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Arc<Seats>,
    number: u64,
    thread: usize,
    shared: Arc<Shared>,
}

impl Threads {
    /// Makes `count` threads, at least one.
    ///
    /// # Errors
    /// The system has no more threads or descriptors.
    pub fn start(count: usize) -> io::Result<Self> {
        let started: Vec<_> = (0..count.max(1)).map(|_| start()).collect::<io::Result<_>>()?;
        let (threads, running): (Vec<_>, _) = started.into_iter().unzip();
        Ok(Self { seats: Arc::new(Seats::new(threads)), _running: running })
    }

    /// Who sits where.
    pub fn seats(&self) -> &Arc<Seats> {
        &self.seats
    }
}

fn start() -> io::Result<(Handle, oneshot::Sender<()>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (running, ended) = oneshot::channel::<()>();
    let run = move || {
        // Nothing is ever sent.
        let _ = runtime.block_on(ended);
    };
    std::thread::Builder::new().name("connections".to_owned()).spawn(run)?;
    Ok((handle, running))
}

impl Seats {
    fn new(threads: Vec<Handle>) -> Self {
        let table = Table {
            next: 0,
            taken: BTreeMap::new(),
            looked: Instant::now(),
            worked: vec![Duration::ZERO; threads.len()],
            rests: 0,
        };
        Self { threads: threads.into(), table: Mutex::new(table) }
    }

    /// A seat on the thread with the fewest.
    pub fn take(self: &Arc<Self>) -> Seat {
        let mut table = self.lock();
        let mut sitting = vec![0_usize; self.threads.len()];
        for taken in table.taken.values() {
            sitting[taken.thread] += 1;
        }
        // The first of those that are alike, of which there is at least one thread.
        let thread = (0..sitting.len()).min_by_key(|thread| sitting[*thread]).unwrap_or(0);
        let shared = Arc::new(Shared { turns: AtomicU64::new(0), thread: thread.into() });
        let number = table.next;
        table.next += 1;
        table.taken.insert(number, Taken { thread, turns_before: 0, shared: shared.clone() });
        Seat { seats: self.clone(), number, thread, shared }
    }

    /// Looks at what the threads have worked since the last look, and has a connection move from
    /// one that has too much to do to one that has little.
    pub fn even_out(&self) {
        let mut table = self.lock();
        let since = std::mem::replace(&mut table.looked, Instant::now()).elapsed();
        let worked: Vec<_> =
            self.threads.iter().map(|one| one.metrics().worker_total_busy_duration(0)).collect();
        let before = std::mem::replace(&mut table.worked, worked);
        let busy = table.worked.iter().zip(&before);
        let percents: Vec<u32> =
            busy.map(|(now, before)| percent(now.saturating_sub(*before), since)).collect();
        table.even_out(&percents);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub fn threads(&self) -> &[Handle] {
        &self.threads
    }

    /// Has every connection move to the next thread.
    #[cfg(test)]
    pub fn move_all(&self) {
        for taken in self.lock().taken.values_mut() {
            taken.thread = (taken.thread + 1) % self.threads.len();
            taken.shared.thread.store(taken.thread, Ordering::Relaxed);
        }
    }
}

impl Table {
    /// [`Seats::even_out`] for threads that were busy so many hundredths of the time.
    fn even_out(&mut self, busy_percents: &[u32]) {
        let mut turns = Vec::new();
        let uneven = uneven(busy_percents);
        for (number, taken) in &mut self.taken {
            let now = taken.shared.turns.load(Ordering::Relaxed);
            let since = now - std::mem::replace(&mut taken.turns_before, now);
            if uneven.is_some_and(|(from, _)| taken.thread == from) {
                turns.push((*number, since));
            }
        }
        if self.rests > 0 {
            self.rests -= 1;
            return;
        }
        let Some((_, to)) = uneven else { return };
        if let Some(taken) = who_moves(&turns).and_then(|number| self.taken.get_mut(&number)) {
            taken.thread = to;
            taken.shared.thread.store(to, Ordering::Relaxed);
            self.rests = RESTS;
        }
    }
}

fn percent(part: Duration, of: Duration) -> u32 {
    let hundredths = part.as_micros() * 100 / of.as_micros().max(1);
    u32::try_from(hundredths).unwrap_or(u32::MAX)
}

/// The busiest thread and the one with the least to do, if the one should help the other.
fn uneven(busy_percents: &[u32]) -> Option<(usize, usize)> {
    let threads = || busy_percents.iter().enumerate();
    let (from, most) = threads().max_by_key(|(_, percent)| **percent)?;
    let (to, least) = threads().min_by_key(|(_, percent)| **percent)?;
    (*most >= BUSY_PERCENT && *least <= FREE_PERCENT).then_some((from, to))
}

/// Of connections with so many turns the one with the most that leaves at least as many behind: the
/// one that does all the work would only take it elsewhere.
fn who_moves(turns: &[(u64, u64)]) -> Option<u64> {
    let all: u64 = turns.iter().map(|(_, turns)| turns).sum();
    let movable = turns.iter().filter(|(_, turns)| *turns >= TURNS_MIN && *turns <= all / 2);
    movable.max_by_key(|(_, turns)| *turns).map(|(number, _)| *number)
}

impl Seat {
    /// The thread on which it is; what it runs is dropped unfinished when the threads end.
    pub fn thread(&self) -> Handle {
        self.seats.threads[self.thread].clone()
    }

    /// Counts a turn of the connection. Called by its task only.
    pub fn count_turn(&self) {
        let turns = &self.shared.turns;
        turns.store(turns.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Whether the connection is to go on elsewhere: on [`Seat::thread`] from now on.
    pub fn moves(&mut self) -> bool {
        let thread = self.shared.thread.load(Ordering::Relaxed);
        std::mem::replace(&mut self.thread, thread) != thread
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads_of(seats: &[Seat]) -> Vec<usize> {
        seats.iter().map(|seat| seat.thread).collect()
    }

    fn count_turns(seat: &Seat, turns: u64) {
        (0..turns).for_each(|_| seat.count_turn());
    }

    #[test]
    fn new_connections_sit_down_where_the_fewest_are() {
        let threads = Threads::start(3).unwrap();
        let mut seats: Vec<Seat> = (0..6).map(|_| threads.seats().take()).collect();
        assert_eq!(threads_of(&seats), [0, 1, 2, 0, 1, 2]);
        drop(seats.remove(4));
        seats.push(threads.seats().take());
        assert_eq!(threads_of(&seats), [0, 1, 2, 0, 2, 1]);
    }

    #[test]
    fn one_of_two_that_keep_a_thread_busy_moves_to_one_that_is_not() {
        let threads = Threads::start(2).unwrap();
        let mut seats: Vec<Seat> = (0..4).map(|_| threads.seats().take()).collect();
        let even_out = |busy: [u32; 2]| threads.seats().lock().even_out(&busy);
        count_turns(&seats[0], 1000);
        count_turns(&seats[2], 900);
        even_out([70, 10]);
        assert!(seats.iter_mut().all(|seat| !seat.moves()), "it is not too much");
        count_turns(&seats[0], 1000);
        count_turns(&seats[2], 900);
        even_out([95, 50]);
        assert!(seats.iter_mut().all(|seat| !seat.moves()), "nobody is free");
        count_turns(&seats[0], 1000);
        count_turns(&seats[2], 900);
        even_out([95, 10]);
        let moved: Vec<bool> = seats.iter_mut().map(Seat::moves).collect();
        assert_eq!(
            (moved, threads_of(&seats)),
            (vec![false, false, true, false], vec![0, 1, 1, 1])
        );
        for _ in 0..RESTS {
            count_turns(&seats[1], 500);
            count_turns(&seats[2], 500);
            even_out([10, 95]);
            assert!(seats.iter_mut().all(|seat| !seat.moves()), "it is seen first what came of it");
        }
        count_turns(&seats[1], 500);
        count_turns(&seats[2], 500);
        even_out([10, 95]);
        assert_eq!(seats.iter_mut().filter_map(|seat| seat.moves().then_some(())).count(), 1);
    }

    #[test]
    fn who_does_all_the_work_stays_and_so_does_who_does_nothing() {
        assert_eq!(who_moves(&[]), None);
        assert_eq!(who_moves(&[(1, 5000)]), None);
        assert_eq!(who_moves(&[(1, 5000), (2, TURNS_MIN - 1), (3, 0)]), None);
        assert_eq!(who_moves(&[(1, 5000), (2, 100), (3, 300)]), Some(3));
        assert_eq!(who_moves(&[(1, 100), (2, 100)]), Some(2));
        assert_eq!(uneven(&[]), None);
        assert_eq!(uneven(&[100]), None);
        assert_eq!(uneven(&[50, 100, 40, 39]), Some((1, 3)));
    }

    /// What waits on one thread goes on on another one, and threads end with their owner.
    #[test]
    fn what_a_seat_runs_runs_on_its_thread_until_the_threads_end() {
        let threads = Threads::start(2).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let seats = [threads.seats().take(), threads.seats().take()];
        for seat in &seats {
            let tell = tell.clone();
            seat.thread().spawn(async move { tell.send(std::thread::current().id()).unwrap() });
        }
        assert_ne!(told.recv().unwrap(), told.recv().unwrap());
        seats[0].thread().spawn(async move {
            let _kept = tell;
            std::future::pending::<()>().await;
        });
        drop(threads);
        assert!(told.recv().is_err(), "dropped with its thread");
    }
}
