//! Named loads: those of the documents, and a quick one.

use super::{LoadKind, Plan, RunLimit, Usage};

/// A profile: loads on the same files, and the connection counts to compare.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    /// Connection counts.
    pub connections: Vec<usize>,
    /// The loads in full size, in order.
    pub plans: Vec<Plan>,
}

const KIB: u32 = 1024;
const GIB: u64 = 1 << 30;

fn plan(files: usize, file_bytes: u64, threads: usize, depth: usize, times: [f64; 2]) -> Plan {
    Plan {
        work: LoadKind::Data,
        folder: String::new(),
        block_bytes: 4 * KIB,
        depth,
        threads,
        files,
        file_bytes,
        random: false,
        read_percent: 100,
        until: RunLimit::Seconds(times[0]),
        warm_up_seconds: times[1],
        verify: false,
        seed: 1,
    }
}

/// Random reads and writes of these sizes.
fn both(blocks: &[u32], plan: &Plan) -> Vec<Plan> {
    let of = |block: &u32| {
        let block_bytes = *block;
        [100, 0].map(|read_percent| Plan {
            random: true,
            block_bytes,
            read_percent,
            ..plan.clone()
        })
    };
    blocks.iter().flat_map(of).collect()
}

fn sweep(block_bytes: u32, random: bool) -> Vec<Plan> {
    let load = Plan { block_bytes, random, ..plan(16, 64 * GIB, 16, 16, [60.0, 15.0]) };
    mixes(10).map(|read_percent| Plan { read_percent, ..load.clone() }).collect()
}

/// The documents' families of workloads, with the typical sizes and mixes: a minute each, over one
/// and four channels.
fn families() -> Vec<Profile> {
    let times = [60.0, 10.0];
    let large = |files, percent, random| Plan {
        block_bytes: 1024 * KIB,
        read_percent: percent,
        random,
        ..plan(files, 4 * GIB, 2, 8, times)
    };
    let small = |files, percent, kib| Plan {
        block_bytes: kib * KIB,
        read_percent: percent,
        random: true,
        ..plan(files, 4 * GIB, 4, 32, times)
    };
    let family = |name, about, plans| Profile { name, about, connections: vec![1, 4], plans };
    vec![
        family(
            "media",
            "transcoding: large blocks in sequence, reads and writes of four files",
            vec![large(4, 100, false), large(4, 50, false), large(4, 0, false)],
        ),
        family(
            "genomics",
            "long reads in sequence of eight files, and large ones at random",
            vec![large(8, 100, false), large(8, 100, true)],
        ),
        family(
            "risk",
            "many readers of large blocks in sixteen files, and results written",
            vec![large(16, 100, true), large(16, 20, true)],
        ),
        family(
            "database",
            "pages of 8 KiB at random, seven reads to three writes, and a log of 64 KiB writes",
            vec![small(4, 70, 8), Plan { random: false, depth: 4, threads: 1, ..small(1, 0, 64) }],
        ),
    ]
}

/// The documents' metadata-heavy workloads, with a typical number of small files, over one and four
/// channels.
fn usages() -> Vec<Profile> {
    let usage = |name, about, usage, files, kib: u32| Profile {
        name,
        about,
        connections: vec![1, 4],
        plans: vec![Plan {
            work: LoadKind::Usage(usage),
            block_bytes: kib * KIB,
            ..plan(files, u64::from(kib * KIB), 2, 16, [60.0, 10.0])
        }],
    };
    vec![
        usage("web", "web services: stat and read files of 16 KiB", Usage::Web, 1600, 16),
        usage(
            "devops",
            "builds and checkouts: stat, create and remove files of 8 KiB",
            Usage::DevOps,
            3200,
            8,
        ),
        usage(
            "indexing",
            "indexing and batches: list folders, read files of 32 KiB",
            Usage::Indexing,
            3200,
            32,
        ),
        usage(
            "desktops",
            "home directories of desktops: read, write and list files of 32 KiB",
            Usage::Desktops,
            1600,
            32,
        ),
    ]
}

/// All profiles, with the documents' measurement and warm-up times.
#[must_use]
pub fn profiles() -> Vec<Profile> {
    let copy = Plan { block_bytes: 1024 * KIB, ..plan(1, GIB, 1, 8, [30.0, 2.0]) };
    let sizes = [4 * KIB, 16 * KIB, 64 * KIB, 1024 * KIB];
    let mut all = vec![
        Profile {
            name: "seed-multichannel",
            about: "ten files, eight threads of depth 10 each, several sizes: one channel and four",
            connections: vec![1, 4],
            plans: both(&sizes, &plan(10, 2 * GIB, 80, 10, [60.0, 300.0])),
        },
        Profile {
            name: "seed-anf-random",
            about: "4 KiB at random in 40 GiB, pure reads and writes: 1, 4, 8 and 16 channels",
            connections: vec![1, 4, 8, 16],
            plans: both(&[4 * KIB], &plan(10, 4 * GIB, 16, 16, [60.0, 15.0])),
        },
        Profile {
            name: "seed-anf-single",
            about: "16 threads of depth 16 on 1 TiB, 4 KiB at random and 64 KiB in sequence, in \
                    eleven mixes",
            connections: vec![4],
            plans: [sweep(4 * KIB, true), sweep(64 * KIB, false)].concat(),
        },
        Profile {
            name: "seed-nconnect",
            about: "four files of 4 GiB at depth 64, four sizes, reads and writes: nconnect 1 and 4",
            connections: vec![1, 4],
            plans: both(
                &[4 * KIB, 8 * KIB, 64 * KIB, 1024 * KIB],
                &plan(4, 4 * GIB, 1, 64, [1800.0, 300.0]),
            ),
        },
        Profile {
            name: "seed-copy",
            about: "a file of 1 GiB in sequence, eight requests at a time: one channel and four",
            connections: vec![1, 4],
            plans: [100, 0].map(|read_percent| Plan { read_percent, ..copy.clone() }).to_vec(),
        },
        Profile {
            name: "quick",
            about: "small and large, reads and writes, a few seconds each: one channel and four",
            connections: vec![1, 4],
            plans: both(&[4 * KIB, 1024 * KIB], &plan(4, GIB, 2, 16, [400.0, 50.0])),
        },
    ];
    all.extend(families());
    all.extend(usages());
    all
}

/// The profile with this name.
#[must_use]
pub fn profile(name: &str) -> Option<Profile> {
    profiles().into_iter().find(|profile| profile.name == name)
}

/// Read percentages from 100 to 0, in `steps` steps.
pub fn mixes(steps: u8) -> impl Iterator<Item = u8> {
    let steps = steps.clamp(1, 100);
    (0..=steps).map(move |step| (100 - u32::from(step) * 100 / u32::from(steps)) as u8)
}

impl Plan {
    /// The same load with a fraction of its time and file size, but at least a few blocks per file.
    #[must_use]
    pub fn scaled(&self, part: f64) -> Self {
        let least = u64::from(self.block_bytes) * 8;
        // A profile creates its files once for all loads, so their size must suit each.
        let least = least.max(8 << 20).min(self.file_bytes);
        let bytes = (self.file_bytes as f64 * part) as u64;
        // Small files keep their size.
        let file_bytes = match self.work {
            LoadKind::Data => bytes.max(least).next_multiple_of(1 << 20),
            _ => self.file_bytes,
        };
        Self {
            file_bytes,
            until: match self.until {
                RunLimit::Seconds(seconds) => RunLimit::Seconds((seconds * part).max(0.2)),
                RunLimit::Bytes(bytes) => {
                    RunLimit::Bytes(((bytes as f64 * part) as u64).max(least))
                }
            },
            warm_up_seconds: self.warm_up_seconds * part,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_match_the_documented_tests() {
        let of = |name: &str| profile(name).unwrap_or_else(|| panic!("{name} is missing"));
        let multichannel = of("seed-multichannel");
        assert!(multichannel.plans.iter().all(|p| p.files == 10 && p.depth == 10 && p.random));
        assert_eq!(multichannel.connections, [1, 4]);
        let random = of("seed-anf-random");
        let set: u64 = random.plans[0].file_bytes * random.plans[0].files as u64;
        assert_eq!((set, random.plans.len()), (40 << 30, 2));
        let single = of("seed-anf-single");
        assert_eq!(single.plans.len(), 22, "eleven mixes of two loads");
        assert!(single.plans.iter().all(|p| (p.threads, p.depth) == (16, 16)));
        assert_eq!(single.plans[0].file_bytes * 16, 1 << 40);
        let nconnect = of("seed-nconnect");
        assert_eq!(nconnect.plans.len(), 8);
        assert!(nconnect.plans.iter().all(|p| (p.files, p.depth) == (4, 64)));
        assert_eq!(of("seed-copy").plans[0].file_bytes, 1 << 30);
        assert!(profile("quick").is_some() && profile("slow").is_none());
    }

    #[test]
    fn workload_families_have_their_typical_sizes() {
        let of = |name: &str| profile(name).unwrap_or_else(|| panic!("{name} is missing")).plans;
        for name in ["media", "genomics", "risk"] {
            assert!(of(name).iter().all(|p| p.block_bytes == 1024 * KIB), "{name}: large requests");
        }
        let pages = &of("database")[0];
        assert_eq!((pages.block_bytes, pages.read_percent, pages.random), (8 * KIB, 70, true));
        // A profile creates its files once for all loads.
        assert!(profiles().iter().all(|p| p.plans.iter().all(|q| q.files <= p.plans[0].files)));
    }

    #[test]
    fn four_usages_are_metadata_heavy() {
        for name in ["web", "devops", "indexing", "desktops"] {
            let plan = &profile(name).unwrap_or_else(|| panic!("{name} is missing")).plans[0];
            assert!(matches!(plan.work, LoadKind::Usage(_)), "{name}");
            assert!(plan.file_bytes <= 32 << 10 && plan.files >= 1000, "{name}");
            assert_eq!(plan.scaled(0.01).file_bytes, plan.file_bytes, "{name}");
        }
    }

    #[test]
    fn scaled_loads_keep_their_form_and_shared_files() {
        assert_eq!(mixes(10).collect::<Vec<_>>(), [100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 0]);
        for profile in profiles() {
            let scaled: Vec<Plan> = profile.plans.iter().map(|plan| plan.scaled(0.001)).collect();
            for (small, large) in scaled.iter().zip(&profile.plans) {
                assert_eq!((small.files, small.depth), (large.files, large.depth));
                assert_eq!(small.file_bytes, scaled[0].file_bytes, "{}", profile.name);
                assert!(small.file_bytes >= u64::from(small.block_bytes));
                assert!(matches!(small.until, RunLimit::Seconds(s) if s < 2.0));
            }
        }
    }
}
