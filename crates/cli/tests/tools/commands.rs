//! Output and exit codes of the subcommands.

use crate::support::{Setup, anabranch, run, text, user};
use std::io::Write;
use std::process::Stdio;

#[test]
fn check_reports_all_errors_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    let file = path.display().to_string();
    std::fs::write(&path, "[server]\nworkers = 0\n[[share]]\nname = \"a\"\npath = \"relative\"\n")
        .unwrap();
    let output = run(&["check", &file]);
    assert_eq!(output.status.code(), Some(1));
    let wanted = format!(
        "{file}:2: workers = 0 is not between 1 and 4096\n{file}:5: path = \"relative\" must begin with /\n"
    );
    assert_eq!(text(&output.stderr), wanted);
}

#[test]
fn check_finds_missing_directories_and_users() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    let (file, users) = (path.display(), folder.path().join("users.toml"));
    let users = users.display();
    let config = format!(
        "[server]\nusers = \"{users}\"\n[[share]]\nname = \"a\"\npath = \"/nonexistent/share\"\n"
    );
    std::fs::write(&path, config).unwrap();
    let output = run(&["check", &file.to_string()]);
    assert_eq!(output.status.code(), Some(1));
    let wanted = format!(
        "{file}:5: share a: /nonexistent/share does not exist; create it with: mkdir -p /nonexistent/share\n\
         {file}: warning: {users}: no user can log on; add one: anabranch user add NAME --users {users}\n"
    );
    assert_eq!(text(&output.stderr), wanted);
}

#[test]
fn check_accepts_a_valid_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let (path, place) = (folder.path().join("config.toml"), folder.path().display());
    let config = format!(
        "[server]\nusers = \"{place}/users.toml\"\n[[share]]\nname = \"a\"\npath = \"{place}\"\n"
    );
    std::fs::write(&path, config).unwrap();
    add_user(&format!("{place}/users.toml"), &user(), "secret");
    let output = run(&["check", &path.display().to_string()]);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(0), format!("{}: valid; shares: a\n", path.display()))
    );
}

#[test]
fn check_warns_of_many_channels_and_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let (path, place) = (folder.path().join("config.toml"), folder.path().display());
    let config = format!(
        "[server]\nusers = \"{place}/users.toml\"\n[multichannel]\nchannels_max = 32\n[[share]]\nname = \"a\"\npath = \"{place}\"\n"
    );
    std::fs::write(&path, config).unwrap();
    add_user(&format!("{place}/users.toml"), "alice", "secret");
    let output = run(&["check", &path.display().to_string()]);
    let said = text(&output.stderr);
    assert!(
        said.starts_with(&format!("{}:4: warning: channels_max = 32: ", path.display())),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn metadata_cache_is_switched_by_share_and_either_name() {
    let server = Setup::new().start();
    let admin = server.admin.to_string();
    let feature = |arguments: &[&str]| {
        let output = run(&[&["feature"], arguments, &["--json", "--admin", &admin]].concat());
        assert!(output.status.success(), "{output:?}");
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        if said.is_array() { said[0].clone() } else { said }
    };
    let first = feature(&["list"]);
    assert_eq!(first["RegistrationState"], "Registered");
    assert!(first["Since"].as_u64().unwrap() > 1_700_000_000);
    let off = feature(&["unregister", "AzurePremiumFilesMetadataCacheFeature"]);
    assert_eq!(off["RegistrationState"], "NotRegistered");
    assert_eq!(off["Shares"][0]["Share"], "data");
    let on = feature(&["register", "metadata-cache", "--share", "DATA"]);
    assert_eq!(on["Shares"][0]["State"], "Registered");
    assert_eq!(feature(&["list"]), on);
}

#[test]
fn features_are_listed_and_unknown_ones_are_refused() {
    let server = Setup::new().start();
    let admin = server.admin.to_string();
    let listed = run(&["feature", "list", "--admin", &admin]);
    assert!(text(&listed.stdout).starts_with("metadata-cache  "), "{listed:?}");
    let json = run(&["feature", "list", "--json", "--admin", &admin]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json[0]["Alias"], "AzurePremiumFilesMetadataCacheFeature");
    for (action, name) in [("register", "metadata"), ("unregister", "a/b")] {
        let refused = run(&["feature", action, name, "--admin", &admin]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains("there is no such feature"), "{refused:?}");
    }
    let unknown =
        run(&["feature", "register", "metadata-cache", "--share", "no", "--admin", &admin]);
    assert_eq!(unknown.status.code(), Some(1));
}

pub fn add_user(users: &str, name: &str, password: &str) -> std::process::Output {
    with_password(&["user", "add", name, "--users", users, "--password-stdin"], password)
}

fn with_password(args: &[&str], password: &str) -> std::process::Output {
    let mut command = anabranch();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may refuse before it reads.
    let _ = child.stdin.take().unwrap().write_all(format!("{password}\n").as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn users_are_added_listed_changed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("state/users.toml").display().to_string();
    let list = || text(&run(&["user", "list", "--users", &users]).stdout);
    assert_eq!(list(), "");
    assert!(add_user(&users, "Bob", "secret").status.success());
    assert!(add_user(&users, "alice", "secret").status.success());
    assert_eq!(list(), "alice\nbob\n");
    let before = std::fs::read_to_string(&users).unwrap();
    assert!(!before.contains("secret"), "a password is not kept");

    let again = add_user(&users, "bob", "other");
    let said = "anabranch: bob exists; change the password with: anabranch user passwd bob\n";
    assert_eq!((again.status.code(), text(&again.stderr).as_str()), (Some(1), said));
    assert_eq!(std::fs::read_to_string(&users).unwrap(), before);

    let args =
        ["user", "passwd", "bob", "--users", &users, "--password-stdin", "--system-user", "nobody"];
    assert!(with_password(&args, "other").status.success());
    let after = std::fs::read_to_string(&users).unwrap();
    assert!(after != before && after.contains("system_user = \"nobody\""), "{after}");

    assert!(run(&["user", "remove", "BOB", "--users", &users]).status.success());
    assert_eq!(list(), "alice\n");
    let gone = run(&["user", "remove", "bob", "--users", &users]);
    assert_eq!(
        (gone.status.code(), text(&gone.stderr).as_str()),
        (Some(1), "anabranch: there is no user bob\n")
    );
}

#[test]
fn empty_password_and_prompt_without_terminal_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users.toml").display().to_string();
    let empty = add_user(&users, "alice", "");
    assert_eq!(text(&empty.stderr), "anabranch: a password has 1 to 1024 bytes\n");
    let asked = run(&["user", "add", "alice", "--users", &users]);
    let said = "anabranch: there is no terminal for a prompt; use --password-stdin\n";
    assert_eq!((asked.status.code(), text(&asked.stderr).as_str()), (Some(1), said));
}

#[test]
fn serve_argument_errors_name_their_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let good = format!("data={place}");
    let user = ["--user", "alice:secret", "--admin", "off"];
    for (args, said) in [
        (vec!["serve"], "no share to serve; give a directory, as in: anabranch serve /srv/data"),
        (
            vec!["serve", "/nonexistent/dir"],
            "cannot serve /nonexistent/dir: No such file or directory",
        ),
        (vec!["serve", "--share", "data"], "--share takes NAME=PATH, not \"data\""),
        (vec!["serve", "--share", "data=/x,readonly=yes"], "did you mean `read_only`?"),
        (vec!["serve", "--share", "a/b=/x"], "cannot be a share's name"),
        (
            vec!["serve", "--config", "/nonexistent.toml"],
            "/nonexistent.toml: cannot be read: No such file",
        ),
        (
            vec!["serve", "--share", &good, "--smb", &address],
            "another program uses it; stop that program or choose",
        ),
        (vec!["serve", "--share", "data=/nonexistent/dir", "--smb", "127.0.0.1:0"], "share data: "),
    ] {
        let output = anabranch().args(&args).args(user).output().unwrap();
        let stderr = text(&output.stderr);
        assert!(output.status.code() == Some(1) && stderr.contains(said), "{args:?}: {stderr}");
    }
}

#[test]
fn status_without_running_server_names_a_remedy() {
    let free =
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let output = run(&["status", "--admin", &free]);
    let wanted = format!("no server answers on {free}; is it running, with --admin {free}?");
    assert!(
        output.status.code() == Some(1) && text(&output.stderr).contains(&wanted),
        "{}",
        text(&output.stderr)
    );
}

/// Commands that print, and their exit codes. The users of the configuration are not in its file, for
/// which `check` has a warning.
fn printing<'a>(config: &'a str, admin: &'a str) -> [(Vec<&'a str>, i32); 5] {
    [
        (vec!["generate", "configuration"], 0),
        (vec!["check", "--help"], 0),
        (vec!["check", config], 0),
        (vec!["status", "--admin", admin], 0),
        (vec!["check", "/nowhere/anabranch.toml"], 1),
    ]
}

#[test]
fn closed_output_pipe_does_not_change_the_exit_code() {
    let server = Setup::new().start();
    let config = server.path("config.toml").display().to_string();
    for (arguments, code) in printing(&config, &server.admin.to_string()) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = anabranch();
        command.args(&arguments).stdout(writer.try_clone().unwrap()).stderr(writer);
        assert_eq!(command.status().unwrap().code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn full_disk_fails_the_command_that_prints_to_it() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = anabranch().args(["generate", "configuration"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write to standard output"), "{output:?}");
}

#[test]
fn command_help_shows_an_example() {
    for (args, part) in [
        (&["--help"][..], "anabranch serve DIR"),
        (&["serve", "--help"], "anabranch serve --share media=/srv/media,read_only=yes"),
        (&["check", "--help"], "anabranch check /etc/anabranch/anabranch.toml"),
        (&["import", "--help"], "anabranch import /etc/samba/smb.conf --passwords"),
        (&["status", "--help"], "anabranch status --json"),
        (&["user", "--help"], "anabranch user add alice"),
    ] {
        let output = run(args);
        assert!(
            output.status.success() && text(&output.stdout).contains(part),
            "{args:?}: {}",
            text(&output.stdout)
        );
    }
}
