//! Frames from the server: opened, cut into messages, each verified. Needs no
//! lock, so the costly part of receiving is done beside the senders.
//! MS-SMB2 3.2.5.1.1 to 3.2.5.1.3.

use crate::error::Error;
use crate::inbound::Frame;
use crate::session::Session;
use std::ops::Range;
use std::sync::Arc;
use wire::codec::Reader;
use wire::crypto::{SigningAlgorithm, SigningKey};
use wire::ntstatus::NtStatus;
use wire::smb::{Flags, Header, MessageId, TransformHeader, next_element};

/// First bytes of a sealed frame.
const SEALED: [u8; 4] = *b"\xFDSMB";

/// Messages that no request asked for carry this number.
pub(crate) const UNASKED: MessageId = MessageId(u64::MAX);

/// The keys that frames of one channel are opened with.
#[derive(Clone, Debug)]
pub struct Opener {
    pub(crate) session: Arc<Session>,
    pub(crate) signing: Arc<SigningKey>,
}

/// A message of a frame.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its header.
    pub header: Header,
    /// Where in the frame it is, header and all.
    pub range: Range<usize>,
    /// It came in a sealed frame.
    pub is_sealed: bool,
}

impl Opener {
    /// Whether several frames are verified together in less time than one by one.
    pub(crate) fn verifies_together(&self) -> bool {
        self.signing.algorithm() == SigningAlgorithm::AesCmac
    }

    /// Looks at the signatures of frames that are one signed message each; says for each whether
    /// it is good, or nothing of other frames.
    pub(crate) fn verify_together(&self, frames: &mut [Frame]) -> Vec<Option<bool>> {
        let mut messages = Vec::new();
        let mut places = Vec::new();
        for (at, frame) in frames.iter_mut().enumerate() {
            let message = &mut frame.buffer[..frame.length];
            let Ok(header) = Header::decode(&mut Reader::new(message)) else { continue };
            if header.next_command == 0 && header.flags.contains(Flags::SIGNED) {
                messages.push(message);
                places.push(at);
            }
        }
        let good = self.signing.verify_all(&mut messages);
        let mut all = vec![None; frames.len()];
        for (at, good) in places.into_iter().zip(good) {
            all[at] = Some(good);
        }
        all
    }

    /// Opens a frame in place and hands each message to `take`, verified. `good` is what
    /// [`Opener::verify_together`] said of it, if it was asked.
    ///
    /// # Errors
    /// [`Error::Hostile`] for whatever is not from our server; the connection
    /// must end then. Otherwise the error of `take`.
    pub fn open(
        &self,
        frame: &mut [u8],
        good: Option<bool>,
        mut take: impl FnMut(&mut [u8], Message) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let is_sealed = frame.starts_with(&SEALED);
        let mut start = if is_sealed { self.unseal(frame)? } else { 0 };
        loop {
            let header = Header::decode(&mut Reader::new(&frame[start..]))?;
            let range = next_element(frame.len(), start, header.next_command)?;
            self.verify(&mut frame[range.clone()], &header, is_sealed, good)?;
            let next = (header.next_command != 0).then_some(range.end);
            take(frame, Message { header, range, is_sealed })?;
            match next {
                Some(next) => start = next,
                None => return Ok(()),
            }
        }
    }

    /// Opens a sealed frame; gives where its messages start.
    fn unseal(&self, frame: &mut [u8]) -> Result<usize, Error> {
        let header = TransformHeader::decode(frame)?;
        let sealing = self.session.sealing.as_ref().ok_or(Error::Hostile("sealed without keys"))?;
        if header.session_id != self.session.id {
            return Err(Error::Hostile("sealed for another session"));
        }
        sealing.open.open_in_place(frame).map_err(|_| Error::Hostile("the seal is broken"))?;
        Ok(TransformHeader::LENGTH)
    }

    fn verify(
        &self,
        message: &mut [u8],
        header: &Header,
        is_sealed: bool,
        good: Option<bool>,
    ) -> Result<(), Error> {
        if !header.flags.contains(Flags::RESPONSE) {
            return Err(Error::Hostile("not a response"));
        }
        if is_sealed {
            return Ok(());
        }
        if self.session.seals {
            return Err(Error::Hostile("an answer that is not sealed"));
        }
        // Interim answers and notices are not signed. MS-SMB2 3.2.5.1.3.
        if header.message_id == UNASKED || header.status == NtStatus::PENDING {
            return Ok(());
        }
        if header.flags.contains(Flags::SIGNED) && !self.session.is_guest {
            let good = good.unwrap_or_else(|| self.signing.verify_in_place(message));
            return if good { Ok(()) } else { Err(Error::Hostile("the signature is wrong")) };
        }
        if self.session.signs {
            return Err(Error::Hostile("an answer that is not signed"));
        }
        Ok(())
    }
}
