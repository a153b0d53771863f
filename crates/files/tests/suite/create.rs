//! CREATE by MS-FSA 2.1.5.1.

use crate::harness::*;
use files::{Access, IfExists, IfMissing, OpenAction, OpenPlan, RequestedKind, VolumeOptions, dos};
use limits::{GIB, Provision, ShareLimits};
use std::sync::Arc;
use std::time::Instant;
use vfs::FsError;

fn with(if_exists: IfExists, if_missing: IfMissing, plan: OpenPlan) -> OpenPlan {
    OpenPlan { if_exists, if_missing, ..plan }
}

#[test]
fn missing_name_and_missing_directory_differ() {
    let served = serve();
    served.put("file", b"");
    assert_eq!(served.refusal(plan("missing", READ)), FsError::NotFound);
    assert_eq!(served.refusal(plan("no/such", READ)), FsError::PathNotFound);
    assert_eq!(served.refusal(plan("file/below", READ)), FsError::PathNotFound);
    assert_eq!(served.refusal(new_file("no/such")), FsError::PathNotFound);
    assert_eq!(served.refusal(new_file("file/below")), FsError::PathNotFound);
    served.assert_nothing_held();
}

#[test]
fn each_disposition_handles_existing_and_missing_file() {
    use IfExists::{Fail, Open, Overwrite, Supersede};
    let (create, refuse) = (IfMissing::Create, IfMissing::Fail);
    let cases = [
        (Supersede, create, Ok((OpenAction::Superseded, 0)), Ok(OpenAction::Created)),
        (Open, refuse, Ok((OpenAction::Opened, 4)), Err(FsError::NotFound)),
        (Fail, create, Err(FsError::AlreadyExists), Ok(OpenAction::Created)),
        (Open, create, Ok((OpenAction::Opened, 4)), Ok(OpenAction::Created)),
        (Overwrite, refuse, Ok((OpenAction::Overwritten, 0)), Err(FsError::NotFound)),
        (Overwrite, create, Ok((OpenAction::Overwritten, 0)), Ok(OpenAction::Created)),
    ];
    for (if_exists, if_missing, there, missing) in cases {
        let served = serve();
        served.put("there", b"data");
        let result = served.try_open(with(if_exists, if_missing, plan("there", READ | WRITE)));
        assert_eq!(
            result.map(|o| (o.action, o.attributes.size_bytes)),
            there,
            "{if_exists:?} {if_missing:?}"
        );
        let result = served.try_open(with(if_exists, if_missing, plan("missing", READ | WRITE)));
        assert_eq!(result.map(|o| o.action), missing, "{if_exists:?} {if_missing:?}");
        assert_eq!(served.exists("missing"), missing.is_ok());
    }
}

#[test]
fn file_and_directory_opens_check_kind() {
    let served = serve();
    served.put("file", b"");
    served.put_directory("directory");
    let of_kind = |at, kind| OpenPlan { kind, ..plan(at, LOOK) };
    assert_eq!(served.refusal(of_kind("directory", RequestedKind::File)), FsError::IsDirectory);
    assert_eq!(served.refusal(of_kind("file", RequestedKind::Directory)), FsError::NotDirectory);
    assert!(served.try_open(of_kind("directory", RequestedKind::Directory)).is_ok());
    assert!(served.try_open(of_kind("directory", RequestedKind::Any)).is_ok());
    let replace = with(IfExists::Overwrite, IfMissing::Fail, plan("directory", WRITE));
    assert_eq!(served.refusal(replace), FsError::AlreadyExists);
    assert_eq!(served.refusal(new_directory("file")), FsError::AlreadyExists);
    assert!(served.try_open(plan("", LOOK)).unwrap().open.is_directory(), "the root");
}

#[test]
fn name_in_other_case_opens_file_with_stored_name() {
    let served = serve();
    served.put_directory("Straße");
    served.put("Straße/ReadMe.txt", b"x");
    let open = served.open("STRAßE/README.TXT", READ);
    assert_eq!(open.path(), path("Straße/ReadMe.txt"));
    assert_eq!(served.refusal(new_file("straße/readme.TXT")), FsError::AlreadyExists);
    let options = VolumeOptions { case: vfs::Case::Sensitive, ..VolumeOptions::default() };
    let exact = serve_with(options, Arc::new(Inline));
    exact.put("a", b"");
    assert_eq!(exact.refusal(plan("A", READ)), FsError::NotFound);
}

#[test]
fn generic_rights_are_mapped() {
    let served = serve();
    served.put("file", b"");
    let granted = |desired| served.open("file", desired).granted();
    assert_eq!(granted(Access::GENERIC_READ), Access::FILE_READ);
    assert_eq!(
        granted(Access::GENERIC_WRITE | Access::DELETE),
        Access::FILE_WRITE | Access::DELETE
    );
    assert_eq!(granted(Access::GENERIC_ALL), Access::FILE_ALL);
    assert_eq!(granted(Access::MAXIMUM_ALLOWED), Access::FILE_ALL);
    assert_eq!(granted(Access::READ_ATTRIBUTES), Access::READ_ATTRIBUTES);
}

#[test]
fn readonly_file_refuses_write_replace_and_delete() {
    let served = serve();
    let made = served.try_open(OpenPlan { dos_bits: dos::READONLY, ..new_file("file") }).unwrap();
    served.files.write(made.open.caller(), &made.open, 0, b"made").expect("the creator may write");
    served.close(made.open);
    assert_eq!(served.refusal(plan("file", WRITE)), FsError::AccessDenied);
    assert_eq!(served.refusal(plan("file", Access::APPEND_DATA)), FsError::AccessDenied);
    let replace = with(IfExists::Overwrite, IfMissing::Fail, plan("file", READ));
    assert_eq!(served.refusal(replace), FsError::AccessDenied);
    let delete_on_close = OpenPlan { delete_on_close: true, ..plan("file", DELETE) };
    assert_eq!(served.refusal(delete_on_close), FsError::CannotDelete);
    assert!(served.try_open(plan("file", READ | DELETE | Access::WRITE_ATTRIBUTES)).is_ok());
    let most = served.open("file", Access::MAXIMUM_ALLOWED).granted();
    assert!(
        most.contains(READ | DELETE) && !most.intersects(Access::WRITE_DATA | Access::APPEND_DATA)
    );
    assert_eq!(served.get("file").unwrap(), b"made");
}

#[test]
fn overwrite_must_repeat_hidden_and_system() {
    let served = serve();
    let made = served
        .try_open(OpenPlan { dos_bits: dos::HIDDEN | dos::SYSTEM, ..new_file("file") })
        .unwrap();
    served.close(made.open);
    let replace = |dos_bits| OpenPlan {
        dos_bits,
        ..with(IfExists::Overwrite, IfMissing::Fail, plan("file", WRITE))
    };
    assert_eq!(served.refusal(replace(0)), FsError::AccessDenied);
    assert_eq!(served.refusal(replace(dos::HIDDEN)), FsError::AccessDenied);
    let replaced = served.try_open(replace(dos::HIDDEN | dos::SYSTEM)).unwrap();
    assert_eq!(replaced.attributes.dos.bits, Some(dos::HIDDEN | dos::SYSTEM | dos::ARCHIVE));
}

#[test]
fn overwritten_file_gets_attributes_of_new_file() {
    let served = serve();
    served.put("file", b"old data");
    let made = served.open("file", ALL);
    let change = files::BasicChange { dos_bits: Some(dos::OFFLINE), ..Default::default() };
    served.files.set_attributes(&made, &change).unwrap();
    served.close(made);
    let xattrs = vec![(xattr_name("note"), b"new".to_vec())];
    let plan = OpenPlan { xattrs, ..with(IfExists::Supersede, IfMissing::Fail, plan("file", ALL)) };
    let replaced = served.try_open(plan).unwrap();
    assert_eq!(replaced.attributes.dos.bits, Some(dos::ARCHIVE));
    assert_eq!(replaced.attributes.size_bytes, 0);
    assert_eq!(
        served.files.xattrs(&replaced.open),
        Ok(vec![(xattr_name("note"), b"new".to_vec())])
    );
}

#[test]
fn overwrite_needs_write_right_for_read_open() {
    let served = serve();
    served.put("file", b"data");
    served.set_mode("file", 0o444);
    let replace = with(IfExists::Overwrite, IfMissing::Fail, plan("file", READ));
    if served.is_root {
        assert_eq!(served.refusal(replace), FsError::AccessDenied);
    }
    assert_eq!(served.get("file").unwrap(), b"data");
}

#[test]
fn new_file_gets_archive_allocation_and_xattrs() {
    let served = serve();
    let plan = OpenPlan {
        allocation_bytes: Some(1 << 20),
        dos_bits: dos::HIDDEN,
        xattrs: vec![(xattr_name("note"), b"value".to_vec())],
        ..new_file("file")
    };
    let made = served.try_open(plan).unwrap();
    assert_eq!(made.attributes.dos.bits, Some(dos::HIDDEN | dos::ARCHIVE));
    assert_eq!(made.attributes.size_bytes, 0);
    assert_eq!(served.files.xattrs(&made.open), Ok(vec![(xattr_name("note"), b"value".to_vec())]));
    let directory =
        served.try_open(OpenPlan { dos_bits: dos::HIDDEN, ..new_directory("directory") }).unwrap();
    assert_eq!(directory.attributes.dos.bits, Some(dos::HIDDEN | dos::DIRECTORY));
}

#[test]
fn new_file_allocation_is_charged_or_create_fails() {
    let served = serve();
    let provision = Provision { gib: Some(1), ..Provision::default() };
    let limits = Arc::new(ShareLimits::new(provision, Instant::now()));
    let begun = limits.space_usage().begin_measure();
    limits.space_usage().end_measure(begun, GIB - (2 << 20));
    let options = VolumeOptions { limits: Some(limits.clone()), ..VolumeOptions::default() };
    let volume = Arc::new(served.volume.with_options(options));
    let open = |path: &str, if_exists, mib: u64| {
        let wish = OpenPlan { allocation_bytes: Some(mib << 20), ..new_file(path) };
        now(served.files.open(&volume, &served.alice, OpenPlan { if_exists, ..wish }))
    };
    assert_eq!(open("large", IfExists::Fail, 3).err(), Some(FsError::NoSpace));
    assert!(!served.exists("large"));
    let fits = open("fits", IfExists::Fail, 1).unwrap().open;
    served.files.write(fits.caller(), &fits, 0, &[7; 1 << 20]).unwrap();
    assert_eq!(limits.space_usage().used_bytes(), Some(GIB - (1 << 20)), "it counts once");
    served.close(fits);
    assert_eq!(open("second", IfExists::Fail, 2).err(), Some(FsError::NoSpace));
    assert_eq!(open("fits", IfExists::Overwrite, 2).err(), Some(FsError::NoSpace));
    served.close(open("second", IfExists::Fail, 1).unwrap().open);
    served.assert_nothing_held();
}

#[test]
fn create_that_cannot_initialise_leaves_no_file() {
    let served = serve();
    let plan =
        OpenPlan { xattrs: vec![(xattr_name("large"), vec![7; 70_000])], ..new_file("file") };
    assert!(served.try_open(plan).is_err());
    assert!(!served.exists("file"));
    served.assert_nothing_held();
}

#[test]
fn malformed_descriptor_is_refused_before_create() {
    let served = serve();
    let plan = OpenPlan { descriptor: Some(vec![1, 2, 3]), ..new_file("file") };
    assert_eq!(served.refusal(plan), FsError::InvalidParameter);
    assert!(!served.exists("file"));
}

#[test]
fn delete_on_close_needs_delete_right() {
    let served = serve();
    served.put("file", b"");
    let delete_on_close = |plan| OpenPlan { delete_on_close: true, ..plan };
    assert_eq!(served.refusal(delete_on_close(plan("file", READ))), FsError::AccessDenied);
    assert_eq!(
        served.refusal(delete_on_close(plan("", DELETE))),
        FsError::AccessDenied,
        "the root"
    );
    assert_eq!(
        served.refusal(delete_on_close(OpenPlan { desired: READ, ..new_file("new") })),
        FsError::AccessDenied
    );
    let readonly = OpenPlan { dos_bits: dos::READONLY, ..new_file("new") };
    assert_eq!(served.refusal(delete_on_close(readonly)), FsError::CannotDelete);
    assert!(!served.exists("new"));
}

#[test]
fn read_only_volume_refuses_create_and_write() {
    let served = serve();
    served.put("file", b"data");
    let options = VolumeOptions { read_only: true, ..VolumeOptions::default() };
    let volume = Arc::new(files::Volume::new(served.vfs.clone(), options));
    let open = |plan| now(served.files.open(&volume, &served.alice, plan)).map(|o| o.open);
    assert_eq!(open(plan("file", WRITE)).unwrap_err(), FsError::ShareReadOnly);
    assert_eq!(open(new_file("new")).unwrap_err(), FsError::ShareReadOnly);
    let most = open(plan("file", Access::MAXIMUM_ALLOWED)).unwrap();
    assert!(
        most.granted().contains(READ) && !most.granted().intersects(Access::WRITE_DATA | DELETE)
    );
    assert_eq!(served.read(&most).unwrap(), b"data");
}

#[test]
fn maximum_allowed_respects_posix_permissions() {
    let served = serve();
    if !served.is_root {
        return eprintln!("skipped: needs the superuser to act as two users");
    }
    served.put("file", b"data");
    served.set_mode("file", 0o640);
    let mallory = user(4002, 4002);
    let by = |caller, plan| served.try_open_as(caller, plan).map(|o| o.open.granted());
    assert_eq!(by(&mallory, plan("file", READ)), Err(FsError::AccessDenied));
    assert!(
        !by(&mallory, plan("file", Access::MAXIMUM_ALLOWED))
            .unwrap()
            .intersects(READ & Access::READ_DATA)
    );
    assert!(by(&mallory, plan("file", LOOK)).is_ok());
    let colleague = user(4003, 4001);
    assert!(by(&colleague, plan("file", READ)).is_ok());
    assert_eq!(by(&colleague, plan("file", WRITE)), Err(FsError::AccessDenied));
    let most = by(&colleague, plan("file", Access::MAXIMUM_ALLOWED)).unwrap();
    assert!(most.contains(READ) && !most.intersects(Access::WRITE_DATA));
}

#[test]
fn new_file_has_creator_as_owner_and_volume_mode() {
    let options =
        VolumeOptions { file_mode: 0o640, directory_mode: 0o750, ..VolumeOptions::default() };
    let served = serve_with(options, Arc::new(Inline));
    served.put("file", b"");
    served.put_directory("directory");
    let file = served.look("file", false).unwrap().attributes;
    assert_eq!(
        (file.uid, file.gid, file.mode),
        (served.alice.identity.uid, served.alice.identity.gid, 0o640)
    );
    assert_eq!(served.look("directory", false).unwrap().attributes.mode, 0o750);
}
