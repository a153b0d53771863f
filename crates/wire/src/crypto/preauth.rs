//! The preauthentication integrity hash. MS-SMB2 3.3.5.4, 3.3.5.5.

use aws_lc_rs::digest;

/// SHA-512 over the previous value and each message, from its header to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreauthHash(pub [u8; 64]);

impl Default for PreauthHash {
    fn default() -> Self {
        Self([0; 64])
    }
}

impl PreauthHash {
    /// Adds one message, without its direct-TCP prefix.
    pub fn update(&mut self, message: &[u8]) {
        let mut context = digest::Context::new(&digest::SHA512);
        context.update(&self.0);
        context.update(message);
        self.0.copy_from_slice(context.finish().as_ref());
    }
}
