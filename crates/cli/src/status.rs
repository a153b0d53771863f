//! `anabranch status`.

use crate::admin::{Admin, list, plain};
use anyhow::Result;
use serde_json::Value;
use std::process::ExitCode;

/// Shown below the options.
const EXAMPLES: &str = "\
Examples:
  anabranch status
  anabranch status --json | jq '.sessions[].user'";

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    admin: Admin,
    /// Print the server's response as JSON
    #[arg(long)]
    json: bool,
}

/// Shows what a running server is doing.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(status) = args.admin.page("/v1/status", args.json)? {
        out!("{}", shown(&status));
    }
    Ok(ExitCode::SUCCESS)
}

/// Line for a share whose disk failed to write data back.
fn disk_failed(share: &str, disk: &Value) -> String {
    let share = plain(&Value::from(share));
    let count = disk["count"].as_u64().unwrap_or_default();
    let stopped = disk["stopped"].as_bool().unwrap_or_default();
    let stopped = if stopped { "; the share has stopped" } else { "" };
    format!(
        "share {share}: written data was not stored ({}; failures: {count}){stopped}: check \
         the kernel log and the file system, then restart the server\n",
        plain(&disk["error"])
    )
}

fn shown(status: &Value) -> String {
    let sessions = list(&status["sessions"]);
    let counts = [
        counted(status["connections"].as_u64(), "connection"),
        counted(status["sessions_total"].as_u64(), "session"),
        counted(status["requests"].as_u64(), "request"),
        counted(status["logons"].as_u64(), "logon"),
        format!("{} refused", status["logons_failed"].as_u64().unwrap_or_default()),
    ];
    let mut out = counts.join(", ") + "\n" + &confinement(&status["confinement"]);
    out += refused_calls(status);
    out += &announced(&status["discovery"]);
    for (share, by) in status["backend_latency_us"].as_object().into_iter().flatten() {
        let by = by.as_u64().unwrap_or_default();
        let share = plain(&Value::from(share.as_str()));
        out += &format!("share {share}: backend_latency_us adds {by} µs to each call\n");
    }
    for (share, disk) in status["disk_failures"].as_object().into_iter().flatten() {
        out += &disk_failed(share, disk);
    }
    for session in sessions {
        let text = |key: &str| plain(&session[key]);
        out += &format!("\nsession {}  user {}  SMB {}", text("id"), text("user"), text("dialect"));
        out += &format!("  signing {}  cipher {}", text("signing"), text("cipher"));
        let anew = session["needs_reconnect"].as_bool().unwrap_or_default();
        out += if anew { "  needs reconnect for Multichannel\n" } else { "\n" };
        for channel in list(&session["channels"]) {
            out += &format!(
                "  channel {} -> {}\n",
                plain(&channel["client"]),
                plain(&channel["server"])
            );
        }
        out += &shares_line("shares", &session["shares"]);
        let opens = list(&session["opens"]);
        for open in opens {
            let (share, path, access) =
                (plain(&open["share"]), plain(&open["path"]), plain(&open["access"]));
            out += &format!("  open    {share}:/{path}  access {access}\n");
        }
        let all = session["opens_total"].as_u64().unwrap_or_default();
        if all > opens.len() as u64 {
            out += &format!("  and {} more open\n", all - opens.len() as u64);
        }
    }
    let all = status["sessions_total"].as_u64().unwrap_or_default();
    if all > sessions.len() as u64 {
        out += &format!("\nand {} more sessions\n", all - sessions.len() as u64);
    }
    for client in list(&status["nfs"]["clients"]) {
        out += &nfs_client(client);
    }
    out
}

/// Lines on where clients find the server by themselves.
pub(crate) fn announced(discovery: &Value) -> String {
    let links = list(&discovery["links"]);
    if let (true, Some(reason)) = (links.is_empty(), discovery["reason"].as_str()) {
        return format!("not announced: {}\n", plain(&Value::from(reason)));
    }
    let mut out = String::new();
    for link in links {
        let services: Vec<_> = list(&link["services"]).iter().map(plain).collect();
        let explorer = if link["explorer"] == true { "yes" } else { "no" };
        let name = match link["name"].as_str() {
            Some(_) => format!("announced as {}", plain(&link["name"])),
            None => "not announced by mDNS".to_owned(),
        };
        out += &format!(
            "{name} on {}: {}; Explorer: {explorer}\n",
            plain(&link["interface"]),
            if services.is_empty() { "-".to_owned() } else { services.join(", ") }
        );
        for problem in list(&link["problems"]) {
            out += &format!("  {}\n", plain(problem));
        }
    }
    out
}

/// The active and missing layers of confinement, if the server reports them.
fn confinement(layers: &Value) -> String {
    let holds = |name: &&str| layers[name].as_bool();
    let names = ["capabilities", "no_new_privs", "seccomp", "landlock", "landlock_scopes"];
    let held: Vec<_> = names.into_iter().filter(|name| holds(name) == Some(true)).collect();
    let missing: Vec<_> = names.into_iter().filter(|name| holds(name) == Some(false)).collect();
    match (held.is_empty(), missing.is_empty()) {
        (true, true) => String::new(),
        (true, false) => "confinement: none (confinement = \"on\" in [server])\n".to_owned(),
        (false, true) => format!("confinement: {}\n", held.join(", ")),
        (false, false) => {
            format!("confinement: {}; missing: {}\n", held.join(", "), missing.join(", "))
        }
    }
}

/// The command that shows the system calls that seccomp refused.
fn refused_calls(status: &Value) -> &'static str {
    match (status["confinement"]["seccomp"].as_bool(), status["refusals_logged"].as_bool()) {
        (Some(true), Some(true)) => {
            "refused calls: journalctl -k -g 'type=1326.*anabranch' \
             (with auditd: ausearch -m SECCOMP -x anabranch)\n"
        }
        (Some(true), Some(false)) => {
            "refused calls: not logged by this kernel (anabranch doctor)\n"
        }
        _ => "",
    }
}

/// The shares that a client has connected or mounted.
fn shares_line(what: &str, names: &Value) -> String {
    let names: Vec<_> = list(names).iter().map(plain).collect();
    if names.is_empty() { String::new() } else { format!("  {what} {}\n", names.join(", ")) }
}

fn nfs_client(client: &Value) -> String {
    let text = |key: &str| plain(&client[key]);
    let is = |key: &str| client[key].as_bool().unwrap_or_default();
    let mut out =
        format!("\nNFS client {}  {}  from {}", text("id"), text("owner"), text("client"));
    out += &format!("  {}", counted(client["states"].as_u64(), "state"));
    out += match (is("confirmed"), is("expired")) {
        (false, _) => "  not confirmed\n",
        (true, true) => "  lease expired\n",
        (true, false) => "\n",
    };
    out += &shares_line("exports", &client["exports"]);
    for session in list(&client["sessions"]) {
        let text = |key: &str| plain(&session[key]);
        out += &format!("  session {}  slots {}  busy {}", text("id"), text("slots"), text("busy"));
        out += &format!("  calls {}  connections {}", text("calls"), text("connections"));
        let under_tls = session["tls_connections"].as_u64().unwrap_or_default();
        if under_tls > 0 {
            out += &format!(", {under_tls} under TLS");
        }
        let reached = session["callbacks"].as_bool().unwrap_or_default();
        out += if reached { "\n" } else { "  no callbacks\n" };
    }
    out
}

fn counted(count: Option<u64>, what: &str) -> String {
    let count = count.unwrap_or_default();
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_that_has_failed_is_shown_with_its_share_and_the_remedy() {
        let disk = serde_json::json!({"count": 2, "error": "I/O error", "stopped": true});
        let shown = shown(&serde_json::json!({"disk_failures": {"data": disk}}));
        let line = "share data: written data was not stored (I/O error; failures: 2); the share \
                    has stopped: check the kernel log and the file system, \
                    then restart the server\n";
        assert!(shown.contains(line), "{shown}");
    }

    #[test]
    fn announcement_is_shown_by_interface_with_its_problems() {
        let link = serde_json::json!({
            "interface": "eth0", "name": "NAS", "services": ["smb", "time machine"],
            "explorer": false, "problems": ["tcp 5357: in use"],
        });
        let shown = shown(&serde_json::json!({"discovery": {"links": [link]}}));
        let lines =
            "announced as NAS on eth0: smb, time machine; Explorer: no\n  tcp 5357: in use\n";
        assert!(shown.contains(lines), "{shown}");
        let off = serde_json::json!({"discovery": {"links": [], "reason": "it is off"}});
        assert!(super::shown(&off).contains("not announced: it is off\n"));
    }

    #[test]
    fn client_is_shown_with_what_it_has_mounted() {
        let session = serde_json::json!({"id": "1", "shares": ["data", "home"]});
        let client = serde_json::json!({
            "id": "2", "owner": "Linux NFSv4.1\u{1b} a", "client": "192.0.2.7:700", "states": 3,
            "exports": ["data", "a\nb"], "confirmed": true, "expired": false,
        });
        let nfs = serde_json::json!({"clients": [client]});
        let shown = shown(&serde_json::json!({"sessions": [session], "nfs": nfs}));
        assert!(shown.contains("\n  shares data, home\n"), "{shown}");
        let line = "NFS client 2  Linux NFSv4.1\\u{1b} a  from 192.0.2.7:700  3 states\n  exports data, a\\nb\n";
        assert!(shown.contains(line), "{shown}");
    }

    #[test]
    fn terminal_escapes_in_client_names_are_escaped() {
        let open =
            serde_json::json!({"share": "data", "path": "\u{1b}[2Jx\n\u{9b}y", "access": "0x1"});
        let status = serde_json::json!({"connections": 2, "sessions_total": 1, "sessions": [{"id": "1", "opens": [open]}]});
        let shown = shown(&status);
        assert!(
            shown.starts_with("2 connections, 1 session, 0 requests, 0 logons, 0 refused\n"),
            "{shown}"
        );
        assert!(shown.contains("data:/\\u{1b}[2Jx\\n\\u{9b}y  access 0x1"), "{shown}");
    }
}
