//! The NULL procedure: tests whether an NFS server is present.

use super::connection::Connection;
use crate::error::Error;
use crate::limits::NFS_PATIENCE;
use std::net::SocketAddr;
use wire::nfs::numbers::{NFS_PROGRAM, NFS_VERSION, PROCEDURE_NULL};
use wire::nfs::rpc::{AcceptStatus, AuthFlavor, OpaqueAuth, ReplyBody, RpcCall, RpcMessage};
use wire::nfs::xdr::{Opaque, XdrReader};

/// Calls NULL on a connection of its own. RFC 8881 16.1.
///
/// # Errors
/// The peer is no NFSv4 server, or does not answer.
pub async fn null(address: SocketAddr) -> Result<(), Error> {
    let connection = Connection::open((address, NFS_PATIENCE), None).await?;
    let xid = 1;
    let call = RpcCall {
        xid,
        program: NFS_PROGRAM,
        version: NFS_VERSION,
        procedure: PROCEDURE_NULL,
        credentials: OpaqueAuth { flavor: AuthFlavor::NONE, body: Opaque(&[]) },
        verifier: OpaqueAuth::NONE,
    };
    let answered = connection.call(xid, None, |w, _| w.put(&call)).await.map_err(|it| it.error)?;
    match RpcMessage::decode(&mut XdrReader::new(&answered.record)) {
        Ok(RpcMessage::Reply(reply)) => match reply.body {
            ReplyBody::Accepted { status: AcceptStatus::Success, .. } => Ok(()),
            _ => Err(Error::Incompatible("it does not support NFSv4")),
        },
        _ => Err(Error::Hostile("not an RPC reply")),
    }
}
