//! The thread that writes the audit log.

use super::AuditCommand;
use super::file_events::{FileEventQueue, FileEventReader, lost_line};
use crate::log::{self, AUDIT_TARGET};
use crate::observe::observer::ExportCounters;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::SystemTime;

/// Commands that wait for the disk.
const COMMANDS_MAX: usize = 4096;
/// File operations that are written at a time, before events of sessions have their turn again.
const FILE_EVENTS_AT_ONCE_MAX: usize = 512;
/// Not the mode of state files: the group of a log collector may read it. An administrator may
/// narrow the mode; an existing file keeps its mode.
const FILE_MODE: u32 = 0o640;

/// Starts the writer of the file at `path`, or without one of the server log.
///
/// # Errors
/// A sentence for people if the file cannot be opened.
pub(super) fn start(
    path: Option<&Path>,
    exported: &Arc<ExportCounters>,
) -> Result<(SyncSender<AuditCommand>, Arc<FileEventQueue>), String> {
    let wrong = |error| {
        let name = path.map_or("in the server log".into(), |path| path.display().to_string());
        format!("the audit log {name} cannot be written: {error}; choose another file")
    };
    let destination = match path {
        None => AuditDestination::Log,
        Some(path) => {
            let out = BufWriter::new(open_file(path).map_err(wrong)?);
            AuditDestination::File { out, path: path.to_path_buf() }
        }
    };
    let (sender, commands) = sync_channel(COMMANDS_MAX);
    let (queue, file_events) = FileEventQueue::new(sender.clone(), exported.clone());
    let exported = exported.clone();
    let writer = AuditWriter { destination, commands, file_events, exported, has_failed: false };
    let thread = std::thread::Builder::new().name("audit".into());
    thread.spawn(move || writer.run()).map_err(wrong)?;
    Ok((sender, queue))
}

fn open_file(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path)
}

/// Destination of lines.
#[derive(Debug)]
enum AuditDestination {
    /// The server log, with the target `audit`.
    Log,
    /// A file of its own.
    File { out: BufWriter<File>, path: PathBuf },
}

impl AuditDestination {
    fn write(&mut self, line: &str) -> std::io::Result<()> {
        match self {
            Self::Log => {
                tracing::info!(target: AUDIT_TARGET, "{line}");
                Ok(())
            }
            Self::File { out, .. } => writeln!(out, "{line}"),
        }
    }

    fn open_again(&mut self) -> std::io::Result<()> {
        if let Self::File { out, path } = self {
            *out = BufWriter::new(open_file(path)?);
        }
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            // File operations occupy no more of the log's queue than one batch.
            Self::Log => {
                log::finish();
                Ok(())
            }
            Self::File { out, .. } => out.flush(),
        }
    }
}

#[derive(Debug)]
struct AuditWriter {
    destination: AuditDestination,
    commands: Receiver<AuditCommand>,
    file_events: FileEventReader,
    exported: Arc<ExportCounters>,
    has_failed: bool,
}

impl AuditWriter {
    /// Ends when all senders are dropped.
    fn run(mut self) {
        let mut is_idle = true;
        loop {
            let first = match is_idle {
                true => match self.commands.recv() {
                    Ok(command) => Some(command),
                    Err(_) => return,
                },
                false => None,
            };
            let written = self.write_commands(first);
            // The flag is cleared before the queue is read: a later event wakes this thread again.
            self.file_events.note_awake();
            let (count, written) = self.write_file_events(written);
            is_idle = count < FILE_EVENTS_AT_ONCE_MAX;
            let result = written.and_then(|()| self.destination.flush());
            self.report(&result);
        }
    }

    fn write_commands(&mut self, first: Option<AuditCommand>) -> std::io::Result<()> {
        let mut result = Ok(());
        let commands = first.into_iter().chain(self.commands.try_iter().take(COMMANDS_MAX));
        for command in commands {
            match command {
                AuditCommand::Write(line) if result.is_ok() => {
                    result = self.destination.write(&line);
                }
                AuditCommand::Write(_) => {
                    self.exported.audit_suppressed.fetch_add(1, Ordering::Relaxed);
                }
                AuditCommand::OpenAgain => {
                    if let Err(error) = self.destination.open_again() {
                        result = Err(error);
                    }
                }
                AuditCommand::WriteFileEvents => {}
            }
        }
        result
    }

    /// Writes one batch, and then the count of events that the queue or the disk had no room for.
    fn write_file_events(
        &mut self,
        mut result: std::io::Result<()>,
    ) -> (usize, std::io::Result<()>) {
        let mut count = 0;
        while count < FILE_EVENTS_AT_ONCE_MAX
            && let Some(line) = self.file_events.next_line()
        {
            count += 1;
            if result.is_ok() {
                result = self.destination.write(&line);
            }
            if result.is_err() {
                self.file_events.count_lost(1);
            }
        }
        let lost = self.file_events.take_lost();
        if lost > 0 {
            let written = match &result {
                Ok(()) => self.destination.write(&lost_line(lost, SystemTime::now())),
                Err(_) => Ok(()),
            };
            if result.is_err() || written.is_err() {
                self.file_events.return_lost(lost);
            }
            result = result.and(written);
        }
        (count, result)
    }

    fn report(&mut self, result: &std::io::Result<()>) {
        if let (Err(error), AuditDestination::File { path, .. }) = (result, &self.destination)
            && !self.has_failed
        {
            tracing::error!(path = %path.display(), %error, "cannot write the audit log: events are lost; make it writable, or free its disk");
        }
        self.has_failed = result.is_err();
    }
}
