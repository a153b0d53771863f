//! Shares whose path has variables: each user's own directory, and no other.

use crate::support::client::{
    ACCESS_DENIED, BAD_NETWORK_NAME, LOCK, LOCK_NOT_GRANTED, RawSmbClient, STOPPED_ON_SYMLINK,
    SUCCESS, WRITE,
};
use crate::support::{PASSWORD, ServerProcess, Setup, anabranch, user, wait_for};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A server with the share `homes`, whose users act as this process's user.
fn start(users: &[&str]) -> (ServerProcess, PathBuf) {
    start_with(users, "%U", "")
}

/// The same, with a path below the directory of homes, and further keys.
fn start_with(users: &[&str], path: &str, keys: &str) -> (ServerProcess, PathBuf) {
    let mut setup = Setup::new();
    let homes = setup.folder.path().join("homes");
    std::fs::create_dir(&homes).unwrap();
    setup.shares += &format!(
        "[[share]]\nname = \"homes\"\npath = \"{}/{path}\"\nlisted = \"nobody\"\n{keys}",
        homes.display()
    );
    let file = setup.folder.path().join("users.toml").display().to_string();
    for name in users {
        let arguments = ["user", "add", name, "--password-stdin", "--users", &file];
        let mut child = anabranch()
            .args(arguments)
            .args(["--system-user", &user()])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{PASSWORD}").unwrap();
        assert!(child.wait().unwrap().success());
    }
    (setup.start(), homes)
}

fn log_on(server: &ServerProcess, name: &str) -> RawSmbClient {
    let mut client = RawSmbClient::connect(server.smb);
    client.negotiate();
    assert_eq!(client.log_on(name, PASSWORD), SUCCESS, "{name}");
    client
}

/// Open directories of the share, as the admin API shows them.
fn open_directories(server: &ServerProcess) -> u64 {
    let shares: serde_json::Value = serde_json::from_str(&server.page("/v1/shares")).unwrap();
    let items = shares["items"].as_array().unwrap();
    let homes = items.iter().find(|share| share["name"] == "homes").unwrap();
    homes["user_directories"].as_u64().unwrap()
}

#[test]
fn user_reaches_the_own_directory_by_both_names_and_no_other() {
    let (server, homes) = start(&["alice", "bob"]);
    std::fs::create_dir(homes.join("alice")).unwrap();
    let mut alice = log_on(&server, "alice");
    assert_eq!(alice.connect_tree("homes"), SUCCESS);
    let tree = alice.tree;
    let file = alice.create("by-homes");
    assert!(homes.join("alice/by-homes").exists());
    assert_eq!(alice.connect_tree("ALICE"), SUCCESS);
    let again = alice.create("by-homes");
    // Both trees have one volume, so that a lock by one binds the other.
    assert_eq!(alice.call(LOCK, &RawSmbClient::lock_byte_body(again, 0, false)).status, SUCCESS);
    alice.tree = tree;
    let status = alice.call(LOCK, &RawSmbClient::lock_byte_body(file, 0, false)).status;
    assert_eq!(status, LOCK_NOT_GRANTED);
    assert_eq!(open_directories(&server), 1);

    let mut bob = log_on(&server, "bob");
    for name in ["alice", "homes\\alice", "alice\\..\\bob", "nobody"] {
        assert_eq!(bob.connect_tree(name), BAD_NETWORK_NAME, "{name}");
    }
    assert_eq!(bob.connect_tree("homes"), BAD_NETWORK_NAME, "bob has no directory");
    let logged = server.logged("tree connect refused: the user's directory cannot be served");
    assert!(logged.contains("user=\"bob\"") && logged.contains("it does not exist"), "{logged}");
    std::fs::create_dir(homes.join("bob")).unwrap();
    assert_eq!(bob.connect_tree("bob"), SUCCESS);
    bob.create("theirs");
    assert!(homes.join("bob/theirs").exists() && !homes.join("alice/theirs").exists());
    assert_eq!(open_directories(&server), 2);
    drop((alice, bob));
    wait_for("unused directories are closed", || (open_directories(&server) == 0).then_some(()));
}

#[test]
fn user_whose_name_is_no_directory_is_refused() {
    let (server, homes) = start(&["..", ".ssh"]);
    std::fs::create_dir(homes.join(".ssh")).unwrap();
    for name in ["..", ".ssh"] {
        let mut client = log_on(&server, name);
        assert_eq!(client.connect_tree("homes"), ACCESS_DENIED, "{name}");
        assert_eq!(client.connect_tree(name), ACCESS_DENIED, "{name}");
    }
    server.logged("cannot be the name of a directory");
}

#[test]
fn open_file_in_a_home_survives_a_reload() {
    let (server, homes) = start(&["alice"]);
    std::fs::create_dir(homes.join("alice")).unwrap();
    let mut alice = log_on(&server, "alice");
    assert_eq!(alice.connect_tree("homes"), SUCCESS);
    let file = alice.create("kept");
    let tree = alice.tree;
    server.write_config(&format!("{}comment = \"changed\"\n", server.config()));
    server.signal("HUP");
    server.logged("configuration reloaded");
    let write = RawSmbClient::write_body(file, 0, b"still open");
    assert_eq!(alice.call(WRITE, &write).status, SUCCESS);
    assert_eq!(alice.connect_tree("alice"), SUCCESS);
    let again = alice.create("kept");
    assert_eq!(alice.call(LOCK, &RawSmbClient::lock_byte_body(again, 0, false)).status, SUCCESS);
    alice.tree = tree;
    let status = alice.call(LOCK, &RawSmbClient::lock_byte_body(file, 0, false)).status;
    assert_eq!(status, LOCK_NOT_GRANTED, "the reload keeps the volume");
}

#[test]
fn link_in_a_directory_of_the_user_leads_nowhere() {
    let (server, homes) = start_with(&["alice"], "%U/files", "");
    let secret = homes.parent().unwrap().join("secret");
    std::fs::create_dir_all(secret.join("files")).unwrap();
    std::fs::create_dir(homes.join("alice")).unwrap();
    let mut alice = log_on(&server, "alice");
    for target in [secret.as_path(), Path::new("../../secret"), Path::new("/")] {
        std::os::unix::fs::symlink(target, homes.join("alice/files")).unwrap();
        assert_eq!(alice.connect_tree("homes"), ACCESS_DENIED, "{}", target.display());
        std::fs::remove_file(homes.join("alice/files")).unwrap();
    }
    std::fs::remove_dir(homes.join("alice")).unwrap();
    std::os::unix::fs::symlink(&secret, homes.join("alice")).unwrap();
    assert_eq!(alice.connect_tree("homes"), ACCESS_DENIED);
    std::fs::remove_file(homes.join("alice")).unwrap();
    std::fs::create_dir_all(homes.join("alice/files")).unwrap();
    assert_eq!(alice.connect_tree("homes"), SUCCESS);
}

#[test]
fn replaced_directory_is_served_to_new_connections_only() {
    let (server, homes) = start(&["alice"]);
    std::fs::create_dir(homes.join("alice")).unwrap();
    let mut alice = log_on(&server, "alice");
    assert_eq!(alice.connect_tree("homes"), SUCCESS);
    let old = alice.tree;
    std::fs::rename(homes.join("alice"), homes.join("old")).unwrap();
    std::fs::create_dir(homes.join("alice")).unwrap();
    assert_eq!(alice.connect_tree("homes"), SUCCESS);
    alice.create("new");
    assert!(homes.join("alice/new").exists());
    alice.tree = old;
    alice.create("late");
    assert!(homes.join("old/late").exists(), "the opened directory is served");
    assert_eq!(open_directories(&server), 2);
}

#[test]
fn directory_of_another_owner_is_refused() {
    if user() != "root" {
        return;
    }
    let (server, homes) = start(&["alice"]);
    std::fs::create_dir(homes.join("alice")).unwrap();
    std::os::unix::fs::chown(homes.join("alice"), Some(4001), None).unwrap();
    let mut alice = log_on(&server, "alice");
    assert_eq!(alice.connect_tree("homes"), ACCESS_DENIED);
    let logged = server.logged("the user's directory belongs to another user");
    assert!(logged.contains("owner=4001"), "{logged}");
}

#[test]
fn missing_directory_is_created_where_configured() {
    let (server, homes) = start_with(&["alice"], "%U", "create_home = true\n");
    let mut alice = log_on(&server, "alice");
    assert_eq!(alice.connect_tree("homes"), SUCCESS);
    alice.create("first");
    assert!(homes.join("alice/first").exists());
    assert_eq!(homes.join("alice").metadata().unwrap().mode() & 0o7777, 0o700);
    server.logged("created a user's directory");
}

#[test]
fn changed_show_symlinks_applies_to_open_directories() {
    let (server, homes) = start(&["alice"]);
    std::fs::create_dir(homes.join("alice")).unwrap();
    std::fs::write(homes.join("alice/file"), "").unwrap();
    std::os::unix::fs::symlink("file", homes.join("alice/link")).unwrap();
    let mut alice = log_on(&server, "alice");
    assert_eq!(alice.connect_tree("homes"), SUCCESS);
    assert!(alice.try_create("link").is_ok(), "the server follows it");
    server.write_config(&format!("{}show_symlinks = true\n", server.config()));
    server.signal("HUP");
    server.logged("configuration reloaded");
    assert_eq!(alice.try_create("link"), Err(STOPPED_ON_SYMLINK));
}
