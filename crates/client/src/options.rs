//! What a client offers and insists on.

use crate::limits::IO_BYTES_MAX;
use std::net::SocketAddr;
use std::time::Duration;
use wire::crypto::{Cipher, SigningAlgorithm};
use wire::smb::Dialect;

/// How much a client cares for signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// Signs if the server insists.
    Offered,
    /// Signs every message and takes no other.
    Required,
}

/// When the channels after the first are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Opening {
    /// Before there is a client: all stand when it is used.
    #[default]
    Before,
    /// Meanwhile: the client works over those that stand already.
    Meanwhile,
    /// As [`Opening::Meanwhile`], but none to a server of the same machine if messages are neither
    /// signed nor sealed: there they make nothing quicker, and each costs a logon. See
    /// [`Client::is_near`](crate::Client::is_near).
    WhereTheyHelp,
}

/// Options of a connection; the default is what Windows does, but for leases.
#[derive(Clone, Debug)]
pub struct Options {
    /// Oldest dialect to accept; 2.1 at least.
    pub dialect_min: Dialect,
    /// Newest dialect to offer.
    pub dialect_max: Dialect,
    /// See [`Signing`].
    pub signing: Signing,
    /// Algorithms offered with 3.1.1, best first.
    pub signing_algorithms: Vec<SigningAlgorithm>,
    /// Ciphers offered with 3.1.1, best first; empty: none. With 3.0 it is AES-128-CCM.
    pub ciphers: Vec<Cipher>,
    /// Be content with a session as a guest, which nothing protects: whoever is
    /// in between can make us one.
    pub allow_guest: bool,
    /// Seal every message, wanted by the server or not.
    pub sealed: bool,
    /// Connections of one session.
    pub channels: usize,
    /// When those after the first are opened.
    pub opening: Opening,
    /// Open several channels to one address whether or not it says that they help.
    pub assume_rss: bool,
    /// Addresses for further channels, instead of those that the server lists.
    pub paths: Vec<SocketAddr>,
    /// Largest READ and WRITE, in bytes.
    pub io_bytes_max: u32,
    /// Credits to hold on each connection.
    pub credits: u16,
    /// A connection that answers nothing for so long is taken for dead.
    pub patience: Duration,
    /// Names this client to the server; the same on all its connections.
    pub client_guid: [u8; 16],
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dialect_min: Dialect::Smb210,
            dialect_max: Dialect::Smb311,
            signing: Signing::Offered,
            signing_algorithms: vec![
                SigningAlgorithm::AesGmac,
                SigningAlgorithm::AesCmac,
                SigningAlgorithm::HmacSha256,
            ],
            ciphers: vec![
                Cipher::Aes128Gcm,
                Cipher::Aes128Ccm,
                Cipher::Aes256Gcm,
                Cipher::Aes256Ccm,
            ],
            allow_guest: false,
            sealed: false,
            channels: 4,
            opening: Opening::Before,
            assume_rss: false,
            paths: Vec::new(),
            io_bytes_max: IO_BYTES_MAX,
            credits: 512,
            patience: Duration::from_secs(15),
            client_guid: [0; 16],
        }
    }
}

impl Options {
    /// Whether a session is to have several connections.
    pub(crate) fn wants_channels(&self) -> bool {
        self.channels > 1
    }

    /// Algorithms to offer. AES-GMAC is not for a session of several connections, since binding
    /// them uses nonces of the session's key again; where nothing else is wanted, there is one.
    pub(crate) fn offered_signing(&self) -> Vec<SigningAlgorithm> {
        let is_safe = |algorithm: &&SigningAlgorithm| {
            **algorithm != SigningAlgorithm::AesGmac || !self.wants_channels()
        };
        let safe: Vec<_> = self.signing_algorithms.iter().filter(is_safe).copied().collect();
        if safe.is_empty() { self.signing_algorithms.clone() } else { safe }
    }

    /// Offered dialects, from old to new.
    pub(crate) fn dialects(&self) -> Vec<Dialect> {
        let least = self.dialect_min.max(Dialect::Smb210);
        Dialect::ALL.into_iter().filter(|d| (least..=self.dialect_max).contains(d)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_of_several_channels_is_offered_no_gmac() {
        let (gmac, cmac) = (SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac);
        let offered = |channels, signing_algorithms: &[SigningAlgorithm]| {
            let signing_algorithms = signing_algorithms.to_vec();
            Options { channels, signing_algorithms, ..Options::default() }.offered_signing()
        };
        assert_eq!(offered(1, &[gmac, cmac]), [gmac, cmac]);
        assert_eq!(offered(2, &[gmac, cmac]), [cmac]);
        assert_eq!(offered(2, &[gmac]), [gmac], "nothing else is wanted");
    }
}
