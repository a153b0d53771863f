//! Every metric that is told, in one table, and their text form.

use crate::connections::Counts;
use crate::metadata_cache::Count;
use smb::snapshot::Snapshot;
use std::fmt::Write;

/// What all metrics are made from: plain values of one moment.
#[derive(Debug)]
pub struct Moment<'a> {
    /// Connections of every protocol.
    pub connections: &'a Counts,
    /// The SMB server.
    pub smb: &'a Snapshot,
    /// Files that are open.
    pub open_files: usize,
    /// What caches were good for, by share and kind.
    pub caches: &'a [(String, &'static str, Count)],
    /// Directories that were read from their beginning.
    pub directory_scans: u64,
}

/// How a value moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Only up, since the start.
    Counter,
    /// Up and down.
    Gauge,
}

/// One metric. The unit is the last word of its name, before `_total`.
struct Metric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    value: fn(&Moment<'_>) -> Values,
}

enum Values {
    One(u64),
    /// By the value of one label.
    By(&'static str, Vec<(&'static str, u64)>),
    /// By share and kind of what is kept.
    ByCache(Vec<(String, &'static str, u64)>),
}

fn by_cache(m: &Moment<'_>, value: fn(&Count) -> u64) -> Values {
    let caches = m.caches.iter();
    Values::ByCache(
        caches.map(|(share, kind, count)| (share.clone(), *kind, value(count))).collect(),
    )
}

const METRICS: &[Metric] = &[
    Metric {
        name: "anabranch_connections",
        kind: Kind::Gauge,
        help: "TCP connections that are open.",
        value: |m| Values::One(m.connections.open),
    },
    Metric {
        name: "anabranch_connections_unknown",
        kind: Kind::Gauge,
        help: "Open connections that nobody has logged on to.",
        value: |m| Values::One(m.connections.unknown),
    },
    Metric {
        name: "anabranch_connections_accepted_total",
        kind: Kind::Counter,
        help: "Connections taken.",
        value: |m| Values::One(m.connections.accepted),
    },
    Metric {
        name: "anabranch_connections_refused_total",
        kind: Kind::Counter,
        help: "Connections not taken because there were too many.",
        value: |m| Values::One(m.connections.refused),
    },
    Metric {
        name: "anabranch_connections_ended_total",
        kind: Kind::Counter,
        help: "Connections that ended, by reason.",
        value: |m| Values::By("reason", m.connections.ends.iter().map(|(k, n)| (*k, *n)).collect()),
    },
    Metric {
        name: "anabranch_received_bytes_total",
        kind: Kind::Counter,
        help: "Bytes that arrived from clients.",
        value: |m| Values::One(m.connections.received_bytes),
    },
    Metric {
        name: "anabranch_sent_bytes_total",
        kind: Kind::Counter,
        help: "Bytes that were sent to clients.",
        value: |m| Values::One(m.connections.sent_bytes),
    },
    Metric {
        name: "anabranch_open_files",
        kind: Kind::Gauge,
        help: "Files that are open, each counted once.",
        value: |m| Values::One(m.open_files as u64),
    },
    Metric {
        name: "anabranch_directory_scans_total",
        kind: Kind::Counter,
        help: "Directories read from their beginning, to list them or to look for a name.",
        value: |m| Values::One(m.directory_scans),
    },
    Metric {
        name: "anabranch_metadata_cache_hits_total",
        kind: Kind::Counter,
        help: "Answers from what was kept of names and files.",
        value: |m| by_cache(m, |count| count.hits),
    },
    Metric {
        name: "anabranch_metadata_cache_misses_total",
        kind: Kind::Counter,
        help: "Answers that the file system had to give, since nothing was kept.",
        value: |m| by_cache(m, |count| count.misses),
    },
    Metric {
        name: "anabranch_metadata_cache_invalidations_total",
        kind: Kind::Counter,
        help: "What was kept and given up because it is not so any more, or may not be.",
        value: |m| by_cache(m, |count| count.invalidations),
    },
    Metric {
        name: "anabranch_metadata_cache_evictions_total",
        kind: Kind::Counter,
        help: "What was kept and given up for want of room or of use.",
        value: |m| by_cache(m, |count| count.evictions),
    },
    Metric {
        name: "anabranch_metadata_cache_bytes",
        kind: Kind::Gauge,
        help: "Memory for what is kept of names and files.",
        value: |m| by_cache(m, |count| count.bytes),
    },
    Metric {
        name: "anabranch_smb_sessions",
        kind: Kind::Gauge,
        help: "SMB sessions.",
        value: |m| Values::One(m.smb.sessions.len() as u64),
    },
    Metric {
        name: "anabranch_smb_opens",
        kind: Kind::Gauge,
        help: "Opens of files and pipes in SMB sessions.",
        value: |m| Values::One(m.smb.sessions.iter().map(|s| s.opens.len() as u64).sum()),
    },
    Metric {
        name: "anabranch_smb_requests_total",
        kind: Kind::Counter,
        help: "SMB requests taken.",
        value: |m| Values::One(m.smb.requests),
    },
    Metric {
        name: "anabranch_smb_logons_total",
        kind: Kind::Counter,
        help: "Logons that succeeded.",
        value: |m| Values::One(m.smb.logons),
    },
    Metric {
        name: "anabranch_smb_logons_failed_total",
        kind: Kind::Counter,
        help: "Logons that were refused.",
        value: |m| Values::One(m.smb.logons_failed),
    },
];

/// All metrics in the text format that collectors read.
#[must_use]
pub fn text(moment: &Moment<'_>) -> String {
    let mut text = String::new();
    for Metric { name, kind, help, value } in METRICS {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        let _ = match value(moment) {
            Values::One(value) => writeln!(text, "{name} {value}"),
            Values::By(label, values) => values
                .iter()
                .try_for_each(|(of, value)| writeln!(text, "{name}{{{label}=\"{of}\"}} {value}")),
            Values::ByCache(values) => values.iter().try_for_each(|(share, kind, value)| {
                let share = share.replace('\\', "\\\\").replace('"', "\\\"");
                writeln!(text, "{name}{{share=\"{share}\",kind=\"{kind}\"}} {value}")
            }),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_counters_end_in_total_and_every_help_is_a_sentence() {
        let mut names: Vec<&str> = METRICS.iter().map(|m| m.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|w| w[0] != w[1]));
        for Metric { name, kind, help, .. } in METRICS {
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            assert!(help.ends_with('.') && !help.contains('\n'), "{name}");
        }
    }

    #[test]
    fn the_text_has_one_line_for_each_value_and_reason() {
        let ends = [("closed", 3), ("garbage", 1)].into();
        let counts = Counts { open: 7, received_bytes: 9, ends, ..Counts::default() };
        let smb = Snapshot { requests: 11, ..Snapshot::default() };
        let names = Count { hits: 13, ..Count::default() };
        let text = text(&Moment {
            connections: &counts,
            smb: &smb,
            open_files: 2,
            caches: &[("my \"data\"".to_owned(), "names", names)],
            directory_scans: 17,
        });
        for line in [
            "# TYPE anabranch_connections gauge",
            "anabranch_connections 7",
            "anabranch_connections_ended_total{reason=\"closed\"} 3",
            "anabranch_connections_ended_total{reason=\"garbage\"} 1",
            "anabranch_received_bytes_total 9",
            "anabranch_open_files 2",
            "anabranch_smb_requests_total 11",
            "anabranch_metadata_cache_hits_total{share=\"my \\\"data\\\"\",kind=\"names\"} 13",
            "anabranch_directory_scans_total 17",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }
}
