//! SMB session options that several commands share.

use crate::remote;
use client::{SigningPolicy, SmbOptions};
use wire::crypto::{Cipher, SigningAlgorithm};
use wire::smb::Dialect;

/// Options that apply to all sessions of a command.
#[derive(Debug, clap::Args)]
pub struct SessionArgs {
    /// Open several connections to one address, even if its interfaces do not call for them
    #[arg(long)]
    any_interface: bool,
    /// SMB dialect; by default the newest that the server supports
    #[arg(long, value_name = "VERSION")]
    dialect: Option<DialectArg>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DialectArg {
    #[value(name = "2.1")]
    Smb210,
    #[value(name = "3.0")]
    Smb300,
    #[value(name = "3.0.2")]
    Smb302,
    #[value(name = "3.1.1")]
    Smb311,
}

/// Signing.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum SignArg {
    Off,
    /// The strongest algorithm that the server supports
    On,
    Gmac,
    Cmac,
    Hmac,
}

/// Sealing.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum EncryptArg {
    Off,
    /// The strongest algorithm that the server supports
    On,
    Gcm,
    Ccm,
    #[value(name = "gcm-256")]
    Gcm256,
    #[value(name = "ccm-256")]
    Ccm256,
}

impl SessionArgs {
    /// Options of a session with so many channels, protected so.
    pub fn options(&self, channels: usize, sign: SignArg, encrypt: EncryptArg) -> SmbOptions {
        let mut options =
            SmbOptions { assume_rss: self.any_interface, ..remote::options(channels) };
        if let Some(dialect) = self.dialect {
            let dialect = match dialect {
                DialectArg::Smb210 => Dialect::Smb210,
                DialectArg::Smb300 => Dialect::Smb300,
                DialectArg::Smb302 => Dialect::Smb302,
                DialectArg::Smb311 => Dialect::Smb311,
            };
            (options.dialect_min, options.dialect_max) = (dialect, dialect);
        }
        let algorithm = match sign {
            SignArg::Off | SignArg::On => None,
            SignArg::Gmac => Some(SigningAlgorithm::AesGmac),
            SignArg::Cmac => Some(SigningAlgorithm::AesCmac),
            SignArg::Hmac => Some(SigningAlgorithm::HmacSha256),
        };
        if !matches!(sign, SignArg::Off) {
            options.signing = SigningPolicy::Required;
        }
        if let Some(algorithm) = algorithm {
            options.signing_algorithms = vec![algorithm];
        }
        let cipher = match encrypt {
            EncryptArg::Off | EncryptArg::On => None,
            EncryptArg::Gcm => Some(Cipher::Aes128Gcm),
            EncryptArg::Ccm => Some(Cipher::Aes128Ccm),
            EncryptArg::Gcm256 => Some(Cipher::Aes256Gcm),
            EncryptArg::Ccm256 => Some(Cipher::Aes256Ccm),
        };
        options.sealed = !matches!(encrypt, EncryptArg::Off);
        if let Some(cipher) = cipher {
            options.ciphers = vec![cipher];
        }
        options
    }
}
