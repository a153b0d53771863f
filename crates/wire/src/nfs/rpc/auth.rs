//! Credentials and verifiers. RFC 5531 8.2 and appendix A; RFC 9289 4.1.

use crate::codec::DecodeError;
use crate::nfs::limits::{AUTH_BYTES_MAX, GROUPS_MAX, MACHINE_NAME_BYTES_MAX};
use crate::nfs::xdr::{Decode, Encode, Opaque, XdrReader, XdrWriter, xdr_newtype, xdr_struct};

/// Authentication flavor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AuthFlavor(pub u32);

impl AuthFlavor {
    /// No authentication.
    pub const NONE: Self = Self(0);
    /// The user's and the groups' numbers, without proof.
    pub const SYS: Self = Self(1);
    /// RPCSEC_GSS. RFC 2203.
    pub const GSS: Self = Self(6);
    /// A probe for TLS support. RFC 9289.
    pub const TLS: Self = Self(7);
}

xdr_newtype!(AuthFlavor);

/// Body of the verifier with which a server accepts TLS. RFC 9289 4.1.
pub const STARTTLS: &[u8] = b"STARTTLS";

xdr_struct! {
    /// Credentials or a verifier: `opaque_auth`.
    #[derive(Copy)]
    struct OpaqueAuth<'a> {
        /// Flavor.
        flavor: AuthFlavor,
        /// Flavor-specific body.
        body: Opaque<'a, AUTH_BYTES_MAX>,
    }
}

impl<'a> OpaqueAuth<'a> {
    /// AUTH_NONE.
    pub const NONE: Self = Self { flavor: AuthFlavor::NONE, body: Opaque(&[]) };
    /// The credential of a TLS probe.
    pub const TLS_PROBE: Self = Self { flavor: AuthFlavor::TLS, body: Opaque(&[]) };
    /// The verifier that accepts a TLS probe.
    pub const STARTTLS: Self = Self { flavor: AuthFlavor::NONE, body: Opaque(STARTTLS) };

    /// Decodes the credential.
    ///
    /// # Errors
    /// [`DecodeError`] if the body does not match the flavor: AUTH_BADCRED.
    pub fn credential(&self) -> Result<Credential<'a>, DecodeError> {
        let mut r = XdrReader::new(self.body.0);
        let credential = match self.flavor {
            AuthFlavor::NONE => Credential::None,
            AuthFlavor::SYS => Credential::Sys(r.get()?),
            AuthFlavor::TLS => Credential::TlsProbe,
            _ => return Ok(Credential::Other(*self)),
        };
        if r.remaining() == 0 { Ok(credential) } else { Err(r.malformed("credentials")) }
    }
}

/// The caller's credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential<'a> {
    /// AUTH_NONE.
    None,
    /// A user and groups by number.
    Sys(AuthSys<'a>),
    /// A probe for TLS support.
    TlsProbe,
    /// A flavor that this crate does not decode.
    Other(OpaqueAuth<'a>),
}

xdr_struct! {
    /// The body of AUTH_SYS credentials: `authsys_parms`.
    #[derive(Copy)]
    struct AuthSys<'a> {
        /// Arbitrary number of the caller's choice.
        stamp: u32,
        /// The caller's host name.
        machine_name: Opaque<'a, MACHINE_NAME_BYTES_MAX>,
        /// The user's uid.
        uid: u32,
        /// The user's primary gid.
        gid: u32,
        /// The user's supplementary gids.
        groups: Groups,
    }
}

/// At most 16 supplementary gids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Groups {
    count: u8,
    numbers: [u32; GROUPS_MAX],
}

impl Groups {
    /// The first 16 of `groups`.
    #[must_use]
    pub fn new(groups: &[u32]) -> Self {
        let count = groups.len().min(GROUPS_MAX);
        let mut numbers = [0; GROUPS_MAX];
        numbers[..count].copy_from_slice(&groups[..count]);
        Self { count: count as u8, numbers }
    }

    /// The gids in the order of the credential.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        &self.numbers[..usize::from(self.count)]
    }
}

impl Decode<'_> for Groups {
    #[inline]
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, DecodeError> {
        let count = r.count(GROUPS_MAX, "groups")?;
        let mut numbers = [0; GROUPS_MAX];
        for number in &mut numbers[..count] {
            *number = r.u32("groups")?;
        }
        Ok(Self { count: count as u8, numbers })
    }
}

impl Encode for Groups {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        w.u32(u32::from(self.count));
        self.as_slice().iter().for_each(|number| w.u32(*number));
    }
}

impl AuthSys<'_> {
    /// Writes the credential with its flavor and length.
    pub fn encode_credentials(&self, w: &mut XdrWriter<'_>) {
        w.put(&AuthFlavor::SYS);
        let length = w.reserve_u32();
        w.put(self);
        w.finish_opaque(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `opaque_auth` of a user, by hand from RFC 5531 appendix A.
    const SYS: &[u8] = &[
        0, 0, 0, 1, 0, 0, 0, 36, // AUTH_SYS, 36 bytes
        0, 0, 0, 9, 0, 0, 0, 5, b'h', b'o', b's', b't', b'1', 0, 0, 0, // stamp, machine
        0, 0, 3, 0xE8, 0, 0, 0, 100, // uid, gid
        0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 24, // groups
    ];

    #[test]
    fn auth_sys_credentials_match_rfc_5531() {
        let user = AuthSys {
            stamp: 9,
            machine_name: Opaque(b"host1"),
            uid: 1000,
            gid: 100,
            groups: Groups::new(&[4, 24]),
        };
        let auth: OpaqueAuth<'_> = XdrReader::new(SYS).get().unwrap();
        assert_eq!(auth.credential(), Ok(Credential::Sys(user)));
        let mut out = Vec::new();
        user.encode_credentials(&mut XdrWriter::new(&mut out));
        assert_eq!(out, SYS);
    }

    #[test]
    fn excess_groups_and_trailing_bytes_are_refused() {
        let mut bytes = SYS.to_vec();
        bytes[7] = 40;
        bytes.extend([0; 4]);
        let auth: OpaqueAuth<'_> = XdrReader::new(&bytes).get().unwrap();
        assert!(auth.credential().is_err(), "four bytes more than the fields");

        let mut body = Vec::new();
        let w = &mut XdrWriter::new(&mut body);
        [0, 0, 0, 0, 17].iter().for_each(|word| w.u32(*word));
        w.fixed(&[0; 68]);
        let auth = OpaqueAuth { flavor: AuthFlavor::SYS, body: Opaque(&body) };
        assert!(auth.credential().is_err());
    }

    #[test]
    fn tls_probe_has_no_body() {
        assert_eq!(OpaqueAuth::TLS_PROBE.credential(), Ok(Credential::TlsProbe));
        let strange = OpaqueAuth { body: Opaque(b"body"), ..OpaqueAuth::TLS_PROBE };
        assert!(strange.credential().is_err());
    }
}
