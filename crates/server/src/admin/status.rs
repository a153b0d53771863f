//! Operations on the server as a whole: counters, health, busiest clients and files, reload.

use super::answer::{AdminAnswer, AdminRefusal, OperationInput};
use super::{AdminState, nfs_clients, sessions};
use crate::conn::connections::ConnectionCounts;
use crate::limits::ADMIN_ITEMS_MAX;
use crate::shares::disks::{self, ShareDisk};
use serde_json::{Value, json};
use smb::snapshot::SmbSnapshot;
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// The text format of Prometheus, version 0.0.4.
const METRICS_KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Number of busiest clients and files.
const TOP: usize = 20;

/// Fraction of free space below which a share has a warning.
const SPACE_SHORT: f64 = 0.05;

/// Fraction of the connection limit above which there is a warning.
const CONNECTIONS_MANY: f64 = 0.9;

/// Period in which refused logons are counted, and the number from which there is a warning: more
/// than a user's mistakes.
const LOGONS_REFUSED_SECONDS: u64 = 600;
const LOGONS_REFUSED_MANY: u64 = 10;

/// Proves only that the process answers.
pub fn alive(_: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    Ok(AdminAnswer::Text("text/plain; charset=utf-8", "ok\n".into()))
}

/// All metrics.
pub fn metrics(state: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    Ok(AdminAnswer::Text(METRICS_KIND, state.observer.metrics()))
}

/// Request counters by share and operation.
pub fn requests(state: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let snapshot = state.files.meter().snapshot();
    serde_json::to_value(snapshot).map(AdminAnswer::Json).map_err(|_| AdminRefusal::Defect)
}

/// Counters and present clients.
pub fn status(state: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let ConnectionCounts {
        open, unknown, accepted, refused, received_bytes, sent_bytes, ends, ..
    } = state.connections.counts();
    let SmbSnapshot { sessions, protocol_violations, requests, logons_failed, logons, .. } =
        state.server.snapshot();
    let shown = sessions.iter().take(ADMIN_ITEMS_MAX);
    Ok(AdminAnswer::Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "name": state.server.config().name,
        "uptime_seconds": state.started.elapsed().as_secs(),
        "confinement": crate::confinement::layers().unwrap_or_default(),
        "refusals_logged": crate::confinement::are_refusals_logged(),
        "drain": state.drain.facts().state,
        "connections": open,
        "connections_unauthenticated": unknown,
        "connections_accepted": accepted,
        "connections_refused": refused,
        "connections_ended": ends,
        "received_bytes": received_bytes,
        "sent_bytes": sent_bytes,
        "requests": requests,
        "logons": logons,
        "logons_failed": logons_failed,
        "protocol_violations": protocol_violations,
        "discovery": state.observer.discovery.status(),
        "backend_latency_us": made_slow(state),
        "disk_failures": disk_failures(state),
        "open_files": state.files.open_file_count(),
        "sessions": shown.map(|session| sessions::shown(session, state)).collect::<Vec<_>>(),
        "sessions_total": sessions.len(),
        "nfs": nfs_clients::status(&state.nfs.snapshot()),
    })))
}

/// Shares with an artificial backend latency, in microseconds.
fn made_slow(state: &AdminState) -> Value {
    let shares = state.shares.all();
    let slow = shares.iter().filter(|share| share.backend_latency_us > 0);
    slow.map(|share| (share.name.clone(), json!(share.backend_latency_us))).collect()
}

/// Shares whose disks failed to store written data.
fn disk_failures(state: &AdminState) -> Value {
    let disks = disks::all(&state.server.config(), &state.files);
    let shown = |disk: ShareDisk| {
        let ShareDisk { share, failure, has_stopped } = disk;
        let error = failure.reason();
        (share, json!({ "count": failure.count, "error": error, "stopped": has_stopped }))
    };
    disks.into_iter().map(shown).collect()
}

/// Health checks.
pub fn health(state: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let mut checks = vec![taking(state), room(state), logons(state)];
    let disks = disks::all(&state.server.config(), &state.files);
    checks.extend(disks.into_iter().take(ADMIN_ITEMS_MAX).map(disk_failed));
    checks.extend(state.shares.all().iter().take(ADMIN_ITEMS_MAX).map(|share| {
        let name = format!("share {}", share.name);
        match super::shares::space(state, &share.name) {
            None => check(name, "failing", "its directory is inaccessible; restore it and reload"),
            Some((total, free)) if free < total * SPACE_SHORT => {
                let left = free / total.max(1.0) * 100.0;
                check(name, "warning", &format!("{left:.1} % of its space is free"))
            }
            Some(_) if share.backend_latency_us > 0 => {
                let by = share.backend_latency_us;
                let text = format!("backend_latency_us adds {by} µs to each call");
                check(name, "warning", &text)
            }
            Some(_) => check(name, "ok", "its directory is accessible and has free space"),
        }
    }));
    let worst = ["failing", "warning", "ok"];
    let is = |state: &&str| checks.iter().any(|check| check["state"] == *state);
    let worst = worst.into_iter().find(is).unwrap_or("ok");
    Ok(AdminAnswer::Json(json!({ "state": worst, "checks": checks })))
}

fn check(name: impl Into<String>, state: &str, text: &str) -> Value {
    json!({ "name": name.into(), "state": state, "text": text })
}

fn disk_failed(disk: ShareDisk) -> Value {
    let ShareDisk { share, failure, has_stopped } = disk;
    let name = format!("disk of share {share}");
    let (count, error) = (failure.count, failure.reason());
    let remedy = "check the kernel log and the file system, then restart the server";
    let stopped = if has_stopped { "; the share has stopped" } else { "" };
    let text =
        format!("written data was not stored ({error}; failures: {count}){stopped}: {remedy}");
    check(name, if failure.has_lost { "failing" } else { "warning" }, &text)
}

fn taking(state: &AdminState) -> Value {
    let drain = state.drain.facts().state;
    match drain {
        "serving" => check("clients", "ok", "new clients are accepted"),
        _ => check("clients", "warning", "new clients are refused: the server is draining"),
    }
}

fn room(state: &AdminState) -> Value {
    let (open, most) = (state.connections.open_count(), state.connections.max());
    let text = format!("{open} of {most} connections");
    let is_full = open as f64 > most as f64 * CONNECTIONS_MANY;
    check("connections", if is_full { "warning" } else { "ok" }, &text)
}

fn logons(state: &AdminState) -> Value {
    let refused = state.observer.history.logons_failed_within(LOGONS_REFUSED_SECONDS);
    let minutes = LOGONS_REFUSED_SECONDS / 60;
    let text = match refused {
        0 => format!("no logon was refused in the last {minutes} minutes"),
        1 => format!("1 logon was refused in the last {minutes} minutes"),
        more => format!("{more} logons were refused in the last {minutes} minutes"),
    };
    let is_many = refused >= LOGONS_REFUSED_MANY;
    check("logons", if is_many { "warning" } else { "ok" }, &text)
}

/// The clients with the most traffic, and the files with the most recent requests.
pub fn top(state: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let mut clients: BTreeMap<(String, String, &str), (u64, u64)> = BTreeMap::new();
    let mut add = |key, connection| {
        let traffic = state.connections.traffic(connection).unwrap_or_default();
        let sums = clients.entry(key).or_default();
        sums.0 += traffic.received_bytes;
        sums.1 += traffic.sent_bytes;
    };
    for session in &state.server.snapshot().sessions {
        for channel in &session.channels {
            let address = channel.peer.ip().to_canonical().to_string();
            add((address, session.user.clone(), "smb"), channel.connection);
        }
    }
    for client in &state.nfs.snapshot().clients {
        for connection in client.sessions.iter().flat_map(|session| &session.connections) {
            let address = connection.facts.peer.ip().to_canonical().to_string();
            add((address, client.owner.clone(), "nfs"), connection.facts.id);
        }
    }
    let mut clients: Vec<_> = clients.into_iter().collect();
    clients.sort_by_key(|(_, (received, sent))| std::cmp::Reverse(received + sent));
    let shown =
        clients.into_iter().take(TOP).map(|((address, user, protocol), (received, sent))| {
            json!({
                "address": address,
                "user": user,
                "protocol": protocol,
                "received_bytes": received,
                "sent_bytes": sent,
            })
        });
    let files = state.files.meter().snapshot().top_files;
    Ok(AdminAnswer::Json(json!({ "clients": shown.collect::<Vec<_>>(), "files": files })))
}

/// Reloads the configuration.
pub fn reload(state: &AdminState, _: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let (wish, answer) = oneshot::channel();
    let unheard = || AdminRefusal::Conflict("a reload is in progress".into());
    state.reload.try_send(wish).map_err(|_| unheard())?;
    match answer.blocking_recv() {
        Ok(Ok(())) => Ok(AdminAnswer::Json(json!({ "done": "reloaded" }))),
        Ok(Err(why)) => {
            Err(AdminRefusal::Conflict(format!("the configuration was not changed: {why}")))
        }
        Err(_) => Err(unheard()),
    }
}
