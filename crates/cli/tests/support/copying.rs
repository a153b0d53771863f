//! Runs `anabranch copy`, creates trees to copy, and checks the results.

use super::{PASSWORD, ServerProcess, Setup, anabranch, text};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// A server of ours with the share `data` over SMB, and the same folder over NFS.
pub struct SmbAndNfsServer {
    pub server: ServerProcess,
    pub nfs: SocketAddr,
}

impl SmbAndNfsServer {
    /// NFS listens on the loopback address with this last number.
    pub fn start(host: u8) -> Self {
        let mut setup = Setup::new();
        setup.shares += "nfs_squash = \"none\"\n";
        let nfs = setup.serve_nfs(host, 24457);
        Self { server: setup.start(), nfs }
    }

    pub fn smb_url(&self, path: &str) -> String {
        format!("smb://{}@{}/data/{path}", super::user(), self.server.smb)
    }

    pub fn nfs_url(&self, path: &str) -> String {
        format!("nfs://{}/data/{path}", self.nfs)
    }
}

/// The command, with a state folder of its own and robocopy's exit codes.
pub fn command(state: &Path, arguments: &[&str]) -> Command {
    let mut command = anabranch();
    command.arg("copy").args(arguments).args(["--json", "-", "--quiet", "--any-interface"]);
    command
        .arg("--robocopy-exit-codes")
        .arg("--state")
        .arg(state)
        .env("ANABRANCH_PASSWORD", PASSWORD);
    command
}

/// Runs `copy`, expects this exit code, and returns its JSON summary.
pub fn copied(state: &Path, arguments: &[&str], code: i32) -> serde_json::Value {
    let output = command(state, arguments).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", output_text(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

pub fn output_text(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// Bytes without repetition.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(length);
    out
}

/// A tree with files of all kinds, and old times.
pub fn tree(folder: &Path, large_bytes: usize) -> PathBuf {
    let root = folder.join("tree");
    std::fs::create_dir_all(root.join("sub dir/deeper")).expect("a folder");
    std::fs::create_dir(root.join("empty")).expect("a folder");
    for (at, name) in ["a", "sub dir/b c.txt", "sub dir/deeper/d.bin", "ä.txt"].iter().enumerate()
    {
        std::fs::write(root.join(name), noise(at * 3000 + 1, at as u64)).expect("a file");
    }
    std::fs::write(root.join("sub dir/nothing"), "").expect("a file");
    std::fs::write(root.join("large"), noise(large_bytes, 7)).expect("a file");
    let sparse = std::fs::File::create(root.join("sparse")).expect("a file");
    sparse.set_len(32 << 20).expect("it grows");
    sparse.write_all_at(&noise(70_000, 8), 9 << 20).expect("room");
    for (path, _) in contents(&root) {
        set_time(&root.join(&path), 0);
    }
    root
}

/// A modification time that all sides can store: a multiple of 100 ns.
pub fn set_time(path: &Path, seconds: u64) {
    let file = std::fs::File::options().write(true).open(path).expect("a file");
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_500_000_000 + seconds, 123_456_700);
    file.set_modified(time).expect("its own file");
}

/// All files below a directory, with contents and modification times.
pub fn contents(root: &Path) -> BTreeMap<String, (Vec<u8>, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            // The server may still carry out a rename that the killed client requested.
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if metadata.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
            let Ok(data) = std::fs::read(&path) else { continue };
            found.insert(name, (data, metadata.mtime(), metadata.mtime_nsec()));
        }
    }
    found
}

/// Checks that both trees have the same files with the same bytes and times.
pub fn assert_same(a: &Path, b: &Path) {
    let (a, b) = (contents(a), contents(b));
    let names = |tree: &BTreeMap<String, _>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&a), names(&b));
    for (name, one) in &a {
        let other = &b[name];
        assert!(one.0 == other.0, "{name} has other bytes");
        assert_eq!((one.1, one.2), (other.1, other.2), "{name} has another time");
    }
}

/// A temporary folder for a test.
pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}
