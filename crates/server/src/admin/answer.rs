//! Input, answers and refusals of the operations, and their form in HTTP.

use crate::log::escape_json;
use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderValue};
use axum::response::Response;
use serde_json::{Value, json};

/// Input of an operation.
#[derive(Debug, Default)]
pub struct OperationInput {
    /// Path parameters by name.
    pub(super) path: Vec<(String, String)>,
    /// First item of a list.
    pub(super) offset: usize,
    /// Maximum number of items of a list.
    pub(super) limit: usize,
    /// The request body, if the operation takes one.
    pub body: Value,
}

impl OperationInput {
    /// A path parameter, which the table guarantees.
    pub fn part(&self, name: &str) -> &str {
        let part = self.path.iter().find(|(known, _)| known == name);
        part.map_or("", |(_, value)| value.as_str())
    }

    /// The requested part of a list and its total length.
    pub fn page<T>(&self, items: &[T], show: impl Fn(&T) -> Value) -> Value {
        let shown = items.iter().skip(self.offset).take(self.limit).map(show);
        json!({ "items": shown.collect::<Vec<_>>(), "total": items.len() })
    }
}

/// A successful response.
#[derive(Clone, Debug, PartialEq)]
pub enum AdminAnswer {
    /// Data.
    Json(Value),
    /// Text of this media type.
    Text(&'static str, String),
    /// A file of the dashboard, with its media type.
    Page(&'static str, &'static str),
}

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminRefusal {
    /// The request is invalid.
    Bad(String),
    /// The request conflicts with the present state.
    Conflict(String),
    /// The request comes from a foreign page, or the token does not permit it.
    Forbidden(&'static str),
    /// The Host header is a name, which DNS rebinding may have pointed here.
    Host,
    /// The object does not exist.
    Missing(&'static str),
    /// The path exists, but not for this method.
    Method,
    /// The request did not arrive in time.
    Slow,
    /// The request body is too long.
    TooLong,
    /// The token is missing or wrong.
    Token,
    /// A defect of this server.
    Defect,
}

impl AdminRefusal {
    /// Status and detail.
    fn parts(&self) -> (StatusCode, &str) {
        match self {
            Self::Bad(why) => (StatusCode::BAD_REQUEST, why),
            Self::Conflict(why) => (StatusCode::CONFLICT, why),
            Self::Forbidden(why) => (StatusCode::FORBIDDEN, why),
            Self::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "the Host header must be an address or localhost, because DNS can point other \
                 names here",
            ),
            Self::Missing(what) => (StatusCode::NOT_FOUND, what),
            Self::Method => {
                (StatusCode::METHOD_NOT_ALLOWED, "see /v1/openapi.json for the supported methods")
            }
            Self::Slow => (StatusCode::REQUEST_TIMEOUT, "the request did not arrive in time"),
            Self::TooLong => (StatusCode::PAYLOAD_TOO_LARGE, "the request body is too long"),
            Self::Token => (
                StatusCode::UNAUTHORIZED,
                "send the token in the file admin-token of the server's state directory as \
                 Authorization: Bearer TOKEN; `anabranch dashboard` prints an address with it",
            ),
            Self::Defect => {
                (StatusCode::INTERNAL_SERVER_ERROR, "a defect of this server; its log says more")
            }
        }
    }

    /// The response as RFC 9457 problem details.
    pub(super) fn response(&self) -> Response {
        let (status, detail) = self.parts();
        let title = status.canonical_reason().unwrap_or_default();
        let body = json!({ "status": status.as_u16(), "title": title, "detail": detail });
        let mut response =
            response(status, "application/problem+json", escape_json(&body.to_string()));
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"anabranch\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// Security headers of every response. A page may load resources of this server only, run no inline
/// script, and be shown in no foreign frame.
const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
];

fn response(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

impl AdminAnswer {
    pub(super) fn response(self) -> Response {
        match self {
            Self::Json(value) => {
                response(StatusCode::OK, "application/json", escape_json(&value.to_string()))
            }
            Self::Text(kind, text) => response(StatusCode::OK, kind, text),
            Self::Page(kind, text) => response(StatusCode::OK, kind, text),
        }
    }
}
