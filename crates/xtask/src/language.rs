//! Counts how far the code's language is from `docs/dev/language.md`: comment sentences without a
//! subject, names that say nothing, names that stand for several things, files that import each
//! other. `tidy` holds each crate to the ceilings in `language.toml`, which may only sink.

mod names;
mod sentences;
mod structure;

use crate::tidy::rust_files;
pub use names::without_visibility;

use anyhow::{Context, Result, bail};
use names::Type;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Characters of a test's name.
const TEST_NAME_MAX: usize = 60;
/// The ceilings, beside this file.
const CEILINGS: &str = "crates/xtask/src/language.toml";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// List each finding of one crate with its place instead of the table
    #[arg(long, value_name = "CRATE")]
    list: Option<String>,
    /// Lower the ceilings of `tidy` to today's counts; a ceiling is never raised
    #[arg(long)]
    lower: bool,
}

/// One finding: its kind, its place, the text.
#[derive(Debug)]
struct LanguageFinding {
    kind: FindingKind,
    place: String,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FindingKind {
    Opener,
    VagueWord,
    TypeName,
    SharedName,
    TestName,
    Circle,
}

impl FindingKind {
    const ALL: [Self; 6] = [
        Self::Opener,
        Self::VagueWord,
        Self::TypeName,
        Self::SharedName,
        Self::TestName,
        Self::Circle,
    ];

    /// The key in `language.toml`, and the heading of the table.
    const fn key(self) -> &'static str {
        match self {
            Self::Opener => "openers",
            Self::VagueWord => "vague-words",
            Self::TypeName => "type-names",
            Self::SharedName => "shared-names",
            Self::TestName => "test-names",
            Self::Circle => "circles",
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::Opener => "open the sentence with its subject, not with a relative word",
            Self::VagueWord => {
                "say the field's word: notified, receives, reports, replies; delete pending"
            }
            Self::TypeName => "a type is a noun that says its role",
            Self::SharedName => "another type has this name: say which one this is",
            Self::TestName => {
                "a test is subject_condition_outcome, at most 60 characters, without an article"
            }
            Self::Circle => {
                "files that import each other: move the type to the module that owns it, pass the value instead of importing its owner, or put what both share below both"
            }
        }
    }
}

/// The findings of each crate, and its number of comment sentences.
#[derive(Debug, Default)]
struct Census {
    findings: BTreeMap<String, Vec<LanguageFinding>>,
    sentences: BTreeMap<String, usize>,
}

impl Census {
    fn count(&self, name: &str, kind: FindingKind) -> usize {
        self.findings.get(name).map_or(0, |found| found.iter().filter(|f| f.kind == kind).count())
    }

    fn total(&self, kind: FindingKind) -> usize {
        self.findings.keys().map(|name| self.count(name, kind)).sum()
    }
}

/// Prints the table, or one crate's findings, or lowers the ceilings.
///
/// # Errors
/// A file cannot be read, or there is no such crate.
pub fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let rules = rules(root)?;
    let census = take(root, &rules)?;
    if let Some(name) = &args.list {
        let Some(findings) = census.findings.get(name) else { bail!("unknown crate {name}") };
        for finding in findings {
            println!("{}: {}: {}", finding.place, finding.kind.key(), finding.text);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.lower {
        let lowered = lower(&rules, &census);
        std::fs::write(root.join(CEILINGS), lowered)?;
    }
    print!("{}", table(&census));
    print!("\n{}", rooms(root)?);
    Ok(ExitCode::SUCCESS)
}

/// The source files of one crate, for their imports.
fn modules_of(root: &Path, name: &str) -> Result<structure::Modules> {
    let sources = root.join("crates").join(name).join("src");
    let mut modules = structure::Modules::default();
    for file in rust_files(&sources)? {
        let source = std::fs::read_to_string(&file)?;
        modules.add(&file.strip_prefix(&sources)?.to_string_lossy(), &source);
    }
    Ok(modules)
}

/// Import circles and large traits of each crate, and the sizes of the documents at the root.
fn rooms(root: &Path) -> Result<String> {
    let mut text = String::from(
        "| crate | files | in circles of imports | large traits |\n|---|--:|--:|---|\n",
    );
    for (name, _) in crate::tidy::DIRECTION {
        let sources = root.join("crates").join(name).join("src");
        let mut large = Vec::new();
        for file in rust_files(&sources)? {
            let traits = structure::traits(&std::fs::read_to_string(&file)?).into_iter();
            large.extend(traits.filter(|(_, methods)| *methods >= structure::LARGE_TRAIT));
        }
        let mut modules = modules_of(root, name)?;
        let (files, in_circles) = (modules.len(), modules.circles().len());
        let large: Vec<String> = large.iter().map(|(of, n)| format!("`{of}` {n}")).collect();
        let _ = writeln!(text, "| {name} | {files} | {in_circles} | {} |", large.join(", "));
    }
    text += "\n| document | KB |\n|---|--:|\n";
    for document in ["README.md", "SEMANTICS.md", "BENCHMARKS.md", "CHANGELOG.md", "SECURITY.md"] {
        let bytes = std::fs::metadata(root.join(document))?.len();
        let _ = writeln!(text, "| {document} | {} |", bytes.div_ceil(1024));
    }
    Ok(text)
}

/// Adds a breach for each crate and kind whose count is above its ceiling.
///
/// # Errors
/// A file cannot be read.
pub fn check(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let rules = rules(root)?;
    let census = take(root, &rules)?;
    let ceilings = rules.ceilings;
    for (name, findings) in &census.findings {
        for kind in FindingKind::ALL {
            let count = census.count(name, kind);
            let most = ceiling(&ceilings, name, kind);
            if count > most {
                breaches.push(format!(
                    "{name}: {count} {}, at most {most}: {} (cargo xtask language --list {name})",
                    kind.key(),
                    kind.remedy()
                ));
                if most == 0 {
                    let of_kind = findings.iter().filter(|f| f.kind == kind);
                    breaches.extend(of_kind.map(|f| format!("{}: {}", f.place, f.text)));
                }
            }
        }
    }
    Ok(())
}

/// Content of `language.toml`.
#[derive(Debug, serde::Deserialize)]
struct LanguageRules {
    /// The commit after which `tidy` checks the subjects of commits.
    #[serde(rename = "commits-since")]
    commits_since: String,
    /// Words for which the field has better ones, in lower case.
    #[serde(rename = "vague-words")]
    vague_words: Vec<String>,
    #[serde(flatten)]
    ceilings: Ceilings,
}

type Ceilings = BTreeMap<String, BTreeMap<String, usize>>;

/// The commit after which the subjects of commits follow the rules.
///
/// # Errors
/// The file cannot be read.
pub fn commits_since(root: &Path) -> Result<String> {
    Ok(rules(root)?.commits_since)
}

fn rules(root: &Path) -> Result<LanguageRules> {
    let text = std::fs::read_to_string(root.join(CEILINGS)).context(CEILINGS)?;
    Ok(toml::from_str(&text)?)
}

/// A count without an entry has the ceiling 0.
fn ceiling(ceilings: &Ceilings, name: &str, kind: FindingKind) -> usize {
    ceilings.get(name).and_then(|kinds| kinds.get(kind.key())).copied().unwrap_or(0)
}

fn lower(rules: &LanguageRules, census: &Census) -> String {
    let LanguageRules { commits_since, vague_words, ceilings } = rules;
    let mut text = format!(
        "# Ceilings of `cargo xtask tidy`; `cargo xtask language --lower`.\n\n\
         # The subjects of later commits follow rule 8 of docs/dev/language.md.\n\
         commits-since = \"{commits_since}\"\n\n\
         # docs/dev/language.md has a better word for each.\n\
         vague-words = {vague_words:?}\n"
    );
    for name in census.findings.keys() {
        let lowered = FindingKind::ALL
            .map(|kind| (kind, census.count(name, kind).min(ceiling(ceilings, name, kind))));
        if lowered.iter().any(|(_, count)| *count > 0) {
            let _ = writeln!(text, "\n[{name}]");
        }
        for (kind, count) in lowered.into_iter().filter(|(_, count)| *count > 0) {
            let _ = writeln!(text, "{} = {count}", kind.key());
        }
    }
    text
}

fn table(census: &Census) -> String {
    let mut text = String::from("| crate | sentences |");
    text += &FindingKind::ALL.map(|kind| format!(" {} |", kind.key())).concat();
    text += "\n|---|--:|--:|--:|--:|--:|--:|--:|\n";
    for name in census.findings.keys() {
        let _ = write!(text, "| {name} | {} |", census.sentences[name]);
        text += &FindingKind::ALL.map(|kind| format!(" {} |", census.count(name, kind))).concat();
        text.push('\n');
    }
    let sentences: usize = census.sentences.values().sum();
    let _ = write!(text, "| all | {sentences} |");
    text += &FindingKind::ALL.map(|kind| format!(" {} |", census.total(kind))).concat();
    text + "\n"
}

fn take(root: &Path, rules: &LanguageRules) -> Result<Census> {
    let mut census = Census::default();
    let mut types: BTreeMap<String, Vec<(String, Type)>> = BTreeMap::new();
    for (name, _) in crate::tidy::DIRECTION {
        let folder = root.join("crates").join(name);
        let findings = census.findings.entry(name.into()).or_default();
        findings.extend(modules_of(root, name)?.circles().into_iter().map(|found| {
            LanguageFinding {
                kind: FindingKind::Circle,
                place: format!("crates/{name}/src/{}", found.file),
                text: format!("imports {}", found.imports.join(", ")),
            }
        }));
        for file in rust_files(&folder)? {
            let text = std::fs::read_to_string(&file)?;
            let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            *census.sentences.entry(name.into()).or_default() +=
                read(&shown, &text, &rules.vague_words, findings);
            for found in names::types(&text) {
                let place = format!("{shown}:{}", found.line);
                if names::is_vague(&found.name) {
                    let text = found.name.clone();
                    findings.push(LanguageFinding {
                        kind: FindingKind::TypeName,
                        place: place.clone(),
                        text,
                    });
                }
                types
                    .entry(found.name.clone())
                    .or_default()
                    .push((name.to_owned(), found.at(place)));
            }
        }
    }
    for (name, places) in types {
        if places.len() > 1 && !names::may_be_shared(&name) {
            for (of, found) in &places {
                let (place, text) = (found.place.clone(), name.clone());
                let finding = LanguageFinding { kind: FindingKind::SharedName, place, text };
                census.findings.entry(of.clone()).or_default().push(finding);
            }
        }
    }
    Ok(census)
}

/// Adds what one file's comments and tests breach; returns its number of comment sentences.
fn read(
    shown: &str,
    text: &str,
    vague_words: &[String],
    findings: &mut Vec<LanguageFinding>,
) -> usize {
    let mut sentences = 0;
    for sentence in sentences::of(text) {
        sentences += 1;
        if sentences::opens_without_subject(&sentence.text) {
            let place = format!("{shown}:{}", sentence.line);
            findings.push(LanguageFinding {
                kind: FindingKind::Opener,
                place,
                text: sentence.text,
            });
        }
    }
    for (at, line) in text.lines().enumerate() {
        let words = line.split(|c: char| !c.is_ascii_alphanumeric());
        let is_vague =
            |word: &&str| vague_words.iter().any(|vague| word.eq_ignore_ascii_case(vague));
        for _ in words.filter(is_vague) {
            let place = format!("{shown}:{}", at + 1);
            findings.push(LanguageFinding {
                kind: FindingKind::VagueWord,
                place,
                text: line.trim().into(),
            });
        }
    }
    for (line, name) in names::tests(text) {
        if name.len() > TEST_NAME_MAX || names::opens_without_subject(name) {
            let place = format!("{shown}:{line}");
            findings.push(LanguageFinding {
                kind: FindingKind::TestName,
                place,
                text: name.into(),
            });
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_with_each_fault_is_counted_once_a_fault() {
        let name = "a".repeat(61);
        let text = format!(
            "//! The module.\n// Who asks. The client waits.\nstruct Held;\n\
             // A client is said.\n#[test]\nfn {name}() {{}}\n"
        );
        let mut findings = Vec::new();
        assert_eq!(read("x.rs", &text, &["said".into()], &mut findings), 4);
        let kinds: Vec<FindingKind> = findings.iter().map(|f| f.kind).collect();
        assert_eq!(kinds, [FindingKind::Opener, FindingKind::VagueWord, FindingKind::TestName]);
        assert!(findings.iter().all(|f| f.place.starts_with("x.rs:")), "{findings:?}");
    }

    #[test]
    fn ceiling_is_lowered_and_never_raised() {
        let finding = |kind| LanguageFinding { kind, place: String::new(), text: String::new() };
        let mut census = Census::default();
        let of_wire = vec![
            finding(FindingKind::Opener),
            finding(FindingKind::TestName),
            finding(FindingKind::TestName),
        ];
        census.findings.insert("wire".into(), of_wire);
        let before = "commits-since = \"1a2b\"\nvague-words = [\"said\"]\n[wire]\nopeners = 9\ntest-names = 1\n";
        let before: LanguageRules = toml::from_str(before).unwrap();
        let after: LanguageRules = toml::from_str(&lower(&before, &census)).unwrap();
        assert_eq!((after.commits_since, after.vague_words), ("1a2b".into(), vec!["said".into()]));
        let after = after.ceilings;
        assert_eq!(ceiling(&after, "wire", FindingKind::Opener), 1);
        assert_eq!(ceiling(&after, "wire", FindingKind::TestName), 1);
        assert_eq!(ceiling(&after, "wire", FindingKind::VagueWord), 0);
    }
}
