//! [`Protocol`] for SMB: direct TCP framing and the adapter for [`SmbConn`].

use crate::conn::protocol::{ConnectionEndpoints, End, Framing, OutgoingMessage, Protocol};
use crate::limits::JOBS_MAX;
use bytes::{Buf, BytesMut};
use limits::LedgerHolder;
use meter::Arrival;
use smb::{
    ConnHandle, FrameJob, FrameTransmit, HostTime, JobOutput, SignatureCheck, SmbCloseReason,
    SmbConn, SmbConnFacts, SmbServer,
};
use std::sync::Arc;
use std::time::Instant;
use vfs::ArrivalOrder;
use wire::frame::{PREFIX_BYTES, payload_length};

/// The 4-byte prefix of direct TCP. MS-SMB2 2.1.
#[derive(Debug)]
pub struct DirectTcp;

impl Framing for DirectTcp {
    const PREFIX_BYTES: usize = PREFIX_BYTES;

    fn extent(stream: &[u8], message_bytes_max: usize) -> Result<usize, &'static str> {
        let Some(&prefix) = stream.first_chunk() else { return Ok(PREFIX_BYTES) };
        let length = payload_length(prefix).map_err(|_| "prefix")?;
        if length > message_bytes_max { Err("frame length") } else { Ok(PREFIX_BYTES + length) }
    }

    fn unmark(mut framed: BytesMut) -> BytesMut {
        framed.advance(PREFIX_BYTES);
        framed
    }

    /// Data offset of a WRITE that is not encrypted.
    fn data_at(_: &[u8]) -> usize {
        wire::smb::Header::LENGTH + 48
    }
}

impl From<SmbCloseReason> for End {
    fn from(close: SmbCloseReason) -> Self {
        match close {
            SmbCloseReason::Garbage(what) => Self::Garbage(what),
            SmbCloseReason::Refused(what) => Self::Refused(what),
        }
    }
}

fn outgoing(transmit: FrameTransmit) -> OutgoingMessage {
    let FrameTransmit { buffer, start, file, sent, .. } = transmit;
    OutgoingMessage { buffer, start, file, sent }
}

impl Protocol for SmbConn {
    const NAME: &'static str = "SMB";
    const LOGON: &'static str = "no logon";
    const JOBS_MAX: usize = JOBS_MAX;
    const OUTLIVES_CONNECTION: bool = false;

    type Framing = DirectTcp;
    type Server = SmbServer;
    type Shared = ConnHandle;
    type Job = FrameJob;
    type Finished = JobOutput;
    type Checked = SignatureCheck;

    fn new(
        server: Arc<SmbServer>,
        ConnectionEndpoints { id, peer, local }: ConnectionEndpoints,
    ) -> Self {
        Self::new(server, SmbConnFacts { id, peer, local })
    }

    fn shared(&self) -> Arc<ConnHandle> {
        self.shared()
    }

    async fn notified(shared: &ConnHandle) {
        shared.notices.ready().await;
    }

    fn message_bytes_max(&self, _: &[u8]) -> usize {
        self.frame_length_max()
    }

    fn is_known(&self) -> bool {
        self.is_established()
    }

    fn verifies_together(&self) -> bool {
        self.verifies_together()
    }

    fn verify_together(&self, messages: &mut [BytesMut]) -> Vec<Option<SignatureCheck>> {
        self.verify_together(messages)
    }

    fn note_arrival(&mut self, arrival: Arrival, order: ArrivalOrder) {
        self.note_arrival(arrival, order);
    }

    fn handle_message(
        &mut self,
        message: BytesMut,
        checked: Option<SignatureCheck>,
        now: HostTime,
    ) -> Result<(), End> {
        Ok(self.handle_checked(message, checked, now)?)
    }

    fn holder(&self) -> Option<LedgerHolder> {
        self.holder()
    }

    fn next_answer_bytes(&self) -> usize {
        self.next_answer_bytes()
    }

    fn poll_job(&mut self) -> Option<FrameJob> {
        self.poll_job()
    }

    fn take_cancelled(&mut self) -> bool {
        self.take_cancelled()
    }

    fn handle_finished(&mut self, finished: JobOutput, now: HostTime) {
        self.handle_finished(finished, now);
    }

    fn poll_transmit(&mut self) -> Option<OutgoingMessage> {
        self.poll_transmit().map(outgoing)
    }

    fn poll_notice(&mut self) -> Option<OutgoingMessage> {
        Self::poll_notice(self).map(outgoing)
    }

    fn transmit_bytes(&self) -> usize {
        self.transmit_bytes()
    }

    fn is_worth_sending(&self) -> bool {
        self.is_worth_sending()
    }

    fn waiting_count(&self) -> usize {
        self.waiting_count()
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

    fn poll_timeout(&self) -> Option<Instant> {
        self.poll_timeout()
    }

    fn handle_timeout(&mut self, now: HostTime) {
        self.handle_timeout(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_one_beyond_the_limit_is_refused_at_the_header() {
        assert_eq!(DirectTcp::extent(b"\0\0\0\x0a", 9), Err("frame length"));
        assert_eq!(DirectTcp::extent(b"\0\0\0\x09", 9), Ok(13));
        assert_eq!(DirectTcp::extent(b"GET ", usize::MAX), Err("prefix"));
        assert_eq!(DirectTcp::extent(b"\0\0\0", 9), Ok(4), "not known yet");
    }
}
