//! Queries of names, and watches whose changes do not fit their reply.

use crate::harness::{Net, memory};
use crate::slow::ColdBackend;
use std::sync::Arc;
use vfs::{Actor, Case, CreateHow, FileKind, Name, RelPath, Vfs};
use wire::ntstatus::NtStatus;
use wire::smb::{Command, FileId, Header};

/// FileAlternateNameInformation, FileAllInformation. MS-FSCC 2.4.
const NAME_CLASSES: [u8; 2] = [21, 18];

/// A name with a character that stands for another one: its directory may have both.
const AMBIGUOUS: &str = "a\u{F022}b";

#[test]
fn name_that_takes_a_look_up_is_queried_by_a_worker() {
    let memory = memory();
    let path = RelPath::root().join(&Name::new(AMBIGUOUS.as_bytes()).unwrap());
    let how = CreateHow::plain(FileKind::File, 0o666);
    memory.create(Actor::SUPERUSER, &path, Case::Sensitive, how).unwrap();
    let (net, slow) = Net::over(Arc::new(ColdBackend(memory)));
    let mut client = net.ready();
    let (ambiguous, plain) = (client.create(AMBIGUOUS, 0), client.create("plain", 0));
    for class in NAME_CLASSES {
        slow.hands.hold();
        let query = |file: FileId| {
            move |w: &mut wire::codec::Writer<'_>| {
                w.u16(41);
                w.u8(1);
                w.u8(class);
                w.u32(1024);
                w.zeros(16);
                file.encode(w);
            }
        };
        let id = client.send(Command::QUERY_INFO, query(ambiguous));
        assert!(client.reply_to(id).is_none(), "class {class}: a worker is to look");
        let status = client.status(Command::QUERY_INFO, query(plain));
        assert_eq!(status, NtStatus::SUCCESS, "class {class}: others are served meanwhile");
        slow.hands.work();
        let reply = client.reply_to(id).expect("the worker has looked");
        assert_eq!(reply.header.status, NtStatus::SUCCESS);
        let name: Vec<u8> = AMBIGUOUS.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(reply.bytes.ends_with(&name), "class {class}");
        slow.hands.release();
    }
    client.cut();
    net.assert_empty();
}

#[test]
fn changes_that_do_not_fit_are_to_be_enumerated() {
    let net = Net::new();
    let mut client = net.ready();
    let directory = client.create("", 0);
    let watch = client.send_watch(directory);
    client.waits(watch);
    client.create("first", 0);
    let changed = client.reply_to(watch).expect("a change");
    assert_eq!(changed.header.status, NtStatus::SUCCESS);
    // Its client has room for 1,024 bytes, which 20 names of 48 letters exceed.
    let names: Vec<String> = (0..20).map(|number| format!("{number:048}")).collect();
    for name in &names {
        client.create(name, 0);
    }
    let watch = client.send_watch(directory);
    let lost = client.reply_to(watch).expect("at once");
    assert_eq!(lost.header.status, NtStatus::NOTIFY_ENUM_DIR);
    let body = &lost.bytes[Header::LENGTH..];
    // MS-SMB2 2.2.36: OutputBufferLength.
    assert_eq!(body[4..8], [0; 4], "no changes");
    // It goes on from there.
    let watch = client.send_watch(directory);
    client.waits(watch);
    client.create("next", 0);
    let changed = client.reply_to(watch).expect("a change");
    assert_eq!(changed.header.status, NtStatus::SUCCESS);
    let name: Vec<u8> = "next".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(changed.bytes.windows(name.len()).any(|part| part == name));
}
