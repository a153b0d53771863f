//! Mounts the disk as each cut leaves it, and compares its content with the model.

use super::check::Violation;
use super::device::{LoopDevice, ReplacedDisk};
use super::file_system::KernelFileSystem;
use super::fuse::DiskFiles;
use super::image::DiskImage;
use super::model::PromiseModel;
use super::observed::ObservedTree;
use super::points::same_disk;
use super::recording::{CutDisks, CutPoint, DiskRecording};
use super::worker::{MountWorker, TreeProgram};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use sync::Mutex;

/// The violations after one cut.
#[derive(Clone, Debug)]
pub struct CutOutcome {
    /// The cut.
    pub cut: CutPoint,
    /// Empty if the disk is as the model requires.
    pub violations: Vec<Violation>,
}

/// A disk that presents one cut after another, and its mount point.
struct ReplayPlace {
    worker: MountWorker,
    file_system: KernelFileSystem,
    disk: Arc<ReplacedDisk>,
    device: LoopDevice,
    mount: PathBuf,
    // Unmounted last.
    _files: DiskFiles,
}

impl ReplayPlace {
    fn new(file_system: KernelFileSystem, folder: &Path) -> Result<Self> {
        let (files, mount) = (folder.join("disks"), folder.join("mount"));
        fs::create_dir_all(&files)?;
        fs::create_dir_all(&mount)?;
        let disk = Arc::new(ReplacedDisk::new(file_system.disk_bytes()));
        let files = DiskFiles::mount(&files, vec![disk.clone()])?;
        let device = LoopDevice::attach(&files.path(0))?;
        let worker = MountWorker::start()?;
        Ok(Self { worker, file_system, disk, device, mount, _files: files })
    }

    fn tree(&mut self, image: DiskImage, program: Option<&TreeProgram>) -> Result<ObservedTree> {
        self.disk.replace(image);
        self.worker.mount(self.file_system, &self.device.path, &self.mount)?;
        let tree = match program {
            Some(program) => self.worker.ask(&self.mount, program),
            None => self.worker.read(&self.mount),
        };
        self.worker.unmount(&self.mount)?;
        tree
    }

    /// A file system that cannot be mounted or read is a violation, too.
    fn try_cut(&mut self, run: &CutReplay<'_>, cut: CutPoint, image: DiskImage) -> Vec<Violation> {
        match self.tree(image, run.program) {
            Ok(tree) => {
                let [first, last] = same_disk(run.recording, cut);
                let mut violations = run.model.check(&tree, last);
                if first != last {
                    violations.extend(run.model.check(&tree, first));
                }
                violations
            }
            Err(error) => {
                let found = format!("not sound: {error:#}");
                vec![Violation { row: None, operation: String::new(), found }]
            }
        }
    }
}

/// A recorded run whose cuts are tried.
#[derive(Clone, Copy, Debug)]
pub struct CutReplay<'a> {
    /// File system of the disk.
    pub file_system: KernelFileSystem,
    /// Directory of disks and mount points.
    pub folder: &'a Path,
    /// Model of the replies to clients.
    pub model: &'a PromiseModel,
    /// The requests that reached the disk.
    pub recording: &'a DiskRecording,
    /// Program that reports the tree after a cut; `None` reads the files directly.
    pub program: Option<&'a TreeProgram>,
}

/// Tries all cuts, which are in the order of their numbers; outcomes come in that order, too.
pub fn run(run: &CutReplay<'_>, cuts: &[CutPoint]) -> Result<Vec<CutOutcome>> {
    let mut places = (0..run.file_system.mounts_max().min(cuts.len()))
        .map(|number| ReplayPlace::new(run.file_system, &run.folder.join(number.to_string())))
        .collect::<Result<Vec<_>>>()?;
    let outcomes = Mutex::new(Vec::with_capacity(cuts.len()));
    let (sender, receiver) = sync_channel(places.len());
    let receiver = Mutex::new(receiver);
    std::thread::scope(|scope| -> Result<()> {
        for place in &mut places {
            scope.spawn(|| serve(place, run, &receiver, &outcomes));
        }
        let mut disks = CutDisks::new(run.recording);
        for cut in cuts {
            sender.send((*cut, disks.disk(*cut))).ok().context("a replay thread has ended")?;
        }
        drop(sender);
        Ok(())
    })?;
    let mut outcomes = outcomes.into_inner();
    outcomes.sort_by_key(|outcome: &CutOutcome| outcome.cut);
    Ok(outcomes)
}

fn serve(
    place: &mut ReplayPlace,
    run: &CutReplay<'_>,
    receiver: &Mutex<Receiver<(CutPoint, DiskImage)>>,
    outcomes: &Mutex<Vec<CutOutcome>>,
) {
    loop {
        let next = receiver.lock().recv();
        let Ok((cut, image)) = next else { return };
        let violations = place.try_cut(run, cut, image);
        let outcome = CutOutcome { cut, violations };
        outcomes.lock().push(outcome);
    }
}
