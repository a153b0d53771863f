//! `anabranch drain`.

use crate::admin::{Admin, plain};
use crate::output;
use anyhow::Result;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

/// Shown below the options.
const EXAMPLES: &str = "\
The server stops accepting new clients. It disconnects clients without open files at once, and
the others when they have closed their files or the time is over. The command waits and shows
the progress. The server keeps running until it is stopped, or accepts clients again (--cancel).

Examples:
  anabranch drain --within 300 && systemctl stop anabranch
  anabranch drain --within 300 --json | jq .state
  anabranch drain --cancel";

/// Interval of polling the server's progress.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Arguments of `drain`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    admin: Admin,
    /// Seconds that clients have to close their open files
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(..=86_400))]
    within: u32,
    /// Start draining, and do not wait for its end
    #[arg(long)]
    no_wait: bool,
    /// Accept clients again
    #[arg(long, conflicts_with_all = ["within", "no_wait"])]
    cancel: bool,
    /// Print the last state as JSON, without progress
    #[arg(long)]
    json: bool,
}

/// Drains a running server.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.cancel {
        let state = args.admin.ask("DELETE", "/v1/drain", None)?;
        show(args, &state)?;
        return Ok(ExitCode::SUCCESS);
    }
    let wish = json!({ "within_seconds": args.within });
    let mut state = args.admin.ask("POST", "/v1/drain", Some(&wish))?;
    let mut last = String::new();
    // Requests in flight at the deadline may take some seconds more.
    let looks = (args.within + 60) * 2;
    for _ in 0..looks {
        let line = shown(&state);
        if !args.json && line != last {
            outln!("{line}");
            last = line;
        }
        if args.no_wait || state["state"] != "draining" {
            break;
        }
        std::thread::sleep(LOOK_EVERY);
        state = args.admin.ask("GET", "/v1/drain", None)?;
    }
    if args.json {
        output::print_json(&state)?;
    }
    let is_done = args.no_wait || state["state"] == "drained";
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(args: &Args, state: &Value) -> Result<()> {
    if args.json {
        return output::print_json(state);
    }
    outln!("{}", shown(state));
    Ok(())
}

fn shown(state: &Value) -> String {
    let text = |key: &str| plain(&state[key]);
    format!(
        "{}: {} connections, {} sessions, {} open files, {} NFS clients",
        text("state"),
        text("connections"),
        text("sessions"),
        text("opens"),
        text("nfs_clients")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_state_is_shown_in_one_line() {
        let state = json!({
            "state": "draining", "connections": 2, "sessions": 1, "opens": 3, "nfs_clients": 0,
        });
        let line = "draining: 2 connections, 1 sessions, 3 open files, 0 NFS clients";
        assert_eq!(shown(&state), line);
    }
}
