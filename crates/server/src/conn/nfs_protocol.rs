//! [`Protocol`] for NFS: RPC record marking (RFC 5531 11) and the adapter for [`NfsConn`].

use crate::conn::protocol::{ConnectionEndpoints, End, Framing, OutgoingMessage, Protocol};
use crate::limits::NFS_JOBS_MAX;
use bytes::{Buf, BytesMut};
use meter::Arrival;
use nfs::{
    CallJob, ConnShared, JobResult, NfsCloseReason, NfsConn, NfsConnFacts, NfsServer,
    RecordTransmit,
};
use smb::HostTime;
use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use vfs::ArrivalOrder;
use wire::nfs::rpc::record::MARK_BYTES;
use wire::nfs::rpc::{Scan, scan_record};

/// RPC record marking: records in fragments.
#[derive(Debug)]
pub struct RecordMarks;

impl Framing for RecordMarks {
    const PREFIX_BYTES: usize = MARK_BYTES;

    fn extent(stream: &[u8], message_bytes_max: usize) -> Result<usize, &'static str> {
        match scan_record(stream, message_bytes_max) {
            Ok(Scan::Complete(extent)) => Ok(extent.stream_bytes),
            Ok(Scan::Incomplete { stream_bytes_min }) => Ok(stream_bytes_min),
            Err(malformed) => Err(malformed.what),
        }
    }

    fn unmark(mut framed: BytesMut) -> BytesMut {
        if let Ok(Scan::Complete(extent)) = scan_record(&framed, usize::MAX)
            && let Cow::Owned(whole) = extent.payload(&framed)
        {
            return whole.as_slice().into();
        }
        framed.advance(MARK_BYTES);
        framed
    }

    fn data_at(message: &[u8]) -> usize {
        nfs::write_data_at(message).unwrap_or_default()
    }
}

impl From<NfsCloseReason> for End {
    fn from(close: NfsCloseReason) -> Self {
        Self::Garbage(close.0)
    }
}

impl Protocol for NfsConn {
    const NAME: &'static str = "NFS";
    const LOGON: &'static str = "no client is established";
    const JOBS_MAX: usize = NFS_JOBS_MAX;
    const OUTLIVES_CONNECTION: bool = true;

    type Framing = RecordMarks;
    type Server = NfsServer;
    type Shared = ConnShared;
    type Job = CallJob;
    type Finished = JobResult;
    type Checked = Infallible;

    fn new(
        server: Arc<NfsServer>,
        ConnectionEndpoints { id, peer, local }: ConnectionEndpoints,
    ) -> Self {
        Self::new(server, NfsConnFacts { id, peer, local })
    }

    fn shared(&self) -> Arc<ConnShared> {
        self.shared()
    }

    async fn notified(shared: &ConnShared) {
        shared.link.calls.ready().await;
    }

    fn message_bytes_max(&self, arrived: &[u8]) -> usize {
        self.record_bytes_max(arrived)
    }

    fn is_known(&self) -> bool {
        self.is_identified()
    }

    fn note_arrival(&mut self, arrival: Arrival, order: ArrivalOrder) {
        self.note_arrival(arrival, order);
    }

    fn handle_message(
        &mut self,
        message: BytesMut,
        _: Option<Infallible>,
        _: HostTime,
    ) -> Result<(), End> {
        Ok(self.handle_record(message.freeze())?)
    }

    fn starts_tls(&mut self) -> bool {
        self.starts_tls()
    }

    fn next_answer_bytes(&self) -> usize {
        self.next_answer_bytes()
    }

    fn poll_job(&mut self) -> Option<CallJob> {
        self.poll_job()
    }

    fn handle_finished(&mut self, finished: JobResult, _: HostTime) {
        self.handle_finished(finished);
    }

    fn poll_transmit(&mut self) -> Option<OutgoingMessage> {
        let RecordTransmit { buffer, file, sent } = self.poll_transmit()?;
        Some(OutgoingMessage { buffer, start: 0, file, sent })
    }

    fn transmit_bytes(&self) -> usize {
        self.transmit_bytes()
    }

    fn is_worth_sending(&self) -> bool {
        self.is_worth_sending()
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        self.recycle(buffer);
    }

    fn trim_buffers(&mut self, bytes_max: usize) {
        self.trim_buffers(bytes_max);
    }

    fn release_buffers(&mut self) {
        self.release_buffers();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(stream: &[u8], max: usize) -> Option<BytesMut> {
        let bytes = RecordMarks::extent(stream, max).ok().filter(|bytes| *bytes <= stream.len())?;
        Some(RecordMarks::unmark(BytesMut::from(&stream[..bytes])))
    }

    #[test]
    fn record_fragments_are_reassembled() {
        let stream = b"\0\0\0\x02ab\x80\0\0\x01c\x80\0\0\x01d";
        assert_eq!(whole(stream, 3).unwrap(), &b"abc"[..]);
        assert_eq!(whole(&stream[11..], 3).unwrap(), &b"d"[..]);
        assert_eq!(whole(&stream[..10], 3), None, "a part of it is none");
    }

    #[test]
    fn length_one_beyond_the_limit_is_refused_at_the_header() {
        assert!(RecordMarks::extent(b"\x80\0\0\x0a", 9).is_err());
        assert_eq!(RecordMarks::extent(b"\x80\0\0\x09", 9), Ok(13));
        assert!(RecordMarks::extent(b"\0\0\0\x05abcde\x80\0\0\x05", 9).is_err(), "together");
    }
}
