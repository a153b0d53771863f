//! Key derivation, signing, sealing and the preauthentication hash of SMB 3.
//! MS-SMB2 3.1.4, 3.1.5.

mod channel_keys;
mod kdf;
mod preauth;
mod seal;
mod session_key;
mod sign;
mod tag;

pub use channel_keys::KeySource;
pub use kdf::{KeyPurpose, derive};
pub use preauth::PreauthHash;
pub use seal::{Cipher, OpeningKey, SealMismatch, SealingKey};
pub use session_key::SessionKey;
pub use sign::{SigningAlgorithm, SigningKey};
pub use tag::TagKey;
