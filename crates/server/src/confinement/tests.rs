//! Layers, each in a thread of its own: what is given up does not come back.

use super::*;
use rustix::thread::CapabilitySet;
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

#[test]
fn landlock_refuses_ports_that_are_not_configured() {
    in_own_thread(|| {
        assert_eq!(layers().unwrap().landlock, Some(false));
        rustix::thread::set_no_new_privs(true).unwrap();
        landlock::restrict(&[0]).unwrap();
        let bound = std::net::TcpListener::bind(("127.0.0.1", 0));
        assert!(bound.is_ok(), "{bound:?}");
        if layers().unwrap().landlock == Some(false) {
            eprintln!("SKIPPED: this kernel has no Landlock for TCP ports");
        }
    });
}

/// Filters hold for a whole process, so what they do is looked at in one of its own: this
/// binary again, with the ignored test `name`.
fn in_own_process(name: &str) -> std::process::ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("confinement::tests::{name}");
    command.args(["--exact", &name, "--ignored", "--test-threads=1"]).status().unwrap()
}

#[test]
fn unlisted_call_is_answered_as_missing() {
    assert!(in_own_process("child_makes_unlisted_calls").success());
}

#[test]
#[ignore = "the process of unlisted_call_is_answered_as_missing"]
fn child_makes_unlisted_calls() {
    let directory = std::fs::File::open("/").unwrap();
    rustix::thread::set_no_new_privs(true).unwrap();
    seccomp::install().unwrap();
    // Permitted and refused calls of this process itself.
    std::thread::spawn(|| drop(std::fs::metadata("/"))).join().unwrap();
    assert_eq!(rustix::process::fchdir(&directory), Err(rustix::io::Errno::NOSYS));
    let raw = rustix::net::AddressFamily::PACKET;
    let socket = rustix::net::socket(raw, rustix::net::SocketType::DGRAM, None);
    assert_eq!(socket.unwrap_err(), rustix::io::Errno::NOSYS);
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(layers_of(&status).seccomp, "{status}");
}

#[test]
fn starting_a_program_ends_the_process() {
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(in_own_process("child_starts_a_program").signal(), Some(libc::SIGSYS));
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

#[test]
fn permitted_and_fatal_calls_are_disjoint() {
    let both = seccomp::PLAIN.iter().find(|call| seccomp::FATAL.contains(call));
    assert_eq!(both, None);
}

#[test]
fn refused_layer_names_the_remedy() {
    let text = ConfinementError::new("seccomp", "no such call").to_string();
    assert!(text.contains("confinement = \"off\" in [server]"), "{text}");
}
