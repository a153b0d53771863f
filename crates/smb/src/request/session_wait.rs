//! A pending request that survives the loss of its channel while its session has another. The
//! client asks for the outcome there. MS-SMB2 3.3.7.1.

use crate::host::SmbHost;
use crate::request::context::{AsyncReply, WaitFuture};
use crate::session::state::SmbSession;
use futures_util::future::select;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use wire::ntstatus::NtStatus;

/// The pending part of a request. Dropping it cancels the request, unless it belongs to a session
/// that still exists.
pub struct SessionWait {
    rest: Option<WaitFuture>,
    session: Option<Arc<SmbSession>>,
    host: Arc<dyn SmbHost>,
}

impl SessionWait {
    /// Attaches the request to `session`, if one is given.
    pub fn new(rest: WaitFuture, session: Option<Arc<SmbSession>>, host: Arc<dyn SmbHost>) -> Self {
        Self { rest: Some(rest), session, host }
    }

    /// Cancels the request on its client's behalf.
    pub fn withdraw(mut self) {
        self.rest = None;
    }
}

impl Future for SessionWait {
    type Output = Result<AsyncReply, NtStatus>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let rest = self.rest.as_mut().expect("not polled after its end");
        let result = std::task::ready!(rest.as_mut().poll(cx));
        self.rest = None;
        Poll::Ready(result)
    }
}

impl Drop for SessionWait {
    fn drop(&mut self) {
        let (Some(rest), Some(session)) = (self.rest.take(), self.session.take()) else { return };
        let Some(place) = session.begin_orphan() else { return };
        self.host.carry_on(Box::pin(async move {
            let session = place.session();
            select(pin!(session.ended.raised()), rest).await;
        }));
    }
}
