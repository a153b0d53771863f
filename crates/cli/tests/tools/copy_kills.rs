//! Kills `anabranch copy` at random and restarts it, repeatedly: in the end every byte is right,
//! and no incomplete file ever has its final name. `ANABRANCH_KILLS=50` raises the number of kills.

use crate::support::copying::{
    SmbAndNfsServer, command, contents, copied, folder, noise, output_text, set_time,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const KILLS: u64 = 4;
const LARGE: usize = 24 << 20;
const SMALL_FILES: u64 = 100;

fn kills() -> u64 {
    std::env::var("ANABRANCH_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS)
}

/// A tree that depends on the seed.
fn make(root: &Path, seed: u64) -> BTreeMap<String, (Vec<u8>, i64, i64)> {
    let _ = std::fs::remove_dir_all(root);
    std::fs::create_dir_all(root.join("small")).unwrap();
    for number in 0..SMALL_FILES {
        let length = (number * 379 % 20_000) as usize;
        std::fs::write(root.join(format!("small/f{number}")), noise(length, seed + number))
            .unwrap();
    }
    for number in 0..2 {
        let data = noise(LARGE, seed * 31 + number);
        std::fs::write(root.join(format!("large{number}")), data).unwrap();
    }
    for (name, _) in contents(root) {
        set_time(&root.join(name), seed);
    }
    contents(root)
}

/// Checks that each file with its final name is complete, and returns their number.
fn check(target: &Path, expected: &BTreeMap<String, (Vec<u8>, i64, i64)>) -> usize {
    if !target.exists() {
        return 0;
    }
    let mut whole = 0;
    for (name, (data, ..)) in contents(target) {
        let last = name.rsplit('/').next().unwrap();
        if !last.starts_with("~anabranch-") {
            assert!(data == expected[&name].0, "{name} is not whole");
            whole += 1;
        }
    }
    whole
}

/// Runs the copy to its end, and returns the resumed bytes plus the files that were complete.
///
/// That sum has no exact expectation: the server still carries out requests from before the
/// kill, so the last rename may come after any listing of the folder.
fn ended(state: &Path, arguments: &[&str], files: u64) -> u64 {
    let output = command(state, arguments).output().unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let count =
        |key: &str| summary[key].as_u64().unwrap_or_else(|| panic!("{}", output_text(&output)));
    assert_eq!(count("files_copied") + count("files_unchanged"), files, "{}", output_text(&output));
    let has_copied = count("files_copied") > 0;
    assert_eq!(output.status.code(), Some(i32::from(has_copied)), "{}", output_text(&output));
    count("bytes_resumed") + count("files_unchanged")
}

/// Kills `count` runs of one direction, and returns the sum of the reused bytes and files.
fn killed(from: &str, to: &str, source: &Path, target: &Path, count: u64, seed: u64) -> u64 {
    let state_folder = folder();
    let state: PathBuf = state_folder.path().join("state");
    let mut expected = make(source, seed);
    let begun = Instant::now();
    copied(&state, &[from, to], 1);
    let whole_run = begun.elapsed().max(Duration::from_millis(50));
    let (mut done, mut at_random) = (0, seed | 1);
    for round in 0..count * 10 {
        if done == count {
            break;
        }
        if check(target, &expected) == expected.len() {
            expected = make(source, seed + 1000 + round);
            std::fs::remove_dir_all(target).unwrap();
        }
        let mut child = command(&state, &[from, to])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        at_random = at_random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        let part = (at_random >> 33) % 100;
        std::thread::sleep(whole_run * part as u32 / 100);
        // A run that has completed was not killed.
        done += u64::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        check(target, &expected);
    }
    assert_eq!(done, count, "runs end before they are killed");
    let resumed = ended(&state, &[from, to], expected.len() as u64);
    assert_eq!(check(target, &expected), expected.len());
    assert_eq!(contents(target), expected, "times, too, and nothing is left beside them");
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0, "no journal is left");
    resumed
}

#[test]
fn randomly_killed_copies_resume_with_every_byte_right() {
    let both = SmbAndNfsServer::start(104);
    let folder = folder();
    let (local, data) = (folder.path().join("local"), both.server.data());
    let here = local.to_str().unwrap();
    let each = kills().div_ceil(4);
    let mut resumed = 0;
    resumed += killed(here, &both.smb_url("a"), &local, &data.join("a"), each, 1);
    resumed += killed(&both.smb_url("b"), here, &data.join("b"), &local, each, 2);
    resumed += killed(here, &both.nfs_url("c"), &local, &data.join("c"), each, 3);
    resumed +=
        killed(&both.nfs_url("d"), &both.smb_url("e"), &data.join("d"), &data.join("e"), each, 4);
    println!("{} kills; the last runs reused {resumed} bytes and files", each * 4);
}
