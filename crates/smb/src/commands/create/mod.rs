//! CREATE. MS-SMB2 3.3.5.9.
//!
//! All branching is here; the stages are straight: plan (what was asked for),
//! `files.open` (resolve, authorize, acquire, apply), respond.

mod plan;
mod respond;

use crate::dispatch::{Outcome, Request, malformed};
use crate::open::{Open, Target};
use crate::status::status_of;
use crate::tree::Tree;
use plan::Plan;
use std::sync::{Arc, Mutex};
use wire::ntstatus::NtStatus;
use wire::rpc::{Interface, Pipe, RpcFacts, ShareFact};
use wire::smb::{CreateRequest, CreateResponse};

/// Opens or makes a file, a directory or a pipe.
pub async fn create(request: &mut Request<'_>) -> Result<Outcome, NtStatus> {
    let result = open_it(request).await;
    if let Err(status) = result {
        // What follows in the chain fails like the open it counts on.
        request.related.failed = Some(status);
        request.related.open = None;
    }
    result
}

async fn open_it(request: &mut Request<'_>) -> Result<Outcome, NtStatus> {
    let body = CreateRequest::decode(&mut request.body()?).map_err(malformed)?;
    let tree = request.tree()?;
    if tree.share.is_ipc() {
        return open_pipe(request, &tree, &body);
    }
    let plan = Plan::of(&body, request.header)?;
    let session = request.session()?;
    let volume = tree.volume()?.clone();
    let user = session.user();
    let files = &request.server.files;
    let result = files.open(&volume, &user.account.caller, plan.open.clone()).await;
    let opened = result.map_err(|error| plan.status_of(error))?;
    let open = Arc::new(Open {
        id: request.server.new_file_id(),
        tree,
        target: Target::File(opened.open.clone()),
        write_through: plan.write_through,
        mode: plan.mode,
        closed: crate::signal::Signal::default(),
        scan: Mutex::default(),
    });
    session.add_open(open.clone())?;
    respond::respond(request, &plan, &open, &opened)?;
    request.related.failed = None;
    request.related.open = Some(open);
    Ok(Outcome::success())
}

/// Pipes of IPC$: the RPC interfaces that clients list shares with.
fn open_pipe(
    request: &mut Request<'_>,
    tree: &Arc<Tree>,
    body: &CreateRequest<'_>,
) -> Result<Outcome, NtStatus> {
    let units = wire::codec::utf16_units(body.name, "pipe name").map_err(malformed)?;
    let name = String::from_utf16_lossy(&units);
    let name = name.trim_start_matches('\\');
    let name = name.strip_prefix("PIPE\\").or(name.strip_prefix("pipe\\")).unwrap_or(name);
    if name.is_empty() {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let interface = Interface::of_pipe(name).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
    let pipe = Pipe::new(interface, rpc_facts(request));
    let open = Arc::new(Open {
        id: request.server.new_file_id(),
        tree: tree.clone(),
        target: Target::Pipe(Mutex::new(pipe)),
        write_through: false,
        mode: 0,
        closed: crate::signal::Signal::default(),
        scan: Mutex::default(),
    });
    request.session()?.add_open(open.clone())?;
    let response = CreateResponse {
        action: respond::FILE_OPENED,
        allocation_bytes: 4096,
        attributes: wire::fscc::FILE_ATTRIBUTE_NORMAL,
        file_id: open.id,
        ..CreateResponse::default()
    };
    response.encode(&mut request.w, &[]);
    request.related.failed = None;
    request.related.open = Some(open);
    Ok(Outcome::success())
}

fn rpc_facts(request: &Request<'_>) -> RpcFacts {
    let config = request.server.config();
    let shares = config.shares.iter().map(|s| ShareFact {
        name: s.name.clone(),
        kind: 0,
        remark: s.comment.clone(),
    });
    let ipc = ShareFact { name: "IPC$".into(), kind: 0x8000_0003, remark: "Remote IPC".into() };
    RpcFacts {
        server_name: config.name.clone(),
        domain: config.domain.clone(),
        comment: String::new(),
        shares: shares.chain([ipc]).collect(),
    }
}

impl Plan {
    /// The status for a refusal: where the path was bad, which part of it.
    fn status_of(&self, error: vfs::FsError) -> NtStatus {
        status_of(error)
    }
}
