//! Metrics for collectors: one table, the text format, and the generated documentation.

mod table;
mod text;

use crate::conn::connections::ConnectionCounts;
use crate::log::LogCounts;
use crate::metadata_cache::CacheCount;
use crate::observe::features::FeatureState;
use crate::shares::disks::ShareDisk;
use crate::shares::facts::ShareFact;
use files::BreakCounts;
use meter::{MeterSnapshot, Stage};
use smb::snapshot::SmbSnapshot;
use table::{METRICS, Metric};
use text::MetricLines;

/// All values at one moment.
#[derive(Debug)]
pub struct Moment<'a> {
    /// Request statistics.
    pub meter: &'a MeterSnapshot,
    /// Connections of all protocols.
    pub connections: &'a ConnectionCounts,
    /// Usage of the shared resources by kind.
    pub resources: &'a [(&'static str, limits::ResourceUsage)],
    /// The SMB server.
    pub smb: &'a SmbSnapshot,
    /// The NFS server.
    pub nfs: &'a nfs::snapshot::NfsSnapshot,
    /// Number of open files.
    pub open_files: usize,
    /// Cache counters by share and kind.
    pub caches: &'a [(String, &'static str, CacheCount)],
    /// Directory scans from the beginning.
    pub directory_scans: u64,
    /// Space of the shares' file systems.
    pub shares: &'a [ShareFact],
    /// Shares whose disks have failed.
    pub disks: &'a [ShareDisk],
    /// Limits of the shares.
    pub limits: &'a [(String, limits::LimitsSnapshot)],
    /// States of the features.
    pub features: &'a [(&'static str, FeatureState)],
    /// Counts of lease and delegation breaks.
    pub breaks: BreakCounts,
    /// CPU time in seconds.
    pub cpu_times: &'a [(usize, Stage, f64)],
    /// Slow requests that the trace collector has accepted.
    pub traces_sent: u64,
    /// Events that the audit log has left out.
    pub audit_suppressed: u64,
    /// Received discovery messages by protocol and outcome.
    pub discovery: &'a [(&'static str, &'static str, u64)],
    /// Interfaces on which the server is announced.
    pub discovery_links: usize,
    /// Lines that the log lacks.
    pub log: LogCounts,
}

fn all() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().copied().flatten()
}

/// All metrics in the Prometheus text format.
#[must_use]
pub fn text(moment: &Moment<'_>) -> String {
    let mut text = String::new();
    for Metric { name, kind, labels, help, put } in all() {
        put(moment, &mut MetricLines::begin(&mut text, (name, *kind), help, labels));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use meter::{Api, Authentication, CompletedRequest, Meter, ResponseType};
    use std::fmt::Write;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    /// The table of `docs/metrics.md`.
    fn documentation() -> String {
        let mut text = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
        for Metric { name, kind, labels, help, .. } in all() {
            let labels = labels.join(", ");
            // Writing to a string does not fail.
            let _ = writeln!(text, "| `{name}` | {} | {labels} | {help} |", kind.name());
        }
        text
    }

    fn repository(path: &str) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        std::fs::read_to_string(root.join(path)).unwrap()
    }

    fn counted() -> MeterSnapshot {
        let meter = Meter::default();
        let share = meter.register("my \"data\"");
        for (authentication, response) in [
            (Authentication::NTLMv2, ResponseType::Success),
            (Authentication::NTLMv2, ResponseType::ServerOtherError),
            (Authentication::Anonymous, ResponseType::Success),
        ] {
            meter.record(&CompletedRequest {
                share,
                api: Api::smb(8),
                authentication,
                response,
                ingress_bytes: 10,
                egress_bytes: 100,
                latency: Duration::from_micros(30),
            });
        }
        meter.snapshot()
    }

    fn example() -> String {
        let ends = [("closed", 3), ("protocol_violation", 1)].into();
        let counts =
            ConnectionCounts { open: 7, received_bytes: 9, ends, ..ConnectionCounts::default() };
        let smb = SmbSnapshot { requests: 11, ..SmbSnapshot::default() };
        let names = CacheCount { hits: 13, ..CacheCount::default() };
        let fact = ShareFact { share: "data".into(), files: Some(5), ..ShareFact::default() };
        let failure = files::DiskFailure { count: 3, error: vfs::FsError::Io, has_lost: true };
        let disk = ShareDisk { share: "data".into(), failure, has_stopped: true };
        text(&Moment {
            meter: &counted(),
            connections: &counts,
            resources: &[(
                "opens",
                limits::ResourceUsage { max: 9, used: 4, holders: 2, refused: 1 },
            )],
            smb: &smb,
            nfs: &nfs::snapshot::NfsSnapshot::default(),
            open_files: 2,
            caches: &[("data".to_owned(), "names", names)],
            directory_scans: 17,
            shares: &[fact],
            disks: &[disk],
            limits: &[],
            features: &[("nfs", FeatureState::Off)],
            breaks: BreakCounts { nfs: 19, ..BreakCounts::default() },
            cpu_times: &[(1, Stage::Io, 0.25)],
            traces_sent: 0,
            audit_suppressed: 0,
            discovery: &[("mdns", "answered", 23)],
            discovery_links: 1,
            log: LogCounts::default(),
        })
    }

    #[test]
    fn metric_names_are_unique_and_helps_are_sentences() {
        let mut names: Vec<&str> = all().map(|m| m.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|w| w[0] != w[1]));
        for Metric { name, kind, help, .. } in all() {
            assert_eq!(name.ends_with("_total"), *kind == text::MetricType::Counter, "{name}");
            assert!(help.ends_with('.') && !help.contains('\n'), "{name}");
        }
    }

    #[test]
    fn metric_labels_never_come_from_clients() {
        let known = [
            "share",
            "protocol",
            "api",
            "response_type",
            "authentication",
            "transaction_type",
            "direction",
            "feature",
            "state",
            "cause",
            "kind",
            "outcome",
            "reason",
            "core",
            "stage",
        ];
        for metric in all() {
            assert!(metric.labels.iter().all(|label| known.contains(label)), "{}", metric.name);
        }
    }

    #[test]
    fn metrics_text_has_one_line_per_value_and_reason() {
        let text = example();
        let of = "share=\"my \\\"data\\\"\",protocol=\"SMB\",api=\"Read\"";
        for line in [
            "# TYPE anabranch_connections gauge".to_owned(),
            "anabranch_connections 7".to_owned(),
            "anabranch_connections_ended_total{reason=\"closed\"} 3".to_owned(),
            "anabranch_open_files 2".to_owned(),
            "anabranch_resource_limit{kind=\"opens\"} 9".to_owned(),
            "anabranch_resource_used{kind=\"opens\"} 4".to_owned(),
            "anabranch_resource_holders{kind=\"opens\"} 2".to_owned(),
            "anabranch_resource_refused_total{kind=\"opens\"} 1".to_owned(),
            "anabranch_smb_requests_total 11".to_owned(),
            "anabranch_metadata_cache_hits_total{share=\"data\",kind=\"names\"} 13".to_owned(),
            "anabranch_lease_breaks_total{cause=\"nfs\"} 19".to_owned(),
            "anabranch_feature_state{feature=\"nfs\",state=\"off\"} 1".to_owned(),
            "anabranch_feature_state{feature=\"nfs\",state=\"stable\"} 0".to_owned(),
            "anabranch_cpu_seconds_total{core=\"1\",stage=\"io\"} 0.25".to_owned(),
            "anabranch_share_files{share=\"data\"} 5".to_owned(),
            "anabranch_discovery_messages_total{protocol=\"mdns\",outcome=\"answered\"} 23"
                .to_owned(),
            format!(
                "anabranch_transactions_total{{{of},response_type=\"ServerOtherError\",authentication=\"NTLMv2\",transaction_type=\"User\"}} 1"
            ),
            format!("anabranch_ingress_bytes_total{{{of},authentication=\"Anonymous\"}} 10"),
            format!("anabranch_success_server_latency_seconds_bucket{{{of},le=\"0.000025\"}} 0"),
            format!("anabranch_success_server_latency_seconds_bucket{{{of},le=\"0.00005\"}} 2"),
            format!("anabranch_success_server_latency_seconds_count{{{of}}} 2"),
            format!("anabranch_requests_applicable_total{{{of}}} 3"),
            format!("anabranch_requests_unexpected_errors_total{{{of}}} 1"),
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }

    /// Runs promtool if it is installed.
    fn promtool(arguments: &[&str], input: &str) -> Option<(bool, String)> {
        use std::io::Write as _;
        let mut command = Command::new("promtool");
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            println!("not tested, since there is no promtool; conformance/prepare installs it");
            return None;
        };
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
    }

    #[test]
    fn promtool_accepts_the_metrics() {
        if let Some((is_good, said)) = promtool(&["check", "metrics"], &example()) {
            assert!(is_good && said.trim().is_empty(), "{said}");
        }
    }

    #[test]
    fn promtool_accepts_the_rules_and_they_fire_as_expected() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus");
        for (task, file) in [("check", "anabranch.rules.yml"), ("test", "anabranch.rules.test.yml")]
        {
            let file = root.join(file);
            if let Some((is_good, said)) = promtool(&[task, "rules", file.to_str().unwrap()], "") {
                assert!(is_good, "{said}");
            }
        }
    }

    /// The metric names in a text, without histogram suffixes.
    fn named(text: &str) -> Vec<String> {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let parts = text.split("anabranch_").skip(1);
        let names = parts.map(|rest| {
            let name = rest.chars().take_while(|c| is_part(*c)).collect::<String>();
            let ends = ["_bucket", "_sum", "_count"];
            let plain = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
            format!("anabranch_{plain}")
        });
        names.collect()
    }

    #[test]
    fn rules_and_dashboard_use_existing_metrics_and_labels() {
        let dashboard = repository("packaging/grafana/anabranch.json");
        let parsed: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
        let panels = parsed["panels"].as_array().unwrap();
        let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
        let mut asked: Vec<String> =
            targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
        assert!(asked.len() > 20);
        let variables = parsed["templating"]["list"].as_array().unwrap();
        asked.extend(variables.iter().filter_map(|v| Some(v["query"]["query"].as_str()?.into())));
        let rules = repository("packaging/prometheus/anabranch.rules.yml");
        asked.push(rules.lines().filter(|line| !line.starts_with('#')).collect());
        for text in &asked {
            for name in named(text) {
                assert!(all().any(|metric| metric.name == name), "{name} in {text}");
            }
            // Label names in selectors and in `by` clauses.
            let within = |open: &str, close: char| -> Vec<String> {
                let parts = text.split(open).skip(1);
                parts.filter_map(|p| Some(p.split_once(close)?.0.to_owned())).collect()
            };
            let selected = within("{", '}').join(",");
            let selected = selected.split(',').filter_map(|s| s.split_once(['=', '!', '~']));
            let grouped = within("by (", ')').join(",");
            let labels = selected.map(|(label, _)| label).chain(grouped.split(','));
            for label in labels.map(str::trim).filter(|l| !l.is_empty() && !l.contains(' ')) {
                let ours = all().any(|metric| metric.labels.contains(&label));
                let is_known = ours || ["instance", "job", "le", "severity:"].contains(&label);
                assert!(is_known || label.starts_with(['$', '"']), "{label} in {text}");
            }
        }
    }

    /// Rewrites the document if ANABRANCH_WRITE_DOCS is set.
    #[test]
    fn metric_page_matches_the_table() {
        let mut document = repository("docs/metrics.md");
        let (begin, end) = ("<!-- table -->\n", "<!-- end -->\n");
        if std::env::var_os("ANABRANCH_WRITE_DOCS").is_some() {
            let (before, rest) = document.split_once(begin).unwrap();
            let (_, after) = rest.split_once(end).unwrap();
            document = [before, begin, &documentation(), end, after].concat();
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            std::fs::write(root.join("docs/metrics.md"), &document).unwrap();
        }
        for line in documentation().lines() {
            assert!(document.contains(line), "docs/metrics.md lacks: {line}");
        }
        let rows = |text: &str| text.lines().filter(|l| l.starts_with("| `anabranch_")).count();
        assert_eq!(rows(&document), rows(&documentation()), "docs/metrics.md has more");
    }
}
