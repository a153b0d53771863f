//! Exports slow requests to a trace collector: OpenTelemetry's OTLP over plain HTTP, as JSON.
//!
//! The queue is bounded (`meter::SLOW_MAX`). While the collector is unreachable, the traces of that
//! time are dropped.

use crate::config::TraceTarget;
use crate::observe::observer::ExportCounters;
use meter::{Meter, SlowRequest};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Interval of the export.
const EVERY: Duration = Duration::from_secs(2);
/// Timeout of one export.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// Number of bytes of the collector's response that are read.
const ANSWER_BYTES: usize = 512;

/// The configured collector; may change at run time.
#[derive(Debug, Default)]
pub struct Traces(Mutex<Option<TraceTarget>>);

impl Traces {
    /// Exports slow requests to `target` from now on.
    pub fn configure(&self, target: Option<TraceTarget>, slow: Duration, meter: &Meter) {
        meter.set_slow(target.is_some().then_some(slow));
        *self.0.lock() = target;
    }

    /// Exports queued requests at intervals, until the task is dropped.
    pub async fn follow(self: Arc<Self>, meter: Arc<Meter>, exported: Arc<ExportCounters>) {
        let mut is_unreachable = false;
        loop {
            tokio::time::sleep(EVERY).await;
            let target = self.0.lock().clone();
            let Some(target) = target else { continue };
            let slow = meter.take_slow();
            if slow.is_empty() {
                continue;
            }
            let count = slow.len() as u64;
            let body = otlp(&slow, &meter).to_string();
            let posted = tokio::time::timeout(ANSWERED_WITHIN, post(&target, &body)).await;
            let result = posted.unwrap_or_else(|_| Err("no reply in time".to_owned()));
            match &result {
                Ok(()) => exported.traces_sent.fetch_add(count, Ordering::Relaxed),
                Err(why) => {
                    if !is_unreachable {
                        tracing::warn!(
                            collector = target.address,
                            reason = why,
                            "the collector does not accept traces: they are dropped until it does"
                        );
                    }
                    meter.count_slow_dropped(count);
                    0
                }
            };
            is_unreachable = result.is_err();
        }
    }
}

async fn post(target: &TraceTarget, body: &str) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(&target.address).await.map_err(text)?;
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        target.path,
        target.address,
        body.len()
    );
    stream.write_all(head.as_bytes()).await.map_err(text)?;
    stream.write_all(body.as_bytes()).await.map_err(text)?;
    let mut answer = Vec::new();
    let mut some = (&mut stream).take(ANSWER_BYTES as u64);
    while !answer.contains(&b'\n') && some.read_buf(&mut answer).await.map_err(text)? > 0 {}
    let line = String::from_utf8_lossy(&answer);
    let line = line.lines().next().unwrap_or_default();
    let code = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
    match code {
        Some(code) if code.starts_with('2') => Ok(()),
        _ => Err(format!("it answers {line:?}")),
    }
}

fn attribute(key: &str, value: Value) -> Value {
    json!({ "key": key, "value": value })
}

fn text(key: &str, value: &str) -> Value {
    attribute(key, json!({ "stringValue": value }))
}

/// The JSON form of protocol buffers encodes 64-bit numbers as strings.
fn number(key: &str, value: u64) -> Value {
    attribute(key, json!({ "intValue": value.to_string() }))
}

/// Each request becomes a trace with one span.
fn span(request: &SlowRequest, share: &str) -> Value {
    let latency = u64::try_from(request.latency.as_nanos()).unwrap_or(u64::MAX);
    let began = request.ended_unix_nanoseconds.saturating_sub(latency);
    let (protocol, api) = (request.api.protocol().name(), request.api.name());
    // Unique: the numbers of the connection and of the request, combined with the time.
    let id = request.message ^ request.connection.rotate_left(40);
    let code = if request.response.is_success() { 1 } else { 2 };
    json!({
        "traceId": format!("{:016x}{id:016x}", request.ended_unix_nanoseconds),
        "spanId": format!("{:016x}", id.wrapping_add(1).max(1)),
        "name": format!("{protocol} {api}"),
        "kind": 2,
        "startTimeUnixNano": began.to_string(),
        "endTimeUnixNano": request.ended_unix_nanoseconds.to_string(),
        "attributes": [
            text("anabranch.share", share),
            text("anabranch.request", &format!("{}.{}", request.connection, request.message)),
            text("anabranch.response_type", request.response.name()),
            text("rpc.system", &protocol.to_lowercase()),
            text("rpc.method", api),
            text("client.address", &request.peer.ip().to_string()),
            number("client.port", u64::from(request.peer.port())),
            number("anabranch.ingress_bytes", request.ingress_bytes),
            number("anabranch.egress_bytes", request.egress_bytes),
        ],
        "status": { "code": code },
    })
}

/// `ExportTraceServiceRequest` of OTLP.
fn otlp(slow: &[SlowRequest], meter: &Meter) -> Value {
    let spans = slow.iter().map(|request| span(request, &meter.share_name(request.share)));
    let resource =
        [text("service.name", "anabranch"), text("service.version", env!("CARGO_PKG_VERSION"))];
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{
            "scope": { "name": "anabranch" },
            "spans": spans.collect::<Vec<_>>(),
        }],
    }] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use meter::{Api, ResponseType, ShareId};
    use tokio::net::TcpListener;

    fn slow(message: u64) -> SlowRequest {
        SlowRequest {
            connection: 3,
            message,
            peer: "192.0.2.1:700".parse().unwrap(),
            share: ShareId::NONE,
            api: Api::smb(8),
            response: ResponseType::Success,
            ended_unix_nanoseconds: 1_000_000_000,
            latency: Duration::from_millis(400),
            ingress_bytes: 1,
            egress_bytes: 2,
        }
    }

    #[test]
    fn span_has_time_operation_duration_and_user() {
        let span = span(&slow(5), "data");
        assert_eq!((&span["name"], &span["kind"]), (&json!("SMB Read"), &json!(2)));
        assert_eq!(span["startTimeUnixNano"], "600000000");
        assert_eq!(span["endTimeUnixNano"], "1000000000");
        assert_eq!(span["traceId"].as_str().unwrap().len(), 32);
        assert_eq!(span["spanId"].as_str().unwrap().len(), 16);
        assert_eq!(span["attributes"][1], text("anabranch.request", "3.5"));
        assert_ne!(span["traceId"], super::span(&slow(6), "data")["traceId"]);
    }

    #[tokio::test]
    async fn collector_gets_json_and_a_missing_one_loses_only_traces() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let target = TraceTarget { address, path: "/v1/traces".into() };
        let collector = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"}") {
                assert!(stream.read_buf(&mut asked).await.unwrap() > 0);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
            String::from_utf8(asked).unwrap()
        });
        let meter = Arc::new(Meter::default());
        let body = otlp(&[slow(5), slow(6)], &meter).to_string();
        post(&target, &body).await.unwrap();
        let asked = collector.await.unwrap();
        let (head, sent) = asked.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n") && sent == body, "{asked}");
        let spans = &serde_json::from_str::<Value>(sent).unwrap()["resourceSpans"][0]["scopeSpans"]
            [0]["spans"];
        assert_eq!(spans.as_array().unwrap().len(), 2);
        // The listener is closed by now.
        let (traces, exported) = (Arc::<Traces>::default(), Arc::<ExportCounters>::default());
        traces.configure(Some(target), Duration::from_millis(1), &meter);
        meter.keep_slow(slow(7));
        let follow = traces.follow(meter.clone(), exported.clone());
        let _ = tokio::time::timeout(EVERY * 2, follow).await;
        assert_eq!(
            (meter.snapshot().traces_dropped, exported.traces_sent.load(Ordering::Relaxed)),
            (1, 0)
        );
    }
}
