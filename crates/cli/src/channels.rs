//! `anabranch channels`.

mod of_url;
mod sockets;

use crate::admin::{Admin, list, plain};
use crate::remote::RemoteUrl;
use anyhow::{Context, Result};
use serde_json::Value;
use std::process::ExitCode;

pub use of_url::own_interfaces;

/// Shown below the options.
const EXAMPLES: &str = "\
With a URL: connects to that share of any server as a client, puts load on it, and shows the
channels under the names that Get-SmbMultichannelConnection and Get-SmbClientNetworkInterface
use, the traffic of each, and the six checks that verify Multichannel. The password comes from
ANABRANCH_PASSWORD, from standard input (--password-stdin), or from a prompt, if there is no
Kerberos ticket.

Examples:
  anabranch channels
  anabranch channels smb://alice@server/data
  anabranch channels nfs://server/export --channels 8 --seconds 5
  anabranch channels --json | jq '.Sessions[].CurrentChannels'
  anabranch channels --cut 17";

/// Columns of the table: title, and field of the admin API's response.
const COLUMNS: [(&str, &str); 10] = [
    ("connection", "ConnectionId"),
    ("interface", "ServerInterfaceIndex"),
    ("RSS", "ServerRSSCapable"),
    ("SMB", "Dialect"),
    ("signing", "SigningAlgorithm"),
    ("cipher", "EncryptionAlgorithm"),
    ("credits", "Credits"),
    ("received", "BytesReceived"),
    ("sent", "BytesSent"),
    ("core", "Core"),
];

/// Arguments of `channels`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Share or export of any server to open channels to:
    /// smb://USER@HOST[:PORT]/SHARE[/FOLDER] or nfs://HOST[:PORT]/PATH
    url: Option<RemoteUrl>,
    /// Connections to open, with a URL
    #[arg(long, default_value_t = 4, requires = "url", value_parser = clap::value_parser!(u8).range(1..=32))]
    channels: u8,
    /// Seconds of load, with a URL
    #[arg(long, value_name = "SECONDS", default_value_t = 2, requires = "url", value_parser = clap::value_parser!(u16).range(1..=600))]
    seconds: u16,
    /// Open several connections to one address, even if its interfaces do not call for them
    #[arg(long, requires = "url")]
    any_interface: bool,
    /// Read the password from standard input
    #[arg(long, requires = "url")]
    password_stdin: bool,
    #[command(flatten)]
    admin: Admin,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Drop one connection without notice, as a broken network would; its client continues
    /// on the session's other channels
    #[arg(long, value_name = "CONNECTION", conflicts_with = "url")]
    cut: Option<u64>,
}

/// Shows the channels of all sessions, or cuts one.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(url) = &args.url {
        return of_url::run(args, url);
    }
    if let Some(connection) = args.cut {
        args.admin
            .carry_out("DELETE", &format!("/v1/connections/{connection}"), args.json)
            .with_context(|| format!("connection {connection} was not cut"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(page) = args.admin.page("/v1/channels", args.json)? {
        out!("{}", shown(&page));
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(page: &Value) -> String {
    let enabled = page["EnableMultichannel"].as_bool().unwrap_or_default();
    let most = plain(&page["MaxChannels"]);
    let mut out = if enabled {
        format!("Multichannel on, at most {most} channels a session\n")
    } else {
        "Multichannel off\n".into()
    };
    for interface in list(&page["Interfaces"]) {
        let text = |key: &str| plain(&interface[key]);
        let megabits = interface["LinkSpeed"].as_u64().unwrap_or_default() / 1_000_000;
        out += &format!("address {}  interface {}", text("IpAddress"), text("InterfaceIndex"));
        out += &format!("  {megabits} Mbit/s  RSS {}\n", text("RSSCapable"));
    }
    for session in list(&page["Sessions"]) {
        let text = |key: &str| plain(&session[key]);
        out += &format!("\nsession {}  user {}", text("SessionId"), text("UserName"));
        out += &format!("  channels {} of {}", text("CurrentChannels"), text("MaxChannels"));
        let anew = session["NeedsReconnect"].as_bool().unwrap_or_default();
        out += if anew { "  needs reconnect\n" } else { "\n" };
        out += &table(list(&session["Channels"]));
    }
    for session in list(&page["NfsClients"]) {
        let text = |key: &str| plain(&session[key]);
        out += &format!("\nNFS session {}  client {}", text("SessionId"), text("Client"));
        out += &format!("  slots {}\n", text("Slots"));
        for connection in list(&session["Connections"]) {
            let text = |key: &str| plain(&connection[key]);
            out += &format!("  connection {}  {}", text("ConnectionId"), text("Client"));
            out += &format!(" -> {}  received {}", text("Server"), text("BytesReceived"));
            out += &format!("  sent {}  core {}", text("BytesSent"), text("Core"));
            out += if connection["Tls"] == true { "  TLS\n" } else { "\n" };
        }
    }
    out
}

/// One line a channel; columns as wide as what they hold.
fn table(channels: &[Value]) -> String {
    let end = |channel: &Value, side: &str| {
        let (ip, port) =
            (plain(&channel[format!("{side}IpAddress")]), &channel[format!("{side}Port")]);
        let ip = if ip.contains(':') { format!("[{ip}]") } else { ip };
        format!("{ip}:{}", plain(port))
    };
    let mut lines = vec![vec!["client".to_owned(), "server".to_owned()]];
    lines[0].extend(COLUMNS.map(|(title, _)| title.to_owned()));
    for channel in channels {
        let mut line = vec![end(channel, "Client"), end(channel, "Server")];
        line.extend(COLUMNS.map(|(_, key)| plain(&channel[key])));
        lines.push(line);
    }
    let wide = |at: usize| lines.iter().map(|l| l[at].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..COLUMNS.len() + 2).map(wide).collect();
    let mut out = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        out += &format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_listing_has_a_line_for_each_channel() {
        let channel = |port: u16| {
            serde_json::json!({
                "ConnectionId": port, "ClientIpAddress": "::1", "ClientPort": port,
                "ServerIpAddress": "::1", "ServerPort": 445, "ServerInterfaceIndex": 1,
                "ServerRSSCapable": true, "Dialect": "3.1.1", "SigningAlgorithm": "AES-128-GMAC",
                "EncryptionAlgorithm": "-", "Credits": 8, "BytesReceived": 12, "BytesSent": 3,
            })
        };
        let page = serde_json::json!({
            "EnableMultichannel": true, "MaxChannels": 4,
            "Sessions": [{
                "SessionId": "1", "UserName": "a\u{1b}", "MaxChannels": 4, "CurrentChannels": 2,
                "NeedsReconnect": false, "Channels": [channel(7), channel(40_000)],
            }],
        });
        let shown = shown(&page);
        let wanted = "\
Multichannel on, at most 4 channels a session

session 1  user a\\u{1b}  channels 2 of 4
  client       server     connection  interface  RSS  SMB    signing       cipher  credits  received  sent  core
  [::1]:7      [::1]:445  7           1          yes  3.1.1  AES-128-GMAC  -       8        12        3     -
  [::1]:40000  [::1]:445  40000       1          yes  3.1.1  AES-128-GMAC  -       8        12        3     -
";
        assert_eq!(shown, wanted);
    }

    #[test]
    fn session_from_before_multichannel_needs_reconnect() {
        let session =
            serde_json::json!({"NeedsReconnect": true, "CurrentChannels": 1, "MaxChannels": 1});
        let page = serde_json::json!({"EnableMultichannel": true, "Sessions": [session]});
        assert!(shown(&page).contains("channels 1 of 1  needs reconnect\n"));
        let page = serde_json::json!({"EnableMultichannel": false});
        assert_eq!(shown_first(&page), "Multichannel off");
    }

    fn shown_first(page: &Value) -> String {
        shown(page).lines().next().unwrap_or_default().to_owned()
    }
}
