//! `anabranch exports`.

use crate::admin::{Admin, list, plain};
use crate::output;
use anyhow::Result;
use serde_json::{Value, json};
use server::config::{ExportLine, ServerConfig};
use std::path::PathBuf;
use std::process::ExitCode;

/// Shown below the options.
const EXAMPLES: &str = "\
Examples:
  anabranch exports
  anabranch exports --config /etc/anabranch/anabranch.toml
  anabranch exports --json | jq -r '.items[].mounts[]'

Each line is an export: its directory, the share's name, and clients with their options, as in
exports(5). The first matching client applies. Clients mount a share as SERVER:/NAME, and unless
nfs_paths = false also by the path of its directory.";

/// Arguments of `exports`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    admin: Admin,
    /// Show the exports of a configuration file instead of a running server
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the exports as JSON
    #[arg(long)]
    json: bool,
}

/// Lists exports.
pub fn run(args: &Args) -> Result<ExitCode> {
    let page = match &args.config {
        Some(file) => of_file(file, args.json)?,
        None => args.admin.page("/v1/exports", args.json)?,
    };
    if let Some(page) = page {
        out!("{}", shown(&page));
    }
    Ok(ExitCode::SUCCESS)
}

/// The exports of a configuration file; none if they were printed as JSON.
fn of_file(file: &std::path::Path, as_json: bool) -> Result<Option<Value>> {
    let config = ServerConfig::load(file)?;
    let items: Vec<Value> = ExportLine::all(&config).iter().map(ExportLine::json).collect();
    let page = json!({ "total": items.len(), "items": items });
    if as_json {
        output::print_json(&page)?;
        return Ok(None);
    }
    Ok(Some(page))
}

fn shown(page: &Value) -> String {
    let joined =
        |value: &Value, by: &str| list(value).iter().map(plain).collect::<Vec<_>>().join(by);
    let line = |export: &Value| {
        let mut line = format!("{}  {} ", plain(&export["path"]), plain(&export["name"]));
        for client in list(&export["clients"]) {
            line += &format!(" {}({})", plain(&client["hosts"]), joined(&client["options"], ","));
        }
        for (key, what) in [("hosts_allowed", "only"), ("hosts_denied", "not")] {
            if !list(&export[key]).is_empty() {
                line += &format!("  # {what} {} ({key})", joined(&export[key], ", "));
            }
        }
        line + "\n"
    };
    list(&page["items"]).iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn export_is_one_line_whatever_its_name() {
        let client = json!({ "hosts": "*.lab", "options": ["ro", "sync"] });
        let export = json!({
            "path": "/srv/a", "name": "a\n\u{1b}b", "clients": [client, client],
            "hosts_allowed": [], "hosts_denied": ["192.0.2.1", "192.0.2.2"],
        });
        assert_eq!(
            shown(&json!({ "items": [export] })),
            "/srv/a  a\\n\\u{1b}b  *.lab(ro,sync) *.lab(ro,sync)  # not 192.0.2.1, 192.0.2.2 (hosts_denied)\n"
        );
    }
}
