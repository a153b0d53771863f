//! Programs that prepare a new home directory: the key `on_new_home`.
//!
//! The server itself can start no program: its confinement forbids that, so that an exploited defect
//! does not yield control of the machine. A helper process, which starts before the confinement,
//! runs the configured programs. It gets them once, at its start, and afterwards requests with a
//! share's name and the values of the environment: a request can name no program and no argument.
//! The helper ends with the server.

mod helper;

use crate::config::ServerConfig;
use crate::limits::HOME_HOOK_MESSAGE_BYTES_MAX;
use crate::start_error::StartError;
pub use helper::attend;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use sync::Mutex;

/// The hidden command of the helper process, which has the socket as its standard input.
pub const COMMAND: &str = "home-hooks";

/// The helper of this process: it can only be started before the confinement.
static HOOKS: OnceLock<HomeHooks> = OnceLock::new();

/// Programs with their arguments, by share in lower case.
pub type HookPrograms = BTreeMap<String, Vec<String>>;

/// A new home directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewHome {
    /// The share's name, which selects the program.
    pub share: String,
    /// The account's name.
    pub user: String,
    /// The directory.
    pub home: String,
    /// The client's address.
    pub client: String,
}

/// A request to the helper.
#[derive(Debug, Serialize, Deserialize)]
struct HookRequest {
    id: u64,
    new: NewHome,
}

/// The helper's reply.
#[derive(Debug, Serialize, Deserialize)]
struct HookReply {
    id: u64,
    /// `None` if the program has exited with status 0, else the failure.
    failure: Option<HookFailure>,
}

/// The reason for which a new home is not prepared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HookFailure {
    /// The program exited with this status.
    Exit(i32),
    /// The helper process is missing.
    NoHelper,
    /// The program was killed by this signal.
    Signal(i32),
    /// The program cannot be started.
    Start(String),
    /// The program did not end in time, and was killed.
    TimedOut,
}

impl fmt::Display for HookFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(status) => write!(f, "on_new_home exited with status {status}"),
            Self::NoHelper => f.write_str(
                "no process runs on_new_home; it is started with the server, so restart the server",
            ),
            Self::Signal(signal) => write!(f, "on_new_home was killed by signal {signal}"),
            Self::Start(error) => write!(f, "on_new_home cannot be started: {error}"),
            Self::TimedOut => f.write_str("on_new_home did not end in time"),
        }
    }
}

/// The connection to the helper process.
#[derive(Debug)]
struct HomeHooks {
    socket: Arc<OwnedFd>,
    next: AtomicU64,
    /// Requests in flight; `None` once the helper is gone.
    waiting: Arc<Mutex<Option<WaitingRequests>>>,
}

type WaitingRequests = HashMap<u64, mpsc::Sender<Option<HookFailure>>>;

/// The programs that a configuration wants.
#[must_use]
pub fn programs(config: &ServerConfig) -> HookPrograms {
    let of_share = |share: &crate::config::ShareConfig| {
        let program = share.on_new_home.clone()?;
        Some((share.name.to_lowercase(), program))
    };
    config.shares.iter().filter_map(of_share).collect()
}

/// Starts the helper process, if a share needs it. Call it before the confinement.
///
/// # Errors
/// [`StartError`] of the system.
pub fn start(config: &ServerConfig) -> Result<(), StartError> {
    let programs = programs(config);
    if programs.is_empty() {
        return Ok(());
    }
    let failed =
        |error: String| StartError(format!("cannot start the helper of on_new_home: {error}"));
    let socket = spawn(&programs).map_err(|error| failed(error.to_string()))?;
    let _ = HOOKS.set(HomeHooks {
        socket: Arc::new(socket),
        next: AtomicU64::new(0),
        waiting: Arc::new(Mutex::new(Some(HashMap::new()))),
    });
    Ok(())
}

fn spawn(programs: &HookPrograms) -> std::io::Result<OwnedFd> {
    let (own, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(COMMAND).env_clear().stdin(Stdio::from(theirs)).stdout(Stdio::null());
    // The handle may go: the helper ends with the socket.
    drop(command.spawn()?);
    let message = serde_json::to_vec(programs)?;
    if message.len() > HOME_HOOK_MESSAGE_BYTES_MAX {
        return Err(std::io::Error::other("the programs and their arguments are too long"));
    }
    rustix::net::send(&own, &message, SendFlags::NOSIGNAL)?;
    Ok(own)
}

/// Runs the program for a new home, and waits for its end. It takes a thread, and at most the time
/// of the programs before it and its own.
///
/// # Errors
/// [`HookFailure`].
pub fn run(new: NewHome) -> Result<(), HookFailure> {
    let hooks = HOOKS.get().ok_or(HookFailure::NoHelper)?;
    hooks.run(new)
}

/// Starts the thread that receives the helper's replies. Call it once threads may exist.
///
/// # Errors
/// [`StartError`] of the system.
pub fn follow() -> Result<(), StartError> {
    let Some(hooks) = HOOKS.get() else { return Ok(()) };
    let (socket, waiting) = (hooks.socket.clone(), hooks.waiting.clone());
    let thread = std::thread::Builder::new().name("home-hooks".to_owned());
    let started = thread.spawn(move || receive(&socket, &waiting));
    started.map(drop).map_err(|error| StartError(format!("cannot start a thread: {error}")))
}

fn receive(socket: &OwnedFd, waiting: &Mutex<Option<WaitingRequests>>) {
    while let Some(HookReply { id, failure }) = receive_message(socket) {
        let waiter = waiting.lock().as_mut().and_then(|waiting| waiting.remove(&id));
        if let Some(waiter) = waiter {
            let _ = waiter.send(failure);
        }
    }
    tracing::error!(
        "the helper process of on_new_home has ended: users without a home directory cannot connect; \
         restart the server"
    );
    // The requests in flight find their channels closed.
    *waiting.lock() = None;
}

/// The next message; `None` at the end, or for one that is not well-formed.
fn receive_message<T: serde::de::DeserializeOwned>(socket: &OwnedFd) -> Option<T> {
    let mut buffer = vec![0; HOME_HOOK_MESSAGE_BYTES_MAX];
    loop {
        match rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok((length, _)) if length > 0 => return serde_json::from_slice(&buffer[..length]).ok(),
            _ => return None,
        }
    }
}

fn send_message(socket: &OwnedFd, message: &impl Serialize) -> bool {
    let Ok(bytes) = serde_json::to_vec(message) else { return false };
    bytes.len() <= HOME_HOOK_MESSAGE_BYTES_MAX
        && rustix::net::send(socket, &bytes, SendFlags::NOSIGNAL).is_ok()
}

impl HomeHooks {
    fn run(&self, new: NewHome) -> Result<(), HookFailure> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, done) = mpsc::channel();
        self.waiting.lock().as_mut().ok_or(HookFailure::NoHelper)?.insert(id, sender);
        if !send_message(&self.socket, &HookRequest { id, new }) {
            if let Some(waiting) = self.waiting.lock().as_mut() {
                waiting.remove(&id);
            }
            return Err(HookFailure::NoHelper);
        }
        match done.recv() {
            Ok(None) => Ok(()),
            Ok(Some(failure)) => Err(failure),
            Err(mpsc::RecvError) => Err(HookFailure::NoHelper),
        }
    }
}
