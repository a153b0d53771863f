//! `sim [COUNT] [FIRST] [files|channels|schedules|cache|sessions|both]`: runs seeds, of all kinds
//! by default, and stops at the first failure.
#![forbid(unsafe_code)]

use sim::channels::ChannelCounts;
use sim::{RunFailure, RunReport};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

/// Totals of the runs of one kind.
#[derive(Default)]
struct Sum {
    steps: u64,
    answered: u64,
    unjudged: u64,
    counts: ChannelCounts,
    sessions: sim::sessions::SessionCounts,
    both: sim::both::MixedCounts,
    hits: BTreeMap<&'static str, u64>,
}

fn main() -> ExitCode {
    let argument = |at| std::env::args().nth(at);
    let number = |at| argument(at).and_then(|text| text.parse::<u64>().ok());
    let (count, first) = (number(1).unwrap_or(100), number(2).unwrap_or(0));
    let kinds = ["files", "channels", "schedules", "cache", "sessions", "both"];
    let wanted = argument(3);
    for kind in kinds.into_iter().filter(|k| wanted.as_deref().is_none_or(|wanted| wanted == *k)) {
        let start = Instant::now();
        let mut sum = Sum::default();
        for seed in first..first + count {
            if let Err(failure) = run(kind, seed, &mut sum) {
                eprintln!("{failure}");
                eprintln!("again: cargo xtask sim --seeds 1 --from {seed} --kind {kind}");
                return ExitCode::FAILURE;
            }
        }
        let took = start.elapsed().as_secs_f64();
        let Sum { steps, answered, unjudged, counts, sessions, both, hits } = sum;
        println!(
            "{kind}: {count} seeds from {first}: {steps} steps, {answered} replies, {took:.1} s"
        );
        if unjudged > 0 {
            println!("{unjudged} of them had too many possibilities to be judged to the end");
        }
        if !hits.is_empty() {
            let hits: Vec<String> =
                hits.iter().map(|(kind, hits)| format!("{kind} {hits}")).collect();
            println!("answers from what was kept: {}", hits.join(", "));
        }
        match kind {
            "channels" | "schedules" => println!("{}", shown(&counts.named())),
            "sessions" => println!("{}", shown(&sessions.named())),
            "both" => println!("{}", shown(&both.named())),
            _ => {}
        }
    }
    ExitCode::SUCCESS
}

fn shown(named: &[(&'static str, u64)]) -> String {
    named.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

fn run(kind: &str, seed: u64, sum: &mut Sum) -> Result<(), Box<RunFailure>> {
    let (report, counts): (RunReport, ChannelCounts) = match kind {
        "files" => (sim::run(seed)?, ChannelCounts::default()),
        "cache" => {
            let (report, hits) = sim::cache::run(seed, None)?;
            hits.into_iter().for_each(|(kind, hits)| *sum.hits.entry(kind).or_default() += hits);
            (report, ChannelCounts::default())
        }
        "sessions" => {
            let (report, counts) = sim::sessions::run(seed, None)?;
            sum.sessions.add(&counts);
            (report, ChannelCounts::default())
        }
        "both" => {
            let (report, counts) = sim::both::run(seed, None)?;
            sum.both.add(&counts);
            (report, ChannelCounts::default())
        }
        _ => sim::channels::run(seed, kind == "schedules", None)?,
    };
    sum.steps += report.steps;
    sum.answered += report.answered;
    sum.unjudged += u64::from(report.gave_up);
    sum.counts.add(&counts);
    Ok(())
}
