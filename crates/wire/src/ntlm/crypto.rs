//! Hashes and keys. MS-NLMP 3.3.2, 3.4.

use hmac::{Hmac, KeyInit, Mac};
use md4::{Digest, Md4};
use md5::Md5;
use rc4::{Rc4, StreamCipher};

/// MD4 of the password in UTF-16LE. It is equivalent to the password and must be protected like it.
#[derive(Clone, PartialEq, Eq)]
pub struct NtHash(pub [u8; 16]);

impl std::fmt::Debug for NtHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NtHash(..)")
    }
}

impl NtHash {
    /// The hash of a password.
    #[must_use]
    pub fn of_password(password: &str) -> Self {
        let units: Vec<u8> = password.encode_utf16().flat_map(u16::to_le_bytes).collect();
        Self(Md4::digest(&units).into())
    }

    /// Reads 32 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut hash = [0; 16];
        if text.len() != 32 || !text.is_ascii() {
            return None;
        }
        for (at, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).ok()?;
        }
        Some(Self(hash))
    }

    /// Writes 32 hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// NTOWFv2 for a user and a domain as the client sent it. MS-NLMP 3.3.2.
    #[must_use]
    pub fn ntowf_v2(&self, user: &str, domain: &str) -> [u8; 16] {
        let text = user.to_uppercase() + domain;
        let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        hmac_md5(&self.0, &[&units])
    }
}

/// HMAC-MD5 over the concatenated parts.
#[must_use]
pub fn hmac_md5(key: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let mut mac = Hmac::<Md5>::new_from_slice(key).expect("HMAC takes a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// RC4 from the start of its key stream.
#[must_use]
pub fn rc4(key: &[u8; 16], data: &[u8; 16]) -> [u8; 16] {
    let mut out = *data;
    cipher(key).apply_keystream(&mut out);
    out
}

fn cipher(key: &[u8; 16]) -> Rc4 {
    Rc4::new_from_slice(key).expect("RC4 takes a key of 16 bytes")
}

/// Signs and verifies messages of an authenticated exchange: SPNEGO's list of mechanisms. MS-NLMP
/// 3.4.4.2.
pub struct MessageSigner {
    client_sign: [u8; 16],
    server_sign: [u8; 16],
    client_seal: Rc4,
    server_seal: Rc4,
    key_exchange: bool,
    client_sequence: u32,
    server_sequence: u32,
}

impl std::fmt::Debug for MessageSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MessageSigner(..)")
    }
}

impl MessageSigner {
    /// Derives the keys from the exported session key, for extended session security with 128-bit
    /// keys.
    #[must_use]
    pub fn new(session_key: &[u8; 16], key_exchange: bool) -> Self {
        let key = |magic: &[u8]| -> [u8; 16] {
            let mut md5 = Md5::new();
            md5.update(session_key);
            md5.update(magic);
            md5.finalize().into()
        };
        Self {
            client_sign: key(b"session key to client-to-server signing key magic constant\0"),
            server_sign: key(b"session key to server-to-client signing key magic constant\0"),
            client_seal: cipher(&key(
                b"session key to client-to-server sealing key magic constant\0",
            )),
            server_seal: cipher(&key(
                b"session key to server-to-client sealing key magic constant\0",
            )),
            key_exchange,
            client_sequence: 0,
            server_sequence: 0,
        }
    }

    /// The server's signature of `message`.
    #[must_use]
    pub fn sign(&mut self, message: &[u8]) -> [u8; 16] {
        let sequence = self.server_sequence;
        self.server_sequence += 1;
        let cipher = self.key_exchange.then_some(&mut self.server_seal);
        signature(&self.server_sign, cipher, sequence, message)
    }

    /// The signature that the client must have sent for `message`.
    #[must_use]
    pub fn expected(&mut self, message: &[u8]) -> [u8; 16] {
        let sequence = self.client_sequence;
        self.client_sequence += 1;
        let cipher = self.key_exchange.then_some(&mut self.client_seal);
        signature(&self.client_sign, cipher, sequence, message)
    }
}

fn signature(key: &[u8; 16], cipher: Option<&mut Rc4>, sequence: u32, message: &[u8]) -> [u8; 16] {
    let mac = hmac_md5(key, &[&sequence.to_le_bytes(), message]);
    let mut checksum = [0; 8];
    checksum.copy_from_slice(&mac[..8]);
    if let Some(cipher) = cipher {
        cipher.apply_keystream(&mut checksum);
    }
    let mut out = [0; 16];
    out[..4].copy_from_slice(&1u32.to_le_bytes());
    out[4..12].copy_from_slice(&checksum);
    out[12..].copy_from_slice(&sequence.to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: String = text.split_whitespace().collect();
        (0..digits.len() / 2)
            .map(|i| u8::from_str_radix(&digits[i * 2..i * 2 + 2], 16).unwrap())
            .collect()
    }

    /// MS-NLMP 4.2.4: User, Domain, Password.
    #[test]
    fn ntlm_v2_reproduces_the_published_example() {
        let hash = NtHash::of_password("Password");
        assert_eq!(hash.to_hex(), "a4f49c406510bdcab6824ee7c30fd852");
        let owf = hash.ntowf_v2("User", "Domain");
        assert_eq!(owf.to_vec(), hex("0c868a403bfd7a93a3001ef22ef02e3f"));
        let temp = hex("0101000000000000 0000000000000000 aaaaaaaaaaaaaaaa 00000000 \
             02000c0044006f006d00610069006e00 01000c00530065007200760065007200 00000000 00000000");
        let proof = hmac_md5(&owf, &[&hex("0123456789abcdef"), &temp]);
        assert_eq!(proof.to_vec(), hex("68cd0ab851e51c96aabc927bebef6a1c"));
        let base = hmac_md5(&owf, &[&proof]);
        assert_eq!(base.to_vec(), hex("8de40ccadbc14a82f15cb0ad0de95ca3"));
        assert_eq!(rc4(&base, &[0x55; 16]).to_vec(), hex("c5dad2544fc9799094ce1ce90bc9d03e"));
    }
}
