//! Binding: adds a channel to a session. MS-SMB2 3.3.5.5.2, 3.3.5.5.3.

use crate::conn::connection::SmbConn;
use crate::logon::setup_state::SetupPurpose;
use crate::session::channel::SessionChannel;
use crate::session::negotiation::Negotiation;
use crate::session::state::SmbSession;
use bytes::Bytes;
use std::sync::Arc;
use wire::crypto::{KeySource, PreauthHash, SigningAlgorithm};
use wire::ntlm::LogonKind;
use wire::ntstatus::NtStatus;
use wire::smb::{Flags, Header};
use wire::spnego::CompletedLogon;

impl SmbConn {
    /// Begins or continues the exchange that binds a session to this connection.
    ///
    /// # Errors
    /// - `REQUEST_NOT_ACCEPTED`: the dialect has no multichannel, it is off, the session signs with
    ///   AES-GMAC, or the connection has the session already.
    /// - `USER_SESSION_DELETED`: the session does not exist.
    /// - `REQUEST_OUT_OF_SEQUENCE` or `NOT_SUPPORTED`: only one side signs with AES-GMAC.
    /// - `INVALID_PARAMETER`: the connections negotiated different parameters, or the request is
    ///   unsigned.
    /// - `ACCESS_DENIED`: the signature is wrong.
    /// - `NOT_SUPPORTED`: the session is anonymous or a guest's.
    /// - `INSUFFICIENT_RESOURCES`: the session has all its channels.
    pub(crate) fn begin_binding(
        &mut self,
        frame: &Bytes,
        header: &Header,
        negotiated: &Negotiation,
    ) -> Result<(), NtStatus> {
        let id = header.session_id;
        let session = self.server.session(id).ok_or(NtStatus::USER_SESSION_DELETED)?;
        check_signing(&session, negotiated)?;
        if !self.server.config().multichannel.supports_dialect(negotiated.dialect) {
            return Err(NtStatus::REQUEST_NOT_ACCEPTED);
        }
        check_alike(&session, negotiated)?;
        if negotiated.signing == SigningAlgorithm::AesGmac {
            return Err(NtStatus::REQUEST_NOT_ACCEPTED);
        }
        if self.channels.contains_key(&id.0) {
            return Err(NtStatus::REQUEST_NOT_ACCEPTED);
        }
        if !header.flags.contains(Flags::SIGNED) {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        if !session.user().is_proven() {
            return Err(NtStatus::NOT_SUPPORTED);
        }
        if !session.signing_key.verify(frame) {
            return Err(NtStatus::ACCESS_DENIED);
        }
        if session.channels().len() >= self.server.config().multichannel.channels_max() {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        if self.setups.contains_key(&id.0) {
            return Ok(());
        }
        self.begin_setup(SetupPurpose::Bind(session)).map(|_| ())
    }

    /// The session of another connection for which a request is signed. Its key may sign this
    /// connection's response. An AES-GMAC key would repeat a nonce of its own connection, so it is
    /// excluded.
    pub(crate) fn bindable(&self, message: &[u8], header: &Header) -> Option<Arc<SmbSession>> {
        let elsewhere = !self.channels.contains_key(&header.session_id.0);
        let session = self.server.session(header.session_id).filter(|_| elsewhere)?;
        if session.signing_key.algorithm() == SigningAlgorithm::AesGmac {
            return None;
        }
        let signed = header.flags.contains(Flags::SIGNED) && session.signing_key.verify(message);
        signed.then_some(session)
    }

    /// A temporary channel of that session, whose key signs a refusal so that the session's client
    /// accepts it.
    pub(crate) fn channel_to_refuse(
        &self,
        message: &[u8],
        header: &Header,
    ) -> Option<Arc<SessionChannel>> {
        let session = self.bindable(message, header)?;
        let signing = session.signing_key.clone();
        Some(Arc::new(SessionChannel { session, signing }))
    }

    /// Completes a binding: the connection becomes a channel if the session's own user has
    /// authenticated.
    pub(crate) fn bind(
        &mut self,
        session: Arc<SmbSession>,
        negotiated: &Negotiation,
        preauth: &PreauthHash,
        logon: &CompletedLogon,
    ) -> Result<Arc<SessionChannel>, NtStatus> {
        let same = logon.kind == LogonKind::User
            && self.server.host.account(&logon.user).is_some_and(|account| {
                account.name == session.user().account.name && session.user().is_proven()
            });
        if !same {
            return Err(NtStatus::ACCESS_DENIED);
        }
        if !self.server.host.admit_connection(self.shared.facts.id, &session.holder) {
            return Err(NtStatus::REQUEST_NOT_ACCEPTED);
        }
        let source =
            KeySource { dialect: negotiated.dialect, session_key: &logon.session_key, preauth };
        let signing = Arc::new(source.signing(negotiated.signing));
        let channel = Arc::new(SessionChannel { session: session.clone(), signing });
        let channels_max = self.server.config().multichannel.channels_max();
        session.add_channel(self.channel_fact(negotiated), channels_max)?;
        self.channels.insert(session.id.0, channel.clone());
        Ok(channel)
    }
}

/// Checks that all channels use AES-GMAC or none does. The other algorithms may differ, as their
/// keys do. Windows behaves the same.
fn check_signing(session: &SmbSession, negotiated: &Negotiation) -> Result<(), NtStatus> {
    let gmac = SigningAlgorithm::AesGmac;
    match (session.signing_key.algorithm() == gmac, negotiated.signing == gmac) {
        (true, false) => Err(NtStatus::REQUEST_OUT_OF_SEQUENCE),
        (false, true) => Err(NtStatus::NOT_SUPPORTED),
        _ => Ok(()),
    }
}

/// Checks that dialect and cipher of the two connections are equal.
fn check_alike(session: &SmbSession, negotiated: &Negotiation) -> Result<(), NtStatus> {
    let cipher = negotiated.cipher.map_or("-", |c| c.name());
    let alike = session.dialect == negotiated.dialect && session.cipher == cipher;
    if alike { Ok(()) } else { Err(NtStatus::INVALID_PARAMETER) }
}
