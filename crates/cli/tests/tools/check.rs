//! `check` over broken configurations: each mistake has its line and its remedy.

use crate::support::{run, text, user};
use std::os::unix::fs::PermissionsExt;

/// Lines 1 and 2 of most files.
const SERVER: &str = "[server]\nusers = \"DIR/users.toml\"\n";
/// A good share.
const SHARE: &str = "[[share]]\nname = \"a\"\npath = \"DIR\"\n";

/// Lines after [`SERVER`], before a good share, and the finding.
const OF_SERVER: &[(&str, &str)] = &[
    ("signin = \"required\"", "3: unknown key `signin`; did you mean `signing`?"),
    ("signing = \"require\"", "3: `require` is not a value of this key; did you mean `required`?"),
    ("workers = \"8\"", "3: workers is the string \"8\"; it must be a number from 1 to 4096"),
    ("workers = 5000", "3: workers = 5000 is not between 1 and 4096"),
    (
        "smb = \"0.0.0.0:445\"",
        "3: smb is the string \"0.0.0.0:445\"; it must be a list of addresses, as [\"0.0.0.0:445\", ",
    ),
    (
        "smb = [\"0.0.0.0\"]",
        "3: smb: invalid socket address syntax; it must be a list of addresses, as ",
    ),
    ("smb = [\"192.0.2.300:445\"]", "3: smb: invalid socket address syntax"),
    ("smb = [\"127.0.0.1:70000\"]", "3: smb: invalid socket address syntax"),
    (
        "smb = [\"203.0.113.77:4451\"]",
        "3: smb: cannot listen on 203.0.113.77:4451: this machine does not",
    ),
    (
        "smb = [\"127.0.0.1:4452\", \"0.0.0.0:4452\"]",
        "3: smb: 0.0.0.0:4452 overlaps with 127.0.0.1:4452 of smb; remove one",
    ),
    (
        "smb = [\"127.0.0.1:4453\"]\nadmin = \"127.0.0.1:4453\"",
        "4: admin: 127.0.0.1:4453 overlaps with 127.0.0.1:4453 of smb",
    ),
    (
        "admin = \"here\"",
        "3: admin: \"here\" is neither an address, such as \"127.0.0.1:4480\", nor a socket",
    ),
    (
        "admin = \"unix:DIR\"",
        "3: admin = \"unix:DIR\" cannot be created: a file of this name is there",
    ),
    ("name = \"a computer\"", "3: \"a computer\" cannot be a computer's name; use 1 to 15 letters"),
    (
        "min_protocol = \"SMB3\"",
        "3: \"SMB3\" is not a dialect; there are 2.0.2, 2.1, 3.0, 3.0.2 and 3.1.1",
    ),
    ("min_protocol = \"3.1.1\"\nmax_protocol = \"2.1\"", "3: min_protocol is above max_protocol"),
    (
        "max_protocol = \"2.1\"\nencryption = \"required\"",
        "4: encryption needs max_protocol 3.0 or later",
    ),
    ("ntlm = \"off\"", "3: ntlm = \"off\" leaves no way to log on; set kerberos_keytab"),
    ("kerberos_realm = \"A\"", "3: Kerberos needs kerberos_keytab and kerberos_realm; set both"),
    ("kerberos_realm = \"A\"\nkerberos_keytab = \"DIR/no.keytab\"", "4: "),
    ("nfs_tls_key = \"DIR/key.pem\"", "3: NFS with TLS needs nfs_tls_certificate and nfs_tls_key"),
    ("nfs_tls_key = \"DIR/k.pem\"\nnfs_tls_certificate = \"DIR/c.pem\"", "4: "),
    (
        "nfs_tls_key = \"TLS/client.key\"\nnfs_tls_certificate = \"TLS/server.pem\"",
        "4: nfs_tls_certificate = TLS/server.pem and nfs_tls_key = TLS/client.key do not match: the key must ",
    ),
    (
        "nfs_tls_key = \"TLS/server.key\"\nnfs_tls_certificate = \"TLS/server.key\"",
        "4: nfs_tls_certificate = TLS/server.key: it contains no certificate; make it a PEM file ",
    ),
    (
        "nfs_tls_key = \"TLS/server.key\"\nnfs_tls_certificate = \"TLS/version1.pem\"",
        "4: nfs_tls_certificate = TLS/version1.pem with nfs_tls_key = TLS/server.key cannot be used: ",
    ),
    (
        "nfs_tls_key = \"TLS/server.key\"\nnfs_tls_certificate = \"TLS/expired.pem\"",
        "4: warning: nfs_tls_certificate = TLS/expired.pem expired on 2021-01-01: clients refuse it; ",
    ),
    (
        "nfs_tls_key = \"TLS/server.key\"\nnfs_tls_certificate = \"TLS/future.pem\"",
        "4: warning: nfs_tls_certificate = TLS/future.pem is not valid before 2090-01-01: ",
    ),
    (
        "nfs_tls_key = \"TLS/server.key\"\nnfs_tls_certificate = \"TLS/server.pem\"\n\
         nfs_tls_client_ca = \"TLS/expired.pem\"",
        "4: warning: nfs_tls_client_ca = TLS/expired.pem expired on 2021-01-01: ",
    ),
    ("guest = nobody", "3: guest: "),
    (
        "guest = \"no-such-user\"",
        "3: guest = \"no-such-user\": there is no system user no-such-user",
    ),
    (
        "state = \"DIR/users.toml/state\"",
        "3: the state directory DIR/users.toml/state cannot be written: ",
    ),
    (
        "[log]\naudit = \"audit.log\"",
        "4: audit = \"audit.log\" is not \"off\", \"log\" or a file, ",
    ),
    (
        "[log]\naudit = \"DIR/none/audit\"",
        "4: audit = \"DIR/none/audit\" cannot be written: DIR/none is missing",
    ),
    ("[sever]\nname = \"a\"", "3: unknown key `sever`; did you mean `server`?"),
];

/// Lines after [`SHARE`], and the finding. The share's header is line 3.
const OF_SHARE: &[(&str, &str)] = &[
    ("readonly = true", "6: unknown key `readonly`; did you mean `read_only`?"),
    (
        "read_only = \"yes\"",
        "6: read_only is the string \"yes\"; it must be true or false, as read_only = false",
    ),
    (
        "users = \"alice\"",
        "6: users is the string \"alice\"; it must be a list of users, as [\"alice\", \"@staff\"]",
    ),
    ("file_mode = 644", "6: file_mode is the integer `644`; it must be "),
    ("file_mode = \"899\"", "6: \"899\" is not an octal mode; write it as \"0644\""),
    ("path = \"DIR\"", "6: the key `path` is set twice; remove one"),
    (
        "hosts_allowed = [\"192.0.2.0/33\"]",
        "6: hosts_allowed: \"192.0.2.0/33\" is not an address or a network",
    ),
    (
        "hosts_denied = [\"pirate\"]",
        "6: hosts_denied: \"pirate\" is not an address or a network, such as ",
    ),
    (
        "size_limit = \"10 apples\"",
        "6: size_limit = \"10 apples\" is not a size, such as \"500 GiB\"",
    ),
    (
        "time_machine_max_bytes = \"500G\"",
        "6: time_machine_max_bytes is the string \"500G\"; it must be ",
    ),
    ("limits = { iops = 1 }", "6: limits.iops = 1 is not between 10 and"),
    ("limits = { iopps = 100 }", "6: unknown key `iopps`; did you mean `iops`?"),
    ("class = \"premium\"", "4: share a: class \"premium\" needs provisioned_gib"),
    ("veto_names = [\"*\"]", "6: veto_names has \"*\", which matches every name"),
    ("listed = \"no\"", "6: listed = \"no\" is none of everyone, users and nobody"),
    ("snapshot_names = \"%Y\"", "4: snapshot_names and snapshot_root need snapshots"),
    ("guest_ok = true", "4: share a: guest_ok needs guest in [server]"),
    ("nfs_tls = \"required\"", "4: share a: nfs_tls = \"required\" needs nfs_tls_certificate"),
    (
        "users = [\"@no-such-group\"]",
        "5: share a: there is no system group no-such-group; create it with: groupadd ",
    ),
    (
        "force_user = \"no-such-user\"",
        "5: share a: there is no system user no-such-user, which force_user",
    ),
    (
        "users = [\"alcie\"]",
        "5: warning: share a: users has \"alcie\", which is no account; did you mean \"alice\"?",
    ),
    ("[[share]]\nname = \"A\"\npath = \"DIR\"", "7: there are two shares named \"A\"; rename one"),
    (
        "[[share]]\nname = \"a/b\"\npath = \"DIR\"",
        "7: \"a/b\" cannot be a share's name; use up to 80 letters",
    ),
    ("[[share]]\nname = \"IPC$\"\npath = \"DIR\"", "7: \"IPC$\" cannot be a share's name"),
    ("[[share]]\nname = \"b\"", "6: the key `path` is missing here"),
    ("[[share]]\npath = \"DIR\"", "6: the key `name` is missing here"),
    ("[[share]]\nname = \"b\"\npath = \"data\"", "8: path = \"data\" must begin with /"),
    (
        "[[share]]\nname = \"b\"\npath = \"DIR/none\"",
        "8: share b: DIR/none does not exist; create it with: mkdir -p ",
    ),
    (
        "[[share]]\nname = \"b\"\npath = \"DIR/users.toml\"",
        "8: share b: DIR/users.toml is not a directory",
    ),
    (
        "[[share]]\nname = \"b\"\npath = \"/\"",
        "8: warning: share b: path = \"/\" serves the whole system with its settings, ",
    ),
    (
        "[[share]]\nname = \"b\"\npath = \"/proc/sys\"\nread_only = true",
        "8: warning: share b: /proc/sys is on proc, which has no extended attributes: ",
    ),
];
/// Certificates and keys, in place of `TLS`.
const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");

/// The messages of `check` for `config`, with `FILE`, `DIR` and `TLS` in place of the paths, and its success.
fn findings(folder: &std::path::Path, config: &str) -> (String, bool) {
    let dir = folder.display().to_string();
    let file = folder.join("config.toml");
    std::fs::write(&file, config.replace("DIR", &dir).replace("TLS", TLS)).unwrap();
    let output = run(&["check", &file.display().to_string()]);
    let said = text(&output.stderr).replace(&file.display().to_string(), "FILE");
    (said.replace(&dir, "DIR").replace(TLS, "TLS"), output.status.success())
}

/// A folder with the users `alice`, and the user of this process.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let users =
        format!("[user.alice]\nnt_hash = \"{0}\"\nsystem_user = \"{1}\"\n", "0".repeat(32), user());
    let file = folder.path().join("users.toml");
    std::fs::write(&file, users).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    folder
}

#[test]
fn broken_configuration_is_reported_with_line_and_remedy() {
    let folder = folder();
    let server = OF_SERVER.iter().map(|(lines, said)| (format!("{SERVER}{lines}\n{SHARE}"), said));
    let share = OF_SHARE.iter().map(|(lines, said)| (format!("{SERVER}{SHARE}{lines}\n"), said));
    let all: Vec<_> = server.chain(share).collect();
    assert!(all.len() >= 65, "{}", all.len());
    let mut wrong = Vec::new();
    for (config, expected) in &all {
        let (said, is_valid) = findings(folder.path(), config);
        let line = format!("FILE:{expected}");
        let is_warning = expected.contains(": warning: ");
        if !said.lines().any(|found| found.starts_with(&line)) || is_valid != is_warning {
            wrong.push(format!("{config}expected {line}\nfound    {said}"));
        }
        if said.lines().count() > 2 {
            wrong.push(format!("{config}has more than one mistake and its consequence:\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let folder = folder();
    let config = "[server]\nsignin = \"x\"\nsmb = \"x\"\nworkers = 0\nguest = nobody\n\
                  [[share]]\nname = \"a\"\nreadonly = true\n[[share]]\npath = \"b\"\n\
                  file_mode = \"9\"\nfile_mode = \"8\"\n";
    let (said, _) = findings(folder.path(), config);
    let lines: Vec<&str> = said.lines().filter_map(|line| line.split(':').nth(1)).collect();
    assert_eq!(lines, ["2", "3", "4", "5", "6", "8", "9", "10", "11", "12"], "{said}");
}

#[test]
fn surroundings_are_reported_at_once() {
    let folder = folder();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = socket.local_addr().unwrap();
    let config = format!(
        "[server]\nusers = \"DIR/users.toml\"\nsmb = [\"{taken}\"]\nguest = \"no-such-user\"\n\
         [[share]]\nname = \"a\"\npath = \"DIR/none\"\nforce_group = \"no-such-group\"\n"
    );
    let (said, is_valid) = findings(folder.path(), &config);
    assert!(!is_valid, "{said}");
    for part in [
        format!("FILE:3: smb: cannot listen on {taken}: "),
        format!("uses port {}; stop it with: ", taken.port()),
        "FILE:4: guest = \"no-such-user\"".into(),
        "FILE:7: share a: DIR/none does not exist".into(),
        "FILE:7: share a: there is no system group no-such-group".into(),
    ] {
        assert!(said.contains(&part), "{part}\n{said}");
    }
}

#[test]
fn users_file_mistakes_are_reported() {
    let folder = folder();
    let config = format!("{SERVER}{SHARE}");
    let file = folder.path().join("users.toml");
    let set = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    assert_eq!(findings(folder.path(), &config), (String::new(), true));
    set(0o644);
    let (said, is_valid) = findings(folder.path(), &config);
    assert!(!is_valid && said.contains("others can read the password hashes; chmod 600"), "{said}");
    set(0o600);
    let ghost = format!("[user.ghost]\nnt_hash = \"{}\"\n", "0".repeat(32));
    std::fs::write(&file, ghost).unwrap();
    let (said, is_valid) = findings(folder.path(), &config);
    if rustix::process::geteuid().is_root() {
        let expected =
            "warning: DIR/users.toml: ghost cannot log on: there is no system user ghost";
        assert!(is_valid && said.contains(expected), "{said}");
    }
    std::fs::write(&file, "").unwrap();
    let (said, is_valid) = findings(folder.path(), &config);
    assert!(
        is_valid && said.contains("users.toml: no user can log on; add one: anabranch user add"),
        "{said}"
    );
    let (said, is_valid) = findings(folder.path(), SERVER);
    assert!(!is_valid && said.contains("no share is configured; add a [[share]]"), "{said}");
}

#[test]
fn added_user_without_a_system_user_has_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users.toml").display().to_string();
    let mut child = crate::support::anabranch()
        .args(["user", "add", "Ghost", "--password-stdin", "--users", &users])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"secret\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = text(&output.stderr);
    if rustix::process::geteuid().is_root() {
        assert!(said.starts_with("warning: ghost was stored and cannot log on"), "{said}");
        assert!(
            said.contains("useradd ghost, or choose another with: anabranch user passwd ghost")
        );
    }
}
