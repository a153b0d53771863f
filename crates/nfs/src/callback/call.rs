//! Callbacks: CB_COMPOUND with a backchannel slot, on the first connection that replies.
//! RFC 8881 2.10.3.1, 2.10.6, 20.9.

use crate::clients::backchannel::CallbackHealth;
use crate::clients::client::ClientIncarnation;
use crate::clients::session::NfsSession;
use crate::limits::{CALLBACK_TIMEOUT, CALLBACK_TRIES_MAX};
use crate::server::NfsServer;
use bytes::Bytes;
use files::Files;
use futures_channel::oneshot::{Canceled, Receiver};
use futures_util::future::{Either, select};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::nfs::callback::{
    Callback, CallbackRequest, CallbackResults, CbSequenceArgs, CbSequenceResult, ReferringCalls,
};
use wire::nfs::compound::NoResult;
use wire::nfs::numbers::{PROCEDURE_COMPOUND, PROCEDURE_NULL};
use wire::nfs::reply::ResultBody;
use wire::nfs::xdr::{List, XdrReader, XdrWriter};
use wire::nfs::{CallbackNumber, NfsStatus};

/// Steps in which a caller waits for [`CALLBACK_TIMEOUT`], to notice the end of the session.
const CALLBACK_PARTS: u32 = 20;

/// Reply that is outstanding.
type PendingReply = Receiver<Bytes>;

/// Client's reply to an executed callback.
#[derive(Debug)]
pub(crate) struct CallbackReply(Bytes);

impl CallbackReply {
    /// Decodes the result of the only operation beside CB_SEQUENCE.
    pub fn result<'a, T>(&'a self, number: CallbackNumber) -> Result<T, NfsStatus>
    where
        Result<T, NfsStatus>: ResultBody<'a>,
    {
        let take = || -> Result<T, NoResult> {
            let mut results = CallbackResults::decode(&mut XdrReader::new(&self.0))?;
            results.succeed::<CbSequenceResult>(CallbackNumber::SEQUENCE)?;
            results.succeed(number)
        };
        take().map_err(|no| match no {
            NoResult::Failed(status) => status,
            NoResult::Malformed(_) => NfsStatus::BADXDR,
        })
    }

    fn sequence(&self) -> Result<(), NfsStatus> {
        let take = || -> Result<CbSequenceResult, NoResult> {
            let mut results = CallbackResults::decode(&mut XdrReader::new(&self.0))?;
            results.succeed(CallbackNumber::SEQUENCE)
        };
        match take() {
            Ok(_) => Ok(()),
            Err(NoResult::Failed(status)) => Err(status),
            Err(NoResult::Malformed(_)) => Err(NfsStatus::BADXDR),
        }
    }
}

/// The callback did not reach the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallbackFailed;

/// Guard of a backchannel slot; its drop frees the slot.
struct SlotGuard<'s> {
    session: &'s NfsSession,
    place: crate::clients::callback_slots::CallbackSequence,
}

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        self.session.back.slots.lock().release(self.place.slot);
    }
}

impl ClientIncarnation {
    /// Calls the client on any of its sessions.
    ///
    /// # Errors
    /// [`CallbackFailed`] if no session has a connection that replies.
    pub(crate) async fn call_back(
        &self,
        files: &Files,
        callback: &Callback<'_>,
        referring: Option<&ReferringCalls>,
    ) -> Result<CallbackReply, CallbackFailed> {
        let mut sessions = self.sessions();
        // Sessions that have replied before come first.
        sessions.sort_by_key(|session| session.back.health() != CallbackHealth::Responding);
        for session in sessions {
            if let Ok(answer) = session.call_back(files, callback, referring).await {
                return Ok(answer);
            }
        }
        Err(CallbackFailed)
    }

    /// Whether the client has replied to callbacks, so that a recall can reach it.
    pub(crate) fn answers_callbacks(&self) -> bool {
        self.sessions().iter().any(|session| session.back.is_responding())
    }
}

impl NfsSession {
    async fn call_back(
        &self,
        files: &Files,
        callback: &Callback<'_>,
        referring: Option<&ReferringCalls>,
    ) -> Result<CallbackReply, CallbackFailed> {
        let place = self.back.slots.lock().take().ok_or(CallbackFailed)?;
        let mut taken = SlotGuard { session: self, place };
        for _ in 0..CALLBACK_TRIES_MAX {
            let answer = self.call_once(files, &taken.place, callback, referring).await?;
            let slot = taken.place.slot;
            match answer.sequence() {
                Ok(()) => {
                    self.back.slots.lock().advance(slot);
                    let number = callback.number();
                    // The client has executed it before and did not cache the reply.
                    if answer.result::<()>(number) != Err(NfsStatus::RETRY_UNCACHED_REP) {
                        return Ok(answer);
                    }
                    taken.place.sequence += 1;
                }
                Err(NfsStatus::RETRY_UNCACHED_REP | NfsStatus::SEQ_FALSE_RETRY) => {
                    taken.place.sequence = self.back.slots.lock().advance(slot);
                }
                Err(NfsStatus::SEQ_MISORDERED) if taken.place.sequence != 1 => {
                    taken.place.sequence = self.back.slots.lock().restart(slot);
                }
                Err(NfsStatus::DELAY) => files.pause(CALLBACK_TIMEOUT / 20).await,
                Err(_) => break,
            }
        }
        Err(CallbackFailed)
    }

    /// Sends one callback on one connection after the other, until a reply arrives.
    async fn call_once(
        &self,
        files: &Files,
        place: &crate::clients::callback_slots::CallbackSequence,
        callback: &Callback<'_>,
        referring: Option<&ReferringCalls>,
    ) -> Result<CallbackReply, CallbackFailed> {
        for (connection, callback_target) in self.back.connections() {
            let sent = connection.calls.send(|xid| {
                callback_target.record(xid, PROCEDURE_COMPOUND, |w| {
                    put_compound(w, self, place, callback, referring);
                })
            });
            let Some(sent) = sent else { continue };
            match self.answered(files, sent).await {
                Some(Ok(results)) => {
                    self.back.set_health(CallbackHealth::Responding);
                    self.client.is_unresponsive.store(false, Ordering::Release);
                    return Ok(CallbackReply(results));
                }
                // The connection has ended, or the client has no such program.
                Some(Err(_)) => {}
                None => self.back.unbind(&connection),
            }
        }
        if self.back.was_bound() && !self.has_ended() {
            self.back.set_health(CallbackHealth::Unresponsive);
        }
        Err(CallbackFailed)
    }

    /// Waits for a reply. Gives up when the session ends, since another session may replace it.
    async fn answered(
        &self,
        files: &Files,
        mut sent: PendingReply,
    ) -> Option<Result<Bytes, Canceled>> {
        for _ in 0..CALLBACK_PARTS {
            sent = match select(sent, files.pause_for(CALLBACK_TIMEOUT / CALLBACK_PARTS)).await {
                Either::Left((answer, _)) => return Some(answer),
                Either::Right(_) if self.has_ended() => return None,
                Either::Right((_, sent)) => sent,
            };
        }
        None
    }

    /// Probes the client's callback program with a NULL call.
    pub(crate) fn probe(self: &Arc<Self>, server: &Arc<NfsServer>) {
        let Some((connection, callback_target)) = self.back.connections().into_iter().next() else {
            return;
        };
        let sent = connection.calls.send(|xid| callback_target.record(xid, PROCEDURE_NULL, |_| ()));
        let Some(sent) = sent else { return };
        let (session, files) = (self.clone(), server.files.clone());
        server.host.carry_on(Box::pin(async move {
            match select(sent, files.pause_for(CALLBACK_TIMEOUT)).await {
                Either::Left((Ok(_), _)) => session.back.set_health(CallbackHealth::Responding),
                // The client may have bound another connection meanwhile.
                Either::Left((Err(_), _)) if !connection.calls.is_open() => {}
                Either::Left((Err(_), _)) | Either::Right(_) => {
                    session.back.set_health(CallbackHealth::Unresponsive);
                }
            }
        }));
    }
}

fn put_compound(
    w: &mut XdrWriter<'_>,
    session: &NfsSession,
    place: &crate::clients::callback_slots::CallbackSequence,
    callback: &Callback<'_>,
    referring: Option<&ReferringCalls>,
) {
    let mut request = CallbackRequest::begin(w, b"", session.back.minor_version);
    let sequence = CbSequenceArgs {
        session_id: session.id,
        sequence_id: place.sequence,
        slot_id: place.slot,
        highest_slot_id: place.highest,
        cache_this: false,
        referring_calls: List(referring.cloned().into_iter().collect()),
    };
    request.push(w, &Callback::Sequence(sequence));
    request.push(w, callback);
    request.finish(w);
}
