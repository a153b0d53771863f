//! Facts about a server that need no user: its connection time, and its NEGOTIATE response.

use crate::client::{ClientHost, receive_greeting};
use crate::error::Error;
use crate::link;
use crate::options::SmbOptions;
use crate::session::NegotiatedParameters;
use crate::set_up::{Logon, SetUp, SetUpStep};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use wire::crypto::{Cipher, SigningAlgorithm};
use wire::ntlm::{NtHash, NtlmCredentials, Secrets};
use wire::smb::Dialect;

/// The time to connect: the round trip of the handshake.
///
/// # Errors
/// Why there is no connection; [`io::ErrorKind::TimedOut`] if it took longer than
/// `within`.
pub async fn connect(to: SocketAddr, within: Duration) -> io::Result<Duration> {
    let begun = Instant::now();
    let stream = tokio::time::timeout(within, TcpStream::connect(to)).await;
    let stream = stream.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let took = begun.elapsed();
    drop(stream);
    Ok(took)
}

/// A server's NEGOTIATE response on a fresh connection, and its response time from the first byte
/// sent. No logon follows.
///
/// # Errors
/// Why there is no response, including a timeout after `within`.
pub async fn negotiate(
    to: SocketAddr,
    options: &SmbOptions,
    host: &dyn ClientHost,
    within: Duration,
) -> Result<(Duration, NegotiatedParameters), Error> {
    let attempt = ask(to, options, host);
    match tokio::time::timeout(within, attempt).await {
        Ok(result) => result,
        Err(_) => Err(Error::Unreachable(io::ErrorKind::TimedOut, to.to_string().into())),
    }
}

async fn ask(
    to: SocketAddr,
    options: &SmbOptions,
    host: &dyn ClientHost,
) -> Result<(Duration, NegotiatedParameters), Error> {
    let mut stream = link::connect(to).await?;
    let mut salt = [0; 32];
    host.random(&mut salt);
    let credentials = NtlmCredentials {
        user: String::new(),
        domain: String::new(),
        workstation: String::new(),
        hash: NtHash::of_password(""),
    };
    // Unused, because no logon follows.
    let secrets = Secrets { challenge: [0; 8], session_key: [0; 16], now: host.now() };
    let (mut set_up, frame) =
        SetUp::new(options, Logon { credentials, secrets, salt, ticket: None, binds: None })?;
    let begun = Instant::now();
    stream.write_all(&frame).await.map_err(|e| Error::lost(true, e))?;
    let mut answer = receive_greeting(&mut stream).await?;
    let took = begun.elapsed();
    match set_up.handle_frame(&mut answer)? {
        SetUpStep::Send(_) => {}
        SetUpStep::Done(_) => return Err(Error::Hostile("a logon without its exchange")),
    }
    let negotiated = set_up.negotiated().copied();
    negotiated.map(|found| (took, found)).ok_or(Error::Hostile("an interim response to NEGOTIATE"))
}

/// Dialects and algorithms that a server supports, of those that the client can offer.
#[derive(Clone, Debug, Default)]
pub struct Offers {
    /// Dialects.
    pub dialects: Vec<Dialect>,
    /// Ciphers of 3.1.1.
    pub ciphers: Vec<Cipher>,
    /// Signing algorithms of 3.1.1.
    pub signing_algorithms: Vec<SigningAlgorithm>,
}

/// Queries each dialect, cipher and algorithm on a connection of its own: at most eleven.
pub async fn offers(
    to: SocketAddr,
    base: &SmbOptions,
    host: &dyn ClientHost,
    within: Duration,
) -> Offers {
    let mut found = Offers::default();
    for dialect in base.dialects() {
        let options = SmbOptions { dialect_min: dialect, dialect_max: dialect, ..base.clone() };
        if negotiate(to, &options, host, within).await.is_ok() {
            found.dialects.push(dialect);
        }
    }
    if !found.dialects.contains(&Dialect::Smb311) {
        return found;
    }
    for cipher in &base.ciphers {
        let options = SmbOptions { ciphers: vec![*cipher], ..base.clone() };
        let answer = negotiate(to, &options, host, within).await;
        if answer.is_ok_and(|(_, negotiated)| negotiated.cipher == Some(*cipher)) {
            found.ciphers.push(*cipher);
        }
    }
    for algorithm in &base.signing_algorithms {
        let options = SmbOptions { signing_algorithms: vec![*algorithm], ..base.clone() };
        let answer = negotiate(to, &options, host, within).await;
        if answer.is_ok_and(|(_, negotiated)| negotiated.signing == *algorithm) {
            found.signing_algorithms.push(*algorithm);
        }
    }
    found
}
