//! One open of a named pipe. A read without available data waits for it. MS-SMB2 3.3.5.12 (named
//! pipes).

use limits::{LedgerAccount, ResourceCharge};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use sync::{Mutex, MutexGuard};
use vfs::Timestamp;
use wire::ntstatus::NtStatus;
use wire::rpc::Pipe;

/// A pipe, and the reads that wait for its responses. The limit on pending requests bounds them.
#[derive(Debug)]
pub struct OpenPipe {
    pipe: Mutex<ChargedPipe>,
    readers: Mutex<Vec<Waker>>,
}

/// A pipe, and the charge for its memory.
#[derive(Debug)]
struct ChargedPipe {
    pipe: Pipe,
    memory: ResourceCharge,
}

/// Bytes of a response; the flag is true if more of it remains.
pub type PipeData = (Vec<u8>, bool);

impl ChargedPipe {
    fn set_now(&mut self, now: Timestamp) {
        let milliseconds = now.0.div_euclid(1_000_000);
        self.pipe.set_now(i64::try_from(milliseconds).unwrap_or_default());
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), NtStatus> {
        self.pipe.write(bytes).map_err(|_| NtStatus::PIPE_DISCONNECTED)
    }

    /// Charges the pipe's present memory. A pipe beyond its user's limit is disconnected.
    fn settle(&mut self) -> Result<(), NtStatus> {
        let settled = self.memory.try_resize(self.pipe.memory_bytes() as u64);
        if settled.is_err() {
            self.pipe.disconnect();
            self.memory.resize(self.pipe.memory_bytes() as u64);
        }
        settled.map_err(|_| NtStatus::INSUFFICIENT_RESOURCES)
    }

    fn read(&mut self, count: usize) -> PipeData {
        let data = self.pipe.read(count);
        // A read never increases the memory.
        self.memory.resize(self.pipe.memory_bytes() as u64);
        data
    }
}

impl OpenPipe {
    /// A fresh pipe, whose memory is charged to `account`.
    ///
    /// # Errors
    /// `INSUFFICIENT_RESOURCES` if the account has no pipe memory left.
    pub fn new(pipe: Pipe, account: &Arc<LedgerAccount>) -> Result<Self, NtStatus> {
        let mut pipe = ChargedPipe { pipe, memory: account.force(0) };
        pipe.settle()?;
        Ok(Self { pipe: Mutex::new(pipe), readers: Mutex::default() })
    }

    /// Writes the client's bytes. `now` is the time for calls that query it.
    ///
    /// # Errors
    /// `PIPE_DISCONNECTED` after anything that is not DCE/RPC; `INSUFFICIENT_RESOURCES` if the
    /// responses exceed the user's memory.
    pub fn write(&self, bytes: &[u8], now: Timestamp) -> Result<(), NtStatus> {
        let mut pipe = self.pipe();
        pipe.set_now(now);
        let written = pipe.write(bytes);
        let settled = pipe.settle();
        drop(pipe);
        let readers = std::mem::take(&mut *self.readers.lock());
        readers.into_iter().for_each(Waker::wake);
        written.and(settled)
    }

    /// Up to `count` bytes of a response, if one is available.
    ///
    /// # Errors
    /// `PIPE_DISCONNECTED`: no further response will come.
    pub fn read(&self, count: usize) -> Result<Option<PipeData>, NtStatus> {
        let mut pipe = self.pipe();
        if pipe.pipe.is_disconnected() {
            return Err(NtStatus::PIPE_DISCONNECTED);
        }
        Ok((pipe.pipe.available() > 0).then(|| pipe.read(count)))
    }

    /// Like [`OpenPipe::read`], but waits for a response. Cancel-safe.
    ///
    /// # Errors
    /// See [`OpenPipe::read`].
    pub async fn answer(&self, count: usize) -> Result<PipeData, NtStatus> {
        poll_fn(|cx| {
            if let Some(data) = self.read(count).transpose() {
                return Poll::Ready(data);
            }
            let mut readers = self.readers.lock();
            if !readers.iter().any(|reader| reader.will_wake(cx.waker())) {
                readers.push(cx.waker().clone());
            }
            drop(readers);
            // A write between the two checks may have missed the waker.
            self.read(count).transpose().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Writes a call and reads its response. MS-SMB2 3.3.5.15.
    ///
    /// # Errors
    /// `PIPE_BUSY` while an older response is unread, and the errors of [`OpenPipe::write`].
    pub fn transceive(
        &self,
        bytes: &[u8],
        count: usize,
        now: Timestamp,
    ) -> Result<PipeData, NtStatus> {
        let mut pipe = self.pipe();
        pipe.set_now(now);
        if pipe.pipe.available() > 0 {
            return Err(NtStatus::PIPE_BUSY);
        }
        let written = pipe.write(bytes);
        // Bytes that are read at once belong to this response's own charge.
        let data = pipe.pipe.read(count);
        written.and(pipe.settle())?;
        Ok(data)
    }

    /// Up to `count` available bytes, without consuming them, and the number of available bytes.
    #[must_use]
    pub fn peek(&self, count: usize) -> (Vec<u8>, usize) {
        let pipe = self.pipe();
        (pipe.pipe.peek(count).to_vec(), pipe.pipe.available())
    }

    fn pipe(&self) -> MutexGuard<'_, ChargedPipe> {
        self.pipe.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(0);
    use futures_util::FutureExt;
    use limits::{Ledger, LedgerHolder};
    use std::pin::pin;
    use wire::rpc::{RpcFacts, RpcInterface};

    /// A call with an unknown opnum; its response is a fault of 32 bytes.
    const CALL: [u8; 24] =
        [5, 0, 0, 3, 16, 0, 0, 0, 24, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 200, 0];

    fn open(ledger: &Arc<Ledger>, user: &str) -> Result<OpenPipe, NtStatus> {
        let pipe = Pipe::new(RpcInterface::Srvsvc, RpcFacts::default());
        OpenPipe::new(pipe, &ledger.account(&LedgerHolder::User(user.into())))
    }

    #[test]
    fn early_pipe_read_completes_with_the_response() {
        let pipe = open(&Ledger::unlimited(), "a").unwrap();
        let mut early = pin!(pipe.answer(4096));
        assert!(early.as_mut().now_or_never().is_none());
        assert_eq!(pipe.read(4096), Ok(None));
        pipe.write(&CALL, NOW).unwrap();
        let (answer, more) = early.now_or_never().expect("it was written").unwrap();
        assert!(!more && answer[2] == 3, "a fault");
        let mut late = pin!(pipe.answer(4096));
        assert!(late.as_mut().now_or_never().is_none(), "and only once");
        assert_eq!(pipe.write(&[0; 24], NOW), Err(NtStatus::PIPE_DISCONNECTED));
        assert_eq!(late.now_or_never(), Some(Err(NtStatus::PIPE_DISCONNECTED)));
        assert_eq!(pipe.write(&CALL, NOW), Err(NtStatus::PIPE_DISCONNECTED), "ever after");
    }

    #[test]
    fn unread_responses_of_one_user_leave_memory_to_others() {
        let ledger = Ledger::new(1 << 20, 0);
        let calls = CALL.repeat(4000);
        let mut pipes = Vec::new();
        let refusal = loop {
            let pipe = open(&ledger, "hoarder").unwrap();
            let written = pipe.write(&calls, NOW);
            pipes.push(pipe);
            if let Err(status) = written {
                break status;
            }
        };
        assert_eq!(refusal, NtStatus::INSUFFICIENT_RESOURCES);
        assert!(ledger.usage().used <= 1 << 19, "half of all");
        let refused = pipes.pop().expect("the last one");
        assert_eq!(refused.read(4096), Err(NtStatus::PIPE_DISCONNECTED));
        let other = open(&ledger, "other").unwrap();
        assert_eq!(other.write(&calls, NOW), Ok(()));
        let used = ledger.usage().used;
        assert!(other.read(usize::MAX).is_ok_and(|answer| answer.is_some()));
        assert!(ledger.usage().used + 128_000 <= used, "read is free again");
        drop((pipes, refused, other));
        assert_eq!(ledger.usage().used, 0);
    }

    #[test]
    fn pipe_beyond_the_memory_limit_is_not_opened() {
        let ledger = Ledger::new(16, 0);
        assert_eq!(open(&ledger, "a").unwrap_err(), NtStatus::INSUFFICIENT_RESOURCES);
        assert_eq!(ledger.usage().used, 0);
    }
}
