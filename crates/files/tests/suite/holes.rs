//! Space reservation during concurrent writes.

use crate::harness::*;
use files::{Caller, Files, IfMissing, OpenPlan, ShareMode, Volume, VolumeOptions};
use std::sync::{Arc, Mutex};
use vfs::memory::{CallOutcome, MemoryCall, MemoryOptions, MemoryVfs, StillClock, Surroundings};
use vfs::{Identity, Timestamp};

type Interruption = Box<dyn FnOnce() + Send>;

/// Runs a hook before one call.
#[derive(Default)]
struct InterruptedBackend {
    clock: StillClock,
    meanwhile: Mutex<Option<(MemoryCall, Interruption)>>,
}

impl Surroundings for InterruptedBackend {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn before(&self, call: MemoryCall) -> CallOutcome {
        let meanwhile = self.meanwhile.lock().unwrap().take_if(|(at, _)| *at == call);
        if let Some((_, meanwhile)) = meanwhile {
            meanwhile();
        }
        CallOutcome::Runs
    }
}

#[test]
fn concurrent_write_survives_space_reservation() {
    for at in [MemoryCall::Allocate, MemoryCall::SetSize { grows: true }] {
        let around = Arc::new(InterruptedBackend::default());
        let vfs = Arc::new(MemoryVfs::new(MemoryOptions::default(), around.clone()));
        let volume = Arc::new(Volume::new(vfs, VolumeOptions::default()));
        let files = Arc::new(Files::new(Arc::new(Inline))).for_server();
        let caller = Arc::new(Caller::of(Identity::root()));
        let made = OpenPlan {
            path: path("f"),
            if_missing: IfMissing::Create,
            ..OpenPlan::posix(READ | WRITE, ShareMode::ALL)
        };
        let open = now(files.open(&volume, &caller, made)).unwrap().open;
        let (others, writer) = (files.clone(), open.clone());
        let write = move || others.write(writer.caller(), &writer, 30_000, b"x").unwrap();
        *around.meanwhile.lock().unwrap() = Some((at, Box::new(write)));
        now(files.allocate_range(open.caller(), &open, 0, 10_000)).unwrap();
        let size_bytes = files.size_bytes(&open).unwrap();
        let is_written = around.meanwhile.lock().unwrap().is_none();
        assert_eq!(size_bytes, if is_written { 30_001 } else { 10_000 }, "{at:?}");
    }
}
