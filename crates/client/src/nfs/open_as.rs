//! Opens with share reservations and delegations, and the return of delegations. RFC 8881 10.4,
//! 18.16, 18.6.

use super::client::refused;
use super::delegation::ClientDelegation;
use super::export::{NfsExport, NfsFile, PUT, for_put, put, result};
use crate::error::Error;
use wire::nfs::attributes::NfsAttributes;
use wire::nfs::ops::{
    DelegReturnArgs, NfsCreateHow, NfsOpenHow, NfsOpenResult, OpenArgs, OpenClaim, OpenDelegation,
    ShareAccess, ShareDeny,
};
use wire::nfs::xdr::Opaque;
use wire::nfs::{Operation, OperationNumber, StateOwner};

/// Parameters of an open.
#[derive(Clone, Copy, Debug)]
pub struct NfsOpenParameters {
    /// Share access, and the delegation want.
    pub access: ShareAccess,
    /// Share deny.
    pub deny: ShareDeny,
    /// Creates the file if it does not exist.
    pub creates: bool,
}

impl NfsExport {
    /// Opens a file for this client's one open owner.
    ///
    /// # Errors
    /// See [`NfsExport::make_directory`].
    pub async fn open_as(
        &self,
        path: impl AsRef<[u8]>,
        wish: NfsOpenParameters,
    ) -> Result<(NfsFile, Option<ClientDelegation>), Error> {
        let (parent, name) = self.parent(path.as_ref()).await?;
        let mut buffer = Vec::new();
        let mode = NfsAttributes { mode: Some(0o644), ..NfsAttributes::default() };
        let create = NfsOpenHow::Create(NfsCreateHow::Unchecked(mode.to_fattr(&mut buffer)));
        let client_id = self.client().id();
        let open = Operation::Open(OpenArgs {
            sequence_id: 0,
            share_access: wish.access,
            share_deny: wish.deny,
            owner: StateOwner { client_id, owner: Opaque(b"anabranch") },
            how: if wish.creates { create } else { NfsOpenHow::NoCreate },
            claim: OpenClaim::Null(name),
        });
        let answer = self.client().compound(&[put(&parent), open, Operation::GetFh]).await?;
        let mut results = answer.results()?;
        for_put(&mut results)?;
        let number = OperationNumber::OPEN;
        let opened: NfsOpenResult<'_> = results.succeed(number).map_err(refused(number))?;
        let number = OperationNumber::GETFH;
        let handle = results.succeed(number).map_err(refused(number))?;
        let delegated = |state_id, is_write| Some(ClientDelegation { handle, state_id, is_write });
        let delegation = match opened.delegation {
            OpenDelegation::Read(given) | OpenDelegation::ReadAttributes(given) => {
                delegated(given.state_id, false)
            }
            OpenDelegation::Write(given) | OpenDelegation::WriteAttributes(given) => {
                delegated(given.state_id, true)
            }
            OpenDelegation::None | OpenDelegation::NoneWhy(_) => None,
        };
        Ok((NfsFile { handle, state_id: opened.state_id }, delegation))
    }

    /// Returns a delegation.
    ///
    /// # Errors
    /// See [`NfsExport::make_directory`].
    pub async fn return_delegation(&self, delegation: ClientDelegation) -> Result<(), Error> {
        let state_id = delegation.state_id;
        let give = Operation::DelegReturn(DelegReturnArgs { state_id });
        let answer = self.client().compound(&[put(&delegation.handle), give]).await?;
        result::<()>(&answer, PUT, OperationNumber::DELEGRETURN)
    }
}
