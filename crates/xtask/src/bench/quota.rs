//! CPU quota for a server, so that the server and not its client is the bottleneck: a control group
//! of version 1 (`cpu.cfs_quota_us`) or 2 (`cpu.max`).

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Period of the quota in microseconds; short, so that no request waits long.
const PERIOD_US: u32 = 5000;

/// The kernel takes no smaller quota, in microseconds.
const QUOTA_US_MIN: u32 = 1000;

/// Largest weight of a group, in version 1 and in version 2: other work of the machine does not take
/// from its quota.
const SHARES_MAX: u32 = 262_144;
/// See [`SHARES_MAX`].
const WEIGHT_MAX: u32 = 10_000;

/// Prefix of a group's name; the id of the creating process follows.
const PREFIX: &str = "anabranch-bench-";

/// Attempts to remove the group: a process leaves it some time after its exit.
const REMOVALS: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// Version of the control group, which determines its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupVersion {
    One,
    Two,
}

/// A control group whose processes share a quota of one CPU; removed when dropped.
#[derive(Debug)]
pub struct CpuQuota {
    folder: PathBuf,
    version: CgroupVersion,
}

impl CpuQuota {
    /// Creates a group.
    ///
    /// # Errors
    /// The machine has no control groups, or this process may not create one.
    pub fn new() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let (parent, version) =
            hierarchy(&mounts).context("no cgroup hierarchy with the `cpu` controller")?;
        remove_left(&parent);
        if version == CgroupVersion::Two {
            // Enables the controller for the groups below; it may be enabled already.
            let _ = fs::write(parent.join("cgroup.subtree_control"), "+cpu");
        }
        let folder = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("{}", folder.display()))?;
        Ok(Self { folder, version })
    }

    /// Moves a process into the group, and sets the group's quota to `percent` of one CPU.
    /// Processes that it starts later are in the group, too.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn hold(&self, pid: u32, percent: u32) -> Result<()> {
        for (file, text) in settings(self.version, percent) {
            self.set(file, &text)?;
        }
        self.set("cgroup.procs", &pid.to_string())
    }

    fn set(&self, file: &str, text: &str) -> Result<()> {
        let file = self.folder.join(file);
        fs::write(&file, text).with_context(|| format!("{text} to {}", file.display()))
    }
}

impl Drop for CpuQuota {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            // Processes that are still in the group go on without a limit.
            move_to_parent(&self.folder);
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            sleep(REMOVAL_PAUSE);
        }
        eprintln!("{} could not be removed", self.folder.display());
    }
}

/// Moves all processes of a group to its parent.
fn move_to_parent(folder: &Path) {
    let Some(parent) = folder.parent() else { return };
    let processes = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    for process in processes.lines() {
        let _ = fs::write(parent.join("cgroup.procs"), process);
    }
}

/// Removes groups of runs that were killed.
fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if maker.is_some_and(|maker| !Path::new("/proc").join(maker).exists()) {
            move_to_parent(&entry.path());
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The folder for groups with a CPU quota: a controller that version 1 has mounted is missing in
/// version 2.
fn hierarchy(mounts: &str) -> Option<(PathBuf, CgroupVersion)> {
    let of_kind = |kind: &'static str| {
        mounts.lines().filter_map(move |line| {
            let mut fields = line.split(' ').skip(1);
            let (place, found, options) = (fields.next()?, fields.next()?, fields.next()?);
            (found == kind).then_some((place, options))
        })
    };
    let one = of_kind("cgroup").find(|(_, options)| options.split(',').any(|o| o == "cpu"));
    if let Some((place, _)) = one {
        return Some((place.into(), CgroupVersion::One));
    }
    of_kind("cgroup2").next().map(|(place, _)| (place.into(), CgroupVersion::Two))
}

/// Control files and their contents for a quota in percent of one CPU.
fn settings(version: CgroupVersion, percent: u32) -> Vec<(&'static str, String)> {
    let part = PERIOD_US * percent / 100;
    let (quota, period) = match part < QUOTA_US_MIN {
        true => (QUOTA_US_MIN, QUOTA_US_MIN * 100 / percent.max(1)),
        false => (part, PERIOD_US),
    };
    match version {
        CgroupVersion::One => vec![
            ("cpu.shares", SHARES_MAX.to_string()),
            // The old quota must fit into the new period.
            ("cpu.cfs_quota_us", "-1".to_owned()),
            ("cpu.cfs_period_us", period.to_string()),
            ("cpu.cfs_quota_us", quota.to_string()),
        ],
        CgroupVersion::Two => {
            vec![("cpu.weight", WEIGHT_MAX.to_string()), ("cpu.max", format!("{quota} {period}"))]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_controller_is_found_in_both_cgroup_versions() {
        let one = "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                   cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n\
                   cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        let found = Some(("/sys/fs/cgroup/cpu,cpuacct".into(), CgroupVersion::One));
        assert_eq!(hierarchy(one), found);
        let two = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        assert_eq!(hierarchy(two), Some(("/sys/fs/cgroup".into(), CgroupVersion::Two)));
        assert_eq!(hierarchy("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn quota_is_at_least_the_kernel_minimum() {
        assert_eq!(settings(CgroupVersion::Two, 30)[1], ("cpu.max", "1500 5000".to_owned()));
        assert_eq!(settings(CgroupVersion::Two, 5)[1], ("cpu.max", "1000 20000".to_owned()));
        let texts = settings(CgroupVersion::One, 25);
        let last = texts.last().map(|(file, text)| (*file, text.as_str()));
        assert_eq!(last, Some(("cpu.cfs_quota_us", "1250")));
        assert_eq!(texts[2], ("cpu.cfs_period_us", "5000".to_owned()));
    }

    #[test]
    fn quota_limits_its_process_and_removes_its_group_on_drop() {
        let folder = std::env::temp_dir().join(format!("anabranch-quota-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let quota = CpuQuota { folder: folder.clone(), version: CgroupVersion::Two };
        quota.hold(7, 50).unwrap();
        assert_eq!(fs::read_to_string(folder.join("cpu.max")).unwrap(), "2500 5000");
        assert_eq!(fs::read_to_string(folder.join("cgroup.procs")).unwrap(), "7");
        // The kernel removes a group's files with it; a plain directory keeps them.
        for entry in fs::read_dir(&folder).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        drop(quota);
        assert!(!folder.exists());
    }
}
