//! Create contexts of durable handles. MS-SMB2 2.2.13.2.3, .4, .11, .12; 2.2.14.2.3, .12.

use crate::codec::{DecodeError, Reader, Writer};
use crate::smb::ids::FileId;

/// SMB2_DHANDLE_FLAG_PERSISTENT: requests a handle that survives a server restart.
const FLAG_PERSISTENT: u32 = 2;

/// DH2Q: requests a handle that survives the loss of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableRequestV2 {
    /// Requested time to wait for the client's reconnect, in milliseconds; 0 leaves it to the
    /// server.
    pub timeout_ms: u32,
    /// The handle shall survive a server restart.
    pub persistent: bool,
    /// Identifies this CREATE across retransmissions.
    pub create_guid: [u8; 16],
}

impl DurableRequestV2 {
    /// Reads the context's data.
    ///
    /// # Errors
    /// [`DecodeError`] if the data has the wrong length.
    pub fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(data);
        let timeout_ms = r.u32("DH2Q")?;
        let persistent = r.u32("DH2Q")? & FLAG_PERSISTENT != 0;
        r.skip(8, "DH2Q")?;
        let create_guid = r.array("DH2Q")?;
        end(&r, "DH2Q").map(|()| Self { timeout_ms, persistent, create_guid })
    }

    /// Appends the context's data.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.timeout_ms);
        w.u32(if self.persistent { FLAG_PERSISTENT } else { 0 });
        w.zeros(8);
        w.bytes(&self.create_guid);
    }
}

/// DH2C: the client reconnects to an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableReconnectV2 {
    /// The open; only the persistent half of the id counts.
    pub file_id: FileId,
    /// `CreateGuid` of the CREATE that opened it.
    pub create_guid: [u8; 16],
    /// The handle is persistent.
    pub persistent: bool,
}

impl DurableReconnectV2 {
    /// Reads the context's data.
    ///
    /// # Errors
    /// [`DecodeError`] if the data has the wrong length.
    pub fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(data);
        let file_id = FileId { persistent: r.u64("DH2C")?, volatile: r.u64("DH2C")? };
        let create_guid = r.array("DH2C")?;
        let persistent = r.u32("DH2C")? & FLAG_PERSISTENT != 0;
        end(&r, "DH2C").map(|()| Self { file_id, create_guid, persistent })
    }

    /// Appends the context's data.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.u64(self.file_id.persistent);
        w.u64(self.file_id.volatile);
        w.bytes(&self.create_guid);
        w.u32(if self.persistent { FLAG_PERSISTENT } else { 0 });
    }
}

/// The response to [`DurableRequestV2`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableResponseV2 {
    /// Time that the server waits for the client's reconnect, in milliseconds.
    pub timeout_ms: u32,
    /// The handle is persistent.
    pub persistent: bool,
}

impl DurableResponseV2 {
    /// The context's data.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        let flags = if self.persistent { FLAG_PERSISTENT } else { 0 };
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.timeout_ms.to_le_bytes());
        bytes[4..].copy_from_slice(&flags.to_le_bytes());
        bytes
    }
}

/// DHnC: the client reconnects to an open. Returns the persistent half of its id; the other half
/// does not count.
///
/// # Errors
/// [`DecodeError`] if the data has the wrong length.
pub fn decode_durable_reconnect(data: &[u8]) -> Result<u64, DecodeError> {
    let mut r = Reader::new(data);
    let id = r.u64("DHnC")?;
    r.skip(8, "DHnC")?;
    end(&r, "DHnC").map(|()| id)
}

fn end(r: &Reader<'_>, what: &'static str) -> Result<(), DecodeError> {
    if r.remaining() == 0 { Ok(()) } else { Err(r.malformed(what)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUID: [u8; 16] = *b"0123456789abcdef";

    fn written(encode: impl Fn(&mut Writer<'_>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&mut Writer::new(&mut bytes));
        bytes
    }

    #[test]
    fn durable_request_has_the_specified_bytes() {
        let request =
            DurableRequestV2 { timeout_ms: 0x0102_0304, persistent: true, create_guid: GUID };
        let bytes = written(|w| request.encode(w));
        assert_eq!(bytes[..16], [4, 3, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..], GUID);
        assert_eq!(DurableRequestV2::decode(&bytes), Ok(request));
    }

    #[test]
    fn durable_reconnect_has_the_specified_bytes() {
        let file_id = FileId { persistent: 5, volatile: 6 };
        let reconnect = DurableReconnectV2 { file_id, create_guid: GUID, persistent: true };
        let bytes = written(|w| reconnect.encode(w));
        assert_eq!((bytes.len(), bytes[0], bytes[8], bytes[32]), (36, 5, 6, 2));
        assert_eq!(DurableReconnectV2::decode(&bytes), Ok(reconnect));
    }

    #[test]
    fn durable_response_starts_with_the_timeout() {
        let response = DurableResponseV2 { timeout_ms: 60_000, persistent: true };
        assert_eq!(response.to_bytes(), [0x60, 0xEA, 0, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn durable_data_of_another_length_is_refused() {
        let bytes = [0; 64];
        for length in 0..bytes.len() {
            let data = &bytes[..length];
            assert_eq!(DurableRequestV2::decode(data).is_ok(), length == 32, "{length}");
            assert_eq!(DurableReconnectV2::decode(data).is_ok(), length == 36, "{length}");
            assert_eq!(decode_durable_reconnect(data).is_ok(), length == 16, "{length}");
        }
    }
}
