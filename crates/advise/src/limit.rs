//! Determines the bottleneck of the fastest measured load.

use crate::table::MATTERS;
use crate::{MeasuredLoad, MeasurementFacts, WorkloadClass, size};
use serde::Serialize;

/// Utilisation from which a resource is exhausted.
const FULL: f64 = 0.85;
/// Round trip time in milliseconds from which it matters.
const ROUND_TRIP_MS: f64 = 1.0;
/// Gain from a larger queue depth from which it matters.
const RISES: f64 = 1.2;
/// Gain from several files from which it matters.
const FILES_BRING: f64 = 1.3;
/// Ratio of read to write rate from which disks are slow.
const READS_LEAD: f64 = 2.0;

/// A possible bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The share's bandwidth limit.
    Share,
    /// The limit of a single file.
    File,
    /// The client's network.
    ClientNetwork,
    /// The client's CPUs.
    ClientCpu,
    /// The server's disks.
    Disk,
    /// The round trip time.
    Latency,
    /// Too few requests in flight.
    QueueDepth,
    /// Requests that are too small.
    RequestSize,
    /// The server itself.
    Server,
}

impl Limit {
    /// The displayed name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Share => "the share",
            Self::File => "the file",
            Self::ClientNetwork => "the client's network adapter",
            Self::ClientCpu => "the client's CPUs",
            Self::Disk => "the server's disks",
            Self::Latency => "the latency between client and server",
            Self::QueueDepth => "the queue depth",
            Self::RequestSize => "the size of requests",
            Self::Server => "the server",
        }
    }
}

/// A bottleneck and its evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Binding {
    /// The bottleneck.
    pub limit: Limit,
    /// The measured evidence.
    pub evidence: String,
}

/// All bottlenecks that the measurements show, the binding one first. Exhausted resources precede
/// improvable request patterns. The server is blamed if nothing else is.
#[must_use]
pub fn bindings(facts: &MeasurementFacts) -> Vec<Binding> {
    if facts.best().is_none() {
        return Vec::new();
    }
    let known: [fn(&MeasurementFacts) -> Option<Binding>; 8] =
        [client_network, client_cpu, server_cpu, share, latency, queue_depth, file, request_size];
    let mut found: Vec<Binding> = known.iter().filter_map(|rule| rule(facts)).collect();
    found.extend(disk(facts));
    if found.is_empty() {
        let evidence = "client, network, files and requests have capacity left".to_owned();
        found.push(Binding { limit: Limit::Server, evidence });
    }
    found
}

fn binding(limit: Limit, evidence: String) -> Option<Binding> {
    Some(Binding { limit, evidence })
}

/// Speed of a side's fastest non-loopback link.
fn link_bits(interfaces: &[crate::InterfaceFacts]) -> Option<u64> {
    let real = |ip: &String| !ip.starts_with("127.") && ip != "::1";
    let outside = interfaces.iter().filter(|one| one.ip_addresses.iter().any(real));
    outside.map(|one| one.link_speed).filter(|speed| *speed > 0).max()
}

/// Utilisation of the client's link by the fastest load; 0 if unknown.
pub(crate) fn link_used(facts: &MeasurementFacts) -> f64 {
    let is_local = facts.addresses.iter().any(|ip| ip.starts_with("127.") || ip == "::1");
    let bits = link_bits(&facts.client.interfaces).filter(|_| !is_local);
    let best = facts.best().map_or(0.0, |cell| cell.bytes_per_second * 8.0);
    bits.map_or(0.0, |bits| best / bits as f64)
}

/// Utilisation of the client's CPUs by the busiest load.
pub(crate) fn cpus_used(facts: &MeasurementFacts) -> f64 {
    let busy = facts.cells.iter().map(|cell| cell.client_cpus).fold(0.0, f64::max);
    busy / facts.client.cpus.max(1) as f64
}

fn client_network(facts: &MeasurementFacts) -> Option<Binding> {
    let used = link_used(facts);
    // CC-07: the limit belongs to the machine; further adapters do not raise it.
    let evidence = format!("{:.0} % of its link is used", used * 100.0);
    if used >= FULL { binding(Limit::ClientNetwork, evidence) } else { None }
}

fn client_cpu(facts: &MeasurementFacts) -> Option<Binding> {
    let used = cpus_used(facts);
    let evidence = format!("{:.0} % of {} CPUs is used", used * 100.0, facts.client.cpus);
    if used >= FULL { binding(Limit::ClientCpu, evidence) } else { None }
}

fn server_cpu(facts: &MeasurementFacts) -> Option<Binding> {
    let busy = facts.cells.iter().filter_map(|cell| cell.server_cpus).fold(0.0, f64::max);
    // The value is known only if the server runs on this machine.
    let used = busy / facts.client.cpus.max(1) as f64;
    let evidence = format!("its process uses {:.0} % of the CPUs", used * 100.0);
    if used >= FULL { binding(Limit::Server, evidence) } else { None }
}

/// Many requests with the most connections.
fn deep(
    facts: &MeasurementFacts,
    class: WorkloadClass,
    block: u32,
    is_read: bool,
) -> Option<&MeasuredLoad> {
    facts.cell(class, facts.most(), block, is_read)
}

/// The byte rate is equal for all sizes and numbers of connections.
fn share(facts: &MeasurementFacts) -> Option<Binding> {
    let blocks = facts.blocks();
    let [.., large, largest] = blocks[..] else { return None };
    let class = WorkloadClass::ManyManyFiles;
    let loads: Vec<&MeasuredLoad> = facts
        .arms()
        .into_iter()
        .flat_map(|arm| [large, largest].map(|block| facts.cell(class, arm, block, true)))
        .collect::<Option<_>>()?;
    let high = loads.iter().map(|load| load.bytes_per_second).fold(0.0, f64::max);
    let evidence =
        format!("{}/s, regardless of request size and connection count", size(high.round()));
    let differ = loads.iter().any(|a| loads.iter().any(|b| a.exceeds_in_bytes(b, MATTERS)));
    if loads.len() > 2 && !differ { binding(Limit::Share, evidence) } else { None }
}

fn latency(facts: &MeasurementFacts) -> Option<Binding> {
    let small =
        facts.cell(WorkloadClass::SingleOneFile, facts.fewest(), *facts.blocks().first()?, true)?;
    let part = facts.round_trip_ms * 1000.0 / small.p50_us.max(1.0);
    let evidence = format!(
        "a round trip of {:.2} ms is {:.0} % of a small read's time",
        facts.round_trip_ms,
        (part * 100.0).min(100.0)
    );
    let counts = facts.round_trip_ms >= ROUND_TRIP_MS && part >= 0.5;
    if counts { binding(Limit::Latency, evidence) } else { None }
}

fn queue_depth(facts: &MeasurementFacts) -> Option<Binding> {
    let [.., before, last] = &facts.depths[..] else { return None };
    let rises = last.per_second / before.per_second.max(f64::MIN_POSITIVE);
    let evidence = format!(
        "{} requests in flight have {rises:.2} times the throughput of {}",
        last.depth, before.depth
    );
    if last.exceeds(before, RISES) { binding(Limit::QueueDepth, evidence) } else { None }
}

fn file(facts: &MeasurementFacts) -> Option<Binding> {
    let block = *facts.blocks().first()?;
    let one = deep(facts, WorkloadClass::ManyOneFile, block, true)?;
    let many = deep(facts, WorkloadClass::ManyManyFiles, block, true)?;
    let evidence = format!(
        "several files have {:.2} times the throughput of one",
        many.per_second / one.per_second.max(1.0)
    );
    if many.exceeds(one, FILES_BRING) { binding(Limit::File, evidence) } else { None }
}

fn request_size(facts: &MeasurementFacts) -> Option<Binding> {
    let [small, larger, ..] = facts.blocks()[..] else { return None };
    let of_small = deep(facts, WorkloadClass::ManyManyFiles, small, true)?;
    let of_larger = deep(facts, WorkloadClass::ManyManyFiles, larger, true)?;
    let evidence = format!(
        "{:.0} requests of {} a second, {:.0} of {}: the request rate is the limit",
        of_larger.per_second,
        size(f64::from(larger)),
        of_small.per_second,
        size(f64::from(small))
    );
    let is_slower = of_small.exceeds(of_larger, MATTERS);
    if is_slower { None } else { binding(Limit::RequestSize, evidence) }
}

fn disk(facts: &MeasurementFacts) -> Option<Binding> {
    let block = *facts.blocks().last()?;
    let read = deep(facts, WorkloadClass::ManyManyFiles, block, true)?;
    let written = deep(facts, WorkloadClass::ManyManyFiles, block, false)?;
    let evidence = format!(
        "writes reach {}/s, reads {}/s",
        size(written.bytes_per_second.round()),
        size(read.bytes_per_second.round())
    );
    if read.exceeds(written, READS_LEAD) { binding(Limit::Disk, evidence) } else { None }
}
