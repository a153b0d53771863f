//! Tests of the layers, each in a thread of its own, because dropped privileges do not return.

use super::landlock::LandlockRules;
use super::*;
use rustix::thread::{CapabilitySet, UnshareFlags};
use std::process::Command;

fn in_own_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(work).join().expect("the thread ends")
}

fn held() -> rustix::thread::CapabilitySets {
    rustix::thread::capabilities(None).expect("the kernel has capabilities")
}

#[test]
fn thread_without_confinement_reports_missing_layers() {
    let status = "CapInh:\t0\nCapPrm:\t1ff\nCapEff:\t0000000000200000\nCapBnd:\t000001ffffffffff\n\
                  CapAmb:\t0\nNoNewPrivs:\t0\nSeccomp:\t0\n";
    let layers = layers_of(status);
    assert_eq!(layers.missing(), ["capabilities", "no_new_privs", "seccomp"]);
    assert_eq!(layers_of("").missing(), ["capabilities", "no_new_privs", "seccomp"]);
}

#[test]
fn dropped_capabilities_are_in_no_set() {
    in_own_thread(|| {
        capabilities::limit(false).unwrap();
        let held = held();
        assert!(capabilities::KEPT.contains(held.permitted | held.effective));
        assert!(held.inheritable.is_empty());
    });
}

#[test]
fn device_nodes_keep_mknod_where_it_was_held() {
    let before = held().permitted.contains(CapabilitySet::MKNOD);
    let after = in_own_thread(|| {
        capabilities::limit(true).unwrap();
        held().permitted.contains(CapabilitySet::MKNOD)
    });
    assert_eq!(before, after);
}

#[test]
fn packaged_unit_bounds_the_same_capabilities() {
    let unit = include_str!("../../../../packaging/anabranch.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let mut named: Vec<_> = line.split(' ').map(|name| name.trim_start_matches("CAP_")).collect();
    let mut kept: Vec<_> = capabilities::KEPT.iter_names().map(|(name, _)| name).collect();
    named.sort_unstable();
    kept.sort_unstable();
    assert_eq!(named, kept);
}

/// The rules that the kernel reports and enforces for a thread that is restricted to `ports` at the
/// ABI `level`.
fn restricted(level: i32, ports: &'static [u16]) -> (LandlockRules, LandlockRules) {
    let parent = rustix::process::getppid().unwrap();
    in_own_thread(move || {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        rustix::thread::set_no_new_privs(true).unwrap();
        let reported = landlock::restrict_to(level.into(), ports).unwrap();
        let bound = std::net::TcpListener::bind(("127.0.0.1", 0));
        assert!(bound.is_ok(), "{bound:?}");
        let refused = std::net::TcpListener::bind(free);
        let signalled = rustix::process::test_kill_process(parent);
        let ports = refused.is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied);
        let scopes = signalled == Err(rustix::io::Errno::PERM);
        (reported, LandlockRules { ports, scopes })
    })
}

#[test]
fn landlock_of_each_level_enforces_the_rules_of_that_level() {
    // Higher ABIs belong to newer kernels, which have both rules.
    let (of_kernel, _) = restricted(10, &[0]);
    for level in 0..=10 {
        let (reported, enforced) = restricted(level, &[0]);
        let ports = level >= 4 && of_kernel.ports;
        let scopes = level >= 6 && of_kernel.scopes;
        assert_eq!(reported, LandlockRules { ports, scopes }, "level {level}");
        assert_eq!(enforced, reported, "level {level}");
    }
    if !of_kernel.scopes {
        eprintln!("SKIPPED in part: this kernel's Landlock has {of_kernel:?} only");
    }
}

#[test]
fn kernel_without_landlock_leaves_the_other_layers() {
    assert!(in_own_process("child_has_no_landlock").status.success());
}

#[test]
#[ignore = "the process of kernel_without_landlock_leaves_the_other_layers"]
fn child_has_no_landlock() {
    use seccompiler::{SeccompAction::*, SeccompFilter};
    rustix::thread::set_no_new_privs(true).unwrap();
    // Landlock is missing or disabled: the later filter answers.
    for errno in [libc::ENOSYS, libc::EOPNOTSUPP] {
        let rules = [(libc::SYS_landlock_create_ruleset, vec![])].into();
        let answer = Errno(errno.unsigned_abs());
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let filter = SeccompFilter::new(rules, Allow, answer, arch).unwrap();
        let program: seccompiler::BpfProgram = filter.try_into().unwrap();
        seccompiler::apply_filter_all_threads(&program).unwrap();
        assert_eq!(landlock::restrict(&[0]).unwrap(), LandlockRules::default());
    }
    let config = ServerConfig::parse("").unwrap();
    confine(&config).unwrap();
    let layers = layers().unwrap();
    assert_eq!(layers.missing(), ["landlock", "landlock_scopes"]);
}

/// Runs the ignored test `name` of this binary in its own process, because filters apply to a whole
/// process.
fn in_own_process(name: &str) -> OwnProcess {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("confinement::tests::{name}");
    command.args(["--exact", &name, "--ignored", "--test-threads=1"]);
    let mut child = command.spawn().unwrap();
    OwnProcess { id: child.id(), status: child.wait().unwrap() }
}

struct OwnProcess {
    id: u32,
    status: std::process::ExitStatus,
}

#[test]
fn unlisted_call_is_answered_as_missing() {
    assert!(in_own_process("child_makes_unlisted_calls").status.success());
}

/// Confines this process, which then makes permitted calls and the refused calls fchdir and socket.
fn install_and_call() {
    let directory = std::fs::File::open("/").unwrap();
    rustix::thread::set_no_new_privs(true).unwrap();
    seccomp::install().unwrap();
    let call = || {
        drop(std::fs::metadata("/"));
        separate(UnshareFlags::FS)
    };
    assert_eq!(std::thread::spawn(call).join().unwrap(), Ok(()));
    assert_eq!(rustix::process::fchdir(&directory), Err(rustix::io::Errno::NOSYS));
    let raw = rustix::net::AddressFamily::PACKET;
    let socket = rustix::net::socket(raw, rustix::net::SocketType::DGRAM, None);
    assert_eq!(socket.unwrap_err(), rustix::io::Errno::NOSYS);
}

#[test]
#[ignore = "the process of unlisted_call_is_answered_as_missing"]
fn child_makes_unlisted_calls() {
    install_and_call();
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(layers_of(&status).seccomp, "{status}");
}

#[test]
fn starting_a_program_ends_the_process() {
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(in_own_process("child_starts_a_program").status.signal(), Some(libc::SIGSYS));
}

#[test]
#[ignore = "the process of starting_a_program_ends_the_process"]
fn child_starts_a_program() {
    use std::os::unix::process::CommandExt as _;
    rustix::thread::set_no_new_privs(true).unwrap();
    seccomp::install().unwrap();
    let error = Command::new("/bin/true").exec();
    panic!("the filter let it through: {error}");
}

/// Unshares state of this thread, as a thread does for its own umask.
#[allow(deprecated)]
fn separate(flags: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(flags)
}

#[test]
fn new_namespace_ends_the_process() {
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(in_own_process("child_makes_a_namespace").status.signal(), Some(libc::SIGSYS));
}

#[test]
#[ignore = "the process of new_namespace_ends_the_process"]
fn child_makes_a_namespace() {
    rustix::thread::set_no_new_privs(true).unwrap();
    seccomp::install().unwrap();
    let answer = separate(UnshareFlags::FS | UnshareFlags::NEWUSER);
    panic!("the filter let it through: {answer:?}");
}

#[test]
fn permitted_and_fatal_calls_are_disjoint() {
    let permitted = [seccomp::PLAIN, seccomp::NEWER, seccomp::OLDER].concat();
    let refused = [seccomp::FATAL, seccomp::FATAL_OLDER, seccomp::TRIED].concat();
    assert_eq!(permitted.iter().find(|(_, number)| refused.iter().any(|r| r.1 == *number)), None);
}

/// Numbers of refused calls of `id` in the kernel log, until `last` appears; `None` if it does not.
fn records_of(log: impl std::io::Read + Send + 'static, id: u32, last: i64) -> Option<Vec<i64>> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut log = log;
        // Each read returns one record. The thread ends with the test process.
        let mut record = [0; 8192];
        loop {
            let Ok(length) = log.read(&mut record) else { continue };
            let text = String::from_utf8_lossy(&record[..length]).into_owned();
            if text.contains("type=1326") && text.contains(&format!(" pid={id} ")) {
                let call = text.split(" syscall=").nth(1).unwrap().split(' ').next().unwrap();
                if sender.send(call.parse::<i64>().unwrap()).is_err() {
                    return;
                }
            }
        }
    });
    let mut calls = Vec::new();
    while !calls.contains(&last) {
        calls.push(receiver.recv_timeout(std::time::Duration::from_secs(10)).ok()?);
    }
    Some(calls)
}

#[test]
fn kernel_logs_refused_calls_and_none_of_every_start() {
    let Ok(mut log) = std::fs::File::open("/dev/kmsg") else {
        return eprintln!("SKIPPED: the kernel's log cannot be read");
    };
    std::io::Seek::seek(&mut log, std::io::SeekFrom::End(0)).unwrap();
    // The kernel always logs the last call, which kills the process.
    let child = in_own_process("child_makes_logged_calls");
    let Some(calls) = records_of(log, child.id, libc::SYS_execve) else {
        return eprintln!("SKIPPED: this kernel writes its audit records elsewhere, or none");
    };
    assert_eq!(calls, [libc::SYS_fchdir, libc::SYS_socket, libc::SYS_execve]);
}

#[test]
#[ignore = "the process of kernel_logs_refused_calls_and_none_of_every_start"]
fn child_makes_logged_calls() {
    use std::os::unix::process::CommandExt as _;
    install_and_call();
    let error = Command::new("/bin/true").exec();
    panic!("the filter let it through: {error}");
}

#[test]
fn log_of_refusals_needs_both_outcomes() {
    assert!(status::logs_refusals("kill_process kill_thread trap errno\n"));
    assert!(!status::logs_refusals("kill_process kill_thread trap\n"));
    assert!(!status::logs_refusals("errno\n"));
    assert!(!status::logs_refusals(""));
}

/// Parses the kernel's table of calls: `#define __NR_name number`.
fn table(path: &str) -> Option<std::collections::HashMap<String, i64>> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut entries = std::collections::HashMap::new();
    for line in text.lines() {
        let Some((name, value)) = line.strip_prefix("#define __NR").and_then(|l| l.split_once(' '))
        else {
            continue;
        };
        // Calls that depend on the word size: `#define __NR_mmap __NR3264_mmap`.
        let of_alias = value.trim().strip_prefix("__NR").and_then(|alias| entries.get(alias));
        if let Some(number) = of_alias.copied().or_else(|| value.trim().parse::<i64>().ok()) {
            entries.insert(name.to_owned(), number);
        }
    }
    Some(entries.into_iter().map(|(name, number)| (format!("SYS{name}"), number)).collect())
}

#[test]
fn lists_agree_with_the_tables_of_both_cpus() {
    let Some(generic) = table("/usr/include/asm-generic/unistd.h") else {
        return eprintln!("SKIPPED: no kernel headers (linux-libc-dev)");
    };
    let names = |lists: &[&[seccomp::SystemCall]]| lists.concat();
    let both = names(&[seccomp::PLAIN, seccomp::FATAL, seccomp::TRIED]);
    let unknown: Vec<_> = both.iter().filter(|(name, _)| !generic.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "not on aarch64: {unknown:?}");
    // Older calls that aarch64 has must be listed, because its C library may make them.
    for (name, _) in names(&[seccomp::OLDER, seccomp::FATAL_OLDER]) {
        let listed = seccomp::OLDER_OF_AARCH64.iter().find(|older| older.0 == name);
        assert_eq!(generic.get(name), listed.map(|older| &older.1), "{name}");
    }
    let own = match std::env::consts::ARCH {
        "x86_64" => table("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        _ => Some(generic.clone()),
    };
    let own = own.expect("headers of the generic table come with those of the CPU");
    for (name, number) in names(&[&both, seccomp::OLDER, seccomp::NEWER]) {
        // The headers may be older than the call.
        let known = own.get(name);
        assert!(known.is_none_or(|known| *known == number), "{name}: {number}, not {known:?}");
    }
    for (name, number) in seccomp::NEWER {
        assert!(generic.get(*name).is_none_or(|known| known == number), "{name} on aarch64");
    }
}

#[test]
fn refused_layer_names_the_remedy() {
    let text = ConfinementError::new("seccomp", "no such call").to_string();
    assert!(text.contains("confinement = \"off\" in [server]"), "{text}");
}
