//! Checks `Cargo.lock` for known vulnerabilities of dependencies, foreign sources and duplicates.
//!
//! The advisories are the RustSec database's facts (public domain, CC0), kept here as data: the
//! check needs no network. `cargo xtask advisories --update DIR` takes them from a checkout.

use anyhow::{Context, Result, bail};
use semver::{Version, VersionReq};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One advisory per line with tab-separated fields; the first line has the date.
const DATA: &str = include_str!("advisories.tsv");
/// Output file of `--update`.
const DATA_PATH: &str = "crates/xtask/src/advisories.tsv";
/// Prefix of the data's first line; the date follows in seconds since 1970.
const DATE: &str = "# RustSec advisory database, newest advisory or change at ";
/// Age after which the data is too old to be relied on.
const STALE_AFTER: Duration = Duration::from_hours(24 * 180);
/// The only permitted source of packages.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Accepted names, each with the reason.
type Reasons<'a> = &'a [(&'a str, &'a str)];

/// Advisories that do not concern this project.
const ACCEPTED: Reasons<'_> = &[];

/// Packages with two versions in the lock file. A third one is refused.
const DUPLICATES: Reasons<'_> = &[
    ("getrandom", NEVER_BUILT),
    (
        "syn",
        "macros of tracing-attributes and enumflags2_derive (of landlock) need 2, those of serde, \
         clap, tokio and thiserror 3; both work in the compiler only",
    ),
    ("windows-sys", NEVER_BUILT),
];

/// Reason that an old version is in `Cargo.lock` but not in the build.
const NEVER_BUILT: &str = "the older one is of ring, which rustls-webpki offers as an option; \
                           aws-lc-rs is used, so that no target builds ring";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Take the advisories from a checkout of the RustSec database
    #[arg(long, value_name = "DIR")]
    update: Option<PathBuf>,
}

/// One advisory.
#[derive(Debug, PartialEq, Eq)]
struct Advisory {
    id: String,
    package: String,
    /// `vulnerability`, `unsound`, `unmaintained` or `notice`.
    kind: String,
    /// Version requirements that unaffected versions meet.
    safe: Vec<String>,
}

impl Advisory {
    /// Whether an affected package is refused; other kinds are only reported.
    fn is_fault(&self) -> bool {
        matches!(self.kind.as_str(), "vulnerability" | "unsound")
    }

    fn concerns(&self, version: &Version) -> Result<bool> {
        for text in &self.safe {
            let safe: VersionReq = text.parse().with_context(|| format!("{}: {text}", self.id))?;
            if safe.matches(version) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn line(&self) -> String {
        [&self.id, &self.package, &self.kind, &self.safe.join(" | ")].map(String::as_str).join("\t")
    }

    fn of_line(line: &str) -> Result<Self> {
        let mut fields = line.split('\t').map(str::to_owned);
        let mut field = || fields.next().with_context(|| format!("a field is missing: {line}"));
        let (id, package, kind, safe) = (field()?, field()?, field()?, field()?);
        let safe = safe.split('|').map(str::trim).filter(|text| !text.is_empty());
        let safe = safe.map(str::to_owned).collect();
        Ok(Self { id, package, kind, safe })
    }
}

#[derive(Debug, Deserialize)]
struct CargoLock {
    package: Vec<Package>,
}

/// A package of `Cargo.lock`.
#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: Version,
    source: Option<String>,
    checksum: Option<String>,
}

/// Faults and remarks of the check.
#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    faults: Vec<String>,
    remarks: Vec<String>,
}

/// Fails if a dependency has a known vulnerability, comes from another source, or occurs in two
/// versions.
pub fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    if let Some(database) = &args.update {
        return update(root, database);
    }
    let (date, advisories) = parse(DATA)?;
    let text = std::fs::read_to_string(root.join("Cargo.lock"))?;
    let lock: CargoLock = toml::from_str(&text).context("Cargo.lock")?;
    let mut findings = judge(&lock.package, &advisories, (ACCEPTED, DUPLICATES))?;
    if SystemTime::now().duration_since(date).unwrap_or_default() > STALE_AFTER {
        let what = "the advisories are older than half a year: cargo xtask advisories --update DIR";
        findings.remarks.push(what.into());
    }
    let (packages, known) = (lock.package.len(), advisories.len());
    findings.remarks.iter().for_each(|text| println!("remark: {text}"));
    findings.faults.iter().for_each(|text| eprintln!("{text}"));
    println!("{packages} packages, {known} advisories, {} faults", findings.faults.len());
    Ok(if findings.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The date of the data, and the data.
fn parse(data: &str) -> Result<(SystemTime, Vec<Advisory>)> {
    let (head, lines) = data.split_once('\n').context("no advisories")?;
    let date = head.strip_prefix(DATE).context("the advisories have no date")?;
    let date = UNIX_EPOCH + Duration::from_secs(date.parse().context("their date")?);
    Ok((date, lines.lines().map(Advisory::of_line).collect::<Result<_>>()?))
}

/// Checks packages against the advisories, with the accepted advisories and duplicates.
fn judge(
    packages: &[Package],
    advisories: &[Advisory],
    (accepted, duplicates): (Reasons<'_>, Reasons<'_>),
) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut versions = BTreeMap::<&str, u32>::new();
    for Package { name, version, source, checksum } in packages {
        *versions.entry(name).or_default() += 1;
        match source.as_deref() {
            None => continue,
            Some(REGISTRY) if checksum.is_some() => {}
            Some(other) => findings.faults.push(format!(
                "{name} {version} comes from {other}, or without a checksum: use crates.io"
            )),
        }
        for advisory in advisories.iter().filter(|advisory| advisory.package == *name) {
            if accepted.iter().any(|(id, _)| *id == advisory.id) || !advisory.concerns(version)? {
                continue;
            }
            let safe = advisory.safe.join(" or ");
            let safe = if safe.is_empty() { "none" } else { &safe };
            let text = format!(
                "{name} {version}: {} ({}); versions without it: {safe}",
                advisory.id, advisory.kind
            );
            match advisory.is_fault() {
                true => findings.faults.push(text),
                false => findings.remarks.push(text),
            }
        }
    }
    for (name, count) in versions {
        let is_accepted = duplicates.iter().any(|(accepted, _)| *accepted == name);
        if count > 1 + u32::from(is_accepted) {
            findings.faults.push(format!("{count} versions of {name}: cargo tree --invert {name}"));
        }
        if count == 1 && is_accepted {
            findings.faults.push(format!("one version of {name}: take it off DUPLICATES"));
        }
    }
    Ok(findings)
}

/// The head of an advisory in the database.
#[derive(Debug, Deserialize)]
struct Document {
    advisory: Head,
    #[serde(default)]
    versions: Versions,
}

#[derive(Debug, Deserialize)]
struct Head {
    id: String,
    package: String,
    informational: Option<String>,
    withdrawn: Option<toml::Value>,
}

#[derive(Debug, Default, Deserialize)]
struct Versions {
    #[serde(default)]
    patched: Vec<String>,
    #[serde(default)]
    unaffected: Vec<String>,
}

/// Parses an advisory of the database: TOML, followed by prose that is not needed. None if it was
/// withdrawn.
fn of_document(text: &str) -> Result<Option<Advisory>> {
    let (_, rest) = text.split_once("```toml").context("no head")?;
    let (head, _) = rest.split_once("```").context("no end of the head")?;
    let Document { advisory, versions } = toml::from_str(head)?;
    let kind = advisory.informational.unwrap_or_else(|| "vulnerability".into());
    let safe = versions.patched.into_iter().chain(versions.unaffected).collect();
    let all = Advisory { id: advisory.id, package: advisory.package, kind, safe };
    Ok(advisory.withdrawn.is_none().then_some(all))
}

fn update(root: &Path, database: &Path) -> Result<ExitCode> {
    let output = std::process::Command::new("git")
        .arg("-C")
        .arg(database)
        .args(["log", "-1", "--format=%ct"])
        .output()?;
    let date = String::from_utf8(output.stdout)?;
    let mut lines = Vec::new();
    let folder = database.join("crates");
    for package in std::fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))? {
        for file in std::fs::read_dir(package?.path())? {
            let path = file?.path();
            let text = std::fs::read_to_string(&path)?;
            let advisory = of_document(&text).with_context(|| format!("{}", path.display()))?;
            lines.extend(advisory.map(|advisory| advisory.line()));
        }
    }
    if lines.is_empty() || date.trim().is_empty() {
        bail!("{} is not a checkout of the RustSec advisory database", database.display());
    }
    lines.sort_unstable();
    let data = format!("{DATE}{}\n{}\n", date.trim(), lines.join("\n"));
    parse(&data)?;
    std::fs::write(root.join(DATA_PATH), data)?;
    println!("{} advisories; build again and run without --update", lines.len());
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: (Reasons<'_>, Reasons<'_>) = (&[], &[]);

    fn package(version: &str) -> Package {
        Package {
            name: "parser".into(),
            version: version.parse().unwrap(),
            source: Some(REGISTRY.into()),
            checksum: Some("00".into()),
        }
    }

    fn advisories(kind: &str) -> Vec<Advisory> {
        let line = format!("RUSTSEC-1-1\tparser\t{kind}\t>= 1.2.4, < 2.0.0 | >=2.1.0 | < 1.0.0");
        vec![Advisory::of_line(&line).unwrap()]
    }

    fn faults(packages: &[Package], kind: &str) -> usize {
        judge(packages, &advisories(kind), NOTHING).unwrap().faults.len()
    }

    #[test]
    fn version_within_the_advisory_is_refused_and_others_pass() {
        for (version, expected) in
            [("1.2.3", 1), ("2.0.9", 1), ("1.2.4", 0), ("2.1.0", 0), ("0.9.9", 0)]
        {
            assert_eq!(faults(&[package(version)], "vulnerability"), expected, "{version}");
        }
        assert_eq!(faults(&[package("1.2.3")], "unsound"), 1);
    }

    #[test]
    fn unmaintained_package_is_a_remark_unless_accepted() {
        let packages = [package("1.2.3")];
        let found = judge(&packages, &advisories("unmaintained"), NOTHING).unwrap();
        assert_eq!((found.faults.len(), found.remarks.len()), (0, 1));
        let accepted: (Reasons<'_>, Reasons<'_>) = (&[("RUSTSEC-1-1", "why")], &[]);
        let found = judge(&packages, &advisories("vulnerability"), accepted).unwrap();
        assert_eq!(found, Findings::default());
    }

    #[test]
    fn package_of_another_source_or_without_checksum_is_refused() {
        let git = Package { source: Some("git+https://example.com/x".into()), ..package("2.1.0") };
        let bare = Package { checksum: None, ..package("2.1.0") };
        let own = Package { source: None, checksum: None, ..package("1.2.3") };
        assert_eq!([git, bare, own].map(|p| faults(&[p], "vulnerability")), [1, 1, 0]);
    }

    #[test]
    fn second_version_of_a_package_needs_a_reason() {
        let packages = [package("2.1.0"), package("2.2.0")];
        assert_eq!(faults(&packages, "vulnerability"), 1);
        let accepted: (Reasons<'_>, Reasons<'_>) = (&[], &[("parser", "why")]);
        assert_eq!(judge(&packages, &[], accepted).unwrap(), Findings::default());
        let third = [package("2.1.0"), package("2.2.0"), package("2.3.0")];
        assert_eq!(judge(&third, &[], accepted).unwrap().faults.len(), 1, "two are accepted");
        let found = judge(&packages[..1], &[], accepted).unwrap();
        assert_eq!(found.faults.len(), 1, "the reason is not needed any more");
    }

    #[test]
    fn data_is_readable_and_every_requirement_parses() {
        let (_, advisories) = parse(DATA).unwrap();
        assert!(advisories.len() > 1000);
        let version = Version::new(1, 0, 0);
        for advisory in &advisories {
            advisory.concerns(&version).unwrap();
            assert_eq!(&Advisory::of_line(&advisory.line()).unwrap(), advisory);
        }
        for (id, _) in ACCEPTED {
            assert!(advisories.iter().any(|advisory| advisory.id == *id), "{id}");
        }
    }

    #[test]
    fn document_of_the_database_gives_its_facts() {
        let head = "```toml\n[advisory]\nid = \"RUSTSEC-1-1\"\npackage = \"parser\"\n";
        let versions = "[versions]\npatched = [\">= 1.2.4, < 2.0.0\", \">=2.1.0\"]\nunaffected = [\"< 1.0.0\"]\n```\n# Title\n";
        let found = of_document(&format!("{head}{versions}")).unwrap();
        assert_eq!(found, advisories("vulnerability").pop());
        let withdrawn = format!("{head}withdrawn = \"2020-01-01\"\n{versions}");
        assert_eq!(of_document(&withdrawn).unwrap(), None);
    }
}
