//! The table of all operations; the router and the OpenAPI document are generated from it.

use super::answer::AdminAnswer;
use super::operation::{AdminOperation, Method, RequiredAccess, get};
use super::{
    cache, channels, drain, features, history, nfs_clients, openapi, page, sessions, shares, status,
};

/// All operations.
pub static OPERATIONS: &[AdminOperation] = &[
    get("/health", "isAlive", "text/plain", status::alive)
        .access(RequiredAccess::Everyone)
        .says("Whether the server is alive."),
    get("/metrics", "metricsText", "text/plain", status::metrics)
        .access(RequiredAccess::Metrics)
        .says("All metrics, in the text format of Prometheus."),
    get("/v1/openapi.json", "openapi", "Document", |_, _| {
        Ok(AdminAnswer::Json(openapi::document(OPERATIONS)))
    })
    .says("This document."),
    get("/v1/status", "status", "Status", status::status)
        .says("Counters since the start, the first sessions and NFS clients."),
    get("/v1/health", "health", "Health", status::health).says("Health checks."),
    get("/v1/sessions", "sessions", "SessionList", sessions::list)
        .list()
        .says("SMB sessions with their channels and open files."),
    get("/v1/sessions/{session}", "session", "Session", sessions::one).says("One SMB session."),
    get("/v1/sessions/{session}", "closeSession", "Done", sessions::close)
        .by(Method::Delete)
        .says("Closes an SMB session with its opens; the client may log on again."),
    get("/v1/nfs-clients", "nfsClients", "NfsClientList", nfs_clients::list)
        .list()
        .says("NFS clients with their sessions."),
    get("/v1/nfs-clients/{client}", "closeNfsClient", "Done", nfs_clients::close)
        .by(Method::Delete)
        .says("Revokes the state of an NFS client: opens, locks, delegations and sessions."),
    get("/v1/connections", "connections", "ConnectionList", sessions::connections)
        .list()
        .says("TCP connections of both protocols, with their traffic."),
    get("/v1/connections/{connection}", "cutConnection", "Done", sessions::cut)
        .by(Method::Delete)
        .says("Resets a connection without a reply, as a broken network would."),
    get("/v1/channels", "channels", "Channels", channels::all)
        .says("Sessions with their channels, with the field names of Windows."),
    get("/v1/shares", "shares", "ShareList", shares::list).list().says("Shares and their space."),
    get("/v1/exports", "exports", "ExportList", shares::exports)
        .list()
        .says("NFS exports with their clients' options, in the terms of exports(5)."),
    get("/v1/shares/{share}/limits", "shareLimits", "ShareLimits", shares::limits)
        .says("Class and limits of a share, throttled requests and burst credits."),
    get("/v1/shares/{share}/limits", "changeShareLimits", "ShareLimits", shares::change)
        .by(Method::Patch)
        .takes("ShareLimitsRequest")
        .says("Changes class, size or limits of a share until its configuration changes."),
    get("/v1/features", "features", "FeatureList", features::list)
        .says("Features and their states on each share."),
    get("/v1/features/{feature}", "registerFeature", "Feature", features::register)
        .by(Method::Put)
        .says("Switches a feature on for all shares."),
    get("/v1/features/{feature}", "unregisterFeature", "Feature", features::unregister)
        .by(Method::Delete)
        .says("Switches a feature off for all shares."),
    get("/v1/features/{feature}/{share}", "registerFeatureOnShare", "Feature", features::register)
        .by(Method::Put)
        .says("Switches a feature on for one share."),
    get(
        "/v1/features/{feature}/{share}",
        "unregisterFeatureOnShare",
        "Feature",
        features::unregister,
    )
    .by(Method::Delete)
    .says("Switches a feature off for one share."),
    get("/v1/metrics", "requests", "Requests", status::requests)
        .says("Request statistics by share and operation: outcomes, bytes, latencies."),
    get("/v1/cache", "cache", "CacheList", cache::list)
        .list()
        .says("Hit counters of the metadata caches, by share and kind."),
    get("/v1/history", "history", "History", history::all)
        .says("The last hour in intervals of ten seconds."),
    get("/v1/history/{since}", "historySince", "History", history::since)
        .says("The intervals of the last hour that end after a time."),
    get("/v1/refused-logons", "refusedLogons", "RefusedLogonList", history::refused_logons)
        .list()
        .says("The last refused logons by account, address and reason, the newest first."),
    get("/v1/top", "top", "Top", status::top).says("Clients and files with the most traffic."),
    get("/v1/drain", "drainState", "Drain", drain::show).says("Progress of a drain."),
    get("/v1/drain", "beginDrain", "Drain", drain::begin)
        .by(Method::Post)
        .takes("DrainRequest")
        .says(
            "Refuses new connections and sessions, closes idle ones at once and all others at \
               the deadline.",
        ),
    get("/v1/drain", "cancelDrain", "Drain", drain::cancel)
        .by(Method::Delete)
        .says("Cancels the drain: accepts connections again."),
    get("/v1/reload", "reload", "Done", status::reload)
        .by(Method::Post)
        .says("Reloads the configuration, like SIGHUP."),
    get("/", "page", "text/html", page::html)
        .access(RequiredAccess::Everyone)
        .says("The dashboard."),
    get("/dashboard.css", "pageStyle", "text/css", page::css)
        .access(RequiredAccess::Everyone)
        .says("The dashboard's style sheet."),
    get("/dashboard.js", "pageScript", "text/javascript", page::script)
        .access(RequiredAccess::Everyone)
        .says("The dashboard's script."),
    get("/charts.js", "pageCharts", "text/javascript", page::charts)
        .access(RequiredAccess::Everyone)
        .says("The dashboard's charts."),
    get("/icon.svg", "pageIcon", "image/svg+xml", page::icon)
        .access(RequiredAccess::Everyone)
        .says("The dashboard's icon."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_names_are_unique_and_have_a_summary() {
        let mut ids: Vec<_> = OPERATIONS.iter().map(|operation| operation.id).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
        for AdminOperation { path, summary, .. } in OPERATIONS {
            assert!(summary.ends_with('.'), "{path}");
        }
    }

    #[test]
    fn only_liveness_and_page_are_public_and_writes_need_admin() {
        for AdminOperation { method, path, access, .. } in OPERATIONS {
            let is_page = !path[1..].contains('/') && path.contains('.') || *path == "/";
            let is_open = is_page || *path == "/health";
            assert_eq!(*access == RequiredAccess::Everyone, is_open, "{path}");
            assert!(*access == RequiredAccess::Administrator || *method == Method::Get, "{path}");
            assert_eq!(*access == RequiredAccess::Metrics, *path == "/metrics", "{path}");
        }
    }
}
