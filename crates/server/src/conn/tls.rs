//! TLS below NFS (RFC 9289): loads the server's certificate, and runs the TLS stream of one
//! connection.
//!
//! Only connections that start TLS use this module. The memory that a peer can make rustls hold is
//! bounded: 64 KiB of a handshake, and one record of data beyond the bytes that were read.

use crate::config::TlsFiles;
use crate::conn::protocol::End;
use crate::conn::spare;
use bytes::{Buf, BufMut, BytesMut};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{AlertDescription, RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, BufRead, IoSlice, Write};
use std::path::Path;
use std::sync::Arc;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// ALPN name of RPC. RFC 9289 5.1.
const ALPN: &[u8] = b"sunrpc";
/// Buffer for one receive.
const RECEIVE_BYTES: usize = 64 * 1024;

/// Loads certificate, key and client CA.
///
/// # Errors
/// A sentence that names the file and the remedy.
pub fn load(files: &TlsFiles) -> Result<Arc<ServerConfig>, String> {
    let chain = certificates("nfs_tls_certificate", &files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| {
        let what = "make it the key of nfs_tls_certificate, as PEM without a password";
        file_error("nfs_tls_key", &files.key, &error, what)
    })?;
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let wrong = |error: &dyn std::fmt::Display| {
                let what = "set it to the certificate authorities of the clients";
                format!("nfs_tls_client_ca = {}: {error}; {what}", path.display())
            };
            let mut roots = RootCertStore::empty();
            for certificate in certificates("nfs_tls_client_ca", path)? {
                roots.add(certificate).map_err(|error| wrong(&error))?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| wrong(&error))?)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| pair_error(&files.certificate, &files.key, &error))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    // No session state survives for the client's next connection.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn pair_error(certificate: &Path, key: &Path, error: &rustls::Error) -> String {
    let (certificate, key) = (certificate.display(), key.display());
    match error {
        rustls::Error::InconsistentKeys(_) => format!(
            "nfs_tls_certificate = {certificate} and nfs_tls_key = {key} do not match: the key must \
             belong to the first certificate in the file"
        ),
        error => format!(
            "nfs_tls_certificate = {certificate} with nfs_tls_key = {key} cannot be used: {error}; \
             it must be an X.509 certificate of version 3 with subjectAltName"
        ),
    }
}

fn certificates(key: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let what = "make it a PEM file of certificates that this server may read";
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found: Vec<_> = read.map_err(|error| file_error(key, path, &error, what))?;
    match found.is_empty() {
        true => Err(file_error(key, path, &"it contains no certificate", what)),
        false => Ok(found),
    }
}

fn file_error(key: &str, path: &Path, error: &dyn std::fmt::Display, what: &str) -> String {
    format!("{key} = {}: {error}; {what}", path.display())
}

/// The stream of one connection under TLS.
#[derive(Debug)]
pub struct Tls {
    session: ServerConnection,
    /// Received bytes that were not decrypted yet.
    sealed: BytesMut,
}

impl Tls {
    /// Creates the stream, which waits for the ClientHello.
    ///
    /// # Errors
    /// [`End::Refused`] if rustls refuses the configuration.
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, End> {
        let session =
            ServerConnection::new(config).map_err(|_| End::Refused("TLS cannot begin"))?;
        Ok(Self { session, sealed: BytesMut::new() })
    }

    /// Returns true once there is data to take, or false at the end of the stream. The handshake
    /// happens here. Cancel safe.
    ///
    /// # Errors
    /// [`End::Network`], and [`End::Refused`] if the peer violates TLS or the configuration.
    pub async fn arrived(&mut self, stream: &TcpStream) -> Result<bool, End> {
        loop {
            self.send(stream).map_err(End::Network)?;
            match self.session.reader().fill_buf() {
                Ok(data) => return Ok(!data.is_empty()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(End::Network(error)),
            }
            if !self.sealed.is_empty() {
                self.unseal(stream)?;
                continue;
            }
            spare::give_back(&mut self.sealed);
            let both = Interest::READABLE | Interest::WRITABLE;
            let interest = if self.has_unsent() { both } else { Interest::READABLE };
            stream.ready(interest).await.map_err(End::Network)?;
            if self.sealed.capacity() == 0 {
                self.sealed = spare::take();
                self.sealed.reserve(RECEIVE_BYTES);
            }
            match stream.try_read_buf(&mut self.sealed) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(End::Network(error)),
            }
        }
    }

    fn unseal(&mut self, stream: &TcpStream) -> Result<(), End> {
        let mut rest = &self.sealed[..];
        let taken = self.session.read_tls(&mut rest).map_err(End::Network)?;
        self.sealed.advance(taken);
        match self.session.process_new_packets() {
            Ok(_) => Ok(()),
            Err(error) => {
                // Sends the alert that gives the reason.
                let _ = self.send(stream);
                Err(End::Refused(reason(&error)))
            }
        }
    }

    /// Moves received data into `into`, as much as fits.
    ///
    /// # Errors
    /// Only internal errors of rustls.
    pub fn take(&mut self, into: &mut impl BufMut) -> io::Result<usize> {
        let mut reader = self.session.reader();
        let mut taken = 0;
        while into.has_remaining_mut() {
            let data = match reader.fill_buf() {
                Ok(data) => data,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            let count = data.len().min(into.remaining_mut());
            if count == 0 {
                break;
            }
            into.put_slice(&data[..count]);
            reader.consume(count);
            taken += count;
        }
        Ok(taken)
    }

    /// Encrypts as much as there is room for, about 64 KiB, and returns the number of bytes.
    ///
    /// # Errors
    /// Only internal errors of rustls.
    pub fn seal(&mut self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        self.session.writer().write_vectored(data)
    }

    /// Whether encrypted bytes are unsent.
    pub fn has_unsent(&self) -> bool {
        self.session.wants_write()
    }

    /// Sends as many encrypted bytes as the socket takes and returns their number.
    ///
    /// # Errors
    /// Any error of the socket, except that it is full.
    pub fn send(&mut self, stream: &TcpStream) -> io::Result<usize> {
        let mut sent = 0;
        while self.session.wants_write() {
            match self.session.write_tls(&mut NonBlockingWriter(stream)) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    /// Sends close_notify, as far as the socket takes it.
    pub fn close(&mut self, stream: &TcpStream) {
        if !self.session.is_handshaking() {
            self.session.send_close_notify();
            let _ = self.send(stream);
        }
    }
}

/// Non-blocking writer.
struct NonBlockingWriter<'a>(&'a TcpStream);

impl Write for NonBlockingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reason of a failed handshake, for the log.
fn reason(error: &rustls::Error) -> &'static str {
    use AlertDescription::{BadCertificate, CertificateExpired, CertificateUnknown, UnknownCA};
    match error {
        rustls::Error::NoCertificatesPresented => {
            "the client presented no certificate, and nfs_tls_client_ca requires one"
        }
        rustls::Error::InvalidCertificate(_) => {
            "the client's certificate is not signed by nfs_tls_client_ca, or not valid now"
        }
        rustls::Error::AlertReceived(
            BadCertificate | CertificateExpired | CertificateUnknown | UnknownCA,
        ) => {
            "the client does not trust nfs_tls_certificate; install its certificate authority on \
             the client"
        }
        rustls::Error::NoApplicationProtocol => "the client's ALPN protocol is not sunrpc",
        rustls::Error::PeerIncompatible(_) => {
            "the client and the server have no TLS parameters in common; the server requires TLS \
             1.3"
        }
        _ => "TLS protocol error",
    }
}
