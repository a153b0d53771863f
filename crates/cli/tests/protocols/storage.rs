//! Failing file systems: the statuses that clients receive, and the log's messages.

use crate::support::client::{
    ACCESS_DENIED, BAD_NETWORK_NAME, DISK_FULL, NETWORK_NAME_DELETED, READ, RawSmbClient, SET_INFO,
    SUCCESS, WRITE,
};
use crate::support::{PASSWORD, Setup, user};
use std::process::Command;

/// FileEndOfFileInformation and FileDispositionInformation. MS-FSCC 2.4.
const END_OF_FILE: u8 = 20;
const DISPOSITION: u8 = 13;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn full_disk_is_reported_and_writes_resume_when_space_is_freed() {
    const BLOCK: usize = 64 * 1024;
    let allowed = Command::new("unshare").args(["-m", "true"]).status();
    if !is_root() || !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: a file system of 2 MiB is mounted for it, which takes root");
        return;
    }
    let mut setup = Setup::new();
    let data = setup.folder.path().join("data").display().to_string();
    // The mount is in the server's namespace and ends with it.
    let mount = "mount -t tmpfs -o size=2m tmpfs \"$0\" && exec \"$@\"";
    setup.launcher = ["unshare", "-m", "sh", "-c", mount, &data].map(str::to_owned).to_vec();
    let server = setup.start();
    let (mut client, mut other) = (RawSmbClient::ready(&server), RawSmbClient::ready(&server));
    let file = client.create("large");
    let block = |n: u64| vec![n as u8 + 1; BLOCK];
    let mut write =
        |n: u64| client.call(WRITE, &RawSmbClient::write_body(file, n * BLOCK as u64, &block(n)));
    let mut written = 0;
    let refused = loop {
        assert!(written < 100, "the disk is not full");
        match write(written).status {
            SUCCESS => written += 1,
            other => break other,
        }
    };
    assert_eq!(refused, DISK_FULL);
    assert!(written > 8);
    let said = server.logged("no space is left");
    for part in ["ERROR", "share=\"data\"", "path=\"large\"", &format!("user=\"{}\"", user())] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    assert_eq!(other.echo(), SUCCESS);
    for n in 0..written {
        let reply =
            client.call(READ, &RawSmbClient::read_body(file, n * BLOCK as u64, BLOCK as u32));
        assert!(reply.data() == block(n), "block {n}");
    }
    let half = (written / 2 * BLOCK as u64).to_le_bytes();
    let truncate = RawSmbClient::set_info_body(file, END_OF_FILE, &half);
    assert_eq!(client.call(SET_INFO, &truncate).status, SUCCESS);
    let again = RawSmbClient::write_body(file, written / 2 * BLOCK as u64, &block(0));
    assert_eq!(client.call(WRITE, &again).status, SUCCESS);
}

#[test]
fn share_with_removed_directory_is_reported_and_reloadable() {
    let mut setup = Setup::new();
    let more = setup.folder.path().join("more");
    std::fs::create_dir(&more).unwrap();
    setup.shares += &format!("[[share]]\nname = \"more\"\npath = \"{}\"\n", more.display());
    let server = setup.start();
    let mut client = RawSmbClient::ready(&server);
    let (kept, tree) = (client.create("kept"), client.tree);
    std::fs::remove_dir_all(server.data()).unwrap();

    let write = RawSmbClient::write_body(kept, 0, b"still there");
    assert_eq!(client.call(WRITE, &write).status, SUCCESS, "what is open can be used");
    assert_eq!(client.try_create("new"), Err(NETWORK_NAME_DELETED));
    let said = server.logged("the share's directory was removed");
    assert!(said.contains("ERROR") && said.contains("share=\"data\""), "{said}");
    assert_eq!(client.connect_tree("data"), BAD_NETWORK_NAME);
    assert_eq!(client.connect_tree("more"), SUCCESS, "other shares do not notice");
    client.create("new");

    std::fs::create_dir(server.data()).unwrap();
    server.signal("HUP");
    server.logged("configuration reloaded");
    assert_eq!(client.connect_tree("data"), SUCCESS);
    client.create("new");
    assert!(server.data().join("new").exists());
    client.tree = tree;
    assert_eq!(client.try_create("newer"), Err(NETWORK_NAME_DELETED), "it was another directory");
}

#[test]
fn system_refusal_is_returned_and_logged_with_the_user() {
    let mut setup = Setup::new();
    // Root has every permission, so the test uses another user.
    let name = if is_root() { "nobody".to_owned() } else { user() };
    setup.arguments = vec!["--user".into(), format!("{name}:{PASSWORD}")];
    let data = setup.folder.path().join("data");
    for path in ["secret", "mine"] {
        std::fs::write(data.join(path), "content").unwrap();
    }
    let mode = |path: &std::path::Path, bits| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(bits);
        std::fs::set_permissions(path, permissions).unwrap();
    };
    mode(&data.join("secret"), 0);
    mode(&data.join("mine"), 0o666);
    mode(&data, 0o555);
    let server = setup.start();
    let mut client = RawSmbClient::connect(server.smb);
    client.negotiate();
    assert_eq!(client.log_on(&name, PASSWORD), SUCCESS);
    assert_eq!(client.connect_tree("data"), SUCCESS);

    assert_eq!(client.try_create("secret"), Err(ACCESS_DENIED));
    let said = server.logged("access denied");
    for part in ["INFO", "share=\"data\"", "path=\"secret\"", &format!("user=\"{name}\"")] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    assert_eq!(client.try_create("new"), Err(ACCESS_DENIED));
    let mine = client.create("mine");
    let delete = RawSmbClient::set_info_body(mine, DISPOSITION, &[1]);
    assert_eq!(client.call(SET_INFO, &delete).status, ACCESS_DENIED);
    let lines = || server.log().lines().filter(|l| l.contains("access denied")).count();
    for _ in 0..100 {
        assert_eq!(client.try_create("secret"), Err(ACCESS_DENIED));
    }
    assert!(lines() <= 20, "{} lines: a client fills the log", lines());
    mode(&data, 0o755);
}

#[test]
fn no_thread_of_the_server_is_exempt_from_quotas() {
    const SYS_RESOURCE: u64 = 1 << 24;
    let server = Setup::new().start();
    RawSmbClient::ready(&server).create("file");
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.process_id())).unwrap();
    let mut count = 0;
    for thread in threads {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let held = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        let held = u64::from_str_radix(held.trim(), 16).unwrap();
        assert_eq!(held & SYS_RESOURCE, 0, "{status}");
        count += 1;
    }
    assert!(count > 1);
}
