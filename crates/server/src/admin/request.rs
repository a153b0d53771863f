//! The common path of all requests: authorisation, input, response.

use super::AdminState;
use super::answer::{AdminAnswer, AdminRefusal, OperationInput};
use super::listen::Peer;
use super::operation::{AdminOperation, RequiredAccess};
use super::visitors::{Proof, Visitor};
use crate::limits::{ADMIN_BODY_BYTES_MAX, ADMIN_ITEMS_MAX, ADMIN_WITHIN};
use axum::body::to_bytes;
use axum::extract::{RawPathParams, Request};
use axum::http::Uri;
use axum::http::header::{self, HeaderMap};
use axum::response::Response;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Answers a request for `operation`.
pub async fn answer(
    state: AdminState,
    operation: &'static AdminOperation,
    peer: Peer,
    path: RawPathParams,
    request: Request,
) -> Response {
    let answered = async {
        admit(&state, operation.access, peer, request.headers())?;
        if let Some(visitor) = request.extensions().get::<Arc<Visitor>>() {
            visitor.prove(match operation.access {
                RequiredAccess::Everyone => Proof::Nothing,
                RequiredAccess::Metrics => Proof::Metrics,
                RequiredAccess::Administrator => Proof::Administrator,
            });
        }
        let input = read(operation, path, request).await?;
        look(state, operation, input).await
    };
    answered.await.map_or_else(|refusal: AdminRefusal| refusal.response(), AdminAnswer::response)
}

/// Answers a request for an unknown path; without a token the response reveals nothing.
pub fn refuse(state: &AdminState, peer: Peer, request: &Request, why: AdminRefusal) -> Response {
    let admitted = admit(state, RequiredAccess::Administrator, peer, request.headers());
    admitted.err().unwrap_or(why).response()
}

/// Runs the operation on a blocking thread, with bounded concurrency.
async fn look(
    state: AdminState,
    operation: &'static AdminOperation,
    input: OperationInput,
) -> Result<AdminAnswer, AdminRefusal> {
    let permits = state.permits.clone();
    let _permit = permits.acquire_owned().await.map_err(|_| AdminRefusal::Defect)?;
    let looked = tokio::task::spawn_blocking(move || (operation.run)(&state, &input));
    looked.await.unwrap_or_else(|error| {
        tracing::error!(%error, operation = operation.id, "a defect of this server: a request of the admin API failed");
        Err(AdminRefusal::Defect)
    })
}

/// Checks that the client may use an operation of this `access`.
///
/// A foreign page in a local browser must not reach the API by a name that it points here (DNS
/// rebinding), nor with its own origin.
fn admit(
    state: &AdminState,
    access: RequiredAccess,
    peer: Peer,
    headers: &HeaderMap,
) -> Result<(), AdminRefusal> {
    if peer == Peer::Network {
        let host = text(headers, header::HOST).ok_or(AdminRefusal::Host)?;
        if !is_address(host) {
            return Err(AdminRefusal::Host);
        }
        let is_own = |origin: &str| {
            origin.strip_prefix("http://").or(origin.strip_prefix("https://")) == Some(host)
        };
        if headers.contains_key(header::ORIGIN)
            && !text(headers, header::ORIGIN).is_some_and(is_own)
        {
            return Err(AdminRefusal::Forbidden("cross-origin requests are refused"));
        }
    }
    if access == RequiredAccess::Everyone || peer == Peer::Trusted {
        return Ok(());
    }
    let shown = text(headers, header::AUTHORIZATION).and_then(bearer).ok_or(AdminRefusal::Token)?;
    if state.tokens.admin.is(shown.as_bytes()) {
        return Ok(());
    }
    match (state.tokens.metrics.is(shown.as_bytes()), access) {
        (true, RequiredAccess::Metrics) => Ok(()),
        (true, _) => Err(AdminRefusal::Forbidden("this token permits /metrics only")),
        (false, _) => Err(AdminRefusal::Token),
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// RFC 6750 2.1; the scheme is case-insensitive (RFC 9110 11.1).
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn is_address(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    host.parse::<SocketAddr>().is_ok()
        || host.parse::<IpAddr>().is_ok()
        || name.parse::<IpAddr>().is_ok()
        || name == "localhost"
}

async fn read(
    operation: &AdminOperation,
    path: RawPathParams,
    request: Request,
) -> Result<OperationInput, AdminRefusal> {
    let path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let (offset, limit) = paging(operation.is_list, request.uri())?;
    let body =
        if operation.takes.is_some() { body(request, ADMIN_WITHIN).await? } else { Value::Null };
    Ok(OperationInput { path, offset, limit, body })
}

/// Parses `offset` and `limit` of a list.
fn paging(is_list: bool, uri: &Uri) -> Result<(usize, usize), AdminRefusal> {
    let (mut offset, mut limit) = (0, ADMIN_ITEMS_MAX);
    for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let number = || {
            let number = value.parse().ok();
            number.ok_or_else(|| AdminRefusal::Bad(format!("{name} must be a number")))
        };
        match name {
            "offset" if is_list => offset = number()?,
            "limit" if is_list => limit = number()?,
            _ => {
                return Err(AdminRefusal::Bad(
                    "only lists have query parameters: offset and limit".into(),
                ));
            }
        }
    }
    if !(1..=ADMIN_ITEMS_MAX).contains(&limit) {
        return Err(AdminRefusal::Bad(format!("limit must be from 1 to {ADMIN_ITEMS_MAX}")));
    }
    Ok((offset, limit))
}

/// Reads the request body. A foreign page cannot send this media type without a CORS preflight.
async fn body(request: Request, within: Duration) -> Result<Value, AdminRefusal> {
    let kind = text(request.headers(), header::CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(AdminRefusal::Bad("send JSON with Content-Type: application/json".into()));
    }
    let whole = to_bytes(request.into_body(), ADMIN_BODY_BYTES_MAX);
    let Ok(read) = tokio::time::timeout(within, whole).await else {
        return Err(AdminRefusal::Slow);
    };
    let bytes = read.map_err(|_| AdminRefusal::TooLong)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| AdminRefusal::Bad(format!("invalid JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use serde_json::json;

    #[test]
    fn request_host_must_be_an_address_or_localhost() {
        for good in ["127.0.0.1", "127.0.0.1:4480", "[::1]:4480", "localhost", "localhost:4480"] {
            assert!(is_address(good), "{good}");
        }
        for bad in ["example.org", "example.org:4480", "localhost.example.org", ""] {
            assert!(!is_address(bad), "{bad}");
        }
    }

    #[test]
    fn bearer_scheme_is_case_insensitive() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        assert_eq!(bearer("Basic abc"), None);
        assert_eq!(bearer("Bearerabc"), None);
    }

    #[test]
    fn list_is_returned_in_pages_of_bounded_length() {
        let paged = |uri: &str| paging(true, &uri.parse().unwrap());
        assert_eq!(paged("/?offset=3&limit=2"), Ok((3, 2)));
        assert_eq!(paged("/"), Ok((0, ADMIN_ITEMS_MAX)));
        for bad in ["/?limit=0", "/?limit=1001", "/?limit=-1", "/?offset=x", "/?other=1"] {
            assert!(matches!(paged(bad), Err(AdminRefusal::Bad(_))), "{bad}");
        }
        assert!(paging(false, &"/?limit=1".parse().unwrap()).is_err(), "this is no list");
        let input = OperationInput { offset: 1, limit: 1, ..OperationInput::default() };
        let page = input.page(&[7, 8, 9], |number| json!(number));
        assert_eq!(page, json!({ "items": [8], "total": 3 }));
        let beyond = OperationInput { offset: usize::MAX, limit: 1, ..OperationInput::default() };
        assert_eq!(beyond.page(&[7], |number| json!(number))["items"], json!([]));
    }

    #[tokio::test]
    async fn request_body_must_be_short_json() {
        let sent = |kind: &str, text: String| {
            Request::builder().header("content-type", kind).body(Body::from(text)).unwrap()
        };
        let within = Duration::from_secs(1);
        let good = sent("application/json; charset=utf-8", "{\"a\":1}".into());
        assert_eq!(body(good, within).await, Ok(json!({ "a": 1 })));
        let plain = sent("text/plain", "{}".into());
        assert!(matches!(body(plain, within).await, Err(AdminRefusal::Bad(_))));
        let garbage = sent("application/json", "{".into());
        assert!(matches!(body(garbage, within).await, Err(AdminRefusal::Bad(_))));
        let long = sent("application/json", " ".repeat(ADMIN_BODY_BYTES_MAX + 1));
        assert_eq!(body(long, within).await, Err(AdminRefusal::TooLong));
    }
}
