//! The identity of a session.

use crate::host::Account;
use limits::LedgerHolder;
use meter::Authentication;
use std::net::IpAddr;

/// The identity of a session; re-authentication replaces it.
#[derive(Clone, Debug)]
pub struct SessionUser {
    /// The account.
    pub account: Account,
    /// The client proved no password: it is a guest.
    pub is_guest: bool,
    /// The client logged on anonymously.
    pub is_anonymous: bool,
    /// Expiry of the Kerberos ticket of this logon, in seconds since 1970.
    pub ticket_end: Option<u64>,
}

impl SessionUser {
    /// True if the client proved a password or a ticket.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        !self.is_guest && !self.is_anonymous
    }

    /// The label under which requests are metered.
    pub(crate) fn authentication(&self) -> Authentication {
        match (self.is_proven(), self.ticket_end.is_some()) {
            (false, _) => Authentication::Anonymous,
            (true, true) => Authentication::Kerberos,
            (true, false) => Authentication::NTLMv2,
        }
    }

    /// The account that pays for the session's shared resources. For guest and anonymous sessions
    /// it is the client's network, because a client can open any number of them.
    #[must_use]
    pub fn holder(&self, peer: IpAddr) -> LedgerHolder {
        if self.is_proven() {
            LedgerHolder::User(self.account.name.as_str().into())
        } else {
            LedgerHolder::site(peer)
        }
    }
}
