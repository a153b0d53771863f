//! Share modes. MS-FSA 2.1.5.1.2.

use crate::harness::*;
use files::{Access, IfExists, OpenPlan, ShareMode};
use vfs::FsError;

/// Read, write and delete access with their share mode bits.
const KINDS: [(Access, u32); 3] =
    [(Access::READ_DATA, 1), (Access::WRITE_DATA, 2), (Access::DELETE, 4)];

fn access(kinds: u32) -> Access {
    KINDS
        .iter()
        .filter(|(_, bit)| kinds & bit != 0)
        .fold(Access::READ_ATTRIBUTES, |all, (right, _)| all | *right)
}

#[test]
fn access_and_share_mode_pairs_follow_the_rule() {
    let served = serve();
    served.put("file", b"");
    let open = |kinds, share| {
        served.try_open(OpenPlan { share: ShareMode(share), ..plan("file", access(kinds)) })
    };
    for (kinds_a, share_a) in (0..8).flat_map(|k| (0..8).map(move |s| (k, s))) {
        let first = open(kinds_a, share_a).unwrap();
        for (kinds_b, share_b) in (0..8).flat_map(|k| (0..8).map(move |s| (k, s))) {
            let counted = kinds_a != 0 && kinds_b != 0;
            let conflict = counted && (kinds_a & !share_b != 0 || kinds_b & !share_a != 0);
            let second = open(kinds_b, share_b).map(|_| ());
            let expected = if conflict { Err(FsError::ShareViolation) } else { Ok(()) };
            assert_eq!(
                second, expected,
                "{kinds_a} sharing {share_a}, then {kinds_b} sharing {share_b}"
            );
        }
        drop(first);
    }
    served.assert_nothing_held();
}

#[test]
fn overwrite_counts_as_write_for_share_modes() {
    let served = serve();
    served.put("file", b"data");
    let reader =
        served.try_open(OpenPlan { share: ShareMode::READ, ..plan("file", READ) }).unwrap();
    for if_exists in [IfExists::Overwrite, IfExists::Supersede] {
        let cut = OpenPlan { if_exists, ..plan("file", READ) };
        assert_eq!(served.refusal(cut), FsError::ShareViolation);
    }
    assert_eq!(served.read(&reader.open).unwrap(), b"data");
}

#[test]
fn share_modes_hold_across_names_and_volumes() {
    let served = serve();
    served.put("file", b"");
    let open = served.open("file", DELETE);
    now(served.files.link(&open, &path("link"), false)).unwrap();
    served.close(open);
    let again = std::sync::Arc::new(files::Volume::new(
        std::sync::Arc::new(vfs_local::LocalVfs::open(served.dir.path()).unwrap()),
        served.volume.options.clone(),
    ));
    let _alone =
        served.try_open(OpenPlan { share: ShareMode::default(), ..plan("file", WRITE) }).unwrap();
    assert_eq!(served.refusal(plan("FILE", READ)), FsError::ShareViolation);
    assert_eq!(served.refusal(plan("link", READ)), FsError::ShareViolation);
    let elsewhere = now(served.files.open(&again, &served.alice, plan("link", READ)));
    assert_eq!(elsewhere.unwrap_err(), FsError::ShareViolation);
}

#[test]
fn directories_have_share_modes_too() {
    let served = serve();
    served.put_directory("directory");
    let _listing =
        served.try_open(OpenPlan { share: ShareMode::READ, ..plan("directory", READ) }).unwrap();
    assert!(served.try_open(plan("directory", READ)).is_ok());
    assert_eq!(served.refusal(plan("directory", DELETE)), FsError::ShareViolation);
}
