//! Apple's extensions, message by message: a Mac's requests at a connect, and the fields of a
//! listing that Finder reads.

use crate::support::client::{
    CLOSE, CREATE, CreateRequestParts, QUERY_DIRECTORY, QUERY_INFO, RawReply, RawSmbClient,
    SET_INFO, SUCCESS, WRITE,
};
use crate::support::{PASSWORD, ServerProcess, Setup, user};

const OPEN_IF: u32 = 3;
const OPEN: u32 = 1;
const INVALID_PARAMETER: u32 = 0xC000_000D;
const ID_BOTH_DIRECTORY: u8 = 37;

fn ready(server: &ServerProcess) -> RawSmbClient {
    let mut client = RawSmbClient::connect(server.smb);
    client.negotiate();
    assert_eq!(client.log_on(&user(), PASSWORD), SUCCESS);
    assert_eq!(client.connect_tree("data"), SUCCESS);
    client
}

fn create(client: &mut RawSmbClient, name: &str, disposition: u32, contexts: &[u8]) -> RawReply {
    let wish = CreateRequestParts {
        name,
        access: 0x0200_0000,
        share: 7,
        disposition,
        options: 0,
        contexts,
    };
    client.call(CREATE, &RawSmbClient::create_with(&wish))
}

/// AAPL create context of a client that reads directory details (kAAPL_SERVER_QUERY).
fn query(data_bytes: u32) -> Vec<u8> {
    let mut context = vec![0, 0, 0, 0, 16, 0, 4, 0, 0, 0, 24, 0];
    context.extend_from_slice(&data_bytes.to_le_bytes());
    context.extend_from_slice(b"AAPL\0\0\0\0");
    context.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
    context.extend_from_slice(&7u64.to_le_bytes());
    context.extend_from_slice(&1u64.to_le_bytes());
    context
}

fn put(client: &mut RawSmbClient, name: &str, data: &[u8]) {
    let reply = create(client, name, OPEN_IF, &[]);
    assert_eq!(reply.status, SUCCESS, "{name}");
    let write = RawSmbClient::write_body(reply.file_id(), 0, data);
    assert_eq!(client.call(WRITE, &write).status, SUCCESS);
}

/// The one entry of the listing of `name`.
fn entry(client: &mut RawSmbClient, name: &str) -> Vec<u8> {
    let root = create(client, "", OPEN, &[]).file_id();
    let body = RawSmbClient::query_directory_body(root, ID_BOTH_DIRECTORY, 1, name);
    let reply = client.call(QUERY_DIRECTORY, &body);
    assert_eq!(reply.status, SUCCESS);
    reply.output().to_vec()
}

#[test]
fn aapl_create_context_reports_server_and_listing_details() {
    let server = Setup::new().start();
    let mut client = ready(&server);
    put(&mut client, "file", b"data");
    let mut info = b"AFP\0\0\0\x01\0\0\0\0\0\x80\0\0\0TEXTttxt".to_vec();
    info.resize(60, 0);
    put(&mut client, "file:AFP_AfpInfo", &info);
    put(&mut client, "file:AFP_Resource", b"fork");
    let plain = entry(&mut client, "file");
    assert_eq!(plain[68..96], [0; 28], "nothing of it before it is asked for");

    let reply = create(&mut client, "", OPEN, &query(24));
    assert_eq!(reply.status, SUCCESS);
    let answer = &reply.contexts()[24..];
    assert_eq!(answer[..16], [1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        answer[16..24],
        15u64.to_le_bytes(),
        "details of directories, copies, a Unix, modes in lists"
    );
    assert_eq!(answer[24..32], [0; 8], "no backups");
    let model: Vec<u8> = "MacSamba".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!((answer[36], &answer[40..]), (16, &model[..]));

    let entry = entry(&mut client, "file");
    assert_eq!(entry[64..68], 0x001F_01FFu32.to_le_bytes(), "all rights");
    assert_eq!(entry[68..78], [24, 0, 4, 0, 0, 0, 0, 0, 0, 0], "the fork's length");
    assert_eq!(&entry[78..86], b"TEXTttxt");
    assert_eq!(entry[94..96], 0o100_644u16.to_le_bytes());
}

#[test]
fn time_machine_share_advertises_full_sync() {
    let mut setup = Setup::new();
    setup.shares += "time_machine = true\n";
    let server = setup.start();
    let mut client = ready(&server);
    let reply = create(&mut client, "", OPEN, &query(24));
    assert_eq!(reply.contexts()[48..56], 4u64.to_le_bytes(), "full sync");
    // The context is shorter than a query.
    assert_eq!(create(&mut client, "", OPEN, &query(23)).status, INVALID_PARAMETER);
}

#[test]
fn time_machine_share_reports_space_up_to_its_limit() {
    const MIB: u64 = 1 << 20;
    let mut setup = Setup::new();
    setup.shares += "time_machine = true\ntime_machine_max_bytes = 104857600\n";
    let server = setup.start();
    let bundle = server.data().join("mac.sparsebundle");
    std::fs::create_dir_all(bundle.join("bands")).unwrap();
    let list = "<key>band-size</key><integer>4194304</integer>";
    std::fs::write(bundle.join("Info.plist"), list).unwrap();
    let mut client = ready(&server);
    let root = create(&mut client, "", OPEN, &[]).file_id();
    let mut space = || {
        let reply = client.call(QUERY_INFO, &RawSmbClient::query_info_body(root, 2, 3, 0));
        assert_eq!(reply.status, SUCCESS);
        let number = |at: usize| u64::from_le_bytes(reply.output()[at..at + 8].try_into().unwrap());
        let unit = u32::from_le_bytes(reply.output()[16..20].try_into().unwrap());
        let unit = u64::from(unit) * 512;
        (number(0) * unit, number(8) * unit)
    };
    assert_eq!(space(), (100 * MIB, 100 * MIB));
    for band in ["0", "1", "2"] {
        std::fs::write(bundle.join("bands").join(band), "").unwrap();
    }
    assert_eq!(space(), (100 * MIB, 88 * MIB));
}

const ACCESS_DENIED: u32 = 0xC000_0022;
const RENAME: u8 = 10;

fn rename(client: &mut RawSmbClient, from: &str, to: &str) -> u32 {
    let open = create(client, from, OPEN, &[]);
    assert_eq!(open.status, SUCCESS, "{from}");
    let name: Vec<u8> = to.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let length = u32::try_from(name.len()).unwrap();
    let info = [&[0; 16][..], &length.to_le_bytes(), &name].concat();
    let status =
        client.call(SET_INFO, &RawSmbClient::set_info_body(open.file_id(), RENAME, &info)).status;
    assert_eq!(client.call(CLOSE, &RawSmbClient::close_body(open.file_id())).status, SUCCESS);
    status
}

#[test]
fn aapl_client_renames_bundle_with_open_files() {
    let mut setup = Setup::new();
    setup.shares += "time_machine = true\n";
    let server = setup.start();
    std::fs::create_dir_all(server.data().join("a.sparsebundle/bands")).unwrap();
    let (mut mac, mut other) = (ready(&server), ready(&server));
    let root = create(&mut mac, "", OPEN, &query(24));
    assert_eq!(mac.call(CLOSE, &RawSmbClient::close_body(root.file_id())).status, SUCCESS);
    let token = create(&mut mac, "a.sparsebundle\\token", OPEN_IF, &[]).file_id();
    let bands = create(&mut mac, "a.sparsebundle\\bands", OPEN, &[]);
    assert_eq!(bands.status, SUCCESS);
    assert_eq!(rename(&mut other, "a.sparsebundle", "b.sparsebundle"), ACCESS_DENIED);
    assert_eq!(rename(&mut mac, "a.sparsebundle", "b.sparsebundle"), SUCCESS);
    let write = RawSmbClient::write_body(token, 0, b"open");
    assert_eq!(mac.call(WRITE, &write).status, SUCCESS);
    let moved = server.data().join("b.sparsebundle");
    assert_eq!(std::fs::read(moved.join("token")).unwrap(), b"open");
    // The open follows the rename, so it removes the moved file.
    let dispose = RawSmbClient::set_info_body(token, 13, &[1]);
    assert_eq!(mac.call(SET_INFO, &dispose).status, SUCCESS);
    assert_eq!(mac.call(CLOSE, &RawSmbClient::close_body(token)).status, SUCCESS);
    assert!(!moved.join("token").exists());
}
