//! A share on a file system without change notifications, as if another machine changed it: a FUSE
//! file system in its own mount namespace that shows a local directory.

use crate::support::client::{CREATE, RawSmbClient, SUCCESS};
use crate::support::{ServerProcess, Setup, library};
use client::{Error, SmbOpenHow, SmbTree};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Waits longer than the file system's cache timeout, which the kernel counts in ticks.
const SLACK: Duration = Duration::from_millis(100);

/// A server whose share shows `behind`, with names and attributes that the kernel caches for this
/// number of seconds; none where FUSE is unavailable.
fn serve(setup: &mut Setup, behind: &Path, seconds: u64) -> Option<ServerProcess> {
    let can = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|ran| ran.status.success())
    };
    let has_fuse = std::fs::File::open("/dev/fuse").is_ok();
    if !has_fuse || !can("unshare", &["-m", "true"]) || !can("python3", &["-V"]) {
        eprintln!("skipped: it takes root, /dev/fuse and python3 to mount a file system");
        return None;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/python/behind.py");
    let data = setup.folder.path().join("data").display().to_string();
    let (behind, seconds) = (behind.display().to_string(), seconds.to_string());
    let launcher = ["unshare", "-m", "python3", script, &behind, &data, &seconds];
    setup.launcher = launcher.map(str::to_owned).to_vec();
    Some(setup.clone().start())
}

async fn size(tree: &SmbTree, path: &str) -> Option<u64> {
    match tree.stat(path).await {
        Ok(found) => Some(found.size_bytes),
        Err(Error::Refused(..)) => None,
        Err(error) => panic!("{path}: {error}"),
    }
}

/// Names and sizes of the directory's entries.
async fn listed(tree: &SmbTree) -> Vec<(String, u64)> {
    let entries = tree.list("dir").await.unwrap();
    let sizes = entries.into_iter().map(|entry| (entry.name, entry.record.size_bytes));
    let mut sizes: Vec<_> = sizes.filter(|(name, _)| !name.starts_with('.')).collect();
    sizes.sort();
    sizes
}

async fn content(tree: &SmbTree, path: &str) -> Vec<u8> {
    let file = tree.open(path, &SmbOpenHow::read()).await.unwrap();
    let content = file.read(0, 100).await.unwrap().to_vec();
    file.close().await.unwrap();
    content
}

async fn changes_are_seen(seconds: u64) {
    let (mut setup, behind) = (Setup::new(), tempfile::tempdir().unwrap());
    let at = |name: &str| behind.path().join("dir").join(name);
    std::fs::create_dir(at("")).unwrap();
    std::fs::write(at("file"), "one").unwrap();
    let Some(server) = serve(&mut setup, behind.path(), seconds) else { return };
    let tree = library::tree(&server).await;
    for turn in 0..3_u64 {
        // Repeated often enough that a cache would hold it.
        for _ in 0..4 {
            assert_eq!(size(&tree, "dir/FILE").await, Some(3 + turn));
            assert_eq!(size(&tree, "dir/other").await, None);
            assert_eq!(listed(&tree).await, [("file".into(), 3 + turn)]);
            assert_eq!(content(&tree, "dir/file").await.len() as u64, 3 + turn);
        }
        let now = vec![b'x'; 4 + turn as usize];
        std::fs::write(at("file"), &now).unwrap();
        std::fs::write(at("other"), "12").unwrap();
        tokio::time::sleep(Duration::from_secs(seconds) + SLACK).await;
        assert_eq!(size(&tree, "dir/FILE").await, Some(4 + turn), "its length, turn {turn}");
        assert_eq!(content(&tree, "dir/file").await, now, "its data, turn {turn}");
        assert_eq!(size(&tree, "dir/OTHER").await, Some(2), "a name that is new");
        assert_eq!(listed(&tree).await, [("file".into(), 4 + turn), ("other".into(), 2)]);
        std::fs::remove_file(at("other")).unwrap();
        tokio::time::sleep(Duration::from_secs(seconds) + SLACK).await;
        assert_eq!(size(&tree, "dir/other").await, None, "a name that has gone");
    }
}

#[tokio::test]
async fn remote_change_is_notified_once_the_file_system_reports_it() {
    changes_are_seen(0).await;
    changes_are_seen(1).await;
}

#[test]
fn share_without_change_events_grants_no_oplock() {
    let (mut setup, behind) = (Setup::new(), tempfile::tempdir().unwrap());
    std::fs::write(behind.path().join("file"), "one").unwrap();
    let Some(server) = serve(&mut setup, behind.path(), 0) else { return };
    let mut client = RawSmbClient::ready(&server);
    let mut body = RawSmbClient::create_body_with("file", &[]);
    // FILE_GENERIC_READ, FILE_OPEN.
    body[24..28].copy_from_slice(&0x0012_0089_u32.to_le_bytes());
    body[36..40].copy_from_slice(&1_u32.to_le_bytes());
    let reply = client.call(CREATE, &body);
    assert_eq!(reply.status, SUCCESS);
    assert_eq!(reply.bytes[66], 0, "an oplock that nobody could ask back");
}
