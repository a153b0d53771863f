//! Sessions with their channels. The field names are those of Windows'
//! `Get-SmbMultichannelConnection` where it has the field.

use super::AdminState;
use super::answer::{AdminAnswer, AdminRefusal, OperationInput};
use super::nfs_clients;
use crate::conn::connections::{ConnectionTable, Traffic};
use crate::limits::ADMIN_ITEMS_MAX;
use crate::machine::interfaces::Interfaces;
use serde_json::{Value, json};
use smb::InterfaceFact;
use smb::snapshot::{ChannelFact, SmbSessionFact, SmbSnapshot};

/// All channels of both protocols.
pub fn all(state: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let AdminState { server, nfs, connections, .. } = state;
    let mut page = page(&server.snapshot(), connections, &state.interfaces);
    page["Interfaces"] = interfaces(&state.interfaces.reachable(state.port));
    page["NfsClients"] = nfs_clients::channels(&nfs.snapshot(), connections);
    Ok(AdminAnswer::Json(page))
}

fn page(snapshot: &SmbSnapshot, connections: &ConnectionTable, interfaces: &Interfaces) -> Value {
    let of = |session: &SmbSessionFact| {
        let channels: Vec<Value> =
            session.channels.iter().map(|c| channel(c, connections, interfaces)).collect();
        json!({
            "SessionId": format!("{:016x}", session.id),
            "UserName": session.user,
            "MaxChannels": session.channels_max,
            "CurrentChannels": channels.len(),
            "NeedsReconnect": session.needs_reconnect,
            "Channels": channels,
        })
    };
    let sessions = snapshot.sessions.iter().take(ADMIN_ITEMS_MAX);
    json!({
        "EnableMultichannel": snapshot.multichannel.enabled,
        "MaxChannels": snapshot.multichannel.channels_max(),
        "Sessions": sessions.map(of).collect::<Vec<_>>(),
    })
}

fn channel(channel: &ChannelFact, connections: &ConnectionTable, interfaces: &Interfaces) -> Value {
    let interface = interfaces.of(channel.local.ip().to_canonical());
    let Traffic { received_bytes, sent_bytes, core } =
        connections.traffic(channel.connection).unwrap_or_default();
    json!({
        "ConnectionId": channel.connection,
        "ClientIpAddress": channel.peer.ip().to_canonical().to_string(),
        "ClientPort": channel.peer.port(),
        "ServerIpAddress": channel.local.ip().to_canonical().to_string(),
        "ServerPort": channel.local.port(),
        "ServerInterfaceIndex": interface.as_ref().map(|i| i.index),
        "ServerLinkSpeed": interface.as_ref().map(|i| i.bits_per_second),
        "ServerRSSCapable": interface.as_ref().map(|i| i.rss),
        "ServerRdmaCapable": false,
        "Dialect": channel.dialect.to_string(),
        "SigningAlgorithm": channel.signing,
        "EncryptionAlgorithm": channel.cipher,
        "Credits": channel.credits(),
        "BytesReceived": received_bytes,
        "BytesSent": sent_bytes,
        "Core": core,
    })
}

/// The interfaces that FSCTL_QUERY_NETWORK_INTERFACE_INFO returns.
fn interfaces(facts: &[InterfaceFact]) -> Value {
    let of = |fact: &InterfaceFact| {
        json!({
            "IpAddress": fact.address.to_string(),
            "InterfaceIndex": fact.index,
            "LinkSpeed": fact.bits_per_second,
            "RSSCapable": fact.rss,
            "RdmaCapable": false,
        })
    };
    facts.iter().map(of).collect()
}
