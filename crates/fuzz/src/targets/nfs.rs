//! NFS messages: records, calls, replies, COMPOUND in both directions, attributes.

use wire::nfs::rpc::{RpcMessage, Scan, scan_record};
use wire::nfs::xdr::{Decode, Encode, XdrReader, XdrWriter};
use wire::nfs::{
    Callback, CallbackCompound, CallbackNumber, CallbackResult, Compound, CompoundResults, Fattr,
    NfsStatus, Operation, OperationResult,
};

/// Largest record of the targets in bytes.
const RECORD_BYTES_MAX: usize = 16 * 1024;

/// Asserts that a decoded value round-trips.
fn assert_round_trip<T: PartialEq + std::fmt::Debug>(
    value: &T,
    encode: impl Fn(&mut XdrWriter<'_>),
    again: impl Fn(&mut XdrReader<'_>, &T) -> bool,
) {
    let mut out = Vec::new();
    encode(&mut XdrWriter::new(&mut out));
    let mut r = XdrReader::new(&out);
    assert!(again(&mut r, value), "{value:?}");
    assert_eq!(r.remaining(), 0, "{value:?}");
}

/// Records of a stream, complete or truncated, and the calls and replies in them.
pub fn records(mut stream: &[u8]) {
    while !stream.is_empty() {
        match scan_record(stream, RECORD_BYTES_MAX) {
            Ok(Scan::Complete(extent)) => {
                message(&extent.payload(stream));
                stream = &stream[extent.stream_bytes..];
            }
            Ok(Scan::Incomplete { stream_bytes_min }) => {
                assert!(stream_bytes_min > stream.len());
                return;
            }
            Err(_) => return,
        }
    }
}

fn message(bytes: &[u8]) {
    let r = &mut XdrReader::new(bytes);
    match RpcMessage::decode(r) {
        Ok(RpcMessage::Call(call)) => {
            let _ = call.credentials.credential();
            assert_round_trip(
                &call,
                |w| w.put(&call),
                |r, call| RpcMessage::decode(r) == Ok(RpcMessage::Call(*call)),
            );
            operations(r.rest());
        }
        Ok(RpcMessage::Reply(reply)) => {
            assert_round_trip(
                &reply,
                |w| w.put(&reply),
                |r, reply| RpcMessage::decode(r) == Ok(RpcMessage::Reply(*reply)),
            );
            results(r.rest());
        }
        Err(_) => {}
    }
}

/// COMPOUND arguments: each operation, and each attribute set in it.
fn operations(bytes: &[u8]) {
    let Ok(compound) = Compound::decode(&mut XdrReader::new(bytes)) else { return };
    for operation in compound.flatten() {
        let number = operation.number();
        assert_round_trip(
            &operation,
            |w| operation.encode_args(w),
            |r, operation| Operation::decode(number, r).as_ref() == Ok(operation),
        );
        if let Operation::SetAttr(args) = operation {
            attributes_of(&args.attributes);
        }
    }
}

/// COMPOUND results, up to the first malformed one.
fn results(bytes: &[u8]) {
    let Ok(mut results) = CompoundResults::decode(&mut XdrReader::new(bytes)) else { return };
    while let Ok(Some((number, status))) = results.next_status() {
        let Ok(result) = OperationResult::decode(number, status, results.reader()) else { return };
        assert_round_trip(
            &result,
            |w| result.encode_body(w),
            |r, result| OperationResult::decode(number, status, r).as_ref() == Ok(result),
        );
        if let OperationResult::GetAttr(Ok(attributes)) = result {
            attributes_of(&attributes);
        }
    }
}

/// CB_COMPOUND arguments, and the same bytes as its results.
pub fn callbacks(bytes: &[u8]) {
    let r = &mut XdrReader::new(bytes);
    if let Ok(number) = r.get::<CallbackNumber>()
        && let Ok(result) = CallbackResult::decode(number, NfsStatus::OK, r)
    {
        assert_round_trip(
            &result,
            |w| result.encode_body(w),
            |r, result| CallbackResult::decode(number, NfsStatus::OK, r).as_ref() == Ok(result),
        );
    }
    let Ok(compound) = CallbackCompound::decode(&mut XdrReader::new(bytes)) else { return };
    for callback in compound.flatten() {
        let number = callback.number();
        assert_round_trip(
            &callback,
            |w| callback.encode_args(w),
            |r, callback| Callback::decode(number, r).as_ref() == Ok(callback),
        );
    }
}

/// Attributes: `fattr4`.
pub fn attributes(bytes: &[u8]) {
    if let Ok(fattr) = Fattr::decode(&mut XdrReader::new(bytes)) {
        attributes_of(&fattr);
    }
}

fn attributes_of(fattr: &Fattr<'_>) {
    let Ok(attributes) = fattr.attributes() else { return };
    let mut out = Vec::new();
    attributes.encode(&mut XdrWriter::new(&mut out));
    let again = Fattr::decode(&mut XdrReader::new(&out)).unwrap();
    assert_eq!(again.mask, fattr.mask);
    assert_eq!(again.attributes().as_ref(), Ok(&attributes));
    let mut encoded = Vec::new();
    again.encode(&mut XdrWriter::new(&mut encoded));
    assert_eq!(out, encoded);
}
