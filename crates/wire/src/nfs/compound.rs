//! Many operations in one call: COMPOUND. RFC 8881 16.2.

use super::limits::{COMPOUND_OPERATIONS_MAX, TAG_BYTES_MAX};
use super::ops::Operation;
use super::reply::Reply;
use super::xdr::{Opaque, Reserved, XdrReader, XdrWriter};
use super::{NfsStatus, OperationNumber};
use crate::codec::Malformed;

/// Text that a peer may put before operations, and gets back.
pub type Tag<'a> = Opaque<'a, TAG_BYTES_MAX>;

/// The arguments of COMPOUND, decoded one operation at a time: what cannot be
/// decoded fails at its own place, after what stands before it was done.
#[derive(Clone, Copy, Debug)]
pub struct Compound<'a> {
    /// What the reply repeats.
    pub tag: Tag<'a>,
    /// Version 4 of what.
    pub minor_version: u32,
    /// How many operations were announced.
    pub operation_count: u32,
    left: u32,
    r: XdrReader<'a>,
}

/// An operation that is answered at once: with this status, under this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOperation {
    /// The number of the answer.
    pub number: OperationNumber,
    /// Why.
    pub status: NfsStatus,
}

impl<'a> Compound<'a> {
    /// Reads what stands before the operations.
    ///
    /// # Errors
    /// [`Malformed`]: the call is answered GARBAGE_ARGS.
    pub fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        let tag = r.get()?;
        let minor_version = r.u32("minorversion")?;
        let operation_count = r.u32("number of operations")?;
        // Whoever announces more is told so by the session's limit, or reaches the end of
        // what was sent.
        let left = operation_count.min(COMPOUND_OPERATIONS_MAX as u32);
        let r = XdrReader::new(r.rest());
        Ok(Self { tag, minor_version, operation_count, left, r })
    }

    /// The next operation; none after the last, and none after a bad one.
    ///
    /// A number that the minor version does not define is answered OP_ILLEGAL, one
    /// that only version 4.0 has NOTSUPP. RFC 8881 16.2.3, 17.
    #[inline]
    pub fn next_operation(&mut self) -> Option<Result<Operation<'a>, BadOperation>> {
        self.left = self.left.checked_sub(1)?;
        let next = self.decode_operation();
        if next.is_err() {
            self.left = 0;
        }
        Some(next)
    }

    /// Bytes of operations that have been given out.
    #[must_use]
    pub fn position(&self) -> usize {
        self.r.position()
    }

    /// The bytes of operations that have not been given out yet.
    #[must_use]
    pub fn left_bytes(&self) -> &'a [u8] {
        let mut left = self.r;
        left.rest()
    }

    /// How many operations have not been given out yet.
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

/// Writes the arguments of COMPOUND, or the results: what was begun knows how
/// many operations it has only in the end.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    status: Option<Reserved>,
    count: Reserved,
    operations: u32,
}

/// The arguments of a COMPOUND while they are written.
#[derive(Clone, Copy, Debug)]
pub struct CompoundRequest(Places);

impl CompoundRequest {
    /// Writes what stands before the operations.
    #[must_use]
    pub fn begin(w: &mut XdrWriter<'_>, tag: &[u8], minor_version: u32) -> Self {
        w.opaque(tag);
        w.u32(minor_version);
        Self(Places { status: None, count: w.reserve_u32(), operations: 0 })
    }

    /// Writes an operation.
    #[inline]
    pub fn push(&mut self, w: &mut XdrWriter<'_>, operation: &Operation<'_>) {
        self.0.operations += 1;
        w.put(&operation.number());
        operation.encode_args(w);
    }

    /// Writes how many there were.
    pub fn finish(self, w: &mut XdrWriter<'_>) {
        w.fill_u32(self.0.count, self.0.operations);
    }
}

/// The results of a COMPOUND while they are written.
#[derive(Clone, Copy, Debug)]
pub struct CompoundReply(Places);

impl CompoundReply {
    /// Writes what stands before the results.
    #[must_use]
    pub fn begin(w: &mut XdrWriter<'_>, tag: &[u8]) -> Self {
        let status = Some(w.reserve_u32());
        w.opaque(tag);
        Self(Places { status, count: w.reserve_u32(), operations: 0 })
    }

    /// Writes the results of an operation. The status of the last one is to be
    /// given to [`CompoundReply::finish`].
    #[inline]
    pub fn push<'a>(
        &mut self,
        w: &mut XdrWriter<'_>,
        number: OperationNumber,
        reply: &impl Reply<'a>,
    ) {
        self.begin_operation(w, number, reply.status());
        reply.encode_body(w);
    }

    /// Writes number and status of an operation; what stands behind a status like
    /// this is written by the caller.
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

    /// How many operations have results.
    #[must_use]
    pub fn operations(&self) -> u32 {
        self.0.operations
    }

    /// Writes the status of all, which is that of the last, and how many there were.
    pub fn finish(self, w: &mut XdrWriter<'_>, status: NfsStatus) {
        if let Some(place) = self.0.status {
            w.fill_u32(place, status.0);
        }
        w.fill_u32(self.0.count, self.0.operations);
    }
}

/// The results of a COMPOUND, as a client reads them.
#[derive(Clone, Copy, Debug)]
pub struct CompoundResults<'a> {
    /// That of the last operation that has results.
    pub status: NfsStatus,
    /// What the request had.
    pub tag: Tag<'a>,
    left: u32,
    r: XdrReader<'a>,
}

/// Why a result is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoResult {
    /// The compound failed before: with this status.
    Failed(NfsStatus),
    /// The answer is not one to what was asked.
    Malformed(Malformed),
}

impl From<Malformed> for NoResult {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl<'a> CompoundResults<'a> {
    /// Reads what stands before the results.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes end early.
    pub fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        let status = r.get()?;
        let tag = r.get()?;
        let left = r.count(COMPOUND_OPERATIONS_MAX, "number of results")? as u32;
        Ok(Self { status, tag, left, r: XdrReader::new(r.rest()) })
    }

    /// The number and the status of the next operation; none after the last. What
    /// stands behind the status is next in [`CompoundResults::reader`].
    ///
    /// # Errors
    /// [`Malformed`] if the bytes end early.
    pub fn next_status(&mut self) -> Result<Option<(OperationNumber, NfsStatus)>, Malformed> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        Ok(Some((self.r.get()?, self.r.get()?)))
    }

    /// The reader behind the status that was read last.
    pub fn reader(&mut self) -> &mut XdrReader<'a> {
        &mut self.r
    }

    /// The next result, which must be one of `number`.
    ///
    /// # Errors
    /// [`NoResult`]: the compound ended before, or the answer is another.
    pub fn expect<T: Reply<'a>>(&mut self, number: OperationNumber) -> Result<T, NoResult> {
        let Some((found, status)) = self.next_status()? else {
            // A server that stops early without saying why breaks the rules.
            let short = self.r.malformed("number of results").into();
            return Err(if self.status.is_ok() { short } else { NoResult::Failed(self.status) });
        };
        // RFC 8881 16.2.3: the answer to a number that the server does not know.
        if found == OperationNumber::ILLEGAL && !status.is_ok() {
            return Err(NoResult::Failed(status));
        }
        if found != number {
            return Err(self.r.malformed("number of the result").into());
        }
        Ok(T::decode_body(status, &mut self.r)?)
    }

    /// What the next operation, of `number`, gives if it succeeded.
    ///
    /// # Errors
    /// As [`CompoundResults::expect`], or with the status that it failed with.
    pub fn succeed<T>(&mut self, number: OperationNumber) -> Result<T, NoResult>
    where
        Result<T, NfsStatus>: Reply<'a>,
    {
        self.expect::<Result<T, NfsStatus>>(number)?.map_err(NoResult::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs::ops::{LookupArgs, OpenHow};
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
    fn what_stands_before_a_malformed_operation_is_still_done() {
        let name = 0x6100_0000;
        let all = operations(1, 4, &[24, 15, 1, name, 22, 200, 10]);
        let lookup = Operation::Lookup(LookupArgs { name: b"a" });
        let malformed = bad(OperationNumber::PUTFH, NfsStatus::BADXDR);
        assert_eq!(all, [Ok(Operation::PutRootFh), Ok(lookup), malformed]);
    }

    #[test]
    fn operations_that_are_missing_are_malformed_at_their_place() {
        let missing = bad(OperationNumber::ILLEGAL, NfsStatus::BADXDR);
        assert_eq!(operations(1, 2, &[24]), [Ok(Operation::PutRootFh), missing]);
        let many = operations(1, u32::MAX, &[24; 2000]);
        assert_eq!(many.len(), COMPOUND_OPERATIONS_MAX);
    }

    #[test]
    fn a_number_outside_the_minor_version_is_illegal() {
        let illegal = bad(OperationNumber::ILLEGAL, NfsStatus::OP_ILLEGAL);
        for number in [0, 2, 76, 10_044, u32::MAX] {
            assert_eq!(operations(2, 1, &[number]), std::slice::from_ref(&illegal), "{number}");
        }
        let seek = [69, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(operations(1, 1, &seek), [illegal]);
        assert!(matches!(operations(2, 1, &seek)[..], [Ok(Operation::Seek(_))]));
    }

    #[test]
    fn operations_of_version_0_alone_are_not_supported_under_their_own_numbers() {
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
    fn a_client_learns_which_operation_failed_and_that_a_server_stopped_early() {
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
    fn values_that_an_enumeration_does_not_have_are_malformed() {
        let bytes = words(&[2]);
        assert!(OpenHow::decode(&mut XdrReader::new(&bytes)).is_err());
        let mut out = Vec::new();
        OpenHow::NoCreate.encode(&mut XdrWriter::new(&mut out));
        assert_eq!(out, words(&[0]));
    }

    /// An operation is moved once or twice; a file handle is the largest part of most.
    #[test]
    fn an_operation_stays_small() {
        assert!(size_of::<Operation<'_>>() <= 256, "{}", size_of::<Operation<'_>>());
    }
}
