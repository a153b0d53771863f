//! `sim [COUNT] [FIRST] [files|channels|schedules]`: runs seeds, of all kinds
//! if none is named, and stops at the first that goes wrong.
#![forbid(unsafe_code)]

use sim::channels::Counts;
use sim::{Failure, Report};
use std::process::ExitCode;
use std::time::Instant;

/// What kinds of runs have come to.
#[derive(Default)]
struct Sum {
    steps: u64,
    answered: u64,
    unjudged: u64,
    counts: Counts,
}

fn main() -> ExitCode {
    let argument = |at| std::env::args().nth(at);
    let number = |at| argument(at).and_then(|text| text.parse::<u64>().ok());
    let (count, first) = (number(1).unwrap_or(100), number(2).unwrap_or(0));
    let kinds = ["files", "channels", "schedules"];
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
        let Sum { steps, answered, unjudged, counts } = sum;
        println!(
            "{kind}: {count} seeds from {first}: {steps} steps, {answered} replies, {took:.1} s"
        );
        if unjudged > 0 {
            println!("{unjudged} of them had too many possibilities to be judged to the end");
        }
        if kind != "files" {
            let counts: Vec<String> =
                counts.named().iter().map(|(name, count)| format!("{name} {count}")).collect();
            println!("{}", counts.join(", "));
        }
    }
    ExitCode::SUCCESS
}

fn run(kind: &str, seed: u64, sum: &mut Sum) -> Result<(), Box<Failure>> {
    let (report, counts): (Report, Counts) = match kind {
        "files" => (sim::run(seed)?, Counts::default()),
        _ => sim::channels::run(seed, kind == "schedules", None)?,
    };
    sum.steps += report.steps;
    sum.answered += report.answered;
    sum.unjudged += u64::from(report.gave_up);
    sum.counts.add(&counts);
    Ok(())
}
