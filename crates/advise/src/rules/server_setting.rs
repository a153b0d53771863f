//! A server's setting in the words of each product.

use super::{RuleFinding, SettingTarget};
use crate::{MeasurementFacts, ServerProduct};

/// One setting in the words of each product; empty where a product has no such option.
pub(crate) struct ServerSetting<'a> {
    /// Keys of the configuration file.
    pub anabranch: &'a str,
    /// Lines of smb.conf.
    pub samba: &'a str,
    /// PowerShell on the server.
    pub windows: &'a str,
}

impl ServerSetting<'_> {
    /// Adds the setting to a finding: for the server's product, or for each if it is unknown.
    pub fn add_to(&self, facts: &MeasurementFacts, finding: RuleFinding) -> RuleFinding {
        let product = facts.server_product;
        [
            (ServerProduct::Anabranch, SettingTarget::Server, self.anabranch),
            (ServerProduct::Samba, SettingTarget::SambaServer, self.samba),
            (ServerProduct::Windows, SettingTarget::WindowsServer, self.windows),
        ]
        .into_iter()
        .filter(|(of, _, text)| {
            !text.is_empty() && (product == *of || product == ServerProduct::Unknown)
        })
        .fold(finding, |finding, (_, target, text)| finding.set(target, text))
    }
}
