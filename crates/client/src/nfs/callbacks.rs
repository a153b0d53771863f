//! Replies to the server's callbacks. Recalled delegations are passed to their user. RFC 8881 20.

use super::delegation::Recall;
use sync::Mutex;
use tokio::sync::mpsc;
use wire::nfs::callback::{
    Callback, CallbackCompound, CallbackReplyEncoder, CbSequenceArgs, CbSequenceResult,
};
use wire::nfs::rpc::{AcceptStatus, OpaqueAuth, ReplyBody, RpcCall, RpcReply, put_success};
use wire::nfs::xdr::{XdrReader, XdrWriter};
use wire::nfs::{NfsSessionId, NfsStatus};

/// Number of the callback program, in the range for arbitrary use. RFC 5531 8.1.
pub(super) const PROGRAM: u32 = 0x4000_0000;

/// Maximum number of recalls that are not taken yet; further ones get DELAY.
const RECALLS_MAX: usize = 1024;

/// CB_NULL and CB_COMPOUND.
const NULL: u32 = 0;
const COMPOUND: u32 = 1;

/// Replies to callbacks.
#[derive(Debug)]
pub(super) struct Callbacks {
    /// The session, once known. Earlier callbacks carry no session that could be checked.
    session: Mutex<Option<NfsSessionId>>,
    recalls: mpsc::Sender<Recall>,
}

impl Callbacks {
    /// Creates it with the receiver of recalls.
    pub fn new() -> (Self, mpsc::Receiver<Recall>) {
        let (recalls, recalled) = mpsc::channel(RECALLS_MAX);
        (Self { session: Mutex::default(), recalls }, recalled)
    }

    /// Sets the session.
    pub fn set_session(&self, session: NfsSessionId) {
        *self.session.lock() = Some(session);
    }

    /// Replies to a call, whose arguments follow in `r`.
    pub fn answer(&self, call: &RpcCall<'_>, r: &mut XdrReader<'_>, w: &mut XdrWriter<'_>) {
        let refused = |status| {
            let body = ReplyBody::Accepted { verifier: OpaqueAuth::NONE, status };
            RpcReply { xid: call.xid, body }
        };
        match (call.program, call.procedure) {
            (PROGRAM, NULL) => put_success(w, call.xid),
            (PROGRAM, COMPOUND) => match CallbackCompound::decode(r) {
                Ok(compound) => {
                    put_success(w, call.xid);
                    self.answer_compound(compound, w);
                }
                Err(_) => w.put(&refused(AcceptStatus::GarbageArguments)),
            },
            (PROGRAM, _) => w.put(&refused(AcceptStatus::ProcedureUnavailable)),
            _ => w.put(&refused(AcceptStatus::ProgramUnavailable)),
        }
    }

    fn answer_compound(&self, compound: CallbackCompound<'_>, w: &mut XdrWriter<'_>) {
        let mut results = CallbackReplyEncoder::begin(w, b"");
        let mut status = NfsStatus::OK;
        let mut is_in_session = false;
        for callback in compound {
            let callback = match callback {
                Ok(callback) => callback,
                Err((number, bad)) => {
                    status = fail(&mut results, w, number, bad);
                    break;
                }
            };
            let number = callback.number();
            status = match callback {
                Callback::Sequence(args) if !is_in_session => {
                    let result = self.sequence(&args);
                    is_in_session = result.is_ok();
                    results.push(w, number, &result);
                    result.err().unwrap_or(NfsStatus::OK)
                }
                Callback::Sequence(_) => fail(&mut results, w, number, NfsStatus::SEQUENCE_POS),
                _ if !is_in_session => fail(&mut results, w, number, NfsStatus::OP_NOT_IN_SESSION),
                Callback::Recall(args) => {
                    let recall = Recall { handle: args.handle, state_id: args.state_id };
                    let result = self.recalls.try_send(recall).map_err(|_| NfsStatus::DELAY);
                    results.push(w, number, &result);
                    result.err().unwrap_or(NfsStatus::OK)
                }
                Callback::NotifyLock(_) => {
                    results.push(w, number, &Ok::<(), NfsStatus>(()));
                    NfsStatus::OK
                }
                // This client holds no other state that a callback could refer to.
                _ => fail(&mut results, w, number, NfsStatus::NOTSUPP),
            };
            if !status.is_ok() {
                break;
            }
        }
        results.finish(w, status);
    }

    fn sequence(&self, args: &CbSequenceArgs) -> Result<CbSequenceResult, NfsStatus> {
        if *self.session.lock() != Some(args.session_id) {
            return Err(NfsStatus::BADSESSION);
        }
        // The client granted one slot. A retransmission is executed again, so a recall may be
        // reported twice.
        if args.slot_id != 0 {
            return Err(NfsStatus::BADSLOT);
        }
        Ok(CbSequenceResult {
            session_id: args.session_id,
            sequence_id: args.sequence_id,
            slot_id: args.slot_id,
            highest_slot_id: 0,
            target_highest_slot_id: 0,
        })
    }
}

fn fail(
    results: &mut CallbackReplyEncoder,
    w: &mut XdrWriter<'_>,
    number: wire::nfs::CallbackNumber,
    status: NfsStatus,
) -> NfsStatus {
    results.push(w, number, &Err::<(), _>(status));
    status
}
