//! The `[discovery]` table: announcements to clients of the link.

use super::meaning::ConfigInterpreter;
use crate::discovery::DiscoverySettings;
use serde::Deserialize;
use toml::Spanned;

/// Maximum length of a model in bytes; those of Apple are far shorter.
const MODEL_BYTES_MAX: usize = 64;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawDiscovery {
    /// `false` turns both protocols off.
    enabled: Option<bool>,
    /// Announce by multicast DNS; true by default.
    mdns: Option<bool>,
    /// Announce by WS-Discovery; true by default.
    wsd: Option<bool>,
    /// Model in the announcement for macOS.
    model: Option<Spanned<String>>,
}

impl ConfigInterpreter<'_> {
    pub(super) fn discovery(&mut self, raw: RawDiscovery) -> DiscoverySettings {
        let default = DiscoverySettings::default();
        let is_enabled = raw.enabled.unwrap_or(true);
        if let Some(model) = &raw.model {
            let text = model.get_ref();
            if text.len() > MODEL_BYTES_MAX || text.contains(|c: char| !c.is_ascii_graphic()) {
                let what = format!(
                    "{text:?} is no model; use up to {MODEL_BYTES_MAX} visible ASCII characters, as \"RackMac\""
                );
                self.wrong(model.span(), what);
            }
        }
        DiscoverySettings {
            mdns: is_enabled && raw.mdns.unwrap_or(default.mdns),
            wsd: is_enabled && raw.wsd.unwrap_or(default.wsd),
            model: raw.model.map_or(default.model, Spanned::into_inner),
        }
    }
}
