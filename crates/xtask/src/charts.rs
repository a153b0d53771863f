//! The charts of BENCHMARKS.md, drawn from the tables in `benchmarks/`.

use crate::bench::BarChart;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::ExitCode;

const FOLDER: &str = "benchmarks";

/// Source of a chart.
struct ChartSource {
    file: &'static str,
    title: &'static str,
    page: &'static str,
    /// First cell of the table's header.
    first_cell: &'static str,
    /// Name of each series and the column that it shows.
    series: &'static [(&'static str, &'static str)],
    /// Column by which every figure is divided: rows of very different size share a chart.
    divisor: Option<&'static str>,
}

const SOURCES: [ChartSource; 4] = [
    ChartSource {
        file: "smb-cpu-ratio.svg",
        title: "Server CPU time of an SMB operation: Samba's, times Anabranch's",
        page: "smb.md",
        first_cell: "load",
        series: &[("Samba : Anabranch", "Samba µs/op")],
        divisor: Some("ours µs/op"),
    },
    ChartSource {
        file: "own-loader.svg",
        title: "SMB operations in a second, times Samba's",
        page: "smb.md",
        first_cell: "own loader",
        series: &[("Anabranch", "ratio")],
        divisor: None,
    },
    ChartSource {
        file: "links.svg",
        title: "Four links of 400 Mbit/s, MiB/s",
        page: "links.md",
        first_cell: "load",
        series: &[("4 channels", "ours, 4"), ("1 channel", "ours, 1 channel")],
        divisor: None,
    },
    ChartSource {
        file: "nfs-cpu-ratio.svg",
        title: "Server CPU time of an NFS operation: NFS-Ganesha's, times Anabranch's",
        page: "nfs.md",
        first_cell: "NFS 4.1, one connection, the build that is guided",
        series: &[("NFS-Ganesha : Anabranch", "ratio")],
        divisor: None,
    },
];

/// Arguments of `charts`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Check that the charts are up to date, without writing them
    #[arg(long)]
    check: bool,
}

/// Draws the charts, or checks that they agree with the tables.
///
/// # Errors
/// A table is missing, or a file cannot be read or written.
pub fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let mut breaches = Vec::new();
    if args.check {
        check(root, &mut breaches)?;
    } else {
        for source in &SOURCES {
            std::fs::write(root.join(FOLDER).join(source.file), draw(root, source)?)?;
        }
    }
    breaches.iter().for_each(|breach| eprintln!("{breach}"));
    Ok(if breaches.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Adds a breach for each chart that its table has outgrown.
///
/// # Errors
/// A page cannot be read.
pub fn check(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    for source in &SOURCES {
        let shown = std::fs::read_to_string(root.join(FOLDER).join(source.file));
        if shown.unwrap_or_default() != draw(root, source)? {
            let ChartSource { file, page, .. } = source;
            breaches.push(format!("{FOLDER}/{file} is not what {page} says: cargo xtask charts"));
        }
    }
    Ok(())
}

fn draw(root: &Path, source: &ChartSource) -> Result<String> {
    let page = std::fs::read_to_string(root.join(FOLDER).join(source.page)).context(source.page)?;
    let shown = source.series.iter().map(|(_, column)| *column);
    let columns: Vec<&str> = shown.chain(source.divisor).collect();
    let rows = table(&page, source.first_cell, &columns)
        .with_context(|| format!("{}: no table {:?}", source.page, source.first_cell))?;
    let mut chart = BarChart::new(source.title, source.series.iter().map(|(name, _)| *name));
    for (name, mut figures) in rows {
        let divisor = source.divisor.and_then(|_| figures.pop()).unwrap_or(1.0);
        chart.row(&name, figures.into_iter().map(|figure| figure / divisor));
    }
    Ok(chart.svg())
}

/// The rows of the first table with this first cell and these columns. Of columns with the same
/// name the last one counts: the ratio of CPU times follows that of rates. Rows without a figure in
/// a cell are skipped.
fn table(page: &str, first_cell: &str, columns: &[&str]) -> Option<Vec<(String, Vec<f64>)>> {
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let header = cells(line);
        let at = |column: &&str| header.iter().rposition(|cell| cell == column);
        let places: Option<Vec<usize>> = columns.iter().map(at).collect();
        let Some(places) = places.filter(|_| header.first() == Some(&first_cell)) else { continue };
        let rows = lines.skip(1).take_while(|line| line.starts_with('|')).map(cells);
        let figures = |row: &[&str]| -> Option<Vec<f64>> {
            places.iter().map(|place| row.get(*place).and_then(|cell| figure(cell))).collect()
        };
        let rows = rows.filter_map(|row| Some(((*row.first()?).to_owned(), figures(&row)?)));
        return Some(rows.collect());
    }
    None
}

fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim().strip_prefix('|').and_then(|rest| rest.strip_suffix('|'));
    inner.map(|inner| inner.split('|').map(str::trim).collect()).unwrap_or_default()
}

fn figure(cell: &str) -> Option<f64> {
    cell.trim_matches('*').split(' ').next()?.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| load | /s |\n|---|---|\n| a | 1 |\n\n| load | theirs | ours | theirs |\n\
                        |---|---|---|---|\n| read | 9 | **1,500** | 2.5 (3) |\n| write | 9 | - | 4 |\n\n\
                        Text\n";

    #[test]
    fn table_is_found_by_columns_without_rows_that_lack_figures() {
        let rows = table(PAGE, "load", &["ours", "theirs"]);
        assert_eq!(rows, Some(vec![("read".to_owned(), vec![1500.0, 2.5])]));
        assert_eq!(table(PAGE, "load", &["ours", "gone"]), None);
        assert_eq!(table(PAGE, "row", &["ours"]), None);
    }

    #[test]
    fn committed_charts_agree_with_the_tables() {
        let mut breaches = Vec::new();
        check(&crate::root(), &mut breaches).expect("the pages are there");
        assert_eq!(breaches, [""; 0]);
    }
}
