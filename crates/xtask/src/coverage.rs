//! Maps each row of the requirements to the test or command that shows it; checks the map and writes
//! it as a page.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

const TABLE: &str = "docs/requirements-coverage.toml";
const PAGE: &str = "docs/requirements-coverage.md";

/// The groups of rows, and the number of rows in each.
const GROUPS: [(&str, usize, &str); 12] = [
    ("G", 15, "Placement and general tuning"),
    ("MC", 24, "SMB Multichannel: function"),
    ("MV", 9, "SMB Multichannel: verify and observe"),
    ("CC", 7, "Number of connections"),
    ("MP", 14, "Multichannel by class of workload"),
    ("MD", 17, "Metadata caching"),
    ("SG", 4, "Signing"),
    ("EN", 8, "Encryption"),
    ("AN", 9, "Measurements and host settings"),
    ("PE", 11, "Copies over a distance, layer by layer"),
    ("NC", 25, "NFS and nconnect"),
    ("RA", 6, "Reading ahead"),
];

/// Arguments of `coverage`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Check that the page is up to date, without writing it
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Deserialize)]
struct CoverageTable {
    row: Vec<CoverageRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CoverageRow {
    id: String,
    title: String,
    #[serde(default)]
    tests: Vec<String>,
    command: Option<String>,
    /// A page of the documentation that states it.
    page: Option<String>,
    missing: Option<String>,
}

/// Writes the page, or checks that it is up to date.
pub fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let text = std::fs::read_to_string(root.join(TABLE)).context(TABLE)?;
    let table: CoverageTable = toml::from_str(&text).context(TABLE)?;
    let mut faults = faults(&table, &crate::tidy::tests(root)?, &commands(root)?);
    let pages = table.row.iter().filter_map(|row| row.page.as_ref());
    let gone = pages.filter(|page| !root.join(page).is_file());
    faults.extend(gone.map(|page| format!("there is no page {page}")));
    faults.iter().for_each(|fault| eprintln!("{TABLE}: {fault}"));
    if !faults.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    let page = page(&table);
    if args.check {
        if std::fs::read_to_string(root.join(PAGE)).unwrap_or_default() != page {
            bail!("{PAGE} is not what {TABLE} says: cargo xtask coverage");
        }
    } else {
        std::fs::write(root.join(PAGE), &page).context(PAGE)?;
    }
    println!("coverage: {}", summary(&table));
    Ok(ExitCode::SUCCESS)
}

/// Commands that a row may name: our subcommands, and targets of make.
fn commands(root: &Path) -> Result<HashSet<String>> {
    let mut known = HashSet::new();
    let main = std::fs::read_to_string(root.join("crates/cli/src/main.rs"))?;
    for line in main.lines().filter_map(|line| line.trim().strip_prefix("CliCommand::")) {
        let name = line.split('(').next().unwrap_or_default().to_lowercase();
        known.insert(format!("anabranch {name}"));
    }
    let makefile = std::fs::read_to_string(root.join("Makefile"))?;
    for line in makefile.lines().filter(|line| !line.starts_with(['\t', '.', '#'])) {
        known.extend(line.split_once(':').map(|(target, _)| format!("make {target}")));
    }
    Ok(known)
}

fn faults(
    table: &CoverageTable,
    tests: &HashSet<String>,
    commands: &HashSet<String>,
) -> Vec<String> {
    let mut faults = Vec::new();
    let numbers = |(group, count, _): &(&str, usize, &str)| {
        let group = (*group).to_owned();
        (1..=*count).map(move |number| format!("{group}-{number:02}"))
    };
    let wanted: Vec<String> = GROUPS.iter().flat_map(numbers).collect();
    let found: Vec<&String> = table.row.iter().map(|row| &row.id).collect();
    if found != wanted.iter().collect::<Vec<_>>() {
        let left_out: Vec<&String> = wanted.iter().filter(|id| !found.contains(id)).collect();
        faults.push(format!("not the {} rows in their order; missing {left_out:?}", wanted.len()));
    }
    for row in &table.row {
        let id = &row.id;
        if row.title.is_empty() {
            faults.push(format!("{id} has no title"));
        }
        let gone = row.tests.iter().filter(|test| !tests.contains(*test));
        faults.extend(gone.map(|test| format!("{id}: there is no test {test}")));
        if !shown(row) && row.missing.is_none() {
            faults.push(format!("{id}: neither a test nor a command, nor what is missing"));
        }
        if let Some(command) = &row.command {
            let first: Vec<&str> = command.split(' ').take(2).collect();
            if !commands.contains(&first.join(" ")) {
                faults.push(format!("{id}: there is no command {command:?}"));
            }
        }
    }
    faults
}

fn shown(row: &CoverageRow) -> bool {
    !row.tests.is_empty() || row.command.is_some() || row.page.is_some()
}

fn summary(table: &CoverageTable) -> String {
    let count = |is: fn(&CoverageRow) -> bool| table.row.iter().filter(|row| is(row)).count();
    let whole = table.row.iter().filter(|row| shown(row) && row.missing.is_none()).count();
    let part = table.row.iter().filter(|row| shown(row) && row.missing.is_some()).count();
    let tested = count(|row| !row.tests.is_empty());
    format!(
        "{} rows: {whole} shown, {part} in part, {} missing; {tested} by tests",
        table.row.len(),
        table.row.len() - whole - part
    )
}

fn page(table: &CoverageTable) -> String {
    let mut out = String::from(
        "# What shows each requirement\n\n\
         Written by `cargo xtask coverage` from `requirements-coverage.toml`; `make check` fails \
         when a test that is named here does not exist.\n\n",
    );
    let _ = writeln!(out, "{}.", summary(table));
    for (group, _, title) in GROUPS {
        let _ = write!(
            out,
            "\n## {group}: {title}\n\n| id | what | shown by | missing |\n|---|---|---|---|\n"
        );
        let of_group =
            |row: &&CoverageRow| row.id.rsplit_once('-').is_some_and(|(of, _)| of == group);
        for row in table.row.iter().filter(of_group) {
            let tests = row.tests.iter().map(|test| format!("`{test}`"));
            let command = row.command.iter().map(|command| format!("`{command}`"));
            let page = row.page.iter().map(|page| {
                let name = page.trim_start_matches("docs/");
                format!("[{name}]({name})")
            });
            let shown: Vec<String> = command.chain(tests).chain(page).collect();
            let missing = row.missing.as_deref().unwrap_or_default();
            let _ =
                writeln!(out, "| {} | {} | {} | {missing} |", row.id, row.title, shown.join(", "));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &str) -> CoverageTable {
        toml::from_str(rows).expect("valid rows")
    }

    #[test]
    fn missing_test_or_command_and_empty_row_are_reported() {
        let rows = "[[row]]\nid = \"G-01\"\ntitle = \"a\"\ntests = [\"cli::gone\", \"cli::here\"]\n\
                    [[row]]\nid = \"G-02\"\ntitle = \"\"\n\
                    [[row]]\nid = \"G-03\"\ntitle = \"c\"\ncommand = \"anabranch gone URL\"\n";
        let tests = HashSet::from(["cli::here".to_owned()]);
        let commands = HashSet::from(["anabranch bench".to_owned()]);
        let text = faults(&table(rows), &tests, &commands).join("\n");
        for part in [
            "not the 149 rows",
            "G-01: there is no test cli::gone",
            "G-02 has no title",
            "G-02: neither a test nor a command",
            "G-03: there is no command",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains("cli::here"), "{text}");
    }

    #[test]
    fn coverage_page_shows_the_evidence_of_each_row() {
        let rows = "[[row]]\nid = \"RA-01\"\ntitle = \"a\"\ncommand = \"anabranch advise URL\"\n\
                    missing = \"b\"\n";
        let page = page(&table(rows));
        assert!(page.contains("| RA-01 | a | `anabranch advise URL` | b |"), "{page}");
        assert!(page.contains("1 rows: 0 shown, 1 in part, 0 missing; 0 by tests"), "{page}");
    }
}
