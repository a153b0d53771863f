//! File payloads of requests, and calls on named pipes.

use files::Reparse;
use smb::names::{SmbPath, name_from_units, parse_path, path_units, units_of};
use smb::posix::{parse_posix_path, push_posix_units};
use smb::previous_versions::{take_token, time_of, token};
use smb::reparse::{buffer_of, posix_target};
use std::sync::Arc;
use wire::codec::utf16_units;
use wire::fscc::{
    BasicInfo, QuotaList, QuotaQuery, RenameInfo, ReparseBuffer, Symlink, decode_ea_list,
    decode_ea_names, decode_nfs_link, decode_quota_list, decode_quota_users, has_wildcards,
    matches, put_ea_list,
};
use wire::rpc::{Pipe, RpcFacts, RpcInterface, ShareInfo, SidNames, UnixNames, machine_sid};

/// SET_INFO payloads.
pub fn information(bytes: &[u8]) {
    if let Ok(info) = BasicInfo::decode(bytes) {
        for time in info.times {
            let _ = time.to_unix_nanos();
        }
    }
    if let Ok(info) = RenameInfo::decode(bytes) {
        names(info.name);
    }
    quotas(bytes);
}

/// Quota payloads of SET_INFO and QUERY_INFO: decoded values round-trip.
fn quotas(bytes: &[u8]) {
    if let Ok(query) = QuotaQuery::decode(bytes) {
        let _ = decode_quota_users(query.users);
    }
    let _ = decode_quota_users(bytes);
    let Ok(read) = decode_quota_list(bytes) else { return };
    let mut written = Vec::new();
    let mut list = QuotaList::new(&mut written, usize::MAX);
    assert!(read.iter().all(|entry| list.put(entry)));
    assert_eq!(decode_quota_list(&written), Ok(read));
}

/// Extended attribute lists: decoded values round-trip.
pub fn extended_attributes(bytes: &[u8]) {
    let _ = decode_ea_names(bytes);
    let Ok(read) = decode_ea_list(bytes) else { return };
    let pairs: Vec<_> = read.iter().map(|e| (e.name.to_vec(), e.value.to_vec())).collect();
    let mut written = Vec::new();
    assert_eq!(put_ea_list(&pairs, &mut written, usize::MAX), pairs.len());
    let again = decode_ea_list(&written).unwrap();
    assert_eq!(again.len(), read.len());
    assert!(again.iter().zip(&read).all(|(a, b)| (a.name, a.value) == (b.name, b.value)));
}

/// UTF-16 names: the shown form of an accepted name refers to the same file.
pub fn names(bytes: &[u8]) {
    let Ok(units) = utf16_units(bytes, "name") else { return };
    if units.iter().any(|unit| (0xF180..=0xF1FF).contains(unit)) {
        // Single bytes may form a private-use character, which cannot be distinguished from the
        // byte that it represents.
        if let Ok(name) = name_from_units(&units) {
            let _ = units_of(name.as_bytes());
        }
        return;
    }
    if let Ok(name) = name_from_units(&units) {
        let shown = units_of(name.as_bytes());
        assert_eq!(name_from_units(&shown).as_ref(), Ok(&name), "{shown:04x?}");
    }
    if let Ok(SmbPath { path, .. }) = parse_posix_path(&units) {
        let mut shown = Vec::new();
        push_posix_units(&mut shown, path.as_bytes());
        assert_eq!(parse_posix_path(&shown).map(|again| again.path), Ok(path), "{shown:04x?}");
    }
    if let Some((rest, at)) = take_token(&units) {
        assert!(rest.len() < units.len() && time_of(&units_of(token(at).as_bytes())) == Some(at));
    }
    if let Ok(parsed) = parse_path(&units) {
        let shown = path_units(&parsed.path, |_| false);
        let again = parse_path(&shown[1..]).unwrap();
        assert_eq!(again.path, parsed.path, "{shown:04x?}");
    }
}

/// Reparse points: the shown form of a disk link becomes the same link.
pub fn reparse_points(bytes: &[u8]) {
    let Ok(buffer) = ReparseBuffer::decode(bytes) else { return };
    let _ = decode_nfs_link(buffer.data);
    let Ok(link) = Symlink::decode(buffer.data) else { return };
    if let Some(written) = link.encode() {
        let again = ReparseBuffer::decode(&written).unwrap();
        assert_eq!(Symlink::decode(again.data), Ok(link.clone()));
    }
    let Some(text) = posix_target(&link) else { return };
    let shown = buffer_of(Reparse::Symlink(text.clone())).unwrap();
    let shown = Symlink::decode(ReparseBuffer::decode(&shown).unwrap().data).unwrap();
    if !link.target.iter().any(|unit| (0xF180..=0xF1FF).contains(unit)) {
        assert_eq!(posix_target(&shown), Some(text), "{link:04x?}");
    }
}

/// A pattern and a name, both of maximal length.
pub fn wildcards(bytes: &[u8]) {
    let Some((&length, rest)) = bytes.split_first() else { return };
    let Ok(units) = utf16_units(&rest[..rest.len() / 2 * 2], "pattern") else { return };
    let (pattern, name) = units.split_at(units.len().min(usize::from(length)));
    let name = &name[..name.len().min(255)];
    let found = matches(pattern, name);
    if !has_wildcards(pattern) && pattern == name {
        assert!(found);
    }
}

/// At most requests of 64 KiB and responses of 1 MiB wait, each perhaps in a buffer that has just
/// doubled.
pub fn remote_calls_bytes_max(input_bytes: usize) -> usize {
    3 * (1024 + 64) * 1024 + 32 * input_bytes
}

/// Bytes written to a pipe in two pieces, and all its responses.
pub fn remote_calls(bytes: &[u8]) {
    let share = |name: &str, kind| ShareInfo {
        name: name.into(),
        kind,
        remark: "a remark".into(),
        flags: 0,
        is_listed: true,
    };
    let facts = RpcFacts {
        server_name: "SERVER".into(),
        domain: "WORKGROUP".into(),
        comment: String::new(),
        shares: vec![share("data", 0), share("IPC$", 0x8000_0003)],
        user: "alice".into(),
        names: Arc::new(SidNames {
            machine: "SERVER".into(),
            machine_sid: machine_sid(&[1; 16]),
            workgroup: "WORKGROUP".into(),
            unix: Arc::new(UnixNames::new([("alice".to_owned(), 1000)], [])),
        }),
        is_administrator: true,
        now_unix_ms: 0,
    };
    let Some((&first, rest)) = bytes.split_first() else { return };
    let interface = match first % 3 {
        0 => RpcInterface::Srvsvc,
        1 => RpcInterface::Wkssvc,
        _ => RpcInterface::Lsarpc,
    };
    let mut pipe = Pipe::new(interface, facts);
    let (front, back) = rest.split_at(rest.len() / 2);
    for piece in [front, back] {
        if pipe.write(piece).is_err() {
            return;
        }
    }
    while pipe.available() > 0 {
        let before = pipe.available();
        let (answer, more) = pipe.read(1000);
        assert_eq!(before, answer.len() + pipe.available());
        assert_eq!(more, pipe.available() > 0);
    }
}
