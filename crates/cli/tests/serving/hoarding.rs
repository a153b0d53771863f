//! One user or address that takes as much of the shared resources as it can get.

use crate::support::client::{CREATE, READ, RawSmbClient, SUCCESS, WRITE, connect_from};
use crate::support::{PASSWORD, ServerProcess, Setup, wait_for};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;

const TOO_MANY_OPENED_FILES: u32 = 0xC000_011F;
/// Few descriptors, so that they run out quickly: 384 are left for connections and opens.
const DESCRIPTORS: &str = "--nofile=1024:1024";
/// A second user beside that of the tests.
const OTHER: &str = "nobody";

/// A server with two users and few descriptors.
fn crowded() -> ServerProcess {
    let mut setup = Setup::new().server("workers = 8").argument("--user");
    setup = setup.argument(&format!("{OTHER}:{PASSWORD}"));
    setup.launcher = vec!["prlimit".into(), DESCRIPTORS.into()];
    setup.start()
}

fn log_on(server: &ServerProcess, from: Ipv4Addr, user: &str) -> RawSmbClient {
    let mut client =
        RawSmbClient::over(connect_from(from, server.smb).expect("it takes connections"));
    client.negotiate();
    assert_eq!(client.log_on(user, PASSWORD), SUCCESS, "{user} from {from}");
    assert_eq!(client.connect_tree("data"), SUCCESS);
    client
}

/// Opens `name` until a refusal; returns the number of opens and the refusal.
fn open_all(client: &mut RawSmbClient, name: &str) -> (usize, u32) {
    let body = RawSmbClient::create_body(name);
    for count in 0..2000 {
        let status = client.call(CREATE, &body).status;
        if status != SUCCESS {
            return (count, status);
        }
    }
    panic!("nothing was refused");
}

#[test]
fn one_user_leaves_descriptors_to_others() {
    let server = crowded();
    let file = server.data().join("file");
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let here = Ipv4Addr::LOCALHOST;
    let mut hoarder = log_on(&server, here, &crate::support::user());
    let (own, refused) = open_all(&mut hoarder, "file");
    assert_eq!(refused, TOO_MANY_OPENED_FILES);
    // The remaining opens are available to a second session, too.
    let mut again = log_on(&server, here, &crate::support::user());
    assert!(open_all(&mut again, "file").0 <= 1);
    let mut other = log_on(&server, here, OTHER);
    let (others, _) = open_all(&mut other, "file");
    assert!(others >= own / 3 && others > 30, "{own} and {others}");
    assert_eq!(hoarder.echo(), SUCCESS);
    assert_eq!(server.metric("anabranch_resource_refused_total{kind=\"opens\"}"), 3);
    let mut late = log_on(&server, Ipv4Addr::new(127, 0, 74, 2), OTHER);
    assert_eq!(late.echo(), SUCCESS, "sockets are not those of opens");
    assert!(server.log().contains("leaves few for connections"), "{}", server.log());
    drop(hoarder);
}

#[test]
fn connections_without_logon_do_not_block_logons() {
    let server = crowded();
    let mut known = log_on(&server, Ipv4Addr::LOCALHOST, &crate::support::user());
    let mut crowd = Vec::new();
    for n in 0..600_u16 {
        let from = Ipv4Addr::new(127, 0, 74, 10 + (n % 30) as u8);
        crowd.extend(connect_from(from, server.smb));
    }
    let mut late = log_on(&server, Ipv4Addr::new(127, 0, 74, 2), OTHER);
    assert_eq!((known.echo(), late.echo()), (SUCCESS, SUCCESS));
    let displaced = "anabranch_connections_ended_total{reason=\"displaced\"}";
    assert!(server.metric(displaced) > 0, "some made room");
    assert!(server.page("/metrics").contains("anabranch_connections_unauthenticated"));
    drop(crowd);
}

#[test]
fn silent_admin_connections_do_not_block_requests() {
    let server = Setup::new().start();
    let silent: Vec<TcpStream> =
        (0..80).map(|_| TcpStream::connect(server.admin).unwrap()).collect();
    // The server does not wait for the timeouts of the silent connections.
    let mut stream = TcpStream::connect(server.admin).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let token = server.token("admin-token");
    let request = format!(
        "GET /v1/status HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n",
        server.admin
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer in time");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(silent);
}

const MEMORY_USED: &str = "anabranch_resource_used{kind=\"memory_bytes\"}";
const MEMORY_REFUSED: &str = "anabranch_resource_refused_total{kind=\"memory_bytes\"}";
/// One user's share of the memory that [`small`] configures, doubled for the overhead of the
/// allocator and the process.
const MEMORY_BYTES_MAX: usize = 2 * 32 * 1024 * 1024;

/// A server with two users and little memory for requests.
fn small() -> ServerProcess {
    let setup = Setup::new().server("request_memory_mib = 64").in_small_pages();
    setup.argument("--user").argument(&format!("{OTHER}:{PASSWORD}")).start()
}

/// The other user reads and writes undisturbed.
fn works(server: &ServerProcess) {
    let mut other = log_on(server, Ipv4Addr::LOCALHOST, OTHER);
    let file = other.create("other");
    assert_eq!(other.call(WRITE, &RawSmbClient::write_body(file, 0, &[7; 60_000])).status, SUCCESS);
    assert_eq!(other.call(READ, &RawSmbClient::read_body(file, 0, 60_000)).data().len(), 60_000);
}

#[test]
fn partial_requests_of_one_user_take_bounded_memory() {
    const FRAME_BYTES: usize = 8 * 1024 * 1024;
    let server = small();
    let folder = server.data();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let before = server.memory_bytes();
    let most = [&(FRAME_BYTES as u32).to_be_bytes()[..], &vec![0; FRAME_BYTES - 100_000]].concat();
    let mut hoard: Vec<(RawSmbClient, usize)> = (0..40)
        .map(|_| (log_on(&server, Ipv4Addr::LOCALHOST, &crate::support::user()), 0))
        .collect();
    for (client, _) in &hoard {
        client.stream.set_nonblocking(true).unwrap();
    }
    // As many as the server accepts of each.
    wait_for("a connection that may not send more", || {
        for (client, sent) in &mut hoard {
            while *sent < most.len()
                && let Ok(count) = client.stream.write(&most[*sent..])
            {
                *sent += count;
            }
        }
        (server.metric(MEMORY_REFUSED) > 20).then_some(())
    });
    let grown = server.memory_bytes().saturating_sub(before);
    assert!(grown < MEMORY_BYTES_MAX, "{grown}");
    works(&server);
    drop(hoard);
    wait_for("the memory", || (server.metric(MEMORY_USED) == 0).then_some(()));
}

#[test]
fn unread_replies_of_one_user_take_bounded_memory() {
    let server = small();
    let folder = server.data();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    // Reads that are too short for sendfile.
    std::fs::write(folder.join("file"), vec![1; 15_000]).unwrap();
    let before = server.memory_bytes();
    let hoard: Vec<RawSmbClient> = (0..30)
        .map(|_| {
            let mut client = log_on(&server, Ipv4Addr::LOCALHOST, &crate::support::user());
            rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 4096).unwrap();
            (0..4).for_each(|_| assert_eq!(client.echo(), SUCCESS));
            let file = client.create("file");
            (0..1000).for_each(|_| client.send(READ, &RawSmbClient::read_body(file, 0, 15_000)));
            client
        })
        .collect();
    wait_for("an answer that is not begun", || (server.metric(MEMORY_REFUSED) > 20).then_some(()));
    let grown = server.memory_bytes().saturating_sub(before);
    assert!(grown < MEMORY_BYTES_MAX, "{grown}");
    works(&server);
    drop(hoard);
    wait_for("the memory", || (server.metric(MEMORY_USED) == 0).then_some(()));
}
