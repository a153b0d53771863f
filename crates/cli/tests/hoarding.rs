//! One user, or one address, that takes as much as it can get of what all share.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use support::client::{CREATE, Client, SUCCESS, connect_from};
use support::{PASSWORD, Running, Setup};

const TOO_MANY_OPENED_FILES: u32 = 0xC000_011F;
/// Few, so that they are used up quickly: 384 are left for connections and opens.
const DESCRIPTORS: &str = "--nofile=1024:1024";
/// Another user than that of the tests.
const OTHER: &str = "nobody";

/// A server with two users and few descriptors.
fn crowded() -> Running {
    let mut setup = Setup::new().server("workers = 8").argument("--user");
    setup = setup.argument(&format!("{OTHER}:{PASSWORD}"));
    setup.launcher = vec!["prlimit".into(), DESCRIPTORS.into()];
    setup.start()
}

fn log_on(server: &Running, from: Ipv4Addr, user: &str) -> Client {
    let mut client = Client::over(connect_from(from, server.smb).expect("it takes connections"));
    client.negotiate();
    assert_eq!(client.log_on(user, PASSWORD), SUCCESS, "{user} from {from}");
    assert_eq!(client.connect_tree("data"), SUCCESS);
    client
}

/// Opens `name` until that is refused: how often, and the refusal.
fn open_all(client: &mut Client, name: &str) -> (usize, u32) {
    let body = Client::create_body(name);
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
    let mut hoarder = log_on(&server, here, &support::user());
    let (own, refused) = open_all(&mut hoarder, "file");
    assert_eq!(refused, TOO_MANY_OPENED_FILES);
    // As many as are left, on a second session, too.
    let mut again = log_on(&server, here, &support::user());
    assert!(open_all(&mut again, "file").0 <= 1);
    let mut other = log_on(&server, here, OTHER);
    let (others, _) = open_all(&mut other, "file");
    assert!(others >= own / 3 && others > 30, "{own} and {others}");
    assert_eq!(hoarder.echo(), SUCCESS);
    assert_eq!(server.metric("anabranch_resource_refused_total{kind=\"opens\"}"), 3);
    let mut late = log_on(&server, Ipv4Addr::new(127, 0, 74, 2), OTHER);
    assert_eq!(late.echo(), SUCCESS, "sockets are not those of opens");
    assert!(server.log().contains("few descriptors"), "{}", server.log());
    drop(hoarder);
}

#[test]
fn crowd_before_logon_keeps_nobody_out() {
    let server = crowded();
    let mut known = log_on(&server, Ipv4Addr::LOCALHOST, &support::user());
    let mut crowd = Vec::new();
    for n in 0..600_u16 {
        let from = Ipv4Addr::new(127, 0, 74, 10 + (n % 30) as u8);
        crowd.extend(connect_from(from, server.smb));
    }
    let mut late = log_on(&server, Ipv4Addr::new(127, 0, 74, 2), OTHER);
    assert_eq!((known.echo(), late.echo()), (SUCCESS, SUCCESS));
    let displaced = "anabranch_connections_ended_total{reason=\"displaced\"}";
    assert!(server.metric(displaced) > 0, "some made room");
    assert!(server.page("/metrics").contains("anabranch_connections_unknown"));
    drop(crowd);
}

#[test]
fn silent_admin_connections_keep_no_administrator_out() {
    let server = Setup::new().start();
    let silent: Vec<TcpStream> =
        (0..80).map(|_| TcpStream::connect(server.admin).unwrap()).collect();
    // Without waiting for the silent ones' time to be over.
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
