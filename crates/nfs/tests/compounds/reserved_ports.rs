//! Source ports: requests of an unprivileged program, and of the client's system.

use crate::harness::*;
use wire::nfs::NfsStatus;
use wire::nfs::ops::{LookupArgs, Operation, PutFhArgs};

fn from_port(bench: &ServerUnderTest, port: u16) -> nfs::NfsConn {
    bench.conn_from(([192, 0, 2, 7], port).into())
}

#[test]
fn unreserved_source_port_gets_perm_from_lookup_and_putfh() {
    let bench = ServerUnderTest::new();
    let mut client = bench.client("system");
    let handle = client.handle(&[b"share"]);
    let lookup = [Operation::PutRootFh, Operation::Lookup(LookupArgs { name: b"share" })];
    let put = [Operation::PutFh(PutFhArgs { object: handle }), Operation::GetFh];
    for (port, status) in
        [(1023, NfsStatus::OK), (1024, NfsStatus::PERM), (50_000, NfsStatus::PERM)]
    {
        client.conn = from_port(&bench, port);
        assert_eq!(client.status(&lookup), status, "{port}");
        assert_eq!(client.status(&put), status, "{port}");
    }
    bench.set_reserved_ports(false);
    assert_eq!(client.status(&lookup), NfsStatus::OK);
    assert_eq!(client.status(&put), NfsStatus::OK);
}

#[test]
fn unprivileged_program_cannot_take_over_a_client() {
    let bench = ServerUnderTest::new();
    let mut system = bench.client("host");
    for life in [1, 2] {
        let results = answer(&mut from_port(&bench, 50_000), introduction("host", life));
        assert_eq!(status_of(&results), NfsStatus::CLID_INUSE);
    }
    assert_eq!(system.status(&[Operation::PutRootFh]), NfsStatus::OK);
    // Also after a server restart, before the client's system has returned.
    let bench = bench.restarted();
    let results = answer(&mut from_port(&bench, 50_000), introduction("host", 3));
    assert_eq!(status_of(&results), NfsStatus::CLID_INUSE);
    let mut system = bench.returning("host", 1);
    assert_eq!(system.status(&[Operation::PutRootFh]), NfsStatus::OK);
}
