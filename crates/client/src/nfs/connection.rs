//! One connection: calls leave together as they come, replies find who waits.

use super::callbacks::Callbacks;
use super::slots::Lease;
use crate::client::is_here;
use crate::error::Error;
use crate::line::{Silence, connect_reserved};
use crate::low_water::LowWater;
use crate::sync::lock;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use wire::nfs::limits::RECORD_BYTES_MAX;
use wire::nfs::rpc::record::MARK_BYTES;
use wire::nfs::rpc::{
    AcceptStatus, Extent, Message, OpaqueAuth, Reply, ReplyBody, Scan, begin_record, end_record,
    scan_record,
};
use wire::nfs::xdr::{XdrReader, XdrWriter};

/// Bytes that are asked of the socket at least.
const RECEIVE_BYTES: usize = 64 * 1024;

/// A record of at least so many bytes is received for itself.
const LARGE_RECORD_BYTES: usize = 32 * 1024;

/// A buffer of calls that grew larger is not kept.
const SEND_BUFFER_KEPT_BYTES: usize = 4 << 20;

/// How often within its patience a silent connection is looked at.
const LOOKS: u32 = 8;

/// A connection with the two tasks that read and write it. They end with it.
#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    tasks: [JoinHandle<()>; 2],
    addresses: (SocketAddr, SocketAddr),
}

#[derive(Debug, Default)]
struct Shared {
    /// Who answers the server's calls, if it may call.
    callbacks: Option<Arc<Callbacks>>,
    state: Mutex<State>,
    wake_writer: Notify,
    bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    outgoing: Vec<u8>,
    waiting: HashMap<u32, Waiter>,
    lost: Option<Arc<str>>,
}

/// Who waits for a reply, and the slot that it frees.
#[derive(Debug)]
struct Waiter {
    answer: oneshot::Sender<Result<Answered, Option<Lease>>>,
    lease: Option<Lease>,
}

/// A reply, and the slot of its request, which has counted it.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) record: Bytes,
    pub(super) lease: Option<Lease>,
}

/// Why there is no reply, and the slot that the request can be sent in again.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) error: Error,
    pub(super) lease: Option<Lease>,
}

/// Where a connection leads, and how long nothing may come of it while an answer is owed.
pub(super) type Line = (SocketAddr, Duration);

impl Connection {
    /// Connects. `callbacks` answers what the server calls, if it may call.
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
        let shared = Arc::new(Shared { callbacks, ..Shared::default() });
        let tasks = [
            tokio::spawn(receive(read, shared.clone(), patience, low_water)),
            tokio::spawn(send(write, shared.clone())),
        ];
        Ok(Self { shared, tasks, addresses })
    }

    /// Our end and the server's.
    pub(super) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        self.addresses
    }

    /// Bytes received and sent.
    pub(super) fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Whether it has ended.
    pub(super) fn is_lost(&self) -> bool {
        lock(&self.shared.state).lost.is_some()
    }

    /// Sends what `write` writes, a call numbered `xid`, and waits for its reply: a
    /// record. Who does not wait to the end frees the slot of `lease` by its reply.
    pub(super) async fn call(
        &self,
        xid: u32,
        mut lease: Option<Lease>,
        write: impl FnOnce(&mut XdrWriter<'_>, Option<&Lease>),
    ) -> Result<Answered, Unanswered> {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = lock(&self.shared.state);
            if let Some(why) = &state.lost {
                let error = Error::Lost { sent: false, why: why.clone() };
                return Err(Unanswered { error, lease });
            }
            let w = &mut XdrWriter::new(&mut state.outgoing);
            let mark = begin_record(w);
            write(w, lease.as_ref());
            end_record(w, mark, 0);
            lease.iter_mut().for_each(Lease::sent);
            state.waiting.insert(xid, Waiter { answer, lease });
        }
        self.shared.wake_writer.notify_one();
        let lease = match answered.await {
            Ok(Ok(answered)) => return Ok(answered),
            Ok(Err(lease)) => lease,
            Err(_) => None,
        };
        let why = lock(&self.shared.state).lost.clone();
        let error = Error::Lost { sent: true, why: why.unwrap_or_else(|| "closed".into()) };
        Err(Unanswered { error, lease })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    /// Ends the connection for all who wait.
    fn lose(&self, why: &str) {
        let mut state = lock(&self.state);
        state.lost.get_or_insert(why.into());
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for waiter in waiting.into_values() {
            // Of who does not wait any more the slot is lost: nobody asks for its answer.
            let _ = waiter.answer.send(Err(waiter.lease));
        }
    }

    /// Hands a record to whoever waits for it.
    fn take_in(&self, record: Bytes) -> Result<(), &'static str> {
        let r = &mut XdrReader::new(&record);
        match Message::decode(r) {
            Ok(Message::Reply(reply)) => {
                let waiter = lock(&self.state).waiting.remove(&reply.xid);
                let mut waiter = waiter.ok_or("a reply that nobody waits for")?;
                waiter.lease.iter_mut().for_each(Lease::answered);
                // Who does not wait any more does not need it.
                let _ = waiter.answer.send(Ok(Answered { record, lease: waiter.lease }));
                Ok(())
            }
            Ok(Message::Call(call)) => {
                let mut state = lock(&self.state);
                let w = &mut XdrWriter::new(&mut state.outgoing);
                let mark = begin_record(w);
                match &self.callbacks {
                    Some(callbacks) => callbacks.answer(&call, r, w),
                    None => {
                        let (verifier, status) =
                            (OpaqueAuth::NONE, AcceptStatus::ProgramUnavailable);
                        let body = ReplyBody::Accepted { verifier, status };
                        w.put(&Reply { xid: call.xid, body });
                    }
                }
                end_record(w, mark, 0);
                drop(state);
                self.wake_writer.notify_one();
                Ok(())
            }
            Err(_) => Err("a record that is no message"),
        }
    }
}

async fn send(mut stream: OwnedWriteHalf, shared: Arc<Shared>) {
    let mut sending = Vec::new();
    loop {
        shared.wake_writer.notified().await;
        loop {
            sending.clear();
            if sending.capacity() > SEND_BUFFER_KEPT_BYTES {
                sending = Vec::new();
            }
            std::mem::swap(&mut sending, &mut lock(&shared.state).outgoing);
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
    shared: Arc<Shared>,
    patience: Duration,
    mut low_water: LowWater,
) {
    let mut stream_bytes = BytesMut::new();
    let mut last_bytes = 0;
    let mut look = tokio::time::interval((patience / LOOKS).max(Duration::from_millis(1)));
    let mut silence = Silence::new(patience);
    loop {
        let missing = match take_records(&mut stream_bytes, &shared, &mut last_bytes) {
            Ok(missing) => missing,
            Err(why) => return shared.lose(why),
        };
        if stream_bytes.is_empty() && last_bytes >= LARGE_RECORD_BYTES {
            // Whoever waited for it asks for the next one before more is received. Otherwise all that is
            // in the socket comes first, and the server gets as many requests at once, whose answers it keeps
            // beside each other: more than its processor's cache has room for.
            tokio::task::yield_now().await;
        }
        // Of one that is not begun it is not known how long it will be.
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
                let is_owed = || !lock(&shared.state).waiting.is_empty();
                if let Err(why) = silence.look(is_owed) {
                    return shared.lose(why);
                }
            }
        }
    }
}

/// How much room there is to be for what comes next, and how much of it is received at once. After a
/// large record the next is as large, perhaps: it has room from the start, and its
/// end is where receiving ends, so that nothing of it or of the one behind it is moved.
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

/// Takes in all whole records. How many bytes are missing of the next one; the length of the last
/// is left in `last_bytes`.
fn take_records(
    stream: &mut BytesMut,
    shared: &Shared,
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

/// The message of a record, without a copy unless it was cut.
fn split_off(stream: &mut BytesMut, extent: Extent) -> Bytes {
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
    fn a_large_record_has_room_and_ends_where_it_ends() {
        let large = 65_700;
        assert_eq!(room(MARK_BYTES, 0, 0), (RECEIVE_BYTES, RECEIVE_BYTES), "nothing is known");
        assert_eq!(room(MARK_BYTES, 0, large), (large, large), "as the last one");
        assert_eq!(room(2, 2, large), (large - 2, large - 2), "a part of its mark is there");
        assert_eq!(room(large - 100, 100, 0), (large - 100, large - 100));
        assert_eq!(room(50, large - 50, large), (50, 50), "nothing of what is behind it");
        assert_eq!(room(200, 100, 300), (RECEIVE_BYTES, RECEIVE_BYTES), "small ones come together");
    }

    #[test]
    fn records_are_found_however_they_come_and_the_length_of_the_last_is_known() {
        let shared = Shared::default();
        let mut last_bytes = 0;
        let mut stream = BytesMut::from(&[0x80, 0, 0, 200, 1, 2][..]);
        assert_eq!(take_records(&mut stream, &shared, &mut last_bytes), Ok(198));
        assert_eq!((stream.len(), last_bytes), (6, 0));
        stream.extend_from_slice(&[0; 198]);
        let none = take_records(&mut stream, &shared, &mut last_bytes);
        assert_eq!(none, Err("a record that is no message"));
        assert_eq!((stream.len(), last_bytes), (0, 204));
    }
}
