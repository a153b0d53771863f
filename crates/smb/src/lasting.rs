//! A request that waits and goes on although its channel is lost, as long as its
//! session has another: the client asks there what came of it. MS-SMB2 3.3.7.1.

use crate::dispatch::{WaitFuture, Waited};
use crate::host::Host;
use crate::session::Session;
use futures_util::future::select;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use wire::ntstatus::NtStatus;

/// The rest of a request. Dropping it before its end withdraws it, unless it
/// belongs to a session that is still there.
pub struct Lasting {
    rest: Option<WaitFuture>,
    session: Option<Arc<Session>>,
    host: Arc<dyn Host>,
}

impl Lasting {
    /// Goes on with `session`, if one is given.
    pub fn new(rest: WaitFuture, session: Option<Arc<Session>>, host: Arc<dyn Host>) -> Self {
        Self { rest: Some(rest), session, host }
    }

    /// Its client wants it no more.
    pub fn withdraw(mut self) {
        self.rest = None;
    }
}

impl Future for Lasting {
    type Output = Result<Waited, NtStatus>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let rest = self.rest.as_mut().expect("not polled after its end");
        let result = std::task::ready!(rest.as_mut().poll(cx));
        self.rest = None;
        Poll::Ready(result)
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        let (Some(rest), Some(session)) = (self.rest.take(), self.session.take()) else { return };
        let Some(place) = session.begin_orphan() else { return };
        self.host.carry_on(Box::pin(async move {
            let session = place.session();
            select(pin!(session.ended.raised()), rest).await;
        }));
    }
}
