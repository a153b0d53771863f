//! The POSIX extensions of SMB 3.1.1, message by message. Crate `files` and the Linux client
//! lanes test their effect on files.

use crate::support::client::{
    CLOSE, CREATE, CreateRequestParts, NEGOTIATE, RawFileId, RawReply, RawSmbClient, SUCCESS,
};
use crate::support::client::{QUERY_DIRECTORY, QUERY_INFO, SET_INFO, WRITE};
use crate::support::{PASSWORD, ServerProcess, Setup, user};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

const VARIANT: [u8; 16] = *b"\x93\xAD\x25\x50\x9C\xB4\x11\xE7\xB4\x23\x83\xDE\x96\x8B\xCD\x7C";
const POSIX: u16 = 0x100;
const INVALID_PARAMETER: u32 = 0xC000_000D;
const INVALID_INFO_CLASS: u32 = 0xC000_0003;
const OBJECT_NAME_NOT_FOUND: u32 = 0xC000_0034;
const STOPPED_ON_SYMLINK: u32 = 0x8000_002D;
const CREATE_NEW: u32 = 2;
const OPEN: u32 = 1;
const ALL: u32 = 0x001F_01FF;

fn negotiate(server: &ServerProcess, contexts: &[(u16, &[u8])]) -> (RawSmbClient, RawReply) {
    let mut client = RawSmbClient::connect(server.smb);
    let reply = client.call(NEGOTIATE, &RawSmbClient::negotiate_311_body(contexts));
    (client, reply)
}

fn is_agreed(reply: &RawReply) -> bool {
    assert_eq!(reply.status, SUCCESS);
    reply.bytes.windows(16).any(|window| window == VARIANT)
}

fn ready(server: &ServerProcess, contexts: &[(u16, &[u8])]) -> RawSmbClient {
    let (mut client, reply) = negotiate(server, contexts);
    assert_eq!(reply.status, SUCCESS);
    assert_eq!(client.log_on(&user(), PASSWORD), SUCCESS);
    assert_eq!(client.connect_tree("data"), SUCCESS);
    client
}

fn posix_context(data: &[u8]) -> Vec<u8> {
    let mut context = vec![0, 0, 0, 0, 16, 0, 16, 0, 0, 0, 32, 0];
    context.extend_from_slice(&u32::try_from(data.len()).unwrap().to_le_bytes());
    context.extend_from_slice(&VARIANT);
    context.extend_from_slice(data);
    context
}

fn create(
    client: &mut RawSmbClient,
    name: &str,
    disposition: u32,
    access: u32,
    mode: u32,
) -> RawReply {
    let contexts = posix_context(&mode.to_le_bytes());
    let wish =
        CreateRequestParts { name, access, share: 7, disposition, options: 0, contexts: &contexts };
    client.call(CREATE, &RawSmbClient::create_with(&wish))
}

fn made(client: &mut RawSmbClient, name: &str, access: u32, mode: u32) -> RawFileId {
    let reply = create(client, name, CREATE_NEW, access, mode);
    assert_eq!(reply.status, SUCCESS, "{name}");
    reply.file_id()
}

#[test]
fn posix_extensions_are_negotiated_and_optional_per_share() {
    let server = Setup::new().start();
    assert!(is_agreed(&negotiate(&server, &[(POSIX, &VARIANT)]).1));
    let several = [[1; 16], VARIANT].concat();
    assert!(is_agreed(&negotiate(&server, &[(POSIX, &several)]).1));
    assert!(!is_agreed(&negotiate(&server, &[(POSIX, &[1; 16])]).1));
    assert!(!is_agreed(&negotiate(&server, &[]).1));
    assert_eq!(negotiate(&server, &[(POSIX, b"01234")]).1.status, INVALID_PARAMETER);

    let mut without = Setup::new();
    without.shares += "posix = false\n";
    let server = without.start();
    assert!(!is_agreed(&negotiate(&server, &[(POSIX, &VARIANT)]).1));
}

#[test]
fn posix_create_reply_reports_links_mode_and_owners() {
    let server = Setup::new().start();
    let mut client = ready(&server, &[(POSIX, &VARIANT)]);
    let reply = create(&mut client, "what?/..//a:b*", CREATE_NEW, ALL, 0o1640);
    assert_eq!(reply.status, SUCCESS);
    assert_eq!(reply.contexts()[16..32], VARIANT);
    let facts = &reply.contexts()[32..];
    assert_eq!(facts[..12], [1, 0, 0, 0, 0, 0, 0, 0, 0xA0, 3, 0, 0], "1 link, no tag, mode 01640");
    assert_eq!(facts[12..24], [1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0], "S-1-22-1-");
    assert_eq!(
        std::fs::metadata(server.data().join("a:b*")).unwrap().permissions().mode() & 0o7777,
        0o1640
    );
    // Linux's client sends no mode for pipes and devices; the file then must not get all bits.
    made(&mut client, "pipe", ALL, 0xffff);
    let pipe = std::fs::metadata(server.data().join("pipe")).unwrap().permissions();
    assert_eq!(pipe.mode() & 0o7777, 0o644);
    let other = create(&mut client, "A:B*", OPEN, ALL, 0);
    assert_eq!(other.status, OBJECT_NAME_NOT_FOUND);
    let contexts = posix_context(&[0; 5]);
    let long = CreateRequestParts {
        name: "x",
        access: ALL,
        share: 7,
        disposition: 3,
        options: 0,
        contexts: &contexts,
    };
    assert_eq!(client.call(CREATE, &RawSmbClient::create_with(&long)).status, INVALID_PARAMETER);

    // Without negotiated extensions the context has no effect.
    let mut plain = ready(&server, &[]);
    let reply = create(&mut plain, "plain", CREATE_NEW, ALL, 0o600);
    assert_eq!((reply.status, reply.contexts()), (SUCCESS, &[][..]));
    let query = RawSmbClient::query_info_body(reply.file_id(), 1, 100, 0);
    assert_eq!(plain.call(QUERY_INFO, &query).status, INVALID_INFO_CLASS);
}

#[test]
fn queries_of_posix_show_files_directories_and_the_file_system() {
    let server = Setup::new().start();
    let mut client = ready(&server, &[(POSIX, &VARIANT)]);
    let file = made(&mut client, "Name", ALL, 0o604);
    assert_eq!(client.call(WRITE, &RawSmbClient::write_body(file, 0, b"12345")).status, SUCCESS);
    let info = client.call(QUERY_INFO, &RawSmbClient::query_info_body(file, 1, 100, 0));
    assert_eq!((info.status, info.output()[32]), (SUCCESS, 5), "its length");
    assert_eq!(info.output()[76..80], 0o604u32.to_le_bytes());
    let space = client.call(QUERY_INFO, &RawSmbClient::query_info_body(file, 2, 100, 0));
    assert_eq!((space.status, space.output().len()), (SUCCESS, 56));

    let wish = CreateRequestParts {
        name: "",
        access: 0x81,
        share: 7,
        disposition: OPEN,
        options: 1,
        contexts: &posix_context(&[0; 4]),
    };
    let root = client.call(CREATE, &RawSmbClient::create_with(&wish)).file_id();
    made(&mut client, "name", ALL, 0o600);
    let list = |client: &mut RawSmbClient, pattern: &str| {
        let reply = client
            .call(QUERY_DIRECTORY, &RawSmbClient::query_directory_body(root, 100, 1, pattern));
        (reply.status, (reply.status == SUCCESS).then(|| reply.output().to_vec()))
    };
    let name = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    let has = |listed: &[u8], text: &str| {
        let name = name(text);
        let entry = [&u32::try_from(name.len()).unwrap().to_le_bytes()[..], &name].concat();
        listed.windows(entry.len()).any(|window| window == entry)
    };
    let (_, all) = list(&mut client, "*");
    let all = all.unwrap();
    assert!(has(&all, "Name") && has(&all, "name") && has(&all, ".") && has(&all, ".."));
    let (_, one) = list(&mut client, "Name");
    let one = one.unwrap();
    assert!(has(&one, "Name") && !has(&one, "name"));
}

type SidParts<'a> = (u8, &'a [u32]);

fn sid((authority, parts): SidParts<'_>) -> Vec<u8> {
    let mut sid = vec![1, parts.len() as u8, 0, 0, 0, 0, 0, authority];
    parts.iter().for_each(|part| sid.extend_from_slice(&part.to_le_bytes()));
    sid
}

/// A descriptor with a list that grants each of some trustees everything.
fn descriptor(trustees: &[SidParts<'_>], owner: Option<SidParts<'_>>) -> Vec<u8> {
    let mut list = Vec::new();
    for trustee in trustees {
        let sid = sid(*trustee);
        list.extend_from_slice(&[0, 0, sid.len() as u8 + 8, 0]);
        list.extend_from_slice(&0x001F_01FFu32.to_le_bytes());
        list.extend_from_slice(&sid);
    }
    let owner = owner.map(sid).unwrap_or_default();
    let owner_at = if owner.is_empty() { 0 } else { 28 + list.len() as u32 };
    let mut descriptor = vec![1, 0, 4, 0x80];
    for place in [owner_at, 0, 0, 20] {
        descriptor.extend_from_slice(&place.to_le_bytes());
    }
    descriptor.extend_from_slice(&[2, 0, list.len() as u8 + 8, 0, trustees.len() as u8, 0, 0, 0]);
    [descriptor, list, owner].concat()
}

fn set_security(client: &mut RawSmbClient, file: RawFileId, parts: u32, descriptor: &[u8]) -> u32 {
    let mut body = RawSmbClient::set_info_body(file, 0, descriptor);
    body[2] = 3; // security
    body[12..16].copy_from_slice(&parts.to_le_bytes());
    client.call(SET_INFO, &body).status
}

fn mode_on_disk(server: &ServerProcess, name: &str) -> u32 {
    std::fs::metadata(server.data().join(name)).unwrap().permissions().mode() & 0o7777
}

/// Linux's client mounted with `idsfromsid`: it sends a descriptor with each file that it creates, and
/// with each new owner the list that it was shown.
#[test]
fn mode_of_a_client_that_names_owners_by_number_is_kept() {
    let server = Setup::new().start();
    let mut client = ready(&server, &[(POSIX, &VARIANT)]);
    for (name, mode, expected) in [("file", 0o640, 0o640), ("pipe", 0xffff, 0o751)] {
        let mut contexts = posix_context(&u32::to_le_bytes(mode));
        contexts.resize(40, 0);
        contexts[0] = 40;
        let own = descriptor(&[(5, &[88, 3, 0o751]), (5, &[11])], Some((5, &[88, 1, 0])));
        contexts.extend_from_slice(&[0, 0, 0, 0, 16, 0, 4, 0, 0, 0, 24, 0]);
        contexts.extend_from_slice(&(own.len() as u32).to_le_bytes());
        contexts.extend_from_slice(b"SecD\0\0\0\0");
        contexts.extend_from_slice(&own);
        let wish = CreateRequestParts {
            name,
            access: ALL,
            share: 7,
            disposition: CREATE_NEW,
            options: 0,
            contexts: &contexts,
        };
        let reply = client.call(CREATE, &RawSmbClient::create_with(&wish));
        assert_eq!(reply.status, SUCCESS, "{name}");
        assert_eq!(mode_on_disk(&server, name), expected, "{name}");
        // Only the superuser may change a file's owner.
        let own = server.data().metadata().unwrap().uid();
        let uid = if own == 0 { 4100 } else { own };
        let owner = (5, &[88, 1, uid][..]);
        let sent_back = shown_list(&mut client, reply.file_id(), (own, uid), owner);
        assert_eq!(set_security(&mut client, reply.file_id(), 5, &sent_back), SUCCESS, "{name}");
        assert_eq!(mode_on_disk(&server, name), expected, "{name}");
        assert_eq!(server.data().join(name).metadata().unwrap().uid(), uid, "{name}");
    }
}

/// The shown ACL with the owner replaced, as Linux's client sends it with a new owner.
fn shown_list(
    client: &mut RawSmbClient,
    file: RawFileId,
    (from, to): (u32, u32),
    owner: SidParts<'_>,
) -> Vec<u8> {
    let reply = client.call(QUERY_INFO, &RawSmbClient::query_info_body(file, 3, 0, 4));
    assert_eq!(reply.status, SUCCESS);
    let shown = reply.output();
    let at = u32::from_le_bytes(shown[16..20].try_into().unwrap()) as usize;
    let length = usize::from(u16::from_le_bytes(shown[at + 2..at + 4].try_into().unwrap()));
    let mut list = shown[at..at + length].to_vec();
    let (old, new) = (sid((22, &[1, from])), sid((22, &[1, to])));
    let found = list.windows(old.len()).position(|window| window == old).unwrap();
    list[found..found + old.len()].copy_from_slice(&new);
    let mut descriptor = vec![1, 0, 4, 0x80];
    for place in [20 + list.len() as u32, 0, 0, 20] {
        descriptor.extend_from_slice(&place.to_le_bytes());
    }
    [descriptor, list, sid(owner)].concat()
}

/// `setcifsacl` sends an owner and an ACL in one request.
#[test]
fn list_sent_with_an_owner_is_stored_unless_it_is_the_shown_one() {
    let server = Setup::new().start();
    let mut client = ready(&server, &[(POSIX, &VARIANT)]);
    let file = made(&mut client, "file", ALL, 0o664);
    let own = server.data().metadata().unwrap().uid();
    let owner = (5, &[88, 1, own][..]);
    let narrow = descriptor(&[owner], Some(owner));
    assert_eq!(set_security(&mut client, file, 5, &narrow), SUCCESS);
    assert_eq!(mode_on_disk(&server, "file") & 0o077, 0, "others lost what they had");
    // A mode beside an ACL that no mode is equivalent to, and one with a new owner, change no mode.
    let file = made(&mut client, "other", ALL, 0o600);
    let stale = descriptor(&[(5, &[88, 3, 0o777]), (5, &[11])], Some(owner));
    assert_eq!(set_security(&mut client, file, 5, &stale), SUCCESS);
    assert_eq!(mode_on_disk(&server, "other"), 0o600);
    let more = descriptor(&[(5, &[88, 3, 0o777]), (22, &[1, 4007])], None);
    assert_eq!(set_security(&mut client, file, 4, &more), SUCCESS);
    assert_eq!(mode_on_disk(&server, "other") & 0o007, 0, "an entry of a user is no mode's");
}

#[test]
fn permission_bits_are_set_by_a_list_of_one_entry() {
    let server = Setup::new().start();
    let mut client = ready(&server, &[(POSIX, &VARIANT)]);
    let file = made(&mut client, "file", ALL, 0o600);
    let descriptor = descriptor(&[(5, &[88, 3, 0o751])], None);
    assert_eq!(set_security(&mut client, file, 4, &descriptor), SUCCESS);
    assert_eq!(mode_on_disk(&server, "file"), 0o751);
}

#[test]
fn append_only_open_writes_at_the_end_only() {
    let server = Setup::new().start();
    let mut client = ready(&server, &[(POSIX, &VARIANT)]);
    const APPEND_DATA: u32 = 4;
    let file = made(&mut client, "log", APPEND_DATA, 0o600);
    let write = |client: &mut RawSmbClient, offset, data: &[u8]| {
        client.call(WRITE, &RawSmbClient::write_body(file, offset, data)).status
    };
    assert_eq!(write(&mut client, 0, b"x"), INVALID_PARAMETER);
    assert_eq!(write(&mut client, u64::MAX, b"one "), SUCCESS);
    assert_eq!(write(&mut client, u64::MAX, b"two"), SUCCESS);
    assert_eq!(std::fs::read(server.data().join("log")).unwrap(), b"one two");
}

#[test]
fn posix_create_of_symlink_reports_its_target() {
    let server = Setup::new().start();
    symlink("../up/there", server.data().join("link")).unwrap();
    let mut client = ready(&server, &[(POSIX, &VARIANT)]);
    let reply = create(&mut client, "link", OPEN, 0x80, 0);
    assert_eq!(reply.status, STOPPED_ON_SYMLINK);
    let target: Vec<u8> = "../up/there".encode_utf16().flat_map(u16::to_le_bytes).collect();
    // One error context; in it the tag, the lengths, "relative", both names.
    assert_eq!(reply.bytes[66], 1);
    let error = &reply.bytes[72..];
    assert_eq!(error[12..20], *b"SYML\x0C\0\0\xA0");
    assert_eq!(error[32..36], [1, 0, 0, 0]);
    assert_eq!(error[36..], [&target[..], &target].concat());
    let wish = CreateRequestParts {
        name: "link",
        access: 0x80,
        share: 7,
        disposition: OPEN,
        options: 0x0020_0000,
        contexts: &posix_context(&[0; 4]),
    };
    let itself = client.call(CREATE, &RawSmbClient::create_with(&wish));
    assert_eq!(itself.status, SUCCESS);
    assert_eq!(client.call(CLOSE, &RawSmbClient::close_body(itself.file_id())).status, SUCCESS);
}
