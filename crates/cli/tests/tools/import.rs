//! Files, messages and refusals of `import`.

use crate::support::{Setup, client::RawSmbClient, run, text, user};
use std::os::unix::fs::MetadataExt;

const SMB_CONF: &str = "\
[global]
workgroup = OFFICE
server string = Files
[data]
path = /srv/data
read only = no
vfs objects = recycle
[printers]
path = /var/spool/samba
printable = yes
";

/// `pdbedit -L -w` of this machine's user, with the password `secret`.
fn smbpasswd() -> String {
    let none = "X".repeat(32);
    format!("{}:0:{none}:878D8014606CDA29677A44EFA1353FC7:[U          ]:LCT-5F000000:\n", user())
}

#[test]
fn imported_file_is_valid_and_omissions_name_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at("smb.conf"), SMB_CONF).unwrap();
    std::fs::write(at("smbpasswd"), smbpasswd()).unwrap();
    let (conf, output, users) = (at("smb.conf"), at("anabranch.toml"), at("users.toml"));
    let args =
        ["import", &conf, "--passwords", &at("smbpasswd"), "--output", &output, "--users", &users];
    let first = run(&args);
    let said = text(&first.stdout);
    assert!(first.status.success(), "{}", text(&first.stderr));
    for part in [
        format!("{output}: 1 shares: data\n{users}: 1 users\n"),
        format!("  {conf}:3: server string = Files: only shares have a comment\n"),
        format!("  {conf}:7: vfs objects = recycle: vfs object recycle: deletes are final"),
        format!("  {conf}:8: [printers] was omitted: printers are not supported"),
        format!("Review the file, then run: anabranch check {output}\n"),
    ] {
        assert!(said.contains(&part), "{part}\n{said}");
    }
    assert_eq!(std::fs::metadata(&users).unwrap().mode() & 0o777, 0o600);
    // Only the directory is missing. The ports may be in use on this machine.
    without_ports(&output);
    let checked = run(&["check", &output]);
    let wrong = text(&checked.stderr);
    assert_eq!(wrong.lines().count(), 1, "{wrong}");
    assert!(wrong.contains("share data: /srv/data does not exist"), "{wrong}");

    // Nothing is overwritten without --force.
    let again = run(&args);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        text(&again.stderr)
            .contains("exists; choose another with --output, or replace it with --force")
    );
    let other = at("other.toml");
    let again = run(&[
        "import",
        &conf,
        "--passwords",
        &at("smbpasswd"),
        "--output",
        &other,
        "--users",
        &users,
    ]);
    assert!(
        text(&again.stderr).contains(" already; choose another file with --users"),
        "{}",
        text(&again.stderr)
    );
    assert!(!std::path::Path::new(&other).exists(), "all or nothing");
    let forced = run(&[&args[..], &["--force", "--verbose"]].concat());
    assert!(forced.status.success(), "{}", text(&forced.stderr));
}

/// Replaces the ports of a configuration by any free ones.
fn without_ports(config: &str) {
    let text = std::fs::read_to_string(config).unwrap();
    std::fs::write(config, text.replace(":445\"", ":0\"").replace(":4480\"", ":0\"")).unwrap();
}

/// The active parameters of the file that Debian installs, in our words.
#[test]
fn debian_stock_file_gives_accepted_configuration() {
    const STOCK: &str = "[global]\nworkgroup = WORKGROUP\nlog file = /var/log/samba/log.%m\n\
         max log size = 1000\nlogging = file\npanic action = /usr/share/samba/panic-action %d\n\
         server role = standalone server\nobey pam restrictions = yes\nunix password sync = yes\n\
         passwd program = /usr/bin/passwd %u\npasswd chat = *new*\\n . *changed*\n\
         pam password change = yes\nmap to guest = bad user\nusershare allow guests = yes\n\
         [homes]\nbrowseable = no\nread only = yes\ncreate mask = 0700\ndirectory mask = 0700\n\
         valid users = %S\n[printers]\nbrowseable = no\npath = /var/tmp\nprintable = yes\n\
         [print$]\npath = /var/lib/samba/printers\n";
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at("smb.conf"), STOCK).unwrap();
    std::fs::write(at("smbpasswd"), smbpasswd()).unwrap();
    let output = at("out.toml");
    let imported = run(&[
        "import",
        &at("smb.conf"),
        "--passwords",
        &at("smbpasswd"),
        "--output",
        &output,
        "--users",
        &at("users.toml"),
    ]);
    let said = text(&imported.stdout);
    assert!(imported.status.success() && said.lines().count() < 24, "a screen: {said}");
    without_ports(&output);
    let checked = run(&["check", &output]);
    assert_eq!((text(&checked.stderr).as_str(), checked.status.code()), ("", Some(0)), "{said}");
    assert!(text(&checked.stdout).contains(&format!("valid; shares: {}", user())));
}

#[test]
fn user_with_imported_hash_logs_on_with_password() {
    let setup = Setup::new();
    let at = |name: &str| setup.folder.path().join(name).display().to_string();
    std::fs::write(at("smb.conf"), "[global]\n").unwrap();
    std::fs::write(at("smbpasswd"), smbpasswd()).unwrap();
    let users = at("users.toml");
    let output = run(&[
        "import",
        &at("smb.conf"),
        "--passwords",
        &at("smbpasswd"),
        "--output",
        &at("out.toml"),
        "--users",
        &users,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let setup = Setup { arguments: Vec::new(), ..setup };
    let server = setup.start();
    let mut client = RawSmbClient::connect(server.smb);
    client.negotiate();
    assert_eq!(client.log_on(&user(), "secret"), 0, "{}", server.log());
}

#[test]
fn unreadable_import_file_is_reported() {
    for (args, part) in [
        (
            &["import", "/nonexistent/smb.conf", "--output", "/nonexistent/out"][..],
            "/nonexistent/smb.conf: No such file",
        ),
        (
            &[
                "import",
                "/dev/null",
                "--passwords",
                "/nonexistent/passdb.tdb",
                "--output",
                "/nonexistent/out",
            ],
            "cannot read /nonexistent/passdb.tdb",
        ),
        (
            &["import", "/dev/null", "--passwords", "/dev/null", "--output", "/nonexistent/out"],
            "/dev/null: no user found; give passdb.tdb, or the output of `pdbedit -L -w`",
        ),
        (&["import", "/dev/null", "--output", "/nonexistent/out"], "cannot write /nonexistent/out"),
    ] {
        let output = run(args);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(part), "{args:?}: {said}");
    }
}
