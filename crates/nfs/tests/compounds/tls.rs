//! RPC-with-TLS: when it may start, and what is unreachable without. RFC 9289 4.1.

use crate::harness::*;
use nfs::NfsConn;
use wire::nfs::NfsStatus;
use wire::nfs::ops::{LookupArgs, Operation, SecInfoArgs};
use wire::nfs::rpc::{AcceptStatus, AuthStatus, OpaqueAuth, ReplyBody, RpcCall, RpcMessage};
use wire::nfs::xdr::{XdrReader, XdrWriter};

const NULL: u32 = 0;
const COMPOUND: u32 = 1;

fn call(procedure: u32, credentials: OpaqueAuth<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let verifier = OpaqueAuth::NONE;
    let (xid, program, version) = (9, 100_003, 4);
    let call = RpcCall { xid, program, version, procedure, credentials, verifier };
    XdrWriter::new(&mut out).put(&call);
    out
}

/// The verifier of an accepted reply, or the authentication error.
fn ask(conn: &mut NfsConn, call: Vec<u8>) -> Result<Vec<u8>, AuthStatus> {
    conn.handle_record(call.into()).expect("a call");
    assert!(conn.poll_job().is_none(), "it is answered at once");
    let out = conn.poll_transmit().expect("an answer");
    let Ok(RpcMessage::Reply(reply)) = RpcMessage::decode(&mut XdrReader::new(&out.buffer[4..]))
    else {
        panic!("no reply");
    };
    match reply.body {
        ReplyBody::Accepted { verifier, status: AcceptStatus::Success } => {
            assert_eq!(verifier.flavor, OpaqueAuth::NONE.flavor);
            Ok(verifier.body.to_vec())
        }
        ReplyBody::AuthError(status) => Err(status),
        other => panic!("{other:?}"),
    }
}

fn probe(conn: &mut NfsConn) -> Result<Vec<u8>, AuthStatus> {
    ask(conn, call(NULL, OpaqueAuth::TLS_PROBE))
}

const REFUSED: Result<Vec<u8>, AuthStatus> = Err(AuthStatus::BAD_CREDENTIALS);

#[test]
fn tls_probe_is_answered_with_starttls_once() {
    let bench = ServerUnderTest::new();
    let mut conn = bench.conn();
    assert_eq!(ask(&mut conn, call(NULL, OpaqueAuth::NONE)), Ok(vec![]));
    assert!(!conn.starts_tls());
    assert_eq!(probe(&mut conn), Ok(b"STARTTLS".to_vec()));
    assert!(conn.starts_tls());
    assert!(!conn.starts_tls(), "it was said");
    assert_eq!(probe(&mut conn), REFUSED, "there is TLS already");
    assert!(!conn.starts_tls());
}

#[test]
fn tls_probe_is_refused_where_tls_cannot_start() {
    let bench = ServerUnderTest::new();
    let mut worked = bench.client("one").conn;
    assert_eq!(probe(&mut worked), REFUSED, "answers may be under way");
    let mut conn = bench.conn();
    assert_eq!(ask(&mut conn, call(COMPOUND, OpaqueAuth::TLS_PROBE)), REFUSED);
    assert_eq!(ask(&mut conn, call(2, OpaqueAuth::TLS_PROBE)), REFUSED);
    let mut long = OpaqueAuth::TLS_PROBE;
    long.body.0 = b"more";
    assert_eq!(ask(&mut conn, call(NULL, long)), REFUSED);
    bench.configure(|config| config.offers_tls = false);
    assert_eq!(probe(&mut conn), REFUSED, "there is no certificate");
    assert!(!conn.starts_tls() && !worked.starts_tls());
}

#[test]
fn share_that_requires_tls_is_reached_under_tls_only() {
    let bench = ServerUnderTest::new();
    let mut plain = bench.client("plain");
    let handle = plain.handle(&[b"share"]);
    bench.require_tls();
    let lookup = Operation::Lookup(LookupArgs { name: b"share" });
    let root = Operation::PutRootFh;
    assert_eq!(plain.status(&[root.clone(), lookup.clone()]), NfsStatus::WRONGSEC);
    let put = Operation::PutFh(wire::nfs::ops::PutFhArgs { object: handle });
    assert_eq!(plain.status(&[put.clone(), Operation::GetFh]), NfsStatus::WRONGSEC);
    // Security flavors are reported without TLS. RFC 8881 2.6.3.1.
    let info = Operation::SecInfo(SecInfoArgs { name: b"share" });
    assert_eq!(plain.status(&[root.clone(), info]), NfsStatus::OK);

    let mut conn = bench.conn();
    assert_eq!(probe(&mut conn), Ok(b"STARTTLS".to_vec()));
    // The same session on another connection.
    plain.conn = conn;
    assert_eq!(plain.status(&[root, lookup, Operation::GetFh]), NfsStatus::OK);
    assert_eq!(plain.status(&[put, Operation::GetFh]), NfsStatus::OK);
    let session = bench.server.find_session(plain.session).unwrap();
    let tls: Vec<bool> = session.connections().iter().map(|fact| fact.is_under_tls).collect();
    assert_eq!(tls, [true], "the connection without is gone");
}

#[test]
fn reply_sent_under_tls_is_not_replayed_in_clear() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("one");
    let plain = std::mem::replace(&mut client.conn, bench.conn());
    assert_eq!(probe(&mut client.conn), Ok(b"STARTTLS".to_vec()));
    let asked = [Operation::PutRootFh, Operation::GetFh];
    let given = client.results(&asked);
    let again = client.same(&asked);
    assert_eq!(answer(&mut client.conn, again.clone()), given, "by the same connection");
    client.conn = plain;
    let refused = answer(&mut client.conn, again);
    assert_eq!(status_of(&refused), NfsStatus::RETRY_UNCACHED_REP);
    assert_ne!(refused, given);
    assert_eq!(client.status(&asked), NfsStatus::OK, "the next is answered");
    let given = client.results(&asked);
    let again = client.same(&asked);
    let mut sealed = bench.conn();
    assert_eq!(probe(&mut sealed), Ok(b"STARTTLS".to_vec()));
    assert_eq!(answer(&mut sealed, again), given, "nothing is given away by that");
}
