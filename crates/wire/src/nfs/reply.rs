//! Operation results: a status and the body that depends on it.

use super::NfsStatus;
use super::xdr::{Decode, Encode, XdrReader, XdrWriter};
use crate::codec::DecodeError;

/// The body that follows the status of one operation.
///
/// Most operations have a body only on success: `Result<T, NfsStatus>`. Operations with a body on
/// failure have types of their own.
pub trait ResultBody<'a>: Sized {
    /// Status of the operation.
    fn status(&self) -> NfsStatus;

    /// Decodes the body that follows `status`.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes end early or do not decode.
    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, DecodeError>;

    /// Writes the body that follows the status.
    fn encode_body(&self, w: &mut XdrWriter<'_>);
}

impl<'a, T: Decode<'a> + Encode> ResultBody<'a> for Result<T, NfsStatus> {
    #[inline]
    fn status(&self) -> NfsStatus {
        self.as_ref().err().copied().unwrap_or(NfsStatus::OK)
    }

    #[inline]
    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        if status.is_ok() { r.get().map(Ok) } else { Ok(Err(status)) }
    }

    #[inline]
    fn encode_body(&self, w: &mut XdrWriter<'_>) {
        if let Ok(result) = self {
            w.put(result);
        }
    }
}
