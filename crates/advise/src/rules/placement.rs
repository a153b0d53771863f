//! Rules about the distance of client and server, and about concurrency.

use super::{RuleFinding, Weight, clients_needed};
use crate::limit::{cpus_used, link_used};
use crate::probe::DISTANT_MS;
use crate::{MeasurementFacts, WorkloadClass, size};

/// Gain from which a change is worthwhile.
const WORTH: f64 = 1.1;
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
    let text =
        format!("a round trip takes {:.2} ms, {part:.0} % of a small read: ", facts.round_trip_ms);
    Some(if facts.round_trip_ms >= DISTANT_MS {
        RuleFinding::new(Weight::Recommended, text + "move client and server closer together")
    } else {
        RuleFinding::new(Weight::Information, text + "they are close enough")
    })
}

pub(super) fn threads(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let block = *facts.blocks().first()?;
    let one = facts.cell(WorkloadClass::SingleOneFile, facts.most(), block, true)?;
    let many = facts.cell(WorkloadClass::ManyOneFile, facts.most(), block, true)?;
    let gain = many.per_second / one.per_second.max(1.0);
    let text = format!(
        "{} requests in flight have {gain:.1} times the throughput of one: use multi-threaded \
         applications",
        many.depth
    );
    (gain >= WORTH).then(|| RuleFinding::new(Weight::Consider, text))
}

pub(super) fn files(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let block = *facts.blocks().first()?;
    let one = facts.cell(WorkloadClass::ManyOneFile, facts.most(), block, true)?;
    let many = facts.cell(WorkloadClass::ManyManyFiles, facts.most(), block, true)?;
    let gain = many.per_second / one.per_second.max(1.0);
    let text = format!("the same load on several files is {gain:.2} times as fast: distribute it");
    (gain >= WORTH).then(|| RuleFinding::new(Weight::Consider, text))
}

pub(super) fn warm_up(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let text = format!(
        "the first {:.2} s of each load were not counted; with other tools, discard the first run",
        facts.warm_up_seconds
    );
    Some(RuleFinding::new(Weight::Information, text))
}

pub(super) fn more_clients(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let best = facts.best()?.bytes_per_second;
    let (link, cpus) = (link_used(facts), cpus_used(facts));
    if let Some(target) = facts.target_bytes_per_second {
        let single = facts.cells.iter().filter(|cell| cell.connections == facts.fewest());
        let single = single.map(|cell| cell.bytes_per_second).fold(0.0, f64::max);
        let (with, without) = (clients_needed(target, best), clients_needed(target, single));
        let text = format!(
            "{}/s needs {with} clients like this one with {} connections, {without} with {}",
            size(target.round()),
            facts.most(),
            facts.fewest()
        );
        return Some(RuleFinding::new(Weight::Information, text));
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
    let mut text = format!(
        "{:.0} % of the link is used: a machine with more bandwidth is needed; a second adapter \
         does not raise a machine's limit. For example",
        used * 100.0
    );
    for (name, bits) in MACHINES {
        text += &format!("; {name}: {}/s", size(bits / 8.0));
    }
    Some(RuleFinding::new(Weight::Consider, text))
}

pub(super) fn queue_depth(facts: &MeasurementFacts) -> Option<RuleFinding> {
    let good = facts.depths.iter().filter(|cell| cell.depth <= DEPTH_GOOD);
    let good = good.map(|cell| cell.per_second).fold(0.0, f64::max);
    let beyond = facts.depths.iter().rfind(|cell| cell.depth > DEPTH_GOOD)?;
    let gain = beyond.per_second / good.max(1.0);
    let text = format!(
        "{} requests in flight have {gain:.2} times the throughput of {DEPTH_GOOD} or fewer, and \
         each takes {:.1} ms",
        beyond.depth,
        beyond.p50_us / 1000.0
    );
    Some(if gain < WORTH {
        RuleFinding::new(Weight::Information, text + ": stay at 64 or below")
    } else {
        RuleFinding::new(Weight::Consider, text + ": here more than 64 still helps")
    })
}
