//! The whole advice as text.

use crate::{MeasurementFacts, limit, rules, size, table};
use std::fmt::Write;

/// Spread of a load's rounds beyond which a machine is not quiet.
const QUIET: f64 = 0.25;

/// The report. The codes of rules are for readers of the requirements, so only `verbose` shows them.
#[must_use]
pub fn shown(facts: &MeasurementFacts, verbose: bool) -> String {
    let mut out = head(facts);
    out += &bottleneck(facts);
    out += &spread(facts);
    out += &comparison(facts);
    out += "\nRecommended settings\n";
    out += &rules::shown(&rules::findings(facts), verbose);
    out
}

fn head(facts: &MeasurementFacts) -> String {
    let port = facts.unusual_port().map(|port| format!(":{port}")).unwrap_or_default();
    let protocol = if facts.is_nfs { "NFS" } else { "SMB" };
    let product = match facts.is_nfs {
        true => String::new(),
        false => format!("{}, ", facts.server_product.name()),
    };
    let mut out = String::new();
    // It comes first: without it, a reader looks for the gain of several connections.
    if let Some(why) = &facts.only_channel {
        let _ = writeln!(
            out,
            "One connection is all there is: {why}. So nothing is compared; all figures are of one \
             connection.\n"
        );
    }
    let _ = writeln!(
        out,
        "{}{port}/{}: {product}{protocol} {}, signing {}, encryption {}, round trip {:.2} ms\n",
        facts.mount_host(),
        facts.share,
        facts.dialect,
        facts.signing,
        facts.cipher,
        facts.round_trip_ms
    );
    out
}

fn bottleneck(facts: &MeasurementFacts) -> String {
    let mut out = String::new();
    let bindings = limit::bindings(facts);
    if let Some((first, others)) = bindings.split_first() {
        let _ = writeln!(out, "Bottleneck: {} ({})", first.limit.name(), first.evidence);
        for one in others {
            let _ = writeln!(out, "  also: {} ({})", one.limit.name(), one.evidence);
        }
    }
    if let Some(best) = facts.best() {
        let _ = writeln!(
            out,
            "Best rate: {}/s, {} requests of {} a second",
            size(best.bytes_per_second.round()),
            best.per_second.round(),
            size(f64::from(best.block_bytes))
        );
    }
    out
}

/// The spread of the rounds: differences within it are none.
fn spread(facts: &MeasurementFacts) -> String {
    let mut all: Vec<f64> = facts.cells.iter().map(|one| one.spread()).collect();
    all.sort_by(f64::total_cmp);
    let (Some(median), Some(most)) = (all.get(all.len() / 2), all.last()) else {
        return String::new();
    };
    let rounds = facts.cells.iter().map(|one| one.rounds.len()).max().unwrap_or_default();
    let (median, most) = (*median, *most);
    let mut out = format!(
        "Spread of {rounds} rounds: {:.0} % for the median load, at most {:.0} %",
        median * 100.0,
        most * 100.0
    );
    out += match facts.arms().len() {
        1 => "\n",
        _ => "; differences within it are no difference\n",
    };
    if median > QUIET {
        out +=
            "  the rounds differ much: raise --seconds, or measure while the machines are quiet\n";
    }
    out
}

fn comparison(facts: &MeasurementFacts) -> String {
    let rows = table::shown(facts);
    if !rows.is_empty() {
        return format!("\nSeveral connections compared with {}\n{rows}", facts.fewest());
    }
    let mut out = String::new();
    if facts.only_channel.is_none() && !facts.cells.is_empty() {
        out += "\nOne number of connections was measured, so none are compared; several are by \
                --connections 1,4\n";
    }
    if !facts.cells.is_empty() {
        out += &format!("\nRates\n{}", table::rates_shown(facts));
    }
    out
}
