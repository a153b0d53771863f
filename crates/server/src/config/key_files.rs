//! Files with keys: the certificate of NFS under TLS, the keytab of Kerberos.

use std::path::PathBuf;

/// PEM files for NFS under TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate and its intermediate certificates.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// Certificate authorities of client certificates; `None` if clients need none.
    pub client_ca: Option<PathBuf>,
    /// Line of the certificate in the file.
    pub line: Option<usize>,
}

/// Keys for verifying Kerberos tickets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KerberosKeys {
    /// Keytab with the keys of `cifs/HOST`.
    pub keytab: PathBuf,
    /// Realm whose principals map to local users of the same name.
    pub realm: String,
    /// Line of the keytab in the file.
    pub line: Option<usize>,
}
