//! Confinement of the running server, as the kernel reports it for each thread.

use crate::support::client::RawSmbClient;
use crate::support::{ServerProcess, Setup};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;

/// CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, SETGID, SETUID, NET_BIND_SERVICE and
/// SYS_ADMIN, by their numbers in the kernel.
const KEPT: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 21;
const MKNOD: u64 = 1 << 27;

/// `/proc/PID/task/*/status` of a server that has served something.
fn threads(server: &ServerProcess) -> Vec<String> {
    let mut client = RawSmbClient::ready(server);
    client.create("file");
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.process_id())).unwrap();
    // A worker that has nothing to do may end meanwhile.
    tasks
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok())
        .collect()
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap().trim()
}

fn assert_capabilities(threads: &[String], kept: u64) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: capabilities are those of root, and this test does not run as root");
        return;
    }
    for status in threads {
        for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            let held = u64::from_str_radix(field(status, name), 16).unwrap();
            assert_eq!(held & !kept, 0, "{name} in {status}");
        }
    }
    // The first thread can still act as a caller.
    let all = field(&threads[0], "CapPrm");
    assert_ne!(u64::from_str_radix(all, 16).unwrap() & (1 << 7), 0, "no SETUID: {all}");
}

#[test]
fn every_thread_of_the_server_is_confined() {
    let server = Setup::new().start();
    let threads = threads(&server);
    assert!(threads.len() > 1, "{threads:?}");
    for status in &threads {
        assert_eq!(field(status, "NoNewPrivs"), "1", "{status}");
        assert_eq!(field(status, "Seccomp"), "2", "{status}");
    }
    assert_capabilities(&threads, KEPT);
    let layers = server.status()["confinement"].clone();
    for name in ["capabilities", "no_new_privs", "seccomp"] {
        assert_eq!(layers[name], true, "{name}: {layers}");
    }
    for name in ["landlock", "landlock_scopes"] {
        assert!(layers[name].is_boolean(), "{name}: {layers}");
    }
    let output = crate::support::run(&["status", "--admin", &server.admin.to_string()]);
    let status = crate::support::text(&output.stdout);
    let logged = server.status()["refusals_logged"].as_bool().unwrap();
    let shown = if logged { "ausearch -m SECCOMP" } else { "not logged by this kernel" };
    assert!(status.contains("refused calls: ") && status.contains(shown), "{status}");
}

/// The filter lacks no call that the server or its libraries make: each would be in the log.
#[test]
fn kernel_logs_no_refused_call_of_a_serving_server() {
    let Ok(mut log) = kernel_log() else {
        return eprintln!("SKIPPED: the kernel's log cannot be read");
    };
    let mut server = Setup::new().start();
    threads(&server);
    let id = server.process_id();
    server.signal("TERM");
    assert!(server.ended().success());
    let mut record = [0; 8192];
    while let Ok(length) = log.read(&mut record) {
        let text = String::from_utf8_lossy(&record[..length]);
        assert!(!(text.contains("type=1326") && text.contains(&format!(" pid={id} "))), "{text}");
    }
}

/// The kernel's log from now on.
fn kernel_log() -> std::io::Result<std::fs::File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut log = std::fs::File::options().read(true).custom_flags(flags).open("/dev/kmsg")?;
    log.seek(SeekFrom::End(0))?;
    Ok(log)
}

#[test]
fn share_with_device_nodes_keeps_mknod_only() {
    let mut setup = Setup::new();
    setup.shares += "device_nodes = true\n";
    assert_capabilities(&threads(&setup.start()), KEPT | MKNOD);
}

#[test]
fn server_without_confinement_logs_and_reports_it() {
    let server = Setup::new().server("confinement = \"off\"").start();
    server.logged("confinement is off");
    assert_eq!(server.status()["confinement"]["seccomp"], false);
    assert_eq!(server.status()["confinement"]["landlock"], false);
}
