//! A process that mounts and reads file systems on the disks of this lane. It is not the process
//! that serves the disks: the kernel ends a process only when no thread of it waits for a disk, and
//! the disks of a process that cannot end do not reply.

use super::file_system::KernelFileSystem;
use super::observed::ObservedTree;
use anyhow::{Context, Result, anyhow, bail};
use rustix::mount::{UnmountFlags, unmount};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Argument that makes this program the worker.
pub const ARGUMENT: &str = "--mount-worker";

/// Timeout of a program; none takes long.
const PROGRAM_SECONDS_MAX: u32 = 100;

/// A program that finds the tree after a cut.
#[derive(Clone, Debug)]
pub struct TreeProgram {
    /// Its path.
    pub path: PathBuf,
    /// Its standard input.
    pub facts: String,
}

/// A command to the worker.
#[derive(Debug, Deserialize, Serialize)]
enum WorkerRequest {
    Mount(KernelFileSystem, String, PathBuf),
    Read(PathBuf),
    /// Reads the tree by this program, which gets this text and prints the tree.
    Ask(PathBuf, PathBuf, String),
    Unmount(PathBuf),
}

/// Its reply: a tree after a read, or an error.
type WorkerReply = Result<Option<ObservedTree>, String>;

/// The worker, seen from the process that serves the disks. It ends when this is dropped.
#[derive(Debug)]
pub struct MountWorker {
    process: Child,
    /// None once it is to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl MountWorker {
    /// Starts it.
    pub fn start() -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["power", ARGUMENT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("worker")?;
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().context("output of the worker")?);
        Ok(Self { process, input, output })
    }

    /// Mounts a file system, which replays its journal.
    pub fn mount(
        &mut self,
        file_system: KernelFileSystem,
        device: &str,
        folder: &Path,
    ) -> Result<()> {
        self.call(&WorkerRequest::Mount(file_system, device.to_owned(), folder.to_owned()))?;
        Ok(())
    }

    /// Reads the mounted tree.
    pub fn read(&mut self, folder: &Path) -> Result<ObservedTree> {
        self.call(&WorkerRequest::Read(folder.to_owned()))?
            .context("the worker replied without a tree")
    }

    /// The tree that a program finds there.
    pub fn ask(&mut self, folder: &Path, program: &TreeProgram) -> Result<ObservedTree> {
        let TreeProgram { path, facts } = program;
        let request = WorkerRequest::Ask(folder.to_owned(), path.clone(), facts.clone());
        self.call(&request)?.context("the worker replied without a tree")
    }

    /// Unmounts it.
    pub fn unmount(&mut self, folder: &Path) -> Result<()> {
        self.call(&WorkerRequest::Unmount(folder.to_owned()))?;
        Ok(())
    }

    fn call(&mut self, request: &WorkerRequest) -> Result<Option<ObservedTree>> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.input.as_mut().context("the worker has ended")?.write_all(&line)?;
        let mut reply = String::new();
        self.output.read_line(&mut reply)?;
        let reply: WorkerReply = serde_json::from_str(&reply).context("the worker's reply")?;
        reply.map_err(|error| anyhow!(error))
    }
}

impl Drop for MountWorker {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.process.wait();
    }
}

/// Runs the worker until its input ends. File systems still mounted then are unmounted.
pub fn serve() -> Result<()> {
    let mut mounted: Vec<PathBuf> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let reply: WorkerReply = match serde_json::from_str(&line?)? {
            WorkerRequest::Mount(file_system, device, folder) => {
                file_system.mount(&device, &folder).map(|()| {
                    mounted.push(folder);
                    None
                })
            }
            WorkerRequest::Read(folder) => ObservedTree::read(&folder).map(Some),
            WorkerRequest::Ask(folder, program, facts) => ask(&folder, &program, &facts).map(Some),
            WorkerRequest::Unmount(folder) => {
                mounted.retain(|one| *one != folder);
                unmount(&folder, UnmountFlags::empty()).context("unmount").map(|()| None)
            }
        }
        .map_err(|error| format!("{error:#}"));
        println!("{}", serde_json::to_string(&reply)?);
    }
    for folder in &mounted {
        let _ = unmount(folder, UnmountFlags::DETACH);
    }
    Ok(())
}

fn ask(folder: &Path, program: &Path, facts: &str) -> Result<ObservedTree> {
    let mut process = Command::new("timeout")
        .args([&format!("{PROGRAM_SECONDS_MAX}"), "python3"])
        .args([program, folder])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = process.stdin.take() {
        input.write_all(facts.as_bytes())?;
    }
    let output = process.wait_with_output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("the program's tree")
}
