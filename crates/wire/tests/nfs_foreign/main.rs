//! Decodes messages that another implementation encoded, and encodes them to the same bytes.
// A test fails by a panic.
#![allow(clippy::unwrap_used)]

mod arguments;
mod results;

use std::sync::LazyLock;
use wire::nfs::acl::{AceFlags, AceMask, AceType, NfsAce};
use wire::nfs::callback::*;
use wire::nfs::ops::*;
use wire::nfs::rpc::{AuthSys, Groups};
use wire::nfs::xdr::{List, Opaque, XdrReader, XdrWriter};
use wire::nfs::*;

const STATE_ID: StateId = StateId { seqid: 7, other: *b"abcdefghijkl" };
const TIME: NfsTime = NfsTime { seconds: 1_700_000_000, nanoseconds: 5 };
const SESSION: NfsSessionId = NfsSessionId(*b"0123456789abcdef");
const VERIFIER: Verifier = Verifier(*b"verifier");
const OWNER: StateOwner<'static> = StateOwner { client_id: ClientId(5), owner: Opaque(b"me") };
const LOCK_OWNER: StateOwner<'static> = StateOwner { client_id: ClientId(5), owner: Opaque(b"lo") };
const CHANGE: ChangeInfo = ChangeInfo { is_atomic: true, before: 1, after: 2 };

/// Size 4,096 and mode 0644.
const SIZE_AND_MODE: Fattr<'static> =
    Fattr { mask: Bitmap4::of(&[4, 33]), values: &[0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 1, 0xA4] };

/// A directory with size 4,096.
const TYPE_AND_SIZE: Fattr<'static> =
    Fattr { mask: Bitmap4::of(&[1, 4]), values: &[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0x10, 0] };

/// Kind, name and bytes of every line.
static LINES: LazyLock<Vec<(&str, &str, Vec<u8>)>> = LazyLock::new(|| {
    let lines = include_str!("bytes.txt").lines().filter(|line| !line.starts_with('#'));
    let parsed = lines.map(|line| {
        let (kind, rest) = line.split_once(' ').unwrap();
        let (name, digits) = rest.split_once(' ').unwrap();
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (kind, name, (0..digits.len()).step_by(2).map(byte).collect())
    });
    parsed.collect()
});

fn lines(kind: &str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    LINES.iter().filter(move |line| line.0 == kind).map(|(_, name, bytes)| (*name, &bytes[..]))
}

#[test]
fn foreign_operation_arguments_decode_and_re_encode() {
    for (name, bytes) in lines("args") {
        let expected = arguments::expected(name);
        let mut r = XdrReader::new(bytes);
        let number = r.get().unwrap();
        assert_eq!(Operation::decode(number, &mut r).as_ref(), Ok(&expected), "{name}");
        assert_eq!(r.remaining(), 0, "{name}");
        let mut out = Vec::new();
        let w = &mut XdrWriter::new(&mut out);
        w.put(&expected.number());
        expected.encode_args(w);
        assert_eq!(out, bytes, "{name}");
        for end in 4..bytes.len() {
            let mut cut = XdrReader::new(&bytes[4..end]);
            assert!(Operation::decode(number, &mut cut).is_err(), "{name} {end}");
        }
    }
}

#[test]
fn foreign_operation_results_decode_and_re_encode() {
    for (name, bytes) in lines("result") {
        let expected = results::expected(name);
        let mut r = XdrReader::new(bytes);
        let (number, status) = (r.get().unwrap(), r.get().unwrap());
        let found = OperationResult::decode(number, status, &mut r);
        assert_eq!(found.as_ref(), Ok(&expected), "{name}");
        assert_eq!(r.remaining(), 0, "{name}");
        let mut out = Vec::new();
        let w = &mut XdrWriter::new(&mut out);
        w.put(&expected.number());
        w.put(&expected.status());
        expected.encode_body(w);
        assert_eq!(out, bytes, "{name}");
        for end in 8..bytes.len() {
            let mut cut = XdrReader::new(&bytes[8..end]);
            assert!(OperationResult::decode(number, status, &mut cut).is_err(), "{name} {end}");
        }
    }
}

fn expected_callback(name: &str) -> Callback<'static> {
    let handle = FileHandle::new(b"fh").unwrap();
    match name {
        "sequence" => Callback::Sequence(CbSequenceArgs {
            session_id: SESSION,
            sequence_id: 1,
            slot_id: 0,
            highest_slot_id: 3,
            cache_this: false,
            referring_calls: List(vec![ReferringCalls {
                session_id: SESSION,
                calls: List(vec![ReferringCall { sequence_id: 4, slot_id: 5 }]),
            }]),
        }),
        "recall" => Callback::Recall(CbRecallArgs { state_id: STATE_ID, truncate: true, handle }),
        "get_attr" => Callback::GetAttr(CbGetAttrArgs { handle, requested: Bitmap4::of(&[3, 4]) }),
        "recall_any" => Callback::RecallAny(CbRecallAnyArgs {
            objects_to_keep: 10,
            type_mask: Bitmap4::of(&[recallable::READ_DELEGATION, recallable::WRITE_DELEGATION]),
        }),
        "recall_slot" => Callback::RecallSlot(CbRecallSlotArgs { target_highest_slot_id: 7 }),
        "notify_lock" => Callback::NotifyLock(CbNotifyLockArgs { handle, lock_owner: LOCK_OWNER }),
        "offload" => Callback::Offload(CbOffloadArgs {
            handle,
            state_id: STATE_ID,
            outcome: OffloadOutcome::Done(NfsWriteResponse {
                callback_id: List(vec![]),
                count: 8,
                committed: StableHow::FileSync,
                verifier: VERIFIER,
            }),
        }),
        "layout_recall" => Callback::LayoutRecall(CbLayoutRecallArgs {
            layout_type: 1,
            io_mode: LayoutIoMode::Any,
            is_changed: false,
            what: LayoutRecall::File(LayoutRecallFile {
                handle,
                offset: 0,
                length: 9,
                state_id: STATE_ID,
            }),
        }),
        _ => panic!("{name}"),
    }
}

#[test]
fn foreign_callbacks_decode_and_re_encode() {
    for (name, bytes) in lines("callback") {
        let expected = expected_callback(name);
        let mut whole = Vec::new();
        let w = &mut XdrWriter::new(&mut whole);
        let mut request = CallbackRequest::begin(w, b"cb", 2);
        request.push(w, &expected);
        request.finish(w);
        assert!(whole.ends_with(bytes), "{name}");
        let mut compound = CallbackCompound::decode(&mut XdrReader::new(&whole)).unwrap();
        assert_eq!(compound.next(), Some(Ok(expected)), "{name}");
        assert_eq!(compound.next(), None, "{name}");
    }
}

#[test]
fn compound_framing_matches_a_foreign_implementation() {
    let of = |name| lines("compound").find(|line| line.0 == name).unwrap().1;
    let mut out = Vec::new();
    let w = &mut XdrWriter::new(&mut out);
    let mut request = CompoundRequest::begin(w, b"tag", 2);
    request.push(w, &Operation::PutRootFh);
    request.push(w, &Operation::GetFh);
    request.finish(w);
    assert_eq!(out, of("arguments"));
    let compound = Compound::decode(&mut XdrReader::new(&out)).unwrap();
    assert_eq!((compound.tag, compound.minor_version), (Opaque(&b"tag"[..]), 2));
    let operations: Vec<_> = compound.collect();
    assert_eq!(operations, [Ok(Operation::PutRootFh), Ok(Operation::GetFh)]);

    out.clear();
    let w = &mut XdrWriter::new(&mut out);
    let mut reply = CompoundReply::begin(w, b"tag");
    reply.push(w, OperationNumber::PUTROOTFH, &Ok::<(), NfsStatus>(()));
    reply.push(w, OperationNumber::LOOKUP, &Err::<(), _>(NfsStatus::NOENT));
    reply.finish(w, NfsStatus::NOENT);
    assert_eq!(out, of("results"));
    let mut results = CompoundResults::decode(&mut XdrReader::new(&out)).unwrap();
    assert_eq!(results.succeed::<()>(OperationNumber::PUTROOTFH), Ok(()));
    let failed = Err(NoResult::Failed(NfsStatus::NOENT));
    assert_eq!(results.succeed::<()>(OperationNumber::LOOKUP), failed);
    assert_eq!(
        results.succeed::<FileHandle>(OperationNumber::GETFH),
        failed.map(|()| unreachable!())
    );

    out.clear();
    let w = &mut XdrWriter::new(&mut out);
    let mut request = CallbackRequest::begin(w, b"cb", 1);
    request.push(w, &expected_callback("recall_slot"));
    request.finish(w);
    assert_eq!(out, of("callbacks"));
}
