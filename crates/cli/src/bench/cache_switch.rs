//! Switches the metadata cache of an Anabranch share between loads, and restores it at the end.

use super::connection::Arm;
use crate::admin::{Admin, escaped, list, plain};
use anyhow::{Context, Result};
use serde_json::Value;
use server::config::AdminAddress;
use std::net::SocketAddr;

/// The feature's name.
const FEATURE: &str = "metadata-cache";

/// Switches the cache; does nothing if no kind of connection has a setting.
#[derive(Debug)]
pub struct RemoteCacheSwitch {
    admin: Admin,
    share: String,
    /// The setting of each kind of connection, if it has one.
    wanted: Vec<Option<bool>>,
    /// The original and the current state; none if no kind of connection has a setting.
    states: Option<(bool, bool)>,
}

impl RemoteCacheSwitch {
    /// Reads the current state, if any kind of connection has a setting.
    ///
    /// # Errors
    /// The server's admin API does not answer, or knows no such share.
    pub fn new(admin: SocketAddr, share: &str, arms: &[Arm]) -> Result<Self> {
        let wanted: Vec<Option<bool>> = arms.iter().map(|arm| arm.metadata_cache).collect();
        let admin = Admin::at(AdminAddress::Tcp(admin));
        let mut switch = Self { admin, share: share.to_owned(), wanted, states: None };
        if switch.wanted.iter().any(Option::is_some) {
            let found = switch
                .found()
                .context("--metadata-cache needs the admin API of an Anabranch server")?;
            switch.states = Some((found, found));
        }
        Ok(switch)
    }

    fn found(&self) -> Result<bool> {
        let features: Value = self.admin.ask("GET", "/v1/features", None)?;
        let feature = list(&features).iter().find(|one| plain(&one["FeatureName"]) == FEATURE);
        let shares = feature.map(|feature| list(&feature["Shares"])).unwrap_or_default();
        let own = shares.iter().find(|one| plain(&one["Share"]).eq_ignore_ascii_case(&self.share));
        let state = own.with_context(|| format!("the server has no share {:?}", self.share))?;
        Ok(plain(&state["State"]) == "Registered")
    }

    /// Switches to the setting of this kind of connection.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn turn_to(&mut self, arm: usize) -> Result<()> {
        match self.wanted.get(arm).copied().flatten() {
            Some(on) => self.set(on),
            None => Ok(()),
        }
    }

    /// Restores the state from before the benchmark.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn put_back(&mut self) -> Result<()> {
        self.states.map_or(Ok(()), |(found, _)| self.set(found))
    }

    fn set(&mut self, on: bool) -> Result<()> {
        let Some((_, stands)) = &mut self.states else { return Ok(()) };
        if *stands != on {
            let method = if on { "PUT" } else { "DELETE" };
            let path = format!("/v1/features/{FEATURE}/{}", escaped(&self.share));
            self.admin
                .request(method, &path, None)
                .context("the metadata cache was not switched")?;
            *stands = on;
        }
        Ok(())
    }
}
