//! The data that `status` shows: plain values, rendered elsewhere.

use crate::config::MultichannelPolicy;
use crate::observe::stats::SmbStats;
use crate::opens::open::OpenTarget;
pub use crate::session::state::ChannelFact;
use crate::session::state::SmbSession;
use files::OpenFile;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::crypto::SigningAlgorithm;

/// The server's state at one moment.
#[derive(Clone, Debug, Default)]
pub struct SmbSnapshot {
    /// Sessions, in no order.
    pub sessions: Vec<SmbSessionFact>,
    /// Multichannel settings.
    pub multichannel: MultichannelPolicy,
    /// See [`SmbStats::protocol_violations`]; so for the others.
    pub protocol_violations: u64,
    /// Requests received.
    pub requests: u64,
    /// Failed logons.
    pub logons_failed: u64,
    /// Successful logons.
    pub logons: u64,
    /// Logon attempts that the throttle delayed.
    pub logons_delayed: u64,
    /// Logon attempts that were refused unverified.
    pub logons_refused_unchecked: u64,
    /// See [`SmbStats::channels_lost`].
    pub channels_lost: u64,
}

/// One session.
#[derive(Clone, Debug)]
pub struct SmbSessionFact {
    /// Its id.
    pub id: u64,
    /// Account name.
    pub user: String,
    /// Dialect, as `3.1.1`.
    pub dialect: String,
    /// Signing algorithm.
    pub signing: &'static str,
    /// Cipher, or `-`.
    pub cipher: &'static str,
    /// Every message is encrypted.
    pub encrypted: bool,
    /// The client would get multichannel after a reconnect.
    pub needs_reconnect: bool,
    /// Channels that the session may have.
    pub channels_max: usize,
    /// Its channels.
    pub channels: Vec<ChannelFact>,
    /// Names of the connected shares.
    pub trees: Vec<String>,
    /// Open files and pipes.
    pub opens: Vec<OpenFact>,
}

/// One open.
#[derive(Clone, Debug)]
pub struct OpenFact {
    /// Share name.
    pub share: String,
    /// Path in the share.
    pub path: String,
    /// Granted access mask.
    pub access: u32,
}

impl SmbSnapshot {
    /// Reads the tables, one session at a time.
    #[must_use]
    pub fn of(
        sessions: &[Arc<SmbSession>],
        multichannel: MultichannelPolicy,
        stats: &SmbStats,
    ) -> Self {
        Self {
            sessions: sessions.iter().map(|s| SmbSessionFact::of(s, multichannel)).collect(),
            multichannel,
            protocol_violations: stats.protocol_violations.load(Ordering::Relaxed),
            requests: stats.requests.load(Ordering::Relaxed),
            logons_failed: stats.logons_failed.load(Ordering::Relaxed),
            logons: stats.logons.load(Ordering::Relaxed),
            logons_delayed: stats.logons_delayed.load(Ordering::Relaxed),
            logons_refused_unchecked: stats.logons_refused_unchecked.load(Ordering::Relaxed),
            channels_lost: stats.channels_lost.load(Ordering::Relaxed),
        }
    }
}

fn shown_path(file: &OpenFile) -> String {
    let mut path = String::from_utf8_lossy(file.path().as_bytes()).into_owned();
    if let Some(stream) = file.stream() {
        path.push(':');
        path.push_str(&String::from_utf8_lossy(stream.as_bytes()));
    }
    path
}

impl SmbSessionFact {
    fn of(session: &SmbSession, multichannel: MultichannelPolicy) -> Self {
        let is_for = multichannel.supports_dialect(session.dialect);
        let opens = session.opens().into_iter().map(|open| OpenFact {
            share: open.tree.share.name.clone(),
            path: match &open.target {
                OpenTarget::File(file) => shown_path(file),
                OpenTarget::Pipe(_) => "(pipe)".into(),
                OpenTarget::Quotas(_) => "(quotas)".into(),
            },
            access: open.file().map_or(0, |file| file.granted().0),
        });
        Self {
            id: session.id.0,
            user: session.user().account.name.clone(),
            dialect: session.dialect.to_string(),
            signing: session.signing,
            cipher: session.cipher,
            encrypted: session.encrypt_data,
            needs_reconnect: is_for
                && session.wants_multichannel
                && !session.is_multichannel
                && session.signing_key.algorithm() != SigningAlgorithm::AesGmac,
            channels_max: if is_for && session.is_multichannel {
                multichannel.channels_max()
            } else {
                1
            },
            channels: session.channels(),
            trees: session.trees().iter().map(|t| t.share.name.clone()).collect(),
            opens: opens.collect(),
        }
    }
}
