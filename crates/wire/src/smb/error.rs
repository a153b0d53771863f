//! The body of an ERROR response. MS-SMB2 2.2.2.

use crate::codec::{DecodeError, Reader, Writer};

/// ERROR response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorResponse<'a> {
    /// Number of error contexts in `data` (3.1.1 only, else 0).
    pub contexts: u8,
    /// Error data.
    pub data: &'a [u8],
}

impl<'a> ErrorResponse<'a> {
    /// A response that carries only the header's status.
    pub const EMPTY: ErrorResponse<'static> = ErrorResponse { contexts: 0, data: &[] };

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, or the data lies outside it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        r.structure_size(9, "error response")?;
        let contexts = r.u8("error response")?;
        r.skip(1, "error response")?;
        let length = r.u32("error response")? as usize;
        Ok(Self { contexts, data: r.take(length, "error response data")? })
    }

    /// One error context of the default kind, in which dialect 3.1.1 wraps error data. MS-SMB2
    /// 2.2.2.1.
    #[must_use]
    pub fn context(data: &[u8]) -> Vec<u8> {
        let mut context = (data.len() as u32).to_le_bytes().to_vec();
        context.extend_from_slice(&[0; 4]);
        context.extend_from_slice(data);
        context
    }

    /// Appends the body. Empty data is encoded as one zero byte.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.u16(9);
        w.u8(self.contexts);
        w.u8(0);
        w.u32(self.data.len() as u32);
        if self.data.is_empty() {
            w.u8(0);
        } else {
            w.bytes(self.data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_response_round_trips() {
        for response in [ErrorResponse::EMPTY, ErrorResponse { contexts: 1, data: b"context" }] {
            let mut bytes = Vec::new();
            response.encode(&mut Writer::new(&mut bytes));
            assert_eq!(ErrorResponse::decode(&mut Reader::new(&bytes)), Ok(response));
            assert!(bytes.len() >= 9, "the structure's size counts one byte of data");
        }
    }
}
