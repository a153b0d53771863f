//! Sessions from before a reload: those that the present configuration would refuse are ended; the
//! others continue.

use crate::config::{EncryptionPolicy, SmbConfig, SmbShare};
use crate::server::SmbServer;
use crate::session::state::SmbSession;
use std::sync::Arc;

/// The reason for which the present configuration refuses an existing session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionRefusal {
    /// The account does not exist any more.
    Account,
    /// The dialect is below the minimum.
    Dialect,
    /// Encryption is required, and the session has none.
    Encryption,
    /// Kerberos logons are not accepted any more.
    Kerberos,
    /// The user logged on by NTLM, which is off now.
    Ntlm,
    /// Signing is required, and the session does not require it.
    Signing,
    /// Guest and anonymous sessions are refused.
    Unproven,
}

impl SessionRefusal {
    /// True if the client may continue, with its durable opens, after a new negotiation.
    fn ends_by_negotiation(self) -> bool {
        matches!(self, Self::Dialect | Self::Encryption | Self::Signing)
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Account => "the account no longer exists",
            Self::Dialect => "its dialect is below min_protocol",
            Self::Encryption => "encryption is required",
            Self::Kerberos => "Kerberos tickets are no longer accepted",
            Self::Ntlm => "NTLM is disabled",
            Self::Signing => "signing is required",
            Self::Unproven => "guest and anonymous sessions are refused",
        }
    }
}

impl SmbServer {
    /// Ends the sessions that the configuration refuses. The caller runs it after
    /// [`Self::configure`]. Returns the numbers of connections to close, because their clients can
    /// renegotiate on a new connection only.
    #[must_use]
    pub fn end_refused_sessions(&self) -> Vec<u64> {
        let config = self.config();
        let mut connections = Vec::new();
        for session in self.all_sessions() {
            let Some(refusal) = self.refusal(&session, &config) else { continue };
            let user = session.user();
            if refusal.ends_by_negotiation() {
                connections.extend(session.channels().iter().map(|channel| channel.connection));
                self.disconnect_session(&session);
            } else {
                self.end_session(&session);
            }
            tracing::info!(
                user = user.account.name,
                reason = refusal.reason(),
                "session ended: the new configuration refuses it"
            );
        }
        connections
    }

    /// The reason for which `config` refuses `session`, if any.
    pub(crate) fn refusal(
        &self,
        session: &SmbSession,
        config: &SmbConfig,
    ) -> Option<SessionRefusal> {
        let user = session.user();
        let is_proven = user.is_proven();
        let is_protected = session.has_proven_keys();
        let lacks_guest = || {
            let admits = |share: &Arc<SmbShare>| share.admission.guests;
            self.host.guest().is_none()
                || !is_protected && !config.accepts_unproven()
                || user.is_guest && !config.shares.iter().any(admits)
        };
        let refusals = [
            (SessionRefusal::Unproven, !is_proven && lacks_guest()),
            (SessionRefusal::Ntlm, !config.ntlm && user.ticket_end.is_none()),
            (SessionRefusal::Kerberos, user.ticket_end.is_some() && !self.host.accepts_tickets()),
            (SessionRefusal::Account, is_proven && !self.host.has_account(&user.account.name)),
            (SessionRefusal::Dialect, session.dialect < config.dialect_min),
            (
                SessionRefusal::Signing,
                is_protected && config.signing_required && !session.signing_required,
            ),
            (
                SessionRefusal::Encryption,
                config.encryption == EncryptionPolicy::Required && !session.encrypt_data,
            ),
        ];
        refusals.into_iter().find_map(|(refusal, is_refused)| is_refused.then_some(refusal))
    }
}
