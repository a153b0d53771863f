//! One connection: batches calls that are queued together, and dispatches replies to their waiters.

use super::callbacks::Callbacks;
use super::slots::SlotLease;
use crate::error::Error;
use crate::link::is_here;
use crate::link::{SilenceDetector, connect_reserved};
use crate::low_water::LowWater;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use wire::nfs::limits::RECORD_BYTES_MAX;
use wire::nfs::rpc::record::MARK_BYTES;
use wire::nfs::rpc::{
    AcceptStatus, OpaqueAuth, RecordExtent, ReplyBody, RpcMessage, RpcReply, Scan, begin_record,
    end_record, scan_record,
};
use wire::nfs::xdr::{XdrReader, XdrWriter};

/// Minimum length of a receive.
const RECEIVE_BYTES: usize = 64 * 1024;

/// Minimum length of a record that is received into a buffer of its own.
const LARGE_RECORD_BYTES: usize = 32 * 1024;

/// A larger send buffer is released after use.
const SEND_BUFFER_KEPT_BYTES: usize = 4 << 20;

/// Number of checks of a silent connection within its timeout.
const LOOKS: u32 = 8;

/// A connection with its reader and writer tasks, which end with it.
#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<ConnectionState>,
    tasks: [JoinHandle<()>; 2],
    addresses: (SocketAddr, SocketAddr),
}

#[derive(Debug, Default)]
struct ConnectionState {
    /// Replies to callbacks, if the server may call.
    callbacks: Option<Arc<Callbacks>>,
    state: Mutex<NfsConnectionState>,
    wake_writer: Notify,
    bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct NfsConnectionState {
    outgoing: Vec<u8>,
    waiting: HashMap<u32, Waiter>,
    lost: Option<Arc<str>>,
}

/// A waiter for a reply, and the slot that the reply frees.
#[derive(Debug)]
struct Waiter {
    answer: oneshot::Sender<Result<RecordReply, Option<SlotLease>>>,
    lease: Option<SlotLease>,
}

/// A reply, and the slot of its request with the next sequence id.
#[derive(Debug)]
pub(super) struct RecordReply {
    pub(super) record: Bytes,
    pub(super) lease: Option<SlotLease>,
}

/// Why there is no reply, and the slot for resending the request.
#[derive(Debug)]
pub(super) struct CallFailure {
    pub(super) error: Error,
    pub(super) lease: Option<SlotLease>,
}

/// Server address, and timeout of a silent connection with an outstanding reply.
pub(super) type Line = (SocketAddr, Duration);

impl Connection {
    /// Connects. `callbacks` replies to callbacks, if the server may call.
    pub(super) async fn open(
        (address, patience): Line,
        callbacks: Option<Arc<Callbacks>>,
    ) -> Result<Self, Error> {
        let unreachable =
            |e: std::io::Error| Error::Unreachable(e.kind(), address.to_string().into());
        let stream = connect_reserved(address).await?;
        let addresses =
            (stream.local_addr().map_err(unreachable)?, stream.peer_addr().map_err(unreachable)?);
        let low_water = LowWater::new(is_here(addresses.0.ip(), addresses.1.ip()));
        let (read, write) = stream.into_split();
        let shared = Arc::new(ConnectionState { callbacks, ..ConnectionState::default() });
        let tasks = [
            tokio::spawn(receive(read, shared.clone(), patience, low_water)),
            tokio::spawn(send(write, shared.clone())),
        ];
        Ok(Self { shared, tasks, addresses })
    }

    /// Local and server address.
    pub(super) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        self.addresses
    }

    /// Bytes received and sent.
    pub(super) fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// True if the connection has ended.
    pub(super) fn is_lost(&self) -> bool {
        self.shared.state.lock().lost.is_some()
    }

    /// Sends the call with transaction id `xid` that `write` encodes, and waits for its reply
    /// record. If the future is dropped, the reply frees the slot of `lease`.
    pub(super) async fn call(
        &self,
        xid: u32,
        mut lease: Option<SlotLease>,
        write: impl FnOnce(&mut XdrWriter<'_>, Option<&SlotLease>),
    ) -> Result<RecordReply, CallFailure> {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.shared.state.lock();
            if let Some(why) = &state.lost {
                let error = Error::Lost { sent: false, why: why.clone() };
                return Err(CallFailure { error, lease });
            }
            let w = &mut XdrWriter::new(&mut state.outgoing);
            let mark = begin_record(w);
            write(w, lease.as_ref());
            end_record(w, mark, 0);
            lease.iter_mut().for_each(SlotLease::sent);
            state.waiting.insert(xid, Waiter { answer, lease });
        }
        self.shared.wake_writer.notify_one();
        let lease = match answered.await {
            Ok(Ok(answered)) => return Ok(answered),
            Ok(Err(lease)) => lease,
            Err(_) => None,
        };
        let why = self.shared.state.lock().lost.clone();
        let error = Error::Lost { sent: true, why: why.unwrap_or_else(|| "closed".into()) };
        Err(CallFailure { error, lease })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl ConnectionState {
    /// Ends the connection for all waiters.
    fn lose(&self, why: &str) {
        let mut state = self.state.lock();
        state.lost.get_or_insert(why.into());
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for waiter in waiting.into_values() {
            // Without a waiter nobody resends the request, so its slot is lost.
            let _ = waiter.answer.send(Err(waiter.lease));
        }
    }

    /// Passes a record to its waiter.
    fn take_in(&self, record: Bytes) -> Result<(), &'static str> {
        let r = &mut XdrReader::new(&record);
        match RpcMessage::decode(r) {
            Ok(RpcMessage::Reply(reply)) => {
                let waiter = self.state.lock().waiting.remove(&reply.xid);
                let mut waiter = waiter.ok_or("a reply without a call")?;
                waiter.lease.iter_mut().for_each(SlotLease::answered);
                // A dropped waiter needs no reply.
                let _ = waiter.answer.send(Ok(RecordReply { record, lease: waiter.lease }));
                Ok(())
            }
            Ok(RpcMessage::Call(call)) => {
                let mut state = self.state.lock();
                let w = &mut XdrWriter::new(&mut state.outgoing);
                let mark = begin_record(w);
                match &self.callbacks {
                    Some(callbacks) => callbacks.answer(&call, r, w),
                    None => {
                        let (verifier, status) =
                            (OpaqueAuth::NONE, AcceptStatus::ProgramUnavailable);
                        let body = ReplyBody::Accepted { verifier, status };
                        w.put(&RpcReply { xid: call.xid, body });
                    }
                }
                end_record(w, mark, 0);
                drop(state);
                self.wake_writer.notify_one();
                Ok(())
            }
            Err(_) => Err("a record that is not an RPC message"),
        }
    }
}

async fn send(mut stream: OwnedWriteHalf, shared: Arc<ConnectionState>) {
    let mut sending = Vec::new();
    loop {
        shared.wake_writer.notified().await;
        loop {
            sending.clear();
            if sending.capacity() > SEND_BUFFER_KEPT_BYTES {
                sending = Vec::new();
            }
            std::mem::swap(&mut sending, &mut shared.state.lock().outgoing);
            if sending.is_empty() {
                break;
            }
            if let Err(error) = stream.write_all(&sending).await {
                return shared.lose(&error.to_string());
            }
            shared.bytes.fetch_add(sending.len() as u64, Ordering::Relaxed);
        }
    }
}

async fn receive(
    mut stream: OwnedReadHalf,
    shared: Arc<ConnectionState>,
    patience: Duration,
    mut low_water: LowWater,
) {
    let mut stream_bytes = BytesMut::new();
    let mut last_bytes = 0;
    let mut look = tokio::time::interval((patience / LOOKS).max(Duration::from_millis(1)));
    let mut silence = SilenceDetector::new(patience);
    loop {
        let missing = match take_records(&mut stream_bytes, &shared, &mut last_bytes) {
            Ok(missing) => missing,
            Err(why) => return shared.lose(why),
        };
        if stream_bytes.is_empty() && last_bytes >= LARGE_RECORD_BYTES {
            // Yields, so that the receiver of this reply can send its next request before more is
            // received. Otherwise the server would get many requests at once, whose replies exceed
            // its CPU's cache.
            tokio::task::yield_now().await;
        }
        // The length of a record is unknown until its mark has arrived.
        let is_begun = stream_bytes.len() >= MARK_BYTES;
        low_water.wait_for(if is_begun { missing } else { 0 }, stream.as_ref());
        let (room, most) = room(missing, stream_bytes.len(), last_bytes);
        stream_bytes.reserve(room);
        let mut into = (&mut stream_bytes).limit(most);
        tokio::select! {
            biased;
            count = stream.read_buf(&mut into) => match count {
                Ok(0) => return shared.lose("the server closed it"),
                Ok(count) => {
                    shared.bytes.fetch_add(count as u64, Ordering::Relaxed);
                    silence.handle_received();
                }
                Err(error) => return shared.lose(&error.to_string()),
            },
            _ = look.tick() => {
                if !silence.is_broken() {
                    low_water.wait_no_more(stream.as_ref());
                }
                let is_owed = || !shared.state.lock().waiting.is_empty();
                if let Err(why) = silence.look(is_owed) {
                    return shared.lose(why);
                }
            }
        }
    }
}

/// The buffer size for what follows, and the length of the next receive. After a large record the
/// next one is probably as large. It gets a buffer from the start, and the receive ends at its end,
/// so that nothing is moved.
fn room(missing: usize, present: usize, last_bytes: usize) -> (usize, usize) {
    let is_begun = present >= MARK_BYTES;
    if is_begun && present + missing >= LARGE_RECORD_BYTES {
        return (missing, missing);
    }
    if !is_begun && last_bytes >= LARGE_RECORD_BYTES {
        let rest = last_bytes - present;
        return (rest, rest);
    }
    let room = missing.max(RECEIVE_BYTES);
    (room, room)
}

/// Takes all complete records. Returns the number of missing bytes of the next one, and stores the
/// length of the last in `last_bytes`.
fn take_records(
    stream: &mut BytesMut,
    shared: &ConnectionState,
    last_bytes: &mut usize,
) -> Result<usize, &'static str> {
    loop {
        let scan = scan_record(stream, RECORD_BYTES_MAX).map_err(|malformed| malformed.what)?;
        match scan {
            Scan::Complete(extent) => {
                *last_bytes = extent.stream_bytes;
                shared.take_in(split_off(stream, extent))?;
            }
            Scan::Incomplete { stream_bytes_min } => return Ok(stream_bytes_min - stream.len()),
        }
    }
}

/// The message of a record, without a copy unless it is fragmented.
fn split_off(stream: &mut BytesMut, extent: RecordExtent) -> Bytes {
    let mut whole = stream.split_to(extent.stream_bytes).freeze();
    if extent.fragments == 1 {
        whole.advance(MARK_BYTES);
        return whole;
    }
    Bytes::from(extent.payload(&whole).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_record_gets_a_buffer_of_its_own_length() {
        let large = 65_700;
        assert_eq!(room(MARK_BYTES, 0, 0), (RECEIVE_BYTES, RECEIVE_BYTES), "nothing is known");
        assert_eq!(room(MARK_BYTES, 0, large), (large, large), "as the last one");
        assert_eq!(room(2, 2, large), (large - 2, large - 2), "a part of its mark is there");
        assert_eq!(room(large - 100, 100, 0), (large - 100, large - 100));
        assert_eq!(room(50, large - 50, large), (50, 50), "nothing of what is behind it");
        assert_eq!(room(200, 100, 300), (RECEIVE_BYTES, RECEIVE_BYTES), "small ones come together");
    }

    #[test]
    fn records_are_split_in_any_segmentation() {
        let shared = ConnectionState::default();
        let mut last_bytes = 0;
        let mut stream = BytesMut::from(&[0x80, 0, 0, 200, 1, 2][..]);
        assert_eq!(take_records(&mut stream, &shared, &mut last_bytes), Ok(198));
        assert_eq!((stream.len(), last_bytes), (6, 0));
        stream.extend_from_slice(&[0; 198]);
        let none = take_records(&mut stream, &shared, &mut last_bytes);
        assert_eq!(none, Err("a record that is not an RPC message"));
        assert_eq!((stream.len(), last_bytes), (0, 204));
    }
}
