//! Compression of long security descriptors, whose access entries have equal size and differ in few
//! bytes.
//!
//! Each byte is XORed with the one a stride before, and the result is stored as runs: the number of
//! zeros, the number of nonzero bytes, and those bytes. The first four bytes hold the length, the
//! next one the stride.

/// Candidate strides: the sizes of an access entry for the usual SID lengths. MS-DTYP 2.4.4.2.
const STRIDES: [usize; 4] = [20, 24, 28, 36];
/// Maximum length of a run.
const RUN_MAX: usize = u8::MAX as usize;
/// Maximum length of a packed value: that of an extended attribute.
pub const LENGTH_MAX: usize = 64 * 1024;

/// The shortest encoding; `None` if it exceeds [`LENGTH_MAX`].
pub fn pack(bytes: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= LENGTH_MAX)?;
    let packed = STRIDES.into_iter().map(|stride| pack_by(bytes, length, stride));
    packed.min_by_key(Vec::len)
}

fn pack_by(bytes: &[u8], length: u32, stride: usize) -> Vec<u8> {
    let before = |at: usize| at.checked_sub(stride).map_or(0, |at| bytes[at]);
    let differences: Vec<u8> =
        bytes.iter().enumerate().map(|(at, byte)| byte ^ before(at)).collect();
    let mut out = length.to_le_bytes().to_vec();
    out.push(stride as u8);
    let mut rest = differences.as_slice();
    while !rest.is_empty() {
        let zeros = rest.iter().take(RUN_MAX).take_while(|byte| **byte == 0).count();
        rest = &rest[zeros..];
        // A single zero between nonzero bytes is cheaper as part of their run.
        let is_end = |at: usize| rest[at] == 0 && rest.get(at + 1).is_none_or(|next| *next == 0);
        let most = rest.len().min(RUN_MAX);
        let others = (0..most).find(|at| is_end(*at)).unwrap_or(most);
        out.extend_from_slice(&[zeros as u8, others as u8]);
        out.extend_from_slice(&rest[..others]);
        rest = &rest[others..];
    }
    out
}

/// Unpacks a value; `None` if it is malformed.
pub fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = packed.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (stride, mut rest) = rest.split_first()?;
    let stride = usize::from(*stride);
    if length > LENGTH_MAX || stride == 0 {
        return None;
    }
    let mut out = Vec::with_capacity(length);
    while let [zeros, others, run @ ..] = rest {
        let (others, after) = run.split_at_checked(usize::from(*others))?;
        let differences = std::iter::repeat_n(&0, usize::from(*zeros)).chain(others);
        for difference in differences {
            let before = out.len().checked_sub(stride).map_or(0, |at| out[at]);
            out.push(before ^ difference);
        }
        rest = after;
        if out.len() > length {
            return None;
        }
    }
    (rest.is_empty() && out.len() == length).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of 24 bytes, as for users with adjacent RIDs.
    fn list(count: u32) -> Vec<u8> {
        let entry = |at: u32| {
            let head = [0, 3, 24, 0, 0xFF, 1, 0x1F, 0, 1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0];
            [&head[..], &(9802 + at).to_le_bytes()].concat()
        };
        (0..count).flat_map(entry).collect()
    }

    #[test]
    fn packed_bytes_round_trip() {
        let random: Vec<u8> =
            (0..3000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let sparse: Vec<u8> = (0..3000).map(|n| u8::from(n % 700 == 0)).collect();
        let all = [Vec::new(), vec![0], vec![7], vec![0; 1000], random, sparse, list(1), list(203)];
        for bytes in all {
            assert_eq!(unpack(&pack(&bytes).unwrap()), Some(bytes));
        }
        assert_eq!(pack(&vec![0; LENGTH_MAX + 1]), None);
    }

    #[test]
    fn long_list_packs_to_a_fifth() {
        let bytes = list(203);
        let packed = pack(&bytes).unwrap();
        assert!(packed.len() * 5 < bytes.len(), "{} of {}", packed.len(), bytes.len());
    }

    #[test]
    fn damaged_values_unpack_within_their_stated_length() {
        let packed = pack(&list(20)).unwrap();
        for length in 0..packed.len() {
            assert_eq!(unpack(&packed[..length]), None);
        }
        for at in 0..packed.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut changed = packed.clone();
                changed[at] ^= flip;
                assert!(unpack(&changed).is_none_or(|bytes| bytes.len() <= LENGTH_MAX));
            }
        }
    }
}
