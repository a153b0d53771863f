//! The first CREATE with a CreateGuid. It completes even if its channel is lost: the client replays
//! it, and would otherwise find the file created but nothing open. MS-SMB2 3.3.5.9.10, 3.3.7.1.

use super::PendingCreate;
use crate::host::SmbHost;
use crate::request::context::AsyncReply;
use crate::request::session_wait::SessionWait;
use crate::session::state::SmbSession;
use files::{Caller, OpenPlan, OpenProgress, Volume, WaitingOpen};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use vfs::FsError;
use wire::ntstatus::NtStatus;

/// Progress of a CREATE before any wait for other clients.
pub(super) enum CreateProgress {
    /// It is complete.
    Complete(Result<AsyncReply, NtStatus>),
    /// Another client must acknowledge a break first.
    Waits(Box<PendingCreate>, Box<WaitingOpen>),
    /// It failed.
    Refused(Box<PendingCreate>, FsError),
}

/// Runs such a CREATE. It takes no longer than workers and the journal, so CREATEs with lost
/// channels need no limit here.
pub(super) struct FirstCreate {
    work: Option<Pin<Box<dyn Future<Output = CreateProgress> + Send>>>,
    session: Arc<SmbSession>,
    host: Arc<dyn SmbHost>,
}

impl FirstCreate {
    /// Starts the CREATE.
    pub fn new(
        creating: Box<PendingCreate>,
        volume: Arc<Volume>,
        caller: Arc<Caller>,
        plan: OpenPlan,
    ) -> Self {
        let (session, host) = (creating.session.clone(), creating.server.host.clone());
        let work = async move {
            match creating.files.begin_open(&volume, &caller, plan).await {
                Ok(OpenProgress::Opened(opened)) => {
                    CreateProgress::Complete(creating.finish_apart(opened).await)
                }
                Ok(OpenProgress::Waiting(waiting)) => {
                    creating.claim.iter().for_each(|claim| claim.handle_waiting());
                    CreateProgress::Waits(creating, Box::new(waiting))
                }
                Err(error) => CreateProgress::Refused(creating, error),
            }
        };
        Self { work: Some(Box::pin(work)), session, host }
    }
}

impl Future for FirstCreate {
    type Output = CreateProgress;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CreateProgress> {
        let work = self.work.as_mut().expect("not polled after its end");
        let made = ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(made)
    }
}

impl Drop for FirstCreate {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        let (session, host) = (self.session.clone(), self.host.clone());
        self.host.carry_on(Box::pin(async move {
            if let CreateProgress::Waits(creating, waiting) = work.await {
                // From here it waits, while its session exists.
                let rest = Box::pin(creating.finish_waiting(*waiting));
                drop(SessionWait::new(rest, Some(session), host));
            }
        }));
    }
}
