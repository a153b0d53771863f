//! Results of operations: a status, and what the operation gives with it.

use super::NfsStatus;
use super::xdr::{Decode, Encode, XdrReader, XdrWriter};
use crate::codec::Malformed;

/// What stands behind the status of one operation.
///
/// Most give something only if they succeed: `Result<T, NfsStatus>`. Those that
/// tell more of a failure have types of their own.
pub trait Reply<'a>: Sized {
    /// The outcome.
    fn status(&self) -> NfsStatus;

    /// Reads what follows `status`.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes end early or are none.
    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, Malformed>;

    /// Writes what follows the status.
    fn encode_body(&self, w: &mut XdrWriter<'_>);
}

impl<'a, T: Decode<'a> + Encode> Reply<'a> for Result<T, NfsStatus> {
    #[inline]
    fn status(&self) -> NfsStatus {
        self.as_ref().err().copied().unwrap_or(NfsStatus::OK)
    }

    #[inline]
    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        if status.is_ok() { r.get().map(Ok) } else { Ok(Err(status)) }
    }

    #[inline]
    fn encode_body(&self, w: &mut XdrWriter<'_>) {
        if let Ok(result) = self {
            w.put(result);
        }
    }
}
