//! The fuzz targets under libFuzzer, guided by coverage.
//!
//! Stable Rust suffices: the pass that counts branches is part of LLVM, and `-Cpasses` is stable.
//! `cargo fuzz` would add AddressSanitizer, which finds nothing in code that forbids `unsafe`.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Seconds that one input may take.
const INPUT_SECONDS_MAX: u32 = 10;
/// Bytes of one input.
const INPUT_BYTES_MAX: u32 = 16 * 1024;
/// Bytes of one input that is kept.
const KEPT_BYTES_MAX: u32 = 1024;
/// Optimised, with all assertions.
const PROFILE: &str = "fuzz";
/// The target triple is named so that build scripts are not instrumented.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Compiler flags that count branches and note comparisons.
const COVERAGE: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
];

/// Options of `cargo xtask fuzz`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run only this target
    target: Option<String>,
    /// Duration in seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Add inputs to the corpus that reach code which no input in it reaches
    #[arg(long)]
    keep: bool,
}

/// Runs each target; fails if one does.
pub fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let names = names(root)?;
    if let Some(wanted) = args.target.as_ref().filter(|wanted| !names.contains(wanted)) {
        bail!("unknown target {wanted}; the targets are {}", names.join(", "));
    }
    let wanted = |name: &&String| args.target.as_ref().is_none_or(|wanted| wanted == *name);
    let guided = build(root)?;
    let mut failed = Vec::new();
    for name in names.iter().filter(wanted) {
        let target = FuzzTarget { root, binary: &guided, name };
        if !target.fuzz(args.seconds)? {
            failed.push(name.as_str());
        } else if args.keep {
            target.keep()?;
        }
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("failed: {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Targets by their corpora; a test checks that every target has one.
fn names(root: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join("crates/fuzz/corpus"))? {
        let path = entry?.path();
        let stem = path.file_stem().filter(|_| path.extension().is_some_and(|e| e == "hex"));
        names.extend(stem.and_then(|s| s.to_str()).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn build(root: &Path) -> Result<PathBuf> {
    let folder = work_folder(root);
    let status = Command::new("cargo")
        .args(["build", "--locked", "--package", "fuzz", "--features", "guided"])
        .args(["--profile", PROFILE, "--target", TRIPLE, "--target-dir"])
        .arg(folder.join("build"))
        .current_dir(root)
        .env("CARGO_ENCODED_RUSTFLAGS", COVERAGE.join("\x1f"))
        .status()?;
    if !status.success() {
        bail!("cannot build the targets; libFuzzer needs a C++ compiler");
    }
    Ok(folder.join("build").join(TRIPLE).join(PROFILE).join("guided"))
}

fn work_folder(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    target.join("fuzz")
}

/// One target under libFuzzer.
struct FuzzTarget<'a> {
    root: &'a Path,
    binary: &'a Path,
    name: &'a str,
}

impl FuzzTarget<'_> {
    /// The corpus in libFuzzer's form, with the inputs of earlier runs.
    fn inputs(&self) -> Result<PathBuf> {
        let folder = work_folder(self.root).join("corpus").join(self.name);
        fs::create_dir_all(&folder)?;
        let kept = fs::read_to_string(self.kept())?;
        for (at, line) in kept.lines().filter_map(input_of).enumerate() {
            fs::write(folder.join(format!("kept-{at}")), line?)?;
        }
        Ok(folder)
    }

    fn kept(&self) -> PathBuf {
        self.root.join("crates/fuzz/corpus").join(format!("{}.hex", self.name))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.binary);
        command.env("ANABRANCH_FUZZ_TARGET", self.name).args([
            format!("-timeout={INPUT_SECONDS_MAX}"),
            format!("-artifact_prefix={}/", work_folder(self.root).display()),
            "-detect_leaks=0".into(),
        ]);
        command
    }

    /// Whether nothing failed.
    fn fuzz(&self, seconds: u32) -> Result<bool> {
        println!("{}", self.name);
        let mut command = self.command();
        command.arg(format!("-max_total_time={seconds}"));
        command.args([&format!("-max_len={INPUT_BYTES_MAX}"), "-print_final_stats=1"]);
        let status = command.arg(self.inputs()?).status()?;
        Ok(status.success())
    }

    /// Writes the smallest set of inputs that reaches all code which any input reached. Titles and
    /// comments at the top of the file stay.
    fn keep(&self) -> Result<()> {
        let smallest = work_folder(self.root).join("smallest").join(self.name);
        if smallest.exists() {
            fs::remove_dir_all(&smallest)?;
        }
        fs::create_dir_all(&smallest)?;
        let mut command = self.command();
        command.args([&format!("-max_len={KEPT_BYTES_MAX}"), "-set_cover_merge=1"]);
        command.arg(&smallest).arg(self.inputs()?);
        if !command.status()?.success() {
            bail!("{} could not be merged", self.name);
        }
        let mut lines = Vec::new();
        for entry in fs::read_dir(&smallest)? {
            lines.push(hexadecimal(&fs::read(entry?.path())?));
        }
        lines.sort_by_key(|line| (line.len(), line.clone()));
        let before = fs::read_to_string(self.kept())?;
        let title: Vec<&str> = before.lines().take_while(|l| l.starts_with('#')).collect();
        fs::write(self.kept(), format!("{}\n{}\n", title.join("\n"), lines.join("\n")))?;
        Ok(())
    }
}

/// The input that a line of a corpus holds, if it holds one.
fn input_of(line: &str) -> Option<Result<Vec<u8>>> {
    let digits: String = line.split('#').next()?.split_whitespace().collect();
    let byte = |at| {
        let pair = digits.get(at..at + 2).context("an odd number of hexadecimal digits")?;
        u8::from_str_radix(pair, 16).with_context(|| format!("{pair} is not hexadecimal"))
    };
    (!digits.is_empty()).then(|| (0..digits.len()).step_by(2).map(byte).collect())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
