//! The GSS-API initiator. RFC 2743 2.2.1.

use crate::context::Context;
use crate::library::{Buffer, CONTINUE_NEEDED, is_error, kerberos, library};
use crate::name::GssName;
use crate::{Error, GssSessionKey};
use std::ptr::null_mut;

/// Mutual authentication, replay and sequence detection, confidentiality, integrity. RFC 2744 5.19.
const FLAGS: u32 = 2 | 4 | 8 | 16 | 32;

/// The result of a server token.
#[derive(Debug, PartialEq, Eq)]
pub enum InitiatorStep {
    /// The next token to send; the server answers it.
    Continue(Vec<u8>),
    /// The server is authenticated; both sides have this key.
    Done(GssSessionKey),
}

/// An exchange with one server, with the tickets of the process's user.
pub struct GssInitiator {
    context: Context,
    target: GssName,
}

impl std::fmt::Debug for GssInitiator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Initiator")
    }
}

impl GssInitiator {
    /// Begins an exchange with `service` on `host`, such as `cifs` and `files.example.org`, and
    /// returns its first token. Without a cached ticket it contacts the KDC, which may take
    /// seconds.
    ///
    /// The library is missing, there is no initial ticket, or the realm does not know the server.
    pub fn begin(service: &str, host: &str) -> Result<(Self, Vec<u8>), Error> {
        let library = library()?;
        let target = GssName::of_service(library, &format!("{service}@{host}"))?;
        let mut initiator = Self { context: Context::new(library), target };
        let (_, token) = initiator.step(&[])?;
        Ok((initiator, token))
    }

    /// Handles the server's token.
    ///
    /// # Errors
    /// The server does not authenticate itself.
    pub fn handle(&mut self, token: &[u8]) -> Result<InitiatorStep, Error> {
        let (needs_more, token) = self.step(token)?;
        if needs_more {
            Ok(InitiatorStep::Continue(token))
        } else {
            Ok(InitiatorStep::Done(self.context.key()?))
        }
    }

    fn step(&mut self, token: &[u8]) -> Result<(bool, Vec<u8>), Error> {
        let library = self.context.library;
        let (mut minor, mut out, mut token) = (0, Buffer::EMPTY, Buffer::of(token));
        // SAFETY: the library reads the token during the call; the context and the name are its
        // own; all other pointers are to locals or null, where it allows that.
        let status = unsafe {
            (library.init)(
                &mut minor,
                null_mut(),
                &mut self.context.handle,
                self.target.handle,
                &mut kerberos(),
                FLAGS,
                0,
                null_mut(),
                &mut token,
                null_mut(),
                &mut out,
                null_mut(),
                null_mut(),
            )
        };
        let out = library.take(out);
        if is_error(status) {
            return Err(library.refused("no ticket for the server", status, minor));
        }
        Ok((status & CONTINUE_NEEDED != 0, out))
    }
}
