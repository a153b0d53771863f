//! One open of a named pipe: who reads before there is an answer waits for it.
//! MS-SMB2 3.3.5.12 (named pipes).

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use wire::ntstatus::NtStatus;
use wire::rpc::Pipe;

/// A pipe, and who waits for its answers. Waiting reads are bounded as all
/// requests that wait.
#[derive(Debug)]
pub struct OpenPipe {
    pipe: Mutex<Pipe>,
    readers: Mutex<Vec<Waker>>,
}

/// Bytes of an answer; the flag says that it goes on.
pub type Answered = (Vec<u8>, bool);

impl OpenPipe {
    /// A pipe that nobody has used.
    #[must_use]
    pub fn new(pipe: Pipe) -> Self {
        Self { pipe: Mutex::new(pipe), readers: Mutex::default() }
    }

    /// Takes bytes of the client.
    ///
    /// # Errors
    /// `PIPE_DISCONNECTED` for what is no remote procedure call.
    pub fn write(&self, bytes: &[u8]) -> Result<(), NtStatus> {
        let written = self.pipe().write(bytes).map_err(|_| NtStatus::PIPE_DISCONNECTED);
        let readers = std::mem::take(&mut *lock(&self.readers));
        readers.into_iter().for_each(Waker::wake);
        written
    }

    /// Up to `count` bytes of an answer, if there is one.
    #[must_use]
    pub fn read(&self, count: usize) -> Option<Answered> {
        let mut pipe = self.pipe();
        (pipe.available() > 0).then(|| pipe.read(count))
    }

    /// As [`OpenPipe::read`], as soon as there is an answer. May be dropped at any time.
    pub async fn answer(&self, count: usize) -> Answered {
        poll_fn(|cx| {
            if let Some(answered) = self.read(count) {
                return Poll::Ready(answered);
            }
            let mut readers = lock(&self.readers);
            if !readers.iter().any(|reader| reader.will_wake(cx.waker())) {
                readers.push(cx.waker().clone());
            }
            drop(readers);
            // Written between the two looks: the waker may have been missed.
            self.read(count).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Writes a call and reads its answer. MS-SMB2 3.3.5.15.
    ///
    /// # Errors
    /// `PIPE_BUSY` while an older answer waits, and those of [`OpenPipe::write`].
    pub fn transceive(&self, bytes: &[u8], count: usize) -> Result<Answered, NtStatus> {
        let mut pipe = self.pipe();
        if pipe.available() > 0 {
            return Err(NtStatus::PIPE_BUSY);
        }
        pipe.write(bytes).map_err(|_| NtStatus::PIPE_DISCONNECTED)?;
        Ok(pipe.read(count))
    }

    /// Up to `count` bytes of what waits to be read, without taking them, and
    /// how many there are.
    #[must_use]
    pub fn peek(&self, count: usize) -> (Vec<u8>, usize) {
        let pipe = self.pipe();
        (pipe.peek(count).to_vec(), pipe.available())
    }

    fn pipe(&self) -> MutexGuard<'_, Pipe> {
        lock(&self.pipe)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;
    use wire::rpc::{Interface, RpcFacts};

    /// A call of no known number, which is answered with a fault.
    const CALL: [u8; 24] =
        [5, 0, 0, 3, 16, 0, 0, 0, 24, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 200, 0];

    #[test]
    fn who_reads_too_early_has_the_answer_once_it_is_there() {
        let pipe = OpenPipe::new(Pipe::new(Interface::Srvsvc, RpcFacts::default()));
        let mut early = pin!(pipe.answer(4096));
        assert!(early.as_mut().now_or_never().is_none());
        assert!(pipe.read(4096).is_none());
        pipe.write(&CALL).unwrap();
        let (answer, more) = early.now_or_never().expect("it was written");
        assert!(!more && answer[2] == 3, "a fault");
        assert!(pipe.answer(4096).now_or_never().is_none(), "and only once");
        assert_eq!(pipe.write(&[0; 24]), Err(NtStatus::PIPE_DISCONNECTED));
    }
}
