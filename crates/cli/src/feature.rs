//! `anabranch feature`.

use crate::admin::{Admin, escaped, list, plain};
use crate::output;
use anyhow::{Context, Result};
use serde_json::Value;
use std::process::ExitCode;

/// Shown below the options.
const EXAMPLES: &str = "\
Examples:
  anabranch feature list
  anabranch feature register metadata-cache
  anabranch feature unregister metadata-cache --share data

Azure's names of features are accepted, too (AzurePremiumFilesMetadataCacheFeature). A switch
takes effect at once and lasts until the server stops; to make it permanent, set the feature's
key in the configuration.";

/// Arguments of `feature`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    admin: Admin,
    /// Print the server's response as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: FeatureCommand,
}

#[derive(Debug, clap::Subcommand)]
enum FeatureCommand {
    /// Show all features with their state and the time of its last change
    List,
    /// Switch a feature on
    Register(FeatureArgs),
    /// Switch a feature off
    Unregister(FeatureArgs),
}

#[derive(Debug, clap::Args)]
struct FeatureArgs {
    /// Name of the feature, as `list` shows it
    name: String,
    /// Only on this share
    #[arg(long, value_name = "NAME")]
    share: Option<String>,
}

impl FeatureArgs {
    fn path(&self) -> String {
        let share = self.share.as_deref().map(|share| format!("/{}", escaped(share)));
        format!("/v1/features/{}{}", escaped(&self.name), share.unwrap_or_default())
    }
}

/// Shows or switches features of a running server.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (method, which) = match &args.command {
        FeatureCommand::List => {
            if let Some(features) = args.admin.page("/v1/features", args.json)? {
                out!("{}", shown(list(&features)));
            }
            return Ok(ExitCode::SUCCESS);
        }
        FeatureCommand::Register(which) => ("PUT", which),
        FeatureCommand::Unregister(which) => ("DELETE", which),
    };
    let feature = args
        .admin
        .ask(method, &which.path(), None)
        .with_context(|| format!("the feature {:?} was not switched", which.name))?;
    if args.json {
        output::print_json(&feature)?;
    } else {
        out!("{}", shown(&[feature]));
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(features: &[Value]) -> String {
    let mut out = String::new();
    for feature in features {
        let name = plain(&feature["FeatureName"]);
        out += &format!(
            "{name}  {}{}\n",
            stands(feature, "RegistrationState"),
            since(&feature["Since"])
        );
        if feature["Alias"].is_string() {
            out += &format!("  also {}\n", plain(&feature["Alias"]));
        }
        for share in list(&feature["Shares"]) {
            let name = plain(&share["Share"]);
            out +=
                &format!("  share {name}  {}{}\n", stands(share, "State"), since(&share["Since"]));
        }
    }
    out
}

/// The state of a feature, and the name of that state in Azure.
fn stands(of: &Value, registration: &str) -> String {
    let registration = plain(&of[registration]);
    match of["FeatureState"].as_str() {
        Some(_) => format!("{} ({registration})", plain(&of["FeatureState"])),
        None => registration,
    }
}

fn since(seconds: &Value) -> String {
    seconds.as_u64().map_or(String::new(), |seconds| format!("  since {}", moment(seconds)))
}

/// Seconds since 1970 as a date and a time.
fn moment(seconds: u64) -> String {
    let (mut days, time) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    // A server's clock is not set to a year far from now.
    while year < 10_000 && days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}:{second:02} UTC", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn timestamps_are_shown_as_utc_dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_798_761_599, "2026-12-31 23:59:59 UTC"),
        ] {
            assert_eq!(moment(seconds), text);
        }
        assert!(moment(u64::MAX).starts_with("10000-"));
    }

    #[test]
    fn feature_and_share_names_are_escaped_in_the_api_path() {
        let which = FeatureArgs { name: "a/b".into(), share: Some("my share&x".into()) };
        assert_eq!(which.path(), "/v1/features/a%2Fb/my%20share%26x");
    }

    #[test]
    fn feature_listing_shows_its_shares() {
        let share = json!({
            "Share": "da\u{1b}ta", "State": "Registered", "FeatureState": "stable", "Since": 0,
        });
        let shares = json!([share]);
        let feature = json!({
            "FeatureName": "metadata-cache", "RegistrationState": "Registered",
            "Alias": "Other", "Since": null, "Shares": shares,
        });
        let text = shown(&[feature]);
        let share = "  share da\\u{1b}ta  stable (Registered)  since 1970-01-01 00:00:00 UTC\n";
        assert_eq!(text, format!("metadata-cache  Registered\n  also Other\n{share}"));
    }
}
