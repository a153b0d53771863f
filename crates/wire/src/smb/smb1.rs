//! SMB1 NEGOTIATE, the only supported SMB1 message: clients that also speak older protocols start
//! with it. MS-SMB2 3.3.5.3.

use crate::codec::{DecodeError, Reader};

/// Maximum number of dialect names that are decoded.
const DIALECTS_MAX: usize = 64;

/// The dialect names of an SMB1 NEGOTIATE request.
///
/// # Errors
/// [`DecodeError`] for any other message.
pub fn smb1_dialects(frame: &[u8]) -> Result<Vec<&[u8]>, DecodeError> {
    let mut r = Reader::new(frame);
    if r.array::<4>("SMB1 header")? != *b"\xFFSMB" || r.u8("SMB1 command")? != 0x72 {
        return Err(r.malformed("SMB1 negotiate"));
    }
    r.skip(27, "SMB1 header")?;
    let words = usize::from(r.u8("SMB1 word count")?);
    r.skip(words * 2, "SMB1 words")?;
    let count = usize::from(r.u16("SMB1 byte count")?);
    let mut rest = r.take(count, "SMB1 dialects")?;
    let mut names = Vec::new();
    while let [2, tail @ ..] = rest {
        let end = tail.iter().position(|&b| b == 0).ok_or_else(|| r.malformed("SMB1 dialect"))?;
        if names.len() == DIALECTS_MAX {
            return Err(r.malformed("SMB1 dialect count"));
        }
        names.push(&tail[..end]);
        rest = &tail[end + 1..];
    }
    Ok(names)
}

/// The response to an SMB1 NEGOTIATE without an SMB2 dialect. It accepts none of the dialects, so
/// that the client gives up. MS-CIFS 2.2.4.52.2.
///
/// `None` if the request is shorter than a header.
#[must_use]
pub fn smb1_refusal(request: &[u8]) -> Option<Vec<u8>> {
    const STATUS: std::ops::Range<usize> = 5..9;
    const FLAGS: usize = 9;
    const REPLY: u8 = 0x80;
    let mut reply = request.get(..32)?.to_vec();
    reply[STATUS].fill(0);
    reply[FLAGS] |= REPLY;
    // One word: `DialectIndex` 0xFFFF, no dialect accepted. Then no bytes.
    reply.extend_from_slice(&[1, 0xFF, 0xFF, 0, 0]);
    Some(reply)
}
