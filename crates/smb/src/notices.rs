//! Frames that answer nothing: what a connection's client is told unasked.
//! MS-SMB2 3.3.4.6.
//!
//! Put in from any thread; the connection's task is woken and takes them out.
//! What was sent is kept until it is answered, or must have arrived: if its
//! connection is lost, or nothing comes of it, the client is told by another one.

use crate::limits::{NOTICE_ARRIVED_AFTER, NOTICES_KEPT_MAX};
use crate::transmit::{MESSAGE_START, Transmit};
use futures_util::task::AtomicWaker;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Instant;
use wire::codec::Reader;
use wire::smb::{FileId, Header, SessionId};

/// What a notice and its answer are about: in both, a name of 16 bytes stands at
/// the same place. MS-SMB2 2.2.23, 2.2.24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The oplock of an open.
    Open(FileId),
    /// The lease of this key.
    Lease([u8; 16]),
}

impl About {
    /// Size of the bodies that are about an open.
    const OPEN_BODY_BYTES: u16 = 24;

    /// That of a message, as its bytes from the header on.
    pub fn of(message: &[u8]) -> Option<Self> {
        let body = message.get(Header::LENGTH..)?;
        let name = body.get(8..)?.first_chunk::<16>()?;
        if u16::from_le_bytes(*body.first_chunk()?) == Self::OPEN_BODY_BYTES {
            FileId::decode(&mut Reader::new(name)).ok().map(Self::Open)
        } else {
            Some(Self::Lease(*name))
        }
    }

    /// That of a notice which is not sealed yet.
    pub fn of_notice(buffer: &[u8]) -> Option<Self> {
        Self::of(buffer.get(MESSAGE_START..)?)
    }
}

/// Whether the client answers a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It does not.
    Never,
    /// When it has written back what it keeps.
    InTime,
    /// It has nothing to write back.
    AtOnce,
}

/// One frame, and what is needed to send it by another connection.
#[derive(Debug)]
pub struct Notice {
    /// The session that it is for.
    pub session: SessionId,
    /// What it is about.
    pub about: Option<About>,
    /// Whether the client is to answer it.
    pub answered: Answered,
    /// The frame.
    pub transmit: Transmit,
}

impl Notice {
    fn again(&self) -> Self {
        let Transmit { buffer, start, .. } = &self.transmit;
        let buffer = buffer.clone();
        let transmit = Transmit { start: *start, ..Transmit::plain(buffer, None) };
        Self { transmit, ..*self }
    }
}

/// The frames for one connection. There is at most one for each open at a
/// time, which bounds them.
#[derive(Debug, Default)]
pub struct Notices {
    state: Mutex<State>,
    has_some: AtomicBool,
    task: AtomicWaker,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Notice>,
    /// Sent, neither answered nor surely arrived, and since when; the latest few.
    sent: VecDeque<(Instant, Notice)>,
    /// The connection is lost: nobody takes anything out any more.
    is_closed: bool,
}

impl Notices {
    /// Puts a frame in and wakes the task.
    ///
    /// # Errors
    /// The frame, if the connection is lost.
    pub(crate) fn push(&self, notice: Notice) -> Result<(), Box<Notice>> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Box::new(notice));
        }
        state.queue.push_back(notice);
        self.has_some.store(true, Ordering::Release);
        drop(state);
        self.task.wake();
        Ok(())
    }

    /// Takes the next frame out; it is kept until it is answered. One load
    /// where there is none.
    pub(crate) fn poll(&self, now: impl FnOnce() -> Instant) -> Option<Transmit> {
        if !self.has_some.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.lock();
        let next = state.queue.pop_front();
        self.has_some.store(!state.queue.is_empty(), Ordering::Release);
        let next = next?;
        if next.about.is_some() {
            let now = now();
            let arrived = |(sent, notice): &(Instant, Notice)| {
                notice.answered == Answered::Never
                    && now.saturating_duration_since(*sent) >= NOTICE_ARRIVED_AFTER
            };
            state.sent.retain(|sent| !arrived(sent));
            if state.sent.len() == NOTICES_KEPT_MAX {
                // Rather one that nobody waits for.
                let is_free = |(_, notice): &(_, Notice)| notice.answered == Answered::Never;
                let at = state.sent.iter().position(is_free);
                state.sent.remove(at.unwrap_or(0));
            }
            state.sent.push_back((now, next.again()));
        }
        Some(next.transmit)
    }

    /// The client has answered, by whichever connection.
    pub(crate) fn forget(&self, about: About) {
        self.lock().sent.retain(|(_, notice)| notice.about != Some(about));
    }

    /// What was sent before `due` and is not answered: once.
    pub(crate) fn take_unanswered(&self, due: Instant) -> Vec<Notice> {
        self.take_sent(due, |answered| answered != Answered::Never)
    }

    /// What was sent before `due`, and has no answer although its client has nothing to do for it: once.
    pub(crate) fn take_unheeded(&self, due: Instant) -> Vec<Notice> {
        let late = self.take_sent(due, |answered| answered == Answered::AtOnce);
        late.into_iter().map(|notice| Notice { answered: Answered::InTime, ..notice }).collect()
    }

    fn take_sent(&self, due: Instant, is_meant: impl Fn(Answered) -> bool) -> Vec<Notice> {
        let is_late =
            |(sent, notice): &(Instant, Notice)| *sent <= due && is_meant(notice.answered);
        let mut state = self.lock();
        let sent = std::mem::take(&mut state.sent);
        let (late, kept) = sent.into_iter().partition::<VecDeque<_>, _>(is_late);
        state.sent = kept;
        late.into_iter().map(|(_, notice)| notice).collect()
    }

    /// The connection is lost: what its client was not told, or did not answer.
    pub(crate) fn close(&self) -> Vec<Notice> {
        let mut state = self.lock();
        state.is_closed = true;
        let sent = std::mem::take(&mut state.sent).into_iter().map(|(_, notice)| notice);
        sent.chain(std::mem::take(&mut state.queue)).collect()
    }

    /// Waits until there is one. For one task at a time; may be dropped.
    pub async fn ready(&self) {
        poll_fn(|cx| {
            if !self.has_some.load(Ordering::Acquire) {
                self.task.register(cx.waker());
            }
            if self.has_some.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transmit::new_buffer;
    use futures_util::FutureExt;
    use std::time::Duration;

    fn notice(about: u8) -> Notice {
        let transmit = Transmit::plain(new_buffer(Vec::new()), None);
        Notice {
            session: SessionId(1),
            about: Some(About::Lease([about; 16])),
            answered: Answered::InTime,
            transmit,
        }
    }

    fn abouts(notices: &[Notice]) -> Vec<u8> {
        let first = |n: &Notice| match n.about {
            Some(About::Lease(key)) => key[0],
            _ => panic!("of a lease"),
        };
        notices.iter().map(first).collect()
    }

    #[test]
    fn a_frame_wakes_and_is_taken_once() {
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
    fn what_was_not_sent_or_not_answered_is_left_when_the_connection_is_lost() {
        let notices = Notices::default();
        let now = Instant::now();
        for about in 1..=3 {
            notices.push(notice(about)).unwrap();
        }
        assert!(notices.poll(|| now).is_some() && notices.poll(|| now).is_some());
        notices.forget(About::Lease([1; 16]));
        assert_eq!(abouts(&notices.close()), [2, 3]);
        assert!(notices.push(notice(4)).is_err());
        assert!(notices.close().is_empty());
    }

    #[test]
    fn what_nothing_comes_of_is_taken_once_when_it_is_due() {
        let notices = Notices::default();
        let start = Instant::now();
        let second = |n| start + Duration::from_secs(n);
        for about in 0..2 {
            notices.push(notice(about)).unwrap();
            notices.poll(|| second(u64::from(about)));
        }
        assert_eq!(abouts(&notices.take_unanswered(start)), [0]);
        assert!(notices.take_unanswered(start).is_empty());
        assert_eq!(abouts(&notices.take_unanswered(second(9))), [1]);
    }

    #[test]
    fn what_needs_no_answer_is_left_too_unless_it_must_have_arrived() {
        let start = Instant::now();
        for (later, left) in [(0, vec![1, 2]), (NOTICE_ARRIVED_AFTER.as_secs(), vec![2])] {
            let notices = Notices::default();
            notices.push(Notice { answered: Answered::Never, ..notice(1) }).unwrap();
            notices.poll(|| start);
            assert!(notices.take_unanswered(start).is_empty(), "nobody waits for it");
            notices.push(notice(2)).unwrap();
            notices.poll(|| start + Duration::from_secs(later));
            assert_eq!(abouts(&notices.close()), left);
        }
    }

    #[test]
    fn only_the_latest_are_kept_of_a_client_that_answers_none() {
        let notices = Notices::default();
        for _ in 0..NOTICES_KEPT_MAX * 2 {
            notices.push(notice(1)).unwrap();
            notices.poll(Instant::now);
        }
        assert_eq!(notices.close().len(), NOTICES_KEPT_MAX);
    }
}
