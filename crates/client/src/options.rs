//! The client's offers and requirements.

use crate::limits::IO_BYTES_MAX;
use std::net::SocketAddr;
use std::time::Duration;
use wire::crypto::{Cipher, SigningAlgorithm};
use wire::smb::Dialect;

/// Signing policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningPolicy {
    /// Signs if the server requires it.
    Offered,
    /// Signs every message and requires signed responses.
    Required,
}

/// When the further channels are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelOpening {
    /// Before the client is returned.
    #[default]
    Before,
    /// Concurrently: the client uses the channels that exist.
    Meanwhile,
    /// Like [`ChannelOpening::Meanwhile`], but not for a local server without signing and sealing: there
    /// further channels bring no speed, and each costs a logon. See
    /// [`SmbClient::is_near`](crate::SmbClient::is_near).
    WhereTheyHelp,
}

/// Options of a connection. The defaults are those of Windows, except for leases.
#[derive(Clone, Debug)]
pub struct SmbOptions {
    /// Oldest accepted dialect; at least 2.1.
    pub dialect_min: Dialect,
    /// Newest offered dialect.
    pub dialect_max: Dialect,
    /// See [`SigningPolicy`].
    pub signing: SigningPolicy,
    /// Algorithms offered with 3.1.1, in order of preference.
    pub signing_algorithms: Vec<SigningAlgorithm>,
    /// Ciphers offered with 3.1.1, in order of preference; empty for none. 3.0 uses AES-128-CCM.
    pub ciphers: Vec<Cipher>,
    /// Accepts a guest session, which nothing protects: an attacker in between can turn any logon
    /// into one.
    pub allow_guest: bool,
    /// Seals every message, whether or not the server requires it.
    pub sealed: bool,
    /// Number of connections per session.
    pub channels: usize,
    /// When the further connections are opened.
    pub opening: ChannelOpening,
    /// Opens several channels to one address even without RSS.
    pub assume_rss: bool,
    /// Addresses for further channels, instead of those that the server lists.
    pub paths: Vec<SocketAddr>,
    /// Maximum length of a READ and WRITE, in bytes.
    pub io_bytes_max: u32,
    /// Credits to hold per connection.
    pub credits: u16,
    /// Timeout after which a silent connection counts as lost.
    pub patience: Duration,
    /// ClientGuid, the same on all connections of this client.
    pub client_guid: [u8; 16],
}

impl Default for SmbOptions {
    fn default() -> Self {
        Self {
            dialect_min: Dialect::Smb210,
            dialect_max: Dialect::Smb311,
            signing: SigningPolicy::Offered,
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
            opening: ChannelOpening::Before,
            assume_rss: false,
            paths: Vec::new(),
            io_bytes_max: IO_BYTES_MAX,
            credits: 512,
            patience: Duration::from_secs(15),
            client_guid: [0; 16],
        }
    }
}

impl SmbOptions {
    /// True if a session has several connections.
    pub(crate) fn wants_channels(&self) -> bool {
        self.channels > 1
    }

    /// Algorithms to offer. AES-GMAC does not suit a session with several connections, because
    /// binding them reuses nonces of the session's key. If the options list no other algorithm, the
    /// session has one connection.
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
    fn multichannel_session_is_not_offered_gmac() {
        let (gmac, cmac) = (SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac);
        let offered = |channels, signing_algorithms: &[SigningAlgorithm]| {
            let signing_algorithms = signing_algorithms.to_vec();
            SmbOptions { channels, signing_algorithms, ..SmbOptions::default() }.offered_signing()
        };
        assert_eq!(offered(1, &[gmac, cmac]), [gmac, cmac]);
        assert_eq!(offered(2, &[gmac, cmac]), [cmac]);
        assert_eq!(offered(2, &[gmac]), [gmac], "nothing else is wanted");
    }
}
