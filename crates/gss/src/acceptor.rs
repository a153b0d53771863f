//! The GSS-API acceptor. RFC 2743 2.2.2.

use crate::context::Context;
use crate::library::{
    Buffer, CONTINUE_NEEDED, CredentialStore, GssHandle, Library, OidSet, StoreElement, is_error,
    kerberos, library,
};
use crate::name::GssName;
use crate::{Error, GssSessionKey};
use std::ffi::CString;
use std::path::Path;
use std::ptr::null_mut;

/// GSS_C_ACCEPT.
const ACCEPT: i32 = 2;
/// MIT krb5's name attribute for PAC buffers of type 1. MS-PAC 2.4.
const LOGON_INFO: &str = "urn:mspac:logon-info";
/// GSS_C_INDEFINITE.
const FOREVER: u32 = u32::MAX;

/// The server's keys.
pub struct Keytab {
    library: &'static Library,
    credential: GssHandle,
}

// SAFETY: MIT krb5 locks its credentials; this one is only read after its creation.
unsafe impl Send for Keytab {}
// SAFETY: as above.
unsafe impl Sync for Keytab {}

impl std::fmt::Debug for Keytab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keytab")
    }
}

impl Keytab {
    /// Opens a keytab file; each of its principals is accepted.
    ///
    /// # Errors
    /// The library is missing, the file is missing, or it contains no readable key.
    pub fn open(file: &Path) -> Result<Self, Error> {
        let library = library()?;
        let unreadable =
            |reason: &str| Error::Refused { what: "the keytab", reason: reason.to_owned() };
        let place = file.to_str().and_then(|file| CString::new(format!("FILE:{file}")).ok());
        let place = place.ok_or_else(|| unreadable("its path is no text"))?;
        let mut elements = [StoreElement { key: c"keytab".as_ptr(), value: place.as_ptr() }];
        let store = CredentialStore { count: 1, elements: elements.as_mut_ptr() };
        // By default the library acquires credentials for all its mechanisms, and succeeds if one
        // of them does. Such a credential may lack the Kerberos keys.
        let mut mechanism = kerberos();
        let mechanisms = OidSet { count: 1, elements: &mut mechanism };
        let (mut minor, mut credential) = (0, null_mut());
        // SAFETY: the library reads the store and the set during the call; all pointers are to
        // locals or null, where it allows that.
        let status = unsafe {
            (library.acquire_cred_from)(
                &mut minor,
                null_mut(),
                FOREVER,
                &mechanisms,
                ACCEPT,
                &store,
                &mut credential,
                null_mut(),
                null_mut(),
            )
        };
        if is_error(status) {
            return Err(library.refused("the keytab", status, minor));
        }
        Ok(Self { library, credential })
    }
}

impl Drop for Keytab {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the library made it; it is not used again.
        unsafe { (self.library.release_cred)(&mut minor, &mut self.credential) };
    }
}

/// An accepted logon.
#[derive(Debug, PartialEq, Eq)]
pub struct AcceptedLogon {
    /// The final token, for the client.
    pub token: Vec<u8>,
    /// The client, as in `alice@EXAMPLE.ORG`.
    pub principal: String,
    /// The session key.
    pub key: GssSessionKey,
    /// Expiry of the ticket, in seconds since 1970.
    pub end_time: u64,
    /// KERB_VALIDATION_INFO of the ticket's PAC, if the realm has signed one.
    pub logon_info: Option<Vec<u8>>,
}

/// One exchange.
#[derive(Debug)]
pub struct GssAcceptor {
    context: Context,
}

impl GssAcceptor {
    /// An exchange before its first token.
    #[must_use]
    pub fn new(keytab: &Keytab) -> Self {
        Self { context: Context::new(keytab.library) }
    }

    /// Accepts the client's only token. Opens the replay cache, but uses no network.
    ///
    /// # Errors
    /// An invalid, expired or replayed token, one for another server, or a client that needs more
    /// than one round, which SMB clients do not.
    pub fn handle(mut self, keytab: &Keytab, token: &[u8]) -> Result<AcceptedLogon, Error> {
        let library = keytab.library;
        let (mut minor, mut source, mut out, mut token) =
            (0, null_mut(), Buffer::EMPTY, Buffer::of(token));
        // SAFETY: the library reads the token during the call; the context and the credential are
        // its own; all other pointers are to locals or null, where it allows that.
        let status = unsafe {
            (library.accept)(
                &mut minor,
                &mut self.context.handle,
                keytab.credential,
                &mut token,
                null_mut(),
                &mut source,
                null_mut(),
                &mut out,
                null_mut(),
                null_mut(),
                null_mut(),
            )
        };
        let token = library.take(out);
        let source = GssName::from_raw(library, source);
        if is_error(status) {
            return Err(library.refused("the client's ticket", status, minor));
        }
        if status & CONTINUE_NEEDED != 0 {
            let reason = "it wants more than one round".to_owned();
            return Err(Error::Refused { what: "the client's ticket", reason });
        }
        let (key, end_time) = (self.context.key()?, self.context.end_time()?);
        let logon_info = source.authenticated(LOGON_INFO);
        Ok(AcceptedLogon { token, principal: source.text(), key, end_time, logon_info })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A keytab with one AES-128 key for `cifs/host@R`: version 2, one entry.
    fn keytab() -> tempfile::NamedTempFile {
        let text = |text: &[u8]| [&[0, text.len() as u8], text].concat();
        let head = [&[0, 2][..], &text(b"R"), &text(b"cifs"), &text(b"host")].concat();
        // Name type, timestamp, key version; key type (17), key bytes.
        let tail = [&[0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 17][..], &text(&[7; 16])].concat();
        let length = (head.len() + tail.len()) as u32;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[&[5, 2][..], &length.to_be_bytes(), &head, &tail].concat()).unwrap();
        file
    }

    /// The reason for which a malformed token of a mechanism is refused; none without the library.
    fn reason(mechanism: &[u8]) -> Option<String> {
        let file = keytab();
        let keytab = match Keytab::open(file.path()) {
            Err(Error::Absent(_)) => return None,
            opened => opened.unwrap(),
        };
        let oid = [&[6, mechanism.len() as u8], mechanism].concat();
        let token = [&[0x60, oid.len() as u8 + 3][..], &oid, &[1, 0, 0]].concat();
        match GssAcceptor::new(&keytab).handle(&keytab, &token) {
            Err(Error::Refused { reason, .. }) => Some(reason),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn acceptor_has_no_credential_for_spnego_or_iakerb() {
        for other in [&b"\x2b\x06\x01\x05\x05\x02"[..], b"\x2b\x06\x01\x05\x02\x05"] {
            if let Some(reason) = reason(other) {
                assert!(reason.contains("No credentials"), "{other:x?}: {reason}");
            }
        }
    }

    #[test]
    fn invalid_ticket_is_refused_with_a_readable_reason() {
        if let Some(reason) = reason(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02") {
            assert!(reason.contains("malformed"), "{reason}");
        }
    }
}
