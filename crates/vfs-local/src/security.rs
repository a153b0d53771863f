//! Windows security descriptors in Samba's `security.NTACL`.
//!
//! The value is Samba's `xattr_NTACL` in version 1, which holds the descriptor
//! alone: version, switch, a pointer, the descriptor.
//! Descriptors that Samba stored with versions 1 to 4 are read.

/// Name of the attribute.
pub const NAME: &str = "security.NTACL";

/// The self-relative descriptor in a stored value.
pub fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let version = u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?);
    // version, union switch, referent; then per version a fixed part.
    let start = match version {
        1 => 4 + 4,
        2 => find_descriptor(bytes, 8 + 4 + 16)?,
        3 => find_descriptor(bytes, 8 + 4 + 2 + 64)?,
        4 => find_descriptor(bytes, 8 + 4 + 2 + 64)?,
        _ => return None,
    };
    bytes.get(start..).map(<[u8]>::to_vec)
}

/// NDR places the descriptor after aligned fields whose lengths vary: it is
/// the first place from `from` on where one can begin.
fn find_descriptor(bytes: &[u8], from: usize) -> Option<usize> {
    let from = from.saturating_sub(16);
    (from..bytes.len().saturating_sub(20)).find(|&at| {
        let b = &bytes[at..];
        at % 4 == 0 && b[0] == 1 && b[1] == 0 && b[3] & 0x80 != 0 && b[12..16] != [0xFF; 4]
    })
}

/// The value to store.
pub fn encode(descriptor: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + descriptor.len());
    out.extend_from_slice(&1u16.to_le_bytes());
    out.extend_from_slice(&1u16.to_le_bytes());
    out.extend_from_slice(&0x0002_0000u32.to_le_bytes());
    out.extend_from_slice(descriptor);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read_back() {
        let descriptor = [1, 0, 4, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 9];
        assert_eq!(decode(&encode(&descriptor)).as_deref(), Some(&descriptor[..]));
        for length in 0..20 {
            let _ = decode(&encode(&descriptor)[..length]);
        }
    }
}
