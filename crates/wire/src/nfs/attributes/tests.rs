//! Tests of attributes.

use super::*;
use crate::nfs::xdr::List;

/// By hand from RFC 8881 3.3: type, size, mode, owner.
const SOME: &[u8] = &[
    0, 0, 0, 2, 0, 0, 0, 0x12, 0, 0, 0, 0x12, // bits 1, 4, 33, 36
    0, 0, 0, 24, // bytes
    0, 0, 0, 1, // a regular file
    0, 0, 0, 0, 0, 0, 0x10, 0, // 4,096 bytes
    0, 0, 0x01, 0xA4, // 0644
    0, 0, 0, 4, b'1', b'0', b'0', b'0',
];

#[test]
fn attributes_are_coded_in_ascending_number_order() {
    let fattr: Fattr<'_> = XdrReader::new(SOME).get().unwrap();
    let attributes = fattr.attributes().unwrap();
    let expected = NfsAttributes {
        file_type: Some(FileType::Regular),
        size: Some(4096),
        mode: Some(0o644),
        owner: Some(b"1000"),
        ..NfsAttributes::default()
    };
    assert_eq!(attributes, expected);
    let mut out = Vec::new();
    attributes.encode(&mut XdrWriter::new(&mut out));
    assert_eq!(out, SOME);
    let mut buffer = Vec::new();
    assert_eq!(attributes.to_fattr(&mut buffer), fattr);
}

#[test]
fn attribute_writer_writes_requested_attributes_only() {
    let mut out = Vec::new();
    let w = &mut XdrWriter::new(&mut out);
    let asked = Bitmap4::of(&[1, 4, 33, 36, 62]);
    let mut attributes = AttributeWriter::begin(w, asked);
    attributes.file_type(w, &FileType::Regular);
    attributes.change(w, &9);
    attributes.size(w, &4096);
    attributes.mode(w, &0o644);
    attributes.owner(w, &&b"1000"[..]);
    assert_eq!(attributes.finish(w), Bitmap4::of(&[1, 4, 33, 36]));
    assert_eq!(out, SOME);
    out.clear();
    let w = &mut XdrWriter::new(&mut out);
    let mut nothing = AttributeWriter::begin(w, Bitmap4::EMPTY);
    nothing.size(w, &4096);
    nothing.finish(w);
    assert_eq!(out, [0; 8]);
}

#[test]
fn undefined_attribute_is_not_supported() {
    let fattr = Fattr { mask: Bitmap4::of(&[4, 100]), values: &[0; 12] };
    let bad = fattr.attributes().unwrap_err();
    assert_eq!(bad, BadAttributes::Unknown(100));
    assert_eq!(NfsStatus::from(bad), NfsStatus::ATTRNOTSUPP);
}

#[test]
fn attribute_values_that_miss_the_mask_are_malformed() {
    for length in [7, 12] {
        let fattr = Fattr { mask: Bitmap4::of(&[4]), values: &[0; 12][..length] };
        assert_eq!(fattr.attributes().map_err(NfsStatus::from), Err(NfsStatus::BADXDR));
    }
}

#[test]
fn every_attribute_up_to_86_has_a_name() {
    assert_eq!(NfsAttributes::ALL, Bitmap4((1 << 87) - 1));
    assert_eq!(attribute_name(82), Some("xattr_support"));
    assert_eq!(attribute_name(87), None);
}

#[test]
fn attributes_of_every_type_round_trip() {
    let time = NfsTime { seconds: -1, nanoseconds: 5 };
    let path: PathName<'_> = List(vec![b"a", b"bc"]);
    let ace = crate::nfs::acl::NfsAce {
        ace_type: crate::nfs::acl::AceType::Deny,
        flags: crate::nfs::acl::AceFlags::IDENTIFIER_GROUP,
        mask: crate::nfs::acl::AceMask::WRITE_ACL,
        who: b"GROUP@",
    };
    let acl41 = Acl41 { flags: crate::nfs::acl::AclFlags(2), entries: List(vec![ace; 2]) };
    let attributes = NfsAttributes {
        acl: Some(List(vec![ace])),
        dacl: Some(acl41.clone()),
        sacl: Some(acl41),
        fs_locations: Some(FsLocations {
            root: path.clone(),
            locations: List(vec![FsLocation { servers: List(vec![b"host"]), root: path.clone() }]),
        }),
        fs_locations_info: Some(FsLocationsInfo {
            flags: 1,
            valid_for: -1,
            root: path.clone(),
            items: List(vec![FsLocationsItem {
                entries: List(vec![FsLocationsServer { currency: -1, info: b"x", server: b"h" }]),
                root: path,
            }]),
        }),
        time_access_set: Some(SetTime::Server),
        time_modify_set: Some(SetTime::Client(time)),
        retention_get: Some(RetentionGet { duration: 3, begin_time: List(vec![time]) }),
        retention_set: Some(RetentionSet { enable: true, duration: List(vec![7]) }),
        fs_status: Some(FsStatus {
            is_absent: false,
            status_type: FsStatusType::Writable,
            source: b"s",
            current: b"",
            age: 0,
            version: time,
        }),
        layout_types: Some(List(vec![1, 4])),
        layout_hint: Some(LayoutContent { layout_type: 1, body: b"hint" }),
        mdsthreshold: Some(MdsThreshold {
            hints: List(vec![ThresholdItem {
                layout_type: 1,
                hint_set: Bitmap4::of(&[0]),
                hints: &[0; 8],
            }]),
        }),
        sec_label: Some(SecLabel { format: 1, policy: 2, data: b"label" }),
        mode_umask: Some(ModeUmask { mode: 0o666, umask: 0o22 }),
        filehandle: FileHandle::new(b"handle"),
        change_attr_type: Some(ChangeAttrType::VersionCounter),
        open_arguments: Some(OpenArguments {
            share_access: Bitmap4::of(&[3]),
            ..OpenArguments::default()
        }),
        ..NfsAttributes::default()
    };
    let mut out = Vec::new();
    attributes.encode(&mut XdrWriter::new(&mut out));
    let fattr: Fattr<'_> = XdrReader::new(&out).get().unwrap();
    assert_eq!(fattr.attributes(), Ok(attributes.clone()));
    for end in 0..fattr.values.len() {
        let cut = Fattr { values: &fattr.values[..end], ..fattr };
        assert!(cut.attributes().is_err(), "{end}");
    }
}
