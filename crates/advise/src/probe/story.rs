//! The probe's results as a report: scenario, network, application, outcome.

use super::{Layer, LayerState, ProbedHost, Verdict, compare, culprit, judge};
use std::fmt::Write;

/// The report as Markdown.
#[must_use]
pub fn story(hosts: &[ProbedHost]) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_story(hosts, &mut out);
    out
}

fn write_story(hosts: &[ProbedHost], out: &mut String) -> std::fmt::Result {
    writeln!(out, "# The path from this client to its servers\n\n## Scenario\n")?;
    for host in hosts {
        let address = host.address.done().map_or("unknown", String::as_str);
        writeln!(out, "- {}, address {address}", cell(&host.place()))?;
    }
    writeln!(out, "\n## Network layer\n")?;
    writeln!(out, "| host | connects | lost | min ms | avg ms | max ms | p99 ms |")?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    for host in hosts {
        let c = &host.connects;
        writeln!(
            out,
            "| {} | {} | {} | {:.2} | {:.2} | {:.2} | {:.2} |",
            cell(&host.place()),
            c.count,
            c.lost,
            c.min_ms,
            c.avg_ms,
            c.max_ms,
            c.p99_ms
        )?;
    }
    let judged: Vec<(&ProbedHost, Vec<Verdict>)> = hosts.iter().map(|h| (h, judge(h))).collect();
    writeln!(out)?;
    for (host, verdicts) in &judged {
        write_verdicts(out, host, verdicts, |layer| layer <= Layer::Network)?;
    }
    writeln!(out, "\n## Application layer\n")?;
    for (host, verdicts) in &judged {
        write_verdicts(out, host, verdicts, |layer| layer > Layer::Network)?;
    }
    let side_by_side = compare(hosts);
    if !side_by_side.is_empty() {
        writeln!(out, "\n## Side by side\n")?;
        side_by_side.iter().try_for_each(|line| writeln!(out, "- {}", cell(line)))?;
    }
    writeln!(out, "\n## Outcome\n")?;
    for (host, verdicts) in &judged {
        writeln!(out, "- {}", cell(&outcome(host, verdicts)))?;
    }
    Ok(())
}

/// A sentence about one host with the remedy.
#[must_use]
pub(super) fn outcome(host: &ProbedHost, verdicts: &[Verdict]) -> String {
    let place = host.place();
    match culprit(verdicts) {
        Some(one) => {
            let state = if one.state == LayerState::Broken { "broken" } else { "slow" };
            let remedy = one.remedy.as_deref().unwrap_or("check this layer first");
            format!("{place}: the {} layer is {state}; {remedy}", one.layer.name())
        }
        None => format!("{place}: every tested layer is good"),
    }
}

fn write_verdicts(
    out: &mut String,
    host: &ProbedHost,
    verdicts: &[Verdict],
    wanted: impl Fn(Layer) -> bool,
) -> std::fmt::Result {
    for one in verdicts.iter().filter(|v| wanted(v.layer) && v.state != LayerState::NotTested) {
        let state = match one.state {
            LayerState::Broken => "broken",
            LayerState::Slow => "slow",
            _ => "good",
        };
        let found = cell(&one.result);
        writeln!(out, "- {}, {}: **{state}**; {found}", cell(&host.place()), one.layer.name())?;
    }
    Ok(())
}

/// Escapes foreign text for a table or list.
fn cell(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).collect::<String>().replace('|', "\\|").replace('<', "&lt;")
}
