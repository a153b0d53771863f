//! The helper process, which runs the programs.

use super::{HookFailure, HookPrograms, HookReply, HookRequest, NewHome};
use super::{receive_message, send_message};
use crate::limits::{HOME_HOOK_WITHIN, HOME_HOOKS_MAX};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use sync::{Condvar, Mutex};

/// Pause between two looks at a program.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Programs that run, and those that wait for one of them.
#[derive(Debug, Default)]
struct HookSlots {
    running: Mutex<usize>,
    freed: Condvar,
}

/// Serves requests from the socket at standard input until the server ends.
///
/// # Errors
/// The first message has no programs: this process was not started by a server.
pub fn attend() -> Result<(), String> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(|e| e.to_string())?;
    let programs: Option<HookPrograms> = receive_message(&socket);
    let programs = programs.ok_or("this command is for the server alone")?;
    let (programs, socket) = (Arc::new(programs), Arc::new(socket));
    let slots = Arc::<HookSlots>::default();
    while let Some(HookRequest { id, new }) = receive_message(&socket) {
        slots.take();
        let (programs, to, of) = (programs.clone(), socket.clone(), slots.clone());
        let thread = std::thread::Builder::new().spawn(move || {
            serve(&programs, &to, id, &new);
            of.free();
        });
        if let Err(error) = thread {
            slots.free();
            let failure = Some(HookFailure::Start(error.to_string()));
            send_message(&socket, &HookReply { id, failure });
        }
    }
    Ok(())
}

fn serve(programs: &HookPrograms, socket: &OwnedFd, id: u64, new: &NewHome) {
    let started = match programs.get(&new.share.to_lowercase()) {
        Some(program) => start(program, new),
        None => Err(HookFailure::Start("the share has no program; restart the server".into())),
    };
    let mut child = match started {
        Ok(child) => child,
        Err(failure) => {
            send_message(socket, &HookReply { id, failure: Some(failure) });
            return;
        }
    };
    let ended = wait(&mut child);
    if ended.is_none() {
        // With its own children.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    }
    let failure = ended.map_or(Some(HookFailure::TimedOut), failure_of);
    send_message(socket, &HookReply { id, failure });
    // One that cannot be killed, on a dead disk, keeps its slot.
    let _ = child.wait();
}

fn start(program: &[String], new: &NewHome) -> Result<Child, HookFailure> {
    let failed = HookFailure::Start;
    let (path, arguments) = program.split_first().ok_or_else(|| failed("no program".into()))?;
    let mut command = Command::new(path);
    command.args(arguments).env_clear();
    command.env("ANABRANCH_USER", &new.user).env("ANABRANCH_HOME", &new.home);
    command.env("ANABRANCH_SHARE", &new.share).env("ANABRANCH_CLIENT", &new.client);
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0);
    command.spawn().map_err(|error| failed(format!("{path}: {error}")))
}

/// The status of a program; `None` if it does not end in time.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if begun.elapsed() < HOME_HOOK_WITHIN => std::thread::sleep(LOOK_EVERY),
            Ok(None) | Err(_) => return None,
        }
    }
}

fn failure_of(status: ExitStatus) -> Option<HookFailure> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(HookFailure::Exit(code)),
        (None, signal) => Some(HookFailure::Signal(signal.unwrap_or_default())),
    }
}

impl HookSlots {
    fn take(&self) {
        let running = self.running.lock();
        let mut running = self.freed.wait_while(running, |running| *running >= HOME_HOOKS_MAX);
        *running += 1;
    }

    fn free(&self) {
        *self.running.lock() -= 1;
        self.freed.notify_one();
    }
}
