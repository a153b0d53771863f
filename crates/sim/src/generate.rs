//! Draws the plan of a run, and the requests of its clients.

use crate::client::SmbClientEnd;
use crate::environment::Troubles;
use crate::model::{CELLS_MAX, Cells, FileOperation, ModelRequest, ModelRules, NAMES, OpId, kinds};
use crate::random::Random;
use wire::fscc;

/// Parameters of a run, drawn from its seed.
#[derive(Clone, Copy, Debug)]
pub struct FilePlan {
    /// Number of concurrent clients.
    pub clients: usize,
    /// Total number of operations.
    pub operations: u32,
    /// Maximum number of operations in flight.
    pub pending_max: usize,
    /// Number of names used.
    pub names: u8,
    /// Failures of the environment.
    pub troubles: Troubles,
    /// Probability per step that a connection is cut, in 1/10,000.
    pub cuts: u32,
    /// Probability per step that the process dies, in 1/10,000.
    pub deaths: u32,
    /// Probability per step of a power failure, in 1/10,000.
    pub losses: u32,
    /// Adds a client that addresses files by handle.
    pub direct: bool,
}

impl FilePlan {
    /// The plan of a seed.
    #[must_use]
    pub fn of(seed: u64, random: &mut Random) -> Self {
        let fails = random.percent(20);
        let losses = if random.percent(25) { 10 } else { 0 };
        let troubles = Troubles {
            park: random.pick(&[0, 5, 20, 50]),
            would_block: random.pick(&[0, 10, 50]),
            fail: if fails { random.pick(&[2, 10]) } else { 0 },
            creates_wait: !seed.is_multiple_of(2),
        };
        Self {
            clients: 1 + random.below(4),
            operations: 60 + random.next() as u32 % 120,
            // Failures multiply the possible states.
            pending_max: if fails { 3 } else { 2 + random.below(4) },
            names: 1 + random.small(NAMES.len() as u8),
            troubles,
            cuts: random.pick(&[0, 5, 30]),
            deaths: random.pick(&[0, 0, 5, 20]),
            losses,
            direct: random.percent(50),
        }
    }

    /// The events that the model must allow.
    #[must_use]
    pub fn rules(&self) -> ModelRules {
        ModelRules { failures: self.troubles.fail > 0, power: self.losses > 0 }
    }
}

/// Draws the next requests of a client, in one frame, and whether they are related.
pub fn requests(
    plan: &FilePlan,
    random: &mut Random,
    client: &SmbClientEnd,
    next: &mut OpId,
) -> (Vec<ModelRequest>, bool) {
    let mut ops = Vec::new();
    let first = *next;
    let opens: Vec<OpId> = client.opens().collect();
    let related = match random.below(12) {
        0 => {
            // All requests refer to the file that the first one opens.
            let share = share(random);
            let access = kinds::READ | kinds::WRITE;
            ops.push(FileOperation::Create {
                name: name(plan, random),
                access,
                share,
                disposition: fscc::FILE_OPEN_IF,
                delete_on_close: false,
            });
            ops.push(on_open(plan, random, first));
            ops.push(FileOperation::Close { open: first });
            true
        }
        1 if !opens.is_empty() => {
            let open = random.pick(&opens);
            ops.extend((0..2).map(|_| on_open(plan, random, open)));
            random.percent(50)
        }
        _ => {
            ops.push(single(plan, random, &opens));
            false
        }
    };
    // A related request in the middle does not wait for others.
    let count = ops.len();
    let mut requests = Vec::new();
    for (at, mut op) in ops.into_iter().enumerate() {
        if let FileOperation::Lock { waits, .. } = &mut op {
            *waits &= count == 1;
        }
        let after = (at > 0).then(|| *next - 1);
        let session = client.session;
        requests.push(ModelRequest { id: *next, session, op, after, is_cancelled: false });
        *next += 1;
    }
    (requests, related)
}

fn name(plan: &FilePlan, random: &mut Random) -> u8 {
    random.small(plan.names)
}

fn share(random: &mut Random) -> u8 {
    if random.percent(65) { kinds::ALL } else { random.small(8) }
}

fn cells(random: &mut Random) -> Cells {
    let at = random.small(CELLS_MAX - 2);
    Cells { at, count: 1 + random.small(3.min(CELLS_MAX - at)) }
}

/// Draws one of few ranges, so that ranges recur.
fn range(random: &mut Random) -> Cells {
    Cells { at: random.pick(&[0, 0, 2, 4]), count: random.pick(&[1, 2]) }
}

fn single(plan: &FilePlan, random: &mut Random, opens: &[OpId]) -> FileOperation {
    if opens.is_empty() || random.percent(if opens.len() < 3 { 35 } else { 10 }) {
        let dispositions = [
            fscc::FILE_SUPERSEDE,
            fscc::FILE_OPEN,
            fscc::FILE_OPEN,
            fscc::FILE_CREATE,
            fscc::FILE_OPEN_IF,
            fscc::FILE_OPEN_IF,
            fscc::FILE_OPEN_IF,
            fscc::FILE_OVERWRITE,
            fscc::FILE_OVERWRITE_IF,
        ];
        return FileOperation::Create {
            name: name(plan, random),
            access: random.pick(&[0, 1, 2, 3, 3, 3, 4, 7, 7, 7]),
            share: share(random),
            disposition: random.pick(&dispositions),
            delete_on_close: random.percent(15),
        };
    }
    let open = random.pick(opens);
    match random.below(20) {
        0..4 => FileOperation::Close { open },
        4 | 5 => {
            FileOperation::Rename { open, to: name(plan, random), replace: random.percent(60) }
        }
        6 | 7 => FileOperation::Dispose { open, delete: random.percent(75) },
        _ => on_open(plan, random, open),
    }
}

/// Draws an operation on the contents of a file.
fn on_open(plan: &FilePlan, random: &mut Random, open: OpId) -> FileOperation {
    let cells = cells(random);
    let (exclusive, waits) = (random.percent(60), random.percent(50));
    // Flushes matter in runs with power failures.
    let flush = if plan.losses > 0 { 3 } else { 1 };
    // Runs on few names use more locks.
    let locks = if plan.names <= 2 { 6 } else { 2 };
    let weights = [6, 6, locks + 1, locks, 1, flush];
    match random.weighted(weights.into_iter()) {
        0 => FileOperation::Read { open, cells },
        1 => FileOperation::Write { open, cells, through: random.percent(20) },
        2 => FileOperation::Lock { open, lock: range(random), exclusive, waits },
        3 => FileOperation::Unlock { open, lock: range(random) },
        4 => FileOperation::SetSize { open, count: random.small(CELLS_MAX) },
        _ => FileOperation::Flush { open },
    }
}
