//! Notifications: frames that the server sends without a request. MS-SMB2 3.3.4.6.
//!
//! Any thread may queue one; the connection task is woken and sends it. A sent notification is
//! retained until the client acknowledges it, or until it must have arrived. If its connection is
//! lost, or no acknowledgment comes, another connection repeats it.

use crate::limits::{NOTICE_ARRIVED_AFTER, NOTICES_RETAINED_MAX};
use crate::outgoing::transmit::{FrameTransmit, MESSAGE_START};
use futures_util::task::AtomicWaker;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant;
use sync::Mutex;
use wire::codec::Reader;
use wire::smb::{FileId, Header, SessionId};

/// The object of a notification and of its acknowledgment. Both carry its 16-byte id at the same
/// offset. MS-SMB2 2.2.23, 2.2.24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeSubject {
    /// The oplock of an open.
    Open(FileId),
    /// The lease under this key.
    Lease([u8; 16]),
}

impl NoticeSubject {
    /// StructureSize of the bodies that refer to an open.
    const OPEN_BODY_BYTES: u16 = 24;

    /// The subject of a message, given from its header on.
    pub fn of(message: &[u8]) -> Option<Self> {
        let body = message.get(Header::LENGTH..)?;
        let name = body.get(8..)?.first_chunk::<16>()?;
        if u16::from_le_bytes(*body.first_chunk()?) == Self::OPEN_BODY_BYTES {
            FileId::decode(&mut Reader::new(name)).ok().map(Self::Open)
        } else {
            Some(Self::Lease(*name))
        }
    }

    /// The subject of a notification before encryption.
    pub fn of_notice(buffer: &[u8]) -> Option<Self> {
        Self::of(buffer.get(MESSAGE_START..)?)
    }
}

/// The acknowledgment that a notification requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckRequirement {
    /// None.
    NotRequired,
    /// One after the client has written back its cache.
    AfterFlush,
    /// One immediately: the client has nothing to write back.
    Immediate,
}

/// One frame, with the data to repeat it on another connection.
#[derive(Debug)]
pub struct Notice {
    /// Id of the session.
    pub session: SessionId,
    /// The oplock or lease, if any.
    pub subject: Option<NoticeSubject>,
    /// The required acknowledgment.
    pub ack: AckRequirement,
    /// The frame.
    pub transmit: FrameTransmit,
}

impl Notice {
    fn duplicate(&self) -> Self {
        let FrameTransmit { buffer, start, .. } = &self.transmit;
        let buffer = buffer.clone();
        let transmit = FrameTransmit { start: *start, ..FrameTransmit::plain(buffer, None) };
        Self { transmit, ..*self }
    }
}

/// The notifications of one connection. Each open and lease has at most one at a time, which bounds
/// them.
#[derive(Debug, Default)]
pub struct Notices {
    state: Mutex<NoticeState>,
    has_some: AtomicBool,
    task: AtomicWaker,
}

#[derive(Debug, Default)]
struct NoticeState {
    queue: VecDeque<Notice>,
    /// Sent and unacknowledged notifications with their send times: the latest few.
    sent: VecDeque<(Instant, Notice)>,
    /// The connection is lost, and sends nothing any more.
    is_closed: bool,
}

impl Notices {
    /// Queues a notification and wakes the connection task.
    ///
    /// # Errors
    /// The notification, if the connection is lost.
    pub(crate) fn push(&self, notice: Notice) -> Result<(), Box<Notice>> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(Box::new(notice));
        }
        state.queue.push_back(notice);
        self.has_some.store(true, Ordering::Release);
        drop(state);
        self.task.wake();
        Ok(())
    }

    /// Takes the next notification to send, and retains it until its acknowledgment. An empty queue
    /// costs one atomic load.
    pub(crate) fn poll(&self, now: impl FnOnce() -> Instant) -> Option<FrameTransmit> {
        if !self.has_some.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.state.lock();
        let next = state.queue.pop_front();
        self.has_some.store(!state.queue.is_empty(), Ordering::Release);
        let next = next?;
        if next.subject.is_some() {
            let now = now();
            let arrived = |(sent, notice): &(Instant, Notice)| {
                notice.ack == AckRequirement::NotRequired
                    && now.saturating_duration_since(*sent) >= NOTICE_ARRIVED_AFTER
            };
            state.sent.retain(|sent| !arrived(sent));
            if state.sent.len() == NOTICES_RETAINED_MAX {
                // Evicts one without acknowledgment first.
                let is_free = |(_, notice): &(_, Notice)| notice.ack == AckRequirement::NotRequired;
                let at = state.sent.iter().position(is_free);
                state.sent.remove(at.unwrap_or(0));
            }
            state.sent.push_back((now, next.duplicate()));
        }
        Some(next.transmit)
    }

    /// Drops the retained notification of an acknowledged break.
    pub(crate) fn acknowledge(&self, subject: NoticeSubject) {
        self.state.lock().sent.retain(|(_, notice)| notice.subject != Some(subject));
    }

    /// Takes the unacknowledged notifications that were sent before `due`, each once.
    pub(crate) fn take_unacknowledged(&self, due: Instant) -> Vec<Notice> {
        self.take_sent(due, |ack| ack != AckRequirement::NotRequired)
    }

    /// Takes the notifications sent before `due` that the client should have acknowledged
    /// immediately, each once.
    pub(crate) fn take_late_immediate(&self, due: Instant) -> Vec<Notice> {
        let late = self.take_sent(due, |ack| ack == AckRequirement::Immediate);
        late.into_iter()
            .map(|notice| Notice { ack: AckRequirement::AfterFlush, ..notice })
            .collect()
    }

    fn take_sent(&self, due: Instant, is_meant: impl Fn(AckRequirement) -> bool) -> Vec<Notice> {
        let is_late = |(sent, notice): &(Instant, Notice)| *sent <= due && is_meant(notice.ack);
        let mut state = self.state.lock();
        let sent = std::mem::take(&mut state.sent);
        let (late, retained) = sent.into_iter().partition::<VecDeque<_>, _>(is_late);
        state.sent = retained;
        late.into_iter().map(|(_, notice)| notice).collect()
    }

    /// Closes the queue of a lost connection, and returns its unsent and unacknowledged
    /// notifications.
    pub(crate) fn close(&self) -> Vec<Notice> {
        let mut state = self.state.lock();
        state.is_closed = true;
        let sent = std::mem::take(&mut state.sent).into_iter().map(|(_, notice)| notice);
        sent.chain(std::mem::take(&mut state.queue)).collect()
    }

    /// Waits for a notification. For one task at a time; cancel-safe.
    pub async fn ready(&self) {
        poll_fn(|cx| {
            if !self.has_some.load(Ordering::Acquire) {
                self.task.register(cx.waker());
            }
            if self.has_some.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outgoing::transmit::new_buffer;
    use futures_util::FutureExt;
    use std::time::Duration;

    fn notice(subject: u8) -> Notice {
        let transmit = FrameTransmit::plain(new_buffer(Vec::new()), None);
        Notice {
            session: SessionId(1),
            subject: Some(NoticeSubject::Lease([subject; 16])),
            ack: AckRequirement::AfterFlush,
            transmit,
        }
    }

    fn subjects(notices: &[Notice]) -> Vec<u8> {
        let first = |n: &Notice| match n.subject {
            Some(NoticeSubject::Lease(key)) => key[0],
            _ => panic!("of a lease"),
        };
        notices.iter().map(first).collect()
    }

    #[test]
    fn notice_wakes_the_task_and_is_taken_once() {
        let notices = Notices::default();
        let now = Instant::now();
        assert!(notices.ready().now_or_never().is_none());
        notices.push(notice(1)).unwrap();
        assert!(notices.ready().now_or_never().is_some());
        assert!(notices.poll(|| now).is_some());
        assert!(notices.poll(|| now).is_none());
        assert!(notices.ready().now_or_never().is_none());
    }

    #[test]
    fn closed_queue_returns_unsent_and_unacknowledged_notices() {
        let notices = Notices::default();
        let now = Instant::now();
        for subject in 1..=3 {
            notices.push(notice(subject)).unwrap();
        }
        assert!(notices.poll(|| now).is_some() && notices.poll(|| now).is_some());
        notices.acknowledge(NoticeSubject::Lease([1; 16]));
        assert_eq!(subjects(&notices.close()), [2, 3]);
        assert!(notices.push(notice(4)).is_err());
        assert!(notices.close().is_empty());
    }

    #[test]
    fn unacknowledged_notice_is_taken_once_when_due() {
        let notices = Notices::default();
        let start = Instant::now();
        let second = |n| start + Duration::from_secs(n);
        for subject in 0..2 {
            notices.push(notice(subject)).unwrap();
            notices.poll(|| second(u64::from(subject)));
        }
        assert_eq!(subjects(&notices.take_unacknowledged(start)), [0]);
        assert!(notices.take_unacknowledged(start).is_empty());
        assert_eq!(subjects(&notices.take_unacknowledged(second(9))), [1]);
    }

    #[test]
    fn recent_notice_without_acknowledgment_is_returned_at_close() {
        let start = Instant::now();
        for (later, left) in [(0, vec![1, 2]), (NOTICE_ARRIVED_AFTER.as_secs(), vec![2])] {
            let notices = Notices::default();
            notices.push(Notice { ack: AckRequirement::NotRequired, ..notice(1) }).unwrap();
            notices.poll(|| start);
            assert!(notices.take_unacknowledged(start).is_empty(), "it needs no acknowledgment");
            notices.push(notice(2)).unwrap();
            notices.poll(|| start + Duration::from_secs(later));
            assert_eq!(subjects(&notices.close()), left);
        }
    }

    #[test]
    fn retained_notices_are_bounded_for_a_silent_client() {
        let notices = Notices::default();
        for _ in 0..NOTICES_RETAINED_MAX * 2 {
            notices.push(notice(1)).unwrap();
            notices.poll(Instant::now);
        }
        assert_eq!(notices.close().len(), NOTICES_RETAINED_MAX);
    }
}
