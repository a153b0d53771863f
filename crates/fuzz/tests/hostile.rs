//! Two hostile users against one victim: a part of the runs in each test, all of them by `make
//! hostile`.

use fuzz::hostile::{self, EventCounts};

/// Number of messages without `ANABRANCH_HOSTILE_MESSAGES`.
const MESSAGES: u64 = 20_000;
/// The first episode without `ANABRANCH_HOSTILE_SEED`, which is hexadecimal.
const SEED: u64 = 1;

/// Events that each run must have. Without them hostile clients would reach no code worth testing.
const REACHED: [&str; 33] = [
    "NFS claim of the victim's name",
    "NFS client of the victim refused",
    "NFS operations",
    "NFS session",
    "NFS states",
    "anonymous",
    "binding refused",
    "binding to the victim refused",
    "bound",
    "cancel",
    "chain",
    "created",
    "guest",
    "halves fit",
    "locked",
    "logged off",
    "logged on",
    "logon refused",
    "mutated",
    "injected into the victim's connection",
    "reconnected by version 1",
    "reconnected by version 2",
    "reauthentication injected into the victim's connection",
    "reauthentication refused",
    "reauthenticated",
    "reauthenticated as anonymous",
    "replay",
    "the victim acknowledged",
    "the victim bound",
    "the victim reconnected",
    "the victim got a neighbour",
    "the victim reauthenticated",
    "wrote",
];

fn number(variable: &str, radix: u32, default: u64) -> u64 {
    let Ok(text) = std::env::var(variable) else { return default };
    let number = u64::from_str_radix(&text, radix);
    number.unwrap_or_else(|error| panic!("{variable} is {text:?}: {error}"))
}

fn never_reached(counts: &EventCounts) -> Vec<&'static str> {
    REACHED.into_iter().filter(|kind| counts.of(kind) == 0).collect()
}

#[test]
fn hostile_users_do_not_affect_victims() {
    let messages = number("ANABRANCH_HOSTILE_MESSAGES", 10, MESSAGES);
    let seed = number("ANABRANCH_HOSTILE_SEED", 16, SEED);
    let begun = std::time::Instant::now();
    let outcome = hostile::run(seed, messages).unwrap_or_else(|failure| {
        panic!("{failure}\nagain: ANABRANCH_HOSTILE_SEED={seed:x}");
    });
    println!("seed {seed:x}: {} messages, {:?}", outcome.messages, begun.elapsed());
    println!("{}", outcome.counts);
    assert!(outcome.messages >= messages);
    assert_eq!(never_reached(&outcome.counts), [""; 0], "a run that reaches nothing shows nothing");
}
