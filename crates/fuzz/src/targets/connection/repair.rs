//! Repairs fields that random changes always break: message ids, and ids that the server issued.

use wire::codec::Reader;
use wire::smb::{Command, Flags, Header, next_element};

/// Bits of a frame's length.
pub const LENGTH: u16 = 0x1FFF;
/// Leaves message ids unrepaired.
const KEEP_MESSAGE_IDS: u16 = 0x8000;
/// Leaves session, tree and signature unrepaired.
const KEEP_SESSION: u16 = 0x4000;
/// Leaves the ids of opens unrepaired.
const KEEP_FILE_IDS: u16 = 0x2000;

/// Opens that requests refer to.
const OPENS: u8 = 4;

/// The ids that a client would know.
#[derive(Debug, Default)]
pub struct Repair {
    /// The next message id.
    pub next_id: u64,
    /// The session.
    pub session: u64,
    /// The tree.
    pub tree: u32,
}

impl Repair {
    /// Gives every message of a frame the next id.
    pub fn message_ids(&mut self, flags: u16, frame: &mut [u8]) {
        if flags & KEEP_MESSAGE_IDS != 0 {
            return;
        }
        for_each_message(frame, |header, message| {
            message[24..32].copy_from_slice(&self.next_id.to_le_bytes());
            self.next_id += u64::from(header.credit_charge.max(1));
        });
    }

    /// Puts every message into the session.
    pub fn requests(&self, flags: u16, frame: &mut [u8]) {
        for_each_message(frame, |header, message| {
            if flags & KEEP_SESSION == 0 {
                let unsigned = header.flags.0 & !Flags::SIGNED.0;
                message[16..20].copy_from_slice(&unsigned.to_le_bytes());
                message[36..40].copy_from_slice(&self.tree.to_le_bytes());
                message[40..48].copy_from_slice(&self.session.to_le_bytes());
            }
            if let Some(at) = file_id_at(header.command).filter(|_| flags & KEEP_FILE_IDS == 0)
                && let Some(id) = message.get_mut(Header::LENGTH + at..Header::LENGTH + at + 16)
                && id != [0xFF; 16]
            {
                let number = u64::from(1 + id[0] % OPENS).to_le_bytes();
                id.copy_from_slice(&[number, number].concat());
            }
        });
    }
}

/// FileAllocationInformation. MS-FSCC 2.4.4.
const ALLOCATION: u8 = 19;

/// Removes requests that would allocate storage without data, and fill the disk of the test
/// machine.
pub fn remove_allocations(frame: &mut [u8]) {
    for_each_message(frame, |header, message| {
        if header.command == Command::SET_INFO && message.get(67) == Some(&ALLOCATION) {
            message[67] = 0;
        }
        if header.command == Command::CREATE {
            while let Some(at) = message.windows(4).position(|name| name == b"AlSi") {
                message[at] = b'a';
            }
        }
    });
}

/// Offset of the FileId in a request's body.
fn file_id_at(command: Command) -> Option<usize> {
    match command {
        Command::QUERY_INFO => Some(24),
        Command::READ | Command::WRITE | Command::SET_INFO => Some(16),
        Command::CLOSE
        | Command::FLUSH
        | Command::LOCK
        | Command::IOCTL
        | Command::QUERY_DIRECTORY
        | Command::CHANGE_NOTIFY
        | Command::OPLOCK_BREAK => Some(8),
        _ => None,
    }
}

/// Calls `change` for the messages of a compound, up to the first malformed one.
fn for_each_message(frame: &mut [u8], mut change: impl FnMut(&Header, &mut [u8])) {
    let mut start = 0;
    while let Ok(header) = Header::decode(&mut Reader::new(&frame[start..])) {
        let Ok(range) = next_element(frame.len(), start, header.next_command) else { return };
        change(&header, &mut frame[range.clone()]);
        if header.next_command == 0 {
            return;
        }
        start = range.end;
    }
}
