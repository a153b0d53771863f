//! Parts of messages that several requests share: paths, information classes, bodies of replies.

use crate::error::Error;
use crate::slots::ChannelReply;
use std::ops::Range;
use wire::codec::{Reader, put_utf16};
use wire::fscc::FileTime;
use wire::ntstatus::NtStatus;
use wire::smb::{Command, Header, ReadResponse};

/// A reader of the message behind its header.
pub(crate) fn body_of(reply: &ChannelReply) -> Result<Reader<'_>, Error> {
    let mut r = Reader::new(&reply.message);
    r.skip(Header::LENGTH, "header")?;
    Ok(r)
}

pub(crate) fn judged(reply: Option<ChannelReply>, command: Command) -> Result<ChannelReply, Error> {
    let reply = reply.ok_or(Error::Hostile("a chain with too few responses"))?;
    match reply.header.status {
        NtStatus::SUCCESS => Ok(reply),
        status => Err(Error::Refused(command, status)),
    }
}

/// Encodes a path for the wire.
pub(crate) fn utf16_path(path: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len() * 2);
    put_utf16(&mut out, path.replace('/', "\\").trim_matches('\\'));
    out
}

/// FileBasicInformation. MS-FSCC 2.4.7.
#[must_use]
pub fn basic_information(times: [FileTime; 4], attributes: u32) -> [u8; 40] {
    let mut out = [0; 40];
    for (at, time) in times.iter().enumerate() {
        out[at * 8..at * 8 + 8].copy_from_slice(&time.0.to_le_bytes());
    }
    out[32..36].copy_from_slice(&attributes.to_le_bytes());
    out
}

/// FileRenameInformation. MS-FSCC 2.4.42.2.
#[must_use]
pub(crate) fn rename_information(to: &str, replaces: bool) -> Vec<u8> {
    let name = utf16_path(to);
    let mut input = vec![0; 16];
    input[0] = u8::from(replaces);
    input.extend_from_slice(&(name.len() as u32).to_le_bytes());
    input.extend_from_slice(&name);
    input
}

/// Position of a READ's data in its response.
pub(crate) fn data_of(message: &[u8], length_bytes_max: u32) -> Result<Range<usize>, Error> {
    let mut r = Reader::new(message);
    r.skip(Header::LENGTH, "header")?;
    let data = ReadResponse::decode(&mut r)?;
    if data.len() > length_bytes_max as usize {
        return Err(Error::Hostile("more data than requested"));
    }
    if data.is_empty() {
        return Ok(0..0);
    }
    let start = usize::from(message[Header::LENGTH + ReadResponse::OFFSET_FIELD]);
    Ok(start..start + data.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_encoded_relative_with_backslashes() {
        let text = |path| String::from_utf8(utf16_path(path)).unwrap().replace('\0', "");
        assert_eq!(text("/a/b\\c/"), "a\\b\\c");
        assert_eq!(text(""), "");
    }

    #[test]
    fn set_information_has_the_specified_layout() {
        let times = [FileTime(1), FileTime(2), FileTime(3), FileTime(4)];
        let basic = basic_information(times, 0x20);
        assert_eq!(basic[..9], [1, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(basic[24..], [4, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0]);
        let rename = rename_information("/a/b", true);
        assert_eq!(rename[..20], [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0]);
        assert_eq!(rename[20..], *b"a\0\\\0b\0");
        assert_eq!(rename_information("x", false)[0], 0);
    }

    #[test]
    fn read_data_is_located_and_may_be_empty() {
        let mut message = vec![0; Header::LENGTH];
        message.extend_from_slice(b"\x11\0\x52\0\x04\0\0\0\0\0\0\0\0\0\0\0..data");
        assert_eq!(data_of(&message, 4), Ok(82..86));
        assert!(data_of(&message, 3).is_err(), "more than was asked for");
        message[Header::LENGTH + 4] = 5;
        assert!(data_of(&message, 9).is_err(), "behind the end");
        message[Header::LENGTH + 4] = 0;
        assert_eq!(data_of(&message, 4), Ok(0..0));
    }
}
