//! The create context AAPL, with which Apple's clients query server capabilities, and the directory
//! entry format that it enables. Apple publishes it as the source of its client (`smb_2.h`,
//! `smb_smb_2.c`).

use crate::codec::{DecodeError, Reader, Writer, put_utf16};

/// kAAPL_SERVER_QUERY, the only supported command.
const SERVER_QUERY: u32 = 1;
/// Parts of the response.
const SERVER_CAPABILITIES: u64 = 1;
const VOLUME_CAPABILITIES: u64 = 2;
const MODEL: u64 = 4;

/// Capabilities of a client or a server.
#[allow(missing_docs, reason = "the names are the specification's")]
pub mod apple_capabilities {
    pub const DIRECTORY_DETAILS: u64 = 1;
    pub const COPY_FILE: u64 = 2;
    pub const UNIX_BASED: u64 = 4;
    pub const NFS_ENTRIES: u64 = 8;
}

/// Capabilities of a volume.
#[allow(missing_docs, reason = "the names are the specification's")]
pub mod apple_volume {
    pub const RESOLVE_ID: u64 = 1;
    pub const CASE_SENSITIVE: u64 = 2;
    pub const FULL_SYNC: u64 = 4;
}

/// The AAPL request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppleQuery {
    /// Requested parts.
    parts: u64,
    /// See [`apple_capabilities`].
    pub capabilities: u64,
}

impl AppleQuery {
    /// Reads the context's data.
    ///
    /// # Errors
    /// [`DecodeError`] if the data has another length, or contains another command.
    pub fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(data);
        let command = r.u32("AAPL")?;
        r.skip(4, "AAPL")?;
        let query = Self { parts: r.u64("AAPL")?, capabilities: r.u64("AAPL")? };
        if command != SERVER_QUERY || r.remaining() > 0 {
            return Err(r.malformed("AAPL"));
        }
        Ok(query)
    }

    /// True if the client requests the server's capabilities. Without that they are not in force.
    #[must_use]
    pub fn requests_server_capabilities(&self) -> bool {
        self.parts & SERVER_CAPABILITIES != 0
    }
}

/// The AAPL response of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppleAnswer<'a> {
    /// See [`apple_capabilities`].
    pub server: u64,
    /// See [`apple_volume`].
    pub volume: u64,
    /// Machine model, whose icon clients display.
    pub model: &'a str,
}

impl AppleAnswer<'_> {
    /// Encodes the requested parts.
    #[must_use]
    pub fn encode(&self, query: &AppleQuery) -> Vec<u8> {
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        let parts = query.parts & (SERVER_CAPABILITIES | VOLUME_CAPABILITIES | MODEL);
        w.u32(SERVER_QUERY);
        w.u32(0);
        w.u64(parts);
        if parts & SERVER_CAPABILITIES != 0 {
            w.u64(self.server);
        }
        if parts & VOLUME_CAPABILITIES != 0 {
            w.u64(self.volume);
        }
        if parts & MODEL != 0 {
            w.u32(0);
            w.u32((self.model.encode_utf16().count() * 2) as u32);
            put_utf16(w.buffer(), self.model);
        }
        out
    }
}

/// Length of AFP_AfpInfo, the stream that holds Finder's metadata of a file.
pub const AFP_INFO_BYTES: usize = 60;
/// Offset of the 32 bytes of Finder info in AFP_AfpInfo.
const FINDER_INFO_AT: usize = 16;
/// Seconds from 1970 to 2000, the epoch of Finder's times.
const EPOCH_SECONDS: i128 = 946_684_800;

/// Apple's replacement for extended attributes and the short name in a directory entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppleDetails {
    /// Maximal access of the user.
    pub maximal_access: u32,
    /// Length of the resource fork.
    pub fork_bytes: u64,
    /// Compressed Finder info.
    pub finder_info: [u8; 16],
    /// Kind and permission bits, as in POSIX's `st_mode`.
    pub mode: u16,
}

impl AppleDetails {
    /// Compresses the Finder info of an AFP_AfpInfo stream: type and creator (files only), flags
    /// and extended flags. The creation time comes from `created_unix_nanos`. Other data leaves the
    /// field zero.
    pub fn set_finder_info(&mut self, stream: &[u8], is_file: bool, created_unix_nanos: i128) {
        if stream.len() < AFP_INFO_BYTES || !stream.starts_with(b"AFP\0") {
            return;
        }
        let info = &stream[FINDER_INFO_AT..FINDER_INFO_AT + 32];
        if is_file {
            self.finder_info[..8].copy_from_slice(&info[..8]);
        }
        self.finder_info[8..10].copy_from_slice(&info[8..10]);
        self.finder_info[10..12].copy_from_slice(&info[24..26]);
        let seconds = created_unix_nanos.div_euclid(1_000_000_000) - EPOCH_SECONDS;
        let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
        self.finder_info[12..].copy_from_slice(&seconds.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(parts: u64) -> Vec<u8> {
        let mut data = vec![1, 0, 0, 0, 0, 0, 0, 0];
        data.extend_from_slice(&parts.to_le_bytes());
        data.extend_from_slice(&apple_capabilities::DIRECTORY_DETAILS.to_le_bytes());
        data
    }

    #[test]
    fn aapl_response_has_the_requested_parts_only() {
        let answer = AppleAnswer { server: 5, volume: 4, model: "Mac" };
        let all = answer.encode(&AppleQuery::decode(&query(0xFF)).unwrap());
        assert_eq!(all[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((all[8], all[16], all[24]), (7, 5, 4), "parts, server, volume");
        assert_eq!(all[32..], [0, 0, 0, 0, 6, 0, 0, 0, b'M', 0, b'a', 0, b'c', 0]);
        let volume = answer.encode(&AppleQuery::decode(&query(2)).unwrap());
        assert_eq!((volume.len(), volume[8], volume[16]), (24, 2, 4));
    }

    #[test]
    fn aapl_query_of_another_kind_or_length_is_refused() {
        let good = query(7);
        for length in 0..good.len() {
            assert!(AppleQuery::decode(&good[..length]).is_err(), "{length}");
        }
        assert!(AppleQuery::decode(&[&good[..], &[0]].concat()).is_err());
        assert!(AppleQuery::decode(&[&[2], &good[1..]].concat()).is_err());
    }

    #[test]
    fn finder_info_is_compressed_for_directory_entries() {
        let mut stream = b"AFP\0\0\0\x01\0".to_vec();
        stream.resize(AFP_INFO_BYTES, 0);
        stream[16..26].copy_from_slice(b"TEXTttxt\x40\x01");
        stream[40..42].copy_from_slice(&[7, 8]);
        let mut details = AppleDetails::default();
        details.set_finder_info(&stream, true, (946_684_800 + 258) * 1_000_000_000);
        assert_eq!(details.finder_info, *b"TEXTttxt\x40\x01\x07\x08\0\0\x01\x02");
        let mut directory = AppleDetails::default();
        directory.set_finder_info(&stream, false, 946_684_800_000_000_000);
        assert_eq!(directory.finder_info, *b"\0\0\0\0\0\0\0\0\x40\x01\x07\x08\0\0\0\0");
        let mut none = AppleDetails::default();
        none.set_finder_info(&stream[..59], true, 0);
        none.set_finder_info(&[1; 60], true, 0);
        assert_eq!(none, AppleDetails::default());
    }
}
