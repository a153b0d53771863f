//! Reports of changes by other processes, without those by this process. A test binary of its own,
//! and one test at a time: a spawned process briefly shares open descriptors of other threads, and
//! many concurrent tests would overflow the event queue.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;
use vfs::{
    Actor, AttributeRequest, Case, ExternalChange, ExternalName, ExternalWatches, FsError,
    Identity, Name, OpenHow, RelPath, ServerWork, Vfs, Wait,
};
use vfs_local::LocalVfs;

/// Far longer than the kernel takes.
const SOON: Duration = Duration::from_secs(20);

/// Serializes the tests.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shell(dir: &std::path::Path, script: &str) {
    assert!(Command::new("sh").arg("-c").arg(script).current_dir(dir).status().unwrap().success());
}

fn shown(change: &ExternalChange) -> String {
    let text = |name: &Name| String::from_utf8_lossy(name.as_bytes()).into_owned();
    let one = |sign: &str, name: &ExternalName| {
        format!("{sign}{}{}", text(&name.name), if name.is_directory { "/" } else { "" })
    };
    match change {
        ExternalChange::Added(name) => one("+", name),
        ExternalChange::AttributesModified(name) => one("~", name),
        ExternalChange::DataModified(name) => one("!", name),
        ExternalChange::Lost => "lost".to_owned(),
        ExternalChange::Removed(name) => one("-", name),
        ExternalChange::Renamed(from, to) => format!("{}>{}", one("<", from), text(to)),
    }
}

#[test]
fn changes_by_other_processes_only_are_reported() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let vfs = LocalVfs::open(dir.path()).unwrap();
    let how = OpenHow {
        read: true,
        write: false,
        case: Case::Sensitive,
        wanted: AttributeRequest::default(),
        no_follow: false,
        wait: Wait::Allowed,
    };
    let root = vfs.open(Actor::SUPERUSER, &RelPath::root(), how).unwrap();
    let (sender, changes) = mpsc::channel();
    let watch = vfs.watch(
        ServerWork::Watch,
        &*root.node,
        Arc::new(move |change| {
            let _ = sender.send(shown(change));
        }),
    );
    let watch = match watch {
        Ok(watch) => watch,
        // Old kernels, and file systems without handles.
        Err(error) => return assert_eq!(error, FsError::NotSupported),
    };
    std::fs::write(dir.path().join("ours"), b"x").unwrap();
    let expect = |script: &str, wanted: &[&str]| {
        shell(dir.path(), script);
        let heard: Vec<String> =
            wanted.iter().map(|_| changes.recv_timeout(SOON).unwrap_or_default()).collect();
        assert_eq!(heard, wanted, "{script}");
    };
    expect("mkdir d", &["+d/"]);
    expect("echo x >> ours", &["!ours"]);
    expect("chmod 600 ours", &["~ours"]);
    expect("mv ours theirs", &["<ours>theirs"]);
    expect("mv theirs d/", &["-theirs"]);
    expect("mv d/theirs .", &["+theirs"]);
    expect("chmod 700 d", &["~d/"]);
    expect("touch d/deep; rm -r d", &["-d/"]);
    drop(watch);
    shell(dir.path(), "rm theirs");
    drop(vfs);
    assert_eq!(
        changes.recv_timeout(SOON),
        Err(mpsc::RecvTimeoutError::Disconnected),
        "nothing more"
    );
}

#[test]
fn growing_file_is_reported_before_it_is_closed() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let vfs = LocalVfs::open(dir.path()).unwrap();
    let how = OpenHow::looking(Wait::Allowed);
    let root = vfs.open(Actor::SUPERUSER, &RelPath::root(), how).unwrap();
    let (sender, changes) = mpsc::channel();
    let watch = vfs.watch(
        ServerWork::Watch,
        &*root.node,
        Arc::new(move |change| {
            let _ = sender.send(shown(change));
        }),
    );
    let _watch = match watch {
        Ok(watch) => watch,
        Err(error) => return assert_eq!(error, FsError::NotSupported),
    };
    // The process writes a line for each one that it reads, and has the file open until the end of
    // its input.
    let script = "exec 3>> log; while read line; do echo $line >&3; done";
    let mut writer = Command::new("sh");
    let writer = writer.arg("-c").arg(script).current_dir(dir.path()).stdin(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    let mut lines = writer.stdin.take().unwrap();
    assert_eq!(changes.recv_timeout(SOON).as_deref(), Ok("+log"));
    for _ in 0..2 {
        lines.write_all(b"x\n").unwrap();
        assert_eq!(changes.recv_timeout(SOON).as_deref(), Ok("!log"), "its writer has it open");
    }
    drop(lines);
    assert!(writer.wait().unwrap().success());
    shell(dir.path(), "mkdir d");
    assert_eq!(changes.recv_timeout(SOON).as_deref(), Ok("+d/"), "the close has changed nothing");
    // Python writes, then stores by way of a mapping, which is no write to the kernel.
    let script = "import mmap,os,time; f = os.open('log', os.O_RDWR); os.write(f, b'y'); \
                  time.sleep(0.2); m = mmap.mmap(f, 1); m[0:1] = b'z'; m.flush(); os.close(f)";
    let mapped = Command::new("python3").arg("-c").arg(script).current_dir(dir.path()).status();
    match mapped {
        Ok(status) => assert!(status.success()),
        Err(error) => return eprintln!("skipped: no python3: {error}"),
    }
    assert_eq!(changes.recv_timeout(SOON).as_deref(), Ok("!log"), "the write");
    assert_eq!(changes.recv_timeout(SOON).as_deref(), Ok("!log"), "what was stored after it");
}

#[test]
fn tree_watch_reports_the_tree_and_nothing_beside_it() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let share = dir.path().join("share");
    std::fs::create_dir_all(share.join("a/b")).unwrap();
    let vfs = LocalVfs::open(&share).unwrap();
    let (sender, changes) = mpsc::channel();
    let watch = vfs.watch_tree(
        ServerWork::Watch,
        Arc::new(move |directory: &RelPath, change: &ExternalChange| {
            let at = String::from_utf8_lossy(directory.as_bytes()).into_owned();
            let _ = sender.send(format!("{at}: {}", shown(change)));
        }),
    );
    let watch = match watch {
        Ok(watch) => watch,
        Err(error) => return assert_eq!(error, FsError::NotSupported),
    };
    std::fs::write(share.join("a/ours"), b"x").unwrap();
    let expect = |script: &str, wanted: &[&str]| {
        shell(&share, script);
        let heard: Vec<String> =
            wanted.iter().map(|_| changes.recv_timeout(SOON).unwrap_or_default()).collect();
        assert_eq!(heard, wanted, "{script}");
    };
    expect("touch ../beside; mkdir a/b/new", &["a/b: +new/"]);
    expect(
        "mkdir -p a/b/new/deep && sleep 0.1 && echo x > a/b/new/deep/f",
        &["a/b/new: +deep/", "a/b/new/deep: +f", "a/b/new/deep: !f"],
    );
    expect("mv a/b c", &["a: -b/", ": +c/"]);
    expect("chmod 700 c/new/deep/f", &["c/new/deep: ~f"]);
    expect("chmod 711 c/new/deep", &["c/new: ~deep/"]);
    expect("mv c/new/deep/f c/new/deep/g", &["c/new/deep: <f>g"]);
    expect("rm a/ours", &["a: -ours"]);
    drop(watch);
    shell(&share, "touch a/later");
    drop(vfs);
    assert_eq!(
        changes.recv_timeout(SOON),
        Err(mpsc::RecvTimeoutError::Disconnected),
        "nothing more"
    );
}

#[test]
fn written_file_is_reported_at_once_or_on_close() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), b"x").unwrap();
    let vfs = LocalVfs::open(dir.path()).unwrap();
    let how = OpenHow {
        read: true,
        write: true,
        case: Case::Sensitive,
        wanted: AttributeRequest::default(),
        no_follow: false,
        wait: Wait::Allowed,
    };
    let path = RelPath::from_iter([Name::new(&b"f"[..]).unwrap()]);
    let file = vfs.open(Actor::SUPERUSER, &path, how).unwrap().node;
    let watch = |every_write| {
        let (sender, changes) = mpsc::channel();
        let watch = vfs.watch_file(
            ServerWork::Watch,
            &file,
            every_write,
            Arc::new(move || {
                let _ = sender.send(());
            }),
        );
        watch.map(|watch| (watch, changes))
    };
    let (at_close, at_write) = match (watch(false), watch(true)) {
        (Ok(at_close), Ok(at_write)) => (at_close, at_write),
        (Err(error), _) | (_, Err(error)) => return assert_eq!(error, FsError::NotSupported),
    };
    file.write(Actor::SUPERUSER, 0, b"ours").unwrap();
    // The process keeps the written file open until its input continues.
    let mut other = Command::new("sh")
        .args(["-c", "exec 3>>f; printf y >&3; read go; exec 3>&-"])
        .current_dir(dir.path())
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    at_write.1.recv_timeout(SOON).unwrap();
    drop(at_write);
    assert_eq!(at_close.1.try_recv(), Err(mpsc::TryRecvError::Empty), "it is still open");
    drop(other.stdin.take());
    other.wait().unwrap();
    at_close.1.recv_timeout(SOON).unwrap();
    drop(at_close.0);
    shell(dir.path(), "echo x >> f");
    drop(vfs);
    assert!(at_close.1.recv_timeout(SOON).is_err(), "nothing more");
}

/// Marks that the process has on a directory. proc_pid_fdinfo(5).
fn marks_on(directory: &std::path::Path) -> usize {
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(directory).unwrap());
    let mark = format!("fanotify ino:{inode:x} ");
    let open = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    let texts = open.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap_or_default());
    texts.map(|text| text.lines().filter(|line| line.starts_with(&mark)).count()).sum()
}

#[test]
fn watch_dropped_without_read_permission_leaves_no_mark() {
    let _alone = alone();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(dir.path(), closed).unwrap();
    let vfs = LocalVfs::open(dir.path()).unwrap();
    let how = OpenHow { read: true, ..OpenHow::looking(Wait::Allowed) };
    let root = vfs.open(Actor::SUPERUSER, &RelPath::root(), how).unwrap();
    let user = Identity { uid: 4001, gid: 4001, groups: Vec::new() };
    let watch = vfs_local::keep_identity(|| {
        vfs.space(user.actor()).unwrap();
        vfs.watch(ServerWork::Watch, &*root.node, Arc::new(|_| {}))
    });
    let watch = match watch {
        Ok(watch) => watch,
        Err(error) => return assert_eq!(error, FsError::NotSupported),
    };
    assert_eq!(marks_on(dir.path()), 1);
    vfs_local::keep_identity(|| {
        vfs.space(user.actor()).unwrap();
        drop(watch);
    });
    assert_eq!(marks_on(dir.path()), 0);
}
