//! The side that logs on. RFC 2743 2.2.1.

use crate::context::Context;
use crate::library::{Buffer, CONTINUE_NEEDED, is_error, kerberos, library};
use crate::name::Name;
use crate::{Error, Key};
use std::ptr::null_mut;

/// Both prove who they are; messages have order; the key signs and seals. RFC 2744 5.19.
const FLAGS: u32 = 2 | 4 | 8 | 16 | 32;

/// What a token of the server came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Send this, and wait for the next.
    Continue(Vec<u8>),
    /// The server is who it says, and both have this key.
    Done(Key),
}

/// An exchange with one server, by the tickets of this process's user.
pub struct Initiator {
    context: Context,
    target: Name,
}

impl std::fmt::Debug for Initiator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Initiator")
    }
}

impl Initiator {
    /// An exchange with `service` on `host`, as in `cifs` and `files.example.org`, and its first
    /// token. Asks the realm's servers for a ticket where none is kept: may take seconds.
    ///
    /// # Errors
    /// No library, no ticket to begin with, or the realm does not know the server.
    pub fn begin(service: &str, host: &str) -> Result<(Self, Vec<u8>), Error> {
        let library = library()?;
        let target = Name::of_service(library, &format!("{service}@{host}"))?;
        let mut initiator = Self { context: Context::new(library), target };
        let (_, token) = initiator.step(&[])?;
        Ok((initiator, token))
    }

    /// Takes the server's answer.
    ///
    /// # Errors
    /// The server does not prove who it is.
    pub fn handle(&mut self, token: &[u8]) -> Result<Outcome, Error> {
        let (goes_on, token) = self.step(token)?;
        if goes_on { Ok(Outcome::Continue(token)) } else { Ok(Outcome::Done(self.context.key()?)) }
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
