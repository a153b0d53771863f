//! The connections of one session: live ones are used in turn, lost ones are reopened. RFC 8881
//! 2.10.3.1: without state protection the first SEQUENCE on a connection binds it to the session.

use super::callbacks::Callbacks;
use super::connection::{Connection, Line};
use crate::error::Error;
use crate::limits::{REOPEN_PAUSE_MAX, REOPEN_WITHIN};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use sync::Mutex;
use tokio::time::Instant;

/// Minimum pause between two attempts.
const REOPEN_PAUSE: Duration = Duration::from_millis(20);

/// All connections of a session. Each has at most one reopening in progress.
#[derive(Debug)]
pub(super) struct SessionConnections {
    line: Line,
    places: Vec<ReopenableConnection>,
    next: AtomicUsize,
    /// Held while the only connection is reopened; other requests wait for it.
    one_who_opens: tokio::sync::Mutex<()>,
    /// No connection is left, and none could be opened.
    is_over: AtomicBool,
}

#[derive(Debug)]
struct ReopenableConnection {
    connection: Mutex<Arc<Connection>>,
    /// A reopening is in progress.
    is_opened_again: AtomicBool,
}

impl ReopenableConnection {
    fn new(connection: Connection) -> Self {
        Self {
            connection: Mutex::new(Arc::new(connection)),
            is_opened_again: AtomicBool::new(false),
        }
    }

    fn connection(&self) -> Arc<Connection> {
        self.connection.lock().clone()
    }
}

impl SessionConnections {
    /// Opens one connection, on which `callbacks` replies to callbacks. A replacement of it has no
    /// callbacks.
    pub(super) async fn open(line: Line, callbacks: Option<Arc<Callbacks>>) -> Result<Self, Error> {
        Ok(Self {
            line,
            places: vec![ReopenableConnection::new(Connection::open(line, callbacks).await?)],
            next: AtomicUsize::new(0),
            one_who_opens: tokio::sync::Mutex::new(()),
            is_over: AtomicBool::new(false),
        })
    }

    /// Opens connections concurrently until there are `count`.
    pub(super) async fn open_more(&mut self, count: usize) -> Result<(), Error> {
        let line = self.line;
        let mut opening = tokio::task::JoinSet::new();
        for _ in self.places.len()..count {
            opening.spawn(Connection::open(line, None));
        }
        for opened in opening.join_all().await {
            self.places.push(ReopenableConnection::new(opened?));
        }
        Ok(())
    }

    /// All connections, alive or lost.
    pub(super) fn all(&self) -> Vec<Arc<Connection>> {
        self.places.iter().map(ReopenableConnection::connection).collect()
    }

    /// The next live connection. If none is alive, opens one within [`REOPEN_WITHIN`].
    ///
    /// # Errors
    /// [`Error::Lost`]: the server is unreachable.
    pub(super) async fn take(self: &Arc<Self>) -> Result<Arc<Connection>, Error> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(standing) = self.standing(turn) {
            return Ok(standing);
        }
        let _one = self.one_who_opens.lock().await;
        if let Some(standing) = self.standing(turn) {
            return Ok(standing);
        }
        self.open_again(turn % self.places.len()).await
    }

    /// A live connection from this turn on. Lost ones before it are reopened in the background.
    fn standing(self: &Arc<Self>, turn: usize) -> Option<Arc<Connection>> {
        let count = self.places.len();
        let at = |step: usize| (turn + step) % count;
        let stands = |step: &usize| !self.places[at(*step)].connection().is_lost();
        let step = (0..count).find(stands)?;
        (0..step).for_each(|step| self.open_meanwhile(at(step)));
        Some(self.places[at(step)].connection())
    }

    fn open_meanwhile(self: &Arc<Self>, at: usize) {
        if self.is_over.load(Ordering::Relaxed)
            || self.places[at].is_opened_again.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let (weak, line) = (Arc::downgrade(self), self.line);
        tokio::spawn(async move {
            let opened = open_within(line, || is_wanted(&weak)).await;
            let Some(connections) = weak.upgrade() else { return };
            let place = &connections.places[at];
            if let Ok(opened) = opened {
                *place.connection.lock() = opened;
            }
            place.is_opened_again.store(false, Ordering::Relaxed);
        });
    }

    async fn open_again(&self, at: usize) -> Result<Arc<Connection>, Error> {
        if self.is_over.load(Ordering::Relaxed) {
            return Err(Error::lost(false, "the server is not reachable any more"));
        }
        match open_within(self.line, || true).await {
            Ok(opened) => {
                *self.places[at].connection.lock() = opened.clone();
                Ok(opened)
            }
            Err(error) => {
                self.is_over.store(true, Ordering::Relaxed);
                Err(Error::lost(false, error))
            }
        }
    }
}

fn is_wanted(connections: &Weak<SessionConnections>) -> bool {
    connections.upgrade().is_some_and(|it| !it.is_over.load(Ordering::Relaxed))
}

/// Tries to connect for a while, as long as the connection is needed.
async fn open_within(line: Line, is_wanted: impl Fn() -> bool) -> Result<Arc<Connection>, Error> {
    let begun = Instant::now();
    let mut pause = REOPEN_PAUSE;
    loop {
        let left = REOPEN_WITHIN.saturating_sub(begun.elapsed());
        let opened = tokio::time::timeout(left, Connection::open(line, None)).await;
        let error = match opened {
            Ok(Ok(connection)) => return Ok(Arc::new(connection)),
            Ok(Err(error)) => error,
            Err(_) => {
                let kind = std::io::ErrorKind::TimedOut;
                Error::Unreachable(kind, line.0.to_string().into())
            }
        };
        if begun.elapsed() + pause > REOPEN_WITHIN || !is_wanted() {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(REOPEN_PAUSE_MAX);
    }
}
