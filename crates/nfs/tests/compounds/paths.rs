//! Shares by their server paths, beside their names. RFC 8881 7.3.

use crate::harness::{READ_WRITE, ServerUnderTest, SessionClient, open_args};
use files::VolumeId;
use nfs::{ClientTerms, Export, ExportTerms, HostFilter, HostVerdict, PseudoTree, Squash};
use std::net::IpAddr;
use std::sync::Arc;
use wire::nfs::attributes::attribute;
use wire::nfs::ops::*;
use wire::nfs::{FileHandle, NfsStatus, OperationNumber};

/// A filter of one host, as of [`ServerUnderTest::client_from`].
#[derive(Debug)]
struct NumberedHostFilter(u8);

impl HostFilter for NumberedHostFilter {
    fn verdict(&self, peer: IpAddr) -> HostVerdict {
        if self.0 == UNANSWERED {
            return HostVerdict::Unanswered;
        }
        (peer == IpAddr::from([198, 51, 100, self.0])).into()
    }
}

/// Number of a host whose name cannot be looked up.
const UNANSWERED: u8 = 0;

const TERMS: ExportTerms =
    ExportTerms { read_only: false, squash: Squash::None, anonymous: (65_534, 65_534) };

/// Exports shares with paths and permitted hosts, all on one directory.
fn serve(bench: &ServerUnderTest, shares: &[(&str, &str, &[u8])]) {
    bench.configure(|config| {
        let of = |(at, (name, _, machines)): (usize, &(&str, &str, &[u8]))| {
            let client = |host: &u8| ClientTerms {
                hosts: Arc::new(NumberedHostFilter(*host)),
                terms: Some(TERMS),
            };
            Arc::new(Export {
                id: VolumeId(7 + at as u32),
                name: name.as_bytes().to_vec(),
                clients: machines.iter().map(client).collect(),
                ..(*config.exports[0]).clone()
            })
        };
        let exports = shares.iter().enumerate().map(of).collect();
        let paths = shares.iter().enumerate().map(|(at, (_, path, _))| (at, path.as_bytes()));
        config.tree = PseudoTree::new(paths);
        config.exports = exports;
    });
}

fn status(client: &mut SessionClient, path: &[&[u8]]) -> NfsStatus {
    let operations = client.walk(path);
    client.status(&operations)
}

fn names(client: &mut SessionClient, path: &[&[u8]]) -> Vec<String> {
    let names = client.list(path).into_iter().map(|name| String::from_utf8(name).unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn path_and_name_lead_to_the_same_share() {
    let bench = ServerUnderTest::new();
    serve(&bench, &[("data", "/srv/deep/files", &[1])]);
    let mut client = bench.client_from("client", 1);
    let path: [&[u8]; 3] = [b"srv", b"deep", b"files"];
    assert_eq!(client.handle(&path), client.handle(&[b"data"]));
    let wanted = &[attribute::FSID, attribute::MOUNTED_ON_FILEID, attribute::FILEID];
    let by = |client: &mut SessionClient, path: &[&[u8]]| {
        let found = client.attributes(path, wanted);
        (found.fsid, found.mounted_on_fileid, found.fileid)
    };
    assert_eq!(by(&mut client, &path), by(&mut client, &[b"data"]));
    // The directories between belong to the pseudo file system, so that the client mounts nothing
    // there.
    let (root, between) = (by(&mut client, &[]), by(&mut client, &[&b"srv"[..], b"deep"]));
    assert_eq!(root.0, between.0);
    assert_ne!(root.2, between.2);
    assert_ne!(by(&mut client, &path).0, root.0);
    let mut operations = client.walk(&path);
    operations.push(Operation::Open(open_args(b"file", READ_WRITE, 0, true)));
    assert_eq!(client.status(&operations), NfsStatus::OK);
    assert_eq!(status(&mut client, &[b"data", b"file"]), NfsStatus::OK);
}

#[test]
fn pseudo_directories_are_listed_and_never_changed() {
    let bench = ServerUnderTest::new();
    serve(&bench, &[("a", "/srv/x/a", &[1]), ("b", "/srv/b", &[1]), ("c", "/srv/x/c", &[1])]);
    let mut client = bench.client_from("client", 1);
    assert_eq!(names(&mut client, &[]), ["a", "b", "c"], "the root lists each share once");
    assert_eq!(names(&mut client, &[b"srv"]), ["b", "x"]);
    assert_eq!(names(&mut client, &[b"srv", b"x"]), ["a", "c"]);
    let object = client.handle(&[b"srv", b"x"]);
    let up = [Operation::PutFh(PutFhArgs { object }), Operation::LookupParent, Operation::GetFh];
    let parent: FileHandle = client.last(&up, |r| r.get().unwrap());
    assert_eq!(parent, client.handle(&[b"srv"]));
    assert_eq!(status(&mut client, &[b"srv", b"y"]), NfsStatus::NOENT);
    for change in [
        Operation::Remove(RemoveArgs { name: b"b" }),
        Operation::Open(open_args(b"new", READ_WRITE, 0, true)),
    ] {
        let mut operations = client.walk(&[b"srv"]);
        operations.push(change);
        assert_eq!(client.status(&operations), NfsStatus::ROFS);
    }
    let secinfo = Operation::SecInfo(SecInfoArgs { name: b"b" });
    let mut operations = client.walk(&[b"srv"]);
    operations.push(secinfo);
    assert_eq!(client.compound(&operations).last(), Some(&Ok(OperationNumber::SECINFO)));
}

#[test]
fn client_sees_no_path_to_foreign_shares() {
    let bench = ServerUnderTest::new();
    serve(&bench, &[("a", "/srv/x/a", &[1]), ("b", "/srv/y/b", &[2])]);
    let mut one = bench.client_from("one", 1);
    let mut other = bench.client_from("other", 3);
    assert_eq!(names(&mut one, &[b"srv"]), ["x"]);
    assert_eq!(status(&mut one, &[b"srv", b"y"]), NfsStatus::NOENT);
    assert_eq!(status(&mut one, &[b"srv", b"y", b"b"]), NfsStatus::NOENT);
    assert_eq!(status(&mut other, &[b"srv"]), NfsStatus::NOENT);
    let object = one.handle(&[b"srv", b"x"]);
    assert_eq!(other.status(&[Operation::PutFh(PutFhArgs { object })]), NfsStatus::STALE);
    serve(&bench, &[("a", "/srv/x/a", &[UNANSWERED, 1])]);
    assert_eq!(status(&mut other, &[b"srv", b"x"]), NfsStatus::NOENT);
    assert_eq!(other.status(&[Operation::PutFh(PutFhArgs { object })]), NfsStatus::DELAY);
}

#[test]
fn share_name_precedes_path_unless_refused() {
    let bench = ServerUnderTest::new();
    serve(&bench, &[("srv", "/other", &[1]), ("b", "/srv/b", &[1, 2])]);
    let mut one = bench.client_from("one", 1);
    let mut two = bench.client_from("two", 2);
    assert_eq!(one.handle(&[b"srv"]), one.handle(&[b"other"]));
    assert_eq!(status(&mut one, &[b"srv", b"b"]), NfsStatus::NOENT, "the share has no such file");
    assert_eq!(two.handle(&[b"srv", b"b"]), two.handle(&[b"b"]));
    let mut three = bench.client_from("three", 3);
    assert_eq!(status(&mut three, &[b"srv"]), NfsStatus::NOENT);
}

/// Cookies of a directory's entries, with at most two in each READDIR.
fn cookies(client: &mut SessionClient, path: &[&[u8]]) -> Vec<(String, u64)> {
    let mut found: Vec<(String, u64)> = Vec::new();
    loop {
        let mut operations = client.walk(path);
        operations.push(Operation::ReadDir(ReadDirArgs {
            cookie: found.last().map_or(0, |(_, cookie)| *cookie),
            cookie_verifier: Default::default(),
            directory_bytes: 1000,
            bytes_max: 90,
            requested: Default::default(),
        }));
        let is_end = client.last(&operations, |r| {
            let listed: ReadDirResult<'_> = r.get().unwrap();
            for entry in &listed.entries {
                let name = String::from_utf8(entry.name.to_vec()).unwrap();
                found.push((name, entry.cookie));
            }
            listed.is_end
        });
        if is_end {
            assert!(found.is_sorted_by(|a, b| a.1 < b.1), "{found:?}");
            found.sort();
            return found;
        }
    }
}

#[test]
fn cookies_do_not_reveal_hidden_entries() {
    let shares: [(&str, &str, &[u8]); 5] = [
        ("a", "/srv/a", &[1, 2]),
        ("b", "/srv/b", &[2]),
        ("c", "/srv/c", &[1, 2]),
        ("d", "/srv/d/e", &[1, 2]),
        ("e", "/srv/e", &[2]),
    ];
    let [alone, beside] = [true, false].map(|is_alone| {
        let bench = ServerUnderTest::new();
        let is_for_it = |share: &&(&str, &str, &[u8])| share.2.contains(&1) || !is_alone;
        let shares: Vec<_> = shares.iter().filter(is_for_it).copied().collect();
        serve(&bench, &shares);
        let mut one = bench.client_from("one", 1);
        let paths: [&[&[u8]]; 2] = [&[], &[b"srv"]];
        paths.map(|path| cookies(&mut one, path))
    });
    assert_eq!(alone, beside);
    assert_eq!(alone.map(|listed| listed.len()), [3, 3]);
}

#[test]
fn outer_share_hides_inner_path_for_its_clients() {
    let bench = ServerUnderTest::new();
    serve(&bench, &[("outer", "/srv", &[1]), ("inner", "/srv/in/ner", &[1, 2])]);
    let mut one = bench.client_from("one", 1);
    let mut two = bench.client_from("two", 2);
    assert_eq!(one.handle(&[b"srv"]), one.handle(&[b"outer"]));
    assert_eq!(two.handle(&[b"srv", b"in", b"ner"]), two.handle(&[b"inner"]));
    assert_eq!(names(&mut two, &[b"srv"]), ["in"]);
}

#[test]
fn shares_without_paths_are_listed_by_name() {
    let bench = ServerUnderTest::new();
    serve(&bench, &[("a", "/srv/a", &[1])]);
    let mut client = bench.client_from("client", 1);
    let object = client.handle(&[b"srv"]);
    bench.configure(|_| {});
    let mut client = bench.client("other");
    assert_eq!(status(&mut client, &[b"srv"]), NfsStatus::NOENT);
    assert_eq!(client.status(&[Operation::PutFh(PutFhArgs { object })]), NfsStatus::STALE);
    assert_eq!(status(&mut client, &[b"share"]), NfsStatus::OK);
}

#[test]
fn snapshot_lists_the_shares_of_a_client() {
    let bench = ServerUnderTest::new();
    serve(&bench, &[("a", "/srv/a", &[1]), ("b", "/srv/b", &[1]), ("c", "/srv/c", &[2])]);
    let mut client = bench.client_from("client", 1);
    for path in [&[b"srv", &b"b"[..]][..], &[b"a"], &[b"c"], &[b"b"]] {
        status(&mut client, path);
    }
    let clients = bench.server.snapshot().clients;
    assert_eq!(clients[0].exports, ["b", "a"]);
}
