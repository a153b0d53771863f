//! Round trips of arguments, results and attributes: every value that decodes is encoded to bytes
//! that decode to an equal value, for every operation.

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use wire::codec::DecodeError;
use wire::nfs::attributes::NfsAttributes;
use wire::nfs::xdr::{Decode, Encode, XdrReader, XdrWriter};
use wire::nfs::*;

/// Streams of small words, many of which are valid lengths, kinds and counts.
const STREAMS: usize = 3000;
const WORDS: usize = 96;

fn stream(rng: &mut TestRng) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(WORDS * 4);
    for _ in 0..WORDS {
        let word = match rng.next_u32() % 16 {
            0..8 => 0,
            8..12 => 1,
            12 => 2,
            13 => rng.next_u32() % 8,
            14 => rng.next_u32() % 64,
            _ => rng.next_u32(),
        };
        bytes.extend(word.to_be_bytes());
    }
    bytes
}

/// Decodes, encodes and decodes again; returns the number of successful first decodes.
fn round_trips<'a, T: PartialEq + std::fmt::Debug>(
    streams: &'a [Vec<u8>],
    what: &str,
    decode: impl Fn(&mut XdrReader<'a>) -> Result<T, DecodeError>,
    again: impl Fn(&[u8], &T) -> bool,
    encode: impl Fn(&T, &mut XdrWriter<'_>),
) -> usize {
    let mut read = 0;
    for stream in streams {
        let Ok(value) = decode(&mut XdrReader::new(stream)) else { continue };
        let mut out = Vec::new();
        encode(&value, &mut XdrWriter::new(&mut out));
        assert!(again(&out, &value), "{what}: {value:?}");
        read += 1;
    }
    read
}

fn streams() -> Vec<Vec<u8>> {
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    (0..STREAMS).map(|_| stream(&mut rng)).collect()
}

/// True if `out` decodes completely to an equal value.
fn same(out: &[u8], is_same: impl Fn(&mut XdrReader<'_>) -> Option<bool>) -> bool {
    let mut r = XdrReader::new(out);
    is_same(&mut r) == Some(true) && r.remaining() == 0
}

#[test]
fn operation_arguments_round_trip() {
    let streams = streams();
    for number in (3..=75).map(OperationNumber).filter(|number| !number.is_obsolete()) {
        let read = round_trips(
            &streams,
            &format!("{number:?}"),
            |r| Operation::decode(number, r),
            |out, value| same(out, |r| Some(Operation::decode(number, r).ok()? == *value)),
            |value, w| value.encode_args(w),
        );
        assert!(read > 10, "{number:?} was read {read} times");
    }
}

#[test]
fn operation_results_round_trip() {
    let streams = streams();
    for number in (3..=75).map(OperationNumber).filter(|number| !number.is_obsolete()) {
        for status in [NfsStatus::OK, NfsStatus::DENIED, NfsStatus::TOOSMALL, NfsStatus::INVAL] {
            let read = round_trips(
                &streams,
                &format!("{number:?}"),
                |r| OperationResult::decode(number, status, r),
                |out, value| {
                    same(out, |r| Some(OperationResult::decode(number, status, r).ok()? == *value))
                },
                |value, w| value.encode_body(w),
            );
            assert!(read > 10, "{number:?} was read {read} times");
        }
    }
}

#[test]
fn callbacks_round_trip() {
    let streams = streams();
    for number in (3..=15).map(CallbackNumber) {
        let read = round_trips(
            &streams,
            &format!("{number:?}"),
            |r| Callback::decode(number, r),
            |out, value| same(out, |r| Some(Callback::decode(number, r).ok()? == *value)),
            |value, w| value.encode_args(w),
        );
        assert!(read > 10, "{number:?} was read {read} times");
        let read = round_trips(
            &streams,
            &format!("{number:?}"),
            |r| CallbackResult::decode(number, NfsStatus::OK, r),
            |out, value| {
                same(out, |r| {
                    Some(CallbackResult::decode(number, NfsStatus::OK, r).ok()? == *value)
                })
            },
            |value, w| value.encode_body(w),
        );
        assert!(read > 10, "{number:?} was read {read} times");
    }
}

/// Encodes one attribute at a time, to reach every type.
#[test]
fn single_attributes_round_trip() {
    let streams = streams();
    for number in NfsAttributes::ALL.iter() {
        let mut read = 0;
        for stream in &streams {
            // A value must have its exact length, so the test tries all lengths.
            let lengths = (1..12).map(|words| &stream[..4 * words]);
            for values in lengths {
                let fattr = Fattr { mask: Bitmap4::of(&[number]), values };
                let Ok(attributes) = fattr.attributes() else { continue };
                let mut out = Vec::new();
                attributes.encode(&mut XdrWriter::new(&mut out));
                let again: Fattr<'_> = XdrReader::new(&out).get().unwrap();
                assert_eq!(again.attributes().as_ref(), Ok(&attributes));
                read += 1;
            }
        }
        assert!(read > 10, "attribute {number} was read {read} times");
    }
}

#[test]
fn statuses_numbers_and_bitmaps_round_trip() {
    fn comes_back<T: for<'a> Decode<'a> + Encode + PartialEq + std::fmt::Debug>(value: T) {
        let mut out = Vec::new();
        XdrWriter::new(&mut out).put(&value);
        assert_eq!(XdrReader::new(&out).get(), Ok(value));
    }
    NfsStatus::ALL.iter().for_each(|status| comes_back(*status));
    for number in 0..128 {
        comes_back(Bitmap4::of(&[number]));
        comes_back(OperationNumber(number));
    }
    comes_back(StateId::READ_BYPASS);
    comes_back(NfsTime { seconds: i64::MIN, nanoseconds: 999_999_999 });
}
