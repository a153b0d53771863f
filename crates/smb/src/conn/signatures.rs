//! Batch verification of signed requests that arrived together: AES-CMAC takes a fraction of the
//! time of single verifications.

use crate::session::channel::SessionChannel;
use crate::session::state::IdHash;
use bytes::BytesMut;
use meter::StageTimes;
use std::collections::HashMap;
use std::sync::Arc;
use wire::codec::Reader;
use wire::crypto::SigningAlgorithm;
use wire::smb::{Command, Flags, Header};

/// Result of the batch verification of one frame. It is valid only for the channel whose key was
/// used, because an earlier frame may end the session or begin another.
#[derive(Debug)]
pub struct SignatureCheck {
    channel: Arc<SessionChannel>,
    is_good: bool,
}

impl SignatureCheck {
    /// True if the signature is valid; none if another channel's key was used.
    pub(crate) fn is_good_for(&self, channel: &Arc<SessionChannel>) -> Option<bool> {
        Arc::ptr_eq(&self.channel, channel).then_some(self.is_good)
    }
}

/// The channels of a connection, by session id.
pub(crate) type Channels = HashMap<u64, Arc<SessionChannel>, IdHash>;

/// True if batch verification pays for these channels.
pub(crate) fn verifies_together(channels: &Channels) -> bool {
    channels.values().any(|c| c.signing.algorithm() == SigningAlgorithm::AesCmac)
}

/// Verifies the signatures of frames that hold one signed request each, of one channel. Returns a
/// result for each frame.
pub(crate) fn verify_together(
    channels: &Channels,
    stages: &StageTimes,
    frames: &mut [BytesMut],
) -> Vec<Option<SignatureCheck>> {
    let mut known: Vec<Option<SignatureCheck>> = frames.iter().map(|_| None).collect();
    let mut first = None;
    let mut messages = Vec::new();
    let mut places = Vec::new();
    for (at, frame) in frames.iter_mut().enumerate() {
        let Some(signer) = signer(channels, frame) else { continue };
        if Arc::ptr_eq(first.get_or_insert_with(|| signer.clone()), &signer) {
            messages.push(&mut frame[..]);
            places.push(at);
        }
    }
    let Some(channel) = first else { return known };
    let all = stages.crypto(|| channel.signing.verify_all(&mut messages));
    for (at, is_good) in places.into_iter().zip(all) {
        known[at] = Some(SignatureCheck { channel: channel.clone(), is_good });
    }
    known
}

/// The channel whose key signed a frame, if the frame is one request signed with AES-CMAC.
fn signer(channels: &Channels, frame: &[u8]) -> Option<Arc<SessionChannel>> {
    let header = Header::decode(&mut Reader::new(frame)).ok()?;
    let is_alone = header.next_command == 0 && header.flags.contains(Flags::SIGNED);
    // SESSION_SETUP and CANCEL have signing rules of their own.
    let is_plain = header.command != Command::SESSION_SETUP && header.command != Command::CANCEL;
    let channel = channels.get(&header.session_id.0).filter(|_| is_alone && is_plain)?;
    (channel.signing.algorithm() == SigningAlgorithm::AesCmac).then(|| channel.clone())
}
