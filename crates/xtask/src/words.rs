//! Draws comments and help texts by a seed, and lists each beside its text at an earlier revision:
//! a sample of the code's language that nobody has chosen.

mod text;

use crate::tidy::{DIRECTION, rust_files};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use text::{SourceText, TextKind};

/// Characters of a text in the table; longer ones are cut.
const SHOWN_CHARS: usize = 240;
/// Similarity from which a text counts as the earlier form of another; see [`similarity`].
const SIMILAR: f64 = 0.5;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Seed of the draw: the same seed draws the same texts from the same tree
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Revision whose texts stand beside today's, as a commit or tag
    #[arg(long, value_name = "REV")]
    before: String,
    /// Comments drawn from each crate, and help texts from each crate that has a command line
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    each: usize,
}

/// Prints the table as Markdown.
///
/// # Errors
/// A file cannot be read, or git does not know the revision.
pub fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let before = texts_at(root, &args.before)?;
    println!("# Texts drawn by seed {}\n", args.seed);
    println!(
        "`cargo xtask words --seed {} --before {} --each {}`; \"=\" marks an unchanged text.",
        args.seed, args.before, args.each
    );
    for (name, _) in DIRECTION {
        let today = texts_of(root, name)?;
        let earlier = before.get(name).map_or(&[][..], Vec::as_slice);
        for (kind, heading) in [(TextKind::Comment, "comments"), (TextKind::Help, "help texts")] {
            let of_kind: Vec<&SourceText> = today.iter().filter(|t| t.kind == kind).collect();
            let drawn = draw(&of_kind, args.each, args.seed);
            if !drawn.is_empty() {
                print!("\n## {name}, {heading}\n\n{}", table(&drawn, earlier));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The texts of one crate in the working tree, in the order of files and lines.
fn texts_of(root: &Path, name: &str) -> Result<Vec<SourceText>> {
    let folder = root.join("crates").join(name);
    let mut texts = Vec::new();
    for file in rust_files(&folder)? {
        let path = file.strip_prefix(&folder)?.to_string_lossy();
        texts.extend(text::of(&path, &std::fs::read_to_string(&file)?));
    }
    Ok(texts)
}

/// The texts of all crates at a revision, by crate.
fn texts_at(root: &Path, revision: &str) -> Result<BTreeMap<String, Vec<SourceText>>> {
    let mut texts: BTreeMap<String, Vec<SourceText>> = BTreeMap::new();
    let files = git(root, &["ls-tree", "-r", "--name-only", revision, "--", "crates"])?;
    for file in files.lines().filter(|file| file.ends_with(".rs")) {
        let inside = file.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
        let Some((name, path)) = inside else { continue };
        let source = git(root, &["show", &format!("{revision}:{file}")])?;
        texts.entry(name.to_owned()).or_default().extend(text::of(path, &source));
    }
    Ok(texts)
}

fn git(root: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new("git").args(args).current_dir(root).output().context("git")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {}", args.join(" "), error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Draws `number` texts without repetition, and returns them in the order of the source.
fn draw<'a>(texts: &[&'a SourceText], number: usize, seed: u64) -> Vec<&'a SourceText> {
    let mut places: Vec<usize> = (0..texts.len()).collect();
    let number = number.min(texts.len());
    let mut state = seed;
    for at in 0..number {
        let left = (texts.len() - at) as u64;
        places.swap(at, at + (next(&mut state) % left) as usize);
    }
    places.truncate(number);
    places.sort_unstable();
    places.into_iter().map(|at| texts[at]).collect()
}

/// SplitMix64: the draw must be the same on every machine and with every toolchain.
const fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn table(drawn: &[&SourceText], earlier: &[SourceText]) -> String {
    let mut out = String::from("| place | before | now |\n|---|---|---|\n");
    for now in drawn {
        let before = match earlier_form(now, earlier) {
            None => "new".to_owned(),
            Some(before) if before.text == now.text => "=".to_owned(),
            Some(before) => cell(&before.text),
        };
        let _ = writeln!(out, "| {}:{} | {before} | {} |", now.path, now.line, cell(&now.text));
    }
    out
}

/// A text as a cell: cut, and without marks that Markdown or `tidy` would read.
fn cell(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !matches!(c, '`' | '[' | ']')).collect();
    let mut cut: String = plain.chars().take(SHOWN_CHARS).collect();
    if cut.len() < plain.len() {
        cut.push('…');
    }
    cut.replace('|', "\\|").replace('<', "&lt;")
}

/// The most similar text of the same kind, if it is similar enough.
fn earlier_form<'a>(now: &SourceText, earlier: &'a [SourceText]) -> Option<&'a SourceText> {
    let of_kind = earlier.iter().filter(|before| before.kind == now.kind);
    let rated = of_kind.map(|before| (similarity(now, before), before));
    let best = rated.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (best.0 >= SIMILAR).then_some(best.1)
}

/// The part of equal words, plus 0.3 for the same item and 0.2 for a file of the same name: a text
/// that was rewritten in full is found by its place, a moved one by its words.
fn similarity(one: &SourceText, other: &SourceText) -> f64 {
    let file_name = |text: &SourceText| text.path.rsplit('/').next().map(str::to_owned);
    let item = if one.item == other.item { 0.3 } else { 0.0 };
    let file = if file_name(one) == file_name(other) { 0.2 } else { 0.0 };
    equal_words(&one.text, &other.text) + item + file
}

/// Words that both texts have, as a part of all their words (Dice's coefficient).
fn equal_words(one: &str, other: &str) -> f64 {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let (one, mut left) = (words(one), words(other));
    let all = one.len() + left.len();
    let mut equal = 0;
    for word in one {
        if let Some(at) = left.iter().position(|other| *other == word) {
            left.swap_remove(at);
            equal += 1;
        }
    }
    2.0 * f64::from(equal) / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comment(path: &str, item: &str, text: &str) -> SourceText {
        let (path, item, text) = (path.into(), item.into(), text.into());
        SourceText { kind: TextKind::Comment, path, line: 1, item, text }
    }

    #[test]
    fn draw_depends_on_the_seed_alone_and_repeats_nothing() {
        let texts: Vec<SourceText> =
            (0..40).map(|n| comment("src/a.rs", "f", &n.to_string())).collect();
        let all: Vec<&SourceText> = texts.iter().collect();
        let drawn = |seed| draw(&all, 10, seed).iter().map(|t| t.text.clone()).collect::<Vec<_>>();
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
        let mut distinct = drawn(7);
        distinct.dedup();
        assert_eq!(distinct.len(), 10);
        assert_eq!(draw(&all[..3], 10, 7).len(), 3, "a small crate has all its texts drawn");
    }

    #[test]
    fn rewritten_text_is_found_by_place_and_moved_text_by_words() {
        let earlier = [
            comment("src/open.rs", "fn close", "What is left."),
            comment("src/old.rs", "fn break_lease", "Breaks the lease of the holder."),
        ];
        let form = |path: &str, item: &str, text: &str| {
            earlier_form(&comment(path, item, text), &earlier).map(|t| t.text.as_str())
        };
        let rewritten = form("src/open.rs", "fn close", "The remaining opens.");
        assert_eq!(rewritten, Some("What is left."));
        let moved = form("src/new.rs", "fn revoke", "Breaks the lease of a holder.");
        assert_eq!(moved, Some("Breaks the lease of the holder."));
        assert_eq!(form("src/new.rs", "fn other", "Maximum size in bytes."), None);
    }

    #[test]
    fn table_marks_new_and_unchanged_texts_and_escapes_cells() {
        let earlier =
            [comment("src/a.rs", "fn f", "The same."), comment("src/a.rs", "fn g", "Old.")];
        let now = [
            comment("src/a.rs", "fn f", "The same."),
            comment("src/a.rs", "fn g", "New | `text`."),
            comment("src/b.rs", "fn h", "Unheard of."),
        ];
        let table = table(&now.iter().collect::<Vec<_>>(), &earlier);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows[0], "| src/a.rs:1 | = | The same. |");
        assert_eq!(rows[1], "| src/a.rs:1 | Old. | New \\| text. |");
        assert_eq!(rows[2], "| src/b.rs:1 | new | Unheard of. |");
    }
}
