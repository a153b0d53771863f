//! Reads and writes through an open by another user than its opener.

use crate::authorize::{EffectiveSecurity, allowed_by};
use crate::{Caller, OpenFile, RequestFiles};
use acl::{Access, ExecuteRule};
use vfs::{AttributeRequest, FsError, Result};

impl RequestFiles {
    /// Checks that `caller` may read or write through an open that may belong to another user: NFS
    /// clients send one user's stateid with another's credentials. RFC 8881 18.22.3, 18.32.3.
    ///
    /// The opener may use its open whatever the permissions are now, as a local process may.
    /// Another user needs them now. The owner of a file without a stored descriptor has them, like
    /// with knfsd's NFSD_MAY_OWNER_OVERRIDE. The right to execute a file permits reading it.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`]; errors of the backend.
    pub fn authorize_by_open(
        &self,
        open: &OpenFile,
        caller: &Caller,
        access: Access,
    ) -> Result<()> {
        let needed = access & (Access::READ_DATA | Access::WRITE_DATA);
        if needed.is_empty() || caller.identity == open.caller.identity {
            return Ok(());
        }
        let attributes = open.node.attributes(AttributeRequest::default())?;
        let in_force = EffectiveSecurity::of(&*open.node, &attributes);
        if caller.identity.uid == attributes.uid && !in_force.is_stored() {
            return Ok(());
        }
        let by_node = || in_force.access(caller, ExecuteRule::ByBit);
        let mut rights = allowed_by(open.volume(), caller, by_node);
        if rights.contains(Access::EXECUTE) {
            rights |= Access::READ_DATA;
        }
        if rights.contains(needed) { Ok(()) } else { Err(FsError::AccessDenied) }
    }
}
