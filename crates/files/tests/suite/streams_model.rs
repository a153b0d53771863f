//! Random operations on a file and its streams against a short reference model, compared after
//! every step.

use crate::harness::*;
use files::{Access, IfExists, IfMissing, OpenFile, OpenPlan, RequestedKind, ShareMode};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::{Actor, FsError, Result, StreamName};

/// Names to open: the file itself, or a stream of it.
const NAMES: [Option<&str>; 4] = [None, Some("a"), Some("A"), Some("b")];

/// Unit of offsets and sizes: a few exceed ext4's room for attributes.
const UNIT: usize = 700;

#[derive(Clone, Debug)]
enum StreamStep {
    Open {
        name: usize,
        access: u32,
        share: u32,
        if_exists: u8,
        create: bool,
        delete_on_close: bool,
    },
    Close(usize),
    Write(usize, u8),
    SetSize(usize, u8),
    SetDelete(usize, bool),
    Rename(usize, usize, bool),
}

fn steps() -> impl Strategy<Value = Vec<StreamStep>> {
    let open =
        (0..NAMES.len(), 0u32..8, 0u32..12, 0u8..8, any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(name, access, share, if_exists, create, delete_on_close)| {
                StreamStep::Open {
                    name,
                    access,
                    // Mostly shared, so that files have several opens.
                    share: share.min(7),
                    // Mostly without truncation.
                    if_exists: if if_exists < 4 { if_exists } else { 1 },
                    create,
                    delete_on_close,
                }
            });
    let step = prop_oneof![
        6 => open,
        4 => any::<usize>().prop_map(StreamStep::Close),
        2 => (any::<usize>(), any::<u8>()).prop_map(|(n, b)| StreamStep::Write(n, b)),
        1 => (any::<usize>(), 0u8..9).prop_map(|(n, s)| StreamStep::SetSize(n, s)),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(n, d)| StreamStep::SetDelete(n, d)),
        2 => (any::<usize>(), 1..NAMES.len(), any::<bool>()).prop_map(|(n, to, r)| StreamStep::Rename(n, to, r)),
    ];
    prop::collection::vec(step, 1..60)
}

/// An open with its state in the reference: the number identifies the stream or file.
struct StreamModelOpen {
    real: Arc<OpenFile>,
    number: u32,
    access: u32,
    share: u32,
    delete_on_close: bool,
}

#[derive(Clone, Default)]
struct StreamData {
    bytes: Vec<u8>,
    pending: bool,
    /// Name as spelt; the file has none.
    name: String,
}

/// Reference state. The file is number 0. A number missing in `data` was removed, open or not.
#[derive(Default)]
struct StreamReference {
    data: BTreeMap<u32, StreamData>,
    next: u32,
}

const FILE: u32 = 0;

impl StreamReference {
    fn stream(&self, name: &str) -> Option<u32> {
        let same = |(n, d): &(&u32, &StreamData)| **n != FILE && d.name.eq_ignore_ascii_case(name);
        self.data.iter().find(same).map(|(n, _)| *n)
    }

    fn make_stream(&mut self, name: &str) -> u32 {
        self.next += 1;
        self.data.insert(self.next, StreamData { name: name.to_owned(), ..StreamData::default() });
        self.next
    }

    /// Whether an open of an existing stream denies shared deletion.
    fn streams_kept(&self, opens: &[StreamModelOpen]) -> bool {
        opens.iter().any(|o| {
            o.number != FILE
                && self.data.contains_key(&o.number)
                && o.access != 0
                && o.share & 4 == 0
        })
    }

    fn conflict(opens: &[StreamModelOpen], number: u32, access: u32, share: u32) -> bool {
        opens.iter().any(|o| {
            o.number == number
                && o.access != 0
                && access != 0
                && (access & !o.share != 0 || o.access & !share != 0)
        })
    }

    /// Expected outcome of an open, with its stream.
    fn open(&mut self, opens: &[StreamModelOpen], step: &StreamStep) -> Result<u32> {
        let StreamStep::Open { name, access, share, if_exists, create, delete_on_close } = *step
        else {
            unreachable!()
        };
        let file = self.data.get(&FILE).map(|f| f.pending);
        let stream = NAMES[name].map(|name| (name, self.stream(name)));
        let there = file.is_some() && stream.is_none_or(|(_, number)| number.is_some());
        if there && if_exists == 0 {
            return Err(FsError::AlreadyExists);
        }
        if !there && !create {
            return Err(FsError::NotFound);
        }
        if delete_on_close && access & 4 == 0 {
            return Err(FsError::AccessDenied);
        }
        if stream.is_none() && access & 4 != 0 && self.streams_kept(opens) {
            return Err(FsError::ShareViolation);
        }
        if file == Some(true) {
            return Err(FsError::DeletePending);
        }
        let replaces = if_exists >= 2 && there;
        let checked = access | if replaces { 2 } else { 0 };
        let is_kept = opens.iter().any(|o| o.number == FILE && o.access & 4 != 0);
        if stream.is_some() && is_kept && checked != 0 && share & 4 == 0 {
            return Err(FsError::ShareViolation);
        }
        self.data.entry(FILE).or_default();
        let number = match stream {
            Some((_, Some(number))) => number,
            Some((name, None)) => self.make_stream(name),
            None => FILE,
        };
        if self.data[&number].pending {
            return Err(FsError::DeletePending);
        }
        if Self::conflict(opens, number, checked, share) {
            return Err(FsError::ShareViolation);
        }
        if replaces && number == FILE {
            if self.streams_kept(opens) {
                return Err(FsError::ShareViolation);
            }
            self.data.retain(|n, _| *n == FILE);
        }
        if replaces {
            self.data.get_mut(&number).unwrap().bytes.clear();
        }
        Ok(number)
    }

    fn close(&mut self, closed: &StreamModelOpen, left: &[StreamModelOpen]) {
        if let Some(data) = self.data.get_mut(&closed.number) {
            data.pending |= closed.delete_on_close;
            if data.pending
                && closed.number != FILE
                && left.iter().all(|o| o.number != closed.number)
            {
                self.data.remove(&closed.number);
            }
        }
        if left.is_empty() && self.data.get(&FILE).is_some_and(|f| f.pending) {
            self.data.clear();
        }
    }

    fn change(&mut self, open: &StreamModelOpen, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        if open.access & 2 == 0 {
            return Err(FsError::AccessDenied);
        }
        change(&mut self.data.get_mut(&open.number).ok_or(FsError::Stale)?.bytes);
        Ok(())
    }

    fn set_delete(&mut self, open: &StreamModelOpen, delete: bool) -> Result<()> {
        if open.access & 4 == 0 {
            return Err(FsError::AccessDenied);
        }
        match self.data.get_mut(&open.number) {
            Some(data) => data.pending = delete,
            None if delete => return Err(FsError::Stale),
            None => {}
        }
        Ok(())
    }

    fn rename(
        &mut self,
        opens: &[StreamModelOpen],
        at: usize,
        to: &str,
        replace: bool,
    ) -> Result<()> {
        let open = &opens[at];
        if open.access & 4 == 0 {
            return Err(FsError::AccessDenied);
        }
        if open.number == FILE {
            return Err(FsError::NotSupported);
        }
        if !self.data.contains_key(&open.number) {
            return Err(FsError::Stale);
        }
        let others = opens.iter().enumerate().filter(|(n, o)| *n != at && o.number == open.number);
        if others.into_iter().any(|(_, o)| o.access != 0 && o.share & 4 == 0) {
            return Err(FsError::ShareViolation);
        }
        if let Some(taken) = self.stream(to).filter(|taken| *taken != open.number) {
            if !replace {
                return Err(FsError::AlreadyExists);
            }
            if opens.iter().any(|o| o.number == taken) {
                return Err(FsError::AccessDenied);
            }
            if !self.data[&taken].bytes.is_empty() {
                return Err(FsError::InvalidParameter);
            }
            self.data.remove(&taken);
        }
        to.clone_into(&mut self.data.get_mut(&open.number).unwrap().name);
        Ok(())
    }

    /// Names and bytes; none without a file.
    fn shown(&self) -> Option<BTreeMap<String, Vec<u8>>> {
        self.data
            .contains_key(&FILE)
            .then(|| self.data.values().map(|d| (d.name.clone(), d.bytes.clone())).collect())
    }
}

/// The same as stored.
fn stored(served: &ServedVolume) -> Option<BTreeMap<String, Vec<u8>>> {
    let node = served.look("f", true)?.node;
    let mut all = BTreeMap::from([(String::new(), served.get("f").unwrap())]);
    for stream in node.streams(Actor::SUPERUSER).unwrap() {
        let mut bytes = Vec::new();
        node.need_streams()
            .unwrap()
            .read_stream(Actor::SUPERUSER, &stream.name, 0, 1 << 20, &mut bytes)
            .unwrap();
        all.insert(String::from_utf8(stream.name.as_bytes().to_vec()).unwrap(), bytes);
    }
    Some(all)
}

fn stream_name(text: &str) -> StreamName {
    StreamName::new(text.as_bytes()).unwrap()
}

fn plan_of(step: &StreamStep) -> OpenPlan {
    let StreamStep::Open { name, access, share, if_exists, create, delete_on_close } = *step else {
        unreachable!()
    };
    let mut desired = LOOK;
    for (bit, right) in [(1, Access::READ_DATA), (2, Access::WRITE_DATA), (4, DELETE)] {
        desired = if access & bit != 0 { desired | right } else { desired };
    }
    let dispositions = [IfExists::Fail, IfExists::Open, IfExists::Overwrite, IfExists::Supersede];
    OpenPlan {
        stream: NAMES[name].map(stream_name),
        share: ShareMode(share),
        if_exists: dispositions[usize::from(if_exists)],
        if_missing: if create { IfMissing::Create } else { IfMissing::Fail },
        kind: RequestedKind::File,
        delete_on_close,
        ..plan("f", desired)
    }
}

fn run_one(
    served: &ServedVolume,
    reference: &mut StreamReference,
    opens: &mut Vec<StreamModelOpen>,
    step: &StreamStep,
) {
    let pick = |n: usize, opens: &[StreamModelOpen]| (!opens.is_empty()).then(|| n % opens.len());
    match *step {
        StreamStep::Open { access, share, delete_on_close, .. } => {
            let real = served.try_open(plan_of(step));
            let expected = reference.open(opens, step);
            assert_eq!(real.as_ref().map(|_| ()).map_err(|e| *e), expected.map(|_| ()), "{step:?}");
            if let (Ok(real), Ok(number)) = (real, expected) {
                opens.push(StreamModelOpen {
                    real: real.open,
                    number,
                    access,
                    share,
                    delete_on_close,
                });
            }
        }
        StreamStep::Close(n) => {
            let Some(at) = pick(n, opens) else { return };
            let open = opens.remove(at);
            served.close(open.real.clone());
            reference.close(&open, opens);
        }
        StreamStep::Write(n, byte) => {
            let Some(at) = pick(n, opens) else { return };
            let real = served.files.write(
                opens[at].real.caller(),
                &opens[at].real,
                u64::from(byte % 8) * UNIT as u64,
                &[byte],
            );
            let expected = reference.change(&opens[at], |bytes| {
                let offset = usize::from(byte % 8) * UNIT;
                bytes.resize(bytes.len().max(offset + 1), 0);
                bytes[offset] = byte;
            });
            assert_eq!(real, expected, "{step:?}");
        }
        StreamStep::SetSize(n, size) => {
            let Some(at) = pick(n, opens) else { return };
            let size = usize::from(size) * UNIT;
            let (caller, open) = (opens[at].real.caller(), &opens[at].real);
            let real = now(served.files.set_size(caller, open, size as u64));
            let expected = reference.change(&opens[at], |bytes| bytes.resize(size, 0));
            assert_eq!(real, expected, "{step:?}");
        }
        StreamStep::SetDelete(n, delete) => {
            let Some(at) = pick(n, opens) else { return };
            let real = served.files.set_delete(&opens[at].real, delete, false);
            assert_eq!(real, reference.set_delete(&opens[at], delete), "{step:?}");
        }
        StreamStep::Rename(n, to, replace) => {
            let Some(at) = pick(n, opens) else { return };
            let to = NAMES[to].unwrap();
            let real = now(served.files.rename_stream(&opens[at].real, &stream_name(to), replace));
            assert_eq!(real, reference.rename(opens, at, to, replace), "{step:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn streams_agree_with_reference(steps in steps()) {
        let served = serve();
        prop_assume!(served.volume.has_streams());
        let (mut reference, mut opens) = (StreamReference::default(), Vec::new());
        for step in &steps {
            run_one(&served, &mut reference, &mut opens, step);
            prop_assert_eq!(stored(&served), reference.shown(), "{:?}", step);
        }
        while let Some(open) = opens.pop() {
            served.close(open.real.clone());
            reference.close(&open, &opens);
            prop_assert_eq!(stored(&served), reference.shown());
        }
        served.assert_nothing_held();
    }
}
