//! Promises to programs: the `--json` document and the exit codes of every command.
//!
//! [`PROMISES`] has a row for each command of the built product, and docs/commands.md has the same.

use crate::commands::add_user;
use crate::support::{PASSWORD, ServerProcess, Setup, anabranch, text, user, wait_for};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::{Output, Stdio};

/// The page that documents the promises.
const PAGE: &str = include_str!("../../../../docs/commands.md");

/// Commands without a document: `serve` runs until it is stopped, and the others print nothing.
const SILENT: [&str; 4] = ["serve", "user add", "user passwd", "user remove"];

/// A command, and what programs may rely on.
struct OutputPromise {
    /// The command and its nested command.
    command: &'static str,
    /// Further arguments. DIR, ADMIN, SMB and NFS stand for those of the test's server.
    arguments: &'static str,
    /// Fields of the document; `a.b` is a field of `a`, or of the first item of the list `a`.
    fields: &'static [&'static str],
    /// The exit code.
    code: i32,
}

const PROMISES: &[OutputPromise] = &[
    OutputPromise {
        command: "check",
        arguments: "DIR/config.toml",
        fields: &["file", "valid", "shares", "problems", "warnings.file", "warnings.text"],
        code: 0,
    },
    OutputPromise {
        command: "check",
        arguments: "DIR/wrong.toml",
        fields: &["valid", "problems.file", "problems.line", "problems.text"],
        code: 1,
    },
    OutputPromise {
        command: "doctor",
        arguments: "DIR/data",
        fields: &["state", "findings.topic", "findings.state", "findings.text", "facts"],
        // The worst finding is the machine's.
        code: ANY,
    },
    OutputPromise {
        command: "import",
        arguments: "DIR/smb.conf --output DIR/imported.toml --users DIR/imported-users.toml",
        fields: &[
            "output",
            "shares",
            "users_file",
            "users",
            "users_refused",
            "users_without_system_user",
            "not_imported.file",
            "not_imported.line",
            "not_imported.setting",
            "not_imported.text",
            "not_imported.weight",
            "not_needed",
        ],
        code: 0,
    },
    OutputPromise {
        command: "status",
        arguments: "--admin ADMIN",
        fields: &["version", "drain", "connections", "open_files", "sessions", "nfs.clients"],
        code: 0,
    },
    OutputPromise {
        command: "channels",
        arguments: "--admin ADMIN",
        fields: &[
            "EnableMultichannel",
            "MaxChannels",
            "Interfaces.IpAddress",
            "Sessions",
            "NfsClients",
        ],
        code: 0,
    },
    OutputPromise {
        command: "channels",
        arguments: "SMB --seconds 1",
        fields: &["Session.CurrentChannels", "Steps.Number", "Steps.Passed", "Steps.Remedy"],
        code: 0,
    },
    OutputPromise {
        command: "exports",
        arguments: "--admin ADMIN",
        fields: &["total", "items.name", "items.path", "items.mounts", "items.clients.options"],
        code: 0,
    },
    OutputPromise {
        command: "feature list",
        arguments: "--admin ADMIN",
        fields: &["FeatureName", "RegistrationState", "FeatureState", "Since", "Shares.Share"],
        code: 0,
    },
    OutputPromise {
        command: "feature register",
        arguments: "metadata-cache --admin ADMIN",
        fields: &["FeatureName", "RegistrationState", "FeatureState", "Since", "Shares.Share"],
        code: 0,
    },
    OutputPromise {
        command: "feature unregister",
        arguments: "no-such-feature --admin ADMIN",
        fields: &[],
        code: 1,
    },
    OutputPromise {
        command: "sessions",
        arguments: "--admin ADMIN",
        fields: &["total", "items", "nfs_clients"],
        code: 0,
    },
    OutputPromise {
        command: "sessions close",
        arguments: "0000000000000001 --admin ADMIN",
        fields: &[],
        code: 1,
    },
    OutputPromise {
        command: "share limits",
        arguments: "data --admin ADMIN",
        fields: &["class", "share.iops", "file.iops", "credits", "throttled.iops", "waiting"],
        code: 0,
    },
    OutputPromise { command: "dashboard", arguments: "--admin ADMIN", fields: &["url"], code: 0 },
    OutputPromise {
        command: "state export",
        arguments: "DIR/state.tar --config DIR/config.toml",
        fields: &["state", "files", "format", "written_by"],
        code: 0,
    },
    // The server of the test runs.
    OutputPromise {
        command: "state import",
        arguments: "DIR/state.tar --replace --config DIR/config.toml",
        fields: &[],
        code: 1,
    },
    OutputPromise {
        command: "user list",
        arguments: "--users DIR/users.toml",
        fields: &["total", "items.name", "items.system_user"],
        code: 0,
    },
    OutputPromise {
        command: "copy",
        arguments: "DIR/data DIR/copied --no-resume",
        fields: &["files_copied", "bytes_copied", "files_unchanged", "removed", "failed", "fatal"],
        code: 0,
    },
    OutputPromise {
        command: "probe",
        arguments: "SMB",
        fields: &["hosts.facts", "hosts.layers.layer", "hosts.layers.state", "side_by_side"],
        code: 0,
    },
    OutputPromise {
        command: "probe",
        arguments: "127.0.0.1:1 --count 1",
        fields: &["hosts.verdict.layer", "hosts.verdict.remedy"],
        code: 1,
    },
    OutputPromise {
        command: "advise",
        arguments: "SMB --seconds 5 --quiet",
        fields: &[
            "facts.server_product",
            "facts.only_channel",
            "limits.limit",
            "limits.evidence",
            "table",
            "findings.id",
            "findings.weight",
            "findings.text",
            "findings.evidence",
            "findings.settings",
        ],
        code: 0,
    },
    OutputPromise {
        command: "bench",
        arguments: "SMB --duration 0.2 --warm-up 0 --file-size 1M --quiet",
        fields: &["plan", "seconds", "operations", "per_second", "bytes_per_second"],
        code: 0,
    },
    // The last one: the server refuses clients from then on.
    OutputPromise {
        command: "drain",
        arguments: "--within 5 --admin ADMIN",
        fields: &["state", "connections", "sessions", "opens", "nfs_clients"],
        code: 0,
    },
];

/// A code that depends on the machine.
const ANY: i32 = -1;

/// A server with a share, an export, a user, and files for `check` and `import`.
fn server() -> ServerProcess {
    let mut setup = Setup::new();
    setup.shares += "[multichannel]\nchannels_max = 32\n";
    setup.export(90, 24_460);
    let server = setup.start();
    let write = |name: &str, text: &str| std::fs::write(server.path(name), text).unwrap();
    write("wrong.toml", "[server]\nworkers = 0\n");
    write("smb.conf", "[global]\nserver string = Files\n[data]\npath = /srv/data\n");
    write("data/file", "content");
    let users = server.path("users.toml").display().to_string();
    assert!(add_user(&users, &user(), PASSWORD).status.success());
    server
}

fn run(server: &ServerProcess, promise: &OutputPromise) -> Output {
    let smb = format!("smb://{}@{}/data", user(), server.smb);
    let arguments = promise.arguments.replace("DIR", &server.folder.path().display().to_string());
    let arguments = arguments.replace("ADMIN", &server.admin.to_string()).replace("SMB", &smb);
    let mut command = anabranch();
    command.args(promise.command.split(' ')).args(arguments.split(' ')).arg("--json");
    command.env("ANABRANCH_PASSWORD", PASSWORD).output().unwrap()
}

/// Whether the document has the field; lists are represented by their first item.
fn has(document: &Value, field: &str) -> bool {
    let mut at = document;
    for name in field.split('.') {
        if let Value::Array(items) = at {
            let Some(first) = items.first() else { return false };
            at = first;
        }
        let Some(inner) = at.get(name) else { return false };
        at = inner;
    }
    true
}

#[test]
fn json_documents_parse_and_have_promised_fields() {
    let server = server();
    for promise in PROMISES {
        let output = run(&server, promise);
        let name = format!("{} {}", promise.command, promise.arguments);
        assert!(
            promise.code == ANY || output.status.code() == Some(promise.code),
            "{name}: {output:?}"
        );
        let printed = text(&output.stdout);
        if promise.fields.is_empty() {
            assert_eq!(printed, "", "{name}: a refusal is on standard error");
            assert!(text(&output.stderr).starts_with("anabranch: "), "{name}: {output:?}");
            continue;
        }
        let document: Value = serde_json::from_str(&printed)
            .unwrap_or_else(|error| panic!("{name}: {error}: {output:?}"));
        for field in promise.fields {
            assert!(has(&document, field), "{name} lacks {field}: {document:#}");
        }
    }
}

#[test]
fn own_tools_are_listed_by_readable_names() {
    let mut setup = Setup::new();
    let (address, _) = setup.export(89, 24_461);
    let server = setup.start();
    let url = format!("nfs://{address}/exported");
    let arguments = ["bench", &url, "--duration", "3", "--warm-up", "0", "--file-size", "1M"];
    let mut bench =
        anabranch().args(arguments).arg("--json").stdout(Stdio::null()).spawn().unwrap();
    let owner = wait_for("the client", || {
        let status = server.status();
        status["nfs"]["clients"][0]["owner"].as_str().map(str::to_owned)
    });
    let name = format!(", process {} ", bench.id());
    assert!(owner.starts_with("anabranch bench on ") && owner.contains(&name), "{owner}");
    assert!(owner.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{owner}");
    assert!(bench.wait().unwrap().success());
}

/// The commands without nested ones that `--help` lists.
fn leaves(path: &[String]) -> Vec<String> {
    let output = anabranch().args(path).arg("--help").output().unwrap();
    let help = text(&output.stdout);
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return vec![path.join(" ")] };
    let lines = list.lines().take_while(|line| !line.is_empty());
    // Descriptions are indented further.
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let mut found: Vec<String> = names
        .filter(|name| *name != "help")
        .flat_map(|name| leaves(&[path, &[name.to_owned()]].concat()))
        .collect();
    // `sessions` works without its nested command.
    if help.contains("[COMMAND]") {
        found.push(path.join(" "));
    }
    found
}

#[test]
fn commands_have_rows_here_and_in_documentation() {
    let promised: BTreeSet<&str> = PROMISES.iter().map(|promise| promise.command).collect();
    let all: BTreeSet<String> = leaves(&[]).into_iter().collect();
    for command in &all {
        let is_silent = SILENT.contains(&command.as_str());
        assert!(
            is_silent != promised.contains(command.as_str()),
            "{command} needs a row in PROMISES, and one in docs/commands.md"
        );
    }
    for promise in PROMISES {
        assert!(all.contains(promise.command), "{} is no command", promise.command);
        let start = format!("| `{}` |", promise.command);
        let row = PAGE.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("docs/commands.md has no row of {start}"));
        for field in promise.fields {
            let names = field.split('.').map(|name| format!("`{name}`"));
            for name in names {
                assert!(row.contains(&name), "{start} lacks {name} in docs/commands.md");
            }
        }
    }
}

#[test]
fn exit_codes_are_in_help_and_documentation() {
    let (_, table) = PAGE.split_once("## Exit codes\n").unwrap();
    for command in leaves(&[]) {
        let output = anabranch().args(command.split(' ')).arg("--help").output().unwrap();
        let help = text(&output.stdout);
        let (_, codes) = help.split_once("\nExit code:\n").unwrap_or_else(|| panic!("{help}"));
        let top = command.split(' ').next().unwrap();
        let start = format!("| `{top}` |");
        let row = table.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("docs/commands.md has no exit codes of {top}"));
        let codes = codes.lines().filter_map(|line| line.trim_start().split_once("  "));
        for (code, meaning) in
            codes.filter(|(_, meaning)| *meaning != "the command line is not valid")
        {
            let part = format!("{code} {meaning}");
            assert!(row.contains(&part), "{start} lacks {part:?} in docs/commands.md");
        }
    }
}

#[test]
fn wrong_command_line_exits_with_2() {
    for command in leaves(&[]) {
        let output = anabranch().args(command.split(' ')).arg("--no-such-option").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}: {output:?}");
        assert_eq!(text(&output.stdout), "", "{command}");
    }
}
