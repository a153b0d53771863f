//! Upper bounds of response sizes, computed before a request runs.

use crate::limits::FRAME_BYTES_MAX;
use wire::codec::Reader;
use wire::smb::{
    Command, Header, IoctlRequest, QueryDirectoryRequest, QueryInfoRequest, ReadRequest,
};

/// Bytes of data that the response to one request may contain, by the client's buffer size. A
/// malformed request gets an error without data. Requests that wait contain none until they
/// complete.
#[must_use]
pub(crate) fn response_bytes_max(command: Command, message: &[u8]) -> usize {
    let mut r = Reader::new(message);
    if r.skip(Header::LENGTH, "header").is_err() {
        return 0;
    }
    let bytes = match command {
        Command::READ => ReadRequest::decode(&mut r).map(|read| read.length_bytes),
        Command::QUERY_INFO => QueryInfoRequest::decode(&mut r).map(|query| query.output_bytes),
        Command::QUERY_DIRECTORY => {
            QueryDirectoryRequest::decode(&mut r).map(|query| query.output_bytes)
        }
        Command::IOCTL => IoctlRequest::decode(&mut r).map(|ioctl| ioctl.output_bytes_max),
        _ => Ok(0),
    };
    (bytes.unwrap_or_default() as usize).min(FRAME_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &[u8]) -> Vec<u8> {
        [&[0; Header::LENGTH], body].concat()
    }

    fn read(length: u32) -> Vec<u8> {
        let mut body = vec![0; 49];
        body[..2].copy_from_slice(&49_u16.to_le_bytes());
        body[4..8].copy_from_slice(&length.to_le_bytes());
        message(&body)
    }

    #[test]
    fn response_size_is_bounded_by_the_client_buffer_and_the_frame() {
        assert_eq!(response_bytes_max(Command::READ, &read(1 << 20)), 1 << 20);
        assert_eq!(response_bytes_max(Command::READ, &read(u32::MAX)), FRAME_BYTES_MAX);
        assert_eq!(response_bytes_max(Command::READ, &read(9)[..80]), 0, "malformed");
        assert_eq!(response_bytes_max(Command::ECHO, &read(9)), 0);
        assert_eq!(response_bytes_max(Command::READ, b""), 0);
    }

    #[test]
    fn listing_size_is_bounded_by_the_client_buffer() {
        let mut body = vec![0; 34];
        body[..2].copy_from_slice(&33_u16.to_le_bytes());
        body[24..26].copy_from_slice(&96_u16.to_le_bytes());
        body[26..28].copy_from_slice(&2_u16.to_le_bytes());
        body[28..32].copy_from_slice(&65_536_u32.to_le_bytes());
        assert_eq!(response_bytes_max(Command::QUERY_DIRECTORY, &message(&body)), 65_536);
    }
}
