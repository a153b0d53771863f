//! Asynchronous copies: their execution, and CB_OFFLOAD. RFC 7862 4.2, 4.8, 16.1.
//!
//! Workers copy piece by piece, so that a copy can be cancelled and shares its limits.

use crate::clients::client::ClientIncarnation;
use crate::limits::COPY_PIECE_BYTES;
use crate::server::NfsServer;
use crate::state::copies::CopyProgress;
use crate::status::status_of;
use files::{
    CallHolder, Caller, ClientProtocol, OpenFile, PendingAnswer, RequestContext, RequestFiles,
    ShareQueue,
};
use limits::ResourceCharge;
use std::sync::Arc;
use wire::nfs::callback::{Callback, CbOffloadArgs, OffloadOutcome, ReferringCalls};
use wire::nfs::ops::NfsWriteResponse;
use wire::nfs::{FileHandle, NfsStatus, StableHow, StateId, Verifier};

/// An asynchronous copy to run.
#[derive(Debug)]
pub struct AsyncCopy {
    /// State id of the copy.
    pub id: StateId,
    /// Its progress.
    pub progress: Arc<CopyProgress>,
    /// Charge to the client's address.
    pub _share: ResourceCharge,
    /// Source open and offset in bytes.
    pub source: (Arc<OpenFile>, u64),
    /// Target open and offset in bytes.
    pub target: (Arc<OpenFile>, u64),
    /// Caller of the request, as whom the target is written.
    pub caller: Arc<Caller>,
    /// Length in bytes.
    pub length_bytes: u64,
    /// Handle of the target file.
    pub handle: FileHandle,
    /// The COPY request, whose reply CB_OFFLOAD may overtake.
    pub referring: Option<ReferringCalls>,
    /// Queues at the limits of the source's and the target's share, if they have limits.
    pub queues: [Option<Arc<ShareQueue>>; 2],
}

impl AsyncCopy {
    /// Copies, then sends CB_OFFLOAD unless the client has cancelled.
    pub async fn run(self, server: Arc<NfsServer>, client: Arc<ClientIncarnation>) {
        let context =
            RequestContext::new(ClientProtocol::Nfs, client.tag(), None, vfs::ArrivalOrder::next());
        let holder = CallHolder::Client(client.holder.clone());
        let files = server.files.for_request(&context, holder);
        let _pending = PendingAnswer::to(&context);
        let verifier = server.write_verifier(self.target.0.key());
        let result = self.copy(&server, &files).await;
        let status = result.err().unwrap_or(NfsStatus::OK);
        self.progress.set_outcome(status);
        if self.progress.is_cancelled() {
            return;
        }
        let callback = Callback::Offload(self.offload_args(status, verifier));
        if client.call_back(&server.files, &callback, self.referring.as_ref()).await.is_ok() {
            client.copies.remove(&self.id);
        }
    }

    async fn copy(&self, server: &NfsServer, files: &RequestFiles) -> Result<(), NfsStatus> {
        let ((from, source_at), (to, target_at)) = (&self.source, &self.target);
        let mut done = 0;
        while done < self.length_bytes && !self.progress.is_cancelled() {
            let count = (self.length_bytes - done).min(COPY_PIECE_BYTES);
            let clock = || server.host.now().instant;
            files.admit_copy(&self.queues, [from, to], count, &clock).await;
            let copied = files.copy_range(
                &self.caller,
                (from, source_at + done),
                (to, target_at + done),
                count,
            );
            copied.await.map_err(status_of)?;
            done += count;
            self.progress.set_copied_bytes(done);
        }
        Ok(())
    }

    fn offload_args(&self, status: NfsStatus, verifier: Verifier) -> CbOffloadArgs {
        let copied_bytes = self.progress.copied_bytes();
        let outcome = match status {
            NfsStatus::OK => OffloadOutcome::Done(NfsWriteResponse {
                callback_id: Vec::new().into(),
                count: copied_bytes,
                committed: StableHow::Unstable,
                verifier,
            }),
            status => OffloadOutcome::Failed { status, copied_bytes },
        };
        CbOffloadArgs { handle: self.handle, state_id: self.id, outcome }
    }
}
