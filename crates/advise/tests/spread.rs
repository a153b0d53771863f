//! Two measurements of one server, which differ within the spread of its rates, give one advice.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use advise::{
    ClientMachineFacts, InterfaceFacts, MeasuredLoad, MeasurementFacts, WorkloadClass, limit,
    rules, table,
};
use proptest::prelude::*;

/// Largest deviation of a round from the true rate.
const NOISE: f64 = 0.07;
const ROUNDS: usize = 3;
const BLOCKS: [u32; 3] = [4096, 65_536, 1 << 20];

/// Effects of a server, each of them either none or clear.
#[derive(Clone, Copy, Debug)]
struct ServerEffects {
    /// Gain of four connections for concurrent loads, and for single requests.
    channels: (f64, f64),
    /// Gain of several files.
    files: f64,
    /// Rate of writes, as a part of that of reads.
    writes: f64,
    /// Gain of a deeper queue.
    depth: f64,
    /// Exponent of the size: 0 if requests are limited, 1 if bytes are.
    size: f64,
    is_nfs: bool,
}

fn effects() -> impl Strategy<Value = ServerEffects> {
    let one_of = |values: Vec<f64>| proptest::sample::select(values);
    let channels = (one_of(vec![0.5, 1.0, 2.0]), one_of(vec![0.5, 1.0]));
    let size = one_of(vec![0.0, 0.5, 1.0]);
    let others = (one_of(vec![1.0, 3.0]), one_of(vec![1.0, 0.2]), one_of(vec![1.0, 2.0]));
    (channels, others, size, any::<bool>()).prop_map(
        |(channels, (files, writes, depth), size, is_nfs)| ServerEffects {
            channels,
            files,
            writes,
            depth,
            size,
            is_nfs,
        },
    )
}

/// A load with rounds around its true rate.
fn load(rate: f64, noise: &mut impl Iterator<Item = f64>) -> MeasuredLoad {
    let rounds: Vec<f64> = noise.take(ROUNDS).map(|by| rate * (1.0 + by)).collect();
    let per_second = rounds.iter().sum::<f64>() / rounds.len() as f64;
    MeasuredLoad { per_second, rounds, p50_us: 300.0, client_cpus: 0.5, ..MeasuredLoad::default() }
}

fn measured(of: ServerEffects, noise: &[f64]) -> MeasurementFacts {
    let mut noise = noise.iter().copied().cycle();
    let mut cells = Vec::new();
    for class in WorkloadClass::ALL {
        for connections in [1, 4] {
            for block_bytes in BLOCKS {
                for is_read in [true, false] {
                    let mut rate = 20_000.0 / (f64::from(block_bytes) / 4096.0).powf(of.size);
                    rate *= if class.is_single() { 0.2 } else { 1.0 };
                    rate *= if class.has_many_files() { of.files } else { 1.0 };
                    rate *= if is_read { 1.0 } else { of.writes };
                    if connections > 1 {
                        rate *= if class.is_single() { of.channels.1 } else { of.channels.0 };
                    }
                    let cell = load(rate, &mut noise);
                    let bytes_per_second = cell.per_second * f64::from(block_bytes);
                    let depth = if class.is_single() { 1 } else { 32 };
                    cells.push(MeasuredLoad {
                        class,
                        connections,
                        block_bytes,
                        is_read,
                        depth,
                        bytes_per_second,
                        ..cell
                    });
                }
            }
        }
    }
    let depths = [(16, 9000.0), (64, 10_000.0), (128, 10_000.0 * of.depth)];
    let depths = depths.map(|(depth, rate)| MeasuredLoad { depth, ..load(rate, &mut noise) });
    MeasurementFacts {
        is_nfs: of.is_nfs,
        server: "files".into(),
        share: "data".into(),
        addresses: vec!["10.0.0.2".into()],
        round_trip_ms: 0.2,
        dialect: if of.is_nfs { "4.2" } else { "3.1.1" }.into(),
        signing: "off".into(),
        cipher: "off".into(),
        offers_channels: true,
        channels_requested: 4,
        channels_established: 4,
        server_interfaces: vec![InterfaceFacts::default()],
        client: ClientMachineFacts { cpus: 8, kernel: (6, 12), ..ClientMachineFacts::default() },
        cells,
        depths: depths.to_vec(),
        ..MeasurementFacts::default()
    }
}

/// All that a reader acts on: bottlenecks, verdicts and settings, without the figures.
fn advice(facts: &MeasurementFacts) -> Vec<String> {
    let limits = limit::bindings(facts).into_iter().map(|one| format!("{:?}", one.limit));
    let verdicts = table::rows(facts).into_iter().map(|row| format!("{:?}", row.colour));
    let settings = rules::findings(facts)
        .into_iter()
        .map(|one| format!("{} {:?} {} {:?}", one.id, one.weight, one.text, one.settings));
    limits.chain(verdicts).chain(settings).collect()
}

fn noise() -> impl Strategy<Value = Vec<f64>> {
    // Prime, so that no load always has the same noise. Extremes are frequent.
    prop::collection::vec(prop_oneof![Just(-NOISE), Just(NOISE), -NOISE..NOISE], 151)
}

proptest! {
    #[test]
    fn runs_within_the_spread_give_the_same_advice(
        of in effects(), first in noise(), second in noise(),
    ) {
        prop_assert_eq!(advice(&measured(of, &first)), advice(&measured(of, &second)));
    }
}

/// The opposite side: what is clearly different is advised, whatever the noise.
#[test]
fn clear_gain_is_advised_and_none_is_no_difference() {
    let even = ServerEffects {
        channels: (1.0, 1.0),
        files: 1.0,
        writes: 1.0,
        depth: 1.0,
        size: 0.5,
        is_nfs: false,
    };
    let noise = [NOISE, -NOISE, 0.0, 0.01, -0.03];
    let found = |of: ServerEffects| {
        let all = rules::findings(&measured(of, &noise));
        all.into_iter().find(|one| one.id == "CC-01").unwrap()
    };
    assert!(found(even).settings.is_empty() && found(even).text.contains("no difference"));
    let rows = table::rows(&measured(even, &noise));
    assert!(rows.iter().all(|row| row.colour == table::Colour::Yellow));
    let gains = ServerEffects { channels: (2.0, 1.0), ..even };
    assert!(found(gains).text.starts_with("use 4 connections"), "{:?}", found(gains));
}
