//! The state directory: private files, and a start after a crash.

use crate::support::client::{CREATE, READ, RawFileId, RawSmbClient, SUCCESS, WRITE};
use crate::support::{PASSWORD, ServerProcess, Setup, anabranch, anabranch_by, wait_for};
use client::nfs::{Disposition, NfsClient, NfsExport, NfsOptions, NfsTarget};
use std::collections::BTreeSet;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Longer than any test takes, in milliseconds.
const LONG: u32 = 60_000;
const GUID: [u8; 16] = *b"a create's guid.";
const CLIENT: [u8; 16] = *b"a client's guid.";

/// Launcher that runs a command with umask 0.
const UMASK_0: [&str; 4] = ["sh", "-c", "umask 0; exec \"$@\"", "sh"];

/// A directory and everything below it.
fn all_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_path_buf()];
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(all_in(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

fn open(client: &mut RawSmbClient, name: &str) -> RawFileId {
    let reply = client.call(CREATE, &RawSmbClient::durable_body(name, GUID, LONG, true));
    assert_eq!(reply.status, SUCCESS);
    assert_eq!(reply.context(b"DH2Q").map(|data| data[4]), Some(2), "it is persistent");
    reply.file_id()
}

fn use_nfs(address: SocketAddr) {
    let target = NfsTarget { name: "server".into(), address, uid: 0, gid: 0, instance: [7; 8] };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = NfsClient::connect(target, NfsOptions::default()).await.unwrap();
        let export = NfsExport::open(client, "exported").await.unwrap();
        let file = export.open_file("file", Disposition::Create).await.unwrap();
        export.close(file).await.unwrap();
    });
}

#[test]
fn state_files_are_private_under_umask_zero() {
    let mut setup = Setup::new();
    let (address, _) = setup.export(97, 24463);
    setup.launcher = UMASK_0.map(str::to_owned).to_vec();
    setup.shares += "continuously_available = true\nprovisioned_gib = 100\nlimits = { iops = 100, burst_iops = 2000 }\n";
    let folder = setup.folder.path().to_path_buf();
    let mut server = setup.start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let file = open(&mut client, "file");
    assert_eq!(client.call(WRITE, &RawSmbClient::write_body(file, 0, b"x")).status, SUCCESS);
    use_nfs(address);
    let users = folder.join("state/users.toml");
    let mut add = anabranch_by("sh", &["-c", "umask 0; printf %s \"$0\" | \"$@\"", PASSWORD]);
    add.args(["user", "add", "someone", "--password-stdin", "--users"]).arg(&users);
    let added = add.output().unwrap();
    assert!(added.status.success(), "{added:?}");
    server.signal("TERM");
    assert!(server.ended().success());

    let state = folder.join("state");
    let all = all_in(&state);
    let open_to_others = |path: &&PathBuf| path.metadata().unwrap().mode() & 0o077 != 0;
    let wider: Vec<_> = all.iter().filter(open_to_others).collect();
    assert!(wider.is_empty(), "{wider:?}");
    let names: BTreeSet<_> = all.iter().filter_map(|path| path.strip_prefix(&state).ok()).collect();
    for name in [
        "admin-token",
        "format.json",
        "state.lock",
        "metrics-token",
        "opens",
        "opens.lock",
        "nfs-clients",
        "nfs-clients.lock",
        "share-credits.json",
        "share-sizes.json",
        "usual-networks.json",
        "users.toml",
        "users.lock",
    ] {
        assert!(names.contains(Path::new(name)), "{name} is not among {names:?}");
    }
}

/// User id and group id of each thread of the server in file system calls.
fn file_system_ids(server: &ServerProcess) -> BTreeSet<(u32, u32)> {
    let of_task = |status: String| {
        let id = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().nth(3).unwrap().parse().unwrap()
        };
        (id("Uid:"), id("Gid:"))
    };
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.process_id())).unwrap();
    // A worker that has nothing to do may end meanwhile.
    tasks
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok())
        .map(of_task)
        .collect()
}

/// The file system ids of a thread that acts for no user: root, or the id that owns nothing (for
/// connections and workers).
fn ids_at_rest() -> [(u32, u32); 2] {
    const POWERLESS_ID: u32 = u32::MAX - 2;
    [(0, 0), (POWERLESS_ID, POWERLESS_ID)]
}

#[test]
fn killed_server_with_a_users_open_starts_as_root() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root acts as other users");
        return;
    }
    let mut setup = Setup::new();
    setup.shares += "continuously_available = true\n";
    let state = setup.folder.path().join("state");
    setup = setup.server(&format!("state = \"{}\"", state.display()));
    let mut server = setup.argument("--user").argument(&format!("daemon:{PASSWORD}")).start();
    std::fs::set_permissions(server.data(), Permissions::from_mode(0o777)).unwrap();
    let mut client = RawSmbClient::connect_3(&server, CLIENT).set_up_as("daemon");
    let file = open(&mut client, "file");
    assert_eq!(client.call(WRITE, &RawSmbClient::write_body(file, 0, b"kept")).status, SUCCESS);
    let owner = server.data().join("file").metadata().unwrap().uid();
    assert_ne!(owner, 0, "the open is a user's");

    let setup = server.kill();
    // After it has restored the open, the start must still be able to create files that only root
    // may create.
    for token in ["admin-token", "metrics-token"] {
        std::fs::remove_file(state.join(token)).unwrap();
    }
    let server = setup.start();
    let others: Vec<_> =
        file_system_ids(&server).into_iter().filter(|ids| !ids_at_rest().contains(ids)).collect();
    assert!(others.is_empty(), "threads that are left as a user: {others:?}");
    for path in all_in(&state) {
        assert_eq!(path.metadata().unwrap().uid(), 0, "{}", path.display());
    }
    let mut client = RawSmbClient::connect_3(&server, CLIENT).set_up_as("daemon");
    let reply = client.call(CREATE, &RawSmbClient::reconnect_body(file, GUID, true));
    assert_eq!(reply.status, SUCCESS);
    let data = client.call(READ, &RawSmbClient::read_body(reply.file_id(), 0, 4));
    assert_eq!(data.data(), b"kept");
}

/// Runs `anabranch state` for the server of `setup`.
fn state(setup: &Setup, arguments: &[&str]) -> std::process::Output {
    let config = setup.folder.path().join("config.toml");
    let mut command = anabranch();
    command.arg("state").args(arguments).arg("--config").arg(config);
    command.output().unwrap()
}

/// Writes to an open file until a request fails; returns the number of acknowledged bytes.
fn write_until_the_end(mut client: RawSmbClient, file: RawFileId) -> u64 {
    let mut written = 0;
    loop {
        let body = RawSmbClient::write_body(file, written, &[7; 512]);
        match client.try_call(WRITE, &body) {
            Ok(reply) if reply.status == SUCCESS => written += 512,
            _ => return written,
        }
    }
}

/// The state of a server that is killed under load, on the machine that replaces it.
#[test]
fn state_moved_from_a_killed_server_keeps_open_files() {
    let mut setup = Setup::new();
    let folder = setup.folder.path().to_path_buf();
    setup.server += &format!("state = \"{}\"\n", folder.join("state").display());
    setup.shares += "continuously_available = true\n";
    let mut server = setup.start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let file = open(&mut client, "file");
    let load = std::thread::spawn(move || write_until_the_end(client, file));
    wait_for("some writes", || {
        std::fs::metadata(folder.join("data/file")).is_ok_and(|f| f.len() > 8192).then_some(())
    });
    let archive = folder.join("state.tar");
    let archive = archive.to_str().unwrap();
    let setup = server.kill();
    let written = load.join().unwrap();
    let exported = state(&setup, &["export", archive]);
    assert!(exported.status.success(), "{exported:?}");
    assert_eq!(std::fs::metadata(archive).unwrap().mode() & 0o7777, 0o600);

    std::fs::rename(folder.join("state"), folder.join("lost")).unwrap();
    let imported = state(&setup, &["import", archive]);
    assert!(imported.status.success(), "{imported:?}");
    let again = state(&setup, &["import", archive]);
    let why = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && why.contains("--replace"), "{why}");
    let server = setup.clone().start();
    let running = state(&setup, &["import", archive, "--replace"]);
    let why = String::from_utf8_lossy(&running.stderr).into_owned();
    assert!(!running.status.success() && why.contains("stop it first"), "{why}");
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let reply = client.call(CREATE, &RawSmbClient::reconnect_body(file, GUID, true));
    assert_eq!(reply.status, SUCCESS, "the open is back");
    let reply = client.call(READ, &RawSmbClient::read_body(reply.file_id(), written - 512, 512));
    assert_eq!(reply.data(), [7; 512], "every acknowledged write is there");
}

#[test]
fn server_with_state_of_a_later_version_does_not_start() {
    let setup = Setup::new();
    let config = setup.folder.path().join("config.toml");
    std::fs::write(&config, setup.config()).unwrap();
    let format = setup.folder.path().join("format.json");
    std::fs::write(&format, r#"{"format": 1000, "written_by": "99.1.0"}"#).unwrap();
    for command in ["serve --config", "check"] {
        let mut command_line = anabranch();
        command_line.args(command.split(' ')).arg(&config);
        let refused = command_line.output().unwrap();
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{why}");
        assert!(why.contains("99.1.0 (format 1000)") && why.contains("state import"), "{why}");
    }
    assert!(std::fs::read_to_string(&format).unwrap().contains("99.1.0"), "it is left");
}
