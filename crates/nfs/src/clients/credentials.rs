//! RPC credentials, and the caller on a share that results. RFC 5531 8.2, appendix A.

use crate::clients::link::NfsConnFacts;
use crate::exports::export::{ExportTerms, NO_ID};
use crate::host::NfsHost;
use crate::state::principal::Principal;
use files::Caller;
use std::sync::Arc;
use sync::Mutex;
use vfs::Identity;
use wire::nfs::rpc::{AuthFlavor, Credential, OpaqueAuth};

/// Credentials of a call, by the client's own claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallCredentials {
    /// Authentication flavor.
    pub flavor: AuthFlavor,
    /// Claimed identity; none with AUTH_NONE.
    pub identity: Option<Identity>,
}

impl CallCredentials {
    /// Decodes AUTH_SYS and AUTH_NONE. None for other or malformed credentials.
    #[must_use]
    pub fn of(auth: &OpaqueAuth<'_>) -> Option<Self> {
        let identity = match auth.credential().ok()? {
            Credential::None => None,
            Credential::Sys(sys) => {
                let mut groups = sys.groups.as_slice().to_vec();
                groups.retain(|group| *group != sys.gid);
                groups.sort_unstable();
                groups.dedup();
                Some(Identity { uid: sys.uid, gid: sys.gid, groups })
            }
            Credential::TlsProbe | Credential::Other(_) => return None,
        };
        Some(Self { flavor: auth.flavor, identity })
    }

    /// Principal of the call, for clients and sessions.
    #[must_use]
    pub fn principal(&self, by: &NfsConnFacts) -> Principal {
        let (uid, gid) = self.identity.as_ref().map_or((NO_ID, NO_ID), |i| (i.uid, i.gid));
        let has_reserved_port = by.has_reserved_port();
        Principal { flavor: self.flavor.0, uid, gid, has_reserved_port }
    }
}

/// Recent callers of a connection: creating one costs a name lookup.
#[derive(Debug, Default)]
pub struct Callers {
    latest: Mutex<Vec<(Identity, Arc<Caller>)>>,
}

/// Callers that a connection caches.
const CALLERS_MAX: usize = 16;

impl Callers {
    /// The caller that the terms map these credentials to.
    pub fn get(
        &self,
        host: &dyn NfsHost,
        terms: &ExportTerms,
        credentials: &CallCredentials,
    ) -> Arc<Caller> {
        let identity = terms.squashed(credentials.identity.as_ref());
        let mut latest = self.latest.lock();
        if let Some((_, caller)) = latest.iter().find(|(known, _)| *known == identity) {
            return caller.clone();
        }
        let caller = host.caller(identity.clone());
        if latest.len() == CALLERS_MAX {
            latest.remove(0);
        }
        latest.push((identity, caller.clone()));
        caller
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::nfs::rpc::{AuthSys, Groups};
    use wire::nfs::xdr::{Opaque, XdrWriter};

    fn sys(uid: u32, gid: u32, groups: &[u32]) -> Vec<u8> {
        let groups = Groups::new(groups);
        let mut body = Vec::new();
        let sys = AuthSys { stamp: 0, machine_name: Opaque(b"m"), uid, gid, groups };
        XdrWriter::new(&mut body).put(&sys);
        body
    }

    #[test]
    fn auth_sys_groups_are_sorted_and_deduplicated() {
        let body = sys(5, 7, &[9, 7, 8, 9]);
        let auth = OpaqueAuth { flavor: AuthFlavor::SYS, body: Opaque(&body) };
        let credentials = CallCredentials::of(&auth).unwrap();
        assert_eq!(credentials.identity, Some(Identity { uid: 5, gid: 7, groups: vec![8, 9] }));
    }

    #[test]
    fn unsupported_credentials_are_refused() {
        let short = OpaqueAuth { flavor: AuthFlavor::SYS, body: Opaque(&[0; 4]) };
        let gss = OpaqueAuth { flavor: AuthFlavor::GSS, body: Opaque(&[]) };
        for auth in [short, gss, OpaqueAuth::TLS_PROBE] {
            assert_eq!(CallCredentials::of(&auth), None);
        }
        assert_eq!(CallCredentials::of(&OpaqueAuth::NONE).unwrap().identity, None);
    }
}
