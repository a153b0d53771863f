//! SECINFO, SECINFO_NO_NAME. RFC 8881 18.29, 18.45.

use super::lookup::{lookup, lookup_parent};
use crate::request::run::CompoundRun;
use wire::nfs::NfsStatus;
use wire::nfs::ops::{
    LookupArgs, SecInfo, SecInfoArgs, SecInfoNoNameArgs, SecInfoResult, SecInfoStyle,
};
use wire::nfs::rpc::AuthFlavor;

/// Security flavors of the server.
fn flavors() -> SecInfoResult<'static> {
    vec![SecInfo::Flavor(AuthFlavor::SYS)].into()
}

pub(crate) async fn of_name(
    run: &mut CompoundRun<'_>,
    args: &SecInfoArgs<'_>,
) -> Result<SecInfoResult<'static>, NfsStatus> {
    // The name must exist. A share that requires TLS does, and the flavors are valid with it, so
    // WRONGSEC is no error here.
    match lookup(run, &LookupArgs { name: args.name }).await {
        Ok(()) | Err(NfsStatus::WRONGSEC) => {}
        Err(status) => return Err(status),
    }
    run.unset_current();
    Ok(flavors())
}

pub(crate) async fn of_handle(
    run: &mut CompoundRun<'_>,
    args: &SecInfoNoNameArgs,
) -> Result<SecInfoResult<'static>, NfsStatus> {
    run.place()?;
    if args.style == SecInfoStyle::Parent {
        lookup_parent(run).await?;
    }
    run.unset_current();
    Ok(flavors())
}
