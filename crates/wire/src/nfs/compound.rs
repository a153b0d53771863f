//! COMPOUND: several operations in one call. RFC 8881 16.2.

use super::limits::{COMPOUND_OPERATIONS_MAX, TAG_BYTES_MAX};
use super::ops::Operation;
use super::reply::ResultBody;
use super::xdr::{Opaque, ReservedWord, XdrReader, XdrWriter};
use super::{NfsStatus, OperationNumber};
use crate::codec::DecodeError;

/// Client-chosen text at the start of a compound, which the reply echoes.
pub type Tag<'a> = Opaque<'a, TAG_BYTES_MAX>;

/// The arguments of COMPOUND, decoded one operation at a time. A malformed operation fails in its
/// turn, after the server has executed the operations before it.
#[derive(Clone, Copy, Debug)]
pub struct Compound<'a> {
    /// Tag, which the reply echoes.
    pub tag: Tag<'a>,
    /// Minor version.
    pub minor_version: u32,
    /// The announced number of operations.
    pub operation_count: u32,
    left: u32,
    r: XdrReader<'a>,
}

/// An operation that the server answers without executing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOperation {
    /// Operation number of the reply.
    pub number: OperationNumber,
    /// Status of the reply.
    pub status: NfsStatus,
}

impl<'a> Compound<'a> {
    /// Decodes the header of the compound.
    ///
    /// # Errors
    /// [`DecodeError`]: the server replies GARBAGE_ARGS.
    pub fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        let tag = r.get()?;
        let minor_version = r.u32("minorversion")?;
        let operation_count = r.u32("number of operations")?;
        // The session's own limit refuses a larger count, or decoding reaches the end of the
        // request.
        let left = operation_count.min(COMPOUND_OPERATIONS_MAX as u32);
        let r = XdrReader::new(r.rest());
        Ok(Self { tag, minor_version, operation_count, left, r })
    }

    /// The next operation; `None` after the last operation and after a bad one.
    ///
    /// A number that the minor version does not define gives OP_ILLEGAL. A number of version 4.0
    /// only gives NOTSUPP. RFC 8881 16.2.3, 17.
    #[inline]
    pub fn next_operation(&mut self) -> Option<Result<Operation<'a>, BadOperation>> {
        self.left = self.left.checked_sub(1)?;
        let next = self.decode_operation();
        if next.is_err() {
            self.left = 0;
        }
        Some(next)
    }

    /// Length of the operations decoded so far, in bytes.
    #[must_use]
    pub fn position(&self) -> usize {
        self.r.position()
    }

    /// The undecoded bytes of the remaining operations.
    #[must_use]
    pub fn left_bytes(&self) -> &'a [u8] {
        let mut left = self.r;
        left.rest()
    }

    /// The number of operations not decoded yet.
    #[must_use]
    pub fn operations_left(&self) -> u32 {
        self.left
    }

    #[inline]
    fn decode_operation(&mut self) -> Result<Operation<'a>, BadOperation> {
        let bad = |number, status| Err(BadOperation { number, status });
        let Ok(number) = self.r.get::<OperationNumber>() else {
            return bad(OperationNumber::ILLEGAL, NfsStatus::BADXDR);
        };
        let of_later_version = self.minor_version < 2 && number.is_of_minor_version_2();
        if !number.is_defined() || of_later_version {
            return bad(OperationNumber::ILLEGAL, NfsStatus::OP_ILLEGAL);
        }
        if number.is_obsolete() {
            return bad(number, NfsStatus::NOTSUPP);
        }
        Operation::decode(number, &mut self.r).or_else(|_| bad(number, NfsStatus::BADXDR))
    }
}

impl<'a> Iterator for Compound<'a> {
    type Item = Result<Operation<'a>, BadOperation>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_operation()
    }
}

/// Patches the count of operations, and the status, when the compound is complete.
#[derive(Clone, Copy, Debug)]
pub struct CompoundHeader {
    status: Option<ReservedWord>,
    count: ReservedWord,
    operations: u32,
}

/// Encodes the arguments of a COMPOUND.
#[derive(Clone, Copy, Debug)]
pub struct CompoundRequest(CompoundHeader);

impl CompoundRequest {
    /// Writes the header of the compound.
    #[must_use]
    pub fn begin(w: &mut XdrWriter<'_>, tag: &[u8], minor_version: u32) -> Self {
        w.opaque(tag);
        w.u32(minor_version);
        Self(CompoundHeader { status: None, count: w.reserve_u32(), operations: 0 })
    }

    /// Writes an operation.
    #[inline]
    pub fn push(&mut self, w: &mut XdrWriter<'_>, operation: &Operation<'_>) {
        self.0.operations += 1;
        w.put(&operation.number());
        operation.encode_args(w);
    }

    /// Patches the operation count.
    pub fn finish(self, w: &mut XdrWriter<'_>) {
        w.fill_u32(self.0.count, self.0.operations);
    }
}

/// Encodes the results of a COMPOUND.
#[derive(Clone, Copy, Debug)]
pub struct CompoundReply(CompoundHeader);

impl CompoundReply {
    /// Writes the header of the reply.
    #[must_use]
    pub fn begin(w: &mut XdrWriter<'_>, tag: &[u8]) -> Self {
        let status = Some(w.reserve_u32());
        w.opaque(tag);
        Self(CompoundHeader { status, count: w.reserve_u32(), operations: 0 })
    }

    /// Writes the result of an operation. The caller passes the status of the last one to
    /// [`CompoundReply::finish`].
    #[inline]
    pub fn push<'a>(
        &mut self,
        w: &mut XdrWriter<'_>,
        number: OperationNumber,
        reply: &impl ResultBody<'a>,
    ) {
        self.begin_operation(w, number, reply.status());
        reply.encode_body(w);
    }

    /// Writes the number and the status of an operation; the caller writes the body that follows
    /// them.
    #[inline]
    pub fn begin_operation(
        &mut self,
        w: &mut XdrWriter<'_>,
        number: OperationNumber,
        status: NfsStatus,
    ) {
        self.0.operations += 1;
        w.put(&number);
        w.put(&status);
    }

    /// The number of results so far.
    #[must_use]
    pub fn operations(&self) -> u32 {
        self.0.operations
    }

    /// Patches the overall status, that of the last operation, and the result count.
    pub fn finish(self, w: &mut XdrWriter<'_>, status: NfsStatus) {
        if let Some(place) = self.0.status {
            w.fill_u32(place, status.0);
        }
        w.fill_u32(self.0.count, self.0.operations);
    }
}

/// Decodes the results of a COMPOUND; for clients.
#[derive(Clone, Copy, Debug)]
pub struct CompoundResults<'a> {
    /// Status of the last operation with a result.
    pub status: NfsStatus,
    /// Tag of the request.
    pub tag: Tag<'a>,
    left: u32,
    r: XdrReader<'a>,
}

/// Why a result is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoResult {
    /// An operation failed with this status, so the compound ended.
    Failed(NfsStatus),
    /// The reply does not match the request.
    Malformed(DecodeError),
}

impl From<DecodeError> for NoResult {
    fn from(malformed: DecodeError) -> Self {
        Self::Malformed(malformed)
    }
}

impl<'a> CompoundResults<'a> {
    /// Decodes the header of the reply.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes end early.
    pub fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        let status = r.get()?;
        let tag = r.get()?;
        let left = r.count(COMPOUND_OPERATIONS_MAX, "number of results")? as u32;
        Ok(Self { status, tag, left, r: XdrReader::new(r.rest()) })
    }

    /// The number and the status of the next operation; `None` after the last. Its body is next in
    /// [`CompoundResults::reader`].
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes end early.
    pub fn next_status(&mut self) -> Result<Option<(OperationNumber, NfsStatus)>, DecodeError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        Ok(Some((self.r.get()?, self.r.get()?)))
    }

    /// The reader behind the last decoded status.
    pub fn reader(&mut self) -> &mut XdrReader<'a> {
        &mut self.r
    }

    /// The next result, which must belong to `number`.
    ///
    /// # Errors
    /// [`NoResult`] if the compound ended before, or the reply belongs to another
    /// operation.
    pub fn expect<T: ResultBody<'a>>(&mut self, number: OperationNumber) -> Result<T, NoResult> {
        let Some((found, status)) = self.next_status()? else {
            // A server that stops early without an error violates the protocol.
            let short = self.r.malformed("number of results").into();
            return Err(if self.status.is_ok() { short } else { NoResult::Failed(self.status) });
        };
        // RFC 8881 16.2.3: the server's reply to an unknown operation number.
        if found == OperationNumber::ILLEGAL && !status.is_ok() {
            return Err(NoResult::Failed(status));
        }
        if found != number {
            return Err(self.r.malformed("number of the result").into());
        }
        Ok(T::decode_body(status, &mut self.r)?)
    }

    /// The result of the next operation, which must be a successful `number`.
    ///
    /// # Errors
    /// Like [`CompoundResults::expect`]; a failed operation gives its status.
    pub fn succeed<T>(&mut self, number: OperationNumber) -> Result<T, NoResult>
    where
        Result<T, NfsStatus>: ResultBody<'a>,
    {
        self.expect::<Result<T, NfsStatus>>(number)?.map_err(NoResult::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs::ops::{LookupArgs, NfsOpenHow};
    use crate::nfs::xdr::{Decode, Encode};

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn operations(
        minor_version: u32,
        announced: u32,
        rest: &[u32],
    ) -> Vec<Result<Operation<'static>, BadOperation>> {
        let bytes = words(&[&[0, minor_version, announced], rest].concat());
        let compound = Compound::decode(&mut XdrReader::new(bytes.leak())).unwrap();
        compound.collect()
    }

    fn bad(number: OperationNumber, status: NfsStatus) -> Result<Operation<'static>, BadOperation> {
        Err(BadOperation { number, status })
    }

    #[test]
    fn operations_before_a_malformed_one_are_executed() {
        let name = 0x6100_0000;
        let all = operations(1, 4, &[24, 15, 1, name, 22, 200, 10]);
        let lookup = Operation::Lookup(LookupArgs { name: b"a" });
        let malformed = bad(OperationNumber::PUTFH, NfsStatus::BADXDR);
        assert_eq!(all, [Ok(Operation::PutRootFh), Ok(lookup), malformed]);
    }

    #[test]
    fn missing_operations_are_malformed_in_their_turn() {
        let missing = bad(OperationNumber::ILLEGAL, NfsStatus::BADXDR);
        assert_eq!(operations(1, 2, &[24]), [Ok(Operation::PutRootFh), missing]);
        let many = operations(1, u32::MAX, &[24; 2000]);
        assert_eq!(many.len(), COMPOUND_OPERATIONS_MAX);
    }

    #[test]
    fn operation_outside_the_minor_version_is_illegal() {
        let illegal = bad(OperationNumber::ILLEGAL, NfsStatus::OP_ILLEGAL);
        for number in [0, 2, 76, 10_044, u32::MAX] {
            assert_eq!(operations(2, 1, &[number]), std::slice::from_ref(&illegal), "{number}");
        }
        let seek = [69, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(operations(1, 1, &seek), [illegal]);
        assert!(matches!(operations(2, 1, &seek)[..], [Ok(Operation::Seek(_))]));
    }

    #[test]
    fn nfsv40_operation_gets_notsupp_under_its_own_number() {
        for number in [20, 30, 35, 36, 39] {
            let number = OperationNumber(number);
            assert_eq!(operations(1, 1, &[number.0]), [bad(number, NfsStatus::NOTSUPP)]);
        }
    }

    #[test]
    fn get_dir_delegation_is_known_in_version_1() {
        let all = operations(1, 1, &[46, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(matches!(all[..], [Ok(Operation::GetDirDelegation(_))]));
    }

    #[test]
    fn results_report_failed_and_missing_operations() {
        let ok = Ok::<(), NfsStatus>(());
        let answer = |status, push: &dyn Fn(&mut CompoundReply, &mut XdrWriter<'_>)| {
            let mut out = Vec::new();
            let w = &mut XdrWriter::new(&mut out);
            let mut reply = CompoundReply::begin(w, b"");
            push(&mut reply, w);
            reply.finish(w, status);
            out
        };
        let early = answer(NfsStatus::OK, &|reply, w| reply.push(w, OperationNumber::PUTFH, &ok));
        let mut results = CompoundResults::decode(&mut XdrReader::new(&early)).unwrap();
        assert_eq!(results.succeed::<()>(OperationNumber::PUTFH), Ok(()));
        let next = results.succeed::<()>(OperationNumber::SAVEFH);
        assert!(matches!(next, Err(NoResult::Malformed(_))));

        let other = answer(NfsStatus::OK, &|reply, w| reply.push(w, OperationNumber::SAVEFH, &ok));
        let mut results = CompoundResults::decode(&mut XdrReader::new(&other)).unwrap();
        let next = results.succeed::<()>(OperationNumber::PUTFH);
        assert!(matches!(next, Err(NoResult::Malformed(_))));

        let illegal = Err::<(), _>(NfsStatus::OP_ILLEGAL);
        let unknown = answer(NfsStatus::OP_ILLEGAL, &|reply, w| {
            reply.push(w, OperationNumber::ILLEGAL, &illegal);
        });
        let mut results = CompoundResults::decode(&mut XdrReader::new(&unknown)).unwrap();
        let next = results.succeed::<()>(OperationNumber::SEEK);
        assert_eq!(next, Err(NoResult::Failed(NfsStatus::OP_ILLEGAL)));
    }

    #[test]
    fn undefined_enum_value_is_malformed() {
        let bytes = words(&[2]);
        assert!(NfsOpenHow::decode(&mut XdrReader::new(&bytes)).is_err());
        let mut out = Vec::new();
        NfsOpenHow::NoCreate.encode(&mut XdrWriter::new(&mut out));
        assert_eq!(out, words(&[0]));
    }

    /// An operation is moved once or twice, and a file handle dominates the size of most.
    #[test]
    fn operation_size_stays_small() {
        assert!(size_of::<Operation<'_>>() <= 256, "{}", size_of::<Operation<'_>>());
    }
}
