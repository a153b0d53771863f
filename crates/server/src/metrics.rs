//! Every metric that is told, in one table, and their text form.

use crate::connections::Counts;
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
        let text = text(&Moment { connections: &counts, smb: &smb, open_files: 2 });
        for line in [
            "# TYPE anabranch_connections gauge",
            "anabranch_connections 7",
            "anabranch_connections_ended_total{reason=\"closed\"} 3",
            "anabranch_connections_ended_total{reason=\"garbage\"} 1",
            "anabranch_received_bytes_total 9",
            "anabranch_open_files 2",
            "anabranch_smb_requests_total 11",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }
}
