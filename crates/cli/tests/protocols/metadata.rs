//! Names through the server: no directory is read to look one up, and what local
//! processes change is seen by the next request.

use crate::support::client::{
    CLOSE, CREATE, CreateRequestParts, OBJECT_NAME_NOT_FOUND, RawSmbClient, SUCCESS,
};
use crate::support::{ServerProcess, Setup};
use std::time::Instant;

/// Opens an existing file.
fn look(client: &mut RawSmbClient, name: &str) -> u32 {
    let wish = CreateRequestParts {
        name,
        access: 0x80,
        share: 7,
        disposition: 1,
        options: 0,
        contexts: &[],
    };
    let reply = client.call(CREATE, &RawSmbClient::create_with(&wish));
    if reply.status == SUCCESS {
        let closed = client.call(CLOSE, &RawSmbClient::close_body(reply.file_id()));
        assert_eq!(closed.status, SUCCESS);
    }
    reply.status
}

fn make(client: &mut RawSmbClient, name: &str) {
    let file = client.create(name);
    assert_eq!(client.call(CLOSE, &RawSmbClient::close_body(file)).status, SUCCESS);
}

fn scans(server: &ServerProcess) -> u64 {
    server.metric("anabranch_directory_scans_total")
}

#[test]
fn names_are_created_and_found_without_directory_reads() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    assert_eq!(look(&mut client, "none"), OBJECT_NAME_NOT_FOUND);
    let before = scans(&server);
    for number in 0..1_000 {
        make(&mut client, &format!("File{number}"));
        assert_eq!(look(&mut client, &format!("FILE{number}")), SUCCESS);
        assert_eq!(look(&mut client, &format!("none{number}")), OBJECT_NAME_NOT_FOUND);
    }
    assert_eq!(scans(&server), before);
}

#[test]
fn local_changes_are_visible_to_the_next_request() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    let at = |name: &str| server.data().join(name);
    assert_eq!(look(&mut client, "none"), OBJECT_NAME_NOT_FOUND);
    let before = scans(&server);
    for number in 0..1_000 {
        let (name, other) = (format!("Name{number}"), format!("Other{number}"));
        std::fs::write(at(&name), b"").unwrap();
        assert_eq!(look(&mut client, &name.to_uppercase()), SUCCESS);
        std::fs::rename(at(&name), at(&other)).unwrap();
        assert_eq!(look(&mut client, &name.to_uppercase()), OBJECT_NAME_NOT_FOUND);
        assert_eq!(look(&mut client, &other.to_lowercase()), SUCCESS);
        std::fs::remove_file(at(&other)).unwrap();
        assert_eq!(look(&mut client, &other.to_lowercase()), OBJECT_NAME_NOT_FOUND);
    }
    assert_eq!(scans(&server), before);
}

#[test]
fn share_without_metadata_cache_finds_the_same_names() {
    let mut setup = Setup::new();
    setup.shares += "metadata_cache = \"off\"\n";
    let server = setup.start();
    let mut client = RawSmbClient::ready(&server);
    make(&mut client, "Name");
    let before = scans(&server);
    assert_eq!(look(&mut client, "NAME"), SUCCESS);
    assert_eq!(look(&mut client, "none"), OBJECT_NAME_NOT_FOUND);
    assert!(scans(&server) >= before + 2);
}

/// Checks growth, not speed: the last thousand of many names take about as long as the first.
#[test]
fn create_time_is_constant_in_a_large_directory() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready(&server);
    make(&mut client, "first");
    let mut thousand = |from: usize| {
        let start = Instant::now();
        (from..from + 1_000).for_each(|number| make(&mut client, &format!("File{number}")));
        start.elapsed()
    };
    let early = (0..2).map(|n| thousand(n * 1_000)).min().unwrap();
    for number in 2_000..18_000 {
        std::fs::write(server.data().join(format!("File{number}")), b"").unwrap();
    }
    let late = (18..20).map(|n| thousand(n * 1_000)).min().unwrap();
    assert!(late < 4 * early, "{early:?}, then {late:?}");
}
