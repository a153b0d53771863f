//! TLS below NFS: what it is offered with, and the stream of one connection. RFC 9289.
//!
//! Only a connection that begins TLS comes here. What a peer makes rustls hold is bounded:
//! 64 KiB of a handshake, one record of data beyond what was taken.

use crate::config::TlsFiles;
use crate::protocol::End;
use crate::spare;
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

/// What is spoken inside. RFC 9289 5.1.
const ALPN: &[u8] = b"sunrpc";
/// Room for one receive.
const RECEIVE_BYTES: usize = 64 * 1024;

/// What TLS is offered with.
///
/// # Errors
/// A sentence that names the file and the remedy.
pub fn load(files: &TlsFiles) -> Result<Arc<ServerConfig>, String> {
    let chain = certificates("nfs_tls_certificate", &files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| {
        let what = "make it the key of nfs_tls_certificate, as PEM without a password";
        told("nfs_tls_key", &files.key, &error, what)
    })?;
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let wrong = |error: &dyn std::fmt::Display| {
                let what = "put the certificates there that sign those of the clients";
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
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        format!(
            "nfs_tls_certificate = {certificate} and nfs_tls_key = {key} do not go together: {error}; the key must be that of the first certificate in the file"
        )
    })?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    // Nothing of a client is kept for its next connection.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn certificates(key: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let what = "make it a PEM file of certificates that this server may read";
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found: Vec<_> = read.map_err(|error| told(key, path, &error, what))?;
    match found.is_empty() {
        true => Err(told(key, path, &"no certificate is in it", what)),
        false => Ok(found),
    }
}

fn told(key: &str, path: &Path, error: &dyn std::fmt::Display, what: &str) -> String {
    format!("{key} = {}: {error}; {what}", path.display())
}

/// The stream of one connection under TLS.
#[derive(Debug)]
pub struct Tls {
    session: ServerConnection,
    /// What has arrived and was not looked at.
    sealed: BytesMut,
}

impl Tls {
    /// One that waits for the client's first word.
    ///
    /// # Errors
    /// [`End::Refused`] if nothing can be offered.
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, End> {
        let session =
            ServerConnection::new(config).map_err(|_| End::Refused("TLS cannot begin"))?;
        Ok(Self { session, sealed: BytesMut::new() })
    }

    /// Returns once there is data to take, or false when there will be none. The handshake
    /// happens here. Nothing is lost if this is dropped.
    ///
    /// # Errors
    /// [`End::Network`], and [`End::Refused`] for what is not TLS as it is wanted here.
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
                // The alert that says why.
                let _ = self.send(stream);
                Err(End::Refused(reason(&error)))
            }
        }
    }

    /// Moves data that has arrived, as much as `into` has room for.
    ///
    /// # Errors
    /// None but those of rustls' own.
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

    /// Seals what there is room for, some 64 KiB; says how much that was.
    ///
    /// # Errors
    /// None but those of rustls' own.
    pub fn seal(&mut self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        self.session.writer().write_vectored(data)
    }

    /// Whether something sealed has not left.
    pub fn has_unsent(&self) -> bool {
        self.session.wants_write()
    }

    /// Sends what the socket takes of what is sealed; says how many bytes it took.
    ///
    /// # Errors
    /// Those of the socket; not that it is full.
    pub fn send(&mut self, stream: &TcpStream) -> io::Result<usize> {
        let mut sent = 0;
        while self.session.wants_write() {
            match self.session.write_tls(&mut Socket(stream)) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    /// Says that nothing more comes, if it can be said; the socket takes it or not.
    pub fn close(&mut self, stream: &TcpStream) {
        if !self.session.is_handshaking() {
            self.session.send_close_notify();
            let _ = self.send(stream);
        }
    }
}

/// Writes without waiting.
struct Socket<'a>(&'a TcpStream);

impl Write for Socket<'_> {
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

/// Why there is no TLS, for whoever has to see to it.
fn reason(error: &rustls::Error) -> &'static str {
    use AlertDescription::{BadCertificate, CertificateExpired, CertificateUnknown, UnknownCA};
    match error {
        rustls::Error::NoCertificatesPresented => {
            "the client shows no certificate, and nfs_tls_client_ca asks for one"
        }
        rustls::Error::InvalidCertificate(_) => {
            "the client's certificate is none that nfs_tls_client_ca stands for, or is not valid now"
        }
        rustls::Error::AlertReceived(
            BadCertificate | CertificateExpired | CertificateUnknown | UnknownCA,
        ) => "the client does not trust nfs_tls_certificate; give it the certificate that signs it",
        rustls::Error::NoApplicationProtocol => "the client wants something else than RPC in TLS",
        rustls::Error::PeerIncompatible(_) => {
            "the client's TLS has nothing in common with ours, which is TLS 1.3"
        }
        _ => "TLS was not what it must be",
    }
}
