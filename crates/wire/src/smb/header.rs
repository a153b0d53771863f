//! The header of every SMB2 message. MS-SMB2 2.2.1.

use crate::codec::{DecodeError, Reader, Writer};
use crate::ntstatus::NtStatus;
use crate::smb::ids::{AsyncId, MessageId, SessionId, TreeId};
use std::ops::{BitOr, Range};

/// The command of a message. Unknown numbers are preserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Command(pub u16);

#[allow(missing_docs, reason = "the names are the specification's")]
impl Command {
    pub const NEGOTIATE: Self = Self(0);
    pub const SESSION_SETUP: Self = Self(1);
    pub const LOGOFF: Self = Self(2);
    pub const TREE_CONNECT: Self = Self(3);
    pub const TREE_DISCONNECT: Self = Self(4);
    pub const CREATE: Self = Self(5);
    pub const CLOSE: Self = Self(6);
    pub const FLUSH: Self = Self(7);
    pub const READ: Self = Self(8);
    pub const WRITE: Self = Self(9);
    pub const LOCK: Self = Self(10);
    pub const IOCTL: Self = Self(11);
    pub const CANCEL: Self = Self(12);
    pub const ECHO: Self = Self(13);
    pub const QUERY_DIRECTORY: Self = Self(14);
    pub const CHANGE_NOTIFY: Self = Self(15);
    pub const QUERY_INFO: Self = Self(16);
    pub const SET_INFO: Self = Self(17);
    pub const OPLOCK_BREAK: Self = Self(18);
}

/// Header flags. MS-SMB2 2.2.1.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// Server to client.
    pub const RESPONSE: Self = Self(1);
    /// Carries an async id instead of a tree id.
    pub const ASYNC: Self = Self(2);
    /// Related to the previous request of the chain.
    pub const RELATED: Self = Self(4);
    /// Signed.
    pub const SIGNED: Self = Self(8);
    /// DFS path.
    pub const DFS: Self = Self(0x1000_0000);
    /// SMB2_FLAGS_REPLAY_OPERATION: a replay after a lost connection.
    pub const REPLAY: Self = Self(0x2000_0000);

    /// True if all flags of `other` are set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The SMB2 header in its sync and async forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Credits that the request consumes.
    pub credit_charge: u16,
    /// The status of a response. In requests of 3.x, the lower half holds the channel sequence.
    pub status: NtStatus,
    /// Command.
    pub command: Command,
    /// Credits requested or granted.
    pub credits: u16,
    /// See [`Flags`].
    pub flags: Flags,
    /// Distance to the next message of the compound in bytes; 0 for the last.
    pub next_command: u32,
    /// Message id.
    pub message_id: MessageId,
    /// Process id; in the async form the lower half of the async id.
    pub process_id: u32,
    /// Tree; in the async form, see [`Header::async_id`].
    pub tree_id: TreeId,
    /// Session.
    pub session_id: SessionId,
    /// Signature, or zeros.
    pub signature: [u8; 16],
}

impl Header {
    /// Bytes of a header.
    pub const LENGTH: usize = 64;
    /// Position of the signature.
    pub const SIGNATURE: Range<usize> = 48..64;
    const MAGIC: [u8; 4] = *b"\xFESMB";

    /// Reads a header from the start of a message.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are short, or no SMB2 header.
    #[inline]
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if r.array::<4>("header")? != Self::MAGIC {
            return Err(r.malformed("protocol id"));
        }
        r.structure_size(64, "header size")?;
        let credit_charge = r.u16("header")?;
        let status = NtStatus(r.u32("header")?);
        let command = Command(r.u16("header")?);
        let credits = r.u16("header")?;
        let flags = Flags(r.u32("header")?);
        let next_command = r.u32("header")?;
        let message_id = MessageId(r.u64("header")?);
        let process_id = r.u32("header")?;
        let tree_id = TreeId(r.u32("header")?);
        let session_id = SessionId(r.u64("header")?);
        let signature = r.array("header")?;
        Ok(Self {
            credit_charge,
            status,
            command,
            credits,
            flags,
            next_command,
            message_id,
            process_id,
            tree_id,
            session_id,
            signature,
        })
    }

    /// Appends the header.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let mut bytes = [0; Self::LENGTH];
        self.put(&mut bytes);
        w.bytes(&bytes);
    }

    /// Writes the header over the first [`Header::LENGTH`] bytes of `out`, but preserves a nonzero
    /// `next_command` in it.
    ///
    /// # Panics
    /// If `out` is shorter.
    #[inline]
    pub fn put(&self, out: &mut [u8]) {
        out[0..4].copy_from_slice(&Self::MAGIC);
        out[4..6].copy_from_slice(&64u16.to_le_bytes());
        out[6..8].copy_from_slice(&self.credit_charge.to_le_bytes());
        out[8..12].copy_from_slice(&self.status.0.to_le_bytes());
        out[12..14].copy_from_slice(&self.command.0.to_le_bytes());
        out[14..16].copy_from_slice(&self.credits.to_le_bytes());
        out[16..20].copy_from_slice(&self.flags.0.to_le_bytes());
        out[20..24].copy_from_slice(&self.next_command.to_le_bytes());
        out[24..32].copy_from_slice(&self.message_id.0.to_le_bytes());
        out[32..36].copy_from_slice(&self.process_id.to_le_bytes());
        out[36..40].copy_from_slice(&self.tree_id.0.to_le_bytes());
        out[40..48].copy_from_slice(&self.session_id.0.to_le_bytes());
        out[48..64].copy_from_slice(&self.signature);
    }

    /// The header of the response to this request.
    #[must_use]
    pub fn reply(&self, status: NtStatus, credits: u16) -> Self {
        let kept = Flags(self.flags.0 & (Flags::RELATED.0 | Flags::REPLAY.0));
        Self {
            status,
            credits,
            flags: kept | Flags::RESPONSE,
            next_command: 0,
            signature: [0; 16],
            ..*self
        }
    }

    /// `ChannelSequence` of a request of 3.x: the number of channel failures that the client has
    /// counted. MS-SMB2 2.2.1.2.
    #[must_use]
    pub fn channel_sequence(&self) -> u16 {
        self.status.0 as u16
    }

    /// The async id of an async header.
    #[must_use]
    pub fn async_id(&self) -> AsyncId {
        AsyncId(u64::from(self.process_id) | u64::from(self.tree_id.0) << 32)
    }

    /// Turns the header into its async form.
    pub fn set_async(&mut self, id: AsyncId) {
        self.flags = self.flags | Flags::ASYNC;
        self.process_id = id.0 as u32;
        self.tree_id = TreeId((id.0 >> 32) as u32);
    }

    /// Links an encoded message to the next one of its compound.
    ///
    /// # Panics
    /// If `message` is shorter than a header.
    pub fn set_next_command(message: &mut [u8], distance: u32) {
        message[20..24].copy_from_slice(&distance.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips_and_rejects_truncation() {
        let header = Header {
            credit_charge: 2,
            status: NtStatus::ACCESS_DENIED,
            command: Command::READ,
            credits: 3,
            flags: Flags::RESPONSE | Flags::SIGNED,
            next_command: 72,
            message_id: MessageId(0x1122_3344_5566_7788),
            process_id: 0xFEFF,
            tree_id: TreeId(5),
            session_id: SessionId(6),
            signature: [7; 16],
        };
        let mut bytes = Vec::new();
        header.encode(&mut Writer::new(&mut bytes));
        assert_eq!(bytes.len(), Header::LENGTH);
        assert_eq!(Header::decode(&mut Reader::new(&bytes)), Ok(header));
        for length in 0..bytes.len() {
            assert!(Header::decode(&mut Reader::new(&bytes[..length])).is_err());
        }
    }

    #[test]
    fn async_id_replaces_process_and_tree_id() {
        let request = Header {
            credit_charge: 1,
            status: NtStatus::SUCCESS,
            command: Command::LOCK,
            credits: 1,
            flags: Flags::SIGNED,
            next_command: 0,
            message_id: MessageId(9),
            process_id: 1,
            tree_id: TreeId(2),
            session_id: SessionId(3),
            signature: [0; 16],
        };
        let mut reply = request.reply(NtStatus::PENDING, 1);
        reply.set_async(AsyncId(0x0000_0007_0000_0008));
        assert_eq!(reply.async_id(), AsyncId(0x0000_0007_0000_0008));
        assert!(reply.flags.contains(Flags::ASYNC | Flags::RESPONSE));
        assert!(!reply.flags.contains(Flags::SIGNED));
    }
}
