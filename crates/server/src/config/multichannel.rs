//! The `[multichannel]` table: channels per session, and the addresses to advertise.

use super::meaning::ConfigInterpreter;
use crate::limits::ADVERTISED_MAX;
use crate::machine::interfaces::{AdvertisedAddress, Pattern, Policy};
use serde::Deserialize;
use smb::limits::{CHANNELS_PER_SESSION, CHANNELS_PER_SESSION_MAX};
use std::net::IpAddr;
use toml::Spanned;

/// Maximum configurable speed in Mbit/s; the protocol counts bits per second in 64 bits.
const SPEED_MBITS_MAX: u64 = 100_000_000;

/// Settings of SMB Multichannel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultichannelConfig {
    /// Permits several channels per session.
    pub enabled: bool,
    /// Channels per session.
    pub channels_max: usize,
    /// Line of `channels_max` in the file.
    pub channels_max_line: Option<usize>,
    /// Minimum dialect for Multichannel.
    pub dialect_min: smb::Dialect,
    /// Policy for advertising addresses.
    pub addresses: Policy,
}

impl Default for MultichannelConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            channels_max: CHANNELS_PER_SESSION,
            channels_max_line: None,
            dialect_min: smb::Dialect::Smb300,
            addresses: Policy::default(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawMultichannel {
    /// `false` limits every session to one connection.
    enabled: Option<bool>,
    /// Channels per session.
    channels_max: Option<Spanned<usize>>,
    /// Minimum dialect: `3.0`, `3.0.2` or `3.1.1`.
    min_protocol: Option<Spanned<String>>,
    /// Interfaces or networks to advertise; all by default.
    include: Option<Vec<Spanned<String>>>,
    /// Interfaces or networks not to advertise.
    exclude: Option<Vec<Spanned<String>>>,
    /// RSS capability of all interfaces, instead of the detected one.
    rss: Option<bool>,
    /// Addresses to advertise instead of the detected ones.
    #[serde(default)]
    interface: Vec<Spanned<RawInterface>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInterface {
    /// The address.
    address: IpAddr,
    /// Speed in Mbit/s.
    speed_mbits: Option<Spanned<u64>>,
    /// RSS capability.
    rss: Option<bool>,
    /// Interface index.
    index: Option<u32>,
}

impl ConfigInterpreter<'_> {
    pub(super) fn multichannel(&mut self, raw: RawMultichannel) -> MultichannelConfig {
        let mut config = MultichannelConfig::default();
        config.enabled = raw.enabled.unwrap_or(config.enabled);
        if let Some(channels) = raw.channels_max {
            let range = 1..=CHANNELS_PER_SESSION_MAX;
            config.channels_max = self.bounded("channels_max", &channels, range);
            config.channels_max_line = Some(self.line_of(channels.span().start));
        }
        if let Some(dialect) = raw.min_protocol.as_ref().and_then(|text| self.dialect(text)) {
            config.dialect_min = dialect;
            if dialect < smb::Dialect::Smb300 {
                let span = raw.min_protocol.map(|text| text.span()).unwrap_or_default();
                self.wrong(span, "Multichannel needs min_protocol 3.0 or later; raise it");
            }
        }
        config.addresses.include = self.patterns(raw.include.unwrap_or_default());
        config.addresses.exclude = self.patterns(raw.exclude.unwrap_or_default());
        config.addresses.rss = raw.rss;
        if let Some(extra) = raw.interface.get(ADVERTISED_MAX) {
            self.wrong(
                extra.span(),
                format!("at most {ADVERTISED_MAX} addresses can be advertised"),
            );
        }
        let advertised = raw.interface.into_iter().map(|raw| self.interface(raw.into_inner()));
        config.addresses.advertised = advertised.collect();
        config
    }

    fn interface(&mut self, raw: RawInterface) -> AdvertisedAddress {
        let megabits =
            raw.speed_mbits.map(|speed| self.bounded("speed_mbits", &speed, 1..=SPEED_MBITS_MAX));
        AdvertisedAddress {
            address: raw.address,
            bits_per_second: megabits.map(|m| m * 1_000_000),
            rss: raw.rss,
            index: raw.index,
        }
    }

    fn patterns(&mut self, texts: Vec<Spanned<String>>) -> Vec<Pattern> {
        let mut patterns = Vec::new();
        for text in texts {
            match Pattern::parse(text.get_ref()) {
                Ok(pattern) => patterns.push(pattern),
                Err(what) => self.wrong(text.span(), what),
            }
        }
        patterns
    }
}
