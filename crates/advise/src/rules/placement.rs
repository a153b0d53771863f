//! Rules about the distance of client and server, and about concurrency.

use super::{RuleFinding, Weight, clients_needed};
use crate::limit::{cpus_used, link_used};
use crate::probe::DISTANT_MS;
use crate::table::MATTERS;
use crate::{MeasurementFacts, WorkloadClass, size};

/// Queue depth beyond which there is no gain.
const DEPTH_GOOD: usize = 64;
/// Utilisation from which a client is at its limit.
const AT_LIMIT: f64 = 0.85;
/// Bandwidths of well-known machine sizes in bits per second.
const MACHINES: [(&str, f64); 2] =
    [("D32s_v3 (32 vCPU, 8 NICs)", 16e9), ("D16_v4 (16 vCPU, 8 NICs)", 12.5e9)];

pub(super) fn distance(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let small =
        facts.cell(WorkloadClass::SingleOneFile, facts.fewest(), *facts.blocks().first()?, true)?;
    let part = (facts.round_trip_ms * 100_000.0 / small.p50_us.max(1.0)).min(100.0);
    let evidence =
        format!("a round trip takes {:.2} ms, {part:.0} % of a small read", facts.round_trip_ms);
    let finding = if facts.round_trip_ms >= DISTANT_MS {
        RuleFinding::new(Weight::Recommended, "move client and server closer together")
    } else {
        RuleFinding::new(Weight::Information, "client and server are close enough")
    };
    Some(finding.by(evidence))
}

pub(super) fn threads(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let block = *facts.blocks().first()?;
    let one = facts.cell(WorkloadClass::SingleOneFile, facts.most(), block, true)?;
    let many = facts.cell(WorkloadClass::ManyOneFile, facts.most(), block, true)?;
    let gain = many.per_second / one.per_second.max(1.0);
    let evidence =
        format!("{} requests in flight have {gain:.1} times the throughput of one", many.depth);
    many.exceeds(one, MATTERS)
        .then(|| RuleFinding::new(Weight::Consider, "use multi-threaded applications").by(evidence))
}

pub(super) fn files(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let block = *facts.blocks().first()?;
    let one = facts.cell(WorkloadClass::ManyOneFile, facts.most(), block, true)?;
    let many = facts.cell(WorkloadClass::ManyManyFiles, facts.most(), block, true)?;
    let gain = many.per_second / one.per_second.max(1.0);
    let evidence = format!("the same load on several files is {gain:.2} times as fast");
    many.exceeds(one, MATTERS).then(|| {
        RuleFinding::new(Weight::Consider, "distribute the load over several files").by(evidence)
    })
}

pub(super) fn warm_up(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let text = "with other tools, discard the first run";
    let evidence =
        format!("the first {:.2} s of each load were not counted", facts.warm_up_seconds);
    Some(RuleFinding::new(Weight::Information, text).by(evidence))
}

pub(super) fn more_clients(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let best = facts.best()?.bytes_per_second;
    let (link, cpus) = (link_used(facts), cpus_used(facts));
    if let Some(target) = facts.target_bytes_per_second {
        let single = facts.cells.iter().filter(|cell| cell.connections == facts.fewest());
        let single = single.map(|cell| cell.bytes_per_second).fold(0.0, f64::max);
        let (with, without) = (clients_needed(target, best), clients_needed(target, single));
        let text = format!("{}/s needs several clients like this one", size(target.round()));
        let mut evidence = format!("{with} with {} connections", facts.most());
        if facts.most() > facts.fewest() {
            evidence += &format!(", {without} with {}", facts.fewest());
        }
        return Some(RuleFinding::new(Weight::Information, text).by(evidence));
    }
    let text = "this client is at its limit, but the share may not be: measure with a second \
                client at the same time, and spread the work over more clients";
    (link.max(cpus) >= AT_LIMIT).then(|| RuleFinding::new(Weight::Consider, text))
}

pub(super) fn machine_size(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let used = link_used(facts);
    if used < AT_LIMIT {
        return None;
    }
    let mut text = "a machine with more bandwidth is needed; a second adapter does not raise a \
                    machine's limit. For example"
        .to_owned();
    for (name, bits) in MACHINES {
        text += &format!("; {name}: {}/s", size(bits / 8.0));
    }
    let evidence = format!("{:.0} % of the link is used", used * 100.0);
    Some(RuleFinding::new(Weight::Consider, text).by(evidence))
}

pub(super) fn queue_depth(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let good = facts.depths.iter().filter(|cell| cell.depth <= DEPTH_GOOD);
    let good = good.max_by(|a, b| a.per_second.total_cmp(&b.per_second))?;
    let beyond = facts.depths.iter().rfind(|cell| cell.depth > DEPTH_GOOD)?;
    let gain = beyond.per_second / good.per_second.max(1.0);
    let evidence = format!(
        "{} requests in flight have {gain:.2} times the throughput of {DEPTH_GOOD} or fewer, and \
         each takes {:.1} ms",
        beyond.depth,
        beyond.p50_us / 1000.0
    );
    let finding = if beyond.exceeds(good, MATTERS) {
        RuleFinding::new(Weight::Consider, "more than 64 requests in flight still help here")
    } else {
        RuleFinding::new(Weight::Information, "stay at 64 requests in flight or below")
    };
    Some(finding.by(evidence))
}
