//! `anabranch sessions`.

use crate::admin::{Admin, escaped, list, plain};
use crate::output;
use anyhow::{Context, Result};
use serde_json::Value;
use std::process::ExitCode;

/// Shown below the options.
const EXAMPLES: &str = "\
Examples:
  anabranch sessions
  anabranch sessions --json | jq '.items[].user'
  anabranch sessions close 00000000f3a1b2c4
  anabranch sessions close --nfs 68f2a1b200000001";

/// Arguments of `sessions`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    admin: Admin,
    /// Print the sessions and NFS clients, or the result of `close`, as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Option<SessionsCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum SessionsCommand {
    /// Close a session and all its open files; the client may log on again
    Close(SessionIdArgs),
}

#[derive(Debug, clap::Args)]
struct SessionIdArgs {
    /// Session id, as the list shows it
    id: String,
    /// The id belongs to an NFS client
    #[arg(long)]
    nfs: bool,
}

/// Shows sessions, or closes one.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(SessionsCommand::Close(which)) = &args.command {
        let kind = if which.nfs { "nfs-clients" } else { "sessions" };
        let path = format!("/v1/{kind}/{}", escaped(&which.id));
        args.admin
            .carry_out("DELETE", &path, args.json)
            .with_context(|| format!("{} was not closed", which.id))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut sessions = args.admin.ask("GET", "/v1/sessions", None)?;
    let clients = args.admin.ask("GET", "/v1/nfs-clients", None)?;
    if args.json {
        sessions["nfs_clients"] = clients["items"].clone();
        output::print_json(&sessions)?;
    } else {
        out!("{}", shown(&sessions, &clients));
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(sessions: &Value, clients: &Value) -> String {
    let mut out = String::new();
    for session in list(&sessions["items"]) {
        let text = |key: &str| plain(&session[key]);
        let channels = list(&session["channels"]);
        let from = channels.first().map_or("-".into(), |channel| plain(&channel["client"]));
        let moved = |key: &str| channels.iter().filter_map(|c| c[key].as_u64()).sum::<u64>();
        out += &format!("{}  {}  SMB {}  from {from}", text("id"), text("user"), text("dialect"));
        out += &format!("  channels {}  open {}", channels.len(), text("opens_total"));
        out += &format!("  received {}", moved("received_bytes"));
        out += &format!("  sent {}\n", moved("sent_bytes"));
    }
    for client in list(&clients["items"]) {
        let text = |key: &str| plain(&client[key]);
        out += &format!("{}  {}  NFS  from {}", text("id"), text("owner"), text("client"));
        out += &format!("  sessions {}", list(&client["sessions"]).len());
        out += &format!("  states {}\n", text("states"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn smb_session_and_nfs_client_have_a_line_each() {
        let channel = json!({ "client": "192.0.2.1:7", "received_bytes": 5, "sent_bytes": 7 });
        let sessions = json!({ "items": [{
            "id": "1", "user": "a\u{1b}", "dialect": "3.1.1", "channels": [channel, channel],
            "opens_total": 3,
        }] });
        let clients = json!({ "items": [{
            "id": "2", "owner": "o", "client": "192.0.2.2:7", "sessions": [{}], "states": 4,
        }] });
        let wanted = "\
1  a\\u{1b}  SMB 3.1.1  from 192.0.2.1:7  channels 2  open 3  received 10  sent 14
2  o  NFS  from 192.0.2.2:7  sessions 1  states 4
";
        assert_eq!(shown(&sessions, &clients), wanted);
    }
}
