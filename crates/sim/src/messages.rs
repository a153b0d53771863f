//! Encodes requests and decodes responses without the server's decoders. MS-SMB2 2.2.

use crate::model::{CELL_BYTES, Cells, FileOperation, ModelRequest, NAMES, kinds};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use wire::codec::Writer;
use wire::fscc;
use wire::ntlm::NtHash;
use wire::smb::{CloseRequest, Command, CreateRequest, FileId, Flags, Header, MessageId};
use wire::smb::{ReadRequest, SessionId, TreeId, WriteRequest};

/// An unframed message.
#[derive(Clone, Debug)]
pub struct UnframedMessage {
    /// Command.
    pub command: Command,
    /// The body behind the header.
    pub body: Vec<u8>,
    /// The request is related to the previous one.
    pub is_related: bool,
}

/// Encodes text as UTF-16LE.
#[must_use]
pub fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let mut mac = Hmac::<Md5>::new_from_slice(key).expect("any key will do");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// The header of a request.
#[must_use]
pub fn header(command: Command, id: u64, credits: u16) -> Header {
    Header {
        credit_charge: 1,
        status: wire::ntstatus::NtStatus::SUCCESS,
        command,
        credits,
        flags: Flags::default(),
        next_command: 0,
        message_id: MessageId(id),
        process_id: 0xFEFF,
        tree_id: TreeId(0),
        session_id: SessionId(0),
        signature: [0; 16],
    }
}

/// The bytes that an encoder writes.
#[must_use]
pub fn encoded(encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut Writer::new(&mut bytes));
    bytes
}

/// A body from the wire crate's encoder, whose offsets count from the header.
pub fn body(encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = vec![0; Header::LENGTH];
    encode(&mut Writer::with_origin(&mut bytes, 0));
    bytes.split_off(Header::LENGTH)
}

/// NEGOTIATE for dialect 2.1, or for 3.1.1 with signing by AES-GMAC.
#[must_use]
pub fn negotiate(is_signed: bool) -> Vec<u8> {
    let (dialect, contexts): (u16, u16) = if is_signed { (0x0311, 2) } else { (0x0210, 0) };
    body(|w| {
        w.u16(36);
        w.u16(1);
        w.u16(1); // SMB2_NEGOTIATE_SIGNING_ENABLED
        w.zeros(2 + 4 + 16);
        w.u32(if is_signed { 104 } else { 0 });
        w.u16(contexts);
        w.u16(0);
        w.u16(dialect);
        if is_signed {
            w.align(8);
            w.u16(1); // SMB2_PREAUTH_INTEGRITY_CAPABILITIES
            w.u16(6);
            w.u32(0);
            [1, 0, 1].into_iter().for_each(|n| w.u16(n)); // SHA-512, no salt
            w.align(8);
            w.u16(8); // SMB2_SIGNING_CAPABILITIES
            w.u16(4);
            w.u32(0);
            [1, 2].into_iter().for_each(|n| w.u16(n)); // AES-GMAC
        }
    })
}

/// SESSION_SETUP with a security token.
#[must_use]
pub fn session_setup(token: &[u8]) -> Vec<u8> {
    body(|w| {
        w.u16(25);
        w.u8(0);
        w.u8(1);
        w.zeros(8);
        w.u16(88);
        w.u16(token.len() as u16);
        w.zeros(8);
        w.bytes(token);
    })
}

/// 128, NTLM2, ALWAYS_SIGN, NTLM, TARGET, UNICODE.
const NTLM_FLAGS: u32 = 0x2008_8205;

/// The NTLM NEGOTIATE token, without SPNEGO.
#[must_use]
pub fn ntlm_negotiate() -> Vec<u8> {
    [&b"NTLMSSP\0\x01\0\0\0"[..], &NTLM_FLAGS.to_le_bytes(), &[0; 16]].concat()
}

/// The NTLM AUTHENTICATE token for a challenge, and the session key.
#[must_use]
pub fn ntlm_authenticate(user: &str, password: &str, challenge: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let hash = NtHash::of_password(password).ntowf_v2(user, "");
    let mut blob = vec![1, 1];
    blob.extend_from_slice(&[0; 26 + 4]);
    let proof = hmac(&hash, &[challenge, &blob]);
    let (nt, name) = ([&proof[..], &blob].concat(), utf16(user));
    let mut token = b"NTLMSSP\0\x03\0\0\0".to_vec();
    let mut offset = 64u32;
    for length in [0, nt.len(), 0, name.len(), 0, 0] {
        let length = length as u16;
        token.extend_from_slice(&length.to_le_bytes());
        token.extend_from_slice(&length.to_le_bytes());
        token.extend_from_slice(&offset.to_le_bytes());
        offset += u32::from(length);
    }
    token.extend_from_slice(&NTLM_FLAGS.to_le_bytes());
    token.extend_from_slice(&nt);
    token.extend_from_slice(&name);
    (token, hmac(&hash, &[&proof]))
}

/// TREE_CONNECT.
#[must_use]
pub fn tree_connect(share: &str) -> Vec<u8> {
    let path = utf16(&format!("\\\\SIM\\{share}"));
    body(|w| {
        w.u16(9);
        w.u16(0);
        w.u16(72);
        w.u16(path.len() as u16);
        w.bytes(&path);
    })
}

/// The body of CANCEL, ECHO and similar requests.
#[must_use]
pub fn empty() -> Vec<u8> {
    vec![4, 0, 0, 0]
}

fn offset(cells: Cells) -> u64 {
    u64::from(cells.at) * CELL_BYTES as u64
}

fn length(cells: Cells) -> u32 {
    u32::from(cells.count) * CELL_BYTES as u32
}

/// Encodes a request of the model. `file` is its open, and `quirk` selects among equivalent forms.
#[must_use]
pub fn message(request: &ModelRequest, file: FileId, quirk: u64) -> UnframedMessage {
    let (command, body) = match request.op {
        FileOperation::Close { .. } => {
            let flags = (quirk % 2) as u16 * CloseRequest::POSTQUERY_ATTRIBUTES;
            (Command::CLOSE, body(|w| CloseRequest { flags, file_id: file }.encode(w)))
        }
        FileOperation::Create { .. } => (Command::CREATE, create(&request.op, quirk)),
        FileOperation::Dispose { delete, .. } => {
            (Command::SET_INFO, set_info(13, file, &[u8::from(delete)]))
        }
        FileOperation::Flush { .. } => (
            Command::FLUSH,
            body(|w| {
                w.u16(24);
                w.zeros(6);
                file.encode(w);
            }),
        ),
        FileOperation::Lock { lock: cells, exclusive, waits, .. } => {
            let kind = if exclusive { 2 } else { 1 };
            (Command::LOCK, lock(file, cells, if waits { kind } else { kind | 0x10 }))
        }
        FileOperation::Unlock { lock: cells, .. } => (Command::LOCK, lock(file, cells, 4)),
        FileOperation::Read { cells, .. } => (
            Command::READ,
            body(|w| {
                let (offset_bytes, length_bytes) = (offset(cells), length(cells));
                let read = ReadRequest {
                    flags: 0,
                    length_bytes,
                    offset_bytes,
                    file_id: file,
                    minimum_bytes: 0,
                };
                read.encode(w);
            }),
        ),
        FileOperation::Rename { to, replace, .. } => {
            (Command::SET_INFO, rename(file, NAMES[usize::from(to)], replace))
        }
        FileOperation::SetSize { count, .. } => {
            let size = length(Cells { at: 0, count });
            (Command::SET_INFO, set_info(20, file, &u64::from(size).to_le_bytes()))
        }
        FileOperation::Write { cells, through, .. } => {
            let data = vec![request.stamp(); length(cells) as usize];
            let flags = if through { WriteRequest::WRITE_THROUGH } else { 0 };
            let write =
                WriteRequest { offset_bytes: offset(cells), file_id: file, flags, data: &data };
            (Command::WRITE, body(|w| write.encode(w)))
        }
    };
    UnframedMessage { command, body, is_related: false }
}

/// OPLOCK_BREAK acknowledgment, retaining a level.
#[must_use]
pub fn oplock_break(file: FileId, level: u8) -> Vec<u8> {
    body(|w| {
        w.u16(24);
        w.u8(level);
        w.zeros(5);
        file.encode(w);
    })
}

/// Lease break acknowledgment, retaining `state`. MS-SMB2 2.2.24.2.
#[must_use]
pub fn lease_acknowledgment(key: [u8; 16], state: u8) -> Vec<u8> {
    body(|w| {
        w.u16(36);
        w.zeros(2 + 4);
        w.bytes(&key);
        w.u32(state.into());
        w.zeros(8);
    })
}

fn create(op: &FileOperation, quirk: u64) -> Vec<u8> {
    let FileOperation::Create { name, access, share, disposition, delete_on_close } = *op else {
        return Vec::new();
    };
    let name = NAMES[usize::from(name)];
    // Names are case-insensitive. A request that may create a file always uses the same spelling.
    // Concurrent creations with two spellings give two files, unless a name index prevents that.
    let makes = ![fscc::FILE_OPEN, fscc::FILE_OVERWRITE].contains(&disposition);
    let respelt = !makes && quirk.is_multiple_of(4);
    let name = utf16(&if respelt { name.to_uppercase() } else { name.to_owned() });
    let right = |kind, mask| if access & kind != 0 { mask } else { 0 };
    let rights = right(kinds::READ, 1) | right(kinds::WRITE, 2) | right(kinds::DELETE, 0x1_0000);
    let request = CreateRequest {
        oplock: [0, 0, 1, 8, 9][(quirk / 4 % 5) as usize],
        impersonation: 2,
        desired_access: rights | 0x10_0080, // SYNCHRONIZE, FILE_READ_ATTRIBUTES
        attributes: 0,
        share_access: u32::from(share),
        disposition,
        options: 0x40 | if delete_on_close { 0x1000 } else { 0 }, // NON_DIRECTORY_FILE, DELETE_ON_CLOSE
        name: &name,
        contexts: &[],
    };
    body(|w| request.encode(w))
}

fn lock(file: FileId, cells: Cells, flags: u32) -> Vec<u8> {
    body(|w| {
        w.u16(48);
        w.u16(1);
        w.u32(0);
        file.encode(w);
        w.u64(offset(cells));
        w.u64(u64::from(length(cells)));
        w.u32(flags);
        w.u32(0);
    })
}

/// SET_INFO that renames an open file.
#[must_use]
pub fn rename(file: FileId, to: &str, replace: bool) -> Vec<u8> {
    let name = utf16(to);
    let mut info = vec![u8::from(replace)];
    info.extend_from_slice(&[0; 15]);
    info.extend_from_slice(&(name.len() as u32).to_le_bytes());
    info.extend_from_slice(&name);
    set_info(10, file, &info)
}

fn set_info(class: u8, file: FileId, info: &[u8]) -> Vec<u8> {
    body(|w| {
        w.u16(33);
        w.u8(1); // SMB2_0_INFO_FILE
        w.u8(class);
        w.u32(info.len() as u32);
        w.u16(96);
        w.zeros(2 + 4);
        file.encode(w);
        w.bytes(info);
    })
}
