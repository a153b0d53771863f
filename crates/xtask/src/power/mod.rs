//! Cuts the power after acknowledged operations: the lane `conformance/power`.
//!
//! | module | holds |
//! |---|---|
//! | [`image`], [`recording`] | a disk's content; what reached it; the disk after a cut |
//! | [`fuse`], [`device`] | disks that record, as files of our own file system, and loop devices |
//! | [`file_system`] | ext4, XFS, btrfs |
//! | [`journal`] | operations of clients with their replies |
//! | [`history`], [`model`], [`check`], [`descriptor`] | what must, may and must not be on the disk |
//! | [`observed`] | what is on it |
//! | [`worker`] | the process that mounts and reads |
//! | [`points`], [`replay`] | selection of cuts, and their replay |
//! | [`errors`] | a disk that fails under the server |

mod check;
mod descriptor;
mod device;
mod errors;
mod file_system;
mod fuse;
mod history;
mod image;
mod journal;
mod long_streams;
mod model;
mod observed;
mod points;
mod recording;
mod replay;
mod report;
mod worker;

use anyhow::{Context, Result, bail};
use device::{LoopDevice, RecordedDisk};
use file_system::KernelFileSystem;
use fuse::DiskFiles;
use journal::WorkloadJournal;
use model::PromiseModel;
use recording::{CutPoint, DiskRecording};
use replay::{CutOutcome, CutReplay};
use std::fs;
use std::io::{BufReader, BufWriter};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use worker::{MountWorker, TreeProgram};

/// Environment variable that marks a process inside the lane's own namespaces.
const INSIDE: &str = "ANABRANCH_POWER_INSIDE";
/// Timeout of the workload, which takes seconds.
const WORKLOAD_SECONDS_MAX: u32 = 300;

/// Arguments of `power`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File systems to try
    #[arg(long, value_delimiter = ',', default_values = ["ext4", "xfs", "btrfs"])]
    file_system: Vec<KernelFileSystem>,
    /// Operations of all clients, for each file system
    #[arg(long, default_value_t = 1800)]
    operations: u32,
    /// Cuts to try, for each file system
    #[arg(long, default_value_t = 700)]
    points: usize,
    /// Seed that selects operations and cuts; random by default
    #[arg(long)]
    seed: Option<u64>,
    /// Use the NFS and SMB clients of a Linux kernel in a virtual machine
    #[arg(long)]
    guest: bool,
    /// Use SQLite, git and a mail spool in the virtual machine
    #[arg(long, requires = "guest")]
    applications: bool,
    /// Cut the server's own state: persistent opens and locks, to which their clients reconnect
    #[arg(long, conflicts_with = "guest")]
    opens: bool,
    /// Fail the server's disk instead of cutting the power, and check the replies to clients
    #[arg(long, conflicts_with_all = ["guest", "opens", "replay"])]
    errors: bool,
    /// Sync the disk before each reply counts: a remaining loss is a defect of the lane
    #[arg(long)]
    sync_each: bool,
    /// Replay one cut of an earlier run that lost something and was retained
    #[arg(long, value_name = "FOLDER", requires = "cut")]
    replay: Option<PathBuf>,
    /// Mount and read file systems as standard input commands; used by the lane itself
    #[arg(long, hide = true)]
    mount_worker: bool,
    /// Cut to replay, as the run has printed it
    #[arg(long)]
    cut: Option<CutPoint>,
}

/// Runs the lane, or one cut again.
pub fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    if std::env::var_os(INSIDE).is_none() {
        return enter_namespaces();
    }
    if args.mount_worker {
        return worker::serve().map(|()| ExitCode::SUCCESS);
    }
    let folder = PathBuf::from(format!("/var/tmp/power.{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    let janitor = NamespaceJanitor::start(&folder)?;
    let is_kept = match (&args.replay, args.cut) {
        (Some(kept), Some(cut)) => replay_one(root, kept, &folder, cut),
        _ if args.errors => errors::run(root, &args.file_system, &folder),
        _ => run_all(root, args, &folder),
    };
    janitor.finish()?;
    Ok(if is_kept? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Mounts and addresses of the lane are in its own namespaces, and end with it.
fn enter_namespaces() -> Result<ExitCode> {
    let status = Command::new("unshare")
        .args(["--mount", "--net", "--propagation", "private"])
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "yes")
        .status()
        .context("unshare")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A process that outlives this one in its namespaces. The last process of a mount namespace
/// unmounts its file systems; the process that serves the disks would wait for itself for ever.
struct NamespaceJanitor {
    process: Child,
}

impl NamespaceJanitor {
    fn start(folder: &Path) -> Result<Self> {
        const SCRIPT: &str = r#"cat > /dev/null
            losetup --noheadings --output NAME,BACK-FILE | while read -r device file; do
                case $file in "$1"/*) losetup --detach "$device" ;; esac
            done
            while read -r _ place _; do
                case $place in "$1"/* | /etc/passwd | /etc/group) umount --lazy "$place" ;; esac
            done < /proc/self/mounts
            exec rm -rf --one-file-system "$1""#;
        let process = Command::new("sh")
            .args(["-c", SCRIPT, "power"])
            .arg(folder)
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("sh")?;
        Ok(Self { process })
    }

    /// Removes the folder, in which nothing is mounted any more.
    fn finish(mut self) -> Result<()> {
        drop(self.process.stdin.take());
        if !self.process.wait()?.success() {
            bail!("cannot remove the folder of the run");
        }
        Ok(())
    }
}

/// Runs the lane on all file systems; returns whether nothing was lost.
fn run_all(root: &Path, args: &Args, folder: &Path) -> Result<bool> {
    let seed = args.seed.unwrap_or_else(device::monotonic_ns);
    let mut is_kept = true;
    let mut points = 0;
    for file_system in &args.file_system {
        let file_system = *file_system;
        let own = folder.join(file_system.name());
        let run = record(root, args, &own, file_system, seed)?;
        let model = run.model(file_system);
        let (first, last) = run.bounds();
        let cuts = points::choose(&run.recording, first..=last, args.points, seed);
        let outcomes = run.replay(root, &own, file_system, &model, &cuts)?;
        points += outcomes.len();
        let report = report::PowerReport::new(file_system.name(), &model, &outcomes);
        print!("{report}");
        if report.is_violated() {
            is_kept = false;
            let kept = PathBuf::from(format!("/var/tmp/power-{}", file_system.name()));
            run.save(&kept, file_system)?;
            print!("{}", report.examples(&kept));
        }
    }
    let outcome = if is_kept { "nothing acknowledged is lost" } else { "FAILED" };
    println!("power: {points} cuts, seed {seed}: {outcome}");
    Ok(is_kept)
}

/// The results of a run of the workload.
#[derive(Debug)]
struct RecordedRun {
    recording: DiskRecording,
    journal: WorkloadJournal,
}

impl RecordedRun {
    /// First and last point of a cut: the file system was ready, the last reply was received.
    fn bounds(&self) -> (usize, usize) {
        let count = |time_ns| self.recording.count_until(time_ns);
        (count(self.journal.started), count(self.journal.ended))
    }

    fn model(&self, file_system: KernelFileSystem) -> PromiseModel {
        PromiseModel {
            loses_replaced_names: file_system.loses_replaced_names(),
            shows_cut_data: file_system.shows_cut_data(),
            ..PromiseModel::new(&self.journal, &self.recording)
        }
    }

    fn replay(
        &self,
        root: &Path,
        folder: &Path,
        file_system: KernelFileSystem,
        model: &PromiseModel,
        cuts: &[CutPoint],
    ) -> Result<Vec<CutOutcome>> {
        let journal = &self.journal;
        let program = journal.program.as_ref().map(|name| TreeProgram {
            path: root.join("conformance/python").join(name),
            facts: journal.facts.to_string(),
        });
        let (recording, program) = (&self.recording, program.as_ref());
        replay::run(&CutReplay { file_system, folder, model, recording, program }, cuts)
    }

    /// Saves the run, so that one cut can be repeated.
    fn save(&self, folder: &Path, file_system: KernelFileSystem) -> Result<()> {
        fs::create_dir_all(folder)?;
        let file = fs::File::create(folder.join("recording"))?;
        self.recording.save(&mut BufWriter::new(file))?;
        fs::write(folder.join("journal"), serde_json::to_vec(&self.journal)?)?;
        Ok(fs::write(folder.join("file-system"), file_system.name())?)
    }

    fn load(folder: &Path) -> Result<(Self, KernelFileSystem)> {
        let open = |name: &str| -> Result<_> {
            let path = folder.join(name);
            Ok(BufReader::new(fs::File::open(&path).with_context(|| path.display().to_string())?))
        };
        let recording = DiskRecording::load(&mut open("recording")?)?;
        let journal = serde_json::from_reader(open("journal")?)?;
        let name = fs::read_to_string(folder.join("file-system"))?;
        let file_system = clap::ValueEnum::from_str(&name, false).map_err(anyhow::Error::msg)?;
        Ok((Self { recording, journal }, file_system))
    }
}

fn replay_one(root: &Path, kept: &Path, folder: &Path, cut: CutPoint) -> Result<bool> {
    let (run, file_system) = RecordedRun::load(kept)?;
    let (first, last) = run.bounds();
    if !(first..=last).contains(&cut.at) {
        bail!("cuts of this run are from {first} to {last}");
    }
    let model = run.model(file_system);
    let outcomes = run.replay(root, folder, file_system, &model, &[cut])?;
    let violations: Vec<_> = outcomes.iter().flat_map(|outcome| &outcome.violations).collect();
    violations.iter().for_each(|violation| println!("{cut}: {violation}"));
    println!("power: {cut} on {}: {} violations", file_system.name(), violations.len());
    Ok(violations.is_empty())
}

/// Runs the workload on a disk that records.
fn record(
    root: &Path,
    args: &Args,
    folder: &Path,
    file_system: KernelFileSystem,
    seed: u64,
) -> Result<RecordedRun> {
    let place = |name: &str| -> Result<PathBuf> {
        let place = folder.join(name);
        fs::create_dir_all(&place)?;
        Ok(place)
    };
    let (files, live, work) = (place("recorded")?, place("live")?, place("work")?);
    let disk = Arc::new(RecordedDisk::new(file_system.disk_bytes()));
    let files = DiskFiles::mount(&files, vec![disk.clone()])?;
    let device = LoopDevice::attach(&files.path(0))?;
    file_system.format(&device)?;
    let mut worker = MountWorker::start()?;
    worker.mount(file_system, &device.path, &live)?;
    let journal = work.join("journal");
    let mut workload = Command::new("timeout");
    workload
        .args([&format!("{WORKLOAD_SECONDS_MAX}"), "python3"])
        .arg(root.join("conformance/python/power_workload.py"))
        .args(["--seed", &seed.to_string(), "--operations", &args.operations.to_string()])
        .args([Path::new("--binary"), &binary()?, Path::new("--mount"), &live])
        .args([Path::new("--work"), &work, Path::new("--journal"), &journal]);
    if file_system.has_clones() {
        workload.arg("--clones");
    }
    let flags = [
        ("--sync-each", args.sync_each),
        ("--guest", args.guest),
        ("--applications", args.applications),
        ("--opens", args.opens),
    ];
    workload.args(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag));
    if !workload.status().context("timeout")?.success() {
        bail!("the workload on {} failed", file_system.name());
    }
    worker.unmount(&live)?;
    let journal = serde_json::from_slice(&fs::read(&journal)?).context("the workload's journal")?;
    Ok(RecordedRun { recording: disk.recording(), journal })
}

/// The tested server: `ANABRANCH`, or that of this build.
fn binary() -> Result<PathBuf> {
    match std::env::var_os("ANABRANCH") {
        Some(binary) => Ok(fs::canonicalize(binary)?),
        None => crate::server::binary(),
    }
}
