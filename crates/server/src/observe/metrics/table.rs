//! The table of all metrics: name, labels, help and value source.

use super::Moment;
use super::text::{MetricLines, MetricType};
use crate::metadata_cache::CacheCount;
use limits::{Limits, Rates, ResourceUsage};
use meter::{ApiSnapshot, ShareSnapshot};
use std::collections::BTreeMap;

/// One metric. Its unit is the last word of its name before `_total`.
pub struct Metric {
    /// Name of the metric.
    pub name: &'static str,
    /// Type of the metric.
    pub kind: MetricType,
    /// Label names.
    pub labels: &'static [&'static str],
    /// Help text, a sentence.
    pub help: &'static str,
    /// Writes the values.
    pub put: fn(&Moment<'_>, &mut MetricLines<'_>),
}

const OF_API: &[&str] = &["share", "protocol", "api"];
const OF_CALLER: &[&str] = &["share", "protocol", "api", "authentication"];
const OF_CACHE: &[&str] = &["share", "kind"];
const OF_RESOURCE: &[&str] = &["kind"];

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    put: fn(&Moment<'_>, &mut MetricLines<'_>),
) -> Metric {
    Metric { name, kind: MetricType::Counter, labels, help, put }
}

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    put: fn(&Moment<'_>, &mut MetricLines<'_>),
) -> Metric {
    Metric { name, kind: MetricType::Gauge, labels, help, put }
}

const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    put: fn(&Moment<'_>, &mut MetricLines<'_>),
) -> Metric {
    Metric { name, kind: MetricType::Histogram, labels, help, put }
}

/// All metrics.
pub const METRICS: &[&[Metric]] = &[REQUESTS, SHARES, CLIENTS, CACHES, PROCESS];

/// Request metrics, which Azure Files has, too (first part of `docs/metrics.md`).
const REQUESTS: &[Metric] = &[
    counter(
        "anabranch_transactions_total",
        &["share", "protocol", "api", "response_type", "authentication", "transaction_type"],
        "Finished requests by outcome: SMB commands, and NFS operations except those that only set \
         the context of others.",
        |m, lines| {
            each_api(m, |share, a| {
                for (response, count) in &a.responses {
                    let of = [share, &a.protocol, &a.api, response, &a.authentication];
                    lines.put(&[&of[..], &[&a.transaction_type]].concat(), count);
                }
            });
        },
    ),
    counter(
        "anabranch_ingress_bytes_total",
        OF_CALLER,
        "Bytes of requests, including framing and headers.",
        |m, lines| {
            each_api(m, |share, a| {
                lines.put(&[share, &a.protocol, &a.api, &a.authentication], a.ingress_bytes);
            });
        },
    ),
    counter(
        "anabranch_egress_bytes_total",
        OF_CALLER,
        "Bytes of replies, including framing and headers.",
        |m, lines| {
            each_api(m, |share, a| {
                lines.put(&[share, &a.protocol, &a.api, &a.authentication], a.egress_bytes);
            });
        },
    ),
    histogram(
        "anabranch_success_server_latency_seconds",
        OF_API,
        "Time from receipt of a request until its reply is ready, of successful requests.",
        |m, lines| {
            each_api_of_all(m, |share, a| {
                lines.put_latencies(&[share, &a.protocol, &a.api], &a.server_latency);
            });
        },
    ),
    histogram(
        "anabranch_success_e2e_latency_seconds",
        OF_API,
        "Time from the first byte of a request until the last byte of its reply is handed to the \
         kernel, plus one TCP round trip time: an estimate of when the client confirms that byte; \
         of successful requests.",
        |m, lines| {
            each_api_of_all(m, |share, a| {
                lines.put_latencies(&[share, &a.protocol, &a.api], &a.end_to_end_latency);
            });
        },
    ),
    counter(
        "anabranch_requests_applicable_total",
        OF_API,
        "Requests that count for availability: all except unauthorised ones and those whose \
         connection ended before the reply.",
        |m, lines| {
            each_api_of_all(m, |share, a| {
                lines.put(&[share, &a.protocol, &a.api], a.applicable);
            });
        },
    ),
    counter(
        "anabranch_requests_unexpected_errors_total",
        OF_API,
        "Applicable requests that failed by the server's fault: availability is one minus their \
         fraction.",
        |m, lines| {
            each_api_of_all(m, |share, a| {
                lines.put(&[share, &a.protocol, &a.api], a.unexpected_errors);
            });
        },
    ),
    counter(
        "anabranch_traces_sent_total",
        &[],
        "Slow requests that the trace collector accepted.",
        |m, lines| lines.put(&[], m.traces_sent),
    ),
    counter(
        "anabranch_traces_dropped_total",
        &[],
        "Slow requests that could not be exported.",
        |m, lines| lines.put(&[], m.meter.traces_dropped),
    ),
];

const SHARES: &[Metric] = &[
    gauge(
        "anabranch_share_max_used_iops",
        &["share"],
        "Requests in the busiest second of the last full minute.",
        |m, lines| each_share(m, |s| lines.put(&[&s.share], s.max_used_iops)),
    ),
    gauge(
        "anabranch_share_max_used_bandwidth_bytes_per_second",
        &["share"],
        "Bytes in both directions in the busiest second of the last full minute.",
        |m, lines| {
            each_share(m, |s| lines.put(&[&s.share], s.max_used_bandwidth_bytes_per_second));
        },
    ),
    gauge(
        "anabranch_share_capacity_bytes",
        &["share"],
        "Used bytes of the share, as clients see them.",
        |m, lines| m.shares.iter().for_each(|s| lines.put(&[&s.share], s.capacity_bytes)),
    ),
    gauge(
        "anabranch_share_quota_bytes",
        &["share"],
        "Size of the share, as clients see it.",
        |m, lines| m.shares.iter().for_each(|s| lines.put(&[&s.share], s.quota_bytes)),
    ),
    gauge(
        "anabranch_share_files",
        &["share"],
        "Used inodes of the share's file system, if it counts them.",
        |m, lines| {
            let counted = m.shares.iter().filter_map(|s| Some((s, s.files?)));
            counted.for_each(|(s, files)| lines.put(&[&s.share], files));
        },
    ),
    gauge(
        "anabranch_share_snapshots",
        &["share"],
        "Visible snapshots of the share, if it shows any.",
        |m, lines| {
            let shown = m.shares.iter().filter_map(|s| Some((s, s.snapshots?)));
            shown.for_each(|(s, count)| lines.put(&[&s.share], count));
        },
    ),
    counter(
        "anabranch_share_disk_failures_total",
        &["share"],
        "Failures of the share's disk to store written data; absent without failures.",
        |m, lines| m.disks.iter().for_each(|d| lines.put(&[&d.share], d.failure.count)),
    ),
    gauge(
        "anabranch_share_stopped",
        &["share"],
        "1 for a continuously available share that refuses its clients because its disk has lost \
         data.",
        |m, lines| {
            let stopped = m.disks.iter().filter(|disk| disk.has_stopped);
            stopped.for_each(|disk| lines.put(&[&disk.share], 1));
        },
    ),
    gauge(
        "anabranch_share_burst_credits",
        &["share"],
        "Burst credits of the share in requests, if it has any.",
        |m, lines| {
            let held = m.limits.iter().filter_map(|(share, l)| Some((share, l.credits?.held)));
            held.for_each(|(share, held)| lines.put(&[share], held));
        },
    ),
    gauge(
        "anabranch_share_provisioned_iops",
        &["share", "direction"],
        "Limit of requests per second, if there is one.",
        |m, lines| {
            each_limit(m, lines, |limits| {
                let Rates { iops, read_iops, write_iops, .. } = limits.share;
                [("both", iops), ("read", read_iops), ("write", write_iops)]
            });
        },
    ),
    gauge(
        "anabranch_share_provisioned_bandwidth_bytes_per_second",
        &["share", "direction"],
        "Limit of bytes per second, if there is one.",
        |m, lines| {
            each_limit(m, lines, |limits| {
                let Rates { bandwidth, ingress, egress, .. } = limits.share;
                [("both", bandwidth), ("read", egress), ("write", ingress)]
            });
        },
    ),
    gauge(
        "anabranch_requests_waiting",
        &["share"],
        "Requests that are throttled at the moment.",
        |m, lines| m.limits.iter().for_each(|(share, l)| lines.put(&[share], l.waiting)),
    ),
    gauge(
        "anabranch_feature_state",
        &["feature", "state"],
        "1 for the present state of a feature on this server, 0 for the other states.",
        |m, lines| {
            for (feature, state) in m.features {
                for other in crate::observe::features::FeatureState::ALL {
                    lines.put(&[feature, other.name()], u8::from(other == *state));
                }
            }
        },
    ),
];

const CLIENTS: &[Metric] = &[
    gauge("anabranch_sessions", &["protocol"], "Sessions.", |m, lines| {
        lines.put(&["SMB"], m.smb.sessions.len());
        let of_nfs: usize = m.nfs.clients.iter().map(|client| client.sessions.len()).sum();
        lines.put(&["NFS"], of_nfs);
    }),
    gauge("anabranch_channels", &[], "Channels of SMB sessions.", |m, lines| {
        let channels: usize = m.smb.sessions.iter().map(|s| s.channels.len()).sum();
        lines.put(&[], channels);
    }),
    histogram(
        "anabranch_channels_per_session",
        &[],
        "Present SMB sessions by their number of channels; decreases when sessions end.",
        put_channels,
    ),
    counter(
        "anabranch_channel_failovers_total",
        &[],
        "Channels that ended while their session continued on other channels.",
        |m, lines| lines.put(&[], m.smb.channels_lost),
    ),
    gauge(
        "anabranch_credits_outstanding",
        &[],
        "Credits that are granted to SMB clients.",
        |m, lines| {
            let channels = m.smb.sessions.iter().flat_map(|session| &session.channels);
            // Sessions that share a connection share its credit window.
            let of: BTreeMap<u64, u32> = channels.map(|c| (c.connection, c.credits())).collect();
            lines.put(&[], of.values().map(|credits| u64::from(*credits)).sum::<u64>());
        },
    ),
    gauge("anabranch_nfs_connections", &[], "Connections of NFS sessions.", |m, lines| {
        let sessions = m.nfs.clients.iter().flat_map(|client| &client.sessions);
        let connections = sessions.flat_map(|s| s.connections.iter().map(|c| c.facts.id));
        let distinct: std::collections::BTreeSet<u64> = connections.collect();
        lines.put(&[], distinct.len());
    }),
    gauge(
        "anabranch_open_handles",
        &["protocol"],
        "Opens of files and pipes over SMB; opens, locks and delegations over NFS.",
        |m, lines| {
            lines.put(&["SMB"], m.smb.sessions.iter().map(|s| s.opens.len()).sum::<usize>());
            lines.put(&["NFS"], m.nfs.clients.iter().map(|c| c.states).sum::<usize>());
        },
    ),
    counter(
        "anabranch_lease_breaks_total",
        &["cause"],
        "Breaks of oplocks and leases, and recalls of delegations, by cause: SMB clients, NFS \
         clients, or local processes and timeouts.",
        |m, lines| {
            lines.put(&["smb"], m.breaks.smb);
            lines.put(&["nfs"], m.breaks.nfs);
            lines.put(&["local"], m.breaks.local);
        },
    ),
    counter("anabranch_smb_requests_total", &[], "SMB requests received.", |m, lines| {
        lines.put(&[], m.smb.requests);
    }),
    counter("anabranch_smb_logons_total", &[], "Successful logons.", |m, lines| {
        lines.put(&[], m.smb.logons);
    }),
    counter("anabranch_smb_logons_failed_total", &[], "Refused logons.", |m, lines| {
        lines.put(&[], m.smb.logons_failed);
    }),
    counter(
        "anabranch_smb_logons_throttled_total",
        &["outcome"],
        "Logons after wrong passwords that were delayed (delayed), or refused because too many \
         were delayed already (refused).",
        |m, lines| {
            lines.put(&["delayed"], m.smb.logons_delayed);
            lines.put(&["refused"], m.smb.logons_refused_unchecked);
        },
    ),
    counter("anabranch_nfs_compounds_total", &[], "NFS COMPOUND requests answered.", |m, lines| {
        lines.put(&[], m.nfs.compounds);
    }),
    counter(
        "anabranch_nfs_replays_total",
        &[],
        "NFS requests that were answered from the reply cache.",
        |m, lines| lines.put(&[], m.nfs.replays),
    ),
    counter(
        "anabranch_audit_events_suppressed_total",
        &[],
        "Events that the audit log omits and only counts.",
        |m, lines| lines.put(&[], m.audit_suppressed),
    ),
    counter(
        "anabranch_discovery_messages_total",
        &["protocol", "outcome"],
        "Received messages of mDNS and WS-Discovery; those with off_link and rate were dropped \
         unread.",
        |m, lines| {
            for (protocol, outcome, count) in m.discovery {
                lines.put(&[protocol, outcome], *count);
            }
        },
    ),
    gauge(
        "anabranch_discovery_links",
        &[],
        "Interfaces on which the server is announced.",
        |m, lines| lines.put(&[], m.discovery_links as u64),
    ),
    counter(
        "anabranch_log_lines_dropped_total",
        &[],
        "Log lines that could not be written, because the disk is full or the reader has stopped.",
        |m, lines| lines.put(&[], m.log.dropped),
    ),
    counter(
        "anabranch_log_lines_suppressed_total",
        &[],
        "Log lines in excess of the limit of their kind; the next line of the kind reports their \
         number.",
        |m, lines| lines.put(&[], m.log.suppressed),
    ),
];

const CACHES: &[Metric] = &[
    counter(
        "anabranch_metadata_cache_hits_total",
        OF_CACHE,
        "Lookups that the metadata cache answered.",
        |m, lines| each_cache(m, lines, |count| count.hits),
    ),
    counter(
        "anabranch_metadata_cache_misses_total",
        OF_CACHE,
        "Lookups that the file system had to answer.",
        |m, lines| each_cache(m, lines, |count| count.misses),
    ),
    counter(
        "anabranch_metadata_cache_invalidations_total",
        OF_CACHE,
        "Cache entries invalidated because they changed or may have changed.",
        |m, lines| each_cache(m, lines, |count| count.invalidations),
    ),
    counter(
        "anabranch_metadata_cache_evictions_total",
        OF_CACHE,
        "Cache entries evicted for lack of space or use.",
        |m, lines| each_cache(m, lines, |count| count.evictions),
    ),
    gauge(
        "anabranch_metadata_cache_bytes",
        OF_CACHE,
        "Memory of the metadata cache.",
        |m, lines| each_cache(m, lines, |count| count.bytes),
    ),
    gauge("anabranch_open_files", &[], "Open files, each counted once.", |m, lines| {
        lines.put(&[], m.open_files);
    }),
    counter(
        "anabranch_directory_scans_total",
        &[],
        "Directory scans from the beginning, to list a directory or to look up a name.",
        |m, lines| lines.put(&[], m.directory_scans),
    ),
];

const PROCESS: &[Metric] = &[
    gauge("anabranch_connections", &[], "Open TCP connections.", |m, lines| {
        lines.put(&[], m.connections.open);
    }),
    gauge(
        "anabranch_connections_unauthenticated",
        &[],
        "Open connections without a logon.",
        |m, lines| {
            lines.put(&[], m.connections.unknown);
        },
    ),
    counter("anabranch_connections_accepted_total", &[], "Accepted connections.", |m, lines| {
        lines.put(&[], m.connections.accepted);
    }),
    counter(
        "anabranch_connections_refused_total",
        &[],
        "Connections refused at a limit.",
        |m, lines| lines.put(&[], m.connections.refused),
    ),
    counter(
        "anabranch_connections_ended_total",
        &["reason"],
        "Ended connections by reason.",
        |m, lines| m.connections.ends.iter().for_each(|(reason, n)| lines.put(&[reason], n)),
    ),
    gauge(
        "anabranch_resource_limit",
        OF_RESOURCE,
        "Limit of a resource that all clients share; one user or client may have as much as would \
         remain free.",
        |m, lines| each_resource(m, |kind, usage| lines.put(&[kind], usage.max)),
    ),
    gauge("anabranch_resource_used", OF_RESOURCE, "Used amount of the resource.", |m, lines| {
        each_resource(m, |kind, usage| lines.put(&[kind], usage.used))
    }),
    gauge(
        "anabranch_resource_holders",
        OF_RESOURCE,
        "Users and clients that hold some of the resource.",
        |m, lines| each_resource(m, |kind, usage| lines.put(&[kind], usage.holders)),
    ),
    counter(
        "anabranch_resource_refused_total",
        OF_RESOURCE,
        "Requests for the resource that were refused or had to wait.",
        |m, lines| each_resource(m, |kind, usage| lines.put(&[kind], usage.refused)),
    ),
    counter("anabranch_received_bytes_total", &[], "Bytes received from clients.", |m, lines| {
        lines.put(&[], m.connections.received_bytes)
    }),
    counter("anabranch_sent_bytes_total", &[], "Bytes sent to clients.", |m, lines| {
        lines.put(&[], m.connections.sent_bytes);
    }),
    counter(
        "anabranch_cpu_seconds_total",
        &["core", "stage"],
        "CPU time of this process's threads: io is system time, crypto is estimated from one \
         cryptographic operation in 32, proto is the rest; by the core on which a thread was \
         observed.",
        |m, lines| {
            for (core, stage, seconds) in m.cpu_times {
                lines.put(&[&core.to_string(), stage.name()], seconds);
            }
        },
    ),
];

fn each_resource(m: &Moment<'_>, mut put: impl FnMut(&str, &ResourceUsage)) {
    m.resources.iter().for_each(|(kind, usage)| put(kind, usage));
}

fn each_share(m: &Moment<'_>, mut put: impl FnMut(&ShareSnapshot)) {
    m.meter.shares.iter().filter(|share| !share.share.is_empty()).for_each(&mut put);
}

fn each_api(m: &Moment<'_>, mut put: impl FnMut(&str, &ApiSnapshot)) {
    for share in &m.meter.shares {
        share.apis.iter().for_each(|api| put(&share.share, api));
    }
}

/// As [`each_api`], summed over all authentication kinds.
fn each_api_of_all(m: &Moment<'_>, mut put: impl FnMut(&str, &ApiSnapshot)) {
    for share in &m.meter.shares {
        let mut apis = share.apis.iter().peekable();
        while let Some(first) = apis.next() {
            let is_same =
                |next: &&ApiSnapshot| (&next.protocol, &next.api) == (&first.protocol, &first.api);
            let mut sum: Option<ApiSnapshot> = None;
            while let Some(next) = apis.next_if(is_same) {
                let sum = sum.get_or_insert_with(|| first.clone());
                sum.server_latency.merge(&next.server_latency);
                sum.end_to_end_latency.merge(&next.end_to_end_latency);
                sum.applicable += next.applicable;
                sum.unexpected_errors += next.unexpected_errors;
            }
            put(&share.share, sum.as_ref().unwrap_or(first));
        }
    }
}

/// Limits by direction.
type ByDirection = [(&'static str, Option<u64>); 3];

fn each_limit(m: &Moment<'_>, lines: &mut MetricLines<'_>, of: fn(&Limits) -> ByDirection) {
    for (share, snapshot) in m.limits {
        for (direction, limit) in of(&snapshot.limits) {
            limit.into_iter().for_each(|limit| lines.put(&[share, direction], limit));
        }
    }
}

fn each_cache(m: &Moment<'_>, lines: &mut MetricLines<'_>, value: fn(&CacheCount) -> u64) {
    m.caches.iter().for_each(|(share, kind, count)| lines.put(&[share, kind], value(count)));
}

fn put_channels(m: &Moment<'_>, lines: &mut MetricLines<'_>) {
    const BOUNDS: [(usize, &str); 6] =
        [(1, "1"), (2, "2"), (4, "4"), (8, "8"), (16, "16"), (32, "32")];
    let mut buckets = [0; BOUNDS.len() + 1];
    let counts = m.smb.sessions.iter().map(|session| session.channels.len());
    for count in counts.clone() {
        buckets[BOUNDS.partition_point(|(bound, _)| *bound < count)] += 1;
    }
    let names = BOUNDS.iter().map(|(_, name)| *name).chain(["+Inf"]);
    lines.put_histogram(&[], names.zip(&buckets), counts.sum::<usize>() as f64);
}
