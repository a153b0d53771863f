//! AES-128-CMAC (RFC 4493, MS-SMB2 3.1.4.1) of several messages at once.
//!
//! CMAC processes blocks sequentially, and each block waits for the CPU's AES unit, which could
//! interleave eight. A single message cannot be made faster, but several can run in parallel lanes.
//! [`LaneKey::sign_all`] does so on CPUs with AES instructions.

// The `unsafe` calls are to functions for CPUs with AES, after its detection.
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(target_arch = "x86_64")]
mod x86;

use aws_lc_rs::cmac;

/// Length of a tag in bytes.
pub const TAG_BYTES: usize = 16;

/// Message length up to which a CMAC context costs more than the computation, in bytes.
#[cfg(target_arch = "x86_64")]
const SHORT_BYTES: usize = 1024;

/// A prepared key, usable by several threads at once.
pub struct LaneKey {
    serial: cmac::Key,
    #[cfg(target_arch = "x86_64")]
    parallel: Option<Box<x86::RoundKeys>>,
}

impl LaneKey {
    /// Prepares a 16-byte key.
    ///
    /// # Panics
    /// Never: AES-128 accepts any 16 bytes.
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Self {
        Self {
            serial: cmac::Key::new(cmac::AES_128, key).expect("AES-128 takes any 16 bytes"),
            #[cfg(target_arch = "x86_64")]
            parallel: x86::RoundKeys::new(key).map(Box::new),
        }
    }

    /// The tag of the concatenated parts.
    #[must_use]
    pub fn sign(&self, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        #[cfg(target_arch = "x86_64")]
        if let (Some(parallel), [message]) = (&self.parallel, parts)
            && message.len() <= SHORT_BYTES
        {
            let mut tag = [[0; TAG_BYTES]];
            parallel.sign_all(&[message], &mut tag);
            return tag[0];
        }
        let mut context = cmac::Context::with_key(&self.serial);
        let fed = parts.iter().all(|part| context.update(part).is_ok());
        let tag = if fed { context.sign().ok() } else { None };
        let mut out = [0; TAG_BYTES];
        if let Some(tag) = tag {
            out.copy_from_slice(tag.as_ref());
        }
        out
    }

    /// The tags of these messages, in their order.
    #[must_use]
    pub fn sign_all(&self, messages: &[&[u8]]) -> Vec<[u8; TAG_BYTES]> {
        #[cfg(target_arch = "x86_64")]
        if let Some(parallel) = &self.parallel
            && messages.len() > 1
        {
            let mut tags = vec![[0; TAG_BYTES]; messages.len()];
            parallel.sign_all(messages, &mut tags);
            return tags;
        }
        messages.iter().map(|message| self.sign(&[message])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 4493, 4.
    #[test]
    fn published_cmac_examples_hold_in_parallel_lanes() {
        let key = LaneKey::new(&bytes("2b7e151628aed2a6abf7158809cf4f3c"));
        let message: [u8; 64] = bytes(concat!(
            "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51",
            "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
        ));
        let tags = key.sign_all(&[&[], &message[..16], &message[..40], &message]);
        let expected = [
            "bb1d6929e95937287fa37d129b756746",
            "070a16b46b4d4144f79bdd9dd04a287c",
            "dfa66747de9ae63030ca32611497c827",
            "51f0bebf7e3b9d92fc49741779363cfe",
        ];
        assert_eq!(tags, expected.map(bytes::<16>));
    }

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        let mut out = [0; N];
        for (at, byte) in out.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
        }
        out
    }

    proptest! {
        #[test]
        fn parallel_lanes_equal_sequential_results(
            key: [u8; 16],
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..30),
        ) {
            let key = LaneKey::new(&key);
            let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
            // Two parts use the context path.
            let split = |message: &&[u8]| {
                let (head, tail) = message.split_at(message.len() / 2);
                key.sign(&[head, tail])
            };
            let alone: Vec<_> = messages.iter().map(|message| key.sign(&[message])).collect();
            prop_assert_eq!(&alone, &messages.iter().map(split).collect::<Vec<_>>());
            prop_assert_eq!(key.sign_all(&messages), alone);
        }

        #[test]
        fn message_parts_equal_one_message(message: Vec<u8>, at: usize) {
            let key = LaneKey::new(&[5; 16]);
            let (head, tail) = message.split_at(at % (message.len() + 1));
            prop_assert_eq!(key.sign(&[head, tail]), key.sign(&[&message]));
        }
    }
}
