//! Eight lanes of the AES unit of x86 CPUs.

use crate::TAG_BYTES;
use core::arch::x86_64::{
    __m128i, _mm_aesenc_si128, _mm_aesenclast_si128, _mm_aeskeygenassist_si128, _mm_cvtsi128_si64,
    _mm_set_epi64x, _mm_shuffle_epi32, _mm_slli_si128, _mm_unpackhi_epi64, _mm_xor_si128,
};
use zeroize::Zeroize;

/// Blocks in flight: an AES unit starts two in a cycle and needs about four cycles for a round.
const LANES: usize = 8;
const BLOCK: usize = 16;
const ROUND_KEYS: usize = 11;

/// Round keys, and the subkeys for the last block.
pub struct RoundKeys {
    rounds: [[u8; BLOCK]; ROUND_KEYS],
    /// Subkeys K1, for a full last block, and K2, for a partial one.
    last: [[u8; BLOCK]; 2],
}

impl Drop for RoundKeys {
    fn drop(&mut self) {
        self.rounds.zeroize();
        self.last.zeroize();
    }
}

/// A message in a lane.
struct MessageLane<'a> {
    /// Index of the message.
    at: usize,
    /// Bytes that are not absorbed yet; the last block, full or partial, stays until the end.
    rest: &'a [u8],
}

impl RoundKeys {
    /// `None` if this CPU has no AES instructions.
    pub fn new(key: &[u8; BLOCK]) -> Option<Self> {
        if !std::arch::is_x86_feature_detected!("aes") {
            return None;
        }
        // SAFETY: the CPU has the features that the function is compiled for, as just detected.
        #[allow(unsafe_code)] // See the module.
        Some(unsafe { expand(key) })
    }

    /// Writes the tags of these messages, in their order.
    pub fn sign_all(&self, messages: &[&[u8]], tags: &mut [[u8; TAG_BYTES]]) {
        // SAFETY: a key exists only on a CPU with AES instructions.
        #[allow(unsafe_code)] // See the module.
        unsafe {
            match (messages, &mut *tags) {
                ([message], [tag]) => *tag = sign_one(self, message),
                _ => sign_all(self, messages, tags),
            }
        }
    }
}

#[target_feature(enable = "aes,sse2")]
fn sign_one(key: &RoundKeys, message: &[u8]) -> [u8; TAG_BYTES] {
    let rounds = key.rounds.map(|bytes| load(&bytes));
    let (before, last) = message.split_at(blocks_before_last(message) * BLOCK);
    let mut state = zero();
    for block in before.as_chunks().0 {
        state = encrypt(&rounds, _mm_xor_si128(state, load(block)));
    }
    store(encrypt(&rounds, _mm_xor_si128(state, load(&last_block(key, last)))))
}

#[target_feature(enable = "aes,sse2")]
fn sign_all(key: &RoundKeys, messages: &[&[u8]], tags: &mut [[u8; TAG_BYTES]]) {
    let rounds = key.rounds.map(|bytes| load(&bytes));
    let mut waiting = messages.iter().enumerate();
    let mut lanes: [Option<MessageLane<'_>>; LANES] = Default::default();
    let mut states = [zero(); LANES];
    loop {
        for (lane, state) in lanes.iter_mut().zip(&mut states) {
            if lane.is_none()
                && let Some((at, message)) = waiting.next()
            {
                *lane = Some(MessageLane { at, rest: message });
                *state = zero();
            }
        }
        // The number of blocks that every lane can absorb before its last one.
        let Some(steps) = lanes.iter().flatten().map(|lane| blocks_before_last(lane.rest)).min()
        else {
            return;
        };
        absorb(&rounds, &mut states, &mut lanes, steps);
        for (lane, state) in lanes.iter_mut().zip(&states) {
            if let Some(done) = lane.take_if(|lane| blocks_before_last(lane.rest) == 0) {
                let last = last_block(key, done.rest);
                tags[done.at] = store(encrypt(&rounds, _mm_xor_si128(*state, load(&last))));
            }
        }
    }
}

/// Number of full blocks before the last block of a message.
fn blocks_before_last(rest: &[u8]) -> usize {
    rest.len().saturating_sub(1) / BLOCK
}

/// Absorbs so many blocks in every lane; an empty lane duplicates another lane's work.
#[target_feature(enable = "aes,sse2")]
fn absorb(
    rounds: &[__m128i; ROUND_KEYS],
    states: &mut [__m128i; LANES],
    lanes: &mut [Option<MessageLane<'_>>; LANES],
    steps: usize,
) {
    let Some(any) = lanes.iter().flatten().map(|lane| lane.rest).next() else { return };
    let data: [&[[u8; BLOCK]]; LANES] = core::array::from_fn(|at| {
        let rest = lanes[at].as_ref().map_or(any, |lane| lane.rest);
        &rest.as_chunks().0[..steps]
    });
    let mut now = *states;
    for step in 0..steps {
        for (state, blocks) in now.iter_mut().zip(&data) {
            *state = _mm_xor_si128(_mm_xor_si128(*state, load(&blocks[step])), rounds[0]);
        }
        for round in &rounds[1..ROUND_KEYS - 1] {
            for state in &mut now {
                *state = _mm_aesenc_si128(*state, *round);
            }
        }
        for state in &mut now {
            *state = _mm_aesenclast_si128(*state, rounds[ROUND_KEYS - 1]);
        }
    }
    *states = now;
    for lane in lanes.iter_mut().flatten() {
        lane.rest = &lane.rest[steps * BLOCK..];
    }
}

/// The last block, padded if partial, combined with its subkey. RFC 4493 2.4.
fn last_block(key: &RoundKeys, rest: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    let is_full = rest.len() == BLOCK;
    if !is_full {
        block[rest.len()] = 0x80;
    }
    let subkey = key.last[usize::from(!is_full)];
    core::array::from_fn(|at| block[at] ^ subkey[at])
}

/// Round keys (FIPS 197, 5.2) and subkeys (RFC 4493 2.3).
#[target_feature(enable = "aes,sse2")]
fn expand(key: &[u8; BLOCK]) -> RoundKeys {
    let mut rounds = [load(key); ROUND_KEYS];
    macro_rules! round {
        ($at:literal, $constant:literal) => {
            rounds[$at] =
                next(rounds[$at - 1], _mm_aeskeygenassist_si128::<$constant>(rounds[$at - 1]));
        };
    }
    round!(1, 0x01);
    round!(2, 0x02);
    round!(3, 0x04);
    round!(4, 0x08);
    round!(5, 0x10);
    round!(6, 0x20);
    round!(7, 0x40);
    round!(8, 0x80);
    round!(9, 0x1b);
    round!(10, 0x36);
    let full = double(store(encrypt(&rounds, zero())));
    RoundKeys { rounds: rounds.map(|round| store(round)), last: [full, double(full)] }
}

#[target_feature(enable = "sse2")]
fn next(before: __m128i, assist: __m128i) -> __m128i {
    let mut key = before;
    for _ in 0..3 {
        key = _mm_xor_si128(before, _mm_slli_si128::<4>(key));
    }
    _mm_xor_si128(key, _mm_shuffle_epi32::<0xff>(assist))
}

/// Multiplication by x in GF(2^128). RFC 4493 2.3.
fn double(block: [u8; BLOCK]) -> [u8; BLOCK] {
    let value = u128::from_be_bytes(block);
    let carry = if value >> 127 == 1 { 0x87 } else { 0 };
    ((value << 1) ^ carry).to_be_bytes()
}

#[target_feature(enable = "aes,sse2")]
fn encrypt(rounds: &[__m128i; ROUND_KEYS], block: __m128i) -> __m128i {
    let mut state = _mm_xor_si128(block, rounds[0]);
    for round in &rounds[1..ROUND_KEYS - 1] {
        state = _mm_aesenc_si128(state, *round);
    }
    _mm_aesenclast_si128(state, rounds[ROUND_KEYS - 1])
}

#[target_feature(enable = "sse2")]
fn zero() -> __m128i {
    _mm_set_epi64x(0, 0)
}

#[target_feature(enable = "sse2")]
fn load(bytes: &[u8; BLOCK]) -> __m128i {
    let value = u128::from_le_bytes(*bytes);
    _mm_set_epi64x((value >> 64) as i64, value as i64)
}

#[target_feature(enable = "sse2")]
fn store(block: __m128i) -> [u8; BLOCK] {
    let low = _mm_cvtsi128_si64(block) as u64;
    let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(block, block)) as u64;
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}
