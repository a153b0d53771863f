//! Directories opened by the name of their index. MS-FSA 2.1.5.1, MS-FSCC 2.1.5.

use crate::harness::{ConnectedClient, Net};
use wire::codec::put_utf16;
use wire::fscc;
use wire::ntstatus::NtStatus;
use wire::smb::{Command, CreateRequest};

/// Status, and attributes of the opened file. MS-SMB2 2.2.14.
fn create(
    client: &mut ConnectedClient,
    name: &str,
    disposition: u32,
    options: u32,
) -> (NtStatus, u32) {
    let mut units = Vec::new();
    put_utf16(&mut units, name);
    let request = CreateRequest {
        oplock: 0,
        impersonation: 2,
        desired_access: 0x8000_0000,
        attributes: 0,
        share_access: 7,
        disposition,
        options,
        name: &units,
        contexts: &[],
    };
    let reply = client.call(Command::CREATE, |w| request.encode(w));
    let attributes = reply.bytes.get(64 + 56..64 + 60);
    let attributes = attributes.map_or(0, |at| u32::from_le_bytes(at.try_into().unwrap()));
    (reply.header.status, attributes)
}

#[test]
fn directory_index_name_opens_and_creates_the_directory() {
    let net = Net::new();
    let mut client = net.ready();
    let directory = (NtStatus::SUCCESS, fscc::FILE_ATTRIBUTE_DIRECTORY);
    for (number, suffix) in
        ["::$INDEX_ALLOCATION", ":$I30:$INDEX_ALLOCATION", ":$i30:$Index_Allocation"]
            .into_iter()
            .enumerate()
    {
        let plain = format!("d{number}");
        let named = format!("{plain}{suffix}");
        let missing = create(&mut client, &named, fscc::FILE_OPEN, 0);
        assert_eq!(missing.0, NtStatus::OBJECT_NAME_NOT_FOUND);
        let options = if number == 0 { fscc::FILE_DIRECTORY_FILE } else { 0 };
        assert_eq!(create(&mut client, &named, fscc::FILE_CREATE, options), directory, "{named}");
        assert_eq!(create(&mut client, &named, fscc::FILE_OPEN, 0), directory);
        assert_eq!(create(&mut client, &plain, fscc::FILE_OPEN, 0), directory);
        let as_file = create(&mut client, &named, fscc::FILE_OPEN, fscc::FILE_NON_DIRECTORY_FILE);
        assert_eq!(as_file.0, NtStatus::FILE_IS_A_DIRECTORY);
        let emptied = create(&mut client, &named, fscc::FILE_OVERWRITE_IF, 0);
        assert_eq!(emptied.0, NtStatus::INVALID_PARAMETER);
    }
    assert_eq!(create(&mut client, "f", fscc::FILE_CREATE, 0).0, NtStatus::SUCCESS);
    let of_file = create(&mut client, "f::$INDEX_ALLOCATION", fscc::FILE_OPEN, 0);
    assert_eq!(of_file.0, NtStatus::NOT_A_DIRECTORY);
    for disposition in [fscc::FILE_CREATE, fscc::FILE_OPEN] {
        let other = create(&mut client, "d0:other:$INDEX_ALLOCATION", disposition, 0);
        assert_eq!(other.0, NtStatus::INVALID_PARAMETER);
        let option = fscc::FILE_DIRECTORY_FILE;
        let other = create(&mut client, "new:other:$INDEX_ALLOCATION", disposition, option);
        assert_eq!(other.0, NtStatus::INVALID_PARAMETER);
    }
}
