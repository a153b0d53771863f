//! Received frames: opens, splits and verifies them. It needs no lock, so that the expensive part
//! of receiving runs concurrently with senders. MS-SMB2 3.2.5.1.1 to 3.2.5.1.3.

use crate::error::Error;
use crate::inbound::Frame;
use crate::session::ClientSession;
use std::ops::Range;
use std::sync::Arc;
use wire::codec::Reader;
use wire::crypto::{SigningAlgorithm, SigningKey};
use wire::ntstatus::NtStatus;
use wire::smb::{Flags, Header, MessageId, TransformHeader, next_element};

/// Protocol id of a sealed frame.
const SEALED: [u8; 4] = *b"\xFDSMB";

/// Message id of unsolicited messages.
pub(crate) const UNASKED: MessageId = MessageId(u64::MAX);

/// The keys for frames of one channel.
#[derive(Clone, Debug)]
pub struct Opener {
    pub(crate) session: Arc<ClientSession>,
    pub(crate) signing: Arc<SigningKey>,
}

/// A message of a frame.
#[derive(Clone, Debug)]
pub struct FrameMessage {
    /// Its header.
    pub header: Header,
    /// Position in the frame, including the header.
    pub range: Range<usize>,
    /// The message arrived in a sealed frame.
    pub is_sealed: bool,
}

impl Opener {
    /// True if verifying several frames in a batch is faster.
    pub(crate) fn verifies_together(&self) -> bool {
        self.signing.algorithm() == SigningAlgorithm::AesCmac
    }

    /// Verifies the frames that are one signed message each in a batch. `None` for other frames.
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

    /// Opens a frame in place, and passes each verified message to `take`. `good` is the result of
    /// [`Opener::verify_together`], if it was called.
    ///
    /// # Errors
    /// [`Error::Hostile`] for a frame that is not from the server; the connection must end
    /// then. Otherwise the error of `take`.
    pub fn open(
        &self,
        frame: &mut [u8],
        good: Option<bool>,
        mut take: impl FnMut(&mut [u8], FrameMessage) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let is_sealed = frame.starts_with(&SEALED);
        let mut start = if is_sealed { self.unseal(frame)? } else { 0 };
        loop {
            let header = Header::decode(&mut Reader::new(&frame[start..]))?;
            let range = next_element(frame.len(), start, header.next_command)?;
            self.verify(&mut frame[range.clone()], &header, is_sealed, good)?;
            let next = (header.next_command != 0).then_some(range.end);
            take(frame, FrameMessage { header, range, is_sealed })?;
            match next {
                Some(next) => start = next,
                None => return Ok(()),
            }
        }
    }

    /// Opens a sealed frame; returns the start of its messages.
    fn unseal(&self, frame: &mut [u8]) -> Result<usize, Error> {
        let header = TransformHeader::decode(frame)?;
        let sealing = self.session.sealing.as_ref().ok_or(Error::Hostile(
            "it is encrypted, but \
            the session has no keys",
        ))?;
        if header.session_id != self.session.id {
            return Err(Error::Hostile("it is encrypted for another session"));
        }
        sealing.open.open_in_place(frame).map_err(|_| {
            Error::Hostile(
                "the message cannot be \
            decrypted",
            )
        })?;
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
            return Err(Error::Hostile("a reply that is not encrypted"));
        }
        // Interim responses and notifications are not signed. MS-SMB2 3.2.5.1.3.
        if header.message_id == UNASKED || header.status == NtStatus::PENDING {
            return Ok(());
        }
        if header.flags.contains(Flags::SIGNED) && !self.session.is_guest {
            let good = good.unwrap_or_else(|| self.signing.verify_in_place(message));
            return if good { Ok(()) } else { Err(Error::Hostile("the signature is wrong")) };
        }
        if self.session.signs {
            return Err(Error::Hostile("a reply that is not signed"));
        }
        Ok(())
    }
}
