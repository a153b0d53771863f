//! `anabranch share limits`.

use crate::admin::{Admin, escaped, plain};
use crate::output;
use anyhow::{Context, Result, anyhow};
use serde_json::{Map, Value};
use std::process::ExitCode;

/// Shown below the options.
const EXAMPLES: &str = "\
Keys are those of the share's configuration; `default` restores the configured value. A change
takes effect at once, and lasts until the server stops or a reload changes the share's
configuration.

Examples:
  anabranch share limits data
  anabranch share limits data class=premium provisioned_gib=1024
  anabranch share limits data limits.iops=500 limits.egress='100 MiB'
  anabranch share limits data limits.iops=default";

/// Arguments of `share`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    admin: Admin,
    #[command(subcommand)]
    command: ShareCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ShareCommand {
    /// Show or change a share's limits, and show its throttled requests
    #[command(after_help = EXAMPLES)]
    Limits(ShareLimitsArgs),
}

#[derive(Debug, clap::Args)]
struct ShareLimitsArgs {
    /// Name of the share
    name: String,
    /// Limits to change
    #[arg(value_name = "KEY=VALUE", value_parser = pair)]
    changes: Vec<(String, String)>,
    /// Print the server's response as JSON
    #[arg(long)]
    json: bool,
}

fn pair(text: &str) -> Result<(String, String)> {
    let (key, value) = text.split_once('=').ok_or_else(|| anyhow!("{text:?} is not KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Shows the limits, after applying the requested changes.
pub fn run(args: &Args) -> Result<ExitCode> {
    let ShareCommand::Limits(limits) = &args.command;
    let path = format!("/v1/shares/{}/limits", escaped(&limits.name));
    let wish = limits.changes.iter().map(|(key, value)| (key.clone(), value.as_str().into()));
    let wish = Value::Object(wish.collect::<Map<_, _>>());
    let answer = match limits.changes.is_empty() {
        true => args.admin.ask("GET", &path, None),
        false => args.admin.ask("PATCH", &path, Some(&wish)),
    };
    let answer = answer.with_context(|| format!("the limits of {}", limits.name))?;
    if limits.json {
        output::print_json(&answer)?;
    } else {
        out!("{}", shown(&limits.name, &answer));
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(name: &str, limits: &Value) -> String {
    let mut out = format!("{name}  class {}", plain(&limits["class"]));
    for key in ["provisioned_gib", "provisioned_iops", "provisioned_mib_per_second"] {
        if !limits[key].is_null() {
            out += &format!("  {key} {}", plain(&limits[key]));
        }
    }
    out += "\n";
    let mut lines = Vec::new();
    for (title, of) in [("share", &limits["share"]), ("each file", &limits["file"])] {
        lines.push((title, of.as_object().map(said).unwrap_or_default()));
    }
    let others = ["burst_iops", "metadata_iops", "root_handles", "file_handles"];
    let others = others.into_iter().map(|key| (key.to_owned(), limits[key].clone())).collect();
    lines.push(("beside", said(&others)));
    for (title, said) in lines.into_iter().filter(|(_, said)| !said.is_empty()) {
        out += &format!("  {title:<10} {said}\n");
    }
    if let Some(credits) = limits["credits"].as_object() {
        let part = |key: &str| plain(&credits[key]);
        out +=
            &format!("  credits    {} of {}, {}\n", part("available"), part("max"), part("state"));
    }
    let throttled = limits["throttled"].as_object().map(said).unwrap_or_default();
    out += &format!("  throttled  {throttled}  waiting {}\n", plain(&limits["waiting"]));
    out
}

/// The values of an object that are present, each behind its name.
fn said(values: &Map<String, Value>) -> String {
    let there = values.iter().filter(|(_, value)| !value.is_null());
    there.map(|(key, value)| format!("{key} {}", plain(value))).collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_configured_limits_are_shown() {
        let limits = json!({
            "class": "custom", "provisioned_gib": null,
            "share": { "iops": 500, "egress": null }, "file": { "iops": null },
            "credits": { "available": 1, "max": 2, "state": "accruing" },
            "throttled": { "iops": 7 }, "waiting": 0,
        });
        let wanted = "\
data  class custom
  share      iops 500
  credits    1 of 2, accruing
  throttled  iops 7  waiting 0
";
        assert_eq!(shown("data", &limits), wanted);
        assert_eq!(pair("limits.iops=5").unwrap(), ("limits.iops".into(), "5".into()));
        assert!(pair("limits.iops").is_err());
    }
}
