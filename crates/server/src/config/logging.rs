//! The `[log]` table: the log, the audit log and traces.

use super::meaning::{ConfigInterpreter, line_of};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Destination of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum AuditTarget {
    /// No audit log.
    #[default]
    Off,
    /// In the server log, with the target `audit`.
    Log,
    /// A file of its own.
    File(PathBuf),
}

/// Destination of traces of slow requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceTarget {
    /// Host and port, for example `collector:4318`.
    pub address: String,
    /// Path of the URL.
    pub path: String,
}

/// Settings of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Format of log lines.
    pub format: LogFormat,
    /// Minimum severity to log, as in `ANABRANCH_LOG`; `info` by default.
    pub level: String,
    /// Destination of the audit log.
    pub audit: AuditTarget,
    /// Minimum duration of a request that is exported as a trace.
    pub slow_request: Duration,
    /// The trace collector, if any.
    pub traces: Option<TraceTarget>,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            format: LogFormat::default(),
            level: LEVEL.into(),
            audit: AuditTarget::default(),
            slow_request: Duration::from_millis(SLOW_REQUEST_MILLIS),
            traces: None,
        }
    }
}

/// Default minimum severity: excludes debug lines.
const LEVEL: &str = "info";
/// Default duration in milliseconds from which a request is slow.
const SLOW_REQUEST_MILLIS: u64 = 1000;
const SLOW_REQUEST_MILLIS_MAX: u64 = 3_600_000;
/// Default port of OTLP over HTTP.
const OTLP_PORT: u16 = 4318;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLogging {
    /// `text` or `json`.
    format: Option<LogFormat>,
    /// Minimum severity: `error`, `warn`, `info`, `debug`, or directives.
    level: Option<String>,
    /// `off`, `log`, or a file path.
    audit: Option<Spanned<String>>,
    /// Minimum duration in milliseconds of an exported request.
    slow_request_ms: Option<Spanned<u64>>,
    /// URL of an OpenTelemetry collector, plain HTTP.
    traces: Option<Spanned<String>>,
}

impl RawLogging {
    /// Line of `audit` in the file.
    pub(super) fn line_of_audit(&self, text: &str) -> Option<usize> {
        self.audit.as_ref().map(|audit| line_of(text, audit.span().start))
    }
}

impl ConfigInterpreter<'_> {
    pub(super) fn logging(&mut self, raw: RawLogging) -> LogSettings {
        let millis = raw.slow_request_ms.map_or(SLOW_REQUEST_MILLIS, |millis| {
            self.bounded("slow_request_ms", &millis, 1..=SLOW_REQUEST_MILLIS_MAX)
        });
        LogSettings {
            format: raw.format.unwrap_or_default(),
            level: raw.level.unwrap_or_else(|| LEVEL.into()),
            audit: raw.audit.map_or(AuditTarget::Off, |target| self.audit(&target)),
            slow_request: Duration::from_millis(millis),
            traces: raw.traces.and_then(|url| self.traces(&url)),
        }
    }

    fn audit(&mut self, target: &Spanned<String>) -> AuditTarget {
        match target.get_ref().as_str() {
            "off" => AuditTarget::Off,
            "log" => AuditTarget::Log,
            path if path.starts_with('/') => AuditTarget::File(path.into()),
            other => {
                let what = format!(
                    "audit = {other:?} is not \"off\", \"log\" or a file, such as \"/var/log/anabranch/audit.jsonl\""
                );
                self.wrong(target.span(), what);
                AuditTarget::Off
            }
        }
    }

    fn traces(&mut self, url: &Spanned<String>) -> Option<TraceTarget> {
        let parsed = parse_url(url.get_ref());
        if parsed.is_none() {
            let what = format!(
                "traces = {:?} is not a URL of plain HTTP, such as \"http://127.0.0.1:4318/v1/traces\"",
                url.get_ref()
            );
            self.wrong(url.span(), what);
        }
        parsed
    }
}

fn parse_url(url: &str) -> Option<TraceTarget> {
    let rest = url.strip_prefix("http://")?;
    let (address, path) = rest.split_once('/').unwrap_or((rest, "v1/traces"));
    let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_graphic() && c != '@');
    if address.is_empty() || !is_plain(address) || !is_plain(path) {
        return None;
    }
    // An IPv6 address has brackets around it and colons in it.
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let address = if has_port { address.to_owned() } else { format!("{address}:{OTLP_PORT}") };
    Some(TraceTarget { address, path: format!("/{path}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerConfig;

    #[test]
    fn log_settings_are_parsed() {
        let text = "[log]\nformat = \"json\"\nlevel = \"debug\"\naudit = \"/var/log/a.jsonl\"\n\
            slow_request_ms = 250\ntraces = \"http://collector/x\"\n";
        let log = ServerConfig::parse(text).unwrap().log;
        assert_eq!(
            log,
            LogSettings {
                format: LogFormat::Json,
                level: "debug".into(),
                audit: AuditTarget::File("/var/log/a.jsonl".into()),
                slow_request: Duration::from_millis(250),
                traces: Some(TraceTarget { address: "collector:4318".into(), path: "/x".into() }),
            }
        );
        let nothing = ServerConfig::parse("").unwrap().log;
        assert_eq!((nothing.audit, nothing.traces), (AuditTarget::Off, None));
    }

    #[test]
    fn invalid_log_settings_are_reported_with_their_line() {
        let text = "[log]\naudit = \"elsewhere\"\nslow_request_ms = 0\ntraces = \"https://a\"\n";
        let problems = ServerConfig::parse(text).unwrap_err().problems;
        let lines: Vec<Option<usize>> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines.len(), 3, "{problems:?}");
        assert!([Some(2), Some(3), Some(4)].iter().all(|line| lines.contains(line)));
    }

    #[test]
    fn url_without_port_and_path_gets_the_defaults() {
        let of = |url: &str| parse_url(url).map(|target| target.address + &target.path);
        assert_eq!(of("http://10.0.0.1").as_deref(), Some("10.0.0.1:4318/v1/traces"));
        assert_eq!(of("http://[::1]:9/").as_deref(), Some("[::1]:9/"));
        assert_eq!(of("http://[::1]/a/b").as_deref(), Some("[::1]:4318/a/b"));
        for bad in ["https://a", "a", "http://", "http://u@h/", "http://a b/", "http://a/\r\n"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
