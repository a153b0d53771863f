//! `[multichannel]`: how many connections a session may have, and which
//! addresses its clients are told.

use super::raw::Meaning;
use crate::interfaces::{Advertised, Pattern, Policy};
use crate::limits::ADVERTISED_MAX;
use serde::Deserialize;
use smb::limits::{CHANNELS_PER_SESSION, CHANNELS_PER_SESSION_MAX};
use std::net::IpAddr;
use toml::Spanned;

/// Fastest link that can be written down, in Mbit/s: the answer counts bits in 64 bits.
const SPEED_MBITS_MAX: u64 = 100_000_000;

/// Settings of Multichannel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multichannel {
    /// Sessions may have several connections.
    pub enabled: bool,
    /// Connections of one session.
    pub channels_max: usize,
    /// Where `channels_max` stands in the file.
    pub channels_max_line: Option<usize>,
    /// Lowest dialect with several connections.
    pub dialect_min: smb::Dialect,
    /// Which addresses clients are told.
    pub addresses: Policy,
}

impl Default for Multichannel {
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
    /// `false`: every session has one connection.
    enabled: Option<bool>,
    /// Connections of one session.
    channels_max: Option<Spanned<usize>>,
    /// Lowest dialect: `3.0`, `3.0.2` or `3.1.1`.
    min_protocol: Option<Spanned<String>>,
    /// Interfaces or networks that clients are told; all if left out.
    include: Option<Vec<Spanned<String>>>,
    /// Interfaces or networks that they are not told.
    exclude: Option<Vec<Spanned<String>>>,
    /// Whether interfaces are called capable of receive-side scaling, instead of what is found out.
    rss: Option<bool>,
    /// Addresses that they are told instead of all that are found.
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
    /// Receive-side scaling.
    rss: Option<bool>,
    /// Interface index.
    index: Option<u32>,
}

impl Meaning<'_> {
    pub(super) fn multichannel(&mut self, raw: RawMultichannel) -> Multichannel {
        let mut config = Multichannel::default();
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
                self.wrong(span, "several connections need min_protocol 3.0 or later; raise it");
            }
        }
        config.addresses.include = self.patterns(raw.include.unwrap_or_default());
        config.addresses.exclude = self.patterns(raw.exclude.unwrap_or_default());
        config.addresses.rss = raw.rss;
        if let Some(extra) = raw.interface.get(ADVERTISED_MAX) {
            self.wrong(extra.span(), format!("at most {ADVERTISED_MAX} addresses can be told"));
        }
        let advertised = raw.interface.into_iter().map(|raw| self.interface(raw.into_inner()));
        config.addresses.advertised = advertised.collect();
        config
    }

    fn interface(&mut self, raw: RawInterface) -> Advertised {
        let megabits =
            raw.speed_mbits.map(|speed| self.bounded("speed_mbits", &speed, 1..=SPEED_MBITS_MAX));
        Advertised {
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
