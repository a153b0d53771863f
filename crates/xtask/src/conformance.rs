//! Runs smbtorture, Samba's test suite, against the server: each test in a process of its own, in
//! parallel lanes with a server each.

use crate::server::{
    self, PASSWORD, PORT, RunningServer, SNAPSHOT, SNAPSHOT_FILE, SNAPSHOT_STREAM,
    SNAPSHOT_STREAM_BYTES, USER, USER2,
};
use crate::tap::{self, TapRecords};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Instant;
use sync::Mutex;

/// Seconds for one test.
const TEST_SECONDS_MAX: u32 = 100;
/// Times a failing test is tried again on an emptied share before it counts:
/// some race with themselves, such as `smb2.notify.basedir`, which sends two
/// requests on two connections and counts on their order. Each is named at the end.
const RETRIES: u32 = 2;
/// Retries of a test that timed out, which takes long.
const HANG_RETRIES: u32 = 1;
/// Suites and tests that cancel requests at once. They need AES-GMAC, which a session with channels
/// does not get: under AES-CMAC, Samba's client cancels a request without an interim response as
/// message 0, which no server can find.
const CANCELS_AT_ONCE: [&str; 2] = ["smb2.notify", "smb2.compound.interim1"];
/// Host part of the first lane's address.
const FIRST_HOST: u8 = 41;
/// Offset from a server's host number to that of its tap.
const BESIDE: u8 = 100;

/// Arguments of `conformance`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Protocol to test; only smb is implemented
    protocol: String,
    /// Run only this suite or test; may be given several times
    #[arg(long)]
    suite: Vec<String>,
    /// Number of servers that run in parallel
    #[arg(long, default_value_t = 4)]
    lanes: u8,
    /// Check all messages of the server, signed by AES-GMAC or encrypted by AES-GCM, for reused
    /// nonces; test outcomes are not judged
    #[arg(long, value_name = "PROTECTION")]
    wiretap: Option<TapProtection>,
    /// Sample: run one test in this many, selected by the seed
    #[arg(long, default_value_t = 1)]
    share: u64,
    /// Seed that selects the tests of the sample
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// File to write outcomes to, one line for each test
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Protection of the messages of a tapped run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TapProtection {
    Signed,
    Sealed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TestOutcome {
    test: String,
    result: String,
    /// Tenths of a second.
    seconds: u128,
    reason: String,
    /// Reason of the retry, if there was one.
    retried: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct ExpectedFailures {
    #[serde(default)]
    expected: Vec<ExpectedFailure>,
}

#[derive(Debug, Deserialize)]
struct ExpectedFailure {
    test: String,
    reason: String,
}

/// Runs the suite and compares the outcomes with the expected failures.
pub fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    if args.protocol != "smb" {
        bail!("no conformance suite for {:?}; the only one is smb", args.protocol);
    }
    let torture = Torture { protection: args.wiretap, ..Torture::find()? };
    let expected = read_expected(root)?;
    let mut tests = select(&torture.list()?, &read_suites(root)?, &args.suite);
    let mut place = args.seed;
    tests.retain(|_| {
        place += 1;
        place.is_multiple_of(args.share.max(1))
    });
    if tests.is_empty() {
        bail!("no test is selected");
    }
    println!("{} tests in {} lanes with {}", tests.len(), args.lanes, torture.version()?);
    let outcomes = run_lanes(&torture, tests, args.lanes)?;
    if args.wiretap.is_some() {
        return report_tap(&torture.heard, outcomes.len());
    }
    if let Some(out) = &args.out {
        std::fs::write(out, tsv(&outcomes))?;
    }
    Ok(report(&outcomes, &expected))
}

/// Command that starts smbtorture.
#[derive(Clone, Debug)]
struct Torture {
    command: Vec<String>,
    protection: Option<TapProtection>,
    heard: Arc<TapRecords>,
}

impl Torture {
    fn new<const N: usize>(command: [&str; N]) -> Self {
        let command = command.map(str::to_owned).into();
        Self { command, protection: None, heard: Arc::default() }
    }

    /// The newest one, from the root of `conformance/torture-root`, else the system's.
    fn find() -> Result<Self> {
        let cache = std::env::var("ANABRANCH_CACHE").map(PathBuf::from).or_else(|_| {
            std::env::var("HOME").map(|home| PathBuf::from(home).join(".cache/anabranch"))
        })?;
        let root = cache.join("forky");
        if root.join("usr/bin/smbtorture").exists() {
            let root = root.display().to_string();
            return Ok(Self::new(["chroot", &root, "/usr/bin/smbtorture"]));
        }
        eprintln!(
            "the newest smbtorture is not there (run conformance/torture-root); using the system's"
        );
        Ok(Self::new(["smbtorture"]))
    }

    fn start(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command
    }

    fn version(&self) -> Result<String> {
        let output = self
            .start()
            .arg("--version")
            .output()
            .context("cannot run smbtorture; run: apt-get install samba-testsuite")?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
    }

    /// All tests of SMB 2 and later, by the names that run one test each.
    fn list(&self) -> Result<Vec<String>> {
        let output = self
            .start()
            .arg("--list")
            .output()
            .context("cannot run smbtorture; run: apt-get install samba-testsuite")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut names: Vec<String> = text
            .lines()
            .map(str::trim)
            .filter(|l| l.starts_with("smb2.") || l.starts_with("vfs."))
            .map(undouble)
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn run_one(&self, test: &str, address: &str) -> Result<(String, String)> {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", &TEST_SECONDS_MAX.to_string()]).args(&self.command);
        let share = if test.starts_with("smb2.create_no_streams") { "nostreams" } else { "plain" };
        command.args(["--fullname", &format!("//{address}/{share}"), "-p", &PORT.to_string()]);
        command.args(["-U", &format!("{USER}%{PASSWORD}")]);
        for option in [
            "clientminprotocol=SMB2_02".to_owned(),
            "clientmaxprotocol=SMB3_11".to_owned(),
            format!("torture:user2name={USER2}"),
            format!("torture:user2password={PASSWORD}"),
            "torture:user2domain=WORKGROUP".to_owned(),
            format!("torture:twrp_snapshot={SNAPSHOT}"),
            format!("torture:twrp_file={SNAPSHOT_FILE}"),
            format!("torture:twrp_stream={SNAPSHOT_STREAM}"),
            format!("torture:twrp_stream_size={SNAPSHOT_STREAM_BYTES}"),
        ] {
            command.arg(format!("--option={option}"));
        }
        let is_signed = self.protection == Some(TapProtection::Signed);
        if is_signed || CANCELS_AT_ONCE.iter().any(|suite| is_within(test, suite)) {
            command.arg("--option=clientsmb3signingalgorithms=AES-128-GMAC");
        }
        match self.protection {
            Some(TapProtection::Signed) => command.arg("--option=clientsigning=required"),
            Some(TapProtection::Sealed) => command.args([
                "--option=clientsmbencrypt=required",
                "--option=clientsmb3encryptionalgorithms=AES-128-GCM",
            ]),
            None => &mut command,
        };
        let output = command.arg(test).output()?;
        if output.status.code() == Some(124) {
            return Ok(("hang".into(), format!("no end within {TEST_SECONDS_MAX} s")));
        }
        Ok(parse(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// `a.b.b` runs as `a.b`.
fn undouble(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((head, last)) if head.ends_with(&format!(".{last}")) => head.to_owned(),
        _ => name.to_owned(),
    }
}

/// The worst outcome in a stream of them, and its first line of reason.
fn parse(text: &str) -> (String, String) {
    let mut result = ("none".to_owned(), "smbtorture said nothing".to_owned());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((word, _)) = line.split_once(": ") else { continue };
        match word {
            "failure" | "error" => {
                let reason = lines.next().unwrap_or_default().trim().replace('\t', " ");
                return (word.to_owned(), reason);
            }
            "success" => result = (word.to_owned(), String::new()),
            "skip" if result.0 != "success" => result = (word.to_owned(), String::new()),
            _ => {}
        }
    }
    result
}

/// Lines of the list of Samba's suites: names, and names after `-` of tests that are not run.
///
/// # Errors
/// The list cannot be read.
pub fn read_suites(root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join("conformance/smb-suites.txt"))?;
    Ok(text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .map(str::to_owned)
        .collect())
}

/// Samba's tests that are expected to fail.
///
/// # Errors
/// The list cannot be read, or a reason is missing.
pub fn expected_failures(root: &Path) -> Result<HashSet<String>> {
    Ok(read_expected(root)?.into_iter().map(|failure| failure.test).collect())
}

fn read_expected(root: &Path) -> Result<Vec<ExpectedFailure>> {
    let text = std::fs::read_to_string(root.join("conformance/expected-failures.toml"))?;
    let file: ExpectedFailures = toml::from_str(&text)?;
    if let Some(entry) = file.expected.iter().find(|e| e.reason.trim().len() < 10) {
        bail!("{}: the reason must be a sentence", entry.test);
    }
    Ok(file.expected)
}

/// Whether `test` is `suite` or one of its tests.
pub fn is_within(test: &str, suite: &str) -> bool {
    test == suite || test.starts_with(&format!("{suite}."))
}

/// Tests of the chosen suites; a line that begins with `-` excludes tests.
fn select(all: &[String], suites: &[String], wanted: &[String]) -> Vec<String> {
    let chosen = all.iter().filter(|test| {
        let in_list = suites.iter().any(|s| !s.starts_with('-') && is_within(test, s));
        let taken = suites.iter().filter_map(|s| s.strip_prefix('-')).any(|s| is_within(test, s));
        if wanted.is_empty() {
            in_list && !taken
        } else {
            wanted.iter().any(|w| is_within(test, w))
        }
    });
    chosen.cloned().collect()
}

fn run_lanes(torture: &Torture, tests: Vec<String>, lanes: u8) -> Result<Vec<TestOutcome>> {
    let binary = server::binary()?;
    let total = tests.len();
    let queue = Mutex::new(VecDeque::from(tests));
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes)
            .map(|lane| {
                let (queue, done, binary) = (&queue, &done, &binary);
                scope
                    .spawn(move || run_lane(torture, binary, FIRST_HOST + lane, queue, done, total))
            })
            .collect();
        lanes
            .into_iter()
            .try_for_each(|lane| lane.join().map_err(|_| anyhow::anyhow!("a lane panicked"))?)
    })?;
    let mut outcomes = done.into_inner();
    outcomes.sort_by(|a: &TestOutcome, b| a.test.cmp(&b.test));
    Ok(outcomes)
}

fn run_lane(
    torture: &Torture,
    binary: &Path,
    host: u8,
    queue: &Mutex<VecDeque<String>>,
    done: &Mutex<Vec<TestOutcome>>,
    total: usize,
) -> Result<()> {
    let mut server = RunningServer::anabranch(binary, host)?;
    if torture.protection.is_some() {
        let behind = server.address.clone();
        server.address = server::address(host + BESIDE);
        tap::listen((&server.address, PORT), (behind, PORT), &torture.heard)?;
    }
    loop {
        let next = queue.lock().pop_front();
        let Some(test) = next else { return Ok(()) };
        let outcome = run_test(torture, &mut server, test)?;
        let mut done = done.lock();
        done.push(outcome);
        if done.len().is_multiple_of(25) {
            println!("{} of {total}", done.len());
        }
    }
}

/// Runs a test until it passes or has failed often enough.
fn run_test(torture: &Torture, server: &mut RunningServer, test: String) -> Result<TestOutcome> {
    let begin = Instant::now();
    let mut retried = None;
    let mut tries = 0;
    loop {
        server.clean()?;
        if test.starts_with("smb2.twrp") {
            server.keep_snapshot()?;
        }
        let (result, reason) = torture.run_one(&test, &server.address)?;
        if !server.is_alive() {
            bail!("the server died in {test}");
        }
        let retries = match result.as_str() {
            "success" | "skip" => 0,
            // The tap already has the messages of the failed run, and outcomes are not judged.
            _ if torture.protection.is_some() => 0,
            "hang" => HANG_RETRIES,
            _ => RETRIES,
        };
        if tries >= retries {
            let seconds = begin.elapsed().as_millis() / 100;
            return Ok(TestOutcome { test, result, seconds, reason, retried });
        }
        retried = Some(format!("{result}: {reason}"));
        tries += 1;
    }
}

fn tsv(outcomes: &[TestOutcome]) -> String {
    let mut text = "test\toutcome\tseconds\treason\n".to_owned();
    for o in outcomes {
        let _ = writeln!(
            text,
            "{}\t{}\t{}.{}\t{}",
            o.test,
            o.result,
            o.seconds / 10,
            o.seconds % 10,
            o.reason
        );
    }
    text
}

/// Fails on a reused nonce, or if the tap saw no message.
fn report_tap(heard: &TapRecords, tests: usize) -> Result<ExitCode> {
    let (signed, sealed) = heard.counts();
    let breaches = heard.breaches();
    breaches.iter().take(20).for_each(|breach| eprintln!("{breach}"));
    println!(
        "wiretap over {tests} tests: {signed} messages signed by AES-GMAC, {sealed} sealed, \
         {} share a nonce",
        breaches.len()
    );
    if signed + sealed == 0 {
        bail!("the tap recorded no signed or sealed message");
    }
    Ok(if breaches.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the totals by suite; fails on an unexpected outcome.
fn report(outcomes: &[TestOutcome], expected: &[ExpectedFailure]) -> ExitCode {
    let mut suites: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let mut surprises = Vec::new();
    for outcome in outcomes {
        let suite: String = outcome.test.split('.').take(2).collect::<Vec<_>>().join(".");
        let kind = match outcome.result.as_str() {
            "success" => 0,
            "skip" => 2,
            _ => 1,
        };
        suites.entry(suite).or_default()[kind] += 1;
        let listed = expected.iter().any(|e| e.test == outcome.test);
        match (kind, listed) {
            (1, false) => {
                surprises.push(format!("{} {}: {}", outcome.result, outcome.test, outcome.reason))
            }
            (0, true) => surprises
                .push(format!("{} passes: take it off expected-failures.toml", outcome.test)),
            _ => {}
        }
    }
    for outcome in outcomes.iter().filter(|o| o.result == "success") {
        if let Some(why) = &outcome.retried {
            println!("{} passed when tried again after {why}", outcome.test);
        }
    }
    for (suite, [passed, failed, skipped]) in &suites {
        println!("{suite:34} {passed:4} passed {failed:4} failed {skipped:4} skipped");
    }
    surprises.iter().for_each(|s| eprintln!("{s}"));
    let sum = |kind: usize| suites.values().map(|counts| counts[kind]).sum::<usize>();
    println!(
        "smbtorture: {} passed, {} failed (expected: {}), {} skipped",
        sum(0),
        sum(1),
        sum(1) - surprises.len().min(sum(1)),
        sum(2)
    );
    if surprises.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subunit_stream_has_its_worst_outcome() {
        assert_eq!(parse("time: x\ntest: a\nsuccess: a\n").0, "success");
        assert_eq!(parse("skip: a [\nwhy\n]\n").0, "skip");
        let failed = parse("success: a\nfailure: b [\n wrong\tstatus\n]\n");
        assert_eq!(failed, ("failure".into(), "wrong status".into()));
        assert_eq!(parse("").0, "none");
    }

    #[test]
    fn names_are_undoubled_and_selected_by_suite() {
        assert_eq!(undouble("smb2.connect.connect"), "smb2.connect");
        assert_eq!(undouble("smb2.read.eof"), "smb2.read.eof");
        let all = ["smb2.read.eof", "smb2.reads.x", "smb2.session.bind1"].map(str::to_owned);
        let suites = ["smb2.read", "smb2.session", "-smb2.session.bind1"].map(str::to_owned);
        assert_eq!(select(&all, &suites, &[]), ["smb2.read.eof"]);
    }
}
