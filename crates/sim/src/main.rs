//! `sim [COUNT] [FIRST]`: runs seeds and stops at the first that goes wrong.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let number = |at| std::env::args().nth(at).and_then(|text| text.parse::<u64>().ok());
    let (count, first) = (number(1).unwrap_or(100), number(2).unwrap_or(0));
    let (start, mut steps, mut answered, mut unjudged) = (Instant::now(), 0, 0, 0);
    for seed in first..first + count {
        match sim::run(seed) {
            Ok(report) => {
                steps += report.steps;
                answered += report.answered;
                unjudged += u64::from(report.gave_up);
            }
            Err(failure) => {
                eprintln!("{failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    let took = start.elapsed().as_secs_f64();
    println!("{count} seeds from {first}: {steps} steps, {answered} replies, {took:.1} s");
    if unjudged > 0 {
        println!("{unjudged} of them had too many possibilities to be judged to the end");
    }
    ExitCode::SUCCESS
}
