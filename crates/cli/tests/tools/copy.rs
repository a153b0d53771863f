//! `anabranch copy` between directories, SMB and NFS, with our server and foreign ones. Tests with
//! foreign servers run by `make servers`.

use crate::support::copying::{
    SmbAndNfsServer, assert_same, command, contents, copied, folder, noise, output_text, set_time,
    tree,
};
use crate::support::ganesha::Ganesha;
use crate::support::library::{FixedHost, target};
use crate::support::relay::Relay;
use crate::support::samba::{SambaRelease, SambaServer, USER};
use crate::support::{PASSWORD, ServerProcess, Setup, text, user, wait_for};
use client::{SmbClient, SmbOpenHow, SmbOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const LARGE: usize = 5_000_000;

/// Copies to the server, within it, and back; a second run has nothing to copy.
fn there_and_back(first: &str, second: &str) {
    let folder = folder();
    let (root, back, state) =
        (tree(folder.path(), LARGE), folder.path().join("back"), folder.path().join("state"));
    let (root_path, back_path) = (root.to_str().unwrap(), back.to_str().unwrap());
    let summary = copied(&state, &[root_path, first, "--verify"], 1);
    assert_eq!(summary["files_copied"], 7, "{summary}");
    assert_eq!(summary["directories_created"], 4, "{summary}");
    let summary = copied(&state, &[first, second, "--verify"], 1);
    assert_eq!((&summary["files_copied"], &summary["failed"]), (&7.into(), &0.into()), "{summary}");
    copied(&state, &[second, back_path, "--verify"], 1);
    assert_same(&root, &back);
    let blocks = back.join("sparse").metadata().unwrap().blocks();
    println!("{first} {second}: sparse has {blocks} blocks at the end");
    for (from, to) in [(root_path, first), (first, second), (second, back_path)] {
        let summary = copied(&state, &[from, to], 0);
        assert_eq!(summary["files_unchanged"], 7, "{summary}");
    }
    // Only a changed file is replaced, be it large or small.
    std::fs::write(root.join("a"), "other").unwrap();
    std::fs::write(root.join("large"), noise(LARGE + 1, 9)).unwrap();
    set_time(&root.join("a"), 5);
    set_time(&root.join("large"), 6);
    let summary = copied(&state, &[root_path, first], 1);
    assert_eq!((&summary["files_copied"], &summary["files_unchanged"]), (&2.into(), &5.into()));
    copied(&state, &[first, second], 1);
    copied(&state, &[second, back_path], 1);
    assert_same(&root, &back);
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0, "no journal is left");
}

#[test]
fn trees_go_to_shares_and_exports_and_come_back_the_same() {
    let both = SmbAndNfsServer::start(95);
    there_and_back(&both.smb_url("one"), &both.smb_url("two"));
    there_and_back(&both.nfs_url("three"), &both.nfs_url("four"));
    there_and_back(&both.smb_url("five"), &both.nfs_url("six"));
    there_and_back(&both.nfs_url("seven"), &both.smb_url("eight"));
    let blocks = both.server.data().join("five/sparse").metadata().unwrap().blocks();
    assert!(blocks * 512 < 8 << 20, "over SMB holes stay holes: {blocks} blocks");
    let blocks = both.server.data().join("three/sparse").metadata().unwrap().blocks();
    assert!(blocks * 512 < 8 << 20, "over NFS holes stay holes: {blocks} blocks");
}

#[test]
#[ignore = "needs Samba: make servers"]
fn trees_go_to_the_installed_samba_and_come_back_the_same() {
    let samba = SambaServer::start(SambaRelease::Installed, 101, "");
    let url = |path: &str| format!("smb://{USER}@{}/data/{path}", samba.smb);
    there_and_back(&url("one"), &url("two"));
    // The server stores holes but does not report them, so a copy from it has none.
    let blocks = samba.folder.join("data/one/sparse").metadata().unwrap().blocks();
    assert!(blocks * 512 < 8 << 20, "holes stay holes: {blocks} blocks");
}

#[test]
#[ignore = "needs Samba: make servers"]
fn trees_go_to_the_newest_samba_and_come_back_the_same() {
    let samba = SambaServer::start(SambaRelease::Newest, 102, "");
    let url = |path: &str| format!("smb://{USER}@{}/data/{path}", samba.smb);
    there_and_back(&url("one"), &url("two"));
}

#[test]
#[ignore = "needs NFS-Ganesha: make servers"]
fn trees_go_to_ganesha_and_come_back_the_same() {
    let server = Ganesha::start(103);
    let url = |path: &str| format!("nfs://{}/export/{path}", server.nfs);
    there_and_back(&url("one"), &url("two"));
}

#[test]
fn file_is_copied_to_a_new_name_or_into_a_directory() {
    let both = SmbAndNfsServer::start(96);
    let folder = folder();
    let (state, file) = (folder.path().join("state"), folder.path().join("file"));
    std::fs::write(&file, "data").unwrap();
    std::fs::create_dir(both.server.data().join("dir")).unwrap();
    let file = file.to_str().unwrap();
    copied(&state, &[file, &both.smb_url("name")], 1);
    copied(&state, &[file, &both.smb_url("dir")], 1);
    copied(&state, &[file, &both.nfs_url("other")], 1);
    copied(&state, &[file, &both.nfs_url("dir")], 0);
    for name in ["name", "dir/file", "other"] {
        assert_eq!(std::fs::read(both.server.data().join(name)).unwrap(), b"data", "{name}");
    }
    let missing = command(&state, &["/nowhere/at/all", &both.smb_url("x")]).output().unwrap();
    assert_eq!(missing.status.code(), Some(16), "{}", output_text(&missing));
    let usage = command(&state, &["--threads", "0", "a", "b"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(16), "not robocopy's 2");
}

/// Number of transactions of this operation in the server's metrics.
fn transactions(server: &ServerProcess, api: &str) -> u64 {
    let page = server.page("/metrics");
    let of_api = |line: &&str| {
        line.starts_with("anabranch_transactions_total{") && line.contains(&format!("\"{api}\""))
    };
    let counts = page.lines().filter(of_api).map(|line| line.rsplit_once(' ').unwrap().1);
    counts.map(|count| count.parse::<u64>().unwrap()).sum()
}

#[test]
fn large_file_is_made_stable_by_the_server_unless_no_sync() {
    let both = SmbAndNfsServer::start(119);
    let folder = folder();
    let (state, file) = (folder.path().join("state"), folder.path().join("file"));
    std::fs::write(&file, noise(LARGE, 3)).unwrap();
    let file = file.to_str().unwrap();
    copied(&state, &[file, &both.smb_url("plain"), "--no-sync"], 1);
    copied(&state, &[file, &both.nfs_url("other"), "--no-sync"], 1);
    assert_eq!((transactions(&both.server, "Flush"), transactions(&both.server, "Commit")), (0, 0));
    copied(&state, &[file, &both.smb_url("third")], 1);
    copied(&state, &[file, &both.nfs_url("fourth")], 1);
    assert_eq!(transactions(&both.server, "Flush"), 2, "the data, and the name");
    assert_eq!(transactions(&both.server, "Commit"), 1, "the data; a name always is");
}

#[test]
fn mirror_removes_extras_only_after_confirmation() {
    let both = SmbAndNfsServer::start(97);
    let folder = folder();
    let (root, state) = (tree(folder.path(), 100_000), folder.path().join("state"));
    let (root_path, url) = (root.to_str().unwrap(), both.smb_url("mirror"));
    copied(&state, &[root_path, &url], 1);
    let there = both.server.data().join("mirror");
    std::fs::create_dir_all(there.join("old/deep")).unwrap();
    std::fs::write(there.join("old/deep/file"), "x").unwrap();
    std::fs::write(there.join("extra.log"), "x").unwrap();
    std::fs::write(there.join("kept.tmp"), "x").unwrap();
    let mirror = [root_path, url.as_str(), "--mirror", "--exclude", "*.tmp"];
    let summary = copied(&state, &mirror, 2);
    assert_eq!((&summary["extras"], &summary["removed"]), (&2.into(), &0.into()), "{summary}");
    let delete = [&mirror[..], &["--delete"]].concat();
    let refused = command(&state, &delete).output().unwrap();
    assert_eq!(refused.status.code(), Some(16));
    assert!(text(&refused.stderr).contains("remove old/"), "{}", output_text(&refused));
    let dry = command(&state, &[&delete[..], &["--dry-run"]].concat()).output().unwrap();
    assert!(text(&dry.stderr).contains("remove extra.log"), "{}", output_text(&dry));
    assert!(there.join("old/deep/file").exists() && there.join("extra.log").exists());
    let summary = copied(&state, &[&delete[..], &["--yes"]].concat(), 2);
    assert_eq!(summary["removed"], 2, "{summary}");
    assert!(!there.join("old").exists() && !there.join("extra.log").exists());
    assert!(there.join("kept.tmp").exists(), "a skipped file is left alone");
    std::fs::remove_file(there.join("kept.tmp")).unwrap();
    assert_same(&root, &there);
}

#[test]
fn copy_within_one_server_is_offloaded() {
    let both = SmbAndNfsServer::start(91);
    let folder = folder();
    let state = folder.path().join("state");
    std::fs::write(both.server.data().join("from"), noise(40 << 20, 1)).unwrap();
    block_on(async {
        let (smb, nfs) = (Relay::new(both.server.smb).await, Relay::new(both.nfs).await);
        let ends = [
            (format!("smb://{}@{}/data/", user(), smb.address), &smb),
            (format!("nfs://{}/data/", nfs.address), &nfs),
        ];
        for (url, relay) in ends {
            let (from, to) = (format!("{url}from"), format!("{url}to"));
            for arguments in [vec![&from[..], &to], vec![&from[..], &to, "--no-offload"]] {
                let before: usize = relay.heard().iter().map(Vec::len).sum();
                let summary = copied(&state, &arguments, 1);
                assert_eq!(summary["bytes_copied"], 40 << 20, "{summary}");
                let passed = relay.heard().iter().map(Vec::len).sum::<usize>() - before;
                let is_here = arguments.len() == 3;
                assert_eq!(passed > 1 << 19, is_here, "{passed} bytes: {arguments:?}");
                let there = std::fs::read(both.server.data().join("to")).unwrap();
                assert!(there == noise(40 << 20, 1));
                std::fs::remove_file(both.server.data().join("to")).unwrap();
            }
        }
    });
}

#[test]
fn copy_replaces_a_name_that_differs_in_case_on_a_share() {
    let server = Setup::new().start();
    let folder = folder();
    let (state, root) = (folder.path().join("state"), folder.path().join("root"));
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("Read Me"), "new and longer").unwrap();
    std::fs::write(server.data().join("read me"), "old").unwrap();
    let url = format!("smb://{}@{}/data", user(), server.smb);
    let arguments = [root.to_str().unwrap(), url.as_str(), "--mirror", "--delete", "--yes"];
    copied(&state, &arguments, 1);
    let names: Vec<_> = contents(&server.data()).into_values().map(|(data, ..)| data).collect();
    assert_eq!(names, [b"new and longer"]);
}

#[test]
fn filters_and_a_dry_run_leave_alone_what_they_say() {
    let both = SmbAndNfsServer::start(98);
    let folder = folder();
    let (root, state) = (tree(folder.path(), 100_000), folder.path().join("state"));
    let (root, url) = (root.to_str().unwrap(), both.nfs_url("some"));
    let dry = command(&state, &[root, &url, "--dry-run"]).output().unwrap();
    assert!(text(&dry.stderr).contains("copy sub dir/b c.txt ("), "{}", output_text(&dry));
    assert!(!both.server.data().join("some").exists());
    copied(&state, &[root, &url, "--include", "*.txt", "--exclude", "ä*"], 1);
    let there = contents(&both.server.data().join("some"));
    assert_eq!(there.into_keys().collect::<Vec<_>>(), ["sub dir/b c.txt"]);
}

#[test]
fn links_are_left_out_and_never_written_through() {
    let both = SmbAndNfsServer::start(99);
    let folder = folder();
    let (state, root, to) =
        (folder.path().join("state"), folder.path().join("root"), folder.path().join("to"));
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(&to).unwrap();
    std::fs::write(root.join("a"), "of the source").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
    let outside = folder.path().join("outside");
    std::fs::write(&outside, "kept").unwrap();
    std::os::unix::fs::symlink(&outside, to.join("a")).unwrap();
    let summary = copied(&state, &[root.to_str().unwrap(), to.to_str().unwrap()], 4);
    assert_eq!((&summary["skipped"], &summary["mismatched"]), (&1.into(), &1.into()), "{summary}");
    assert_eq!(std::fs::read(&outside).unwrap(), b"kept");
    let summary = copied(&state, &[root.to_str().unwrap(), &both.smb_url("links")], 1);
    assert_eq!((&summary["files_copied"], &summary["skipped"]), (&1.into(), &1.into()));
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(future)
}

#[test]
fn streams_attributes_and_access_lists_go_from_share_to_share() {
    let server = Setup::new().start();
    let folder = folder();
    let state = folder.path().join("state");
    std::fs::create_dir(server.data().join("from")).unwrap();
    let descriptors = block_on(async {
        let world = Arc::new(FixedHost);
        let options = SmbOptions { channels: 1, client_guid: [7; 16], ..SmbOptions::default() };
        let client = SmbClient::connect(target(server.smb, &user(), PASSWORD), options, world)
            .await
            .unwrap();
        let tree = client.tree("data").await.unwrap();
        for (name, data) in [("from/a", "main"), ("from/a:side", "stream")] {
            let file = tree.open(name, &SmbOpenHow::read_write()).await.unwrap();
            file.write(0, &data.into()).await.unwrap();
            file.close().await.unwrap();
        }
        let all = SmbOpenHow { access: 0x000E_0180, ..SmbOpenHow::stat() };
        let file = tree.open("from/a", &all).await.unwrap();
        file.set_basic(Default::default(), 0x2).await.unwrap();
        // D:(A;;FA;;;WD) with protection: nothing is inherited.
        let list = b"\x01\0\x04\x94\0\0\0\0\0\0\0\0\0\0\0\0\x14\0\0\0\
            \x02\0\x1c\0\x01\0\0\0\0\0\x14\0\xff\x01\x1f\0\x01\x01\0\0\0\0\0\x01\0\0\0\0";
        file.set_descriptor(4, list).await.unwrap();
        file.close().await.unwrap();
        let url = |path: &str| format!("smb://{}@{}/data/{path}", user(), server.smb);
        copied(&state, &[&url("from"), &url("to"), "--all"], 1);
        let mut descriptors = Vec::new();
        for name in ["from/a", "to/a"] {
            let file = tree.open(name, &all).await.unwrap();
            assert_eq!(file.created().attributes & 0x2, 0x2, "{name} is hidden");
            descriptors.push(file.descriptor(7).await.unwrap());
            file.close().await.unwrap();
        }
        let stream = tree.open("to/a:side", &SmbOpenHow::read()).await.unwrap();
        assert_eq!(&stream.read(0, 100).await.unwrap()[..], b"stream");
        stream.close().await.unwrap();
        client.close().await;
        descriptors
    });
    assert_eq!(descriptors[0], descriptors[1]);
    let local = folder.path().to_str().unwrap();
    let url = format!("smb://{}@{}/data/from", user(), server.smb);
    let refused = command(&state, &[&url, local, "--acls"]).output().unwrap();
    assert!(text(&refused.stderr).contains("needs SMB on both sides"), "{}", output_text(&refused));
}

/// Runs a copy until its temporary file grows, and then acts on it.
fn interrupted(
    state: &Path,
    arguments: &[&str],
    data: &Path,
    then: impl FnOnce(&mut Child),
) -> String {
    let mut child =
        command(state, arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("a journal with blocks", || {
        let journal = std::fs::read_dir(state).ok()?.next()?.ok()?;
        (journal.metadata().ok()?.len() > 600).then_some(())
    });
    then(&mut child);
    let _ = child.kill();
    let output = child.wait_with_output().unwrap();
    assert!(!data.exists(), "no half file has its name");
    text(&output.stderr)
}

/// The share `data` of an SMB server, with the user that logs on.
struct ServedShare {
    smb: std::net::SocketAddr,
    user: String,
    data: std::path::PathBuf,
}

impl ServedShare {
    fn of(server: &crate::support::ServerProcess) -> Self {
        Self { smb: server.smb, user: user(), data: server.data() }
    }

    fn of_samba(samba: &SambaServer) -> Self {
        Self { smb: samba.smb, user: USER.into(), data: samba.folder.join("data") }
    }

    fn url(&self, path: &str) -> String {
        self.url_by(self.smb, path)
    }

    fn url_by(&self, address: std::net::SocketAddr, path: &str) -> String {
        format!("smb://{}@{address}/data/{path}", self.user)
    }
}

/// The source changes between two runs: first a local one, then one on the share.
fn source_changes(share: &ServedShare) {
    let folder = folder();
    let (state, file) = (folder.path().join("state"), folder.path().join("file"));
    let back = folder.path().join("back");
    let (path, url, there) = (file.to_str().unwrap(), share.url("x"), share.data.join("x"));
    let ways = [
        ([path, url.as_str()], &file, &there),
        ([url.as_str(), back.to_str().unwrap()], &there, &back),
    ];
    for (arguments, from, to) in ways {
        std::fs::write(from, noise(400 << 20, 1)).unwrap();
        interrupted(&state, &arguments, to, |_| {});
        std::fs::write(from, noise(3 << 20, 2)).unwrap();
        let output = command(&state, &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
        assert!(text(&output.stderr).contains("has changed since"), "{}", output_text(&output));
        assert!(std::fs::read(to).unwrap() == std::fs::read(from).unwrap());
    }
    assert_eq!(contents(&share.data).len(), 1, "nothing else is left");
    assert_eq!(contents(folder.path()).len(), 2, "nor here, nor in the state");
}

#[test]
fn source_changed_between_runs_is_recopied_with_a_message() {
    source_changes(&ServedShare::of(&Setup::new().start()));
}

#[test]
#[ignore = "needs Samba: make servers"]
fn source_changed_between_runs_is_recopied_with_samba() {
    source_changes(&ServedShare::of_samba(&SambaServer::start(SambaRelease::Installed, 106, "")));
}

/// Cuts the network during a copy to the share, and during one from it.
fn network_is_cut(share: &ServedShare) {
    let folder = folder();
    let (state, file) = (folder.path().join("state"), folder.path().join("file"));
    let back = folder.path().join("back");
    std::fs::write(&file, noise(400 << 20, 3)).unwrap();
    let there = share.data.join("x");
    block_on(async {
        let relay = Relay::new(share.smb).await;
        let url = share.url_by(relay.address, "x");
        let (path, back_path) = (file.to_str().unwrap(), back.to_str().unwrap());
        let ways = [([path, url.as_str()], &there), ([url.as_str(), back_path], &back)];
        for (ends, to) in ways {
            let arguments = [&ends[..], &["--channels", "1"]].concat();
            let said = interrupted(&state, &arguments, to, |child| {
                relay.cut();
                wait_for("it to give up", || child.try_wait().unwrap());
            });
            assert!(said.contains("the connection was lost"), "{said}");
            assert!(said.contains("same command again"), "{said}");
            let summary = copied(&state, &arguments, 1);
            assert!(summary["bytes_resumed"].as_u64().unwrap() >= 10 << 20, "{summary}");
            assert!(std::fs::read(to).unwrap() == std::fs::read(&file).unwrap());
        }
    });
}

#[test]
fn cut_network_ends_copy_and_next_run_resumes() {
    network_is_cut(&ServedShare::of(&Setup::new().start()));
}

#[test]
#[ignore = "needs Samba: make servers"]
fn cut_network_ends_copy_and_next_run_resumes_with_samba() {
    network_is_cut(&ServedShare::of_samba(&SambaServer::start(SambaRelease::Installed, 107, "")));
}

/// Over NFS the session outlives its connections: the copy itself goes on.
#[test]
fn nfs_copy_continues_when_its_connections_are_cut() {
    let both = SmbAndNfsServer::start(108);
    let folder = folder();
    let (state, file) = (folder.path().join("state"), folder.path().join("file"));
    let (back, there) = (folder.path().join("back"), both.server.data().join("x"));
    std::fs::write(&file, noise(400 << 20, 5)).unwrap();
    block_on(async {
        let relay = Relay::new(both.nfs).await;
        let url = format!("nfs://{}/data/x", relay.address);
        let (path, back_path) = (file.to_str().unwrap(), back.to_str().unwrap());
        for (ends, to) in [([path, url.as_str()], &there), ([url.as_str(), back_path], &back)] {
            for channels in ["1", "3"] {
                let arguments = [&ends[..], &["--channels", channels]].concat();
                let _ = std::fs::remove_file(to);
                let before = relay.connections.load(Ordering::Relaxed);
                let mut child = command(&state, &arguments)
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap();
                wait_for("a journal with blocks", || {
                    let journal = std::fs::read_dir(&state).ok()?.next()?.ok()?;
                    (journal.metadata().ok()?.len() > 600).then_some(())
                });
                assert!(!to.exists() && child.try_wait().unwrap().is_none());
                relay.cut();
                let output = child.wait_with_output().unwrap();
                assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
                let count: u64 = channels.parse().unwrap();
                let made = relay.connections.load(Ordering::Relaxed) - before;
                assert!(made > count, "{made} connections, of which {count} were cut");
                assert!(std::fs::read(to).unwrap() == std::fs::read(&file).unwrap());
            }
        }
    });
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0, "no journal is left");
}

/// Copies a tree of small files to a share over several sessions, and loses one that is not the
/// first.
fn further_session_is_lost(share: &ServedShare) {
    const FILES: usize = 4000;
    let folder = folder();
    let (state, root) = (folder.path().join("state"), folder.path().join("root"));
    std::fs::create_dir(&root).unwrap();
    for number in 0..FILES {
        let path = root.join(format!("f{number}"));
        std::fs::write(&path, noise(number % 5000, number as u64)).unwrap();
        set_time(&path, number as u64);
    }
    let there = share.data.join("many");
    block_on(async {
        let relay = Relay::new(share.smb).await;
        let url = share.url_by(relay.address, "many");
        // Without channels, so that each further connection is a session.
        let arguments = [root.to_str().unwrap(), &url, "--dialect", "2.1", "--channels", "4"];
        let mut child = command(&state, &arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for("files by all sessions", || {
            let count = std::fs::read_dir(&there).ok()?.count();
            (relay.connections.load(Ordering::Relaxed) == 4 && count > 200).then_some(())
        });
        relay.cut_one(2);
        assert!(child.try_wait().unwrap().is_none(), "it was cut in the midst of it");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
        let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(summary["files_copied"], FILES, "{summary}");
        assert_eq!(relay.connections.load(Ordering::Relaxed), 4, "it is not opened again");
    });
    assert_same(&root, &there);
}

#[test]
fn files_of_a_further_session_that_is_lost_go_by_the_first() {
    further_session_is_lost(&ServedShare::of(&Setup::new().start()));
}

#[test]
#[ignore = "needs Samba: make servers"]
fn files_of_a_lost_samba_session_move_to_the_first() {
    further_session_is_lost(&ServedShare::of_samba(&SambaServer::start(
        SambaRelease::Installed,
        111,
        "",
    )));
}

/// A file system of this size in MiB, until it is dropped.
struct SmallFileSystem {
    path: std::path::PathBuf,
}

impl SmallFileSystem {
    fn new(path: &Path, mebibytes: u32) -> Self {
        std::fs::create_dir_all(path).unwrap();
        let size = format!("size={mebibytes}m,mode=777");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(path)
            .status()
            .unwrap();
        assert!(mounted.success(), "mount needs root");
        Self { path: path.to_owned() }
    }

    fn grow(&self, mebibytes: u32) {
        let size = format!("remount,size={mebibytes}m");
        let grown =
            std::process::Command::new("mount").args(["-o", &size]).arg(&self.path).status();
        assert!(grown.unwrap().success());
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

/// Fills the disk below `folder`, and frees it again.
fn disk_is_full(data: &Path, ends: &[&dyn Fn(&str) -> String]) {
    let folder = folder();
    let (state, file) = (folder.path().join("state"), folder.path().join("file"));
    let tight = SmallFileSystem::new(&data.join("tight"), 40);
    std::fs::write(&file, noise(60 << 20, 4)).unwrap();
    let path = file.to_str().unwrap();
    for url in ends.iter().map(|url| url("tight/x")) {
        tight.grow(40);
        let full = command(&state, &[path, &url]).output().unwrap();
        assert_eq!(full.status.code(), Some(24), "{}", output_text(&full));
        assert!(text(&full.stderr).contains("the target is full"), "{}", output_text(&full));
        let there = tight.path.join("x");
        assert!(!there.exists());
        tight.grow(100);
        let summary = copied(&state, &[path, &url], 1);
        assert!(summary["bytes_resumed"].as_u64().unwrap() >= 10 << 20, "{summary}");
        assert!(std::fs::read(&there).unwrap() == std::fs::read(&file).unwrap());
        std::fs::remove_file(&there).unwrap();
    }
    // Small files: none is incomplete.
    tight.grow(2);
    let root = folder.path().join("many");
    std::fs::create_dir(&root).unwrap();
    for number in 0..100 {
        std::fs::write(root.join(format!("f{number}")), noise(100_000, number)).unwrap();
    }
    for url in ends.iter().map(|url| url("tight/many")) {
        let full = command(&state, &[root.to_str().unwrap(), &url]).output().unwrap();
        assert_eq!(full.status.code().unwrap() & 24, 24, "{}", output_text(&full));
        for (name, (data, ..)) in contents(&tight.path.join("many")) {
            assert!(data == std::fs::read(root.join(&name)).unwrap(), "{name}");
        }
        std::fs::remove_dir_all(tight.path.join("many")).unwrap();
    }
}

#[test]
#[ignore = "needs root: make servers"]
fn full_disk_ends_copy_and_next_run_resumes() {
    let both = SmbAndNfsServer::start(100);
    disk_is_full(&both.server.data(), &[&|path| both.smb_url(path), &|path| both.nfs_url(path)]);
}

#[test]
#[ignore = "needs Samba, and root: make servers"]
fn full_samba_disk_ends_copy_and_next_run_resumes() {
    let samba = SambaServer::start(SambaRelease::Installed, 105, "");
    let share = ServedShare::of_samba(&samba);
    disk_is_full(&share.data, &[&|path| share.url(path)]);
}
